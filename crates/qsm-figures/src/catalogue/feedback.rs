//! S0's second attempt at less memory: ACKs that say more (R094).

use core::time::Duration;

use qsm_proto::Seed;
use qsm_sim::probe::{ClusterOptions, Disturbance, Measured, measure};

use super::statistics::{mean, variability};
use crate::experiment::{Curve, Figure, Load, Sweep};
use crate::papers::{Mode, S0};
use crate::rules::{ANY, MORE};

/// One simulated message stands for ten.
const WEIGHT: u32 = 10;
/// A datagram with one message of 1000 bytes.
const PACKET_BYTES: usize = 1000 + qsm_wire::DATA_HEADER_BYTES + qsm_wire::CHUNK_HEADER_BYTES;

fn receivers(mode: Mode, count: f64, seed: Seed) -> ClusterOptions {
    let mut options = S0.cluster(mode, count as usize + 1, WEIGHT);
    options.seed = seed;
    options.duration = Duration::from_secs(40);
    options
}

/// The same system, seed by seed, with one range in each ACK and with one for each partition; the
/// former's results have names of their own. Modern mode has no such switch and runs once.
fn compared(mode: Mode, mut options: ClusterOptions) -> Result<Measured, String> {
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

fn undisturbed(mode: Mode, count: f64, seed: Seed) -> Result<Measured, String> {
    compared(mode, receivers(mode, count, seed))
}

static FEEDBACK: Sweep = Sweep {
    name: "S0 feedback",
    x: "receivers",
    values: &[50.0, 100.0, 192.0],
    seeds: 3,
    load: Load::Direct(undisturbed),
};

/// The same with one receiver that loses everything for 10 ms in each second, so that there are
/// gaps, and with so many messages not acknowledged at most.
fn bounded(mode: Mode, messages: f64, seed: Seed) -> Result<Measured, String> {
    let mut options = receivers(mode, 192.0, seed);
    // A stream's window is a quarter of its node's send memory.
    let packets = messages as usize / WEIGHT as usize;
    options.limits.send_bytes = 4 * packets * PACKET_BYTES;
    options.disturbances = vec![Disturbance::Deaf {
        node: 96,
        every: Duration::from_secs(1),
        length: Duration::from_millis(10),
    }];
    compared(mode, options)
}

static BOUNDED: Sweep = Sweep {
    name: "S0 feedback, bounded",
    x: "bound on messages not acknowledged; 192 receivers, one of which loses everything for 10 ms every 1 s",
    values: &[6000.0, 12_000.0, 48_000.0],
    seeds: 3,
    load: Load::Direct(bounded),
};

/// A result of the run with one range; not a number in modern mode.
fn one(run: &Measured, name: &str) -> f64 {
    run.stats.get(name).copied().unwrap_or(f64::NAN)
}

const SPREAD: Curve = Curve {
    label: "standard deviation of the rate over 1 s, % of the mean, a range for each partition",
    of: |run| variability(&run.rates) * 100.0,
};
const SPREAD_ONE: Curve = Curve {
    label: "standard deviation of the rate over 1 s, % of the mean, one range",
    of: |run| one(run, "one_spread"),
};
const RATE: Curve = Curve {
    label: "messages/s, a range for each partition",
    of: |run| run.rate,
};
const RATE_ONE: Curve = Curve {
    label: "messages/s, one range",
    of: |run| one(run, "one_rate"),
};
const HEAP: Curve = Curve {
    label: "live heap of receivers, MiB, a range for each partition",
    of: |run| run.receivers.heap_mib,
};
const HEAP_ONE: Curve = Curve {
    label: "live heap of receivers, MiB, one range",
    of: |run| one(run, "one_heap"),
};

/// S0's experiments with O(n) feedback.
pub(super) static FIGURES: &[Figure] = &[
    Figure {
        id: "E24",
        title: "O(n) feedback: a range for each partition",
        source: "S0 fig. 19, 20, §5.1",
        paper: "messages not acknowledged are 30 % fewer but still grow with the number of receivers; throughput is lower, because token processing costs more",
        fitted: "what a number in an ACK costs the sender, to E23; with it throughput is lower.",
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
            RATE,
            RATE_ONE,
            Curve {
                label: "token round trip, ms, a range for each partition",
                of: |run| mean(&run.rounds_ms),
            },
            Curve {
                label: "token round trip, ms, one range",
                of: |run| one(run, "one_round"),
            },
            Curve {
                label: "live heap of the sender, MiB, a range for each partition",
                of: |run| run.sender.heap_mib,
            },
            Curve {
                label: "live heap of the sender, MiB, one range",
                of: |run| one(run, "one_sender_heap"),
            },
        ],
        references: &[],
        agrees: |seen| {
            vec![
                seen.over(0, 1, 192.0, 0.55..=0.837),
                seen.ends(0, 1.1..=MORE),
                seen.over(2, 3, 192.0, ANY..=0.999),
            ]
        },
        better: |seen| vec![seen.against_faithful(0, 192.0, ANY..=0.5)],
        note: "Partitions cache packets in turn, so that what one of them has are no ranges; a token and an ACK carry one number for each partition instead (R094), how far its cachers have got. A token that visits partitions one after the other finds later ones farther, on average by half of its round trip: that is what is acknowledged earlier, and it grows with the round trip, as the rest does. Throughput is lower although the sender's heap is smaller (the last two curves), because each number costs the sender what the one of an ordinary ACK costs. S0 says that token processing becomes more costly and gives no figure.",
    },
    Figure {
        id: "E25",
        title: "variance of the throughput with O(n) feedback",
        source: "S0 fig. 21, §5.1",
        paper: "unstable, large variance: the flow control limits what is not acknowledged, but receivers must cache it all the same",
        fitted: "",
        sweep: &FEEDBACK,
        log_x: false,
        curves: &[SPREAD, SPREAD_ONE, HEAP, HEAP_ONE],
        references: &[],
        agrees: |seen| vec![seen.over(0, 1, 192.0, 1.5..=MORE)],
        better: |_| Vec::new(),
        note: "It does not come out. In S0 the flow control bounds what is not acknowledged, and k ranges let the sender run ahead of what receivers can forget. Here that bound is not reached, receivers hold no more than before (the last two curves) because what they cache waits for the watermark in either case, and the rate varies by what collections take. E25b has gaps and a bound. Modern nodes have no collector that their rate could vary with: no rule.",
    },
    Figure {
        id: "E25b",
        title: "O(n) feedback with gaps and a bound on what is not acknowledged",
        source: "our own, after S0 fig. 21 (§5.1), with a disturbance of §5.3",
        paper: "receivers cache more with k ranges, because they deliver in order while the sender runs ahead; the throughput varies more",
        fitted: "",
        sweep: &BOUNDED,
        log_x: true,
        curves: &[SPREAD, SPREAD_ONE, RATE, RATE_ONE, HEAP, HEAP_ONE],
        references: &[],
        agrees: |seen| {
            vec![
                seen.over(4, 5, 48_000.0, 1.01..=MORE),
                seen.over(0, 1, 6000.0, 1.5..=MORE),
            ]
        },
        better: |_| Vec::new(),
        note: "It does not come out. With one range the bound stops the sender whenever the lossy receiver holds back the watermark, and k ranges take these stops away. S0's instability needs receivers that suffer more from cached data than the heap model, made from S0's other figures, says.",
    },
];
