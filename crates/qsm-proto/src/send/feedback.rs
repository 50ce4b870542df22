//! What receivers say, and what follows from it.

use qsm_origin::SEAL_GROUP;
use qsm_wire::{Ack, Data, GroupId, ViewNumber};

use super::store::SentPacket;
use super::{BlockPool, PressureRelief, SendStream};
use crate::Instant;
use crate::stats::Histogram;
use crate::view::RegionView;

/// What became of an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckOutcome {
    /// It was applied.
    Applied,
    /// Its round is known already: rate and credit were not taken from it. (What everybody has
    /// stays true, so its numbers were.)
    Stale,
    /// It speaks of another stream or of packets that were never sent; ignored.
    Malformed,
}

impl SendStream {
    /// Takes the result of a token round (R091): frees what everybody has, which opens the
    /// window, sets rate and credit (R-RATE-4). Times from the first sending of packets to now,
    /// where everybody has them, go into `times`.
    pub fn handle_ack(
        &mut self,
        now: Instant,
        pool: &mut BlockPool,
        ack: &Ack,
        times: &mut Histogram,
    ) -> AckOutcome {
        if !self.is_sound(ack) {
            self.counters.acks_malformed += 1;
            return AckOutcome::Malformed;
        }
        if ack.view > self.view() {
            // That view may have members that are away; this node will be told of it.
            self.begin_retaining();
        }
        let spoken_for = self.spoken_for(ack.view);
        let cached = ack.cached_upto.min(spoken_for);
        self.arrive(ack.arrived_upto.min(spoken_for));
        let before = self.stable_upto();
        self.advance(now, pool, cached, ack.stable_upto.min(spoken_for));
        let outstanding = self.stable_upto() < self.marks.highest;
        self.alarms.answered(now, outstanding);
        let stable = before..self.stable_upto();
        if let Some(sendings) = &mut self.sendings {
            sendings.settle(now, stable, times);
        }
        if (ack.view, ack.round) <= self.marks.round {
            self.counters.acks_stale += 1;
            return AckOutcome::Stale;
        }
        if ack.view <= self.view() {
            // A view this node has not heard of is not remembered: were it forged, true ACKs
            // would count as old until the region gets there.
            self.marks.round = (ack.view, ack.round);
        }
        let credit = usize::try_from(ack.credit_bytes).unwrap_or(usize::MAX);
        self.window_bytes = credit.min(self.config.window_bytes);
        self.pacer.advise(now, ack.rate_packets);
        if ack.stable_upto >= self.marks.highest {
            self.alarms.heard_by(ack.view);
        }
        AckOutcome::Applied
    }

    /// Tells whether an acknowledgement can be one of this stream.
    #[must_use]
    pub fn is_sound(&self, ack: &Ack) -> bool {
        let ordered = ack.stable_upto <= ack.cached_upto;
        let upto = ack.cached_upto.max(ack.arrived_upto);
        ack.stream == self.id() && ordered && upto <= self.marks.highest
    }

    /// Takes how far the cachers of each partition of this view have got: what they have does not
    /// count as in flight any more (R094). To be called after the ACK that brought it.
    /// Rule R-TOK-13.
    pub fn handle_marks(&mut self, view: &RegionView, marks: &[u64]) {
        self.relief = PressureRelief::default();
        let opening = self
            .openings
            .iter()
            .find(|opening| opening.view == view.number());
        let (Some(opening), false) = (opening, marks.is_empty()) else {
            return;
        };
        let before = self.passed_upto().max(opening.start - 1);
        let sent = before + 1..=self.marks.highest;
        for (sequence, entry) in sent.zip(self.store.after(before)) {
            let mark = marks.get(view.caching_partition(sequence));
            if mark.is_some_and(|mark| sequence <= *mark) {
                self.relief.packets += 1;
                self.relief.bytes += entry.length();
            }
        }
    }

    /// The highest packet that members of this view can speak for: packets of later views have
    /// receivers that took no part in its rounds.
    fn spoken_for(&self, view: ViewNumber) -> u64 {
        let later = self.openings.iter().find(|opening| opening.view > view);
        match later {
            // Views before the oldest opening still known are forgotten; nothing is said there.
            Some(opening) if opening.view == self.openings[0].view => 0,
            Some(opening) => opening.start - 1,
            None => u64::MAX,
        }
    }

    /// Nothing up to here waits in a receiver's buffer any more.
    pub(super) fn arrive(&mut self, upto: u64) {
        let new = upto.saturating_sub(self.marks.arrived);
        let entries = self.store.after(self.marks.arrived);
        let entries = entries.take(usize::try_from(new).unwrap_or(usize::MAX));
        self.under_way_bytes -= entries.map(SentPacket::length).sum::<usize>();
        self.marks.arrived += new;
    }

    // Rule R-DATA-5.
    fn advance(&mut self, now: Instant, pool: &mut BlockPool, cached: u64, stable: u64) {
        if cached > self.marks.cached {
            self.marks.cached = cached;
            let outstanding = cached < self.marks.highest;
            self.alarms
                .progress(now, self.config.last_resort, outstanding);
        }
        self.arrive(stable);
        if stable > self.passed_upto() {
            self.relief = PressureRelief::default();
        }
        self.in_flight_bytes -= self.store.release(stable, pool);
        self.note_stable(stable);
        self.note_sealed_upto(now, stable);
        if self.stable_upto() == self.marks.highest {
            self.alarms.all_stable();
        }
    }

    /// The messages in packets above `after` up to `upto` that not everybody is known to have, sent
    /// or not, in the order of the packets: group, and the low 32 bits of the number. A message
    /// that lies in several packets comes several times. They are read from the packets, so that
    /// taking a message costs nothing for it.
    pub fn unstable(&self, after: u64, upto: u64) -> impl Iterator<Item = (GroupId, u32)> {
        self.kept(after.max(self.stable_upto()), upto)
    }

    /// The same, with packets that are stable and kept for members that are away.
    pub fn kept(&self, after: u64, upto: u64) -> impl Iterator<Item = (GroupId, u32)> {
        let packets = self.store.kept(after, upto).filter_map(Data::read_again);
        let chunks = packets.flat_map(|packet| packet.chunks());
        let messages = chunks.filter(|chunk| chunk.group != SEAL_GROUP);
        messages.map(|chunk| (chunk.group, chunk.message))
    }

    /// The last packet of the views before this one; `None` if it is not known.
    pub fn last_before(&self, view: ViewNumber) -> Option<u64> {
        let first = self.openings.iter().find(|opening| opening.view >= view);
        match first {
            // What is before the oldest opening still known may be of this view too.
            Some(opening) if opening.view > view && opening.view == self.openings[0].view => None,
            Some(opening) => Some(opening.start - 1),
            None => Some(self.store.assembled()),
        }
    }

    /// The first packet of the view in which this one was sent, or of the stream if that is not known.
    pub(crate) fn view_start(&self, sequence: u64) -> u64 {
        let mut newest_first = self.openings.iter().rev();
        let opening = newest_first.find(|opening| opening.start <= sequence);
        opening.map_or(1, |opening| opening.start)
    }

    /// No member of the views before this one is left: forgets their packets, sent or not, and
    /// returns their memory. Who has come later is not concerned with them (R-VIEW-6). Numbers
    /// already given are not given again.
    pub fn forget_views_before(&mut self, now: Instant, pool: &mut BlockPool, view: ViewNumber) {
        let upto = self.last_before(view);
        let Some(upto) = upto.filter(|upto| *upto > self.stable_upto()) else {
            return;
        };
        let sent = upto.min(self.marks.highest);
        self.relief = PressureRelief::default();
        self.arrive(sent);
        self.in_flight_bytes -= self.store.release(sent, pool);
        self.closed_bytes -= self.store.release(upto, pool);
        if let Some(sendings) = &mut self.sendings {
            sendings.forget(upto);
        }
        if self.closed_bytes == 0 {
            self.run = super::PaddingRun::default();
            if let Some(passage) = &mut self.passage {
                passage.forget();
            }
        }
        self.marks.highest = self.marks.highest.max(upto);
        self.note_stable(upto);
        self.note_sealed_upto(now, upto);
        self.marks.cached = self.marks.cached.max(upto);
        self.marks.arrived = self.marks.arrived.max(upto);
        let outstanding = self.marks.cached < self.marks.highest;
        self.alarms
            .progress(now, self.config.last_resort, outstanding);
        if self.stable_upto() == self.marks.highest {
            self.alarms.all_stable();
        }
    }

    /// The region has no receivers any more: forgets all packets, sent or not, and returns their
    /// memory. Numbers already given are not given again.
    pub fn no_receivers(&mut self, pool: &mut BlockPool) {
        self.store.clear(pool, self.counters.messages);
        self.forget_unsealed();
        self.confirms = false;
        let all = self.store.assembled();
        self.sendings = None;
        self.marks.highest = all;
        self.note_stable(all);
        self.marks.cached = all;
        self.marks.arrived = all;
        self.under_way_bytes = 0;
        self.in_flight_bytes = 0;
        self.relief = PressureRelief::default();
        self.closed_bytes = 0;
        self.run = super::PaddingRun::default();
        self.alarms = super::status::Alarms::new(self.config.heartbeat_min);
    }
}
