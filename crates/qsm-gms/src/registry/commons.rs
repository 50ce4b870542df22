//! Groups that many nodes have in common, whatever else they receive: they go by *common regions*
//! (R-VIEW-17).
//!
//! ```text
//!   node 1: prices news a ─┐                          ┌─ region: a
//!   node 2: prices news b ─┼─► region: prices news   ─┼─ region: b
//!   node 3: prices news   ─┘                          └─ (nothing beside)
//! ```
//!
//! A common region is a region of exactly its groups like any other, and a node that has nothing else
//! is at home there. So a message to one of its groups is one packet, and all its receivers repair.

use std::collections::BTreeSet;

use qsm_wire::{GroupId, NodeId, RegionId};

use super::aim::{Aim, GroupSet};
use super::command::CommonSet;
use super::work::Work;
use super::{Node, Registry};
use crate::plan::{RegionTable, Zone};

/// Common regions of a node beside its home: each is a multicast address more that it listens to, and
/// a token ring more that it takes part in.
const COMMONS_MAX: usize = 3;

impl Registry {
    /// The plan has these common regions, and no others.
    pub(super) fn note_commons(&mut self, commons: Vec<CommonSet>) {
        let sets = commons.into_iter().filter(|set| !set.groups.is_empty());
        let sets = sets.map(|set| GroupSet::new(&self.key, set.groups).within(set.zone));
        self.commons = sets.collect();
        self.nodes
            .values_mut()
            .for_each(|node| node.aim.former.clear());
    }

    /// The common sets of the plan for a zone, and those that nodes there had with a former service.
    pub(crate) fn commons(&self, zone: Zone) -> impl Iterator<Item = Vec<GroupId>> {
        let nodes = self.nodes.values();
        let former: BTreeSet<&GroupSet> = nodes.flat_map(|node| &node.aim.former).collect();
        let sets = self.commons.iter().chain(former);
        let sets = sets.filter(move |set| set.zone == zone);
        sets.map(|set| set.groups.to_vec())
    }

    /// Divides the groups of a node anew into those of common regions and the rest.
    pub(super) fn cut(&mut self, id: NodeId) {
        let pinned = self.pinned_sets(id);
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        if !pinned.is_empty() && node.hint.set.is_none() {
            // A merged region has groups for all of its members.
            node.aim.cluster = None;
        }
        let commons = node.aim.divide(pinned, &self.commons);
        if node.aim.commons == commons {
            return;
        }
        let fresh: Vec<GroupId> = commons.iter().flat_map(GroupSet::ids).collect();
        let former = core::mem::replace(&mut node.aim.commons, commons);
        let former = former.iter().flat_map(GroupSet::ids);
        for group in former.chain(fresh) {
            self.sort_group(id, group);
        }
        self.work.push(Work::Place { node: id });
    }
}

impl Node {
    /// Whether a node is in a region of a former service beside those that it is in already, with other
    /// groups in each: by its own word, or if it has given none because that can be. Of a region that
    /// only publishers report not all groups may be known; without it nothing of those that are would
    /// be sent to the node.
    pub(super) fn is_beside(&self, regions: &RegionTable, id: RegionId) -> bool {
        let exact = |id| {
            let region = regions.get(id);
            region.is_some_and(|region| !region.private && !region.merged)
        };
        let named = |id: RegionId| self.unreported || self.reported.groups.contains_key(&id);
        let apart = |other| exact(other) && named(other) && !regions.overlap(id, other);
        self.home.is_some() && exact(id) && named(id) && self.shared().all(apart)
    }
}

impl Aim {
    /// The common sets that are part of its groups: those that are pinned, those that it had with a
    /// former service, then those of the plan.
    fn divide(&self, pinned: Vec<GroupSet>, plan: &[GroupSet]) -> Vec<GroupSet> {
        if self.cluster.is_some() {
            return Vec::new();
        }
        let commons_max = pinned.len() + COMMONS_MAX;
        let mut commons = pinned;
        for set in self.former.iter().chain(plan) {
            let taken = |group| commons.iter().any(|other| other.contains(group));
            let part = set
                .ids()
                .all(|group| self.set.contains(group) && !taken(group));
            if part && set.zone == self.set.zone && commons.len() < commons_max {
                commons.push(set.clone());
            }
        }
        commons
    }
}

impl GroupSet {
    fn ids(&self) -> impl Iterator<Item = GroupId> {
        self.groups.iter().copied()
    }
}
