//! Lifetimes of messages by group, and the age of packets (R-DATA-14).
//!
//! No clocks are compared: a node counts the age of a packet from when it knew that the packet
//! existed. Its sender knows that when it sends it, a receiver when the packet or one behind it
//! has come. Both are after its messages were published, so nothing expires early.
//!
//! ```text
//!   marks of a stream     known until t1: 40    t2: 55    t3: 90   ...
//!   now ─ lifetime              ^ between t1 and t2: packets up to 40 have expired
//! ```

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use qsm_wire::membership::GroupLifetime;
use qsm_wire::{Data, GroupId, Origin};

use crate::Instant;

/// Marks that a lifetime is divided into: a packet expires later than it should by at most this share
/// of its lifetime.
const MARKS: u32 = 32;

/// Groups of a region whose messages have a lifetime, and how old the packets of its streams are.
#[derive(Debug)]
pub(crate) struct Lifetimes {
    /// By group the place of its lifetime in `spans`.
    groups: BTreeMap<GroupId, usize>,
    /// The different lifetimes, ascending.
    spans: Vec<Duration>,
    /// By sender, for each lifetime.
    ages: BTreeMap<Origin, Vec<PacketAges>>,
}

/// Ends of a stream at the times of one lifetime.
#[derive(Debug, Default)]
struct PacketAges {
    /// Until this time the stream was known to go so far; ascending.
    marks: VecDeque<(Instant, u64)>,
    /// Packets up to here are older than the lifetime.
    expired_upto: u64,
}

impl Lifetimes {
    /// Those of these groups that have one; `None`: none has.
    pub(crate) fn new(told: &[GroupLifetime]) -> Option<Self> {
        let with = told.iter().filter(|one| one.ms > 0);
        let with: Vec<&GroupLifetime> = with.collect();
        let span = |one: &GroupLifetime| Duration::from_millis(one.ms.into());
        let mut spans: Vec<Duration> = with.iter().map(|one| span(one)).collect();
        spans.sort_unstable();
        spans.dedup();
        let place = |one: &GroupLifetime| spans.binary_search(&span(one)).unwrap_or(0);
        let groups = with.iter().map(|one| (one.group, place(one))).collect();
        (!spans.is_empty()).then_some(Self {
            groups,
            spans,
            ages: BTreeMap::new(),
        })
    }

    /// Goes on with what is known of the age of packets, by the lifetimes that there were before.
    pub(crate) fn resume(mut self, former: Option<&mut Self>) -> Self {
        let Some(former) = former else {
            return self;
        };
        for (sender, ages) in &mut former.ages {
            let kept = self.spans.iter().map(|span| {
                let place = former.spans.binary_search(span).ok();
                let age = place.and_then(|place| ages.get_mut(place));
                age.map(core::mem::take).unwrap_or_default()
            });
            self.ages.insert(*sender, kept.collect());
        }
        self
    }

    /// The groups with a lifetime, ascending, each with its own.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (GroupId, Duration)> {
        let groups = self.groups.iter();
        groups.filter_map(|(group, place)| Some((*group, *self.spans.get(*place)?)))
    }

    /// Packets of a sender's stream up to `highest` are known to exist.
    pub(crate) fn note(&mut self, now: Instant, sender: Origin, highest: u64) {
        let spans = &self.spans;
        let ages = self.ages.entry(sender).or_default();
        ages.resize_with(spans.len(), PacketAges::default);
        for (age, span) in ages.iter_mut().zip(spans) {
            age.note(now, *span, highest);
        }
    }

    /// Forgets the streams of other senders than these.
    pub(crate) fn retain(&mut self, keep: impl Fn(Origin) -> bool) {
        self.ages.retain(|sender, _| keep(*sender));
    }

    /// Tells whether the lifetime of all messages of a packet is over.
    pub(crate) fn is_expired(
        &self,
        now: Instant,
        sender: Origin,
        sequence: u64,
        packet: &[u8],
    ) -> bool {
        let (Some(ages), Some(data)) = (self.ages.get(&sender), Data::read_again(packet)) else {
            return false;
        };
        let expired = |group: GroupId| {
            let place = self.groups.get(&group)?;
            let (age, span) = (ages.get(*place)?, self.spans.get(*place)?);
            (sequence <= age.expired_upto(now, *span)).then_some(())
        };
        let mut chunks = data.chunks().peekable();
        chunks.peek().is_some() && chunks.all(|chunk| expired(chunk.group).is_some())
    }
}

impl PacketAges {
    fn note(&mut self, now: Instant, span: Duration, highest: u64) {
        self.expired_upto = self.expired_upto(now, span);
        while let Some((until, _)) = self.marks.front()
            && until.after(span) <= now
        {
            self.marks.pop_front();
        }
        match self.marks.back_mut() {
            Some((until, upto)) if now <= *until => *upto = highest.max(*upto),
            Some((_, upto)) if highest <= *upto => {}
            None if highest <= self.expired_upto => {}
            _ => self.marks.push_back((now.after(span / MARKS), highest)),
        }
    }

    fn expired_upto(&self, now: Instant, span: Duration) -> u64 {
        let over = self
            .marks
            .partition_point(|(until, _)| until.after(span) <= now);
        let last = over.checked_sub(1).and_then(|at| self.marks.get(at));
        last.map_or(self.expired_upto, |(_, upto)| *upto)
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{ChannelId, Chunk, DataHeader, Header, Part, ViewNumber};

    use super::*;

    const SENDER: Origin = Origin {
        node: qsm_wire::NodeId(3),
        incarnation: qsm_wire::Incarnation(1),
    };

    fn lifetimes() -> Lifetimes {
        let told = [(1, 200), (2, 50), (3, 0)].map(|(group, ms)| GroupLifetime {
            group: GroupId(group),
            ms,
        });
        Lifetimes::new(&told).unwrap()
    }

    fn at(ms: u64) -> Instant {
        Instant(1_000_000_000).after(Duration::from_millis(ms))
    }

    fn packet(groups: &[u32]) -> Vec<u8> {
        let head = DataHeader {
            channel: ChannelId(9),
            view: ViewNumber(1),
            sequence: 1,
            view_age: 0,
        };
        let mut bytes = Vec::new();
        head.encode(&Header::default(), &mut bytes);
        for group in groups {
            let chunk = Chunk {
                group: GroupId(*group),
                message: 1,
                part: Part::Whole,
                content: b"x",
            };
            chunk.encode(&mut bytes);
        }
        bytes
    }

    // Rule R-DATA-14.
    #[test]
    fn packets_expire_when_all_their_messages_have_and_never_early() {
        let mut lifetimes = lifetimes();
        let expired = |lifetimes: &Lifetimes, ms, sequence, groups: &[u32]| {
            lifetimes.is_expired(at(ms), SENDER, sequence, &packet(groups))
        };
        lifetimes.note(at(0), SENDER, 10);
        assert!(!expired(&lifetimes, 49, 10, &[2]));
        assert!(expired(&lifetimes, 52, 10, &[2]));
        lifetimes.note(at(100), SENDER, 20);
        for (ms, sequence, groups, over) in [
            (149, 11, &[2][..], false),
            (149, 20, &[2, 2], false),
            (152, 10, &[2], true),
            (152, 10, &[1, 2], false),
            (155, 20, &[2, 2], true),
            (207, 10, &[2, 1], true),
            (207, 11, &[1], false),
            (307, 20, &[1], true),
            (307, 21, &[1], false),
            (900, 10, &[2, 3], false),
            (900, 10, &[7], false),
            (900, 10, &[], false),
        ] {
            let is = expired(&lifetimes, ms, sequence, groups);
            assert_eq!(is, over, "{ms} ms: {groups:?}");
        }
        let other = Origin::default();
        assert!(!lifetimes.is_expired(at(900), other, 1, &packet(&[2])));
    }

    #[test]
    fn marks_are_few_and_what_has_expired_stays_so() {
        let mut lifetimes = lifetimes();
        for ms in 0..5000 {
            lifetimes.note(at(ms), SENDER, ms + 1);
        }
        let ages = &lifetimes.ages[&SENDER];
        assert!(ages.iter().all(|age| age.marks.len() <= MARKS as usize + 2));
        let last_expired = |lifetimes: &Lifetimes, ms, group: u32| {
            let packet = packet(&[group]);
            let expired = |one: &u64| lifetimes.is_expired(at(ms), SENDER, *one, &packet);
            (1..=5000).rev().find(expired).unwrap_or(0)
        };
        // Up to a 32nd of the lifetime late.
        let upto = last_expired(&lifetimes, 5000, 1);
        assert!((4792..=4801).contains(&upto), "{upto}");
        let upto = last_expired(&lifetimes, 5000, 2);
        assert!((4947..=4951).contains(&upto), "{upto}");
        lifetimes.note(at(9000), SENDER, 5000);
        assert_eq!(last_expired(&lifetimes, 9000, 1), 5000);
    }

    #[test]
    fn ages_go_on_when_the_same_lifetimes_are_told_again() {
        let mut former = lifetimes();
        former.note(at(0), SENDER, 10);
        let mut again = lifetimes().resume(Some(&mut former));
        assert!(again.is_expired(at(60), SENDER, 10, &packet(&[2])));
        let told = [(2, 50), (4, 1)].map(|(group, ms)| GroupLifetime {
            group: GroupId(group),
            ms,
        });
        let mut again = Lifetimes::new(&told).unwrap().resume(Some(&mut again));
        assert!(again.is_expired(at(60), SENDER, 10, &packet(&[2])));
        assert!(!again.is_expired(at(60), SENDER, 10, &packet(&[4])));
        again.retain(|sender| sender != SENDER);
        assert!(!again.is_expired(at(60), SENDER, 10, &packet(&[2])));
        assert!(Lifetimes::new(&[]).is_none());
    }
}
