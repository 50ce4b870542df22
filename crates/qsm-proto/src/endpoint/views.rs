//! What the membership service says, and what follows from it for streams and subscriptions.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_wire::membership::{Role, Sender};
use qsm_wire::{GroupId, Origin, RegionId, StreamId, ViewNumber};

use super::Endpoint;
use super::tokens::add_counters;
use crate::membership::Change;
use crate::region::{Leaving, Region, Settled};
use crate::send::{SendConfig, SendStream};
use crate::sources::is_source_specific;
use crate::view::RegionView;
use crate::{Deliver, Event, Instant, Miss};

/// How long a leaving node waits without any token before it trusts that no stream is unknown.
const QUIET: core::time::Duration = core::time::Duration::from_millis(300);

impl Endpoint {
    /// Takes over all changes that the membership client has ready.
    pub(super) fn take_changes(&mut self, now: Instant, out: &mut dyn Deliver) {
        while let Some(change) = self.membership.poll_change() {
            self.take_change(now, change, out);
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
        let now = self.advance(now);
        for change in changes {
            // Nobody will confirm a role.
            let granted = match &change {
                Change::Named { group, name } => {
                    Some(*group).filter(|_| self.membership.wants(Role::Publisher, name))
                }
                _ => None,
            };
            self.take_change(now, change, out);
            if let Some(group) = granted {
                self.routes.enter(group, true);
            }
        }
    }

    /// Tells the membership service of regions that this node has left and has everything of.
    /// Rule R-VIEW-5.
    pub(super) fn leave_drained(&mut self, now: Instant) {
        for (id, region) in &mut self.regions {
            if !region.drained(now, QUIET) {
                continue;
            }
            if let Some(leaving) = region.leaving.as_mut().filter(|leaving| !leaving.told) {
                leaving.told = true;
                self.membership
                    .drained(now, *id, leaving.view, &mut self.core.outbox);
            }
        }
    }

    /// Tells the membership service of regions that do not concern this node any more and have
    /// all that it has sent there. Rule R-VIEW-10.
    pub(super) fn part(&mut self, now: Instant) {
        for (id, region) in &mut self.regions {
            if region.can_part() {
                region.parted = true;
                let view = region.history.newest().number();
                self.membership
                    .drained(now, *id, view, &mut self.core.outbox);
            }
        }
    }

    /// When [`Endpoint::leave_drained`] has something to do. Never while streams are not drained:
    /// only a datagram can change that, and it is asked again after each.
    pub(super) fn leave_timeout(&self) -> Option<Instant> {
        let regions = self.regions.values();
        let parting = regions.clone().any(Region::can_part);
        let drained = regions.filter(|region| region.drained(Instant::NEVER, QUIET));
        drained
            .filter_map(|region| region.leaving.as_ref())
            .filter(|leaving| !leaving.told)
            .map(|leaving| match leaving.tokens {
                0 | 1 => leaving.last_token.after(QUIET),
                _ => leaving.last_token,
            })
            .chain(parting.then_some(self.now))
            .min()
    }

    fn take_change(&mut self, now: Instant, change: Change, out: &mut dyn Deliver) {
        match change {
            Change::Admitted { origin, fresh } => self.admitted(origin, fresh),
            Change::Region { region, groups, .. } => self.region_groups(region, groups),
            Change::View(view) => self.view(now, &view),
            Change::Closed { region } => self.remove(region),
            Change::Settled {
                region,
                view,
                senders,
            } => self.settled(region, view, senders),
            Change::Dead { origin } => self.sender_died(now, origin),
            Change::BatchEnd => self.batch_end(now, out),
            Change::Excluded => {
                self.core.events.push(Event::Excluded);
                let incarnation = self.core.origin.incarnation;
                out.miss(Miss::Life { incarnation });
            }
            Change::Named { group, name } => {
                // A publisher that is not confirmed is not told of all regions of the group.
                self.routes
                    .enter(group, self.membership.holds(Role::Publisher, &name));
            }
            Change::Unnamed { group, .. } => self.routes.enter(group, false),
            Change::Done { request } => self.done(request),
            Change::Refused { request, reason } => {
                if self.exiting.remove(&request).is_some() {
                    self.subscribe();
                }
                self.core.events.push(Event::Refused { request, reason });
            }
            Change::Nodes { request, rows } => {
                self.core.events.push(Event::Nodes { request, rows });
            }
            Change::Groups { request, rows } => {
                self.core.events.push(Event::Groups { request, rows });
            }
            Change::Regions { request, rows } => {
                self.core.events.push(Event::Regions { request, rows });
            }
            Change::ServiceLost => self.core.events.push(Event::ServiceLost),
            Change::Sources { region, senders } => {
                if let Some(region) = self.regions.get_mut(&region) {
                    region.sources = senders.iter().map(|sender| sender.address).collect();
                }
            }
            Change::Second { address, second } => {
                self.core
                    .events
                    .push(Event::SecondAddress { address, second });
            }
            Change::ServiceFound { address } => {
                self.core.events.push(Event::ServiceFound { address });
            }
            Change::ServiceMissing => self.core.events.push(Event::ServiceMissing),
        }
    }

    /// A new life begins with nothing: the views, streams and numbers of the last one are void.
    fn admitted(&mut self, origin: Origin, fresh: bool) {
        if fresh {
            let ids: Vec<RegionId> = self.regions.keys().copied().collect();
            for id in ids {
                self.remove(id);
            }
            self.core.cursors.forget_all();
            self.routes.forget_numbers();
            self.pasts.clear();
            self.departures.clear();
            let wants = |name: &String| self.membership.wants(Role::Subscriber, name);
            let exits = self.exiting.values_mut();
            exits.for_each(|names| names.retain(|name| !wants(name)));
        }
        self.core.origin = origin;
        self.core.events.push(Event::Admitted {
            incarnation: origin.incarnation,
        });
    }

    fn region_groups(&mut self, id: RegionId, groups: Vec<GroupId>) {
        match self.regions.get_mut(&id) {
            Some(region) => {
                self.routes.replace(id, &region.groups, &groups);
                region.groups = groups;
                if region.parted {
                    region.parted = false;
                    self.membership.not_drained(id);
                }
            }
            None => {
                self.routes.replace(id, &[], &groups);
                self.announced.insert(id, groups);
            }
        }
    }

    fn view(&mut self, now: Instant, view: &Arc<RegionView>) {
        let id = view.region();
        let me = self.core.origin;
        let region = match self.regions.entry(id) {
            std::collections::btree_map::Entry::Occupied(entry) => {
                let region = entry.into_mut();
                self.channels.remove(&region.channel());
                region.history.push(view.clone());
                region
            }
            std::collections::btree_map::Entry::Vacant(entry) => {
                let mut region = Region::new(&self.core.config, me, view.clone());
                // Numbers go on where they ended.
                region.sender = self.pasts.take(view.channel()).map(|past| {
                    let (config, header) = (SendConfig::new(&self.core.config), self.core.header());
                    let stream = StreamId {
                        origin: me,
                        channel: view.channel(),
                    };
                    SendStream::resume(config, header, stream, past)
                });
                entry.insert(region)
            }
        };
        let departed = self.departures.done(id, region.history.left());
        region.note_departed(departed);
        if let Some(groups) = self.announced.remove(&id) {
            region.groups = groups;
        }
        self.channels.insert(view.channel(), id);
        region.ring.set_view(now, view.clone(), me);
        region.receivers = region.other_receivers(me);
        if let Some(sender) = &mut region.sender {
            sender.open_view(now, view.number());
            // Leaving members still recover what was sent before they left.
            match region.history.oldest_alive() {
                Some(view) => sender.forget_views_before(now, &mut self.pool, view),
                None => sender.no_receivers(&mut self.pool),
            }
        }
        let members = u32::try_from(view.members().len()).unwrap_or(u32::MAX);
        self.core.events.push(Event::RegionView {
            region: id,
            view: view.number(),
            members,
        });
        self.touched.insert(id);
    }

    fn settled(&mut self, id: RegionId, view: ViewNumber, senders: Vec<Sender>) {
        if let Some(region) = self.regions.get_mut(&id) {
            let senders = senders.iter();
            let senders = senders.map(|sender| (sender.origin, sender.address));
            region.settled = Some(Settled {
                view,
                senders: senders.collect(),
            });
            self.touched.insert(id);
        }
    }

    fn remove(&mut self, id: RegionId) {
        self.announced.remove(&id);
        let Some(mut region) = self.regions.remove(&id) else {
            return;
        };
        add_counters(&mut self.core.stats, &region);
        self.channels.remove(&region.channel());
        self.routes.replace(id, &region.groups, &[]);
        if let Some(leaving) = region.leaving.filter(|leaving| leaving.told) {
            self.departures.note(id, leaving.view);
        }
        region.release(&mut self.core.store);
        if let Some(sender) = region.sender.take() {
            let past = sender.end(&mut self.pool);
            self.pasts.keep(region.channel(), past);
        }
        self.note_moving();
    }

    fn note_moving(&mut self) {
        self.moving = self.regions.values().any(|region| region.leaving.is_some());
    }

    fn sender_died(&mut self, now: Instant, origin: Origin) {
        for region in self.regions.values_mut() {
            region.queries.remove(&origin);
            if let Some(settled) = &mut region.settled {
                settled.senders.remove(&origin);
            }
            if let Some(stream) = region.streams.get_mut(&origin) {
                stream.sender_died(now);
            }
        }
    }

    /// All updates of a batch are in: subscriptions, addresses and deliveries follow, in this
    /// order (R-VIEW-3): a message of a new group must find its subscription.
    fn batch_end(&mut self, now: Instant, out: &mut dyn Deliver) {
        for id in &self.take_touched() {
            let turn = self.next_turn();
            let Some(region) = self.regions.get_mut(id) else {
                continue;
            };
            if let Some(view) = region.history.left().filter(|_| region.departed) {
                self.membership
                    .drained(now, *id, view, &mut self.core.outbox);
            } else if let Some(view) = region.history.left().filter(|_| region.leaving.is_none()) {
                region.leaving = Some(Leaving {
                    view,
                    turn,
                    since: now,
                    last_token: now,
                    tokens: 0,
                    told: false,
                });
            }
            if region.history.left().is_none() {
                region.leaving = None;
                region.settled = None;
                region.silent.clear();
            }
            region.ask_senders(now, self.core.origin);
            if !region.member() {
                region.leaving = None;
                region.settled = None;
                region.release(&mut self.core.store);
                region.streams.clear();
                region.queries.clear();
                region.silent.clear();
            }
        }
        self.note_moving();
        self.subscribe();
        self.listen();
        // Also those of regions that are not touched: what was held may be free (R-VIEW-7).
        for id in self.in_turn() {
            self.deliver_all(now, id, out);
        }
    }

    /// The regions that a batch has changed. Of two that it shows as left, the one that this node
    /// has received in was left first: of the other it did not even hear in time.
    fn take_touched(&mut self) -> Vec<RegionId> {
        let mut touched: Vec<RegionId> = core::mem::take(&mut self.touched).into_iter().collect();
        touched.sort_by_key(|id| {
            let region = self.regions.get(id);
            !region.is_some_and(|region| region.history.has_received())
        });
        touched
    }

    /// The turn of a region that is left now: after all that are being left already.
    fn next_turn(&self) -> u64 {
        let leaving = self.regions.values().filter_map(|region| region.leaving);
        leaving.map(|leaving| leaving.turn + 1).max().unwrap_or(0)
    }

    /// The groups that are delivered are those of the region this node is a receiver of, but for
    /// those that the application has given up: if it takes them up again before the service
    /// has heard so, that is another stay, and nothing of the former belongs to it (R-MEM-9).
    pub(super) fn subscribe(&mut self) {
        let exiting = self.exiting.values().flatten();
        let exiting: BTreeSet<GroupId> = exiting
            .filter_map(|name| self.membership.group(name))
            .collect();
        let receiving = self.regions.values().filter(|region| region.receiver());
        let wanted: BTreeSet<GroupId> = receiving
            .flat_map(|region| region.groups.iter().copied())
            .filter(|group| !exiting.contains(group))
            .collect();
        for group in self.subscriptions.difference(&wanted) {
            self.core.cursors.unsubscribe(*group);
        }
        for group in wanted.difference(&self.subscriptions) {
            self.core.cursors.subscribe(*group);
            let receiving = self.regions.values_mut().filter(|region| region.receiver());
            receiving.for_each(|region| region.history.take_up(*group));
        }
        for group in &exiting {
            let members = self.regions.values_mut().filter(|region| region.member());
            let concerned = members.filter(|region| region.groups.binary_search(group).is_ok());
            concerned.for_each(|region| region.history.give_up(*group));
        }
        self.subscriptions = wanted;
    }

    /// The addresses of all regions this node takes part in, and whom to hear there.
    /// Rule R-MEM-13.
    fn listen(&mut self) {
        let mut wanted: BTreeMap<SocketAddr, BTreeSet<SocketAddr>> = BTreeMap::new();
        for region in self.regions.values().filter(|region| region.member()) {
            let address = region.address();
            let senders = wanted.entry(address).or_default();
            if is_source_specific(address.ip()) {
                let members = region.history.newest().members().iter();
                senders.extend(members.map(|member| member.address));
                senders.extend(&region.sources);
            }
        }
        let new = |(address, senders): &(&SocketAddr, &BTreeSet<SocketAddr>)| {
            self.listening.get(*address) != Some(*senders)
        };
        for (address, senders) in wanted.iter().filter(new) {
            let (address, senders) = (*address, senders.clone());
            self.core
                .events
                .push(match is_source_specific(address.ip()) {
                    true => Event::ListenTo { address, senders },
                    false => Event::Listen { address },
                });
        }
        for address in self.listening.keys() {
            if !wanted.contains_key(address) {
                self.core.events.push(Event::Unlisten { address: *address });
            }
        }
        self.listening = wanted;
    }

    fn deliver_all(&mut self, now: Instant, id: RegionId, out: &mut dyn Deliver) {
        let Some(region) = self.regions.get(&id) else {
            return;
        };
        let waiting: Vec<Origin> = region
            .streams
            .iter()
            .filter(|(_, stream)| stream.undelivered())
            .map(|(sender, _)| *sender)
            .collect();
        for sender in waiting {
            self.deliver_waiting(now, id, sender, out);
        }
    }
}
