//! Lives that somebody has reported to a service without memory, and that have not reported
//! themselves (R-MEM-6): they may be on the other side of a broken network, or stand still.
//!
//! Members of reported views are taken up as nodes that are away, with the groups of their region,
//! and are gone when the detector says so. Of senders nothing is known but the life: they are
//! waited for as long, and dead when they have not said hello. [`resumption`](super::resumption)
//! lets both go on in their lives.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_proto::Instant;
use qsm_wire::membership::{AwayReason, Member, RegionReport};
use qsm_wire::{GroupId, Incarnation, NodeId, Origin, RegionId};

use super::aim::GroupSet;
use super::draft::Draft;
use super::work::Work;
use super::{NUMBER_MAX, Node, Registry};
use crate::plan::{Region, Signature};

/// Lives that are over, whoever still speaks of them.
#[derive(Debug, Default)]
pub(super) struct FormerLives {
    /// Lives that nodes have been told are over.
    pub(super) dead: BTreeSet<Origin>,
    /// Nodes that have said hello, and in which life.
    pub(super) present: BTreeMap<NodeId, Incarnation>,
}

impl FormerLives {
    pub(super) fn contains(&self, origin: Origin) -> bool {
        let present = self.present.get(&origin.node);
        self.dead.contains(&origin) || present.is_some_and(|life| *life != origin.incarnation)
    }
}

/// What is known of a member that a report names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MemberStanding {
    /// It has reported.
    Reported,
    /// It has not, and is waited for.
    Missing,
    /// It has reported elsewhere, and is not a member here.
    Elsewhere,
    /// Its life is over.
    Over,
}

impl Registry {
    /// Classifies a member of a reported region, which has this address.
    pub(super) fn standing(
        &self,
        member: &Member,
        region: SocketAddr,
        alive: &BTreeSet<Origin>,
        former: &FormerLives,
    ) -> MemberStanding {
        let origin = member.origin;
        if alive.contains(&origin) {
            return MemberStanding::Reported;
        }
        if let Some(node) = self.nodes.get(&origin.node) {
            return match node.origin == origin && node.life.is_running() {
                true if node.unreported => MemberStanding::Missing,
                true => MemberStanding::Elsewhere,
                false => MemberStanding::Over,
            };
        }
        let credible =
            origin.incarnation.0 <= NUMBER_MAX && member.address.is_ipv4() == region.is_ipv4();
        let ended = former.contains(origin) || self.has_ended(origin);
        let room = !self.gone_after.is_zero() && self.nodes.len() < self.limits.nodes;
        match credible && !ended && room {
            true => MemberStanding::Missing,
            false => MemberStanding::Over,
        }
    }

    /// Members of a reported region that have not reported, and are waited for.
    pub(super) fn missing_members(
        &self,
        report: &RegionReport,
        alive: &BTreeSet<Origin>,
        former: &FormerLives,
    ) -> Vec<Origin> {
        let standing = |member: &&Member| self.standing(member, report.address, alive, former);
        let members = report.members.iter();
        let missing = members.filter(|member| standing(member) == MemberStanding::Missing);
        missing.map(|member| member.origin).collect()
    }

    /// A member of an inherited region has not reported: it is away until it does.
    pub(super) fn take_up_missing(
        &mut self,
        now: Instant,
        id: RegionId,
        entry: &Member,
        signature: Signature,
    ) {
        let origin = entry.origin;
        if self.nodes.len() >= self.limits.nodes && !self.nodes.contains_key(&origin.node) {
            self.drop_member(id, origin);
            return;
        }
        if !self.nodes.contains_key(&origin.node) {
            self.end_late(origin.node, Some(origin));
            self.incarnation_last = self.incarnation_last.max(origin.incarnation.0);
            self.admit(origin, String::new(), entry.address, None);
            self.stats.admitted -= 1;
            self.stats.unreported += 1;
            if let Some(node) = self.nodes.get_mut(&origin.node) {
                node.unreported = true;
                // It may have sent something that is still on its way.
                node.published = true;
            }
        }
        self.assume_zone(origin.node, id);
        self.take_up_member(now, id, entry, signature);
        self.assume_groups(origin.node);
        self.mark_inherited(now, id, origin, AwayReason::Unreported);
    }

    /// A node has the groups of its regions, as far as these are known. If it is leaving those that it
    /// has shared, and nobody knows of another one, it may not know that either, and receive them still.
    pub(super) fn assume_groups(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else {
            return;
        };
        let lost = node.is_lost();
        let left = node.leaving().filter(|_| lost);
        let regions = node.homes().chain(left);
        let regions = regions.filter_map(|region| self.regions.get(region));
        let groups: BTreeSet<GroupId> = regions.flat_map(|region| region.groups.to_vec()).collect();
        let set = GroupSet::new(&self.key, groups);
        if lost {
            self.work.push(Work::Place { node: id });
        }
        for group in set.groups.iter() {
            self.groups.hold(*group);
        }
        self.aim_anew(id, set.clone());
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        node.signature = set.signature;
        let former = core::mem::replace(&mut node.groups, set.groups);
        for group in former.iter() {
            self.groups.release(*group);
        }
    }

    /// Members of a region that have not reported have these groups, if they are nowhere else.
    fn assume_groups_in(&mut self, id: RegionId) {
        let Some(region) = self.regions.get(id) else {
            return;
        };
        let members = region.members.iter();
        let members: Vec<NodeId> = members.map(|member| member.origin.node).collect();
        for member in members {
            let node = self.nodes.get(&member);
            let there = |node: &Node| node.is_at_home(id) || node.is_lost();
            if node.is_some_and(|node| node.unreported && there(node)) {
                self.assume_groups(member);
            }
        }
    }

    /// Members that have not reported do not receive a group in two regions: who has named it to be in
    /// this one, too, has not heard that they have left it.
    fn part_members(&mut self, now: Instant, id: RegionId) {
        let region = self.regions.get(id);
        let members = region.into_iter().flat_map(|region| &region.members);
        let twice = |member: &Origin| {
            let node = self.nodes.get(&member.node);
            let node = node.filter(|node| node.unreported && node.is_at_home(id));
            let homes = node.into_iter().flat_map(Node::homes);
            let mut others = homes.filter(|home| *home != id);
            others.any(|other| self.regions.overlap(id, other))
        };
        let members = members.map(|member| member.origin);
        for member in members.filter(twice).collect::<Vec<_>>() {
            self.leave_stale(now, id, member);
            if let Some(node) = self.nodes.get_mut(&member.node) {
                node.home = node.home.or_else(|| node.commons.pop_first());
            }
            self.assume_groups(member.node);
        }
    }

    /// A node that comes later knows groups of provisional regions that nobody has named so far.
    pub(super) fn widen_regions(&mut self, now: Instant, reports: &[RegionReport]) {
        for report in reports {
            let id = report.region;
            let region = self.regions.get(id);
            let region = region.filter(|region| region.provisional || region.merged);
            let Some(former) = region.map(|region| Arc::clone(&region.groups)) else {
                continue;
            };
            let named = self.known_groups(&report.groups).groups;
            let both: BTreeSet<GroupId> = former.iter().chain(&*named).copied().collect();
            if both.len() == former.len() {
                continue;
            }
            let GroupSet {
                signature, groups, ..
            } = GroupSet::new(&self.key, both);
            if let Some(region) = self.regions.get_mut(id) {
                (region.groups, region.signature) = (Arc::clone(&groups), signature);
            }
            self.relink(id, &former, &groups);
            self.part_members(now, id);
            self.assume_groups_in(id);
            self.widen_shares(id);
            self.work.push(Work::RenewView { region: id });
        }
    }

    /// An inherited region marks a member as away, or has to.
    pub(super) fn mark_inherited(
        &mut self,
        now: Instant,
        region: RegionId,
        member: Origin,
        reason: AwayReason,
    ) {
        let view = self.regions.get(region).map(Region::next_view);
        if let (Some(view), Some(node)) = (view, self.nodes.get_mut(&member.node)) {
            node.absences.inherit(now, reason, region, view);
            self.work.push(Work::RenewMember { region, member });
        }
    }

    /// A sender has not reported. Who receives from it waits for it, or knows that it is dead.
    pub(super) fn miss_sender(&mut self, now: Instant, origin: Origin) {
        let other_life = self.nodes.contains_key(&origin.node) || self.has_ended(origin);
        if other_life || !self.late.wait_for(now, origin, self.gone_after) {
            self.declare_dead(origin);
        }
    }

    /// A life is over of which nothing else is known.
    pub(super) fn declare_dead(&mut self, origin: Origin) {
        self.note_dead([origin]);
        self.work.push(Work::Announce { origin });
    }

    /// The same of a member of an inherited region.
    pub(super) fn drop_member(&mut self, region: RegionId, member: Origin) {
        self.note_dead([member]);
        self.work.push(Work::DropMember { region, member });
    }

    /// Waits no more for a sender. If another life of its node goes on, that one is over.
    pub(super) fn end_late(&mut self, node: NodeId, present: Option<Origin>) {
        let late = self.late.take(node);
        if let Some(origin) = late.filter(|late| Some(*late) != present) {
            self.declare_dead(origin);
        }
    }

    /// The time is over for senders that have not said hello.
    pub(super) fn expire_senders(&mut self, now: Instant) {
        while let Some(origin) = self.late.take_expired(now) {
            self.declare_dead(origin);
        }
    }

    /// The first of its active members has said which groups a provisional region has.
    pub(super) fn complete_regions(&mut self, now: Instant, id: NodeId, draft: &mut Draft) {
        let node = self.nodes.get(&id);
        let Some(node) = node.filter(|node| !node.unreported) else {
            return;
        };
        for home in node.homes().collect::<Vec<_>>() {
            self.complete_region(now, id, home, draft);
        }
    }

    fn complete_region(&mut self, now: Instant, id: NodeId, home: RegionId, draft: &mut Draft) {
        let region = self.regions.get(home);
        let (Some(node), Some(region)) = (
            self.nodes.get(&id),
            region.filter(|region| region.provisional),
        ) else {
            return;
        };
        let unsaid = region.private && !node.reported.groups.contains_key(&home);
        let set = node.groups_in(home);
        if unsaid || set.groups.is_empty() {
            return;
        }
        let groups = Arc::clone(&set.groups);
        let zone = self.zone_of(node.zone, &groups);
        self.regions.move_to(now, home, zone);
        let former = self.regions.regroup(home, set.signature, set.groups);
        self.relink(home, &former, &groups);
        self.part_members(now, home);
        self.assume_groups_in(home);
        draft.change(home);
        self.check_audience(home, &groups, draft);
    }
}

impl Node {
    /// It shares no region that it is not leaving.
    fn is_lost(&self) -> bool {
        self.home.is_none() && self.leaving().next().is_some()
    }

    /// The groups that it has in a region, by its own word: all, if it has not divided them.
    pub(super) fn groups_in(&self, region: RegionId) -> GroupSet {
        let said = self.reported.groups.get(&region).cloned();
        said.unwrap_or_else(|| GroupSet {
            zone: self.zone,
            signature: self.signature,
            groups: Arc::clone(&self.groups),
        })
    }
}
