use core::net::SocketAddr;
use core::time::Duration;
use std::rc::Rc;

use qsm_wire::{Hop, Instant, Kind, Random, Seed};

use crate::{Fate, Network, NetworkOptions, Queue, damaged, is_data};

/// Loss of each copy by what the datagram is, parts per million, beside the network's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KindLoss {
    /// Data packets, repairs among them.
    pub data_ppm: u32,
    /// Frames of sessions and what acknowledges them.
    pub session_ppm: u32,
    /// All others.
    pub control_ppm: u32,
}

impl KindLoss {
    /// The loss of this datagram.
    #[must_use]
    pub fn of(&self, datagram: &[u8]) -> u32 {
        match Kind::peek(datagram) {
            Some(Kind::Data) => self.data_ppm,
            Some(Kind::Session | Kind::SessionAck) => self.session_ppm,
            _ => self.control_ppm,
        }
    }
}

/// A copy of a datagram that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Address of the host that has sent it.
    pub from: SocketAddr,
    /// Address that it was sent to, of a host or group.
    pub to: SocketAddr,
    /// Address of the host that it has reached, also if it was sent to a group.
    pub at: SocketAddr,
    /// The datagram.
    pub bytes: Rc<[u8]>,
}

/// Datagrams on their way: a network with what it has yet to bring.
#[derive(Debug)]
pub struct Flight {
    /// The network that they are on.
    pub network: Network,
    /// Loss by kind.
    pub loss: KindLoss,
    /// A host that first transmissions of data reach so much later.
    pub late: Option<(SocketAddr, Duration)>,
    /// Addresses by links.
    addresses: Vec<SocketAddr>,
    queue: Queue<Arrival>,
    random: Random,
    /// Emptied list for reuse.
    fates: Vec<(usize, Fate)>,
}

impl Flight {
    /// A network without hosts.
    #[must_use]
    pub fn new(options: NetworkOptions, seed: Seed) -> Self {
        Self {
            network: Network::new(options, seed),
            loss: KindLoss::default(),
            late: None,
            addresses: Vec::new(),
            queue: Queue::new(),
            random: Self::random(seed),
            fates: Vec::new(),
        }
    }

    fn random(seed: Seed) -> Random {
        Random::new(seed, "loss by kind")
    }

    /// Draws from now on as a new one with this seed does, whatever has been sent before.
    pub fn reseed(&mut self, seed: Seed) {
        self.network.reseed(seed);
        self.random = Self::random(seed);
    }

    /// Adds a host. One that is there already stays the same host.
    pub fn add_host(&mut self, address: SocketAddr) {
        if self.network.link_at(address).is_none() {
            self.network.add_host(address);
            self.addresses.push(address);
        }
    }

    /// From now on the host gets what is sent to this group, or not any more.
    ///
    /// # Panics
    /// There is no host at this address.
    pub fn listen(&mut self, address: SocketAddr, group: SocketAddr, on: bool) {
        let link = self.link_at(address);
        self.network.listen(link, group, on);
    }

    fn link_at(&self, address: SocketAddr) -> usize {
        let link = self.network.link_at(address);
        link.unwrap_or_else(|| panic!("there is no host at {address}"))
    }

    /// The host at `from` sends a datagram to a host or group.
    ///
    /// # Panics
    /// There is no host at `from`.
    pub fn send(&mut self, now: Instant, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        let sender = self.link_at(from);
        let fates = &mut self.fates;
        self.network.send(now, sender, to, datagram, fates);
        let bytes: Rc<[u8]> = Rc::from(datagram);
        let loss_ppm = self.loss.of(datagram);
        let first = is_data(datagram) && Hop::peek(datagram) == Some(Hop::Direct);
        for (link, fate) in self.fates.drain(..) {
            let (time, bytes) = match fate {
                Fate::Arrives(time) => (time, Rc::clone(&bytes)),
                Fate::Damaged(time, seed) => (time, damaged(datagram, seed).into()),
                Fate::Dropped(_) => continue,
            };
            if !self.random.chance_ppm(loss_ppm) {
                let at = self.addresses[link];
                let late = self.late.filter(|(host, _)| first && *host == at);
                let time = late.map_or(time, |(_, by)| time.after(by));
                let arrival = Arrival {
                    from,
                    to,
                    at,
                    bytes,
                };
                self.queue.push(time, arrival);
            }
        }
    }

    /// Time of the next arrival.
    #[must_use]
    pub fn next_time(&self) -> Option<Instant> {
        self.queue.next_time()
    }

    /// Takes the next copy that has arrived by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Arrival> {
        self.next_time().filter(|at| *at <= now)?;
        self.queue.pop().map(|(_, arrival)| arrival)
    }

    /// Loses what is on its way, but for what `keep` says.
    pub fn retain(&mut self, keep: impl FnMut(&Arrival) -> bool) {
        self.queue.retain(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: ([u8; 4], u16) = ([239, 1, 1, 1], 5000);

    fn address(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], 1))
    }

    fn datagram(kind: Kind) -> [u8; 4] {
        [1, kind as u8, 0, 0]
    }

    fn flight() -> Flight {
        let mut flight = Flight::new(NetworkOptions::PERFECT, Seed(1));
        for host in 0..3 {
            flight.add_host(address(host));
            flight.listen(address(host), GROUP.into(), true);
        }
        flight
    }

    fn arrive(flight: &mut Flight, now: Instant) -> Vec<SocketAddr> {
        let polled = core::iter::from_fn(|| flight.poll(now));
        let mut hosts: Vec<_> = polled.map(|arrival| arrival.at).collect();
        hosts.sort_unstable();
        hosts
    }

    #[test]
    fn a_copy_arrives_when_it_is_time() {
        let mut flight = flight();
        flight.send(Instant(0), address(0), GROUP.into(), &[1; 9]);
        flight.send(Instant(0), address(0), address(2), &[1; 9]);
        let first = flight.next_time().unwrap();
        assert_eq!(arrive(&mut flight, Instant(first.0 - 1)), []);
        let all = [address(1), address(2), address(2)];
        assert_eq!(arrive(&mut flight, Instant(1_000_000)), all);
        assert_eq!(flight.next_time(), None);
    }

    #[test]
    fn loss_is_set_for_each_kind_apart() {
        let mut flight = flight();
        flight.loss.control_ppm = 1_000_000;
        for kind in [Kind::Token, Kind::Data, Kind::Session] {
            flight.send(Instant(0), address(0), address(1), &datagram(kind));
        }
        let kinds: Vec<_> = core::iter::from_fn(|| flight.poll(Instant::NEVER))
            .map(|arrival| Kind::peek(&arrival.bytes).unwrap())
            .collect();
        assert_eq!(kinds.len(), 2);
        assert!(!kinds.contains(&Kind::Token));
    }

    #[test]
    fn a_late_host_gets_first_transmissions_later_and_nothing_else() {
        const BY: Duration = Duration::from_millis(5);
        let mut flight = flight();
        flight.late = Some((address(2), BY));
        let mut data = datagram(Kind::Data);
        flight.send(Instant(0), address(0), GROUP.into(), &data);
        Hop::CacherRepair.stamp(&mut data);
        flight.send(Instant(0), address(0), address(2), &data);
        let early = arrive(&mut flight, Instant::default().after(BY));
        assert_eq!(early, [address(1), address(2)]);
        assert_eq!(arrive(&mut flight, Instant::NEVER), [address(2)]);
    }

    #[test]
    fn draws_after_a_new_seed_do_not_depend_on_what_was_sent_before() {
        let arrives = |before: usize, seed: u64| {
            let mut flight = flight();
            for _ in 0..before {
                flight.send(Instant(0), address(0), address(1), &[1; 9]);
            }
            flight.retain(|_| false);
            flight.reseed(Seed(seed));
            flight.send(Instant(1_000_000), address(0), address(1), &[1; 9]);
            flight.next_time()
        };
        assert_eq!(arrives(0, 5), arrives(7, 5));
        assert_ne!(arrives(0, 5), arrives(0, 6));
    }

    #[test]
    fn a_host_that_comes_again_is_the_same_one() {
        let mut flight = flight();
        flight.add_host(address(1));
        flight.listen(address(2), GROUP.into(), false);
        flight.send(Instant(0), address(0), GROUP.into(), &[1; 9]);
        assert_eq!(arrive(&mut flight, Instant::NEVER), [address(1)]);
    }

    #[test]
    fn what_is_on_its_way_can_be_lost() {
        let mut flight = flight();
        flight.send(Instant(0), address(0), GROUP.into(), &[1; 9]);
        flight.retain(|arrival| arrival.at == address(2));
        assert_eq!(arrive(&mut flight, Instant::NEVER), [address(2)]);
    }
}
