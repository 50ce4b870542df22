//! Subscriptions, as `Native` has them.

use std::time::Duration;

use jni::EnvUnowned;
use jni::objects::{JByteBuffer, JClass};
use jni::sys::{jint, jlong};
use qsm::{DeliveryMode, GroupOptions, Overflow};

use crate::call::{Failure, Strings, call, limit, read};
use crate::handle::Handle;
use crate::inlet::Inlet;

/// Items that a call takes at most: what does not fit into the buffer waits outside of the queue.
const MOST: usize = 4096;

/// Subscribes to groups, by name or by patterns. Limits of 0 are the defaults; `within`: -1 waits for
/// what is missing, -2 for nothing, in the order of arrival, else so many nanoseconds.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_subscribe<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    node: Handle<qsm::Node>,
    groups: Strings<'local>,
    queue_bytes: jlong,
    queue_messages: jlong,
    overflow: jint,
    within: jlong,
) -> jlong {
    call(env, |env| {
        let groups = read(env, &groups)?;
        let mut options = GroupOptions::default().overflow(match overflow {
            1 => Overflow::DropOldest,
            2 => Overflow::Disconnect,
            3 => Overflow::Hold,
            _ => Overflow::DropNewest,
        });
        options = options.delivery(match (within, u64::try_from(within)) {
            (_, Ok(nanoseconds)) => DeliveryMode::Within(Duration::from_nanos(nanoseconds)),
            (-2, _) => DeliveryMode::Arrival,
            _ => DeliveryMode::Ordered,
        });
        if queue_bytes > 0 {
            options = options.capacity_bytes(queue_bytes as usize);
        }
        if queue_messages > 0 {
            options = options.capacity_messages(queue_messages as usize);
        }
        let made = node.get()?.groups(groups).options(options).subscribe()?;
        Ok(Handle::give(Inlet::new(made)))
    })
}

/// Takes what has come into a direct buffer, from its beginning: [`Inlet::take`].
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_take<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    subscription: Handle<Inlet>,
    buffer: JByteBuffer<'local>,
    most: jint,
    nanoseconds: jlong,
) -> jint {
    call(env, |env| {
        let start = env.get_direct_buffer_address(&buffer)?;
        let length = env.get_direct_buffer_capacity(&buffer)?;
        // SAFETY: Java owns so many bytes there, and lets no other thread near them during the
        // call.
        let buffer = unsafe { std::slice::from_raw_parts_mut(start, length) };
        let most = usize::try_from(most).unwrap_or(0).min(MOST);
        let taken = subscription.get()?.take(buffer, most, limit(nanoseconds))?;
        // A buffer of Java has less than 2 GiB, and so has a message.
        Ok(taken as jint)
    })
}

/// Messages dropped so far because the queue was full.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_dropped<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    subscription: Handle<Inlet>,
) -> jlong {
    call(env, |_| {
        Ok::<_, Failure>(subscription.get()?.subscription().dropped() as jlong)
    })
}

/// Messages that wait in the queue.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_queuedToRead<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    subscription: Handle<Inlet>,
) -> jlong {
    call(env, |_| {
        Ok::<_, Failure>(subscription.get()?.subscription().queued() as jlong)
    })
}

/// Leaves the groups.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_freeSubscription<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    subscription: Handle<Inlet>,
) {
    call(env, |_| {
        subscription.free();
        Ok::<_, Failure>(())
    });
}
