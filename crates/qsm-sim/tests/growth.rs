//! What a larger region costs: rounds, stability and control traffic grow like the logarithm of the
//! number of nodes, and a sender's control overhead does not grow (S2 section 3.3; E04).

use core::time::Duration;

use qsm_proto::Seed;
use qsm_sim::{Flow, Report, SimOptions, content::Sizes, run};

/// One region of that many nodes, one of which sends a small message every millisecond.
fn region(nodes: usize) -> Report {
    let quiet = SimOptions::quiet(Seed(1), nodes);
    let flow = Flow {
        start: Duration::from_secs(3),
        interval: Duration::from_millis(1),
        messages: 2000,
        ..Flow::new(nodes / 2, 0)
    };
    let mut groups = quiet.groups.clone();
    groups[0].publishers = [nodes / 2].into();
    let options = SimOptions {
        groups,
        flows: vec![flow],
        sizes: Sizes::SMALL,
        duration: Duration::from_secs(5),
        // Watermarks are said seldom; to check the machines as often would take too long.
        invariants_every: 1_000_000,
        trace_lines: 0,
        ..quiet
    };
    let report = run(options).unwrap_or_else(|failure| panic!("{nodes} nodes: {failure}"));
    assert_eq!(report.delivered, report.published * nodes as u64);
    report
}

/// What is measured, for people, and judged.
fn compare(sizes: &[usize]) {
    println!("  nodes  round ms  stable ms  control/node/s  sender's control per 100 data");
    let mut rows = Vec::new();
    for nodes in sizes {
        let report = region(*nodes);
        let seconds = report.ended.0 as f64 / 1e9;
        let count = *nodes as f64;
        let membership = report.traffic[qsm_proto::Reason::Membership as usize];
        let control = report.stats["control_sent"].saturating_sub(membership) as f64;
        let (data, own) = report.senders;
        let row = [
            report.round_ns as f64 / 1e6,
            report.stable.mean_ns() as f64 / 1e6,
            control / count / seconds,
            100.0 * own as f64 / data.max(1) as f64,
        ];
        assert!(report.stable.count > 0, "no packet was stable");
        println!(
            "{nodes:>7} {:>9.2} {:>10.2} {:>15.1} {:>12.1}",
            row[0], row[1], row[2], row[3]
        );
        rows.push((count, row));
    }
    let ((small, first), (large, last)) = (rows[0], rows[rows.len() - 1]);
    let logarithm = large.ln() / small.ln();
    // Twice for what a measurement of one run is worth.
    assert!(
        last[0] < 2.0 * logarithm * first[0].max(1.0),
        "rounds grow too fast"
    );
    assert!(
        last[1] < 2.0 * logarithm * first[1].max(5.0),
        "stability takes too long"
    );
    assert!(
        last[2] < 2.0 * logarithm * first[2],
        "control traffic grows too fast"
    );
    assert!(
        last[3] < 1.1 * first[3],
        "a sender's control overhead grows"
    );
}

#[test]
fn rounds_and_control_traffic_grow_like_the_logarithm() {
    compare(&[10, 50, 250]);
}

/// `make growth`: takes minutes and gigabytes.
#[test]
#[ignore = "takes minutes; make growth"]
fn rounds_and_control_traffic_grow_like_the_logarithm_up_to_ten_thousand() {
    compare(&[10, 100, 1000, 10_000]);
}
