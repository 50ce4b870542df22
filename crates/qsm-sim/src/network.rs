//! The virtual network: who gets a copy of a datagram, and when.
//!
//! Every receiver of a multicast draws its own fate after one draw shared by all of them, so both
//! independent loss and loss near the sender occur. All draws come from one stream of random
//! numbers in the order of sending.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::{Instant, Random, Seed, nanoseconds};
use qsm_wire::Kind;

/// How bad the network is. Probabilities are in parts per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkOptions {
    /// Shortest way from host to host.
    pub delay: Duration,
    /// Added to the delay, uniformly drawn per copy; more than the gap between packets reorders.
    pub jitter: Duration,
    /// A copy is lost, independently of the others.
    pub loss_ppm: u32,
    /// A datagram is lost for all of its receivers.
    pub shared_loss_ppm: u32,
    /// Bursts of loss at single receivers (Gilbert-Elliott).
    pub burst: Option<Burst>,
    /// A copy arrives twice.
    pub duplicate_ppm: u32,
    /// Larger datagrams vanish.
    pub mtu_bytes: usize,
    /// Bytes that wait at a host before further ones are dropped.
    pub receive_buffer_bytes: usize,
    /// What a host needs to handle one datagram; zero: no time at all.
    pub cpu_per_datagram: Duration,
    /// What a host can send, bits per second.
    pub uplink_bits_per_second: u64,
    /// How long after the request the network forwards a multicast address to a host (IGMP).
    pub join_latency: Duration,
    /// How long after the request it still does.
    pub leave_latency: Duration,
    /// Chance that a datagram of the membership protocol is held up.
    pub membership_lag_ppm: u32,
    /// How long at most: views reach different nodes at different times (R047).
    pub membership_lag: Duration,
    /// Whether hosts hear their own multicasts.
    pub loopback: bool,
}

impl NetworkOptions {
    /// A cluster's network without any flaw.
    pub const PERFECT: Self = Self {
        delay: Duration::from_micros(50),
        jitter: Duration::from_micros(5),
        loss_ppm: 0,
        shared_loss_ppm: 0,
        burst: None,
        duplicate_ppm: 0,
        mtu_bytes: 1472,
        receive_buffer_bytes: 1 << 20,
        cpu_per_datagram: Duration::ZERO,
        uplink_bits_per_second: 1_000_000_000,
        join_latency: Duration::from_millis(1),
        leave_latency: Duration::from_millis(2),
        membership_lag_ppm: 0,
        membership_lag: Duration::ZERO,
        loopback: false,
    };
}

/// A two-state model of loss at one receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Chance per copy that a bad time begins.
    pub enter_ppm: u32,
    /// Chance per copy that it ends.
    pub exit_ppm: u32,
    /// Loss while it lasts.
    pub loss_ppm: u32,
}

/// What the network has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkCounters {
    /// Datagrams given to the network.
    pub sent: u64,
    /// Copies on their way to a host.
    pub copies: u64,
    /// Copies lost at random, alone or with all others.
    pub lost: u64,
    /// Copies dropped by a network split.
    pub split: u64,
    /// Datagrams larger than the MTU.
    pub oversized: u64,
    /// Copies doubled.
    pub duplicated: u64,
    /// Copies dropped because the receiver's buffer was full.
    pub overflowed: u64,
    /// Of the copies lost, split or overflowed: those of data packets.
    pub data_lost: u64,
}

/// A one-way cut: nothing passes from a host of one set to a host of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Split {
    from: Vec<bool>,
    to: Vec<bool>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Link {
    bursting: bool,
    uplink_free: Instant,
    doomed: u32,
}

/// The network between the hosts, which are known by their numbers.
#[derive(Debug)]
pub(crate) struct Network {
    options: NetworkOptions,
    random: Random,
    hosts: BTreeMap<SocketAddr, usize>,
    listeners: BTreeMap<SocketAddr, Vec<usize>>,
    links: Vec<Link>,
    splits: Vec<Split>,
    counters: NetworkCounters,
}

impl Network {
    pub(crate) fn new(options: NetworkOptions, seed: Seed) -> Self {
        Self {
            options,
            random: Random::new(seed, "network"),
            hosts: BTreeMap::new(),
            listeners: BTreeMap::new(),
            links: Vec::new(),
            splits: Vec::new(),
            counters: NetworkCounters::default(),
        }
    }

    pub(crate) fn options(&self) -> &NetworkOptions {
        &self.options
    }

    /// Puts an end to all randomness and splits; delays stay.
    pub(crate) fn repair(&mut self) {
        self.splits.clear();
        self.links.iter_mut().for_each(|link| link.doomed = 0);
        self.options = NetworkOptions {
            loss_ppm: 0,
            shared_loss_ppm: 0,
            burst: None,
            duplicate_ppm: 0,
            membership_lag_ppm: 0,
            ..self.options
        };
    }

    pub(crate) fn counters(&self) -> NetworkCounters {
        self.counters
    }

    pub(crate) fn add_host(&mut self, address: SocketAddr) {
        self.hosts.insert(address, self.links.len());
        self.links.push(Link::default());
    }

    /// From now on the host gets what is sent to this multicast address, or not any more.
    pub(crate) fn listen(&mut self, host: usize, address: SocketAddr, on: bool) {
        let listeners = self.listeners.entry(address).or_default();
        match (listeners.binary_search(&host), on) {
            (Err(at), true) => listeners.insert(at, host),
            (Ok(at), false) => {
                listeners.remove(at);
            }
            _ => {}
        }
    }

    /// The host's process is gone and with it its memberships.
    pub(crate) fn forget(&mut self, host: usize) {
        for listeners in self.listeners.values_mut() {
            listeners.retain(|listener| *listener != host);
        }
    }

    /// Who hears this address now.
    pub(crate) fn receivers(&self, address: SocketAddr) -> Vec<usize> {
        match self.hosts.get(&address) {
            Some(host) => vec![*host],
            None => self.listeners.get(&address).cloned().unwrap_or_default(),
        }
    }

    pub(crate) fn split(&mut self, from: &[usize], to: &[usize]) {
        let set = |members: &[usize]| {
            let mut set = vec![false; self.links.len()];
            members.iter().for_each(|host| set[*host] = true);
            set
        };
        let split = Split {
            from: set(from),
            to: set(to),
        };
        self.splits.push(split);
    }

    pub(crate) fn heal(&mut self) {
        self.splits.clear();
    }

    /// The host's next data packets are lost for everybody.
    pub(crate) fn doom(&mut self, host: usize, packets: u32) {
        self.links[host].doomed += packets;
    }

    pub(crate) fn overflowed(&mut self, datagram: &[u8]) {
        self.counters.overflowed += 1;
        self.counters.data_lost += u64::from(is_data(datagram));
    }

    /// Sends a datagram and puts (time, receiver) of every copy that arrives into `arrivals`.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        from: usize,
        to: SocketAddr,
        datagram: &[u8],
        arrivals: &mut Vec<(Instant, usize)>,
    ) {
        self.counters.sent += 1;
        if datagram.len() > self.options.mtu_bytes {
            self.counters.oversized += 1;
            return;
        }
        let leaves = self.leaves(now, from, datagram.len());
        let data = is_data(datagram);
        let doomed = data && self.links[from].doomed > 0;
        self.links[from].doomed -= u32::from(doomed);
        let gone = self.random.chance_ppm(self.options.shared_loss_ppm) || doomed;
        let before = self.counters.lost + self.counters.split;
        if let Some(host) = self.hosts.get(&to).copied() {
            self.copy(leaves, from, host, (gone, datagram), arrivals);
        } else if let Some(listeners) = self.listeners.get_mut(&to).map(core::mem::take) {
            for host in &listeners {
                if *host != from || self.options.loopback {
                    self.copy(leaves, from, *host, (gone, datagram), arrivals);
                }
            }
            self.listeners.insert(to, listeners);
        }
        if data {
            self.counters.data_lost += self.counters.lost + self.counters.split - before;
        }
    }

    fn leaves(&mut self, now: Instant, from: usize, bytes: usize) -> Instant {
        let bits = bytes as u64 * 8;
        let takes = bits * 1_000_000_000 / self.options.uplink_bits_per_second.max(1);
        let link = &mut self.links[from];
        link.uplink_free = now.max(link.uplink_free).after(Duration::from_nanos(takes));
        link.uplink_free
    }

    fn copy(
        &mut self,
        leaves: Instant,
        from: usize,
        to: usize,
        (gone, datagram): (bool, &[u8]),
        arrivals: &mut Vec<(Instant, usize)>,
    ) {
        self.counters.copies += 1;
        if self
            .splits
            .iter()
            .any(|split| split.from[from] && split.to[to])
        {
            self.counters.split += 1;
            return;
        }
        if gone | self.loses(to) {
            self.counters.lost += 1;
            return;
        }
        arrivals.push((self.arrives(leaves, datagram), to));
        if self.random.chance_ppm(self.options.duplicate_ppm) {
            self.counters.duplicated += 1;
            arrivals.push((self.arrives(leaves, datagram), to));
        }
    }

    fn loses(&mut self, to: usize) -> bool {
        let lost = self.random.chance_ppm(self.options.loss_ppm);
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
        lost || (link.bursting && self.random.chance_ppm(burst.loss_ppm))
    }

    fn arrives(&mut self, leaves: Instant, datagram: &[u8]) -> Instant {
        let jitter = self.random.below(nanoseconds(self.options.jitter) + 1);
        let mut at = leaves
            .after(self.options.delay)
            .after(Duration::from_nanos(jitter));
        if is_membership(datagram) && self.random.chance_ppm(self.options.membership_lag_ppm) {
            let lag = self
                .random
                .below(nanoseconds(self.options.membership_lag) + 1);
            at = at.after(Duration::from_nanos(lag));
        }
        at
    }
}

/// The kind in a datagram's second byte.
pub(crate) fn is_data(datagram: &[u8]) -> bool {
    datagram.get(1) == Some(&(Kind::Data as u8))
}

fn is_membership(datagram: &[u8]) -> bool {
    [Kind::Session as u8, Kind::SessionAck as u8]
        .iter()
        .any(|kind| datagram.get(1) == Some(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: ([u8; 4], u16) = ([239, 1, 1, 1], 5000);

    fn network(options: NetworkOptions, hosts: u8) -> Network {
        let mut network = Network::new(options, Seed(1));
        for host in 0..hosts {
            network.add_host(SocketAddr::from(([10, 0, 0, host], 1)));
            network.listen(usize::from(host), SocketAddr::from(GROUP), true);
        }
        network
    }

    fn receivers(network: &mut Network, from: usize, datagram: &[u8]) -> Vec<usize> {
        let mut arrivals = Vec::new();
        network.send(
            Instant(0),
            from,
            SocketAddr::from(GROUP),
            datagram,
            &mut arrivals,
        );
        arrivals.sort_unstable();
        arrivals.into_iter().map(|(_, host)| host).collect()
    }

    #[test]
    fn a_multicast_reaches_listeners_but_not_its_sender() {
        let mut network = network(NetworkOptions::PERFECT, 4);
        network.listen(2, SocketAddr::from(GROUP), false);
        let mut reached = receivers(&mut network, 0, &[1; 100]);
        reached.sort_unstable();
        assert_eq!(reached, [1, 3]);
        network.forget(1);
        assert_eq!(receivers(&mut network, 0, &[1; 100]), [3]);
    }

    #[test]
    fn a_split_is_one_way_until_it_heals() {
        let mut network = network(NetworkOptions::PERFECT, 2);
        network.split(&[0], &[1]);
        assert!(receivers(&mut network, 0, &[1; 9]).is_empty());
        assert_eq!(receivers(&mut network, 1, &[1; 9]), [0]);
        network.heal();
        assert_eq!(receivers(&mut network, 0, &[1; 9]), [1]);
        assert_eq!(network.counters().split, 1);
    }

    #[test]
    fn loss_is_as_frequent_as_asked_for() {
        let options = NetworkOptions {
            loss_ppm: 50_000,
            ..NetworkOptions::PERFECT
        };
        let mut network = network(options, 11);
        (0..1000).for_each(|_| {
            receivers(&mut network, 0, &[1, 1, 0, 0]);
        });
        let counters = network.counters();
        assert_eq!(counters.copies, 10_000);
        assert!((350..650).contains(&counters.lost), "{counters:?}");
        assert_eq!(counters.lost, counters.data_lost);
        network.repair();
        assert_eq!(receivers(&mut network, 0, &[1; 9]).len(), 10);
    }

    #[test]
    fn doomed_data_packets_reach_nobody_and_others_pass() {
        let mut network = network(NetworkOptions::PERFECT, 3);
        network.doom(0, 1);
        assert_eq!(receivers(&mut network, 0, &[1, 2, 0, 0]).len(), 2);
        assert!(receivers(&mut network, 0, &[1, 1, 0, 0]).is_empty());
        assert_eq!(receivers(&mut network, 0, &[1, 1, 0, 0]).len(), 2);
    }

    #[test]
    fn what_is_larger_than_the_mtu_vanishes() {
        let mut network = network(NetworkOptions::PERFECT, 2);
        assert!(receivers(&mut network, 0, &[1; 1473]).is_empty());
        assert_eq!(network.counters().oversized, 1);
    }
}
