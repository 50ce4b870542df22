//! Services and members of a cluster on a virtual network with delay, loss and repetition.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_gms::{Service, ServiceConfig, ServiceEvent};
use qsm_proto::membership::Membership;
use qsm_proto::view::RegionView;
use qsm_proto::{Config, Event, Instant, Outbox, Random, Seed, Transmit, mix};
use qsm_testnet::{Flight, NetworkOptions};
use qsm_wire::membership::{Answer, AnswerRows, FromService, RegionRow, Role, Update};
use qsm_wire::{Body, GroupId, Incarnation, Kind, NodeId, Origin, Packet, RegionId};

const NETWORK: NetworkOptions = NetworkOptions {
    delay: Duration::from_micros(100),
    jitter: Duration::from_micros(900),
    uplink_bits_per_second: u64::MAX,
    ..NetworkOptions::PERFECT
};

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(crate) fn address(host: u64) -> SocketAddr {
    let [low, high, ..] = host.to_le_bytes();
    SocketAddr::from(([10, 0, high, low], 4483))
}

/// A region as a member knows it from updates alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) address: SocketAddr,
    pub(crate) groups: Vec<GroupId>,
    pub(crate) view: Option<Arc<RegionView>>,
}

/// A node: the client side of the protocol and a model built from what it says.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) membership: Membership,
    outbox: Outbox,
    pub(crate) regions: BTreeMap<RegionId, Known>,
    pub(crate) names: BTreeMap<String, GroupId>,
    /// Lives in which it was welcomed, each time.
    pub(crate) welcomed: Vec<Origin>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) updates: Vec<Update>,
    pub(crate) events: Vec<Event>,
    pub(crate) dead: BTreeSet<Origin>,
    pub(crate) wants: [BTreeSet<String>; 2],
    pub(crate) drains: bool,
}

/// Decides whether a datagram is lost for a reason: (from, to, kind).
pub(crate) type Cut = fn(SocketAddr, SocketAddr, Kind) -> bool;

pub(crate) struct Cluster {
    pub(crate) now: Instant,
    pub(crate) services: BTreeMap<SocketAddr, Service>,
    pub(crate) members: BTreeMap<SocketAddr, Member>,
    flight: Flight,
    random: Random,
    pub(crate) cut: Cut,
    /// Services plan common regions, of which a node has three beside its home.
    commons: bool,
    pub(crate) events: Vec<ServiceEvent>,
    pub(crate) trace: u64,
    /// Shortest step of the clock; a coarse one makes large clusters fast.
    pub(crate) grain: u64,
}

impl Cluster {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: Instant(0),
            services: BTreeMap::new(),
            members: BTreeMap::new(),
            flight: Flight::new(NETWORK, Seed(seed)),
            random: Random::new(Seed(seed), "cluster"),
            cut: |_, _, _| false,
            commons: false,
            events: Vec::new(),
            trace: 0,
            grain: 1,
        }
    }

    /// From now on so many copies are lost, parts per million, and half as many come twice.
    pub(crate) fn lose(&mut self, loss_ppm: u32) {
        let options = self.flight.network.options_mut();
        options.loss_ppm = loss_ppm;
        options.duplicate_ppm = loss_ppm / 2;
    }

    pub(crate) fn service_config(host: u64) -> ServiceConfig {
        ServiceConfig::new(NodeId(host), address(host))
    }

    pub(crate) fn start_service(&mut self, config: ServiceConfig) {
        let seed = Seed(self.random.bits());
        let at = config.address;
        self.commons |= config.plan_common.is_some();
        self.flight.add_host(at);
        self.flight.listen(at, config.discovery, true);
        let service = Service::new(config, seed, self.now).unwrap();
        self.services.insert(at, service);
    }

    pub(crate) fn start_member(&mut self, host: u64, service: Option<SocketAddr>) -> SocketAddr {
        self.start_member_at(host, address(host), service)
    }

    pub(crate) fn start_member_at(
        &mut self,
        host: u64,
        address: SocketAddr,
        service: Option<SocketAddr>,
    ) -> SocketAddr {
        let mut config = Config::new(NodeId(host), address);
        config.service = service;
        self.add_member(config)
    }

    pub(crate) fn add_member(&mut self, config: Config) -> SocketAddr {
        let address = config.address;
        self.flight.add_host(address);
        self.flight.listen(address, config.discovery, true);
        let seed = Seed(self.random.bits());
        let member = Member {
            membership: Membership::new(&config, seed, self.now),
            outbox: Outbox::new(),
            regions: BTreeMap::new(),
            names: BTreeMap::new(),
            welcomed: Vec::new(),
            answers: Vec::new(),
            updates: Vec::new(),
            events: Vec::new(),
            dead: BTreeSet::new(),
            wants: [BTreeSet::new(), BTreeSet::new()],
            drains: true,
        };
        self.members.insert(address, member);
        address
    }

    pub(crate) fn member(&self, at: SocketAddr) -> &Member {
        &self.members[&at]
    }

    pub(crate) fn enter(&mut self, at: SocketAddr, role: Role, names: &[&str]) -> u32 {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let member = self.members.get_mut(&at).unwrap();
        member.wants[role as usize].extend(names.iter().cloned());
        let outbox = &mut member.outbox;
        let asked = member.membership.enter(self.now, role, names, outbox);
        asked.unwrap()
    }

    pub(crate) fn exit(&mut self, at: SocketAddr, role: Role, names: &[&str]) -> u32 {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let member = self.members.get_mut(&at).unwrap();
        for name in &names {
            member.wants[role as usize].remove(name);
        }
        let outbox = &mut member.outbox;
        let asked = member.membership.exit(self.now, role, names, outbox);
        asked.unwrap()
    }

    /// Calls a member's membership with its outbox.
    pub(crate) fn with<T>(
        &mut self,
        at: SocketAddr,
        call: impl FnOnce(&mut Membership, Instant, &mut Outbox) -> T,
    ) -> T {
        let member = self.members.get_mut(&at).unwrap();
        call(&mut member.membership, self.now, &mut member.outbox)
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now.after(time);
        loop {
            self.collect();
            let services = self.services.values().filter_map(Service::next_timeout);
            let members = self.members.values();
            let members = members.filter_map(|member| member.membership.next_timeout());
            let next = self
                .flight
                .next_time()
                .into_iter()
                .chain(services)
                .chain(members)
                .min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            // A deadline that does not move would stop the clock for ever.
            self.now = self.now.max(next).max(Instant(self.now.0 + self.grain));
            self.arrive();
            let now = self.now;
            for service in self.services.values_mut() {
                if service.next_timeout().is_some_and(|at| at <= now) {
                    service.handle_timeout(now);
                }
            }
            for member in self.members.values_mut() {
                if member.membership.next_timeout().is_some_and(|at| at <= now) {
                    member.membership.handle_timeout(now, &mut member.outbox);
                }
            }
        }
        self.now = end;
    }

    fn collect(&mut self) {
        let mut wire = Wire {
            now: self.now,
            flight: &mut self.flight,
            trace: &mut self.trace,
        };
        for (at, service) in &mut self.services {
            while let Some(transmit) = service.poll_transmit(self.now) {
                wire.send(*at, &transmit);
            }
            while let Some(event) = service.poll_event() {
                self.events.push(event);
            }
        }
        for (at, member) in &mut self.members {
            member.take_events();
            while let Some(transmit) = member.outbox.pop() {
                wire.send(*at, &transmit);
            }
        }
    }

    fn arrive(&mut self) {
        while let Some(arrival) = self.flight.poll(self.now) {
            let (from, at, bytes) = (arrival.from, arrival.at, arrival.bytes);
            let kind = Kind::peek(&bytes).unwrap();
            if (self.cut)(from, at, kind) {
                continue;
            }
            if let Some(service) = self.services.get_mut(&at) {
                service.handle_datagram(self.now, from, &bytes);
            }
            if let Some(member) = self.members.get_mut(&at) {
                member.take(self.now, from, &Packet::decode(&bytes).unwrap());
            }
        }
    }

    /// All members' tables say the same as the service's.
    pub(crate) fn check(&self, service: SocketAddr) {
        let rows = self.services[&service].rows();
        for member in self.members.values() {
            assert_eq!(member.membership.misfits(), 0);
            let origin = member.membership.origin();
            let row = rows.nodes.iter().find(|row| row.origin == origin);
            let row = row.unwrap_or_else(|| panic!("{origin} is not in the cluster"));
            let [subscribed, published] = &member.wants;
            assert_eq!(row.subscriptions as usize, subscribed.len());
            assert_eq!(row.publications as usize, published.len());
            assert_eq!(row.region.is_some(), !subscribed.is_empty());
            let mut ids: Vec<GroupId> = subscribed.iter().map(|n| member.names[n]).collect();
            ids.sort_unstable();
            let is_in = |row: &&RegionRow| row.members.iter().any(|m| m.origin == origin);
            let homes: Vec<&RegionRow> = rows.regions.iter().filter(is_in).collect();
            let known = |row: &&RegionRow| member.regions[&row.region].groups.clone();
            let mut groups: Vec<GroupId> = homes.iter().flat_map(known).collect();
            groups.sort_unstable();
            assert_eq!(
                groups, ids,
                "the regions of {origin} have exactly its groups"
            );
            // It shares one with others, or has all in one; a second one is private.
            let home = |home: &&RegionRow| home.address.ip().is_multicast();
            let shared: Vec<RegionId> =
                homes.iter().filter(|r| home(r)).map(|r| r.region).collect();
            let most = if self.commons { 4 } else { 1 };
            assert!(shared.len() <= most && homes.len() <= shared.len() + 1);
            assert!(row.region.is_none_or(|home| shared.contains(&home)));
            for name in published {
                let id = member.names[name];
                let group = rows.groups.iter().find(|row| row.group == id).unwrap();
                assert_eq!(&group.name, name);
                let regions = member.regions.values();
                let count = regions.filter(|known| known.groups.contains(&id)).count();
                assert_eq!(group.regions as usize, count, "regions of {name}");
            }
            for (id, known) in &member.regions {
                let row = rows.regions.iter().find(|row| row.region == *id).unwrap();
                let view = known.view.as_ref().unwrap();
                assert_eq!(view.number(), row.view);
                assert_eq!(view.members(), row.members);
                assert_eq!(view.address(), row.address);
                // A private region is where its member is.
                let multicast = row.address.ip().is_multicast();
                assert!(!multicast || known.address == row.address);
                assert!(view.members().iter().all(|member| !member.leaving()));
            }
        }
    }
}

/// Sends, and keeps a hash of all that is sent.
struct Wire<'a> {
    now: Instant,
    flight: &'a mut Flight,
    trace: &'a mut u64,
}

impl Wire<'_> {
    fn send(&mut self, from: SocketAddr, transmit: &Transmit<'_>) {
        let bytes = transmit.bytes.iter();
        let hash = bytes.fold(*self.trace, |hash, byte| mix(hash ^ u64::from(*byte)));
        *self.trace = hash ^ self.now.0;
        self.flight
            .send(self.now, from, transmit.to.address(), transmit.bytes);
    }
}

impl Member {
    pub(crate) fn origin(&self) -> Origin {
        self.membership.origin()
    }

    /// The region it is an active member of.
    pub(crate) fn home(&self) -> Option<RegionId> {
        let own = self.origin();
        let active = |known: &Known| {
            let members = known.view.iter().flat_map(|view| view.members());
            members.into_iter().any(|m| m.origin == own && !m.leaving())
        };
        let mut regions = self.regions.iter();
        regions.find(|(_, known)| active(known)).map(|(id, _)| *id)
    }

    pub(crate) fn done(&self, request: u32) -> bool {
        let answer = Answer {
            request,
            result: Ok(AnswerRows::None),
        };
        self.answers.contains(&answer)
    }

    /// It was taken for dead once, at least.
    pub(crate) fn excluded(&self) -> bool {
        self.welcomed.windows(2).any(|lives| lives[0] != lives[1])
    }

    fn take(&mut self, now: Instant, from: SocketAddr, packet: &Packet<'_>) {
        if let Body::Probe(probe) = packet.body {
            let outbox = &mut self.outbox;
            self.membership.answer_probe(from, probe, outbox);
            return;
        }
        self.membership.handle(now, &packet.header, &packet.body);
        self.take_events();
        while let Some(message) = self.membership.poll_message(now) {
            match message {
                FromService::Welcome { incarnation, .. } => self.welcome(incarnation),
                FromService::Batch { updates, .. } => {
                    for update in updates {
                        self.updates.push(update.clone());
                        self.take_update(now, update);
                    }
                }
                FromService::Answer(answer) => {
                    if let Some(changes) = self.membership.settle(&answer) {
                        self.names.retain(|_, id| !changes.ended.contains(id));
                        self.answers.push(answer);
                    }
                }
                _ => {}
            }
        }
        self.membership.handle_timeout(now, &mut self.outbox);
    }

    fn take_events(&mut self) {
        while let Some(event) = self.membership.poll_event() {
            self.events.push(event);
        }
    }

    fn welcome(&mut self, incarnation: Incarnation) {
        let origin = self.origin();
        assert_eq!(origin.incarnation, incarnation);
        if self.welcomed.last().is_some_and(|last| *last != origin) {
            self.regions.clear();
            self.names.clear();
        }
        self.welcomed.push(origin);
    }

    fn take_update(&mut self, now: Instant, update: Update) {
        match update {
            Update::Named { group, name } => self.name(group, name),
            Update::Region {
                region,
                channel,
                address,
                groups,
            } => {
                let channel = (channel, address);
                self.membership.put_region(region, channel, &groups);
                let view = self.regions.remove(&region).and_then(|known| known.view);
                let known = Known {
                    address,
                    groups,
                    view,
                };
                self.regions.insert(region, known);
            }
            Update::View(step) => match self.membership.next_view(step) {
                Some(view) => self.take_view(now, view),
                None => self.membership.start_over(now),
            },
            Update::Repairs { told } => self.membership.note_repair_limit(told),
            Update::Filters { region, .. } => self.membership.note_merged(region),
            Update::Closed { region } => self.close(region),
            Update::Dead { origin } => {
                self.membership.note_death(origin);
                self.dead.insert(origin);
            }
            _ => {}
        }
    }

    fn name(&mut self, group: GroupId, name: String) {
        if self.membership.name_group(group, &name) {
            self.names.insert(name, group);
        }
    }

    fn close(&mut self, region: RegionId) {
        if self.membership.close_region(region) {
            self.regions.remove(&region).expect("a known region closes");
        }
    }

    fn take_view(&mut self, now: Instant, view: Arc<RegionView>) {
        let region = view.region();
        let known = self
            .regions
            .get_mut(&region)
            .expect("the region came first");
        if let Some(old) = &known.view {
            assert!(view.number() >= old.number());
        }
        let index = view.index_of(self.membership.origin());
        let leaving = index
            .and_then(|index| view.member(index))
            .is_some_and(|m| m.leaving());
        let number = view.number();
        known.view = Some(view);
        if leaving && self.drains {
            self.membership
                .drained(now, region, number, &mut self.outbox);
        }
    }
}
