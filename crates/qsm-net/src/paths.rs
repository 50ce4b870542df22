//! Where hosts are that are on two networks.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;

/// Most hosts whose second address is remembered; the oldest are forgotten, and reached by the first network only.
const HOSTS_MAX: usize = 1 << 16;
/// Most addresses remembered only because something came from them on the second network.
const STRANGERS_MAX: usize = 1024;

/// Which way to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the first network only.
    First,
    /// By the second one only: it has been heard there, and nothing is known of it.
    Second,
    /// By the first one to this address, and by the second one to the other.
    Both(SocketAddr),
}

/// The addresses of others, in pairs. A host goes by its address on the first network.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    second_of: HashMap<SocketAddr, SocketAddr>,
    first_of: HashMap<SocketAddr, SocketAddr>,
    /// The keys of `second_of`, the oldest first.
    order: VecDeque<SocketAddr>,
    /// Heard on the second network, of hosts not in the tables.
    strangers: HashSet<SocketAddr>,
}

impl Paths {
    /// A host is at these addresses. What was known of either before is forgotten.
    pub(crate) fn learn(&mut self, first: SocketAddr, second: SocketAddr) {
        if self.second_of.get(&first) == Some(&second) {
            return;
        }
        if let Some(former) = self.first_of.get(&second).copied() {
            self.forget(former);
        }
        self.forget(first);
        while self.order.len() >= HOSTS_MAX {
            self.order
                .front()
                .copied()
                .into_iter()
                .for_each(|oldest| self.forget(oldest));
        }
        self.second_of.insert(first, second);
        self.first_of.insert(second, first);
        self.order.push_back(first);
        self.strangers.remove(&second);
    }

    fn forget(&mut self, first: SocketAddr) {
        if let Some(second) = self.second_of.remove(&first) {
            self.first_of.remove(&second);
            self.order.retain(|known| *known != first);
        }
    }

    /// The name of whom something came from on the second network.
    pub(crate) fn name(&mut self, source: SocketAddr) -> SocketAddr {
        if let Some(first) = self.first_of.get(&source) {
            return *first;
        }
        if !self.strangers.contains(&source) {
            if self.strangers.len() == STRANGERS_MAX {
                self.strangers.clear();
            }
            self.strangers.insert(source);
        }
        source
    }

    /// The first address of whom this is the second of, or the same.
    pub(crate) fn first(&self, second: SocketAddr) -> SocketAddr {
        self.first_of.get(&second).copied().unwrap_or(second)
    }

    /// How to reach an address. Multicast goes the same way on both networks.
    pub(crate) fn way(&self, to: SocketAddr) -> Way {
        if to.ip().is_multicast() {
            return Way::Both(to);
        }
        match self.second_of.get(&to) {
            Some(second) => Way::Both(*second),
            None if self.strangers.contains(&to) => Way::Second,
            None => Way::First,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(network: u8, host: u16) -> SocketAddr {
        SocketAddr::from(([10, network, 0, 1], host))
    }

    #[test]
    fn a_host_goes_by_its_first_address_and_is_reached_by_both() {
        let mut paths = Paths::default();
        assert_eq!(paths.way(at(1, 1)), Way::First);
        paths.learn(at(1, 1), at(2, 1));
        paths.learn(at(1, 1), at(2, 1));
        assert_eq!(paths.way(at(1, 1)), Way::Both(at(2, 1)));
        assert_eq!(paths.name(at(2, 1)), at(1, 1));
        let group = SocketAddr::from(([239, 1, 1, 1], 1));
        assert_eq!(paths.way(group), Way::Both(group));
    }

    #[test]
    fn a_stranger_is_answered_where_it_was_heard_until_it_is_known() {
        let mut paths = Paths::default();
        assert_eq!(paths.name(at(2, 1)), at(2, 1));
        assert_eq!(paths.way(at(2, 1)), Way::Second);
        paths.learn(at(1, 1), at(2, 1));
        assert_eq!(paths.way(at(2, 1)), Way::First);
        assert_eq!(paths.name(at(2, 1)), at(1, 1));
    }

    #[test]
    fn an_address_belongs_to_whom_it_was_given_last() {
        let mut paths = Paths::default();
        paths.learn(at(1, 1), at(2, 1));
        paths.learn(at(1, 2), at(2, 1));
        assert_eq!(paths.way(at(1, 1)), Way::First);
        assert_eq!(paths.name(at(2, 1)), at(1, 2));
        paths.learn(at(1, 2), at(2, 2));
        assert_eq!(paths.name(at(2, 1)), at(2, 1));
        assert_eq!(paths.name(at(2, 2)), at(1, 2));
        assert_eq!((paths.first_of.len(), paths.order.len()), (1, 1));
    }

    #[test]
    fn memory_has_a_limit() {
        let mut paths = Paths::default();
        let many = |i: u32| SocketAddr::from((i.to_be_bytes(), 1));
        let hosts = u32::try_from(HOSTS_MAX).unwrap();
        for i in 0..hosts + 2 {
            paths.learn(many(0x0a00_0000 + i), many(0x0b00_0000 + i));
        }
        assert_eq!(
            (paths.second_of.len(), paths.first_of.len()),
            (HOSTS_MAX, HOSTS_MAX)
        );
        assert_eq!(paths.way(many(0x0a00_0001)), Way::First);
        for i in 0..2000 {
            paths.name(many(0x0c00_0000 + i));
        }
        assert!(paths.strangers.len() <= STRANGERS_MAX);
    }
}
