//! The way back of a member that is away (R-VIEW-14): it asks live members how far streams go,
//! repairs what it has missed, and says so to the membership service.
//!
//! ```text
//!               asks three             all have answered              has all that they named
//!   Pausing ───────────────► Asking ─────────────────────► Repairing ────────────┬─► says CaughtUp
//!      ▲               ▲       │ one stays silent                                │       │
//!      │               └───────┴───────────────────────── it took too long ──────┘       │
//!      └──────────────────────────── nothing comes of it ────────────────────────────────┘
//! ```
//!
//! Whoever says CaughtUp is as far as the others were a moment ago, hears them, and is heard by
//! them. Until its next view no member waits for it.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use qsm_wire::{CatchUp, Origin, Summary, SummarySlot, TAIL_BYTES, ViewNumber};

use super::{Region, RegionCx};
use crate::receive::{ReceiveStream, StreamMarks};
use crate::{Destination, Event, Instant, Reason};

/// Members asked at a time: one may be the only one that hears this node, and all are too many.
const ASKED: usize = 3;
/// Time after which those that have not answered are asked again, doubling, or the first retry of a
/// request if that is longer.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// Questions to a member, after which others are asked.
const QUESTIONS: u32 = 5;
/// Age of an answer that still tells how far the others are; where they are far away, twice the
/// time that the answers took.
const FRESH: Duration = Duration::from_millis(200);
/// The longest way to a member and back. An answer that took longer waited here for a node that stood
/// still or was slow, and tells how far the others were long ago.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// Pause between two looks at what is still missing.
const LOOK: Duration = Duration::from_millis(5);
/// Pause before all begins again: the membership service has not made it live, or it still repairs
/// and is to learn what has become stable.
const REPEAT: Duration = Duration::from_millis(500);
/// Questions are told from rounds, whose results come as the same packets.
const NONCE_FIRST: u64 = 1 << 63;
/// Streams of others remembered at once, as many as a node receives.
const EXTENTS_MAX: usize = 1024;

/// The word of a member that was away that it has caught up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaughtUpWord {
    /// The view whose live members it has asked, and that the word names.
    pub asked_in: ViewNumber,
    /// The newest view that it knew then: who was no live member of that any more it did not wait for.
    pub known: ViewNumber,
    /// When it had asked them.
    pub asked_at: Instant,
}

/// The search of a member that is away for what it has missed.
#[derive(Debug)]
pub(super) struct Absence {
    step: ReturnStep,
    due: Instant,
    /// When this node was heard last, as far as it knows.
    since: Instant,
    nonce: u64,
    asked_at: Instant,
    /// The newest view then: its live members are asked.
    asked_in: ViewNumber,
    /// Time that the last answer took.
    answered_in: Duration,
    /// Members that have yet to answer.
    silent: Vec<Origin>,
    /// How far streams go, as those said that have answered.
    extents: BTreeMap<Origin, u64>,
    /// Senders that alone have something of theirs, and of which this node has heard nothing. Those
    /// that are not there, or nobody knows where, say it when this node is live again; what others have
    /// of theirs is waited for.
    unheard: BTreeSet<Origin>,
    /// Numbers up to which somebody who knows has said in which views streams were sent.
    placed: BTreeMap<Origin, u64>,
}

/// The picture of the [module](self) has these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReturnStep {
    /// Asks when it is due.
    Pausing,
    /// Has asked so many times.
    Asking(u32),
    /// Everybody has answered.
    Repairing,
}

impl Absence {
    fn new(now: Instant, since: Instant) -> Self {
        Self {
            step: ReturnStep::Pausing,
            due: now,
            since,
            nonce: NONCE_FIRST,
            asked_at: now,
            asked_in: ViewNumber::default(),
            answered_in: Duration::ZERO,
            silent: Vec::new(),
            extents: BTreeMap::new(),
            unheard: BTreeSet::new(),
            placed: BTreeMap::new(),
        }
    }

    /// When there is something to do.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Whether the answers still tell how far the others are.
    fn is_fresh(&self, now: Instant) -> bool {
        now.since(self.asked_at) <= FRESH.max(self.twice_the_way())
    }

    fn twice_the_way(&self) -> Duration {
        2 * self.answered_in.min(ANSWER_MAX)
    }

    /// Tells whether more has become stable since, by all likelihood: what this node keeps of it takes the
    /// room of what it misses.
    fn is_old(&self, now: Instant) -> bool {
        now.since(self.asked_at) > REPEAT.max(self.twice_the_way())
    }

    fn enter(&mut self, step: ReturnStep, due: Instant) {
        (self.step, self.due) = (step, due);
    }

    fn heard(&mut self, now: Instant, member: Origin) {
        let before = self.silent.len();
        self.silent.retain(|origin| *origin != member);
        if before > 0 && self.silent.is_empty() {
            self.answered_in = now.since(self.asked_at);
            self.enter(ReturnStep::Repairing, now);
        }
    }

    /// Follows a new view: who is no live member any more will not answer. If nobody else has yet to,
    /// all begins again.
    fn wait_only_for(&mut self, now: Instant, is_live: impl Fn(Origin) -> bool) {
        let before = self.silent.len();
        self.silent.retain(|origin| is_live(*origin));
        if before > 0 && self.silent.is_empty() {
            self.enter(ReturnStep::Pausing, now);
        }
    }

    /// End of a stream, by the answers so far.
    pub(super) fn extent_of(&self, sender: Origin) -> Option<u64> {
        self.extents.get(&sender).copied()
    }

    fn note(&mut self, slot: &SummarySlot) {
        if self.extents.len() < EXTENTS_MAX {
            let highest = self.extents.entry(slot.origin).or_default();
            *highest = slot.cutoff.max(*highest);
        }
    }
}

impl RegionCx<'_> {
    /// Follows a new view: this node may be away from now on, or back; `returned`: members are live
    /// in it that were not before.
    pub(super) fn follow_absence(&mut self, returned: bool) {
        let now = self.node.now;
        let region = self.region.id();
        match (self.region.history.away(), &mut self.region.absence) {
            (Some(_), Some(absence)) => {
                let view = self.region.history.newest();
                absence.wait_only_for(now, |origin| {
                    view.index_of(origin).is_some_and(|at| view.is_live(at))
                });
            }
            (Some(reason), None) => {
                let since = self.membership.silent_since(now).unwrap_or(now);
                self.region.absence = Some(Absence::new(now, since));
                self.node.events.push(Event::Away { region, reason });
            }
            (None, Some(absence)) => {
                let away = now.since(absence.since);
                self.region.absence = None;
                self.node.events.push(Event::Back { region, away });
            }
            (None, None) => {}
        }
        self.retain_for_others(returned);
    }

    /// Keeps packets while members other than this one are away, and then until rounds in which
    /// all take part say that everybody has them. Rule R-VIEW-13.
    fn retain_for_others(&mut self, returned: bool) {
        let region = &mut *self.region;
        let view = region.history.newest();
        let away = view.away_members();
        let others = away.iter().any(|member| member.origin != self.node.origin);
        region.others_away = others && self.node.config.limits.retention_bytes > 0;
        for (sender, stream) in &mut region.streams {
            if region.others_away {
                stream.begin_retaining();
            } else {
                let (stable_upto, _) = region.ring.watermarks(*sender);
                stream.release_retained(stable_upto, &mut self.node.store);
            }
        }
        let known = region.served.knows(view);
        let Some(sender) = &mut region.sender else {
            return;
        };
        if region.others_away {
            sender.begin_retaining();
        }
        if returned || !region.others_away && known {
            sender.await_returned();
        }
        if !region.others_away && known {
            sender.confirm_retained(self.pool, 0, false);
        }
    }

    /// Does what is due on the way back.
    pub(crate) fn return_from_absence(&mut self) {
        let now = self.node.now;
        let due = self.region.absence.as_ref().filter(|one| one.due <= now);
        let Some((step, fresh, old)) =
            due.map(|one| (one.step, one.is_fresh(now), one.is_old(now)))
        else {
            return;
        };
        if self.region.streams().any(ReceiveStream::is_stopped) {
            // Others would wait again for readers that take no more.
            self.enter(ReturnStep::Pausing, REPEAT);
            return;
        }
        match step {
            ReturnStep::Asking(times) if times < QUESTIONS => self.ask_silent(times),
            ReturnStep::Repairing if !old && !self.has_caught_up() => {
                self.ask_without_ring();
                self.enter(ReturnStep::Repairing, LOOK);
            }
            ReturnStep::Repairing if fresh => {
                self.say_caught_up();
                self.enter(ReturnStep::Pausing, REPEAT);
            }
            _ => self.begin_asking(),
        }
    }

    /// Passes over a stream without a packet for this node: those up to `highest` were sent before
    /// it came, and it has none of them to catch up with.
    pub(super) fn pass_over_foreign(&mut self, sender: Origin, highest: u64) {
        let region = &mut *self.region;
        let Some(joined) = region.history.joined() else {
            return;
        };
        region.passed.note(joined, sender, highest);
        let Some(absence) = &mut region.absence else {
            if region.ring.cutoff(sender) <= highest && !region.awaits(sender) {
                region.queries.remove(&sender);
            }
            return;
        };
        let extent = absence.extents.get(&sender);
        if extent.is_some_and(|extent| *extent <= highest) {
            absence.extents.remove(&sender);
            region.queries.remove(&sender);
        }
    }

    /// Only this sender can repair something: if nothing is heard of it, that is passed over unless
    /// it is a live member.
    pub(super) fn pass_over_unheard(&mut self, sender: Origin) {
        if let Some(absence) = &mut self.region.absence
            && absence.unheard.len() < EXTENTS_MAX
        {
            absence.unheard.insert(sender);
        }
    }

    /// Tells whether it is clear in which views a stream was sent up to a number, and so who caches it. A
    /// node that was away when views began does not know where, and asks before it gives up
    /// anything. Rule R-VIEW-14.
    pub(super) fn is_placed(&mut self, sender: Origin, upto: u64) -> bool {
        let region = &mut *self.region;
        let Some(absence) = &region.absence else {
            return true;
        };
        let placed = absence.placed.get(&sender);
        if placed.is_some_and(|placed| *placed >= upto) {
            return true;
        }
        let stream = region.streams.get(&sender);
        let address = stream.and_then(ReceiveStream::sender_address);
        region.ask_later(self.node.now, address, sender);
        false
    }

    fn enter(&mut self, step: ReturnStep, pause: Duration) {
        let due = self.node.now.after(pause);
        if let Some(absence) = &mut self.region.absence {
            absence.enter(step, due);
        }
    }

    /// Without the fast plane the rings bring what is missing, and this node is in none.
    fn ask_without_ring(&mut self) {
        if self.node.fast() {
            return;
        }
        let senders: Vec<Origin> = self.region.streams.keys().copied().collect();
        for sender in senders {
            self.ask_around(sender, u64::MAX);
        }
    }

    /// Has everything that those who answered named, or given it up.
    fn has_caught_up(&self) -> bool {
        let region = &*self.region;
        let Some(absence) = &region.absence else {
            return true;
        };
        let waits = |(sender, highest): (&Origin, &u64)| match region.streams.get(sender) {
            Some(stream) if absence.unheard.contains(sender) => {
                let there = stream.sender_address().is_some() || region.history.takes_part(*sender);
                let left = !there && stream.is_left_to_sender(*highest);
                stream.contiguous() < *highest && !left
            }
            Some(stream) => stream.contiguous() < *highest,
            None => region.queries.contains_key(sender),
        };
        !absence.extents.iter().any(waits)
    }

    /// Names the view whose live members it has asked: in a newer one there may be some that it has not.
    fn say_caught_up(&mut self) {
        let Some(absence) = &self.region.absence else {
            return;
        };
        let (asked_in, asked_at) = (absence.asked_in, absence.asked_at);
        let (id, now) = (self.region.id(), self.node.now);
        self.region.said_caught_up = Some(CaughtUpWord {
            asked_in,
            asked_at,
            known: self.region.history.newest().number(),
        });
        self.membership
            .caught_up(now, id, asked_in, &mut self.node.outbox);
    }

    /// Chooses the region's leader, and members that change with each choice; asks them.
    fn begin_asking(&mut self) {
        let now = self.node.now;
        let view = self.region.history.newest();
        let live = view.live_members();
        let Some(absence) = &mut self.region.absence else {
            return;
        };
        absence.nonce += 1;
        (absence.asked_at, absence.asked_in) = (now, view.number());
        absence.extents.clear();
        let leader = view.leader().map_or(0, |at| usize::from(at.0));
        let turn = usize::try_from(absence.nonce - NONCE_FIRST).unwrap_or(0);
        let others = (0..live.len()).map(|step| (turn + step) % live.len());
        let others = others.filter(|at| *at != leader);
        let asked = core::iter::once(leader).chain(others).take(ASKED);
        let asked = asked.filter_map(|at| live.get(at));
        absence.silent = asked.map(|member| member.origin).collect();
        match absence.silent.is_empty() {
            // Nobody is there who could know anything.
            true => {
                absence.answered_in = Duration::ZERO;
                absence.enter(ReturnStep::Repairing, now);
            }
            false => self.ask_silent(0),
        }
    }

    fn ask_silent(&mut self, times: u32) {
        let header = self.node.header();
        let view = self.region.history.newest();
        let Some(absence) = &mut self.region.absence else {
            return;
        };
        let question = CatchUp {
            region: view.region(),
            view: view.number(),
            nonce: absence.nonce,
        };
        for origin in &absence.silent {
            let member = view.index_of(*origin).and_then(|at| view.member(at));
            let Some(to) = member.map(|member| Destination::Node(member.address)) else {
                continue;
            };
            let outbox = &mut self.node.outbox;
            outbox.push(Reason::Status, to, |bytes| question.encode(&header, bytes));
        }
        let again = (ASK_AGAIN * (1 << times)).max(self.node.retry());
        self.enter(ReturnStep::Asking(times + 1), again);
    }

    /// Tells a member that is away how far streams go, as a live one.
    pub(crate) fn take_catch_up(&mut self, asker: Origin, question: &CatchUp) {
        let region = &*self.region;
        let view = region.history.newest();
        let asker = view.index_of(asker).and_then(|at| view.member(at));
        let Some(asker) = asker.filter(|_| region.member() && !region.history.is_away()) else {
            self.node.stats.discard_stranger += 1;
            return;
        };
        let known = region.streams.iter();
        let known = known.map(|(sender, stream)| {
            let ring = region.ring.cutoff(*sender);
            (*sender, stream.told_upto().max(ring))
        });
        let own = region.sender.as_ref();
        let own = own.map(|sender| (self.node.origin, sender.highest()));
        let extents = known.chain(own).filter(|(_, highest)| *highest > 0);
        let slots: Vec<SummarySlot> = extents
            .map(|(origin, cutoff)| region.slot(origin, cutoff))
            .collect();
        let room = self.node.config.datagram_bytes.saturating_sub(TAIL_BYTES);
        let slots_max = Summary::slots_within(room);
        let (header, to) = (self.node.header(), Destination::Node(asker.address));
        // An answer without streams is one, too.
        for part in slots
            .chunks(slots_max)
            .chain(slots.is_empty().then_some(&[][..]))
        {
            self.node.outbox.push(Reason::Status, to, |bytes| {
                let slots = part.iter().copied();
                let (id, number) = (question.region, view.number());
                Summary::encode(&header, id, number, question.nonce, slots, bytes);
            });
        }
    }

    /// Takes the answer of a live member. A part of it that is lost is made up for by the next
    /// question, or by what the streams themselves say.
    pub(super) fn take_extents(&mut self, member: Origin, answer: &Summary<'_>) {
        let now = self.node.now;
        let Some(absence) = &mut self.region.absence else {
            return;
        };
        if answer.round != absence.nonce {
            return;
        }
        absence.heard(now, member);
        let joined = self.region.history.joined().unwrap_or_default();
        for slot in answer.slots() {
            if slot.cutoff > self.region.passed.upto(joined, slot.origin) {
                absence.note(&slot);
            }
        }
        let me = self.node.origin;
        for slot in answer.slots().filter(|slot| slot.origin != me) {
            if let Some(stream) = self.region.streams.get_mut(&slot.origin) {
                stream.announce(now, slot.cutoff);
                self.region.note_unproven_age(now, me, slot.origin);
                if let Some(marks) = credible_marks(&slot) {
                    self.purge_stable(slot.origin, marks);
                }
            } else if self.waits_for(slot.origin) {
                self.place_unknown(slot.origin);
            }
        }
    }

    fn waits_for(&self, sender: Origin) -> bool {
        let absence = self.region.absence.as_ref();
        absence.is_some_and(|absence| absence.extents.contains_key(&sender))
    }
}

impl Region {
    /// Somebody who knows has said which views begin in a stream up to a number. What is missing
    /// there is asked for anew: others may have been taken for its cachers.
    pub(super) fn place(&mut self, now: Instant, sender: Origin, upto: u64) {
        let (Some(absence), Some(stream)) = (&mut self.absence, self.streams.get_mut(&sender))
        else {
            return;
        };
        let placed = absence.placed.entry(sender).or_default();
        if *placed < upto {
            stream.restart_above(now, *placed);
            *placed = upto;
        }
    }

    /// Extent of a stream, and how far the region has got with it.
    fn slot(&self, origin: Origin, cutoff: u64) -> SummarySlot {
        let (stable_upto, cached_upto) = self.ring.watermarks(origin);
        SummarySlot {
            origin,
            cutoff,
            stable_upto,
            cached_upto,
        }
    }
}

/// Watermarks of a stream as a member says, unless they cannot be so.
fn credible_marks(slot: &SummarySlot) -> Option<StreamMarks> {
    let ordered = slot.stable_upto <= slot.cached_upto && slot.cached_upto <= slot.cutoff;
    ordered.then_some(StreamMarks {
        stable_upto: slot.stable_upto,
        cached_upto: slot.cached_upto,
    })
}

#[cfg(test)]
mod tests {
    use qsm_wire::{Incarnation, NodeId};

    use super::*;

    fn member(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    // Rule R-VIEW-14.
    #[test]
    fn begins_again_when_all_that_have_yet_to_answer_are_live_no_more() {
        let mut absence = Absence::new(Instant(0), Instant(0));
        absence.silent = vec![member(1), member(2)];
        absence.enter(ReturnStep::Asking(1), Instant(100));
        absence.wait_only_for(Instant(1), |origin| origin != member(1));
        let waits = (absence.step, absence.due, absence.silent.as_slice());
        assert_eq!(
            waits,
            (ReturnStep::Asking(1), Instant(100), &[member(2)][..])
        );
        absence.wait_only_for(Instant(2), |_| false);
        assert_eq!(
            (absence.step, absence.due),
            (ReturnStep::Pausing, Instant(2))
        );
        // Who waits for no answer is not hurried.
        absence.enter(ReturnStep::Repairing, Instant(200));
        absence.wait_only_for(Instant(3), |_| false);
        assert_eq!(absence.due, Instant(200));
    }
}
