mod asking;
mod blocks;
mod delivery;
mod numbers;
mod pause;
mod prompt;
mod proof;
mod reach;
mod receipt;
mod repaired;
mod retention;
mod rights;
mod room;
mod sender;

use core::time::Duration;
use std::collections::VecDeque;

use qsm_wire::{
    AbsentCause, Data, DataHeader, Hop, MemberIndex, Opening, SeqRange, StreamId, ViewNumber,
};

use self::blocks::HeldBlocks;
use self::numbers::LostNumbers;
use self::prompt::Walks;
use self::proof::StreamProof;
use self::sender::Sender;
use super::early::EarlyPackets;
use super::reassembly::Reassembly;
use super::{
    Datagram, Gap, Gaps, Incoming, OvertakenRequests, PacketPlace, PacketStore, StreamContext,
    Waiters,
};
use crate::history::{Duty, History};
use crate::ranges::append_own;
use crate::ring::Report;
use crate::{Instant, Stats};

pub(crate) use self::numbers::AnswerWorth;

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Taken; it was new and nobody waits for it here.
    Taken,
    /// Taken; it was missing, and these members wait for it here.
    Awaited(Waiters),
    /// Known already, or not for this node, or no room, or not its sender's: counted, nothing changed.
    Dropped,
}

impl Arrival {
    fn of(waiters: Waiters) -> Self {
        match waiters.is_empty() {
            true => Self::Taken,
            false => Self::Awaited(waiters),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PacketState {
    Missing,
    /// Received, and its bytes are not needed any more.
    Received,
    /// Received and kept: undelivered, or cached here.
    Kept(PacketPlace),
    /// Given up: nobody has it.
    Lost,
    /// Given up: its messages had expired before it came (R-DATA-14).
    Expired,
}

impl PacketState {
    fn is_given_up(self) -> bool {
        matches!(self, Self::Lost | Self::Expired)
    }
}

/// One sender's packets on one channel, as received here.
///
/// `base ≤ delivered ≤ contiguous ≤ highest`; slots exist for `base+1..=highest`; the gaps are
/// exactly the missing slots.
#[derive(Debug)]
pub struct ReceiveStream {
    id: StreamId,
    /// First number this node is concerned with.
    start: u64,
    base: u64,
    delivered: u64,
    contiguous: u64,
    highest: u64,
    /// Highest that came from the sender itself: what is above it may be in the kernel's buffer.
    arrived: u64,
    /// Highest that came from it by unicast, because its multicast does not come (R-REACH-4).
    copied: u64,
    slots: VecDeque<PacketState>,
    gaps: Gaps,
    /// Who waits here for packets above `highest`.
    early: EarlyPackets,
    /// Where views begin, ascending; the newest few.
    openings: Vec<Opening>,
    reassembly: Reassembly,
    marks: StreamMarks,
    /// Somebody is away: what is cached here is kept from above this number on, though it is
    /// stable.
    retained_from: Option<u64>,
    /// From the first to the last packet that this node should cache and has no room for, until
    /// they are stable.
    uncached: Option<SeqRange>,
    /// Something that came found no room or gave way, and may not have been asked for since.
    crowds_out: bool,
    /// Highest number that exists by the word of others: counted as missing only once all that
    /// has arrived here has been read (R074).
    announced: u64,
    /// The sender has said that it has nothing up to here any more.
    gone_upto: u64,
    /// The sender: where it is, whether it is dead.
    sender: Sender,
    /// Earliest time at which a gap may be due; may be too early, never too late.
    due: Instant,
    /// What has been answered, and what that says of what has not.
    overtaken: OvertakenRequests,
    /// When delivery was interrupted that can go on; [`Instant::NEVER`]: it was not.
    interrupted: Instant,
    /// Its messages wait for those of another region (R-VIEW-7), or did when delivery was tried last.
    held: bool,
    /// Delivery has stopped before the next packet, because readers take no more (R-DATA-13).
    stopped: bool,
    /// Packets that are kept until their block is whole.
    held_blocks: HeldBlocks,
    /// What was given up, and what its sender says of it.
    lost_numbers: Option<Box<LostNumbers>>,
    /// How far messages have been handed out ahead of their order.
    walks: Option<Box<Walks>>,
    /// Knowledge of its origin, if that is to be proven.
    proof: Option<Box<StreamProof>>,
    contiguous_at_close: u64,
}

/// How far a region has got with a stream, as its tokens say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamMarks {
    /// Everybody has everything up to here.
    pub stable_upto: u64,
    /// All cachers have their part up to here; at least `stable_upto`.
    pub cached_upto: u64,
}

/// Openings remembered per stream.
const OPENINGS_MAX: usize = 64;
/// Steps that a walk over the blocks of gaps may take before it settles for less.
const WALK_MAX: usize = 4096;

impl ReceiveStream {
    /// A stream of which this node is concerned with `start` and everything above. `marks`: what
    /// is known of it already, as for [`ReceiveStream::note_marks`]; this node may have been here
    /// before, and what is known is not said again.
    #[must_use]
    pub fn new(id: StreamId, start: u64, marks: StreamMarks) -> Self {
        let before = start.saturating_sub(1);
        Self {
            id,
            start,
            base: before,
            delivered: before,
            contiguous: before,
            highest: before,
            arrived: before,
            copied: before,
            slots: VecDeque::new(),
            gaps: Gaps::default(),
            early: EarlyPackets::default(),
            openings: Vec::new(),
            reassembly: Reassembly::default(),
            marks,
            retained_from: None,
            uncached: None,
            crowds_out: false,
            announced: 0,
            gone_upto: 0,
            sender: Sender::default(),
            due: Instant::NEVER,
            overtaken: OvertakenRequests::default(),
            interrupted: Instant::NEVER,
            held: false,
            stopped: false,
            held_blocks: HeldBlocks::default(),
            lost_numbers: None,
            walks: None,
            proof: None,
            contiguous_at_close: 0,
        }
    }

    /// Which stream.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Everything up to here has arrived, and is proven if it has to be, or is lost.
    #[must_use]
    pub fn contiguous(&self) -> u64 {
        self.deliverable()
    }

    /// First number that this node is concerned with.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Highest number that this node knows or is not concerned with.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Highest number known to have been sent. What comes before the first one that concerns this
    /// node may only have been numbered, and wait at the sender.
    #[must_use]
    pub fn sent(&self) -> u64 {
        if self.highest < self.start {
            self.highest.min(self.announced)
        } else {
            self.claimed()
        }
    }

    /// Whether the sender is dead and all that is known of its stream has arrived or is lost.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.sender.dead && self.gaps.is_empty() && !self.behind()
    }

    /// Whether the sender has been dead for that long and nothing is owed to anybody.
    #[must_use]
    pub fn over(&self, now: Instant, linger: Duration) -> bool {
        let kept = self.retained_from.is_some();
        self.sender.dead && !kept && self.settled() && now.since(self.sender.died) >= linger
    }

    /// Everything known is delivered and stable, or nothing is known that concerns this node:
    /// nothing is owed to anybody.
    #[must_use]
    pub fn settled(&self) -> bool {
        self.delivered == self.highest && !self.needs_rounds()
    }

    /// Whether something is missing, or not known to be stable. What has only to be delivered here no
    /// round can help.
    #[must_use]
    pub fn needs_rounds(&self) -> bool {
        let stable = self.marks.stable_upto >= self.claimed() || self.highest < self.start;
        !stable || self.contiguous < self.claimed() || self.behind()
    }

    /// What the token wants to know (R066). Packets of views that are newer than the ring's do
    /// not count: such views may have members that take no part in it yet.
    #[must_use]
    pub fn report(&self, history: &History) -> Report {
        let newest = history.newest().number();
        let newer = self.openings.iter().find(|opening| opening.view > newest);
        let end = newer.map_or(u64::MAX, |opening| opening.start.saturating_sub(1));
        let (proven, sent) = (end.min(self.reported_upto()), end.min(self.spoken_of()));
        let kept = if self.has_begun() { sent } else { 0 };
        Report {
            highest: self.sent(),
            arrived: self.arrived.max(self.copied).max(self.contiguous).min(sent),
            contiguous: self.accounted_upto().min(proven),
            // What is kept without proof counts: who misses a seal may have to get it from where others count on it.
            cached: self.cached(history).min(kept),
            missing: !self.gaps.is_empty(),
        }
    }

    /// Notes where a view begins.
    pub fn note_opening(&mut self, opening: Opening) {
        let at = self
            .openings
            .partition_point(|known| known.view < opening.view);
        if self
            .openings
            .get(at)
            .is_some_and(|known| known.view == opening.view)
        {
            return;
        }
        self.openings.insert(at, opening);
        if self.openings.len() > OPENINGS_MAX {
            self.openings.remove(0);
        }
    }

    /// The openings known, newest first.
    pub fn openings(&self) -> impl Iterator<Item = Opening> + '_ {
        self.openings.iter().rev().copied()
    }

    /// The view in which a packet was sent, as far as known.
    #[must_use]
    pub fn view_of(&self, sequence: u64, history: &History) -> ViewNumber {
        let openings = self.openings.iter().rev();
        openings
            .into_iter()
            .find(|opening| opening.start <= sequence)
            .map_or_else(|| history.newest().number(), |opening| opening.view)
    }

    /// First number that a node which left with view `left` need not deliver, once it is known.
    #[must_use]
    pub fn cut(&self, left: ViewNumber) -> Option<u64> {
        self.openings
            .iter()
            .find(|opening| opening.view >= left)
            .map(|opening| opening.start)
    }

    /// Whether a node that left with view `left` has everything that was sent to it before.
    #[must_use]
    pub fn drained(&self, left: ViewNumber) -> bool {
        let delivered = self.cut(left).is_some_and(|cut| self.delivered + 1 >= cut)
            || (self.over_at(self.highest) && self.delivered == self.highest && !self.behind());
        delivered && !self.has_numbers_to_tell()
    }

    /// Whether everybody has what was sent before view `left`: nobody needs this node's copies.
    #[must_use]
    pub fn handed_over(&self, left: ViewNumber) -> bool {
        let end = self.cut(left).map_or(self.highest, |cut| cut - 1);
        self.marks.stable_upto >= end.min(self.highest)
    }

    /// Takes a data packet of this stream. Rule R-DATA-8.
    pub fn take(
        &mut self,
        incoming: &Incoming<'_>,
        history: &History,
        held: bool,
        context: &mut StreamContext<'_>,
    ) -> Arrival {
        let (data, hop) = (incoming.data, incoming.header.hop);
        let sequence = data.head.sequence;
        if self.proof.is_some() && !self.judge(incoming, context) {
            return Arrival::Dropped;
        }
        self.note_head(data, hop);
        if !self.admit(sequence, context) {
            return Arrival::Dropped;
        }
        let role = history.role(data.head.view, sequence);
        let ready = match role.duty {
            Duty::Deliver => !held,
            Duty::Pass => true,
            Duty::Wait => false,
        };
        let next = ready && sequence == self.delivered + 1;
        let in_order = next && !self.stops_at(data, role.duty, &context.delivery);
        let wanted = role.duty == Duty::Wait || role.keeps || self.holds(sequence, context.store);
        let caches = wanted && sequence > self.purgeable();
        let slot = if !in_order || caches {
            // Of a buffer whose packets are mostly others' to cache, little would be held.
            let lent = role.keeps_most;
            let datagram = match lent {
                true => incoming.datagram,
                false => incoming.datagram.copied(),
            };
            match self.keep(sequence, datagram, history, held, context) {
                Some(place) => PacketState::Kept(place),
                None if in_order => {
                    self.note_uncached(sequence, role.keeps);
                    PacketState::Received
                }
                None => {
                    self.held = held;
                    self.crowd_out(sequence, context);
                    return Arrival::Dropped;
                }
            }
        } else {
            PacketState::Received
        };
        let gap = self.enter(sequence, slot, context);
        count_arrival(hop, context.delivery.stats);
        if in_order {
            self.delivered = sequence;
            if role.duty == Duty::Deliver {
                self.deliver_packet(data, history, &mut context.delivery);
            } else {
                context.delivery.stats.discard_not_mine += 1;
            }
        }
        if self.interrupted == Instant::NEVER {
            self.deliver(history, held, context);
        } else if self.proof.is_some() {
            self.settle(context);
        }
        self.release_blocks(history, context.store);
        if context.delivery.cursors.is_special() && self.delivered < self.highest {
            self.held = held;
            self.hurry(Some(sequence), history, context);
        }
        Arrival::of(match gap {
            Some(gap) => {
                self.note_repair(&gap, hop, context);
                gap.waiters
            }
            None => self.early.take(sequence),
        })
    }

    /// Gives up packets that exist nowhere, or are not repaired any more. Returns how many that were.
    pub fn lose(
        &mut self,
        range: SeqRange,
        cause: AbsentCause,
        history: &History,
        context: &mut StreamContext<'_>,
    ) -> u64 {
        // A leaving member helps others to recover what is not for itself.
        let end = history.left().and_then(|left| self.cut(left));
        let (mut lost, mut own) = (0, 0);
        let state = match cause {
            AbsentCause::Gone => PacketState::Lost,
            AbsentCause::Expired => PacketState::Expired,
        };
        let mut own_ends = None;
        let mut next = range.first();
        while let Some(first) = self.gaps.at_or_after(next) {
            if first > range.last() {
                break;
            }
            self.gaps.fill(first);
            self.set(first, state);
            lost += 1;
            if end.is_none_or(|end| first < end) {
                own += 1;
                own_ends = Some((own_ends.map_or(first, |(begin, _)| begin), first));
            }
            next = first + 1;
        }
        if lost > 0 {
            self.contiguous = self.gaps.first().map_or(self.highest, |first| first - 1);
        }
        if let Some((first, last)) = own_ends {
            let stats = &mut context.delivery.stats;
            match cause {
                AbsentCause::Gone => stats.packets_lost += own,
                AbsentCause::Expired => stats.packets_expired += own,
            }
            self.note_given_up(first, last);
        }
        if lost > 0 && self.proof.is_some() {
            self.judge_again(context);
        }
        lost
    }

    /// A kept packet's original bytes.
    #[must_use]
    pub fn packet<'s>(&self, sequence: u64, store: &'s PacketStore) -> Option<&'s [u8]> {
        match self.lookup(sequence)? {
            PacketState::Kept(place) => Some(store.packet(place)),
            PacketState::Missing
            | PacketState::Received
            | PacketState::Lost
            | PacketState::Expired => None,
        }
    }

    /// Whether this packet is missing here and has been asked for more than once, and not because there was
    /// no room for it.
    #[must_use]
    pub fn tried_in_vain(&self, sequence: u64) -> bool {
        let gap = self.gaps.find(sequence);
        gap.is_some_and(|gap| gap.attempts >= 2 && !gap.crowded_out)
    }

    /// Whether this packet has been given up here.
    #[must_use]
    pub fn gave_up(&self, sequence: u64) -> bool {
        self.lookup(sequence) == Some(PacketState::Lost)
    }

    /// Tells whether this packet has been given up here because its messages had expired.
    #[must_use]
    pub fn gave_up_expired(&self, sequence: u64) -> bool {
        self.lookup(sequence) == Some(PacketState::Expired)
    }

    /// Whether this packet has come and is not kept: there was no room, or it is others' to cache.
    #[must_use]
    pub fn has_let_go(&self, sequence: u64) -> bool {
        self.lookup(sequence) == Some(PacketState::Received)
    }

    /// Whether this number is missing here (also: not known to exist yet).
    #[must_use]
    pub fn misses(&self, sequence: u64) -> bool {
        sequence > self.highest || self.lookup(sequence) == Some(PacketState::Missing)
    }

    /// These members wait for a packet that has not come this far yet.
    pub fn expect(&mut self, sequence: u64, known_missing: u32, waiters: &[MemberIndex]) {
        if sequence > self.highest {
            self.early.add(sequence, known_missing, waiters);
        }
    }

    /// The gaps.
    #[must_use]
    pub fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// The gaps, for the repair plane to note what it has done.
    pub fn gaps_mut(&mut self) -> &mut Gaps {
        &mut self.gaps
    }

    /// What this node misses, up to the cutoff, of the packets that its own partition caches in
    /// the current view. Returns whether there is more than [`qsm_wire::Ranges::MAX`] ranges (R069, R075).
    pub fn missing_own(&self, cutoff: u64, history: &History, into: &mut Vec<SeqRange>) -> bool {
        let current = history.newest().number();
        let mut steps = 0;
        for piece in self.pieces(cutoff, history) {
            steps += 1;
            let mine = self.view_of(piece.first(), history) == current
                && history.caches(current, piece.first());
            if !mine {
                if steps > WALK_MAX {
                    return true;
                }
                continue;
            }
            if !append_own(into, piece, history.newest()) {
                return true;
            }
        }
        false
    }

    /// The gaps up to `cutoff`, cut at the borders of caching blocks and views, ascending.
    pub fn pieces<'s>(
        &'s self,
        cutoff: u64,
        history: &'s History,
    ) -> impl Iterator<Item = SeqRange> + 's {
        let block = history.newest().layout().block_packets.max(1);
        self.gaps
            .iter()
            .filter_map(move |gap| SeqRange::new(gap.first, gap.last.min(cutoff)))
            .flat_map(move |gap| {
                let mut next = Some(gap.first());
                core::iter::from_fn(move || {
                    let first = next?;
                    let block_end = (first / block)
                        .saturating_mul(block)
                        .saturating_add(block - 1);
                    let opening = self.openings.iter().find(|opening| opening.start > first);
                    let view_end = opening.map_or(u64::MAX, |opening| opening.start - 1);
                    let piece = SeqRange::new(first, gap.last().min(block_end).min(view_end))?;
                    next = (piece.last() < gap.last()).then(|| piece.last() + 1);
                    Some(piece)
                })
            })
    }

    /// Frees all memory.
    pub fn release(&mut self, store: &mut PacketStore) {
        for slot in self.slots.drain(..) {
            if let PacketState::Kept(place) = slot {
                store.free(place);
            }
        }
        self.lost_numbers = None;
        self.walks = None;
        self.base = self.highest;
        self.delivered = self.highest;
        self.contiguous = self.highest;
        self.gaps = Gaps::default();
        self.early = EarlyPackets::default();
        self.forget_proofs();
    }

    /// Panics if the state contradicts itself.
    pub fn check_invariants(&self) {
        assert!(
            self.base <= self.delivered,
            "base above delivered: {self:?}"
        );
        assert!(
            self.delivered <= self.contiguous,
            "delivered above contiguous: {self:?}"
        );
        assert!(
            self.contiguous <= self.highest,
            "contiguous above highest: {self:?}"
        );
        assert!(
            self.marks.stable_upto <= self.marks.cached_upto,
            "stable above cached: {self:?}"
        );
        let span = usize::try_from(self.highest - self.base).unwrap_or(usize::MAX);
        assert_eq!(self.slots.len(), span, "slots do not span base to highest");
        let missing: u64 = self.gaps.iter().map(|gap| gap.last - gap.first + 1).sum();
        let slots = self
            .slots
            .iter()
            .filter(|slot| **slot == PacketState::Missing)
            .count();
        assert_eq!(missing, slots as u64, "gaps are not the missing slots");
        let first = self.gaps.first().unwrap_or(self.highest + 1);
        assert_eq!(
            first,
            self.contiguous + 1,
            "contiguous does not end at the first gap"
        );
        assert!(self.start <= self.base + 1, "start above base");
        if let Some(range) = self.uncached {
            assert!(
                range.last() > self.marks.stable_upto && range.last() <= self.delivered,
                "uncached {range:?} is not between stable and delivered"
            );
        }
    }

    /// Notes what a packet says of its stream: how far it goes, and where its view begins.
    fn note_head(&mut self, data: &Data<'_>, hop: Hop) {
        match hop {
            Hop::Direct => self.arrived = self.arrived.max(data.head.sequence),
            Hop::Copy => self.copied = self.copied.max(data.head.sequence),
            _ => {}
        }
        // Most packets are of the newest view.
        let newest = self.openings.last().map(|known| known.view);
        if newest != Some(data.head.view)
            && let Some(opening) = opening_of(&data.head)
            && !self.is_unproven(data.head.sequence)
        {
            self.note_opening(opening);
        }
    }

    /// Whether a packet of this number is new and near enough. What comes again ends here (R-PKT-7).
    fn admit(&self, sequence: u64, context: &mut StreamContext<'_>) -> bool {
        if sequence < self.start {
            context.delivery.stats.discard_not_mine += 1;
            return false;
        }
        if !self.misses(sequence) {
            context.delivery.stats.duplicates += 1;
            return false;
        }
        if sequence > self.contiguous.saturating_add(context.ahead_max)
            || (sequence > self.highest + 1 && self.gaps.is_full())
        {
            context.delivery.stats.discard_ahead += 1;
            return false;
        }
        true
    }

    /// Enters an arrived packet; returns the gap it was in. A packet between a gap's ends when
    /// there is no room for another gap is entered all the same: gaps only shrink or split once
    /// per packet, and `ahead_max` bounds them.
    fn enter(
        &mut self,
        sequence: u64,
        slot: PacketState,
        context: &mut StreamContext<'_>,
    ) -> Option<Gap> {
        if sequence <= self.highest {
            let gap = self.gaps.fill(sequence);
            self.set(sequence, slot);
            self.contiguous = self.gaps.first().map_or(self.highest, |first| first - 1);
            return gap;
        }
        if let Some(range) = SeqRange::new(self.highest + 1, sequence - 1) {
            self.open_gap(range, context);
        }
        self.slots.push_back(slot);
        self.highest = sequence;
        if self.gaps.is_empty() {
            self.contiguous = sequence;
        }
        None
    }

    fn open_gap(&mut self, range: SeqRange, context: &mut StreamContext<'_>) {
        let mut first_request = context.first_request();
        if context.timing.recovery.uses_parity() {
            let wait = self.parity_wait(range, context.repairs.patience());
            first_request = first_request.after(wait);
            self.hold_blocks(range);
        }
        self.gaps.append(range, context.now, first_request);
        self.due = self.due.min(first_request);
        context.delivery.stats.gaps += u64::from(range.count());
        self.slots
            .extend((0..range.count()).map(|_| PacketState::Missing));
        self.highest = range.last();
        for one in self.early.take_upto(range.last()) {
            self.gaps.cut_out(SeqRange::one(one.sequence));
            if let Some(gap) = self.gaps.find_mut(one.sequence) {
                gap.known_missing |= one.known_missing;
                gap.waiters = one.waiters;
            }
        }
    }

    fn lookup(&self, sequence: u64) -> Option<PacketState> {
        let at = sequence.checked_sub(self.base + 1)?;
        self.slots.get(usize::try_from(at).ok()?).copied()
    }

    fn slot(&self, sequence: u64) -> PacketState {
        self.lookup(sequence).unwrap_or(PacketState::Received)
    }

    fn set(&mut self, sequence: u64, slot: PacketState) {
        let at = sequence
            .checked_sub(self.base + 1)
            .and_then(|at| usize::try_from(at).ok());
        if let Some(place) = at.and_then(|at| self.slots.get_mut(at)) {
            *place = slot;
        }
    }
}

/// The view of a packet, and where it begins in the stream, as far as the packet says.
fn opening_of(head: &DataHeader) -> Option<Opening> {
    let view = head.view;
    head.view_start().map(|start| Opening { view, start })
}

fn count_arrival(hop: Hop, stats: &mut Stats) {
    stats.data_received += 1;
    stats.copies_received += u64::from(hop == Hop::Copy);
}
