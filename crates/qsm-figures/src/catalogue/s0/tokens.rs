//! S0's distributions of tokens: their round trips, hops and intervals (E43, E44).

use qsm_sim::probe::Measured;

use super::sweeps::GROUP_TOKENS;
use crate::catalogue::statistics::{mean, quantile};
use crate::experiment::{Curve, Figure};
use crate::rules::MORE;

/// The round trip or interval that this share of a run's rounds does not exceed.
macro_rules! percentile {
    ($label:literal, $share:literal, $of:ident) => {
        Curve {
            label: $label,
            of: |run: &Measured| quantile(&run.$of, $share),
        }
    };
}

/// A mean; not a number of nothing, which is what modern mode has: its rings rotate at once.
fn mean_of(samples: &[f64]) -> f64 {
    if samples.is_empty() {
        f64::NAN
    } else {
        mean(samples)
    }
}

/// The experiments.
pub(in crate::catalogue) static FIGURES: &[Figure] = &[
    Figure {
        id: "E43",
        title: "distribution of the token's round trip vs groups",
        source: "S0 fig. 41, §5.5",
        paper: "from 4000 to 7000 groups only the slower half of the round trips gets slower; a hop with the sender takes 50-90 ms, one between receivers 2 ms",
        fitted: "what control packets cost, to the 2 ms between receivers; there is no rule on that.",
        sweep: &GROUP_TOKENS,
        log_x: false,
        curves: &[
            percentile!("round trip, 10th percentile, ms", 0.1, rounds_ms),
            percentile!("round trip, 25th percentile, ms", 0.25, rounds_ms),
            percentile!("round trip, median, ms", 0.5, rounds_ms),
            percentile!("round trip, 75th percentile, ms", 0.75, rounds_ms),
            percentile!("round trip, 90th percentile, ms", 0.9, rounds_ms),
            Curve {
                label: "hop with the sender, ms",
                of: |run| mean_of(&run.sender_hops_ms),
            },
            Curve {
                label: "hop between receivers, ms",
                of: |run| mean_of(&run.hops_ms),
            },
        ],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ratio(1, 4000.0, 7000.0, 0.9..=1.1),
                seen.ratio(4, 4000.0, 7000.0, 1.1..=MORE),
                seen.value(5, 4000.0, 50.0..=90.0),
                seen.value(5, 7000.0, 50.0..=90.0),
            ]
        },
        better: |_| Vec::new(),
        note: "30 receivers. Only the slower half of the round trips gets slower, as in S0. A hop with the sender takes {E43.5@1 ±} ms with one group, {E43.5@1000 ±} with 1000, {E43.5@4000 ±} with 4000 and {E43.5@7000 ±} with 7000: with thousands it is shorter than S0's. Why was not traced. Between receivers a hop takes {E43.6@1 ±}, {E43.6@1000 ±}, {E43.6@4000 ±} and {E43.6@7000 ±} ms. Modern mode's rings rotate at once, so that it has no hops one after the other, and its nodes do not know of groups in this model: no rule.",
    },
    Figure {
        id: "E44",
        title: "distribution of the intervals between tokens vs groups",
        source: "S0 fig. 42, §5.5",
        paper: "the longest 10 % of the intervals grow with the number of groups",
        fitted: "",
        sweep: &GROUP_TOKENS,
        log_x: false,
        curves: &[
            percentile!("interval, 10th percentile, ms", 0.1, round_gaps_ms),
            percentile!("interval, median, ms", 0.5, round_gaps_ms),
            percentile!("interval, 90th percentile, ms", 0.9, round_gaps_ms),
            percentile!("interval, 95th percentile, ms", 0.95, round_gaps_ms),
        ],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ratio(1, 1000.0, 7000.0, 0.95..=1.05),
                seen.ratio(3, 1000.0, 7000.0, 1.05..=MORE),
            ]
        },
        better: |_| Vec::new(),
        note: "Intervals between completed rounds at the region's leader; 30 receivers. Modern mode's do not depend on groups in this model: no rule.",
    },
];
