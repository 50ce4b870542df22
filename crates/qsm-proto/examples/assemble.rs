//! What it costs to put a message into a packet: nanoseconds per message, with trains polled and
//! acknowledged as they fill.
//!
//! ```text
//! cargo run --release -p qsm-proto --example assemble
//! ```

use std::hint::black_box;
use std::net::SocketAddr;

use qsm_proto::send::{BlockPool, Message, SendConfig, SendStream};
use qsm_proto::stats::Histogram;
use qsm_proto::{Config, Instant};
use qsm_wire::{
    Ack, ChannelId, GroupId, Header, Incarnation, NodeId, Origin, RegionId, StreamId, ViewNumber,
};

const TURNS: u64 = 20_000;
const MESSAGES_PER_TURN: u64 = 400;

fn main() {
    for payload_bytes in [100, 1000] {
        let best = (0..5).map(|_| run(payload_bytes)).min().unwrap_or(0);
        println!(
            "{payload_bytes:5} bytes: {}.{:02} ns per message",
            best / 100,
            best % 100
        );
    }
}

/// Hundredths of nanoseconds per message.
fn run(payload_bytes: usize) -> u64 {
    let mut pool = BlockPool::new(64 << 20, 0);
    let (mut stream, id) = stream();
    let payload = vec![7; payload_bytes];
    let mut number = 0;
    let start = std::time::Instant::now();
    for turn in 1..=TURNS {
        let now = Instant(turn * 1000);
        for _ in 0..MESSAGES_PER_TURN {
            number += 1;
            let message = Message {
                group: GroupId(3),
                number,
                payload: black_box(&payload),
            };
            stream.push(now, &mut pool, message).expect("there is room");
        }
        while let Some(train) = stream.poll_train(now) {
            black_box(train.bytes);
        }
        acknowledge(&mut stream, &mut pool, id, turn);
    }
    let spent = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    spent * 100 / (TURNS * MESSAGES_PER_TURN)
}

fn stream() -> (SendStream, StreamId) {
    let mut config = Config::new(NodeId(1), SocketAddr::from(([127, 0, 0, 1], 1)));
    config.pace.rate_min_packets = u32::MAX;
    let origin = Origin {
        node: NodeId(1),
        incarnation: Incarnation(1),
    };
    let id = StreamId {
        origin,
        channel: ChannelId(1),
    };
    let header = Header {
        cluster: config.cluster_number(),
        origin,
        ..Header::default()
    };
    let stream = SendStream::new(SendConfig::new(&config), header, id, ViewNumber(1));
    (stream, id)
}

fn acknowledge(stream: &mut SendStream, pool: &mut BlockPool, id: StreamId, round: u64) {
    let ack = Ack {
        stream: id,
        region: RegionId(1),
        view: ViewNumber(1),
        round,
        stable_upto: stream.highest(),
        cached_upto: stream.highest(),
        arrived_upto: stream.highest(),
        rate_packets: u32::MAX,
        credit_bytes: u32::MAX,
        losers: 0,
    };
    stream.handle_ack(Instant(round * 1000), pool, &ack, &mut Histogram::new());
}
