use core::time::Duration;

use qsm_proto::Seed;
use qsm_wire::membership::Role;

use super::{Dice, flow};
use crate::options::SimOptions;
use crate::pattern::GroupPlan;
use crate::swarm::SwarmOptions;
use crate::workload::{Churn, Flow};

/// Draws whether services plan, and groups of one node or a few beside the others: a private one
/// for each, as inboxes are, or some at random. Nodes enter and leave these while others publish to
/// them, so that groups get a second receiver and lose it. The rest of the run stays as it was.
pub(super) fn add_residue(options: SimOptions, sizes: &SwarmOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(options.seed), "residue");
    let seconds = *dice.pick(&[0, 1, 1, 10]);
    let plain = dice.one_in(2);
    let mut run = SimOptions {
        plan_interval: Duration::from_secs(seconds),
        ..options
    };
    if plain {
        return run;
    }
    let first = run.groups.len();
    let extras = match dice.one_in(2) {
        true => private(run.nodes),
        false => random(&mut dice, run.nodes),
    };
    run.groups.extend(extras);
    let extras = first..run.groups.len();
    for group in extras.clone() {
        let publishers: Vec<usize> = run.groups[group].publishers.iter().copied().collect();
        for host in publishers {
            let messages = sizes.messages_max / 4 + 1;
            let drawn = flow(&mut dice, host, group, sizes);
            let flow = Flow {
                messages: drawn.messages.min(messages),
                ..drawn
            };
            run.flows.push(flow);
        }
    }
    // A run in which nobody moves is judged more strictly.
    let changes = if run.churn.is_empty() {
        0
    } else {
        dice.range(0, 12)
    };
    for _ in 0..changes {
        let change = Churn {
            host: dice.range(1, run.nodes),
            group: dice.range(first, extras.end - 1),
            role: Role::Subscriber,
            enter: dice.one_in(2),
        };
        run.churn.push((dice.moment(sizes.duration), change));
    }
    run.churn.sort_by_key(|(at, _)| *at);
    run
}

/// A group for each node, to which the next one publishes.
fn private(nodes: usize) -> Vec<GroupPlan> {
    let groups = (1..=nodes).map(|node| GroupPlan {
        subscribers: [node].into(),
        publishers: [node % nodes + 1].into(),
    });
    groups.collect()
}

/// Groups of which each node is in some at random.
fn random(dice: &mut Dice, nodes: usize) -> Vec<GroupPlan> {
    let count = dice.range(2, 2 * nodes);
    let mut groups = vec![GroupPlan::default(); count];
    for node in 1..=nodes {
        for _ in 0..dice.range(0, 3) {
            groups[dice.range(0, count - 1)].subscribers.insert(node);
        }
    }
    for group in &mut groups {
        group.publishers.insert(dice.range(1, nodes));
    }
    groups
}

/// Draws for a third of the runs how many deliveries services let be unwanted, and for half of these
/// groups that most nodes are in and some are not: these share a region then, which nodes enter and
/// leave such groups in. The rest of the run stays as it was.
pub(super) fn add_merging(options: SimOptions, sizes: &SwarmOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(options.seed), "merging");
    if !sizes.merging || !dice.one_in(3) {
        return options;
    }
    let mut run = SimOptions {
        plan_interval: Duration::from_secs(*dice.pick(&[1, 1, 2, 5])),
        plan_unwanted_ppm: *dice.pick(&[50_000, 200_000, 500_000, 1_000_000]),
        ..options
    };
    if !dice.one_in(2) {
        let count = dice.range(2, 6);
        add_wide(&mut run, &mut dice, sizes, count);
    }
    run
}

/// Draws for a third of the runs how many packets common regions have to save, and for half of these
/// groups that most nodes are in. The rest of the run stays as it was.
pub(super) fn add_common(options: SimOptions, sizes: &SwarmOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(options.seed), "common");
    if !dice.one_in(3) {
        return options;
    }
    let mut run = SimOptions {
        plan_interval: Duration::from_secs(*dice.pick(&[1, 1, 2, 5])),
        plan_common: Some(*dice.pick(&[0, 0, 3])),
        ..options
    };
    if !dice.one_in(2) {
        let count = dice.range(1, 4);
        add_wide(&mut run, &mut dice, sizes, count);
    }
    run
}

/// Adds groups that three of four nodes are in, which nodes enter and leave if they do so in others.
fn add_wide(run: &mut SimOptions, dice: &mut Dice, sizes: &SwarmOptions, count: usize) {
    let first = run.groups.len();
    for group in first..first + count {
        let subscribers = (1..=run.nodes).filter(|_| !dice.one_in(4));
        let plan = GroupPlan {
            subscribers: subscribers.collect(),
            publishers: [dice.range(1, run.nodes)].into(),
        };
        for host in plan.publishers.iter().copied() {
            let messages = sizes.messages_max / 4 + 1;
            let drawn = flow(dice, host, group, sizes);
            run.flows.push(Flow {
                messages: drawn.messages.min(messages),
                ..drawn
            });
        }
        run.groups.push(plan);
    }
    // A run in which nobody moves is judged more strictly.
    let changes = if run.churn.is_empty() {
        0
    } else {
        dice.range(0, 16)
    };
    for _ in 0..changes {
        let change = Churn {
            host: dice.range(1, run.nodes),
            group: dice.range(first, first + count - 1),
            role: Role::Subscriber,
            enter: dice.one_in(2),
        };
        run.churn.push((dice.moment(sizes.duration), change));
    }
    run.churn.sort_by_key(|(at, _)| *at);
}
