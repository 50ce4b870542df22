//! The words between the doctor that leads and those that listen: a line of JSON each, by TCP.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::net::{IpAddr, SocketAddr};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::probe::Way;

/// Raised when words change: doctors of different versions do not talk.
pub(crate) const VERSION: u32 = 1;
/// Longest line, bytes.
const LINE_MAX: u64 = 256 << 10;

/// Orders to a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Opens sockets and taps; [`Answer::Opened`].
    Open {
        /// [`VERSION`].
        version: u32,
        /// In each probe.
        session: u32,
        /// Own address, whose interface is meant.
        address: IpAddr,
        /// Multicast address that is received.
        group: SocketAddr,
        /// Another one with the same port.
        beside: SocketAddr,
        /// Of unicast; 0 lets the kernel choose.
        port: u16,
    },
    /// Sends probes; [`Answer::Sent`].
    Send(Burst),
    /// Says what came of a step so far; [`Answer::Counted`].
    Count {
        /// The step.
        step: u32,
    },
    /// Examines the host; [`Answer::Examined`].
    Examine,
}

/// Answers of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Sockets are open.
    Opened(Opened),
    /// Probes were sent.
    Sent(Sent),
    /// Outcome of a step.
    Counted(Counted),
    /// The faults of the host.
    Examined(Vec<Told>),
    /// The order cannot be carried out; the session is over.
    Refused(String),
}

/// Ports that a listener has opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Opened {
    /// Name of its host.
    pub(crate) name: String,
    /// Name of the interface.
    pub(crate) interface: String,
    /// Largest packet of the interface, bytes.
    pub(crate) mtu: u32,
    /// Where it receives unicast.
    pub(crate) unicast: SocketAddr,
    /// Why it does not see packets at the card.
    pub(crate) blind: Option<String>,
}

/// Probes that are to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Burst {
    /// The step.
    pub(crate) step: u32,
    /// Where to.
    pub(crate) way: Way,
    /// The address.
    pub(crate) to: SocketAddr,
    /// Hops that multicast may take.
    pub(crate) ttl: u8,
    /// Time between two calls of the system.
    pub(crate) gap_micros: u32,
    /// What, in this order.
    pub(crate) parts: Vec<Part>,
}

/// Probes of the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Payload of each, bytes.
    pub(crate) bytes: u32,
    /// Number of times.
    pub(crate) calls: u32,
    /// Datagrams that leave in one call.
    pub(crate) train: u32,
}

/// Outcome of a [`Burst`] at its sender.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Datagrams that the system took.
    pub(crate) taken: u64,
    /// Why it refused others, the first time.
    pub(crate) refused: Option<String>,
}

/// Outcome of a step at a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counted {
    /// Probes that the right socket received.
    pub(crate) arrived: u64,
    /// Of each size of payload.
    pub(crate) sizes: BTreeMap<u32, u64>,
    /// Received after a later one.
    pub(crate) late: u64,
    /// Received by the socket of another address.
    pub(crate) astray: u64,
    /// Seen coming from a card, by interface.
    pub(crate) came: BTreeMap<String, u64>,
    /// Seen leaving for a card, by interface.
    pub(crate) left: BTreeMap<String, u64>,
    /// Since the sockets were opened.
    pub(crate) since: Since,
}

/// Counters since the sockets were opened, of all steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Since {
    /// Packets without room in the receive buffers of the doctor.
    pub(crate) full: u64,
    /// Datagrams of other programs at the multicast address.
    pub(crate) foreign: u64,
    /// Packets that the card lost when receiving.
    pub(crate) card_lost: u64,
    /// Packets that the card lost when sending.
    pub(crate) card_kept: u64,
    /// Queries for memberships, of IGMP or MLD.
    pub(crate) queries: u64,
}

/// A finding of another host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    /// The check.
    pub(crate) id: String,
    /// The evidence.
    pub(crate) evidence: String,
    /// The remedy.
    pub(crate) remedy: String,
}

/// Writes a line.
pub(crate) fn say<T: Serialize>(to: &mut impl Write, what: &T) -> io::Result<()> {
    let mut line = serde_json::to_string(what)?;
    line.push('\n');
    to.write_all(line.as_bytes())?;
    to.flush()
}

/// Reads a line; `None` at the end.
pub(crate) fn hear<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    io::Read::take(from, LINE_MAX).read_line(&mut line)?;
    match line.is_empty() {
        true => Ok(None),
        false => Ok(Some(serde_json::from_str(&line)?)),
    }
}
