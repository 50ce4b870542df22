use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use qsm_proto::Instant;
use qsm_wire::membership::{Member, Sender, Update, ViewStep};
use qsm_wire::{GroupId, NodeId, Origin, RegionId, ViewNumber};

use super::departure::{DepartureEvent, DepartureState};
use super::draft::{DeathAudience, Draft};
use super::life::LifeEvent;
use super::transition::State;
use super::work::{Stage, Work};
use super::{Node, Registry};

/// Nodes whose last ended life is remembered; of others everybody is told again.
const ENDED_MAX: usize = 1 << 16;

/// What a batch means for the nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Batch {
    /// Its number among all batches of the service, from 1.
    pub(crate) number: u64,
    /// What each node concerned has to be told, in the order in which to tell it.
    pub(crate) updates: BTreeMap<NodeId, Vec<Update>>,
    /// Requests that have been carried out.
    pub(crate) done: Vec<(NodeId, u32)>,
    /// Nodes that were away and are live again.
    pub(crate) back: Vec<Origin>,
    /// Nodes of which it is waited for that they have all that they have been told, whether this batch
    /// tells them anything or not.
    pub(crate) awaited: BTreeSet<NodeId>,
}

impl Registry {
    /// Applies everything that is pending, at once (R040).
    pub(super) fn batch(&mut self, now: Instant) -> Batch {
        let mut draft = Draft::default();
        self.batch += 1;
        self.stats.batches += 1;
        while let Some(work) = self.work.next(Stage::Members) {
            self.change_members(now, work, &mut draft);
        }
        self.place(now, &mut draft);
        let views = self.make_views(now, &mut draft);
        while let Some(Work::AwaitView { region, view }) = self.work.next(Stage::Views) {
            self.await_view(region, view, &mut draft);
        }
        let concerned = self.inform(now, &mut draft, &views);
        self.tell_sources(&concerned, &mut draft);
        self.tell_filters(&mut draft);
        self.tell_terms(&mut draft);
        self.tell_signers(&concerned, &mut draft);
        self.tell_deaths(&mut draft);
        while let Some(Work::Settle { region, view }) = self.work.next(Stage::Messages) {
            if !self.holds_settled(now, region, view) {
                self.tell_settled(region, view, &mut draft);
            }
        }
        self.groups.free_idle(now);
        for id in core::mem::take(&mut draft.resynced) {
            if draft.is_silent_to(id) {
                // It has said that it knows all there is to know.
                self.confirm(id, u64::MAX);
            }
        }
        let updates = draft.updates.into_iter();
        let updates = updates.map(|(node, updates)| (node, updates.into_updates()));
        let updates = updates.filter(|(_, updates)| !updates.is_empty());
        let updates = updates.map(|(node, updates)| {
            let seconds = self.seconds_for(node, &updates).into_iter();
            (node, seconds.chain(updates).collect())
        });
        Batch {
            number: self.batch,
            updates: updates.collect(),
            done: draft.done,
            back: draft.back,
            awaited: draft.awaited,
        }
    }

    /// One piece of work that changes who is a member of what, or what a node knows.
    fn change_members(&mut self, now: Instant, work: Work, draft: &mut Draft) {
        match work {
            Work::Resync { node } => self.resync(now, node, draft),
            Work::Announce { origin } => {
                draft.deaths.insert(origin, DeathAudience::Everybody);
            }
            Work::DropMember { region, member } => {
                draft.change(region).removed.insert(member);
                draft.deaths.insert(member, DeathAudience::Everybody);
            }
            Work::RenewView { region } => {
                draft.change(region);
                let groups = self
                    .regions
                    .get(region)
                    .map(|entry| Arc::clone(&entry.groups));
                self.check_audience(region, &groups.unwrap_or_default(), draft);
            }
            Work::MarkLeaving { region, member } => {
                draft.change(region).leaving.insert(member);
            }
            Work::RenewMember { region, member } => {
                draft.change(region).renewed.insert(member);
            }
            Work::Return { node } => self.end_absence(now, node, draft),
            Work::TellSecond { node } => self.tell_second(node, draft),
            Work::LimitRepairs { node } => self.tell_repair_limit(node, draft),
            Work::RemoveNode { node } => self.remove_node(node, draft),
            Work::Release { region, node } => self.release(region, node, draft),
            Work::Place { node } => draft.placing.push(node),
            // Of later stages.
            Work::AwaitView { .. } | Work::Settle { .. } => {}
        }
    }

    fn end_absence(&mut self, now: Instant, id: NodeId, draft: &mut Draft) {
        if let Some(node) = self.nodes.get_mut(&id)
            && node.absences.end(now)
        {
            draft.back.push(node.origin);
            self.stats.returned += 1;
            // What others did meanwhile has not moved it.
            self.work.push(Work::Place { node: id });
        }
    }

    /// A node with a new session knows what it says it knows, and nothing else.
    fn resync(&mut self, now: Instant, id: NodeId, draft: &mut Draft) {
        self.complete_regions(now, id, draft);
        self.limit_newcomer(id);
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        node.life.advance(LifeEvent::Tell);
        draft.resynced.push(id);
        let reported = core::mem::take(&mut node.reported);
        let concerned = node.concerned.iter().copied();
        let mut regions: BTreeSet<RegionId> = node.member_of().chain(concerned).collect();
        for group in &node.publishes {
            if let Some(group) = self.groups.get(*group) {
                regions.extend(&group.regions);
            }
        }
        regions.extend(reported.views.keys());
        for region in regions {
            let Some(entry) = self.regions.get_mut(region) else {
                let closed = Update::Closed { region };
                draft.updates_of(id).closed.push(closed);
                continue;
            };
            let known = entry.audience.entry(id).or_default();
            known.list = None;
            known.sources = 0;
            known.signers = 0;
            known.view = match reported.views.get(&region) {
                Some(view) if *view == entry.view => *view,
                _ => ViewNumber(0),
            };
            node.concerned.insert(region);
            draft.checks.insert((region, id));
        }
        let dead = reported.dead.into_iter();
        let member = node.origin;
        let ends = dead.flat_map(|origin| self.last_words.end(origin, member));
        draft.updates_of(id).dead.extend(ends);
        for (region, departure) in &node.departures {
            if departure.state == DepartureState::Settled {
                let (region, view) = (*region, departure.view);
                self.work.push(Work::Settle { region, view });
            }
        }
    }

    /// Takes an ended life out of everything.
    fn remove_node(&mut self, id: NodeId, draft: &mut Draft) {
        self.aim_at_nothing(id);
        let Some(mut node) = self.nodes.remove(&id) else {
            return;
        };
        node.life.advance(LifeEvent::Remove);
        self.remember(node.origin);
        for region in &node.concerned {
            if let Some(region) = self.regions.get_mut(*region) {
                region.audience.remove(&id);
            }
        }
        let member_of = node.member_of();
        let member_of = member_of.filter_map(|id| self.regions.get(id));
        let knew = member_of.flat_map(|region| region.audience.keys().copied());
        let knew = knew.collect();
        for home in node.homes() {
            if let Some(region) = self.regions.get_mut(home) {
                region.active -= 1;
            }
        }
        for region in node.member_of() {
            draft.change(region).removed.insert(node.origin);
        }
        self.confirm(id, u64::MAX);
        self.release_roles(&node);
        let audience = match node.unreported {
            true => DeathAudience::Everybody,
            false => DeathAudience::Concerned {
                streams: node.streams,
                knew,
            },
        };
        draft.deaths.insert(node.origin, audience);
    }

    fn remember(&mut self, origin: Origin) {
        self.ended.insert(origin.node, origin.incarnation);
        if self.ended.len() > ENDED_MAX {
            self.ended.pop_first();
        }
    }

    pub(super) fn release_roles(&mut self, node: &Node) {
        for group in &node.publishes {
            if let Some(group) = self.groups.get_mut(*group) {
                group.publishers.remove(&node.origin.node);
            }
        }
        let pending = node
            .pending
            .subscribe
            .keys()
            .chain(node.pending.publish.keys());
        let held = node.groups.iter().chain(&node.publishes);
        for group in held.chain(pending) {
            self.groups.release(*group);
        }
    }

    /// Takes out a member that has drained, which may be what it waited for; and lets a former
    /// publisher go.
    fn release(&mut self, region: RegionId, id: NodeId, draft: &mut Draft) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let Some(departure) = node.departures.get(&region).copied() else {
            return;
        };
        draft.checks.insert((region, id));
        if !departure.is_member() {
            return;
        }
        node.depart(region, DepartureEvent::Remove);
        node.absences.unmark(region);
        draft.change(region).removed.insert(node.origin);
        if core::mem::take(&mut node.blocked) {
            self.work.push(Work::Place { node: id });
        }
    }

    /// Makes the new views; returns each as a difference. Regions without members are closed.
    fn make_views(&mut self, now: Instant, draft: &mut Draft) -> BTreeMap<RegionId, ViewStep> {
        let mut views = BTreeMap::new();
        for (id, change) in core::mem::take(&mut draft.changes) {
            let Some(region) = self.regions.get_mut(id) else {
                continue;
            };
            let base = region.view;
            let view = region.next_view();
            let gone = |member: &Member| change.removed.contains(&member.origin);
            region.members.retain(|member| !gone(member));
            let leaves = |member: &&mut Member| change.leaving.contains(&member.origin);
            for member in region.members.iter_mut().filter(leaves) {
                member.left.get_or_insert(view);
            }
            let changed = renew_members(&self.nodes, id, &mut region.members, &change.renewed);
            region.members.extend(change.added.iter().copied());
            region.forget_stays();
            // As everybody orders them.
            region.members.sort_by_key(Member::is_away);
            if region.members.is_empty() {
                self.close(now, id, draft);
                continue;
            }
            region.view = view;
            region.inherited = false;
            region.note_deserted();
            self.stats.views += 1;
            if !change.leaving.is_empty() {
                let audience = region.audience.keys().copied().collect();
                let batch = self.batch;
                self.confirmations.open(id, region.view, batch, audience);
            }
            let step = ViewStep {
                region: id,
                view: region.view,
                base,
                removed: change.removed.into_iter().collect(),
                leaving: change.leaving.into_iter().collect(),
                changed,
                added: change.added,
            };
            views.insert(id, step);
        }
        views
    }

    fn close(&mut self, now: Instant, id: RegionId, draft: &mut Draft) {
        let Some(region) = self.regions.remove(now, id) else {
            return;
        };
        self.clusters.close(id);
        self.stats.regions_closed += 1;
        self.stats.group_touches += count(&region.groups);
        for group in region.groups.iter() {
            self.groups.unlink(*group, id);
        }
        for node in region.audience.keys() {
            if let Some(node) = self.nodes.get_mut(node) {
                node.concerned.remove(&id);
                node.departures.remove(&id);
                node.absences.unmark(id);
            }
            let closed = Update::Closed { region: id };
            draft.updates_of(*node).closed.push(closed);
        }
    }

    /// After a restart it is not known who has the views that marked members as leaving; all are
    /// told of them now, or have been.
    fn await_view(&mut self, id: RegionId, view: ViewNumber, draft: &mut Draft) {
        if let Some(region) = self.regions.get(id) {
            let audience: BTreeSet<NodeId> = region.audience.keys().copied().collect();
            draft.awaited.extend(&audience);
            let batch = self.batch;
            self.confirmations.open(id, view, batch, audience);
        }
    }

    /// Tells leaving members that nobody sends to them any more.
    fn tell_settled(&mut self, id: RegionId, view: ViewNumber, draft: &mut Draft) {
        let Some(region) = self.regions.get(id) else {
            return;
        };
        let mut leavers = Vec::new();
        for member in region.members.iter().filter(|member| member.leaving()) {
            let node = self.nodes.get_mut(&member.origin.node);
            let departure = node.and_then(|node| node.departures.get_mut(&id));
            let departure = departure.filter(|departure| departure.is_member());
            if let Some(departure) = departure.filter(|departure| departure.view == view) {
                departure.state.advance(DepartureEvent::Settle);
                leavers.push(member.origin.node);
            }
        }
        if leavers.is_empty() {
            return;
        }
        let nodes = region.audience.keys().filter_map(|id| self.nodes.get(id));
        // A member may have given up the role and still have something on its way.
        let senders = nodes.filter(|node| node.published).map(Node::as_sender);
        let senders: Vec<Sender> = senders.collect();
        self.note_left(id, leavers.iter());
        for node in leavers {
            draft.updates_of(node).settled.push(Update::Settled {
                region: id,
                view,
                senders: senders.clone(),
            });
        }
    }

    fn tell_deaths(&self, draft: &mut Draft) {
        for (origin, audience) in core::mem::take(&mut draft.deaths) {
            let told: BTreeSet<NodeId> = match audience {
                DeathAudience::Everybody => self.nodes.keys().copied().collect(),
                DeathAudience::Concerned { streams, mut knew } => {
                    let regions = streams.iter().filter_map(|id| self.regions.get(*id));
                    let members = regions.flat_map(|region| &region.members);
                    knew.extend(members.map(|member| member.origin.node));
                    knew
                }
            };
            for node in told.into_iter().filter_map(|id| self.nodes.get(&id)) {
                let ends = self.last_words.end(origin, node.origin);
                draft.updates_of(node.origin.node).dead.extend(ends);
            }
        }
    }
}

/// Makes these members' entries anew from what is known of their nodes; returns those that differ.
fn renew_members(
    nodes: &BTreeMap<NodeId, Node>,
    region: RegionId,
    members: &mut [Member],
    renewed: &BTreeSet<Origin>,
) -> Vec<Member> {
    let mut changed = Vec::new();
    let renewed = |member: &&mut Member| renewed.contains(&member.origin);
    for member in members.iter_mut().filter(renewed) {
        let node = nodes.get(&member.origin.node);
        let Some(node) = node.filter(|node| node.origin == member.origin) else {
            continue;
        };
        let entry = Member {
            address: node.address,
            away: node.absences.reason_in(region),
            ..*member
        };
        if entry != *member {
            *member = entry;
            changed.push(entry);
        }
    }
    changed
}

pub(super) fn count(groups: &[GroupId]) -> u64 {
    u64::try_from(groups.len()).unwrap_or(u64::MAX)
}
