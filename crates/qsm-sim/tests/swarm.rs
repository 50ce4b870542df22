//! Drawn runs: each seed is a cluster, a workload, a network and a set of faults.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use qsm_sim::{Failure, SwarmOptions, Tally, swarm};

/// Seeds that show a known fault, which `scenarios/open/` describes. A repair takes them from here.
const OPEN: &[u64] = &[];

/// Enough for every kind of fault to meet every kind of layout a few times, and still quick.
const SEEDS: u64 = 500;

/// Runs these seeds on all cores.
fn all(seeds: core::ops::Range<u64>, sizes: &SwarmOptions) -> Tally {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mut tally = Tally::default();
        let mut failures: Vec<Box<Failure>> = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return (tally, failures);
            }
            if OPEN.contains(&seed) {
                continue;
            }
            match swarm(seed, sizes) {
                Ok(report) => tally.add(&report),
                Err(failure) => failures.push(failure),
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let (runs, failed) = worker.join().unwrap();
            tally.merge(&runs);
            failures.extend(failed);
        }
    });
    failures.sort_by_key(|failure| failure.seed);
    assert!(
        failures.is_empty(),
        "{} failures, the first:\n{}",
        failures.len(),
        failures[0]
    );
    tally
}

// Rule R-DATA-8.
#[test]
fn drawn_runs_keep_all_promises_and_every_fault_happens() {
    let tally = all(0..SEEDS, &SwarmOptions::default());
    assert!(tally.delivered > 0);
    assert_eq!(tally.never(false), Vec::<String>::new());
}

/// Without authentication a forger can do much, but nobody crashes and nothing grows.
#[test]
fn forged_packets_crash_nobody() {
    let tally = all(100_000..100_030, &SwarmOptions::forging());
    assert_eq!(tally.runs, 30);
}
