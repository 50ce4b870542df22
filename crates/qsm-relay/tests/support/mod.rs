//! A network of sources, relays and receivers without sockets: links that lose, delay, double and
//! reorder datagrams, and relays that forget everything. Drawn from a seed, the same in every run.

#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test program uses a part of it"
)]

mod bottleneck;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

pub(crate) use bottleneck::{Bottleneck, PACKET_BYTES, Tcp};
use qsm_relay::{
    Body, DATA_HEADER_BYTES, Event, Kind, Packet, RateBounds, Receiver, Relay, SendError,
    SessionId, Source, Timing, To,
};
use qsm_wire::{Instant, Random, Seed};

pub(crate) const SESSION: SessionId = SessionId {
    source: 0x0102_0304_0506_0708,
    group: 0xefc0_0001,
};
pub(crate) const SOURCE: usize = 0;

pub(crate) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Treatment of what passes a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
    pub(crate) loss_ppm: u32,
    pub(crate) double_ppm: u32,
}

impl Link {
    pub(crate) const fn clean(delay_ms: u64) -> Self {
        Self {
            delay: Duration::from_millis(delay_ms),
            jitter: Duration::ZERO,
            loss_ppm: 0,
            double_ppm: 0,
        }
    }
}

/// A datagram that a node has sent by a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) kind: Kind,
    /// First number in it; 0 if there is none.
    pub(crate) sequence: u64,
    /// Numbers in it.
    pub(crate) packets: u64,
    /// It does not arrive.
    pub(crate) lost: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) first: u64,
    pub(crate) delivered: Vec<u64>,
    pub(crate) lost: Vec<u64>,
    pub(crate) ended: u32,
}

enum Node {
    Source(Box<Source>),
    Relay {
        relay: Option<Box<Relay>>,
        parent: usize,
    },
    Receiver {
        receiver: Option<Box<Receiver>>,
        parent: usize,
    },
}

fn parent_of(node: &Node) -> Option<usize> {
    match node {
        Node::Source(_) => None,
        Node::Relay { parent, .. } | Node::Receiver { parent, .. } => Some(*parent),
    }
}

/// A datagram that is not to arrive: the next one that fits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loss {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) kind: Kind,
    pub(crate) sequence: u64,
}

pub(crate) struct Net {
    pub(crate) now: Instant,
    pub(crate) sent: Vec<Sent>,
    timing: Timing,
    link: Link,
    links: BTreeMap<(usize, usize), Link>,
    random: Random,
    nodes: Vec<Node>,
    heard: BTreeMap<usize, Heard>,
    queue: BTreeMap<(Instant, u64), (usize, usize, Vec<u8>)>,
    wakeups: BTreeSet<(Instant, usize)>,
    losses: Vec<Loss>,
    /// One that both links and flows may go through.
    bottleneck: Bottleneck,
    narrow: BTreeSet<(usize, usize)>,
    flows: Vec<Tcp>,
    /// Bytes of each payload, if they are to be all the same.
    payload_bytes: Option<usize>,
    /// Number that the source began behind.
    base: u64,
    /// Ports of nodes whose addresses have changed.
    ports: BTreeMap<usize, u16>,
    order: u64,
}

/// Bytes of the headers of IP and UDP.
const OVERHEAD_BYTES: usize = 28;

pub(crate) fn payload(sequence: u64, bytes: Option<usize>) -> Vec<u8> {
    let length = bytes.unwrap_or_else(|| usize::try_from(sequence * 37 % 200).unwrap());
    let bytes = sequence.to_le_bytes();
    bytes.iter().copied().cycle().take(length).collect()
}

/// Port of all nodes whose address has not changed.
const PORT: u16 = 4500;
const NOBODY: usize = usize::MAX;

fn address(node: usize) -> SocketAddr {
    let number = u32::try_from(node).unwrap();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number)), PORT)
}

fn node_at(address: SocketAddr) -> usize {
    let IpAddr::V4(ip) = address.ip() else {
        panic!("of another family")
    };
    usize::try_from(u32::from(ip) - 0x0a00_0000).unwrap()
}

impl Net {
    /// A network with a source and links of this kind.
    pub(crate) fn new(seed: u64, link: Link, window: u64) -> Self {
        let round_trip = (link.delay + link.jitter) * 2;
        let timing = Timing::new(round_trip, round_trip);
        Self {
            now: Instant(0),
            sent: Vec::new(),
            timing,
            link,
            links: BTreeMap::new(),
            random: Random::new(Seed(seed), "relays"),
            nodes: vec![Node::Source(Box::new(Source::new(SESSION, timing, window)))],
            heard: BTreeMap::new(),
            queue: BTreeMap::new(),
            wakeups: BTreeSet::new(),
            losses: Vec::new(),
            bottleneck: Bottleneck::new(1, 0),
            narrow: BTreeSet::new(),
            flows: Vec::new(),
            payload_bytes: None,
            base: 0,
            ports: BTreeMap::new(),
            order: 0,
        }
    }

    /// A network whose source adapts its rate, with packets of the size of a flow's.
    pub(crate) fn rated(seed: u64, link: Link) -> Self {
        let mut net = Self::new(seed, link, 4096);
        net.adapt_rate();
        let headers = OVERHEAD_BYTES + DATA_HEADER_BYTES;
        net.payload_bytes = Some(usize::try_from(PACKET_BYTES).unwrap() - headers);
        net
    }

    /// The source adapts its rate.
    pub(crate) fn adapt_rate(&mut self) {
        self.source_mut().adapt_rate(RateBounds::default());
    }

    /// All that goes this way goes through the bottleneck, which is like this from now on.
    pub(crate) fn narrow(&mut self, from: usize, to: usize, bottleneck: Bottleneck) {
        self.bottleneck = bottleneck;
        self.narrow.insert((from, to));
    }

    /// A flow through the bottleneck, with this time each way behind it.
    pub(crate) fn flow(&mut self, delay: Duration) {
        self.flows.push(Tcp::new(delay));
        let at = self.now;
        self.flows.last_mut().unwrap().run(at, &mut self.bottleneck);
    }

    pub(crate) fn flow_at(&self, number: usize) -> &Tcp {
        &self.flows[number]
    }

    /// Sends as fast as the source lets it, for so long.
    pub(crate) fn flood(&mut self, duration: Duration) {
        let end = self.now.after(duration);
        while self.now < end {
            // Until the window is full.
            while self.source().waiting() < 32 && self.send().is_ok() {}
            self.run(ms(1));
        }
    }

    /// A number that nobody else has drawn.
    fn number(&mut self) -> u64 {
        self.random.bits() | 1
    }

    pub(crate) fn timing(&self) -> Timing {
        self.timing
    }

    pub(crate) fn relay(&mut self, parent: usize) -> usize {
        let relay = Relay::new(address(parent), self.number(), self.timing);
        let relay = Some(Box::new(relay));
        self.nodes.push(Node::Relay { relay, parent });
        self.nodes.len() - 1
    }

    pub(crate) fn receiver(&mut self, parent: usize) -> usize {
        self.nodes.push(Node::Receiver {
            receiver: None,
            parent,
        });
        let node = self.nodes.len() - 1;
        self.start(node);
        node
    }

    pub(crate) fn receivers_below(&mut self, parent: usize, count: usize) -> Vec<usize> {
        (0..count).map(|_| self.receiver(parent)).collect()
    }

    /// Both directions between these two.
    pub(crate) fn set_link(&mut self, one: usize, other: usize, link: Link) {
        self.links.insert((one, other), link);
        self.links.insert((other, one), link);
    }

    pub(crate) fn lose(&mut self, from: usize, to: usize, kind: Kind, sequence: u64) {
        self.losses.push(Loss {
            from,
            to,
            kind,
            sequence,
        });
    }

    pub(crate) fn send(&mut self) -> Result<u64, SendError> {
        let (now, bytes, base) = (self.now, self.payload_bytes, self.base);
        let source = self.source_mut();
        let next = base + source.stats().sent + source.waiting() + 1;
        let sent = source.send(now, &payload(next, bytes));
        self.pump(SOURCE);
        sent
    }

    pub(crate) fn finish(&mut self) {
        let now = self.now;
        self.source_mut().finish(now);
        self.pump(SOURCE);
    }

    pub(crate) fn source(&self) -> &Source {
        let Node::Source(source) = &self.nodes[SOURCE] else {
            panic!("no source")
        };
        source
    }

    fn source_mut(&mut self) -> &mut Source {
        let Node::Source(source) = &mut self.nodes[SOURCE] else {
            panic!("no source")
        };
        source
    }

    pub(crate) fn relay_at(&self, node: usize) -> &Relay {
        let Node::Relay {
            relay: Some(it), ..
        } = &self.nodes[node]
        else {
            panic!("no relay")
        };
        it
    }

    pub(crate) fn receiver_at(&self, node: usize) -> &Receiver {
        let Node::Receiver {
            receiver: Some(it), ..
        } = &self.nodes[node]
        else {
            panic!("no receiver")
        };
        it
    }

    pub(crate) fn heard(&self, node: usize) -> &Heard {
        &self.heard[&node]
    }

    /// A receiver says that it goes.
    pub(crate) fn leave(&mut self, node: usize) {
        if let Node::Receiver {
            receiver: Some(it), ..
        } = &mut self.nodes[node]
        {
            it.leave();
        }
        self.pump(node);
    }

    /// A translator of addresses between a node and its parent gives it another port, and forgets the
    /// old one.
    pub(crate) fn change_port(&mut self, node: usize) {
        *self.ports.entry(node).or_insert(PORT) += 1;
    }

    /// The address of a node as another one sees it.
    fn address_of(&self, node: usize, seen_by: usize) -> SocketAddr {
        let port = self.ports.get(&node).copied();
        let port = port.filter(|_| parent_of(&self.nodes[node]) == Some(seen_by));
        SocketAddr::new(address(node).ip(), port.unwrap_or(PORT))
    }

    /// The node that has this address now; a number of none if it is an old one.
    fn reached(&self, from: usize, at: SocketAddr) -> usize {
        let node = node_at(at);
        let known = node < self.nodes.len() && self.address_of(node, from) == at;
        if known { node } else { NOBODY }
    }

    /// The program of the source ends, and is started again; it numbers from behind this number on.
    pub(crate) fn restart_source(&mut self, behind: u64) {
        let mut source = Source::new(SESSION, self.timing, 1024);
        source.number_behind(behind);
        self.base = behind;
        self.nodes[SOURCE] = Node::Source(Box::new(source));
    }

    /// A relay or receiver forgets everything, or hears nothing until it is started again.
    pub(crate) fn stop(&mut self, node: usize) {
        match &mut self.nodes[node] {
            Node::Source(_) => panic!("a source does not come back"),
            Node::Relay { relay, .. } => *relay = None,
            Node::Receiver { receiver, .. } => *receiver = None,
        }
    }

    pub(crate) fn start(&mut self, node: usize) {
        let (timing, now, number) = (self.timing, self.now, self.number());
        match &mut self.nodes[node] {
            Node::Source(_) => panic!("a source does not come back"),
            Node::Relay { relay, parent } => {
                *relay = Some(Box::new(Relay::new(address(*parent), number, timing)));
            }
            Node::Receiver { receiver, parent } => {
                let made = Receiver::new(SESSION, number, timing, address(*parent), now);
                *receiver = Some(Box::new(made));
                self.heard.insert(node, Heard::default());
            }
        }
        self.pump(node);
    }

    /// Bytes from nowhere.
    pub(crate) fn forge(&mut self, from: usize, to: usize, bytes: Vec<u8>) {
        self.order += 1;
        self.queue.insert((self.now, self.order), (from, to, bytes));
    }

    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.now.after(duration);
        loop {
            let arrival = self.queue.first_key_value().map(|((at, _), _)| *at);
            let wakeup = self.wakeups.first().map(|(at, _)| *at);
            let flow = self.flows.iter().filter_map(Tcp::next_step).min();
            let next = arrival.into_iter().chain(wakeup).chain(flow).min();
            let Some(at) = next.filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            if flow == Some(at) {
                for flow in &mut self.flows {
                    flow.run(self.now, &mut self.bottleneck);
                }
            } else if arrival == Some(at) {
                let (_, (from, to, bytes)) = self.queue.pop_first().unwrap();
                self.arrive(from, to, &bytes);
            } else {
                let (_, node) = self.wakeups.pop_first().unwrap();
                self.wake(node);
            }
        }
        self.now = end;
    }

    /// Runs until something holds, at most for so long; whether it held.
    pub(crate) fn run_until(&mut self, most: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        let end = self.now.after(most);
        while !holds(self) {
            if self.now >= end {
                return false;
            }
            self.run(ms(1));
        }
        true
    }

    fn arrive(&mut self, from: usize, to: usize, bytes: &[u8]) {
        if to >= self.nodes.len() {
            // To a stranger.
            return;
        }
        let now = self.now;
        let from = match from < self.nodes.len() {
            true => self.address_of(from, to),
            false => address(from),
        };
        let mut onward = Vec::new();
        match &mut self.nodes[to] {
            Node::Source(source) => source.handle_datagram(now, from, bytes),
            Node::Relay {
                relay: Some(it), ..
            } => {
                let passed = it.handle_datagram(now, from, bytes);
                onward.extend(it.addresses(passed));
            }
            Node::Receiver {
                receiver: Some(it), ..
            } => it.handle_datagram(now, from, bytes),
            Node::Relay { relay: None, .. } | Node::Receiver { receiver: None, .. } => return,
        }
        for child in onward {
            let child = self.reached(to, child);
            self.transmit(to, child, bytes);
        }
        self.pump(to);
    }

    fn wake(&mut self, node: usize) {
        let now = self.now;
        if self.next_timeout(node).is_none_or(|at| at > now) {
            return;
        }
        match &mut self.nodes[node] {
            Node::Source(source) => source.handle_timeout(now),
            Node::Relay {
                relay: Some(it), ..
            } => it.handle_timeout(now),
            Node::Receiver {
                receiver: Some(it), ..
            } => it.handle_timeout(now),
            Node::Relay { relay: None, .. } | Node::Receiver { receiver: None, .. } => {}
        }
        self.pump(node);
    }

    fn next_timeout(&self, node: usize) -> Option<Instant> {
        match &self.nodes[node] {
            Node::Source(source) => source.next_timeout(),
            Node::Relay { relay, .. } => relay.as_ref()?.next_timeout(),
            Node::Receiver { receiver, .. } => receiver.as_ref()?.next_timeout(),
        }
    }

    /// Sends what a node wants to send, and takes its events.
    fn pump(&mut self, node: usize) {
        let mut bytes = Vec::new();
        loop {
            let to: Vec<SocketAddr> = match &mut self.nodes[node] {
                Node::Source(source) => match source.poll_transmit(&mut bytes) {
                    Some(To::Address(address)) => vec![address],
                    Some(To::Children(links)) => source.addresses(links).collect(),
                    None => break,
                },
                Node::Relay {
                    relay: Some(it), ..
                } => match it.poll_transmit(&mut bytes) {
                    Some(address) => vec![address],
                    None => break,
                },
                Node::Receiver {
                    receiver: Some(it), ..
                } => match it.poll_transmit(&mut bytes) {
                    Some(address) => vec![address],
                    None => break,
                },
                Node::Relay { relay: None, .. } | Node::Receiver { receiver: None, .. } => return,
            };
            for to in to {
                let to = self.reached(node, to);
                self.transmit(node, to, &bytes);
            }
        }
        self.take_events(node);
        if let Some(at) = self.next_timeout(node) {
            self.wakeups.insert((at, node));
        }
    }

    fn take_events(&mut self, node: usize) {
        let Node::Receiver {
            receiver: Some(it), ..
        } = &mut self.nodes[node]
        else {
            return;
        };
        let size = self.payload_bytes;
        let heard = self.heard.entry(node).or_default();
        while let Some(event) = it.poll_event() {
            match event {
                Event::Joined { first } => heard.first = first,
                Event::Delivered {
                    sequence,
                    payload: bytes,
                } => {
                    assert_eq!(
                        &bytes[..],
                        payload(sequence, size),
                        "{node} got another {sequence}"
                    );
                    heard.delivered.push(sequence);
                }
                Event::Lost { first, last } => heard.lost.extend(first..=last),
                Event::Ended => heard.ended += 1,
            }
        }
    }

    fn transmit(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let packet = Packet::decode(bytes).expect("only legal packets are sent");
        let (sequence, packets) = match &packet.body {
            Body::Data(data) | Body::Repair(data) => (data.sequence, 1),
            Body::Nack(nack) => {
                let first = nack.missing.ranges()[0].first();
                (first, nack.missing.iter().count() as u64)
            }
            _ => (0, 0),
        };
        let kind = packet.body.kind();
        let fits = |loss: &Loss| {
            let same = (loss.from, loss.to, loss.kind) == (from, to, kind);
            same && loss.sequence == sequence
        };
        let link = self.links.get(&(from, to)).copied().unwrap_or(self.link);
        let doomed = self.losses.iter().position(fits);
        if let Some(at) = doomed {
            self.losses.swap_remove(at);
        }
        let lost = self.random.chance_ppm(link.loss_ppm) || doomed.is_some();
        self.sent.push(Sent {
            at: self.now,
            from,
            to,
            kind,
            sequence,
            packets,
            lost,
        });
        if lost {
            return;
        }
        let mut leaves = self.now;
        if self.narrow.contains(&(from, to)) {
            let size = (bytes.len() + OVERHEAD_BYTES) as u64;
            let Some(at) = self.bottleneck.pass(leaves, size) else {
                self.sent.last_mut().unwrap().lost = true;
                return;
            };
            leaves = at;
        }
        let copies = 1 + u64::from(self.random.chance_ppm(link.double_ppm));
        for _ in 0..copies {
            let jitter = self.random.below(link.jitter.as_nanos() as u64 + 1);
            let at = leaves.after(link.delay + Duration::from_nanos(jitter));
            self.order += 1;
            self.queue
                .insert((at, self.order), (from, to, bytes.to_vec()));
        }
    }

    /// Runs until the source knows of so many receivers.
    #[track_caller]
    pub(crate) fn settle(&mut self, receivers: u32) {
        let settled = self.run_until(ms(5000), |net| net.source().receivers() == receivers);
        assert!(settled, "{} receivers", self.source().receivers());
    }

    /// Sends so many packets, one each interval.
    pub(crate) fn stream(&mut self, packets: u64, interval: Duration) {
        let mut left = packets;
        while left > 0 {
            match self.send() {
                Ok(_) => left -= 1,
                Err(SendError::WindowFull { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            self.run(interval);
        }
    }

    /// Numbers of this packet sent by a link.
    pub(crate) fn count(&self, from: usize, to: usize, kind: Kind, sequence: u64) -> usize {
        let fits = |sent: &&Sent| {
            (sent.from, sent.to, sent.kind) == (from, to, kind)
                && (sent.sequence..sent.sequence + sent.packets.max(1)).contains(&sequence)
        };
        self.sent.iter().filter(fits).count()
    }

    /// Datagrams of this kind that have been sent to a node.
    pub(crate) fn count_to(&self, to: usize, kind: Kind) -> usize {
        let fits = |sent: &&Sent| sent.to == to && sent.kind == kind;
        self.sent.iter().filter(fits).count()
    }

    /// Each child with its parent in front.
    pub(crate) fn hops(&self) -> Vec<(usize, usize)> {
        let hops = self.nodes.iter().enumerate();
        hops.filter_map(|(child, node)| Some((parent_of(node)?, child)))
            .collect()
    }

    /// Packets that a node has not got at first.
    pub(crate) fn missed(&self, node: usize, packets: u64) -> BTreeSet<u64> {
        let mut missed: BTreeSet<u64> = (1..=packets).collect();
        let came = |sent: &&Sent| sent.to == node && sent.kind == Kind::Data && !sent.lost;
        for sent in self.sent.iter().filter(came) {
            missed.remove(&sent.sequence);
        }
        missed
    }

    /// Packets that nobody at or below a node has got at first: it has none of them to repair with.
    pub(crate) fn lacked(&self, node: usize, packets: u64) -> BTreeSet<u64> {
        let mut lacked = self.missed(node, packets);
        let hops = self.hops();
        let children = hops.iter().filter(|(parent, _)| *parent == node);
        let below = children.map(|(_, child)| self.lacked(*child, packets));
        if let Some(all) = below.reduce(|all, one| &all & &one) {
            lacked.extend(all);
        }
        lacked
    }

    /// A node has asked for no packet twice within this time.
    #[track_caller]
    pub(crate) fn assert_spaced(&self, from: usize, to: usize, apart: Duration) {
        let mut before: BTreeMap<u64, Instant> = BTreeMap::new();
        let nacks = |sent: &&Sent| (sent.from, sent.to, sent.kind) == (from, to, Kind::Nack);
        for nack in self.sent.iter().filter(nacks) {
            for sequence in nack.sequence..nack.sequence + nack.packets {
                if let Some(before) = before.insert(sequence, nack.at) {
                    assert!(nack.at.since(before) >= apart, "{sequence} from {from}");
                }
            }
        }
    }

    /// Everybody got everything from 1 on, once, in order.
    #[track_caller]
    pub(crate) fn assert_complete(&self, receivers: &[usize], packets: u64) {
        for receiver in receivers {
            let heard = self.heard(*receiver);
            assert_eq!(heard.first, 1, "receiver {receiver}");
            let all: Vec<u64> = (1..=packets).collect();
            assert_eq!(heard.delivered, all, "receiver {receiver}");
            assert_eq!(heard.lost, [0; 0], "receiver {receiver}");
        }
    }
}
