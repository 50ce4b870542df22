//! A network of sources, relays and receivers without sockets: links that lose, delay, double and
//! reorder datagrams, and nodes that forget everything, stand still and move.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use qsm_relay::{
    Codepoint, Event, Kind, Packet, Receiver, Relay, SendError, SessionId, Source, Timing, To,
};
use qsm_wire::{Instant, Random, Seed};

use crate::link::{Bottleneck, Link, Loss, Passage};
use crate::mischief::Mischief;
use crate::step::{Heard, NOBODY, News, Step, Told, What, numbers};

/// The one session of a network.
pub const SESSION: SessionId = SessionId {
    source: 0x0102_0304_0506_0708,
    group: 0xefc0_0001,
};
/// Node of the source.
pub const SOURCE: usize = 0;
/// Bytes of the headers of IP and UDP.
pub const OVERHEAD_BYTES: usize = 28;
/// Port of all nodes whose address has not changed.
const PORT: u16 = 4500;
/// Address of node 0.
const NET: u32 = 0x0a00_0000;

#[derive(Debug)]
enum Role {
    Source(Box<Source>),
    Relay(Option<Box<Relay>>),
    Receiver(Option<Box<Receiver>>),
}

/// A node with its declared parent; the source has none.
#[derive(Debug)]
struct Node {
    role: Role,
    parent: Option<usize>,
    /// Parents of a relay or receiver that wait for the first one to be silent.
    standby: Vec<usize>,
    /// It hears nothing and does nothing before this time.
    frozen: Instant,
    /// Port that a translator of addresses gives it.
    port: u16,
    /// Bytes of the cache, of a relay.
    cache: usize,
    /// Its children get parity, of a relay.
    parity: bool,
    heard: Heard,
}

/// A datagram on its way.
#[derive(Debug)]
struct Flying {
    from: usize,
    to: usize,
    bytes: Vec<u8>,
    codepoint: Codepoint,
}

/// The nodes, their links, what is on its way, and the time.
#[derive(Debug)]
pub struct Network {
    now: Instant,
    timing: Timing,
    link: Link,
    links: BTreeMap<(usize, usize), Link>,
    random: Random,
    nodes: Vec<Node>,
    queue: BTreeMap<(Instant, u64), Flying>,
    wakeups: BTreeSet<(Instant, usize)>,
    losses: Vec<Loss>,
    narrow: BTreeMap<(usize, usize), Bottleneck>,
    payload_bytes: Option<usize>,
    /// Number of the last packet that the source has taken.
    taken: u64,
    order: u64,
    mischief: Mischief,
    steps: Vec<Step>,
    news: Vec<News>,
}

/// The payload that a network's source sends in the packet of this number; of this length, if all have
/// the same.
#[must_use]
pub fn payload(sequence: u64, bytes: Option<usize>) -> Vec<u8> {
    let drawn = usize::try_from(sequence * 37 % 200).unwrap_or(0);
    let length = bytes.unwrap_or(drawn);
    let bytes = sequence.to_le_bytes();
    bytes.iter().copied().cycle().take(length).collect()
}

/// Address of a node where no translator of addresses is between.
fn address(node: usize) -> SocketAddr {
    let number = u32::try_from(node).unwrap_or(u32::MAX - NET);
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from(NET + number)), PORT)
}

fn node_at(address: SocketAddr) -> usize {
    match address.ip() {
        IpAddr::V4(ip) => usize::try_from(u32::from(ip).wrapping_sub(NET)).unwrap_or(NOBODY),
        IpAddr::V6(_) => NOBODY,
    }
}

impl Network {
    /// A network with a source, and links of this kind. The intervals of all nodes are those for its
    /// longest round trip.
    #[must_use]
    pub fn new(seed: u64, link: Link, window: u64) -> Self {
        let timing = Timing::new(link.round_trip(), link.round_trip());
        let source = Source::new(SESSION, timing, window);
        let mut network = Self {
            now: Instant(0),
            timing,
            link,
            links: BTreeMap::new(),
            random: Random::new(Seed(seed), "relays"),
            nodes: Vec::new(),
            queue: BTreeMap::new(),
            wakeups: BTreeSet::new(),
            losses: Vec::new(),
            narrow: BTreeMap::new(),
            payload_bytes: None,
            taken: 0,
            order: 0,
            mischief: Mischief::None,
            steps: Vec::new(),
            news: Vec::new(),
        };
        network.add(Role::Source(Box::new(source)), None);
        network
    }

    /// Has this bug from now on.
    pub fn spoil(&mut self, mischief: Mischief) {
        self.mischief = mischief;
    }

    /// Gives each payload this length from now on.
    pub fn set_payload_bytes(&mut self, bytes: usize) {
        self.payload_bytes = Some(bytes);
    }

    /// Adds a relay below this node, and returns its number.
    pub fn add_relay(&mut self, parent: usize) -> usize {
        let node = self.add(Role::Relay(None), Some(parent));
        self.start(node);
        node
    }

    /// Names another parent of a relay or receiver that has just been added.
    pub fn add_standby(&mut self, node: usize, parent: usize) {
        let (now, mischief) = (self.now, self.mischief);
        let place = &mut self.nodes[node];
        match &mut place.role {
            Role::Receiver(_) if mischief == Mischief::StandbyIgnored => return,
            Role::Relay(_) if mischief == Mischief::RelayStandbyIgnored => return,
            Role::Receiver(Some(receiver)) => receiver.add_parent(now, address(parent)),
            Role::Relay(Some(relay)) => relay.add_parent(now, address(parent)),
            Role::Source(_) | Role::Relay(None) | Role::Receiver(None) => {}
        }
        place.standby.push(parent);
        self.pump(node);
    }

    /// A receiver that has just been added asks all its parents at once.
    pub fn choose_nearest(&mut self, node: usize) {
        if let Role::Receiver(Some(receiver)) = &mut self.nodes[node].role {
            receiver.choose_nearest();
        }
        self.pump(node);
    }

    /// Gives a relay that has just been added memory for packets.
    pub fn set_cache(&mut self, node: usize, bytes: usize) {
        self.nodes[node].cache = bytes;
        if let Role::Relay(Some(relay)) = &mut self.nodes[node].role {
            relay.keep(bytes);
        }
    }

    /// Has the source, which adapts its rate, and the relays that have been added send parity.
    pub fn send_parity(&mut self) {
        for node in &mut self.nodes {
            node.parity = true;
            match &mut node.role {
                Role::Source(source) => source.send_parity(),
                Role::Relay(Some(relay)) => relay.send_parity(),
                Role::Relay(None) | Role::Receiver(_) => {}
            }
        }
    }

    /// Adds a receiver below this node, and returns its number.
    pub fn add_receiver(&mut self, parent: usize) -> usize {
        let node = self.add(Role::Receiver(None), Some(parent));
        self.start(node);
        node
    }

    fn add(&mut self, role: Role, parent: Option<usize>) -> usize {
        self.nodes.push(Node {
            role,
            parent,
            standby: Vec::new(),
            frozen: Instant(0),
            port: PORT,
            cache: 0,
            parity: false,
            heard: Heard::default(),
        });
        self.nodes.len() - 1
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Intervals of all nodes.
    #[must_use]
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// The declared parent of a node.
    #[must_use]
    pub fn parent_of(&self, node: usize) -> Option<usize> {
        self.nodes.get(node)?.parent
    }

    /// Tells whether a node is a parent of another one, the present one or one that waits.
    #[must_use]
    pub fn is_parent(&self, parent: usize, of: usize) -> bool {
        let node = self.nodes.get(of);
        node.is_some_and(|node| node.parent == Some(parent) || node.standby.contains(&parent))
    }

    /// Each child with its first parent in front.
    #[must_use]
    pub fn hops(&self) -> Vec<(usize, usize)> {
        let hops = self.nodes.iter().enumerate();
        hops.filter_map(|(child, node)| Some((node.parent?, child)))
            .collect()
    }

    /// The source.
    ///
    /// # Panics
    /// Never: node 0 is one.
    #[must_use]
    pub fn source(&self) -> &Source {
        let Role::Source(source) = &self.nodes[SOURCE].role else {
            unreachable!("node 0 is the source")
        };
        source
    }

    /// The source, to be told something.
    ///
    /// # Panics
    /// Never: node 0 is one.
    pub fn source_mut(&mut self) -> &mut Source {
        let Role::Source(source) = &mut self.nodes[SOURCE].role else {
            unreachable!("node 0 is the source")
        };
        source
    }

    /// The relay at a node, while it runs.
    #[must_use]
    pub fn relay(&self, node: usize) -> Option<&Relay> {
        match &self.nodes.get(node)?.role {
            Role::Relay(relay) => relay.as_deref(),
            Role::Source(_) | Role::Receiver(_) => None,
        }
    }

    /// The receiver at a node, while it runs.
    #[must_use]
    pub fn receiver(&self, node: usize) -> Option<&Receiver> {
        match &self.nodes.get(node)?.role {
            Role::Receiver(receiver) => receiver.as_deref(),
            Role::Source(_) | Role::Relay(_) => None,
        }
    }

    /// Account of what a receiver's application was told since the receiver was started.
    #[must_use]
    pub fn heard(&self, node: usize) -> &Heard {
        &self.nodes[node].heard
    }

    /// Packets that have been sent and have arrived since they were forgotten last.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Takes out what has happened since the last call.
    pub fn take_steps(&mut self) -> Vec<Step> {
        core::mem::take(&mut self.steps)
    }

    /// Takes out what applications were told since the last call.
    pub fn take_news(&mut self) -> Vec<News> {
        core::mem::take(&mut self.news)
    }

    /// Datagrams on their way.
    #[must_use]
    pub fn flying(&self) -> usize {
        self.queue.len()
    }

    /// Treats both directions between these two like this from now on.
    pub fn set_link(&mut self, one: usize, other: usize, link: Link) {
        self.links.insert((one, other), link);
        self.links.insert((other, one), link);
    }

    /// The link between these two, in this direction.
    #[must_use]
    pub fn link(&self, from: usize, to: usize) -> Link {
        self.links.get(&(from, to)).copied().unwrap_or(self.link)
    }

    /// Loses the next datagram that fits.
    pub fn lose(&mut self, loss: Loss) {
        self.losses.push(loss);
    }

    /// All that goes this way goes through a bottleneck from now on.
    pub fn narrow(&mut self, from: usize, to: usize, bottleneck: Bottleneck) {
        self.narrow.insert((from, to), bottleneck);
    }

    /// The bottleneck of this way, which something else may go through, too.
    pub fn bottleneck_mut(&mut self, from: usize, to: usize) -> Option<&mut Bottleneck> {
        self.narrow.get_mut(&(from, to))
    }

    /// The source sends the next packet.
    ///
    /// # Errors
    /// The source does not take it.
    pub fn send(&mut self) -> Result<u64, SendError> {
        let payload = payload(self.taken + 1, self.payload_bytes);
        let now = self.now;
        let sent = self.source_mut().send(now, &payload);
        self.taken += u64::from(sent.is_ok());
        self.pump(SOURCE);
        sent
    }

    /// The source ends the stream.
    pub fn finish(&mut self) {
        let now = self.now;
        self.source_mut().finish(now);
        self.pump(SOURCE);
    }

    /// The program of the source ends, and is started again; it numbers from behind this number on.
    pub fn restart_source(&mut self, behind: u64, window: u64) {
        let mut source = Source::new(SESSION, self.timing, window);
        source.number_behind(behind);
        self.taken = behind;
        self.nodes[SOURCE].role = Role::Source(Box::new(source));
    }

    /// A receiver says that it goes.
    pub fn leave(&mut self, node: usize) {
        if let Role::Receiver(Some(it)) = &mut self.nodes[node].role {
            it.leave();
        }
        self.pump(node);
        self.stop(node);
    }

    /// A translator of addresses between a node and its parent gives it another port, and forgets the
    /// old one.
    pub fn change_port(&mut self, node: usize) {
        self.nodes[node].port += 1;
    }

    /// A relay or receiver forgets everything, and hears nothing until it is started again. The source
    /// goes on.
    pub fn stop(&mut self, node: usize) {
        let kept = self.mischief == Mischief::GoneReported;
        match &mut self.nodes[node].role {
            Role::Source(_) => {}
            Role::Relay(relay) => *relay = None,
            Role::Receiver(receiver) if !kept => *receiver = None,
            Role::Receiver(_) => {}
        }
    }

    /// Starts a relay or receiver that knows nothing, below its declared parent.
    pub fn start(&mut self, node: usize) {
        // Numbers that nobody else has drawn.
        let number = self.random.bits() | 1;
        let (timing, now) = (self.timing, self.now);
        let place = &mut self.nodes[node];
        let Some(parent) = place.parent.map(address) else {
            return;
        };
        match &mut place.role {
            Role::Source(_) => {}
            Role::Relay(relay) => {
                let mut made = Relay::new(parent, number, timing);
                made.keep(place.cache);
                if place.parity {
                    made.send_parity();
                }
                for other in &place.standby {
                    made.add_parent(now, address(*other));
                }
                *relay = Some(Box::new(made));
            }
            Role::Receiver(receiver) => {
                let mut made = Receiver::new(SESSION, number, timing, parent, now);
                for other in &place.standby {
                    made.add_parent(now, address(*other));
                }
                *receiver = Some(Box::new(made));
                place.heard = Heard::default();
            }
        }
        self.pump(node);
    }

    /// Declares another parent, for when the node is started next.
    pub fn declare(&mut self, node: usize, parent: usize) {
        self.nodes[node].parent = Some(parent);
    }

    /// A node stands still for so long; what comes meanwhile waits for it.
    pub fn freeze(&mut self, node: usize, duration: Duration) {
        let until = self.now.after(duration);
        let place = &mut self.nodes[node];
        place.frozen = place.frozen.max(until);
    }

    /// Puts bytes from nowhere on their way.
    pub fn forge(&mut self, from: usize, to: usize, bytes: Vec<u8>) {
        let codepoint = Codepoint::NotCapable;
        let flying = Flying {
            from,
            to,
            bytes,
            codepoint,
        };
        self.fly(self.now, flying);
    }

    /// When something happens next.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        let arrival = self.queue.first_key_value().map(|((at, _), _)| *at);
        let wakeup = self.wakeups.first().map(|(at, _)| *at);
        arrival.into_iter().chain(wakeup).min()
    }

    /// Carries out the one thing that happens next, if it does by then; else it is that time.
    pub fn step(&mut self, until: Instant) -> bool {
        let Some(at) = self.next().filter(|at| *at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(at);
        let arrives = self
            .queue
            .first_key_value()
            .is_some_and(|((it, _), _)| *it == at);
        if arrives {
            if let Some((_, flying)) = self.queue.pop_first() {
                self.arrive(flying);
            }
        } else if let Some((_, node)) = self.wakeups.pop_first() {
            self.wake(node);
        }
        true
    }

    /// Goes on for so long.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now.after(duration);
        while self.step(end) {}
    }

    /// The address of a node as another one sees it.
    fn address_of(&self, node: usize, seen_by: usize) -> SocketAddr {
        let mut address = address(node);
        if let Some(it) = self.nodes.get(node)
            && self.is_parent(seen_by, node)
        {
            address.set_port(it.port);
        }
        address
    }

    /// The node that has this address now, if it is not an old one.
    fn reached(&self, from: usize, at: SocketAddr) -> usize {
        let node = node_at(at);
        let known = node < self.nodes.len() && self.address_of(node, from) == at;
        if known { node } else { NOBODY }
    }

    fn fly(&mut self, at: Instant, flying: Flying) {
        self.order += 1;
        self.queue.insert((at, self.order), flying);
    }

    fn arrive(&mut self, flying: Flying) {
        let Some(node) = self.nodes.get(flying.to) else {
            // To a stranger.
            return;
        };
        if node.frozen > self.now {
            self.fly(node.frozen, flying);
            return;
        }
        let Flying {
            from,
            to,
            bytes,
            codepoint,
        } = flying;
        let (now, at) = (self.now, self.address_of(from, to));
        if let Ok(packet) = Packet::decode(&bytes) {
            self.record(What::Arrived, Way { from, to }, &packet, bytes.len());
        }
        let onward: Vec<SocketAddr> = match &mut self.nodes[to].role {
            Role::Source(source) => {
                source.handle_datagram(now, at, &bytes);
                Vec::new()
            }
            Role::Relay(Some(relay)) => {
                let passed = relay.handle_datagram(now, at, &bytes);
                relay.addresses(passed).collect()
            }
            Role::Receiver(Some(receiver)) => {
                receiver.handle_marked(now, at, &bytes, codepoint);
                Vec::new()
            }
            Role::Relay(None) | Role::Receiver(None) => return,
        };
        let mut onward: Vec<usize> = onward.iter().map(|it| self.reached(to, *it)).collect();
        if self.relay(to).is_some() {
            self.spoil_onward(Way { from, to }, &bytes, &mut onward);
        }
        for next in onward {
            self.transmit(Way { from: to, to: next }, &bytes, codepoint);
        }
        self.pump(to);
    }

    fn wake(&mut self, node: usize) {
        let now = self.now;
        if self.nodes[node].frozen > now {
            self.wakeups.insert((self.nodes[node].frozen, node));
            return;
        }
        if self.next_timeout(node).is_none_or(|at| at > now) {
            return;
        }
        match &mut self.nodes[node].role {
            Role::Source(source) => source.handle_timeout(now),
            Role::Relay(Some(relay)) => relay.handle_timeout(now),
            Role::Receiver(Some(receiver)) => receiver.handle_timeout(now),
            Role::Relay(None) | Role::Receiver(None) => {}
        }
        self.pump(node);
    }

    fn next_timeout(&self, node: usize) -> Option<Instant> {
        match &self.nodes[node].role {
            Role::Source(source) => source.next_timeout(),
            Role::Relay(relay) => relay.as_ref()?.next_timeout(),
            Role::Receiver(receiver) => receiver.as_ref()?.next_timeout(),
        }
    }

    /// Sends what a node wants to send, and takes its events.
    fn pump(&mut self, node: usize) {
        let mut bytes = Vec::new();
        while let Some(to) = self.poll(node, &mut bytes) {
            let codepoint = match &self.nodes[node].role {
                Role::Source(source) => source.codepoint(),
                Role::Relay(_) | Role::Receiver(_) => Codepoint::NotCapable,
            };
            for to in to {
                let to = self.reached(node, to);
                self.transmit(Way { from: node, to }, &bytes, codepoint);
            }
        }
        self.take_events(node);
        if let Some(at) = self.next_timeout(node) {
            self.wakeups.insert((at, node));
        }
    }

    /// The next packet of a node's own, and to whom it goes.
    fn poll(&mut self, node: usize, bytes: &mut Vec<u8>) -> Option<Vec<SocketAddr>> {
        match &mut self.nodes[node].role {
            Role::Source(source) => match source.poll_transmit(bytes)? {
                To::Address(address) => Some(vec![address]),
                To::Children(links) => {
                    let to: Vec<SocketAddr> = source.addresses(links).collect();
                    Some(to.repeat(self.mischief.parent_says(bytes)))
                }
            },
            Role::Relay(relay) => {
                let to = relay.as_mut()?.poll_transmit(bytes)?;
                let times = self.mischief.relay_says(bytes) * self.mischief.parent_says(bytes);
                Some(vec![to; times])
            }
            Role::Receiver(receiver) => Some(vec![receiver.as_mut()?.poll_transmit(bytes)?]),
        }
    }

    fn take_events(&mut self, node: usize) {
        let (at, size) = (self.now, self.payload_bytes);
        let Role::Receiver(Some(receiver)) = &mut self.nodes[node].role else {
            return;
        };
        let mut told = Vec::new();
        while let Some(event) = receiver.poll_event() {
            told.push(match event {
                Event::Joined { first } => Told::Joined(first),
                Event::Delivered {
                    sequence,
                    payload: bytes,
                } => {
                    let intact = bytes[..] == payload(sequence, size)[..];
                    Told::Delivered { sequence, intact }
                }
                Event::Lost { first, last } => Told::Lost { first, last },
                Event::Ended => Told::Ended,
            });
        }
        let mischief = self.mischief;
        for told in told.into_iter().flat_map(|told| mischief.told(told)) {
            self.nodes[node].heard.take(told);
            self.news.push(News { at, node, told });
        }
    }

    fn transmit(&mut self, way: Way, bytes: &[u8], codepoint: Codepoint) {
        let Way { from, to } = way;
        // Only legal packets are sent: a step without numbers of another kind would show it.
        let Ok(packet) = Packet::decode(bytes) else {
            return;
        };
        let kind = packet.body.kind();
        let sequence = numbers(&packet).first().copied().unwrap_or(0);
        let doomed = Loss {
            from,
            to,
            kind,
            sequence,
        };
        let doomed = self.losses.iter().position(|it| *it == doomed);
        if let Some(at) = doomed {
            self.losses.swap_remove(at);
        }
        let link = self.link(from, to);
        let mut leaves = Some(Passage {
            at: self.now,
            marked: false,
        });
        if self.random.chance_ppm(link.loss_ppm) || doomed.is_some() || to == NOBODY {
            leaves = None;
        } else if let Some(bottleneck) = self.narrow.get_mut(&(from, to)) {
            let size = (bytes.len() + OVERHEAD_BYTES) as u64;
            leaves = bottleneck.pass(self.now, size);
        }
        let what = leaves.map_or(What::Lost, |_| What::Sent);
        self.record(what, way, &packet, bytes.len());
        let Some(Passage { at: leaves, marked }) = leaves else {
            return;
        };
        let copies = 1 + u64::from(self.random.chance_ppm(link.double_ppm));
        for _ in 0..copies {
            let jitter = self.random.below(qsm_wire::nanoseconds(link.jitter) + 1);
            let at = leaves.after(link.delay + Duration::from_nanos(jitter));
            let flying = Flying {
                from,
                to,
                bytes: bytes.to_vec(),
                codepoint: link.marks.passed(codepoint, marked),
            };
            self.fly(at, flying);
        }
    }

    fn record(&mut self, what: What, way: Way, packet: &Packet<'_>, bytes: usize) {
        self.steps.push(Step {
            at: self.now,
            what,
            from: way.from,
            to: way.to,
            kind: packet.body.kind(),
            numbers: numbers(packet),
            bytes,
        });
    }

    /// Bugs in what a relay passes on.
    fn spoil_onward(&self, way: Way, bytes: &[u8], onward: &mut Vec<usize>) {
        let Ok(packet) = Packet::decode(bytes) else {
            return;
        };
        let kind = packet.body.kind();
        let kept = |packet: &Packet<'_>| {
            let mut asked = numbers(packet).into_iter();
            let relay = self.relay(way.to);
            relay.is_some_and(|relay| asked.all(|it| relay.keeps(SESSION, it)))
        };
        let mut all = Vec::new();
        for (parent, child) in self.hops() {
            if parent == way.to && child != way.from {
                all.push(child);
            }
        }
        match (self.mischief, kind) {
            (Mischief::RepairsDropped, Kind::Repair) => onward.clear(),
            (Mischief::RepairsToAll, Kind::Repair) if !onward.is_empty() => *onward = all,
            (Mischief::DuplicatesPassed, Kind::Data) => *onward = all,
            (Mischief::CachePassed, Kind::Nack) if kept(&packet) => {
                onward.extend(self.parent_of(way.to));
            }
            _ => {}
        }
    }
}

/// The two ends of a datagram.
#[derive(Debug, Clone, Copy)]
struct Way {
    from: usize,
    to: usize,
}
