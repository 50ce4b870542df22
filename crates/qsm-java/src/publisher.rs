//! Publishers, as `Native` has them.

use std::time::Duration;

use jni::EnvUnowned;
use jni::objects::{JByteArray, JByteBuffer, JClass, JString};
use jni::sys::{jboolean, jbyte, jint, jlong};
use qsm::{Node, PublishOptions, Publisher, SendError};
use qsm_binding::send_within;

use crate::call::{Failure, call, limit};
use crate::handle::Handle;

/// Messages of an array up to this length are copied by way of the stack, longer ones are handed
/// over.
const SHORT: usize = 1024;

/// Makes a publisher to a group, whose messages wait so long for others in their packet, or as the
/// node says if that is negative; 0 bytes: until the packet is full.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_publisher<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    node: Handle<Node>,
    group: JString<'local>,
    nanoseconds: jlong,
    bytes: jlong,
) -> jlong {
    call(env, |env| {
        let group = group.try_to_string(env)?;
        let group = node.get()?.group(group);
        let made = group.publish_options(batching(nanoseconds, bytes));
        Ok::<_, Failure>(Handle::give(made.publisher()?))
    })
}

fn batching(nanoseconds: jlong, bytes: jlong) -> PublishOptions {
    let mut options = PublishOptions::default();
    if let Ok(nanoseconds) = u64::try_from(nanoseconds) {
        options = options.batch_delay(Duration::from_nanos(nanoseconds));
    }
    match usize::try_from(bytes) {
        Ok(bytes @ 1..) => options.batch_bytes(bytes),
        _ => options,
    }
}

/// Sends a part of an array; waits so long for room. Tells whether there was.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_sendArray<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    publisher: Handle<Publisher>,
    message: JByteArray<'local>,
    start: jint,
    length: jint,
    nanoseconds: jlong,
) -> jboolean {
    call(env, |env| {
        let publisher = publisher.get()?;
        let length = usize::try_from(length).unwrap_or(0);
        let patience = limit(nanoseconds);
        if length <= SHORT {
            let mut copy = [0; SHORT];
            let copy = &mut copy[..length];
            message.get_region(env, start, signed(copy))?;
            return Ok::<_, Failure>(send_within(publisher, copy, patience)?);
        }
        let mut copy = vec![0; length];
        message.get_region(env, start, signed(&mut copy))?;
        match publisher.try_send_owned(copy) {
            Err(unsent) if unsent.error == SendError::Full => {
                Ok(send_within(publisher, &unsent.message, patience)?)
            }
            Err(unsent) => Err(unsent.error.into()),
            Ok(()) => Ok(true),
        }
    })
}

/// As [`Java_io_quicksilver_qsm_Native_sendArray`], of a direct buffer.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_sendDirect<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    publisher: Handle<Publisher>,
    message: JByteBuffer<'local>,
    start: jint,
    length: jint,
    nanoseconds: jlong,
) -> jboolean {
    call(env, |env| {
        let first = env.get_direct_buffer_address(&message)?;
        let all = env.get_direct_buffer_capacity(&message)?;
        // SAFETY: Java keeps so many bytes there, and its caller does not write to them meanwhile.
        let all = unsafe { std::slice::from_raw_parts(first, all) };
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let part = usize::try_from(length)
            .ok()
            .and_then(|length| all.get(start..)?.get(..length));
        let part = part.ok_or_else(|| Failure::null("that part of the buffer"))?;
        Ok(send_within(publisher.get()?, part, limit(nanoseconds))?)
    })
}

/// Bytes as Java counts them.
fn signed(bytes: &mut [u8]) -> &mut [jbyte] {
    // SAFETY: the same length, and every byte is a number of either kind.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}

/// Waits until the group has so many receivers beside this node.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_awaitMembers<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    publisher: Handle<Publisher>,
    count: jint,
    nanoseconds: jlong,
) {
    call(env, |_| {
        let count = u32::try_from(count).unwrap_or(0);
        Ok::<_, Failure>(
            publisher
                .get()?
                .wait_for_members(count, limit(nanoseconds))?,
        )
    });
}

/// Receivers of the group known now, beside this node.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_members<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    publisher: Handle<Publisher>,
) -> jint {
    call(env, |_| {
        Ok::<_, Failure>(publisher.get()?.members()? as jint)
    })
}

/// Messages that wait to be sent.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_queuedToSend<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    publisher: Handle<Publisher>,
) -> jlong {
    call(
        env,
        |_| Ok::<_, Failure>(publisher.get()?.queued() as jlong),
    )
}

/// Gives up the handle; what it accepted is sent all the same.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_freePublisher<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    publisher: Handle<Publisher>,
) {
    call(env, |_| {
        publisher.free();
        Ok::<_, Failure>(())
    });
}
