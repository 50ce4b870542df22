//! The missing packets of one stream and what has been done about them.
//!
//! A gap is a run of missing sequence numbers with one history: when it was found, whom it was
//! asked of, which cachers are known to miss it, and who waits for it here. Gaps are sorted and
//! disjoint. They are few (a loss burst is one gap) and mostly come and go at the two ends, so a
//! deque with binary search serves; it is bounded by [`Gaps::MAX`].

use core::time::Duration;
use std::collections::VecDeque;

use qsm_wire::{MemberIndex, SeqRange};

use crate::Instant;

/// Members that wait for a repair from this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiters {
    members: [MemberIndex; Self::MAX],
    count: u8,
    /// More than fit: the repair goes to everybody.
    many: bool,
}

impl Waiters {
    /// Most that are remembered singly; from three on repairs are multicast anyway.
    pub const MAX: usize = 4;

    /// Adds one; repeated ones count once.
    pub fn add(&mut self, member: MemberIndex) {
        if self.members().contains(&member) {
            return;
        }
        match self.members.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = member;
                self.count += 1;
            }
            None => self.many = true,
        }
    }

    /// Those remembered.
    #[must_use]
    pub fn members(&self) -> &[MemberIndex] {
        &self.members[..usize::from(self.count)]
    }

    /// Whether a multicast serves them better than unicasts (R214).
    #[must_use]
    pub fn widespread(&self) -> bool {
        self.many || usize::from(self.count) >= 3
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Most doublings of the retry interval.
const DOUBLINGS_MAX: u8 = 6;

/// Longest interval between retries, unless three round trips are longer: far from its cachers a
/// node would give up on them after a handful of requests.
const RETRY_MAX: Duration = Duration::from_millis(500);

/// Time from one request for a packet to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryInterval {
    /// After the first.
    pub first: Duration,
    /// Requests from which on it doubles: fewer are lost in the usual course of things, and do not
    /// show that nobody answers.
    pub steady: u8,
}

impl RetryInterval {
    /// The interval after so many requests.
    #[must_use]
    pub fn after(self, requests: u8) -> Duration {
        let doublings = requests.saturating_sub(self.steady).min(DOUBLINGS_MAX);
        let doubled = self.first.saturating_mul(1 << doublings);
        doubled.min(RETRY_MAX).max(self.first)
    }
}

/// A run of missing packets with one history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Gap {
    /// First missing number.
    pub first: u64,
    /// Last missing number.
    pub last: u64,
    /// When it was found.
    pub found: Instant,
    /// Since when its cachers have been silent: found, or last brought and refused for lack of
    /// memory, or left alone by the death of the sender.
    pub silent_since: Instant,
    /// When something is due: the first request, or a retry.
    pub due: Instant,
    /// When it was last asked for.
    pub asked: Instant,
    /// Whom, by the place in the view of its packets; `None`: the sender.
    pub asked_of: Option<MemberIndex>,
    /// When the time before.
    pub asked_before: Instant,
    /// Requests made so far.
    pub attempts: u8,
    /// Of these, made early because whom was asked has answered others since: no sign of silence.
    pub hastened: u8,
    /// The next one is such a request.
    pub early: bool,
    /// Since when it waits for room among the packets that are asked for (R-NAK-10); `None`: it does
    /// not.
    pub put_off: Option<Instant>,
    /// Whom it was asked of last has said that it misses it too, or it has come and found no room: no
    /// repair is on its way.
    pub refused: bool,
    /// It has come, and found no room or gave way: it is asked for when there is some, or when its turn
    /// has come.
    pub crowded_out: bool,
    /// Bit r: the cacher of rank r is known to miss it (ranks of the packets' own view).
    pub known_missing: u32,
    /// Of these, those that have said so when they were asked here: the word of others may be older than
    /// what has come to them since.
    pub absent: u32,
    /// A cacher has said that it does not have it, though what all live members have is kept for
    /// those that lack it, or who was asked instead of a cacher has: others are not reached by way of
    /// it, but asked themselves.
    pub let_go: bool,
    /// Others that wait for it here.
    pub waiters: Waiters,
}

impl Gap {
    fn new(range: SeqRange, now: Instant, due: Instant) -> Self {
        Self {
            first: range.first(),
            last: range.last(),
            found: now,
            silent_since: now,
            due,
            asked: now,
            asked_of: None,
            asked_before: now,
            attempts: 0,
            hastened: 0,
            early: false,
            put_off: None,
            refused: false,
            crowded_out: false,
            known_missing: 0,
            absent: 0,
            let_go: false,
            waiters: Waiters::default(),
        }
    }

    /// When it may be asked for again (R-NAK-5).
    #[must_use]
    pub fn next_request(&self, retry: RetryInterval) -> Instant {
        match self.attempts {
            0 => self.found,
            attempts => {
                let unheeded = attempts.saturating_sub(self.hastened).max(1);
                self.asked.after(retry.after(unheeded))
            }
        }
    }

    /// Only its cachers are left: they get their time from now on, however long ago it was found,
    /// and are all asked: who missed it before may have got it since.
    pub fn renew(&mut self, now: Instant) {
        self.silent_since = now;
        self.attempts = 0;
        self.hastened = 0;
        self.early = false;
        self.refused = false;
        self.known_missing = 0;
        self.absent = 0;
        self.let_go = false;
    }

    /// The cachers known to miss it; `alone`: the sender is dead or cannot be asked. Then it is given up
    /// only by their own word (R-NAK-8).
    #[must_use]
    pub fn missing_at(&self, alone: bool) -> u32 {
        match alone {
            true => self.absent,
            false => self.known_missing,
        }
    }

    /// It is to be asked for as if it had just been found: those asked so far were the wrong ones.
    pub fn restart(&mut self, now: Instant) {
        self.renew(now);
        self.due = now;
    }

    /// This member is asked for it; `None`: the sender.
    pub fn ask(&mut self, now: Instant, of: Option<MemberIndex>) {
        self.asked_before = self.asked;
        self.asked = now;
        self.asked_of = of;
        self.put_off = None;
        self.refused = false;
        self.crowded_out = false;
        self.attempts = self.attempts.saturating_add(1);
        self.hastened += u8::from(core::mem::take(&mut self.early));
    }

    /// It has come and found no room: it waits for some, until `due`, and nobody was silent.
    pub fn crowd_out(&mut self, due: Instant) {
        self.hastened = self.attempts;
        self.early = false;
        self.refused = true;
        self.crowded_out = true;
        self.due = due;
    }

    /// The numbers.
    #[must_use]
    pub fn range(&self) -> SeqRange {
        SeqRange::new(self.first, self.last).unwrap_or_else(|| SeqRange::one(self.first))
    }
}

/// The gaps of one stream, ascending.
#[derive(Debug, Default)]
pub struct Gaps {
    gaps: VecDeque<Gap>,
}

impl Gaps {
    /// Most gaps of a stream: 5 % loss in a window of 64 Ki packets. Beyond it, packets that
    /// would open another gap are dropped, and found missing again later.
    pub const MAX: usize = 4096;

    /// All gaps, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &Gap> {
        self.gaps.iter()
    }

    /// The same, to change their histories (not their numbers).
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Gap> {
        self.gaps.iter_mut()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.gaps.len()
    }

    /// Whether nothing is missing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    /// Whether there is no room for another gap.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.gaps.len() >= Self::MAX
    }

    /// First missing number.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.gaps.front().map(|gap| gap.first)
    }

    /// The first missing number that is not below this one.
    #[must_use]
    pub fn at_or_after(&self, sequence: u64) -> Option<u64> {
        let at = self.gaps.partition_point(|gap| gap.last < sequence);
        self.gaps.get(at).map(|gap| gap.first.max(sequence))
    }

    /// How many packets have been asked for and may still come: not longer ago than `retry`, the
    /// time to the first retry. Later ones are rarer, and what is only waited for is not on its way.
    #[must_use]
    pub fn asked(&self, now: Instant, retry: Duration) -> u64 {
        let asked = self.gaps.iter();
        let waits = |gap: &&Gap| gap.attempts > 0 && !gap.refused && gap.asked.after(retry) > now;
        let asked = asked.filter(waits);
        asked.map(|gap| gap.last - gap.first + 1).sum()
    }

    /// The gap that holds this number.
    #[must_use]
    pub fn find(&self, sequence: u64) -> Option<&Gap> {
        self.position(sequence).map(|at| &self.gaps[at])
    }

    /// The same, to change its history.
    pub fn find_mut(&mut self, sequence: u64) -> Option<&mut Gap> {
        self.position(sequence).map(|at| &mut self.gaps[at])
    }

    /// A new gap above all others, to be asked for when `due`. The caller has checked that there
    /// is room and that it lies above all others.
    pub fn append(&mut self, range: SeqRange, now: Instant, due: Instant) {
        debug_assert!(self.gaps.back().is_none_or(|gap| gap.last < range.first()));
        self.gaps.push_back(Gap::new(range, now, due));
    }

    /// A number that had arrived has been crowded out, and is missing again until `due`. The caller has
    /// checked that there is room and that it was not missing.
    pub fn reopen(&mut self, sequence: u64, now: Instant, due: Instant) {
        let at = self.gaps.partition_point(|gap| gap.last < sequence);
        debug_assert!(self.gaps.get(at).is_none_or(|gap| gap.first > sequence));
        let mut gap = Gap::new(SeqRange::one(sequence), now, due);
        gap.crowded_out = true;
        self.gaps.insert(at, gap);
    }

    /// The number has arrived: it is missing no more. Returns the history of its gap, or `None`
    /// if it was not missing.
    pub fn fill(&mut self, sequence: u64) -> Option<Gap> {
        let at = self.position(sequence)?;
        let gap = self.gaps[at];
        match (gap.first == sequence, gap.last == sequence) {
            (true, true) => {
                self.gaps.remove(at);
            }
            (true, false) => self.gaps[at].first += 1,
            (false, true) => self.gaps[at].last -= 1,
            (false, false) => {
                self.gaps[at].last = sequence - 1;
                self.gaps.insert(
                    at + 1,
                    Gap {
                        first: sequence + 1,
                        ..gap
                    },
                );
            }
        }
        Some(gap)
    }

    /// Cuts the gap that holds `first - 1` and `first` in two, so that the parts can have
    /// different histories. Does nothing when full.
    pub fn split_before(&mut self, first: u64) {
        let Some(at) = self.position(first) else {
            return;
        };
        let gap = self.gaps[at];
        if gap.first == first || self.is_full() {
            return;
        }
        self.gaps[at].last = first - 1;
        self.gaps.insert(at + 1, Gap { first, ..gap });
    }

    /// Cuts gaps at both ends of this range, so that what is missing within can have a history of
    /// its own; as far as there is room.
    pub fn cut_out(&mut self, range: SeqRange) {
        self.split_before(range.first());
        self.split_before(range.last().saturating_add(1));
    }

    /// Makes the first of the gaps due that wait for room, as far as there is `room`. Returns how much
    /// is left of it.
    pub fn take_up(&mut self, now: Instant, mut room: u64) -> u64 {
        for gap in self.gaps.iter_mut().filter(|gap| gap.put_off.is_some()) {
            if room == 0 {
                break;
            }
            gap.put_off = None;
            gap.due = gap.due.min(now);
            room = room.saturating_sub(gap.last - gap.first + 1);
        }
        room
    }

    /// Makes due what has been crowded out, as far as there is `room` for it and for what is missing
    /// before it; the `next` packet in turn needs none. Returns whether the rest has to wait.
    pub fn take_up_crowded_out(&mut self, now: Instant, next: u64, mut room: u64) -> bool {
        for gap in &mut self.gaps {
            if room == 0 && gap.first != next {
                return true;
            }
            if core::mem::take(&mut gap.crowded_out) {
                gap.due = gap.due.min(now);
            }
            room = room.saturating_sub(gap.last - gap.first + 1);
        }
        false
    }

    /// Forgets everything up to and including `sequence`.
    pub fn forget_upto(&mut self, sequence: u64) {
        while let Some(gap) = self.gaps.front_mut() {
            if gap.last <= sequence {
                self.gaps.pop_front();
                continue;
            }
            gap.first = gap.first.max(sequence + 1);
            return;
        }
    }

    /// Forgets `sequence` and everything above it.
    pub fn forget_from(&mut self, sequence: u64) {
        while let Some(gap) = self.gaps.back_mut() {
            if gap.first >= sequence {
                self.gaps.pop_back();
                continue;
            }
            gap.last = gap.last.min(sequence - 1);
            return;
        }
    }

    /// When the next request or retry is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.gaps.iter().map(|gap| gap.due).min()
    }

    fn position(&self, sequence: u64) -> Option<usize> {
        let at = self.gaps.partition_point(|gap| gap.last < sequence);
        (self.gaps.get(at)?.first <= sequence).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Random, Seed};

    fn numbers(gaps: &Gaps) -> BTreeSet<u64> {
        gaps.iter().flat_map(|gap| gap.first..=gap.last).collect()
    }

    // Rule R-NAK-10.
    #[test]
    fn what_was_refused_is_not_on_its_way() {
        let (now, retry) = (Instant(5_000_000), Duration::from_millis(2));
        let mut gaps = Gaps::default();
        gaps.append(SeqRange::one(7), now, now);
        let asked = |gaps: &Gaps| gaps.asked(now, retry);
        gaps.iter_mut()
            .for_each(|gap| gap.ask(now, Some(MemberIndex(1))));
        assert_eq!(asked(&gaps), 1);
        gaps.iter_mut().for_each(|gap| gap.refused = true);
        assert_eq!(asked(&gaps), 0);
        gaps.iter_mut()
            .for_each(|gap| gap.ask(now, Some(MemberIndex(2))));
        assert_eq!(asked(&gaps), 1, "another one may have it");
    }

    // Rule R-NAK-10.
    #[test]
    fn what_was_put_off_is_due_as_far_as_there_is_room() {
        let (now, later) = (Instant(5_000_000), Instant(300_000_000));
        let mut gaps = Gaps::default();
        for first in [1, 11, 21, 31] {
            let range = SeqRange::new(first, first + 4).unwrap();
            gaps.append(range, now, later);
        }
        for first in [11, 21, 31] {
            gaps.find_mut(first).unwrap().put_off = Some(Instant(0));
        }
        assert_eq!(gaps.take_up(now, 7), 0);
        let due = |gaps: &Gaps| gaps.iter().map(|gap| gap.due <= now).collect::<Vec<_>>();
        assert_eq!(due(&gaps), [false, true, true, false]);
        assert_eq!(gaps.take_up(now, 7), 2);
        assert_eq!(due(&gaps), [false, true, true, true]);
        assert_eq!(gaps.take_up(now, 7), 7, "nothing waits any more");
    }

    // Rule R-DATA-9.
    #[test]
    fn what_was_crowded_out_is_due_when_there_is_room_or_when_its_turn_has_come() {
        let (now, later) = (Instant(5_000_000), Instant(500_000_000));
        let mut gaps = Gaps::default();
        gaps.append(SeqRange::new(1, 4).unwrap(), Instant(0), later);
        gaps.reopen(6, Instant(0), later);
        gaps.reopen(8, Instant(0), later);
        let gap = gaps.find_mut(8).unwrap();
        gap.ask(Instant(0), None);
        gap.crowd_out(later);
        let due = |gaps: &Gaps| gaps.iter().map(|gap| gap.due <= now).collect::<Vec<_>>();
        assert!(gaps.take_up_crowded_out(now, 1, 0));
        assert!(gaps.take_up_crowded_out(now, 1, 4), "for what is missing");
        assert_eq!(due(&gaps), [false, false, false]);
        assert!(gaps.take_up_crowded_out(now, 1, 5));
        assert_eq!(due(&gaps), [false, true, false]);
        for number in 1..=6 {
            gaps.fill(number);
        }
        assert!(gaps.take_up_crowded_out(now, 7, 0), "not its turn");
        assert!(!gaps.take_up_crowded_out(now, 8, 0));
        assert_eq!(due(&gaps), [true]);
    }

    // Rules R-DATA-9, R-NAK-10.
    #[test]
    fn what_was_crowded_out_is_not_on_its_way_and_nobody_was_silent() {
        let retry = RetryInterval {
            first: Duration::from_millis(2),
            steady: 1,
        };
        let mut gaps = Gaps::default();
        gaps.append(SeqRange::one(1), Instant(0), Instant(0));
        let gap = gaps.find_mut(1).unwrap();
        (0..4).for_each(|_| gap.ask(Instant(0), None));
        gap.crowd_out(Instant(500_000_000));
        assert_eq!(gap.next_request(retry), Instant(2_000_000));
        assert_eq!(gaps.asked(Instant(1), retry.first), 0);
    }

    // Rule R-NAK-13.
    #[test]
    fn requests_made_early_do_not_make_the_next_ones_rarer() {
        let retry = RetryInterval {
            first: Duration::from_millis(2),
            steady: 1,
        };
        let mut gaps = Gaps::default();
        gaps.append(SeqRange::one(1), Instant(0), Instant(0));
        let gap = gaps.find_mut(1).unwrap();
        gap.ask(Instant(0), None);
        for _ in 0..3 {
            gap.early = true;
            gap.ask(Instant(0), None);
            assert_eq!(gap.next_request(retry), Instant(2_000_000));
        }
        gap.ask(Instant(0), None);
        assert_eq!(gap.next_request(retry), Instant(4_000_000));
        let unsteady = RetryInterval { steady: 3, ..retry };
        assert_eq!(gap.next_request(unsteady), Instant(2_000_000));
        gap.renew(Instant(7));
        gap.ask(Instant(7), None);
        assert_eq!(gap.next_request(retry), Instant(2_000_007));
    }

    // Rule R-NAK-8.
    #[test]
    fn when_only_cachers_are_left_all_of_them_are_asked_again() {
        let mut gaps = Gaps::default();
        gaps.append(SeqRange::one(1), Instant(0), Instant(5));
        let gap = gaps.find_mut(1).unwrap();
        (gap.known_missing, gap.let_go, gap.attempts) = (0b11, true, 9);
        gap.renew(Instant(7));
        assert_eq!((gap.known_missing, gap.let_go, gap.attempts), (0, false, 0));
        assert_eq!((gap.silent_since, gap.due), (Instant(7), Instant(5)));
    }

    // Rule R-NAK-10.
    #[test]
    fn a_retry_that_is_put_off_is_not_on_its_way() {
        let retry = Duration::from_millis(2);
        let mut gaps = Gaps::default();
        gaps.append(SeqRange::new(1, 8).unwrap(), Instant(0), Instant(0));
        assert_eq!(gaps.asked(Instant(0), retry), 0);
        let gap = gaps.find_mut(1).unwrap();
        gap.attempts = 1;
        assert_eq!(gaps.asked(Instant(1_000_000), retry), 8);
        gaps.find_mut(1).unwrap().due = Instant(9_000_000);
        assert_eq!(gaps.asked(Instant(2_000_000), retry), 0);
        // Nor is one that is rare because it has been asked for in vain.
        gaps.find_mut(1).unwrap().attempts = 7;
        assert_eq!(gaps.asked(Instant(1_000_000), retry), 8);
        assert_eq!(gaps.asked(Instant(2_000_000), retry), 0);
    }

    #[test]
    fn equal_a_set_of_numbers_under_random_operations() {
        let mut random = Random::new(Seed(1), "gaps");
        for _ in 0..200 {
            let mut gaps = Gaps::default();
            let mut model = BTreeSet::new();
            let mut top = 0;
            for _ in 0..200 {
                match random.below(7) {
                    0 | 1 => {
                        let first = top + 1 + random.below(4);
                        let last = first + random.below(8);
                        gaps.append(SeqRange::new(first, last).unwrap(), Instant(0), Instant(0));
                        model.extend(first..=last);
                        top = last;
                    }
                    2 => {
                        let sequence = random.below(top + 2);
                        assert_eq!(gaps.fill(sequence).is_some(), model.remove(&sequence));
                    }
                    3 => gaps.split_before(random.below(top + 2)),
                    4 => {
                        let sequence = 1 + random.below(top + 1);
                        model
                            .insert(sequence)
                            .then(|| gaps.reopen(sequence, Instant(0), Instant(0)));
                        top = top.max(sequence);
                    }
                    5 => {
                        let from = (top + 1).saturating_sub(random.below(4)).max(1);
                        gaps.forget_from(from);
                        model.retain(|sequence| *sequence < from);
                        top = top.min(from - 1);
                    }
                    _ => {
                        let upto = random.below(top + 2) / 4;
                        gaps.forget_upto(upto);
                        model.retain(|sequence| *sequence > upto);
                    }
                }
                assert_eq!(numbers(&gaps), model);
                assert_eq!(gaps.first(), model.first().copied());
            }
        }
    }

    // Rule R-NAK-6.
    #[test]
    fn three_waiters_make_a_loss_widespread() {
        let mut waiters = Waiters::default();
        for member in [1, 1, 2] {
            waiters.add(MemberIndex(member));
        }
        assert!(!waiters.widespread());
        waiters.add(MemberIndex(3));
        assert!(waiters.widespread());
        assert_eq!(waiters.members().len(), 3);
    }
}
