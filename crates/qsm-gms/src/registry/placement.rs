use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_proto::Instant;
use qsm_wire::membership::{Member, Update};
use qsm_wire::{GroupId, NodeId, RegionId};

use super::aim::{GroupSet, Places};
use super::batch::count;
use super::departure::Departure;
use super::draft::Draft;
use super::groups::Group;
use super::request::PendingRoles;
use super::work::{Stage, Work};
use super::{Node, Registry};

/// A node that has to be somewhere else.
#[derive(Debug)]
struct Move {
    node: NodeId,
    /// Where it is with others, its home first.
    present: Vec<RegionId>,
    places: Places,
}

impl Registry {
    /// Puts every node whose groups changed, or whose residue did, into the region of exactly its
    /// groups, or into that of its class and one of its own, or into the merged region that the plan
    /// has it in. Rules R-VIEW-4, R-VIEW-15, R-VIEW-16.
    pub(super) fn place(&mut self, now: Instant, draft: &mut Draft) {
        let mut placing: BTreeSet<NodeId> =
            core::mem::take(&mut draft.placing).into_iter().collect();
        for id in &placing {
            self.aim_at_pending(*id);
        }
        self.take_placing(&mut placing);
        self.grow_regions(&mut placing, draft);
        for id in placing.clone() {
            self.sort_into_class(id);
        }
        self.take_placing(&mut placing);
        let mut moves = Vec::new();
        for id in placing {
            let Some(places) = self.places_to_be(id) else {
                continue;
            };
            if self.is_placed(id, &places) {
                self.carry_out(id, draft);
            } else {
                let present = self.nodes.get(&id).into_iter().flat_map(Node::shared);
                let (node, present) = (id, present.collect());
                moves.push(Move {
                    node,
                    present,
                    places,
                });
            }
        }
        self.regroup(&moves, draft);
        for step in moves {
            self.relocate(now, step, draft);
        }
        self.shrink_regions(draft);
    }

    /// Those who have to be placed because others have other aims.
    fn take_placing(&mut self, placing: &mut BTreeSet<NodeId>) {
        while let Some(Work::Place { node }) = self.work.next(Stage::Members) {
            placing.insert(node);
        }
    }

    /// What a node has asked for becomes its aim.
    fn aim_at_pending(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else {
            return;
        };
        let set = &node.aim.set;
        let changes = node.pending.subscribe.iter();
        let changes = changes.filter(|(group, on)| set.contains(**group) != **on);
        let changes: Vec<(GroupId, bool)> = changes.map(|(group, on)| (*group, *on)).collect();
        if changes.is_empty() {
            return;
        }
        let changed = changes.iter().map(|(group, _)| *group);
        let set = GroupSet {
            zone: set.zone,
            signature: set.signature ^ self.key.set(changed),
            groups: merge(&set.groups, &changes),
        };
        self.aim_at(id, set, &changes);
    }

    /// Where a node has to be. One that is away stays where it is, whatever others do: it has to
    /// catch up there, and of one that has not reported not all groups may be known; unless it would
    /// get nothing of those that it has.
    fn places_to_be(&self, id: NodeId) -> Option<Places> {
        let node = self.nodes.get(&id)?;
        let asks = node.pending != PendingRoles::default();
        let gone = match node.unreported {
            true => !self.is_stranded(id),
            false => node.absences.reason().is_some() && self.has_its_groups(node),
        };
        self.places(id).filter(|_| asks || !gone)
    }

    /// Whether the regions that a node is in have its groups, however divided.
    fn has_its_groups(&self, node: &Node) -> bool {
        let regions = node.homes().filter_map(|home| self.regions.get(home));
        let groups = regions.flat_map(|region| region.groups_of(node.origin.node).iter().copied());
        let own = groups.map(|group| node.aim.set.contains(group));
        let own: Vec<bool> = own.collect();
        own.len() == node.aim.set.groups.len() && own.into_iter().all(|own| own)
    }

    fn is_placed(&self, id: NodeId, places: &Places) -> bool {
        let Some(node) = self.nodes.get(&id) else {
            return true;
        };
        // Not: whether the home's groups are these; of two regions that a former service's
        // nodes report with the same groups only one is found.
        let commons = places.commons.iter();
        let commons = commons.map(|set| self.region_of(set));
        let commons: Option<BTreeSet<RegionId>> = commons.collect();
        let home = match node.home {
            Some(home) if places.cluster.is_some() => {
                let target = places.cluster.and_then(|id| self.clusters.region(id));
                let share = self.regions.get(home).map(|region| region.groups_of(id));
                target == Some(home) && share == Some(&places.home.groups)
            }
            Some(_) => self.region_of(&places.home) == node.home,
            None => places.home.groups.is_empty(),
        };
        let private = node.private.and_then(|id| self.regions.get(id));
        let private = private.map(|region| &region.groups);
        let wanted = places.private.as_ref().map(|set| &set.groups);
        home && private == wanted && commons.as_ref() == Some(&node.commons)
    }

    /// Where all active members of a region change to the same new set, the region changes its
    /// groups instead of its members, and nobody has to join another address (R044).
    fn regroup(&mut self, moves: &[Move], draft: &mut Draft) {
        let mut tally: BTreeMap<RegionId, (usize, Option<&GroupSet>)> = BTreeMap::new();
        for step in moves.iter().filter(|step| step.places.cluster.is_none()) {
            for (present, target) in self.successors(step) {
                let (movers, set) = tally.entry(present).or_insert((0, Some(target)));
                *movers += 1;
                *set = set.filter(|set| *set == target);
            }
        }
        let mut candidates: Vec<(Reverse<usize>, RegionId, &GroupSet)> = Vec::new();
        for (id, (movers, set)) in tally {
            let whole = self.regions.get(id).is_some_and(|r| {
                let all = r.active == movers && r.members.len() == r.active;
                all && !r.merged && !r.given_up
            });
            if let (true, Some(set)) = (whole, set.filter(|set| !set.groups.is_empty())) {
                candidates.push((Reverse(movers), id, set));
            }
        }
        candidates.sort_by_key(|(movers, id, _)| (*movers, *id));
        for (_, id, set) in candidates {
            let found = self.region_of(set);
            if found.is_none() && !self.hands_over(id, set) {
                self.change_groups(id, set, draft);
            }
        }
    }

    /// The sets that could follow the regions that a node is to leave: one that nobody has yet and
    /// that has some of the same groups, or if it has none that of its home.
    fn successors<'a>(&self, step: &'a Move) -> Vec<(RegionId, &'a GroupSet)> {
        let home = &step.places.home;
        let sets = core::iter::once(home).chain(&step.places.commons);
        let found = |set: &GroupSet| self.region_of(set);
        let (old, mut fresh): (Vec<_>, Vec<_>) = sets.partition(|set| found(set).is_some());
        let stay: BTreeSet<RegionId> = old.into_iter().filter_map(found).collect();
        let mut successors = Vec::new();
        for id in step.present.iter().filter(|id| !stay.contains(id)) {
            let region = self.regions.get(*id);
            let groups = region.map_or(&[][..], |region| &region.groups);
            let zone = region.map(|region| region.zone);
            let fits = |set: &&GroupSet| Some(set.zone) == zone;
            let alike = |set: &&GroupSet| groups.iter().any(|group| set.contains(*group));
            let at = fresh.iter().position(|set| fits(set) && alike(set));
            let at = at.or_else(|| fresh.iter().position(|set| fits(set) && *set == home));
            successors.extend(at.map(|at| (*id, fresh.remove(at))));
        }
        successors
    }

    /// Whether a group that this region would lose goes on elsewhere for one of its members: what
    /// was sent to it here has to be delivered before, so the member has to leave (R-VIEW-7).
    fn hands_over(&self, id: RegionId, set: &GroupSet) -> bool {
        let Some(region) = self.regions.get(id) else {
            return false;
        };
        let members = || region.members.iter().map(|member| member.origin.node);
        let keeps = |node: NodeId, group: GroupId| {
            let node = self.nodes.get(&node).filter(|node| node.is_at_home(id));
            node.is_some_and(|node| node.aim.set.contains(group))
        };
        let lost = region.groups.iter().filter(|group| !set.contains(**group));
        // Mostly nobody has them any more.
        let wanted = |group: &&GroupId| self.groups.get(**group).is_some_and(Group::is_received);
        let mut lost = lost.filter(wanted);
        lost.any(|group| members().any(|node| keeps(node, *group)))
    }

    /// A region has these groups from now on.
    pub(super) fn change_groups(&mut self, id: RegionId, set: &GroupSet, draft: &mut Draft) {
        let groups = &set.groups;
        let former = self.regions.regroup(id, set.signature, Arc::clone(groups));
        self.relink(id, &former, groups);
        self.stats.regions_regrouped += 1;
        draft.change(id);
        self.check_audience(id, groups, draft);
    }

    /// Moves the index from the former groups of a region to its new ones.
    pub(super) fn relink(&mut self, id: RegionId, former: &[GroupId], groups: &[GroupId]) {
        for group in former {
            if groups.binary_search(group).is_err() {
                self.groups.unlink(*group, id);
                self.stats.group_touches += 1;
            }
        }
        for group in groups {
            if former.binary_search(group).is_err() {
                self.groups.link(*group, id);
                self.stats.group_touches += 1;
            }
        }
    }

    /// Everybody who is told of a region, or will have to be.
    pub(super) fn check_audience(&self, id: RegionId, groups: &[GroupId], draft: &mut Draft) {
        let audience = self.regions.get(id).map(|region| region.audience.keys());
        let known = audience.into_iter().flatten();
        draft.checks.extend(known.map(|node| (id, *node)));
        for group in groups.iter().filter_map(|group| self.groups.get(*group)) {
            draft
                .checks
                .extend(group.publishers.iter().map(|node| (id, *node)));
        }
    }

    /// Moves one node, unless it is still on its way out of a region it wants to enter: it stays where
    /// it is until then, or is in others of the same groups if it would be nowhere.
    fn relocate(&mut self, now: Instant, mut step: Move, draft: &mut Draft) {
        let id = step.node;
        let leaves = self
            .found(&step.places)
            .any(|region| self.leaves(id, region));
        let stranded = leaves && self.is_stranded(id);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.blocked |= leaves;
        }
        if leaves && !stranded {
            return;
        }
        if stranded {
            step.places = self.exact_places(id, step.places);
        }
        let found = self.open(id, &step.places);
        let present = step.present.iter().copied();
        for region in present.filter(|region| !found.contains(region)) {
            self.take_leave(now, id, region, draft);
        }
        let home = self.enter_home(now, &step, draft);
        let commons = step.places.commons.iter();
        let commons = commons.map(|set| self.enter_common(now, &step, set, draft));
        let commons: BTreeSet<RegionId> = commons.collect();
        if let Some(node) = self.nodes.get_mut(&id) {
            (node.home, node.commons) = (home, commons);
        }
        self.relocate_residue(now, id, step.places.private.as_ref(), draft);
        self.carry_out(id, draft);
    }

    /// The regions that there are of those that a node is to share.
    fn found(&self, places: &Places) -> impl Iterator<Item = RegionId> {
        let commons = places.commons.iter();
        let commons = commons.filter_map(|set| self.region_of(set));
        self.found_home(places).into_iter().chain(commons)
    }

    /// The region that is to be a node's home, if there is one.
    pub(super) fn found_home(&self, places: &Places) -> Option<RegionId> {
        match places.cluster {
            Some(cluster) => self.clusters.region(cluster),
            None => self.region_of(&places.home),
        }
    }

    /// The region of exactly these groups in their zone.
    fn region_of(&self, set: &GroupSet) -> Option<RegionId> {
        self.regions.find(set.zone, set.signature, &set.groups)
    }

    /// Puts a node into its home, unless it is in that region, which may have been regrouped to exactly
    /// this.
    fn enter_home(&mut self, now: Instant, step: &Move, draft: &mut Draft) -> Option<RegionId> {
        let (id, places, set) = (step.node, &step.places, &step.places.home);
        let found = self.open_home(id, places);
        if let Some(home) = found.filter(|home| step.present.contains(home)) {
            if places.cluster.is_some() {
                self.change_share(id, home, set, draft);
            }
            return Some(home);
        }
        if set.groups.is_empty() {
            return None;
        }
        let target = found.unwrap_or_else(|| self.create_home(now, places, draft));
        self.settle_in(id, target, draft);
        self.begin_stay(id, target, set, draft);
        Some(target)
    }

    /// Puts a node into the region of a common set, unless it is there.
    fn enter_common(
        &mut self,
        now: Instant,
        step: &Move,
        set: &GroupSet,
        draft: &mut Draft,
    ) -> RegionId {
        let found = self.open_region(step.node, set);
        if let Some(region) = found.filter(|region| step.present.contains(region)) {
            return region;
        }
        let target = found.unwrap_or_else(|| {
            self.stats.regions_common += 1;
            self.create_region(now, set, None, draft)
        });
        self.settle_in(step.node, target, draft);
        target
    }

    /// Gives a node a private region of these groups, or none.
    fn relocate_residue(
        &mut self,
        now: Instant,
        id: NodeId,
        set: Option<&GroupSet>,
        draft: &mut Draft,
    ) {
        let Some(node) = self.nodes.get(&id) else {
            return;
        };
        let (private, address) = (node.private, node.address);
        let present = private.and_then(|id| Some((id, self.regions.get(id)?)));
        if present.map(|(_, region)| &region.groups) == set.map(|set| &set.groups) {
            return;
        }
        if let (Some((region, _)), Some(set)) = (present, set)
            && !self.hands_over(region, set)
        {
            self.change_groups(region, set, draft);
            return;
        }
        if let Some(region) = private {
            self.take_leave(now, id, region, draft);
        }
        if let Some(set) = set {
            let target = self.create_region(now, set, Some(address), draft);
            self.settle_in(id, target, draft);
            if let Some(node) = self.nodes.get_mut(&id) {
                node.private = Some(target);
            }
        }
    }

    fn take_leave(&mut self, now: Instant, id: NodeId, home: RegionId, draft: &mut Draft) {
        let (Some(node), Some(region)) = (self.nodes.get_mut(&id), self.regions.get_mut(home))
        else {
            return;
        };
        node.vacate(home);
        let deadline = now.after(self.drain_max);
        let departure = Departure::leave(region.next_view(), deadline);
        node.departures.insert(home, departure);
        region.active -= 1;
        draft.change(home).leaving.insert(node.origin);
        draft.checks.insert((home, id));
        self.deadlines.insert((deadline, home, id));
        self.stats.moves += 1;
    }

    /// Makes a region of these groups; a private one for the node with that address.
    pub(super) fn create_region(
        &mut self,
        now: Instant,
        set: &GroupSet,
        owner: Option<SocketAddr>,
        draft: &mut Draft,
    ) -> RegionId {
        let groups = Arc::clone(&set.groups);
        let created = self
            .regions
            .create(now, set.zone, set.signature, groups, owner);
        let (id, shared) = created;
        self.stats.regions_created += 1;
        self.stats.regions_private += u64::from(owner.is_some());
        self.stats.addresses_shared += u64::from(shared);
        self.stats.group_touches += count(&set.groups);
        for group in set.groups.iter() {
            self.groups.link(*group, id);
        }
        self.check_audience(id, &set.groups, draft);
        id
    }

    fn settle_in(&mut self, id: NodeId, target: RegionId, draft: &mut Draft) {
        let (Some(node), Some(region)) = (self.nodes.get_mut(&id), self.regions.get_mut(target))
        else {
            return;
        };
        region.active += 1;
        let joined = region.next_view();
        node.absences.mark(target, joined);
        draft.change(target).added.push(Member {
            origin: node.origin,
            address: node.address,
            joined,
            left: None,
            away: node.absences.reason_in(target),
        });
        draft.checks.insert((target, id));
    }

    /// The rest of a node's pending change: roles, numbers, receipts.
    fn carry_out(&mut self, id: NodeId, draft: &mut Draft) {
        self.confirm_share(id);
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let pending = core::mem::take(&mut node.pending);
        for (group, on) in pending.subscribe {
            let had = node.groups.binary_search(&group).is_ok();
            self.groups.change_hold(group, had, on);
        }
        // Share the region's allocation.
        let home = node.home.and_then(|home| self.regions.get(home));
        let only = node.private.is_none() && node.commons.is_empty();
        let all = home.filter(|region| only && !region.merged);
        if let Some(region) = all {
            node.aim.set.groups = Arc::clone(&region.groups);
        }
        node.groups = Arc::clone(&node.aim.set.groups);
        node.signature = node.aim.set.signature;
        for (group, on) in pending.publish {
            let had = node.publishes.contains(&group);
            if had != on {
                if on {
                    node.published = true;
                    node.publishes.insert(group);
                } else {
                    node.publishes.remove(&group);
                }
                self.groups.change_publisher(group, id, on);
                let regions = self.groups.get(group).map(|group| &group.regions);
                let regions = regions.into_iter().flatten();
                draft.checks.extend(regions.map(|region| (*region, id)));
            }
            self.groups.change_hold(group, had, on);
        }
        let named = pending.named.into_iter().filter_map(|group| {
            let name = self.groups.get(group)?.name.clone();
            Some(Update::Named { group, name })
        });
        draft.updates_of(id).named.extend(named);
        draft
            .done
            .extend(pending.requests.into_iter().map(|request| (id, request)));
    }
}

impl Node {
    /// Regions in which it is with others, its home first.
    pub(super) fn shared(&self) -> impl Iterator<Item = RegionId> {
        self.home.into_iter().chain(self.commons.iter().copied())
    }

    /// The node is not in this region any more.
    pub(super) fn vacate(&mut self, region: RegionId) {
        self.home = self.home.filter(|home| *home != region);
        self.private = self.private.filter(|private| *private != region);
        self.commons.remove(&region);
    }
}

/// `groups` with `changes`, both ascending.
fn merge(groups: &[GroupId], changes: &[(GroupId, bool)]) -> Arc<[GroupId]> {
    let mut merged = Vec::with_capacity(groups.len() + changes.len());
    let mut rest = groups;
    for (group, on) in changes {
        let at = rest.partition_point(|other| other < group);
        merged.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        if *on {
            merged.push(*group);
        } else {
            rest = &rest[1..];
        }
    }
    merged.extend_from_slice(rest);
    merged.into()
}
