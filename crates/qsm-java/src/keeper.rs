//! Keepers of groups' last messages, as `Native` has them.

use std::time::Duration;

use jni::EnvUnowned;
use jni::objects::{JClass, JLongArray};
use jni::sys::jlong;
use qsm::Node;
use qsm_history::{Bounds, Keeper};

use crate::call::{Failure, Strings, call, read};
use crate::handle::Handle;

/// Keeps the last messages of groups, by name, for those who join later. Bounds of 0 are the defaults.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_keep<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    node: Handle<Node>,
    groups: Strings<'local>,
    messages: jlong,
    bytes: jlong,
    age: jlong,
    bytes_per_second: jlong,
) -> jlong {
    call(env, |env| {
        let groups = read(env, &groups)?;
        let bounds = bounds([messages, bytes, age, bytes_per_second]);
        Ok::<_, Failure>(Handle::give(Keeper::start(node.get()?, groups, bounds)?))
    })
}

fn bounds(given: [jlong; 4]) -> Bounds {
    let [messages, bytes, age, rate] = given.map(|given| u64::try_from(given).unwrap_or(0));
    let mut bounds = Bounds::default();
    if messages > 0 {
        bounds = bounds.messages(messages as usize);
    }
    if bytes > 0 {
        bounds = bounds.bytes(bytes as usize);
    }
    if age > 0 {
        bounds = bounds.age(Duration::from_nanos(age));
    }
    if rate > 0 {
        bounds = bounds.bytes_per_second(rate);
    }
    bounds
}

/// Writes to the array what a keeper has: messages, their bytes, senders, messages sent, questions refused. Throws why it
/// keeps no more.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_kept<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    keeper: Handle<Keeper>,
    numbers: JLongArray<'local>,
) {
    call(env, |env| {
        let keeper = keeper.get()?;
        if let Some(end) = keeper.ended() {
            return Err(Failure::from(end));
        }
        let stats = keeper.stats();
        let found = [
            stats.messages,
            stats.bytes,
            stats.senders,
            stats.sent_messages,
            stats.refused,
        ];
        numbers.set_region(env, 0, &found.map(|number| number as jlong))?;
        Ok(())
    });
}

/// Leaves the groups, and forgets what was kept.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_freeKeeper<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    keeper: Handle<Keeper>,
) {
    call(env, |_| {
        keeper.free();
        Ok::<_, Failure>(())
    });
}
