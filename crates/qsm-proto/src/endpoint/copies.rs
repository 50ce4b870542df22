//! Copies by unicast: what has just been multicast goes again to each member that does not hear it,
//! and what a node without multicast sends goes to all members so.

use std::net::SocketAddr;

use qsm_wire::{Hop, Kind};

use crate::{Destination, Reason, Stats, Transmit};

/// Copies of one train that are still to be sent, each as a [`Transmit`] of its own would be.
#[derive(Debug)]
pub struct CopiesLeft<'a> {
    /// Where to. Who has got it is taken off the list; who stays is polled for again.
    pub to: &'a mut Vec<SocketAddr>,
    /// One or more datagrams, end to end.
    pub bytes: &'a [u8],
    /// Length of each datagram but the last.
    pub segment_bytes: usize,
}

/// A train that is being copied, and those to whom it is still to go. Rules R-REACH-4, R-REACH-6.
#[derive(Debug)]
pub(super) struct Copies {
    bytes: Vec<u8>,
    segment_bytes: usize,
    reason: Reason,
    to: Vec<SocketAddr>,
    /// Those of them, and of those who have it, to whom copies do not count as sent yet.
    uncounted: usize,
}

impl Copies {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            segment_bytes: 1,
            reason: Reason::Data,
            to: Vec::new(),
            uncounted: 0,
        }
    }

    /// Copies of a train that is leaving go to these next. Answers to those who ask whether multicast
    /// reaches them are not copied: each of these has one by unicast.
    pub(super) fn begin(
        &mut self,
        original: &Transmit<'_>,
        to: impl Iterator<Item = SocketAddr>,
        stats: &mut Stats,
    ) {
        if Kind::peek(original.bytes) == Some(Kind::ReachReply) {
            return;
        }
        let before = self.to.len();
        self.to.extend(to);
        self.uncounted += self.to.len() - before;
        let packets = original.bytes.len().div_ceil(original.segment_bytes.max(1));
        stats.copies_sent += ((self.to.len() - before) * packets) as u64;
        self.segment_bytes = original.segment_bytes.max(1);
        self.reason = original.reason;
        self.bytes.clear();
        self.bytes.extend_from_slice(original.bytes);
        for packet in self.bytes.chunks_mut(self.segment_bytes) {
            // A repair stays one.
            if Hop::peek(packet) == Some(Hop::Direct) {
                Hop::Copy.stamp(packet);
            }
        }
    }

    /// Bytes of copies that have left and did not count as sent until now.
    pub(super) fn take_sent(&mut self) -> usize {
        let sent = self.uncounted.saturating_sub(self.to.len());
        self.uncounted = self.to.len();
        self.bytes.len() * sent
    }

    pub(super) fn is_empty(&self) -> bool {
        self.to.is_empty()
    }

    /// All that are still to go, for who has one call for many receivers.
    pub(super) fn left(&mut self) -> Option<CopiesLeft<'_>> {
        (!self.to.is_empty()).then_some(CopiesLeft {
            to: &mut self.to,
            bytes: &self.bytes,
            segment_bytes: self.segment_bytes,
        })
    }

    /// The next copy.
    pub(super) fn poll(&mut self) -> Option<Transmit<'_>> {
        let to = Destination::Node(self.to.pop()?);
        Some(Transmit {
            to,
            bytes: &self.bytes,
            segment_bytes: self.segment_bytes,
            reason: self.reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Rule R-RATE-13.
    #[test]
    fn copies_count_when_they_have_left() {
        let to = |port| SocketAddr::from(([10, 0, 0, 1], port));
        let mut copies = Copies::new();
        let original = Transmit {
            to: Destination::Node(to(1)),
            bytes: &[0; 100],
            segment_bytes: 100,
            reason: Reason::Data,
        };
        let mut stats = Stats::default();
        copies.begin(&original, (2..6).map(to), &mut stats);
        assert_eq!((copies.take_sent(), stats.copies_sent), (0, 4));
        assert!(copies.poll().is_some());
        assert_eq!([copies.take_sent(), copies.take_sent()], [100, 0]);
        // Who has one call for many takes them off the list.
        copies.left().unwrap().to.truncate(1);
        assert_eq!(copies.take_sent(), 200);
        assert!(copies.poll().is_some() && copies.poll().is_none());
        assert_eq!((copies.take_sent(), copies.is_empty()), (100, true));
    }
}
