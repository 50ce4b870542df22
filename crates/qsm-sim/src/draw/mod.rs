//! From a seed to a run.

mod addresses;
mod batches;
mod dice;
mod divisions;
mod faults;
mod foreign;
mod insider;
mod lifetimes;
mod minima;
mod origin;
mod paces;
mod parities;
mod prompt;
mod residue;
mod sending;
mod slowness;
mod strangers;

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::view::Layout;
use qsm_proto::{Limits, Pace, Recovery, Seed};
use qsm_testnet::{Burst, NetworkOptions, Sites};
use qsm_wire::membership::Role;

use self::addresses::add_addresses;
use self::batches::add_batches;
use self::dice::Dice;
use self::divisions::add_hints;
use self::faults::{add_filters, add_pauses, faults};
use self::foreign::add_foreign;
use self::insider::add_insider;
use self::lifetimes::add_lifetimes;
use self::minima::add_minima;
use self::origin::add_origin;
use self::paces::add_paces;
use self::parities::add_parities;
use self::prompt::add_prompt;
use self::residue::{add_common, add_merging, add_residue};
use self::sending::add_send_limit;
use self::slowness::slow_down;
use self::strangers::add_strangers;
use crate::content::Sizes;
use crate::hosts::ServicePatience;
use crate::mischief::Mischief;
use crate::options::SimOptions;
use crate::pattern::{GroupPlan, Pattern, groups};
use crate::swarm::SwarmOptions;
use crate::workload::{Churn, Flow};

/// The run that belongs to a seed.
#[must_use]
pub fn draw(seed: u64, sizes: &SwarmOptions) -> SimOptions {
    let mut dice = Dice::new(Seed(seed));
    let nodes = dice.range(2, sizes.nodes_max.max(2));
    let pattern = *dice.pick(&Pattern::ALL);
    let count = dice.range(1, sizes.groups_max.max(1));
    let groups = groups(pattern, nodes, count, Seed(seed));
    let mut flows = flows(&mut dice, &groups, sizes);
    let churn = churn(&mut dice, nodes, &groups, &mut flows, sizes);
    let faults = faults(&mut dice, nodes, sizes);
    let mut switches = Dice::of(Seed(seed), "switches");
    let mut damage = Dice::of(Seed(seed), "damage");
    let mut pauses = Dice::of(Seed(seed), "pauses");
    let faults = add_pauses(&mut pauses, nodes, faults, sizes);
    let faults = add_filters(&mut Dice::of(Seed(seed), "filters"), nodes, faults, sizes);
    let options = SimOptions {
        seed,
        nodes,
        hosts: BTreeMap::new(),
        source_specific: false,
        addresses: None,
        multicast: true,
        patience: ServicePatience::default(),
        flows,
        sizes: *dice.pick(&[Sizes::MIX, Sizes::MIX, Sizes::SMALL]),
        churn,
        faults,
        network: NetworkOptions {
            damage_ppm: *damage.pick(&[0, 0, 1000, 10_000]),
            ..network(&mut dice)
        },
        drift_ppm_max: *dice.pick(&[0, 50, 500]),
        duration: sizes.duration,
        settle: Duration::from_secs(60),
        limits: limits(&mut dice),
        recovery: Recovery {
            fast: !dice.one_in(8),
            pull_late: switches.one_in(8),
            ..Recovery::default()
        },
        pace: pace(&mut dice, &mut switches),
        gone_after: *pauses.pick(&[Duration::ZERO, SHORT_GONE, LONG_GONE, LONG_GONE]),
        slow_after: Duration::ZERO,
        plan_interval: Duration::ZERO,
        plan_unwanted_ppm: 0,
        plan_common: None,
        prompt: BTreeMap::new(),
        hints: Vec::new(),
        lifetimes: BTreeMap::new(),
        batches: BTreeMap::new(),
        repair_bytes_per_second: 0,
        paces: BTreeMap::new(),
        refusals: pauses.one_in(2),
        layout: Layout {
            replication: *dice.pick(&[0, 0, 1, 2, 5]),
            block_packets: *dice.pick(&[16, 16, 1, 4]),
            ring_max: *dice.pick(&[25, 25, 2, 3]),
        },
        invariants_every: 1,
        trace_lines: 300,
        mischief: Mischief::None,
        groups,
        ..SimOptions::quiet(Seed(seed), nodes)
    };
    add_choices(options, sizes)
}

/// Adds what is drawn beside all else, each by dice of its own.
fn add_choices(options: SimOptions, sizes: &SwarmOptions) -> SimOptions {
    let options = add_residue(slow_down(options, sizes), sizes);
    let options = add_prompt(add_common(add_merging(options, sizes), sizes));
    let options = add_hints(add_parities(options));
    let options = add_batches(add_minima(add_paces(add_lifetimes(add_addresses(options)))));
    let options = match sizes.faults_max {
        0 => options,
        _ => add_strangers(add_foreign(options)),
    };
    let options = add_send_limit(options);
    let options = match sizes.faults_max {
        0 => options,
        _ => add_insider(options),
    };
    add_origin(options)
}

/// Times after which nodes that are away are gone. A crowd is waited for four times as long, and
/// must be gone before a run is judged.
const SHORT_GONE: Duration = Duration::from_secs(2);
const LONG_GONE: Duration = Duration::from_secs(10);

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
        damage_ppm: 0,
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

fn pace(dice: &mut Dice, switches: &mut Dice) -> Pace {
    Pace {
        faithful_rate: dice.one_in(8),
        rings_in_turn: switches.one_in(8),
        partition_feedback: switches.one_in(8),
        rate_max_packets: *dice.pick(&[u32::MAX, 10_000, 1000]),
        batch_delay: *dice.pick(&[Duration::ZERO, Duration::from_millis(1)]),
        ..Pace::default()
    }
}

fn limits(dice: &mut Dice) -> Limits {
    Limits {
        send_bytes: *dice.pick(&[4 << 20, 2 << 20]),
        receive_bytes: *dice.pick(&[4 << 20, 1 << 19]),
        retention_bytes: 2 << 20,
        ahead_packets: *dice.pick(&[4096, 512]),
        streams: 256,
        message_bytes: 1 << 20,
        groups: 1000,
    }
}
