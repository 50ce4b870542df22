//! A map whose entries are those of their last writers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::machine::{RestoreError, StateMachine};
use crate::replica::Replica;
use crate::word::{read, write};

use super::arrivals::{Arrivals, Cursor};
use super::error::LiveError;
use super::open;
use super::stamp::{Clock, Stamp, origin, wall};
use super::uri::Kind;
use super::watched::Watched;

/// The longest key, bytes.
pub const KEY_BYTES_MAX: usize = 1024;

/// In front of a snapshot, so that no other kind of state takes it.
const FORM: &[u8] = b"qsm map 1\n";

/// A map of texts to bytes that several programs have alike, ordered by key.
///
/// Anybody sets and removes entries. Of several writes to a key the last one stays at all replicas, by a clock that
/// agrees with cause and effect ([`Stamp`]). A write is in its own replica at once.
///
/// ```no_run
/// use qsm_replica::LiveMap;
///
/// let map = LiveMap::bind("qsm://floor/prices?type=map")?;
/// map.set("eur", b"1.0842")?;
/// let mut watch = map.watch();
/// while let Some(change) = watch.recv_timeout(std::time::Duration::from_secs(1))? {
///     println!("{change:?}");
/// }
/// # Ok::<(), qsm_replica::LiveError>(())
/// ```
pub type LiveMap = Replica<MapState>;

/// Bounds of a map. Those of the replica that founds it hold for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MapBounds {
    /// Bytes of keys and values, beyond which a replica refuses to write. Writes that are on their way may exceed it.
    /// 64 MiB.
    pub bytes: usize,
    /// Keys that are removed and remembered; beyond, the oldest are forgotten. 65,536.
    pub removed: usize,
}

impl Default for MapBounds {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            removed: 1 << 16,
        }
    }
}

impl MapBounds {
    /// The same for so many bytes of keys and values.
    #[must_use]
    pub fn bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// The same for so many removed keys.
    #[must_use]
    pub fn removed(self, removed: usize) -> Self {
        Self { removed, ..self }
    }
}

/// The state of a [`LiveMap`].
#[derive(Debug, Clone)]
pub struct MapState {
    bounds: MapBounds,
    clock: Clock,
    entries: BTreeMap<Arc<str>, Entry>,
    /// Keys of removed entries, by the time of their removal.
    removed: BTreeSet<(Stamp, Arc<str>)>,
    arrivals: Arrivals<Arc<str>>,
    /// When something vanished here that nobody can be told: who has not seen what was before begins again.
    vanished: u64,
    bytes: usize,
    digest: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    stamp: Stamp,
    /// `None`: removed.
    value: Option<Vec<u8>>,
    /// Of its last change, in the order of arrivals.
    number: u64,
}

/// An update, and an entry of a snapshot.
#[derive(Debug, Serialize, Deserialize)]
struct Write {
    key: String,
    stamp: Stamp,
    #[serde(with = "serde_bytes")]
    value: Option<Vec<u8>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Image {
    bounds: MapBounds,
    entries: Vec<Write>,
}

/// A change of a map, as those see it who watch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapChange {
    /// An entry has this value.
    Set {
        /// Its key.
        key: String,
        /// Its value.
        value: Vec<u8>,
    },
    /// An entry is gone.
    Removed {
        /// Its key.
        key: String,
    },
    /// Entries went unseen: those that follow are all there are.
    Restart,
}

impl MapState {
    /// An empty map.
    #[must_use]
    pub fn new(bounds: MapBounds) -> Self {
        Self::of_origin(bounds, origin())
    }

    /// An empty map of a writer with this number, which no other may have.
    #[must_use]
    pub fn of_origin(bounds: MapBounds, origin: u64) -> Self {
        Self {
            bounds,
            clock: Clock::new(origin),
            entries: BTreeMap::new(),
            removed: BTreeSet::new(),
            arrivals: Arrivals::default(),
            vanished: 0,
            bytes: 0,
            digest: 0,
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.entries.get(key)?.value.as_deref()
    }

    /// When and by whom the value of a key was written.
    #[must_use]
    pub fn stamp(&self, key: &str) -> Option<Stamp> {
        let entry = self.entries.get(key)?;
        entry.value.as_ref().map(|_| entry.stamp)
    }

    /// Entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let entries = self.entries.iter();
        entries.filter_map(|(key, entry)| Some((&**key, entry.value.as_deref()?)))
    }

    /// Entries from a key on, in their order.
    pub fn from_key(&self, key: &str) -> impl Iterator<Item = (&str, &[u8])> {
        let range = (Bound::Included(key), Bound::Unbounded);
        let entries = self.entries.range::<str, _>(range);
        entries.filter_map(|(key, entry)| Some((&**key, entry.value.as_deref()?)))
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() - self.removed.len()
    }

    /// Tells whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets an entry at this time of the host's clock, microseconds since 1970, and returns the update to publish.
    ///
    /// # Errors
    /// The key is too long, the map too large, or nobody can write any more.
    pub fn set(&mut self, wall: u64, key: &str, value: &[u8]) -> Result<Vec<u8>, LiveError> {
        let of_key = key.len() + value.len();
        let before = self.get(key).map_or(0, |old| key.len() + old.len());
        let (bytes, bound) = (self.bytes - before + of_key, self.bounds.bytes);
        if bytes > bound && of_key > before {
            return Err(LiveError::Full { bytes, bound });
        }
        self.written(wall, key, Some(value.to_vec()))
    }

    /// Removes an entry, likewise.
    ///
    /// # Errors
    /// The key is too long, or nobody can write any more.
    pub fn remove(&mut self, wall: u64, key: &str) -> Result<Vec<u8>, LiveError> {
        self.written(wall, key, None)
    }

    fn written(
        &mut self,
        wall: u64,
        key: &str,
        value: Option<Vec<u8>>,
    ) -> Result<Vec<u8>, LiveError> {
        let (bytes, bound) = (key.len(), KEY_BYTES_MAX);
        if bytes > bound {
            return Err(LiveError::Key { bytes, bound });
        }
        let stamp = self.clock.next(wall)?;
        let key = key.to_owned();
        let made = Write { key, stamp, value };
        let update = write(&made);
        self.merge(made);
        Ok(update)
    }

    /// The later of two writes to a key stays.
    fn merge(&mut self, made: Write) {
        let Write { key, stamp, value } = made;
        let old = self.entries.get(&*key);
        if old.is_some_and(|old| old.stamp >= stamp) {
            return;
        }
        let key: Arc<str> = key.into();
        self.take_out(&key);
        let number = self.arrivals.add(Arc::clone(&key));
        let entry = Entry {
            stamp,
            value,
            number,
        };
        self.put(key, entry);
        while self.removed.len() > self.bounds.removed {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, key)) = self.removed.first().cloned()
            && let Some(entry) = self.take_out(&key)
        {
            self.vanished = self.vanished.max(entry.number);
        }
    }

    /// Puts an entry where none is.
    fn put(&mut self, key: Arc<str>, entry: Entry) {
        self.digest = self.digest.wrapping_add(hash(&key, &entry));
        match &entry.value {
            Some(value) => self.bytes += key.len() + value.len(),
            None => drop(self.removed.insert((entry.stamp, Arc::clone(&key)))),
        }
        self.entries.insert(key, entry);
    }

    fn take_out(&mut self, key: &Arc<str>) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.arrivals.remove(entry.number);
        self.digest = self.digest.wrapping_sub(hash(key, &entry));
        match &entry.value {
            Some(value) => self.bytes -= key.len() + value.len(),
            None => drop(self.removed.remove(&(entry.stamp, Arc::clone(key)))),
        }
        Some(entry)
    }
}

fn hash(key: &str, entry: &Entry) -> u64 {
    xxh3_64(&write(&(key, entry.stamp, &entry.value)))
}

impl StateMachine for MapState {
    fn apply(&mut self, update: &[u8]) {
        let Some(made) = read::<Write>(update) else {
            return;
        };
        if made.stamp.is_possible() && made.key.len() <= KEY_BYTES_MAX {
            self.clock.see(made.stamp);
            self.merge(made);
        }
    }

    fn snapshot(&self, out: &mut Vec<u8>) {
        let entries = self.entries.iter().map(|(key, entry)| Write {
            key: key.to_string(),
            stamp: entry.stamp,
            value: entry.value.clone(),
        });
        let image = Image {
            bounds: self.bounds,
            entries: entries.collect(),
        };
        out.extend_from_slice(FORM);
        out.extend_from_slice(&write(&image));
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        let body = snapshot.strip_prefix(FORM).ok_or(RestoreError)?;
        let image = read::<Image>(body).ok_or(RestoreError)?;
        let mut new = Self {
            clock: self.clock.clone(),
            arrivals: self.arrivals.emptied(),
            vanished: self.vanished,
            ..Self::of_origin(image.bounds, 0)
        };
        for Write { key, stamp, value } in image.entries {
            let old = self.take_out(&key.as_str().into());
            let same = old.filter(|old| old.stamp == stamp);
            let key: Arc<str> = key.into();
            let number = match same {
                Some(old) => {
                    new.arrivals.keep(old.number, Arc::clone(&key));
                    old.number
                }
                None => new.arrivals.add(Arc::clone(&key)),
            };
            new.clock.see(stamp);
            // A donor that names a key twice is not to upset the counts.
            new.take_out(&key);
            let entry = Entry {
                stamp,
                value,
                number,
            };
            new.put(key, entry);
        }
        if !self.is_empty() {
            new.vanished = new.arrivals.pass();
        }
        *self = new;
        Ok(())
    }

    fn digest(&self) -> Option<u64> {
        Some(self.digest)
    }

    fn size(&self) -> u64 {
        self.bytes as u64
    }
}

impl Watched for MapState {
    type Change = MapChange;

    fn begin(&self) -> Cursor {
        let begun = self.arrivals.last();
        Cursor { at: 0, begun }
    }

    fn change(&self, cursor: &mut Cursor) -> Option<MapChange> {
        if self.vanished > cursor.at.max(cursor.begun) {
            *cursor = self.begin();
            return Some(MapChange::Restart);
        }
        while let Some((number, key)) = self.arrivals.after(cursor.at) {
            cursor.at = number;
            let key = key.to_string();
            let value = self.get(&key).map(<[u8]>::to_vec);
            match value {
                Some(value) => return Some(MapChange::Set { key, value }),
                None if number > cursor.begun => return Some(MapChange::Removed { key }),
                None => {}
            }
        }
        None
    }
}

impl Replica<MapState> {
    /// Starts a node and binds to the map at an address ([`Uri`](crate::Uri)), which takes a second if nobody has it.
    ///
    /// # Errors
    /// The address is none of a map, no node starts, or the state does not come.
    pub fn bind(uri: &str) -> Result<Self, LiveError> {
        open::bind(uri, Kind::Map, MapState::new(MapBounds::default()))
    }

    /// Sets an entry.
    ///
    /// # Errors
    /// The key is too long, the map too large, or the replica not live.
    pub fn set(&self, key: &str, value: &[u8]) -> Result<(), LiveError> {
        self.update_by(|map| map.set(wall(), key, value))
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// The key is too long, or the replica not live.
    pub fn remove(&self, key: &str) -> Result<(), LiveError> {
        self.update_by(|map| map.remove(wall(), key))
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.read(|map| map.get(key).map(<[u8]>::to_vec))
    }

    /// Watches the map: its entries first, then what changes. Of several changes to a key that come before they are
    /// read the last one is seen.
    #[must_use]
    pub fn watch(&self) -> MapWatch<'_> {
        MapWatch {
            map: self,
            cursor: self.read(MapState::begin),
        }
    }
}

/// Changes of a map, as they come.
#[derive(Debug)]
pub struct MapWatch<'a> {
    map: &'a LiveMap,
    cursor: Cursor,
}

impl MapWatch<'_> {
    /// The next change; `None` if there is none in this time.
    ///
    /// # Errors
    /// The replica has ended, and nothing is left.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<MapChange>, LiveError> {
        let cursor = &mut self.cursor;
        Ok(self.map.wait_for(timeout, |map| map.change(cursor))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(origin: u64) -> MapState {
        MapState::of_origin(MapBounds::default(), origin)
    }

    fn changes(map: &MapState, cursor: &mut Cursor) -> Vec<MapChange> {
        std::iter::from_fn(|| map.change(cursor)).collect()
    }

    fn set(key: &str, value: &[u8]) -> MapChange {
        let (key, value) = (key.to_owned(), value.to_vec());
        MapChange::Set { key, value }
    }

    fn removed(key: &str) -> MapChange {
        let key = key.to_owned();
        MapChange::Removed { key }
    }

    fn snapshot(map: &MapState) -> Vec<u8> {
        let mut bytes = Vec::new();
        map.snapshot(&mut bytes);
        bytes
    }

    #[test]
    fn the_last_writer_wins_in_whatever_order_writes_come() {
        let (mut a, mut b) = (map(1), map(2));
        let first = a.set(10, "k", b"first").unwrap();
        let second = b.set(20, "k", b"second").unwrap();
        a.apply(&second);
        b.apply(&first);
        assert_eq!(a.get("k"), Some(&b"second"[..]));
        let (time, origin) = (20, 2);
        assert_eq!(a.stamp("k"), Some(Stamp { time, origin }));
        assert_eq!((a.digest(), a.bytes()), (b.digest(), b.bytes()));
        // b's clock is behind, and yet it removes what it has seen.
        let third = a.set(30, "k", b"third").unwrap();
        b.apply(&third);
        let gone = b.remove(5, "k").unwrap();
        a.apply(&gone);
        a.apply(&third);
        assert_eq!((a.get("k"), a.len(), a.bytes()), (None, 0, 0));
        assert_eq!(a.stamp("k"), None);
        assert_eq!(a.digest(), b.digest());
    }

    #[test]
    fn who_watches_sees_entries_first_and_then_the_last_change_of_each() {
        let mut map = map(1);
        for (time, key) in ["a", "b", "c"].into_iter().enumerate() {
            map.set(time as u64, key, b"1").unwrap();
        }
        map.remove(9, "b").unwrap();
        let mut cursor = map.begin();
        assert_eq!(changes(&map, &mut cursor), [set("a", b"1"), set("c", b"1")]);
        map.set(10, "a", b"2").unwrap();
        map.set(11, "a", b"3").unwrap();
        map.remove(12, "c").unwrap();
        assert_eq!(changes(&map, &mut cursor), [set("a", b"3"), removed("c")]);
        assert_eq!(changes(&map, &mut cursor), []);
    }

    #[test]
    fn a_snapshot_shows_those_who_watch_what_has_changed() {
        let (mut old, mut new) = (map(1), map(2));
        let kept = old.set(1, "kept", b"1").unwrap();
        new.apply(&kept);
        let mut cursor = old.begin();
        changes(&old, &mut cursor);
        new.set(2, "new", b"2").unwrap();
        old.restore(&snapshot(&new)).unwrap();
        assert_eq!(changes(&old, &mut cursor), [set("new", b"2")]);
        assert_eq!((old.digest(), old.len()), (new.digest(), 2));
        // Of what is not even remembered nobody can be told.
        old.set(3, "own", b"3").unwrap();
        old.restore(&snapshot(&new)).unwrap();
        let all = [MapChange::Restart, set("kept", b"1"), set("new", b"2")];
        assert_eq!(changes(&old, &mut cursor), all);
        assert!(old.set(0, "kept", b"4").is_ok(), "after all it has seen");
        assert_eq!(old.get("kept"), Some(&b"4"[..]));
    }

    #[test]
    fn bounds_hold_and_are_those_of_the_founder() {
        let bounds = MapBounds::default().bytes(10).removed(2);
        let mut map = MapState::of_origin(bounds, 1);
        map.set(1, "key", b"1234567").unwrap();
        let full = map.set(2, "k", b"").unwrap_err();
        assert!(matches!(
            full,
            LiveError::Full {
                bytes: 11,
                bound: 10
            }
        ));
        assert!(map.set(3, "key", b"123").is_ok());
        let long = "k".repeat(KEY_BYTES_MAX + 1);
        assert!(matches!(map.remove(4, &long), Err(LiveError::Key { .. })));
        let mut cursor = map.begin();
        changes(&map, &mut cursor);
        for key in ["a", "b", "c", "key"] {
            map.remove(5, key).unwrap();
        }
        assert_eq!((map.removed.len(), map.entries.len()), (2, 2));
        assert_eq!(changes(&map, &mut cursor), [MapChange::Restart]);
        let mut other = MapState::of_origin(MapBounds::default(), 2);
        other.restore(&snapshot(&map)).unwrap();
        assert_eq!((other.bounds, other.digest()), (bounds, map.digest()));
    }

    #[test]
    fn a_value_is_written_as_a_sequence_of_bytes_is() {
        let update = map(1).set(10, "k", b"\x01\xff").unwrap();
        let (time, origin) = (10, 1);
        let stamp = Stamp { time, origin };
        assert_eq!(update, write(&("k", stamp, Some(vec![1_u8, 0xff]))));
    }

    #[test]
    fn nonsense_changes_nothing() {
        let mut map = map(1);
        for update in [&b""[..], b"\xff\xff\xff", b"nonsense that is longer"] {
            map.apply(update);
        }
        let (key, value) = ("k".to_owned(), None);
        let (time, origin) = (u64::MAX, 1);
        let stamp = Stamp { time, origin };
        map.apply(&write(&Write { key, stamp, value }));
        assert_eq!(map.digest(), Some(0));
        for snapshot in [&b""[..], b"qsm log 1\n", b"qsm map 1\n\xff"] {
            assert_eq!(map.restore(snapshot), Err(RestoreError));
        }
    }
}
