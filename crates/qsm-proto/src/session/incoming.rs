use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use qsm_wire::membership::MESSAGE_BYTES_MAX;

use super::outgoing::WINDOW_FRAMES;
use crate::Instant;

/// Longest a receipt waits for company. Far below the shortest retransmission timeout.
pub const ACK_DELAY: Duration = Duration::from_millis(2);
/// Frames received without receipt before one is sent at once.
pub const ACK_FRAMES: u32 = 16;
/// Received messages that may wait to be polled; beyond it frames are not accepted, so their
/// sender repeats them.
pub const INBOX_MAX: usize = 128;

/// What this end receives.
#[derive(Debug, Default)]
pub(super) struct IncomingFrames {
    heard_upto: u64,
    /// Frames beyond a gap, at most [`WINDOW_FRAMES`].
    ahead: BTreeMap<u64, (bool, Vec<u8>)>,
    /// The message that is coming together.
    partial: Vec<u8>,
    ready: VecDeque<Vec<u8>>,
    ack_at: Option<Instant>,
    unacked: u32,
    broken: bool,
}

impl IncomingFrames {
    /// A frame has arrived.
    pub(super) fn take(&mut self, now: Instant, number: u64, more: bool, content: &[u8]) {
        if number <= self.heard_upto {
            self.ack_at = Some(now);
            return;
        }
        if number > self.heard_upto + WINDOW_FRAMES || self.ready.len() >= INBOX_MAX {
            return;
        }
        if number > self.heard_upto + 1 {
            self.ahead
                .entry(number)
                .or_insert_with(|| (more, content.to_vec()));
            self.ack_at = Some(now);
            return;
        }
        self.append(more, content);
        while let Some((more, content)) = self.ahead.remove(&(self.heard_upto + 1)) {
            self.append(more, &content);
        }
        self.unacked += 1;
        let due = if self.unacked >= ACK_FRAMES || !self.ahead.is_empty() {
            now
        } else {
            now.after(ACK_DELAY)
        };
        self.ack_at = Some(self.ack_at.map_or(due, |at| at.min(due)));
    }

    fn append(&mut self, more: bool, content: &[u8]) {
        self.heard_upto += 1;
        if self.partial.len() + content.len() > MESSAGE_BYTES_MAX {
            self.broken = true;
            self.partial = Vec::new();
            return;
        }
        self.partial.extend_from_slice(content);
        if !more {
            self.ready.push_back(core::mem::take(&mut self.partial));
        }
    }

    /// The next message, whole and in order.
    pub(super) fn poll(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    /// All frames up to this number have arrived.
    pub(super) fn heard_upto(&self) -> u64 {
        self.heard_upto
    }

    /// When a receipt is due.
    pub(super) fn ack_at(&self) -> Option<Instant> {
        self.ack_at
    }

    /// True if the peer broke the rules (a message without end).
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// A receipt has been sent.
    pub(super) fn acknowledged(&mut self) {
        self.ack_at = None;
        self.unacked = 0;
    }
}
