//! Drawn runs: each seed is a cluster, a workload, a network and a set of faults.

use core::time::Duration;

use qsm_sim::{SwarmOptions, swarm};

/// Seeds that show a known fault, which `scenarios/open/` describes. A repair takes them from here.
const OPEN: &[u64] = &[];

/// Enough for every kind of fault to meet every kind of layout a few times, and still quick.
const SEEDS: u64 = 200;

fn all(seeds: core::ops::Range<u64>, sizes: &SwarmOptions) {
    let mut failures = Vec::new();
    let mut delivered = 0;
    for seed in seeds.filter(|seed| !OPEN.contains(seed)) {
        match swarm(seed, sizes) {
            Ok(report) => delivered += report.delivered,
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures, the first:\n{}",
        failures.len(),
        failures[0]
    );
    assert!(delivered > 0);
}

// Rule R-DATA-8.
#[test]
fn drawn_runs_keep_all_promises() {
    all(0..SEEDS, &SwarmOptions::default());
}

/// Without authentication a forger can do much, but nobody crashes and nothing grows.
#[test]
fn forged_packets_crash_nobody() {
    let sizes = SwarmOptions {
        forgery: true,
        duration: Duration::from_secs(6),
        ..SwarmOptions::default()
    };
    all(100_000..100_020, &sizes);
}
