//! Messages of the membership service, and what follows from them for streams and subscriptions.

use std::sync::Arc;

use qsm_wire::membership::{Answer, FromService, Role, Update};
use qsm_wire::{Body, GroupId, Header, Incarnation, Origin};

use super::Endpoint;
use crate::view::RegionView;
use crate::{Deliver, Event, Instant, Miss};

impl Endpoint {
    pub(super) fn on_membership(
        &mut self,
        header: &Header,
        body: &Body<'_>,
        out: &mut dyn Deliver,
    ) {
        if matches!(body, Body::Admission(_)) {
            // The cluster takes tokens: sockets with an identity keep these to themselves (R-SEC-12).
            self.node.stats.discard_sealed += 1;
            return;
        }
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

    /// Hands the membership client's word on the service to the runtime.
    pub(super) fn pass_events_on(&mut self) {
        while let Some(event) = self.membership.poll_event() {
            self.node.events.push(event);
        }
    }

    fn take_message(&mut self, message: FromService, out: &mut dyn Deliver) {
        match message {
            FromService::Welcome {
                incarnation,
                expelled,
                ..
            } => {
                if expelled {
                    self.node.events.push(Event::Expelled);
                }
                self.welcome(incarnation, out);
            }
            FromService::Batch { updates, .. } => {
                let fits = updates
                    .into_iter()
                    .all(|update| self.take_update(update, out));
                self.regions
                    .end_batch(&mut self.node, &mut self.membership, out);
                if !fits {
                    self.membership.start_over(self.node.now);
                }
            }
            FromService::Answer(answer) => {
                if let Some(changes) = self.membership.settle(&answer) {
                    let ended = changes.ended.into_iter();
                    ended.for_each(|group| self.regions.routes.enter(group, false));
                    let granted = changes.granted.into_iter();
                    granted.for_each(|group| self.regions.routes.enter(group, true));
                    self.take_answer(answer);
                }
            }
            // The membership client's own affair.
            _ => {}
        }
    }

    /// `false` when the update does not fit what is known.
    fn take_update(&mut self, update: Update, out: &mut dyn Deliver) -> bool {
        match update {
            Update::Named { group, name } => {
                if self.membership.name_group(group, &name) {
                    out.name_group(group, &name);
                    self.former.recall(&mut self.node.cursors, group, &name);
                    self.wishes.bind(&mut self.node.cursors, group, &name);
                    // A publisher that is not confirmed is not told of all regions of the group.
                    let holds = self.membership.holds(Role::Publisher, &name);
                    self.regions.routes.enter(group, holds);
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
                self.regions
                    .set_groups(region, groups, &mut self.node, &mut self.membership);
            }
            Update::View(step) => {
                let Some(view) = self.membership.next_view(step) else {
                    return false;
                };
                self.peers.clear();
                self.regions
                    .take_view(&view, &mut self.node, &mut self.membership);
            }
            Update::Closed { region } => {
                if self.membership.close_region(region) {
                    self.regions.close(region, &mut self.node, &self.membership);
                }
            }
            Update::Dead { .. } | Update::NothingOwed { .. } => self.take_end(&update),
            Update::Settled {
                region,
                view,
                senders,
            } => self.regions.settle(region, view, &senders),
            Update::Sources { region, senders } => {
                if let Some(region) = self.regions.table.get_mut(region) {
                    let senders = senders.iter();
                    region.set_sources(senders.map(|sender| sender.address).collect());
                }
            }
            Update::Filters {
                region,
                whole,
                members,
            } => {
                self.membership.note_merged(region);
                self.regions
                    .take_filters(region, whole, members, &self.node);
            }
            Update::Repairs { told } => {
                self.membership.note_repair_limit(told);
                self.node.limit_repairs(told.limit);
            }
            Update::Second { address, second } => {
                if self.membership.has_second() {
                    let event = Event::SecondAddress { address, second };
                    self.node.events.push(event);
                }
            }
            terms => return self.take_terms(terms),
        }
        true
    }

    /// Takes the end of a life, and what its last word was.
    fn take_end(&mut self, update: &Update) {
        match update {
            Update::NothingOwed { origin } => {
                self.membership.note_nothing_owed(*origin);
                self.regions.note_nothing_owed(*origin);
            }
            Update::Dead { origin } => {
                self.membership.note_death(*origin);
                self.regions
                    .note_death(*origin, &mut self.node, &self.membership);
            }
            _ => {}
        }
    }

    /// Takes what the operator wants in a region; `false` when it is something else.
    fn take_terms(&mut self, update: Update) -> bool {
        let now = self.node.now;
        match update {
            Update::Lifetimes { region, groups } => {
                self.regions.take_lifetimes(now, region, &groups);
            }
            Update::MinimumRate {
                region,
                packets_per_second: rate,
            } => self.regions.take_minimum_rate(now, region, rate),
            Update::Proof { region, demand } => {
                self.regions.take_proof(&self.node, region, demand);
            }
            Update::Signers { region, signers } => {
                if let Some(region) = self.regions.table.get_mut(region) {
                    region.take_signers(&self.node, &signers);
                }
            }
            _ => return false,
        }
        true
    }

    /// Tells who asked; returns the number of the request.
    pub(super) fn take_answer(&mut self, answer: Answer) -> u32 {
        let request = answer.request;
        if self.regions.subscriptions.end_exit(request) && answer.result.is_err() {
            self.regions.subscribe(&mut self.node, &self.membership);
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
            let groups = groups.clone();
            self.regions
                .set_groups(view.region(), groups, &mut self.node, &mut self.membership);
            self.regions
                .take_view(view, &mut self.node, &mut self.membership);
        }
        self.regions
            .end_batch(&mut self.node, &mut self.membership, out);
    }

    /// This node may publish to these groups; after [`Endpoint::install`], where nobody confirms
    /// a role.
    pub fn install_publisher(&mut self, groups: impl IntoIterator<Item = GroupId>) {
        for group in groups {
            self.regions.routes.enter(group, true);
        }
    }

    /// No receiver holds this node's streams below this rate, packets per second (R-RATE-10); after
    /// [`Endpoint::install`], where no service says it. 0: receivers hold them.
    pub fn install_minimum_rate(&mut self, now: Instant, packets_per_second: u32) {
        for id in self.regions.table.ids() {
            self.regions.take_minimum_rate(now, id, packets_per_second);
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
        self.introduce();
    }

    /// A new life begins with nothing: the views, streams and numbers of the last one are void.
    fn admitted(&mut self, origin: Origin, fresh: bool) {
        if fresh {
            let names = self.membership.take_former_names();
            self.regions.end_life(&mut self.node, &names);
            self.former.begin_life(&mut self.node.cursors, &names);
            let wants = |name: &str| self.membership.wants(Role::Subscriber, name);
            self.regions.subscriptions.begin_life(wants);
        }
        self.node.origin = origin;
        self.node.events.push(Event::Admitted {
            incarnation: origin.incarnation,
        });
    }
}
