//! Clusters for measuring: what saturates, what the papers' rate control does, what tokens cost.

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::{Config, Limits, Seed};
use qsm_sim::NetworkOptions;
use qsm_sim::cost::{CostModel, Order};
use qsm_sim::probe::{ClusterOptions, Disturbance, Measured, measure};
use qsm_wire::NodeId;

fn cluster(config: &Config, nodes: usize) -> ClusterOptions {
    ClusterOptions {
        seed: Seed(7),
        nodes,
        regions: 1,
        groups: 1,
        senders: vec![nodes - 1],
        message_bytes: 100,
        layout: config.layout,
        recovery: config.recovery,
        pace: config.pace,
        limits: Limits::default(),
        credit_bytes: 1 << 24,
        costs: CostModel {
            receive: Duration::from_micros(200),
            send: Duration::from_micros(400),
            publish: Duration::from_micros(600),
            ..CostModel::default()
        },
        network: NetworkOptions::PERFECT,
        minimum_rate: 0,
        away: Vec::new(),
        every: BTreeMap::new(),
        disturbances: Vec::new(),
        warmup: Duration::from_secs(2),
        duration: Duration::from_secs(5),
        sample: Duration::from_millis(490),
    }
}

fn modern() -> Config {
    Config::new(NodeId(0), ([127, 0, 0, 1], 1).into())
}

fn run(options: &ClusterOptions) -> Measured {
    measure(options).unwrap()
}

#[test]
fn a_sender_sends_as_fast_as_its_processor_allows_and_all_is_delivered() {
    let measured = run(&cluster(&modern(), 6));
    // 1 ms for each message.
    assert!(
        (960.0..=1000.0).contains(&measured.rate),
        "{}",
        measured.rate
    );
    assert!((measured.delivered / measured.rate - 1.0).abs() < 0.01);
    assert!(measured.sender.cpu > 0.99);
    assert!((0.18..0.25).contains(&measured.receivers.cpu));
}

#[test]
fn a_sender_that_joins_late_is_counted_on_its_own() {
    let mut options = cluster(&modern(), 6);
    options.senders = vec![4, 5];
    options.warmup = Duration::ZERO;
    let from = Duration::from_millis(2450);
    options.disturbances = vec![Disturbance::Joins { node: 5, from }];
    let sent = run(&options).sent;
    let (before, after) = sent[1].split_at(5);
    assert!(sent[0].iter().all(|rate| *rate > 100.0), "{sent:?}");
    assert!(before.iter().all(|rate| *rate < 1.0), "{sent:?}");
    assert!(after[1..].iter().all(|rate| *rate > 100.0), "{sent:?}");
}

#[test]
fn senders_slow_down_for_a_slow_receiver_that_is_told_of_drops() {
    // From the third second on one receiver takes 500 packets/s instead of 5000; tokens overtake data.
    let rates = |told_of_drops: bool| {
        let mut options = cluster(&modern(), 6);
        options.costs.told_of_drops = told_of_drops;
        options.costs.order = Order::ByKind;
        options.network.receive_buffer_bytes = 20_000;
        options.warmup = Duration::ZERO;
        options.duration = Duration::from_secs(9);
        options.disturbances = vec![Disturbance::Slow {
            node: 2,
            from: Duration::from_secs(3),
            length: Duration::from_secs(3),
            times: 10,
        }];
        let measured = run(&options);
        assert!(measured.losses[8] > 0.0, "{:?}", measured.losses);
        measured.sent[0].clone()
    };
    let (told, untold) = (rates(true), rates(false));
    assert!(told[8] < 0.7 * told[3], "{told:?}");
    assert!(untold[8] > told[8], "{untold:?}");
    assert!(told[17] > 0.8 * told[3], "{told:?}");
}

#[test]
fn the_same_seed_measures_the_same() {
    let options = cluster(&modern(), 6);
    assert_eq!(run(&options), run(&options));
}

#[test]
fn a_sender_that_is_a_member_does_not_hold_its_own_rate_down() {
    // It does not receive its own packets, and would report a receive rate of nothing (equation 1).
    let mut options = cluster(&modern().seed_faithful(), 6);
    options.costs = CostModel::default();
    options.pace.rate_min_packets = 100;
    options.duration = Duration::from_secs(60);
    let measured = run(&options);
    let last = measured.rates.last().copied().unwrap();
    assert!(last > 150.0, "{:?}", measured.rates);
}

#[test]
fn a_token_that_visits_partitions_in_turn_takes_time_in_proportion_to_the_region() {
    let round = |config: &Config, nodes| {
        let mut options = cluster(config, nodes);
        options.pace.faithful_rate = false;
        options.pace.rate_max_packets = 200;
        options.costs.token = Duration::from_millis(1);
        let rounds = run(&options).rounds_ms;
        rounds.iter().sum::<f64>() / rounds.len() as f64
    };
    let faithful = modern().seed_faithful();
    let growth = round(&faithful, 100) / round(&faithful, 25);
    assert!((3.0..5.0).contains(&growth), "{growth}");
    let mut parallel = modern();
    parallel.pace.token_min = Duration::from_secs(1);
    parallel.layout = faithful.layout;
    assert!(round(&parallel, 100) < round(&faithful, 100) / 2.0);
}

#[test]
fn a_long_burst_of_losses_at_one_node_is_repaired_within_rounds_not_by_eights() {
    // B = 1 and four partitions: a burst of 1000 lost packets is 1000 runs of single packets.
    let mut options = cluster(&modern().seed_faithful(), 20);
    options.pace.faithful_rate = false;
    options.pace.rate_max_packets = 1000;
    options.costs = CostModel::default();
    options.disturbances = vec![Disturbance::Deaf {
        node: 10,
        every: Duration::from_secs(10),
        length: Duration::from_secs(1),
    }];
    options.warmup = Duration::from_secs(5);
    options.duration = Duration::from_secs(12);
    let measured = run(&options);
    assert!(measured.watched.loss > 0.03, "{}", measured.watched.loss);
    assert!(measured.repair_ms < 4000.0, "{} ms", measured.repair_ms);
}
