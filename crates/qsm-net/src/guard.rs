//! Protection of what leaves and of what comes: a cipher that a port is given. The port knows what is sealed in which
//! order, and drops what cannot be opened; it does not know how.

use core::fmt;
use std::net::SocketAddr;
use std::time::Instant;

use crate::counters::RefusalCounters;
use crate::error::{SendError, Sent};

/// Seals datagrams that leave a port, and opens those that come. It may have datagrams of its own, by which guards agree
/// on keys: no user of the port sees them.
pub trait Guard: fmt::Debug + Send {
    /// Bytes by which this datagram grows when it is sealed for there.
    fn growth(&self, to: SocketAddr, datagram: &[u8]) -> usize;

    /// Appends the datagram to `sealed`, sealed for there. `false`: it is not to leave.
    fn seal(&mut self, to: SocketAddr, datagram: &[u8], sealed: &mut Vec<u8>) -> bool;

    /// Opens a datagram that came from there in place.
    ///
    /// # Errors
    /// [`Refusal`]: it is dropped.
    fn open(&mut self, from: SocketAddr, datagram: &mut [u8]) -> Result<Opened, Refusal>;

    /// The next datagram of its own, as it is to leave.
    fn poll_transmit(&mut self) -> Option<OwnDatagram> {
        None
    }

    /// When [`Guard::tick`] has something to do, if it has.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Time has passed.
    fn tick(&mut self, _now: Instant) {}
}

/// Content of a datagram that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// A datagram of this length, which is not above that of what came.
    Datagram(usize),
    /// Something for the guard itself.
    Own,
}

/// A datagram that a guard sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnDatagram {
    /// Where to.
    pub to: SocketAddr,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Why a datagram was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// It is of another cluster.
    OtherCluster,
    /// Its sender protects nothing.
    Plain,
    /// Its sender has another key.
    OtherKey,
    /// It was not made with the key, or has changed on its way.
    Forged,
    /// It has come before.
    Replayed,
    /// It is protected by a key that is not known here yet, or no more: keys change.
    Unkeyed,
    /// More signatures came than are checked.
    Unchecked,
}

/// A datagram that was refused, and where it says that it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The address of its sender, which may be forged too.
    pub from: SocketAddr,
    /// Why.
    pub why: Refusal,
}

/// The guard of a port, and what it works with.
#[derive(Debug)]
pub(crate) struct Guarded {
    guard: Box<dyn Guard>,
    sealed: Vec<u8>,
    /// The latest datagram of this cluster that was refused, but for those that came twice.
    refused: Option<Refused>,
}

/// The part of a train that is sealed together: what grows by as much.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Bytes of it.
    bytes: usize,
    /// Bytes by which each of its datagrams grows.
    growth: usize,
}

impl Guarded {
    pub(crate) fn new(guard: Box<dyn Guard>) -> Self {
        Self {
            guard,
            sealed: Vec::new(),
            refused: None,
        }
    }

    /// Opens a datagram that came from there, and counts what is refused.
    pub(crate) fn open(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        counters: &mut RefusalCounters,
    ) -> Option<usize> {
        match self.guard.open(from, datagram) {
            Ok(Opened::Datagram(length)) => Some(length),
            Ok(Opened::Own) => None,
            Err(why) => {
                counters.count(why);
                // Networks duplicate, and so do two of them; clusters share addresses; keys change.
                if !matches!(
                    why,
                    Refusal::Replayed
                        | Refusal::OtherCluster
                        | Refusal::Unkeyed
                        | Refusal::Unchecked
                ) {
                    self.refused = Some(Refused { from, why });
                }
                None
            }
        }
    }

    /// The latest datagram that was refused since this was asked for.
    pub(crate) fn take_refused(&mut self) -> Option<Refused> {
        self.refused.take()
    }

    /// The next datagram of the guard's own.
    pub(crate) fn poll_transmit(&mut self) -> Option<OwnDatagram> {
        self.guard.poll_transmit()
    }

    /// When the guard has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.guard.due()
    }

    /// Lets the guard do what is due.
    pub(crate) fn run(&mut self) {
        if let Some(due) = self.guard.due() {
            let now = Instant::now();
            if due <= now {
                self.guard.tick(now);
            }
        }
    }

    /// Sends a train sealed: `send` is given it in parts whose datagrams have equal lengths. What is said to be sent is
    /// counted as it was before it was sealed.
    pub(crate) fn send(
        &mut self,
        to: SocketAddr,
        bytes: &[u8],
        segment_bytes: usize,
        mut send: impl FnMut(&[u8], usize) -> Result<Sent, SendError>,
    ) -> Result<Sent, SendError> {
        if segment_bytes == 0 {
            return send(bytes, segment_bytes);
        }
        let mut all = Sent::default();
        while all.bytes < bytes.len() {
            let rest = &bytes[all.bytes..];
            let part = self.seal_part(to, rest, segment_bytes);
            let plain = &rest[..part.bytes];
            if self.sealed.is_empty() {
                // Not to leave: lost here, like on the wire.
                all.bytes += part.bytes;
                continue;
            }
            match send(&self.sealed, segment_bytes + part.growth) {
                Ok(sent) => {
                    all.bytes += plain.len();
                    all.datagrams += sent.datagrams;
                    all.calls += sent.calls;
                }
                Err(error) => return Err(error.after(all, plain.len(), segment_bytes)),
            }
        }
        Ok(all)
    }

    /// Seals the first datagrams, as many as grow alike, and that the cipher does not refuse.
    fn seal_part(&mut self, to: SocketAddr, bytes: &[u8], segment_bytes: usize) -> Part {
        self.sealed.clear();
        let first = &bytes[..segment_bytes.min(bytes.len())];
        let growth = self.guard.growth(to, first);
        let mut part = Part { bytes: 0, growth };
        for datagram in bytes.chunks(segment_bytes) {
            if self.guard.growth(to, datagram) != growth {
                break;
            }
            let before = self.sealed.len();
            if !self.guard.seal(to, datagram, &mut self.sealed) {
                self.sealed.truncate(before);
                // Alone, so that the others stay whole datagrams of a train.
                if part.bytes == 0 {
                    part.bytes = datagram.len();
                }
                break;
            }
            part.bytes += datagram.len();
        }
        part
    }

    /// The sealed train, all of it at once, if its datagrams grow alike. It is for all nodes, whichever is named.
    pub(crate) fn sealed(
        &mut self,
        to: SocketAddr,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> Option<(&[u8], usize)> {
        let part = self.seal_part(to, bytes, segment_bytes.max(1));
        let whole = part.bytes == bytes.len() && !self.sealed.is_empty();
        whole.then_some((&self.sealed, segment_bytes + part.growth))
    }
}
