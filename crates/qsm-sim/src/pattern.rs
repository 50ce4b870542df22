//! How groups overlap: the four patterns of R006 and E58, in small.

use std::collections::BTreeSet;

use qsm_proto::{Random, Seed};

/// How groups overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// The nodes form a few sets; all groups of a set have the same members (replicated sets of
    /// components).
    Exact,
    /// Each group has half of the members of the one before (services of different degrees of
    /// replication).
    Hierarchical,
    /// One group has all nodes; the others lie inside it.
    ClusterWide,
    /// As [`Pattern::Exact`], and every node is in 0, 1 or 5 more groups at random.
    Irregular,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Self; 4] = [
        Self::Exact,
        Self::Hierarchical,
        Self::ClusterWide,
        Self::Irregular,
    ];
}

impl Pattern {
    /// Its name in scenarios.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Hierarchical => "hierarchical",
            Self::ClusterWide => "cluster-wide",
            Self::Irregular => "irregular",
        }
    }
}

/// A group of the workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupPlan {
    /// Hosts that receive it from the start.
    pub subscribers: BTreeSet<usize>,
    /// Hosts that publish to it; those that are no subscribers send from outside.
    pub publishers: BTreeSet<usize>,
}

impl GroupPlan {
    /// The name of the group with this number.
    #[must_use]
    pub fn name(group: usize) -> String {
        format!("group-{group}")
    }

    /// The number of the group with this name.
    #[must_use]
    pub fn number(name: &str) -> Option<usize> {
        name.strip_prefix("group-")?.parse().ok()
    }
}

/// Draws groups over the hosts `1..=nodes`, up to four sets of nodes, and some publishers anywhere.
#[must_use]
pub fn groups(pattern: Pattern, nodes: usize, groups: usize, seed: Seed) -> Vec<GroupPlan> {
    let sets = draw(&mut Random::new(seed, "sets"), 4) + 1;
    let mut random = Random::new(seed, "pattern");
    let mut plans = members(pattern, nodes, groups, sets, &mut random);
    for plan in &mut plans {
        for _ in 0..=draw(&mut random, 3) {
            plan.publishers.insert(draw(&mut random, nodes.max(1)) + 1);
        }
    }
    plans
}

/// Draws groups over the hosts `1..=nodes`, which form that many sets where the pattern has any.
/// The first member of each group publishes to it.
#[must_use]
pub fn layout(
    pattern: Pattern,
    nodes: usize,
    groups: usize,
    sets: usize,
    seed: Seed,
) -> Vec<GroupPlan> {
    let mut random = Random::new(seed, "pattern");
    let mut plans = members(pattern, nodes, groups, sets, &mut random);
    for plan in &mut plans {
        plan.publishers.extend(plan.subscribers.first().copied());
    }
    plans
}

fn members(
    pattern: Pattern,
    nodes: usize,
    groups: usize,
    sets: usize,
    random: &mut Random,
) -> Vec<GroupPlan> {
    let nodes = nodes.max(1);
    let sets = sets.clamp(1, nodes);
    let mut plans: Vec<GroupPlan> = (0..groups.max(1))
        .map(|group| GroupPlan {
            subscribers: subscribers(pattern, nodes, group, sets, random),
            publishers: BTreeSet::new(),
        })
        .collect();
    if pattern == Pattern::Irregular {
        for node in 1..=nodes {
            for _ in 0..[0, 1, 5][draw(random, 3)] {
                let group = draw(random, plans.len());
                plans[group].subscribers.insert(node);
            }
        }
    }
    plans
}

fn subscribers(
    pattern: Pattern,
    nodes: usize,
    group: usize,
    sets: usize,
    random: &mut Random,
) -> BTreeSet<usize> {
    match pattern {
        Pattern::Exact | Pattern::Irregular => {
            // The node of this set that comes first; 0 is no node.
            let first = match group % sets {
                0 => sets,
                place => place,
            };
            (first..=nodes).step_by(sets).collect()
        }
        Pattern::Hierarchical => {
            let members = nodes >> group.min(usize::BITS as usize - 1);
            (1..=members.max(1)).collect()
        }
        Pattern::ClusterWide if group == 0 => (1..=nodes).collect(),
        Pattern::ClusterWide => {
            let first = draw(random, nodes);
            let members = draw(random, nodes) + 1;
            (first..first + members)
                .map(|node| node % nodes + 1)
                .collect()
        }
    }
}

fn draw(random: &mut Random, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_gives_groups_with_members_and_publishers() {
        for pattern in Pattern::ALL {
            for seed in 0..50 {
                let plans = groups(pattern, 9, 5, Seed(seed));
                assert_eq!(plans.len(), 5);
                for plan in &plans {
                    assert!(!plan.subscribers.is_empty() && !plan.publishers.is_empty());
                    assert!(plan.subscribers.iter().all(|node| (1..=9).contains(node)));
                    assert!(plan.publishers.iter().all(|node| (1..=9).contains(node)));
                }
                assert_eq!(plans, groups(pattern, 9, 5, Seed(seed)));
            }
        }
    }

    #[test]
    fn exact_overlap_has_few_distinct_memberships() {
        let plans = groups(Pattern::Exact, 12, 30, Seed(3));
        let distinct: BTreeSet<_> = plans.iter().map(|plan| &plan.subscribers).collect();
        assert!(distinct.len() <= 4);
    }
}
