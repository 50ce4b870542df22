//! The networks of a lab: the one that every lab has, and a second one beside it.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::machine::HOSTS_MAX;
use crate::site::SiteId;

/// One of the networks that a lab's hosts are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Network {
    /// The one of every lab.
    First,
    /// The other one, of labs made by [`Lab::and_second_network`](crate::Lab::and_second_network).
    Second,
}

impl Network {
    /// The interface of each host on it.
    #[must_use]
    pub fn interface(self) -> &'static str {
        match self {
            Self::First => "eth0",
            Self::Second => "eth1",
        }
    }

    /// The bridge, in the namespace of the switch.
    pub(crate) fn bridge(self) -> &'static str {
        match self {
            Self::First => "switch",
            Self::Second => "second",
        }
    }

    /// The bridge of the hosts of a site; the second network is the same for all.
    pub(crate) fn bridge_at(self, site: SiteId) -> String {
        match (self, site.index()) {
            (Self::First, 1..) => format!("site{}", site.index()),
            _ => self.bridge().to_owned(),
        }
    }

    /// The bridge's port to a host.
    pub(crate) fn port(self, host: &str) -> String {
        match self {
            Self::First => host.to_owned(),
            Self::Second => format!("{host}-2"),
        }
    }

    /// Every lab uses 10.78.0.0/16, and 10.79.0.0/16: namespaces keep them apart.
    pub(crate) fn address(self, host: usize) -> Ipv4Addr {
        let network = match self {
            Self::First => Ipv4Addr::new(10, 78, 0, 0),
            Self::Second => Ipv4Addr::new(10, 79, 0, 0),
        };
        Ipv4Addr::from(u32::from(network) + number(host))
    }

    /// Labs with IPv6 use fd00:78::/64 besides, or fd00:79::/64, of addresses that are unique by being local (RFC 4193);
    /// and link-local ones, which end like the others.
    pub(crate) fn addresses_v6(self, host: usize) -> [Ipv6Addr; 2] {
        let site = match self {
            Self::First => 0x78,
            Self::Second => 0x79,
        };
        [[0xfd00, site], [0xfe80, 0]].map(|[first, second]| {
            let network = Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0);
            Ipv6Addr::from(network.to_bits() | u128::from(number(host)))
        })
    }
}

/// Of the host in this place; 0 is the network itself.
fn number(host: usize) -> u32 {
    const { assert!(HOSTS_MAX < 0xffff) };
    // HOSTS_MAX keeps it far below 65535, the last of the network.
    u32::try_from(host + 1).unwrap_or(u32::MAX)
}
