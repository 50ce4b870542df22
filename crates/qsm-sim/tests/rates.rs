//! Senders and receivers that do not keep step, measured in virtual time: shares of several senders, a
//! receiver that others must not suffer from, and queues at receivers that are slower than the network.
//! Requirements: R205-R211, G16.

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::{Config, Limits, Seed};
use qsm_sim::NetworkOptions;
use qsm_sim::cost::{CostModel, Order};
use qsm_sim::probe::{ClusterOptions, Disturbance, Measured, measure};
use qsm_wire::NodeId;

const SECOND: Duration = Duration::from_secs(1);
/// Packets that a receiver can take in a second if it has nothing else to do.
const CAPACITY: f64 = 10_000.0;

/// So many receivers of packets with 1000 bytes and behind them senders, which make ten times as many as
/// a receiver can take. Sockets hold a tenth of a second. Nodes receive by kind, and make messages in turn.
fn cluster(receivers: usize, senders: usize) -> ClusterOptions {
    let config = Config::new(NodeId(0), ([127, 0, 0, 1], 1).into());
    let socket_bytes = 1 << 20;
    ClusterOptions {
        seed: Seed(11),
        nodes: receivers + senders,
        regions: 1,
        groups: 1,
        senders: (receivers..receivers + senders).collect(),
        message_bytes: 1000,
        layout: config.layout,
        recovery: config.recovery,
        pace: config.pace,
        limits: Limits::default(),
        credit_bytes: socket_bytes,
        costs: CostModel {
            receive: Duration::from_secs_f64(1.0 / CAPACITY),
            receive_control: Duration::from_micros(5),
            send: Duration::from_micros(1),
            send_control: Duration::from_micros(3),
            publish: Duration::from_micros(1),
            io_quantum: Duration::from_micros(200),
            output_first: Duration::from_micros(100),
            order: Order::ByKind,
            told_of_drops: true,
            ..CostModel::default()
        },
        network: NetworkOptions {
            delay: Duration::from_micros(50),
            receive_buffer_bytes: socket_bytes,
            uplink_bits_per_second: 1_000_000_000,
            ..NetworkOptions::PERFECT
        },
        minimum_rate: 0,
        away: Vec::new(),
        every: BTreeMap::new(),
        disturbances: Vec::new(),
        warmup: SECOND,
        duration: SECOND,
        sample: Duration::from_millis(10),
    }
}

fn run(options: &ClusterOptions) -> Measured {
    measure(options).unwrap()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// All senders' packets per second, for each hundredth of a second.
fn all_sent(measured: &Measured) -> Vec<f64> {
    let samples = measured.sent.first().map_or(0, Vec::len);
    let sum = |at: usize| measured.sent.iter().map(|rates| rates[at]).sum();
    (0..samples).map(sum).collect()
}

/// Hundredths of a second until five in a row have this rate on average.
fn until(samples: &[f64], holds: impl Fn(f64) -> bool) -> usize {
    let windows = samples.windows(5);
    let found = windows.into_iter().position(|window| holds(mean(window)));
    found.unwrap_or(usize::MAX)
}

/// Jain's index of fairness: 1 if all are equal.
fn jain(shares: &[f64]) -> f64 {
    let squares: Vec<f64> = shares.iter().map(|share| share * share).collect();
    mean(shares).powi(2) / mean(&squares)
}

/// Coefficient of variation.
fn variation(rates: &[f64]) -> f64 {
    let average = mean(rates);
    let squares: Vec<f64> = rates.iter().map(|rate| (rate - average).powi(2)).collect();
    mean(&squares).sqrt() / average
}

fn shares(measured: &Measured) -> Vec<f64> {
    measured.sent.iter().map(|rates| mean(rates)).collect()
}

// Rule R-RATE-4.
#[test]
fn ten_senders_share_equally_what_one_alone_can_send() {
    let alone = mean(&all_sent(&run(&cluster(10, 1))));
    let ten = run(&cluster(10, 10));
    let (index, total) = (jain(&shares(&ten)), mean(&all_sent(&ten)));
    println!("alone {alone:.0}, ten {total:.0} packets/s, Jain {index:.4}");
    assert!(alone > 0.95 * CAPACITY, "{alone}");
    assert!(index >= 0.95, "{index}: {:?}", shares(&ten));
    assert!(total >= 0.95 * alone, "{total} of {alone}");
    // From the start, within a second.
    let mut options = cluster(10, 10);
    options.warmup = Duration::ZERO;
    let first = run(&options);
    let late = first.sent.iter().map(|rates| mean(&rates[80..100]));
    let index = jain(&late.collect::<Vec<f64>>());
    assert!(index >= 0.95, "{index} after 0.8 s");
}

// Rule R-RATE-11.
#[test]
fn a_sender_and_nine_that_send_little_reach_what_one_alone_does() {
    let alone = mean(&all_sent(&run(&cluster(10, 1))));
    let mut options = cluster(10, 10);
    let little = Duration::from_millis(100);
    options.every = (11..20).map(|sender| (sender, little)).collect();
    let measured = run(&options);
    let (greedy, total) = (shares(&measured)[0], mean(&all_sent(&measured)));
    println!("alone {alone:.0}, beside nine {greedy:.0}, all {total:.0} packets/s");
    assert!(total >= 0.95 * alone, "{total} of {alone}");
}

// Rule R-RATE-11.
#[test]
fn ten_senders_that_take_turns_reach_nine_tenths_of_what_one_alone_does() {
    const BURST: Duration = Duration::from_millis(200);
    let alone = mean(&all_sent(&run(&cluster(10, 1))));
    let mut options = cluster(10, 10);
    let turn = |node: u32| Disturbance::Bursts {
        node: node as usize,
        from: (node - 10) * BURST,
        every: 10 * BURST,
        length: BURST,
    };
    options.disturbances = (10..20).map(turn).collect();
    options.warmup = 10 * BURST;
    options.duration = 10 * BURST;
    let measured = run(&options);
    let (shares, total) = (shares(&measured), mean(&all_sent(&measured)));
    let worst = measured.losses.iter().copied().fold(0.0, f64::max);
    println!("alone {alone:.0}, in turn {total:.0} packets/s {shares:.0?}, worst loss {worst:.4}");
    assert!(total >= 0.9 * alone, "{total} of {alone}");
    // Nobody is starved.
    let fair = total / 10.0;
    assert!(
        shares.iter().all(|share| *share >= 0.8 * fair),
        "{shares:.0?}"
    );
}

#[test]
fn one_more_sender_has_its_share_within_half_a_second() {
    for others in [1, 9] {
        let mut options = cluster(10, others + 1);
        options.disturbances = vec![Disturbance::Joins {
            node: 10 + others,
            from: SECOND,
        }];
        options.warmup = Duration::ZERO;
        options.duration = 2 * SECOND;
        let measured = run(&options);
        let total = mean(&all_sent(&measured)[150..]);
        let fair = total / (others + 1) as f64;
        let took = until(&measured.sent[others][100..], |rate| rate >= 0.9 * fair);
        let bursts = measured.losses[100..].chunks(10).map(mean);
        let burst = bursts.fold(0.0, f64::max);
        println!("beside {others}: {took} hundredths, fair {fair:.0}, worst loss {burst:.4}");
        assert!(took <= 50, "{took} hundredths of a second beside {others}");
        assert!(burst <= 0.005, "{burst} beside {others}");
    }
}

/// One of ten receivers has only so many per cent of its capacity for two seconds.
fn slowed(times: u32) -> Vec<f64> {
    let mut options = cluster(10, 1);
    options.disturbances = vec![Disturbance::Slow {
        node: 5,
        from: SECOND,
        length: 2 * SECOND,
        times,
    }];
    options.warmup = Duration::ZERO;
    options.duration = 4 * SECOND;
    all_sent(&run(&options))
}

// Rules R-RATE-4, R-RATE-8: of a group whose pace is that of the slowest.
#[test]
fn a_group_follows_its_slowest_receiver_within_a_second_and_is_back_within_one() {
    for times in [2, 10] {
        let sent = slowed(times);
        let (before, capacity) = (mean(&sent[50..100]), CAPACITY / f64::from(times));
        let settled = mean(&sent[200..300]);
        let back = until(&sent[300..], |rate| rate >= 0.95 * before);
        println!("1/{times}: {settled:.0} of {capacity:.0} packets/s, back in {back} hundredths");
        assert!(
            (0.9 * capacity..=1.1 * capacity).contains(&settled),
            "{settled} of {capacity}"
        );
        assert!(back <= 100, "{back} hundredths of a second");
    }
}

// Rule R-RATE-2.
#[test]
fn from_100_packets_a_second_to_all_that_receivers_take_it_is_half_a_second() {
    let sent = slowed(100);
    let (before, slow) = (mean(&sent[50..100]), mean(&sent[250..300]));
    let took = until(&sent[300..], |rate| rate >= 0.95 * before);
    println!("{slow:.0} packets/s, then {took} hundredths to {before:.0}");
    assert!(slow <= 150.0, "{slow}");
    assert!(took <= 50, "{took} hundredths of a second");
}

// Rule R-RATE-4: three round trips and 20 ms.
#[test]
fn when_a_receiver_is_half_as_fast_senders_are_soon_slower_than_it() {
    for (delay_us, bound_ms) in [(50, 20), (500, 23), (5000, 50)] {
        let mut options = cluster(10, 1);
        options.network.delay = Duration::from_micros(delay_us);
        options.sample = Duration::from_millis(1);
        options.warmup = 2 * SECOND;
        options.disturbances = vec![Disturbance::Slow {
            node: 5,
            from: 2 * SECOND,
            length: 2 * SECOND,
            times: 2,
        }];
        options.duration = SECOND / 2;
        let sent = all_sent(&run(&options));
        // Trains leave whenever there is room: a rate is one of ten milliseconds, or two round trips.
        let window = 10.max(delay_us as usize * 4 / 1000);
        let slower = sent
            .windows(window)
            .position(|window| mean(window) <= CAPACITY / 2.0);
        let took = slower.unwrap_or(usize::MAX);
        let settled = mean(&sent[250..]);
        println!("one way {delay_us} us: {took} ms, then {settled:.0} packets/s");
        assert!(took <= bound_ms, "{took} ms at {delay_us} us one way");
        assert!(
            settled <= CAPACITY / 2.0,
            "{settled} at {delay_us} us one way"
        );
    }
}

#[test]
fn a_steady_rate_varies_by_a_twentieth_at_most() {
    steady_rate(10);
}

/// `make acceptance`: takes a minute.
#[test]
#[ignore = "takes a minute; make acceptance"]
fn a_steady_rate_to_100_varies_by_a_twentieth_at_most() {
    steady_rate(100);
}

fn steady_rate(receivers: usize) {
    let sent = all_sent(&run(&cluster(receivers, 1)));
    let tenths: Vec<f64> = sent.chunks(10).map(mean).collect();
    let (average, varies) = (mean(&tenths), variation(&tenths));
    println!("{receivers} receivers: {average:.0} packets/s, varies by {varies:.4}");
    assert!(varies <= 0.05, "{varies} with {receivers}");
}

/// `make acceptance`: takes a minute.
#[test]
#[ignore = "takes a minute; make acceptance"]
fn a_steady_rate_to_200_varies_by_a_twentieth_at_most() {
    let mut options = cluster(199, 1);
    options.duration = 4 * SECOND;
    let measured = run(&options);
    let sent = all_sent(&measured);
    let [tenths, halves] =
        [10, 50].map(|samples| -> Vec<f64> { sent.chunks(samples).map(mean).collect() });
    let varies = variation(&halves);
    println!(
        "199 receivers: {:.0} packets/s, halves of a second vary by {varies:.4}, tenths by {:.4}, {:.0} rounds/s",
        mean(&sent),
        variation(&tenths),
        measured.round_rate
    );
    // Credit is held by steps (R-RATE-9), each for some rounds: tenths of a second vary by more.
    assert!(varies <= 0.05, "{varies}");
}

/// Demands that the rate of all senders does not swing, nor who has how much of it. The network's path takes so
/// long there and back. A sender that its window holds sends once a round, so that rates are those of twenty
/// rounds, and of a quarter of a second at least.
fn does_not_swing(round_trip: Duration, senders: usize) {
    let mut options = cluster(10, senders);
    options.network.delay = round_trip / 2;
    options.warmup = (2 * SECOND).max(round_trip * 30);
    options.duration = (2 * SECOND).max(round_trip * 800);
    let measured = run(&options);
    let samples_per_second = 1.0 / options.sample.as_secs_f64();
    let window = (20.0 / measured.round_rate).max(0.25) * samples_per_second;
    let windows = all_sent(&measured);
    let rates: Vec<f64> = windows.chunks_exact(window as usize).map(mean).collect();
    let (varies, index) = (variation(&rates), jain(&shares(&measured)));
    println!(
        "{round_trip:?}, {senders} senders: {:.0} packets/s, {} windows vary by {varies:.4}, Jain {index:.4}, {:.0} \
         rounds/s",
        mean(&rates),
        rates.len(),
        measured.round_rate
    );
    assert!(rates.len() >= 4, "{rates:?}");
    assert!(varies <= 0.05, "{varies} at {round_trip:?} with {senders}");
    assert!(index >= 0.95, "{index} at {round_trip:?} with {senders}");
}

const ROUND_TRIPS_US: [u64; 5] = [50, 500, 2000, 20_000, 100_000];
const SENDERS: [usize; 4] = [1, 2, 10, 50];

#[test]
fn rates_do_not_swing_on_short_and_on_long_paths() {
    for (round_trip_us, senders) in [(50, 50), (2000, 10), (20_000, 2), (100_000, 1)] {
        does_not_swing(Duration::from_micros(round_trip_us), senders);
    }
}

/// `make acceptance`: takes minutes.
#[test]
#[ignore = "takes minutes; make acceptance"]
fn rates_do_not_swing_on_any_path_with_any_number_of_senders() {
    for round_trip_us in ROUND_TRIPS_US {
        for senders in SENDERS {
            does_not_swing(Duration::from_micros(round_trip_us), senders);
        }
    }
}

/// Trouble of one of a hundred receivers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    LosesHalf,
    ReadsATenth,
    Stands,
}

/// The policy towards it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Policy {
    /// `bounded` with a rate below which nobody holds senders, which is theirs.
    AtLeast,
    /// `bounded`, once its time is over and the receiver is set aside.
    SetAside,
    Uncontrolled,
}

/// A sender of 4000 packets a second and a hundred receivers, that can take 10,000. One cannot.
fn crowd(wrong: Wrong, policy: Policy) -> ClusterOptions {
    const NODE: usize = 50;
    const LOAD: u32 = 4000;
    let mut options = cluster(100, 1);
    options.every = [(100, SECOND / LOAD)].into();
    options.minimum_rate = match policy {
        Policy::AtLeast => LOAD,
        Policy::SetAside => 0,
        Policy::Uncontrolled => u32::MAX,
    };
    if policy == Policy::SetAside && wrong != Wrong::Nothing {
        options.away = vec![NODE];
    }
    let disturbance = match wrong {
        Wrong::Nothing => None,
        Wrong::LosesHalf => Some(Disturbance::Deaf {
            node: NODE,
            every: Duration::from_millis(2),
            length: Duration::from_millis(1),
        }),
        Wrong::ReadsATenth => Some(Disturbance::Slow {
            node: NODE,
            from: Duration::ZERO,
            length: Duration::from_secs(100),
            times: 10,
        }),
        Wrong::Stands => Some(Disturbance::Sleep {
            node: NODE,
            every: SECOND,
            length: SECOND,
        }),
    };
    options.disturbances = disturbance.into_iter().collect();
    options.warmup = 2 * SECOND;
    options.duration = SECOND;
    options
}

/// Demands that one of a hundred receivers slows nobody else down, whatever is wrong with it.
fn others_go_on(policy: Policy) {
    let sound = run(&crowd(Wrong::Nothing, policy));
    for wrong in [Wrong::LosesHalf, Wrong::ReadsATenth, Wrong::Stands] {
        let measured = run(&crowd(wrong, policy));
        let rate = measured.others_delivered / sound.others_delivered;
        let tail = measured.others_p99_ms / sound.others_p99_ms;
        println!(
            "{policy:?}, {wrong:?}: {:.0} messages/s ({rate:.3}), p99 {:.3} ms ({tail:.2})",
            measured.others_delivered, measured.others_p99_ms
        );
        assert!(rate >= 0.95, "{policy:?}, {wrong:?}: {rate} of the rate");
        assert!(tail <= 1.1, "{policy:?}, {wrong:?}: {tail} times the p99");
    }
}

// Rule R-RATE-10.
#[test]
fn others_go_on_beside_one_of_a_hundred_at_their_minimum_rate() {
    others_go_on(Policy::AtLeast);
}

/// `make acceptance`: takes half a minute.
// Rule R-RATE-6.
#[test]
#[ignore = "takes half a minute; make acceptance"]
fn others_go_on_beside_one_of_a_hundred_that_is_set_aside() {
    others_go_on(Policy::SetAside);
}

/// `make acceptance`: takes half a minute.
// Rule R-RATE-10.
#[test]
#[ignore = "takes half a minute; make acceptance"]
fn others_go_on_beside_one_of_a_hundred_without_control() {
    others_go_on(Policy::Uncontrolled);
}

/// Cost of a queue at receivers' sockets.
#[derive(Debug)]
struct Queue {
    /// From sending a packet to the news that all have it, ms.
    stable_ms: f64,
    /// From finding a packet missing to having it, ms.
    repair_ms: f64,
    /// Packets per second.
    rate: f64,
}

/// Two receivers that are slower than their network, whose sender has more to send than they can read. One
/// packet of a hundred is lost. Data waits; tokens and repairs come by sockets of their own, and go first.
fn bottleneck(socket_bytes: usize, target: Duration) -> Queue {
    let mut options = cluster(2, 1);
    options.pace.queue_target = target;
    options.network.loss_ppm = 10_000;
    options.network.receive_buffer_bytes = socket_bytes;
    options.credit_bytes = socket_bytes;
    options.warmup = 2 * SECOND;
    options.duration = 2 * SECOND;
    let measured = run(&options);
    Queue {
        stable_ms: measured.stable_ms,
        repair_ms: measured.repair_ms,
        rate: mean(&all_sent(&measured)),
    }
}

// Rule R-RATE-9.
#[test]
fn credit_that_follows_the_queue_makes_waits_short_where_hosts_are_slower_than_their_network() {
    let target = cluster(2, 1).pace.queue_target;
    for socket_bytes in [1 << 20, 4 << 20] {
        let whole = bottleneck(socket_bytes, Duration::ZERO);
        let held = bottleneck(socket_bytes, target);
        println!("{socket_bytes} bytes of socket: all granted {whole:.2?}, held {held:.2?}");
        assert!(held.stable_ms <= 0.25 * whole.stable_ms, "{held:?}");
        // They overtake the queue in any case.
        assert!(held.repair_ms <= 1.5, "{held:?}");
        assert!(held.rate >= 0.97 * whole.rate, "{held:?}");
    }
}
