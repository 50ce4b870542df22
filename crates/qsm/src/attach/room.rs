//! Room of a ring whose reader holds senders up.
//!
//! The core thread says at which position of the reader it goes on, in its own memory and in the
//! ring. A reader that has come there says so once, by a packet; the engine looks whether it has, and
//! wakes the core thread.

use std::sync::atomic::{AtomicU64, Ordering};

use qsm_net::Waker;

use super::ring::HeadOf;
use crate::handoff::room::RoomSignal;

/// Wait of a core thread for room in a ring.
#[derive(Debug)]
pub(super) struct RingRoom {
    head: HeadOf,
    /// The position of the reader at which there is room.
    wanted: AtomicU64,
    signal: RoomSignal,
}

impl RingRoom {
    pub(super) fn new(head: HeadOf) -> Self {
        Self {
            head,
            wanted: AtomicU64::new(0),
            signal: RoomSignal::default(),
        }
    }

    /// Tells whether the core thread waits, and there is no room yet.
    pub(super) fn is_awaited(&self) -> bool {
        self.signal.is_awaited() && !self.has_come()
    }

    /// As the core thread, after the reader was told the position: waits until it is there; false if
    /// it is there already.
    pub(super) fn wait(&self, core: &Waker, position: u64) -> bool {
        self.wanted.store(position, Ordering::SeqCst);
        self.signal.wait(core, || self.has_come());
        self.signal.is_awaited()
    }

    /// The reader says that it is there. Nothing happens if it is not, however often it says so.
    pub(super) fn tell(&self) {
        self.signal.tell(|| self.has_come());
    }

    fn has_come(&self) -> bool {
        self.head.position() >= self.wanted.load(Ordering::SeqCst)
    }
}
