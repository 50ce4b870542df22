//! Subscriptions, read in batches.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd as _;
use std::ptr::{null, null_mut};
use std::time::Duration;

use qsm::{DeliveryMode, GroupOptions, Overflow};
use qsm_binding::Inlet;
use qsm_history::Item;

use crate::error::{Code, Failure, Own};
use crate::guard::{at, at_mut, call, free, give};
use crate::item::QsmItem;
use crate::node::QsmNode;
use crate::text;

/// A subscription to groups.
#[derive(Debug)]
pub struct QsmSubscription(pub(crate) Inlet);

/// The policy of a full queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum QsmOverflow {
    /// The message that finds no room is dropped.
    DropNewest = 0,
    /// The oldest messages are dropped to make room.
    DropOldest = 1,
    /// The subscription ends.
    Disconnect = 2,
    /// Nothing is dropped: publishers to the groups wait, as their pace says.
    Hold = 3,
}

/// The order in which messages come, and how long they wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum QsmDelivery {
    /// In each sender's order; what is missing is waited for.
    Ordered = 0,
    /// As they arrive.
    Arrival = 1,
    /// In each sender's order, but nothing is waited for longer than `within_us`.
    Within = 2,
}

/// Limits of a subscription's queue, and how messages come to it. Zeros are the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct QsmQueue {
    /// Most memory of messages that wait, bytes; 0 for the default, 64 MiB.
    pub bytes: usize,
    /// Most messages that wait; 0 for no limit.
    pub messages: usize,
    /// One of `QsmOverflow`.
    pub overflow: u32,
    /// One of `QsmDelivery`.
    pub delivery: u32,
    /// With `QSM_DELIVERY_WITHIN`, the longest wait for what is missing, microseconds.
    pub within_us: u64,
}

/// Messages lent to the program until [`qsm_release`].
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct QsmBatch {
    /// The items, in order.
    pub items: *const QsmItem,
    /// Their number; 0 when nothing came in time.
    pub count: usize,
    /// The library's.
    pub owner: *mut QsmLoan,
}

/// What a batch points to.
#[derive(Debug)]
pub struct QsmLoan {
    items: Vec<QsmItem>,
    /// Owns what the items point to.
    _taken: Vec<Item>,
}

/// Subscribes to groups, by name or by patterns such as `prices/*`. Without limits (null) the queue
/// has the defaults.
///
/// # Safety
/// `node` is of this library; `groups` points to `count` texts; `queue` is null or to be read;
/// `subscription` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_subscribe(
    node: *const QsmNode,
    groups: *const *const c_char,
    count: usize,
    queue: *const QsmQueue,
    subscription: *mut *mut QsmSubscription,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (node, names, queue) = unsafe {
            *at_mut(subscription, "subscription")? = null_mut();
            (at(node, "node")?, read_all(groups, count)?, queue.as_ref())
        };
        let options = queue.map_or_else(|| Ok(GroupOptions::default()), options)?;
        let made = node.0.groups(names).options(options).subscribe()?;
        // SAFETY: as above.
        unsafe {
            give(
                subscription,
                QsmSubscription(Inlet::new(made)),
                "subscription",
            )
        }
    })
}

/// # Safety
/// `texts` points to `count` texts.
pub(crate) unsafe fn read_all<'a>(
    texts: *const *const c_char,
    count: usize,
) -> Result<Vec<&'a str>, Failure> {
    if count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the caller promises it.
    let first = unsafe { at(texts, "groups") }?;
    // SAFETY: as above.
    let texts = unsafe { std::slice::from_raw_parts(first, count) };
    // SAFETY: as above.
    texts
        .iter()
        .map(|text| unsafe { text::read(*text, "a group") })
        .collect()
}

pub(crate) fn options(queue: &QsmQueue) -> Result<GroupOptions, Failure> {
    let overflow = match queue.overflow {
        0 => Overflow::DropNewest,
        1 => Overflow::DropOldest,
        2 => Overflow::Disconnect,
        3 => Overflow::Hold,
        other => {
            let text = format!("{other} is no policy of a full queue; give 0 to 3");
            return Err(Failure::own(Own::Setting, text));
        }
    };
    let delivery = match queue.delivery {
        0 => DeliveryMode::Ordered,
        1 => DeliveryMode::Arrival,
        2 => DeliveryMode::Within(Duration::from_micros(queue.within_us)),
        other => {
            let text = format!("{other} is no way in which messages come; give 0, 1 or 2");
            return Err(Failure::own(Own::Setting, text));
        }
    };
    let mut options = GroupOptions::default()
        .overflow(overflow)
        .delivery(delivery);
    if queue.bytes > 0 {
        options = options.capacity_bytes(queue.bytes);
    }
    if queue.messages > 0 {
        options = options.capacity_messages(queue.messages);
    }
    Ok(options)
}

/// Takes what has come, at most `most` items. If there is nothing, waits for the first: so many
/// milliseconds, or for ever if negative; then the batch is empty. A batch that is not empty is to
/// be released. An error says that no more will come.
///
/// # Safety
/// `subscription` is of this library; `batch` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_poll(
    subscription: *const QsmSubscription,
    most: usize,
    milliseconds: i64,
    batch: *mut QsmBatch,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (subscription, batch) =
            unsafe { (at(subscription, "subscription")?, at_mut(batch, "batch")?) };
        *batch = EMPTY;
        let taken = subscription
            .0
            .reader()
            .take(most, text::wait(milliseconds))?;
        if !taken.is_empty() {
            *batch = lend(taken);
        }
        Ok(())
    })
}

const EMPTY: QsmBatch = QsmBatch {
    items: null(),
    count: 0,
    owner: null_mut(),
};

fn lend(taken: Vec<Item>) -> QsmBatch {
    let items = taken.iter().map(QsmItem::of).collect();
    let loan = Box::new(QsmLoan {
        items,
        _taken: taken,
    });
    QsmBatch {
        items: loan.items.as_ptr(),
        count: loan.items.len(),
        owner: Box::into_raw(loan),
    }
}

/// Gives a batch back, from any thread; it is empty then. Of an empty one, nothing.
///
/// # Safety
/// `batch` is null, or was filled by [`qsm_poll`] and its items are not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_release(batch: *mut QsmBatch) {
    // SAFETY: the caller promises it.
    if let Some(batch) = unsafe { batch.as_mut() } {
        let owner = batch.owner;
        *batch = EMPTY;
        // SAFETY: as above.
        unsafe { free(owner) };
    }
}

/// As [`qsm_poll`], with copies: writes what has come to the program's buffer, one frame behind the
/// other, for runtimes that follow no pointers. Bytes written are `used`; if the first frame does not
/// fit, 0, and `needed` is its length. A subscription is read by this call or by [`qsm_poll`], not by
/// both.
///
/// A frame is a multiple of 8 bytes, little-endian: its length (4 bytes), its kind, as
/// `qsm_kind` has it, with the cause above the lowest byte (4; causes: 0 gone, 1 excluded, 2 overdue,
/// 3 expired, 4 no keeper, 5 held), the number of the group's name, -1 without one (4), the length of
/// the content (4), sender, incarnation, number, last (8 each), and the content: a message's bytes, or
/// a sentence of a notice. Kind 0 tells the name of a group, as its content, before the first frame
/// with its number; number 0 begins the list anew. Times are nanoseconds here.
///
/// # Safety
/// `subscription` is of this library; `buffer` points to `size` bytes; `used` and `needed` may be
/// written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_fill(
    subscription: *const QsmSubscription,
    buffer: *mut c_void,
    size: usize,
    most: usize,
    milliseconds: i64,
    used: *mut usize,
    needed: *mut usize,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (subscription, first, used, needed) = unsafe {
            let subscription = at(subscription, "subscription")?;
            let first = at_mut(buffer.cast::<u8>(), "buffer")?;
            let (used, needed) = (at_mut(used, "used")?, at_mut(needed, "needed")?);
            (subscription, first, used, needed)
        };
        // SAFETY: as above.
        let buffer = unsafe { std::slice::from_raw_parts_mut(first, size) };
        let most = most.min(FRAMES_MAX);
        let taken = subscription
            .0
            .take(buffer, most, text::limit(milliseconds))?;
        (*used, *needed) = match usize::try_from(taken) {
            Ok(written) => (written, 0),
            Err(_) => (0, taken.unsigned_abs()),
        };
        Ok(())
    })
}

/// Items that [`qsm_fill`] takes at most at a call: what does not fit waits outside of the queue.
const FRAMES_MAX: usize = 4096;

/// Messages that wait in the queue.
///
/// # Safety
/// `subscription` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_queued_to_read(subscription: *const QsmSubscription) -> u64 {
    // SAFETY: the caller promises it.
    let subscription = unsafe { subscription.as_ref() };
    subscription.map_or(0, |subscription| {
        subscription.0.subscription().queued() as u64
    })
}

/// A descriptor for `poll` or `epoll`: readable while [`qsm_poll`] has something to take, or the end
/// to tell; with a past (`qsm_subscribe_past`) now and then without, so that it is called while
/// keepers are asked. It is the library's: it is not to be read from nor closed, and lasts as long
/// as the subscription. -1 if the process has no descriptor left.
///
/// # Safety
/// `subscription` is of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_subscription_fd(subscription: *const QsmSubscription) -> c_int {
    let mut descriptor = -1;
    call(|| {
        // SAFETY: the caller promises it.
        let subscription = unsafe { at(subscription, "subscription") }?;
        let found = subscription.0.descriptor();
        let found = found.map_err(|error| Failure::descriptor(&error))?;
        descriptor = found.as_raw_fd();
        Ok(())
    });
    descriptor
}

/// Messages dropped so far because the queue was full.
///
/// # Safety
/// `subscription` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_dropped(subscription: *const QsmSubscription) -> u64 {
    // SAFETY: the caller promises it.
    let subscription = unsafe { subscription.as_ref() };
    subscription.map_or(0, |subscription| subscription.0.subscription().dropped())
}

/// Leaves the groups and gives up the handle. Batches that it has lent stay until they are released.
///
/// # Safety
/// `subscription` is null, or of this library and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_subscription_free(subscription: *mut QsmSubscription) {
    // SAFETY: the caller promises it.
    unsafe { free(subscription) }
}
