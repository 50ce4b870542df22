//! Messages that several streams bring, all of them the same ones: each is taken once, in order. Rule R-RELAY-60.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use qsm_wire::Instant;

/// Longest time that a message waits for those before it, which another stream may bring: for so long the source of one
/// that stalls keeps them.
pub const MERGE_WAIT: Duration = Duration::from_secs(5);
/// Senders, each in each group, whose numbers are remembered. When more come, all are forgotten.
pub(crate) const SENDERS_MAX: usize = 1 << 16;

/// A message with the number that its sender gave it; numbers begin with 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered<K, T> {
    /// Its sender and group.
    pub key: K,
    /// Among those of the key.
    pub number: u64,
    /// Its content.
    pub item: T,
    /// Memory that it takes.
    pub bytes: usize,
}

qsm_metrics::metrics! {
    /// Account of messages that come by several streams.
    #[derive(Copy)]
    pub struct MergeStats of "merge" {
        /// Messages that had come before.
        duplicates: counter(messages),
        /// Messages that had to wait for those before them.
        waited: counter(messages),
        /// Times that those before them did not come in time.
        given_up: counter(times),
        /// Memory of those that wait.
        waiting_bytes: gauge(bytes),
    }
}

/// Numbers of a key.
#[derive(Debug)]
struct Place<K, T> {
    /// The newest that was taken.
    taken: u64,
    /// The newest that each stream has brought, 0 if none.
    brought: Box<[u64]>,
    /// The newest that came by other ways, 0 if none.
    elsewhere: u64,
    /// Messages behind a gap.
    waiting: BTreeMap<u64, Numbered<K, T>>,
}

impl<K, T> Place<K, T> {
    /// The number before which nothing is waited for.
    fn settled(&self) -> u64 {
        let all = self.brought.iter().copied().min().unwrap_or_default();
        let beside = self.elsewhere.checked_add(1).filter(|next| *next > 1);
        all.max(beside.unwrap_or_default())
    }
}

/// Streams in which the same messages come.
#[derive(Debug)]
pub struct Merge<K, T> {
    streams: usize,
    memory: usize,
    places: BTreeMap<K, Place<K, T>>,
    /// When messages have waited for long enough, ascending.
    due: VecDeque<(Instant, K, u64)>,
    ready: VecDeque<Numbered<K, T>>,
    stats: MergeStats,
}

impl<K: Ord + Clone, T> Merge<K, T> {
    /// Of so many streams; messages that wait take at most this memory, and a message.
    #[must_use]
    pub fn new(streams: usize, memory: usize) -> Self {
        Self {
            streams,
            memory,
            places: BTreeMap::new(),
            due: VecDeque::new(),
            ready: VecDeque::new(),
            stats: MergeStats::default(),
        }
    }

    /// Takes a message as it comes in one of the streams, which are counted from 0. Each has those of a key in order.
    pub fn take(&mut self, now: Instant, stream: usize, message: Numbered<K, T>) {
        if !self.places.contains_key(&message.key) && self.places.len() == SENDERS_MAX {
            self.forget();
        }
        let (key, number) = (message.key.clone(), message.number);
        let streams = self.streams;
        let place = self.places.entry(key.clone()).or_insert_with(|| Place {
            taken: number.saturating_sub(1),
            brought: vec![0; streams].into(),
            elsewhere: 0,
            waiting: BTreeMap::new(),
        });
        if let Some(brought) = place.brought.get_mut(stream) {
            *brought = number.max(*brought);
        }
        if number <= place.taken || place.waiting.contains_key(&number) {
            self.stats.duplicates += 1;
        } else {
            self.stats.waiting_bytes += message.bytes as u64;
            if number > place.taken + 1 && streams > 1 {
                self.stats.waited += 1;
                self.due
                    .push_back((now.after(MERGE_WAIT), key.clone(), number));
            }
            place.waiting.insert(number, message);
        }
        let settled = place.settled();
        self.go_on(&key, settled);
        while self.stats.waiting_bytes > self.memory as u64 && self.next_timeout().is_some() {
            self.give_up();
        }
    }

    /// Takes note that messages up to this number have come by another way: no stream is waited for to bring them.
    pub fn pass_over(&mut self, key: &K, number: u64) {
        if let Some(place) = self.places.get_mut(key) {
            place.elsewhere = number.max(place.elsewhere);
            let settled = place.settled();
            self.go_on(key, settled);
        }
    }

    /// Goes on behind what has been missing for too long.
    pub fn handle_timeout(&mut self, now: Instant) {
        while self.next_timeout().is_some_and(|due| due <= now) {
            self.give_up();
        }
    }

    /// The next time at which a message has waited for long enough.
    pub fn next_timeout(&mut self) -> Option<Instant> {
        while let Some((due, key, number)) = self.due.front() {
            let place = self.places.get(key);
            if place.is_some_and(|place| place.waiting.contains_key(number)) {
                return Some(*due);
            }
            self.due.pop_front();
        }
        None
    }

    /// The next message in its order.
    pub fn poll(&mut self) -> Option<Numbered<K, T>> {
        self.ready.pop_front()
    }

    /// Its account.
    #[must_use]
    pub fn stats(&self) -> MergeStats {
        self.stats
    }

    /// The message that has waited longest waits no more.
    fn give_up(&mut self) {
        if let Some((_, key, number)) = self.due.pop_front() {
            self.stats.given_up += 1;
            self.go_on(&key, number);
        }
    }

    /// Takes what waits up to this number, and what follows that without a gap.
    fn go_on(&mut self, key: &K, number: u64) {
        let Some(place) = self.places.get_mut(key) else {
            return;
        };
        while let Some(entry) = place.waiting.first_entry()
            && (*entry.key() <= number || *entry.key() == place.taken + 1)
        {
            let message = entry.remove();
            place.taken = message.number;
            self.stats.waiting_bytes -= message.bytes as u64;
            self.ready.push_back(message);
        }
    }

    fn forget(&mut self) {
        while self.next_timeout().is_some() {
            self.give_up();
        }
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn message(key: char, number: u64) -> Numbered<char, ()> {
        Numbered {
            key,
            number,
            item: (),
            bytes: 10,
        }
    }

    fn ready(merge: &mut Merge<char, ()>) -> Vec<u64> {
        let all = core::iter::from_fn(|| merge.poll());
        all.map(|message| message.number).collect()
    }

    fn taken(merge: &mut Merge<char, ()>, numbers: &[u64]) -> Vec<u64> {
        for number in numbers {
            merge.take(at(0), 0, message('a', *number));
        }
        ready(merge)
    }

    /// R-RELAY-60.
    #[test]
    fn what_several_streams_bring_is_taken_once() {
        let mut merge = Merge::new(2, 1000);
        for (stream, number) in [(0, 4), (0, 5), (1, 3), (1, 4), (1, 5), (1, 6), (0, 6)] {
            merge.take(at(0), stream, message('a', number));
        }
        assert_eq!(ready(&mut merge), [4, 5, 6]);
        assert_eq!(merge.stats().duplicates, 4);
        assert_eq!(merge.stats().waiting_bytes, 0);
    }

    /// R-RELAY-60: another key does not wait.
    #[test]
    fn what_one_stream_lacks_is_waited_for_until_another_brings_it() {
        let mut merge = Merge::new(2, 1000);
        assert_eq!(taken(&mut merge, &[1, 3, 4]), [1]);
        merge.take(at(0), 0, message('b', 9));
        assert_eq!(ready(&mut merge), [9]);
        merge.take(at(0), 1, message('a', 2));
        assert_eq!(ready(&mut merge), [2, 3, 4]);
        let stats = merge.stats();
        assert_eq!((merge.next_timeout(), stats.waiting_bytes), (None, 0));
        assert_eq!((stats.waited, stats.given_up), (2, 0));
    }

    /// R-RELAY-60.
    #[test]
    fn what_all_streams_lack_is_not_waited_for() {
        let mut merge = Merge::new(2, 1000);
        assert_eq!(taken(&mut merge, &[1, 3, 5]), [1]);
        merge.take(at(0), 1, message('a', 3));
        assert_eq!(ready(&mut merge), [3]);
        merge.take(at(0), 1, message('a', 6));
        assert_eq!(ready(&mut merge), [5, 6]);
    }

    /// R-RELAY-60.
    #[test]
    fn what_has_come_by_another_way_is_not_waited_for() {
        let mut merge = Merge::new(2, 1000);
        assert_eq!(taken(&mut merge, &[1, 4, 6]), [1]);
        merge.pass_over(&'a', 2);
        assert_eq!(ready(&mut merge), []);
        merge.pass_over(&'a', 3);
        assert_eq!(ready(&mut merge), [4]);
        merge.pass_over(&'a', 9);
        assert_eq!(taken(&mut merge, &[8]), [6, 8]);
    }

    /// R-RELAY-60.
    #[test]
    fn a_stream_that_brings_nothing_is_waited_for_five_seconds() {
        let mut merge = Merge::new(2, 1000);
        assert_eq!(taken(&mut merge, &[1, 3]), [1]);
        merge.take(at(400), 0, message('a', 5));
        assert_eq!(merge.next_timeout(), Some(at(5000)));
        merge.handle_timeout(at(4999));
        assert!(ready(&mut merge).is_empty());
        merge.handle_timeout(at(5000));
        assert_eq!(ready(&mut merge), [3]);
        merge.handle_timeout(at(5400));
        assert_eq!(ready(&mut merge), [5]);
        assert_eq!(taken(&mut merge, &[4]), []);
        assert_eq!(merge.stats().given_up, 2);
    }

    #[test]
    fn a_single_stream_waits_for_nothing() {
        let mut merge = Merge::new(1, 1000);
        assert_eq!(taken(&mut merge, &[1, 3, 2]), [1, 3]);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut merge = Merge::new(2, 25);
        assert_eq!(taken(&mut merge, &[1, 3, 5]), [1]);
        assert_eq!(taken(&mut merge, &[7]), [3]);
        assert_eq!(merge.stats().waiting_bytes, 20);
    }
}
