//! One node's protocol: routes datagrams, commands and timers to the parts that own the state.

mod commands;
mod copies;
mod messages;
mod timeouts;

use core::time::Duration;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use qsm_wire::membership::RepairLimit;
use qsm_wire::{
    Body, DecodeError, GroupId, Header, Heartbeat, NodeId, NumbersQuery, Origin, Packet, Parity,
    RegionId, Request, SeqRange, StreamId, StreamQuery, cluster_of,
};

use self::copies::Copies;
pub use self::copies::CopiesLeft;
use crate::closing::Closing;
use crate::foreign::Foreign;
use crate::former::FormerPositions;
use crate::group_rates::GroupCounts;
use crate::introduction::Reporter;
use crate::membership::Membership;
use crate::node::{NodeState, SendLimit};
use crate::receive::{Incoming, SEQUENCE_MAX};
use crate::region::{ReadyStream, Region, RegionCx, RegionSet, extent_asked_for};
use crate::repair::RequestUrgency;
use crate::stats::{RepairTimes, Times};
use crate::wishes::Wishes;
use crate::{
    Config, ConfigError, DamageLog, Datagram, Delays, Deliver, Event, Instant, Reason, Seed, Stats,
    Transmit,
};

/// Nodes that are told apart in the counter of peers.
const PEERS_MAX: usize = 4096;

/// One node. See the crate's documentation for what goes in and out.
#[derive(Debug)]
pub struct Endpoint {
    node: NodeState,
    membership: Membership,
    regions: RegionSet,
    former: FormerPositions,
    /// Which groups are delivered promptly as well.
    wishes: Wishes,
    /// Whom control packets have come from since the newest view (R011).
    peers: BTreeSet<NodeId>,
    closing: Closing,
    damage: DamageLog,
    foreign: Foreign,
    /// Its introduction, if it gives one.
    reporter: Option<Reporter>,
    /// Of who says what it is.
    group_counts: Option<GroupCounts>,
    copies: Copies,
    /// Packets that left last, if parities are to follow them (R-NAK-17).
    followed: Option<SentPackets>,
}

/// Packets of a region that have left for the first time.
#[derive(Debug, Clone, Copy)]
struct SentPackets {
    region: RegionId,
    packets: SeqRange,
}

impl Endpoint {
    /// A node that is in no cluster yet.
    ///
    /// # Errors
    /// The configuration cannot work.
    pub fn new(config: Config, seed: Seed, now: Instant) -> Result<Self, ConfigError> {
        config.check()?;
        let introduction = config.introduction.clone();
        Ok(Self {
            group_counts: introduction.as_ref().map(|_| GroupCounts::new(now)),
            reporter: introduction.map(|what| Reporter::new(what, config.node, now)),
            membership: Membership::new(&config, seed, now),
            regions: RegionSet::new(&config.limits),
            former: FormerPositions::default(),
            wishes: Wishes::default(),
            node: NodeState::new(config, seed, now),
            peers: BTreeSet::new(),
            closing: Closing::default(),
            damage: DamageLog::default(),
            foreign: Foreign::default(),
            copies: Copies::new(),
            followed: None,
        })
    }

    /// Who this node is; incarnation 0 before it is admitted.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.node.origin
    }

    /// The run of the membership service that admitted this node last.
    #[must_use]
    pub fn service_run(&self) -> Option<Origin> {
        self.membership.service_run()
    }

    /// The operator's limit of what this node sends again, as the membership service has told it
    /// (R-NAK-16).
    #[must_use]
    pub fn repair_limit(&self) -> RepairLimit {
        self.node.repair_limit()
    }

    /// Datagrams of other clusters that have come.
    #[must_use]
    pub fn foreign_datagrams(&self) -> u64 {
        self.node.stats.discard_cluster
    }

    /// A datagram of another cluster has come to this multicast address. If there are many, and it is that
    /// of a region that this node is in, the membership service is told (R-MEM-20).
    pub fn note_foreign(&mut self, now: Instant, at: SocketAddr) {
        let now = self.advance(now);
        if !self.foreign.note(now, at) {
            return;
        }
        for id in self.regions.table.ids() {
            let region = self.regions.table.get(id);
            let there = |region: &&Region| {
                let address = region.address();
                // Without the interface.
                region.member() && (address.ip(), address.port()) == (at.ip(), at.port())
            };
            if region.filter(there).is_some() {
                self.node.stats.foreign_told += 1;
                self.membership.foreign(now, id, &mut self.node.outbox);
            }
        }
    }

    /// The membership service is there (found by the runtime, or started by it).
    pub fn set_service(&mut self, now: Instant, address: SocketAddr) {
        let now = self.advance(now);
        self.membership
            .set_service(now, address, &mut self.node.outbox);
    }

    /// The kernel dropped packets because this node was too slow: it objects to the rate for a
    /// while (R103, algorithms (c)).
    pub fn note_drops(&mut self, now: Instant, packets: u64) {
        let now = self.advance(now);
        if packets > 0 {
            self.node.meter.object(now);
        }
    }

    /// Whether datagrams have arrived that the runtime has not handed over yet. While there are
    /// any, what others say of a stream's end does not count as missing (R074), and the time counts as
    /// one in which this node is behind (R-RATE-6).
    pub fn set_backlog(&mut self, now: Instant, backlog: bool) {
        let now = self.advance(now);
        self.node.backlog.set(now, backlog);
    }

    /// Datagrams that the runtime has just handed over had waited for so long, or nearly, because it
    /// did not run. Counts like a backlog that it said of (R-RATE-6).
    pub fn note_wait(&mut self, now: Instant, time: Duration) {
        let now = self.advance(now);
        self.node.backlog.add_unsaid(now, time);
    }

    /// The oldest of the datagrams that the runtime has just taken from its sockets had waited there
    /// for so long. To be said once for what is taken together. Where a queue never empties, less
    /// credit is granted (R-RATE-9); a runtime that never says it grants all.
    pub fn note_sojourn(&mut self, now: Instant, waited: Duration) {
        self.advance(now);
        self.node.note_sojourn(waited);
    }

    /// Takes a datagram from the network; messages that become deliverable go to `out` (R-PKT-6).
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: Datagram<'_>,
        out: &mut dyn Deliver,
    ) {
        self.advance(now);
        let packet = match Packet::open(datagram.bytes) {
            Ok(packet) => packet,
            Err(error) => {
                self.refuse(from, datagram.bytes, error);
                return;
            }
        };
        let header = packet.header;
        if header.cluster != self.node.cluster() {
            self.node.stats.discard_cluster += 1;
            return;
        }
        if header.origin == self.node.origin {
            self.node.stats.discard_own += 1;
            return;
        }
        if let Body::Data(data) = &packet.body {
            let incoming = Incoming {
                header: &header,
                data,
                datagram,
            };
            self.on_data(from, &incoming, out);
            if !self.node.parities.is_empty() {
                self.restore_with(from, &incoming, out);
            }
            return;
        }
        self.node.stats.control_received += 1;
        if self.peers.len() < PEERS_MAX {
            self.peers.insert(header.origin.node);
        }
        self.on_control(from, &header, &packet.body, out);
    }

    /// The next datagrams to send: control first, then streams in turn. `None`: nothing now.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let now = self.advance(now);
        self.count_copies();
        if let Some(sent) = self.followed.take()
            && let Some(mut cx) = self.region(sent.region)
        {
            cx.send_parities_ahead(sent.packets);
        }
        // Tokens and repairs for one node do not wait until all copies have left.
        if !self.copies.is_empty() && !self.node.outbox.is_unicast() {
            return self.copies.poll();
        }
        match self.node.outbox.is_empty() {
            true => self.poll_data(now),
            false => self.poll_outbox(),
        }
    }

    /// The copies of what left last that are still to go, at once, for who sends to many by one call; `None`:
    /// something else goes first, or nothing is to be copied.
    pub fn poll_copies(&mut self) -> Option<CopiesLeft<'_>> {
        match self.node.outbox.is_unicast() {
            true => None,
            false => self.copies.left(),
        }
    }

    fn poll_outbox(&mut self) -> Option<Transmit<'_>> {
        let (multicast, me) = (self.node.config.multicast, self.node.origin);
        let now = self.node.now;
        let transmit = self.node.outbox.pop()?;
        let stats = &mut self.node.stats;
        stats.control_sent += u64::from(transmit.reason != Reason::Repair);
        let (to, table) = (transmit.to.address(), &self.regions.table);
        if transmit.to.is_group() && !multicast {
            self.copies.begin(&transmit, table.others_at(to, me), stats);
            if !self.copies.is_empty() {
                return self.copies.poll();
            }
        } else if transmit.to.is_group() && self.node.copied > 0 {
            self.copies.begin(&transmit, table.recipients_at(to), stats);
        }
        spend(&mut self.node.send_limit, now, transmit.bytes.len());
        Some(transmit)
    }

    fn poll_data(&mut self, now: Instant) -> Option<Transmit<'_>> {
        self.node.note_repairs_left();
        let (multicast, me) = (self.node.config.multicast, self.node.origin);
        if let Some(limit) = &mut self.node.send_limit {
            let open = limit.is_open(now);
            limit.hold(!open && self.regions.table.has_ready(now));
            if !open {
                return None;
            }
        }
        let ReadyStream {
            region,
            stream,
            to,
            member,
            recipients,
            view,
            lifetimes,
        } = self.regions.table.next_to_send(now)?;
        let once = multicast || !to.is_group();
        let others = view.others(me).filter(|_| !once);
        let copies = match once {
            true => recipients.len(),
            false => others.clone().count().saturating_sub(1),
        };
        stream.share_rate(now, copies);
        let limit = self.node.send_limit.as_ref();
        let most = limit.map_or(usize::MAX, |limit| {
            limit.train(self.node.config.datagram_bytes * (1 + copies))
        });
        let train = stream.poll_train_of(now, most)?;
        self.node.earn_repairs(train.bytes.len());
        if self.node.config.recovery.parities_ahead > 0 {
            let last = train.first + train.packets as u64 - 1;
            let packets = SeqRange::new(train.first, last);
            self.followed = packets.map(|packets| SentPackets { region, packets });
        }
        if let Some(lifetimes) = lifetimes {
            lifetimes.note(now, me, train.first + train.packets as u64 - 1);
        }
        if member {
            // It has its own packets at once; without them it would seem to receive nothing and
            // hold itself down (equation 1).
            self.node.meter.count(now, train.packets);
        }
        let transmit = Transmit {
            to,
            bytes: train.bytes,
            segment_bytes: train.segment_bytes,
            reason: Reason::Data,
        };
        if once {
            if !recipients.is_empty() {
                let to = recipients.addresses();
                self.copies.begin(&transmit, to, &mut self.node.stats);
            }
        } else {
            self.copies.begin(&transmit, others, &mut self.node.stats);
            if !self.copies.is_empty() {
                return self.copies.poll();
            }
        }
        spend(&mut self.node.send_limit, now, transmit.bytes.len());
        Some(transmit)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.node.events.pop()
    }

    /// Events that were dropped because too many came between two polls.
    #[must_use]
    pub fn events_dropped(&self) -> u64 {
        self.node.events.dropped()
    }

    /// When to call [`Endpoint::handle_timeout`] next if nothing else happens before.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let (now, from) = (self.node.now, self.node.requests_from);
        let limit = self.node.send_limit.as_ref();
        let trains_from = limit.map_or(Instant(0), SendLimit::opens);
        let mut next = self.membership.next_timeout().unwrap_or(Instant::NEVER);
        for region in self.regions.table.iter() {
            next = next.min(region.next_timeout(from, trains_from));
            next = next.min(region.leave_timeout(now).unwrap_or(Instant::NEVER));
        }
        if self.node.request_window.has_opened() {
            next = next.min(from.max(now));
        }
        next = next.min(self.closing.timeout(now).unwrap_or(Instant::NEVER));
        let counts = self.group_counts.as_ref().and_then(GroupCounts::due);
        next = next.min(counts.unwrap_or(Instant::NEVER));
        let report = self.reporter.as_ref().and_then(Reporter::due);
        next = next.min(report.unwrap_or(Instant::NEVER));
        let limit = limit.and_then(SendLimit::due);
        next = next.min(limit.unwrap_or(Instant::NEVER));
        (next < Instant::NEVER).then_some(next)
    }

    /// What the node has done since its start.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.node.stats;
        stats.outbox_full = self.node.outbox.dropped();
        stats.events_full = self.node.events.dropped();
        stats.peers = u64::try_from(self.peers.len()).unwrap_or(u64::MAX);
        self.regions
            .table
            .iter()
            .for_each(|region| region.add_counters(&mut stats));
        stats
    }

    /// Times measured since the node's start.
    #[must_use]
    pub fn times(&self) -> Times {
        Times {
            repair: self.node.repairs.lasted.clone(),
            ..self.node.times.clone()
        }
    }

    /// How long repairs took.
    #[must_use]
    pub fn repair_times(&self) -> &RepairTimes {
        &self.node.repairs
    }

    /// The longest delays since they were taken last; of what is sent if that is timed
    /// ([`Config::times_packets`]). It changes nothing of what the node does, and looks at the stream of each region that the
    /// node sends to.
    pub fn take_delays(&mut self, now: Instant) -> Delays {
        let mut delays = Delays::default();
        for stream in self
            .regions
            .table
            .iter_mut()
            .filter_map(Region::own_stream_mut)
        {
            delays.note_packet(stream.take_delays(now));
        }
        delays.repair = self.node.repairs.take_longest();
        delays
    }

    /// Memory in use, bytes: send windows, and packets received and kept.
    #[must_use]
    pub fn memory_bytes(&self) -> (usize, usize) {
        (
            (self.regions.pool.lent_blocks() + self.regions.pool.retained_blocks())
                * crate::send::BLOCK_BYTES,
            self.node.store.used_bytes(),
        )
    }

    /// Memory of own packets that are kept only for members that are away, or were, bytes.
    #[must_use]
    pub fn retained_bytes(&self) -> usize {
        self.regions.pool.retained_blocks() * crate::send::BLOCK_BYTES
    }

    /// Bytes of the packets received and kept, without the room around them.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.node.store.packet_bytes()
    }

    /// Tells whether this node has the bytes of that packet: as its sender, or because it keeps them. What has yet to be proven
    /// does not count.
    #[must_use]
    pub fn holds(&self, region: RegionId, sender: Origin, sequence: u64) -> bool {
        let region = self.regions.table.get(region);
        region.is_some_and(|region| region.holds(sender, sequence, &self.node.store))
    }

    /// Tells whether this node has bytes by that number, whether they are proven or wait for their proof: what a node says
    /// is cached (R-SEC-32).
    #[must_use]
    pub fn keeps(&self, region: RegionId, sender: Origin, sequence: u64) -> bool {
        let region = self.regions.table.get(region);
        region.is_some_and(|region| region.keeps(sender, sequence, &self.node.store))
    }

    /// Number of a seal for that packet that this node keeps.
    #[must_use]
    pub fn kept_seal_for(&self, region: RegionId, sender: Origin, sequence: u64) -> Option<u64> {
        let stream = self.regions.table.get(region)?.stream(sender)?;
        stream.kept_seal_for(sequence, &self.node.store)
    }

    /// The regions that concern this node.
    pub fn regions(&self) -> impl Iterator<Item = &Region> {
        self.regions.table.iter()
    }

    /// Whether messages to this group are delivered here, one's own among them.
    #[must_use]
    pub fn delivers(&self, group: GroupId) -> bool {
        self.node.cursors.subscribed(group)
    }

    /// The name of a group of this node.
    #[must_use]
    pub fn group_name(&self, group: GroupId) -> Option<&str> {
        self.membership.group_name(group)
    }

    /// Panics if the state contradicts itself (architecture, invariant 3).
    pub fn check_invariants(&self) {
        self.regions.table.iter().for_each(Region::check_invariants);
        let streams: usize = self
            .regions
            .table
            .iter()
            .map(|region| region.streams().count())
            .sum();
        assert_eq!(streams, self.node.streams, "streams are miscounted");
    }

    fn on_data(&mut self, from: SocketAddr, incoming: &Incoming<'_>, out: &mut dyn Deliver) {
        let (sender, head) = (incoming.header.origin, &incoming.data.head);
        let Some(id) = self.regions.table.of_channel(head.channel) else {
            self.node.stats.discard_channel += 1;
            return;
        };
        if head.sequence >= SEQUENCE_MAX {
            self.node.stats.discard_ahead += 1;
            return;
        }
        let moving = self.regions.table.moving();
        let held = moving && self.held(id, incoming, from);
        let Some(mut cx) = self.region(id) else {
            return;
        };
        if cx.take_data(from, incoming, held, out) && moving {
            self.regions.table.progress(&mut self.node, id, sender, out);
        }
    }

    /// A packet has come while parities wait for others of their blocks. Kept apart from the way of
    /// most packets, which it would make slower.
    #[cold]
    #[inline(never)]
    fn restore_with(&mut self, from: SocketAddr, incoming: &Incoming<'_>, out: &mut dyn Deliver) {
        let (sender, head) = (incoming.header.origin, &incoming.data.head);
        let id = self.regions.table.of_channel(head.channel);
        if let Some(mut cx) = id.and_then(|id| self.region(id)) {
            let restored = cx.restore_with(sender, head.sequence);
            self.take_restored(from, &restored, out);
        }
    }

    #[cold]
    #[inline(never)]
    fn on_parity(
        &mut self,
        from: SocketAddr,
        speaker: Origin,
        parity: &Parity<'_>,
        out: &mut dyn Deliver,
    ) {
        let id = self.regions.table.of_channel(parity.stream.channel);
        if let Some(mut cx) = id.and_then(|id| self.region(id)) {
            let restored = cx.take_parity(speaker, parity);
            self.take_restored(from, &restored, out);
        }
    }

    /// Takes packets that have been restored as datagrams that have come, pushed; `from`: what was the last
    /// that was missing for that. Rule R-NAK-15.
    #[cold]
    #[inline(never)]
    fn take_restored(&mut self, from: SocketAddr, packets: &[Vec<u8>], out: &mut dyn Deliver) {
        let (now, pushed) = (self.node.now, self.node.stats.repaired_by_push);
        for packet in packets {
            self.handle_datagram(now, from, packet.as_slice().into(), out);
        }
        let stats = &mut self.node.stats;
        stats.repaired_by_parity += stats.repaired_by_push - pushed;
        stats.repaired_by_push = pushed;
    }

    /// Whether a packet's messages must wait for those of a region that was left before.
    fn held(&mut self, id: RegionId, incoming: &Incoming<'_>, from: SocketAddr) -> bool {
        let region = self.regions.table.get(id);
        let member = region.is_some_and(Region::member);
        let (sender, source) = (incoming.header.origin, incoming.source(from));
        // Where packets wait for proof anybody may have sent this one.
        let source = source.filter(|_| !region.is_some_and(Region::waits_for_proof));
        member && self.regions.table.held(self.node.now, id, sender, source)
    }

    fn on_control(
        &mut self,
        from: SocketAddr,
        header: &Header,
        body: &Body<'_>,
        out: &mut dyn Deliver,
    ) {
        let origin = header.origin;
        match body {
            Body::Token(token) => match self.region(token.head.region) {
                Some(mut cx) => cx.take_token(header, token),
                None => self.node.stats.discard_channel += 1,
            },
            Body::TokenAck(ack) => {
                if let Some(mut cx) = self.region(ack.region) {
                    cx.take_token_ack(origin, ack);
                }
            }
            Body::Summary(summary) => match self.region(summary.region) {
                Some(mut cx) => cx.take_summary(header, summary),
                None => self.node.stats.discard_channel += 1,
            },
            Body::Ack(ack, marks) => match self.region(ack.region) {
                Some(mut cx) => cx.take_ack(origin, ack, &marks.iter().collect::<Vec<u64>>()),
                None => self.node.stats.discard_stranger += 1,
            },
            Body::Nak(request) => {
                self.on_request(from, origin, request, RequestUrgency::AtOnce);
            }
            Body::Pull(request) => {
                self.on_request(from, origin, request, RequestUrgency::WhenAvailable);
            }
            Body::Absent(absent) => {
                let stream = absent.stream;
                if let Some(id) = self.regions.table.of_channel(stream.channel)
                    && let Some(mut cx) = self.region(id)
                    && cx.take_absent(origin, absent, out)
                {
                    let sender = stream.origin;
                    self.regions
                        .table
                        .deliver_waiting(&mut self.node, id, sender, out);
                }
            }
            Body::Heartbeat(beat) => self.on_heartbeat(from, origin, beat, out),
            Body::StreamQuery(query) => self.on_query(from, query),
            Body::Parity(parity) => self.on_parity(from, origin, parity, out),
            Body::NumbersQuery(query) => self.on_numbers_query(from, origin, query),
            Body::Numbers(numbers) => {
                let stream = numbers.query.stream;
                if let Some(id) = self.regions.table.of_channel(stream.channel)
                    && let Some(mut cx) = self.region(id)
                    && cx.take_numbers(origin, numbers, out)
                {
                    self.deliver_passed(id, stream.origin, out);
                }
            }
            Body::CatchUp(question) => match self.region(question.region) {
                Some(mut cx) => cx.take_catch_up(origin, question),
                None => self.node.stats.discard_channel += 1,
            },
            Body::Reach(question) => match self.region(question.region) {
                Some(mut cx) => cx.take_reach(origin, question),
                None => self.node.stats.discard_channel += 1,
            },
            Body::ReachReply(reply) => match self.region(reply.region) {
                Some(mut cx) => cx.take_reach_reply(from, origin, reply),
                None => self.node.stats.discard_channel += 1,
            },
            Body::Probe(probe) => {
                let outbox = &mut self.node.outbox;
                self.membership.answer_probe(from, *probe, outbox);
            }
            _ => self.on_membership(header, body, out),
        }
    }

    fn on_numbers_query(&mut self, from: SocketAddr, asker: Origin, query: &NumbersQuery) {
        let (node, membership) = (&mut self.node, &self.membership);
        self.regions.answer_numbers(node, from, asker, query);
        let channel = query.stream.channel;
        self.regions.note_question(channel, asker, node, membership);
    }

    /// Delivers what waited behind lost packets of a stream, and what waits for that elsewhere.
    fn deliver_passed(&mut self, id: RegionId, sender: Origin, out: &mut dyn Deliver) {
        let (node, table) = (&mut self.node, &mut self.regions.table);
        table.deliver_waiting(node, id, sender, out);
        table.progress(node, id, sender, out);
    }

    fn on_request(
        &mut self,
        from: SocketAddr,
        asker: Origin,
        request: &Request<'_>,
        urgency: RequestUrgency,
    ) {
        let Some(id) = self.regions.table.of_channel(request.head.stream.channel) else {
            self.node.stats.discard_channel += 1;
            return;
        };
        if let Some(mut cx) = self.region(id) {
            cx.take_request(from, asker, request, urgency);
            let mine = request.head.stream.origin == cx.node.origin;
            if mine && cx.region.has_let_go(request) {
                let told = cx.region.told_by_answer(asker, request);
                let (node, membership) = (&mut self.node, &self.membership);
                for member in told {
                    self.regions.note_refusal(id, member, node, membership);
                }
            }
        }
    }

    fn on_heartbeat(
        &mut self,
        from: SocketAddr,
        speaker: Origin,
        beat: &Heartbeat<'_>,
        out: &mut dyn Deliver,
    ) {
        let sender = beat.stream.origin;
        let id = self.regions.table.of_channel(beat.stream.channel);
        let Some((id, mut cx)) = id.and_then(|id| Some((id, self.region(id)?))) else {
            self.node.stats.discard_channel += 1;
            return;
        };
        if !cx.take_heartbeat(from, speaker, beat) {
            return;
        }
        if speaker == sender && self.regions.table.moving() {
            // What waits for a region left before asks the sender, now that it is known where it is.
            self.regions
                .table
                .deliver_waiting(&mut self.node, id, sender, out);
        }
        self.regions.table.progress(&mut self.node, id, sender, out);
    }

    fn on_query(&mut self, from: SocketAddr, query: &StreamQuery) {
        let stream = StreamId {
            origin: query.stream,
            channel: query.channel,
        };
        let id = self.regions.table.of_channel(query.channel);
        let region = id.and_then(|id| self.regions.table.get(id));
        match extent_asked_for(region, &self.regions.pasts, &self.membership, stream) {
            Some(extent) => extent.say(&mut self.node, from, stream),
            None => self.node.stats.discard_channel += u64::from(region.is_none()),
        }
    }

    /// Datagrams of this cluster that are protected, by a key or an admission that this node does not have.
    #[must_use]
    pub fn discarded_sealed(&self) -> u64 {
        self.node.stats.discard_sealed
    }

    /// Counts a datagram that cannot be read, and tells of damage.
    #[cold]
    fn refuse(&mut self, from: SocketAddr, datagram: &[u8], error: DecodeError) {
        if error == DecodeError::Damaged
            && let Some(damage) = self.damage.note(self.node.now, from)
        {
            self.node.events.push(Event::Damaged(damage));
        }
        let cluster = self.node.cluster();
        let stats = &mut self.node.stats;
        let counter = match error {
            DecodeError::Damaged => &mut stats.discard_damaged,
            DecodeError::UnknownVersion => &mut stats.discard_version,
            DecodeError::UnknownKind => &mut stats.discard_kind,
            // Clusters share addresses, and some may be protected.
            DecodeError::Sealed if cluster_of(datagram) != Some(cluster) => {
                &mut stats.discard_cluster
            }
            DecodeError::Sealed => &mut stats.discard_sealed,
            _ => &mut stats.discard_malformed,
        };
        *counter += 1;
    }

    /// A region, and what its decisions may see.
    fn region(&mut self, id: RegionId) -> Option<RegionCx<'_>> {
        self.regions.cx(id, &mut self.node, &mut self.membership)
    }

    fn for_each_region(&mut self, step: impl FnMut(&mut RegionCx<'_>)) {
        self.regions
            .for_each(&mut self.node, &mut self.membership, step);
    }

    /// Copies that have been taken since the last look at them have left. Rule R-RATE-13.
    fn count_copies(&mut self) {
        if let Some(limit) = &mut self.node.send_limit {
            limit.spend(self.node.now, self.copies.take_sent() as u64);
        }
    }

    /// Time never goes back (contract 1).
    fn advance(&mut self, now: Instant) -> Instant {
        self.node.now = self.node.now.max(now);
        self.node.now
    }
}

/// So many bytes leave now. Rule R-RATE-13.
fn spend(limit: &mut Option<SendLimit>, now: Instant, bytes: usize) {
    if let Some(limit) = limit {
        limit.spend(now, bytes as u64);
    }
}
