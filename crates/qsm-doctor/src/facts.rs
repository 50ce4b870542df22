use std::net::Ipv4Addr;

use qsm_net::Medium;

use crate::firewall::Firewall;

/// What is known of a host and of one of its interfaces. `None` is what could not be read.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The interface.
    pub link: Link,
    /// Other interfaces that are up and have an address.
    pub others: Vec<String>,
    /// Settings and counters of the kernel.
    pub kernel: Kernel,
    /// Settings of the network card.
    pub card: Card,
    /// Rules of nftables.
    pub firewall: Firewall,
    /// Multicast has a way out of the interface.
    pub route: Option<bool>,
    /// Other hosts that have an address of the interface.
    pub claims: Option<Vec<Claim>>,
}

/// Another host that answers for an address of this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The address.
    pub address: Ipv4Addr,
    /// The other's hardware address.
    pub hardware: String,
}

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: Option<u32>,
    /// Its kind.
    pub kind: Option<Kind>,
    /// Medium that nodes take it for; `None`: it is down, or has no address.
    pub medium: Option<Medium>,
    /// It is switched on.
    pub up: Option<bool>,
    /// A cable, or what stands for one, is there.
    pub carrier: Option<bool>,
    /// It says that it carries multicast.
    pub multicast: Option<bool>,
    /// Largest IP packet, bytes.
    pub mtu: Option<u64>,
    /// Addresses of IPv4.
    pub addresses: Vec<Ipv4Addr>,
    /// It has an address of IPv6.
    pub ipv6: bool,
    /// Of a bridge: it forwards multicast only to ports that asked for it.
    pub snooping: Option<bool>,
    /// Of a bridge: it asks who wants what.
    pub querier: Option<bool>,
}

/// Kind of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The host itself.
    Loopback,
    /// A card, or a virtual machine's.
    Ethernet,
    /// Wireless.
    Wireless,
    /// Packets within packets: `wireguard`, `gre`, `tun` and the like.
    Tunnel(String),
    /// A switch in the kernel.
    Bridge,
    /// An end of a pair, as containers have it.
    Veth,
    /// Anything else, as `ip` calls it.
    Other(String),
}

/// Settings and counters of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kernel {
    /// `net.core.rmem_max`.
    pub rmem_max: Option<u64>,
    /// Bytes granted to a socket that asked for the wanted receive buffer, without privilege.
    pub granted: Option<u64>,
    /// `net.ipv4.igmp_max_memberships`.
    pub igmp_max_memberships: Option<u64>,
    /// `net.ipv4.igmp_max_msf`.
    pub igmp_max_msf: Option<u64>,
    /// `net.ipv4.conf.INTERFACE.force_igmp_version`.
    pub force_igmp_version: Option<u64>,
    /// `net.ipv4.conf.all.rp_filter`.
    pub rp_filter_all: Option<u64>,
    /// `net.ipv4.conf.INTERFACE.rp_filter`.
    pub rp_filter: Option<u64>,
    /// `net.core.netdev_max_backlog`.
    pub netdev_max_backlog: Option<u64>,
    /// Packets that the queue between card and protocols had no room for.
    pub backlog: Option<Growth>,
    /// Datagrams that receive buffers had no room for.
    pub udp: Option<Growth>,
    /// The clock that the kernel reads.
    pub clock_source: Option<String>,
    /// Governors of CPU frequency, with the file that sets each.
    pub governors: Vec<(String, String)>,
}

/// Settings of a network card.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Card {
    /// Packets received are put together before they go up.
    pub gro: Option<bool>,
    /// Receive descriptors.
    pub ring: Option<Ring>,
    /// Packets that the card had no descriptor for.
    pub missed: Option<Growth>,
    /// It chooses by itself how long it waits before an interrupt.
    pub adaptive_rx: Option<bool>,
    /// It waits so long, in microseconds.
    pub rx_usecs: Option<u64>,
    /// It obeys, or sends, pause frames.
    pub pause: Option<bool>,
}

/// A ring of descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    /// In use.
    pub now: u64,
    /// The card's most.
    pub max: u64,
}

/// A counter of losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Growth {
    /// Lost since the host was started.
    pub total: u64,
    /// Handled in this time.
    pub handled: u64,
    /// Lost while the host was watched.
    pub grown: u64,
}
