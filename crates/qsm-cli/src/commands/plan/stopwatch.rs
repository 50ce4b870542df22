//! CPU time of this thread: other processes of the machine do not count.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time that this thread has used since a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopwatch(Duration);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(used())
    }

    pub(super) fn elapsed(&self) -> Duration {
        used().saturating_sub(self.0)
    }
}

fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}
