//! Swarm testing: everything about a run is drawn from its seed, including which kinds of faults
//! exist at all, so that rare combinations occur.

use core::time::Duration;

use qsm_proto::view::Layout;
use qsm_proto::{Limits, Pace, Random, Recovery, Seed};
use qsm_wire::membership::Role;

use crate::content::Sizes;
use crate::faults::{Fault, Garbage};
use crate::machine::Mischief;
use crate::network::{Burst, NetworkOptions, Sites};
use crate::options::SimOptions;
use crate::pattern::{GroupPlan, Pattern, groups};
use crate::report::{Failure, Report};
use crate::timeline::reconcile;
use crate::workload::{Churn, Flow};

/// How large drawn runs are at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwarmOptions {
    /// Nodes, at least 2.
    pub nodes_max: usize,
    /// Groups, at least 1.
    pub groups_max: usize,
    /// Messages of one flow.
    pub messages_max: u32,
    /// Changes of membership.
    pub churn_max: usize,
    /// Faults.
    pub faults_max: usize,
    /// How long faults and traffic last.
    pub duration: Duration,
    /// Whether well-formed forgeries may occur, after which only survival is checked.
    pub forgery: bool,
}

impl Default for SwarmOptions {
    /// Small runs for tests: a fraction of a second each.
    fn default() -> Self {
        Self {
            nodes_max: 8,
            groups_max: 5,
            messages_max: 150,
            churn_max: 8,
            faults_max: 5,
            duration: Duration::from_secs(12),
            forgery: false,
        }
    }
}

impl SwarmOptions {
    /// Shorter runs in which well-formed forgeries occur.
    #[must_use]
    pub fn forging() -> Self {
        Self {
            forgery: true,
            duration: Duration::from_secs(6),
            ..Self::default()
        }
    }
}

/// The version of the draw: the same seed gives other runs under another version, so that a seed
/// is a bug report only together with it.
pub const DRAW: u32 = 2;

/// Draws a run from its seed and runs it. It runs without a trace, which costs time; a failure is
/// seen once more, with one.
///
/// # Errors
/// The first broken promise.
pub fn swarm(seed: u64, sizes: &SwarmOptions) -> Result<Report, Box<Failure>> {
    let options = draw(seed, sizes);
    let silent = SimOptions {
        trace_lines: 0,
        ..options.clone()
    };
    crate::run(silent).or_else(|_| {
        crate::run(options).map_err(|failure| {
            let forgery = if sizes.forgery { " --forgery" } else { "" };
            Box::new(Failure {
                replay: format!("qsm sim seed {seed} --draw {DRAW}{forgery}"),
                ..*failure
            })
        })
    })
}

/// The run that belongs to a seed.
#[must_use]
pub fn draw(seed: u64, sizes: &SwarmOptions) -> SimOptions {
    let mut dice = Dice(Random::new(Seed(seed), "swarm"));
    let nodes = dice.range(2, sizes.nodes_max.max(2));
    let pattern = *dice.pick(&Pattern::ALL);
    let count = dice.range(1, sizes.groups_max.max(1));
    let groups = groups(pattern, nodes, count, Seed(seed));
    let mut flows = flows(&mut dice, &groups, sizes);
    let churn = churn(&mut dice, nodes, &groups, &mut flows, sizes);
    let faults = faults(&mut dice, nodes, sizes);
    SimOptions {
        seed,
        nodes,
        flows,
        sizes: *dice.pick(&[Sizes::MIX, Sizes::MIX, Sizes::SMALL]),
        churn,
        faults,
        network: network(&mut dice),
        drift_ppm_max: *dice.pick(&[0, 50, 500]),
        duration: sizes.duration,
        settle: Duration::from_secs(60),
        limits: limits(&mut dice),
        recovery: Recovery {
            fast: !dice.one_in(8),
            ..Recovery::default()
        },
        pace: Pace {
            faithful_rate: dice.one_in(8),
            rate_max_packets: *dice.pick(&[u32::MAX, 10_000, 1000]),
            batch_delay: *dice.pick(&[Duration::ZERO, Duration::from_millis(1)]),
            ..Pace::default()
        },
        layout: Layout {
            replication: *dice.pick(&[0, 0, 1, 2, 5]),
            block_packets: *dice.pick(&[16, 16, 1, 4]),
            ring_max: *dice.pick(&[25, 25, 2, 3]),
        },
        invariants_every: 1,
        trace_lines: 300,
        mischief: Mischief::None,
        groups,
    }
}

fn flows(dice: &mut Dice, groups: &[GroupPlan], sizes: &SwarmOptions) -> Vec<Flow> {
    let mut flows = Vec::new();
    for (group, plan) in groups.iter().enumerate() {
        for host in &plan.publishers {
            flows.push(flow(dice, *host, group, sizes));
        }
    }
    flows
}

fn flow(dice: &mut Dice, host: usize, group: usize, sizes: &SwarmOptions) -> Flow {
    Flow {
        host,
        group,
        start: dice.moment(sizes.duration / 2),
        interval: *dice.pick(&[
            Duration::from_millis(1),
            Duration::from_millis(10),
            Duration::from_millis(50),
        ]),
        burst: *dice.pick(&[1, 1, 4, 20]),
        messages: dice.number(sizes.messages_max) + 1,
    }
}

fn churn(
    dice: &mut Dice,
    nodes: usize,
    groups: &[GroupPlan],
    flows: &mut Vec<Flow>,
    sizes: &SwarmOptions,
) -> Vec<(Duration, Churn)> {
    let mut churn = Vec::new();
    if dice.one_in(3) {
        return churn;
    }
    for _ in 0..dice.range(0, sizes.churn_max) {
        let role = if dice.one_in(4) {
            Role::Publisher
        } else {
            Role::Subscriber
        };
        let change = Churn {
            host: dice.range(1, nodes),
            group: dice.range(0, groups.len() - 1),
            role,
            enter: dice.one_in(2),
        };
        let when = dice.moment(sizes.duration);
        if change.enter && role == Role::Publisher {
            let flow = flow(dice, change.host, change.group, sizes);
            flows.push(Flow {
                start: when,
                ..flow
            });
        }
        churn.push((when, change));
    }
    churn
}

fn faults(dice: &mut Dice, nodes: usize, sizes: &SwarmOptions) -> Vec<(Duration, Fault)> {
    let mut faults = Vec::new();
    if dice.one_in(4) {
        return faults;
    }
    // Each kind exists in half of the runs only.
    let kinds: Vec<u32> = (0..FAULT_KINDS).filter(|_| dice.one_in(2)).collect();
    if kinds.is_empty() {
        return faults;
    }
    for _ in 0..dice.range(1, sizes.faults_max.max(1)) {
        let when = dice.moment(sizes.duration);
        let host = dice.range(1, nodes);
        let kind = *dice.pick(&kinds);
        add_fault(dice, kind, (when, host, nodes), sizes, &mut faults);
    }
    reconcile(&mut faults, nodes, sizes.duration);
    faults
}

/// Kinds of faults that [`add_fault`] knows.
const FAULT_KINDS: u32 = 12;

fn add_fault(
    dice: &mut Dice,
    kind: u32,
    (when, host, nodes): (Duration, usize, usize),
    sizes: &SwarmOptions,
    faults: &mut Vec<(Duration, Fault)>,
) {
    let soon = when + dice.moment(Duration::from_secs(4));
    let same_node = dice.one_in(2);
    match kind {
        0 => {
            faults.push((when, Fault::Crash { host }));
            if !dice.one_in(3) {
                faults.push((soon, Fault::Restart { host, same_node }));
            }
        }
        1 => {
            let time = dice.moment(Duration::from_secs(8));
            faults.push((when, Fault::Freeze { host, time }));
        }
        2 => {
            let (from, to) = dice.sides(nodes);
            let both_ways = dice.one_in(2);
            let split = Fault::Split {
                from,
                to,
                both_ways,
            };
            faults.push((when, split));
            faults.push((soon, Fault::Heal));
        }
        3 => {
            faults.push((when, Fault::Crash { host: 0 }));
            let restart = Fault::Restart {
                host: 0,
                same_node: true,
            };
            faults.push((soon, restart));
        }
        4 => {
            let packets = dice.number(20) + 1;
            faults.push((when, Fault::Doom { host, packets }));
        }
        5 => {
            let forged = sizes.forgery && dice.one_in(2);
            let kind = if forged {
                *dice.pick(&[Garbage::Forged, Garbage::Jump])
            } else {
                *dice.pick(&Garbage::HARMLESS)
            };
            let host = dice.range(0, nodes);
            let count = dice.number(50) + 1;
            faults.push((when, Fault::Garbage { host, kind, count }));
        }
        6 => {
            faults.push((when, Fault::Close { host }));
            if dice.one_in(2) {
                let later = soon + Duration::from_secs(3);
                faults.push((later, Fault::Restart { host, same_node }));
            }
        }
        7 => {
            let time = dice.moment(Duration::from_secs(8));
            faults.push((when, Fault::Sleep { host, time }));
        }
        8 => {
            let per_datagram = *dice.pick(&[
                Duration::from_micros(50),
                Duration::from_micros(500),
                Duration::from_millis(5),
            ]);
            let slow = Fault::Slow {
                host,
                per_datagram,
                time: dice.moment(Duration::from_secs(4)),
            };
            faults.push((when, slow));
        }
        9 => swizzle(dice, (when, nodes), faults),
        10 => {
            let bytes = *dice.pick(&[200, 600, 1200]);
            let time = dice.moment(Duration::from_secs(3));
            faults.push((when, Fault::Narrow { bytes, time }));
        }
        _ => {
            let time = dice.moment(Duration::from_secs(4));
            faults.push((when, Fault::Freeze { host: 0, time }));
        }
    }
}

/// Hosts are cut off one after the other and come back in another order, each with all that it
/// has missed at once (after FoundationDB's swizzled clogging).
fn swizzle(dice: &mut Dice, (when, nodes): (Duration, usize), faults: &mut Vec<(Duration, Fault)>) {
    let (chosen, _) = dice.sides(nodes);
    for host in chosen {
        let begin = when + dice.moment(Duration::from_millis(500));
        let others: Vec<usize> = (0..=nodes).filter(|other| *other != host).collect();
        let (from, to) = if dice.one_in(2) {
            (vec![host], others)
        } else {
            (others, vec![host])
        };
        let time = dice.moment(Duration::from_secs(2));
        faults.push((begin, Fault::Clog { from, to, time }));
    }
}

fn network(dice: &mut Dice) -> NetworkOptions {
    let burst = Burst {
        enter_ppm: 2000,
        exit_ppm: 100_000,
        loss_ppm: 800_000,
    };
    NetworkOptions {
        delay: *dice.pick(&[Duration::from_micros(50), Duration::from_millis(1)]),
        jitter: *dice.pick(&[
            Duration::from_micros(5),
            Duration::from_micros(100),
            Duration::from_millis(2),
        ]),
        loss_ppm: *dice.pick(&[0, 1000, 10_000, 50_000]),
        shared_loss_ppm: *dice.pick(&[0, 0, 1000, 10_000]),
        burst: dice.one_in(4).then_some(burst),
        duplicate_ppm: *dice.pick(&[0, 0, 1000, 20_000]),
        reorder_ppm: *dice.pick(&[0, 0, 1000, 50_000]),
        reorder_delay: Duration::from_millis(5),
        mtu_bytes: *dice.pick(&[1472, 1472, 8972]),
        receive_buffer_bytes: *dice.pick(&[1 << 20, 212_992]),
        cpu_per_datagram: *dice.pick(&[Duration::ZERO, Duration::from_micros(2)]),
        uplink_bits_per_second: *dice.pick(&[1_000_000_000, 10_000_000_000]),
        // A small message of 200 bytes every millisecond and its repairs pass the slowest of these.
        downlink_bits_per_second: *dice.pick(&[0, 0, 1_000_000_000, 100_000_000]),
        switch_queue_bytes: *dice.pick(&[1 << 20, 65_536]),
        sites: sites(dice),
        join_latency: *dice.pick(&[Duration::ZERO, Duration::from_millis(20)]),
        leave_latency: *dice.pick(&[Duration::ZERO, Duration::from_millis(200)]),
        membership_lag_ppm: *dice.pick(&[0, 0, 100_000, 500_000]),
        membership_lag: Duration::from_millis(300),
        loopback: dice.one_in(2),
    }
}

fn sites(dice: &mut Dice) -> Sites {
    if !dice.one_in(5) {
        return Sites::ONE;
    }
    Sites {
        count: dice.range(2, 3),
        delay: *dice.pick(&[Duration::from_millis(1), Duration::from_millis(20)]),
        bits_per_second: *dice.pick(&[1_000_000_000, 50_000_000]),
        queue_bytes: 1 << 20,
        loss_ppm: *dice.pick(&[0, 1000, 10_000]),
    }
}

fn limits(dice: &mut Dice) -> Limits {
    Limits {
        send_bytes: *dice.pick(&[4 << 20, 2 << 20]),
        receive_bytes: *dice.pick(&[4 << 20, 1 << 19]),
        ahead_packets: *dice.pick(&[4096, 512]),
        streams: 256,
        message_bytes: 1 << 20,
        groups: 1000,
    }
}

struct Dice(Random);

impl Dice {
    fn number(&mut self, bound: u32) -> u32 {
        u32::try_from(self.0.below(u64::from(bound))).unwrap_or(0)
    }

    fn range(&mut self, least: usize, most: usize) -> usize {
        let span = most.saturating_sub(least) as u64 + 1;
        least + usize::try_from(self.0.below(span)).unwrap_or(0)
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.0.below(chances) == 0
    }

    fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let last = choices.len() - 1;
        &choices[self.range(0, last)]
    }

    /// All hosts, on two sides at random.
    fn sides(&mut self, nodes: usize) -> (Vec<usize>, Vec<usize>) {
        (0..=nodes).partition(|_| self.one_in(2))
    }

    fn moment(&mut self, below: Duration) -> Duration {
        Duration::from_nanos(self.0.below(qsm_proto::nanoseconds(below)))
    }
}
