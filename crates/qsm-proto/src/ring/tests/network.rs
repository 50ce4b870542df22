//! Rings of many nodes on a virtual network, with fake receivers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use qsm_testnet::{Arrival, Flight, NetworkOptions, Queue};
use qsm_wire::membership::Member;
use qsm_wire::{
    Body, ChannelId, Incarnation, Kind, MemberIndex, NodeId, Origin, Packet, RegionId, SeqRange,
    ViewNumber,
};

use super::super::{Action, CALL, RegionRing, Report, RingConfig, Streams, Turn};
use crate::view::{Layout, RegionView};
use crate::{Config, Instant, Outbox, Random, Seed, Times};

pub(super) const DELAY: Duration = Duration::from_micros(100);
const NETWORK: NetworkOptions = NetworkOptions {
    delay: DELAY,
    jitter: Duration::ZERO,
    uplink_bits_per_second: u64::MAX,
    ..NetworkOptions::PERFECT
};

pub(super) fn origin(node: u64) -> Origin {
    Origin {
        node: NodeId(node),
        incarnation: Incarnation(1),
    }
}

pub(super) fn sender(number: u64) -> Origin {
    origin(10_000 + number)
}

/// A view of these nodes; the address grows with the node, so the first of a partition leads it.
pub(super) fn view(number: u32, nodes: &[u64], layout: Layout) -> Arc<RegionView> {
    let members = nodes.iter().map(|node| Member {
        origin: origin(*node),
        address: address(*node),
        joined: ViewNumber(1),
        left: None,
        away: None,
    });
    Arc::new(RegionView::new(
        RegionId(1),
        ViewNumber(number),
        (ChannelId(7), multicast()),
        members.collect(),
        layout,
    ))
}

fn multicast() -> SocketAddr {
    SocketAddr::from(([239, 1, 1, 1], 5))
}

fn address(node: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 1000 + u16::try_from(node).unwrap()))
}

fn node_at(address: SocketAddr) -> u64 {
    u64::from(address.port()) - 1000
}

pub(super) fn config() -> RingConfig {
    RingConfig::new(&Config::new(NodeId(0), address(0)))
}

#[derive(Debug, Clone, Default)]
pub(super) struct Stream {
    pub(super) held: BTreeSet<u64>,
    pub(super) highest: u64,
    pub(super) stable_upto: u64,
    pub(super) cached_upto: u64,
}

impl Stream {
    /// What is stable has been checked when it became so.
    pub(super) fn contiguous(&self) -> u64 {
        (self.stable_upto + 1..)
            .find(|number| !self.held.contains(number))
            .map_or(0, |gap| gap - 1)
    }

    /// Runs of what is missing up to `cutoff` among what `mine` selects.
    pub(super) fn missing(&self, cutoff: u64, mine: impl Fn(u64) -> bool) -> Vec<SeqRange> {
        let mut runs: Vec<SeqRange> = Vec::new();
        for number in (self.stable_upto + 1..=cutoff)
            .filter(|number| mine(*number) && !self.held.contains(number))
        {
            match runs.last_mut() {
                Some(run) if run.last() + 1 == number => {
                    *run = SeqRange::new(run.first(), number).unwrap();
                }
                _ => runs.push(SeqRange::one(number)),
            }
        }
        runs
    }
}

/// A receiver that keeps numbers instead of packets.
#[derive(Debug, Clone)]
pub(super) struct Fake {
    pub(super) view: Arc<RegionView>,
    pub(super) partition: usize,
    pub(super) streams: BTreeMap<Origin, Stream>,
    /// How many runs a NAK set may have.
    pub(super) ranges_max: usize,
    pub(super) rate: u32,
    pub(super) credit: u32,
}

impl Fake {
    pub(super) fn cached(&self, stream: &Stream) -> u64 {
        (stream.stable_upto + 1..=stream.highest)
            .find(|number| {
                self.view.caching_partition(*number) == self.partition
                    && !stream.held.contains(number)
            })
            .map_or(stream.highest, |gap| gap - 1)
    }
}

impl Streams for Fake {
    fn active(&self, into: &mut Vec<Origin>) {
        let active = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.highest > stream.stable_upto);
        into.extend(active.map(|(sender, _)| *sender));
    }

    fn report(&self, sender: Origin) -> Option<Report> {
        let stream = self.streams.get(&sender)?;
        let contiguous = stream.contiguous();
        Some(Report {
            highest: stream.highest,
            arrived: stream.highest,
            contiguous,
            cached: self.cached(stream),
            missing: contiguous < stream.highest,
        })
    }

    fn knows(&self, sender: Origin, _: u64) -> bool {
        self.streams.contains_key(&sender)
    }

    fn missing_own(&self, sender: Origin, cutoff: u64, into: &mut Vec<SeqRange>) -> bool {
        let Some(stream) = self.streams.get(&sender) else {
            return false;
        };
        let mine = |number| self.view.caching_partition(number) == self.partition;
        // A hostile cutoff must not make the fake count to it.
        let runs = stream.missing(cutoff.min(10_000), mine);
        into.extend(runs.iter().take(self.ranges_max));
        runs.len() > self.ranges_max
    }

    fn receive_rate(&self) -> u32 {
        self.rate
    }

    fn credit_bytes(&self) -> u32 {
        self.credit
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) ring: RegionRing,
    pub(super) fake: Fake,
    pub(super) me: Origin,
    pub(super) alive: bool,
    timeout: Option<Instant>,
}

/// A repaired packet on its way.
#[derive(Debug)]
struct Repair {
    to: u64,
    sender: Origin,
    number: u64,
}

#[derive(Debug)]
pub(super) struct Network {
    pub(super) now: Instant,
    pub(super) nodes: BTreeMap<u64, Node>,
    pub(super) random: Random,
    flight: Flight,
    /// Whether pushes, pulls and requests to senders are carried out.
    pub(super) repair: bool,
    /// Everything the rings asked for, by node.
    pub(super) actions: Vec<(u64, Action)>,
    /// Tokens put on the wire, repetitions and calls included.
    pub(super) tokens: u64,
    /// Times of all nodes.
    pub(super) times: Times,
    /// Rings a token travelled, for routes: (from, to, level).
    pub(super) route: Vec<(Origin, u64, u8)>,
    /// Watermarks of cachers that have been found right. They stay when the view changes, and with
    /// it the partitions that cache; only what is new is measured by the new view.
    cached: BTreeMap<Origin, u64>,
    repairs: Queue<Repair>,
    timeouts: BTreeSet<(Instant, u64)>,
}

impl Network {
    pub(super) fn new(seed: u64, nodes: &[u64], layout: Layout) -> Self {
        Self::with(seed, nodes, layout, config())
    }

    pub(super) fn with(seed: u64, nodes: &[u64], layout: Layout, config: RingConfig) -> Self {
        let mut network = Self {
            now: Instant(1_000_000_000),
            nodes: BTreeMap::new(),
            random: Random::new(Seed(seed), "ring network"),
            flight: Flight::new(NETWORK, Seed(seed)),
            repair: true,
            actions: Vec::new(),
            tokens: 0,
            times: Times::default(),
            route: Vec::new(),
            cached: BTreeMap::new(),
            repairs: Queue::new(),
            timeouts: BTreeSet::new(),
        };
        let view = view(1, nodes, layout);
        for node in nodes {
            network.add(*node, &view, config);
        }
        network
    }

    /// Its flaws from now on.
    pub(super) fn flaws(&mut self) -> &mut NetworkOptions {
        self.flight.network.options_mut()
    }

    pub(super) fn add(&mut self, node: u64, view: &Arc<RegionView>, config: RingConfig) {
        self.flight.add_host(address(node));
        self.flight.listen(address(node), multicast(), true);
        let fake = Fake {
            view: Arc::clone(view),
            partition: 0,
            streams: BTreeMap::new(),
            ranges_max: 8,
            rate: u32::MAX,
            credit: 200_000,
        };
        self.nodes.insert(
            node,
            Node {
                ring: RegionRing::new(config),
                fake,
                me: origin(node),
                alive: true,
                timeout: None,
            },
        );
        self.install(node, view);
    }

    pub(super) fn install(&mut self, node: u64, view: &Arc<RegionView>) {
        let now = self.now;
        let entry = self.nodes.get_mut(&node).unwrap();
        entry.fake.view = Arc::clone(view);
        if let Some(index) = view.index_of(entry.me) {
            entry.fake.partition = view.partition_of(index);
        }
        entry.ring.set_view(now, Arc::clone(view), entry.me);
        self.schedule(node);
    }

    pub(super) fn kill(&mut self, node: u64) {
        self.nodes.get_mut(&node).unwrap().alive = false;
        self.schedule(node);
    }

    pub(super) fn revive(&mut self, node: u64) {
        self.nodes.get_mut(&node).unwrap().alive = true;
        self.schedule(node);
    }

    /// Kills all nodes but these and forgets them.
    pub(super) fn keep(&mut self, nodes: &[u64]) {
        for node in self.nodes.keys().copied().collect::<Vec<_>>() {
            if !nodes.contains(&node) {
                self.kill(node);
                self.nodes.remove(&node);
            }
        }
    }

    pub(super) fn ring(&self, node: u64) -> &RegionRing {
        &self.nodes[&node].ring
    }

    /// The node receives a packet.
    pub(super) fn receive(&mut self, node: u64, sender: Origin, number: u64) {
        let now = self.now;
        let entry = self.nodes.get_mut(&node).unwrap();
        let stream = entry.fake.streams.entry(sender).or_default();
        stream.highest = stream.highest.max(number);
        stream.held.insert(number);
        entry.ring.note_traffic(now, 1000);
        self.schedule(node);
    }

    /// The node hears how far the stream goes (a heartbeat).
    pub(super) fn hear(&mut self, node: u64, sender: Origin, highest: u64) {
        let now = self.now;
        let entry = self.nodes.get_mut(&node).unwrap();
        let stream = entry.fake.streams.entry(sender).or_default();
        if highest > stream.highest {
            stream.highest = highest;
            entry.ring.note_traffic(now, 0);
        }
        self.schedule(node);
    }

    /// All nodes receive these packets.
    pub(super) fn receive_all(&mut self, sender: Origin, numbers: core::ops::RangeInclusive<u64>) {
        for node in self.nodes.keys().copied().collect::<Vec<_>>() {
            for number in numbers.clone() {
                self.receive(node, sender, number);
            }
        }
    }

    pub(super) fn run(&mut self, duration: Duration) {
        let end = self.now.after(duration);
        while self.step(end) {}
        self.now = end;
    }

    /// Loses the calls and summaries that are on the wire.
    pub(super) fn lose_multicasts(&mut self) {
        let kept = |arrival: &Arrival| match Packet::decode(&arrival.bytes).unwrap().body {
            Body::Token(token) => token.head.level != CALL,
            Body::Summary(_) => false,
            _ => true,
        };
        self.flight.retain(kept);
    }

    /// Runs until the region leader has completed that many rounds in all.
    pub(super) fn run_rounds(&mut self, leader: u64, rounds: u64) {
        let end = self.now.after(Duration::from_secs(60));
        while self.ring(leader).stats().rounds < rounds {
            assert!(self.step(end), "only {:?}", self.ring(leader).stats());
        }
    }

    /// One event; `false` if none is left before `end`.
    pub(super) fn step(&mut self, end: Instant) -> bool {
        let [arrival, repair] = [self.flight.next_time(), self.repairs.next_time()];
        let timeout = self.timeouts.first().map(|(at, _)| *at);
        let Some(next) = [arrival, repair, timeout].into_iter().flatten().min() else {
            return false;
        };
        if next > end || next == Instant::NEVER {
            return false;
        }
        self.now = self.now.max(next);
        if let Some(Arrival { at, bytes, .. }) = self.flight.poll(next) {
            self.inject(node_at(at), &bytes);
        } else if repair == Some(next) {
            let (_, Repair { to, sender, number }) = self.repairs.pop().unwrap();
            if self.nodes.contains_key(&to) {
                self.receive(to, sender, number);
            }
        } else if let Some((_, node)) = self.timeouts.pop_first() {
            self.nodes.get_mut(&node).unwrap().timeout = None;
            self.turn(node, |ring, turn| ring.handle_timeout(turn));
            let again = self.nodes[&node].ring.next_timeout();
            assert!(
                again.is_none_or(|at| at > self.now),
                "a timeout does nothing"
            );
        }
        true
    }

    pub(super) fn inject(&mut self, to: u64, bytes: &[u8]) {
        if !self.nodes.get(&to).is_some_and(|node| node.alive) {
            return;
        }
        let packet = Packet::decode(bytes).unwrap();
        let from = packet.header.origin;
        self.turn(to, |ring, turn| match packet.body {
            Body::Token(token) => ring.handle_token(turn, from, &token),
            Body::TokenAck(ack) => {
                let hop = ring.handle_token_ack(turn.now, from, &ack);
                hop.into_iter()
                    .for_each(|took| turn.times.token_hop.record(took));
            }
            Body::Summary(summary) => ring.handle_summary(turn, from, &summary),
            _ => panic!("not a packet of the token plane"),
        });
    }

    fn turn(&mut self, node: u64, act: impl FnOnce(&mut RegionRing, &mut Turn<'_>)) {
        let mut outbox = Outbox::new();
        let mut actions = Vec::new();
        let entry = self.nodes.get_mut(&node).unwrap();
        let mut turn = Turn {
            now: self.now,
            streams: &entry.fake,
            outbox: &mut outbox,
            actions: &mut actions,
            times: &mut self.times,
        };
        act(&mut entry.ring, &mut turn);
        for action in actions {
            self.perform(node, &action);
            self.actions.push((node, action));
        }
        while let Some(transmit) = outbox.pop() {
            assert!(transmit.bytes.len() <= 1472 - 16, "too long for a datagram");
            self.transmit(node, transmit.to.address(), transmit.bytes);
        }
        self.schedule(node);
    }

    fn transmit(&mut self, node: u64, to: SocketAddr, bytes: &[u8]) {
        let token = Kind::peek(bytes) == Some(Kind::Token);
        self.tokens += u64::from(token);
        if token
            && to != multicast()
            && let Body::Token(token) = Packet::decode(bytes).unwrap().body
        {
            self.route
                .push((origin(node), node_at(to), token.head.level));
        }
        self.flight.send(self.now, address(node), to, bytes);
    }

    fn send_repair(&mut self, repair: Repair) {
        let jitter = crate::nanoseconds(self.flaws().jitter);
        let late = Duration::from_nanos(self.random.below(jitter));
        self.repairs.push(self.now.after(DELAY + late), repair);
    }

    fn schedule(&mut self, node: u64) {
        let entry = self.nodes.get_mut(&node).unwrap();
        let next = entry.ring.next_timeout().filter(|_| entry.alive);
        if let Some(old) = entry.timeout {
            self.timeouts.remove(&(old, node));
        }
        entry.timeout = next;
        self.timeouts.extend(next.map(|at| (at, node)));
    }

    /// Checks an action against the truth, and carries it out.
    fn perform(&mut self, node: u64, action: &Action) {
        match action {
            Action::Watermarks {
                sender,
                cutoff,
                stable_upto,
                cached_upto,
            } => {
                self.check(node, *sender, *stable_upto, *cached_upto);
                let fake = &mut self.nodes.get_mut(&node).unwrap().fake;
                let stream = fake.streams.entry(*sender).or_default();
                assert!(*stable_upto >= stream.stable_upto, "stable goes back");
                assert!(*cached_upto >= stream.cached_upto, "cached goes back");
                stream.highest = stream.highest.max(*cutoff);
                stream.stable_upto = *stable_upto;
                stream.cached_upto = *cached_upto;
            }
            Action::Acknowledge { sender, ack, marks } => {
                self.check(node, *sender, ack.stable_upto, ack.cached_upto);
                self.check_marks(*sender, marks);
            }
            Action::Tell { member, .. } | Action::Suspect { member, .. } => {
                assert_ne!(*member, origin(node), "suspects itself");
            }
            _ if !self.repair => {}
            Action::Push { to, sender, range } => {
                self.repairs(node, self.member(node, *to), *sender, &[*range]);
            }
            Action::Pull {
                from,
                sender,
                ranges,
            } => {
                let from = self.member(node, *from);
                self.repairs(from, node, *sender, ranges.as_slice());
            }
            Action::PullLeaders { sender, cutoff } => self.pull_leaders(node, *sender, *cutoff),
            Action::AskSender { sender, ranges } => {
                for range in ranges.as_slice() {
                    self.multicast_again(*sender, *range);
                }
            }
        }
    }

    fn multicast_again(&mut self, sender: Origin, range: SeqRange) {
        for to in self.nodes.keys().copied().collect::<Vec<_>>() {
            for number in range.first()..=range.last() {
                self.send_repair(Repair { to, sender, number });
            }
        }
    }

    fn member(&self, node: u64, index: MemberIndex) -> u64 {
        let view = &self.nodes[&node].fake.view;
        view.member(index).unwrap().origin.node.0
    }

    fn pull_leaders(&mut self, node: u64, sender: Origin, cutoff: u64) {
        let fake = &self.nodes[&node].fake;
        let (view, own) = (Arc::clone(&fake.view), fake.partition);
        for partition in (0..view.partitions()).filter(|partition| *partition != own) {
            let stream = &self.nodes[&node].fake.streams[&sender];
            let missing =
                stream.missing(cutoff, |number| view.caching_partition(number) == partition);
            let leader = self.member(node, view.partition_leader(partition).unwrap());
            self.repairs(leader, node, sender, &missing);
        }
    }

    fn repairs(&mut self, from: u64, to: u64, sender: Origin, ranges: &[SeqRange]) {
        let Some(stream) = self.nodes[&from].fake.streams.get(&sender) else {
            return;
        };
        let numbers = stream.held.iter().copied();
        let wanted = numbers.filter(|number| ranges.iter().any(|range| range.contains(*number)));
        for number in wanted.collect::<Vec<_>>() {
            let loss_ppm = self.flaws().loss_ppm;
            if !self.random.chance_ppm(loss_ppm) {
                self.send_repair(Repair { to, sender, number });
            }
        }
    }

    /// What is said of a partition is so for each of its members.
    fn check_marks(&self, sender: Origin, marks: &[u64]) {
        for node in self.nodes.values() {
            let mark = marks.get(node.fake.partition).copied().unwrap_or(0);
            let stream = node.fake.streams.get(&sender);
            let cached = stream.map_or(0, |stream| node.fake.cached(stream));
            assert!(mark <= cached, "{}: {cached} instead of {mark}", node.me);
        }
    }

    /// Safety: a watermark is never above what all members of the view that it speaks of have.
    fn check(&mut self, node: u64, sender: Origin, stable_upto: u64, cached_upto: u64) {
        assert!(stable_upto <= cached_upto);
        let view = &self.nodes[&node].fake.view;
        let cached = self.cached.get(&sender).copied().unwrap_or(0);
        for member in view.members() {
            let fake = &self.nodes[&member.origin.node.0].fake;
            let stream = fake.streams.get(&sender);
            let contiguous = stream.map_or(0, Stream::contiguous);
            assert!(
                stable_upto <= contiguous,
                "node {node}: stable {stable_upto}, but {} has {contiguous}",
                member.origin
            );
            let index = view.index_of(member.origin).unwrap();
            let lacks = (cached + 1..=cached_upto).find(|number| {
                view.caching_partition(*number) == view.partition_of(index)
                    && !stream.is_some_and(|stream| stream.held.contains(number))
            });
            assert_eq!(lacks, None, "cached {cached_upto} at {}", member.origin);
        }
        self.cached.insert(sender, cached.max(cached_upto));
    }
}
