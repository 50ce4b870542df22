//! Waking the core thread, but only when it sleeps.
//!
//! A `write` to an eventfd costs 0.3 µs when nobody sleeps on it and 7 to 11 µs when somebody does (measured, virtual
//! machine, Linux 6.18), so a publisher that wakes the core thread for each message must not make the call at all
//! while the core is busy. One byte decides:
//!
//! ```text
//!            wake()               wake(): write to the eventfd
//!   AWAKE ───────────► NOTIFIED ◄──────────────────────────── ASLEEP
//!     │ ▲                 │  wait(): does not block              ▲
//!     │ └─────────────────┘                                      │
//!     └──────────────────────── wait(): blocks ──────────────────┘
//! ```
//!
//! The state carries the notification, so none is lost between "the queue is empty" and "now I sleep": a `wake` before
//! that moment leaves `NOTIFIED`, and the next `wait` does not block.
//!
//! Memory order: `wake` swaps with `Release`, `wait` takes the state with `Acquire`. Each swap by another waker is a
//! read-modify-write and thus continues the release sequence of the first, so whatever any waker wrote before its
//! `wake()` (a message in a queue) is visible after the `wait()` that reports `woken`. A plain load in `wake` ("somebody
//! has notified already") would be cheaper and wrong: it releases nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::sys;

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NOTIFIED: u8 = 2;

/// Ends the [`wait`](crate::Port::wait) of a port, from any thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: AtomicU8,
    eventfd: OwnedFd,
}

impl Waker {
    /// Makes the port's present or next wait return at once. Calls before that wait returns count as one.
    ///
    /// Costs one atomic swap, and a system call only when the port is asleep.
    pub fn wake(&self) {
        if self.0.state.swap(NOTIFIED, Ordering::Release) == ASLEEP {
            sys::eventfd_add(self.0.eventfd.as_fd());
        }
    }

    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(Shared {
            state: AtomicU8::new(AWAKE),
            eventfd: sys::eventfd()?,
        })))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.eventfd.as_fd()
    }

    /// Announces sleep; false if a notification is there already, and then the port must not block.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.0
            .state
            .compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Ends sleep; true if there was a notification, which is now consumed.
    ///
    /// A waker may be between its swap and its write. Then the eventfd becomes readable later, and a later wait
    /// returns early once; that is allowed and costs one turn.
    pub(crate) fn awaken(&self) -> bool {
        self.0.state.swap(AWAKE, Ordering::Acquire) == NOTIFIED
    }

    /// Empties the eventfd after it was reported readable.
    pub(crate) fn clear(&self) -> bool {
        sys::eventfd_take(self.fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sleeper_costs_a_system_call() {
        let waker = Waker::new().unwrap();
        waker.wake();
        assert!(!waker.clear(), "awake: nothing written");
        assert!(!waker.fall_asleep(), "the notification forbids sleep");
        assert!(waker.awaken());
        assert!(waker.fall_asleep());
        waker.wake();
        waker.wake();
        assert!(waker.clear());
        assert!(!waker.clear(), "written once for two calls");
        assert!(waker.awaken());
        assert!(!waker.awaken());
    }
}
