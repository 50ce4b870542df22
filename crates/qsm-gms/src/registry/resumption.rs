//! Nodes that go on in their lives although they come from another service (R-MEM-6): from the one
//! before this, or from one that served the other side of a broken network.
//!
//! ```text
//!                    known to be over here?      its report fits what is known here?
//!   Hello of such ─────────────┬─────────────────────────────┬───────────► goes on
//!   a node                     │ yes                         │ no
//!                              └─────────────────────────────┴───────────► begins a new life
//! ```
//!
//! Its roles are those that it reports, and it is told everything anew: the other service may have
//! given the same numbers to other views. A new life is always safe, and costs what is on its way.
//! So one begins wherever the report contradicts: where it has a number for another group or for
//! another region than this service, or knows a node as dead that lives here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use qsm_proto::Instant;
use qsm_wire::membership::{AwayReason, Hello, RegionReport};
use qsm_wire::{GroupId, Incarnation, NodeId, Origin, RegionId, ViewNumber};

use super::command::{EndCause, Updates};
use super::departure::{Departure, DepartureEvent};
use super::groups::check_name;
use super::life::LifeEvent;
use super::request::PendingRoles;
use super::transition::State as _;
use super::unreported::FormerLives;
use super::work::Work;
use super::{Node, Registry, life::Life};
use crate::plan::Region;

/// Nodes of which a life is remembered that another service has declared dead, the last one of each.
const DEAD_MAX: usize = 1 << 16;

impl Registry {
    /// A node says hello that has been with another service, or has not been in.
    pub(super) fn greet_stranger(
        &mut self,
        at: Instant,
        origin: Origin,
        hello: Hello,
        updates: &mut Updates,
    ) {
        let end = hello.group_end;
        self.groups.rest_before(at, end, self.group_numbers_max());
        self.heed_repair_limit(hello.repairs);
        let agrees = self.heed(origin.node, &hello, updates);
        let former = hello.term > 0 && origin.incarnation != Incarnation(0);
        if former && agrees && self.may_go_on(origin) && self.fits(origin, &hello) {
            self.go_on(at, origin, hello, updates);
        } else {
            self.begin_life(at, origin.node, hello, updates);
        }
    }

    /// The life is not over, as far as is known here.
    fn may_go_on(&self, origin: Origin) -> bool {
        if self.nodes.contains_key(&origin.node) {
            return self.origin(origin.node) == Some(origin);
        }
        let room = self.nodes.len() < self.limits.nodes;
        let waits = !self.gone_after.is_zero() && self.late.is_newest(origin);
        room && waits && !self.has_ended(origin)
    }

    /// Lives that another service has declared dead.
    pub(super) fn note_dead(&mut self, dead: impl IntoIterator<Item = Origin>) {
        for origin in dead {
            let last = self.dead_elsewhere.entry(origin.node).or_default();
            *last = origin.incarnation.max(*last);
        }
        while self.dead_elsewhere.len() > DEAD_MAX {
            self.dead_elsewhere.pop_first();
        }
    }

    /// Numbers that another service has given are not given here, and lives that it has declared
    /// dead are over. `false`: one of them is heard here.
    fn heed(&mut self, node: NodeId, hello: &Hello, updates: &mut Updates) -> bool {
        self.reserve(hello.region_last, hello.channel_last);
        self.incarnation_last = self.incarnation_last.max(hello.incarnation_last.0);
        self.note_dead(hello.dead.iter().copied());
        let mut agrees = true;
        for origin in hello.dead.iter().filter(|origin| origin.node != node) {
            if self.late.contains(*origin) {
                self.end_late(origin.node, None);
            }
            let entry = self.nodes.get(&origin.node);
            let Some(entry) = entry.filter(|_| self.origin(origin.node) == Some(*origin)) else {
                continue;
            };
            if entry.unreported || entry.absences.reason() == Some(AwayReason::Silent) {
                let ended = self.end(origin.node);
                let ended = ended.map(|origin| (origin, EndCause::Elsewhere));
                updates.ended.extend(ended);
            } else {
                agrees = false;
            }
        }
        agrees
    }

    /// Nothing that this service knows contradicts the node's groups and regions.
    fn fits(&self, origin: Origin, hello: &Hello) -> bool {
        let count_max = self.group_numbers_max();
        let named = hello
            .groups
            .iter()
            .filter(|report| check_name(&report.name).is_ok());
        let mut numbered = named.filter_map(|report| Some((report.group?, &report.name)));
        numbered.all(|(id, name)| self.groups.fits(id, name, count_max))
            && hello
                .regions
                .iter()
                .all(|report| self.fits_region(origin, report))
    }

    /// Members that have left a region were told that nobody sends to them there: whoever may have done
    /// so, and is not known here, contradicts that.
    fn fits_region(&self, origin: Origin, report: &RegionReport) -> bool {
        let id = report.region;
        let node = self.nodes.get(&origin.node);
        let told = node.is_some_and(|node| node.concerned.contains(&id));
        if !told && self.unsettled.is_left(id) {
            return false;
        }
        let Some(region) = self.regions.get(id) else {
            return !is_active_in(origin, report) || self.regions.may_adopt(id);
        };
        region.channel == report.channel && (told || !self.regions.is_own(id))
    }

    /// The node goes on in its life.
    fn go_on(&mut self, at: Instant, origin: Origin, mut hello: Hello, updates: &mut Updates) {
        let node = origin.node;
        self.stats.resumed += 1;
        let name = core::mem::take(&mut hello.name);
        self.end_late(node, Some(origin));
        if self.nodes.contains_key(&node) {
            self.clear_roles(node, name);
            self.note_addresses(origin, hello.address, hello.second, updates);
        } else {
            self.admit(origin, name, hello.address, hello.second);
            self.stats.admitted -= 1;
        }
        for report in &hello.groups {
            if let Some(group) = report.group.filter(|_| check_name(&report.name).is_ok()) {
                let count_max = self.group_numbers_max();
                self.groups.adopt(group, &report.name, count_max);
            }
        }
        self.take_up_groups(at, node, &hello.groups, hello.published);
        let private = self
            .nodes
            .get(&node)
            .and_then(|entry| self.regions.get(entry.private?));
        let divided = private.map(|region| Arc::clone(&region.groups));
        self.note_division(
            origin,
            &hello.regions,
            divided.as_deref().unwrap_or_default(),
        );
        let views = self.compare_views(&hello.regions);
        self.adopt_regions(at, origin, &hello, updates);
        self.widen_regions(at, &hello.regions);
        self.leave_unnamed(at, origin, &hello.regions);
        self.mark_again(node);
        let dead = self.sort_senders(at, &hello.senders);
        if let Some(entry) = self.nodes.get_mut(&node) {
            entry.reported.views = views;
            if !dead.is_empty() {
                entry.reported.dead = dead;
            }
        }
        self.work.push(Work::Resync { node });
        self.work.push(Work::Place { node });
        updates.welcomed.push(origin);
    }

    /// The node's roles are forgotten: it reports them.
    fn clear_roles(&mut self, id: NodeId, name: String) {
        self.aim_at_nothing(id);
        let Some(mut node) = self.nodes.remove(&id) else {
            return;
        };
        self.release_roles(&node);
        node.name = name;
        node.unreported = false;
        node.groups = Arc::new([]);
        node.signature = 0;
        node.publishes.clear();
        node.pending = PendingRoles::default();
        node.blocked = false;
        node.life.advance(LifeEvent::Resume);
        self.nodes.insert(id, node);
        self.take_hints(id);
    }

    /// The regions that a node reports; it is told all of them. Regions of which it has a newer
    /// view get one that is newer still.
    fn compare_views(&mut self, reports: &[RegionReport]) -> BTreeMap<RegionId, ViewNumber> {
        for report in reports {
            let region = self.regions.get_mut(report.region);
            if region.is_some_and(|region| region.hear(report.view)) {
                let region = report.region;
                self.work.push(Work::RenewView { region });
            }
        }
        let regions = reports.iter().map(|report| report.region);
        regions.map(|region| (region, ViewNumber(0))).collect()
    }

    /// Takes up regions of a former service that only this node has reported: those that it is in,
    /// and those that it sends to and whose members have yet to report.
    fn adopt_regions(&mut self, at: Instant, origin: Origin, hello: &Hello, updates: &mut Updates) {
        let former = FormerLives {
            dead: hello.dead.iter().copied().collect(),
            present: BTreeMap::new(),
        };
        let alive = BTreeSet::from([origin]);
        for report in &hello.regions {
            let missing = self.missing_members(report, &alive, &former);
            let unknown = self.regions.get(report.region).is_none();
            let lives = is_active_in(origin, report) || !missing.is_empty();
            if unknown && lives && self.regions.may_adopt(report.region) {
                let unheard = |origin: &Origin| !self.nodes.contains_key(&origin.node);
                let unheard: Vec<Origin> = missing.into_iter().filter(unheard).collect();
                self.take_up_region(at, report.clone(), &alive, &former);
                let taken_up = |origin: &Origin| self.nodes.contains_key(&origin.node);
                let away = unheard.into_iter().filter(taken_up);
                let away = away.map(|origin| (origin, AwayReason::Unreported));
                updates.away.extend(away);
            }
        }
    }

    /// Takes the node out of regions that it has left, by its own report. One of exactly its
    /// groups it has yet to hear of; so has a node that shares no region, or one that it is leaving
    /// as others know, of one all of whose groups it wants, or some if it is merged. Of one that it
    /// was leaving when the former service ended it may not have heard either: it is told, and knows
    /// whether it is out of it.
    fn leave_unnamed(&mut self, at: Instant, origin: Origin, reports: &[RegionReport]) {
        let id = origin.node;
        let named: BTreeSet<RegionId> = reports.iter().map(|report| report.region).collect();
        let deadline = at.after(self.drain_max);
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let leaves = |region| {
            node.departures
                .get(region)
                .is_some_and(|departure| departure.is_member())
        };
        // A private region is beside the one that it shares.
        let shared = reports
            .iter()
            .filter(|report| report.address.ip().is_multicast());
        let mut active = shared.filter(|report| is_active_in(origin, report));
        let placed = active.any(|report| !leaves(&report.region));
        let homes: Vec<RegionId> = node.homes().collect();
        for home in homes.into_iter().filter(|home| !named.contains(home)) {
            if let Some(region) = self.regions.get_mut(home)
                && !node.is_for(region, placed)
            {
                node.vacate(home);
                region.active -= 1;
                let departure = Departure::leave(region.next_view(), deadline);
                node.departures.insert(home, departure);
            }
        }
        let never_published = !node.published;
        let over = |region: &RegionId, departure: &Departure| match departure.is_member() {
            true => !named.contains(region) && !departure.inherited,
            false => never_published,
        };
        let departures = node.departures.iter();
        let over = departures.filter(|(region, departure)| over(region, departure));
        let over: Vec<RegionId> = over.map(|(region, _)| *region).collect();
        for region in over {
            node.depart(region, DepartureEvent::Drain);
            self.work.push(Work::Release { region, node: id });
        }
    }

    /// Only what the node says of views of this service counts from now on.
    fn mark_again(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let member_of: Vec<RegionId> = node.member_of().collect();
        for id in member_of {
            if let Some(region) = self.regions.get(id) {
                // The view that it is told next.
                let view = match region.inherited {
                    true => region.next_view(),
                    false => region.view,
                };
                node.absences.mark_anew(id, view);
            }
        }
    }

    /// Waits for senders that are not known here; returns those that are dead.
    fn sort_senders(&mut self, at: Instant, senders: &[Origin]) -> Vec<Origin> {
        let mut dead = Vec::new();
        for origin in senders.iter().copied() {
            if self.origin(origin.node) == Some(origin) {
                continue;
            }
            if self.nodes.contains_key(&origin.node) || self.has_ended(origin) {
                dead.push(origin);
            } else {
                self.miss_sender(at, origin);
            }
        }
        dead
    }

    /// This life has ended, here or elsewhere.
    pub(super) fn has_ended(&self, origin: Origin) -> bool {
        let last = [&self.ended, &self.dead_elsewhere];
        let last = last.into_iter().filter_map(|ended| ended.get(&origin.node));
        let before = |last: &Incarnation| origin.incarnation <= *last;
        last.max().is_some_and(before) || self.life(origin) == Life::Ending
    }
}

impl Node {
    /// Whether a region, in which it is, may have been made for the groups that it has: it may not
    /// have heard of that yet, and have entered others since. Who is `placed` in another one that it is
    /// not leaving has left it.
    fn is_for(&self, region: &Region, placed: bool) -> bool {
        let has = |group: &GroupId| self.groups.binary_search(group).is_ok();
        let wants = match region.merged {
            // It has a share of them (R-VIEW-16).
            true => region.groups.iter().any(has),
            false => !region.groups.is_empty() && region.groups.iter().all(has),
        };
        match region.private {
            true => region.groups.iter().all(has),
            false => self.aim.fits(region.signature) || !placed && wants,
        }
    }
}

/// The node is a member that is not leaving, by its own report.
pub(super) fn is_active_in(origin: Origin, report: &RegionReport) -> bool {
    let mut members = report.members.iter();
    members.any(|member| member.origin == origin && !member.leaving())
}
