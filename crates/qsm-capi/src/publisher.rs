//! Publishers.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::time::Duration;

use qsm::{PublishOptions, Publisher, SendError};
use qsm_binding::send_within;

use crate::error::{Code, Failure, Outcome};
use crate::guard::{at, at_mut, bytes, call, free, give};
use crate::node::QsmNode;
use crate::text;

/// A publisher to one group.
#[derive(Debug)]
pub struct QsmPublisher(Publisher);

/// How long messages of a publisher may wait for others in their packet. The message that may wait
/// least decides when its packet leaves; a full packet never waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct QsmBatching {
    /// Longest wait, microseconds; 0 for none.
    pub delay_us: u64,
    /// Length from which on a packet does not wait, bytes, its header included; 0 for that of a full
    /// one.
    pub bytes: usize,
}

/// Makes a publisher to a group.
///
/// # Safety
/// `node` is of this library; `group` is a text; `publisher` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_publisher_new(
    node: *const QsmNode,
    group: *const c_char,
    publisher: *mut *mut QsmPublisher,
) -> Code {
    // SAFETY: the caller promises it.
    call(|| unsafe { make(node, group, PublishOptions::default(), publisher) })
}

/// As [`qsm_publisher_new`], with limits to the wait of its messages for others. An attached node
/// refuses them: its engine packs the messages of all processes.
///
/// # Safety
/// As of [`qsm_publisher_new`]; `batching` is to be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_publisher_batching(
    node: *const QsmNode,
    group: *const c_char,
    batching: *const QsmBatching,
    publisher: *mut *mut QsmPublisher,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let batching = unsafe {
            *at_mut(publisher, "publisher")? = null_mut();
            at(batching, "batching")?
        };
        let delay = Duration::from_micros(batching.delay_us);
        let options = PublishOptions::default().batch_delay(delay);
        let options = match batching.bytes {
            0 => options,
            bytes => options.batch_bytes(bytes),
        };
        // SAFETY: as above.
        unsafe { make(node, group, options, publisher) }
    })
}

/// # Safety
/// As of [`qsm_publisher_new`].
unsafe fn make(
    node: *const QsmNode,
    group: *const c_char,
    options: PublishOptions,
    publisher: *mut *mut QsmPublisher,
) -> Result<(), Failure> {
    // SAFETY: the caller promises it.
    let (node, group) = unsafe {
        *at_mut(publisher, "publisher")? = null_mut();
        (at(node, "node")?, text::read(group, "group")?)
    };
    let made = node.0.group(group).publish_options(options).publisher()?;
    // SAFETY: as above.
    unsafe { give(publisher, QsmPublisher(made), "publisher") }
}

/// Waits until the group has so many receivers beside this node, at most so many milliseconds
/// (negative: for ever).
///
/// # Safety
/// `publisher` is of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_wait_for_members(
    publisher: *const QsmPublisher,
    count: u32,
    milliseconds: i64,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let publisher = unsafe { at(publisher, "publisher") }?;
        Ok(publisher
            .0
            .wait_for_members(count, text::limit(milliseconds))?)
    })
}

/// The number of receivers of the group known now, beside this node.
///
/// # Safety
/// `publisher` is of this library; `members` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_members(publisher: *const QsmPublisher, members: *mut u32) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (publisher, members) =
            unsafe { (at(publisher, "publisher")?, at_mut(members, "members")?) };
        *members = publisher.0.members()?;
        Ok(())
    })
}

/// Sends a message, which is copied; waits while the queue is full.
///
/// # Safety
/// `publisher` is of this library; `data` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_send(
    publisher: *const QsmPublisher,
    data: *const c_void,
    length: usize,
) -> Code {
    // SAFETY: the caller promises it.
    call(|| unsafe { send(publisher, data, length, Publisher::send) })
}

/// As [`qsm_send`], if there is room; otherwise its code is 1302.
///
/// # Safety
/// As of [`qsm_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_try_send(
    publisher: *const QsmPublisher,
    data: *const c_void,
    length: usize,
) -> Code {
    // SAFETY: the caller promises it.
    call(|| unsafe { send(publisher, data, length, Publisher::try_send) })
}

/// As [`qsm_send`], and waits so many milliseconds for room at most (negative: for ever); otherwise its
/// code is 1302.
///
/// # Safety
/// As of [`qsm_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_send_within(
    publisher: *const QsmPublisher,
    data: *const c_void,
    length: usize,
    milliseconds: i64,
) -> Code {
    let patience = text::limit(milliseconds);
    let by = |publisher: &Publisher, message: &[u8]| match send_within(publisher, message, patience)
    {
        Ok(true) => Ok(()),
        Ok(false) => Err(SendError::Full),
        Err(error) => Err(error),
    };
    // SAFETY: the caller promises it.
    call(|| unsafe { send(publisher, data, length, by) })
}

/// Messages that wait to be sent.
///
/// # Safety
/// `publisher` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_queued_to_send(publisher: *const QsmPublisher) -> u64 {
    // SAFETY: the caller promises it.
    let publisher = unsafe { publisher.as_ref() };
    publisher.map_or(0, |publisher| publisher.0.queued() as u64)
}

/// # Safety
/// As of [`qsm_send`].
unsafe fn send(
    publisher: *const QsmPublisher,
    data: *const c_void,
    length: usize,
    by: impl FnOnce(&Publisher, &[u8]) -> Outcome<SendError>,
) -> Result<(), Failure> {
    // SAFETY: the caller promises it.
    let (publisher, message) =
        unsafe { (at(publisher, "publisher")?, bytes(data, length, "data")?) };
    Ok(by(&publisher.0, message)?)
}

/// Sends messages one by one, as [`qsm_send`]. `sent`, if not null, says how many of them were taken,
/// also after an error.
///
/// # Safety
/// `publisher` is of this library; `messages` points to `count` vectors, each to bytes of its length;
/// `sent` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_send_batch(
    publisher: *const QsmPublisher,
    messages: *const libc::iovec,
    count: usize,
    sent: *mut usize,
) -> Code {
    let mut taken = 0;
    let code = call(|| {
        // SAFETY: the caller promises it.
        let publisher = unsafe { at(publisher, "publisher") }?;
        if count == 0 {
            return Ok(());
        }
        // SAFETY: as above.
        let first = unsafe { at(messages, "messages") }?;
        // SAFETY: as above.
        for message in unsafe { std::slice::from_raw_parts(first, count) } {
            // SAFETY: as above.
            let message = unsafe { bytes(message.iov_base, message.iov_len, "data") }?;
            publisher.0.send(message)?;
            taken += 1;
        }
        Ok(())
    });
    // SAFETY: as above.
    if let Some(sent) = unsafe { sent.as_mut() } {
        *sent = taken;
    }
    code
}

/// Gives up the handle; what it accepted is sent all the same.
///
/// # Safety
/// `publisher` is null, or of this library and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_publisher_free(publisher: *mut QsmPublisher) {
    // SAFETY: the caller promises it.
    unsafe { free(publisher) }
}
