//! Packets of streams: data, heartbeats, and questions where a stream begins.

use std::net::SocketAddr;

use qsm_wire::{
    ChannelId, Data, DataHeader, Header, Heartbeat, Hop, Opening, Origin, RegionId, StreamId,
    StreamQuery,
};

use super::Endpoint;
use crate::history::Duty;
use crate::receive::{Arrival, ReceiveStream};
use crate::region::{Query, Region};
use crate::{Deliver, Instant, Reason};

/// Sequence numbers from here on are refused: nobody reaches them in a thousand years, and below
/// them no sum of two overflows.
const SEQUENCE_MAX: u64 = 1 << 62;
/// How often a sender is asked for its openings before other members are.
const QUERIES_TO_SENDER: u32 = 3;
/// When a dead sender's unknown beginnings are given up.
const QUERIES_MAX: u32 = 20;

impl Endpoint {
    pub(super) fn on_data(
        &mut self,
        now: Instant,
        from: SocketAddr,
        (header, data, datagram): (&Header, &Data<'_>, &[u8]),
        out: &mut dyn Deliver,
    ) {
        let sender = header.origin;
        let Some(id) = self.member_region(data.head.channel) else {
            self.core.stats.discard_channel += 1;
            return;
        };
        if data.head.sequence >= SEQUENCE_MAX {
            self.core.stats.discard_ahead += 1;
            return;
        }
        let known = self
            .regions
            .get(&id)
            .is_some_and(|region| region.streams.contains_key(&sender));
        if !known && !self.open_stream(now, from, id, sender, &data.head) {
            return;
        }
        let held = self.moving && self.held(now, from, id, sender);
        let Some(region) = self.regions.get_mut(&id) else {
            return;
        };
        let Some(stream) = region.streams.get_mut(&sender) else {
            return;
        };
        if header.hop == Hop::Direct {
            stream.heard_from(from);
        }
        let mut inbox = self
            .core
            .inbox(now, (&region.backoff, region.history.size()), out);
        let arrival = stream.take(
            data,
            (header.hop, datagram),
            &region.history,
            held,
            &mut inbox,
        );
        if arrival == Arrival::Dropped {
            return;
        }
        region.ring.note_traffic(now, datagram.len());
        self.meter.count(now);
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
        let Some(id) = self.member_region(beat.stream.channel) else {
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
        if own_word && beat.highest == 0 {
            // It may yet send in the view that it knows.
            let left = region.history.left().unwrap_or_default();
            if beat.openings().all(|opening| opening.view >= left) {
                region.note_silent(sender);
            }
        } else if !region.streams.contains_key(&sender)
            && !self.membership.is_dead(sender)
            && let Some(start) = region.start_of(beat.openings()).filter(|_| room)
        {
            region.add_stream(sender, start);
        }
        if let Some(stream) = region.streams.get_mut(&sender) {
            if own_word {
                stream.heard_from(from);
            }
            beat.openings()
                .for_each(|opening| stream.note_opening(opening));
            stream.announce(now, beat.highest);
            if beat.finished {
                stream.ended(beat.highest);
            }
            if beat.highest > stream.contiguous() {
                region.ring.note_traffic(now, 0);
            }
            if let Some(ack) = region.ring.last_ack(sender).filter(|_| own_word) {
                self.acknowledge(now, id, sender, &ack);
            }
        }
        self.progress(now, id, sender, out);
    }

    /// Answers a question for openings: of one's own stream, or of one that is known here.
    pub(super) fn on_query(&mut self, from: SocketAddr, query: &StreamQuery) {
        let header = self.core.header();
        let id = self.channels.get(&query.channel);
        let region = id.and_then(|id| self.regions.get(id));
        let answer = match region {
            _ if query.stream != header.origin => {
                let known = region.and_then(|region| region.streams.get(&query.stream));
                known.map(|known| (known.highest(), false, known.openings().collect()))
            }
            Some(region) if region.sender.is_some() || self.pasts.complete() => {
                Some(region.own_stream())
            }
            Some(_) => None,
            None => self.ended_stream(query.channel),
        };
        let Some((highest, finished, newest_first)) = answer else {
            self.core.stats.discard_channel += u64::from(region.is_none());
            return;
        };
        let stream = StreamId {
            origin: query.stream,
            channel: query.channel,
        };
        self.core.stats.heartbeats_sent += 1;
        self.core.outbox.push(Reason::Status, from, |bytes| {
            let newest_first = newest_first.into_iter();
            Heartbeat::encode(&header, stream, highest, finished, newest_first, bytes);
        });
    }

    /// What this node has sent on a channel that does not concern it: it is over.
    fn ended_stream(&self, channel: ChannelId) -> Option<Extent> {
        let past = self.pasts.get(channel);
        past.map(|past| {
            let newest_first = past.openings.iter().rev().copied();
            (past.highest, true, newest_first.collect())
        })
        .or_else(|| self.pasts.complete().then(|| (0, true, Vec::new())))
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

    /// Asks again for the openings of streams that could not be placed.
    pub(super) fn ask_queries(&mut self, now: Instant) {
        let header = self.core.header();
        let retry = self.core.retry();
        for region in self.regions.values_mut() {
            let channel = region.channel();
            let leader = region.history.newest().leader();
            let leader = leader
                .and_then(|at| region.history.newest().member(at))
                .copied();
            let mut hopeless = Vec::new();
            for (sender, query) in region
                .queries
                .iter_mut()
                .filter(|(_, query)| query.due <= now)
            {
                let dead = self.membership.is_dead(*sender);
                if query.attempts >= QUERIES_MAX && dead {
                    hopeless.push(*sender);
                    continue;
                }
                let others = dead || query.attempts >= QUERIES_TO_SENDER && query.attempts % 2 == 1;
                let to = match leader {
                    Some(leader) if others && leader.origin != header.origin => leader.address,
                    _ => query.address,
                };
                query.due = now.after(retry * (1 << query.attempts.min(6)));
                query.attempts += 1;
                self.core.stats.queries_sent += 1;
                self.core.outbox.push(Reason::Status, to, |bytes| {
                    StreamQuery {
                        channel,
                        stream: *sender,
                    }
                    .encode(&header, bytes);
                });
            }
            hopeless
                .into_iter()
                .for_each(|sender| region.note_silent(sender));
        }
    }

    /// Whether what this sender sends in a region must wait, because not all of what it sent in a
    /// region that this node is leaving has been delivered (per-sender order over moves).
    /// Rule R-VIEW-7.
    pub(super) fn held(
        &mut self,
        now: Instant,
        from: SocketAddr,
        id: RegionId,
        sender: Origin,
    ) -> bool {
        let mut held = false;
        for (other, region) in &mut self.regions {
            if *other == id || region.leaving.is_none() {
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
        let others: Vec<RegionId> = self
            .regions
            .keys()
            .copied()
            .filter(|other| *other != changed)
            .collect();
        for id in others {
            self.deliver_waiting(now, id, sender, out);
        }
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
        let address = stream.sender_address().unwrap_or(self.core.config.address);
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

    fn member_region(&self, channel: ChannelId) -> Option<RegionId> {
        let id = *self.channels.get(&channel)?;
        self.regions
            .get(&id)
            .filter(|region| region.member())
            .map(|_| id)
    }

    /// Whether there is a stream for this packet now; makes one if its beginning is clear.
    /// Rule R-VIEW-6.
    fn open_stream(
        &mut self,
        now: Instant,
        from: SocketAddr,
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
                region.add_stream(sender, start);
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

/// How far a stream goes, whether it is over, and where its views begin, newest first.
type Extent = (u64, bool, Vec<Opening>);

impl Region {
    /// This node's own stream.
    fn own_stream(&self) -> Extent {
        match &self.sender {
            Some(sender) => {
                let newest_first = sender.openings().iter().rev().copied();
                (sender.highest(), false, newest_first.collect())
            }
            None => {
                let view = self.history.newest().number();
                (0, false, vec![Opening { view, start: 1 }])
            }
        }
    }

    /// Begins a stream whose first packet for this node is known.
    pub(crate) fn add_stream(&mut self, sender: Origin, start: u64) {
        self.queries.remove(&sender);
        let id = StreamId {
            origin: sender,
            channel: self.channel(),
        };
        self.streams.insert(sender, ReceiveStream::new(id, start));
    }

    /// Puts a question to a sender on the list.
    pub(crate) fn ask_later(&mut self, now: Instant, address: SocketAddr, sender: Origin) {
        if self.queries.len() < QUERIES_OPEN_MAX {
            self.queries.entry(sender).or_insert(Query {
                address,
                due: now,
                attempts: 0,
            });
        }
    }
}

/// Most senders that are asked at once in a region.
const QUERIES_OPEN_MAX: usize = 1024;
