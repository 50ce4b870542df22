//! A handful of endpoints in one region on a virtual network, with a scripted membership service.
//! The simulator does all of this better; here one can see every packet of a case.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::time::Duration;

use qsm_proto::session::{Session, SessionPeer, frame_bytes};
use qsm_proto::{
    Config, Deliver, Delivery, Endpoint, Event, Instant, LossCause, Miss, Outbox, Promptness,
    PublishError, Seed,
};
use qsm_testnet::{Arrival, Flight, NetworkOptions};
use qsm_wire::membership::{
    Answer, AnswerRows, AwayReason, FromService, Member, MemberFilter, Role, ToService, Update,
    ViewStep,
};
use qsm_wire::{
    Body, ChannelId, GroupId, Header, Hop, Incarnation, Kind, NodeId, Origin, Packet, RegionId,
    ViewNumber,
};

pub(crate) const REGION: RegionId = RegionId(1);
pub(crate) const CHANNEL: ChannelId = ChannelId(1);
/// Host of the membership service.
const SERVICE: u64 = 0;
const NETWORK: NetworkOptions = NetworkOptions {
    jitter: Duration::from_micros(50),
    uplink_bits_per_second: u64::MAX,
    ..NetworkOptions::PERFECT
};

pub(crate) fn address(node: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, u8::try_from(node).unwrap()], 9))
}

fn node_at(address: SocketAddr) -> u64 {
    let IpAddr::V4(ip) = address.ip() else {
        unreachable!("all addresses are IPv4");
    };
    u64::from(ip.octets()[3])
}

pub(crate) fn multicast() -> SocketAddr {
    SocketAddr::from(([239, 1, 1, 1], 9))
}

pub(crate) fn origin(node: u64) -> Origin {
    Origin {
        node: NodeId(node),
        incarnation: Incarnation(1),
    }
}

/// A message as an application got it.
pub(crate) type Got = (GroupId, Origin, u64, Vec<u8>);

/// What an application was given, and what it was told that it will not get.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    messages: Vec<Got>,
    /// First and last numbers.
    pub(crate) missed: Vec<(u64, u64)>,
    /// The same with the group, and how many messages had come before that was told.
    pub(crate) lost: Vec<(GroupId, u64, u64, usize)>,
    /// Of these messages, so many that had expired.
    pub(crate) expired: u64,
    /// Packets of which it was not told what was in them.
    pub(crate) packets: u64,
    /// What it was given and told in other ways than in order, each in one line.
    pub(crate) prompt: BTreeMap<Promptness, Vec<String>>,
    /// Groups whose names it knows in this life.
    named: BTreeMap<GroupId, String>,
}

impl Deref for Inbox {
    type Target = Vec<Got>;

    fn deref(&self) -> &Vec<Got> {
        &self.messages
    }
}

impl Deliver for Inbox {
    fn deliver(&mut self, message: Delivery<'_>) {
        let name = self.named.get(&message.group).map(String::as_str);
        assert_eq!(name, Some(&*group_name(message.group.0)));
        let bytes = message.bytes.to_vec();
        self.messages
            .push((message.group, message.sender, message.number, bytes));
    }

    fn name_group(&mut self, group: GroupId, name: &str) {
        self.named.insert(group, name.to_owned());
    }

    fn miss(&mut self, miss: Miss<'_>) {
        match miss {
            Miss::Messages {
                group,
                first,
                last,
                cause,
                ..
            } => {
                let expired = cause == LossCause::Expired;
                self.expired += if expired { last + 1 - first } else { 0 };
                self.missed.push((first, last));
                self.lost.push((group, first, last, self.messages.len()));
            }
            Miss::Packets { packets, .. } => self.packets += packets,
            Miss::Life { .. } => self.named.clear(),
            Miss::Absence { .. } => {}
        }
    }

    fn deliver_promptly(&mut self, mode: Promptness, message: Delivery<'_>) {
        let line = format!(
            "{}#{} {}",
            message.group.0,
            message.number,
            message.bytes.len()
        );
        self.prompt.entry(mode).or_default().push(line);
    }

    fn miss_promptly(&mut self, mode: Promptness, miss: Miss<'_>) {
        let line = match miss {
            Miss::Messages {
                group, first, last, ..
            } => format!("{} lost {first}..{last}", group.0),
            other => format!("{other:?}"),
        };
        self.prompt.entry(mode).or_default().push(line);
    }
}

fn group_name(group: u32) -> String {
    format!("group/{group}")
}

pub(crate) struct Cluster {
    pub(crate) now: Instant,
    pub(crate) nodes: BTreeMap<u64, Endpoint>,
    pub(crate) got: BTreeMap<u64, Inbox>,
    pub(crate) events: BTreeMap<u64, Vec<Event>>,
    pub(crate) flight: Flight,
    /// First transmissions that arrived: (receiver, sequence), to know who held what.
    pub(crate) arrived: BTreeSet<(u64, u64)>,
    /// Sequences that somebody asked the sender for, with the number of requests.
    pub(crate) asked: BTreeMap<u64, u32>,
    /// Of each node those from whom it has got packets that are not data, or who have got such
    /// packets that it sent to them alone; 0 is the membership service.
    pub(crate) peers: BTreeMap<u64, BTreeSet<u64>>,
    sessions: BTreeMap<u64, Session>,
    batches: BTreeMap<u64, u64>,
    view: ViewNumber,
    pub(crate) members: Vec<u64>,
    /// Views in which members joined that have come since the first one.
    pub(crate) joined: BTreeMap<u64, u32>,
    /// Members that the next view marks as away.
    pub(crate) away: BTreeSet<u64>,
    /// Told with the next view: members that do not receive all groups, or have not since they came.
    pub(crate) filters: Vec<MemberFilter>,
    /// Told with each view: terms of the region.
    pub(crate) terms: Vec<Update>,
    /// Nodes that stand still: they hear and say nothing, and their time stands still.
    pub(crate) paused: BTreeSet<u64>,
    /// Packets of this kind do not arrive.
    pub(crate) filtered: Option<Kind>,
    /// Packets of data with these numbers do not arrive at these nodes, however often they are sent.
    pub(crate) withheld: BTreeSet<(u64, u64)>,
    groups: u32,
}

impl Cluster {
    /// Like [`Cluster::with_groups`], with two groups.
    pub(crate) fn new(members: u64, publishers: &[u64], configure: impl Fn(&mut Config)) -> Self {
        Self::with_groups(2, members, publishers, configure)
    }

    /// Members `1..=members` of all groups; they and the publishers (members or not) are admitted
    /// with a first view.
    pub(crate) fn with_groups(
        groups: u32,
        members: u64,
        publishers: &[u64],
        configure: impl Fn(&mut Config),
    ) -> Self {
        let mut cluster = Self {
            now: Instant(1_000_000),
            nodes: BTreeMap::new(),
            got: BTreeMap::new(),
            events: BTreeMap::new(),
            flight: Flight::new(NETWORK, Seed(7)),
            arrived: BTreeSet::new(),
            asked: BTreeMap::new(),
            peers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            batches: BTreeMap::new(),
            view: ViewNumber(0),
            members: (1..=members).collect(),
            joined: BTreeMap::new(),
            away: BTreeSet::new(),
            filters: Vec::new(),
            terms: Vec::new(),
            paused: BTreeSet::new(),
            filtered: None,
            withheld: BTreeSet::new(),
            groups,
        };
        cluster.flight.add_host(address(SERVICE));
        let all: BTreeSet<u64> = (1..=members).chain(publishers.iter().copied()).collect();
        for node in all {
            let mut config = Config::new(NodeId(node), address(node));
            config.service = Some(address(SERVICE));
            config.receive_buffer_bytes = 8 << 20;
            configure(&mut config);
            let mut endpoint = Endpoint::new(config, Seed(node), cluster.now).unwrap();
            let names: Vec<String> = cluster.names().collect();
            cluster.flight.add_host(address(node));
            if cluster.members.contains(&node) {
                cluster.flight.listen(address(node), multicast(), true);
                endpoint.enter(cluster.now, Role::Subscriber, names.clone());
            }
            if publishers.contains(&node) {
                endpoint.enter(cluster.now, Role::Publisher, names);
            }
            cluster.nodes.insert(node, endpoint);
        }
        cluster.run(Duration::from_millis(50));
        cluster.change_view();
        cluster.run(Duration::from_millis(50));
        cluster.flight.reseed(Seed(8));
        cluster
    }

    fn names(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.groups).map(group_name)
    }

    /// The region as it is told, without terms.
    pub(crate) fn region(&self) -> Update {
        let groups = (0..self.groups).map(GroupId).collect();
        Update::Region {
            region: REGION,
            channel: CHANNEL,
            address: multicast(),
            groups,
        }
    }

    /// Sends the next view, of the present `members`, to everybody.
    pub(crate) fn change_view(&mut self) {
        self.view = ViewNumber(self.view.0 + 1);
        let added = self.members.iter().map(|node| Member {
            origin: origin(*node),
            address: address(*node),
            joined: ViewNumber(self.joined.get(node).copied().unwrap_or(1)),
            left: None,
            away: self.away.contains(node).then_some(AwayReason::Silent),
        });
        let update = Update::View(ViewStep {
            region: REGION,
            view: self.view,
            base: ViewNumber(0),
            removed: Vec::new(),
            leaving: Vec::new(),
            changed: Vec::new(),
            added: added.collect(),
        });
        let region = self.region();
        let named = self.names().zip(0..).map(|(name, group)| Update::Named {
            group: GroupId(group),
            name,
        });
        let filters = Update::Filters {
            region: REGION,
            whole: true,
            members: self.filters.clone(),
        };
        let filters = Some(filters).filter(|_| !self.filters.is_empty());
        let updates = named.chain([region, update]).chain(filters);
        let updates: Vec<Update> = updates.chain(self.terms.iter().cloned()).collect();
        self.batch(&updates);
    }

    pub(crate) fn batch(&mut self, updates: &[Update]) {
        for node in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.batch_for(node, updates);
        }
    }

    /// Tells one node alone.
    pub(crate) fn batch_for(&mut self, node: u64, updates: &[Update]) {
        let number = self.batches.entry(node).or_insert(0);
        *number += 1;
        let message = FromService::Batch {
            number: *number,
            updates: updates.to_vec(),
        };
        self.tell(node, &message);
    }

    /// A node is gone without a word.
    pub(crate) fn crash(&mut self, node: u64) {
        self.nodes.remove(&node);
        self.sessions.remove(&node);
    }

    pub(crate) fn publish(&mut self, node: u64, group: u32, payload: &[u8]) -> u64 {
        loop {
            let got = self.got.entry(node).or_default();
            let endpoint = self.nodes.get_mut(&node).unwrap();
            match endpoint.publish(self.now, GroupId(group), payload, got) {
                Ok(number) => {
                    self.flush(node);
                    return number;
                }
                Err(PublishError::WindowFull { .. }) => self.run(Duration::from_millis(1)),
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.now.after(duration);
        // Each may have been told something since it last ran.
        let mut touched: BTreeSet<u64> = self.nodes.keys().copied().collect();
        let mut timers = BTreeMap::new();
        loop {
            for node in touched {
                self.flush(node);
                if self.paused.contains(&node) {
                    timers.remove(&node);
                } else if let Some(endpoint) = self.nodes.get(&node) {
                    timers.insert(node, endpoint.next_timeout().unwrap_or(Instant::NEVER));
                }
            }
            let timer = timers.values().min().copied();
            let arrival = self.flight.next_time();
            let sessions = self.sessions.values().filter_map(Session::next_timeout);
            let next = timer.into_iter().chain(arrival).chain(sessions).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            touched = self.arrivals();
            touched.extend(
                timers
                    .iter()
                    .filter(|(_, at)| **at <= self.now)
                    .map(|(node, _)| *node),
            );
            touched.retain(|node| !self.paused.contains(node));
            for node in &touched {
                if let Some(endpoint) = self.nodes.get_mut(node) {
                    let got = self.got.entry(*node).or_default();
                    endpoint.handle_timeout(self.now, got);
                    endpoint.check_invariants();
                }
            }
            self.send_sessions();
        }
        self.now = end;
    }

    /// Lets everything arrive whose time has come; returns where.
    fn arrivals(&mut self) -> BTreeSet<u64> {
        let mut reached = BTreeSet::new();
        while let Some(arrival) = self.flight.poll(self.now) {
            reached.insert(node_at(arrival.at));
            self.arrive(&arrival);
        }
        reached
    }

    /// Runs until all publishers know that everything is stable.
    pub(crate) fn settle(&mut self, limit: Duration) {
        let end = self.now.after(limit);
        while self.now < end {
            self.run(Duration::from_millis(5));
            if self.nodes.values().all(Endpoint::is_stable) {
                return;
            }
        }
        let stats: Vec<_> = self
            .nodes
            .iter()
            .map(|(node, e)| (node, e.stats()))
            .collect();
        panic!("not stable within {limit:?}: {stats:#?}");
    }

    pub(crate) fn total(&self, count: impl Fn(&qsm_proto::Stats) -> u64) -> u64 {
        self.nodes
            .values()
            .map(|endpoint| count(&endpoint.stats()))
            .sum()
    }

    fn flush(&mut self, node: u64) {
        let Some(endpoint) = self.nodes.get_mut(&node) else {
            return;
        };
        if self.paused.contains(&node) {
            return;
        }
        while let Some(transmit) = endpoint.poll_transmit(self.now) {
            let to = transmit.to.address();
            for datagram in transmit.bytes.chunks(transmit.segment_bytes) {
                note_request(&mut self.asked, to, datagram);
                self.flight.send(self.now, address(node), to, datagram);
            }
        }
        let kept = self.events.entry(node).or_default();
        kept.extend(core::iter::from_fn(|| endpoint.poll_event()));
    }

    fn arrive(&mut self, arrival: &Arrival) {
        let (from, at) = (node_at(arrival.from), node_at(arrival.at));
        if at != SERVICE && (!self.nodes.contains_key(&at) || self.paused.contains(&at)) {
            return;
        }
        if self.filtered.is_some() && Kind::peek(&arrival.bytes) == self.filtered {
            return;
        }
        let packet = Packet::decode(&arrival.bytes).unwrap();
        if let Body::Data(data) = &packet.body
            && self.withheld.contains(&(at, data.head.sequence))
        {
            return;
        }
        match packet.body {
            Body::Data(data) if packet.header.hop == Hop::Direct => {
                self.arrived.insert((at, data.head.sequence));
            }
            Body::Data(_) => {}
            _ => {
                self.peers.entry(at).or_default().insert(from);
                if arrival.to == arrival.at {
                    self.peers.entry(from).or_default().insert(at);
                }
            }
        }
        if let Some(endpoint) = self.nodes.get_mut(&at) {
            let got = self.got.entry(at).or_default();
            endpoint.handle_datagram(self.now, arrival.from, arrival.bytes[..].into(), got);
        } else {
            self.serve(&packet);
        }
    }

    /// The scripted service: admits everybody, confirms every request.
    fn serve(&mut self, packet: &Packet<'_>) {
        let node = packet.header.origin.node.0;
        match packet.body {
            Body::Session(frame) => {
                let session = self
                    .sessions
                    .entry(node)
                    .or_insert_with(|| Session::new(frame.head.session, frame_bytes(1472)));
                session.handle_frame(self.now, &frame);
            }
            Body::SessionAck(heard) => {
                if let Some(session) = self.sessions.get_mut(&node) {
                    session.handle_heard(self.now, heard.heard_upto, false);
                    let mut outbox = Outbox::new();
                    session.transmit_heard(&peer(node), &mut outbox);
                    self.post(outbox);
                }
            }
            _ => {}
        }
        let messages: Vec<Vec<u8>> = self
            .sessions
            .get_mut(&node)
            .map(|session| core::iter::from_fn(|| session.poll_message()).collect())
            .unwrap_or_default();
        for message in messages {
            let answer = match ToService::decode(&message).unwrap() {
                ToService::Hello(_) => FromService::Welcome {
                    incarnation: Incarnation(1),
                    term: 1,
                    heartbeat_ms: 200,
                    expelled: false,
                },
                ToService::CaughtUp { view, .. } => {
                    if view == self.view && self.away.remove(&node) {
                        self.change_view();
                    }
                    continue;
                }
                ToService::Enter { request, .. } => FromService::Answer(Answer {
                    request,
                    result: Ok(AnswerRows::None),
                }),
                _ => continue,
            };
            self.tell(node, &answer);
        }
    }

    fn tell(&mut self, node: u64, message: &FromService) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if let Some(session) = self.sessions.get_mut(&node) {
            session.send(&bytes).unwrap();
        }
        self.send_sessions();
    }

    fn send_sessions(&mut self) {
        for node in self.sessions.keys().copied().collect::<Vec<_>>() {
            let mut outbox = Outbox::new();
            let session = self.sessions.get_mut(&node).unwrap();
            session.transmit(self.now, &peer(node), &mut outbox);
            self.post(outbox);
        }
    }

    fn post(&mut self, mut outbox: Outbox) {
        while let Some(transmit) = outbox.pop() {
            let (from, to) = (address(SERVICE), transmit.to.address());
            self.flight.send(self.now, from, to, transmit.bytes);
        }
    }
}

/// Counts what is asked of the sender itself.
fn note_request(asked: &mut BTreeMap<u64, u32>, to: SocketAddr, datagram: &[u8]) {
    let Body::Nak(request) = Packet::decode(datagram).unwrap().body else {
        return;
    };
    if to == address(request.head.stream.origin.node.0) {
        for range in request.ranges.iter() {
            for sequence in range.first()..=range.last() {
                *asked.entry(sequence).or_insert(0) += 1;
            }
        }
    }
}

fn peer(node: u64) -> SessionPeer {
    let header = Header {
        cluster: Config::new(NodeId(0), address(1)).cluster_number(),
        origin: Origin {
            node: NodeId(999),
            incarnation: Incarnation(1),
        },
        hop: Hop::Direct,
    };
    SessionPeer {
        header,
        to: address(node),
    }
}
