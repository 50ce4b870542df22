//! One node's protocol: routes datagrams, commands and timers to the parts that own the state.

mod core;
mod data;
mod departures;
mod meter;
mod past;
mod publication;
mod publish;
mod queries;
mod requests;
mod routes;
mod tokens;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Bound;

use qsm_wire::{
    Body, ChannelId, DecodeError, GroupId, Header, Kind, NodeId, Origin, Packet, RegionId,
};

pub use self::publication::Publication;

use self::core::Core;
use self::departures::Departures;
use self::meter::Meter;
use self::past::Pasts;
use self::routes::Routes;
use crate::membership::Membership;
use crate::receive::Incoming;
use crate::region::Region;
use crate::ring::Action;
use crate::send::BlockPool;
use crate::stats::RepairTimes;
use crate::{
    Config, ConfigError, Datagram, Deliver, Event, Instant, Reason, Seed, Stats, Transmit,
};

/// How long a dead sender's stream is remembered after everything of it is stable.
const LINGER: ::core::time::Duration = ::core::time::Duration::from_secs(30);

/// Nodes that are told apart in the counter of peers.
const PEERS_MAX: usize = 4096;

#[derive(Debug, Clone, Copy)]
struct Closing {
    until: Instant,
    said: bool,
}

/// One node. See the crate's documentation for what goes in and out.
#[derive(Debug)]
pub struct Endpoint {
    core: Core,
    membership: Membership,
    regions: BTreeMap<RegionId, Region>,
    channels: BTreeMap<ChannelId, RegionId>,
    routes: Routes,
    pool: BlockPool,
    /// What was sent on channels that are not known any more.
    pasts: Pasts,
    departures: Departures,
    meter: Meter,
    subscriptions: BTreeSet<GroupId>,
    /// Groups whose subscription the application has given up, by the request that says so to
    /// the service, until that is answered (R-MEM-9).
    exiting: BTreeMap<u32, Vec<String>>,
    listening: BTreeMap<SocketAddr, BTreeSet<SocketAddr>>,
    /// Groups of regions whose first view has not come yet.
    announced: BTreeMap<RegionId, Vec<GroupId>>,
    /// Regions with a new view in the present batch.
    touched: BTreeSet<RegionId>,
    /// Requests to become publisher that are not answered yet.
    publishing: BTreeMap<u32, Vec<String>>,
    /// Whom control packets have come from (R011).
    peers: BTreeSet<NodeId>,
    closing: Option<Closing>,
    /// Some region is being left: streams may be held for what is still to come from there.
    moving: bool,
    /// The runtime has not read all that has arrived.
    backlog: bool,
    now: Instant,
    /// Where the round of regions with data to send goes on.
    turn: RegionId,
    /// Emptied list for reuse.
    actions: Vec<Action>,
}

impl Endpoint {
    /// A node that is in no cluster yet.
    ///
    /// # Errors
    /// The configuration cannot work.
    pub fn new(config: Config, seed: Seed, now: Instant) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            membership: Membership::new(&config, seed, now),
            pool: BlockPool::new(config.limits.send_bytes),
            pasts: Pasts::default(),
            departures: Departures::default(),
            meter: Meter::new(&config.pace, now),
            core: Core::new(config, seed, now),
            regions: BTreeMap::new(),
            channels: BTreeMap::new(),
            routes: Routes::default(),
            subscriptions: BTreeSet::new(),
            exiting: BTreeMap::new(),
            listening: BTreeMap::new(),
            announced: BTreeMap::new(),
            touched: BTreeSet::new(),
            publishing: BTreeMap::new(),
            peers: BTreeSet::new(),
            closing: None,
            moving: false,
            backlog: false,
            now,
            turn: RegionId(0),
            actions: Vec::new(),
        })
    }

    /// Who this node is; incarnation 0 before it is admitted.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.core.origin
    }

    /// The run of the membership service that admitted this node last.
    #[must_use]
    pub fn service_run(&self) -> Option<Origin> {
        self.membership.service_run()
    }

    /// The membership service is there (found by the runtime, or started by it).
    pub fn set_service(&mut self, now: Instant, address: SocketAddr) {
        let now = self.advance(now);
        self.membership
            .set_service(now, address, &mut self.core.outbox);
    }

    /// The kernel dropped packets because this node was too slow: it objects to the rate for a
    /// while (R103, algorithms (c)).
    pub fn note_drops(&mut self, now: Instant, packets: u64) {
        let now = self.advance(now);
        if packets > 0 {
            self.meter.object(now);
        }
    }

    /// Whether datagrams have arrived that the runtime has not handed over yet. While there are
    /// any, what others say of a stream's end does not count as missing (R074).
    pub fn set_backlog(&mut self, backlog: bool) {
        self.backlog = backlog;
    }

    /// Takes a datagram from the network; messages that become deliverable go to `out` (R-PKT-6).
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: Datagram<'_>,
        out: &mut dyn Deliver,
    ) {
        let now = self.advance(now);
        let packet = match Packet::decode(datagram.bytes) {
            Ok(packet) => packet,
            Err(error) => {
                self.count_malformed(error);
                return;
            }
        };
        let header = packet.header;
        if header.cluster != self.core.cluster() {
            self.core.stats.discard_cluster += 1;
            return;
        }
        if header.origin == self.core.origin {
            self.core.stats.discard_own += 1;
            return;
        }
        if let Body::Data(data) = &packet.body {
            let incoming = Incoming {
                header: &header,
                data,
                datagram,
            };
            self.on_data(now, from, &incoming, out);
            return;
        }
        self.core.stats.control_received += 1;
        if self.peers.len() < PEERS_MAX {
            self.peers.insert(header.origin.node);
        }
        self.on_control(now, from, (&header, &packet.body), out);
    }

    /// Does what is due. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut dyn Deliver) {
        let now = self.advance(now);
        self.membership.handle_timeout(now, &mut self.core.outbox);
        self.take_changes(now, out);
        if !self.backlog {
            self.extend_streams(now, out);
        }
        self.run_rings(now);
        self.make_requests(now, out);
        self.go_on_delivering(now, out);
        self.ask_queries(now);
        for region in self.regions.values_mut() {
            let address = region.address();
            if let Some(sender) = &mut region.sender {
                sender.handle_timeout(now, address, &mut self.core.outbox);
            }
        }
        self.leave_drained(now);
        self.part(now);
        self.forget_ended(now);
        self.go_on_closing(now);
    }

    /// The next datagrams to send: control first, then streams in turn. `None`: nothing now.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let now = self.advance(now);
        if !self.core.outbox.is_empty() {
            let transmit = self.core.outbox.pop()?;
            self.core.stats.control_sent += u64::from(transmit.reason != Reason::Repair);
            return Some(transmit);
        }
        let next = self.next_to_send(now)?;
        self.turn = next;
        let region = self.regions.get_mut(&next)?;
        let to = region.address();
        let member = region.member();
        let train = region.sender.as_mut()?.poll_train(now)?;
        self.core.earn_repairs(train.bytes.len());
        if member {
            // It has its own packets at once; without them it would seem to receive nothing and
            // hold itself down (equation 1).
            self.meter.count(now, train.packets);
        }
        Some(Transmit {
            to,
            bytes: train.bytes,
            segment_bytes: train.segment_bytes,
            reason: Reason::Data,
        })
    }

    /// The next region in turn whose stream may send now.
    fn next_to_send(&mut self, now: Instant) -> Option<RegionId> {
        let ready = |(id, region): (&RegionId, &mut Region)| {
            let sender = region.sender.as_mut()?;
            let sends = sender.unsent_bytes() > 0 && sender.can_send(now);
            sends.then_some(*id)
        };
        let last = self.turn;
        let after = (Bound::Excluded(last), Bound::Unbounded);
        let next = self.regions.range_mut(after).find_map(ready);
        next.or_else(|| self.regions.range_mut(..=last).find_map(ready))
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.core.events.pop()
    }

    /// When to call [`Endpoint::handle_timeout`] next if nothing else happens before.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let from = self.core.requests_from;
        let regions = self.regions.values();
        let regions = regions.map(|region| region.next_timeout(from)).min();
        let closing = self
            .closing
            .filter(|closing| !closing.said)
            .map(|closing| closing.until);
        let rest = [
            self.membership.next_timeout(),
            self.leave_timeout(),
            closing,
        ];
        let all = regions.into_iter().chain(rest.into_iter().flatten());
        all.min().filter(|at| *at < Instant::NEVER)
    }

    /// What the node has done since its start.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.core.stats;
        stats.outbox_full = self.core.outbox.dropped();
        stats.events_full = self.core.events.dropped();
        stats.peers = u64::try_from(self.peers.len()).unwrap_or(u64::MAX);
        self.regions
            .values()
            .for_each(|region| tokens::add_counters(&mut stats, region));
        stats
    }

    /// How long repairs took.
    #[must_use]
    pub fn repair_times(&self) -> &RepairTimes {
        &self.core.repairs
    }

    /// Memory in use, bytes: send windows, and packets received and kept.
    #[must_use]
    pub fn memory_bytes(&self) -> (usize, usize) {
        (
            self.pool.lent_blocks() * crate::send::BLOCK_BYTES,
            self.core.store.used_bytes(),
        )
    }

    /// Bytes of the packets received and kept, without the room around them.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.core.store.packet_bytes()
    }

    /// Whether this node has the bytes of that packet: as its sender, or because it keeps them.
    #[must_use]
    pub fn holds(&self, region: RegionId, sender: Origin, sequence: u64) -> bool {
        self.regions.get(&region).is_some_and(|region| {
            let own = region.sender.as_ref();
            let own = own.filter(|own| own.id().origin == sender);
            let kept = region.streams.get(&sender);
            own.is_some_and(|own| own.packet(sequence).is_some())
                || kept.is_some_and(|kept| kept.packet(sequence, &self.core.store).is_some())
        })
    }

    /// The regions that concern this node.
    pub fn regions(&self) -> impl Iterator<Item = &Region> {
        self.regions.values()
    }

    /// Whether messages to this group are delivered here, one's own among them.
    #[must_use]
    pub fn delivers(&self, group: GroupId) -> bool {
        self.core.cursors.subscribed(group)
    }

    /// The name of a group of this node.
    #[must_use]
    pub fn group_name(&self, group: GroupId) -> Option<&str> {
        self.membership.group_name(group)
    }

    /// Panics if the state contradicts itself (architecture, invariant 3).
    pub fn check_invariants(&self) {
        for region in self.regions.values() {
            region
                .streams
                .values()
                .for_each(|stream| stream.check_invariants());
            if let Some(sender) = &region.sender {
                sender.check_invariants();
            }
        }
    }

    fn on_control(
        &mut self,
        now: Instant,
        from: SocketAddr,
        (header, body): (&Header, &Body<'_>),
        out: &mut dyn Deliver,
    ) {
        match body {
            Body::Token(token) => self.on_token(now, (header, token)),
            Body::TokenAck(ack) => self.on_token_ack(now, header.origin, ack),
            Body::Summary(summary) => self.on_summary(now, (header, summary)),
            Body::Ack(ack, marks) => {
                let marks: Vec<u64> = marks.iter().collect();
                self.on_ack(now, header.origin, (ack, &marks));
            }
            Body::Nak(request) => self.on_request(now, from, (header, request, Kind::Nak)),
            Body::Pull(request) => self.on_request(now, from, (header, request, Kind::Pull)),
            Body::Absent(absent) => self.on_absent(now, (header, absent), out),
            Body::Heartbeat(beat) => self.on_heartbeat(now, from, (header, beat), out),
            Body::StreamQuery(query) => self.on_query(from, query),
            _ => {
                self.membership
                    .handle(now, from, (header, body), &mut self.core.outbox);
                if let Some(round_trip) = self.membership.round_trip() {
                    self.core.repairs.assume(round_trip);
                }
                self.take_changes(now, out);
            }
        }
    }

    fn count_malformed(&mut self, error: DecodeError) {
        let stats = &mut self.core.stats;
        let counter = match error {
            DecodeError::UnknownVersion => &mut stats.discard_version,
            DecodeError::UnknownKind => &mut stats.discard_kind,
            _ => &mut stats.discard_malformed,
        };
        *counter += 1;
    }

    /// Forgets dead senders' streams that nobody needs any more.
    fn forget_ended(&mut self, now: Instant) {
        for region in self.regions.values_mut() {
            let cursors = &mut self.core.cursors;
            let store = &mut self.core.store;
            region.streams.retain(|sender, stream| {
                let over = stream.over(now, LINGER);
                if over {
                    stream.release(store);
                    cursors.forget(*sender);
                }
                !over
            });
        }
    }

    /// Time never goes back (contract 1).
    fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }
}
