use std::collections::VecDeque;

use qsm_wire::SeqRange;

use crate::packet::WINDOW_MAX;

/// Effect of a packet on a track list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It was here already, or is of no interest any more.
    Duplicate,
    /// It was missing.
    Filled,
    /// It is newer than all others, and these packets before it are missing.
    Gap(SeqRange),
    /// It is newer than all others, and nothing new is missing.
    Next,
}

/// Record of the packets of a session that have come (S1, 3.2.2): a list of bits that is cheap to change
/// at both ends, and takes no memory while nothing is missing. Rule R-RELAY-4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackList {
    last_ordered: u64,
    last_received: u64,
    /// Bit n of word w stands for the number (`base` + w) × 64 + n, and is set if that is missing.
    lost: VecDeque<u64>,
    base: u64,
}

const BITS: u64 = 64;

impl TrackList {
    /// A list that begins behind this number: it and all before it are not asked for.
    #[must_use]
    pub fn behind(sequence: u64) -> Self {
        Self {
            last_ordered: sequence,
            last_received: sequence,
            lost: VecDeque::new(),
            base: 0,
        }
    }

    /// S1's `lastOrdered`: everything up to here has come, or was given up.
    #[must_use]
    pub fn last_ordered(&self) -> u64 {
        self.last_ordered
    }

    /// S1's `lastReceived`: the newest packet that is known of. A heartbeat counts as word of it.
    #[must_use]
    pub fn last_received(&self) -> u64 {
        self.last_received
    }

    /// Tells whether the packet exists and has not come: an entry of S1's `lostList`.
    #[must_use]
    pub fn is_lost(&self, sequence: u64) -> bool {
        let word = (sequence / BITS).checked_sub(self.base);
        let word = word.and_then(|word| self.lost.get(usize::try_from(word).ok()?));
        sequence > self.last_ordered && word.is_some_and(|word| word >> (sequence % BITS) & 1 == 1)
    }

    /// Tells whether the packet has not come and may: it is lost, or newer than all.
    #[must_use]
    pub fn lacks(&self, sequence: u64) -> bool {
        sequence > self.last_received || self.is_lost(sequence)
    }

    /// The first missing packet behind this number.
    #[must_use]
    pub fn next_lost(&self, after: u64) -> Option<u64> {
        let from = after.max(self.last_ordered).checked_add(1)?;
        let from = from.max(self.base * BITS);
        let skipped = usize::try_from(from / BITS - self.base).ok()?;
        let mut mask = u64::MAX << (from % BITS);
        for (word, at) in self.lost.iter().skip(skipped).zip(from / BITS..) {
            let found = word & mask;
            if found != 0 {
                return Some(at * BITS + u64::from(found.trailing_zeros()));
            }
            mask = u64::MAX;
        }
        None
    }

    /// Notes that a packet has come.
    #[inline]
    pub fn record(&mut self, sequence: u64) -> Arrival {
        if sequence <= self.last_ordered {
            return Arrival::Duplicate;
        }
        if sequence > self.last_received {
            let gap = self.extend(sequence - 1);
            self.last_received = sequence;
            if self.last_ordered == sequence - 1 {
                self.last_ordered = sequence;
            }
            return gap.map_or(Arrival::Next, Arrival::Gap);
        }
        if !self.is_lost(sequence) {
            return Arrival::Duplicate;
        }
        self.clear(sequence);
        if sequence == self.last_ordered + 1 {
            self.advance();
        }
        Arrival::Filled
    }

    /// Tells whether a packet with this number can have been sent: a source goes on for a window beyond what is missing.
    pub fn reaches(&self, highest: u64) -> bool {
        highest <= self.last_ordered.saturating_add(WINDOW_MAX)
    }

    /// Notes that packets up to this number exist, and returns those that are newly missing.
    pub fn extend(&mut self, highest: u64) -> Option<SeqRange> {
        let first = self.last_received + 1;
        let gap = SeqRange::new(first, highest)?;
        if self.lost.is_empty() {
            self.base = first / BITS;
        }
        for word in first / BITS..=highest / BITS {
            let low = first.max(word * BITS) % BITS;
            let high = highest.min(word * BITS + (BITS - 1)) % BITS;
            let bits = (u64::MAX << low) & (u64::MAX >> (BITS - 1 - high));
            let at = usize::try_from(word - self.base).unwrap_or(usize::MAX);
            match self.lost.get_mut(at) {
                Some(present) => *present |= bits,
                None => {
                    // Of the words between nothing is missing.
                    self.lost.resize(at, 0);
                    self.lost.push_back(bits);
                }
            }
        }
        self.last_received = highest;
        Some(gap)
    }

    /// Gives up everything up to this number: nobody keeps it any more.
    pub fn release(&mut self, upto: u64) {
        if upto <= self.last_ordered {
            return;
        }
        if upto >= self.last_received {
            (self.last_ordered, self.last_received) = (upto, upto);
            self.lost.clear();
            return;
        }
        self.last_ordered = upto;
        self.advance();
    }

    /// Bytes that it has allocated.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        self.lost.capacity() * size_of::<u64>()
    }

    fn clear(&mut self, sequence: u64) {
        let word = usize::try_from(sequence / BITS - self.base).ok();
        if let Some(word) = word.and_then(|word| self.lost.get_mut(word)) {
            *word &= !(1 << (sequence % BITS));
        }
    }

    /// Moves `last_ordered` up to the first missing packet behind it.
    fn advance(&mut self) {
        let next = self.next_lost(self.last_ordered);
        self.last_ordered = next.map_or(self.last_received, |lost| lost - 1);
        let words = ((self.last_ordered + 1) / BITS).saturating_sub(self.base);
        let words = usize::try_from(words).unwrap_or(usize::MAX);
        if next.is_none() {
            self.lost.clear();
        } else {
            self.lost.drain(..words.min(self.lost.len()));
            self.base = (self.last_ordered + 1) / BITS;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use qsm_wire::{Random, Seed};

    use super::*;

    fn range(first: u64, last: u64) -> SeqRange {
        SeqRange::new(first, last).unwrap()
    }

    /// R-RELAY-4, R165.
    #[test]
    fn a_gap_opens_and_closes() {
        let mut list = TrackList::behind(0);
        assert_eq!(list.record(1), Arrival::Next);
        assert_eq!(list.record(4), Arrival::Gap(range(2, 3)));
        assert_eq!((list.last_ordered(), list.last_received()), (1, 4));
        assert_eq!(list.record(5), Arrival::Next);
        assert_eq!(list.record(3), Arrival::Filled);
        assert_eq!(list.record(3), Arrival::Duplicate);
        assert_eq!((list.is_lost(2), list.next_lost(0)), (true, Some(2)));
        assert_eq!(list.record(2), Arrival::Filled);
        assert_eq!((list.last_ordered(), list.last_received()), (5, 5));
        assert_eq!(list.record(1), Arrival::Duplicate);
        assert_eq!(list.next_lost(0), None);
    }

    #[test]
    fn ten_thousand_missing_packets_are_a_kilobyte() {
        let mut list = TrackList::behind(7);
        assert_eq!(list.record(10_008), Arrival::Gap(range(8, 10_007)));
        assert!(list.allocated_bytes() <= 2048, "{}", list.allocated_bytes());
        for sequence in (8..10_008).rev() {
            assert!(list.is_lost(sequence));
            assert_eq!(list.record(sequence), Arrival::Filled);
        }
        assert_eq!(list.last_ordered(), 10_008);
    }

    #[test]
    fn what_is_released_is_not_missing_any_more() {
        let mut list = TrackList::behind(0);
        assert_eq!(list.extend(100), Some(range(1, 100)));
        assert_eq!(list.extend(100), None);
        assert_eq!(list.record(71), Arrival::Filled);
        list.release(70);
        assert_eq!((list.last_ordered(), list.next_lost(0)), (71, Some(72)));
        list.release(500);
        assert_eq!((list.last_ordered(), list.last_received()), (500, 500));
        assert_eq!(list.record(501), Arrival::Next);
    }

    /// Drawn arrivals beside a set of numbers.
    #[test]
    fn it_agrees_with_a_set() {
        for seed in 0..200 {
            let mut random = Random::new(Seed(seed), "track");
            let start = random.below(200);
            let mut list = TrackList::behind(start);
            let (mut ordered, mut highest, mut lost) = (start, start, BTreeSet::new());
            for _ in 0..400 {
                let sequence = (ordered + random.below(150)).max(1);
                if random.below(20) == 0 {
                    list.release(sequence);
                    lost.retain(|lost| *lost > sequence);
                    highest = highest.max(sequence);
                } else {
                    list.record(sequence);
                    lost.extend(highest + 1..sequence);
                    highest = highest.max(sequence);
                    lost.remove(&sequence);
                }
                ordered = lost.first().map_or(highest, |lost| lost - 1);
                assert_eq!(
                    (list.last_ordered(), list.last_received()),
                    (ordered, highest)
                );
                let after = random.below(highest + 2);
                let next = lost.range(after + 1..).next().copied();
                assert_eq!(list.next_lost(after), next, "behind {after}");
                let asked = random.below(highest + 70);
                assert_eq!(list.is_lost(asked), lost.contains(&asked), "{asked}");
            }
        }
    }
}
