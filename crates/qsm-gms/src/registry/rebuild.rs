use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use qsm_proto::Instant;
use qsm_wire::membership::{AwayReason, GroupReport, Hello, Member, RegionReport, Role};
use qsm_wire::{ChannelId, GroupId, NodeId, Origin, RegionId, ViewNumber};

use super::Registry;
use super::aim::GroupSet;
use super::command::Updates;
use super::departure::Departure;
use super::groups::check_name;
use super::resumption::is_active_in;
use super::unreported::{FormerLives, MemberStanding};
use super::work::Work;
use crate::plan::{Region, Signature, Zone};

impl Registry {
    /// Numbers of regions and channels up to these have been given.
    pub(super) fn reserve(&mut self, region: RegionId, channel: ChannelId) {
        self.regions.reserve(region, channel);
    }

    /// Numbers of groups that are believed are below this.
    pub(super) fn group_numbers_max(&self) -> usize {
        self.limits.groups.saturating_mul(2)
    }

    /// Builds the membership that a former service had from what its nodes report, and prepares
    /// a first batch that makes the views agree with it (R049: the service has no disk).
    ///
    /// Groups and regions keep their numbers, channels and addresses: nobody who reports means something
    /// else by them. Of each region the newest reported view counts. Its members who have not reported are away until they do, or gone
    /// (R-MEM-6); how many they are is returned. Senders that somebody names are waited for as long.
    pub(super) fn rebuild(
        &mut self,
        now: Instant,
        reports: BTreeMap<NodeId, Hello>,
        former: &FormerLives,
        updates: &mut Updates,
    ) -> usize {
        let numbered = reports.values().flat_map(|report| &report.groups);
        for report in numbered.filter(|report| check_name(&report.name).is_ok()) {
            let count_max = self.group_numbers_max();
            if let Some(group) = report.group {
                self.groups.adopt(group, &report.name, count_max);
            }
        }
        let newest = newest_views(&reports);
        let divided = private_groups(newest.values());
        let mut alive: BTreeSet<Origin> = BTreeSet::new();
        let mut senders: BTreeSet<Origin> = BTreeSet::new();
        for (node, report) in reports {
            let incarnation = report.incarnation;
            let origin = Origin { node, incarnation };
            alive.insert(origin);
            senders.extend(&report.senders);
            self.admit(origin, report.name, report.address, report.second);
            self.stats.admitted -= 1;
            self.take_up_groups(now, node, &report.groups, report.published);
            let divided = divided.get(&origin).map_or(&[][..], |groups| groups);
            self.note_division(origin, &report.regions, divided);
            // Two services that have divided a cluster may have given one number to two views.
            let known = |report: RegionReport| {
                let newest = newest.get(&report.region);
                let same = newest.is_some_and(|newest| is_same_view(newest, &report));
                let view = if same { report.view } else { ViewNumber(0) };
                (report.region, view)
            };
            let views = report.regions.into_iter().map(known).collect();
            if let Some(entry) = self.nodes.get_mut(&node) {
                entry.reported.views = views;
            }
            self.work.push(Work::Place { node });
        }
        self.groups.rest_gaps(now);
        let mut absent = BTreeSet::new();
        for report in newest.into_values() {
            absent.extend(self.take_up_region(now, report, &alive, former));
        }
        for origin in senders.difference(&alive).copied() {
            if former.contains(origin) {
                self.declare_dead(origin);
            } else if self.origin(origin.node) != Some(origin) {
                self.miss_sender(now, origin);
            }
        }
        let away = self.nodes.values().filter(|node| node.unreported);
        let away = away.map(|node| (node.origin, AwayReason::Unreported));
        updates.away.extend(away);
        absent.len()
    }

    pub(super) fn take_up_groups(
        &mut self,
        now: Instant,
        id: NodeId,
        reports: &[GroupReport],
        published: bool,
    ) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        node.published = published;
        let mut groups = BTreeSet::new();
        for report in reports.iter().take(self.limits.roles_per_node) {
            if check_name(&report.name).is_err() {
                continue;
            }
            // A number that nobody has told this node may have been told others.
            let known = self.groups.find(&report.name);
            let known = known.filter(|known| report.group.is_none_or(|told| told == *known));
            let Some(group) = known else {
                // It is new, or nobody knows its number: as if entered now.
                let group = self.groups.intern(now, &report.name);
                if node
                    .pending
                    .roles(report.role)
                    .insert(group, true)
                    .is_some()
                {
                    self.groups.release(group);
                }
                node.pending.named.push(group);
                continue;
            };
            if report.group.is_none() {
                node.pending.named.push(group);
            }
            let fresh = match report.role {
                Role::Subscriber => groups.insert(group),
                Role::Publisher => node.publishes.insert(group),
            };
            if fresh {
                self.groups.hold(group);
            }
            if report.role == Role::Publisher {
                self.groups.change_publisher(group, id, true);
            }
        }
        let set = GroupSet::new(&self.key, groups);
        node.groups = Arc::clone(&set.groups);
        node.signature = set.signature;
        self.aim_anew(id, set);
    }

    /// Notes which of its groups a node has in which of its regions, where it says so, and that it has
    /// those in a private region of which others say so: it may not have heard of that yet.
    pub(super) fn note_division(
        &mut self,
        origin: Origin,
        reports: &[RegionReport],
        divided: &[GroupId],
    ) {
        let Some(node) = self.nodes.get_mut(&origin.node) else {
            return;
        };
        let its_own = |group: &&GroupId| node.groups.binary_search(group).is_ok();
        let said = reports.iter().filter(|report| is_active_in(origin, report));
        let said = said.map(|report| {
            let groups: BTreeSet<GroupId> = report.groups.iter().filter(its_own).copied().collect();
            let set = GroupSet::new(&self.key, groups);
            (report.region, set.within(node.zone))
        });
        node.reported.groups = said.filter(|(_, set)| !set.groups.is_empty()).collect();
        // What a plan of the former service has divided stays so until the next plan.
        let private = reports
            .iter()
            .filter(|report| !report.address.ip().is_multicast());
        let groups = private.filter_map(|report| node.reported.groups.get(&report.region));
        let own = groups.flat_map(|set| set.groups.iter());
        let shared = reports
            .iter()
            .filter(|report| report.address.ip().is_multicast());
        let shared = shared.filter_map(|report| node.reported.groups.get(&report.region));
        let shared: Vec<GroupSet> = shared.cloned().collect();
        if shared.len() > 1 {
            node.aim.former = shared;
        }
        let advised = own.chain(divided.iter().filter(its_own)).copied().collect();
        self.advise_node(origin.node, advised);
        self.cut(origin.node);
    }

    /// Takes up a region if at least one of its members lives or is waited for; returns those that
    /// have not reported. Of a member that is named twice the first entry counts.
    pub(super) fn take_up_region(
        &mut self,
        now: Instant,
        report: RegionReport,
        alive: &BTreeSet<Origin>,
        former: &FormerLives,
    ) -> Vec<Origin> {
        let id = report.region;
        let published = self.known_groups(&report.groups);
        let Some(mut region) = inherited_region(report) else {
            return Vec::new();
        };
        let mut sorted: BTreeMap<MemberStanding, Vec<Member>> = BTreeMap::new();
        for member in &region.members {
            let standing = self.standing(member, region.address, alive, former);
            sorted.entry(standing).or_default().push(*member);
        }
        let mut of = |standing| sorted.remove(&standing).unwrap_or_default();
        let (living, missing) = (of(MemberStanding::Reported), of(MemberStanding::Missing));
        let (over, elsewhere) = (of(MemberStanding::Over), of(MemberStanding::Elsewhere));
        for member in over.iter().map(|member| member.origin) {
            // Of a region that nobody is left of, too: it may have sent elsewhere.
            self.drop_member(id, member);
        }
        let absent = missing.iter().chain(&over).map(|member| member.origin);
        let absent = absent.collect();
        if living.is_empty() && missing.is_empty() {
            return absent;
        }
        region.members.retain(|member| !elsewhere.contains(member));
        let mut set = self.common_groups(id, &living);
        region.zone = self.zone_of_members(id, &set, &published);
        if set.groups.is_empty() {
            region.provisional = true;
            set = published.clone();
        }
        if region.merged {
            // What members have that have not reported is not known: some of it others publish.
            region.provisional = false;
            set = published;
        }
        let GroupSet {
            signature, groups, ..
        } = set;
        (region.groups, region.signature) = (Arc::clone(&groups), signature);
        for group in groups.iter() {
            self.groups.link(*group, id);
        }
        self.regions.adopt(now, id, region);
        for entry in &living {
            self.take_up_member(now, id, entry, signature);
            if let Some(reason) = entry.away {
                self.mark_inherited(now, id, entry.origin, reason);
            }
        }
        self.adopt_cluster(id);
        for entry in &missing {
            self.take_up_missing(now, id, entry, signature);
        }
        self.adopt_shares(id);
        self.work.push(Work::RenewView { region: id });
        absent
    }

    /// Takes up a member of an inherited region; `true`: it is at home there.
    pub(super) fn take_up_member(
        &mut self,
        now: Instant,
        id: RegionId,
        entry: &Member,
        signature: Signature,
    ) -> bool {
        if let Some(since) = entry.left {
            let departure = Departure::inherit(since, now.after(self.drain_max));
            self.take_up_leaver(id, entry.origin, departure);
            return false;
        }
        if let Some(region) = self.regions.get_mut(id) {
            region.active += 1;
        }
        self.take_up_home(now, id, signature, entry.origin)
    }

    /// Those of these groups that nodes have named.
    pub(super) fn known_groups(&self, groups: &[GroupId]) -> GroupSet {
        let groups = groups.iter().copied();
        let groups: BTreeSet<GroupId> = groups
            .filter(|group| self.groups.get(*group).is_some())
            .collect();
        GroupSet::new(&self.key, groups)
    }

    /// The groups that most of the active members have in a region.
    fn common_groups(&self, id: RegionId, members: &[Member]) -> GroupSet {
        let mut votes: BTreeMap<(Zone, Signature), (usize, GroupSet)> = BTreeMap::new();
        for member in members.iter().filter(|member| !member.leaving()) {
            if let Some(node) = self.nodes.get(&member.origin.node) {
                let set = node.groups_in(id);
                let key = (set.zone, set.signature);
                votes.entry(key).or_insert((0, set)).0 += 1;
            }
        }
        let most = votes.into_values().max_by_key(|(count, _)| *count);
        most.map(|(_, set)| set).unwrap_or_default()
    }

    fn take_up_leaver(&mut self, id: RegionId, member: Origin, departure: Departure) {
        if let Some(node) = self.nodes.get_mut(&member.node) {
            node.departures.insert(id, departure);
            let (region, view) = (id, departure.view);
            self.work.push(Work::AwaitView { region, view });
            let deadline = departure.deadline;
            self.deadlines.insert((deadline, id, member.node));
        }
    }

    /// Views of different age may show a node active in two regions, or in two private ones: the one
    /// of its groups, or that it names itself, is its home, and it leaves the other in the first
    /// batch; unless it is in both, with other groups in each (R-VIEW-17). `true`: it stays in this
    /// one.
    fn take_up_home(
        &mut self,
        now: Instant,
        id: RegionId,
        signature: Signature,
        member: Origin,
    ) -> bool {
        let Some(node) = self.nodes.get_mut(&member.node) else {
            return false;
        };
        let Some(region) = self.regions.get(id) else {
            return false;
        };
        let other = match region.private {
            true => node.private,
            false => node.home,
        };
        let said = |region: &RegionId| node.reported.groups.contains_key(region);
        if node.is_beside(&self.regions, id) {
            node.commons.insert(id);
            return true;
        }
        let fits = match region.private {
            true => !other.as_ref().is_some_and(said),
            false if region.merged => node.reported.groups.contains_key(&id),
            false => node.groups_in(id).signature == signature || node.aim.fits(signature),
        };
        let is_home = other.is_none() || fits;
        if is_home {
            match region.private {
                true => node.private = Some(id),
                false => node.home = Some(id),
            }
        }
        let stale = if is_home { other } else { Some(id) };
        let beside = node.commons.iter().copied();
        let beside = beside.filter(|_| is_home && node.unreported && !region.private);
        let twice = beside.filter(|other| self.regions.overlap(id, *other));
        let stale: Vec<RegionId> = stale.into_iter().chain(twice).collect();
        for region in stale {
            self.leave_stale(now, region, member);
        }
        is_home
    }

    /// A member is not in this region any more, as far as is known, and does not know that.
    pub(super) fn leave_stale(&mut self, now: Instant, region: RegionId, member: Origin) {
        if let Some(node) = self.nodes.get_mut(&member.node) {
            node.vacate(region);
        }
        let entry = self.regions.get_mut(region);
        let since = entry.map_or(ViewNumber(0), |entry| {
            entry.active -= 1;
            entry.next_view()
        });
        self.leave_former_cluster(member.node, region);
        self.work.push(Work::MarkLeaving { region, member });
        let departure = Departure::leave(since, now.after(self.drain_max));
        self.take_up_leaver(region, member, departure);
    }
}

/// Of each region the report of its newest view, the first one if there are several, with the
/// groups that all together know.
fn newest_views(reports: &BTreeMap<NodeId, Hello>) -> BTreeMap<RegionId, RegionReport> {
    let mut newest: BTreeMap<RegionId, &RegionReport> = BTreeMap::new();
    let mut published: BTreeMap<RegionId, BTreeSet<GroupId>> = BTreeMap::new();
    let all = reports.iter().flat_map(|(node, hello)| {
        let reports = hello.regions.iter();
        reports.map(move |report| (*node, hello, report))
    });
    for (node, hello, report) in all {
        let known = newest.entry(report.region).or_insert(report);
        if report.view > known.view {
            *known = report;
        }
        let groups = published.entry(report.region).or_default();
        groups.extend(&report.groups);
        // Others may know that it leaves, and it not yet: then no active member reports.
        let incarnation = hello.incarnation;
        let active = is_active_in(Origin { node, incarnation }, report);
        if active && report.groups.is_empty() {
            groups.extend(subscriptions(hello));
        }
    }
    let whole = |(id, report): (RegionId, &RegionReport)| {
        let groups = published.remove(&id).unwrap_or_default();
        let groups = groups.into_iter().collect();
        let report = report.clone();
        (id, RegionReport { groups, ..report })
    };
    newest.into_iter().map(whole).collect()
}

/// The groups of private regions, by whose they are.
fn private_groups<'a>(
    newest: impl Iterator<Item = &'a RegionReport>,
) -> BTreeMap<Origin, Vec<GroupId>> {
    let mut groups: BTreeMap<Origin, Vec<GroupId>> = BTreeMap::new();
    for report in newest.filter(|report| !report.address.ip().is_multicast()) {
        let there = report.members.iter().filter(|member| !member.leaving());
        for member in there {
            groups
                .entry(member.origin)
                .or_default()
                .extend(&report.groups);
        }
    }
    groups
}

/// The groups that a node reports to receive, as far as it knows their numbers.
fn subscriptions(hello: &Hello) -> impl Iterator<Item = GroupId> {
    let reports = hello.groups.iter();
    let subscribed = reports.filter(|report| report.role == Role::Subscriber);
    subscribed.filter_map(|report| report.group)
}

fn is_same_view(one: &RegionReport, other: &RegionReport) -> bool {
    let name = |report: &RegionReport| (report.view, report.channel, report.address);
    name(one) == name(other) && one.members == other.members
}

/// A region as it was reported, before anything is known of its groups; `None`: there cannot be such
/// a region. Rule R-VIEW-15.
fn inherited_region(report: RegionReport) -> Option<Region> {
    let mut named = BTreeSet::new();
    let mut members = report.members;
    members.retain(|member| named.insert(member.origin));
    // As who reported it orders them.
    members.sort_by_key(Member::is_away);
    let private = !report.address.ip().is_multicast();
    let address = match members[..] {
        _ if !private => report.address,
        [owner] if !owner.address.ip().is_multicast() => owner.address,
        _ => return None,
    };
    let mut region = Region {
        view: report.view,
        inherited: true,
        deserted: ViewNumber(0),
        provisional: false,
        heard: report.view,
        private,
        merged: report.merged && !private,
        given_up: false,
        zone: Zone::default(),
        channel: report.channel,
        address,
        groups: Arc::new([]),
        signature: 0,
        members,
        stays: BTreeMap::new(),
        active: 0,
        audience: BTreeMap::new(),
        sources: (0, Vec::new()),
        signers: (0, Vec::new()),
    };
    region.note_deserted();
    Some(region)
}
