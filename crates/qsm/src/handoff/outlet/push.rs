//! As an application thread: is there room in this queue, and in all together.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Outlet;
use crate::handoff::gate::{Gate, admit};

impl Outlet {
    /// Queues the message of this length that `make` makes; `None` if there is no room. True if the
    /// core must be told.
    pub(crate) fn push(
        &self,
        gate: &Gate,
        length: usize,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Option<bool> {
        if !self.admit(gate, length) {
            return None;
        }
        Some(self.put(make()))
    }

    /// Takes the room of a message of this length, for [`Outlet::fill`] or [`Outlet::give_back`].
    /// False: there is none.
    pub(crate) fn reserve(&self, gate: &Gate, length: usize) -> bool {
        self.admit(gate, length)
    }

    /// Queues a message into room of so many bytes, which it does not exceed. True if the core must
    /// be told.
    pub(crate) fn fill(&self, gate: &Gate, room: usize, message: Vec<u8>) -> bool {
        let unused = room - message.len();
        self.bytes.fetch_sub(unused, Ordering::SeqCst);
        gate.bytes_total.fetch_sub(unused, Ordering::SeqCst);
        self.put(message)
    }

    /// Room of so many bytes is not needed. Those who wait are told by the caller.
    pub(crate) fn give_back(&self, gate: &Gate, room: usize) {
        self.messages.fetch_sub(1, Ordering::SeqCst);
        self.bytes.fetch_sub(room, Ordering::SeqCst);
        gate.bytes_total.fetch_sub(room, Ordering::SeqCst);
    }

    /// Queues a message that is admitted. It counts as accepted from before it can be taken.
    fn put(&self, message: Vec<u8>) -> bool {
        let before = self.accepted.fetch_add(1, Ordering::Release);
        if let Some(timing) = &self.timing {
            timing.accept(before + 1);
        }
        self.queue.push(message);
        self.signal.raise()
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
