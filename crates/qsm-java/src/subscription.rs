//! Subscriptions, as `Native` has them.

use std::time::Duration;

use jni::EnvUnowned;
use jni::objects::{JByteBuffer, JClass, JString};
use jni::sys::{jint, jlong};
use qsm::{DeliveryMode, GroupOptions, Overflow};
use qsm_binding::{Inlet, Reader};
use qsm_history::{Position, Start};

use crate::call::{Failure, Strings, call, limit, read};
use crate::handle::Handle;

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
        let options = queue(queue_bytes, queue_messages, overflow);
        let options = options.delivery(match (within, u64::try_from(within)) {
            (_, Ok(nanoseconds)) => DeliveryMode::Within(Duration::from_nanos(nanoseconds)),
            (-2, _) => DeliveryMode::Arrival,
            _ => DeliveryMode::Ordered,
        });
        let made = node.get()?.groups(groups).options(options).subscribe()?;
        Ok(Handle::give(Inlet::new(made)))
    })
}

fn queue(bytes: jlong, messages: jlong, overflow: jint) -> GroupOptions {
    let mut options = GroupOptions::default().overflow(match overflow {
        1 => Overflow::DropOldest,
        2 => Overflow::Disconnect,
        3 => Overflow::Hold,
        _ => Overflow::DropNewest,
    });
    if bytes > 0 {
        options = options.capacity_bytes(bytes as usize);
    }
    if messages > 0 {
        options = options.capacity_messages(messages as usize);
    }
    options
}

/// Subscribes to groups, by name, with what was sent before: behind a position if it is not null, else the last
/// messages of each sender. Limits of 0 are the defaults.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_subscribePast<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    node: Handle<qsm::Node>,
    groups: Strings<'local>,
    queue_bytes: jlong,
    queue_messages: jlong,
    overflow: jint,
    last: jlong,
    resume: JString<'local>,
    held_bytes: jlong,
) -> jlong {
    call(env, |env| {
        let groups = read(env, &groups)?;
        let options = queue(queue_bytes, queue_messages, overflow);
        let start = match resume.is_null() {
            true => Start::Last(u64::try_from(last).unwrap_or(0)),
            false => Start::Resume(position(&resume.try_to_string(env)?)?),
        };
        let held = usize::try_from(held_bytes).unwrap_or(0);
        let made = Reader::with_past(node.get()?, groups, start, options, held)?;
        Ok::<_, Failure>(Handle::give(Inlet::with_past(made)))
    })
}

fn position(text: &str) -> Result<Position, Failure> {
    text.parse().map_err(|error| Failure::position(&error))
}

/// Throws if a text is no position.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_checkPosition<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    text: JString<'local>,
) {
    call(env, |env| position(&text.try_to_string(env)?).map(drop));
}

/// Position behind what was taken but for so many items, the last ones; null without a past.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_position<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    subscription: Handle<Inlet>,
    unread: jint,
) -> JString<'local> {
    call(env, |env| {
        let unread = usize::try_from(unread).unwrap_or(0);
        match subscription.get()?.position(unread) {
            Some(position) => Ok::<_, Failure>(env.new_string(position.to_string())?),
            None => Ok(JString::null()),
        }
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
