//! Parity ahead of requests: what it spares, what it costs, and where there is none.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use qsm_relay::Kind;
use qsm_relay_sim::{Step, What};
use qsm_wire::Instant;
use support::{Bottleneck, Link, Net, SOURCE, ms};

const SECOND: Duration = Duration::from_secs(1);

fn lossy(delay_ms: u64, loss_ppm: u32) -> Link {
    Link {
        loss_ppm,
        ..Link::clean(delay_ms)
    }
}

/// A source that adapts its rate, and a chain of relays below it by these links; the last one has two receivers.
fn chain(seed: u64, links: &[Link], parity: bool) -> (Net, Vec<usize>) {
    let mut net = Net::rated(seed, Link::clean(2));
    let mut below = SOURCE;
    for link in links {
        let relay = net.relay(below);
        net.set_link(below, relay, *link);
        below = relay;
    }
    if parity {
        net.send_parity();
    }
    let receivers = net.receivers_below(below, 2);
    net.settle(2);
    (net, receivers)
}

/// Bytes of this kind that have been sent by a hop.
fn bytes(steps: &[Step], hop: (usize, usize), kind: Kind) -> usize {
    let steps = steps
        .iter()
        .filter(|step| step.is_sent() && step.kind == kind);
    let steps = steps.filter(|step| (step.from, step.to) == hop);
    steps.map(|step| step.bytes).sum()
}

fn count(steps: &[Step], kind: Kind) -> usize {
    let sent = steps
        .iter()
        .filter(|step| step.is_sent() && step.kind == kind);
    sent.count()
}

/// Of the packets that were lost on a hop to a relay: how many there are, and how many of them the relay has passed on
/// within this time after they were sent.
fn lost_and_soon(steps: &[Step], parent: usize, relay: usize, soon: Duration) -> (usize, usize) {
    let mut lost = BTreeMap::<u64, Instant>::new();
    let mut passed = BTreeMap::<u64, Instant>::new();
    for step in steps {
        let data = matches!(step.kind, Kind::Data | Kind::Repair);
        if (step.what, step.kind, step.from, step.to) == (What::Lost, Kind::Data, parent, relay) {
            lost.insert(step.sequence(), step.at);
        } else if step.is_sent() && data && step.from == relay && step.to > relay {
            passed.entry(step.sequence()).or_insert(step.at);
        }
    }
    let is_soon = |(sequence, sent): &(&u64, &Instant)| {
        let passed = passed.get(sequence);
        passed.is_some_and(|passed| passed.since(**sent) <= soon)
    };
    (lost.len(), lost.iter().filter(is_soon).count())
}

/// R-RELAY-70 to R-RELAY-75: a way of 50 ms. A request would bring a packet after 150 ms at the soonest.
#[test]
fn most_losses_of_a_long_link_need_no_round_trip() {
    for (interval_ms, share) in [(1, 0.8), (2, 0.8), (10, 0.5)] {
        let (mut net, receivers) = chain(1, &[lossy(50, 10_000)], true);
        // Parity grows to two rows in some six seconds.
        let (first, packets) = (8000, 24_000);
        net.stream(first, ms(interval_ms));
        let begun = net.steps().len();
        net.stream(packets - first, ms(interval_ms));
        let steps = net.take_steps();
        let (lost, soon) = lost_and_soon(&steps[begun..], SOURCE, 1, ms(100));
        let found = soon as f64 / lost as f64;
        assert!(
            lost > 80 && found >= share,
            "{found} of {lost} with {interval_ms} ms"
        );
        let asked = net.relay_at(1).stats().nacked_upstream;
        assert!(asked < lost as u64, "{asked} of {lost} were asked for");
        net.run(SECOND);
        net.assert_complete(&receivers, packets);
        let hop = (SOURCE, 1);
        let (data, parity) = (
            bytes(&steps, hop, Kind::Data),
            bytes(&steps, hop, Kind::Parity),
        );
        assert!(
            parity > 0 && parity * 4 <= data,
            "{parity} bytes for {data}"
        );
    }
}

/// R-RELAY-75: what parity brings is not asked for, and what it does not is, once.
#[test]
fn what_parity_brings_is_not_asked_for() {
    let asked = [false, true].map(|parity| {
        let (mut net, _) = chain(2, &[lossy(50, 10_000)], parity);
        net.stream(4000, ms(2));
        let before = net.relay_at(1).stats().nacked_upstream;
        net.stream(10_000, ms(2));
        net.run(SECOND);
        let stats = net.relay_at(1).stats();
        assert_eq!(parity, stats.parity_restored > 0, "{stats:?}");
        stats.nacked_upstream - before
    });
    assert!(asked[1] * 4 < asked[0], "{asked:?}");
}

/// R-RELAY-70: on a short hop, a hop without loss, and one above which losses are.
#[test]
fn only_a_long_hop_that_loses_gets_parity() {
    let links = [lossy(30, 10_000), Link::clean(20), lossy(2, 10_000)];
    let (mut net, receivers) = chain(3, &links, true);
    net.stream(8000, ms(2));
    net.run(SECOND);
    net.assert_complete(&receivers, 8000);
    let steps = net.take_steps();
    let parity = |hop| bytes(&steps, hop, Kind::Parity);
    assert!(parity((SOURCE, 1)) > 0);
    assert_eq!([(1, 2), (2, 3)].map(parity), [0, 0]);
    assert_eq!(
        count(&steps, Kind::Parity),
        net.source().stats().parity_sent as usize
    );
}

/// R-RELAY-70: nothing is said of parity without loss, nor without the option, nor where no rate is adapted.
#[test]
fn without_loss_or_without_a_rate_there_is_nothing_of_it() {
    let unrated = {
        let mut net = Net::new(4, Link::clean(2), 4096);
        let relay = net.relay(SOURCE);
        net.set_link(SOURCE, relay, lossy(30, 10_000));
        net.send_parity();
        net.receivers_below(relay, 2);
        net.settle(2);
        net
    };
    let lossless = chain(4, &[Link::clean(30)], true).0;
    let off = chain(4, &[lossy(30, 10_000)], false).0;
    for mut net in [unrated, lossless, off] {
        net.stream(3000, ms(2));
        let steps = net.take_steps();
        assert_eq!(
            (count(&steps, Kind::Parity), count(&steps, Kind::Lost)),
            (0, 0)
        );
    }
}

/// R-RELAY-73: losses that are heavy are answered by the rate, and by no parity.
#[test]
fn heavy_losses_get_no_parity() {
    let (mut net, _) = chain(5, &[lossy(30, 80_000)], true);
    net.stream(10_000, ms(2));
    let steps = net.take_steps();
    let hop = (SOURCE, 1);
    let (data, parity) = (
        bytes(&steps, hop, Kind::Data),
        bytes(&steps, hop, Kind::Parity),
    );
    assert!(parity * 100 <= data, "{parity} bytes for {data}");
}

/// R-RELAY-73: a link that becomes a quarter as fast in mid-stream, with a short queue, loses its packets by the
/// stream's own doing.
#[test]
fn a_link_that_is_overloaded_gets_no_more_parity_than_before() {
    let (mut net, _) = chain(6, &[lossy(30, 5000)], true);
    net.narrow(SOURCE, 1, Bottleneck::new(2_000_000, 240_000));
    let share = |net: &mut Net, seconds: u32| {
        net.take_steps();
        let end = net.now().after(SECOND * seconds);
        while net.now() < end {
            net.top_up();
            net.run(ms(1));
        }
        let steps = net.take_steps();
        let bytes = |kind| bytes(&steps, (SOURCE, 1), kind) as f64;
        bytes(Kind::Parity) / bytes(Kind::Data)
    };
    share(&mut net, 10);
    let before = share(&mut net, 10);
    assert!(before > 0.03, "{before}");
    net.bottleneck_mut(SOURCE, 1).unwrap().rate = 500_000;
    let after: Vec<f64> = (0..6).map(|_| share(&mut net, 1)).collect();
    // In the first one the queue fills, and a round trip through it later heavy losses are told.
    assert!(after[0] < 0.1 && after[1] < 0.01, "{after:?}");
    assert_eq!(after[2..], [0.0; 4], "after {before}");
}

/// R-RELAY-76: on the source's own hop, where parity is within its rate, and on a relay's, where the rate follows from
/// what comes through.
#[test]
fn a_full_link_carries_less_by_the_parity_alone() {
    for hop in [(SOURCE, 1), (1, 2)] {
        let used = [false, true].map(|parity| {
            let (near, far) = (Link::clean(2), lossy(30, 10_000));
            let links = if hop.0 == SOURCE {
                [far, near]
            } else {
                [near, far]
            };
            let (mut net, receivers) = chain(7, &links, parity);
            net.narrow(hop.0, hop.1, Bottleneck::new(2_500_000, 150_000));
            net.flood(SECOND * 10);
            let before = net.heard(receivers[0]).delivered.len();
            let dropped = net.bottleneck_mut(hop.0, hop.1).unwrap().dropped();
            net.flood(SECOND * 15);
            let bottleneck = net.bottleneck_mut(hop.0, hop.1).unwrap();
            let dropped = (bottleneck.dropped() - dropped) as f64 / (2_500_000.0 * 15.0);
            assert!(dropped <= 0.02, "{dropped} of {hop:?} is dropped");
            let sent = net.source().stats().parity_sent + net.relay_at(1).stats().parity_sent;
            assert_eq!(sent > 0, parity, "{hop:?}");
            let got = net.heard(receivers[0]).delivered.len() - before;
            got as f64 * 1000.0 / 15.0 / 2_500_000.0
        });
        // Two rows of sixteen packets, each a little longer than these.
        let [without, with] = used;
        assert!(
            without >= 0.9 && with >= without * 0.875,
            "{used:?} at {hop:?}"
        );
    }
}
