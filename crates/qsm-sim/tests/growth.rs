//! What a larger region costs: rounds, stability and control traffic grow like the logarithm of the
//! number of nodes, and of the packets that pass a sender's network interface ever fewer are
//! control (S2 section 3.3; E04).

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::{Config, Limits, Reason, Seed};
use qsm_sim::NetworkOptions;
use qsm_sim::cost::CostModel;
use qsm_sim::probe::{Capture, ClusterOptions, measure};
use qsm_wire::NodeId;

/// What S2 captured at the sender as control: all but fresh data, forwarded packets among it. Here
/// without the membership protocol, which has nobody to talk to.
const CONTROL: [Reason; 5] = [
    Reason::Token,
    Reason::Ack,
    Reason::Request,
    Reason::Status,
    Reason::Repair,
];

/// What a region of that size has shown.
#[derive(Debug, Clone, Copy)]
struct Row {
    nodes: f64,
    round_ms: f64,
    stable_ms: f64,
    /// Control packets sent, per node and second.
    control: f64,
    /// Share of control among the packets of the sender, per cent.
    overhead: f64,
    /// Repairs that pass the sender, per cent of the data.
    repairs: f64,
}

impl Row {
    /// One region, one node of which sends a thousand small packets a second.
    fn measure(nodes: usize, loss_ppm: u32) -> Self {
        let config = Config::new(NodeId(0), ([127, 0, 0, 1], 1).into());
        let mut pace = config.pace;
        pace.rate_max_packets = 1000;
        let options = ClusterOptions {
            seed: Seed(1),
            nodes,
            regions: 1,
            groups: 1,
            // It leads no ring.
            senders: vec![nodes - 1],
            message_bytes: 100,
            layout: config.layout,
            recovery: config.recovery,
            pace,
            limits: Limits::default(),
            credit_bytes: 1 << 20,
            costs: CostModel::default(),
            network: NetworkOptions {
                loss_ppm,
                ..NetworkOptions::PERFECT
            },
            minimum_rate: 0,
            away: Vec::new(),
            every: BTreeMap::new(),
            disturbances: Vec::new(),
            warmup: Duration::from_millis(200),
            duration: Duration::from_millis(500),
            sample: Duration::from_millis(1),
        };
        let measured = measure(&options).unwrap_or_else(|broken| panic!("{nodes}: {broken}"));
        let delivered = measured.delivered / measured.rate;
        assert!((delivered - 1.0).abs() < 0.01, "{nodes} nodes: {delivered}");
        let rounds = &measured.rounds_ms;
        let seconds = options.duration.as_secs_f64();
        Self {
            nodes: nodes as f64,
            round_ms: rounds.iter().sum::<f64>() / rounds.len() as f64,
            stable_ms: measured.stable_ms,
            control: measured.total("control_sent") / nodes as f64 / seconds,
            overhead: overhead(&measured.sender_packets),
            repairs: repairs(&measured.sender_packets),
        }
    }
}

/// E04: the share of control among the packets captured at the sender, per cent.
fn overhead(packets: &Capture) -> f64 {
    let control: u64 = CONTROL.iter().map(|reason| packets.of(*reason)).sum();
    let all = control + packets.of(Reason::Data);
    100.0 * control as f64 / all as f64
}

/// Repairs of others' losses among the packets captured at the sender, per cent of its data.
fn repairs(packets: &Capture) -> f64 {
    100.0 * packets.of(Reason::Repair) as f64 / packets.of(Reason::Data) as f64
}

/// Rows for these sizes, shown.
fn rows(sizes: &[usize], loss_ppm: u32) -> Vec<Row> {
    println!("loss of {} %", f64::from(loss_ppm) / 1e4);
    println!("  nodes  round ms  stable ms  control/node/s  sender's control %");
    let row = |nodes: &usize| {
        let row = Row::measure(*nodes, loss_ppm);
        println!(
            "{nodes:>7} {:>9.2} {:>10.2} {:>15.1} {:>19.1}",
            row.round_ms, row.stable_ms, row.control, row.overhead
        );
        row
    };
    sizes.iter().map(row).collect()
}

fn judge(rows: &[Row]) {
    let (first, last) = (rows[0], rows[rows.len() - 1]);
    let logarithm = last.nodes.ln() / first.nodes.ln();
    // Twice for what a measurement of one run is worth.
    assert!(
        last.round_ms < 2.0 * logarithm * first.round_ms.max(1.0),
        "rounds grow too fast"
    );
    assert!(
        last.stable_ms < 2.0 * logarithm * first.stable_ms.max(5.0),
        "stability takes too long"
    );
    assert!(
        last.control < 2.0 * logarithm * first.control,
        "control traffic grows too fast"
    );
}

fn judge_overhead(rows: &[Row]) {
    for pair in rows.windows(2) {
        let falls = pair[1].overhead < pair[0].overhead;
        assert!(falls, "the sender's overhead does not fall: {pair:?}");
    }
    // Rule R-NAK-6: losses here and there are nothing to those who have none.
    for row in rows {
        assert!(row.repairs < 2.0, "repairs for all: {row:?}");
    }
}

#[test]
fn rounds_and_control_traffic_grow_like_the_logarithm() {
    let quiet = rows(&[10, 50, 500], 0);
    judge(&quiet);
    judge_overhead(&quiet);
    judge_overhead(&rows(&[10, 50, 500], 10_000));
}

/// `make growth`: takes minutes.
#[test]
#[ignore = "takes minutes; make growth"]
fn rounds_and_control_traffic_grow_like_the_logarithm_up_to_ten_thousand() {
    let quiet = rows(&[10, 100, 1000, 10_000], 0);
    judge(&quiet);
    judge_overhead(&quiet);
    judge_overhead(&rows(&[10, 100, 1000, 10_000], 10_000));
}
