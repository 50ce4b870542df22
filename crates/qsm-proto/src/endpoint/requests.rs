//! Requests for repair, sent and answered.

use std::net::SocketAddr;

use qsm_wire::{
    Absent, Header, Hop, Kind, MemberIndex, Origin, Ranges, RegionId, Request, SeqRange, StreamId,
    ViewNumber,
};

use super::Endpoint;
use super::core::send_repair;
use crate::history::History;
use crate::ranges::append;
use crate::receive::{ReceiveStream, Waiters};
use crate::region::Region;
use crate::repair::{Ask, Hunger, Planner, Recipient, Target, bit, others_who_cache};
use crate::{Deliver, Instant, Reason};

/// Packets of one request that are looked at; the rest is asked for again.
const PACKETS_PER_REQUEST: usize = 512;
/// Packets that one token makes a node push to its neighbour where that asks for what it can take
/// (R-NAK-10).
const PUSHED_BESIDE_NAKS: usize = 32;

/// Numbers of one request that are looked at to find them: other partitions' are among them.
const NUMBERS_PER_REQUEST: usize = 1 << 16;

/// A request as this node sees it: who asks, and who else waits.
struct Asked {
    stream: StreamId,
    view: ViewNumber,
    tried: u32,
    waiters: Vec<MemberIndex>,
    /// The partition of who asks.
    partition: Option<usize>,
    patient: bool,
}

impl Endpoint {
    /// Makes the requests that are due in all regions.
    pub(super) fn make_requests(&mut self, now: Instant, out: &mut dyn Deliver) {
        if now < self.core.requests_from {
            return;
        }
        let due = |region: &Region| {
            let mut streams = region.streams.values();
            region.member() && streams.any(|stream| stream.due() <= now)
        };
        let ids: Vec<RegionId> = self
            .regions
            .iter()
            .filter(|(_, region)| due(region))
            .map(|(id, _)| *id)
            .collect();
        if ids.is_empty() {
            return;
        }
        let regions = self.regions.values();
        let streams = regions.flat_map(|region| region.streams.values());
        let retry = self.core.retry();
        let mut asked = streams.map(|stream| stream.gaps().asked(now, retry)).sum();
        for id in ids {
            for ask in self.plan(now, id, &mut asked) {
                self.core.rest_from_requests(now);
                self.carry_out(now, id, &ask, out);
            }
        }
    }

    /// The requests that are due in a region; `asked`: how many packets have been asked for.
    fn plan(&mut self, now: Instant, id: RegionId, asked: &mut u64) -> Vec<Ask> {
        let Some(region) = self.regions.get_mut(&id) else {
            return Vec::new();
        };
        let planner = Planner {
            history: &region.history,
            me: self.core.origin,
            now,
            retry: self.core.retry(),
            recovery: self.core.config.recovery,
        };
        let mut hunger = Hunger {
            appetite: &mut self.core.appetite,
            received: self.core.stats.data_received,
            asked: *asked,
            requests: &mut self.core.request_budget,
        };
        let streams = region.streams.values_mut();
        let due = streams.filter(|stream| stream.due() <= now);
        let asks = due.flat_map(|stream| planner.due(stream, &mut hunger));
        let asks = asks.collect();
        *asked = hunger.asked;
        asks
    }

    /// Somebody misses packets and asks this node.
    pub(super) fn on_request(
        &mut self,
        now: Instant,
        from: SocketAddr,
        (header, request, kind): (&Header, &Request<'_>, Kind),
    ) {
        let head = request.head;
        let Some(id) = self.channels.get(&head.stream.channel).copied() else {
            self.core.stats.discard_channel += 1;
            return;
        };
        let Some(region) = self.regions.get(&id) else {
            return;
        };
        let mut view = region.history.nearest(head.view);
        if view.index_of(header.origin).is_none() {
            // It has joined since, and must have what was sent before (R-TOK-4).
            view = region.history.newest();
        }
        let Some(asker) = view.index_of(header.origin) else {
            self.core.stats.discard_stranger += 1;
            return;
        };
        if kind == Kind::Pull {
            self.core.stats.pulls_received += 1;
        } else {
            self.core.stats.naks_received += 1;
        }
        let known_view = view.number() == head.view;
        let mut tried = if known_view { head.tried } else { 0 };
        let mut waiters: Vec<MemberIndex> = if known_view {
            request.requesters().collect()
        } else {
            Vec::new()
        };
        if head.for_itself {
            waiters.push(asker);
            let first = request
                .ranges
                .iter()
                .next()
                .map_or(0, |range| range.first());
            if view.partition_of(asker) == view.caching_partition(first) {
                tried |= bit(view.rank_of(asker));
            }
        }
        let asked = Asked {
            stream: head.stream,
            view: view.number(),
            tried,
            waiters,
            partition: Some(view.partition_of(asker)),
            patient: kind == Kind::Pull,
        };
        self.core.recent.turn(now, self.core.repairs.round_trip());
        if head.stream.origin == self.core.origin {
            self.answer_as_sender(now, from, id, (&asked, request.ranges));
        } else {
            self.answer_as_cacher(now, from, id, (&asked, request.ranges));
        }
    }

    /// Packets that exist nowhere any more.
    pub(super) fn on_absent(
        &mut self,
        now: Instant,
        (header, absent): (&Header, &Absent<'_>),
        out: &mut dyn Deliver,
    ) {
        let sender = absent.stream.origin;
        let Some(id) = self.channels.get(&absent.stream.channel).copied() else {
            return;
        };
        let Some(region) = self.regions.get_mut(&id) else {
            return;
        };
        let member = region.history.lives(header.origin);
        let Some(stream) = region.streams.get_mut(&sender) else {
            return;
        };
        if header.origin != sender && !member {
            self.core.stats.discard_stranger += 1;
            return;
        }
        // A member speaks for itself: what another cacher may have is not lost, nor what the sender
        // has.
        if header.origin != sender {
            for range in absent.ranges.iter() {
                note_missing(now, stream, &region.history, (header.origin, range));
            }
            stream.refresh_due();
            if !stream.sender_dead() {
                return;
            }
        }
        let lost: Vec<SeqRange> = absent
            .ranges
            .iter()
            .flat_map(|range| missing_everywhere(stream, &region.history, range))
            .collect();
        for range in lost {
            stream.lose(
                range,
                &region.groups,
                &region.history,
                &mut self
                    .core
                    .inbox(now, (&region.backoff, region.history.size()), out),
            );
        }
        self.deliver_waiting(now, id, sender, out);
    }

    /// A packet that others asked for has come.
    pub(super) fn serve_waiters(
        &mut self,
        now: Instant,
        id: RegionId,
        sender: Origin,
        (sequence, waiters): (u64, Waiters),
    ) {
        let asked = Asked {
            stream: StreamId {
                origin: sender,
                channel: Default::default(),
            },
            view: ViewNumber(0),
            tried: 0,
            waiters: waiters.members().to_vec(),
            partition: None,
            patient: !self.core.config.recovery.fast,
        };
        let Some(region) = self.regions.get(&id) else {
            return;
        };
        let stream = StreamId {
            channel: region.channel(),
            ..asked.stream
        };
        let view = region.streams.get(&sender).map_or_else(
            || region.history.newest().number(),
            |s| s.view_of(sequence, &region.history),
        );
        let asked = Asked {
            stream,
            view,
            ..asked
        };
        self.repair(now, id, &asked, sequence);
    }

    /// Sends packets that a ring neighbour misses (R076).
    pub(super) fn push(
        &mut self,
        now: Instant,
        id: RegionId,
        (to, sender, range): (MemberIndex, Origin, SeqRange),
    ) {
        let Some(region) = self.regions.get(&id) else {
            return;
        };
        let Some(member) = region.history.newest().member(to).copied() else {
            return;
        };
        self.core.recent.turn(now, self.core.repairs.round_trip());
        let stream_id = StreamId {
            origin: sender,
            channel: region.channel(),
        };
        let recipient = Recipient::One(to);
        let current = region.history.newest().number();
        let own = own_numbers(core::iter::once(range), |sequence| {
            region.history.caches(current, sequence)
        });
        let most = match self.core.config.recovery.fast {
            true => PUSHED_BESIDE_NAKS,
            false => PACKETS_PER_REQUEST,
        };
        for sequence in own.take(most) {
            if self.core.recent.served(stream_id, sequence, recipient) {
                continue;
            }
            let core = &mut self.core;
            let parts = (&mut core.repair_budget, &mut core.outbox, &mut core.stats);
            let packet = match region.streams.get(&sender) {
                Some(stream) => stream.packet(sequence, &core.store),
                None => region.sender.as_ref().and_then(|own| own.packet(sequence)),
            };
            let Some(packet) = packet else { continue };
            if send_repair(parts, now, member.address, Hop::Push, packet) {
                core.recent.note(stream_id, sequence, recipient);
            }
        }
    }

    /// Sends a request to a member of the current view, under its structures.
    pub(super) fn request_from(
        &mut self,
        id: RegionId,
        kind: Kind,
        (to, sender, tried): (SocketAddr, Origin, u32),
        ranges: &[SeqRange],
    ) {
        let Some(region) = self.regions.get(&id) else {
            return;
        };
        let head = qsm_wire::RequestHead {
            stream: StreamId {
                origin: sender,
                channel: region.channel(),
            },
            view: region.history.newest().number(),
            tried,
            for_itself: true,
        };
        let header = self.core.header();
        let counter = match kind {
            Kind::Pull => &mut self.core.stats.pulls_sent,
            _ => &mut self.core.stats.naks_sent,
        };
        *counter += 1;
        self.core.outbox.push(Reason::Request, to, |bytes| {
            Request::encode(&header, kind, &head, &[], ranges, bytes);
        });
    }

    fn carry_out(&mut self, now: Instant, id: RegionId, ask: &Ask, out: &mut dyn Deliver) {
        let Some(region) = self.regions.get(&id) else {
            return;
        };
        let sender = ask.head.stream.origin;
        let view = region.history.nearest(ask.head.view);
        let to = match ask.target {
            Target::Cacher(index) => view.member(index).map(|member| member.address),
            Target::Sender => region
                .streams
                .get(&sender)
                .and_then(ReceiveStream::sender_address),
            Target::Nobody => {
                self.give_up(now, id, ask, out);
                return;
            }
        };
        let Some(to) = to else { return };
        let packets: u64 = ask
            .ranges
            .iter()
            .map(|range| u64::from(range.count()))
            .sum();
        if ask.target == Target::Sender {
            self.core.stats.sender_asked += packets;
        }
        self.core.stats.naks_sent += 1;
        self.core.stats.naks_forwarded += u64::from(!ask.waiters.is_empty());
        let header = self.core.header();
        let patient = !self.core.config.recovery.fast && ask.target != Target::Sender;
        let kind = if patient { Kind::Pull } else { Kind::Nak };
        self.core.outbox.push(Reason::Request, to, |bytes| {
            Request::encode(&header, kind, &ask.head, &ask.waiters, &ask.ranges, bytes);
        });
    }

    /// Nobody has these packets: those who wait are told, and they are lost here too (R-NAK-8).
    fn give_up(&mut self, now: Instant, id: RegionId, ask: &Ask, out: &mut dyn Deliver) {
        let sender = ask.head.stream.origin;
        let header = self.core.header();
        let Some(region) = self.regions.get_mut(&id) else {
            return;
        };
        let view = region.history.nearest(ask.head.view);
        for member in ask.waiters.iter().filter_map(|index| view.member(*index)) {
            self.core
                .outbox
                .push(Reason::Request, member.address, |bytes| {
                    Absent::encode(&header, ask.head.stream, &ask.ranges, bytes);
                });
        }
        if let Some(stream) = region.streams.get_mut(&sender) {
            for range in &ask.ranges {
                stream.lose(
                    *range,
                    &region.groups,
                    &region.history,
                    &mut self
                        .core
                        .inbox(now, (&region.backoff, region.history.size()), out),
                );
            }
        }
        self.deliver_waiting(now, id, sender, out);
    }

    fn answer_as_sender(
        &mut self,
        now: Instant,
        from: SocketAddr,
        id: RegionId,
        (asked, ranges): (&Asked, Ranges<'_>),
    ) {
        let mut absent: Vec<SeqRange> = Vec::new();
        // A whole partition misses what it caches in these ranges.
        let partition = asked.partition.filter(|_| asked.tried == u32::MAX);
        let wanted: Vec<u64> = match (partition, self.regions.get(&id)) {
            (Some(partition), Some(region)) => {
                let view = region.history.nearest(asked.view);
                let own = |sequence| view.caching_partition(sequence) == partition;
                own_numbers(ranges.iter(), own).collect()
            }
            _ => sequences(ranges).collect(),
        };
        for sequence in wanted {
            let Some(sender) = self
                .regions
                .get(&id)
                .and_then(|region| region.sender.as_ref())
            else {
                return;
            };
            if sender.packet(sequence).is_some() {
                self.repair_as_sender(now, id, asked, sequence);
            } else if sequence <= sender.highest() {
                absent.push(SeqRange::one(sequence));
            }
        }
        self.say_absent(from, asked.stream, &absent);
    }

    /// The sender is asked when a whole caching partition misses a packet: everybody gets it
    /// again (R080). If only one member could not be served otherwise, only that one does.
    fn repair_as_sender(&mut self, now: Instant, id: RegionId, asked: &Asked, sequence: u64) {
        let Some(region) = self.regions.get(&id) else {
            return;
        };
        let Some(packet) = region
            .sender
            .as_ref()
            .and_then(|sender| sender.packet(sequence))
        else {
            return;
        };
        let view = region.history.nearest(asked.view);
        let alone = asked.tried == 0 && asked.waiters.len() == 1;
        let (recipient, to) = match asked.waiters.first().and_then(|one| view.member(*one)) {
            Some(member) if alone => (Recipient::One(asked.waiters[0]), member.address),
            _ => (Recipient::All, region.address()),
        };
        let core = &mut self.core;
        if core.recent.served(asked.stream, sequence, recipient) {
            return;
        }
        let parts = (&mut core.repair_budget, &mut core.outbox, &mut core.stats);
        if send_repair(parts, now, to, Hop::SenderRepair, packet) {
            core.recent.note(asked.stream, sequence, recipient);
        }
    }

    // Rule R-NAK-3.
    fn answer_as_cacher(
        &mut self,
        now: Instant,
        from: SocketAddr,
        id: RegionId,
        (asked, ranges): (&Asked, Ranges<'_>),
    ) {
        let mut absent: Vec<SeqRange> = Vec::new();
        let guard = self.core.guard();
        let fast = self.core.config.recovery.fast;
        let wanted: Vec<u64> = match self.regions.get(&id).filter(|_| asked.patient) {
            Some(region) => {
                let own = |sequence| region.history.answers_for(asked.view, sequence);
                own_numbers(ranges.iter(), own).collect()
            }
            None => sequences(ranges).collect(),
        };
        self.cut_out(id, asked.stream.origin, ranges);
        for sequence in wanted {
            let Some(region) = self.regions.get_mut(&id) else {
                return;
            };
            let Some(stream) = region.streams.get_mut(&asked.stream.origin) else {
                return;
            };
            if stream.packet(sequence, &self.core.store).is_some() {
                self.repair(now, id, asked, sequence);
                continue;
            }
            if stream.gave_up(sequence) || stream.has_let_go(sequence) {
                absent.push(SeqRange::one(sequence));
                continue;
            }
            let Some(gap) = stream.gaps_mut().find_mut(sequence) else {
                if fast && !asked.patient {
                    stream.expect(sequence, asked.tried, &asked.waiters);
                }
                continue;
            };
            // Unless there was no room to cut it out: of the rest this was not said.
            let tried = match ranges.iter().any(|range| range.covers(gap.range())) {
                true => asked.tried,
                false => 0,
            };
            let news = tried & !gap.known_missing != 0;
            gap.known_missing |= tried;
            asked
                .waiters
                .iter()
                .for_each(|waiter| gap.waiters.add(*waiter));
            if fast && !asked.patient && news {
                // Passed on, but not before it is certain that it is not just late here.
                gap.due = gap.due.min(now.max(gap.found.after(guard)));
            }
            stream.refresh_due();
        }
        self.say_absent(from, asked.stream, &absent);
    }

    /// Cuts what is missing here at the borders of what somebody says of it.
    fn cut_out(&mut self, id: RegionId, sender: Origin, ranges: Ranges<'_>) {
        let region = self.regions.get_mut(&id);
        if let Some(stream) = region.and_then(|region| region.streams.get_mut(&sender)) {
            ranges
                .iter()
                .for_each(|range| stream.gaps_mut().cut_out(range));
        }
    }

    fn say_absent(&mut self, to: SocketAddr, stream: StreamId, absent: &[SeqRange]) {
        if absent.is_empty() {
            return;
        }
        let header = self.core.header();
        self.core.outbox.push(Reason::Request, to, |bytes| {
            Absent::encode(&header, stream, &merged(absent), bytes);
        });
    }

    /// Sends a kept packet to those who wait for it.
    fn repair(&mut self, now: Instant, id: RegionId, asked: &Asked, sequence: u64) {
        let Some(region) = self.regions.get(&id) else {
            return;
        };
        let core = &mut self.core;
        let Some(packet) = region
            .streams
            .get(&asked.stream.origin)
            .and_then(|stream| stream.packet(sequence, &core.store))
        else {
            return;
        };
        let hop = if asked.patient {
            Hop::PullRepair
        } else {
            Hop::CacherRepair
        };
        let served = core.recent.singles(asked.stream, sequence);
        if served + asked.waiters.len() >= many(region.history.size()) {
            if !core.recent.served(asked.stream, sequence, Recipient::All) {
                let parts = (&mut core.repair_budget, &mut core.outbox, &mut core.stats);
                if send_repair(parts, now, region.address(), hop, packet) {
                    core.recent.note(asked.stream, sequence, Recipient::All);
                }
            }
            return;
        }
        let view = region.history.nearest(asked.view);
        for index in &asked.waiters {
            let recipient = Recipient::One(*index);
            let Some(member) = view.member(*index) else {
                continue;
            };
            if core.recent.served(asked.stream, sequence, recipient) {
                continue;
            }
            let parts = (&mut core.repair_budget, &mut core.outbox, &mut core.stats);
            if send_repair(parts, now, member.address, hop, packet) {
                core.recent.note(asked.stream, sequence, recipient);
            }
        }
    }
}

/// From how many recipients on a repair is multicast (R-NAK-6). Everybody else gets it for nothing:
/// a few of a large region are served one by one. R cachers share the requests, so that R times as
/// many members miss the packet then.
fn many(members: usize) -> usize {
    (members / 32).max(3)
}

/// Notes that this member misses what is missing here too in this range: somebody else can be
/// asked.
fn note_missing(
    now: Instant,
    stream: &mut ReceiveStream,
    history: &History,
    (who, range): (Origin, SeqRange),
) {
    for part in missing_parts(stream, history, range) {
        let first = part.first();
        let view = history.nearest(stream.view_of(first, history));
        let caches =
            |index: &MemberIndex| view.partition_of(*index) == view.caching_partition(first);
        let Some(index) = view.index_of(who).filter(caches) else {
            continue;
        };
        stream.gaps_mut().cut_out(part);
        // Unless there was no room to cut it out.
        if let Some(gap) = stream.gaps_mut().find_mut(first)
            && part.covers(gap.range())
        {
            gap.known_missing |= bit(view.rank_of(index));
            gap.due = gap.due.min(now);
        }
    }
}

/// What is missing within this range, cut where other members cache.
pub(super) fn missing_parts(
    stream: &ReceiveStream,
    history: &History,
    range: SeqRange,
) -> Vec<SeqRange> {
    let pieces = stream.pieces(range.last(), history);
    pieces
        .filter_map(|piece| SeqRange::new(piece.first().max(range.first()), piece.last()))
        .collect()
}

/// What is missing within this range and no living cacher is left who might have it.
fn missing_everywhere(stream: &ReceiveStream, history: &History, range: SeqRange) -> Vec<SeqRange> {
    let mut parts = missing_parts(stream, history, range);
    parts.retain(|part| {
        let view = stream.view_of(part.first(), history);
        let known = stream.gaps().find(part.first());
        let known = known.map_or(0, |gap| gap.known_missing);
        let mut others = others_who_cache(history, stream.id().origin, view, part.first());
        others.all(|(rank, _)| known & bit(rank) != 0)
    });
    parts
}

/// The numbers of a request, at most [`PACKETS_PER_REQUEST`].
fn sequences(ranges: Ranges<'_>) -> impl Iterator<Item = u64> + '_ {
    ranges
        .iter()
        .flat_map(|range| range.first()..=range.last())
        .take(PACKETS_PER_REQUEST)
}

/// Those of the ranges' numbers that `own` accepts, at most [`PACKETS_PER_REQUEST`].
fn own_numbers(
    ranges: impl Iterator<Item = SeqRange>,
    own: impl Fn(u64) -> bool,
) -> impl Iterator<Item = u64> {
    ranges
        .flat_map(|range| range.first()..=range.last())
        .take(NUMBERS_PER_REQUEST)
        .filter(move |sequence| own(*sequence))
        .take(PACKETS_PER_REQUEST)
}

/// Neighbouring ranges put together, as many as fit into one message.
fn merged(ranges: &[SeqRange]) -> Vec<SeqRange> {
    let mut out = Vec::new();
    ranges.iter().all(|range| append(&mut out, *range));
    out
}
