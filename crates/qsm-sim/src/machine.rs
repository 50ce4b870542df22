//! What runs on a host: the one place that knows which state machines there are.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use qsm_gms::{Rows, Service, ServiceConfig, ServiceEvent};
use qsm_metrics::Row;
use qsm_proto::receive::ReceiveStream;
use qsm_proto::region::Region;
use qsm_proto::send::{Batching, SendStream};
use qsm_proto::stats::Histogram;
use qsm_proto::{
    Config, Deliver, Delivery, Endpoint, Event, FullReaders, Instant, LossCause, Miss, Promptness,
    PublishError, Seed, Stats, Transmit,
};
use qsm_wire::membership::{RepairLimit, Role};
use qsm_wire::{GroupId, Origin, RegionId, StreamId, ViewNumber};

use crate::checkers::foreign::ToldRegion;
use crate::mischief::Mischief;
use crate::observer::Observer;
#[cfg(test)]
use crate::toy::Toy;

/// More packets of another cluster than a node takes for strays.
const FOREIGN_PACKETS: usize = 100;

/// A state machine on a host, driven by the engine.
#[derive(Debug)]
pub(crate) enum Machine {
    /// A node.
    Node(Box<Endpoint>),
    /// The membership service.
    Service(Box<Service>),
    /// Somebody who looks and is no node.
    Observer(Box<Observer>),
    /// A small stand-in that tests of the simulator itself use.
    #[cfg(test)]
    Toy(Box<Toy>),
}

impl Machine {
    /// An observer where a node with this configuration would be.
    pub(crate) fn observer(config: &Config, seed: Seed, now: Instant) -> Self {
        Self::Observer(Box::new(Observer::new(config, seed, now)))
    }

    pub(crate) fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        out: &mut dyn Deliver,
    ) {
        match self {
            Self::Node(node) => node.handle_datagram(now, from, datagram.into(), out),
            Self::Service(service) => service.handle_datagram(now, from, datagram),
            Self::Observer(observer) => observer.handle_datagram(now, datagram),
            #[cfg(test)]
            Self::Toy(toy) => toy.handle_datagram(now, from, datagram, out),
        }
    }

    /// The host at this address has said that no process is there.
    pub(crate) fn handle_unreachable(&mut self, now: Instant, address: SocketAddr) {
        if let Self::Service(service) = self {
            service.handle_unreachable(now, address);
        }
    }

    /// Whether datagrams wait that the machine has not seen.
    pub(crate) fn set_backlog(&mut self, now: Instant, backlog: bool) {
        if let Self::Node(node) = self {
            node.set_backlog(now, backlog);
        }
    }

    /// Time that the oldest datagram that waits has done so.
    pub(crate) fn note_sojourn(&mut self, now: Instant, waited: Duration) {
        if let Self::Node(node) = self {
            node.note_sojourn(now, waited);
        }
    }

    pub(crate) fn note_drops(&mut self, now: Instant, packets: u64) {
        if let Self::Node(node) = self
            && packets > 0
        {
            node.note_drops(now, packets);
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant, out: &mut dyn Deliver) {
        match self {
            Self::Node(node) => node.handle_timeout(now, out),
            Self::Service(service) => service.handle_timeout(now),
            Self::Observer(observer) => observer.handle_timeout(now),
            #[cfg(test)]
            Self::Toy(toy) => toy.handle_timeout(now),
        }
    }

    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        match self {
            Self::Node(node) => node.poll_transmit(now),
            Self::Service(service) => service.poll_transmit(now),
            Self::Observer(observer) => observer.poll_transmit(now),
            #[cfg(test)]
            Self::Toy(toy) => toy.poll_transmit(),
        }
    }

    /// The next event of a node. Of a service's events the host has to know where others are on a
    /// second network; the rest is for logs and is dropped.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        match self {
            Self::Node(node) => node.poll_event(),
            Self::Service(service) => {
                let mut events = core::iter::from_fn(|| service.poll_event());
                events.find_map(|event| match event {
                    ServiceEvent::SecondAddress { address, second } => {
                        Some(Event::SecondAddress { address, second })
                    }
                    _ => None,
                })
            }
            Self::Observer(observer) => observer.poll_event(),
            #[cfg(test)]
            Self::Toy(toy) => toy.poll_event(),
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        match self {
            Self::Node(node) => node.next_timeout(),
            Self::Service(service) => service.next_timeout(),
            Self::Observer(observer) => observer.next_timeout(),
            #[cfg(test)]
            Self::Toy(toy) => toy.next_timeout(),
        }
    }

    /// Takes up a role in groups; `None` where this machine has none.
    pub(crate) fn enter(&mut self, now: Instant, role: Role, names: Vec<String>) -> Option<u32> {
        match self {
            Self::Node(node) => Some(node.enter(now, role, names)),
            Self::Service(_) | Self::Observer(_) => None,
            #[cfg(test)]
            Self::Toy(toy) => Some(toy.enter(role, &names)),
        }
    }

    /// Packets of another cluster come to all multicast addresses of the node's regions, more than it
    /// takes for strays. Returns the regions of which it tells the service so.
    pub(crate) fn meet_foreign(&mut self, now: Instant) -> Vec<ToldRegion> {
        let mut shared = self.shared_regions();
        let open = shared.iter().filter(|one| !one.leaving);
        let addresses: BTreeSet<SocketAddr> = open.map(|one| one.address).collect();
        let Self::Node(node) = self else {
            return Vec::new();
        };
        let tells = |at: &SocketAddr| {
            let before = node.stats().foreign_told;
            (0..FOREIGN_PACKETS).for_each(|_| node.note_foreign(now, *at));
            node.stats().foreign_told > before
        };
        let told: BTreeSet<SocketAddr> = addresses.into_iter().filter(tells).collect();
        shared.retain(|one| told.contains(&one.address));
        shared
    }

    /// Regions that this node is in, and whose address others can send to.
    pub(crate) fn shared_regions(&self) -> Vec<ToldRegion> {
        let regions = self.all_regions().filter(|region| region.member());
        let regions = regions.map(ToldRegion::of);
        regions
            .filter(|one| one.address.ip().is_multicast())
            .collect()
    }

    /// Hands out a group in these ways beside its order.
    pub(crate) fn want(&mut self, now: Instant, name: &str, modes: &[Promptness]) {
        if let Self::Node(node) = self {
            node.want(now, name, modes);
        }
    }

    /// Gives up a role in groups.
    pub(crate) fn exit(&mut self, now: Instant, role: Role, names: Vec<String>) -> Option<u32> {
        match self {
            Self::Node(node) => Some(node.exit(now, role, names)),
            Self::Service(_) | Self::Observer(_) => None,
            #[cfg(test)]
            Self::Toy(toy) => Some(toy.exit(role, &names)),
        }
    }

    pub(crate) fn group(&self, name: &str) -> Option<GroupId> {
        match self {
            Self::Node(node) => node.group(name),
            Self::Service(_) | Self::Observer(_) => None,
            #[cfg(test)]
            Self::Toy(toy) => toy.group(name),
        }
    }

    pub(crate) fn group_name(&self, group: GroupId) -> Option<&str> {
        match self {
            Self::Node(node) => node.group_name(group),
            Self::Service(_) | Self::Observer(_) => None,
            #[cfg(test)]
            Self::Toy(toy) => toy.group_name(group),
        }
    }

    /// Who this node would send a message of the group to now: the members of the group's regions
    /// that are not leaving, with region and view by which it knows them.
    pub(crate) fn receivers(&self, group: GroupId) -> Vec<(Origin, RegionId, ViewNumber)> {
        #[cfg(test)]
        if let Self::Toy(toy) = self {
            let known = |origin| (origin, RegionId::default(), ViewNumber::default());
            return toy.receivers(group).into_iter().map(known).collect();
        }
        let members = self.regions_of(group).flat_map(|region| {
            let view = region.view();
            let there = view.members().iter().filter(|member| !member.leaving());
            let there = there.filter(move |member| region.takes(member.origin, group));
            there.map(move |member| (member.origin, region.id(), view.number()))
        });
        members.collect()
    }

    /// The present views of the regions that have the group.
    pub(crate) fn views_of(&self, name: &str) -> BTreeMap<RegionId, ViewNumber> {
        let regions = self
            .group(name)
            .into_iter()
            .flat_map(|id| self.regions_of(id));
        regions
            .map(|region| (region.id(), region.view().number()))
            .collect()
    }

    /// The regions in which the node knows receivers of the group.
    pub(crate) fn regions_of(&self, group: GroupId) -> impl Iterator<Item = &Region> {
        let regions = self.all_regions();
        regions.filter(move |region| region.groups().contains(&group))
    }

    /// Messages that the node's streams have taken, all together.
    pub(crate) fn taken(&self) -> u64 {
        let streams = self.all_regions().filter_map(Region::own_stream);
        streams.map(|stream| stream.counters().messages).sum()
    }

    /// Regions in which the node receives the group.
    pub(crate) fn received_in(&self, group: GroupId) -> usize {
        let receives = |region: &&Region| {
            let me = self.origin();
            region.receiver() && me.is_some_and(|me| region.takes(me, group))
        };
        self.regions_of(group).filter(receives).count()
    }

    /// Rows of a service that serves.
    pub(crate) fn rows(&self) -> Option<Rows> {
        match self {
            Self::Service(service) => (service.term() > 0).then(|| service.rows()),
            Self::Node(_) | Self::Observer(_) => None,
            #[cfg(test)]
            Self::Toy(_) => None,
        }
    }

    /// The regions that this node receives messages of.
    pub(crate) fn regions(&self) -> Vec<RegionId> {
        match self {
            Self::Node(node) => {
                let receiving = node.regions().filter(|region| region.receiver());
                receiving.map(Region::id).collect()
            }
            Self::Service(_) | Self::Observer(_) => Vec::new(),
            #[cfg(test)]
            Self::Toy(_) => Vec::new(),
        }
    }

    /// Whether the node says that everybody has what it has published.
    pub(crate) fn is_stable(&self) -> bool {
        matches!(self, Self::Node(node) if node.is_stable())
    }

    /// Memory of own packets that are kept only for members that are away, or were.
    pub(crate) fn retained_bytes(&self) -> usize {
        match self {
            Self::Node(node) => node.retained_bytes(),
            Self::Service(_) | Self::Observer(_) => 0,
            #[cfg(test)]
            Self::Toy(_) => 0,
        }
    }

    /// Packets of the node's streams up to which all were freed for want of room, all streams together.
    pub(crate) fn overruns(&self) -> u64 {
        let streams = self.all_regions().filter_map(Region::own_stream);
        streams.map(SendStream::overrun).sum()
    }

    /// Members that are away in the views that the node knows.
    pub(crate) fn away_members(&self) -> BTreeSet<Origin> {
        let views = self.all_regions().map(Region::view);
        let away = views.flat_map(|view| view.away_members());
        away.map(|member| member.origin).collect()
    }

    /// The run of the service that has made the node's newest views.
    pub(crate) fn service_run(&self) -> Option<Origin> {
        match self {
            Self::Node(node) => node.service_run(),
            Self::Service(_) | Self::Observer(_) => None,
            #[cfg(test)]
            Self::Toy(_) => None,
        }
    }

    /// The node has been told a limit of what it sends again.
    pub(crate) fn limits_repairs(&self) -> bool {
        matches!(self, Self::Node(node) if node.repair_limit() != RepairLimit::default())
    }

    /// The node's part of a region.
    pub(crate) fn region(&self, id: RegionId) -> Option<&Region> {
        self.all_regions().find(|region| region.id() == id)
    }

    /// The sender of a stream is dead, as the node knows.
    pub(crate) fn knows_dead(&self, stream: StreamId) -> bool {
        let mut regions = self.all_regions();
        let region = regions.find(|region| region.channel() == stream.channel);
        let known = region.and_then(|region| region.stream(stream.origin));
        known.is_some_and(ReceiveStream::sender_dead)
    }

    /// All regions that concern the node.
    pub(crate) fn all_regions(&self) -> impl Iterator<Item = &Region> {
        let node = if let Self::Node(node) = self {
            Some(node)
        } else {
            None
        };
        node.into_iter().flat_map(|node| node.regions())
    }

    /// Whether the node has the bytes of that packet.
    pub(crate) fn holds(&self, region: RegionId, sender: Origin, sequence: u64) -> bool {
        matches!(self, Self::Node(node) if node.holds(region, sender, sequence))
    }

    pub(crate) fn publish(
        &mut self,
        now: Instant,
        group: GroupId,
        payload: &[u8],
        batching: Option<Batching>,
        out: &mut dyn Deliver,
    ) -> Result<u64, PublishError> {
        match self {
            Self::Node(node) => match batching {
                None => node.publish(now, group, payload, out),
                Some(batching) => {
                    let publication = node.publication(now, group)?;
                    publication.within(batching).push(payload, out)
                }
            },
            Self::Service(_) | Self::Observer(_) => Err(PublishError::NotEntered),
            #[cfg(test)]
            Self::Toy(toy) => toy.publish(now, group, payload),
        }
    }

    pub(crate) fn set_full_readers(&mut self, now: Instant, full: FullReaders) {
        match self {
            Self::Node(node) => node.set_full_readers(now, full),
            Self::Service(_) | Self::Observer(_) => {}
            #[cfg(test)]
            Self::Toy(_) => {}
        }
    }

    pub(crate) fn close(&mut self, now: Instant) {
        match self {
            Self::Node(node) => node.close(now),
            Self::Service(_) | Self::Observer(_) => {}
            #[cfg(test)]
            Self::Toy(toy) => toy.close(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Node(node) => node.is_closed(),
            Self::Service(_) | Self::Observer(_) => false,
            #[cfg(test)]
            Self::Toy(toy) => toy.is_closed(),
        }
    }

    /// The life of a node that runs.
    pub(crate) fn origin(&self) -> Option<Origin> {
        match self {
            Self::Node(node) => Some(node.origin()),
            Self::Service(_) | Self::Observer(_) => None,
            #[cfg(test)]
            Self::Toy(_) => None,
        }
    }

    pub(crate) fn stats(&self) -> Option<Stats> {
        match self {
            Self::Node(node) => Some(node.stats()),
            Self::Service(_) | Self::Observer(_) => None,
            #[cfg(test)]
            Self::Toy(_) => None,
        }
    }

    /// From finding packets missing to having them.
    pub(crate) fn repairs(&self) -> Histogram {
        match self {
            Self::Node(node) => node.repair_times().lasted.clone(),
            Self::Service(_) | Self::Observer(_) => Histogram::new(),
            #[cfg(test)]
            Self::Toy(_) => Histogram::new(),
        }
    }

    /// Everything that it has counted, by name.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Node(node) => named(&node.stats().rows()),
            Self::Service(service) => named(&service.stats().rows()),
            Self::Observer(observer) => observer.looked().rows().to_vec(),
            #[cfg(test)]
            Self::Toy(_) => Vec::new(),
        }
    }

    /// Whether all that was published has been sent: the moment to make the next message, not
    /// earlier (R131).
    pub(crate) fn wants_more(&self) -> bool {
        match self {
            Self::Node(node) => node
                .regions()
                .filter_map(|region| region.own_stream())
                .all(|sender| sender.unsent_bytes() == 0),
            Self::Service(_) | Self::Observer(_) => false,
            #[cfg(test)]
            Self::Toy(_) => false,
        }
    }

    /// Panics when the machine's state contradicts itself.
    pub(crate) fn check_invariants(&self) {
        match self {
            Self::Node(node) => node.check_invariants(),
            Self::Service(_) | Self::Observer(_) => {}
            #[cfg(test)]
            Self::Toy(toy) => toy.check_invariants(),
        }
    }

    /// Bytes in send windows and in receive windows and caches.
    pub(crate) fn memory_bytes(&self) -> (usize, usize) {
        match self {
            Self::Node(node) => node.memory_bytes(),
            Self::Service(_) | Self::Observer(_) => (0, 0),
            #[cfg(test)]
            Self::Toy(_) => (0, 0),
        }
    }

    /// Bytes of packets sent or received that are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        match self {
            Self::Node(node) => {
                let sent = node.regions().filter_map(|region| region.own_stream());
                let sent = sent.map(SendStream::in_flight_bytes);
                node.kept_bytes() + sent.sum::<usize>()
            }
            Self::Service(_) | Self::Observer(_) => 0,
            #[cfg(test)]
            Self::Toy(_) => 0,
        }
    }

    /// One line about its state.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Node(node) => {
                let (send, receive) = node.memory_bytes();
                let regions: Vec<String> = node.regions().map(describe_region).collect();
                format!("memory {send}+{receive} {}", regions.join("; "))
            }
            Self::Service(service) => format!("{:?}", service.stats()),
            Self::Observer(observer) => format!("{:?}", observer.looked()),
            #[cfg(test)]
            Self::Toy(_) => "toy".to_owned(),
        }
    }
}

fn named(rows: &[Row<'_>]) -> Vec<(&'static str, u64)> {
    let rows = rows.iter().map(|row| (row.metric.name, row.number()));
    rows.collect()
}

fn describe_region(region: &Region) -> String {
    let view = region.view();
    let members: Vec<String> = view
        .members()
        .iter()
        .map(|member| {
            let leaving = if member.leaving() { "-" } else { "" };
            format!("{}{leaving}", member.origin)
        })
        .collect();
    let streams: Vec<String> = region
        .streams()
        .map(|stream| stream.id().origin.to_string())
        .collect();
    format!(
        "region {} view {} channel {} groups {:?} members [{}] streams [{}] sending {}",
        region.id(),
        view.number(),
        region.channel(),
        region
            .groups()
            .iter()
            .map(|group| group.0)
            .collect::<Vec<_>>(),
        members.join(" "),
        streams.join(" "),
        region.own_stream().is_some(),
    )
}

/// Who plays the nodes.
#[derive(Debug, Clone)]
pub(crate) enum NodeKind {
    /// Real nodes and a real membership service.
    Real,
    /// Toys, all of which receive all groups.
    #[cfg(test)]
    Toys(Vec<(SocketAddr, qsm_wire::NodeId)>),
}

impl NodeKind {
    /// A service if there is a configuration for one, otherwise a node.
    pub(crate) fn machine(
        &self,
        service: Option<ServiceConfig>,
        config: Config,
        seed: Seed,
        now: Instant,
    ) -> Result<Machine, String> {
        match (self, service) {
            (Self::Real, Some(service)) => {
                let service = Service::new(service, seed, now);
                let service = service.map_err(|error| error.to_string())?;
                Ok(Machine::Service(Box::new(service)))
            }
            (Self::Real, None) => {
                let node = Endpoint::new(config, seed, now).map_err(|error| error.to_string())?;
                Ok(Machine::Node(Box::new(node)))
            }
            #[cfg(test)]
            (Self::Toys(peers), _) => {
                let peers = peers.iter().filter(|peer| peer.1 != config.node);
                Ok(Machine::Toy(Box::new(Toy::new(
                    config.node,
                    peers.copied().collect(),
                ))))
            }
        }
    }
}

/// A delivery of which the bytes are kept elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub(crate) group: GroupId,
    pub(crate) sender: Origin,
    pub(crate) number: u64,
    start: usize,
    end: usize,
}

/// A loss that a node has told in the order of its deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    Messages {
        group: GroupId,
        sender: Origin,
        first: u64,
        last: u64,
        expired: bool,
    },
    Packets {
        sender: Origin,
        packets: u64,
    },
}

/// What a node has handed out or told in another way than in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptRow {
    Given(Promptness, Delivered),
    Lost(Promptness, Loss),
    /// Something before the next message is missing, and it is not told what.
    Vague(Promptness, GroupId, Origin),
}

/// What one call of a machine has delivered.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    bytes: Vec<u8>,
    rows: Vec<Delivered>,
    /// Losses, each with the number of deliveries before it.
    losses: Vec<(usize, Loss)>,
    /// What was handed out in other ways than in order.
    prompt: Vec<PromptRow>,
    mischief: Mischief,
    count: u64,
    /// The same of what was handed out in other ways.
    handed_out: u64,
    /// Senders of which nothing is delivered any more, if there is that bug.
    muted: BTreeSet<Origin>,
}

impl Deliveries {
    pub(crate) fn new(mischief: Mischief) -> Self {
        Self {
            mischief,
            ..Self::default()
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.losses.clear();
        self.prompt.clear();
    }

    pub(crate) fn prompt(&self) -> &[PromptRow] {
        &self.prompt
    }

    pub(crate) fn losses(&self) -> &[(usize, Loss)] {
        &self.losses
    }

    pub(crate) fn rows(&self) -> &[Delivered] {
        &self.rows
    }

    pub(crate) fn bytes(&self, row: &Delivered) -> &[u8] {
        &self.bytes[row.start..row.end]
    }

    /// A message once more.
    pub(crate) fn again(&mut self, group: GroupId, sender: Origin, number: u64, bytes: &[u8]) {
        self.add(Delivery {
            group,
            sender,
            number,
            bytes,
        });
    }

    /// From now on what comes from this sender is not delivered.
    pub(crate) fn mute(&mut self, sender: Origin) {
        self.muted.insert(sender);
    }

    fn add(&mut self, message: Delivery<'_>) {
        let row = self.keep(message);
        self.rows.push(row);
    }

    fn keep(&mut self, message: Delivery<'_>) -> Delivered {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message.bytes);
        Delivered {
            group: message.group,
            sender: message.sender,
            number: message.number,
            start,
            end: self.bytes.len(),
        }
    }
}

impl Deliver for Deliveries {
    /// Tells messages sent in an absence from lost ones.
    fn miss(&mut self, miss: Miss<'_>) {
        let loss = match miss {
            Miss::Messages {
                group,
                sender,
                first,
                last,
                cause,
            } => Loss::Messages {
                group,
                sender,
                first,
                last,
                expired: cause == LossCause::Expired,
            },
            Miss::Packets {
                sender, packets, ..
            } => Loss::Packets { sender, packets },
            Miss::Absence { .. } | Miss::Life { .. } => return,
        };
        self.losses.push((self.rows.len(), loss));
    }

    fn deliver_promptly(&mut self, mode: Promptness, message: Delivery<'_>) {
        let row = self.keep(message);
        self.prompt.push(PromptRow::Given(mode, row));
        self.handed_out += 1;
        if let Mischief::PromptDoubled { every } = self.mischief
            && self.handed_out.is_multiple_of(every.max(1))
        {
            self.prompt.push(PromptRow::Given(mode, row));
        }
    }

    fn miss_promptly(&mut self, mode: Promptness, miss: Miss<'_>) {
        if self.mischief == Mischief::PromptSilent {
            return;
        }
        match miss {
            Miss::Messages {
                group,
                sender,
                first,
                last,
                cause,
            } => {
                let loss = Loss::Messages {
                    group,
                    sender,
                    first,
                    last,
                    expired: cause == LossCause::Expired,
                };
                self.prompt.push(PromptRow::Lost(mode, loss));
            }
            Miss::Absence { group, sender, .. } => {
                self.prompt.push(PromptRow::Vague(mode, group, sender));
            }
            Miss::Packets { groups, sender, .. } => {
                let vague = |group: &GroupId| PromptRow::Vague(mode, *group, sender);
                self.prompt.extend(groups.iter().map(vague));
            }
            Miss::Life { .. } => {}
        }
    }

    fn deliver(&mut self, message: Delivery<'_>) {
        if self.muted.contains(&message.sender) {
            return;
        }
        self.count += 1;
        let count = self.count;
        let due = |every: u64| count.is_multiple_of(every.max(1));
        match self.mischief {
            Mischief::Drop { every } if due(every) => return,
            Mischief::Double { every } if due(every) => self.add(message),
            _ => {}
        }
        self.add(message);
        let last = self.rows.len() - 1;
        match self.mischief {
            Mischief::Swap { every } if count % every.max(1) < 2 && last > 0 => {
                self.rows.swap(last - 1, last);
            }
            Mischief::Corrupt { every } if due(every) => {
                if let Some(byte) = self.bytes.last_mut() {
                    *byte ^= 0x10;
                }
            }
            _ => {}
        }
    }
}
