//! Experiments beyond the papers' figures: large regions, recovery in round trips, crashes.

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::{Config, Seed};
use qsm_sim::cost::CostModel;
use qsm_sim::probe::{ClusterOptions, Measured};
use qsm_sim::{Fault, Flow, SimOptions};
use qsm_wire::NodeId;

use super::statistics::mean;
use crate::experiment::{Curve, Figure, Load, Sweep};
use crate::papers::{Mode, S2};
use crate::rules::ANY;

/// Largest region in which one token visits all members in turn within seconds.
const IN_TURN_MAX: f64 = 1000.0;

static HIERARCHY: Sweep = Sweep {
    name: "hierarchy",
    x: "nodes in one region",
    values: &[10.0, 100.0, 1000.0, 10_000.0],
    seeds: 3,
    load: Load::Cluster(|mode, x| {
        let mut options = S2.cluster(mode, x as usize, 20);
        options.disturbances.clear();
        options.network.loss_ppm = 10_000;
        options.pace.rate_max_packets = 25;
        options.warmup = Duration::from_secs(3);
        options.duration = Duration::from_secs(6);
        options.sample = Duration::from_millis(490);
        if mode == Mode::Faithful {
            options.warmup = Duration::from_secs(10);
            options.duration = Duration::from_secs(20);
        }
        (mode == Mode::Modern || x <= IN_TURN_MAX).then_some(options)
    }),
};

/// A local network of today; work costs no time, so that only the protocol's round trips count.
fn fast_network(mode: Mode, nodes: usize) -> ClusterOptions {
    let mut options = S2.cluster(mode, nodes, 1);
    options.costs = CostModel::default();
    options.disturbances.clear();
    options.pace = Config::new(NodeId(0), ([127, 0, 0, 1], 1).into()).pace;
    if mode == Mode::Faithful {
        options.pace = Config::new(NodeId(0), ([127, 0, 0, 1], 1).into())
            .seed_faithful()
            .pace;
        options.pace.faithful_rate = false;
    }
    options.network.uplink_bits_per_second = 1_000_000_000;
    options.network.jitter = Duration::from_micros(5);
    options.network.receive_buffer_bytes = 8 << 20;
    options.pace.rate_max_packets = 1000;
    options.warmup = Duration::from_secs(1);
    options.duration = Duration::from_secs(2);
    options.sample = Duration::from_millis(97);
    if mode == Mode::Faithful {
        options.pace.rate_max_packets = 200;
        options.warmup = Duration::from_secs(4);
        options.duration = Duration::from_secs(10);
    }
    options
}

/// There and back, ms.
const ROUND_TRIP_MS: f64 = 0.105;

static INDEPENDENT: Sweep = Sweep {
    name: "independent losses",
    x: "nodes, each of which loses 1 %",
    values: &[25.0, 200.0, 1000.0],
    seeds: 3,
    load: Load::Cluster(|mode, x| {
        let mut options = fast_network(mode, x as usize);
        options.network.loss_ppm = 10_000;
        Some(options)
    }),
};

static TOTAL: Sweep = Sweep {
    name: "total losses",
    x: "nodes, all of which lose the same 1 %",
    values: &[25.0, 200.0, 1000.0],
    seeds: 3,
    load: Load::Cluster(|mode, x| {
        let mut options = fast_network(mode, x as usize);
        options.network.shared_loss_ppm = 10_000;
        Some(options)
    }),
};

static PACING: Sweep = Sweep {
    name: "pacing",
    x: "packets/s requested",
    values: &[1000.0, 5000.0, 10_000.0, 20_000.0],
    seeds: 3,
    load: Load::Cluster(|mode, x| {
        let mut options = fast_network(mode, 3);
        options.pace.rate_max_packets = x as u32;
        options.warmup = Duration::from_secs(5);
        options.duration = Duration::from_secs(10);
        Some(options)
    }),
};

/// What crashes: 1 a receiver, 2 a partition leader, 3 the region leader, 4 the sender, 5 the
/// membership service, which comes back.
fn crash(mode: Mode, what: f64, seed: Seed) -> Result<Measured, String> {
    let nodes = 20;
    let at = Duration::from_secs(3);
    let host = match what as usize {
        1 => 15,
        2 => 3,
        3 => 1,
        4 => nodes,
        _ => 0,
    };
    let mut options = SimOptions::quiet(seed, nodes);
    options.groups[0].publishers = [nodes].into();
    options.flows = vec![Flow::new(nodes, 0)];
    options.faults = vec![(at, Fault::Crash { host })];
    if host == 0 {
        let back = Fault::Restart {
            host,
            same_node: true,
        };
        options.faults.push((at + Duration::from_secs(1), back));
    }
    options.network.loss_ppm = 5000;
    options.invariants_every = 0;
    options.duration = Duration::from_secs(5);
    if mode == Mode::Faithful {
        let config = Config::new(NodeId(0), ([127, 0, 0, 1], 1).into()).seed_faithful();
        options.pace = config.pace;
        options.recovery = config.recovery;
        options.layout = config.layout;
    }
    let report = qsm_sim::run(options).map_err(|failure| failure.violation.to_string())?;
    let lost = report.stats.get("messages_lost").copied().unwrap_or(0);
    Ok(Measured {
        stats: BTreeMap::from([
            ("settled_ms", report.settled_ns as f64 / 1e6),
            ("published", report.published as f64),
            ("lost", lost as f64),
        ]),
        inputs: report.inputs,
        ..Measured::default()
    })
}

static CRASHES: Sweep = Sweep {
    name: "crashes",
    x: "what crashes: 1 receiver, 2 partition leader, 3 region leader, 4 sender, 5 membership service",
    values: &[1.0, 2.0, 3.0, 4.0, 5.0],
    seeds: 6,
    load: Load::Direct(crash),
};

const REPAIR: Curve = Curve {
    label: "time to repair, round trips",
    of: |run| run.repair_ms / ROUND_TRIP_MS,
};
const REPEATED: Curve = Curve {
    label: "duplicates per missing packet",
    of: |run| run.total("duplicates") / run.total("gaps").max(1.0),
};

/// Added experiments.
pub(super) static FIGURES: &[Figure] = &[
    Figure {
        id: "E04b",
        title: "one region of up to 10,000 nodes",
        source: "our own, after S0 §5.1 (\"aggregation latency would grow logarithmically\") and S2 fig. 10",
        paper: "a deeper hierarchy of rings that rotate independently would let latency grow with log n; the sender's control overhead falls with n",
        fitted: "",
        sweep: &HIERARCHY,
        log_x: true,
        curves: &[
            Curve {
                label: "token round, ms",
                of: |run| mean(&run.rounds_ms),
            },
            Curve {
                label: "time until stable everywhere, ms",
                of: |run| run.stable_ms,
            },
            Curve {
                label: "control packets per round and node",
                of: |run| {
                    let control = run.total("control_sent") + run.total("control_received");
                    control / run.total("rounds").max(1.0) / nodes(run)
                },
            },
            Curve {
                label: "control packets at the sender, % of all",
                of: |run| {
                    let control = run.at_sender("control_sent")
                        + run.at_sender("control_received")
                        + forwarded(run);
                    control * 100.0 / (control + run.at_sender("data_sent") * 20.0)
                },
            },
            Curve {
                label: "forwarded packets at the sender, % of its data packets",
                of: |run| forwarded(run) / 20.0 * 100.0 / run.at_sender("data_sent").max(1.0),
            },
        ],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ratio(0, 100.0, 1000.0, 6.0..=14.0),
                seen.ratio(4, 10.0, 1000.0, ANY..=0.5),
            ]
        },
        better: |seen| {
            let step = |from, to| seen.at(0, to) - seen.at(0, from);
            vec![
                seen.number(
                    "token round: growth from 1000 to 10,000 over growth from 100 to 1000",
                    step(1000.0, 10_000.0) / step(100.0, 1000.0),
                    ANY..=2.0,
                ),
                seen.ratio(1, 100.0, 10_000.0, ANY..=4.0),
                seen.ratio(2, 100.0, 10_000.0, ANY..=2.0),
                seen.ratio(3, 10.0, 10_000.0, ANY..=1.05),
            ]
        },
        note: "500 packets/s, 1 % independent loss, S2's machines without stalls. In seed-faithful mode one token visits all nodes in turn, so that its round is linear in n; it is not run with 10,000.",
    },
    Figure {
        id: "E16",
        title: "pacing accuracy",
        source: "S2 §2.4",
        paper: "20,000 packets/s exactly as requested on a fast machine",
        fitted: "",
        sweep: &PACING,
        log_x: false,
        curves: &[Curve {
            label: "packets/s sent",
            of: |run| run.rate,
        }],
        references: &[],
        agrees: |seen| vec![seen.value(0, 20_000.0, 19_800.0..=20_200.0)],
        better: |seen| vec![seen.value(0, 20_000.0, 19_800.0..=20_200.0)],
        note: "Work costs no time here, on the machines of the papers it does.",
    },
    Figure {
        id: "E59",
        title: "repair of independent losses",
        source: "our own",
        paper: "no paper; the aim is one and a half round trips and the reorder guard, 2.45 round trips here, at any number of nodes",
        fitted: "",
        sweep: &INDEPENDENT,
        log_x: true,
        curves: &[REPAIR, REPEATED],
        references: &[],
        agrees: |_| Vec::new(),
        better: |seen| {
            vec![
                seen.value(0, 25.0, ANY..=2.45),
                seen.value(0, 200.0, ANY..=2.45),
                seen.value(0, 1000.0, ANY..=2.45),
            ]
        },
        note: "Gigabit network with 0.1 ms round trip, work costs no time. Repairs go to all as soon as three have asked, which is right for losses that hit many. Duplicates per missing packet at 1000 nodes: {E59.1@1000m ±} (second curve).",
    },
    Figure {
        id: "E59b",
        title: "repair of losses that hit everybody",
        source: "our own",
        paper: "no paper, and no aim",
        fitted: "",
        sweep: &TOTAL,
        log_x: true,
        curves: &[REPAIR, REPEATED],
        references: &[],
        agrees: |_| Vec::new(),
        better: |_| Vec::new(),
        note: "All cachers must be known to miss a packet before its sender is asked.",
    },
    Figure {
        id: "E61",
        title: "crashes during traffic",
        source: "our own",
        paper: "no paper; nothing is lost when a node crashes that does not send, and modern mode is at rest sooner",
        fitted: "",
        sweep: &CRASHES,
        log_x: false,
        curves: &[
            Curve {
                label: "ms from the end of faults until everything is delivered and at rest",
                of: |run| run.total("settled_ms"),
            },
            Curve {
                label: "messages reported lost",
                of: |run| run.total("lost"),
            },
        ],
        references: &[],
        agrees: |seen| vec![seen.value(1, 1.0, 0.0..=0.0)],
        better: |seen| {
            vec![
                seen.against_faithful(0, 3.0, ANY..=1.0),
                seen.value(1, 3.0, 0.0..=0.0),
            ]
        },
        note: "20 nodes, 100 messages/s, 0.5 % loss; every promise is checked. Three seconds of rest are part of the time.",
    },
];

/// Packets that the sender has sent again for others, as if each counted.
fn forwarded(run: &Measured) -> f64 {
    20.0 * (run.at_sender("repairs_push_sent")
        + run.at_sender("repairs_pull_sent")
        + run.at_sender("repairs_cacher_sent")
        + run.at_sender("repairs_sender_sent"))
}

/// Nodes of the run, from what they delivered.
fn nodes(run: &Measured) -> f64 {
    let each = run.at_sender("messages_delivered");
    (run.total("messages_delivered") / each.max(1.0))
        .round()
        .max(1.0)
}
