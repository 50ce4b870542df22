//! Rate control when something changes: start-up, slow receivers, new senders (E60). Modern nodes
//! receive by kind and make messages in turn as the product's thread does, which decides who
//! gets how much of a busy host; the papers' machines are too slow for such turns.

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::{Config, Seed};
use qsm_sim::cost::{CostModel, Order};
use qsm_sim::probe::{ClusterOptions, Disturbance, Measured, measure};
use qsm_wire::NodeId;

use super::statistics::{mean, variability};
use crate::experiment::{Curve, Figure, Load, Sweep};
use crate::papers::{Mode, S2};
use crate::rules::{ANY, MORE};

/// What a receiver can take if it has nothing else to do, packets per second.
fn capacity(mode: Mode) -> f64 {
    match mode {
        Mode::Faithful => 10_000.0,
        Mode::Modern => 50_000.0,
    }
}
/// What sockets hold, which is what receivers grant (G15).
const SOCKET_BYTES: usize = 4 << 20;

/// From then on something is different: equation 2 needs minutes to find its rate.
fn change(mode: Mode) -> Duration {
    match mode {
        Mode::Faithful => Duration::from_secs(400),
        Mode::Modern => Duration::from_secs(2),
    }
}
/// For how long.
fn changed(mode: Mode) -> Duration {
    match mode {
        Mode::Faithful => Duration::from_secs(100),
        Mode::Modern => Duration::from_secs(3),
    }
}

/// Ten nodes that receive packets of 1000 bytes, from senders that could send ten times as many.
/// In seed-faithful mode, whose runs last minutes, nodes are five times as slow and a simulated
/// packet stands for ten.
fn cluster(mode: Mode, senders: usize, seed: Seed) -> ClusterOptions {
    let weight = if mode == Mode::Faithful { 10 } else { 1 };
    let config = Config::new(NodeId(0), ([127, 0, 0, 1], 1).into());
    let defaults = config.clone();
    let config = match mode {
        Mode::Faithful => config.seed_faithful(),
        Mode::Modern => config,
    };
    let mut options = S2.cluster(mode, 10 + senders, weight);
    options.seed = seed;
    options.senders = (10..10 + senders).collect();
    options.message_bytes = 1000;
    options.pace = config.pace;
    options.pace.rate_min_packets = 100 / weight;
    options.pace.growth_permille = defaults.pace.growth_permille;
    options.recovery = config.recovery;
    options.disturbances.clear();
    options.costs = CostModel {
        receive: Duration::from_secs_f64(1.0 / capacity(mode)),
        receive_control: Duration::from_micros(5),
        send: Duration::from_micros(1),
        send_control: Duration::from_micros(3),
        publish: Duration::from_micros(1),
        io_quantum: Duration::from_micros(200),
        output_first: match mode {
            Mode::Faithful => Duration::ZERO,
            Mode::Modern => Duration::from_micros(100),
        },
        order: match mode {
            Mode::Faithful => Order::Arrival,
            Mode::Modern => Order::ByKind,
        },
        told_of_drops: true,
        weight,
        ..CostModel::default()
    };
    options.network.uplink_bits_per_second = 1_000_000_000 / u64::from(weight);
    options.warmup = Duration::ZERO;
    options.sample = Duration::from_millis(10);
    options.network.receive_buffer_bytes = SOCKET_BYTES / weight as usize;
    if mode == Mode::Modern {
        options.credit_bytes = SOCKET_BYTES;
    } else {
        options.sample = Duration::from_millis(500);
    }
    options
}

/// Samples between two times.
fn between(samples: &[f64], options: &ClusterOptions, from: Duration, to: Duration) -> Vec<f64> {
    let at = |time: Duration| (time.as_secs_f64() / options.sample.as_secs_f64()) as usize;
    let count = samples.len();
    samples[at(from).min(count)..at(to).min(count)].to_vec()
}

/// The time from the first sample until five in a row satisfy this on average, ms.
fn time_until(samples: &[f64], options: &ClusterOptions, holds: impl Fn(f64) -> bool) -> f64 {
    let found = samples.windows(5).position(|window| holds(mean(window)));
    found.map_or(f64::INFINITY, |at| {
        at as f64 * options.sample.as_secs_f64() * 1e3
    })
}

fn all_sent(run: &Measured) -> Vec<f64> {
    let count = run.sent.first().map_or(0, Vec::len);
    let sum = |at| run.sent.iter().map(|rates| rates[at]).sum();
    (0..count).map(sum).collect()
}

fn report(run: &Measured, stats: &[(&'static str, f64)]) -> Measured {
    Measured {
        stats: stats.iter().copied().collect::<BTreeMap<_, _>>(),
        inputs: run.inputs,
        ..Measured::default()
    }
}

fn run(options: &ClusterOptions) -> Result<Measured, String> {
    measure(options).map_err(|error| error.to_string())
}

/// A lone sender begins; `x`: round-trip time, ms.
fn start(mode: Mode, x: f64, seed: Seed) -> Result<Measured, String> {
    let mut options = cluster(mode, 1, seed);
    options.network.delay = Duration::from_secs_f64(x / 2e3);
    options.duration = change(mode);
    let found = run(&options)?;
    let sent = all_sent(&found);
    let end = options.duration;
    let last = between(&sent, &options, end * 3 / 4, end);
    let first = between(
        &found.losses,
        &options,
        Duration::ZERO,
        Duration::from_secs(1),
    );
    let done = |rate: f64| rate >= 0.95 * mean(&last);
    let seconds: Vec<f64> = last.chunks(10).map(mean).collect();
    Ok(report(
        &found,
        &[
            ("start_ms", time_until(&sent, &options, done)),
            ("final", mean(&last) * 100.0 / capacity(mode)),
            ("spread", variability(&seconds) * 100.0),
            ("loss", mean(&first) * 100.0),
            ("busy", found.receivers.cpu * 100.0),
        ],
    ))
}

/// One node of the group has only so many per cent of its capacity for a while, then all again.
fn slow(mode: Mode, x: f64, seed: Seed) -> Result<Measured, String> {
    let mut options = cluster(mode, 1, seed);
    let (from, length) = (change(mode), changed(mode));
    options.disturbances.push(Disturbance::Slow {
        node: 5,
        from,
        length,
        times: (100.0 / x).round() as u32,
    });
    let until = from + length;
    options.duration = until + length;
    let found = run(&options)?;
    let sent = all_sent(&found);
    let before = mean(&between(&sent, &options, from / 2, from));
    let during = between(&sent, &options, from, until);
    let after = between(&sent, &options, until, options.duration);
    let capacity = capacity(mode) * x / 100.0;
    let settled = mean(&between(&sent, &options, from + length / 3, until));
    let losses = between(&found.losses, &options, from, until);
    Ok(report(
        &found,
        &[
            (
                "down_ms",
                time_until(&during, &options, |rate| rate <= capacity),
            ),
            ("settled", settled * 100.0 / capacity),
            // Of 11 nodes ten receive; all that is lost is lost at one.
            ("loss", mean(&losses) * 1000.0),
            (
                "up_ms",
                time_until(&after, &options, |rate| rate >= 0.9 * before),
            ),
        ],
    ))
}

/// One more sender begins, where so many are sending as fast as they may.
fn join(mode: Mode, x: f64, seed: Seed) -> Result<Measured, String> {
    let others = x as usize;
    let mut options = cluster(mode, others + 1, seed);
    let from = change(mode);
    let node = 10 + others;
    options.disturbances.push(Disturbance::Joins { node, from });
    options.duration = from + changed(mode);
    let found = run(&options)?;
    let end = options.duration;
    let sent = all_sent(&found);
    let before = mean(&between(&sent, &options, from / 2, from));
    let settled = end - changed(mode) * 2 / 3;
    let after = mean(&between(&sent, &options, settled, end));
    let rates = found.sent.iter();
    let shares: Vec<f64> = rates
        .map(|rates| mean(&between(rates, &options, settled, end)))
        .collect();
    let squares: Vec<f64> = shares.iter().map(|share| share * share).collect();
    let newcomer = between(&found.sent[others], &options, from, end);
    let fair = after / (x + 1.0);
    let losses = between(&found.losses, &options, from, end);
    let worst = losses.chunks(10).map(mean).fold(0.0, f64::max);
    Ok(report(
        &found,
        &[
            (
                "fair_ms",
                time_until(&newcomer, &options, |rate| rate >= 0.8 * fair),
            ),
            ("jain", mean(&shares).powi(2) / mean(&squares)),
            ("total", after * 100.0 / before),
            ("burst", worst * 100.0),
        ],
    ))
}

static START: Sweep = Sweep {
    name: "rate control, start",
    x: "round-trip time, ms",
    values: &[0.1, 1.0, 10.0],
    seeds: 4,
    load: Load::Direct(start),
};

static SLOW: Sweep = Sweep {
    name: "rate control, one slow node",
    x: "capacity that one of ten receivers has for a while, %",
    values: &[10.0, 25.0, 50.0],
    seeds: 3,
    load: Load::Direct(slow),
};

static JOIN: Sweep = Sweep {
    name: "rate control, one more sender",
    x: "senders before",
    values: &[1.0, 4.0, 9.0],
    seeds: 3,
    load: Load::Direct(join),
};

fn said(run: &Measured, name: &str) -> f64 {
    run.stats.get(name).copied().unwrap_or(f64::NAN)
}

/// The experiments on rate control.
pub(super) static FIGURES: &[Figure] = &[
    Figure {
        id: "E60",
        title: "rate control: start-up",
        source: "our own",
        paper: "S2 §3.8: tens of seconds to several minutes; the aim is 95 % of the capacity within 500 ms, 200 ms at round trips of 1 ms, and less than 1 % lost",
        fitted: "",
        sweep: &START,
        log_x: true,
        curves: &[
            Curve {
                label: "ms until 95 % of the final rate",
                of: |run| said(run, "start_ms"),
            },
            Curve {
                label: "final rate, % of a receiver's capacity",
                of: |run| said(run, "final"),
            },
            Curve {
                label: "receivers' time in use, %",
                of: |run| said(run, "busy"),
            },
            Curve {
                label: "lost in the first second, %",
                of: |run| said(run, "loss"),
            },
            Curve {
                label: "standard deviation of the final rate, % of the mean",
                of: |run| said(run, "spread"),
            },
        ],
        references: &[],
        agrees: |seen| vec![seen.value(0, 1.0, 20_000.0..=400_000.0)],
        better: |seen| {
            vec![
                seen.value(0, 0.1, ANY..=200.0),
                seen.value(0, 1.0, ANY..=200.0),
                seen.value(0, 10.0, ANY..=500.0),
                seen.value(1, 0.1, 95.0..=MORE),
                seen.value(1, 1.0, 95.0..=MORE),
                seen.value(1, 10.0, 95.0..=MORE),
                seen.value(3, 0.1, ANY..=1.0),
                seen.value(3, 1.0, ANY..=1.0),
                seen.value(4, 0.1, ANY..=5.0),
                seen.value(4, 1.0, ANY..=5.0),
            ]
        },
        note: "Ten receivers, of which each can take 50,000 packets/s (seed-faithful: 10,000, sockets in proportion), sockets of 4 MiB; nodes are told what their sockets drop, which in other experiments they are not. Equation 2 climbs by a few per cent in each second and falls back whenever averages dip, hence the spread. Modern mode begins at 10,000 packets/s, doubles each round, and needs no time to speak of. At round trips of 10 ms the window is the limit: half a socket per round, and a round takes several trips, since its token goes from node to node.",
    },
    Figure {
        id: "E60b",
        title: "rate control: a receiver becomes slow and recovers",
        source: "our own; S2 §2.4",
        paper: "no paper; the aim is that the sender is below the new capacity within 3 round trips and 20 ms, follows it within 10 % (policy: the slowest), and is back within 1 s",
        fitted: "",
        sweep: &SLOW,
        log_x: false,
        curves: &[
            Curve {
                label: "ms until the sender is below the new capacity",
                of: |run| said(run, "down_ms"),
            },
            Curve {
                label: "rate then, % of the new capacity",
                of: |run| said(run, "settled"),
            },
            Curve {
                label: "lost at the slow node, % of what was sent to it",
                of: |run| said(run, "loss"),
            },
            Curve {
                label: "ms until 90 % of the old rate once it is well again",
                of: |run| said(run, "up_ms"),
            },
        ],
        references: &[],
        agrees: |_| Vec::new(),
        better: |seen| {
            vec![
                seen.value(0, 50.0, ANY..=21.0),
                seen.value(1, 50.0, 90.0..=110.0),
                seen.value(1, 10.0, 90.0..=110.0),
                seen.value(2, 10.0, ANY..=0.1),
                seen.value(3, 10.0, ANY..=1000.0),
                seen.value(3, 50.0, ANY..=1000.0),
            ]
        },
        note: "Policy: the slowest. Modern mode follows because the window follows the acknowledgements. The slow node has an empty socket when it becomes slow, and what the window allows, half a socket, fills it first: that takes {E60b.0@10m}, {E60b.0@25m} and {E60b.0@50m} ms at 10, 25 and 50 % of the capacity, the longer the less the node is slowed down. Times are averages over 50 ms. In seed-faithful mode the rate had not come near the capacity before (E60), so that half of it is no limit: no rule.",
    },
    Figure {
        id: "E60c",
        title: "rate control: one more sender",
        source: "our own; S2 §3.7",
        paper: "S2 §3.7: ten senders reach 80 % of one; the aim is the fair share within 500 ms, 95 % of the total, Jain's index 0.95, and no burst with more than 0.5 % lost",
        fitted: "",
        sweep: &JOIN,
        log_x: false,
        curves: &[
            Curve {
                label: "ms until the newcomer has 80 % of its fair share",
                of: |run| said(run, "fair_ms"),
            },
            Curve {
                label: "Jain's index of all senders",
                of: |run| said(run, "jain"),
            },
            Curve {
                label: "all senders' rate, % of before",
                of: |run| said(run, "total"),
            },
            Curve {
                label: "lost in the worst ten samples in a row, %",
                of: |run| said(run, "burst"),
            },
        ],
        references: &[],
        agrees: |seen| vec![seen.value(2, 9.0, 64.0..=89.4)],
        better: |seen| {
            vec![
                seen.value(0, 1.0, ANY..=500.0),
                seen.value(0, 9.0, ANY..=500.0),
                seen.value(1, 9.0, 0.95..=MORE),
                seen.value(2, 9.0, 95.0..=MORE),
                seen.value(3, 1.0, ANY..=0.5),
            ]
        },
        note: "Modern senders share by window: receivers divide their sockets among the active senders, so that a newcomer has its share after one round. It can send although it is kept busy receiving because a node's thread makes messages in each of its turns, as the product does; in the papers' order, output only when there is no input, it would never begin. In seed-faithful mode each gets the slowest receiver's average divided by the number of senders; the shares are far from equal while averages follow. Samples of seed-faithful mode are half seconds, so that its worst interval is one of 5 s.",
    },
];
