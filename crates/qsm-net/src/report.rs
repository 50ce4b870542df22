//! What a port chose and was granted, for people.

use std::fmt;
use std::fs;
use std::net::SocketAddr;

use crate::address::Family;
use crate::busy_poll::BusyPoll;
use crate::copier::Cloning;
use crate::interface::Interface;
use crate::send::Gso;
use crate::strategy::{self, Strategy};

/// What a port uses, and why. `Display` gives one line for each fact, with the remedy where something is less than asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoReport {
    /// Interface of everything sent and received.
    pub interface: Interface,
    /// Address of the unicast socket.
    pub local_addr: SocketAddr,
    /// Whether trains are sent.
    pub gso: Gso,
    /// Trains are received whole.
    pub gro: bool,
    /// Receive buffer asked for, for each socket, in bytes.
    pub receive_buffer_asked: usize,
    /// Smallest receive buffer granted to a socket, in the same unit.
    pub receive_buffer_granted: usize,
    /// Send buffer asked for, in the same unit.
    pub send_buffer_asked: usize,
    /// Send buffer granted.
    pub send_buffer_granted: usize,
    /// Tells whether copies for many receivers are cloned inside the kernel.
    pub cloning: Cloning,
    /// Busy polling, if it was asked for.
    pub busy_poll: Option<BusyPoll>,
    /// Groups joined.
    pub groups: usize,
    /// The kernel's limit of memberships of one socket, if it could be read; IPv6 has none. Each group has a socket of its
    /// own, so it does not bind.
    pub memberships_max: Option<u32>,
    /// Hops that multicast may take.
    pub ttl: u8,
    /// Other sockets of this host receive what is sent.
    pub loopback: bool,
}

impl IoReport {
    /// The ways of sending and receiving faster: which are in use, and why.
    #[must_use]
    pub fn strategies(&self) -> Vec<Strategy> {
        strategy::of(self)
    }

    /// The command that would let the kernel grant the receive buffer, if it granted less (R217, R220).
    #[must_use]
    pub fn receive_buffer_remedy(&self) -> Option<String> {
        let asked = self.receive_buffer_asked;
        (self.receive_buffer_granted < asked)
            .then(|| format!("sysctl -w net.core.rmem_max={asked}"))
    }
}

impl fmt::Display for IoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interface {
            name,
            addr,
            mtu,
            loopback: is_loopback,
            ..
        } = &self.interface;
        writeln!(
            f,
            "interface: {name}, {addr}, mtu {mtu}, unicast port {}",
            self.local_addr.port()
        )?;
        for strategy in self.strategies() {
            writeln!(f, "{strategy}")?;
        }
        write!(f, "groups: {} joined, one socket each", self.groups)?;
        if let Some(limit) = self.memberships_max {
            write!(f, "; memberships of one socket: at most {limit}")?;
        }
        writeln!(f)?;
        let seen = match (self.ttl, self.loopback) {
            _ if *is_loopback => "this host only, being on the loopback interface",
            (0, _) if addr.is_ipv6() => {
                "this host, and by the network while nobody here has joined"
            }
            (0, true) => "this host only",
            (0, false) => "nobody: ttl 0 stays on this host, and loopback is off",
            (_, true) => "the network and this host",
            (_, false) => "the network, not this host",
        };
        write!(f, "multicast: ttl {}, received by {seen}", self.ttl)
    }
}

/// The kernel's limit of memberships of one socket.
pub(crate) fn memberships_max(family: Family) -> Option<u32> {
    if family == Family::V6 {
        return None;
    }
    fs::read_to_string("/proc/sys/net/ipv4/igmp_max_memberships")
        .ok()?
        .trim()
        .parse()
        .ok()
}
