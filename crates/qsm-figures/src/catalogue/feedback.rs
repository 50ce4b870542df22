//! S0's second attempt at less memory: ACKs that say more (R094).

use core::time::Duration;

use qsm_proto::Seed;
use qsm_sim::probe::{ClusterOptions, Measured, measure};

use super::{mean, variability};
use crate::experiment::{Curve, Figure, Load, Sweep};
use crate::papers::{Mode, S0};
use crate::results::{ANY, MORE};

/// One simulated message stands for ten.
const WEIGHT: u32 = 10;

fn receivers(mode: Mode, count: f64, seed: Seed) -> ClusterOptions {
    let mut options = S0.cluster(mode, count as usize + 1, WEIGHT);
    options.seed = seed;
    options.duration = Duration::from_secs(40);
    options
}

/// The same system, seed by seed, with one range in each ACK and with one for each partition; the
/// former's results have names of their own. Modern mode has no such switch and runs once.
fn both(mode: Mode, count: f64, seed: Seed) -> Result<Measured, String> {
    let mut options = receivers(mode, count, seed);
    let run = |options: &ClusterOptions| measure(options).map_err(|error| error.to_string());
    let one = run(&options)?;
    if mode == Mode::Modern {
        return Ok(one);
    }
    options.pace.partition_feedback = true;
    let mut many = run(&options)?;
    many.stats.extend([
        ("one_pending", mean(&one.pending)),
        ("one_rate", one.rate),
        ("one_spread", variability(&one.rates) * 100.0),
        ("one_round", mean(&one.rounds_ms)),
        ("one_heap", one.receivers.heap_mib),
        ("one_sender_heap", one.sender.heap_mib),
    ]);
    many.inputs += one.inputs;
    Ok(many)
}

static FEEDBACK: Sweep = Sweep {
    name: "S0 feedback",
    x: "receivers",
    values: &[50.0, 100.0, 150.0, 192.0],
    seeds: 3,
    load: Load::Direct(both),
};

/// A result of the run with one range; not a number in modern mode.
fn one(run: &Measured, name: &str) -> f64 {
    run.stats.get(name).copied().unwrap_or(f64::NAN)
}

/// S0's experiments with O(n) feedback.
pub(super) static FIGURES: &[Figure] = &[
    Figure {
        id: "E24",
        title: "O(n) feedback: a range for each partition",
        source: "S0 fig. 19, 20, §5.1",
        paper: "messages not acknowledged are 30 % fewer but still grow with the number of receivers; throughput is lower, because token processing costs more",
        sweep: &FEEDBACK,
        log_x: false,
        curves: &[
            Curve {
                label: "messages not acknowledged, a range for each partition",
                of: |run| mean(&run.pending),
            },
            Curve {
                label: "messages not acknowledged, one range",
                of: |run| one(run, "one_pending"),
            },
            Curve {
                label: "messages/s, a range for each partition",
                of: |run| run.rate,
            },
            Curve {
                label: "messages/s, one range",
                of: |run| one(run, "one_rate"),
            },
            Curve {
                label: "token round trip, ms, a range for each partition",
                of: |run| mean(&run.rounds_ms),
            },
            Curve {
                label: "token round trip, ms, one range",
                of: |run| one(run, "one_round"),
            },
        ],
        references: &[],
        agrees: |seen| {
            vec![
                seen.over((0, 1), 192.0, 0.55..=0.85),
                seen.ends(0, 1.1..=MORE),
                seen.over((2, 3), 192.0, ANY..=0.999),
            ]
        },
        better: |seen| {
            vec![
                seen.against_faithful(0, 192.0, ANY..=0.5),
                seen.against_faithful(2, 192.0, 1.0..=MORE),
            ]
        },
        note: "",
    },
    Figure {
        id: "E25",
        title: "variance of the throughput with O(n) feedback",
        source: "S0 fig. 21, §5.1",
        paper: "unstable, large variance: the flow control limits what is not acknowledged, but receivers must cache it all the same",
        sweep: &FEEDBACK,
        log_x: false,
        curves: &[
            Curve {
                label: "standard deviation of the rate over 1 s, % of the mean, a range for each partition",
                of: |run| variability(&run.rates) * 100.0,
            },
            Curve {
                label: "standard deviation of the rate over 1 s, % of the mean, one range",
                of: |run| one(run, "one_spread"),
            },
            Curve {
                label: "live heap of receivers, MiB, a range for each partition",
                of: |run| run.receivers.heap_mib,
            },
            Curve {
                label: "live heap of receivers, MiB, one range",
                of: |run| one(run, "one_heap"),
            },
        ],
        references: &[],
        agrees: |seen| vec![seen.over((0, 1), 192.0, 1.5..=MORE)],
        better: |seen| vec![seen.against_faithful(0, 192.0, ANY..=1.0)],
        note: "",
    },
];
