use std::collections::VecDeque;
use std::net::SocketAddr;

use qsm_wire::{
    Ack, Body, ChannelId, GroupId, Header, Hop, Incarnation, NodeId, Origin, Packet, Part,
    RegionId, StreamId, ViewNumber,
};

use super::*;
use crate::stats::Histogram;
use crate::{Destination, Outbox, Random, Reason, Seed};

mod alarms;
mod assembly;
mod minimum;
mod model;
mod window;

/// A stream, its pool, and a naive receiver of everything it sends.
struct Bench {
    now: Instant,
    config: SendConfig,
    pool: BlockPool,
    stream: SendStream,
    outbox: Outbox,
    /// Messages pushed and not yet received, with the view they were pushed in.
    expected: VecDeque<(GroupId, u32, Vec<u8>, ViewNumber)>,
    numbers: [u64; 4],
    /// Message being reassembled.
    partial: Vec<u8>,
    total: usize,
    /// Lengths of packets received, train by train.
    trains: Vec<Vec<usize>>,
    received: u64,
    round: u64,
    /// Number of times that members were to be told by another way than multicast.
    unanswered: u32,
    /// Times to stability.
    times: Histogram,
}

const CHANNEL: ([u8; 4], u16) = ([239, 0, 0, 1], 7);

fn base() -> Config {
    let mut config = Config::new(NodeId(1), SocketAddr::from(([127, 0, 0, 1], 1)));
    // Unpaced, unless a test is about pacing.
    config.pace.rate_min_packets = u32::MAX;
    config
}

fn id() -> StreamId {
    StreamId {
        origin: Origin {
            node: NodeId(1),
            incarnation: Incarnation(3),
        },
        channel: ChannelId(9),
    }
}

impl Bench {
    fn new(config: &Config) -> Self {
        Self::with(SendConfig::new(config), config.limits.send_bytes)
    }

    fn with(config: SendConfig, pool_bytes: usize) -> Self {
        let header = Header {
            cluster: 5,
            origin: id().origin,
            ..Header::default()
        };
        Self {
            now: Instant(1000),
            config,
            pool: BlockPool::new(pool_bytes, pool_bytes),
            stream: SendStream::new(config, header, id(), ViewNumber(1)),
            outbox: Outbox::new(),
            expected: VecDeque::new(),
            numbers: [0; 4],
            partial: Vec::new(),
            total: 0,
            trains: Vec::new(),
            received: 0,
            round: 0,
            unanswered: 0,
            times: Histogram::new(),
        }
    }

    fn wait(&mut self, duration: Duration) {
        self.now = self.now.after(duration);
    }

    fn push(&mut self, group: u32, payload: &[u8]) -> Result<(), PushError> {
        let before = self.pool.lent_blocks();
        let counters = *self.stream.counters();
        let unsent = self.stream.unsent_bytes();
        let number = self.numbers[group as usize] + 1;
        let message = Message {
            group: GroupId(group),
            number,
            payload,
        };
        let result = self.stream.push(self.now, &mut self.pool, message);
        self.stream.check_invariants();
        match result {
            Ok(()) => {
                self.numbers[group as usize] = number;
                let view = self.stream.view();
                self.expected
                    .push_back((GroupId(group), number as u32, payload.to_vec(), view));
            }
            Err(_) => {
                assert_eq!(before, self.pool.lent_blocks(), "refused, yet changed");
                assert_eq!(counters, *self.stream.counters(), "refused, yet changed");
                assert_eq!(unsent, self.stream.unsent_bytes(), "refused, yet changed");
            }
        }
        result
    }

    /// Polls one train and checks it; returns how many packets it had.
    fn train(&mut self) -> Option<usize> {
        let in_flight = self.stream.in_flight_bytes();
        let under_way = self.stream.under_way_bytes;
        let window = self.stream.window_bytes();
        let kept_max = window * self.stream.config.kept_factor as usize;
        let first = self.stream.highest() + 1;
        // No receiver holds it.
        let beyond = self.stream.minimum.is_some();
        let train = self.stream.poll_train(self.now)?;
        assert_eq!(train.first, first);
        assert!(train.packets <= TRAIN_PACKETS_MAX && train.bytes.len() <= TRAIN_BYTES_MAX);
        let bytes = train.bytes.len();
        let within = under_way + bytes <= window && in_flight + bytes <= kept_max;
        assert!(
            within || (in_flight == 0 && train.packets == 1) || beyond,
            "{bytes} more than {under_way} under way, {in_flight} in flight; window {window}"
        );
        let packets: Vec<Vec<u8>> = train
            .bytes
            .chunks(train.segment_bytes)
            .map(<[u8]>::to_vec)
            .collect();
        assert_eq!(packets.len(), train.packets);
        self.trains.push(packets.iter().map(Vec::len).collect());
        let count = packets.len();
        for packet in &packets {
            self.receive(packet);
        }
        self.stream.check_invariants();
        Some(count)
    }

    fn trains(&mut self) -> usize {
        core::iter::from_fn(|| self.train()).sum()
    }

    fn receive(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.config.packet_bytes);
        let packet = Packet::decode(bytes).expect("a packet that decodes");
        assert_eq!(
            (packet.header.origin, packet.header.hop),
            (id().origin, Hop::Direct)
        );
        let Body::Data(data) = packet.body else {
            panic!("not data: {packet:?}");
        };
        self.received += 1;
        assert_eq!(data.head.sequence, self.received, "numbers are continuous");
        assert_eq!(data.head.channel, id().channel);
        assert_eq!(self.stream.packet(self.received), Some(bytes));
        let known = self.stream.openings().iter();
        if let Some(opening) = known.clone().find(|opening| opening.view == data.head.view) {
            assert_eq!(data.head.view_start(), Some(opening.start));
        }
        for chunk in data.chunks() {
            let (group, number, payload, view) = self.expected.front().expect("nothing invented");
            assert_eq!((chunk.group, chunk.message), (*group, *number));
            if matches!(chunk.part, Part::Whole | Part::First { .. }) {
                assert!(self.partial.is_empty());
                assert_eq!(data.head.view, *view, "messages keep their view");
            }
            match chunk.part {
                Part::Whole => self.total = chunk.content.len(),
                Part::First { total } => self.total = total as usize,
                Part::Middle | Part::Last => assert!(!self.partial.is_empty()),
            }
            assert_eq!(self.total, payload.len());
            self.partial.extend_from_slice(chunk.content);
            if matches!(chunk.part, Part::Whole | Part::Last) {
                assert!(self.partial == *payload, "content of {group} {number}");
                self.partial.clear();
                self.expected.pop_front();
            }
        }
    }

    fn ack(&self, cached: u64, stable: u64) -> Ack {
        Ack {
            stream: id(),
            region: RegionId(2),
            view: self.stream.view(),
            round: self.round,
            stable_upto: stable,
            cached_upto: cached,
            arrived_upto: stable,
            rate_packets: u32::MAX,
            credit_bytes: u32::MAX,
            losers: 0,
        }
    }

    /// The next round says this.
    fn acknowledge(&mut self, cached: u64, stable: u64) -> AckOutcome {
        self.round += 1;
        let ack = self.ack(cached, stable);
        self.handle(&ack)
    }

    fn acknowledge_all(&mut self) {
        let highest = self.stream.highest();
        assert_eq!(self.acknowledge(highest, highest), AckOutcome::Applied);
    }

    fn handle(&mut self, ack: &Ack) -> AckOutcome {
        let outcome = self
            .stream
            .handle_ack(self.now, &mut self.pool, ack, &mut self.times);
        self.stream.check_invariants();
        outcome
    }

    /// Lets the stream's timers run up to now; returns what it sent by reason.
    fn timeout(&mut self) -> Vec<(Reason, Vec<u8>)> {
        let channel = SocketAddr::from(CHANNEL);
        let to = Destination::Group(channel);
        let unanswered = self.stream.handle_timeout(self.now, to, &mut self.outbox);
        self.unanswered += u32::from(unanswered);
        let mut sent = Vec::new();
        while let Some(transmit) = self.outbox.pop() {
            assert_eq!(transmit.to, to);
            let datagrams = transmit.bytes.chunks(transmit.segment_bytes);
            sent.extend(datagrams.map(|one| (transmit.reason, one.to_vec())));
        }
        sent
    }
}

#[test]
fn an_idle_stream_is_small_and_holds_no_memory() {
    // R146 in spirit: streams are per region, but a node may have thousands.
    assert!(
        size_of::<SendStream>() <= 752,
        "{}",
        size_of::<SendStream>()
    );
    let mut bench = Bench::new(&base());
    for _ in 0..20 {
        for _ in 0..400 {
            bench.push(0, &[1; 1000]).expect("room");
        }
        while bench.trains() > 0 {
            bench.acknowledge_all();
        }
        assert!(bench.stream.is_idle());
        assert_eq!(bench.pool.lent_blocks(), 0);
        assert!(bench.stream.store.index_capacity() <= 64);
    }
}

#[test]
fn steady_traffic_reuses_its_memory() {
    // R144: neither blocks nor index entries are allocated once the traffic is steady.
    let mut bench = Bench::new(&base());
    bench.acknowledge_all();
    let mut sizes = Vec::new();
    for turn in 0..50u64 {
        for _ in 0..300 {
            bench.push(0, &[1; 700]).expect("room");
        }
        bench.trains();
        let upto = bench.stream.highest().saturating_sub(100);
        bench.acknowledge(upto, upto);
        if turn >= 5 {
            let index = bench.stream.store.index_capacity();
            sizes.push((bench.pool.allocated_blocks(), index));
        }
    }
    sizes.dedup();
    assert_eq!(sizes.len(), 1, "{sizes:?}");
}
