//! Nodes that change places, and what becomes of regions.

use std::collections::BTreeSet;
use std::time::Duration;

use qsm_plan::{PlanError, Planner, Progress, SLICE};
use qsm_wire::{GroupId, Instant, NodeId, Random, RegionId, Seed};

use super::stopwatch::Stopwatch;

/// Node moves for each second.
const MOVES: u64 = 100;
/// Seconds of churn.
const SECONDS: u64 = 60;
/// Seconds between two plans.
const PLAN_EVERY: u64 = 30;

/// Consequences of churn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Churn {
    /// Regions that began or ended in the worst minute.
    pub(super) changed: usize,
    /// The longest change of a node, placing included.
    pub(super) longest: Duration,
    /// The longest slice of planning, with moves between slices.
    pub(super) slice: Duration,
}

/// Lets nodes change places with others, a hundred moves a second for a minute, plans twice
/// meanwhile, and counts regions that began or ended.
///
/// # Errors
/// Hints cannot be followed.
pub(super) fn run(planner: &mut Planner, sets: &mut [Vec<GroupId>]) -> Result<Churn, PlanError> {
    let mut random = Random::new(Seed(7), "churn");
    let mut churn = Churn::default();
    let before: BTreeSet<RegionId> = planner.region_ids().collect();
    let nodes = sets.len() as u64;
    for second in 0..SECONDS {
        if second % PLAN_EVERY == 0 {
            planner.start(Instant((1000 + second) * 1_000_000_000))?;
        }
        for _ in 0..MOVES / 2 {
            let (one, two) = (random.below(nodes) as usize, random.below(nodes) as usize);
            for (node, other) in [(one, two), (two, one)] {
                let start = Stopwatch::start();
                planner.join(NodeId(node as u64), &sets[other], &sets[node]);
                churn.longest = churn.longest.max(start.elapsed());
                let start = Stopwatch::start();
                planner.step(SLICE);
                churn.slice = churn.slice.max(start.elapsed());
            }
            sets.swap(one, two);
        }
    }
    while matches!(planner.step(SLICE), Progress::Busy(_)) {}
    let after: BTreeSet<RegionId> = planner.region_ids().collect();
    churn.changed = before.symmetric_difference(&after).count();
    Ok(churn)
}
