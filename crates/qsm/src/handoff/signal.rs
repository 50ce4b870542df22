//! From application threads to the core thread: there is something to take from a source.

use std::sync::atomic::{AtomicU8, Ordering, fence};

/// Whether the core has, or needs, to look at a source.
///
/// ```text
///            raise(): announce                  raise()
///   IDLE ───────────────────────► NOTIFIED ◄────────────── RUNNING
///     ▲                               │ begin()                │ ▲
///     │                               └────────────────────────┼─┘
///     └──────────────────── end(): nothing came meanwhile ─────┘
/// ```
#[derive(Debug)]
pub(crate) struct Signal(AtomicU8);

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const NOTIFIED: u8 = 2;

impl Signal {
    pub(crate) fn idle() -> Self {
        Self(AtomicU8::new(IDLE))
    }

    /// After something was added: true if the core must be told.
    pub(crate) fn raise(&self) -> bool {
        // If it is still notified after our addition, the core has yet to begin, and will see it.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::SeqCst) != NOTIFIED && self.0.swap(NOTIFIED, Ordering::SeqCst) == IDLE
    }

    /// The core begins to look.
    pub(crate) fn begin(&self) {
        self.0.store(RUNNING, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The core found nothing more: true if nothing came meanwhile, and then it need not look
    /// until told.
    pub(crate) fn end(&self) -> bool {
        let idle = self
            .0
            .compare_exchange(RUNNING, IDLE, Ordering::SeqCst, Ordering::SeqCst);
        idle.is_ok()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.0.load(Ordering::SeqCst) == IDLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_announced_once_and_never_forgotten() {
        let signal = Signal::idle();
        assert!(signal.raise(), "the core must be told");
        assert!(!signal.raise(), "it has been told");
        signal.begin();
        assert!(signal.end(), "nothing came meanwhile");
        assert!(signal.raise());
        signal.begin();
        assert!(!signal.raise(), "the core is looking");
        assert!(!signal.end(), "something came meanwhile");
        signal.begin();
        assert!(signal.end());
    }
}
