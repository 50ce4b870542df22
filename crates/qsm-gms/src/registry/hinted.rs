//! Hints of the designer, which go before every plan (R-VIEW-18).
//!
//! ```text
//!   domain, apart ─► zone of a node ────────────────► regions and addresses that it may have
//!   pin           ─► zone of groups ─► common region of these alone, with an address of its own
//!   together      ─► merged region of a set, from the first member on
//! ```
//!
//! All of it follows from names, and holds from a node's first batch on. A node that a former service
//! has let in, and whose name is not known until it reports, stays where it is meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use qsm_wire::{GroupId, NodeId, RegionId};

use super::aim::GroupSet;
use super::clusters::{Cluster, ClusterId};
use super::{Node, Registry};
use crate::plan::{Stranger, Zone};

impl Registry {
    /// A node has the hints for its name.
    pub(super) fn take_hints(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        node.hint = self.hints.node(&node.name);
        node.zone = Zone::of(node.hint);
        node.aim.set.zone = node.zone;
        let home = node.home.filter(|_| node.aim.cluster.is_some());
        let zone = home.and_then(|home| Some(self.regions.get(home)?.zone));
        let lost = node.aim.cluster.is_some_and(ClusterId::is_hinted)
            || zone.is_some_and(|zone| zone != node.zone && !zone.is_strange());
        if lost {
            node.aim.cluster = None;
        }
        let Some(set) = node.hint.set else { return };
        let cluster = ClusterId::Hinted(set);
        node.aim.cluster = Some(cluster);
        if let Some(home) = home.filter(|_| !lost) {
            self.make_hinted(cluster, home);
        }
    }

    /// The merged region of a former service is that of a set, if that has none.
    fn make_hinted(&mut self, cluster: ClusterId, region: RegionId) {
        let former = ClusterId::Former(region);
        let known = self.clusters.clusters.contains_key(&cluster);
        let Some(entry) = self.clusters.clusters.remove(&former).filter(|_| !known) else {
            return;
        };
        self.clusters.clusters.insert(cluster, entry);
        for node in self.nodes.values_mut() {
            if node.aim.cluster == Some(former) {
                node.aim.cluster = Some(cluster);
            }
        }
    }

    /// A member of a region that has not reported is of its zone: so the former service had it.
    pub(super) fn assume_zone(&mut self, id: NodeId, region: RegionId) {
        if !self.hints.divides() {
            return;
        }
        let region = self.regions.get(region).filter(|region| !region.private);
        let zone = region.map(|region| region.zone.on(None));
        let zone = zone.filter(|zone| !zone.is_strange());
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.unreported) else {
            return;
        };
        node.zone = zone.unwrap_or_else(|| match node.zone == Zone::default() {
            true => Zone::of_stranger(Stranger::Node(id)),
            false => node.zone,
        });
    }

    /// The zone of a region whose members have this set; if none has said so, and others publish these
    /// groups to it.
    pub(super) fn zone_of_members(
        &self,
        id: RegionId,
        set: &GroupSet,
        published: &GroupSet,
    ) -> Zone {
        match set.groups.is_empty() && self.hints.places() {
            true => self.zone_of(Zone::of_stranger(Stranger::Members(id)), &published.groups),
            false => self.zone_of(set.zone, &set.groups),
        }
    }

    /// The zone of these groups of a node that is in this one.
    pub(super) fn zone_of(&self, zone: Zone, groups: &[GroupId]) -> Zone {
        let mut channels = groups.iter().map(|group| self.channel_of(*group));
        let first = channels.next().flatten();
        let same = first.is_some() && channels.all(|channel| channel == first);
        zone.on(first.filter(|_| same))
    }

    /// The channel that a group is pinned to.
    pub(crate) fn channel_of(&self, group: GroupId) -> Option<u32> {
        self.groups.get(group)?.channel
    }

    /// The zone of a node.
    pub(crate) fn zone(&self, node: NodeId) -> Zone {
        self.nodes
            .get(&node)
            .map(|node| node.zone)
            .unwrap_or_default()
    }

    /// Tells whether a plan may decide for a node.
    pub(crate) fn is_planned(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(Node::is_planned)
    }

    /// Those of these groups, in which a plan has a say, that are pinned to no channel.
    pub(crate) fn unpinned(&self, groups: &Arc<[GroupId]>) -> Arc<[GroupId]> {
        if !self.hints.has_pins() {
            return Arc::clone(groups);
        }
        let groups = groups.iter().copied();
        let free = groups.filter(|group| self.channel_of(*group).is_none());
        free.collect()
    }

    /// What a node receives of each channel, by a region of just that.
    pub(super) fn pinned_sets(&self, id: NodeId) -> Vec<GroupSet> {
        let node = self.nodes.get(&id).filter(|_| self.hints.has_pins());
        let Some(node) = node else {
            return Vec::new();
        };
        let mut channels: BTreeMap<u32, Vec<GroupId>> = BTreeMap::new();
        for group in node.aim.set.groups.iter().copied() {
            if let Some(channel) = self.channel_of(group) {
                channels.entry(channel).or_default().push(group);
            }
        }
        let sets = channels.into_iter().map(|(channel, groups)| {
            let zone = node.zone.on(Some(channel));
            GroupSet::new(&self.key, groups).within(zone)
        });
        sets.collect()
    }

    pub(super) fn receives_pinned(&self, id: NodeId) -> bool {
        !self.pinned_sets(id).is_empty()
    }

    /// The set of nodes that are together to which an active member of a region belongs, if the set has
    /// no region.
    pub(super) fn free_hinted(&self, id: RegionId) -> Option<ClusterId> {
        let region = self.regions.get(id)?;
        let members = region.members.iter();
        let nodes = members.filter_map(|member| self.nodes.get(&member.origin.node));
        let mut hinted = nodes.filter(|node| node.is_at_home(id) && node.hint.set.is_some());
        let cluster = ClusterId::Hinted(hinted.next()?.hint.set?);
        let free = self.clusters.region(cluster).is_none();
        free.then_some(cluster)
    }

    /// What the nodes of a set have in common with anybody goes by its region, and all of a node that
    /// has nothing else.
    pub(super) fn wanted_together(&self, cluster: ClusterId) -> BTreeSet<GroupId> {
        let nodes = self.nodes.values();
        let members = nodes.filter(|node| node.aim.cluster == Some(cluster));
        let mut wanted = BTreeSet::new();
        for node in members {
            let groups = node.aim.set.groups.iter().copied();
            let shared = groups.filter(|group| self.receivers(*group) > 1);
            let before: Vec<GroupId> = shared.collect();
            match before.is_empty() {
                true => wanted.extend(node.aim.set.groups.iter().copied()),
                false => wanted.extend(before),
            }
        }
        wanted
    }

    /// Nodes that are to be placed have the region of their set, although there is none yet.
    pub(super) fn gather(&mut self, placing: &BTreeSet<NodeId>) {
        if self.hints.sets() == 0 {
            return;
        }
        let nodes = placing.iter().filter_map(|id| self.nodes.get(id));
        let clusters = nodes.filter_map(|node| node.hint.set.map(ClusterId::Hinted));
        let clusters: BTreeSet<ClusterId> = clusters.collect();
        for cluster in clusters {
            if self.clusters.region(cluster).is_none() {
                let groups = self.wanted_together(cluster).into_iter().collect();
                let (region, entry) = (None, &mut self.clusters.clusters);
                entry.insert(cluster, Cluster { region, groups });
            }
        }
    }
}

impl Node {
    /// Whether a plan may decide where it is: no hint has it together with others, and its name is
    /// known.
    pub(super) fn is_planned(&self) -> bool {
        self.life.is_running() && self.hint.set.is_none() && !self.zone.is_strange()
    }

    /// Tells whether it may go on in a merged region of this zone, which is that of a cluster.
    pub(super) fn may_be_in(&self, zone: Zone, cluster: Option<ClusterId>) -> bool {
        let set = cluster.and_then(|cluster| match cluster {
            ClusterId::Hinted(set) => Some(set),
            _ => None,
        });
        self.unreported || set == self.hint.set && (zone == self.zone || zone.is_strange())
    }
}
