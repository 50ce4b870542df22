//! The fate of every copy of a datagram.
//!
//! Every receiver of a multicast draws its own fate after one draw shared by all of them, so both
//! independent loss and loss near the sender occur. All draws come from one stream of random
//! numbers in the order of sending.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use qsm_wire::{Instant, Kind, Random, Seed, nanoseconds};

mod damage;
mod fate;
mod options;

pub use damage::damaged;
pub use fate::{Cause, DropCounters, Fate, NetworkCounters};
pub use options::{Burst, NetworkOptions, Sites};

/// A copy that is delayed by more than the shortest reorder guard may seem lost (R-NAK-1).
const LATE: Duration = Duration::from_micros(100);

/// A one-way cut: nothing passes from a host of one set to a host of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Split {
    from: Vec<bool>,
    to: Vec<bool>,
    /// What would have passed arrives then; `None`: never.
    clogged_until: Option<Instant>,
}

/// Multicast of a host of one set does not reach a host of the other, though unicast does.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Filter {
    from: Vec<usize>,
    to: Vec<usize>,
    until: Instant,
}

/// Something that carries one datagram after the other.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    free: Instant,
}

impl Line {
    /// When a datagram that comes at `at` has passed; `None` if more than `queue` bytes wait
    /// already.
    fn pass(&mut self, at: Instant, bytes: u64, rate: u64, queue: u64) -> Option<Instant> {
        let rate = u128::from(rate.max(1));
        let waits = u128::from(nanoseconds(self.free.since(at))) * rate / 8_000_000_000;
        if waits > u128::from(queue) {
            return None;
        }
        let takes = u128::from(bytes) * 8_000_000_000 / rate;
        let takes = Duration::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX));
        self.free = at.max(self.free).after(takes);
        Some(self.free)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Link {
    bursting: bool,
    uplink: Line,
    port: Line,
    doomed: u32,
    /// The host that it belongs to.
    host: usize,
    /// The network that it is on: 0 or 1.
    network: usize,
}

/// A datagram that is being sent.
#[derive(Debug, Clone, Copy)]
struct Sending<'a> {
    from: usize,
    bytes: &'a [u8],
    now: Instant,
    /// When it has left its host.
    leaves: Instant,
    /// Why it reaches nobody at all.
    gone: Option<Cause>,
    /// Whether it does not come back to its sender.
    outwards: bool,
    multicast: bool,
}

/// The network between the hosts, which are known by their numbers. There may be a second one
/// beside it, which some of the hosts are on, too.
#[derive(Debug)]
pub struct Network {
    options: NetworkOptions,
    random: Random,
    /// Links by their addresses.
    hosts: BTreeMap<Key, usize>,
    listeners: BTreeMap<Key, Vec<usize>>,
    /// Links that have asked for an address and do not get it yet.
    joining: BTreeMap<Key, BTreeSet<usize>>,
    /// Hosts that a host hears at an address, if not all of them.
    sources: BTreeMap<(Key, usize), BTreeSet<usize>>,
    /// Link n is host n's on the first network; those on the second one follow.
    links: Vec<Link>,
    seconds: BTreeMap<usize, usize>,
    /// Until when each network carries nothing.
    failed_until: [Instant; 2],
    /// One for each ordered pair of places.
    crossings: Vec<Line>,
    /// Emptied list for reuse.
    crossed: Vec<Option<Result<Instant, Cause>>>,
    splits: Vec<Split>,
    filters: Vec<Filter>,
    /// For a while larger datagrams vanish.
    narrow: Option<(usize, Instant)>,
    counters: NetworkCounters,
}

impl Network {
    /// A network without hosts.
    #[must_use]
    pub fn new(options: NetworkOptions, seed: Seed) -> Self {
        let sites = options.sites.count.max(1);
        Self {
            options,
            random: Self::random(seed),
            hosts: BTreeMap::new(),
            listeners: BTreeMap::new(),
            joining: BTreeMap::new(),
            sources: BTreeMap::new(),
            links: Vec::new(),
            seconds: BTreeMap::new(),
            failed_until: [Instant::default(); 2],
            crossings: vec![Line::default(); sites * sites],
            crossed: Vec::new(),
            splits: Vec::new(),
            filters: Vec::new(),
            narrow: None,
            counters: NetworkCounters::default(),
        }
    }

    fn random(seed: Seed) -> Random {
        Random::new(seed, "network")
    }

    /// Time until a host hears a multicast address that it has joined, and until it no longer
    /// hears one that it has left.
    #[must_use]
    pub fn latencies(&self) -> [Duration; 2] {
        [self.options.join_latency, self.options.leave_latency]
    }

    /// Its present options.
    #[must_use]
    pub fn options(&self) -> &NetworkOptions {
        &self.options
    }

    /// Its options for what is sent from now on; the number of places cannot change.
    pub fn options_mut(&mut self) -> &mut NetworkOptions {
        &mut self.options
    }

    /// Draws from now on as a new one with this seed does, whatever has been sent before.
    pub fn reseed(&mut self, seed: Seed) {
        self.random = Self::random(seed);
    }

    /// Puts an end to all randomness and splits; delays, rates and queues stay.
    pub fn repair(&mut self) {
        self.splits.clear();
        self.filters.clear();
        self.failed_until = [Instant::default(); 2];
        self.narrow = None;
        self.links.iter_mut().for_each(|link| link.doomed = 0);
        self.options = NetworkOptions {
            loss_ppm: 0,
            shared_loss_ppm: 0,
            burst: None,
            damage_ppm: 0,
            duplicate_ppm: 0,
            reorder_ppm: 0,
            membership_lag_ppm: 0,
            sites: Sites {
                loss_ppm: 0,
                ..self.options.sites
            },
            ..self.options
        };
    }

    /// Counts of all that it has done.
    #[must_use]
    pub fn counters(&self) -> NetworkCounters {
        self.counters
    }

    /// Adds a host, which gets the next number, from 0.
    pub fn add_host(&mut self, address: SocketAddr) {
        self.hosts.insert(key(address), self.links.len());
        self.links.push(Link {
            host: self.links.len(),
            ..Link::default()
        });
    }

    /// Puts a host on the second network, too, by a link of its own whose number is returned. All
    /// hosts have been added before.
    pub fn add_second(&mut self, host: usize, address: SocketAddr) -> usize {
        let link = self.links.len();
        self.hosts.insert(key(address), link);
        self.seconds.insert(host, link);
        self.links.push(Link {
            host,
            network: 1,
            ..Link::default()
        });
        link
    }

    /// The host that a link belongs to.
    #[must_use]
    pub fn host_of(&self, link: usize) -> usize {
        self.links[link].host
    }

    /// The link that has this address, of a host and not of a group.
    #[must_use]
    pub fn link_at(&self, address: SocketAddr) -> Option<usize> {
        self.hosts.get(&key(address)).copied()
    }

    /// The network, 0 or 1, that a link is on.
    #[must_use]
    pub fn network_of(&self, link: usize) -> usize {
        self.links[link].network
    }

    fn links_of(&self, host: usize) -> impl Iterator<Item = usize> + use<> {
        [Some(host), self.seconds.get(&host).copied()]
            .into_iter()
            .flatten()
    }

    /// The host has asked for what is sent to this multicast address; until [`Network::listen`]
    /// it misses it.
    pub fn join(&mut self, host: usize, address: SocketAddr) {
        let links = self.links_of(host);
        self.joining.entry(key(address)).or_default().extend(links);
    }

    /// From now on the host gets what is sent to this multicast address, or not any more.
    pub fn listen(&mut self, host: usize, address: SocketAddr, on: bool) {
        let key = key(address);
        self.sources.remove(&(key, host));
        for link in self.links_of(host) {
            if let Some(joining) = self.joining.get_mut(&key) {
                joining.remove(&link);
            }
            let listeners = self.listeners.entry(key).or_default();
            match (listeners.binary_search(&link), on) {
                (Err(at), true) => listeners.insert(at, link),
                (Ok(at), false) => {
                    listeners.remove(at);
                }
                _ => {}
            }
        }
    }

    /// From now on the host gets what hosts at these addresses send to this multicast address,
    /// and nothing else that is sent there.
    pub fn listen_to(&mut self, host: usize, address: SocketAddr, senders: &BTreeSet<SocketAddr>) {
        self.listen(host, address, true);
        let links = senders.iter().filter_map(|sender| self.link_at(*sender));
        let hosts = links.map(|link| self.links[link].host).collect();
        self.sources.insert((key(address), host), hosts);
    }

    /// The host's process is gone and with it its memberships.
    pub fn forget(&mut self, host: usize) {
        self.sources.retain(|(_, listener), _| *listener != host);
        for link in self.links_of(host) {
            for joining in self.joining.values_mut() {
                joining.remove(&link);
            }
            for listeners in self.listeners.values_mut() {
                if let Ok(at) = listeners.binary_search(&link) {
                    listeners.remove(at);
                }
            }
        }
    }

    /// Links that hear this address now.
    #[must_use]
    pub fn receivers(&self, address: SocketAddr) -> Vec<usize> {
        match self.hosts.get(&key(address)) {
            Some(host) => vec![*host],
            None => {
                let listeners = self.listeners.get(&key(address));
                listeners.cloned().unwrap_or_default()
            }
        }
    }

    /// From now on nothing passes that way.
    pub fn split(&mut self, from: &[usize], to: &[usize]) {
        self.obstruct(from, to, None);
    }

    /// What goes that way waits and arrives at `until`, all at once.
    pub fn clog(&mut self, from: &[usize], to: &[usize], until: Instant) {
        self.obstruct(from, to, Some(until));
    }

    fn obstruct(&mut self, from: &[usize], to: &[usize], clogged_until: Option<Instant>) {
        let set = |members: &[usize]| {
            let mut set = vec![false; self.links.len()];
            members.iter().for_each(|host| set[*host] = true);
            set
        };
        let split = Split {
            from: set(from),
            to: set(to),
            clogged_until,
        };
        self.splits.push(split);
    }

    /// Ends all splits and clogs.
    pub fn heal(&mut self) {
        self.splits.clear();
    }

    /// Until then multicast of these hosts does not reach those.
    pub fn filter(&mut self, from: &[usize], to: &[usize], until: Instant) {
        self.filters.push(Filter {
            from: from.to_vec(),
            to: to.to_vec(),
            until,
        });
    }

    /// Until then this network, 0 or 1, carries nothing.
    pub fn fail(&mut self, network: usize, until: Instant) {
        self.failed_until[network] = until;
    }

    /// Until then larger datagrams vanish.
    pub fn narrow(&mut self, bytes: usize, until: Instant) {
        self.narrow = Some((bytes, until));
    }

    /// The host's next data packets are lost for everybody.
    pub fn doom(&mut self, host: usize, packets: u32) {
        self.links[host].doomed += packets;
    }

    /// Counts a copy for which its host had no room.
    pub fn overflowed(&mut self, datagram: &[u8]) {
        self.counters.overflowed += 1;
        self.counters.data_lost += u64::from(is_data(datagram));
    }

    /// Counts a copy that came to a sleeping host.
    pub fn slept_through(&mut self, datagram: &[u8]) {
        self.counters.slept_through += 1;
        self.counters.data_lost += u64::from(is_data(datagram));
    }

    /// True if nothing passes between these two now, in one direction at least.
    #[must_use]
    pub fn parted(&self, one: usize, other: usize) -> bool {
        self.splits.iter().any(|split| {
            (split.from[one] && split.to[other]) || (split.from[other] && split.to[one])
        })
    }

    /// Sends a datagram by a link and puts the fate of every copy into `fates`, with the link of
    /// its receiver.
    pub fn send(
        &mut self,
        now: Instant,
        from: usize,
        to: SocketAddr,
        datagram: &[u8],
        fates: &mut Vec<(usize, Fate)>,
    ) {
        self.counters.sent += 1;
        self.narrow = self.narrow.filter(|(_, until)| *until > now);
        let mtu = self.narrow.map_or(usize::MAX, |(bytes, _)| bytes);
        let data = is_data(datagram);
        if datagram.len() > self.options.mtu_bytes.min(mtu) {
            self.counters.oversized += 1;
            self.counters.data_lost += u64::from(data) * self.receivers(to).len() as u64;
            return;
        }
        let doomed = data && self.links[from].doomed > 0;
        self.links[from].doomed -= u32::from(doomed);
        let shared = self.random.chance_ppm(self.options.shared_loss_ppm);
        let unicast = self.hosts.get(&key(to)).copied();
        let sending = Sending {
            from,
            bytes: datagram,
            now,
            outwards: unicast.is_none() && !self.options.loopback,
            multicast: unicast.is_none(),
            leaves: self.leaves(now, from, datagram.len()),
            gone: if doomed {
                Some(Cause::Doomed)
            } else {
                shared.then_some(Cause::Shared)
            },
        };
        if let Some(host) = unicast {
            self.copies(sending, &[host], fates);
            return;
        }
        let unheard = self.joining.get(&key(to)).map_or(0, BTreeSet::len);
        self.counters.data_unheard += u64::from(data) * unheard as u64;
        if let Some(listeners) = self.listeners.get_mut(&key(to)).map(core::mem::take) {
            match self.filtered(sending.from, to, &listeners) {
                Some(some) => self.copies(sending, &some, fates),
                None => self.copies(sending, &listeners, fates),
            }
            self.listeners.insert(key(to), listeners);
        }
    }

    /// Those of the listeners that hear this sender, if somebody hears only some senders.
    fn filtered(&self, from: usize, to: SocketAddr, listeners: &[usize]) -> Option<Vec<usize>> {
        let sender = self.links[from].host;
        let filter = |link: usize| self.sources.get(&(key(to), self.links[link].host));
        let hears = |link: &usize| filter(*link).is_none_or(|senders| senders.contains(&sender));
        if self.sources.is_empty() {
            return None;
        }
        Some(listeners.iter().copied().filter(hears).collect())
    }

    /// True if copies wait in the switch for the line to their host.
    #[must_use]
    pub fn has_ports(&self) -> bool {
        self.options.downlink_bits_per_second > 0
    }

    /// Time at which a copy that is at the host's port of the switch now reaches the host; `None` if
    /// the port's queue is full.
    pub fn pass_port(&mut self, now: Instant, to: usize, datagram: &[u8]) -> Option<Instant> {
        let (rate, queue) = (
            self.options.downlink_bits_per_second,
            self.options.switch_queue_bytes,
        );
        let port = &mut self.links[to].port;
        let passed = port.pass(now, datagram.len() as u64, rate, queue);
        if passed.is_none() {
            self.counters.dropped.queue += 1;
            self.counters.data_lost += u64::from(is_data(datagram));
        }
        passed
    }

    fn leaves(&mut self, now: Instant, from: usize, bytes: usize) -> Instant {
        let rate = self.options.uplink_bits_per_second;
        let uplink = &mut self.links[from].uplink;
        uplink
            .pass(now, bytes as u64, rate, u64::MAX)
            .unwrap_or(Instant::NEVER)
    }

    /// One copy for each of these links, of those on the sender's network, but for the sender's.
    fn copies(&mut self, sending: Sending<'_>, to: &[usize], fates: &mut Vec<(usize, Fate)>) {
        let sites = self.options.sites.count.max(1);
        // What the link to each place has done with the datagram: it is asked once for each.
        let mut crossed = core::mem::take(&mut self.crossed);
        crossed.clear();
        crossed.resize(sites, None);
        for host in to {
            let elsewhere = self.links[*host].network != self.links[sending.from].network;
            if elsewhere || (*host == sending.from && sending.outwards) {
                continue;
            }
            self.counters.copies += 1;
            let site = self.options.sites.of(self.links[*host].host);
            let there = *crossed[site].get_or_insert_with(|| self.cross(sending, site));
            match there.and_then(|at| self.reach(sending, *host, at)) {
                Ok(at) => {
                    let arrives = self.damage(at, sending.bytes);
                    fates.push((*host, arrives));
                    if self.random.chance_ppm(self.options.duplicate_ppm) {
                        self.counters.duplicated += 1;
                        let again = self.arrives(at, sending.bytes);
                        fates.push((*host, Fate::Arrives(again)));
                    }
                }
                Err(cause) => {
                    *self.counters.dropped.of(cause) += 1;
                    self.counters.data_lost += u64::from(is_data(sending.bytes));
                    fates.push((*host, Fate::Dropped(cause)));
                }
            }
        }
        self.crossed = crossed;
    }

    /// When the datagram is at that place.
    fn cross(&mut self, sending: Sending<'_>, site: usize) -> Result<Instant, Cause> {
        let sites = self.options.sites;
        let here = sites.of(self.links[sending.from].host);
        if here == site {
            return Ok(sending.leaves);
        }
        let crossing = &mut self.crossings[here * sites.count + site];
        let bytes = sending.bytes.len() as u64;
        // By the time of sending, which is in order; that of leaving need not be.
        let passed = crossing.pass(sending.now, bytes, sites.bits_per_second, sites.queue_bytes);
        match passed {
            Some(at) if !self.random.chance_ppm(sites.loss_ppm) => {
                Ok(at.max(sending.leaves).after(sites.delay))
            }
            _ => Err(Cause::Site),
        }
    }

    /// When the copy that is at the host's place at `at` reaches the host.
    fn reach(&mut self, sending: Sending<'_>, to: usize, at: Instant) -> Result<Instant, Cause> {
        let from = self.links[sending.from];
        if sending.now < self.failed_until[from.network] {
            return Err(Cause::Split);
        }
        let mut clogged = None;
        for split in &self.splits {
            if split.from[from.host] && split.to[self.links[to].host] {
                clogged = clogged.max(Some(split.clogged_until.ok_or(Cause::Split)?));
            }
        }
        self.filters.retain(|filter| filter.until > sending.now);
        let (speaker, listener) = (from.host, self.links[to].host);
        let filters =
            |filter: &Filter| filter.from.contains(&speaker) && filter.to.contains(&listener);
        if sending.multicast && self.filters.iter().any(filters) {
            return Err(Cause::Filtered);
        }
        if let Some(cause) = sending.gone.or_else(|| self.loses(to)) {
            return Err(cause);
        }
        let at = self.arrives(at.after(self.options.delay), sending.bytes);
        self.counters.clogged += u64::from(clogged.is_some_and(|until| until > at));
        Ok(clogged.map_or(at, |until| until.max(at)))
    }

    fn loses(&mut self, to: usize) -> Option<Cause> {
        let lost = self.random.chance_ppm(self.options.loss_ppm);
        let lost = lost.then_some(Cause::Lost);
        let Some(burst) = self.options.burst else {
            return lost;
        };
        let link = &mut self.links[to];
        let turns = if link.bursting {
            burst.exit_ppm
        } else {
            burst.enter_ppm
        };
        link.bursting ^= self.random.chance_ppm(turns);
        let burst = link.bursting && self.random.chance_ppm(burst.loss_ppm);
        lost.or_else(|| burst.then_some(Cause::Burst))
    }

    /// Draws what state a copy arrives in.
    fn damage(&mut self, at: Instant, datagram: &[u8]) -> Fate {
        let damage_ppm = self.options.damage_ppm;
        if damage_ppm == 0 || !self.random.chance_ppm(damage_ppm) {
            return Fate::Arrives(at);
        }
        self.counters.damaged += 1;
        self.counters.data_lost += u64::from(is_data(datagram));
        Fate::Damaged(at, Seed(self.random.bits()))
    }

    /// Adds what is drawn for each copy.
    fn arrives(&mut self, at: Instant, datagram: &[u8]) -> Instant {
        let options = self.options;
        let mut late = self.below(options.jitter);
        if options.reorder_ppm > 0 && self.random.chance_ppm(options.reorder_ppm) {
            self.counters.reordered += 1;
            late += self.below(options.reorder_delay);
        }
        self.counters.data_late += u64::from(late > LATE && is_data(datagram));
        let mut at = at.after(late);
        if is_membership(datagram) && self.random.chance_ppm(options.membership_lag_ppm) {
            self.counters.lagged += 1;
            at = at.after(self.below(options.membership_lag));
        }
        at
    }

    fn below(&mut self, longest: Duration) -> Duration {
        Duration::from_nanos(self.random.below(nanoseconds(longest) + 1))
    }
}

/// An address in a form that is quick to compare.
type Key = (u128, u16);

fn key(address: SocketAddr) -> Key {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    (ip.to_bits(), address.port())
}

/// Tells data packets, repairs among them, from all others.
#[must_use]
pub fn is_data(datagram: &[u8]) -> bool {
    Kind::peek(datagram) == Some(Kind::Data)
}

fn is_membership(datagram: &[u8]) -> bool {
    matches!(Kind::peek(datagram), Some(Kind::Session | Kind::SessionAck))
}

#[cfg(test)]
mod tests;
