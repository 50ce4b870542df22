//! Evidence of an examination of peers, before it is judged.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::probe::Way;

/// A host that takes part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Name of the host.
    pub name: String,
    /// Its interface.
    pub interface: String,
    /// Largest packet of the interface, bytes.
    pub mtu: u32,
    /// Where it receives unicast.
    pub unicast: SocketAddr,
    /// Why packets are not seen at its card.
    pub blind: Option<String>,
    /// Verdicts of its own examination of checks that keep packets back: id, evidence and remedy.
    pub faults: Vec<Fault>,
    /// Queries for memberships that came, of IGMP or MLD.
    pub queries: u64,
    /// Datagrams of other programs at the multicast address.
    pub foreign: u64,
}

/// A finding of a host's own examination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The check.
    pub id: String,
    /// The evidence.
    pub evidence: String,
    /// The remedy.
    pub remedy: String,
}

/// A kind of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Small ones, one at a time.
    Single,
    /// Of all sizes up to the interface's.
    Sizes,
    /// Larger than the interface's packets.
    Fragments,
    /// Many in one call of the system.
    Trains,
    /// With so many hops allowed.
    Hops(u8),
    /// To another multicast address with the same port.
    Beside,
    /// Small ones, after this time since the memberships began.
    After(Duration),
}

/// Outcome of the probes of a kind on their way from one peer to another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Course {
    /// Datagrams that were to be sent.
    pub wanted: u64,
    /// Those that are given to the sender's system in one call: they may be lost as one. 0 is 1.
    pub together: u64,
    /// Those that the sender's system took.
    pub sent: u64,
    /// Why it refused others.
    pub refused: Option<String>,
    /// Seen leaving for the sender's card; `None` if nobody could look.
    pub left: Option<u64>,
    /// Seen leaving by another interface: its name, and how many.
    pub left_elsewhere: Option<(String, u64)>,
    /// Seen coming from the receiver's card; `None` if nobody could look.
    pub came: Option<u64>,
    /// Seen coming by another interface: its name, and how many.
    pub came_elsewhere: Option<(String, u64)>,
    /// Received by the right socket.
    pub arrived: u64,
    /// Of each size of packet: sent copies are equal.
    pub sizes: BTreeMap<u32, u64>,
    /// Received after a later one.
    pub late: u64,
    /// Received by the socket of another address.
    pub astray: u64,
    /// Without room in the receive buffer meanwhile.
    pub full: u64,
    /// Lost by the receiver's card meanwhile.
    pub card_lost: u64,
    /// Lost by the sender's card meanwhile.
    pub card_kept: u64,
}

impl Course {
    /// Not received.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.wanted.saturating_sub(self.arrived)
    }
}

/// From one peer to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Place of the sender among [`Evidence::peers`].
    pub from: usize,
    /// Place of the receiver.
    pub to: usize,
    /// Outcome of each kind of probes, by each way.
    pub courses: BTreeMap<(Way, Kind), Course>,
}

impl Path {
    /// Outcome of these probes.
    #[must_use]
    pub fn course(&self, way: Way, kind: Kind) -> Option<&Course> {
        self.courses.get(&(way, kind))
    }
}

/// A peer that does not take part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// As it was given.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Everything that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The multicast address that was used.
    pub group: SocketAddr,
    /// The other one with the same port.
    pub beside: SocketAddr,
    /// Those who took part; the first led.
    pub peers: Vec<Peer>,
    /// Those who did not.
    pub absent: Vec<Absent>,
    /// Each sender with each receiver.
    pub paths: Vec<Path>,
    /// Time for which memberships and queries were watched.
    pub watched: Duration,
}
