//! As the core thread: the next message, and the room that it leaves.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::Outlet;
use crate::handoff::gate::Gate;

impl Outlet {
    /// The next message; it still counts until [`Outlet::release`].
    pub(crate) fn pop(&self) -> Option<Vec<u8>> {
        self.queue.pop()
    }

    /// When the message came that was timed, if it has left since this was asked last.
    pub(crate) fn timed_since(&self) -> Option<Instant> {
        self.timing.as_ref()?.take(self.taken())
    }

    /// A message of this length has left. Those who wait are told by the owner of the gate.
    pub(crate) fn release(&self, gate: &Gate, length: usize) {
        self.taken.fetch_add(1, Ordering::Release);
        self.messages.fetch_sub(1, Ordering::SeqCst);
        self.bytes.fetch_sub(length, Ordering::SeqCst);
        gate.bytes_total.fetch_sub(length, Ordering::SeqCst);
    }
}
