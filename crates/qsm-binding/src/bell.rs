//! A descriptor that is readable while something waits to be taken.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};

use rustix::event::{EventfdFlags, eventfd};

/// An event descriptor that rings as a task is woken.
#[derive(Debug, Clone)]
pub(crate) struct Bell(Arc<Clapper>);

#[derive(Debug)]
struct Clapper {
    descriptor: OwnedFd,
}

impl Bell {
    /// # Errors
    /// The process has no descriptor left.
    pub(crate) fn new() -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(Clapper { descriptor })))
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.descriptor.as_fd()
    }

    /// Makes the descriptor readable.
    pub(crate) fn ring(&self) {
        self.0.ring();
    }

    /// Makes it unreadable.
    pub(crate) fn silence(&self) {
        let mut count = [0; 8];
        // It fails when the bell has not rung.
        rustix::io::read(&self.0.descriptor, &mut count).ok();
    }

    pub(crate) fn waker(&self) -> Waker {
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
