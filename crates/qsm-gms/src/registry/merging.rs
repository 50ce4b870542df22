//! Nodes that a plan has share a region although their groups differ (R-VIEW-16).
//!
//! ```text
//!   node 1: prices news         ─┐
//!   node 2: prices news sport   ─┼─► merged region: prices news sport
//!   node 3: prices      sport a ─┘      └─ private region of node 3: a
//! ```
//!
//! A merged region has a union of groups, and each member receives those that it wants of them: its
//! *share*. What it wants beside goes by its private region. The union grows when the plan says so,
//! or when no more than the accepted share of deliveries is unwanted then; a group leaves it when
//! nobody there wants it any more. So a group is never moved out of a region in which somebody goes
//! on to receive it, and order holds (R-VIEW-7).

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use qsm_proto::Instant;
use qsm_wire::membership::Member;
use qsm_wire::{GroupId, NodeId, RegionId, ViewNumber};

use super::Registry;
use super::aim::{GroupSet, Places};
use super::clusters::{Cluster, ClusterId};
use super::command::PlannedRegion;
use super::draft::Draft;
use super::groups::Group;
use super::work::Work;
use crate::plan::{MemberStay, Region};

impl Registry {
    /// The plan has these merged regions, and no others.
    pub(super) fn merge(&mut self, regions: Vec<PlannedRegion>, unwanted_ppm: u32) {
        self.clusters.unwanted_ppm = unwanted_ppm;
        let present = core::mem::take(&mut self.clusters.clusters);
        let (hinted, mut former): (BTreeMap<_, _>, BTreeMap<_, _>) =
            present.into_iter().partition(|(id, _)| id.is_hinted());
        self.clusters.clusters = hinted;
        let mut members: BTreeMap<NodeId, ClusterId> = BTreeMap::new();
        let mut changed: BTreeSet<ClusterId> = BTreeSet::new();
        let regions = regions.into_iter();
        let regions: Vec<PlannedRegion> = regions
            .filter_map(|planned| self.without_pinned(planned))
            .collect();
        for planned in regions {
            let received =
                |group: &GroupId| self.groups.get(*group).is_some_and(Group::is_received);
            let groups: Arc<[GroupId]> = planned.groups.into_iter().filter(received).collect();
            let before = former.remove(&planned.id);
            let before = before.or_else(|| self.take_similar(&mut former, &planned.members));
            let region = before.as_ref().and_then(|cluster| cluster.region);
            let region = region.filter(|id| self.goes_on(*id, &groups, &planned.members));
            let cluster = Cluster { region, groups };
            if before.as_ref() != Some(&cluster) {
                changed.insert(planned.id);
            }
            members.extend(planned.members.into_iter().map(|node| (node, planned.id)));
            self.clusters.clusters.insert(planned.id, cluster);
        }
        for (id, node) in &mut self.nodes {
            if node.hint.set.is_some() {
                continue;
            }
            let cluster = members.get(id).copied();
            let moved = core::mem::replace(&mut node.aim.cluster, cluster) != cluster;
            if moved || cluster.is_some_and(|cluster| changed.contains(&cluster)) {
                self.work.push(Work::Place { node: *id });
            }
        }
    }

    /// The region without nodes that receive pinned groups, which are in no merged region (R-VIEW-18);
    /// `None`: it is none without them, or too many deliveries to the others would be unwanted.
    fn without_pinned(&self, mut planned: PlannedRegion) -> Option<PlannedRegion> {
        let all = planned.members.len();
        planned.members.retain(|node| !self.receives_pinned(*node));
        if planned.members.len() == all {
            return Some(planned);
        }
        let nodes = planned.members.iter();
        let nodes: Vec<_> = nodes.filter_map(|node| self.nodes.get(node)).collect();
        let wants = |group: &GroupId| nodes.iter().any(|node| node.aim.set.contains(*group));
        planned.groups.retain(wants);
        let groups = planned.groups.iter().copied().collect();
        let shared = nodes.len() > 1 && self.are_wanted(&groups, &planned.members);
        shared.then_some(planned)
    }

    /// Tells whether few enough deliveries of these groups to these nodes are unwanted.
    fn are_wanted(&self, groups: &BTreeSet<GroupId>, members: &[NodeId]) -> bool {
        let nodes = members.iter().filter_map(|node| self.nodes.get(node));
        let (mut deliveries, mut wanted) = (0, 0);
        for node in nodes {
            deliveries += groups.len() as u64;
            let own = node.aim.set.groups.iter();
            wanted += own.filter(|group| groups.contains(group)).count() as u64;
        }
        self.clusters.accepts(deliveries - wanted, deliveries)
    }

    /// A cluster of the plan before, or of a service before, that has most of these nodes, and
    /// that the present plan does not have by its number.
    fn take_similar(
        &self,
        former: &mut BTreeMap<ClusterId, Cluster>,
        members: &[NodeId],
    ) -> Option<Cluster> {
        let mut common: BTreeMap<ClusterId, usize> = BTreeMap::new();
        for node in members.iter().filter_map(|node| self.nodes.get(node)) {
            if let Some(cluster) = node.aim.cluster.filter(|id| former.contains_key(id)) {
                *common.entry(cluster).or_default() += 1;
            }
        }
        let (id, count) = common.into_iter().max_by_key(|(_, count)| *count)?;
        (2 * count > members.len()).then(|| former.remove(&id))?
    }

    /// A merged region of a former service goes on.
    pub(super) fn adopt_cluster(&mut self, id: RegionId) {
        let Some(region) = self.regions.get(id).filter(|region| region.merged) else {
            return;
        };
        let cluster = Cluster {
            region: Some(id),
            groups: Arc::clone(&region.groups),
        };
        let hinted = self.free_hinted(id).filter(|_| !region.zone.is_strange());
        let cluster_id = hinted.unwrap_or(ClusterId::Former(id));
        self.clusters.clusters.insert(cluster_id, cluster);
    }

    /// A node is not in that merged region of a former service any more.
    pub(super) fn leave_former_cluster(&mut self, id: NodeId, region: RegionId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            let cluster = ClusterId::Former(region);
            node.aim.cluster = node.aim.cluster.filter(|own| *own != cluster);
        }
    }

    /// Members of a merged region of a former service have the shares that they report; those that
    /// have not reported all of its groups, until they do.
    pub(super) fn adopt_shares(&mut self, id: RegionId) {
        let cluster = self.clusters.of_region(id);
        let Some(region) = self.regions.get_mut(id).filter(|region| region.merged) else {
            return;
        };
        for member in &region.members {
            let node = member.origin.node;
            let Some(entry) = self.nodes.get_mut(&node) else {
                continue;
            };
            let mut groups = Arc::clone(&region.groups);
            if entry.is_at_home(id) {
                if entry.may_be_in(region.zone, cluster) {
                    entry.aim.cluster = cluster;
                }
                if !entry.unreported {
                    // What it has only asked for begins with the next view.
                    let said = entry.groups_in(id);
                    let own = entry.groups.iter().copied();
                    let own = own.filter(|group| said.contains(*group));
                    let own = own.filter(|group| region.groups.binary_search(group).is_ok());
                    groups = own.collect();
                }
            }
            let stay = MemberStay {
                groups,
                since: BTreeMap::new(),
                assumed: entry.unreported,
            };
            region.stays.insert(node, stay);
        }
    }

    /// Members of a merged region that have not reported have all of its groups, which are more now.
    pub(super) fn widen_shares(&mut self, id: RegionId) {
        let Some(region) = self.regions.get_mut(id).filter(|region| region.merged) else {
            return;
        };
        for (node, stay) in &mut region.stays {
            let node = self.nodes.get(node);
            if node.is_some_and(|node| node.unreported) {
                stay.groups = Arc::clone(&region.groups);
            }
        }
    }

    /// Whether a merged region can become what the plan has: if not, all move to a new one, since no
    /// group can be taken out of a region that somebody receives there.
    fn goes_on(&self, id: RegionId, planned: &[GroupId], members: &[NodeId]) -> bool {
        let Some(region) = self.regions.get(id) else {
            return false;
        };
        let more = region
            .groups
            .iter()
            .filter(|group| planned.binary_search(group).is_err());
        let union: BTreeSet<GroupId> = more.chain(planned).copied().collect();
        if union.len() == planned.len() {
            return true;
        }
        self.are_wanted(&union, members)
    }

    /// The cluster that a node is in, and its share of the groups there; `None`: it has none.
    pub(super) fn share_of(&self, id: NodeId) -> Option<(ClusterId, GroupSet)> {
        let aim = &self.nodes.get(&id)?.aim;
        let id = aim.cluster?;
        let cluster = self.clusters.clusters.get(&id)?;
        let region = cluster.region.and_then(|region| self.regions.get(region));
        let union = region.map_or(&cluster.groups, |region| &region.groups);
        let own = aim.set.groups.iter().copied();
        let own = own.filter(|group| union.binary_search(group).is_ok());
        let share = GroupSet::new(&self.key, own).within(aim.set.zone);
        (!share.groups.is_empty()).then_some((id, share))
    }

    /// Adds to merged regions what these nodes, which are to be placed, want beside, where that is
    /// planned or few others would receive it for nothing.
    /// Members that have them otherwise are to be placed as well.
    pub(super) fn grow_regions(&mut self, placing: &mut BTreeSet<NodeId>, draft: &mut Draft) {
        self.gather(placing);
        let mut missing: BTreeMap<ClusterId, BTreeSet<GroupId>> = BTreeMap::new();
        for node in placing.iter().filter_map(|id| self.nodes.get(id)) {
            let Some((id, region)) = node.aim.cluster.and_then(|id| {
                let region = self.clusters.region(id)?;
                Some((id, self.regions.get(region)?))
            }) else {
                continue;
            };
            let lacks = |group: &&GroupId| region.groups.binary_search(group).is_err();
            let groups = node.aim.set.groups.iter().filter(lacks);
            missing.entry(id).or_default().extend(groups);
        }
        for (cluster, groups) in missing {
            let fresh = self.to_be_added(cluster, &groups);
            if let Some(id) = self.clusters.region(cluster).filter(|_| !fresh.is_empty()) {
                let present = self
                    .regions
                    .get(id)
                    .map(|region| Arc::clone(&region.groups));
                let present = present.unwrap_or_default();
                let wants = |group: &GroupId, set: &GroupSet| set.contains(*group);
                let concerned = self.nodes.iter().filter(|(_, node)| {
                    let set = &node.aim.set;
                    node.aim.cluster == Some(cluster) && fresh.iter().any(|it| wants(it, set))
                });
                placing.extend(concerned.map(|(node, _)| *node));
                let both: BTreeSet<GroupId> = present.iter().copied().chain(fresh).collect();
                let set = GroupSet::new(&self.key, both);
                self.change_groups(id, &set, draft);
            }
        }
    }

    /// Those of these groups that a merged region is to have.
    fn to_be_added(&self, id: ClusterId, groups: &BTreeSet<GroupId>) -> Vec<GroupId> {
        let Some(cluster) = self.clusters.clusters.get(&id) else {
            return Vec::new();
        };
        let region = cluster.region.and_then(|region| self.regions.get(region));
        let Some(region) = region else {
            return Vec::new();
        };
        if id.is_hinted() {
            let wanted = self.wanted_together(id);
            return groups.intersection(&wanted).copied().collect();
        }
        let nodes = self.nodes.values();
        let members: Vec<_> = nodes.filter(|node| node.aim.cluster == Some(id)).collect();
        let size = members.len() as u64;
        let wants = |group: GroupId| {
            let want = members.iter().filter(|node| node.aim.set.contains(group));
            want.count() as u64
        };
        let mut candidates: Vec<(Reverse<u64>, GroupId)> = Vec::new();
        let mut added = Vec::new();
        for group in groups.iter().copied() {
            match cluster.groups.binary_search(&group) {
                Ok(_) => added.push(group),
                Err(_) => candidates.push((Reverse(wants(group)), group)),
            }
        }
        candidates.sort_unstable();
        let wanted = members.iter().map(|node| {
            let own = node.aim.set.groups.iter();
            own.filter(|group| region.groups.binary_search(group).is_ok())
                .count() as u64
        });
        let planned = added.iter().map(|group| wants(*group));
        let wanted = wanted.sum::<u64>() + planned.sum::<u64>();
        let mut deliveries = size * (region.groups.len() + added.len()) as u64;
        let mut unwanted = deliveries.saturating_sub(wanted);
        for (Reverse(count), group) in candidates {
            if self
                .clusters
                .accepts(unwanted + size - count, deliveries + size)
            {
                (unwanted, deliveries) = (unwanted + size - count, deliveries + size);
                added.push(group);
            }
        }
        added
    }

    /// Takes out of merged regions that change what nobody there receives any more, once nobody is
    /// leaving (R-VIEW-10).
    pub(super) fn shrink_regions(&mut self, draft: &mut Draft) {
        let changing: Vec<RegionId> = draft.changes.keys().copied().collect();
        for id in changing {
            let region = self.regions.get(id);
            let Some(region) = region.filter(|region| region.merged && region.active > 0) else {
                continue;
            };
            let change = draft.change(id);
            let stays =
                |member: &Member| member.leaving() && !change.removed.contains(&member.origin);
            if !change.leaving.is_empty() || region.members.iter().any(stays) {
                continue;
            }
            let shares = region.stays.iter().filter(|(node, _)| {
                let node = self.nodes.get(node);
                node.is_some_and(|node| node.is_at_home(id))
            });
            let wanted: BTreeSet<GroupId> = shares
                .flat_map(|(_, stay)| stay.groups.iter().copied())
                .collect();
            if wanted.len() < region.groups.len() {
                let set = GroupSet::new(&self.key, wanted);
                self.change_groups(id, &set, draft);
            }
        }
    }

    /// Makes the region that a node is to share: of exactly these groups, or of those of its cluster.
    pub(super) fn create_home(
        &mut self,
        now: Instant,
        places: &Places,
        draft: &mut Draft,
    ) -> RegionId {
        let cluster = places
            .cluster
            .and_then(|id| Some((id, self.clusters.clusters.get(&id)?)));
        let Some((cluster, groups)) =
            cluster.map(|(id, cluster)| (id, Arc::clone(&cluster.groups)))
        else {
            return self.create_region(now, &places.home, None, draft);
        };
        let set = GroupSet::new(&self.key, groups.iter().copied());
        let set = set.within(places.home.zone);
        let region = self.create_region(now, &set, None, draft);
        self.regions.make_merged(region);
        self.clusters.settle(cluster, region);
        self.stats.regions_merged += 1;
        region
    }

    /// A node that enters a merged region has this share of its groups.
    pub(super) fn begin_stay(
        &mut self,
        id: NodeId,
        region: RegionId,
        share: &GroupSet,
        draft: &mut Draft,
    ) {
        let region_of = self.regions.get_mut(region);
        if let Some(entry) = region_of.filter(|entry| entry.merged) {
            let stay = MemberStay {
                groups: Arc::clone(&share.groups),
                since: BTreeMap::new(),
                assumed: false,
            };
            entry.stays.insert(id, stay);
            draft.shares.insert((region, id));
        }
    }

    /// A node's share of a merged region is what it says itself from now on.
    pub(super) fn confirm_share(&mut self, id: NodeId) {
        let node = self.nodes.get(&id).filter(|node| !node.unreported);
        let home = node.and_then(|node| node.home);
        let region = home.and_then(|home| self.regions.get_mut(home));
        if let Some(stay) = region.and_then(|region| region.stays.get_mut(&id)) {
            stay.assumed = false;
        }
    }

    /// A member of a merged region has another share of its groups from the next view on.
    pub(super) fn change_share(
        &mut self,
        id: NodeId,
        region: RegionId,
        set: &GroupSet,
        draft: &mut Draft,
    ) {
        // What it reports to have had with a former service it has had all the time.
        let reported = self
            .nodes
            .get(&id)
            .map(|node| node.groups_in(region).groups);
        let Some(entry) = self.regions.get_mut(region) else {
            return;
        };
        let view = entry.next_view();
        let Some(stay) = entry.stays.get_mut(&id) else {
            return;
        };
        if stay.groups == set.groups {
            return;
        }
        let had = reported.filter(|_| stay.assumed);
        stay.change(
            view,
            Arc::clone(&set.groups),
            had.as_deref().unwrap_or_default(),
        );
        self.stats.shares_changed += 1;
        // In that view what is new begins, and what nobody wants any more may go.
        draft.change(region);
        draft.checks.insert((region, id));
        draft.shares.insert((region, id));
    }
}

impl MemberStay {
    /// These groups are received from this view on, but for those that are already, or that it `had`.
    fn change(&mut self, view: ViewNumber, groups: Arc<[GroupId]>, had: &[GroupId]) {
        let has = |group: &GroupId| groups.binary_search(group).is_ok();
        self.since.retain(|group, _| has(group));
        let known = |group: &&GroupId| {
            self.groups.binary_search(group).is_ok() || had.binary_search(group).is_ok()
        };
        let fresh = groups.iter().filter(|group| !known(group));
        self.since.extend(fresh.map(|group| (*group, view)));
        self.groups = groups;
    }
}

impl Region {
    /// Forgets what those received who are no members any more.
    pub(super) fn forget_stays(&mut self) {
        if self.merged {
            let members = self.members.iter();
            let members: BTreeSet<NodeId> = members.map(|member| member.origin.node).collect();
            self.stays.retain(|node, _| members.contains(node));
        }
    }

    /// The groups that a member receives in it.
    pub(crate) fn groups_of(&self, node: NodeId) -> &Arc<[GroupId]> {
        let stay = self.stays.get(&node);
        stay.map_or(&self.groups, |stay| &stay.groups)
    }
}
