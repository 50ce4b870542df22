//! Copies by unicast: what has just been multicast goes again to each member that does not hear it,
//! and what a node without multicast sends goes to all members so.

use std::net::SocketAddr;

use qsm_wire::{Hop, Kind};

use crate::{Destination, Reason, Stats, Transmit};

/// A train that is being copied, and those to whom it is still to go. Rules R-REACH-4, R-REACH-6.
#[derive(Debug)]
pub(super) struct Copies {
    bytes: Vec<u8>,
    segment_bytes: usize,
    reason: Reason,
    to: Vec<SocketAddr>,
}

impl Copies {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            segment_bytes: 1,
            reason: Reason::Data,
            to: Vec::new(),
        }
    }

    /// Copies of a train that is leaving go to these next. Answers to those who ask whether multicast
    /// reaches them are not copied: each of these has one by unicast.
    pub(super) fn begin(&mut self, original: &Transmit<'_>, to: impl Iterator<Item = SocketAddr>) {
        if Kind::peek(original.bytes) == Some(Kind::ReachReply) {
            return;
        }
        self.to.extend(to);
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

    pub(super) fn is_empty(&self) -> bool {
        self.to.is_empty()
    }

    /// The next copy.
    pub(super) fn poll(&mut self, stats: &mut Stats) -> Option<Transmit<'_>> {
        let to = Destination::Node(self.to.pop()?);
        stats.copies_sent += self.bytes.len().div_ceil(self.segment_bytes) as u64;
        Some(Transmit {
            to,
            bytes: &self.bytes,
            segment_bytes: self.segment_bytes,
            reason: self.reason,
        })
    }
}
