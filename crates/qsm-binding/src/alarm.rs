//! A descriptor that is readable while something waits to be taken, or after a time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Timer with a descriptor that rings when its time is over, or at once when a task would be woken.
#[derive(Debug, Clone)]
pub(crate) struct Alarm(Arc<Timer>);

#[derive(Debug)]
struct Timer(OwnedFd);

impl Alarm {
    /// Makes one that has not rung.
    ///
    /// # Errors
    /// The process has no descriptor left (`ulimit -n`).
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(Arc::new(Timer(timer))))
    }

    /// Readable once it has rung.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }

    /// Silences it, and has it ring after this time, or not before a waker has it ring.
    pub(crate) fn set(&self, after: Option<Duration>) {
        self.0.set(after);
    }

    /// Makes the descriptor readable.
    pub(crate) fn ring(&self) {
        self.0.set(Some(Duration::ZERO));
    }

    /// A waker that rings it.
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.0))
    }
}

impl Timer {
    fn set(&self, after: Option<Duration>) {
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // A time of zero would be none.
        let after = after.map(|after| after.max(Duration::from_nanos(1)));
        let after = after.and_then(|after| Timespec::try_from(after).ok());
        let time = Itimerspec {
            it_interval: none,
            it_value: after.unwrap_or(none),
        };
        // It fails for times that are none, and these are.
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &time).ok();
    }
}

impl Wake for Timer {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set(Some(Duration::ZERO));
    }
}
