//! Live maps, as `Native` has them.

use jni::objects::{JByteArray, JClass, JObject, JObjectArray, JString};
use jni::sys::{jint, jlong};
use jni::{Env, EnvUnowned};
use qsm::Node;
use qsm_binding::join_map;
use qsm_replica::{MapChange, MapState};

use crate::call::{Failure, call};
use crate::handle::Handle;
use crate::object::Held;

type Map = Handle<Held<MapState>>;

/// Objects of Java: keys and values in turn.
type Pairs<'local> = JObjectArray<'local, JObject<'local>>;

/// Enters the map of a group. Bounds of 0 are the defaults.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_openMap<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    node: Handle<Node>,
    group: JString<'local>,
    bytes: jlong,
    removed: jlong,
) -> jlong {
    call(env, |env| {
        let group = group.try_to_string(env)?;
        let [bytes, removed] = [bytes, removed].map(|bound| usize::try_from(bound).unwrap_or(0));
        let map = join_map(node.get()?, &group, bytes, removed)?;
        Ok::<_, Failure>(Handle::give(Held::new(map)))
    })
}

/// Waits until the map is live.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_awaitLive<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    map: Map,
    nanoseconds: jlong,
) {
    call(env, |_| map.get()?.await_live(nanoseconds));
}

/// Sets the value of a key.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_put<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    map: Map,
    key: JString<'local>,
    value: JByteArray<'local>,
) {
    call(env, |env| {
        let key = key.try_to_string(env)?;
        let value = env.convert_byte_array(&value)?;
        Ok::<_, Failure>(map.get()?.object.set(&key, &value)?)
    });
}

/// Removes a key.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_remove<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    map: Map,
    key: JString<'local>,
) {
    call(env, |env| {
        let key = key.try_to_string(env)?;
        Ok::<_, Failure>(map.get()?.object.remove(&key)?)
    });
}

/// The value of a key; null if it has none.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_get<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    map: Map,
    key: JString<'local>,
) -> JByteArray<'local> {
    call(env, |env| {
        let key = key.try_to_string(env)?;
        match map.get()?.object.get(&key) {
            Some(value) => Ok::<_, Failure>(env.byte_array_from_slice(&value)?),
            None => Ok(JByteArray::null()),
        }
    })
}

/// All keys and their values, in order.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_entries<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    map: Map,
) -> Pairs<'local> {
    call(env, |env| {
        let entry = |(key, value): (&str, &[u8])| MapChange::Set {
            key: key.to_owned(),
            value: value.to_vec(),
        };
        let map = &map.get()?.object;
        let entries: Vec<_> = map.read(|state| state.iter().map(entry).collect());
        pairs(env, &entries)
    })
}

/// Number of entries.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_mapSize<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    map: Map,
) -> jlong {
    call(env, |_| {
        let size = map.get()?.object.read(MapState::len);
        Ok::<_, Failure>(size as jlong)
    })
}

/// Takes what has changed, and waits so long for the first change: keys and values, without a value of what is gone, and
/// without a key where entries went unseen.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_changes<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    map: Map,
    most: jint,
    nanoseconds: jlong,
) -> Pairs<'local> {
    call(env, |env| {
        let taken = map.get()?.take(most, nanoseconds)?;
        pairs(env, &taken)
    })
}

/// Its counters, as an object of JSON.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_mapStats<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    map: Map,
) -> JString<'local> {
    call(env, |env| {
        let stats = map.get()?.stats();
        Ok::<_, Failure>(env.new_string(stats)?)
    })
}

/// Leaves the map.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_freeMap<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    map: Map,
) {
    call(env, |_| {
        map.free();
        Ok::<_, Failure>(())
    });
}

fn pairs<'local>(env: &mut Env<'local>, changes: &[MapChange]) -> Result<Pairs<'local>, Failure> {
    let made = env.new_object_type_array::<JObject<'_>>(2 * changes.len(), JObject::null())?;
    for (place, change) in changes.iter().enumerate() {
        let (key, value) = match change {
            MapChange::Set { key, value } => (Some(key), Some(value)),
            MapChange::Removed { key } => (Some(key), None),
            // One that this version does not know may be anything.
            _ => (None, None),
        };
        if let Some(key) = key {
            let key = env.new_string(key)?;
            made.set_element(env, 2 * place, &key)?;
            env.delete_local_ref(key);
        }
        if let Some(value) = value {
            let value = env.byte_array_from_slice(value)?;
            made.set_element(env, 2 * place + 1, &value)?;
            env.delete_local_ref(value);
        }
    }
    Ok(made)
}
