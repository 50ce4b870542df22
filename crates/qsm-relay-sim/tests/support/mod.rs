//! Networks as tests need them: with a TCP-like flow beside, and what is asserted of them.

#![allow(
    dead_code,
    unused_imports,
    clippy::allow_attributes,
    reason = "each test program uses a part of it"
)]

mod flow;
mod pair;

use std::ops::{Deref, DerefMut};
use std::time::Duration;

pub(crate) use flow::{Growth, PACKET_BYTES, Tcp};
pub(crate) use pair::Pair;
use qsm_relay::{DATA_HEADER_BYTES, Kind, RateBounds, Receiver, Relay, SendError};
pub(crate) use qsm_relay_sim::{Bottleneck, Link, Marking, SESSION, SOURCE};
use qsm_relay_sim::{Loss, Network, OVERHEAD_BYTES, Step};
use qsm_wire::Instant;

pub(crate) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A network, and flows that go through its bottleneck.
pub(crate) struct Net {
    network: Network,
    flows: Vec<Tcp>,
    /// The bottleneck that flows go through.
    shared: (usize, usize),
}

impl Deref for Net {
    type Target = Network;

    fn deref(&self) -> &Network {
        &self.network
    }
}

impl DerefMut for Net {
    fn deref_mut(&mut self) -> &mut Network {
        &mut self.network
    }
}

impl Net {
    /// A network with a source and links of this kind.
    pub(crate) fn new(seed: u64, link: Link, window: u64) -> Self {
        Self {
            network: Network::new(seed, link, window),
            flows: Vec::new(),
            shared: (SOURCE, 1),
        }
    }

    /// A network whose source adapts its rate, with packets of the size of a flow's.
    pub(crate) fn rated(seed: u64, link: Link) -> Self {
        let mut net = Self::new(seed, link, 4096);
        net.source_mut().adapt_rate(RateBounds::default());
        let headers = OVERHEAD_BYTES + DATA_HEADER_BYTES;
        net.set_payload_bytes(usize::try_from(PACKET_BYTES).unwrap() - headers);
        net
    }

    pub(crate) fn relay(&mut self, parent: usize) -> usize {
        self.network.add_relay(parent)
    }

    pub(crate) fn receiver(&mut self, parent: usize) -> usize {
        self.network.add_receiver(parent)
    }

    pub(crate) fn relay_at(&self, node: usize) -> &Relay {
        self.network.relay(node).expect("a relay")
    }

    pub(crate) fn receiver_at(&self, node: usize) -> &Receiver {
        self.network.receiver(node).expect("a receiver")
    }

    pub(crate) fn lose(&mut self, from: usize, to: usize, kind: Kind, sequence: u64) {
        self.network.lose(Loss {
            from,
            to,
            kind,
            sequence,
        });
    }

    /// Packets that have been sent, whatever became of them.
    pub(crate) fn sent(&self) -> impl Iterator<Item = &Step> {
        self.steps().iter().filter(|step| step.is_sent())
    }

    /// A flow through the bottleneck of the source's first child, with this time each way behind it.
    pub(crate) fn flow(&mut self, growth: Growth, delay: Duration) {
        self.add_flow(Tcp::new(growth, delay));
    }

    /// Such a flow, as it is.
    pub(crate) fn add_flow(&mut self, mut flow: Tcp) {
        let now = self.now();
        flow.run(now, self.shared_mut());
        self.flows.push(flow);
    }

    /// The bottleneck that flows go through.
    pub(crate) fn shared_mut(&mut self) -> &mut Bottleneck {
        let (from, to) = self.shared;
        let bottleneck = self.network.bottleneck_mut(from, to);
        bottleneck.expect("the source's first child is behind a bottleneck")
    }

    /// When something happens next, here or to a flow.
    pub(crate) fn next_step(&self) -> Option<Instant> {
        let flows = self.flows.iter().filter_map(Tcp::next_step);
        flows.chain(self.network.next()).min()
    }

    /// Fills the source's queue, unless its window is full.
    pub(crate) fn top_up(&mut self) {
        while self.source().waiting() < 64 && self.send().is_ok() {}
    }

    pub(crate) fn flow_at(&self, number: usize) -> &Tcp {
        &self.flows[number]
    }

    /// Sends as fast as the source lets it, for so long.
    pub(crate) fn flood(&mut self, duration: Duration) {
        let end = self.now().after(duration);
        while self.now() < end {
            self.top_up();
            self.run(ms(1));
        }
        // Nobody looks at them, and they are many.
        self.take_steps();
    }

    pub(crate) fn receivers_below(&mut self, parent: usize, count: usize) -> Vec<usize> {
        (0..count).map(|_| self.receiver(parent)).collect()
    }

    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.now().after(duration);
        loop {
            let flow = self.flows.iter().filter_map(Tcp::next_step).min();
            let flow = flow.filter(|at| *at <= end);
            if let Some(at) = flow
                && self.network.next().is_none_or(|next| at <= next)
            {
                self.network.step(at);
                self.run_flows();
            } else if !self.network.step(end) {
                break;
            }
        }
    }

    fn run_flows(&mut self) {
        let (now, (from, to)) = (self.now(), self.shared);
        if let Some(bottleneck) = self.network.bottleneck_mut(from, to) {
            for flow in &mut self.flows {
                flow.run(now, bottleneck);
            }
        }
    }

    /// Runs until something holds, at most for so long; whether it held.
    pub(crate) fn run_until(&mut self, most: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        let end = self.now().after(most);
        while !holds(self) {
            if self.now() >= end {
                return false;
            }
            self.run(ms(1));
        }
        true
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

    /// Datagrams with this packet sent by a link.
    pub(crate) fn count(&self, from: usize, to: usize, kind: Kind, sequence: u64) -> usize {
        let fits = |sent: &&Step| (sent.from, sent.to, sent.kind) == (from, to, kind);
        let sent = self.sent().filter(fits);
        sent.filter(|sent| sent.numbers.contains(&sequence)).count()
    }

    /// Datagrams of this kind that have been sent to a node.
    pub(crate) fn count_to(&self, to: usize, kind: Kind) -> usize {
        let fits = |sent: &&Step| sent.to == to && sent.kind == kind;
        self.sent().filter(fits).count()
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
            assert_eq!(heard.damaged, [0; 0], "receiver {receiver}");
        }
    }
}
