//! Random regions under random faults. The network checks every watermark against the truth when
//! it is made; here the faults stop, and everything must become stable.

use std::time::Duration;

use super::super::Action;
use super::network::{Network, config, sender, view};
use crate::view::Layout;

fn layout(net: &mut crate::Random) -> Layout {
    Layout {
        replication: 1 + usize::try_from(net.below(5)).unwrap(),
        block_packets: 1 + net.below(3),
        ring_max: 2 + usize::try_from(net.below(4)).unwrap(),
    }
}

/// A sender sends a packet; some receive it.
fn multicast(net: &mut Network, number: u64, packet: u64, loss_ppm: u32) {
    for node in net.nodes.keys().copied().collect::<Vec<_>>() {
        if !net.random.chance_ppm(loss_ppm) {
            net.receive(node, sender(number), packet);
        }
    }
}

/// Heartbeats tell all nodes how far the streams go.
fn heartbeats(net: &mut Network, senders: u64, packets: u64) {
    for node in net.nodes.keys().copied().collect::<Vec<_>>() {
        for number in 1..=senders {
            net.hear(node, sender(number), packets);
        }
    }
}

fn finish(net: &mut Network, senders: u64, packets: u64, seed: u64) {
    net.flaws().loss_ppm = 0;
    heartbeats(net, senders, packets);
    net.run(Duration::from_secs(20));
    for (id, node) in &net.nodes {
        for number in 1..=senders {
            let marks = node.ring.watermarks(sender(number));
            assert_eq!(
                marks,
                (packets, packets),
                "seed {seed}, node {id}: {:?}",
                node.ring.stats()
            );
        }
    }
    let tokens = net.tokens;
    net.run(Duration::from_secs(20));
    assert_eq!(
        net.tokens, tokens,
        "seed {seed}: no token when everything is stable"
    );
}

// Rule R-TOK-4.
#[test]
fn watermarks_are_never_wrong_and_always_arrive() {
    for seed in 0..60 {
        let mut random = crate::Random::new(crate::Seed(seed), "safety");
        let count = 1 + random.below(60);
        let nodes: Vec<u64> = (0..count).collect();
        let mut net = Network::new(seed, &nodes, layout(&mut random));
        net.flaws().loss_ppm = u32::try_from(random.below(200_000)).unwrap();
        net.flaws().duplicate_ppm = 100_000;
        net.flaws().jitter = Duration::from_micros(random.below(5_000));
        let (senders, packets) = (1 + random.below(4), 20);
        for node in net.nodes.values_mut() {
            node.fake.ranges_max = 1 + usize::try_from(random.below(8)).unwrap();
        }
        for packet in 1..=packets {
            for number in 1..=senders {
                multicast(&mut net, number, packet, 100_000);
            }
            net.run(Duration::from_millis(random.below(20)));
        }
        finish(&mut net, senders, packets, seed);
    }
}

#[test]
fn watermarks_are_right_over_changing_views() {
    // Members come and go, each node learns of it at another time, so that there are two leaders
    // or none for a while (R029). A newcomer starts with what the region has.
    for seed in 0..40 {
        let mut random = crate::Random::new(crate::Seed(seed), "views");
        let layout = layout(&mut random);
        let mut members: Vec<u64> = (100..100 + 2 + random.below(20)).collect();
        let mut net = Network::new(seed, &members, layout);
        net.flaws().jitter = Duration::from_micros(300);
        let mut packet = 0;
        for number in 2..8 {
            net.flaws().loss_ppm = 50_000;
            for _ in 0..10 {
                packet += 1;
                multicast(&mut net, 1, packet, 100_000);
                net.run(Duration::from_millis(random.below(10)));
            }
            let gone = usize::try_from(random.below(members.len() as u64)).unwrap();
            if members.len() > 1 && random.chance_ppm(700_000) {
                members.remove(gone);
            }
            let newcomer = if random.chance_ppm(500_000) {
                u64::from(100 - number)
            } else {
                u64::from(200 + number)
            };
            members.push(newcomer);
            let next = view(number, &members, layout);
            net.add(newcomer, &next, config());
            for held in 1..=packet {
                net.receive(newcomer, sender(1), held);
            }
            for node in members.clone() {
                net.install(node, &next);
                net.run(Duration::from_millis(random.below(8)));
            }
            net.keep(&members);
        }
        finish(&mut net, 1, packet, seed);
    }
}

// Rule R-TOK-7.
#[test]
fn the_sender_is_asked_only_for_what_a_whole_partition_misses() {
    // R079, R080: as long as each packet reached one of its cachers, the sender is left alone.
    for seed in 0..20 {
        let mut random = crate::Random::new(crate::Seed(seed), "sender");
        let count = 2 + random.below(40);
        let nodes: Vec<u64> = (0..count).collect();
        let mut net = Network::with(seed, &nodes, layout(&mut random), config());
        for packet in 1..=20 {
            multicast(&mut net, 1, packet, 500_000);
            let view = net.nodes[&0].fake.view.clone();
            let cachers: Vec<_> = view.partition(view.caching_partition(packet)).collect();
            let lucky = cachers[usize::try_from(random.below(cachers.len() as u64)).unwrap()];
            net.receive(u64::from(lucky.0), sender(1), packet);
            net.run(Duration::from_millis(3));
        }
        finish(&mut net, 1, 20, seed);
        let asked = |action: &Action| matches!(action, Action::AskSender { .. });
        assert!(
            !net.actions.iter().any(|(_, action)| asked(action)),
            "seed {seed}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = || {
        let nodes: Vec<u64> = (0..20).collect();
        let mut net = Network::new(7, &nodes, Layout::default());
        net.flaws().loss_ppm = 100_000;
        net.flaws().jitter = Duration::from_millis(2);
        for packet in 1..=20 {
            multicast(&mut net, 1, packet, 200_000);
            net.run(Duration::from_millis(7));
        }
        (net.actions, net.route)
    };
    assert_eq!(trace(), trace());
}
