use super::*;
use crate::{Config, Random, Seed};
use qsm_wire::NodeId;
use std::net::SocketAddr;

fn pace() -> Pace {
    Config::new(NodeId(1), SocketAddr::from(([127, 0, 0, 1], 1))).pace
}

fn fixed(rate: u32) -> Pacer {
    Pacer::new(RateConfig::new(&Pace {
        rate_min_packets: rate,
        rate_max_packets: rate,
        ..pace()
    }))
}

/// Sends as fast as allowed for `seconds`, polled at the timer plus what `late` says; returns
/// packets sent after the initial stock was used up, and the largest burst among them.
fn saturate(pacer: &mut Pacer, seconds: u64, mut late: impl FnMut() -> u64) -> (u64, u64) {
    let stock = pacer.packets();
    pacer.spend(Instant(0), stock);
    let (mut sent, mut burst) = (0, 0);
    while let Some(at) = pacer.next_timeout() {
        let now = Instant(at.0 + late());
        if now.0 > seconds * 1_000_000_000 {
            break;
        }
        pacer.refill(now);
        let packets = pacer.packets();
        assert!(packets > 0, "the timer of {at} brought nothing");
        assert!(packets <= pacer.burst_max());
        pacer.spend(now, packets);
        sent += packets as u64;
        burst = burst.max(packets as u64);
    }
    (sent, burst)
}

#[test]
fn rate_is_exact_and_bursts_are_portions_when_polled_on_time() {
    // R107, R109: within 1 %; bursts at most Δ_max.
    for rate in [1, 100, 999, 20_000, 64_000, 333_333, 1_000_000, 10_000_000] {
        let seconds = if rate < 1000 { 100 } else { 2 };
        let (sent, burst) = saturate(&mut fixed(rate), seconds, || 0);
        let due = u64::from(rate) * seconds;
        assert!(
            sent * 100 >= due * 99 && sent * 100 <= due * 101,
            "{sent} of {due}"
        );
        assert!(
            burst <= (u64::from(rate) / 1000).max(1) + 1,
            "burst {burst} at {rate}"
        );
    }
}

#[test]
fn rate_is_exact_when_polled_late_by_less_than_a_portion() {
    let mut random = Random::new(Seed(1), "late");
    for rate in [20_000, 64_000, 1_000_000] {
        let (sent, burst) = saturate(&mut fixed(rate), 2, || random.below(900_000));
        let due = u64::from(rate) * 2;
        assert!(
            sent * 100 >= due * 99 && sent * 100 <= due * 101,
            "{sent} of {due}"
        );
        assert!(burst <= (u64::from(rate) / 500).max(128));
    }
}

// Rule R-RATE-3.
#[test]
fn a_very_late_timer_makes_no_larger_burst_than_the_pool() {
    // R108.
    let mut pacer = fixed(20_000);
    let (_, burst) = saturate(&mut pacer, 100, || 1_000_000_000);
    assert_eq!(burst, pacer.burst_max() as u64);
    assert_eq!(burst, 128);
}

#[test]
fn rate_survives_changes_in_mid_interval() {
    let mut pacer = Pacer::new(RateConfig::new(&Pace {
        faithful_rate: true,
        growth_permille: 0,
        ..pace()
    }));
    pacer.advise(Instant(0), 50_000);
    let mut sent = 0;
    // 50,000 and 30,000 in turns of 0.3 ms, polled every 100 µs, for a second.
    for step in 0..10_000u64 {
        let now = Instant(step * 100_000);
        if step % 3 == 0 {
            pacer.advise(now, if step % 6 == 0 { 50_000 } else { 30_000 });
        }
        pacer.refill(now);
        let packets = pacer.packets();
        pacer.spend(now, packets);
        sent += packets;
    }
    assert!((39_600..=40_600).contains(&sent), "{sent}");
}

// Rule R-RATE-1.
#[test]
fn equation_2_grows_what_was_received_and_keeps_the_bounds() {
    // R105, R113.
    let config = RateConfig::new(&Pace {
        rate_min_packets: 100,
        rate_max_packets: 5000,
        ..pace()
    });
    assert_eq!(config.equation_2(1000), 1100);
    assert_eq!(config.equation_2(0), 100);
    assert_eq!(config.equation_2(4999), 5000);
    assert_eq!(config.equation_2(u32::MAX), 5000);
}

#[test]
fn rate_doubles_per_round_without_objection_until_it_is_unlimited() {
    // R114: the start-up phase.
    let mut pacer = Pacer::new(RateConfig::new(&pace()));
    let start = pacer.target();
    assert_eq!(start, 10_000);
    for round in 1..=18u32 {
        pacer.advise(Instant(u64::from(round)), UNLIMITED);
        assert_eq!(pacer.target(), start << round);
    }
    pacer.advise(Instant(20), UNLIMITED);
    assert_eq!(pacer.target(), UNLIMITED);
    assert_eq!(pacer.packets(), usize::MAX);
    assert_eq!(pacer.next_timeout(), None);
}

#[test]
fn doubling_ends_at_the_operators_bound() {
    let mut pacer = Pacer::new(RateConfig::new(&Pace {
        rate_max_packets: 35_000,
        ..pace()
    }));
    let mut seen = Vec::new();
    for round in 0..3 {
        pacer.advise(Instant(round), UNLIMITED);
        seen.push(pacer.target());
    }
    assert_eq!(seen, [20_000, 35_000, 35_000]);
}

// Rule R-RATE-7.
#[test]
fn copies_are_within_the_operators_bound() {
    let mut pacer = Pacer::new(RateConfig::new(&Pace {
        rate_max_packets: 9_000,
        ..pace()
    }));
    let mut seen = Vec::new();
    for (round, copies) in (0..).zip([0, 2, 2, 9_999_999, 0, 0]) {
        let now = Instant(round);
        pacer.share(now, copies);
        pacer.advise(now, UNLIMITED);
        seen.push(pacer.target());
    }
    assert_eq!(seen, [9_000, 3_000, 3_000, 1, 2, 4]);
}

#[test]
fn an_objection_limits_a_stream_that_sends_faster() {
    let mut pacer = fixed(1);
    pacer.config = RateConfig::new(&pace());
    pacer.set_target(Instant(0), UNLIMITED);
    // 2000 packets in each of 10 ms: 200,000 per second.
    for at in 0..10 {
        pacer.spend(Instant(at * 10_000_000), 2000);
    }
    let now = Instant(100_000_000);
    pacer.advise(now, 100_000);
    assert_eq!(pacer.target(), 110_000);
    // After it the limit grows by λ for some rounds before it doubles again.
    pacer.advise(now, UNLIMITED);
    assert_eq!(pacer.target(), 121_000);
    for _ in 1..CAUTION_ROUNDS {
        pacer.advise(now, UNLIMITED);
    }
    let careful = pacer.target();
    pacer.advise(now, UNLIMITED);
    assert_eq!(pacer.target(), careful * 2);
}

/// The slowest there is, after an objection, and hosts of each speed: within 500 ms of 95 % of what they
/// can, with rounds of 10 ms, and no more than twice that at any time.
// Rule R-RATE-2.
#[test]
fn from_the_least_rate_a_stream_grows_to_what_a_host_can_within_half_a_second() {
    for capacity in [1000, 10_000, 100_000, 1_000_000] {
        let mut pacer = Pacer::new(RateConfig::new(&pace()));
        pacer.spend(Instant(0), 1_000_000);
        pacer.advise(Instant(1), 1);
        assert_eq!(pacer.target(), 100);
        let acks = (1..).find(|ack| {
            pacer.advise(Instant(ack * 10_000_000), UNLIMITED);
            pacer.target() >= capacity / 100 * 95
        });
        assert!(acks <= Some(50), "{capacity}: {acks:?} rounds");
        assert!(pacer.target() <= 2 * capacity);
    }
}

#[test]
fn an_objection_leaves_a_stream_alone_that_sends_slower() {
    let mut pacer = fixed(1);
    pacer.config = RateConfig::new(&pace());
    pacer.set_target(Instant(0), 300_000);
    for at in 0..10 {
        pacer.spend(Instant(at * 10_000_000), 10);
    }
    pacer.advise(Instant(100_000_000), 1000);
    assert_eq!(pacer.target(), 300_000);
    // A report above the limit raises it.
    pacer.advise(Instant(100_000_000), 400_000);
    assert_eq!(pacer.target(), 440_000);
}

#[test]
fn faithful_mode_follows_every_report() {
    // R104, R105, as printed: an idle stream's report takes its rate down to the minimum.
    let mut pacer = Pacer::new(RateConfig::new(&Pace {
        faithful_rate: true,
        ..pace()
    }));
    assert_eq!(pacer.target(), 100);
    pacer.advise(Instant(1), 10_000);
    assert_eq!(pacer.target(), 11_000);
    pacer.advise(Instant(2), 0);
    assert_eq!(pacer.target(), 100);
}

/// A driver so slow that it polls only every `period` and then sends at most `most` packets.
fn drive(pacer: &mut Pacer, period: u64, most: usize) -> u64 {
    let mut sent = 0;
    for step in 0..30_000_000_000 / period {
        let now = Instant(step * period);
        pacer.refill(now);
        let packets = pacer.packets().min(most);
        if packets > 0 {
            pacer.spend(now, packets);
        }
        if step * period >= 20_000_000_000 {
            sent += packets as u64;
        }
    }
    sent / 10
}

#[test]
fn equation_3_makes_up_for_a_driver_that_loses_time() {
    // R106.
    let faithful = Pace {
        faithful_rate: true,
        growth_permille: 0,
        ..pace()
    };
    let mut pacer = Pacer::new(RateConfig::new(&faithful));
    pacer.advise(Instant(0), 20_000);
    let exact = drive(&mut pacer, 100_000, usize::MAX);
    assert!((19_900..=20_100).contains(&exact), "{exact}");
    assert!(pacer.tuning.alpha.abs_diff(ALPHA_ONE) < ALPHA_ONE / 50);

    // Polled every 2.5 ms, a pool of 2 ms loses a fifth of the rate; α = 5/4 makes up for it.
    let mut slow = Pacer::new(RateConfig::new(&faithful));
    slow.advise(Instant(0), 100_000);
    let tuned = drive(&mut slow, 2_500_000, usize::MAX);
    assert!((99_000..=101_000).contains(&tuned), "{tuned}");
    let factor = slow.tuning.alpha * 100 / ALPHA_ONE;
    assert!((123..=127).contains(&factor), "{factor}");

    // Polled every 10 ms, the smallest pool cannot hold what 20,000 packets per second need.
    let mut starved = Pacer::new(RateConfig::new(&faithful));
    starved.advise(Instant(0), 20_000);
    drive(&mut starved, 10_000_000, usize::MAX);
    assert_eq!(starved.tuning.alpha, ALPHA_RANGE.1, "α is bounded");
}

#[test]
fn equation_3_ignores_seconds_in_which_the_rate_was_not_the_limit() {
    let mut pacer = Pacer::new(RateConfig::new(&Pace {
        faithful_rate: true,
        ..pace()
    }));
    pacer.advise(Instant(0), 20_000);
    for step in 0..3000u64 {
        let now = Instant(step * 10_000_000);
        pacer.refill(now);
        pacer.spend(now, 1);
        pacer.held_otherwise();
    }
    assert_eq!(pacer.tuning.alpha, ALPHA_ONE);
}

#[test]
fn meter_averages_the_last_ten_intervals() {
    // R103.
    let mut meter = Meter::default();
    for at in 0..20 {
        meter.record(Instant(at * 10), 10, at);
    }
    // Intervals 9..=18 are over when the twentieth begins.
    let sum: u64 = (9..=18).sum();
    assert_eq!(meter.per_second(Instant(190), 10), sum * CREDIT / 100);
    assert_eq!(meter.per_second(Instant(10_000), 10), 0);
}
