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

use std::sync::Arc;

use qsm_wire::{GroupId, NodeId};

use super::aim::{GroupSet, Places};
use super::work::Work;
use super::{Advice, Registry};

impl Registry {
    /// The groups that nodes are to receive for which a plan may decide, from this node on, ascending.
    pub(crate) fn aims_from(
        &self,
        first: NodeId,
    ) -> impl Iterator<Item = (NodeId, &Arc<[GroupId]>)> {
        let nodes = self.nodes.range(first..);
        let planned = nodes.filter(|(_, node)| node.is_planned());
        planned.map(|(id, node)| (*id, &node.aim.set.groups))
    }

    /// How many nodes are to receive a group.
    pub(crate) fn receivers(&self, group: GroupId) -> u32 {
        let group = self.groups.get(group);
        group.map_or(0, |group| group.receivers.count())
    }

    /// Nodes that send to a group.
    pub(crate) fn publishers(&self, group: GroupId) -> impl Iterator<Item = NodeId> {
        let group = self.groups.get(group);
        group
            .into_iter()
            .flat_map(|group| group.publishers.iter().copied())
    }

    /// The numbers of groups, from this one on, ascending.
    pub(crate) fn groups_from(&self, first: GroupId) -> impl Iterator<Item = GroupId> {
        self.groups.numbers_from(first)
    }

    /// The only node that is to receive a group, if it is one.
    fn only_receiver(&self, group: GroupId) -> Option<NodeId> {
        self.groups.get(group)?.receivers.only()
    }

    /// A node aims at this set from now on, whose difference to the one before is these changes.
    /// Whoever has to be somewhere else by that is placed in the next batch, or in this one.
    pub(super) fn aim_at(&mut self, id: NodeId, set: GroupSet, changes: &[(GroupId, bool)]) {
        let mut advised = false;
        if let Some(node) = self.nodes.get_mut(&id) {
            node.aim.set = set.within(node.zone);
            advised = !node.aim.advised.is_empty();
        }
        self.aims_changed += u64::from(!changes.is_empty());
        self.cut(id);
        for (group, on) in changes {
            self.count_receiver(id, *group, *on);
            if advised {
                self.sort_group(id, *group);
            }
        }
    }

    /// The plan has these groups of nodes as residue, these merged and these common regions, and no
    /// others.
    pub(super) fn advise(&mut self, advice: Advice) {
        let Advice {
            mut residue,
            merged,
            unwanted_ppm,
            commons,
        } = advice;
        self.note_commons(commons);
        let nodes: Vec<NodeId> = self.nodes.keys().copied().collect();
        for node in nodes {
            self.advise_node(node, residue.remove(&node).unwrap_or_default());
        }
        self.merge(merged, unwanted_ppm);
        let nodes: Vec<NodeId> = self.nodes.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.cut(node));
    }

    /// The same of one node.
    pub(super) fn advise_node(&mut self, id: NodeId, mut groups: Vec<GroupId>) {
        groups.sort_unstable();
        groups.dedup();
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        if *node.aim.advised == *groups {
            return;
        }
        let former = core::mem::replace(&mut node.aim.advised, groups.into());
        let now = Arc::clone(&node.aim.advised);
        for group in former.iter().chain(now.iter()) {
            self.sort_group(id, *group);
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

    /// Counts a node among those of its class, unless it is in a merged region.
    pub(super) fn sort_into_class(&mut self, id: NodeId) {
        let merged = self.share_of(id).is_some();
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let class = node.aim.shared_class().filter(|_| !merged);
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
        if let Some((cluster, home)) = self.share_of(id) {
            let rest = aim.set.groups.iter().copied();
            let rest = rest.filter(|group| !home.contains(*group));
            let private = Some(GroupSet::new(&self.key, rest));
            return Some(Places {
                home,
                commons: Vec::new(),
                private: private.filter(|set| !set.groups.is_empty()),
                cluster: Some(cluster),
            });
        }
        let (cluster, mut commons, rest) = (None, aim.commons.clone(), aim.rest());
        let class = aim.class.filter(|_| !aim.residue.is_empty());
        let class = class.filter(|class| self.classes.has_several(*class));
        let (home, private) = if let Some(class) = class {
            let groups = rest.groups.iter().copied();
            let groups = groups.filter(|group| !aim.residue.contains(group));
            let groups = groups.collect();
            let (zone, signature) = (aim.set.zone, class.signature);
            let home = GroupSet {
                zone,
                signature,
                groups,
            };
            (home, Some(aim.residue()))
        } else if aim.shared().is_none() && !commons.is_empty() {
            // It shares nothing else.
            let residue = Some(rest).filter(|set| !set.groups.is_empty());
            (commons.remove(0), residue)
        } else {
            (rest, None)
        };
        Some(Places {
            home,
            commons,
            private,
            cluster,
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
            for node in before.into_iter().chain(after) {
                self.sort_group(node, group);
            }
        }
    }

    /// A group of a node may be in its residue now, or not any more.
    pub(super) fn sort_group(&mut self, id: NodeId, group: GroupId) {
        let only = self.only_receiver(group);
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        if node.aim.sort(&self.key, group, only == Some(id)) {
            self.work.push(Work::Place { node: id });
        }
    }
}
