use core::time::Duration;

use qsm_proto::Instant;

const MILLION: i128 = 1_000_000;

/// A host's own clock: starts at an arbitrary value and runs a little fast or slow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Clock {
    /// What it shows at the simulation's zero, nanoseconds.
    offset_ns: u64,
    /// How much too fast it runs, parts per million; more than -1,000,000.
    drift_ppm: i32,
    /// For how long it has stood still, in its own time, nanoseconds.
    lost_ns: u64,
    /// Times that it showed when it stood still, and for how long, as `lost_ns`.
    stops: Vec<(Instant, u64)>,
}

impl Clock {
    pub(crate) fn new(offset_ns: u64, drift_ppm: i32) -> Self {
        Self {
            offset_ns,
            drift_ppm: drift_ppm.max(-900_000),
            lost_ns: 0,
            stops: Vec::new(),
        }
    }

    /// What it shows at this virtual time.
    pub(crate) fn local(&self, at: Instant) -> Instant {
        // Division of such long numbers is slow, and most clocks do not drift.
        let run = match self.drift_ppm {
            0 => i128::from(at.0),
            drift => i128::from(at.0) * (MILLION + i128::from(drift)) / MILLION,
        };
        Instant(saturate(run + self.shift()))
    }

    /// It has stood still from `since` to `until`, as the clock of a machine that sleeps does.
    pub(crate) fn stand_still(&mut self, since: Instant, until: Instant) {
        let shown = self.local(since);
        let lost_ns = self.local(until).0.saturating_sub(shown.0);
        self.lost_ns += lost_ns;
        self.stops.push((shown, lost_ns));
    }

    /// Time since it showed this, with the times for which it has stood still since.
    pub(crate) fn since(&self, shown: Instant, now: Instant) -> Duration {
        let stops = self.stops.iter().filter(|(stopped, _)| *stopped >= shown);
        let lost_ns = stops.map(|(_, lost_ns)| *lost_ns).sum();
        self.local(now).since(shown) + Duration::from_nanos(lost_ns)
    }

    fn shift(&self) -> i128 {
        i128::from(self.offset_ns) - i128::from(self.lost_ns)
    }

    /// The first virtual time at which it shows at least `local`.
    pub(crate) fn global(&self, local: Instant) -> Instant {
        if local == Instant::NEVER {
            return local;
        }
        let run = (i128::from(local.0) - self.shift()).max(0);
        if self.drift_ppm == 0 {
            return Instant(saturate(run));
        }
        let rate = MILLION + i128::from(self.drift_ppm);
        let mut at = Instant(saturate(run * MILLION / rate));
        while self.local(at) < local && at < Instant::NEVER {
            at = Instant(at.0 + 1);
        }
        at
    }
}

fn saturate(value: i128) -> u64 {
    u64::try_from(value.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_never_fires_before_its_local_time() {
        for drift_ppm in [-300, 0, 1, 250] {
            let clock = Clock::new(77, drift_ppm);
            for local in [0, 77, 78, 1_000_003, 123_456_789_012] {
                let at = clock.global(Instant(local));
                assert!(clock.local(at).0 >= local);
                assert!(at.0 == 0 || clock.local(Instant(at.0 - 1)).0 < local.max(78));
            }
        }
        assert_eq!(Clock::default().global(Instant::NEVER), Instant::NEVER);
    }

    #[test]
    fn a_clock_that_stood_still_goes_on_where_it_was() {
        let mut clock = Clock::new(1000, 200);
        let (since, until) = (Instant(5_000_000), Instant(9_000_000));
        let before = clock.local(since);
        clock.stand_still(since, until);
        assert_eq!(clock.local(until), before);
        assert!(clock.global(before) <= until);
        assert!(clock.local(Instant(9_001_000)) > before);
        let after = clock.local(Instant(9_001_000));
        let ago = |shown| clock.since(shown, Instant(9_501_000)).as_micros();
        assert_eq!((ago(before), ago(after)), (4501, 500));
    }
}
