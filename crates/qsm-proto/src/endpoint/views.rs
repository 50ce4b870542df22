//! What the membership service says, and what follows from it for streams and subscriptions.

use std::sync::Arc;

use qsm_wire::membership::{Role, Sender};
use qsm_wire::{GroupId, Origin, RegionId, ViewNumber};

use super::Endpoint;
use crate::membership::Change;
use crate::region::Region;
use crate::view::RegionView;
use crate::{Deliver, Event, Instant, Miss};

impl Endpoint {
    /// Takes over all changes that the membership client has ready.
    pub(super) fn take_changes(&mut self, out: &mut dyn Deliver) {
        while let Some(change) = self.membership.poll_change() {
            self.take_change(change, out);
        }
    }

    /// Takes changes of membership from somewhere else than the service: nodes of a cluster
    /// whose membership never changes, or thousands in one process, which then share their views.
    pub fn install(
        &mut self,
        now: Instant,
        changes: impl IntoIterator<Item = Change>,
        out: &mut dyn Deliver,
    ) {
        self.advance(now);
        for change in changes {
            // Nobody will confirm a role.
            let granted = match &change {
                Change::Named { group, name } => {
                    Some(*group).filter(|_| self.membership.wants(Role::Publisher, name))
                }
                _ => None,
            };
            self.take_change(change, out);
            if let Some(group) = granted {
                self.routes.enter(group, true);
            }
        }
    }

    fn take_change(&mut self, change: Change, out: &mut dyn Deliver) {
        match change {
            Change::Admitted { origin, fresh } => self.admitted(origin, fresh),
            Change::Region { region, groups, .. } => self.region_groups(region, groups),
            Change::View(view) => self.view(&view),
            Change::Closed { region } => {
                self.report_unheard(region, Some(u64::MAX));
                self.remove(region);
            }
            Change::Settled {
                region,
                view,
                senders,
            } => self.settled(region, view, &senders),
            Change::Dead { origin } => {
                let now = self.node.now;
                let regions = self.regions.iter_mut();
                regions.for_each(|region| region.sender_died(now, origin));
            }
            Change::BatchEnd => self.batch_end(out),
            Change::Excluded => {
                self.node.events.push(Event::Excluded);
                let incarnation = self.node.origin.incarnation;
                out.miss(Miss::Life { incarnation });
            }
            Change::Named { group, name } => {
                self.recall(group, &name);
                // A publisher that is not confirmed is not told of all regions of the group.
                self.routes
                    .enter(group, self.membership.holds(Role::Publisher, &name));
            }
            Change::Unnamed { group, .. } => self.routes.enter(group, false),
            Change::Answer(answer) => self.answered(answer),
            Change::ServiceLost => self.node.events.push(Event::ServiceLost),
            Change::Sources { region, senders } => {
                if let Some(region) = self.regions.get_mut(region) {
                    let senders = senders.iter();
                    region.set_sources(senders.map(|sender| sender.address).collect());
                }
            }
            Change::Second { address, second } => {
                self.node
                    .events
                    .push(Event::SecondAddress { address, second });
            }
            Change::ServiceFound { address } => {
                self.node.events.push(Event::ServiceFound { address });
            }
            Change::ServiceMissing => self.node.events.push(Event::ServiceMissing),
        }
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
                self.announced.insert(id, groups);
            }
        }
    }

    fn view(&mut self, view: &Arc<RegionView>) {
        let id = view.region();
        let (node, pasts) = (&self.node, &mut self.pasts);
        self.regions.push_view(view, || {
            let mut region = Region::new(&node.config, node.origin, view.clone());
            // Numbers go on where they ended.
            if let Some(past) = pasts.take(view.channel()) {
                region.resume(node, past);
            }
            region
        });
        let groups = self.announced.remove(&id);
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
        self.touched.insert(id);
    }

    fn settled(&mut self, id: RegionId, view: ViewNumber, senders: &[Sender]) {
        if let Some(region) = self.regions.get_mut(id) {
            region.settle(view, senders);
            self.touched.insert(id);
        }
    }

    fn remove(&mut self, id: RegionId) {
        self.announced.remove(&id);
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
        for id in self.take_touched() {
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

    /// The regions that a batch has changed. Of two that it shows as left, the one that this node
    /// has received in was left first: of the other it did not even hear in time.
    fn take_touched(&mut self) -> Vec<RegionId> {
        let mut touched: Vec<RegionId> = core::mem::take(&mut self.touched).into_iter().collect();
        touched.sort_by_key(|id| {
            let region = self.regions.get(*id);
            !region.is_some_and(|region| region.history().has_received())
        });
        touched
    }

    /// The groups that are delivered follow the regions and the application's wishes.
    pub(super) fn subscribe(&mut self) {
        self.subscriptions
            .subscribe(&mut self.regions, &self.membership, &mut self.node);
    }
}
