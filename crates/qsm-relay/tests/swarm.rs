//! Drawn trees of relays with every kind of fault at once. Checkers: every receiver gets every packet
//! exactly once and in order, the source frees everything, nothing is asked for any more at the end,
//! and who misses nothing sees no repair.

mod support;

use qsm_relay::{Kind, SendError};
use qsm_wire::{Random, Seed};
use support::{Link, Net, SESSION, SOURCE, ms};

struct Tree {
    net: Net,
    relays: Vec<usize>,
    receivers: Vec<usize>,
}

/// A tree of one to three levels.
fn drawn(random: &mut Random, seed: u64, link: Link) -> Tree {
    let mut net = Net::new(seed, link, 512);
    let mut relays = Vec::new();
    for _ in 0..=random.below(5) {
        // Below the source or one of the relays.
        let at = usize::try_from(random.below(relays.len() as u64 + 1)).unwrap();
        let parent = if at == 0 { SOURCE } else { relays[at - 1] };
        relays.push(net.relay(parent));
    }
    let mut receivers = Vec::new();
    for relay in &relays {
        let count = usize::try_from(1 + random.below(8)).unwrap();
        receivers.extend(net.receivers_below(*relay, count));
    }
    if random.below(3) == 0 {
        receivers.push(net.receiver(SOURCE));
    }
    Tree {
        net,
        relays,
        receivers,
    }
}

fn drawn_link(random: &mut Random) -> Link {
    Link {
        delay: ms(1 + random.below(20)),
        jitter: ms(random.below(8)),
        loss_ppm: u32::try_from(random.below(80_000)).unwrap(),
        double_ppm: u32::try_from(random.below(30_000)).unwrap(),
    }
}

#[test]
fn every_receiver_gets_every_packet_once_and_in_order() {
    // With 1450 relays of several levels kept each other asking for what had been released.
    for seed in (0..60).chain([1450]) {
        let mut random = Random::new(Seed(seed), "swarm");
        let link = drawn_link(&mut random);
        let mut tree = drawn(&mut random, seed, link);
        let (net, relays) = (&mut tree.net, &tree.relays);
        if seed % 3 == 0 {
            // By losses of some percent it takes long.
            net.adapt_rate();
        }
        net.settle(u32::try_from(tree.receivers.len()).unwrap());
        let mut sent = 0;
        while sent < 400 {
            match net.send() {
                Ok(_) => sent += 1,
                Err(SendError::WindowFull { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            net.run(ms(random.below(4)));
            // Now and then a relay forgets everything, and is away for a moment.
            if random.below(150) == 0 {
                let relay = relays[usize::try_from(random.below(relays.len() as u64)).unwrap()];
                net.stop(relay);
                net.run(ms(random.below(60)));
                net.start(relay);
            }
        }
        net.finish();
        let receivers = tree.receivers.clone();
        let done = |net: &Net| {
            let ended = receivers.iter().all(|it| net.heard(*it).ended > 0);
            ended && net.source().released() == 400
        };
        let finished = net.run_until(ms(600_000), done);
        net.assert_complete(&tree.receivers, 400);
        assert!(
            finished,
            "seed {seed}: released {}",
            net.source().released()
        );
        net.run(ms(5000));
        for relay in relays {
            assert_eq!(net.relay_at(*relay).nack_states(SESSION), 0, "seed {seed}");
        }
    }
}

/// Only data is lost here, once: a repair goes to those links alone below which nobody has the packet,
/// once each, and at most one NACK for it goes up from a relay in one and a half round trips.
#[test]
fn nobody_sees_a_repair_that_it_does_not_need() {
    for seed in 100..130 {
        let mut random = Random::new(Seed(seed), "scope");
        let mut net = Net::new(seed, Link::clean(1 + random.below(20)), 512);
        let top = net.relay(SOURCE);
        let mut receivers = net.receivers_below(top, 3);
        for _ in 0..random.below(4) {
            let relay = net.relay(top);
            receivers.extend(net.receivers_below(relay, 6));
        }
        net.settle(u32::try_from(receivers.len()).unwrap());
        let hops = net.hops();
        let ppm = u32::try_from(1000 + random.below(60_000)).unwrap();
        for sequence in 1..=200 {
            for (parent, child) in &hops {
                if random.chance_ppm(ppm) {
                    net.lose(*parent, *child, Kind::Data, sequence);
                }
            }
        }
        net.stream(200, ms(3));
        net.finish();
        net.run(ms(5000));
        net.assert_complete(&receivers, 200);
        for (parent, child) in &hops {
            let lacked = net.lacked(*child, 200);
            for sequence in 1..=200 {
                let repairs = net.count(*parent, *child, Kind::Repair, sequence);
                let needed = usize::from(lacked.contains(&sequence));
                assert_eq!(repairs, needed, "seed {seed}: {sequence} to {child}");
            }
            if !receivers.contains(child) {
                net.assert_spaced(*child, *parent, net.timing().upstream_retry);
            }
        }
    }
}
