//! Use that a source makes of a link of limited rate: how much of it is used, what is lost of its own making, and
//! what is left to others.

mod support;

use std::time::Duration;

use support::{Bottleneck, Growth, Link, Net, PACKET_BYTES, Pair, SOURCE, ms};

const SECOND: Duration = Duration::from_secs(1);
/// Way from the relay to receivers.
const BELOW_MS: u64 = 2;

/// A link between the source and its relay.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// From the source to a receiver.
    delay_ms: u64,
    /// Bytes a second.
    rate: u64,
    /// In hundredths of what is on its way in a round trip.
    queue: u64,
    loss_ppm: u32,
}

impl Way {
    fn trip(&self) -> Duration {
        ms(self.delay_ms * 2)
    }

    fn bottleneck(&self) -> Bottleneck {
        let product = self.rate * self.delay_ms * 2 / 1000;
        Bottleneck::new(
            self.rate,
            (product * self.queue / 100).max(2 * PACKET_BYTES),
        )
    }

    /// A source above it, and receivers below.
    fn open(&self, seed: u64, receivers: usize) -> Bed {
        let mut net = Net::rated(seed, Link::clean(BELOW_MS));
        let relay = net.relay(SOURCE);
        let receivers = net.receivers_below(relay, receivers);
        let link = Link {
            loss_ppm: self.loss_ppm,
            ..Link::clean(self.delay_ms - BELOW_MS)
        };
        net.set_link(SOURCE, relay, link);
        net.narrow(SOURCE, relay, self.bottleneck());
        net.settle(u32::try_from(receivers.len()).unwrap());
        Bed {
            net,
            relay,
            receivers,
        }
    }
}

/// A source and its receivers behind a bottleneck.
struct Bed {
    net: Net,
    relay: usize,
    receivers: Vec<usize>,
}

impl Bed {
    fn got(&self) -> u64 {
        self.net.heard(self.receivers[0]).delivered.len() as u64
    }

    /// Bytes a second that the first receiver gets in this time, of all that the source may send.
    fn flood(&mut self, duration: Duration) -> f64 {
        let before = self.got();
        self.net.flood(duration);
        (self.got() - before) as f64 * PACKET_BYTES as f64 / duration.as_secs_f64()
    }
}

/// R-RELAY-17.
#[test]
fn a_link_is_filled_and_random_loss_does_not_slow_it() {
    for (delay_ms, rate) in [(20, 2_500_000), (100, 1_250_000)] {
        for queue in [50, 100, 400] {
            for loss_ppm in [0, 10_000] {
                let way = Way {
                    delay_ms,
                    rate,
                    queue,
                    loss_ppm,
                };
                let mut bed = way.open(1, 2);
                bed.net.flood(SECOND * 8);
                let before = bed.net.shared_mut().clone();
                let used = bed.flood(SECOND * 15) / rate as f64;
                let after = bed.net.shared_mut();
                let dropped = after.dropped() - before.dropped();
                let passed = after.passed() - before.passed();
                let lost = dropped as f64 / (dropped + passed) as f64;
                assert!(used >= 0.9, "{used} of {way:?} is used");
                assert!(lost <= 0.02, "{lost} of {way:?} is lost");
            }
        }
    }
}

/// A flow of TCP alone, which streams are tried beside.
#[test]
fn a_flow_of_tcp_fills_a_link() {
    for growth in [Growth::Reno, Growth::Cubic] {
        let way = Way {
            delay_ms: 20,
            rate: 2_500_000,
            queue: 100,
            loss_ppm: 0,
        };
        let mut bed = way.open(1, 1);
        bed.net.flow(growth, ms(way.delay_ms));
        bed.net.run(SECOND * 10);
        let before = bed.net.flow_at(0).delivered();
        bed.net.run(SECOND * 20);
        let got = bed.net.flow_at(0).delivered() - before;
        let used = (got * PACKET_BYTES) as f64 / 20.0 / way.rate as f64;
        assert!(used >= 0.95, "{used} by {growth:?}");
    }
}

/// The rate of a stream in that of a flow of TCP beside it.
#[track_caller]
fn share_beside(growth: Growth, way: Way) -> f64 {
    let mut bed = way.open(1, 2);
    bed.net.flow(growth, ms(way.delay_ms));
    bed.net.flood(SECOND * 10);
    let before = bed.net.flow_at(0).delivered();
    let ours = bed.flood(SECOND * 30);
    let tcp = (bed.net.flow_at(0).delivered() - before) * PACKET_BYTES / 30;
    let used = (ours + tcp as f64) / way.rate as f64;
    assert!(used >= 0.9, "{used} beside {growth:?} of {way:?}");
    ours / tcp as f64
}

/// R-RELAY-17: TCP is friendly to it, and it to TCP.
#[test]
fn beside_a_flow_of_tcp_a_stream_gets_half_as_much_at_least_and_twice_as_much_at_most() {
    let ways = [
        (Growth::Reno, 20, 2_500_000),
        (Growth::Cubic, 20, 2_500_000),
        (Growth::Cubic, 50, 1_250_000),
    ];
    for (growth, delay_ms, rate) in ways {
        for queue in [100, 200] {
            let way = Way {
                delay_ms,
                rate,
                queue,
                loss_ppm: 0,
            };
            let share = share_beside(growth, way);
            assert!(
                (0.5..=2.0).contains(&share),
                "{share} of {growth:?}, {way:?}"
            );
        }
    }
}

/// R-RELAY-17: on a long way NewReno needs half a minute to grow, and CUBIC, as kernels have it, gets two to seven
/// times as much.
#[test]
fn beside_a_slow_flow_of_tcp_a_stream_gets_no_more_than_cubic() {
    for queue in [100, 200] {
        let way = Way {
            delay_ms: 50,
            rate: 1_250_000,
            queue,
            loss_ppm: 0,
        };
        let mut alone = way.open(1, 1);
        for growth in [Growth::Cubic, Growth::Reno] {
            alone.net.flow(growth, ms(way.delay_ms));
        }
        alone.net.run(SECOND * 10);
        let got = |bed: &Bed| [0, 1].map(|flow| bed.net.flow_at(flow).delivered() as f64);
        let before = got(&alone);
        alone.net.run(SECOND * 30);
        let after = got(&alone);
        let cubic = (after[0] - before[0]) / (after[1] - before[1]);
        let share = share_beside(Growth::Reno, way);
        assert!(
            share >= 0.5 && share <= cubic,
            "{share}, CUBIC {cubic}, of {way:?}"
        );
    }
}

/// R-RELAY-17: the second one begins when the first one has filled the link.
#[test]
fn two_streams_share_a_link_fairly() {
    for queue in [100, 200] {
        let way = Way {
            delay_ms: 20,
            rate: 2_500_000,
            queue,
            loss_ppm: 0,
        };
        let mut beds = [way.open(1, 1), way.open(2, 1)];
        let receivers = beds.each_ref().map(|bed| bed.receivers[0]);
        beds[0].net.flood(SECOND * 5);
        beds[1].net.run(SECOND * 5);
        let late = beds[0].net.now().max(beds[1].net.now());
        for bed in &mut beds {
            bed.net.step(late);
        }
        *beds[1].net.shared_mut() = beds[0].net.shared_mut().clone();
        let mut pair = Pair {
            nets: beds.map(|bed| bed.net),
        };
        pair.flood(SECOND * 15);
        let got = |pair: &Pair| {
            [0, 1].map(|at| pair.nets[at].heard(receivers[at]).delivered.len() as f64)
        };
        let before = got(&pair);
        pair.flood(SECOND * 30);
        let after = got(&pair);
        let rates = [0, 1].map(|at| (after[at] - before[at]) * PACKET_BYTES as f64 / 30.0);
        let sum = rates[0] + rates[1];
        let jain = sum * sum / (2.0 * (rates[0] * rates[0] + rates[1] * rates[1]));
        let used = sum / way.rate as f64;
        assert!(jain >= 0.9, "{rates:?} of {way:?}");
        assert!(used >= 0.9, "{used} of {way:?}");
    }
}

/// R-RELAY-17.
#[test]
fn a_rate_that_changes_is_followed_within_some_round_trips() {
    for delay_ms in [20, 50] {
        let way = Way {
            delay_ms,
            rate: 2_000_000,
            queue: 100,
            loss_ppm: 0,
        };
        let mut bed = way.open(1, 2);
        bed.net.flood(SECOND * 8);
        for (rate, trips) in [(500_000, 30), (2_000_000, 40)] {
            let queue = way.bottleneck().queue;
            let now = bed.net.now();
            bed.net.shared_mut().reshape(now, rate, queue);
            bed.flood(way.trip() * trips);
            let dropped = bed.net.shared_mut().dropped();
            let used = bed.flood(SECOND * 5) / rate as f64;
            let dropped = bed.net.shared_mut().dropped() - dropped;
            assert!(used >= 0.8, "{used} of {rate} after {way:?}");
            assert!(dropped <= rate / 4, "{dropped} of {rate} after {way:?}");
        }
    }
}

/// R-RELAY-17: what is sent says nothing about what could be.
#[test]
fn a_stream_that_is_slower_than_the_link_is_taken_at_once() {
    let way = Way {
        delay_ms: 52,
        rate: 12_500_000,
        queue: 100,
        loss_ppm: 5000,
    };
    for seed in 0..4 {
        let mut bed = way.open(seed, 3);
        let mut most = 0;
        for at in 0..6000 {
            bed.net.send().unwrap();
            bed.net.run(ms(2));
            if at > 500 {
                most = most.max(bed.net.source().waiting());
            }
        }
        assert!(most <= 20, "{most} wait");
    }
}

/// R-RELAY-18.
#[test]
fn silence_of_all_for_half_a_second_is_over_within_a_second() {
    let way = Way {
        delay_ms: 20,
        rate: 1_250_000,
        queue: 100,
        loss_ppm: 0,
    };
    let mut bed = way.open(1, 2);
    bed.net.flood(SECOND * 8);
    let link = bed.net.link(SOURCE, bed.relay);
    let relay = bed.relay;
    bed.net.set_link(SOURCE, relay, link.cut());
    bed.net.flood(ms(500));
    bed.net.set_link(SOURCE, relay, link);
    bed.net.flood(SECOND);
    let used = bed.flood(SECOND * 2) / way.rate as f64;
    assert!(used >= 0.8, "{used}");
}

/// R-RELAY-15: losses and rates of others do not matter.
#[test]
fn a_stream_goes_by_the_slower_one_of_two_receivers() {
    let way = Way {
        delay_ms: 20,
        rate: 2_500_000,
        queue: 100,
        loss_ppm: 0,
    };
    for begins_narrow in [true, false] {
        let mut bed = way.open(1, 2);
        if !begins_narrow {
            bed.net.flood(SECOND * 5);
        }
        let (relay, slow) = (bed.relay, bed.receivers[1]);
        bed.net
            .narrow(relay, slow, Bottleneck::new(250_000, 10_000));
        bed.net.flood(SECOND * 5);
        let used = bed.flood(SECOND * 10) / 250_000.0;
        // What was lost at the change is repaired by a neighbour, which takes a part of the link.
        let least = if begins_narrow { 0.85 } else { 0.65 };
        assert!((least..=1.02).contains(&used), "{used}, {begins_narrow}");
    }
}

/// R-RELAY-17: an application that pauses, or sends little, lowers nothing.
#[test]
fn what_is_known_of_a_link_is_kept_while_little_is_sent() {
    let way = Way {
        delay_ms: 20,
        rate: 2_500_000,
        queue: 100,
        loss_ppm: 0,
    };
    let mut bed = way.open(1, 2);
    bed.net.flood(SECOND * 5);
    let before = bed.net.source().stats().rate;
    bed.net.stream(2000, ms(5));
    bed.net.take_steps();
    let after = bed.net.source().stats().rate;
    assert!(after >= before / 2, "{after} after {before}");
    let used = bed.flood(SECOND) / way.rate as f64;
    assert!(used >= 0.8, "{used}");
}
