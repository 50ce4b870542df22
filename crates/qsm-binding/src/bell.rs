//! A descriptor that is readable while something waits to be taken.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};

use rustix::event::{EventfdFlags, eventfd};

/// An event descriptor that rings when a task would be woken: so whoever waits for a descriptor can
/// wait for a future.
///
/// ```
/// use qsm_binding::Bell;
///
/// let bell = Bell::new()?;
/// bell.waker().wake();
/// // Now `bell.descriptor()` is readable, until:
/// bell.silence();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Bell(Arc<Clapper>);

#[derive(Debug)]
struct Clapper {
    descriptor: OwnedFd,
}

impl Bell {
    /// Makes one that has not rung.
    ///
    /// # Errors
    /// The process has no descriptor left (`ulimit -n`).
    pub fn new() -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(Clapper { descriptor })))
    }

    /// Readable once it has rung.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.descriptor.as_fd()
    }

    /// Makes the descriptor readable.
    pub fn ring(&self) {
        self.0.ring();
    }

    /// Makes it unreadable.
    pub fn silence(&self) {
        let mut count = [0; 8];
        // It fails when the bell has not rung.
        rustix::io::read(&self.0.descriptor, &mut count).ok();
    }

    /// A waker that rings it, the same for every call.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.0))
    }
}

impl Clapper {
    fn ring(&self) {
        // It fails when the counter is full: then the descriptor is readable anyway.
        rustix::io::write(&self.descriptor, &1u64.to_ne_bytes()).ok();
    }
}

impl Wake for Clapper {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
