use core::time::Duration;

use qsm_proto::Seed;
use qsm_wire::membership::Role;

use super::{Dice, flow};
use crate::options::SimOptions;
use crate::pattern::GroupPlan;
use crate::swarm::SwarmOptions;
use crate::workload::{Churn, Flow};

/// Draws how many deliveries services let be unwanted, and for half of these runs groups that most
/// nodes are in and some are not: these share a region then, which nodes enter and leave such groups
/// in. The rest of the run stays as it was.
pub(super) fn add_merging(options: SimOptions, sizes: &SwarmOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(options.seed), "merging");
    if dice.one_in(2) {
        return options;
    }
    let interval = Duration::from_secs(*dice.pick(&[1, 1, 2, 5]));
    let mut run = SimOptions {
        plan_unwanted_ppm: *dice.pick(&[50_000, 200_000, 500_000, 1_000_000]),
        plan_interval: interval,
        ..options
    };
    if dice.one_in(2) {
        return run;
    }
    let first = run.groups.len();
    let count = dice.range(2, 6);
    for group in first..first + count {
        let subscribers = (1..=run.nodes).filter(|_| !dice.one_in(4));
        let plan = GroupPlan {
            subscribers: subscribers.collect(),
            publishers: [dice.range(1, run.nodes)].into(),
        };
        for host in plan.publishers.iter().copied() {
            let messages = sizes.messages_max / 4 + 1;
            let drawn = flow(&mut dice, host, group, sizes);
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
    run
}
