//! A node in a running cluster under arbitrary datagrams: none may panic, none may make its state
//! contradict itself.
//!
//! Two nodes and a membership service are brought up and exchange messages. The input is then a
//! list of steps: time that passes, messages published, and packets to the first node that nobody
//! sent: forged behind a header of the other node, the node itself or the service, or repeated
//! with some bytes changed.

#![no_main]

use core::time::Duration;
use std::net::SocketAddr;

use qsm_gms::{Service, ServiceConfig};
use qsm_proto::{Config, Delivery, Endpoint, Instant, Seed};
use qsm_wire::membership::Role;
use qsm_wire::{Coverage, Header, Hop, Kind, NodeId, seal};

const NODES: u64 = 2;
const GROUP: &str = "g";
/// Rounds of delivery, 10 ms each, after which the nodes must have met.
const MEETING: usize = 500;
/// Datagrams remembered for repetition.
const OVERHEARD: usize = 256;

fn address(host: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host as u8], 9))
}

struct Cluster {
    now: Instant,
    service: Service,
    nodes: Vec<Endpoint>,
    /// What was sent to the first node, with its sender's address.
    overheard: Vec<(SocketAddr, Vec<u8>)>,
}

fn ignore(_: Delivery<'_>) {}

impl Cluster {
    fn new() -> Self {
        let now = Instant(1_000_000);
        let config = ServiceConfig::new(NodeId(100), address(100));
        let service = Service::new(config, Seed(9), now).expect("the defaults work");
        let node = |id| {
            let mut config = Config::new(NodeId(id), address(id));
            config.service = Some(address(100));
            config.limits.send_bytes = 1 << 20;
            config.limits.receive_bytes = 1 << 20;
            let mut node = Endpoint::new(config, Seed(id), now).expect("a good configuration");
            node.enter(now, Role::Subscriber, vec![GROUP.to_owned()]);
            node.enter(now, Role::Publisher, vec![GROUP.to_owned()]);
            node
        };
        let mut cluster = Self {
            now,
            service,
            nodes: (1..=NODES).map(node).collect(),
            overheard: Vec::new(),
        };
        let met = |node: &Endpoint| node.group(GROUP).is_some_and(|id| node.members(id) == 1);
        let passes = (0..MEETING).take_while(|_| {
            cluster.pass(Duration::from_millis(10));
            !cluster.nodes.iter().all(met)
        });
        assert!(passes.count() < MEETING, "the nodes do not find each other");
        cluster.publish(b"hello");
        cluster.pass(Duration::from_millis(5));
        cluster
    }

    fn publish(&mut self, payload: &[u8]) {
        for node in &mut self.nodes {
            if let Some(group) = node.group(GROUP) {
                // A full window is a legal answer.
                let _ = node.publish(self.now, group, payload, &mut ignore);
            }
        }
    }

    /// Lets time pass, and delivers what that brings.
    fn pass(&mut self, duration: Duration) {
        self.now = self.now.after(duration);
        self.service.handle_timeout(self.now);
        for node in &mut self.nodes {
            node.handle_timeout(self.now, &mut ignore);
        }
        for (from, to, bytes) in self.collect() {
            if to == address(100) || to.ip().is_multicast() {
                self.service.handle_datagram(self.now, from, &bytes);
            }
            for (node, id) in self.nodes.iter_mut().zip(1..) {
                if to == address(id) || to.ip().is_multicast() && from != address(id) {
                    if id == 1 && self.overheard.len() < OVERHEARD {
                        self.overheard.push((from, bytes.clone()));
                    }
                    node.handle_datagram(self.now, from, bytes[..].into(), &mut ignore);
                }
            }
        }
        for node in &mut self.nodes {
            while node.poll_event().is_some() {}
            node.check_invariants();
        }
        while self.service.poll_event().is_some() {}
    }

    fn collect(&mut self) -> Vec<(SocketAddr, SocketAddr, Vec<u8>)> {
        let mut sent = Vec::new();
        while let Some(transmit) = self.service.poll_transmit(self.now) {
            for bytes in transmit.bytes.chunks(transmit.segment_bytes) {
                sent.push((address(100), transmit.to.address(), bytes.to_vec()));
            }
        }
        for (node, id) in self.nodes.iter_mut().zip(1..) {
            while let Some(transmit) = node.poll_transmit(self.now) {
                for bytes in transmit.bytes.chunks(transmit.segment_bytes) {
                    sent.push((address(id), transmit.to.address(), bytes.to_vec()));
                }
            }
        }
        sent
    }

    fn forge(&mut self, kind: u8, body: &[u8]) {
        let (from, origin) = match kind % 3 {
            0 => (address(2), self.nodes[1].origin()),
            1 => (address(2), self.nodes[0].origin()),
            _ => (address(100), self.nodes[1].origin()),
        };
        let config = Config::new(NodeId(1), address(1));
        let header = Header {
            cluster: config.cluster_number(),
            origin,
            hop: Hop::Direct,
        };
        let kind = Kind::ALL[usize::from(kind / 3) % Kind::ALL.len()];
        let mut datagram = Vec::new();
        header.encode(kind, &mut datagram);
        datagram.extend_from_slice(body);
        self.receive(from, datagram);
    }

    /// Repeats the packet of that number, counted from the last, with these changes: a place and
    /// a value, a place and a value, ...
    fn repeat(&mut self, changes: &[u8]) {
        let Some((which, changes)) = changes.split_first() else {
            return;
        };
        let at = usize::from(*which) % self.overheard.len().max(1);
        let Some((from, mut bytes)) = self.overheard.iter().rev().nth(at).cloned() else {
            return;
        };
        for change in changes.chunks_exact(2) {
            if let Some(byte) = bytes.get_mut(usize::from(change[0])) {
                *byte ^= change[1];
            }
        }
        self.receive(from, bytes);
    }

    /// With a right checksum: what lies behind it is what is fuzzed.
    fn receive(&mut self, from: SocketAddr, mut datagram: Vec<u8>) {
        seal(&mut datagram, Coverage::Head);
        let bytes = datagram.as_slice().into();
        self.nodes[0].handle_datagram(self.now, from, bytes, &mut ignore);
        self.nodes[0].check_invariants();
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut cluster = Cluster::new();
    let mut rest = bytes;
    while let [step, length, tail @ ..] = rest {
        let (body, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        match step {
            250.. => cluster.pass(Duration::from_micros(1 << (step - 240))),
            240..250 => cluster.publish(body),
            100..240 => cluster.repeat(body),
            _ => cluster.forge(*step, body),
        }
    }
    cluster.pass(Duration::from_millis(10));
    cluster.pass(Duration::from_millis(100));
});
