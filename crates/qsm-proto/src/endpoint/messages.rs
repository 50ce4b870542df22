//! Messages of the membership service, and what follows from them for streams and subscriptions.

use std::sync::Arc;

use qsm_wire::membership::{Answer, FromService, Role, Sender, Update};
use qsm_wire::{Body, GroupId, Header, Incarnation, Origin, RegionId, ViewNumber};

use super::Endpoint;
use crate::region::Region;
use crate::unconfirmed::UnconfirmedNumbers;
use crate::view::RegionView;
use crate::{Deliver, Event, Instant, Miss, UnconfirmedCause};

impl Endpoint {
    pub(super) fn on_membership(
        &mut self,
        header: &Header,
        body: &Body<'_>,
        out: &mut dyn Deliver,
    ) {
        let now = self.node.now;
        self.membership.handle(now, header, body);
        if let Some(round_trip) = self.membership.round_trip() {
            self.node.repairs.assume(round_trip);
        }
        self.pass_events_on();
        while let Some(message) = self.membership.poll_message(now) {
            self.take_message(message, out);
        }
        self.membership.handle_timeout(now, &mut self.node.outbox);
        self.pass_events_on();
    }

    /// What the membership client says of the service goes to the runtime.
    pub(super) fn pass_events_on(&mut self) {
        while let Some(event) = self.membership.poll_event() {
            self.node.events.push(event);
        }
    }

    fn take_message(&mut self, message: FromService, out: &mut dyn Deliver) {
        match message {
            FromService::Welcome { incarnation, .. } => self.welcome(incarnation, out),
            FromService::Batch { updates, .. } => {
                let fits = updates.into_iter().all(|update| self.take_update(update));
                self.batch_end(out);
                if !fits {
                    self.membership.start_over(self.node.now);
                }
            }
            FromService::Answer(answer) => {
                if let Some(changes) = self.membership.settle(&answer) {
                    let ended = changes.ended.into_iter();
                    ended.for_each(|group| self.routes.enter(group, false));
                    let granted = changes.granted.into_iter();
                    granted.for_each(|group| self.routes.enter(group, true));
                    self.take_answer(answer);
                }
            }
            // The membership client's own affair.
            _ => {}
        }
    }

    /// `false` when the update does not fit what is known.
    fn take_update(&mut self, update: Update) -> bool {
        match update {
            Update::Named { group, name } => {
                if self.membership.name_group(group, &name) {
                    self.former.recall(&mut self.node.cursors, group, &name);
                    // A publisher that is not confirmed is not told of all regions of the group.
                    let holds = self.membership.holds(Role::Publisher, &name);
                    self.routes.enter(group, holds);
                }
            }
            Update::Region {
                region,
                channel,
                address,
                groups,
            } => {
                let channel = (channel, address);
                self.membership.put_region(region, channel, &groups);
                self.region_groups(region, groups);
            }
            Update::View(step) => {
                let Some(view) = self.membership.next_view(step) else {
                    return false;
                };
                self.view(&view);
            }
            Update::Closed { region } => {
                if self.membership.close_region(region) {
                    self.report_unheard(region, Some(u64::MAX));
                    self.remove(region);
                }
            }
            Update::Dead { origin } => {
                self.membership.note_death(origin);
                let now = self.node.now;
                let regions = self.regions.iter_mut();
                regions.for_each(|region| region.sender_died(now, origin));
            }
            Update::Settled {
                region,
                view,
                senders,
            } => self.settled(region, view, &senders),
            Update::Sources { region, senders } => {
                if let Some(region) = self.regions.get_mut(region) {
                    let senders = senders.iter();
                    region.set_sources(senders.map(|sender| sender.address).collect());
                }
            }
            Update::Second { address, second } => {
                if self.membership.has_second() {
                    let event = Event::SecondAddress { address, second };
                    self.node.events.push(event);
                }
            }
            _ => return false,
        }
        true
    }

    /// Tells who asked; returns the number of the request.
    pub(super) fn take_answer(&mut self, answer: Answer) -> u32 {
        let request = answer.request;
        if self.subscriptions.end_exit(request) && answer.result.is_err() {
            self.subscribe();
        }
        self.node.events.push(Event::Answer(answer));
        request
    }

    /// Takes membership from somewhere else than the service: for nodes of a cluster whose
    /// membership never changes, or thousands in one process, which then share their views. Each
    /// view comes with the groups of its region that concern this node.
    pub fn install(
        &mut self,
        now: Instant,
        origin: Origin,
        views: &[(Arc<RegionView>, Vec<GroupId>)],
        out: &mut dyn Deliver,
    ) {
        self.advance(now);
        self.admitted(origin, true);
        for (view, groups) in views {
            self.region_groups(view.region(), groups.clone());
            self.view(view);
        }
        self.batch_end(out);
    }

    /// This node may publish to these groups; after [`Endpoint::install`], where nobody confirms
    /// a role.
    pub fn install_publisher(&mut self, groups: impl IntoIterator<Item = GroupId>) {
        for group in groups {
            self.routes.enter(group, true);
        }
    }

    fn welcome(&mut self, incarnation: Incarnation, out: &mut dyn Deliver) {
        let former = self.node.origin.incarnation;
        let fresh = incarnation != former;
        if fresh && former != Incarnation(0) {
            self.node.events.push(Event::Excluded);
            out.miss(Miss::Life {
                incarnation: former,
            });
        }
        let origin = Origin {
            incarnation,
            ..self.node.origin
        };
        self.admitted(origin, fresh);
    }

    /// A new life begins with nothing: the views, streams and numbers of the last one are void.
    fn admitted(&mut self, origin: Origin, fresh: bool) {
        if fresh {
            self.report_former_life();
            for id in self.regions.ids() {
                self.remove(id);
            }
            self.routes.forget_numbers();
            self.pasts.clear();
            self.departures.clear();
            let wants = |name: &str| self.membership.wants(Role::Subscriber, name);
            self.subscriptions.begin_life(wants);
        }
        self.node.origin = origin;
        self.node.events.push(Event::Admitted {
            incarnation: origin.incarnation,
        });
    }

    /// The streams of the life that has ended are void: tells what they still had, and remembers
    /// where other senders stood.
    fn report_former_life(&mut self) {
        let names = self.membership.take_former_names();
        let mut numbers = UnconfirmedNumbers::default();
        for stream in self.regions.iter().filter_map(Region::own_stream) {
            numbers.add(stream, u64::MAX, &self.routes);
        }
        let incarnation = self.node.origin.incarnation;
        let (events, cause) = (&mut self.node.events, UnconfirmedCause::NewLife);
        numbers.tell(events, incarnation, cause, |group| {
            names.get(&group).cloned()
        });
        self.former.begin_life(&mut self.node.cursors, &names);
    }

    /// Nobody is left who could say that he has the packets of this region up to that one.
    fn report_unheard(&mut self, id: RegionId, upto: Option<u64>) {
        let region = self.regions.get(id);
        let Some((stream, upto)) = region.and_then(Region::own_stream).zip(upto) else {
            return;
        };
        let mut numbers = UnconfirmedNumbers::default();
        numbers.add(stream, upto, &self.routes);
        let incarnation = self.node.origin.incarnation;
        let (events, cause) = (&mut self.node.events, UnconfirmedCause::NoReceivers);
        numbers.tell(events, incarnation, cause, |group| {
            self.membership.group_name(group).map(Arc::from)
        });
    }

    fn region_groups(&mut self, id: RegionId, groups: Vec<GroupId>) {
        match self.regions.get(id) {
            Some(region) => {
                self.routes.replace(id, region.groups(), &groups);
                if let Some(mut cx) = self.region(id) {
                    cx.set_groups(groups);
                }
            }
            None => {
                self.routes.replace(id, &[], &groups);
                self.batch.announce(id, groups);
            }
        }
    }

    fn view(&mut self, view: &Arc<RegionView>) {
        let id = view.region();
        self.regions.push_view(view, &self.node, &mut self.pasts);
        let groups = self.batch.take_announced(id);
        let left = self
            .regions
            .get(id)
            .and_then(|region| region.history().left());
        let departed = self.departures.done(id, left);
        let Some(mut cx) = self.region(id) else {
            return;
        };
        if let Some(groups) = groups {
            cx.set_groups(groups);
        }
        let unheard = cx.begin_view(view, departed);
        self.report_unheard(id, unheard);
        if let Some(mut cx) = self.region(id) {
            cx.release_packets();
        }
        self.batch.touch(id);
    }

    fn settled(&mut self, id: RegionId, view: ViewNumber, senders: &[Sender]) {
        if let Some(region) = self.regions.get_mut(id) {
            region.settle(view, senders);
            self.batch.touch(id);
        }
    }

    fn remove(&mut self, id: RegionId) {
        self.batch.take_announced(id);
        let Some(mut region) = self.regions.remove(id) else {
            return;
        };
        region.add_counters(&mut self.node.stats);
        self.routes.replace(id, region.groups(), &[]);
        if let Some(view) = region.told_to_have_left() {
            self.departures.note(id, view);
        }
        region.release(&mut self.node);
        if let Some(past) = region.end_sending(&mut self.pool) {
            self.pasts.keep(region.channel(), past);
        }
    }

    /// All updates of a batch are in: subscriptions, addresses and deliveries follow, in this
    /// order (R-VIEW-3): a message of a new group must find its subscription.
    fn batch_end(&mut self, out: &mut dyn Deliver) {
        for id in self.batch.take_touched(&self.regions) {
            let turn = self.regions.next_turn();
            if let Some(mut cx) = self.region(id) {
                cx.follow_departure(turn);
            }
        }
        self.regions.note_moving();
        self.subscribe();
        self.subscriptions.listen(&self.regions, &mut self.node);
        // Also in regions that are not touched: what was held may be free (R-VIEW-7).
        self.regions.deliver_all(&mut self.node, out);
    }

    /// The groups that are delivered follow the regions and the application's wishes.
    pub(super) fn subscribe(&mut self) {
        self.subscriptions
            .subscribe(&mut self.regions, &self.membership, &mut self.node);
    }
}
