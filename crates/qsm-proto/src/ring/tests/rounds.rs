use std::collections::BTreeSet;
use std::time::Duration;

use qsm_wire::Origin;

use super::super::{Action, CALL, RingConfig};
use super::network::{DELAY, Network, config, origin, sender};
use crate::view::Layout;

fn layout(replication: usize, ring_max: usize) -> Layout {
    Layout {
        replication,
        block_packets: 1,
        ring_max,
    }
}

fn nodes(count: u64) -> Vec<u64> {
    (0..count).collect()
}

#[test]
fn a_burst_becomes_stable_everywhere_and_the_tokens_stop() {
    for count in [1, 2, 3, 7, 16, 40] {
        let mut net = Network::new(1, &nodes(count), layout(3, 3));
        net.receive_all(sender(1), 1..=10);
        net.run(Duration::from_secs(1));
        for node in nodes(count) {
            assert_eq!(
                net.ring(node).watermarks(sender(1)),
                (10, 10),
                "n = {count}"
            );
        }
        // R064: no token when everything is stable; the timers are off, too.
        let tokens = net.tokens;
        net.run(Duration::from_secs(100));
        assert_eq!(net.tokens, tokens);
        assert!(
            nodes(count)
                .iter()
                .all(|node| net.ring(*node).next_timeout().is_none())
        );
        // The first round finds it, the second tells everybody.
        assert_eq!(net.ring(0).stats().rounds, 2, "n = {count}");
        assert_eq!(net.ring(0).stats().rounds_incomplete, 0);
        // Every round is timed, and every hop: a token and its receipt.
        assert_eq!(net.times.token_round.count(), 2);
        let hops = &net.times.token_hop;
        assert_eq!(hops.sum(), DELAY * 2 * u32::try_from(hops.count()).unwrap());
        assert_eq!(hops.count() > 0, count > 1, "n = {count}");
    }
}

/// What the first sender was last told of each partition.
fn marks(net: &Network) -> Vec<u64> {
    let acks = net
        .actions
        .iter()
        .rev()
        .find_map(|(_, action)| match action {
            Action::Acknowledge { marks, .. } => Some(marks.clone()),
            _ => None,
        });
    acks.unwrap_or_default()
}

#[test]
fn with_feedback_of_partitions_one_that_misses_something_does_not_hide_the_others() {
    // R094, rule R-TOK-13. 30 nodes in 10 partitions, in rings of 4: three levels. Node 3 is in partition 3.
    for in_turn in [false, true] {
        let config = RingConfig {
            partition_feedback: true,
            in_turn,
            ..config()
        };
        let mut net = Network::with(1, &nodes(30), layout(3, 4), config);
        net.repair = false;
        net.receive_all(sender(1), 1..=40);
        let stream = net
            .nodes
            .get_mut(&3)
            .unwrap()
            .fake
            .streams
            .get_mut(&sender(1));
        assert!(
            stream.unwrap().held.remove(&23),
            "which its partition caches"
        );
        net.run_rounds(0, 1);
        let ack = net.ring(0).last_ack(sender(1)).unwrap();
        assert_eq!((ack.stable_upto, ack.cached_upto), (22, 22));
        let mut expected = vec![40; 10];
        expected[3] = 22;
        assert_eq!(marks(&net), expected, "in turn: {in_turn}");
        // The next round does not add to them, but finds them again.
        net.receive(3, sender(1), 23);
        net.run_rounds(0, 2);
        assert_eq!(marks(&net), [40; 10]);
    }
}

#[test]
fn without_being_asked_for_nothing_is_said_of_partitions() {
    let mut net = Network::new(1, &nodes(30), layout(3, 4));
    net.receive_all(sender(1), 1..=40);
    net.run_rounds(0, 1);
    assert!(marks(&net).is_empty());
}

#[test]
fn the_sender_is_acknowledged_with_its_share_of_rate_and_credit() {
    // R091, R104: the slowest member's rate divided by the number of active senders.
    let mut net = Network::new(1, &nodes(12), layout(3, 3));
    net.nodes.get_mut(&7).unwrap().fake.rate = 9000;
    net.nodes.get_mut(&4).unwrap().fake.credit = 60_000;
    for number in 1..=3 {
        net.receive_all(sender(number), 1..=number);
    }
    net.run_rounds(0, 1);
    for number in 1..=3 {
        let ack = net.ring(0).last_ack(sender(number)).unwrap();
        assert_eq!(ack.rate_packets, 3000);
        assert_eq!(ack.credit_bytes, 20_000);
        assert_eq!((ack.stable_upto, ack.cached_upto), (number, number));
        assert_eq!((ack.losers, ack.round), (0, 1));
        assert_eq!(
            net.ring(1).last_ack(sender(number)),
            None,
            "only the leader"
        );
    }
    net.nodes.get_mut(&7).unwrap().fake.rate = u32::MAX;
    net.receive_all(sender(1), 2..=2);
    net.run(Duration::from_secs(1));
    assert_eq!(
        net.ring(0).last_ack(sender(1)).unwrap().rate_packets,
        u32::MAX
    );
}

// Rule R-TOK-5.
#[test]
fn the_cutoff_is_one_round_late() {
    // R074: the first round asks for nothing, the second for what the first has seen.
    let mut net = Network::new(1, &nodes(3), layout(3, 25));
    net.repair = false;
    net.receive_all(sender(1), 1..=3);
    net.receive(2, sender(1), 5);
    let asks = |net: &Network| {
        let wants = |action: &Action| {
            matches!(
                action,
                Action::Push { .. } | Action::Pull { .. } | Action::AskSender { .. }
            )
        };
        net.actions
            .iter()
            .filter(|(_, action)| wants(action))
            .count()
    };
    net.run_rounds(0, 1);
    assert_eq!(asks(&net), 0);
    net.run_rounds(0, 2);
    assert!(asks(&net) > 0);
    assert_eq!(net.ring(0).watermarks(sender(1)), (3, 3));
}

/// Every packet that the actions move or ask for: (who acts, to or from whom, packet).
fn moves(net: &Network) -> [BTreeSet<(u64, u64, u64)>; 3] {
    let mut sets: [BTreeSet<(u64, u64, u64)>; 3] = Default::default();
    for (node, action) in &net.actions {
        let (kind, other, ranges) = match action {
            Action::Push { to, range, .. } => (0, u64::from(to.0), vec![*range]),
            Action::Pull { from, ranges, .. } => (1, u64::from(from.0), ranges.as_slice().to_vec()),
            Action::AskSender { ranges, .. } => (2, 0, ranges.as_slice().to_vec()),
            _ => continue,
        };
        for range in ranges {
            sets[kind].extend((range.first()..=range.last()).map(|packet| (*node, other, packet)));
        }
    }
    sets
}

#[test]
fn push_pull_and_collective_naks_are_what_neighbours_miss() {
    // R075-R079 against a naive computation over all partitions. Nothing is repaired, so every
    // round says the same.
    for seed in 0..40 {
        let count = 1 + seed % 23;
        let mut net = Network::new(seed, &nodes(count), layout(1 + seed as usize % 5, 2));
        net.repair = false;
        let from = sender(1);
        for node in nodes(count) {
            for packet in 1..=12 {
                if !net.random.chance_ppm(400_000) {
                    net.receive(node, from, packet);
                }
            }
            net.hear(node, from, 12);
        }
        net.run_rounds(0, 3);
        let view = net.nodes[&0].fake.view.clone();
        let misses =
            |node: u64, packet: u64| !net.nodes[&node].fake.streams[&from].held.contains(&packet);
        let mut expected: [BTreeSet<(u64, u64, u64)>; 3] = Default::default();
        for partition in 0..view.partitions() {
            let ring = view.ring(0, u16::try_from(partition).unwrap());
            let ring: Vec<u64> = ring.iter().map(|index| u64::from(index.0)).collect();
            for packet in (1..=12).filter(|packet| view.caching_partition(*packet) == partition) {
                for (at, node) in ring.iter().enumerate().filter(|_| ring.len() > 1) {
                    let before = ring[(at + ring.len() - 1) % ring.len()];
                    match (misses(before, packet), misses(*node, packet)) {
                        (true, false) => expected[0].insert((*node, before, packet)),
                        (false, true) => expected[1].insert((*node, before, packet)),
                        _ => false,
                    };
                }
                if ring.iter().all(|node| misses(*node, packet)) {
                    expected[2].insert((ring[0], 0, packet));
                }
            }
        }
        assert_eq!(moves(&net), expected, "seed {seed}");
        let pulls_others = net
            .actions
            .iter()
            .filter(|(_, action)| matches!(action, Action::PullLeaders { .. }));
        let asking: BTreeSet<u64> = pulls_others.map(|(node, _)| *node).collect();
        let missing: BTreeSet<u64> = nodes(count)
            .into_iter()
            .filter(|node| (1..=12).any(|packet| misses(*node, packet)))
            .collect();
        assert_eq!(asking, missing, "seed {seed}");
    }
}

#[test]
fn everything_is_repaired_with_a_single_nak_range() {
    // R069: slower, but complete.
    for seed in 0..10 {
        let mut net = Network::new(seed, &nodes(9), layout(3, 25));
        for node in nodes(9) {
            net.nodes.get_mut(&node).unwrap().fake.ranges_max = 1;
            for packet in 1..=40 {
                if !net.random.chance_ppm(500_000) {
                    net.receive(node, sender(1), packet);
                }
            }
        }
        net.receive(0, sender(1), 40);
        net.run(Duration::from_secs(5));
        for node in nodes(9) {
            assert_eq!(
                net.ring(node).watermarks(sender(1)),
                (40, 40),
                "seed {seed}"
            );
        }
    }
}

// Rule R-TOK-2.
#[test]
fn rings_rotate_in_parallel() {
    // R031, algorithms (b): 5 + 25 + 8 hops at n = 1000 instead of 1200; one more for the call.
    for (count, hops) in [(5, 5), (200, 1 + 5 + 25 + 2), (1000, 1 + 5 + 25 + 8)] {
        let mut net = Network::new(1, &nodes(count), layout(5, 25));
        net.receive_all(sender(1), 1..=1);
        net.run_rounds(0, 2);
        let took = Duration::from_nanos(net.ring(0).stats().round_ns);
        assert!(took <= DELAY * hops, "n = {count}: {took:?}");
        assert!(took >= DELAY * (hops - 5), "n = {count}: {took:?}");
    }
}

// Rule R-VIEW-1.
#[test]
fn the_route_follows_the_rings_of_the_view() {
    // R061, R031: each ring of each level is travelled once, in order, and by nobody else.
    let mut net = Network::new(1, &nodes(40), layout(2, 3));
    net.receive_all(sender(1), 1..=1);
    net.run_rounds(0, 1);
    let view = net.nodes[&0].fake.view.clone();
    let mut expected: BTreeSet<(Origin, u64, u8)> = BTreeSet::new();
    for level in 0..=view.top_level() {
        for ring in 0..view.rings_on(level) {
            let ring = view.ring(level, u16::try_from(ring).unwrap());
            for (at, index) in ring.iter().enumerate().filter(|_| ring.len() > 1) {
                let next = ring[(at + 1) % ring.len()];
                expected.insert((origin(u64::from(index.0)), u64::from(next.0), level));
            }
        }
    }
    assert!(view.top_level() >= 3);
    assert_eq!(net.route.len(), expected.len());
    assert_eq!(net.route.iter().copied().collect::<BTreeSet<_>>(), expected);
    assert!(net.route.iter().all(|(_, _, level)| *level != CALL));
}

#[test]
fn rings_start_late_but_complete_when_the_call_is_lost() {
    let mut net = Network::new(1, &nodes(30), layout(3, 4));
    net.receive_all(sender(1), 1..=4);
    // Everything of the first step, the call and the first token, is on the wire.
    let end = net.now.after(Duration::from_secs(1));
    assert!(net.step(end));
    net.lose_multicasts();
    net.run_rounds(0, 1);
    assert_eq!(net.ring(0).stats().rounds_incomplete, 0);
    assert_eq!(net.ring(0).watermarks(sender(1)), (4, 4));
}

#[test]
fn the_number_of_tokens_does_not_grow_with_the_senders() {
    // R063.
    let tokens = |senders: u64| {
        let mut net = Network::new(1, &nodes(20), layout(5, 25));
        for packet in 1..=50 {
            for number in 1..=senders {
                net.receive_all(sender(number), packet..=packet);
            }
            net.run(Duration::from_millis(20));
        }
        net.tokens
    };
    let one = tokens(1);
    assert_eq!(one, tokens(8));
    assert!(one > 50);
}

#[test]
fn streams_that_do_not_fit_take_turns() {
    // G06: 100 streams, a datagram holds a dozen.
    let mut net = Network::new(1, &nodes(8), layout(4, 25));
    for number in 1..=100 {
        net.receive_all(sender(number), 1..=5);
    }
    let capacity = super::super::gathered::capacity(config().limit_bytes()) as u64;
    assert!((8..100).contains(&capacity));
    net.run_rounds(0, 100_u64.div_ceil(capacity));
    for number in 1..=100 {
        assert_eq!(net.ring(0).watermarks(sender(number)), (5, 5), "{number}");
    }
    net.run(Duration::from_secs(1));
    for node in nodes(8) {
        assert!((1..=100).all(|number| net.ring(node).watermarks(sender(number)) == (5, 5)));
    }
    let tokens = net.tokens;
    net.run(Duration::from_secs(10));
    assert_eq!(net.tokens, tokens);
}

#[test]
fn cut_sets_make_room_for_all_streams_of_a_token() {
    // Every stream has more holes than its slot has room for.
    let mut net = Network::new(3, &nodes(4), layout(4, 25));
    for number in 1..=12 {
        for node in nodes(4) {
            for packet in (1..=64).filter(|packet| (packet / 2 + node) % 2 == 0) {
                net.receive(node, sender(number), packet);
            }
        }
        net.receive(0, sender(number), 64);
    }
    net.run(Duration::from_secs(5));
    for number in 1..=12 {
        assert_eq!(net.ring(3).watermarks(sender(number)), (64, 64));
    }
}

#[test]
fn a_stream_only_some_have_heard_of_makes_no_progress_until_all_have_it() {
    // R064: a member adds the slot; the leader opens it in the next round; the others learn.
    let mut net = Network::new(1, &nodes(10), layout(3, 25));
    net.repair = false;
    net.receive_all(sender(1), 1..=1);
    net.receive(5, sender(2), 1);
    net.receive(5, sender(2), 2);
    net.run(Duration::from_millis(200));
    assert_eq!(net.ring(0).watermarks(sender(1)), (1, 1));
    assert_eq!(net.ring(0).watermarks(sender(2)), (0, 0));
    assert!(
        nodes(10)
            .iter()
            .all(|node| net.nodes[node].fake.streams[&sender(2)].highest == 2)
    );
    net.repair = true;
    net.run(Duration::from_secs(3));
    assert!(
        nodes(10)
            .iter()
            .all(|node| net.ring(*node).watermarks(sender(2)) == (2, 2))
    );
}

#[test]
fn who_never_heard_of_a_stream_is_not_asked_for_it() {
    // Node 1 learns of the stream by the second round's token; in that round its successor, which
    // misses packet 2, must not take it for someone who has everything.
    let mut net = Network::new(1, &nodes(3), layout(3, 25));
    net.repair = false;
    for node in [0, 2] {
        net.receive(node, sender(1), 1);
        net.receive(node, sender(1), 3);
    }
    net.run_rounds(0, 4);
    let heard = |(node, action): &(u64, Action)| {
        *node == 1 && matches!(action, Action::Watermarks { cutoff: 3, .. })
    };
    assert!(net.actions.iter().any(heard));
    let from_one =
        |(_, action): &(u64, Action)| matches!(action, Action::Pull { from, .. } if from.0 == 1);
    assert!(!net.actions.iter().any(from_one));
    let [pushed, pulled, asked] = moves(&net);
    assert_eq!(
        pushed.into_iter().collect::<Vec<_>>(),
        [(2, 1, 1), (2, 1, 3)]
    );
    assert_eq!(
        pulled.into_iter().collect::<Vec<_>>(),
        [(1, 0, 1), (1, 0, 3)]
    );
    assert_eq!(asked.into_iter().collect::<Vec<_>>(), [(0, 0, 2)]);
}

// Rule R-TOK-10.
#[test]
fn open_streams_without_change_slow_the_tokens_down() {
    // Algorithms (b) 3: at last one a second, and at once again after a change.
    let mut net = Network::new(1, &nodes(3), layout(3, 25));
    net.repair = false;
    net.receive(1, sender(1), 2);
    net.receive_all(sender(1), 1..=1);
    net.run(Duration::from_secs(5));
    let before = net.ring(0).stats().rounds;
    net.run(Duration::from_secs(10));
    let rounds = net.ring(0).stats().rounds - before;
    assert!((9..=11).contains(&rounds), "{rounds}");
    net.receive_all(sender(1), 2..=2);
    net.run(Duration::from_millis(20));
    assert_eq!(net.ring(2).watermarks(sender(1)), (2, 2));
}

// Rule R-TOK-10.
#[test]
fn rounds_keep_their_distance_unless_much_arrives() {
    // R072, R073: token_min apart; at once after a quarter of the credit.
    let mut net = Network::new(1, &nodes(3), layout(3, 25));
    for packet in 1..=200 {
        net.receive_all(sender(1), packet..=packet);
        net.run(Duration::from_millis(1));
    }
    // Lets the round in flight end.
    net.run(Duration::from_millis(2));
    let rounds = net.ring(0).stats().rounds;
    assert!((38..=41).contains(&rounds), "{rounds}");
    // 200 packets of 1000 bytes; the credit is 200,000 bytes.
    net.receive_all(sender(1), 201..=400);
    net.run(Duration::from_millis(1));
    assert_eq!(net.ring(0).stats().rounds, rounds + 1);
}
