//! A core thread that waits for room in a queue.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use qsm_net::Waker;

/// Tells whether a core thread waits for room, and how to wake it.
///
/// Nothing is lost: the core thread says that it waits and then looks again; a reader takes an item
/// and then looks whether somebody waits. One of the two sees the other.
#[derive(Debug, Default)]
pub(crate) struct RoomSignal {
    awaited: AtomicBool,
    core: OnceLock<Waker>,
}

impl RoomSignal {
    /// Tells whether the core thread waits.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::SeqCst)
    }

    /// As the core thread: waits from now on, unless there is room all the same.
    pub(crate) fn wait(&self, core: &Waker, has_room: impl FnOnce() -> bool) {
        self.core.get_or_init(|| core.clone());
        self.awaited.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // A reader that has taken items meanwhile may not have seen it.
        if has_room() {
            self.awaited.store(false, Ordering::SeqCst);
        }
    }

    /// As a reader that has taken an item: wakes the core thread if it waits and there is room.
    pub(crate) fn tell(&self, has_room: impl FnOnce() -> bool) {
        fence(Ordering::SeqCst);
        if self.is_awaited()
            && has_room()
            && self.awaited.swap(false, Ordering::SeqCst)
            && let Some(core) = self.core.get()
        {
            core.wake();
        }
    }
}
