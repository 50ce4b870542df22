//! The regions that nodes would be in without common ones, for the choice of these (R-VIEW-17).

use std::collections::{BTreeMap, BTreeSet};

use qsm_plan::CommonSets;
use qsm_wire::{GroupId, NodeId, mix};

use crate::plan::Zone;
use crate::registry::{Advice, Registry};

/// Groups of nodes that are looked at in a slice.
const GROUPS_PER_SLICE: usize = 50_000;

/// The name of a class: nodes of this zone with the same groups but for their residue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct ClassId {
    pub(super) zone: Zone,
    /// Of these groups.
    hash: u64,
}

/// The classes that there are, those of a zone one after the other.
#[derive(Debug)]
pub(super) struct Classes {
    classes: BTreeMap<ClassId, Class>,
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
            let zone = registry.zone(node);
            let class = self.classes.entry(ClassId { zone, hash });
            class
                .or_insert(Class {
                    nodes: 0,
                    one: node,
                })
                .nodes += 1;
        }
        None
    }

    /// The first class.
    pub(super) fn first(&self) -> ClassId {
        let first = self.classes.first_key_value();
        first.map(|(id, _)| *id).unwrap_or_default()
    }

    /// Notes the groups of classes of a zone, from this one on; returns the first that is left.
    pub(super) fn note(
        &self,
        registry: &Registry,
        advice: &Advice,
        first: ClassId,
        sets: &mut CommonSets,
    ) -> Option<ClassId> {
        let mut room = GROUPS_PER_SLICE;
        for (id, class) in self.classes.range(first..) {
            if room == 0 || id.zone != first.zone {
                return Some(*id);
            }
            if let Some((node, groups)) = registry.aims_from(class.one).next() {
                let groups = shared(registry, advice, node, groups);
                let looked = sets.note(mix(id.hash), class.nodes, &groups);
                room = room.saturating_sub(looked + 1);
            }
        }
        None
    }
}

/// The groups of a node that it has not alone, and that the plan does not have as its residue.
fn shared(registry: &Registry, advice: &Advice, node: NodeId, groups: &[GroupId]) -> Vec<GroupId> {
    let odd = advice.residue.get(&node).map_or(&[][..], |groups| groups);
    let is_shared = |group: &GroupId| {
        registry.receivers(*group) > 1
            && odd.binary_search(group).is_err()
            && registry.channel_of(*group).is_none()
    };
    groups.iter().copied().filter(is_shared).collect()
}

fn hash(groups: &[GroupId]) -> u64 {
    let start = groups.len() as u64;
    groups
        .iter()
        .fold(start, |hash, group| mix(hash ^ u64::from(group.0)))
}
