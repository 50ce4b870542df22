//! Live logs, as `Native` has them.

use jni::objects::{JByteArray, JClass, JObject, JObjectArray, JString};
use jni::sys::{jint, jlong};
use jni::{Env, EnvUnowned};
use qsm::Node;
use qsm_binding::join_log;
use qsm_replica::{LogEvent, LogState, Stamp};

use crate::call::{Failure, call};
use crate::handle::Handle;
use crate::object::Held;

type Log = Handle<Held<LogState>>;

/// Objects of Java: numbers and contents in turn.
type Pairs<'local> = JObjectArray<'local, JObject<'local>>;

/// Enters the log of a group. Bounds of 0 are the defaults.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_openLog<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    node: Handle<Node>,
    group: JString<'local>,
    entries: jlong,
    bytes: jlong,
) -> jlong {
    call(env, |env| {
        let group = group.try_to_string(env)?;
        let [entries, bytes] = [entries, bytes].map(|bound| usize::try_from(bound).unwrap_or(0));
        let log = join_log(node.get()?, &group, entries, bytes)?;
        Ok::<_, Failure>(Handle::give(Held::new(log)))
    })
}

/// Waits until the log is live.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_awaitLogLive<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    log: Log,
    nanoseconds: jlong,
) {
    call(env, |_| log.get()?.await_live(nanoseconds));
}

/// Appends an entry.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_append<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    log: Log,
    content: JByteArray<'local>,
) {
    call(env, |env| {
        let content = env.convert_byte_array(&content)?;
        Ok::<_, Failure>(log.get()?.object.append(&content)?)
    });
}

/// All entries, the oldest first, as [`Java_io_quicksilver_qsm_Native_logEvents`] has them.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_logEntries<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    log: Log,
) -> Pairs<'local> {
    call(env, |env| {
        let entry = |(stamp, content): (Stamp, &[u8])| LogEvent::Entry {
            stamp,
            content: content.to_vec(),
        };
        let log = &log.get()?.object;
        let entries: Vec<_> = log.read(|state| state.iter().map(entry).collect());
        pairs(env, &entries)
    })
}

/// Number of entries.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_logSize<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    log: Log,
) -> jlong {
    call(env, |_| {
        let size = log.get()?.object.read(LogState::len);
        Ok::<_, Failure>(size as jlong)
    })
}

/// Takes what has come, and waits so long for the first entry: arrays of the time, microseconds since 1970, and the writer,
/// and contents; without content an array of how many were missed.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_logEvents<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    log: Log,
    most: jint,
    nanoseconds: jlong,
) -> Pairs<'local> {
    call(env, |env| {
        let taken = log.get()?.take(most, nanoseconds)?;
        pairs(env, &taken)
    })
}

/// Its counters, as an object of JSON.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_logStats<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    log: Log,
) -> JString<'local> {
    call(env, |env| {
        let stats = log.get()?.stats();
        Ok::<_, Failure>(env.new_string(stats)?)
    })
}

/// Leaves the log.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_freeLog<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    log: Log,
) {
    call(env, |_| {
        log.free();
        Ok::<_, Failure>(())
    });
}

fn pairs<'local>(env: &mut Env<'local>, events: &[LogEvent]) -> Result<Pairs<'local>, Failure> {
    let made = env.new_object_type_array::<JObject<'_>>(2 * events.len(), JObject::null())?;
    for (place, event) in events.iter().enumerate() {
        let (numbers, content) = match event {
            LogEvent::Entry { stamp, content } => (
                vec![stamp.time as jlong, stamp.origin as jlong],
                Some(content),
            ),
            LogEvent::Missed { entries } => (vec![*entries as jlong], None),
            // One that this version does not know may be anything.
            _ => (vec![0], None),
        };
        let array = env.new_long_array(numbers.len())?;
        array.set_region(env, 0, &numbers)?;
        made.set_element(env, 2 * place, &array)?;
        env.delete_local_ref(array);
        if let Some(content) = content {
            let content = env.byte_array_from_slice(content)?;
            made.set_element(env, 2 * place + 1, &content)?;
            env.delete_local_ref(content);
        }
    }
    Ok(made)
}
