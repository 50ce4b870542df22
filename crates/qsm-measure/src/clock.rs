//! One clock for all that is timed: nanoseconds that processes can compare.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Readings of the other clock, of which the one that took least is used.
const READINGS: usize = 1000;

/// An error that is small enough: far below the time that any message takes.
const ERROR_ENOUGH: u64 = 100;

/// Turns this process's instants into nanoseconds that other processes understand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    anchor: Instant,
    nanos: u64,
    /// At most so many nanoseconds too early or too late.
    error: u64,
}

impl Clock {
    /// The monotonic clock, the same in all processes of a host.
    #[must_use]
    pub(crate) fn monotonic() -> Self {
        Self::best(Instant::now, qsm_net::monotonic_nanos)
    }

    /// The time of day as it is now, continued monotonically: as right between hosts as their
    /// clocks are.
    #[must_use]
    pub(crate) fn wall() -> Self {
        Self::best(Instant::now, || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            nanos(since.unwrap_or_default())
        })
    }

    /// The best of many readings: between the two clocks of one this thread may lose its CPU.
    fn best(mut instant: impl FnMut() -> Instant, mut nanos: impl FnMut() -> u64) -> Self {
        let mut best = Self::read(&mut instant, &mut nanos);
        for _ in 1..READINGS {
            if best.error <= ERROR_ENOUGH {
                break;
            }
            let next = Self::read(&mut instant, &mut nanos);
            if next.error < best.error {
                best = next;
            }
        }
        best
    }

    /// Both clocks: the other one was read between two instants, and is taken for in the middle.
    fn read(instant: &mut impl FnMut() -> Instant, other: &mut impl FnMut() -> u64) -> Self {
        let (before, nanos_then, after) = (instant(), other(), instant());
        let half = after.saturating_duration_since(before) / 2;
        Self {
            anchor: before + half,
            nanos: nanos_then,
            error: nanos(half) + 1,
        }
    }

    /// What two clocks of this kind may differ by, of processes on one host.
    fn difference_max(&self) -> u64 {
        self.error + self.error.max(ERROR_ENOUGH)
    }

    /// Nanoseconds since another process's time `then`: none if it is later by no more than the two
    /// clocks may differ by.
    ///
    /// # Errors
    /// It is later than that, by so many nanoseconds.
    pub(crate) fn since(&self, then: u64, now: u64) -> Result<u64, u64> {
        match then.checked_sub(now) {
            Some(early) if early > self.difference_max() => Err(early),
            _ => Ok(now.saturating_sub(then)),
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
    use core::cell::Cell;

    use super::*;

    #[test]
    fn instants_before_and_after_the_clock_was_made_keep_their_distance() {
        let before = Instant::now();
        let clock = Clock::monotonic();
        let after = before + Duration::from_secs(5);
        assert_eq!(clock.at(after) - clock.at(before), 5_000_000_000);
    }

    /// A clock made by readings that each lose the CPU for so long: before the other clock is
    /// read, or after it.
    fn disturbed(pauses: &[(u64, u64)]) -> (Clock, Instant) {
        let begin = Instant::now();
        let (time, mut reads) = (Cell::new(0), 0);
        let advance = |by: u64| time.set(time.get() + by);
        let pause = |at: usize| pauses.get(at).copied().unwrap_or((20, 20));
        let readings = Cell::new(0);
        let clock = Clock::best(
            || {
                reads += 1;
                if reads % 2 == 0 {
                    advance(pause(readings.get()).1);
                    readings.set(readings.get() + 1);
                }
                begin + Duration::from_nanos(time.get())
            },
            || {
                advance(pause(readings.get()).0);
                1_000_000_000 + time.get()
            },
        );
        (clock, begin)
    }

    #[test]
    fn a_cpu_lost_between_the_clocks_does_not_set_them_apart() {
        for pauses in [&[(40_000, 20)][..], &[(20, 3_000_000), (40_000, 20)]] {
            let (clock, begin) = disturbed(pauses);
            assert_eq!(clock.at(begin), 1_000_000_000);
            assert!(clock.error <= ERROR_ENOUGH, "{clock:?}");
        }
    }

    #[test]
    fn where_every_reading_is_disturbed_the_error_is_known() {
        for pauses in [[(40_000, 0); READINGS], [(0, 40_000); READINGS]] {
            let (clock, begin) = disturbed(&pauses);
            let off = clock.at(begin).abs_diff(1_000_000_000);
            assert!(off > 10_000 && off <= clock.error, "{off} {clock:?}");
        }
    }

    #[test]
    fn earlier_by_no_more_than_clocks_differ_is_at_once() {
        let clock = Clock::monotonic();
        let most = clock.difference_max();
        assert_eq!(clock.since(1000, 5000), Ok(4000));
        assert_eq!(clock.since(5000 + most, 5000), Ok(0));
        assert_eq!(clock.since(5001 + most, 5000), Err(most + 1));
    }

    #[test]
    fn clocks_of_one_host_differ_by_no_more_than_they_say() {
        for _ in 0..1000 {
            let clocks = [Clock::monotonic(), Clock::monotonic()];
            let now = Instant::now();
            let [a, b] = clocks.map(|clock| clock.at(now));
            assert!(a.abs_diff(b) <= clocks[0].error + clocks[1].error);
        }
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
