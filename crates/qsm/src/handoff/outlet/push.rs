//! As an application thread: is there room in this queue, and in all together.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Outlet;
use crate::handoff::gate::{Gate, admit};

impl Outlet {
    /// Queues a copy of the message; `None` if there is no room. True if the core must be told.
    pub(crate) fn push(&self, gate: &Gate, message: &[u8]) -> Option<bool> {
        if !self.admit(gate, message.len()) {
            return None;
        }
        self.queue.push(message.to_vec());
        Some(self.signal.raise())
    }

    /// Whether a message of this length would be queued now; a hint, as others may come first.
    pub(crate) fn has_room(&self, gate: &Gate, length: usize) -> bool {
        let fits = |sum: &AtomicUsize, more: usize, max: usize| {
            let old = sum.load(Ordering::SeqCst);
            old == 0 || old + more <= max
        };
        fits(&self.messages, 1, gate.limits.messages)
            && fits(&self.bytes, length, gate.limits.bytes)
            && fits(&gate.bytes_total, length, gate.limits.bytes_total)
    }

    /// Counts the message if it fits all limits. A sum raised and lowered again may turn another
    /// thread away in between; that one is not forgotten, because the limit that was met is met by
    /// messages that wait, and when these leave, all look again.
    fn admit(&self, gate: &Gate, length: usize) -> bool {
        if !self.has_room(gate, length) || !admit(&self.messages, 1, gate.limits.messages) {
            return false;
        }
        if admit(&self.bytes, length, gate.limits.bytes) {
            if admit(&gate.bytes_total, length, gate.limits.bytes_total) {
                return true;
            }
            self.bytes.fetch_sub(length, Ordering::SeqCst);
        }
        self.messages.fetch_sub(1, Ordering::SeqCst);
        false
    }
}
