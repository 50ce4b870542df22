//! A log that keeps its newest entries.

use std::collections::BTreeMap;
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

/// In front of a snapshot, so that no other kind of state takes it.
const FORM: &[u8] = b"qsm log 1\n";

/// A log that several programs write and have alike: its newest entries, as many as its bounds allow.
///
/// Entries are in the order of a clock that agrees with cause and effect ([`Stamp`]): an entry of a writer who has seen
/// another one is behind that. One that comes late takes its place before later ones.
///
/// ```no_run
/// use qsm_replica::LiveLog;
///
/// let log = LiveLog::bind("qsm://floor/events?type=log")?;
/// log.append(b"opened")?;
/// for entry in log.read(|log| log.iter().map(|(_, entry)| entry.to_vec()).collect::<Vec<_>>()) {
///     println!("{}", String::from_utf8_lossy(&entry));
/// }
/// # Ok::<(), qsm_replica::LiveError>(())
/// ```
pub type LiveLog = Replica<LogState>;

/// Bounds of a log. Those of the replica that founds it hold for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogBounds {
    /// Entries, of which the newest stay. 10,000.
    pub entries: usize,
    /// Bytes of entries, likewise; a longer one is refused. 16 MiB.
    pub bytes: usize,
}

impl Default for LogBounds {
    fn default() -> Self {
        Self {
            entries: 10_000,
            bytes: 16 << 20,
        }
    }
}

impl LogBounds {
    /// The same for so many entries.
    #[must_use]
    pub fn entries(self, entries: usize) -> Self {
        Self { entries, ..self }
    }

    /// The same for so many bytes.
    #[must_use]
    pub fn bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }
}

/// The state of a [`LiveLog`].
#[derive(Debug, Clone)]
pub struct LogState {
    bounds: LogBounds,
    clock: Clock,
    entries: BTreeMap<Stamp, Entry>,
    /// The newest entry that had to go. Nothing up to it comes back, so that all replicas keep the same.
    gone: Stamp,
    arrivals: Arrivals<Stamp>,
    bytes: usize,
    digest: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    content: Vec<u8>,
    /// Of its arrival.
    number: u64,
}

/// An update, and an entry of a snapshot.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    stamp: Stamp,
    #[serde(with = "serde_bytes")]
    content: Vec<u8>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Image {
    bounds: LogBounds,
    gone: Stamp,
    entries: Vec<Line>,
}

/// Change of a log, for who watches it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogEvent {
    /// An entry has come.
    Entry {
        /// When and where it was written.
        stamp: Stamp,
        /// Bytes of the entry.
        content: Vec<u8>,
    },
    /// Entries came and had to go before they were read.
    Missed {
        /// Number of them.
        entries: u64,
    },
}

impl LogState {
    /// An empty log.
    #[must_use]
    pub fn new(bounds: LogBounds) -> Self {
        Self::of_origin(bounds, origin())
    }

    /// An empty log of a writer with this number, which no other may have.
    #[must_use]
    pub fn of_origin(bounds: LogBounds, origin: u64) -> Self {
        Self {
            bounds,
            clock: Clock::new(origin),
            entries: BTreeMap::new(),
            gone: Stamp::default(),
            arrivals: Arrivals::default(),
            bytes: 0,
            digest: 0,
        }
    }

    /// Entries, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Stamp, &[u8])> {
        let entries = self.entries.iter();
        entries.map(|(stamp, entry)| (*stamp, &*entry.content))
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Tells whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of entries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends an entry at this time of the host's clock, microseconds since 1970, and returns the update to publish.
    ///
    /// # Errors
    /// The entry is longer than the log may be, or nobody can write any more.
    pub fn append(&mut self, wall: u64, content: &[u8]) -> Result<Vec<u8>, LiveError> {
        let (bytes, bound) = (content.len(), self.bounds.bytes);
        if bytes > bound {
            return Err(LiveError::Full { bytes, bound });
        }
        let stamp = self.clock.next(wall)?;
        let content = content.to_vec();
        let line = Line { stamp, content };
        let update = write(&line);
        self.merge(line);
        Ok(update)
    }

    fn merge(&mut self, line: Line) {
        let Line { stamp, content } = line;
        if stamp <= self.gone || self.entries.contains_key(&stamp) {
            return;
        }
        let number = self.arrivals.add(stamp);
        self.put(stamp, Entry { content, number });
        while self.entries.len() > self.bounds.entries || self.bytes > self.bounds.bytes {
            let Some((oldest, entry)) = self.entries.pop_first() else {
                return;
            };
            self.gone = oldest;
            self.arrivals.remove(entry.number);
            self.bytes -= entry.content.len();
            self.digest = self.digest.wrapping_sub(hash(oldest, &entry.content));
        }
    }

    fn put(&mut self, stamp: Stamp, entry: Entry) {
        self.bytes += entry.content.len();
        self.digest = self.digest.wrapping_add(hash(stamp, &entry.content));
        self.entries.insert(stamp, entry);
    }
}

fn hash(stamp: Stamp, content: &[u8]) -> u64 {
    xxh3_64(&write(&(stamp, content)))
}

impl StateMachine for LogState {
    fn apply(&mut self, update: &[u8]) {
        let Some(line) = read::<Line>(update) else {
            return;
        };
        if line.stamp.is_possible() {
            self.clock.see(line.stamp);
            self.merge(line);
        }
    }

    fn snapshot(&self, out: &mut Vec<u8>) {
        let entries = self.entries.iter().map(|(stamp, entry)| Line {
            stamp: *stamp,
            content: entry.content.clone(),
        });
        let image = Image {
            bounds: self.bounds,
            gone: self.gone,
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
            gone: image.gone,
            arrivals: self.arrivals.emptied(),
            ..Self::of_origin(image.bounds, 0)
        };
        new.clock.see(image.gone);
        for Line { stamp, content } in image.entries {
            let number = match self.entries.get(&stamp) {
                Some(old) => {
                    new.arrivals.keep(old.number, stamp);
                    old.number
                }
                None => new.arrivals.add(stamp),
            };
            new.clock.see(stamp);
            new.put(stamp, Entry { content, number });
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

impl Watched for LogState {
    type Change = LogEvent;

    fn begin(&self) -> Cursor {
        let begun = self.arrivals.last();
        Cursor { at: 0, begun }
    }

    fn change(&self, cursor: &mut Cursor) -> Option<LogEvent> {
        let next = self.arrivals.after(cursor.at);
        let number = next.map_or_else(|| self.arrivals.last() + 1, |(number, _)| number);
        let entries = number - 1 - cursor.at.max(cursor.begun).min(number - 1);
        if entries > 0 {
            cursor.at = number - 1;
            return Some(LogEvent::Missed { entries });
        }
        let (number, stamp) = next?;
        cursor.at = number;
        let content = self.entries.get(stamp)?.content.clone();
        let stamp = *stamp;
        Some(LogEvent::Entry { stamp, content })
    }
}

impl Replica<LogState> {
    /// Starts a node and binds to the log at an address ([`Uri`](crate::Uri)), which takes a second if nobody has it.
    ///
    /// # Errors
    /// The address is none of a log, no node starts, or the state does not come.
    pub fn bind(uri: &str) -> Result<Self, LiveError> {
        open::bind(uri, Kind::Log, LogState::new(LogBounds::default()))
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// The entry is too long, or the replica not live.
    pub fn append(&self, content: &[u8]) -> Result<(), LiveError> {
        self.update_by(|log| log.append(wall(), content))
    }

    /// Watches the log: its entries first, then those that come, in the order in which they come.
    #[must_use]
    pub fn watch(&self) -> LogWatch<'_> {
        LogWatch {
            log: self,
            cursor: self.read(LogState::begin),
        }
    }
}

/// Entries of a log, as they come.
#[derive(Debug)]
pub struct LogWatch<'a> {
    log: &'a LiveLog,
    cursor: Cursor,
}

impl LogWatch<'_> {
    /// The next entry; `None` if there is none in this time.
    ///
    /// # Errors
    /// The replica has ended, and nothing is left.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<LogEvent>, LiveError> {
        let cursor = &mut self.cursor;
        Ok(self.log.wait_for(timeout, |log| log.change(cursor))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(origin: u64, bounds: LogBounds) -> LogState {
        LogState::of_origin(bounds, origin)
    }

    fn contents(log: &LogState) -> Vec<&[u8]> {
        log.iter().map(|(_, content)| content).collect()
    }

    fn events(log: &LogState, cursor: &mut Cursor) -> Vec<Result<Vec<u8>, u64>> {
        let told = |event| match event {
            LogEvent::Entry { content, .. } => Ok(content),
            LogEvent::Missed { entries } => Err(entries),
        };
        std::iter::from_fn(|| log.change(cursor))
            .map(told)
            .collect()
    }

    /// All orders in which these updates may come, each applied to a log of its own.
    fn in_all_orders(updates: &[Vec<u8>], bounds: LogBounds) -> Vec<LogState> {
        if updates.len() == 1 {
            let mut log = log(9, bounds);
            log.apply(&updates[0]);
            return vec![log];
        }
        let mut logs = Vec::new();
        for last in 0..updates.len() {
            let mut rest = updates.to_vec();
            let update = rest.remove(last);
            for mut log in in_all_orders(&rest, bounds) {
                log.apply(&update);
                logs.push(log);
            }
        }
        logs
    }

    #[test]
    fn the_same_entries_stay_in_whatever_order_they_come() {
        let mut writer = log(1, LogBounds::default());
        let contents: [&[u8]; 5] = [b"1", b"22", b"999999999", b"55555", b"1"];
        let updates = contents.map(|content| writer.append(0, content).unwrap());
        for bounds in [
            LogBounds::default().bytes(10),
            LogBounds::default().entries(2),
        ] {
            let logs = in_all_orders(&updates, bounds);
            assert_eq!(logs.len(), 120);
            for log in &logs {
                assert_eq!(log.digest(), logs[0].digest(), "{bounds:?}");
                assert_eq!((log.len(), log.bytes()), (2, 6));
            }
        }
    }

    #[test]
    fn entries_are_in_the_order_of_cause_and_effect() {
        let (mut a, mut b) = (log(1, LogBounds::default()), log(2, LogBounds::default()));
        let question = a.append(1000, b"question").unwrap();
        b.apply(&question);
        // The clock of b is behind.
        let answer = b.append(5, b"answer").unwrap();
        let mut late = log(3, LogBounds::default());
        late.apply(&answer);
        late.apply(&question);
        assert_eq!(contents(&late), [&b"question"[..], b"answer"]);
        assert_eq!(late.digest(), b.digest());
    }

    #[test]
    fn who_watches_is_told_what_went_unseen() {
        let mut log = log(1, LogBounds::default().entries(3));
        for entry in [b"1", b"2", b"3", b"4"] {
            log.append(0, entry).unwrap();
        }
        let mut cursor = log.begin();
        let seen = |entry: &[u8]| Ok(entry.to_vec());
        assert_eq!(
            events(&log, &mut cursor),
            [seen(b"2"), seen(b"3"), seen(b"4")]
        );
        for entry in [b"5", b"6", b"7", b"8", b"9"] {
            log.append(0, entry).unwrap();
        }
        let expected = [Err(2), seen(b"7"), seen(b"8"), seen(b"9")];
        assert_eq!(events(&log, &mut cursor), expected);
        assert_eq!(events(&log, &mut cursor), []);
    }

    #[test]
    fn a_snapshot_brings_what_is_new_and_the_bounds_of_the_founder() {
        let bounds = LogBounds::default().entries(2);
        let (mut old, mut new) = (log(1, LogBounds::default()), log(2, bounds));
        let kept = old.append(5, b"kept").unwrap();
        new.apply(&kept);
        let mut cursor = old.begin();
        events(&old, &mut cursor);
        new.append(0, b"new").unwrap();
        let mut bytes = Vec::new();
        new.snapshot(&mut bytes);
        old.restore(&bytes).unwrap();
        assert_eq!(events(&old, &mut cursor), [Ok(b"new".to_vec())]);
        assert_eq!((old.bounds, old.digest()), (bounds, new.digest()));
        old.append(0, b"own").unwrap();
        assert_eq!(contents(&old), [&b"new"[..], b"own"]);
        assert_eq!(old.restore(b"qsm map 1\n"), Err(RestoreError));
        let long = old.append(0, &[0; (16 << 20) + 1]).unwrap_err();
        assert!(matches!(long, LiveError::Full { .. }));
    }
}
