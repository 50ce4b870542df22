//! Events of a node, as `Native` has them.

use jni::EnvUnowned;
use jni::objects::JClass;
use jni::sys::jlong;
use qsm::{Events, Node};
use qsm_binding::event_kind;

use crate::call::{Failure, Strings, call, limit, strings};
use crate::handle::Handle;

/// Begins to read events: those that come from now on.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_events<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    node: Handle<Node>,
) -> jlong {
    call(env, |_| {
        Ok::<_, Failure>(Handle::give(node.get()?.events()))
    })
}

/// The next event, its kind and its text; null if there is none in time.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_nextEvent<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    events: Handle<Events>,
    nanoseconds: jlong,
) -> Strings<'local> {
    call(env, |env| {
        match events.get()?.recv_timeout(limit(nanoseconds))? {
            Some(event) => strings(env, &[event_kind(&event), event.to_string()]),
            None => Ok(Strings::null()),
        }
    })
}

/// Reads no more of them.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_freeEvents<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    events: Handle<Events>,
) {
    call(env, |_| {
        events.free();
        Ok::<_, Failure>(())
    });
}
