//! One sender as a subscriber sees it: what was given, what is held, what lies between.

use std::collections::BTreeMap;
use std::time::Duration;

use qsm::{Lost, Message};

/// Bytes of a held message beside its content.
const OVERHEAD: usize = 160;
/// Greatest number that a message can have: another one follows it.
const NUMBER_MAX: u64 = u64::MAX - 1;

/// Something that waits for what is before it.
#[derive(Debug)]
pub(crate) enum Held {
    /// A message that came live.
    Live(Message),
    /// A message out of a keeper's memory.
    Kept(Message),
    /// Messages that are not asked for: they had expired.
    Lost(Lost),
}

/// Messages of a sender, in the order of their numbers (R-HIST-4).
#[derive(Debug)]
pub(crate) struct Track {
    /// Number of the next message to be given.
    next: u64,
    /// Messages up to this one were sent, as far as known.
    end: u64,
    /// Messages that came and have to wait, by number.
    held: BTreeMap<u64, Held>,
    pub(crate) held_bytes: usize,
    /// The sender's live stream has begun here, and tells what is missing from there on.
    pub(crate) linked: bool,
    gap: Option<Gap>,
}

/// Time since which the next message is missing, without progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    pub(crate) since: Duration,
    /// The first round of questions that began after it.
    pub(crate) round: u32,
}

impl Track {
    /// A sender whose messages begin with this number.
    pub(crate) fn new(next: u64) -> Self {
        Self {
            next,
            end: next.saturating_sub(1),
            held: BTreeMap::new(),
            held_bytes: 0,
            linked: false,
            gap: None,
        }
    }

    /// Number of the last message that was given, or passed over.
    pub(crate) fn given(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// Notes that messages up to this one were sent.
    pub(crate) fn reach(&mut self, last: u64) {
        self.end = last.min(NUMBER_MAX).max(self.end);
    }

    /// Holds what came, unless it came before.
    pub(crate) fn hold(&mut self, number: u64, held: Held) {
        let (last, bytes) = match &held {
            Held::Live(message) | Held::Kept(message) => (number, message.bytes().len() + OVERHEAD),
            Held::Lost(lost) => (lost.last, OVERHEAD),
        };
        if last < self.next || last > NUMBER_MAX || self.held.contains_key(&number) {
            return;
        }
        self.reach(last);
        self.held_bytes += bytes;
        self.held.insert(number, held);
    }

    /// Tells whether a message with this number comes next, and nothing is to be looked at.
    pub(crate) fn is_next(&self, number: u64) -> bool {
        number == self.next && self.held.is_empty()
    }

    /// Counts the next message as given.
    pub(crate) fn pass(&mut self) {
        self.next = self.next.saturating_add(1);
        self.reach(self.next - 1);
        self.gap = None;
    }

    /// The next that is held.
    pub(crate) fn release(&mut self) -> Option<Held> {
        while let Some(entry) = self.held.first_entry() {
            let number = *entry.key();
            if number > self.next {
                return None;
            }
            let held = entry.remove();
            let (last, bytes) = match &held {
                Held::Live(message) | Held::Kept(message) => {
                    (number, message.bytes().len() + OVERHEAD)
                }
                Held::Lost(lost) => (lost.last, OVERHEAD),
            };
            self.held_bytes = self.held_bytes.saturating_sub(bytes);
            if last >= self.next {
                self.next = last.saturating_add(1);
                self.gap = None;
                return Some(held);
            }
        }
        None
    }

    /// The messages missing before what is held, or before the end.
    pub(crate) fn missing(&self) -> Option<(u64, u64)> {
        let last = match self.held.first_key_value() {
            Some((first, _)) => first.saturating_sub(1),
            None => self.end,
        };
        (self.next <= last).then_some((self.next, last))
    }

    /// Gives up messages up to this one.
    pub(crate) fn skip(&mut self, last: u64) {
        self.next = last.saturating_add(1).max(self.next);
        self.gap = None;
    }

    /// The gap before the next message; one that was not there begins now.
    pub(crate) fn gap(&mut self, now: Duration, round: u32) -> Gap {
        *self.gap.get_or_insert(Gap { since: now, round })
    }

    /// Begins the time of the gap anew.
    pub(crate) fn extend(&mut self, now: Duration) {
        if let Some(gap) = &mut self.gap {
            gap.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use qsm::{GroupId, Origin};

    use super::*;

    fn message(number: u64) -> Message {
        Message::new("news", GroupId(1), Origin::default(), number, vec![0; 10])
    }

    fn given(track: &mut Track) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Some(held) = track.release() {
            match held {
                Held::Live(message) | Held::Kept(message) => numbers.push(message.number()),
                Held::Lost(lost) => numbers.extend(lost.first..=lost.last),
            }
        }
        numbers
    }

    /// R-HIST-4.
    #[test]
    fn messages_come_in_order_and_each_once_whatever_way_they_came() {
        let mut track = Track::new(5);
        track.hold(8, Held::Live(message(8)));
        track.hold(9, Held::Live(message(9)));
        assert_eq!(track.missing(), Some((5, 7)));
        for number in [4, 5, 6, 8] {
            track.hold(number, Held::Kept(message(number)));
        }
        assert_eq!(given(&mut track), [5, 6]);
        assert_eq!(track.missing(), Some((7, 7)));
        track.hold(7, Held::Kept(message(7)));
        assert_eq!(given(&mut track), [7, 8, 9]);
        assert_eq!((track.missing(), track.held_bytes), (None, 0));
        assert!(track.is_next(10) && !track.is_next(11) && !track.is_next(9));
    }

    #[test]
    fn what_is_not_asked_for_has_its_place_too() {
        let mut track = Track::new(1);
        let lost = Lost::new("news", Origin::default(), 3, 5);
        track.hold(3, Held::Lost(lost));
        track.hold(6, Held::Live(message(6)));
        assert_eq!(track.missing(), Some((1, 2)));
        track.skip(2);
        assert_eq!(given(&mut track), [3, 4, 5, 6]);
        track.reach(8);
        assert_eq!((track.missing(), track.given()), (Some((7, 8)), 6));
    }
}
