//! The regions that nodes would be in without common ones, for the choice of these (R-VIEW-17).

use std::collections::{BTreeMap, BTreeSet};

use qsm_plan::CommonSets;
use qsm_wire::{GroupId, NodeId, mix};

use crate::registry::{Advice, Registry};

/// Groups of nodes that are looked at in a slice.
const GROUPS_PER_SLICE: usize = 50_000;

/// Nodes with the same groups but for their residue, by a hash of these groups.
#[derive(Debug)]
pub(super) struct Classes {
    classes: BTreeMap<u64, Class>,
    /// Nodes in merged regions, which are in no common ones.
    merged: BTreeSet<NodeId>,
}

/// The number of these nodes, and one of them.
#[derive(Debug)]
struct Class {
    nodes: u32,
    one: NodeId,
}

impl Classes {
    /// Nobody is counted yet, of a plan with these merged regions.
    pub(super) fn new(advice: &Advice) -> Self {
        let members = advice.merged.iter().flat_map(|region| &region.members);
        Self {
            classes: BTreeMap::new(),
            merged: members.copied().collect(),
        }
    }

    /// Counts nodes from this one on; returns the first that is left.
    pub(super) fn count(
        &mut self,
        registry: &Registry,
        advice: &Advice,
        first: NodeId,
    ) -> Option<NodeId> {
        let mut room = GROUPS_PER_SLICE;
        for (node, groups) in registry.aims_from(first) {
            if room == 0 {
                return Some(node);
            }
            room = room.saturating_sub(groups.len() + 1);
            if groups.is_empty() || self.merged.contains(&node) {
                continue;
            }
            let hash = hash(&shared(registry, advice, node, groups));
            let class = self.classes.entry(hash);
            class
                .or_insert(Class {
                    nodes: 0,
                    one: node,
                })
                .nodes += 1;
        }
        None
    }

    /// Notes the groups of classes, from this one on; returns the first that is left.
    pub(super) fn note(
        &self,
        registry: &Registry,
        advice: &Advice,
        first: u64,
        sets: &mut CommonSets,
    ) -> Option<u64> {
        let mut room = GROUPS_PER_SLICE;
        for (hash, class) in self.classes.range(first..) {
            if room == 0 {
                return Some(*hash);
            }
            if let Some((node, groups)) = registry.aims_from(class.one).next() {
                let groups = shared(registry, advice, node, groups);
                room = room.saturating_sub(sets.note(mix(*hash), class.nodes, &groups) + 1);
            }
        }
        None
    }
}

/// The groups of a node that it has not alone, and that the plan does not have as its residue.
fn shared(registry: &Registry, advice: &Advice, node: NodeId, groups: &[GroupId]) -> Vec<GroupId> {
    let odd = advice.residue.get(&node).map_or(&[][..], |groups| groups);
    let is_shared =
        |group: &GroupId| registry.receivers(*group) > 1 && odd.binary_search(group).is_err();
    groups.iter().copied().filter(is_shared).collect()
}

fn hash(groups: &[GroupId]) -> u64 {
    let start = groups.len() as u64;
    groups
        .iter()
        .fold(start, |hash, group| mix(hash ^ u64::from(group.0)))
}
