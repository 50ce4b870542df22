//! Groups that one node alone receives, its *residue*, and nodes that have all their other groups
//! in common, a *class* (R-VIEW-15).
//!
//! ```text
//!   node 1: prices news inbox/1 ─┐                    ┌─ private region: inbox/1
//!   node 2: prices news inbox/2 ─┼─► region: prices ──┼─ private region: inbox/2
//!   node 3: prices news         ─┘           news     └─ (no residue)
//! ```
//!
//! A node that is alone in its class gains nothing by being divided: all of its groups stay together.
//!
//! Everything follows from which node aims at which groups, and is kept up to date by each change: a
//! group that gets a second receiver, or loses all but one, concerns one other node, and so does a
//! class. Receivers are counted and summed, not listed: if there is one, the sum says which.

use qsm_wire::{GroupId, NodeId};

use super::Registry;
use super::aim::{GroupSet, Places};
use super::work::Work;

impl Registry {
    /// A node aims at this set from now on, whose difference to the one before is these changes.
    /// Whoever has to be somewhere else by that is placed in the next batch, or in this one.
    pub(super) fn aim_at(&mut self, id: NodeId, set: GroupSet, changes: &[(GroupId, bool)]) {
        for (group, on) in changes {
            self.count_receiver(id, *group, *on);
        }
        if let Some(node) = self.nodes.get_mut(&id) {
            node.aim.set = set;
        }
    }

    /// The same without the changes.
    pub(super) fn aim_anew(&mut self, id: NodeId, set: GroupSet) {
        let former = self.nodes.get(&id).map(|node| node.aim.set.clone());
        let former = former.unwrap_or_default();
        let gone = former.groups.iter().filter(|group| !set.contains(**group));
        let fresh = set.groups.iter().filter(|group| !former.contains(**group));
        let gone = gone.map(|group| (*group, false));
        let changes: Vec<(GroupId, bool)> = gone.chain(fresh.map(|group| (*group, true))).collect();
        self.aim_at(id, set, &changes);
    }

    /// A node aims at nothing any more.
    pub(super) fn aim_at_nothing(&mut self, id: NodeId) {
        self.aim_anew(id, GroupSet::default());
        self.sort_into_class(id);
    }

    /// Counts a node among those of its class.
    pub(super) fn sort_into_class(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let class = node.aim.shared();
        let former = core::mem::replace(&mut node.aim.class, class);
        if class == former {
            return;
        }
        let left = former.and_then(|former| self.classes.change(former, id, false));
        let met = class.and_then(|class| self.classes.change(class, id, true));
        for node in left.into_iter().chain(met) {
            self.work.push(Work::Place { node });
        }
    }

    /// Where a node has to be.
    pub(super) fn places(&self, id: NodeId) -> Option<Places> {
        let aim = &self.nodes.get(&id)?.aim;
        let class = aim.class.filter(|_| !aim.residue.is_empty());
        let Some(signature) = class.filter(|class| self.classes.has_several(*class)) else {
            let home = aim.set.clone();
            let private = None;
            return Some(Places { home, private });
        };
        let groups = aim.set.groups.iter().copied();
        let groups = groups
            .filter(|group| !aim.residue.contains(group))
            .collect();
        let private = GroupSet {
            signature: aim.residue_signature,
            groups: aim.residue.iter().copied().collect(),
        };
        Some(Places {
            home: GroupSet { signature, groups },
            private: Some(private),
        })
    }

    fn count_receiver(&mut self, id: NodeId, group: GroupId, on: bool) {
        let Some(entry) = self.groups.get_mut(group) else {
            return;
        };
        let before = entry.receivers.only();
        entry.receivers.change(id, on);
        let after = entry.receivers.only();
        if before != after {
            self.change_residue(before, group, false);
            self.change_residue(after, group, true);
        }
    }

    fn change_residue(&mut self, node: Option<NodeId>, group: GroupId, on: bool) {
        let Some(id) = node else { return };
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let changed = match on {
            true => node.aim.residue.insert(group),
            false => node.aim.residue.remove(&group),
        };
        if changed {
            node.aim.residue_signature ^= self.key.group(group);
            self.work.push(Work::Place { node: id });
        }
    }
}
