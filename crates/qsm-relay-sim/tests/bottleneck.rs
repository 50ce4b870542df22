//! What a source makes of a link of limited rate: how much of it is used, what is lost of its own making, and
//! what is left to others.

mod support;

use std::time::Duration;

use support::{Bottleneck, Growth, Link, Net, PACKET_BYTES, SOURCE, ms};

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

/// Flows of TCP alone, which streams are tried beside.
#[test]
fn flows_of_tcp_fill_a_link_and_share_it() {
    for growth in [Growth::Reno, Growth::Cubic] {
        let way = Way {
            delay_ms: 20,
            rate: 2_500_000,
            queue: 100,
            loss_ppm: 0,
        };
        let mut bed = way.open(1, 1);
        for _ in 0..2 {
            bed.net.flow(growth, ms(way.delay_ms));
        }
        bed.net.run(SECOND * 10);
        let got = |bed: &Bed| [0, 1].map(|flow| bed.net.flow_at(flow).delivered() as f64);
        let before = got(&bed);
        bed.net.run(SECOND * 30);
        let after = got(&bed);
        let [one, other] = [0, 1].map(|flow| after[flow] - before[flow]);
        let used = (one + other) * PACKET_BYTES as f64 / 30.0 / way.rate as f64;
        assert!(used >= 0.95, "{used} by {growth:?}");
        let share = one / other;
        assert!((0.5..=2.0).contains(&share), "{share} by {growth:?}");
    }
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
        assert!((0.85..=1.02).contains(&used), "{used}");
    }
}
