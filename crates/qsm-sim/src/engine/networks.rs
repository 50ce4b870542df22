//! A host on two networks: it sends by both, and takes what comes by the second as if it had come
//! by the first (R-MEM-12).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use qsm_testnet::Network;

use super::{Datagram, Engine};

/// A host's place on the second network.
#[derive(Debug)]
pub(super) struct Second {
    link: usize,
    address: SocketAddr,
    /// Where others are on the second network, by their addresses on the first.
    others: BTreeMap<SocketAddr, SocketAddr>,
}

/// One way of a datagram into the network.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) link: usize,
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
}

impl Second {
    /// Whoever is at `first` is at `second` as well.
    pub(super) fn learn(&mut self, first: SocketAddr, second: SocketAddr) {
        self.others.insert(first, second);
    }

    /// Ways to an address, beside the one by the first network (`way`), or in its place.
    pub(super) fn ways(&self, way: Way, network: &Network) -> [Option<Way>; 2] {
        let by_second = |to: SocketAddr| Way {
            link: self.link,
            from: self.address,
            to,
        };
        if way.to.ip().is_multicast() {
            return [Some(way), Some(by_second(way.to))];
        }
        let link = network.link_at(way.to);
        if link.is_some_and(|link| network.network_of(link) == 1) {
            return [None, Some(by_second(way.to))];
        }
        let second = self.others.get(&way.to);
        [Some(way), second.map(|second| by_second(*second))]
    }

    fn first_of(&self, second: SocketAddr) -> Option<SocketAddr> {
        let mut others = self.others.iter();
        others
            .find(|(_, at)| **at == second)
            .map(|(first, _)| *first)
    }
}

impl Engine {
    /// Puts a host on the second network, too. All hosts have been added before.
    pub(crate) fn add_second(&mut self, host: usize, address: SocketAddr) {
        let second = Second {
            link: self.network.add_second(host, address),
            address,
            others: BTreeMap::new(),
        };
        self.hosts[host].second = Some(Box::new(second));
    }

    /// Hosts that hear this address now.
    pub(crate) fn receivers(&self, address: SocketAddr) -> Vec<usize> {
        let links = self.network.receivers(address);
        let mut hosts: Vec<usize> = links
            .into_iter()
            .map(|link| self.network.host_of(link))
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    /// The address by which a datagram's sender is known to its receiver.
    pub(super) fn source(&self, host: usize, datagram: &Datagram) -> SocketAddr {
        let second = self.hosts[host].second.as_ref();
        let first = second.and_then(|second| second.first_of(datagram.from));
        first.unwrap_or(datagram.from)
    }
}
