//! Which way a datagram takes: interface, source address, next hop, MTU.
//!
//! The kernel is asked once per destination, by netlink, and the answer kept. A second netlink
//! socket hears of every change of routes, addresses, links, rules and neighbours, and is read
//! before each call: a change of neighbours alters the entry concerned, any other change makes all
//! answers stale, and they are asked for again when next needed.
//!
//! The kernel is asked as the socket would ask it: with its source address and port, user, mark,
//! traffic class and interface, and with the recipient's port where a rule looks at that; then an
//! answer is good for one port only.
//!
//! Everything out of the ordinary is [`Way::Socket`]: no route, a neighbour whose hardware address
//! is not known yet, a tunnel, a device without Ethernet addresses. The socket then sends as it
//! always did, with the kernel's own resolution and the kernel's own errors. So this module can be
//! simple, and errors cannot differ between back-ends.
//!
//! Clones do not pass the kernel's neighbour code, which watches for dead neighbours only where it
//! sends itself. Hence every next hop gets one datagram by the socket every
//! [`EXERCISE_SECONDS`]: it keeps the kernel's watch going, and news of the outcome come by netlink.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};

use super::frame::{Head, Mac};
use super::netlink::{Netlink, Reply, Request, find, word};
use crate::options::Options;

/// How often a next hop gets a datagram by the socket.
const EXERCISE_SECONDS: u64 = 10;
/// Questions per call. More destinations than this go by the socket for the time being, so that a
/// change of routes never holds a call up for longer than a few milliseconds.
pub(super) const QUESTIONS_MAX: usize = 4096;
/// Answers kept. At this many, all are thrown away: members that left long ago are among them.
const PATHS_MAX: usize = 200_000;
const NEIGHBOURS_MAX: usize = 200_000;

const NEW_NEIGHBOUR: u16 = 28;
const DELETE_NEIGHBOUR: u16 = 29;
const GET_NEIGHBOUR: u16 = 30;
const GET_ROUTE: u16 = 26;
const GET_LINK: u16 = 18;
const NEW_RULE: u16 = 32;
const DELETE_RULE: u16 = 33;
const GET_RULE: u16 = 34;
/// Fixed parts of the messages.
const ROUTE_BYTES: usize = 12;
const NEIGHBOUR_BYTES: usize = 12;
const LINK_BYTES: usize = 16;
const RULE_BYTES: usize = 12;
/// Attributes of a question for a route: protocol and ports.
const ROUTE_PROTOCOL: u16 = 27;
const ROUTE_SOURCE_PORT: u16 = 28;
const ROUTE_TARGET_PORT: u16 = 29;
/// Kinds of metrics of a route.
const METRIC_LOCKS: u16 = 1;
const METRIC_MTU: u16 = 2;
/// The attribute of a rule for ports of recipients.
const RULE_TARGET_PORTS: u16 = 24;
/// Links, neighbours, and of both IP versions addresses, routes and rules.
const NEWS: u32 = 0x1 | 0x4 | 0x10 | 0x40 | 0x80 | 0x100 | 0x400 | (1 << 18);
/// States of a neighbour whose hardware address is good: reachable, stale, delay, probe, no ARP,
/// permanent.
const USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
const PERMANENT: u16 = 0x40 | 0x80;

/// A destination as the routing tables see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) to: IpAddr,
    pub(super) scope: u32,
    /// The recipient's port where a rule looks at it, else 0.
    port: u16,
    /// Sockets may be bound to different addresses and devices.
    pub(super) socket: u8,
}

/// How to reach a destination.
#[derive(Debug, Clone)]
enum Way {
    /// By the socket: the kernel knows better.
    Socket,
    /// By clones out of an interface.
    Direct(Direct),
}

/// What the headers of a clone are made from.
#[derive(Debug, Clone)]
pub(super) struct Direct {
    pub(super) head: Head,
    pub(super) ifindex: u32,
    /// Largest IP packet.
    pub(super) mtu: usize,
    /// The next hop; `None` where none is needed, on loopback.
    neighbour: Option<u32>,
}

#[derive(Debug)]
struct Path {
    key: Key,
    /// The answer is good while this is the table's epoch.
    epoch: u32,
    way: Way,
}

#[derive(Debug, Clone, Copy)]
struct Neighbour {
    mac: Mac,
    state: u16,
    /// When it last got a datagram by the socket, seconds.
    exercised_s: u64,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    mac: Mac,
    mtu: usize,
    kind: LinkKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkKind {
    Ethernet,
    /// Ethernet without address resolution: the kernel puts the device's own address.
    EthernetNoArp,
    Loopback,
    /// Down, or something else.
    Unusable,
}

/// The routing tables, as far as asked.
#[derive(Debug)]
pub(super) struct Routes {
    questions: Netlink,
    news: Netlink,
    paths: Vec<Path>,
    places: HashMap<Key, u32>,
    neighbours: Vec<Neighbour>,
    neighbour_places: HashMap<(u32, IpAddr), u32>,
    links: HashMap<u32, Link>,
    /// Whether a rule looks at recipients' ports; `None`: rules have changed.
    by_port: Option<bool>,
    loopback: Loopback,
    epoch: u32,
    /// Questions left in this call.
    budget: usize,
    now_s: u64,
}

impl Routes {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            questions: Netlink::new(0)?,
            news: Netlink::new(NEWS)?,
            paths: Vec::new(),
            places: HashMap::new(),
            neighbours: Vec::new(),
            neighbour_places: HashMap::new(),
            links: HashMap::new(),
            by_port: None,
            // Read once, here: later calls may come from threads in other namespaces.
            loopback: Loopback::read(),
            epoch: 0,
            budget: 0,
            now_s: 0,
        })
    }

    /// A socket of the network namespace that the answers are about.
    pub(super) fn fd(&self) -> i32 {
        self.questions.fd()
    }

    /// Makes every answer stale: a socket's options changed.
    pub(super) fn forget(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.links.clear();
    }

    /// The key of a recipient's answer.
    pub(super) fn key(&mut self, to: SocketAddr, socket: u8) -> Key {
        let scope = match to {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(to) => to.scope_id(),
        };
        let by_port = self.by_port.unwrap_or_else(|| self.read_rules());
        Key {
            to: to.ip(),
            scope,
            port: if by_port { to.port() } else { 0 },
            socket,
        }
    }

    /// Finds out whether any rule looks at recipients' ports. If that cannot be told, one may.
    fn read_rules(&mut self) -> bool {
        let rules = self
            .questions
            .list(Request::new(GET_RULE, 0, &[0; RULE_BYTES]));
        let looks = |rule: &Reply| rule.attribute(RULE_BYTES, RULE_TARGET_PORTS).is_some();
        let by_port = match rules {
            Ok(rules) => rules.iter().any(looks),
            // A kernel without rules.
            Err(error) => error.raw_os_error() != Some(libc::EOPNOTSUPP),
        };
        self.by_port = Some(by_port);
        by_port
    }

    /// Makes one destination's answer stale: an ICMP error speaks of its path.
    pub(super) fn forget_one(&mut self, key: &Key) {
        if let Some(place) = self.places.get(key) {
            self.paths[*place as usize].epoch = self.epoch.wrapping_sub(1);
        }
    }

    /// Begins a call: reads the news.
    pub(super) fn begin(&mut self, now_s: u64) {
        self.now_s = now_s;
        self.budget = QUESTIONS_MAX;
        let news = self.news.news();
        self.take_in(news);
        if self.paths.len() >= PATHS_MAX || self.neighbours.len() >= NEIGHBOURS_MAX {
            self.paths.clear();
            self.places.clear();
            self.neighbours.clear();
            self.neighbour_places.clear();
        }
    }

    fn take_in(&mut self, news: Option<Vec<Reply>>) {
        match news {
            Some(news) => news.iter().for_each(|news| self.learn(news)),
            None => {
                self.neighbours.clear();
                self.neighbour_places.clear();
                self.paths.clear();
                self.places.clear();
                self.by_port = None;
                self.forget();
            }
        }
    }

    /// Reads the news in the midst of a call; whether any answer given in it is stale now.
    pub(super) fn changed(&mut self) -> bool {
        let epoch = self.epoch;
        let news = self.news.news();
        if news.as_ref().is_some_and(Vec::is_empty) {
            return false;
        }
        self.take_in(news);
        self.epoch != epoch
    }

    fn learn(&mut self, news: &Reply) {
        match news.kind {
            NEW_NEIGHBOUR | DELETE_NEIGHBOUR => {
                let Some(key) = neighbour_key(news) else {
                    return;
                };
                let Some(place) = self.neighbour_places.get(&key) else {
                    return;
                };
                let neighbour = &mut self.neighbours[*place as usize];
                neighbour.state = 0;
                if let (NEW_NEIGHBOUR, Some((mac, state))) = (news.kind, neighbour_value(news)) {
                    neighbour.mac = mac;
                    neighbour.state = state;
                }
            }
            NEW_RULE | DELETE_RULE => {
                self.by_port = None;
                self.forget();
            }
            _ => self.forget(),
        }
    }

    /// The way to a destination: what to make headers from, and the next hop's hardware address;
    /// `None`: by the socket. `hint` is where the answer was last time.
    pub(super) fn way(
        &mut self,
        key: &Key,
        hint: &mut u32,
        options: &Options,
    ) -> Option<(&Direct, Mac)> {
        let known = self.paths.get(*hint as usize);
        if !known.is_some_and(|path| path.key == *key && path.epoch == self.epoch) {
            *hint = self.find(key, options)?;
        }
        let Way::Direct(direct) = &self.paths[*hint as usize].way else {
            return None;
        };
        let mac = match direct.neighbour {
            None => Mac::default(),
            Some(place) => self.neighbours[place as usize].use_now(self.now_s)?,
        };
        Some((direct, mac))
    }

    /// What headers are made from, at a place where [`Routes::way`] has just found a direct way.
    pub(super) fn at(&self, place: u32) -> &Direct {
        match &self.paths[place as usize].way {
            Way::Direct(direct) => direct,
            Way::Socket => unreachable!("nothing is asked between `way` and this"),
        }
    }

    /// The place of a destination's answer; asks for it where it is missing or stale.
    fn find(&mut self, key: &Key, options: &Options) -> Option<u32> {
        let place = self.places.get(key).copied();
        if let Some(place) = place
            && self.paths[place as usize].epoch == self.epoch
        {
            return Some(place);
        }
        self.budget = self.budget.checked_sub(1)?;
        let path = Path {
            key: *key,
            epoch: self.epoch,
            way: self.ask(key, options).map_or(Way::Socket, Way::Direct),
        };
        if let Some(place) = place {
            self.paths[place as usize] = path;
            return Some(place);
        }
        let place = u32::try_from(self.paths.len()).ok()?;
        self.paths.push(path);
        self.places.insert(*key, place);
        Some(place)
    }

    /// Asks the kernel for the route.
    fn ask(&mut self, key: &Key, options: &Options) -> Option<Direct> {
        const UNICAST: u8 = 1;
        const LOCAL: u8 = 2;
        let route = self.questions.ask(route_question(key, options)).ok()?;
        let kind = route.byte(7);
        let tunnel = route.attribute(ROUTE_BYTES, libc::RTA_ENCAP_TYPE).is_some();
        if !matches!(kind, UNICAST | LOCAL) || tunnel {
            return None;
        }
        let ifindex = route.attribute_word(ROUTE_BYTES, libc::RTA_OIF)?;
        let link = self.link(ifindex)?;
        let bound = options.local.ip();
        let from = if bound.is_unspecified() {
            ip(route.attribute(ROUTE_BYTES, libc::RTA_PREFSRC)?)?
        } else {
            bound
        };
        let neighbour = match link.kind {
            LinkKind::Loopback if self.loopback.takes(key.to) => None,
            LinkKind::Ethernet if kind == UNICAST => {
                let next_hop = next_hop(&route).unwrap_or(key.to);
                Some(self.neighbour(ifindex, next_hop))
            }
            LinkKind::EthernetNoArp if kind == UNICAST => {
                Some(self.fixed_neighbour(ifindex, key.to, link.mac))
            }
            LinkKind::Loopback
            | LinkKind::Ethernet
            | LinkKind::EthernetNoArp
            | LinkKind::Unusable => return None,
        };
        let metrics = route.attribute(ROUTE_BYTES, libc::RTA_METRICS);
        let metric = |kind| metrics.and_then(|metrics| word(find(metrics, kind)?, 0));
        if metric(METRIC_LOCKS).is_some_and(|locks| locks & (1 << METRIC_MTU) != 0) {
            // A path MTU that is fixed changes what the socket says about fragments.
            return None;
        }
        let mtu = metric(METRIC_MTU).map_or(link.mtu, |mtu| link.mtu.min(mtu as usize));
        Some(Direct {
            head: Head::new(link.mac, from, key.to, options),
            ifindex,
            mtu,
            neighbour,
        })
    }

    fn link(&mut self, ifindex: u32) -> Option<Link> {
        if let Some(link) = self.links.get(&ifindex) {
            return Some(*link);
        }
        let mut fixed = [0; LINK_BYTES];
        fixed[4..8].copy_from_slice(&ifindex.to_ne_bytes());
        let reply = self.questions.ask(Request::new(GET_LINK, 0, &fixed)).ok()?;
        let hardware = u16::from_ne_bytes([reply.byte(2), reply.byte(3)]);
        let flags = reply.word(8) as i32;
        let kind = match hardware {
            _ if flags & libc::IFF_UP == 0 => LinkKind::Unusable,
            libc::ARPHRD_LOOPBACK => LinkKind::Loopback,
            libc::ARPHRD_ETHER if flags & libc::IFF_NOARP != 0 => LinkKind::EthernetNoArp,
            libc::ARPHRD_ETHER => LinkKind::Ethernet,
            _ => LinkKind::Unusable,
        };
        let mac = reply.attribute(LINK_BYTES, libc::IFLA_ADDRESS);
        let link = Link {
            mac: mac.and_then(|mac| mac.try_into().ok()).unwrap_or_default(),
            mtu: reply.attribute_word(LINK_BYTES, libc::IFLA_MTU)? as usize,
            kind,
        };
        self.links.insert(ifindex, link);
        Some(link)
    }

    fn neighbour(&mut self, ifindex: u32, ip: IpAddr) -> u32 {
        if let Some(place) = self.neighbour_places.get(&(ifindex, ip)) {
            return *place;
        }
        let mut fixed = [0; NEIGHBOUR_BYTES];
        fixed[0] = family(ip);
        fixed[4..8].copy_from_slice(&ifindex.to_ne_bytes());
        let question = Request::new(GET_NEIGHBOUR, 0, &fixed).attribute(1, &octets(ip));
        let reply = self.questions.ask(question).ok();
        let (mac, state) = reply
            .and_then(|reply| neighbour_value(&reply))
            .unwrap_or_default();
        self.add_neighbour((ifindex, ip), mac, state)
    }

    fn fixed_neighbour(&mut self, ifindex: u32, ip: IpAddr, mac: Mac) -> u32 {
        self.add_neighbour((ifindex, ip), mac, PERMANENT)
    }

    fn add_neighbour(&mut self, key: (u32, IpAddr), mac: Mac, state: u16) -> u32 {
        let place = u32::try_from(self.neighbours.len()).unwrap_or(u32::MAX);
        self.neighbours.push(Neighbour {
            mac,
            state,
            exercised_s: 0,
        });
        self.neighbour_places.insert(key, place);
        place
    }
}

impl Neighbour {
    /// The hardware address, unless it is unknown or it is the socket's turn.
    fn use_now(&mut self, now_s: u64) -> Option<Mac> {
        if self.state & USABLE == 0 {
            return None;
        }
        let fresh = now_s < self.exercised_s + EXERCISE_SECONDS;
        if !fresh && self.state & PERMANENT == 0 {
            self.exercised_s = now_s;
            return None;
        }
        Some(self.mac)
    }
}

fn route_question(key: &Key, options: &Options) -> Request {
    let mut fixed = [0; ROUTE_BYTES];
    fixed[0] = family(key.to);
    fixed[1] = (octets(key.to).len() * 8) as u8;
    let mut attributes = vec![(libc::RTA_DST, octets(key.to))];
    let bound = options.local.ip();
    if !bound.is_unspecified() {
        fixed[2] = (octets(bound).len() * 8) as u8;
        attributes.push((libc::RTA_SRC, octets(bound)));
    }
    // The two lowest bits are for congestion notification.
    fixed[3] = options.tos & !3;
    if let Some(device) = device(key, options) {
        attributes.push((libc::RTA_OIF, device.to_ne_bytes().to_vec()));
    }
    attributes.push((libc::RTA_UID, options.user.to_ne_bytes().to_vec()));
    attributes.push((ROUTE_PROTOCOL, vec![libc::IPPROTO_UDP as u8]));
    let own_port = options.local.port();
    attributes.push((ROUTE_SOURCE_PORT, own_port.to_be_bytes().to_vec()));
    if key.port != 0 {
        attributes.push((ROUTE_TARGET_PORT, key.port.to_be_bytes().to_vec()));
    }
    if options.mark != 0 {
        attributes.push((libc::RTA_MARK, options.mark.to_ne_bytes().to_vec()));
    }
    let request = Request::new(GET_ROUTE, 0, &fixed);
    attributes
        .into_iter()
        .fold(request, |request, (kind, value)| {
            request.attribute(kind, &value)
        })
}

/// The interface that a datagram is to leave by, if any is named: by the address, where it has a
/// meaning on one link only; by the device that the socket is bound to; by its interface for
/// unicast.
fn device(key: &Key, options: &Options) -> Option<u32> {
    let of_link = matches!(key.to, IpAddr::V6(to) if to.is_unicast_link_local());
    let scope = if of_link { key.scope } else { 0 };
    let named = [scope, options.device, options.unicast_device];
    named.into_iter().find(|device| *device != 0)
}

/// The gateway, of whichever family.
fn next_hop(route: &Reply) -> Option<IpAddr> {
    if let Some(gateway) = route.attribute(ROUTE_BYTES, libc::RTA_GATEWAY) {
        return ip(gateway);
    }
    // A gateway of the other family: two bytes of family, then the address.
    ip(route.attribute(ROUTE_BYTES, libc::RTA_VIA)?.get(2..)?)
}

fn neighbour_key(news: &Reply) -> Option<(u32, IpAddr)> {
    Some((news.word(4), ip(news.attribute(NEIGHBOUR_BYTES, 1)?)?))
}

fn neighbour_value(news: &Reply) -> Option<(Mac, u16)> {
    let state = u16::from_ne_bytes([news.byte(8), news.byte(9)]);
    let mac = news.attribute(NEIGHBOUR_BYTES, 2)?.try_into().ok()?;
    Some((mac, state))
}

/// Which clones loopback delivers. IPv6 takes all. IPv4 takes packets that the kernel did not route
/// itself for strays with forged addresses, unless the administrator has allowed both kinds.
#[derive(Debug, Clone, Copy)]
struct Loopback {
    /// To the host's own addresses.
    own_v4: bool,
    /// To 127.0.0.0/8.
    net_v4: bool,
}

impl Loopback {
    /// Reads the settings of the calling thread's network namespace.
    fn read() -> Self {
        let on = |name: &str| {
            ["all", "lo"].iter().any(|which| {
                let path = format!("/proc/sys/net/ipv4/conf/{which}/{name}");
                fs::read_to_string(path).is_ok_and(|text| text.trim() != "0")
            })
        };
        let own_v4 = on("accept_local") && !on("rp_filter");
        Self {
            own_v4,
            net_v4: own_v4 && on("route_localnet"),
        }
    }

    fn takes(self, to: IpAddr) -> bool {
        match to {
            IpAddr::V4(to) if to.is_loopback() => self.net_v4,
            IpAddr::V4(_) => self.own_v4,
            IpAddr::V6(_) => true,
        }
    }
}

fn family(ip: IpAddr) -> u8 {
    let family = if ip.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    family as u8
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}
