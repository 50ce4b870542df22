//! What a relay, source or receiver asks of the links at its port.

use core::fmt;
use core::ops::Range;
use std::collections::VecDeque;
use std::net::SocketAddr;

use qsm_wire::Instant;

use crate::stats::LinkStats;

/// Events that wait to be taken; of more the oldest go.
const EVENTS_MAX: usize = 256;

/// Links at one port: to a parent, and of children. Without a socket: datagrams and times are given to
/// it, and it says what is to be sent.
///
/// Peers are named by their addresses: what [`Link::receive`] says a packet came from is what
/// [`Link::wrap`] takes.
pub trait Link: fmt::Debug + Send {
    /// Connects to a parent, and again whenever the link is lost. Each one that is named has a link of its own.
    fn connect(&mut self, now: Instant, parent: SocketAddr);

    /// Takes a datagram, which is opened in place. Returns the packet of a peer in it, if there is one.
    fn receive(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) -> Option<Received>;

    /// Makes a packet for a peer a datagram, in `out` if it cannot stay as it is. None if there is no
    /// link to it: the packet is lost, as in a network.
    fn wrap<'a>(
        &mut self,
        now: Instant,
        to: SocketAddr,
        packet: &'a [u8],
        out: &'a mut Vec<u8>,
    ) -> Option<Wrapped<'a>>;

    /// Writes the next datagram that the links send by themselves, and returns where it goes.
    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<SocketAddr>;

    /// Time at which [`Link::handle_timeout`] is to be called.
    fn next_timeout(&self) -> Option<Instant>;

    /// Does what is due.
    fn handle_timeout(&mut self, now: Instant);

    /// The next thing that has happened.
    fn poll_event(&mut self) -> Option<LinkEvent>;

    /// Tells whether packets are encrypted and authenticated.
    fn is_protected(&self) -> bool;

    /// Counters since it was made.
    fn stats(&self) -> LinkStats;

    /// Takes leave of all peers; what it says is then to be sent.
    fn close(&mut self, now: Instant);
}

/// A packet that has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The peer.
    pub from: SocketAddr,
    /// Place of the packet in the datagram.
    pub at: Range<usize>,
}

/// A datagram to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrapped<'a> {
    /// Destination.
    pub to: SocketAddr,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// Something that has happened to a link. Names are those in tokens, and are as their peers say them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkEvent {
    /// A link is open: each end has shown its token.
    Up {
        /// The peer.
        address: SocketAddr,
        /// Its name.
        name: String,
        /// It is the parent; else a child.
        is_parent: bool,
    },
    /// A link that was open is gone. To a parent it is made again.
    Down {
        /// The peer.
        address: SocketAddr,
        /// Its name.
        name: String,
        /// Why.
        cause: String,
    },
    /// The parent cannot be connected to now, or refuses this end. It is tried again.
    Failed {
        /// The parent.
        address: SocketAddr,
        /// Why.
        cause: String,
    },
    /// This end has refused a peer, or a child has refused this end. Some of them alone are told, where
    /// there are many.
    Refused {
        /// The peer.
        address: SocketAddr,
        /// Why.
        cause: String,
    },
    /// A child's address has changed, and it has proven the new one.
    Moved {
        /// Its name.
        name: String,
        /// The former address.
        from: SocketAddr,
        /// The one that it has now.
        to: SocketAddr,
    },
    /// Somebody speaks in the other way: without protection where there is some, or the reverse.
    Mismatched {
        /// Who.
        address: SocketAddr,
    },
}

/// Events, a bounded number of them.
#[derive(Debug)]
pub(crate) struct Events {
    waiting: VecDeque<LinkEvent>,
    /// When a [`LinkEvent::Mismatched`] was told last.
    mismatched: Option<Instant>,
    /// When refusals were counted anew, and how many were told since.
    since: Instant,
    refused: u32,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            mismatched: None,
            since: Instant(0),
            refused: 0,
        }
    }
}

impl Events {
    /// Mismatches are told once in this time.
    const QUIET: core::time::Duration = core::time::Duration::from_secs(10);
    /// So many refusals are told in it.
    const REFUSED_MAX: u32 = 32;

    pub(crate) fn push(&mut self, event: LinkEvent) {
        if self.waiting.len() >= EVENTS_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(event);
    }

    pub(crate) fn mismatch(&mut self, now: Instant, address: SocketAddr) {
        if self
            .mismatched
            .is_none_or(|told| now.since(told) >= Self::QUIET)
        {
            self.mismatched = Some(now);
            self.push(LinkEvent::Mismatched { address });
        }
    }

    pub(crate) fn refuse(&mut self, now: Instant, address: SocketAddr, cause: String) {
        if now.since(self.since) >= Self::QUIET {
            (self.since, self.refused) = (now, 0);
        }
        self.refused += 1;
        if self.refused <= Self::REFUSED_MAX {
            self.push(LinkEvent::Refused { address, cause });
        }
    }

    pub(crate) fn pop(&mut self) -> Option<LinkEvent> {
        self.waiting.pop_front()
    }
}
