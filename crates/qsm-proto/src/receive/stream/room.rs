//! What a stream does with the room there is (R-DATA-9): it looks no farther ahead than it can
//! keep, what is far gives way to what is near, and what waits for another stream leaves room for
//! that.

use core::time::Duration;

use qsm_wire::SeqRange;

use super::{Datagram, PacketState, ReceiveStream, StreamContext, WALK_MAX};
use crate::Instant;
use crate::history::History;
use crate::receive::{PacketPlace, PacketStore};

/// Time after which a packet that found no room or gave way is asked for again, if there has been no
/// room before: what is nearer has time to come first.
const ASK_AGAIN: Duration = Duration::from_millis(500);

impl ReceiveStream {
    /// Others say that the stream goes up to `highest` (G01).
    pub fn announce(&mut self, now: Instant, highest: u64) {
        if highest > self.announced.max(self.highest) {
            self.note_hearsay(now);
        }
        self.announced = self.announced.max(highest);
        if self.behind() {
            self.due = self.due.min(now);
        }
    }

    /// Highest number that exists, by what has come and by what others say.
    #[must_use]
    pub fn known_upto(&self) -> u64 {
        self.sent().max(self.announced)
    }

    /// The sender has nothing up to here any more. It cannot speak of what nobody knows of.
    pub(crate) fn note_gone(&mut self, upto: u64) {
        self.gone_upto = self.gone_upto.max(upto.min(self.known_upto()));
    }

    /// Tells whether this packet is missing here, and its sender has said that it has not got it any more.
    #[must_use]
    pub fn misses_gone(&self, sequence: u64) -> bool {
        sequence <= self.gone_upto && self.misses(sequence)
    }

    /// Tells whether its sender is dead, or has said that it has not got this packet any more.
    pub(crate) fn sender_lacks(&self, sequence: u64) -> bool {
        self.sender_dead() || sequence <= self.gone_upto
    }

    /// Everything that has arrived has been read: what others have announced and is not here is
    /// missing, as far as there is room for it. The next packet in order needs none. Returns what
    /// of it the sender has said that it has not any more.
    pub fn extend(&mut self, context: &mut StreamContext<'_>) -> Option<SeqRange> {
        // What its readers have no room for is not asked for once there is no room here either.
        let head = u64::from(self.gaps.is_empty() && !self.waits_full(context.store));
        let room = self.room_packets(context.store).max(head);
        // A seal frees what waits for it, and needs no room itself.
        let sealed = match self.leaves_room(self.held, context.store) {
            true => 0,
            false => self.next_seal_within(),
        };
        let highest = self
            .announced
            .min(self.contiguous.saturating_add(context.ahead_max))
            .min(self.highest.saturating_add(room).max(sealed));
        let range = SeqRange::new(self.highest + 1, highest)?;
        if self.gaps.is_full() {
            return None;
        }
        self.open_gap(range, context);
        SeqRange::new(range.first(), range.last().min(self.gone_upto))
    }

    /// Whether others speak of packets that have not been seen here.
    #[must_use]
    pub fn behind(&self) -> bool {
        self.announced > self.highest
    }

    /// Finds a place for a packet that is missing here. When there is none, what is farthest ahead
    /// gives way: it is asked for again when its turn comes nearer (R-DATA-9).
    pub(super) fn keep(
        &mut self,
        sequence: u64,
        datagram: Datagram<'_>,
        history: &History,
        held: bool,
        context: &mut StreamContext<'_>,
    ) -> Option<PacketPlace> {
        if !self.leaves_room(held, context.store)
            && let Some(place) = context.store.keep(datagram)
        {
            return Some(place);
        }
        self.make_room(sequence, datagram, history, context)
    }

    /// The same where there is no place.
    #[cold]
    fn make_room(
        &mut self,
        sequence: u64,
        datagram: Datagram<'_>,
        history: &History,
        context: &mut StreamContext<'_>,
    ) -> Option<PacketPlace> {
        // Reported before some of it was let go, perhaps.
        let claimed = self.received_to_cache(history);
        while self.highest > sequence {
            let top = self.highest;
            let slot = self.slots.back().copied()?;
            // What is lost stays lost.
            if slot.is_given_up() || self.is_counted_on(top, claimed, history) {
                return self.keep_instead(sequence, datagram, claimed, history, context);
            }
            self.slots.pop_back();
            self.gaps.forget_from(top);
            self.highest = top - 1;
            if !self.is_doubtful(top) {
                self.announced = self.announced.max(top);
            }
            if let PacketState::Kept(place) = slot
                && let Some(place) = replace(place, datagram, context)
            {
                return Some(place);
            }
        }
        None
    }

    /// Finds a place where the end of the stream cannot give way: of what lies before it the farthest
    /// does, and is missing again.
    fn keep_instead(
        &mut self,
        sequence: u64,
        datagram: Datagram<'_>,
        claimed: u64,
        history: &History,
        context: &mut StreamContext<'_>,
    ) -> Option<PacketPlace> {
        while !self.gaps.is_full() {
            let (far, place) = self.farthest_kept(sequence, claimed, history)?;
            self.set(far, PacketState::Missing);
            let due = context.now.after(ASK_AGAIN);
            self.gaps.reopen(far, context.now, due);
            self.crowds_out = true;
            self.due = self.due.min(due);
            if let Some(place) = replace(place, datagram, context) {
                return Some(place);
            }
        }
        None
    }

    /// The last packet behind `sequence` that is kept and may give way.
    fn farthest_kept(
        &self,
        sequence: u64,
        claimed: u64,
        history: &History,
    ) -> Option<(u64, PacketPlace)> {
        let mut behind = (sequence + 1..=self.highest).rev();
        behind.find_map(|number| match self.slot(number) {
            PacketState::Kept(place) if !self.is_counted_on(number, claimed, history) => {
                Some((number, place))
            }
            _ => None,
        })
    }

    /// Others count on what has been reported as cached.
    fn is_counted_on(&self, number: u64, claimed: u64, history: &History) -> bool {
        number <= claimed && history.answers_for(self.view_of(number, history), number)
    }

    /// A packet has come for which there is no room: its cachers are not silent, and no more is asked for
    /// than there is room for (R-DATA-9).
    #[cold]
    pub(super) fn crowd_out(&mut self, sequence: u64, context: &mut StreamContext<'_>) {
        context.delivery.stats.discard_memory += 1;
        self.gaps.cut_out(SeqRange::one(sequence));
        let Some(gap) = self.gaps.find_mut(sequence) else {
            return;
        };
        gap.silent_since = context.now;
        // Unless tokens ask for it, or there was no room to cut it out.
        if context.timing.recovery.fast && gap.first == gap.last {
            gap.crowd_out(context.now.after(ASK_AGAIN));
            self.crowds_out = true;
        }
    }

    /// Lets be asked for what found no room, as far as there is some now. What comes next in turn needs
    /// none.
    pub(crate) fn ask_for_crowded_out(&mut self, now: Instant, store: &PacketStore) {
        if self.crowds_out {
            let next = match self.held {
                true => 0,
                false => self.delivered + 1,
            };
            let room = self.room_packets(store);
            self.crowds_out = self.gaps.take_up_crowded_out(now, next, room);
            self.due = self.due.min(now);
        }
    }

    /// Number of its packets that can still be kept for certain.
    fn room_packets(&self, store: &PacketStore) -> u64 {
        match self.leaves_room(self.held, store) {
            true => 0,
            false => u64::try_from(store.room_packets()).unwrap_or(u64::MAX),
        }
    }

    /// Leaves the rest of the room to the stream that this one waits for, or to streams whose readers
    /// have room.
    fn leaves_room(&self, held: bool, store: &PacketStore) -> bool {
        held && store.is_half_full() || self.waits_full(store)
    }

    /// Its readers take no more, and there is no room to wait for them.
    fn waits_full(&self, store: &PacketStore) -> bool {
        self.stopped && store.is_nearly_full()
    }

    /// A packet is delivered and not kept: if this node caches it, others must not count on it here, but
    /// those that are away, for whom no watermark speaks.
    pub(super) fn note_uncached(&mut self, sequence: u64, caches: bool) {
        if !caches || sequence <= self.marks.stable_upto {
            return;
        }
        let before = self.uncached.unwrap_or_else(|| SeqRange::one(sequence));
        let (first, last) = (before.first().min(sequence), before.last().max(sequence));
        self.uncached = SeqRange::new(first, last);
    }

    /// Contiguous number over the packets that others may count on here.
    pub(super) fn cached(&self, history: &History) -> u64 {
        match self.uncached {
            Some(range) => range.first() - 1,
            None => self.received_to_cache(history),
        }
    }

    /// Contiguous number over the packets that this node must cache, and over those of which no
    /// cacher lives any more: only their sender still has them, for whoever misses them.
    fn received_to_cache(&self, history: &History) -> u64 {
        for (steps, piece) in self.pieces(u64::MAX, history).enumerate() {
            let first = piece.first();
            if steps > WALK_MAX || history.answers_for(self.view_of(first, history), first) {
                return first - 1;
            }
        }
        self.highest
    }
}

/// Keeps a packet in the place of another. Freeing one of several in a lent buffer makes no room yet.
fn replace(
    place: PacketPlace,
    datagram: Datagram<'_>,
    context: &mut StreamContext<'_>,
) -> Option<PacketPlace> {
    context.store.free(place);
    context.delivery.stats.discard_memory += 1;
    context.store.keep(datagram)
}
