//! What is varied in S0's experiments, and what is read from the runs.

use core::time::Duration;

use qsm_sim::cost::HeapModel;
use qsm_sim::probe::{ClusterOptions, Disturbance};

use crate::catalogue::statistics::mean;
use crate::experiment::{Curve, Load, Sweep};
use crate::papers::{Mode, S0, SOCKET_PACKETS};

/// One simulated message stands for ten, except where latencies are measured.
const WEIGHT: u32 = 10;

fn whole(x: f64) -> usize {
    x as usize
}

fn receivers(mode: Mode, count: f64) -> ClusterOptions {
    S0.cluster(mode, whole(count) + 1, WEIGHT)
}

pub(super) static RECEIVERS: Sweep = Sweep {
    name: "S0 receivers",
    x: "receivers",
    values: &[10.0, 25.0, 50.0, 100.0, 150.0, 192.0],
    seeds: 3,
    load: Load::Cluster(|mode, x| Some(receivers(mode, x))),
};

pub(super) static TWO_SENDERS: Sweep = Sweep {
    name: "S0 two senders",
    x: "messages/s offered by two senders",
    values: &[4000.0, 6000.0, 8000.0, 10000.0, 12000.0, 14000.0],
    seeds: 3,
    load: Load::Cluster(|mode, x| {
        let mut options = receivers(mode, 50.0);
        options.senders = vec![49, 50];
        options.pace.rate_max_packets = (x / 2.0 / f64::from(WEIGHT)) as u32;
        Some(options)
    }),
};

pub(super) static RATES: Sweep = Sweep {
    name: "S0 rates",
    x: "messages/s of 1000 bytes",
    values: &[1000.0, 2000.0, 4000.0, 6000.0, 7000.0, 7500.0, 8000.0],
    seeds: 3,
    load: Load::Cluster(|mode, x| {
        let mut options = receivers(mode, 100.0);
        options.pace.rate_max_packets = (x / f64::from(WEIGHT)) as u32;
        options.duration = Duration::from_secs(30);
        Some(options)
    }),
};

fn at_rate(mode: Mode, rate: f64, bytes: usize) -> ClusterOptions {
    // Single packets: latencies are measured.
    let mut options = S0.cluster(mode, 21, 1);
    options.message_bytes = bytes;
    options.pace.rate_max_packets = rate as u32;
    options.warmup = Duration::from_secs(3);
    options.duration = Duration::from_secs(7);
    options.sample = Duration::from_millis(97);
    options
}

pub(super) static LATENCIES: Sweep = Sweep {
    name: "S0 latencies",
    x: "messages/s of 1000 bytes",
    values: &[500.0, 1000.0, 2000.0, 4000.0, 6000.0, 7000.0, 8000.0],
    seeds: 3,
    load: Load::Cluster(|mode, x| Some(at_rate(mode, x, 1000))),
};

pub(super) static LATENCIES_SMALL: Sweep = Sweep {
    name: "S0 latencies, small messages",
    x: "messages/s of 100 bytes",
    values: &[500.0, 1000.0, 2000.0, 4000.0, 6000.0, 7000.0, 8000.0],
    seeds: 3,
    load: Load::Cluster(|mode, x| Some(at_rate(mode, x, 100))),
};

pub(super) static TOKENS: Sweep = Sweep {
    name: "S0 token rates",
    x: "tokens/s",
    values: &[0.5, 1.0, 1.25, 2.0, 3.0, 5.0],
    seeds: 3,
    load: Load::Cluster(|mode, x| {
        let mut options = receivers(mode, 192.0);
        options.pace.token_min = Duration::from_secs_f64(1.0 / x);
        options.pace.token_max = match mode {
            Mode::Faithful => options.pace.token_min,
            Mode::Modern => options.pace.token_min.max(Duration::from_secs(1)),
        };
        Some(options)
    }),
};

pub(super) static REPLICAS: Sweep = Sweep {
    name: "S0 replicas",
    x: "caching replicas of each message",
    values: &[5.0, 10.0, 20.0, 40.0, 64.0, 96.0],
    seeds: 3,
    load: Load::Cluster(|mode, x| {
        let mut options = receivers(mode, 192.0);
        options.layout.replication = match mode {
            Mode::Faithful => whole(x),
            Mode::Modern => whole(x).min(16),
        };
        Some(options)
    }),
};

fn disturbed(mode: Mode, count: f64, disturbance: fn(usize) -> Disturbance) -> ClusterOptions {
    let mut options = receivers(mode, count);
    options.disturbances = vec![disturbance(whole(count) / 2)];
    options.warmup = Duration::from_secs(10);
    options.duration = Duration::from_secs(30);
    options
}

const SLEEP_EVERY: Duration = Duration::from_secs(5);
const SLEEP_LENGTH: Duration = Duration::from_millis(500);

pub(super) static SLEEP: Sweep = Sweep {
    name: "S0 one sleeps",
    x: "receivers, one of which sleeps 0.5 s every 5 s",
    values: &[10.0, 40.0, 80.0, 120.0, 160.0, 192.0],
    seeds: 3,
    load: Load::Cluster(|mode, x| {
        Some(disturbed(mode, x, |node| Disturbance::Sleep {
            node,
            every: SLEEP_EVERY,
            length: SLEEP_LENGTH,
        }))
    }),
};

pub(super) static DEAF: Sweep = Sweep {
    name: "S0 one loses",
    x: "receivers, one of which loses everything for 10 ms every 1 s",
    values: &[10.0, 40.0, 80.0, 120.0, 160.0, 192.0],
    seeds: 3,
    load: Load::Cluster(|mode, x| {
        Some(disturbed(mode, x, |node| Disturbance::Deaf {
            node,
            every: Duration::from_secs(1),
            length: Duration::from_millis(10),
        }))
    }),
};

fn with_groups(mode: Mode, groups: f64, tracing: u64) -> ClusterOptions {
    let mut options = receivers(mode, 30.0);
    options.groups = groups as u32;
    options.sample = Duration::from_millis(97);
    if let Some(heap) = options.costs.heap {
        options.costs.heap = Some(HeapModel {
            group_bytes: heap.group_bytes + tracing,
            ..heap
        });
    }
    options
}

pub(super) static GROUPS: Sweep = Sweep {
    name: "S0 groups",
    x: "groups",
    values: &[1.0, 1000.0, 2000.0, 3500.0, 5000.0, 6500.0, 8192.0],
    seeds: 6,
    load: Load::Cluster(|mode, x| Some(with_groups(mode, x, 0))),
};

pub(super) static GROUPS_TRACED: Sweep = Sweep {
    name: "S0 groups, traced",
    x: "groups, with tracing that adds half to each group's heap",
    values: &[1.0, 2000.0, 5000.0, 8192.0],
    seeds: 3,
    load: Load::Cluster(|mode, x| Some(with_groups(mode, x, 6 << 10))),
};

pub(super) static GROUP_TOKENS: Sweep = Sweep {
    name: "S0 tokens and groups",
    x: "groups",
    values: &[1.0, 1000.0, 4000.0, 7000.0],
    seeds: 5,
    load: Load::Cluster(|mode, x| {
        let mut options = with_groups(mode, x, 0);
        options.duration = Duration::from_secs(60);
        Some(options)
    }),
};

pub(super) const RATE: Curve = Curve {
    label: "messages/s",
    of: |run| run.rate,
};
pub(super) const PENDING: Curve = Curve {
    label: "messages not acknowledged",
    of: |run| mean(&run.pending),
};
pub(super) const ROUND: Curve = Curve {
    label: "token round trip, ms",
    of: |run| mean(&run.rounds_ms),
};
pub(super) const ACKED: Curve = Curve {
    label: "time to acknowledge, ms",
    of: |run| run.stable_ms,
};
pub(super) const SENDER_CPU: Curve = Curve {
    label: "CPU of the sender, %",
    of: |run| run.sender.cpu * 100.0,
};
pub(super) const RECEIVER_CPU: Curve = Curve {
    label: "CPU of receivers, %",
    of: |run| run.receivers.cpu * 100.0,
};
pub(super) const COLLECTING: Curve = Curve {
    label: "time of the sender in garbage collection, %",
    of: |run| run.sender.collecting * 100.0,
};
pub(super) const SENDER_HEAP: Curve = Curve {
    label: "live heap of the sender, MiB",
    of: |run| run.sender.heap_mib,
};
pub(super) const RECEIVER_HEAP: Curve = Curve {
    label: "live heap of receivers, MiB",
    of: |run| run.receivers.heap_mib,
};
pub(super) const WATCHED_LOSS: Curve = Curve {
    label: "loss at the disturbed node, %",
    of: |run| run.watched.loss * 100.0,
};
/// The share of its packets that a node loses whatever its protocol does: what comes while it
/// sleeps, beyond what its socket holds.
fn unavoidable(rate: f64) -> f64 {
    let missed = rate * SLEEP_LENGTH.as_secs_f64() - SOCKET_PACKETS as f64;
    missed.max(0.0) / (rate * SLEEP_EVERY.as_secs_f64())
}

pub(super) const EXCESS_LOSS: Curve = Curve {
    label: "loss over what its socket cannot hold at this rate",
    of: |run| run.watched.loss / unavoidable(run.rate),
};
pub(super) const LOSS_AWAKE: Curve = Curve {
    label: "loss at the disturbed node while it is awake, %",
    of: |run| run.watched.loss_awake * 100.0,
};
pub(super) const REPAIR: Curve = Curve {
    label: "time to recover, ms",
    of: |run| run.repair_ms,
};
pub(super) const RECEIVER_LATE: Curve = Curve {
    label: "alarm delay at receivers: largest per second, ms",
    of: |run| run.receivers.late_max_ms,
};
pub(super) const WATCHED_LATE: Curve = Curve {
    label: "alarm delay at the disturbed node: largest per second, ms",
    of: |run| run.watched.late_max_ms,
};
pub(super) const SENDER_LATE: Curve = Curve {
    label: "alarm delay at the sender: largest per second, ms",
    of: |run| run.sender.late_max_ms,
};
