use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_wire::membership::{GroupLifetime, MemberFilter, NOTHING_OWED_MAX, OriginDemand, Sender};
use qsm_wire::{ChannelId, GroupId, Origin, RegionId, ViewNumber};

use super::batch::BatchChanges;
use super::departures::PastDepartures;
use super::lacking::Lacking;
use super::served::{UNSERVED_RANGES_MAX, UNSERVED_RECEIVERS_MAX};
use super::table::RegionTable;
use super::{Region, RegionCx};
use crate::membership::Membership;
use crate::node::NodeState;
use crate::publication::Routes;
use crate::send::{BlockPool, PastStreams};
use crate::subscriptions::SubscriptionTable;
use crate::unconfirmed::UnconfirmedNumbers;
use crate::view::RegionView;
use crate::{Deliver, Event, FullReaders, Instant, Limits, UnconfirmedCause, UnservedCause};

/// All regions of a node, and what follows from them: where its messages go, what it delivers,
/// and what it has left behind. Updates of the membership service take effect here.
#[derive(Debug)]
pub(crate) struct RegionSet {
    pub(crate) table: RegionTable,
    pub(crate) routes: Routes,
    pub(crate) subscriptions: SubscriptionTable,
    pub(crate) pool: BlockPool,
    /// What was sent on channels that are not known any more.
    pub(crate) pasts: PastStreams,
    departures: PastDepartures,
    batch: BatchChanges,
}

impl RegionSet {
    /// No region, and so much memory for the streams that this node sends as the limits say.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            table: RegionTable::default(),
            routes: Routes::default(),
            subscriptions: SubscriptionTable::default(),
            pool: BlockPool::new(limits.send_bytes, limits.retention_bytes),
            pasts: PastStreams::default(),
            departures: PastDepartures::default(),
            batch: BatchChanges::default(),
        }
    }

    /// A region, and what its decisions may see.
    pub(crate) fn cx<'a>(
        &'a mut self,
        id: RegionId,
        node: &'a mut NodeState,
        membership: &'a mut Membership,
    ) -> Option<RegionCx<'a>> {
        Some(RegionCx {
            region: self.table.get_mut(id)?,
            node,
            membership,
            pool: &mut self.pool,
        })
    }

    pub(crate) fn for_each(
        &mut self,
        node: &mut NodeState,
        membership: &mut Membership,
        mut step: impl FnMut(&mut RegionCx<'_>),
    ) {
        for region in self.table.iter_mut() {
            step(&mut RegionCx {
                region,
                node: &mut *node,
                membership: &mut *membership,
                pool: &mut self.pool,
            });
        }
    }

    /// A region has these groups that concern this node.
    pub(crate) fn set_groups(
        &mut self,
        id: RegionId,
        groups: Vec<GroupId>,
        node: &mut NodeState,
        membership: &mut Membership,
    ) {
        match self.table.get(id) {
            Some(region) => {
                self.routes.replace(id, region.groups(), &groups);
                self.mark_groups(id, &groups);
                if let Some(mut cx) = self.cx(id, node, membership) {
                    cx.set_groups(groups);
                }
                self.note_away(id);
                self.batch.tell_anew(id);
            }
            None => {
                self.routes.replace(id, &[], &groups);
                self.batch.announce(id, groups);
            }
        }
    }

    /// A region's next view.
    pub(crate) fn take_view(
        &mut self,
        view: &Arc<RegionView>,
        node: &mut NodeState,
        membership: &mut Membership,
    ) {
        let id = view.region();
        self.table.push_view(view, node, &mut self.pasts);
        let groups = self.batch.take_announced(id);
        if let Some(groups) = &groups {
            self.mark_groups(id, groups);
        }
        let region = self.table.get(id);
        let left = region.and_then(|region| region.history().left());
        let departed = self.departures.done(id, left);
        let Some(mut cx) = self.cx(id, node, membership) else {
            return;
        };
        if let Some(groups) = groups {
            cx.set_groups(groups);
        }
        let unheard = cx.begin_view(view, departed);
        self.mark_view(id);
        self.note_away(id);
        self.report_unserved(id, node, membership);
        self.report_unheard(id, unheard, node, membership);
        if let Some(mut cx) = self.cx(id, node, membership) {
            cx.release_packets();
        }
        self.batch.touch(id);
    }

    /// Members of a region do not receive all of its groups. Rule R-VIEW-16.
    pub(crate) fn take_filters(
        &mut self,
        id: RegionId,
        whole: bool,
        members: Vec<MemberFilter>,
        node: &NodeState,
    ) {
        if whole {
            self.batch.note_filters(id);
        }
        if let Some(region) = self.table.get_mut(id) {
            region.take_filters(node.origin, whole, members);
        }
        self.note_away(id);
    }

    /// Messages of these groups of a region have a lifetime. Rule R-DATA-14.
    pub(crate) fn take_lifetimes(&mut self, now: Instant, id: RegionId, told: &[GroupLifetime]) {
        self.batch.note_lifetimes(id);
        if let Some(region) = self.table.get_mut(id) {
            region.set_lifetimes(now, told);
        }
    }

    /// No receiver of a region holds its senders below this rate. Rule R-RATE-10.
    pub(crate) fn take_minimum_rate(
        &mut self,
        now: Instant,
        id: RegionId,
        packets_per_second: u32,
    ) {
        self.batch.note_minimum_rate(id);
        if let Some(region) = self.table.get_mut(id) {
            region.set_minimum_rate(now, packets_per_second);
        }
    }

    /// Proof is demanded of what is sent to a region. Rule R-SEC-34.
    pub(crate) fn take_proof(&mut self, node: &NodeState, id: RegionId, demand: OriginDemand) {
        self.batch.note_proof(id);
        if let Some(region) = self.table.get_mut(id) {
            region.set_proof(node, Some(demand));
        }
    }

    /// Notes what members lack that have just gone away.
    fn note_away(&mut self, id: RegionId) {
        if let Some(region) = self.table.get_mut(id) {
            region.note_away(&self.routes);
        }
    }

    /// A node has died, which the views of its regions have shown before.
    pub(crate) fn note_death(
        &mut self,
        origin: Origin,
        node: &mut NodeState,
        membership: &Membership,
    ) {
        for id in self.table.ids() {
            if let Some(region) = self.table.get_mut(id) {
                region.sender_died(node.now, origin);
                region.receiver_died(origin);
            }
            self.report_unserved(id, node, membership);
        }
    }

    /// A sender that has said goodbye owes this node nothing.
    pub(crate) fn note_nothing_owed(&mut self, sender: Origin) {
        for region in self.table.iter_mut() {
            region.note_nothing_owed(sender);
        }
    }

    /// Members that are away and lack packets of this node, but in no region a message that they receive.
    /// Rule R-VIEW-16.
    pub(crate) fn owed_nothing(&self, me: Origin) -> Vec<Origin> {
        let regions = self.table.iter();
        let behind = regions.flat_map(|region| region.behind(me, &self.routes));
        let mut nothing: BTreeMap<Origin, bool> = BTreeMap::new();
        for (member, owed) in behind {
            *nothing.entry(member).or_insert(true) &= !owed;
        }
        let nothing = nothing.into_iter().filter(|(_, nothing)| *nothing);
        let members = nothing.map(|(member, _)| member);
        members.take(NOTHING_OWED_MAX).collect()
    }

    /// A member has given packets of this node up.
    pub(crate) fn note_question(
        &mut self,
        channel: ChannelId,
        asker: Origin,
        node: &mut NodeState,
        membership: &Membership,
    ) {
        let id = self.table.of_channel(channel);
        if let Some(region) = id.and_then(|id| self.table.get_mut(id)) {
            region.note_question(asker);
        }
        id.into_iter()
            .for_each(|id| self.report_unserved(id, node, membership));
    }

    /// A member has been told that this node has let go what it asks for.
    pub(crate) fn note_refusal(
        &mut self,
        id: RegionId,
        asker: Origin,
        node: &mut NodeState,
        membership: &Membership,
    ) {
        if let Some(region) = self.table.get_mut(id) {
            region.note_refusal(asker);
        }
        self.report_unserved(id, node, membership);
    }

    /// Receivers that are there and are not known to have messages of this node, region by region.
    pub(crate) fn lacking(&self, membership: &Membership, me: Origin) -> Vec<Lacking> {
        let name = |group| membership.group_name(group).map(Arc::from);
        let regions = self.table.iter();
        let lacking = regions.flat_map(|region| region.lacking(me, &self.routes, &name));
        lacking.collect()
    }

    /// Everybody who may send to a region that this node leaves has that view.
    pub(crate) fn settle(&mut self, id: RegionId, view: ViewNumber, senders: &[Sender]) {
        if let Some(region) = self.table.get_mut(id) {
            region.settle(view, senders);
            self.batch.touch(id);
        }
    }

    /// A region concerns this node no more.
    pub(crate) fn close(&mut self, id: RegionId, node: &mut NodeState, membership: &Membership) {
        if let Some(region) = self.table.get_mut(id) {
            region.end_serving(node.origin);
        }
        self.report_unserved(id, node, membership);
        self.report_unheard(id, Some(u64::MAX), node, membership);
        self.remove(id, node);
    }

    /// This node is about to say goodbye: tells of members that are away and lack something.
    pub(crate) fn leave_absent(&mut self, node: &mut NodeState, membership: &Membership) {
        for id in self.table.ids() {
            if let Some(region) = self.table.get_mut(id) {
                region.leave_absent(node.origin);
            }
            self.report_unserved(id, node, membership);
        }
    }

    /// All updates of a batch are in: subscriptions, addresses and deliveries follow, in this
    /// order (R-VIEW-3): a message of a new group must find its subscription.
    pub(crate) fn end_batch(
        &mut self,
        node: &mut NodeState,
        membership: &mut Membership,
        out: &mut dyn Deliver,
    ) {
        for id in self.batch.take_touched(&self.table) {
            let turn = self.table.next_turn();
            if let Some(mut cx) = self.cx(id, node, membership) {
                cx.follow_departure(turn);
            }
        }
        for id in self.batch.take_unfiltered() {
            if let Some(region) = self.table.get_mut(id) {
                region.clear_filters();
            }
        }
        for id in self.batch.take_lasting() {
            if let Some(region) = self.table.get_mut(id) {
                region.set_lifetimes(node.now, &[]);
            }
        }
        for id in self.batch.take_held() {
            if let Some(region) = self.table.get_mut(id) {
                region.set_minimum_rate(node.now, 0);
            }
        }
        for id in self.batch.take_unproven() {
            if let Some(region) = self.table.get_mut(id) {
                region.set_proof(node, None);
            }
        }
        self.table.note_moving();
        self.subscribe(node, membership);
        self.subscriptions.listen(&self.table, node);
        // Also in regions that are not touched: what was held may be free (R-VIEW-7).
        self.table.deliver_all(node, out);
    }

    /// The groups that are delivered follow the regions and the application's wishes.
    pub(crate) fn subscribe(&mut self, node: &mut NodeState, membership: &Membership) {
        self.subscriptions
            .subscribe(&mut self.table, membership, node);
    }

    /// The regions and streams of the life that has ended are void: tells what the streams still
    /// had. The groups had these names.
    pub(crate) fn end_life(&mut self, node: &mut NodeState, names: &BTreeMap<GroupId, Arc<str>>) {
        let mut numbers = UnconfirmedNumbers::default();
        for stream in self.table.iter().filter_map(Region::own_stream) {
            numbers.add(stream, u64::MAX, &self.routes);
        }
        let incarnation = node.origin.incarnation;
        let (events, cause) = (&mut node.events, UnconfirmedCause::NewLife);
        numbers.tell(events, incarnation, cause, |group| {
            names.get(&group).cloned()
        });
        for id in self.table.ids() {
            self.remove(id, node);
        }
        node.cursors.set_full(FullReaders::None);
        self.routes.forget_numbers();
        self.pasts.clear();
        self.departures.clear();
    }

    /// Makes the requests for repair that are due in all regions.
    pub(crate) fn make_requests(
        &mut self,
        node: &mut NodeState,
        membership: &mut Membership,
        out: &mut dyn Deliver,
    ) {
        let now = node.now;
        if now < node.requests_from {
            return;
        }
        self.resume_requests(node);
        let regions = self.table.iter();
        let due = regions.filter(|region| region.requests_due(now));
        let due: Vec<RegionId> = due.map(Region::id).collect();
        if due.is_empty() {
            return;
        }
        let mut asked = self.asked(node);
        for id in due {
            let Some(mut cx) = self.cx(id, node, membership) else {
                continue;
            };
            for sender in cx.make_requests(&mut asked, out) {
                self.table.deliver_waiting(node, id, sender, out);
            }
        }
    }

    /// Counts the packets that have been asked for in all regions and may still come.
    fn asked(&self, node: &NodeState) -> u64 {
        let (now, retry) = (node.now, node.retry());
        let streams = self.table.iter().flat_map(Region::streams);
        streams.map(|stream| stream.gaps().asked(now, retry)).sum()
    }

    /// Makes due what was put off because too much was asked for, as far as there is room again.
    fn resume_requests(&mut self, node: &mut NodeState) {
        if !node.request_window.has_opened() {
            return;
        }
        let mut room = node.request_window.room(self.asked(node));
        for region in self.table.iter_mut() {
            if room == 0 {
                break;
            }
            room = region.resume_requests(node.now, room);
        }
        node.request_window.resume(room == 0);
    }

    /// Nobody is left who could say that he has the packets of this region up to that one.
    fn report_unheard(
        &self,
        id: RegionId,
        upto: Option<u64>,
        node: &mut NodeState,
        membership: &Membership,
    ) {
        let region = self.table.get(id);
        let Some((stream, upto)) = region.and_then(Region::own_stream).zip(upto) else {
            return;
        };
        let mut numbers = UnconfirmedNumbers::default();
        numbers.add(stream, upto, &self.routes);
        let incarnation = node.origin.incarnation;
        let (events, cause) = (&mut node.events, UnconfirmedCause::NoReceivers);
        numbers.tell(events, incarnation, cause, |group| {
            membership.group_name(group).map(Arc::from)
        });
    }

    /// Tells of receivers that are not known to have everything, and do not get it from here any more.
    fn report_unserved(&mut self, id: RegionId, node: &mut NodeState, membership: &Membership) {
        let region = self.table.get_mut(id);
        let unserved = region.map(Region::take_unserved).unwrap_or_default();
        let Some(region) = self.table.get(id).filter(|it| it.own_stream().is_some()) else {
            return;
        };
        for one in unserved {
            for (receivers, numbers) in region.unserved_messages(&one, &self.routes) {
                tell_unserved(receivers, numbers, one.cause, node, membership);
            }
        }
    }

    fn remove(&mut self, id: RegionId, node: &mut NodeState) {
        self.batch.take_announced(id);
        let Some(mut region) = self.table.remove(id) else {
            return;
        };
        region.add_counters(&mut node.stats);
        self.routes.replace(id, region.groups(), &[]);
        if let Some(view) = region.reported_as_left() {
            self.departures.note(id, view);
        }
        region.release(node);
        node.copied -= region.recipients.len();
        if let Some(past) = region.end_sending(&mut self.pool) {
            self.pasts.keep(region.channel(), past);
        }
    }
}

/// Names messages to the application that these receivers are not known to have.
fn tell_unserved(
    mut receivers: Vec<Origin>,
    numbers: UnconfirmedNumbers,
    cause: UnservedCause,
    node: &mut NodeState,
    membership: &Membership,
) {
    let name = |group| membership.group_name(group).map(Arc::from);
    let (messages, messages_more) = numbers.ranges(UNSERVED_RANGES_MAX, name);
    let receivers_more = receivers.len().saturating_sub(UNSERVED_RECEIVERS_MAX) as u64;
    receivers.truncate(UNSERVED_RECEIVERS_MAX);
    if !messages.is_empty() {
        node.events.push(Event::Unserved {
            receivers,
            receivers_more,
            incarnation: node.origin.incarnation,
            messages,
            messages_more,
            cause,
        });
    }
}
