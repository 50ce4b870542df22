use std::time::{Duration, SystemTime};

use qsm_proto::{Instant, nanoseconds};

/// The only clock of a node: monotonic, from zero at its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(std::time::Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub(crate) fn now(&self) -> Instant {
        self.at(std::time::Instant::now())
    }

    /// The same moment, as the protocol counts.
    pub(crate) fn at(&self, moment: std::time::Instant) -> Instant {
        Instant(nanoseconds(moment.saturating_duration_since(self.0)))
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Nanoseconds since 1970, for people.
pub(crate) fn wall() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, nanoseconds)
}
