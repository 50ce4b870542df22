//! Live maps: keys and values that several programs have alike.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use qsm_binding::join_map;
use qsm_replica::{MapChange, MapState};

use crate::error::{Code, Failure, Own};
use crate::guard::{at, at_mut, bytes, call, free, give};
use crate::node::QsmNode;
use crate::object::Held;
use crate::text;

/// A live map.
#[derive(Debug)]
pub struct QsmMap(Held<MapState>);

/// Bounds of a map. Those of the program that founds it hold for all. Zeros are the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct QsmMapBounds {
    /// Most bytes of keys and values, beyond which nobody may add to it; 0 for the default, 64 MiB.
    pub bytes: usize,
    /// Most keys that were removed and are remembered; 0 for the default, 65,536.
    pub removed: usize,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum EntryKind {
    /// The key has this value.
    Set = 1,
    /// The key is gone.
    Removed = 2,
    /// Entries went unseen: those that follow are all there are.
    Restart = 3,
    /// Something that this version of the interface has no name for.
    Other = 4,
}

/// An entry of a map, or a change of one. Its pointers last until its batch is released.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct QsmEntry {
    /// The kind.
    pub kind: EntryKind,
    /// Length of the key, bytes.
    pub key_length: u32,
    /// The key, UTF-8, without a nul at its end; null where there is none.
    pub key: *const c_char,
    /// The value; null where there is none.
    pub value: *const u8,
    /// Its length, bytes.
    pub length: usize,
}

/// Entries lent to the program until [`qsm_entries_release`].
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct QsmEntries {
    /// The entries, in order.
    pub entries: *const QsmEntry,
    /// Their number.
    pub count: usize,
    /// The library's.
    pub owner: *mut QsmEntryLoan,
}

/// Memory that entries point to.
#[derive(Debug)]
pub struct QsmEntryLoan {
    entries: Vec<QsmEntry>,
    /// Owns what the entries point to.
    _taken: Vec<MapChange>,
}

/// Enters the map of a group. It returns before the state is here: [`qsm_map_wait_live`]. A node has one map of a group at
/// most. Without bounds (null) they are the defaults.
///
/// # Safety
/// `node` is of this library; `group` is a text; `bounds` is null or to be read; `map` may be
/// written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_map_open(
    node: *const QsmNode,
    group: *const c_char,
    bounds: *const QsmMapBounds,
    map: *mut *mut QsmMap,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (node, group, bounds) = unsafe {
            *at_mut(map, "map")? = null_mut();
            let group = text::read(group, "group")?;
            (at(node, "node")?, group, bounds.as_ref())
        };
        let (bytes, removed) = bounds.map_or((0, 0), |bounds| (bounds.bytes, bounds.removed));
        let made = join_map(&node.0, group, bytes, removed)?;
        // SAFETY: as above.
        unsafe { give(map, QsmMap(Held::new(made)), "map") }
    })
}

/// Waits so many milliseconds until the map is live: its state is that of the others, and follows every change. If it is not,
/// the code is `QSM_REPLICA_NOT_LIVE`; another error says that it has ended, and why. Negative: until one or the other, a
/// minute and a half at most. A map that is live may cease to be, while it binds anew.
///
/// # Safety
/// `map` is of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_map_wait_live(map: *const QsmMap, milliseconds: i64) -> Code {
    // SAFETY: the caller promises it.
    call(|| unsafe { at(map, "map") }?.0.wait_live(milliseconds))
}

/// Sets the value of a key: UTF-8, 1024 bytes at most. It is copied, is in this map at once, and in the others when it comes;
/// `qsm_flush` says when it is in all. It waits only where the queue to the node is full. A write that was made just before
/// this map bound anew may be lost, here as well.
///
/// # Safety
/// `map` is of this library; `key` points to `key_length` bytes, and `value` to `length`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_map_put(
    map: *const QsmMap,
    key: *const c_char,
    key_length: usize,
    value: *const c_void,
    length: usize,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (map, key, value) = unsafe {
            let key = read_key(key, key_length)?;
            (at(map, "map")?, key, bytes(value, length, "value")?)
        };
        Ok(map.0.object.set(key, value)?)
    })
}

/// Removes a key, if it is there, as [`qsm_map_put`] sets it.
///
/// # Safety
/// `map` is of this library; `key` points to `key_length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_map_remove(
    map: *const QsmMap,
    key: *const c_char,
    key_length: usize,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (map, key) = unsafe { (at(map, "map")?, read_key(key, key_length)?) };
        Ok(map.0.object.remove(key)?)
    })
}

/// Lends the entry of a key, or nothing if it has none. Of a map that is not live, what it has is old, or incomplete.
///
/// # Safety
/// `map` is of this library; `key` points to `key_length` bytes; `entries` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_map_get(
    map: *const QsmMap,
    key: *const c_char,
    key_length: usize,
    entries: *mut QsmEntries,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (entries, map, key) = unsafe {
            let entries = at_mut(entries, "entries")?;
            *entries = EMPTY;
            (entries, at(map, "map")?, read_key(key, key_length)?)
        };
        if let Some(value) = map.0.object.get(key) {
            let key = key.to_owned();
            *entries = lend(vec![MapChange::Set { key, value }]);
        }
        Ok(())
    })
}

/// Lends a copy of all entries at one moment, in the order of their keys.
///
/// # Safety
/// `map` is of this library; `entries` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_map_snapshot(map: *const QsmMap, entries: *mut QsmEntries) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (map, entries) = unsafe { (at(map, "map")?, at_mut(entries, "entries")?) };
        *entries = EMPTY;
        let entry = |(key, value): (&str, &[u8])| MapChange::Set {
            key: key.to_owned(),
            value: value.to_vec(),
        };
        let copied = map.0.object.read(|state| state.iter().map(entry).collect());
        *entries = lend(copied);
        Ok(())
    })
}

/// Number of entries.
///
/// # Safety
/// `map` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_map_length(map: *const QsmMap) -> u64 {
    // SAFETY: the caller promises it.
    let map = unsafe { map.as_ref() };
    map.map_or(0, |map| map.0.object.read(|state| state.len() as u64))
}

/// Takes what has changed, at most `most` entries: at first those that are there, then what changes, its own writes as well.
/// If there is nothing, waits for the first: so many milliseconds, or for ever if negative; then the batch is empty. Of
/// several changes to a key that were not taken the last one is told, so a program that does not poll costs no memory and
/// delays nobody. An error says that the map has ended.
///
/// # Safety
/// `map` is of this library; `entries` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_map_poll(
    map: *const QsmMap,
    most: usize,
    milliseconds: i64,
    entries: *mut QsmEntries,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (map, entries) = unsafe { (at(map, "map")?, at_mut(entries, "entries")?) };
        *entries = EMPTY;
        *entries = lend(map.0.poll(most, milliseconds)?);
        Ok(())
    })
}

const EMPTY: QsmEntries = QsmEntries {
    entries: null(),
    count: 0,
    owner: null_mut(),
};

fn lend(taken: Vec<MapChange>) -> QsmEntries {
    if taken.is_empty() {
        return EMPTY;
    }
    let loan = Box::new(QsmEntryLoan {
        entries: taken.iter().map(QsmEntry::of).collect(),
        _taken: taken,
    });
    QsmEntries {
        entries: loan.entries.as_ptr(),
        count: loan.entries.len(),
        owner: Box::into_raw(loan),
    }
}

impl QsmEntry {
    fn of(change: &MapChange) -> Self {
        match change {
            MapChange::Set { key, value } => Self {
                value: value.as_ptr(),
                length: value.len(),
                ..Self::at(EntryKind::Set, key)
            },
            MapChange::Removed { key } => Self::at(EntryKind::Removed, key),
            MapChange::Restart => Self::bare(EntryKind::Restart),
            _ => Self::bare(EntryKind::Other),
        }
    }

    fn at(kind: EntryKind, key: &str) -> Self {
        Self {
            // Keys have at most 1024 bytes.
            key_length: key.len() as u32,
            key: key.as_ptr().cast(),
            ..Self::bare(kind)
        }
    }

    fn bare(kind: EntryKind) -> Self {
        Self {
            kind,
            key_length: 0,
            key: null(),
            value: null(),
            length: 0,
        }
    }
}

/// Gives entries back, from any thread; there are none then. Of none, nothing. They outlive their map.
///
/// # Safety
/// `entries` is null, or was filled by this library, and what it lent is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_entries_release(entries: *mut QsmEntries) {
    // SAFETY: the caller promises it.
    if let Some(entries) = unsafe { entries.as_mut() } {
        let owner = entries.owner;
        *entries = EMPTY;
        // SAFETY: as above.
        unsafe { free(owner) };
    }
}

/// A descriptor for `poll` or `epoll`: readable while [`qsm_map_poll`] has something to take, or the end to tell, and now and
/// then without. It is the library's, as that of `qsm_subscription_fd`. -1 if the process has no descriptor left.
///
/// # Safety
/// `map` is of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_map_fd(map: *const QsmMap) -> c_int {
    let mut descriptor = -1;
    call(|| {
        // SAFETY: the caller promises it.
        descriptor = unsafe { at(map, "map") }?.0.descriptor()?;
        Ok(())
    });
    descriptor
}

/// Counters of a map, as one object of JSON; the guide to replicas describes them. Its length in bytes, without the nul;
/// writes as much of it as `size` bytes hold, and a nul.
///
/// # Safety
/// `map` is null or of this library; `place` points to `size` bytes, or `size` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_map_stats(
    map: *const QsmMap,
    place: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the caller promises it.
    let map = unsafe { map.as_ref() };
    let stats = map.map(|map| map.0.stats()).unwrap_or_default();
    // SAFETY: as above.
    unsafe { text::write(&stats, place, size) };
    stats.len()
}

/// Leaves the map, and gives up the handle. Entries that it has lent stay until they are released.
///
/// # Safety
/// `map` is null, or of this library and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_map_close(map: *mut QsmMap) {
    // SAFETY: the caller promises it.
    unsafe { free(map) }
}

/// # Safety
/// `key` is null, or points to `length` bytes.
unsafe fn read_key<'a>(key: *const c_char, length: usize) -> Result<&'a str, Failure> {
    // SAFETY: the caller promises it.
    let bytes = unsafe { bytes(key.cast(), length, "key") }?;
    let utf8 = str::from_utf8(bytes);
    utf8.map_err(|_| {
        let shown = bytes.escape_ascii();
        Failure::own(Own::Text, format!("key is not UTF-8: \"{shown}\""))
    })
}
