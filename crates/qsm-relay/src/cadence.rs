//! Cadence of a stream's packets, as a relay sees it. Rule R-RELAY-43.

use core::time::Duration;

use qsm_wire::Instant;

/// Longest time after a packet in which nothing is expected to be told besides.
const QUIET_MAX: Duration = Duration::from_millis(25);
/// A longer gap counts as one of this length: it is a pause, and says little of what follows.
const GAP_MAX: Duration = Duration::from_millis(50);
/// Share of the newest gap in the mean: one in so many.
const WEIGHT: u32 = 8;

/// Mean time between the packets of a stream, and when the newest one came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cadence {
    newest: Instant,
    mean: Duration,
}

impl Cadence {
    /// Begins with packets that come all at once.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            newest: now,
            mean: Duration::ZERO,
        }
    }

    /// Takes note of a packet that came for the first time.
    #[inline]
    pub(crate) fn note(&mut self, now: Instant) {
        let gap = now.since(self.newest).min(GAP_MAX);
        self.newest = now;
        self.mean = (self.mean * (WEIGHT - 1) + gap) / WEIGHT;
    }

    /// Tells whether the next packet is overdue.
    pub(crate) fn is_broken(&self, now: Instant) -> bool {
        now.since(self.newest) > self.mean.min(QUIET_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// A cadence after packets at intervals of so many milliseconds, the newest at the returned time.
    fn steady(interval: u64) -> (Cadence, u64) {
        let mut cadence = Cadence::new(at(0));
        (1..100).for_each(|n| cadence.note(at(n * interval)));
        (cadence, 99 * interval)
    }

    /// R-RELAY-43.
    #[test]
    fn a_steady_stream_is_broken_when_a_packet_is_overdue() {
        for (interval, kept, broken) in [(10, 9, 11), (20, 19, 21), (1000, 25, 26), (0, 0, 1)] {
            let (cadence, newest) = steady(interval);
            assert!(!cadence.is_broken(at(newest + kept)), "{interval}");
            assert!(cadence.is_broken(at(newest + broken)), "{interval}");
        }
    }

    #[test]
    fn a_pause_hardly_counts() {
        let (mut cadence, newest) = steady(1);
        cadence.note(at(newest + 10_000));
        assert!(cadence.is_broken(at(newest + 10_008)));
    }
}
