//! Rate of a source by its slowest receiver, through a bottleneck that it shares with a TCP-like flow.

mod support;

use std::time::Duration;

use support::{Bottleneck, Growth, Link, Net, PACKET_BYTES, SOURCE, ms};

const SECOND: Duration = Duration::from_secs(1);

/// A source above a relay with receivers; the link between the two is as long as this, and narrow.
fn narrow(delay_ms: u64, receivers: usize, bottleneck: Bottleneck) -> (Net, usize, Vec<usize>) {
    let mut net = Net::rated(1, Link::clean(2));
    let relay = net.relay(SOURCE);
    let below = net.receivers_below(relay, receivers);
    net.set_link(SOURCE, relay, Link::clean(delay_ms));
    net.narrow(SOURCE, relay, bottleneck);
    net.settle(u32::try_from(receivers).unwrap());
    (net, relay, below)
}

/// Packets delivered to a receiver.
fn got(net: &Net, receiver: usize) -> u64 {
    net.heard(receiver).delivered.len() as u64
}

/// Bytes a second, headers included, that a receiver gets in so many seconds.
fn throughput(net: &mut Net, receiver: usize, seconds: u32) -> u64 {
    let before = got(net, receiver);
    net.flood(SECOND * seconds);
    (got(net, receiver) - before) * PACKET_BYTES / u64::from(seconds)
}

fn rate(net: &Net) -> u64 {
    net.source().stats().rate
}

/// R-RELAY-17: TCP is friendly to it, and it to TCP.
#[test]
fn a_stream_gets_half_as_much_as_a_tcp_flow_beside_it_at_least_and_twice_as_much_at_most() {
    for (delay_ms, capacity, queue) in [
        (5, 500_000, 30_000),
        (20, 500_000, 30_000),
        (20, 1_000_000, 60_000),
        (60, 500_000, 30_000),
    ] {
        let bottleneck = Bottleneck::new(capacity, queue);
        let (mut net, _, receivers) = narrow(delay_ms, 3, bottleneck);
        net.flow(Growth::Reno, ms(delay_ms + 2));
        net.flood(SECOND * 10);
        let before = net.flow_at(0).delivered();
        let ours = throughput(&mut net, receivers[0], 40);
        let tcp = (net.flow_at(0).delivered() - before) * PACKET_BYTES / 40;
        let place = format!("{delay_ms} ms, {capacity}: {ours} beside {tcp}");
        assert!(ours * 2 >= tcp && ours <= tcp * 2, "{place}");
        assert!(ours + tcp >= capacity * 9 / 10, "{place}");
    }
}

/// Within eight round trips with a full queue (RFC 5348, section 1 says four to eight).
#[test]
fn a_bottleneck_that_halves_is_followed_within_eight_round_trips() {
    for delay_ms in [20, 60] {
        let (mut net, _, receivers) = narrow(delay_ms, 3, Bottleneck::new(500_000, 30_000));
        while rate(&net) < 400_000 {
            net.flood(ms(10));
            assert!(net.now().since(qsm_wire::Instant(0)) < SECOND * 60);
        }
        net.narrow(SOURCE, 1, Bottleneck::new(250_000, 30_000));
        let began = net.now();
        let trip = ms(2 * (delay_ms + 2) + 120);
        while rate(&net) > 250_000 {
            net.flood(ms(1));
            let after = net.now().since(began);
            assert!(after <= trip * 8, "{} after {after:?}", rate(&net));
        }
        // And the smaller one is used.
        net.flood(SECOND * 5);
        let used = throughput(&mut net, receivers[2], 10);
        assert!((150_000..=250_000).contains(&used), "{used}");
    }
}

/// R-RELAY-15: losses of different receivers do not add up (loss path multiplicity).
#[test]
fn fifty_receivers_with_losses_of_their_own_do_not_bring_the_rate_down() {
    let mut used = [0, 0];
    for (at, count) in [1, 50].into_iter().enumerate() {
        let mut net = Net::rated(3, Link::clean(2));
        let relay = net.relay(SOURCE);
        let receivers = net.receivers_below(relay, count);
        net.set_link(SOURCE, relay, Link::clean(20));
        net.narrow(SOURCE, relay, Bottleneck::new(1_000_000, 44_000));
        let lossy = Link {
            loss_ppm: 10_000,
            ..Link::clean(2)
        };
        for receiver in &receivers {
            net.set_link(relay, *receiver, lossy);
        }
        net.settle(u32::try_from(count).unwrap());
        net.flood(SECOND * 25);
        let told = net.source().stats().feedback_received;
        used[at] = throughput(&mut net, receivers[0], 10);
        // Round trips of 44 ms.
        let told = net.source().stats().feedback_received - told;
        assert!(
            told <= 8 * 10_000 / 44,
            "{told} reports of {count} receivers"
        );
    }
    assert!(used.iter().all(|used| *used > 900_000), "{used:?}");
}

/// R-RELAY-15, R-RELAY-17: as soon as it has left, or is silent for too long.
#[test]
fn the_limit_of_a_receiver_is_lifted_when_it_is_gone() {
    for leaves in [true, false] {
        let (mut net, relay, receivers) = narrow(20, 3, Bottleneck::new(1_000_000, 60_000));
        net.narrow(relay, receivers[1], Bottleneck::new(100_000, 10_000));
        net.flood(SECOND * 20);
        let slow = throughput(&mut net, receivers[0], 10);
        assert!(slow < 200_000, "{slow}");
        if leaves {
            net.leave(receivers[1]);
        }
        net.stop(receivers[1]);
        net.flood(SECOND * 12);
        let fast = throughput(&mut net, receivers[0], 10);
        assert!(fast > 600_000, "{fast} after {slow}");
    }
}

/// R-RELAY-18: a way that is dead is not sent to as fast as before, and is taken again.
#[test]
fn silence_of_all_lowers_the_rate_and_nothing_is_lost() {
    let (mut net, relay, receivers) = narrow(20, 2, Bottleneck::new(500_000, 30_000));
    net.flood(SECOND * 10);
    let before = rate(&net);
    let dead = Link {
        loss_ppm: 1_000_000,
        ..Link::clean(20)
    };
    net.set_link(SOURCE, relay, dead);
    net.flood(SECOND * 3);
    assert!(rate(&net) * 4 <= before, "{} after {before}", rate(&net));
    net.set_link(SOURCE, relay, Link::clean(20));
    net.flood(SECOND * 20);
    let used = throughput(&mut net, receivers[0], 10);
    assert!(used > 250_000, "{used}");
    net.run(SECOND * 10);
    let sent = net.source().stats().sent;
    net.assert_complete(&receivers, sent);
}

/// R-RELAY-16: a stream that pauses keeps its rate, and nobody reports meanwhile.
#[test]
fn a_pause_costs_no_rate_and_no_reports() {
    let (mut net, relay, receivers) = narrow(5, 3, Bottleneck::new(1_000_000, 60_000));
    net.flood(SECOND * 10);
    net.run(SECOND * 5);
    let before = (rate(&net), net.relay_at(relay).stats().feedback_received);
    net.run(SECOND * 20);
    let stats = net.relay_at(relay).stats();
    assert_eq!((rate(&net), stats.feedback_received), before);
    let used = throughput(&mut net, receivers[0], 5);
    assert!(used > 400_000, "{used}");
}

/// R-RELAY-16: there is nothing to measure but the round trip.
#[test]
fn a_receiver_that_nothing_has_come_to_reports_its_round_trip_and_then_keeps_silent() {
    for between in [true, false] {
        let near = Link {
            delay: Duration::from_micros(50),
            ..Link::clean(0)
        };
        let mut net = Net::rated(1, near);
        let parent = if between { net.relay(SOURCE) } else { SOURCE };
        let receiver = net.receiver(parent);
        net.settle(1);
        net.run(SECOND);
        let reports = |net: &Net| {
            let receiver = net.receiver_at(receiver).stats().feedback_sent;
            [receiver, net.source().stats().feedback_received]
        };
        let first = reports(&net);
        assert!(
            first.iter().all(|told| (2..=10).contains(told)),
            "{first:?}"
        );
        assert!(net.receiver_at(receiver).round_trip().is_some());
        // Four packets in a round trip, which the source knows by them.
        assert!(rate(&net) > 1_000_000, "{}", rate(&net));
        net.run(SECOND * 60);
        assert_eq!(reports(&net), first);
    }
}
