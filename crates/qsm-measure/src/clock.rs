//! One clock for all that is timed: nanoseconds that processes can compare.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Turns this process's instants into nanoseconds that other processes understand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    anchor: Instant,
    nanos: u64,
}

impl Clock {
    /// The monotonic clock, the same in all processes of a host.
    #[must_use]
    pub(crate) fn monotonic() -> Self {
        Self {
            anchor: Instant::now(),
            nanos: qsm_net::monotonic_nanos(),
        }
    }

    /// The time of day as it is now, continued monotonically: as right between hosts as their
    /// clocks are.
    #[must_use]
    pub(crate) fn wall() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            anchor: Instant::now(),
            nanos: nanos(since.unwrap_or_default()),
        }
    }

    /// That instant.
    #[must_use]
    pub(crate) fn at(&self, instant: Instant) -> u64 {
        match instant.checked_duration_since(self.anchor) {
            Some(since) => self.nanos + nanos(since),
            None => self.nanos - nanos(self.anchor - instant),
        }
    }

    /// Now.
    #[must_use]
    pub(crate) fn now(&self) -> u64 {
        self.at(Instant::now())
    }
}

/// Nanoseconds of a duration; enough for centuries.
#[must_use]
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_before_and_after_the_clock_was_made_keep_their_distance() {
        let before = Instant::now();
        let clock = Clock::monotonic();
        let after = before + Duration::from_secs(5);
        assert_eq!(clock.at(after) - clock.at(before), 5_000_000_000);
    }

    #[test]
    fn two_clocks_of_a_kind_agree() {
        for make in [Clock::monotonic, Clock::wall] {
            let clocks = [make(), make()];
            let now = Instant::now();
            let [a, b] = clocks.map(|clock| clock.at(now));
            assert!(a.abs_diff(b) < 1_000_000_000, "{a} {b}");
        }
    }
}
