//! Rates at which nodes publish to groups, in their own words (R-MEM-19), for plans.

use std::collections::BTreeMap;

use qsm_wire::membership::{GroupRate, GroupRates};
use qsm_wire::{GroupId, NodeId};

use crate::registry::Registry;

/// Messages in 1000 seconds of a group that its publishers say nothing goes to: something may.
const IDLE: u32 = 1;

/// Rates of groups, by who has said them. Only of nodes that are admitted.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    nodes: BTreeMap<NodeId, GroupRates>,
    sums: BTreeMap<GroupId, u64>,
    /// Number of changes so far.
    changes: u64,
}

impl Traffic {
    /// A node says what it publishes.
    pub(super) fn note(&mut self, node: NodeId, mut rates: GroupRates) {
        rates.whole &= rates.groups.len() <= GroupRates::GROUPS_MAX;
        rates.groups.truncate(GroupRates::GROUPS_MAX);
        self.forget(node);
        self.add(&rates.groups, u64::wrapping_add);
        self.nodes.insert(node, rates);
        self.changes += 1;
    }

    /// Forgets a node whose life is over.
    pub(super) fn forget(&mut self, node: NodeId) {
        if let Some(rates) = self.nodes.remove(&node) {
            self.changes += 1;
            self.add(&rates.groups, u64::wrapping_sub);
        }
    }

    fn add(&mut self, rates: &[GroupRate], change: impl Fn(u64, u64) -> u64) {
        for one in rates {
            let sum = self.sums.entry(one.group).or_default();
            *sum = change(*sum, u64::from(one.rate));
            if *sum == 0 {
                self.sums.remove(&one.group);
            }
        }
    }

    /// Number of changes so far.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Messages of a group in 1000 seconds; `None`: one of its publishers has not said so, or nobody
    /// publishes to it.
    pub(super) fn of(&self, registry: &Registry, group: GroupId) -> Option<u32> {
        if let Some(sum) = self.sums.get(&group) {
            return Some(u32::try_from(*sum).unwrap_or(u32::MAX));
        }
        let said = |node: NodeId| self.nodes.get(&node).is_some_and(|rates| rates.whole);
        let mut publishers = registry.publishers(group).peekable();
        publishers.peek()?;
        publishers.all(said).then_some(IDLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(groups: &[(u32, u32)]) -> GroupRates {
        let groups = groups.iter().map(|(group, rate)| GroupRate {
            group: GroupId(*group),
            rate: *rate,
        });
        GroupRates {
            groups: groups.collect(),
            whole: true,
        }
    }

    // Rule R-MEM-19.
    #[test]
    fn rates_of_a_group_are_those_of_all_who_say_so_and_go_with_them() {
        let mut traffic = Traffic::default();
        traffic.note(NodeId(1), rates(&[(5, 2000), (6, 10)]));
        traffic.note(NodeId(2), rates(&[(5, 3000)]));
        let sum = |traffic: &Traffic, group| traffic.sums.get(&GroupId(group)).copied();
        assert_eq!((sum(&traffic, 5), sum(&traffic, 6)), (Some(5000), Some(10)));
        traffic.note(NodeId(1), rates(&[(5, 1)]));
        assert_eq!((sum(&traffic, 5), sum(&traffic, 6)), (Some(3001), None));
        traffic.forget(NodeId(2));
        traffic.forget(NodeId(1));
        assert!(traffic.sums.is_empty() && traffic.nodes.is_empty());
    }
}
