//! Random operations against the naive receiver of [`Bench`]: whatever happens, all messages
//! arrive once, whole, in order, in the view they were pushed in.

use super::*;

fn config(random: &mut Random) -> (SendConfig, usize) {
    let mut config = base();
    config.datagram_bytes = [512, 1472, 8972, 16_000][random.below(4) as usize];
    config.pace.rate_min_packets = [100, 20_000, u32::MAX][random.below(3) as usize];
    config.pace.batch_delay = Duration::from_micros([0, 0, 500][random.below(3) as usize]);
    config.pace.faithful_rate = random.below(4) == 0;
    let mut send = SendConfig::new(&config);
    send.window_bytes = [70_000, 1 << 20][random.below(2) as usize];
    send.backlog_bytes = [10_000, 1 << 20][random.below(2) as usize];
    (send, [3, 40][random.below(2) as usize] * BLOCK_BYTES)
}

fn length(random: &mut Random) -> usize {
    let longest = match random.below(40) {
        0 => 200_000,
        1..4 => 20_000,
        4..15 => 1500,
        _ => 200,
    };
    random.below(longest) as usize
}

fn step(bench: &mut Bench, random: &mut Random, payload: &[u8]) {
    match random.below(20) {
        0..10 => {
            let length = length(random);
            let from = random.below((payload.len() - length) as u64) as usize;
            let group = random.below(4) as u32;
            // Refusals are checked by `push` itself.
            let taken = bench.push(group, &payload[from..from + length]).is_ok();
            assert!(taken || bench.stream.room_bytes(bench.pool.free_blocks()) < length.max(1));
        }
        10..13 => {
            bench.train();
        }
        13..16 => {
            let highest = bench.stream.highest();
            let span = highest - bench.stream.stable_upto();
            let cached = highest - random.below(span + 1);
            let stable = cached - random.below(cached.min(20) + 1);
            bench.round += 1;
            let mut ack = bench.ack(cached, stable);
            ack.arrived_upto = highest - random.below(highest - stable + 1);
            ack.credit_bytes = [0, 50_000, u32::MAX][random.below(3) as usize];
            ack.rate_packets = [3000, u32::MAX, u32::MAX][random.below(3) as usize];
            ack.view = ViewNumber(ack.view.0 - random.below(2) as u32);
            bench.handle(&ack);
        }
        16 => {
            // Hostile: any numbers at all.
            let mut ack = bench.ack(random.bits(), random.bits());
            ack.view = ViewNumber(random.below(30) as u32);
            if random.below(2) == 0 {
                ack.cached_upto = random.below(bench.stream.highest() + 3);
                ack.stable_upto = random.below(ack.cached_upto + 3);
            }
            ack.round = random.below(bench.round + 1);
            bench.handle(&ack);
        }
        17 if random.below(10) == 0 => {
            let view = ViewNumber(bench.stream.view().0 + random.below(3) as u32);
            bench.stream.open_view(bench.now, view);
            bench.stream.check_invariants();
        }
        _ => {
            bench.wait(Duration::from_nanos(random.below(2_000_000)));
            bench.timeout();
        }
    }
}

/// Everything that was pushed is sent and acknowledged in the end.
fn drain(bench: &mut Bench) {
    for _ in 0..200_000 {
        bench.trains();
        if bench.stream.unsent_bytes() == 0 {
            break;
        }
        bench.acknowledge_all();
        let next = bench.stream.next_timeout();
        bench.now = bench.now.max(next.unwrap_or(bench.now));
        bench.timeout();
    }
    bench.acknowledge_all();
    assert!(bench.expected.is_empty());
    assert!(bench.partial.is_empty());
    assert!(bench.stream.is_idle());
    assert_eq!(bench.pool.lent_blocks(), 0);
    let counters = bench.stream.counters();
    assert!(counters.padding_bytes * 8 <= counters.bytes);
}

// Rule R-DATA-1.
#[test]
fn all_messages_arrive_once_whole_in_order_and_in_their_view() {
    let payload: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
    for seed in 0..300 {
        let mut random = Random::new(Seed(seed), "send model");
        let (config, pool_bytes) = config(&mut random);
        let mut bench = Bench::with(config, pool_bytes);
        for _ in 0..300 {
            step(&mut bench, &mut random, &payload);
        }
        drain(&mut bench);
    }
}
