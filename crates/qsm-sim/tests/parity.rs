//! Parities instead of many different packets: what they save, and what they cost.

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::{Config, Limits, Seed};
use qsm_sim::NetworkOptions;
use qsm_sim::cost::CostModel;
use qsm_sim::probe::{ClusterOptions, Measured, measure};
use qsm_wire::NodeId;

/// A region with one sender of 500 Mbit/s, a round trip of 0.4 ms, and losses of each receiver's own.
fn cluster(nodes: usize, loss_ppm: u32, parity: bool) -> ClusterOptions {
    let config = Config::new(NodeId(0), ([127, 0, 0, 1], 1).into());
    let mut options = ClusterOptions {
        seed: Seed(7),
        nodes,
        regions: 1,
        groups: 1,
        senders: vec![nodes - 1],
        message_bytes: 1370,
        layout: config.layout,
        recovery: config.recovery,
        pace: config.pace,
        limits: Limits::default(),
        credit_bytes: 1 << 24,
        costs: CostModel {
            receive: Duration::from_micros(1),
            send: Duration::from_micros(1),
            publish: Duration::from_micros(1),
            ..CostModel::default()
        },
        network: NetworkOptions {
            delay: Duration::from_micros(200),
            jitter: Duration::from_micros(20),
            loss_ppm,
            ..NetworkOptions::PERFECT
        },
        minimum_rate: 0,
        away: Vec::new(),
        every: BTreeMap::new(),
        disturbances: Vec::new(),
        warmup: Duration::from_millis(200),
        duration: Duration::from_millis(300),
        sample: Duration::from_millis(50),
    };
    options.recovery.parity = parity;
    options.pace.rate_max_packets = 44_600;
    options
}

/// Repairs of a run, for each thousand packets sent.
#[derive(Debug)]
struct Repairs {
    /// Sent to all: packets and parities.
    to_all: f64,
    /// Sent.
    sent: f64,
    /// Received by a member.
    received: f64,
}

fn repairs(run: &Measured, nodes: usize) -> Repairs {
    let thousands = run.total("data_sent") / 1000.0;
    let parities = run.total("parities_sent");
    let packets: f64 = ["cacher", "pull", "push", "sender"]
        .into_iter()
        .map(|way| run.total(&format!("repairs_{way}_sent")))
        .sum();
    let to_all = run.total("repairs_to_all") + parities;
    let sent = packets + parities;
    let received = sent - to_all + to_all * (nodes - 1) as f64;
    Repairs {
        to_all: to_all / thousands,
        sent: sent / thousands,
        received: received / thousands / nodes as f64,
    }
}

fn run(nodes: usize, loss_ppm: u32, parity: bool) -> Measured {
    let mut options = cluster(nodes, loss_ppm, parity);
    options.duration = Duration::from_millis(100);
    measure(&options).unwrap()
}

// Rule R-NAK-15.
#[test]
fn where_losses_are_many_less_is_sent_and_received() {
    let [without, with] = [false, true].map(|parity| run(60, 100_000, parity));
    let [before, after] = [&without, &with].map(|run| repairs(run, 60));
    assert_eq!(without.total("parities_sent"), 0.0);
    assert!(with.total("repaired_by_parity") > 1000.0, "{after:?}");
    assert_eq!(with.total("parities_refused"), 0.0);
    assert!(after.sent < before.sent * 0.85, "{after:?}, not {before:?}");
    assert!(
        after.received < before.received,
        "{after:?}, not {before:?}"
    );
    assert!(with.delivered > without.delivered * 0.98);
}

// Rule R-NAK-15.
#[test]
fn where_losses_are_few_nothing_more_is_sent() {
    let [without, with] = [false, true].map(|parity| repairs(&run(60, 1000, parity), 60));
    assert!(
        with.sent <= without.sent * 1.02,
        "{with:?}, not {without:?}"
    );
    assert!(
        with.received <= without.received * 1.05,
        "{with:?}, not {without:?}"
    );
}

fn print_figures(nodes: usize, loss_ppm: u32, parity: bool) {
    let run = measure(&cluster(nodes, loss_ppm, parity)).unwrap();
    let repairs = repairs(&run, nodes);
    println!(
        "{nodes} nodes, {loss_ppm} ppm, parity {parity}, for 1000 packets: {:.0} repairs sent, {:.0} to all, \
         {:.0} received by a member; {:.0} packets/s, repair {:.3} ms, \
         {} parities, {} restored, {} refused, {} NAKs, {} duplicates",
        repairs.sent,
        repairs.to_all,
        repairs.received,
        run.packets,
        run.repair_ms,
        run.total("parities_sent"),
        run.total("repaired_by_parity"),
        run.total("parities_refused"),
        run.total("naks_sent"),
        run.total("duplicates"),
    );
}

/// A path with a round trip of this many milliseconds and 2 % loss, and so many parities ahead.
fn far(round_trip: u64, ahead: u8) -> Measured {
    let mut options = cluster(40, 20_000, ahead > 0);
    options.network.delay = Duration::from_millis(round_trip) / 2;
    options.recovery.parities_ahead = ahead;
    options.warmup = Duration::from_secs(2);
    options.duration = Duration::from_secs(1);
    options.pace.rate_max_packets = 4_000;
    measure(&options).unwrap()
}

// Rule R-NAK-17.
#[test]
fn where_answers_are_late_parities_ahead_come_first() {
    let [without, with] = [0, 2].map(|ahead| far(20, ahead));
    assert!(with.total("repaired_by_parity") > 10.0 * with.total("repaired_by_cacher"));
    assert!(with.total("naks_sent") < without.total("naks_sent") / 4.0);
    assert!(with.repair_ms < without.repair_ms / 2.0);
    assert!(with.delivered > without.delivered * 0.98);
}

#[test]
#[ignore = "a measurement: cargo test --release -p qsm-sim --test parity -- --ignored --nocapture"]
fn what_parities_ahead_save_and_cost_where_answers_are_late() {
    for round_trip in [2, 20, 50] {
        for ahead in [0, 1, 2, 4] {
            let run = far(round_trip, ahead);
            let packets = run.total("data_sent");
            println!(
                "round trip {round_trip} ms, {ahead} ahead, for 1000 packets: {:.0} parities ahead, {:.0} \
                 requests, {:.0} repairs to one; repair {:.2} ms, delivery p99 {:.1} ms",
                run.total("parities_ahead_sent") / packets * 1000.0,
                run.total("naks_sent") / packets * 1000.0,
                (repairs(&run, 40).sent - repairs(&run, 40).to_all),
                run.repair_ms,
                run.others_p99_ms,
            );
        }
    }
}

#[test]
#[ignore = "a measurement of a minute: cargo test --release -p qsm-sim --test parity -- --ignored --nocapture"]
fn what_parities_save_and_cost_in_a_region_of_200() {
    for loss_ppm in [10_000, 1000, 50_000] {
        for parity in [false, true] {
            print_figures(200, loss_ppm, parity);
        }
    }
}

/// The acceptance list of algorithms (g). `make acceptance`: takes a minute.
// Rule R-NAK-15.
#[test]
#[ignore = "takes a minute; make acceptance"]
fn in_a_region_of_200_at_most_120_repairs_of_a_thousand_packets_go_to_all() {
    let many = repairs(&measure(&cluster(200, 10_000, true)).unwrap(), 200);
    println!("1 %: {many:.1?}");
    assert!(many.to_all <= 120.0, "{many:?}");
    let few = [false, true].map(|parity| measure(&cluster(200, 1000, parity)).unwrap());
    let [without, with] = few.map(|run| repairs(&run, 200));
    println!("0.1 %: {without:.2?} without, {with:.2?} with parities");
    assert!(
        with.sent <= without.sent * 1.02,
        "{with:?}, not {without:?}"
    );
}
