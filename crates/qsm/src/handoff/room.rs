//! A core thread that waits for room in a queue, or another thread that writes in its place.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use qsm_net::Waker;

use crate::handoff::sleepers::Sleepers;

/// Tells whether the writer waits for room, and how to wake it.
///
/// Nothing is lost: the core thread says that it waits and then looks again; a reader takes an item
/// and then looks whether somebody waits. One of the two sees the other.
#[derive(Debug, Default)]
pub(crate) struct RoomSignal {
    awaited: AtomicBool,
    core: OnceLock<Waker>,
    /// A writer that is no core thread.
    thread: Sleepers,
}

impl RoomSignal {
    /// Tells whether the writer waits.
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

    /// As the only thread that writes: waits until there is room.
    pub(crate) fn wait_here(&self, has_room: impl Fn() -> bool) {
        let look = || {
            self.awaited.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            has_room().then_some(())
        };
        // Without a deadline a wait ends only with a result.
        let _ended: Option<()> = self.thread.wait(None, look);
        self.awaited.store(false, Ordering::SeqCst);
    }

    /// As a reader that has taken an item: wakes the writer if it waits and there is room.
    pub(crate) fn tell(&self, has_room: impl FnOnce() -> bool) {
        fence(Ordering::SeqCst);
        if self.is_awaited() && has_room() && self.awaited.swap(false, Ordering::SeqCst) {
            self.release();
        }
    }

    /// Lets the writer look again.
    pub(crate) fn release(&self) {
        if let Some(core) = self.core.get() {
            core.wake();
        }
        self.thread.wake();
    }
}
