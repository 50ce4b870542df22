//! Last messages of each sender of a group, within bounds.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use qsm::Origin;

use crate::bounds::Bounds;
use crate::word::{Part, Span, Written};

/// Senders of a group that are remembered; of more, those that were silent longest are forgotten, with their messages.
pub(crate) const SENDERS_MAX: usize = 4096;
/// Bytes of a message beside its content.
pub(crate) const OVERHEAD: usize = 96;

/// Messages of a group that are kept (R-HIST-2).
#[derive(Debug)]
pub(crate) struct Ring {
    bounds: Bounds,
    senders: BTreeMap<Origin, Kept>,
    /// Serial numbers of all messages, in the order in which they came, with their senders.
    order: BTreeMap<u64, Origin>,
    bytes: usize,
    serial: u64,
    evicted: u64,
    /// Until then nothing goes for its number or age.
    lease: Duration,
}

#[derive(Debug, Default)]
struct Kept {
    entries: VecDeque<Entry>,
    /// Number of the last message that is known to have been sent.
    last: u64,
    /// Serial number at which this sender was heard last.
    heard: u64,
}

#[derive(Debug)]
struct Entry {
    message: Written,
    serial: u64,
    at: Duration,
}

impl Ring {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            senders: BTreeMap::new(),
            order: BTreeMap::new(),
            bytes: 0,
            serial: 0,
            evicted: 0,
            lease: Duration::ZERO,
        }
    }

    /// Keeps what is there, and what comes, until then, as far as the bytes allow.
    pub(crate) fn lease(&mut self, until: Duration) {
        self.lease = until.max(self.lease);
    }

    /// Keeps a message; one that came before is passed over.
    pub(crate) fn push(&mut self, sender: Origin, message: Written, now: Duration) {
        let (messages, serial) = (self.bounds.messages, self.serial + 1);
        let Some(kept) = self.reach(sender, message.number) else {
            return;
        };
        let bytes = cost(&message);
        kept.entries.push_back(Entry {
            message,
            serial,
            at: now,
        });
        let mut beyond = kept.entries.len().saturating_sub(messages);
        self.order.insert(serial, sender);
        self.bytes += bytes;
        while beyond > 0 && now >= self.lease {
            self.drop_first(sender);
            beyond -= 1;
        }
        while self.bytes > self.bounds.bytes {
            let Some((_, oldest)) = self.order.first_key_value() else {
                return;
            };
            self.drop_first(*oldest);
        }
    }

    /// Notes that messages up to this one were sent, and did not come.
    pub(crate) fn lost(&mut self, sender: Origin, last: u64) {
        self.reach(sender, last);
    }

    /// Drops what is too old.
    pub(crate) fn age(&mut self, now: Duration) {
        let Some(age) = self.bounds.age.filter(|_| now >= self.lease) else {
            return;
        };
        while let Some((_, oldest)) = self.order.first_key_value() {
            let oldest = *oldest;
            let first = self
                .senders
                .get(&oldest)
                .and_then(|kept| kept.entries.front());
            if first.is_some_and(|entry| now.saturating_sub(entry.at) < age) {
                return;
            }
            self.drop_first(oldest);
        }
    }

    /// Of each sender, what is kept.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let span = |(sender, kept): (&Origin, &Kept)| Span {
            sender: (*sender).into(),
            first: kept
                .entries
                .front()
                .map_or_else(|| kept.last.saturating_add(1), |entry| entry.message.number),
            last: kept.last,
        };
        self.senders.iter().map(span).collect()
    }

    /// Messages of a span, until they have so many bytes, one at least if there is any; and their bytes.
    pub(crate) fn part(&self, span: &Span, room: usize) -> (Part, usize) {
        let mut part = Part {
            sender: span.sender,
            first: span.first,
            through: span.first.saturating_sub(1),
            messages: Vec::new(),
        };
        let Some(kept) = self.senders.get(&span.sender.into()) else {
            return (part, 0);
        };
        let mut used = 0;
        let begin = kept
            .entries
            .partition_point(|entry| entry.message.number < span.first);
        for entry in kept.entries.range(begin..) {
            let number = entry.message.number;
            if number > span.last {
                break;
            }
            if used > 0 && used + cost(&entry.message) > room {
                return (part, used);
            }
            used += cost(&entry.message);
            part.through = number;
            part.messages.push(entry.message.clone());
        }
        part.through = span.last.min(kept.last).max(part.through);
        (part, used)
    }

    /// Messages kept, their bytes, senders known, and messages that went.
    pub(crate) fn size(&self) -> [u64; 4] {
        let (messages, senders) = (self.order.len() as u64, self.senders.len() as u64);
        [messages, self.bytes as u64, senders, self.evicted]
    }

    /// The sender, which has sent up to this number; `None` if that was known.
    fn reach(&mut self, sender: Origin, number: u64) -> Option<&mut Kept> {
        if !self.senders.contains_key(&sender) && self.senders.len() >= SENDERS_MAX {
            self.forget_silent();
        }
        self.serial += 1;
        let kept = self.senders.entry(sender).or_default();
        kept.heard = self.serial;
        let further = number > kept.last;
        kept.last = number.max(kept.last);
        further.then_some(kept)
    }

    fn forget_silent(&mut self) {
        let silent = self.senders.iter().min_by_key(|(_, kept)| kept.heard);
        let Some(silent) = silent.map(|(sender, _)| *sender) else {
            return;
        };
        while self.drop_first(silent) {}
        self.senders.remove(&silent);
    }

    fn drop_first(&mut self, sender: Origin) -> bool {
        let kept = self.senders.get_mut(&sender);
        let Some(entry) = kept.and_then(|kept| kept.entries.pop_front()) else {
            return false;
        };
        self.order.remove(&entry.serial);
        self.bytes -= cost(&entry.message);
        self.evicted += 1;
        true
    }
}

fn cost(message: &Written) -> usize {
    message.bytes.len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use qsm::{Incarnation, NodeId};

    use super::*;

    fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    fn message(number: u64, bytes: usize) -> Written {
        Written {
            number,
            group: 1,
            bytes: vec![0; bytes],
        }
    }

    fn kept(ring: &Ring) -> Vec<(u64, u64, u64)> {
        let spans = ring.spans().into_iter();
        let plain = |span: Span| (Origin::from(span.sender).node.0, span.first, span.last);
        spans.map(plain).collect()
    }

    /// R-HIST-2.
    #[test]
    fn each_bound_drops_the_oldest_and_the_end_stays_known() {
        let mut ring = Ring::new(Bounds::default().messages(3).age(Duration::from_secs(10)));
        for number in 1..=5 {
            ring.push(origin(1), message(number, 10), Duration::from_secs(number));
        }
        ring.push(origin(1), message(5, 10), Duration::from_secs(5));
        ring.push(origin(2), message(7, 10), Duration::from_secs(6));
        ring.lost(origin(2), 9);
        assert_eq!(kept(&ring), [(1, 3, 5), (2, 7, 9)]);
        ring.age(Duration::from_secs(14));
        assert_eq!(kept(&ring), [(1, 5, 5), (2, 7, 9)]);
        ring.age(Duration::from_secs(100));
        assert_eq!(kept(&ring), [(1, 6, 5), (2, 10, 9)]);
        assert_eq!(ring.size(), [0, 0, 2, 6]);

        let mut ring = Ring::new(Bounds::default().bytes(3 * (OVERHEAD + 100)));
        for number in 1..=3 {
            ring.push(origin(1), message(number, 100), Duration::ZERO);
        }
        ring.push(origin(2), message(1, 101), Duration::ZERO);
        assert_eq!(kept(&ring), [(1, 3, 3), (2, 1, 1)]);
        // Longer than all that may be kept.
        ring.push(origin(1), message(4, 1000), Duration::ZERO);
        assert_eq!(ring.size(), [0, 0, 2, 5]);
    }

    #[test]
    fn what_somebody_asks_for_stays_a_while_but_for_bytes() {
        let second = Duration::from_secs(1);
        let bounds = Bounds::default().messages(2).age(second);
        let mut ring = Ring::new(bounds.bytes(5 * (OVERHEAD + 10)));
        ring.push(origin(1), message(1, 10), Duration::ZERO);
        ring.lease(3 * second);
        for number in 2..=4 {
            ring.push(origin(1), message(number, 10), second);
        }
        ring.age(2 * second);
        assert_eq!(kept(&ring), [(1, 1, 4)]);
        ring.push(origin(2), message(1, 10), 2 * second);
        ring.push(origin(2), message(2, 10), 2 * second);
        assert_eq!(kept(&ring), [(1, 2, 4), (2, 1, 2)]);
        ring.push(origin(1), message(5, 10), 3 * second);
        assert_eq!(kept(&ring), [(1, 4, 5), (2, 1, 2)]);
        ring.age(3 * second);
        assert_eq!(kept(&ring), [(1, 5, 5), (2, 3, 2)]);
    }

    #[test]
    fn senders_that_are_silent_longest_are_forgotten() {
        let mut ring = Ring::new(Bounds::default());
        for node in 0..SENDERS_MAX as u64 {
            ring.push(origin(node), message(1, 1), Duration::ZERO);
        }
        ring.push(origin(0), message(2, 1), Duration::ZERO);
        ring.push(origin(9999), message(1, 1), Duration::ZERO);
        let [messages, _, senders, _] = ring.size();
        let most = SENDERS_MAX as u64;
        assert_eq!((messages, senders), (most + 1, most));
        let known = ring.spans();
        assert!(!known.iter().any(|span| span.sender == origin(1).into()));
        assert!(known.iter().any(|span| span.sender == origin(0).into()));
    }

    #[test]
    fn a_part_has_one_message_at_least_and_ends_where_the_ring_does() {
        let mut ring = Ring::new(Bounds::default());
        for number in [4, 5, 8] {
            ring.push(origin(1), message(number, 1000), Duration::ZERO);
        }
        let span = |first, last| Span {
            sender: origin(1).into(),
            first,
            last,
        };
        let part = |first, last, room| {
            let (part, _) = ring.part(&span(first, last), room);
            let numbers = part.messages.iter().map(|message| message.number);
            (numbers.collect::<Vec<_>>(), part.through)
        };
        assert_eq!(part(2, 7, 1 << 20), (vec![4, 5], 7));
        assert_eq!(part(2, 7, 1), (vec![4], 4));
        assert_eq!(part(6, 20, 1 << 20), (vec![8], 8));
        assert_eq!(part(6, 7, 1 << 20), (vec![], 7));
        assert_eq!(part(9, 20, 1 << 20), (vec![], 8));
        let (nothing, _) = ring.part(
            &Span {
                sender: origin(2).into(),
                first: 3,
                last: 4,
            },
            1,
        );
        assert_eq!((nothing.through, nothing.messages.len()), (2, 0));
    }
}
