//! Groups that a node is to receive, those among them that nobody else is to, and nodes that have
//! the others in common.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use qsm_wire::{GroupId, NodeId};

use super::clusters::ClusterId;
use crate::plan::{Signature, SignatureKey, Zone};

/// Some nodes, of which the only one can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Crowd {
    count: u32,
    /// The XOR of their numbers.
    sum: u64,
}

/// A set of groups and its signature.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct GroupSet {
    /// The zone of its region.
    pub(super) zone: Zone,
    pub(super) signature: Signature,
    pub(super) groups: Arc<[GroupId]>,
}

/// The groups that a node is to receive when its pending change is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Aim {
    pub(super) set: GroupSet,
    /// Those of them that no other node aims at, or that are advised.
    pub(super) residue: BTreeSet<GroupId>,
    residue_signature: Signature,
    /// Groups that the plan has for it as residue although others have them, ascending.
    pub(super) advised: Arc<[GroupId]>,
    /// The merged region that the plan has it in.
    pub(super) cluster: Option<ClusterId>,
    /// Those of its groups that go by common regions, each set by one.
    pub(super) commons: Vec<GroupSet>,
    /// Sets that it had in regions of their own with a former service.
    pub(super) former: Vec<GroupSet>,
    /// The class that it is counted in.
    pub(super) class: Option<Class>,
}

/// The groups of the regions that a node has to be in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Places {
    /// Those of the region that it shares; of its only one if it has no private region.
    pub(super) home: GroupSet,
    /// Those of common regions beside it.
    pub(super) commons: Vec<GroupSet>,
    pub(super) private: Option<GroupSet>,
    /// The merged region that home is, if it is one.
    pub(super) cluster: Option<ClusterId>,
}

/// Nodes of a zone with the same groups but for their residue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class {
    zone: Zone,
    /// The signature of these groups.
    pub(super) signature: Signature,
}

/// The classes that there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Classes {
    classes: BTreeMap<Class, Crowd>,
}

impl Crowd {
    /// The node, if it is one.
    pub(super) fn only(self) -> Option<NodeId> {
        (self.count == 1).then_some(NodeId(self.sum))
    }

    pub(super) fn count(self) -> u32 {
        self.count
    }

    pub(super) fn change(&mut self, node: NodeId, on: bool) {
        self.count = if on { self.count + 1 } else { self.count - 1 };
        self.sum ^= node.0;
    }
}

impl GroupSet {
    /// These groups, ascending; of the zone of all.
    pub(super) fn new(key: &SignatureKey, groups: impl IntoIterator<Item = GroupId>) -> Self {
        let groups: Arc<[GroupId]> = groups.into_iter().collect();
        let signature = key.set(groups.iter().copied());
        Self {
            zone: Zone::default(),
            signature,
            groups,
        }
    }

    /// The same in a zone.
    pub(super) fn within(self, zone: Zone) -> Self {
        Self { zone, ..self }
    }

    pub(super) fn contains(&self, group: GroupId) -> bool {
        self.groups.binary_search(&group).is_ok()
    }
}

impl Aim {
    /// A group has to be in the residue, or need not; `true`: that is news.
    pub(super) fn sort(&mut self, key: &SignatureKey, group: GroupId, only: bool) -> bool {
        let advised = || self.advised.binary_search(&group).is_ok();
        let changed = match self.is_rest(group) && (only || advised()) {
            true => self.residue.insert(group),
            false => self.residue.remove(&group),
        };
        if changed {
            self.residue_signature ^= key.group(group);
        }
        changed
    }

    /// The residue.
    pub(super) fn residue(&self) -> GroupSet {
        GroupSet {
            zone: self.set.zone,
            signature: self.residue_signature,
            groups: self.residue.iter().copied().collect(),
        }
    }

    /// Tells whether it is a group that no common region has.
    fn is_rest(&self, group: GroupId) -> bool {
        self.set.contains(group) && !self.commons.iter().any(|set| set.contains(group))
    }

    /// The groups that no common region has.
    pub(super) fn rest(&self) -> GroupSet {
        if self.commons.is_empty() {
            return self.set.clone();
        }
        let groups = self.set.groups.iter().copied();
        GroupSet {
            zone: self.set.zone,
            signature: self.rest_signature(),
            groups: groups.filter(|group| self.is_rest(*group)).collect(),
        }
    }

    fn rest_signature(&self) -> Signature {
        let commons = self.commons.iter().map(|set| set.signature);
        commons.fold(self.set.signature, |rest, common| rest ^ common)
    }

    /// The rest without the residue and what common regions have, if that is anything.
    pub(super) fn shared(&self) -> Option<Signature> {
        let commons: usize = self.commons.iter().map(|set| set.groups.len()).sum();
        let all = self.residue.len() + commons >= self.set.groups.len();
        (!all).then_some(self.rest_signature() ^ self.residue_signature)
    }

    /// The nodes with which it has what it shares in common.
    pub(super) fn shared_class(&self) -> Option<Class> {
        let (zone, signature) = (self.set.zone, self.shared()?);
        Some(Class { zone, signature })
    }

    /// Tells whether a region of these groups is one that the node shares, or its only one.
    pub(super) fn fits(&self, signature: Signature) -> bool {
        let mut commons = self.commons.iter();
        signature == self.set.signature
            || Some(signature) == self.shared()
            || commons.any(|set| set.signature == signature)
    }
}

impl Classes {
    /// Counts a node in or out; returns the other one that is not alone any more, or is alone now.
    pub(super) fn change(&mut self, class: Class, node: NodeId, on: bool) -> Option<NodeId> {
        let crowd = self.classes.entry(class).or_default();
        let before = crowd.only();
        crowd.change(node, on);
        let after = crowd.only();
        if crowd.count == 0 {
            self.classes.remove(&class);
        }
        before.xor(after).filter(|other| *other != node)
    }

    pub(super) fn has_several(&self, class: Class) -> bool {
        let crowd = self.classes.get(&class);
        crowd.is_some_and(|crowd| crowd.count > 1)
    }
}
