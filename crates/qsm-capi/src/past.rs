//! Late join: subscriptions with what was sent before, and keepers that have it.

use std::ffi::c_char;
use std::ptr::null_mut;
use std::time::Duration;

use qsm::GroupOptions;
use qsm_binding::{Inlet, Reader};
use qsm_history::{Bounds, Keeper, Position, Start};

use crate::error::{Code, Failure, Own};
use crate::guard::{at, at_mut, call, free, give};
use crate::node::QsmNode;
use crate::subscription::{QsmDelivery, QsmQueue, QsmSubscription, options, read_all};
use crate::text;

/// Place from which messages begin. Zeros are: those that are sent from now on, and a position from
/// the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct QsmPast {
    /// Begin with the last messages of each sender, so many of each, as far as keepers have them.
    pub last: u64,
    /// Go on behind this position, as [`qsm_position`] wrote it; `last` does not count then. Null
    /// for none.
    pub resume: *const c_char,
    /// Most memory of live messages that wait for older ones, bytes, of each group; 0 for the
    /// default, 64 MiB.
    pub held_bytes: usize,
}

/// Bounds of what a keeper keeps of each group, and sends. Zeros are the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct QsmBounds {
    /// Most messages of each sender; 0 for the default, 1,000.
    pub messages: usize,
    /// Most memory of all messages, bytes, with 96 bytes for each; 0 for the default, 64 MiB.
    pub bytes: usize,
    /// Longest time for which a message is kept, milliseconds; 0 for no limit.
    pub age_ms: u64,
    /// Bytes a second that it sends to all that join; 0 for the default, 16 MiB.
    pub bytes_per_second: u64,
}

/// State of a keeper, of all its groups together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct QsmKeeping {
    /// Messages kept now.
    pub messages: u64,
    /// Memory that they take, bytes, with 96 bytes for each.
    pub bytes: u64,
    /// Senders known now.
    pub senders: u64,
    /// Messages sent to subscribers, in all.
    pub sent_messages: u64,
    /// Questions not served, because too many others were, in all.
    pub refused: u64,
}

/// A keeper of some groups' last messages.
#[derive(Debug)]
pub struct QsmKeeper(Keeper);

/// Subscribes to groups, by name, with what was sent before. The queue is that of live messages, as
/// in `qsm_subscribe`, and each sender's messages come in their order.
///
/// # Safety
/// `node` is of this library; `groups` points to `count` texts; `past` is to be read, and its
/// position null or a text; `queue` is null or to be read; `subscription` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_subscribe_past(
    node: *const QsmNode,
    groups: *const *const c_char,
    count: usize,
    past: *const QsmPast,
    queue: *const QsmQueue,
    subscription: *mut *mut QsmSubscription,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (node, names, past, queue) = unsafe {
            *at_mut(subscription, "subscription")? = null_mut();
            let names = read_all(groups, count)?;
            (at(node, "node")?, names, at(past, "past")?, queue.as_ref())
        };
        // SAFETY: as above.
        let start = unsafe { start(past) }?;
        let queue = queue.map_or_else(|| Ok(GroupOptions::default()), ordered)?;
        let made = Reader::with_past(&node.0, names, start, queue, past.held_bytes)?;
        // SAFETY: as above.
        unsafe {
            give(
                subscription,
                QsmSubscription(Inlet::with_past(made)),
                "subscription",
            )
        }
    })
}

/// # Safety
/// The position is null or a text.
unsafe fn start(past: &QsmPast) -> Result<Start, Failure> {
    if past.resume.is_null() {
        return Ok(Start::Last(past.last));
    }
    // SAFETY: the caller promises it.
    Ok(Start::Resume(unsafe { read(past.resume) }?))
}

fn ordered(queue: &QsmQueue) -> Result<GroupOptions, Failure> {
    if queue.delivery != QsmDelivery::Ordered as u32 {
        let text = "messages of the past come in each sender's order; give delivery 0";
        return Err(Failure::own(Own::Setting, text));
    }
    options(queue)
}

/// Position behind all that `qsm_poll` has lent, to go on from in another process:
/// to be asked for when the last batch is worked off. Returns its length in bytes, without the nul;
/// writes as much of it as `size` bytes hold, and a nul. 0 without a past.
///
/// # Safety
/// `subscription` is null or of this library; `place` points to `size` bytes, or `size` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_position(
    subscription: *const QsmSubscription,
    place: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the caller promises it.
    unsafe { qsm_position_before(subscription, 0, place, size) }
}

/// As [`qsm_position`], for who reads by `qsm_fill`: but for so many items of its last call, the last
/// ones.
///
/// # Safety
/// As of [`qsm_position`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_position_before(
    subscription: *const QsmSubscription,
    unread: usize,
    place: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the caller promises it.
    let subscription = unsafe { subscription.as_ref() };
    let position = subscription.and_then(|subscription| subscription.0.position(unread));
    let position = position.map(|position| position.to_string());
    let position = position.unwrap_or_default();
    // SAFETY: as above.
    unsafe { text::write(&position, place, size) };
    position.len()
}

/// Tells whether a text is a position; otherwise its code is 1703.
///
/// # Safety
/// `position` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_check_position(position: *const c_char) -> Code {
    // SAFETY: the caller promises it.
    call(|| unsafe { read(position) }.map(drop))
}

/// # Safety
/// `text` is null or a text.
unsafe fn read(text: *const c_char) -> Result<Position, Failure> {
    // SAFETY: the caller promises it.
    let text = unsafe { text::read(text, "position") }?;
    let position = text.parse::<Position>();
    position.map_err(|error| Failure::own(Own::Setting, format!("no position: {error}")))
}

/// Enters groups, by name, and keeps their last messages for those who join later, until it is given
/// up. Without bounds (null) they are the defaults.
///
/// # Safety
/// `node` is of this library; `groups` points to `count` texts; `bounds` is null or to be read;
/// `keeper` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_keep(
    node: *const QsmNode,
    groups: *const *const c_char,
    count: usize,
    bounds: *const QsmBounds,
    keeper: *mut *mut QsmKeeper,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (node, names, bounds) = unsafe {
            *at_mut(keeper, "keeper")? = null_mut();
            let names = read_all(groups, count)?;
            (at(node, "node")?, names, bounds.as_ref())
        };
        let made = Keeper::start(&node.0, names, within(bounds))?;
        // SAFETY: as above.
        unsafe { give(keeper, QsmKeeper(made), "keeper") }
    })
}

fn within(given: Option<&QsmBounds>) -> Bounds {
    let mut bounds = Bounds::default();
    let Some(given) = given else {
        return bounds;
    };
    if given.messages > 0 {
        bounds = bounds.messages(given.messages);
    }
    if given.bytes > 0 {
        bounds = bounds.bytes(given.bytes);
    }
    if given.age_ms > 0 {
        bounds = bounds.age(Duration::from_millis(given.age_ms));
    }
    if given.bytes_per_second > 0 {
        bounds = bounds.bytes_per_second(given.bytes_per_second);
    }
    bounds
}

/// Tells what a keeper has. An error says that it keeps no more, and why.
///
/// # Safety
/// `keeper` is of this library; `kept` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_kept(keeper: *const QsmKeeper, kept: *mut QsmKeeping) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (keeper, kept) = unsafe { (at(keeper, "keeper")?, at_mut(kept, "kept")?) };
        let stats = keeper.0.stats();
        *kept = QsmKeeping {
            messages: stats.messages,
            bytes: stats.bytes,
            senders: stats.senders,
            sent_messages: stats.sent_messages,
            refused: stats.refused,
        };
        keeper.0.ended().map_or(Ok(()), |end| Err(end.into()))
    })
}

/// Leaves the groups, and forgets what was kept. It waits a tenth of a second at most.
///
/// # Safety
/// `keeper` is null, or of this library and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_keeper_free(keeper: *mut QsmKeeper) {
    // SAFETY: the caller promises it.
    unsafe { free(keeper) }
}
