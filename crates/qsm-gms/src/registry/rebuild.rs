use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use qsm_proto::Instant;
use qsm_wire::membership::{GroupReport, Hello, Member, RegionReport, Role};
use qsm_wire::{ChannelId, GroupId, NodeId, Origin, RegionId, ViewNumber};

use super::Registry;
use super::departure::Departure;
use super::groups::check_name;
use super::work::Work;
use crate::plan::{Region, Signature};

impl Registry {
    /// Numbers of regions and channels up to these have been given.
    pub(super) fn reserve(&mut self, region: RegionId, channel: ChannelId) {
        self.regions.reserve(region, channel);
    }

    /// Builds the membership that a former service had from what its nodes report, and prepares
    /// a first batch that makes the views agree with it (R049: the service has no disk).
    ///
    /// Groups and regions keep their numbers, channels and addresses. Of each region the newest
    /// reported view counts. Its members who have not reported are away, and dead when nothing is
    /// heard of them in time (R-MEM-6), and so are senders that somebody names. Returns how many
    /// members have not reported.
    pub(super) fn rebuild(
        &mut self,
        now: Instant,
        reports: BTreeMap<NodeId, Hello>,
        dead: &BTreeSet<Origin>,
    ) -> usize {
        self.unreported.note_dead(dead.iter().copied());
        let mut newest: BTreeMap<RegionId, RegionReport> = BTreeMap::new();
        let mut published: BTreeMap<RegionId, BTreeSet<GroupId>> = BTreeMap::new();
        let mut alive: BTreeSet<Origin> = BTreeSet::new();
        let mut senders: BTreeSet<Origin> = BTreeSet::new();
        let numbered = reports.values().flat_map(|report| &report.groups);
        for report in numbered.filter(|report| check_name(&report.name).is_ok()) {
            let count_max = self.limits.groups.saturating_mul(2);
            if let Some(group) = report.group {
                self.groups.adopt(group, &report.name, count_max);
            }
        }
        for (node, report) in reports {
            let incarnation = report.incarnation;
            let origin = Origin { node, incarnation };
            alive.insert(origin);
            senders.extend(&report.senders);
            self.admit(origin, report.name, report.address, report.second);
            self.stats.admitted -= 1;
            self.take_up_groups(now, node, &report.groups, report.published);
            let views = report.regions.iter().map(|r| (r.region, r.view));
            let views = views.collect();
            if let Some(entry) = self.nodes.get_mut(&node) {
                entry.reported.views = views;
            }
            self.work.push(Work::Place { node });
            for region in report.regions {
                let groups = published.entry(region.region).or_default();
                groups.extend(&region.groups);
                let known = newest.get(&region.region).map_or(ViewNumber(0), |r| r.view);
                if region.view > known {
                    newest.insert(region.region, region);
                }
            }
        }
        for origin in senders.difference(&alive).copied() {
            if dead.contains(&origin) {
                self.work.push(Work::Announce { origin });
            } else {
                self.miss_sender(now, origin);
            }
        }
        self.groups.rest_gaps(now);
        let mut absent = BTreeSet::new();
        for mut report in newest.into_values() {
            let groups = published.remove(&report.region).unwrap_or_default();
            report.groups = groups.into_iter().collect();
            absent.extend(self.take_up_region(now, report, &alive, dead));
        }
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
                // Name or number contradict what others say, or it is new: as if entered now.
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
        node.groups = groups.into_iter().collect();
        node.signature = self.key.set(node.groups.iter().copied());
    }

    /// Takes up a region if at least one of its members lives, or is waited for and somebody
    /// publishes to it; returns those who have not reported. Of a member that is named twice the
    /// first entry counts.
    fn take_up_region(
        &mut self,
        now: Instant,
        mut report: RegionReport,
        alive: &BTreeSet<Origin>,
        ended: &BTreeSet<Origin>,
    ) -> Vec<Origin> {
        let id = report.region;
        let mut named = BTreeSet::new();
        report.members.retain(|member| named.insert(member.origin));
        let (living, dead): (Vec<Member>, Vec<Member>) = report
            .members
            .iter()
            .partition(|member| alive.contains(&member.origin));
        let gone: Vec<Origin> = dead.iter().map(|member| member.origin).collect();
        let (groups, signature) = match living.is_empty() {
            true => self.known_groups(&report.groups),
            false => self.common_groups(&living),
        };
        let waits = !living.is_empty() || !groups.is_empty();
        for member in gone.iter().copied() {
            if ended.contains(&member) {
                self.work.push(Work::DropMember { region: id, member });
            } else if !waits {
                // Nobody sends there; it may have sent elsewhere.
                self.miss_sender(now, member);
            } else {
                self.miss_member(now, id, member);
            }
        }
        let waited_for = |member: &Member| self.unreported.contains(member.origin);
        if !waits || (living.is_empty() && !report.members.iter().any(waited_for)) {
            return gone;
        }
        let mut region = Region {
            view: report.view,
            inherited: true,
            deserted: ViewNumber(0),
            channel: report.channel,
            address: report.address,
            groups: Arc::clone(&groups),
            signature,
            members: report.members,
            active: 0,
            audience: BTreeMap::new(),
            sources: (0, Vec::new()),
        };
        region.note_deserted();
        for member in &living {
            if member.is_away()
                && let Some(node) = self.nodes.get_mut(&member.origin.node)
            {
                node.absences.regions.insert(id, report.view);
            }
            if let Some(since) = member.left {
                self.take_up_leaver(now, id, member.origin, since);
            } else if self.take_up_home(now, id, signature, member.origin) {
                region.active += 1;
            }
        }
        for group in groups.iter() {
            self.groups.link(*group, id);
        }
        self.regions.adopt(now, id, region);
        self.work.push(Work::RenewView { region: id });
        gone
    }

    /// Those of these groups that nodes have named.
    fn known_groups(&self, groups: &[GroupId]) -> (Arc<[GroupId]>, Signature) {
        let groups = groups.iter().copied();
        let groups: Arc<[GroupId]> = groups
            .filter(|group| self.groups.get(*group).is_some())
            .collect();
        let signature = self.key.set(groups.iter().copied());
        (groups, signature)
    }

    /// The groups that most of the active members have.
    fn common_groups(&self, members: &[Member]) -> (Arc<[GroupId]>, Signature) {
        let mut votes: BTreeMap<Signature, (usize, NodeId)> = BTreeMap::new();
        for member in members.iter().filter(|member| !member.leaving()) {
            let id = member.origin.node;
            if let Some(node) = self.nodes.get(&id) {
                votes.entry(node.signature).or_insert((0, id)).0 += 1;
            }
        }
        let most = votes.into_values().max_by_key(|(count, _)| *count);
        let node = most.and_then(|(_, id)| self.nodes.get(&id));
        node.map_or_else(
            || (Arc::from([] as [GroupId; 0]), 0),
            |node| (Arc::clone(&node.groups), node.signature),
        )
    }

    pub(super) fn take_up_leaver(
        &mut self,
        now: Instant,
        id: RegionId,
        member: Origin,
        since: ViewNumber,
    ) {
        if let Some(node) = self.nodes.get_mut(&member.node) {
            let deadline = now.after(self.drain_max);
            let departure = Departure::leave(since, deadline);
            node.departures.insert(id, departure);
            let (region, view) = (id, since);
            self.work.push(Work::AwaitView { region, view });
            self.deadlines.insert((deadline, id, member.node));
        }
    }

    /// Views of different age may show a node active in two regions: the one of its groups is
    /// its home, and it leaves the other in the first batch. `true`: this one is its home.
    pub(super) fn take_up_home(
        &mut self,
        now: Instant,
        id: RegionId,
        signature: Signature,
        member: Origin,
    ) -> bool {
        let Some(node) = self.nodes.get_mut(&member.node) else {
            return false;
        };
        let other = node.home;
        if other.is_none() || signature == node.signature {
            node.home = Some(id);
        }
        let is_home = node.home == Some(id);
        let stale = if is_home { other } else { Some(id) };
        if let Some(stale) = stale {
            let region = self.regions.get_mut(stale);
            let since = region.map_or(ViewNumber(0), |region| {
                region.active -= 1;
                region.next_view()
            });
            let region = stale;
            self.work.push(Work::MarkLeaving { region, member });
            self.take_up_leaver(now, stale, member, since);
        }
        is_home
    }
}
