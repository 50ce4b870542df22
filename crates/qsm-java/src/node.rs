//! Nodes, as `Native` has them.

use jni::EnvUnowned;
use jni::objects::{JClass, JString};
use jni::sys::jlong;
use qsm::{Flushed, Node};
use qsm_binding::{SETTINGS, Settings};

use crate::call::{Failure, Strings, call, limit, read, strings};
use crate::handle::Handle;

/// The library's version.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_version<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
) -> JString<'local> {
    call(env, |env| {
        Ok::<_, Failure>(env.new_string(env!("CARGO_PKG_VERSION"))?)
    })
}

/// All settings: names and meanings in turn.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_settings<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
) -> Strings<'local> {
    call(env, |env| {
        let pairs = SETTINGS
            .iter()
            .flat_map(|setting| [setting.name, setting.meaning]);
        strings(env, &pairs.collect::<Vec<_>>())
    })
}

/// Starts a node with settings: names and texts in turn.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_start<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    given: Strings<'local>,
) -> jlong {
    call(env, |env| {
        let given = read(env, &given)?;
        let mut settings = Settings::default();
        for pair in given.chunks_exact(2) {
            settings.set(&pair[0], &pair[1])?;
        }
        Ok::<_, Failure>(Handle::give(settings.start()?))
    })
}

/// Attaches to the engine at a path.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_attach<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    path: JString<'local>,
) -> jlong {
    call(env, |env| {
        let path = path.try_to_string(env)?;
        Ok::<_, Failure>(Handle::give(Node::attach(path)?))
    })
}

/// The node's number in its cluster, as text.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_nodeId<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    node: Handle<Node>,
) -> JString<'local> {
    call(env, |env| {
        let id = format!("{:x}", node.get()?.id().0);
        Ok::<_, Failure>(env.new_string(id)?)
    })
}

/// Reason of the node's end; null while it runs.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_closed<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    node: Handle<Node>,
) -> JString<'local> {
    call(env, |env| match node.get()?.closed() {
        Some(reason) => Ok::<_, Failure>(env.new_string(reason.to_string())?),
        None => Ok(JString::null()),
    })
}

/// Waits until the node is a member of its cluster.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_awaitAdmitted<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    node: Handle<Node>,
    nanoseconds: jlong,
) {
    call(env, |_| {
        Ok::<_, Failure>(node.get()?.wait_admitted(limit(nanoseconds))?)
    });
}

/// Waits until all live receivers have everything: as [`told`].
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_flush<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    node: Handle<Node>,
    nanoseconds: jlong,
) -> Strings<'local> {
    call(env, |env| {
        let flushed = node.get()?.flush(limit(nanoseconds))?;
        strings(env, &told(&flushed))
    })
}

/// Sends what is left, and ends the node: as [`told`].
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_shutdown<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    node: Handle<Node>,
    nanoseconds: jlong,
) -> Strings<'local> {
    call(env, |env| {
        let flushed = node.get()?.shutdown(limit(nanoseconds))?;
        strings(env, &told(&flushed))
    })
}

/// Texts of it: the number of receivers of whom nothing exact is kept, that of the following lines
/// about receivers that are gone, these lines, and those about receivers that are away.
fn told(flushed: &Flushed) -> Vec<String> {
    let mut told = vec![flushed.more.to_string(), flushed.unserved.len().to_string()];
    told.extend(flushed.unserved.iter().map(ToString::to_string));
    told.extend(flushed.away.iter().map(ToString::to_string));
    told
}

/// Gives up the handle; the node ends with its last one.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_freeNode<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    node: Handle<Node>,
) {
    call(env, |_| {
        node.free();
        Ok::<_, Failure>(())
    });
}
