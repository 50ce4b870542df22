//! Copies by unicast: what has just been multicast goes again to each member that does not hear it.

use std::net::SocketAddr;

use qsm_wire::{Hop, Kind};

use crate::{Destination, Reason, Transmit};

/// What is being copied, and to whom it is still to go. Rule R-REACH-4.
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

    /// The next copy, and how many packets it has.
    pub(super) fn poll(&mut self) -> Option<(Transmit<'_>, u64)> {
        let to = Destination::Node(self.to.pop()?);
        let packets = self.bytes.len().div_ceil(self.segment_bytes);
        let transmit = Transmit {
            to,
            bytes: &self.bytes,
            segment_bytes: self.segment_bytes,
            reason: self.reason,
        };
        Some((transmit, packets as u64))
    }
}
