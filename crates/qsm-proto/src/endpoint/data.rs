//! Packets of streams: data and heartbeats.

use std::net::SocketAddr;

use qsm_wire::{DataHeader, Header, Heartbeat, Hop, Origin, RegionId, StreamId};

use super::Endpoint;
use crate::history::Duty;
use crate::receive::{Arrival, Incoming, ReceiveStream, StreamMarks};
use crate::region::Region;
use crate::{Deliver, Instant};

/// Sequence numbers from here on are refused: nobody reaches them in a thousand years, and below
/// them no sum of two overflows.
const SEQUENCE_MAX: u64 = 1 << 62;

impl Endpoint {
    pub(super) fn on_data(
        &mut self,
        now: Instant,
        from: SocketAddr,
        incoming: &Incoming<'_>,
        out: &mut dyn Deliver,
    ) {
        let (header, data) = (incoming.header, incoming.data);
        let sender = header.origin;
        let Some(&id) = self.channels.get(&data.head.channel) else {
            self.core.stats.discard_channel += 1;
            return;
        };
        if data.head.sequence >= SEQUENCE_MAX {
            self.core.stats.discard_ahead += 1;
            return;
        }
        // A repair may come from anybody.
        let source = (header.hop == Hop::Direct).then_some(from);
        let held = self.moving && self.is_member(id) && self.held(now, source, id, sender);
        let Some(region) = self.regions.get_mut(&id).filter(|region| region.member()) else {
            self.core.stats.discard_channel += 1;
            return;
        };
        let Some(stream) = region.streams.get_mut(&sender) else {
            if self.open_stream(now, source, id, sender, &data.head) {
                self.on_data(now, from, incoming, out);
            }
            return;
        };
        if header.hop == Hop::Direct {
            stream.heard_from(from);
        }
        let mut inbox = self
            .core
            .inbox(now, (&region.backoff, region.history.size()), out);
        let arrival = stream.take(incoming, &region.history, held, &mut inbox);
        if arrival == Arrival::Dropped {
            return;
        }
        let bytes = incoming.datagram.bytes.len();
        region.ring.note_traffic(now, bytes);
        self.core.earn_repairs(bytes);
        self.core.earn_requests();
        self.meter.count(now, 1);
        if let Arrival::Awaited(waiters) = arrival {
            self.serve_waiters(now, id, sender, (data.head.sequence, waiters));
        }
        if self.moving {
            self.progress(now, id, sender, out);
        }
    }

    /// The stream's own word, or another's who knows: how far it goes, and where views begin.
    pub(super) fn on_heartbeat(
        &mut self,
        now: Instant,
        from: SocketAddr,
        (header, beat): (&Header, &Heartbeat<'_>),
        out: &mut dyn Deliver,
    ) {
        let sender = beat.stream.origin;
        let id = self.channels.get(&beat.stream.channel).copied();
        let Some(id) = id.filter(|id| self.is_member(*id)) else {
            self.core.stats.discard_channel += 1;
            return;
        };
        let sane = beat.highest < SEQUENCE_MAX
            && beat
                .openings()
                .all(|opening| (1..SEQUENCE_MAX).contains(&opening.start));
        if sender == self.core.origin || !sane {
            self.core.stats.discard_own += u64::from(sane);
            self.core.stats.discard_ahead += u64::from(!sane);
            return;
        }
        let own_word = header.origin == sender;
        let room = self.stream_count() < self.core.config.limits.streams;
        let Some(region) = self.regions.get_mut(&id) else {
            return;
        };
        let dead = self.membership.is_dead(sender);
        // Of others' streams members say so when the sender is dead; so does what they answer
        // when they are asked about the dead.
        let witness = !own_word && region.history.lives(header.origin);
        let over = beat.finished && (own_word || witness) || witness && dead;
        if own_word && beat.highest == 0 {
            // It may yet send in the view that it knows.
            let left = region.history.left().unwrap_or_default();
            if beat.openings().all(|opening| opening.view >= left) {
                region.note_silent(sender);
            }
        } else if !region.streams.contains_key(&sender)
            && (witness || !dead)
            && let Some(start) = region.start_by(beat, over).filter(|_| room)
        {
            self.membership.heard_sender(sender);
            region.add_stream(now, sender, start);
        }
        if let Some(stream) = region.streams.get_mut(&sender) {
            if own_word {
                stream.heard_from(from);
            }
            beat.openings()
                .for_each(|opening| stream.note_opening(opening));
            stream.announce(now, beat.highest);
            if over && own_word {
                stream.ended(beat.highest);
            } else if over {
                stream.sender_died(now);
            }
            if beat.highest > stream.contiguous() {
                region.ring.note_traffic(now, 0);
            }
            if own_word {
                match region.ring.last_ack(sender) {
                    Some(ack) => self.acknowledge(now, id, sender, (&ack, &[])),
                    None => region.ring.want(now, sender),
                }
            }
        }
        if own_word && self.moving {
            // What waits for a region left before asks the sender, now that it is known where it is.
            self.deliver_waiting(now, id, sender, out);
        }
        self.progress(now, id, sender, out);
    }

    /// All that has arrived has been read: what senders and tokens have announced is missing.
    pub(super) fn extend_streams(&mut self, now: Instant, out: &mut dyn Deliver) {
        for region in self.regions.values_mut() {
            let spread = (&region.backoff, region.history.size());
            for stream in region.streams.values_mut().filter(|stream| stream.behind()) {
                stream.extend(&mut self.core.inbox(now, spread, out));
                stream.refresh_due();
            }
        }
    }

    /// Whether what this sender sends in a region must wait, because not all of what it sent in a
    /// region that this node left before has been delivered (per-sender order over moves).
    /// Rule R-VIEW-7.
    pub(super) fn held(
        &mut self,
        now: Instant,
        from: Option<SocketAddr>,
        id: RegionId,
        sender: Origin,
    ) -> bool {
        let mut held = false;
        let turn = self.regions.get(&id).map_or(u64::MAX, Region::turn);
        for (other, region) in &mut self.regions {
            if *other == id || region.leaving.is_none() || region.turn() > turn {
                continue;
            }
            match region.drained_of(sender) {
                Some(drained) => held |= !drained,
                None => {
                    held = true;
                    region.ask_later(now, from, sender);
                }
            }
        }
        held
    }

    /// After progress in one region: what this sender's streams in other regions were held for.
    pub(super) fn progress(
        &mut self,
        now: Instant,
        changed: RegionId,
        sender: Origin,
        out: &mut dyn Deliver,
    ) {
        let leaving = self
            .regions
            .get(&changed)
            .is_some_and(|region| region.leaving.is_some());
        if !leaving {
            return;
        }
        for id in self.in_turn() {
            if id != changed {
                self.deliver_waiting(now, id, sender, out);
            }
        }
    }

    /// Goes on where delivery was interrupted.
    pub(super) fn go_on_delivering(&mut self, now: Instant, out: &mut dyn Deliver) {
        let mut resumed = Vec::new();
        for (id, region) in &mut self.regions {
            for (sender, stream) in &mut region.streams {
                if stream.interrupted() <= now {
                    stream.resume();
                    resumed.push((*id, *sender));
                }
            }
        }
        for (id, sender) in resumed {
            self.deliver_waiting(now, id, sender, out);
            self.progress(now, id, sender, out);
        }
    }

    /// All regions in the order in which their messages are delivered (R-VIEW-7).
    pub(super) fn in_turn(&self) -> Vec<RegionId> {
        let mut ids: Vec<RegionId> = self.regions.keys().copied().collect();
        ids.sort_by_key(|id| self.regions.get(id).map(Region::turn));
        ids
    }

    /// Delivers what waits in a stream if nothing holds it any more.
    pub(super) fn deliver_waiting(
        &mut self,
        now: Instant,
        id: RegionId,
        sender: Origin,
        out: &mut dyn Deliver,
    ) {
        let Some(stream) = self
            .regions
            .get(&id)
            .and_then(|region| region.streams.get(&sender))
        else {
            return;
        };
        let waits = stream.undelivered();
        let address = stream.sender_address();
        if !waits || self.held(now, address, id, sender) {
            return;
        }
        let Some(region) = self.regions.get_mut(&id) else {
            return;
        };
        if let Some(stream) = region.streams.get_mut(&sender) {
            stream.deliver(
                &region.history,
                false,
                &mut self
                    .core
                    .inbox(now, (&region.backoff, region.history.size()), out),
            );
        }
    }

    fn is_member(&self, id: RegionId) -> bool {
        self.regions.get(&id).is_some_and(Region::member)
    }

    /// Whether there is a stream for this packet now; makes one if its beginning is clear.
    /// Rule R-VIEW-6.
    fn open_stream(
        &mut self,
        now: Instant,
        from: Option<SocketAddr>,
        id: RegionId,
        sender: Origin,
        head: &DataHeader,
    ) -> bool {
        let room = self.stream_count() < self.core.config.limits.streams;
        let Some(region) = self.regions.get_mut(&id) else {
            return false;
        };
        if region.streams.contains_key(&sender) {
            return true;
        }
        let stats = &mut self.core.stats;
        let Some(joined) = region.history.joined() else {
            stats.discard_view += 1;
            return false;
        };
        if self.membership.is_dead(sender) {
            stats.discard_stranger += 1;
            return false;
        }
        if region.history.duty(head.view) == Duty::Pass && head.view < joined {
            stats.discard_not_mine += 1;
            return false;
        }
        if !room {
            stats.discard_streams += 1;
            return false;
        }
        match head.view_start() {
            Some(start) if head.view == joined || start == 1 => {
                self.membership.heard_sender(sender);
                region.add_stream(now, sender, start);
                true
            }
            _ => {
                stats.discard_view += 1;
                region.ask_later(now, from, sender);
                false
            }
        }
    }

    pub(super) fn stream_count(&self) -> usize {
        self.regions
            .values()
            .map(|region| region.streams.len())
            .sum()
    }
}

impl Region {
    /// Where this node's part of a stream begins by this word. Of a stream that is over it may be
    /// after all that is said of it: that was sent before this node came.
    fn start_by(&self, beat: &Heartbeat<'_>, over: bool) -> Option<u64> {
        let end = over.then_some(beat.highest + 1);
        self.start_of(beat.openings()).or(end)
    }

    /// Begins a stream whose first packet for this node is known. Tokens may have said already how
    /// far it goes, and say it only once (R-TOK-5).
    pub(crate) fn add_stream(&mut self, now: Instant, sender: Origin, start: u64) {
        self.queries.remove(&sender);
        let id = StreamId {
            origin: sender,
            channel: self.channel(),
        };
        let (stable_upto, cached_upto) = self.ring.watermarks(sender);
        let marks = StreamMarks {
            stable_upto,
            cached_upto,
        };
        let mut stream = ReceiveStream::new(id, start, marks);
        let cutoff = self.ring.cutoff(sender);
        if stable_upto < cutoff {
            stream.announce(now, cutoff);
        }
        self.streams.insert(sender, stream);
    }
}
