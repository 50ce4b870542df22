use core::time::Duration;

/// Shortest retransmission timeout: ten times the receipt delay, so that no delayed receipt
/// looks like a loss.
const TIMEOUT_MIN: Duration = Duration::from_millis(20);
/// Longest one: the silence after which a service is declared lost.
const TIMEOUT_MAX: Duration = Duration::from_secs(1);
/// Before the first measurement.
const TIMEOUT_START: Duration = Duration::from_millis(100);

/// The round-trip time and the timeout that follows from it (RFC 6298, in integers).
#[derive(Debug)]
pub(super) struct RoundTrip {
    smoothed: Option<Duration>,
    variation: Duration,
    /// Doublings since the last progress.
    back_off: u32,
}

impl Default for RoundTrip {
    fn default() -> Self {
        Self {
            smoothed: None,
            variation: Duration::ZERO,
            back_off: 0,
        }
    }
}

impl RoundTrip {
    pub(super) fn sample(&mut self, sample: Duration) {
        match self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.variation = sample / 2;
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(sample)) / 4;
                self.smoothed = Some((smoothed * 7 + sample) / 8);
            }
        }
    }

    /// The smoothed samples; `None` before the first.
    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    pub(super) fn back_off(&mut self) {
        self.back_off = (self.back_off + 1).min(8);
    }

    pub(super) fn progress(&mut self) {
        self.back_off = 0;
    }

    /// Between 20 ms and 1 s.
    pub(super) fn timeout(&self) -> Duration {
        let base = self
            .smoothed
            .map_or(TIMEOUT_START, |smoothed| smoothed + self.variation * 4);
        (base.clamp(TIMEOUT_MIN, TIMEOUT_MAX) * (1 << self.back_off)).min(TIMEOUT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_doubles_without_progress_and_stays_within_its_bounds() {
        let mut trip = RoundTrip::default();
        assert_eq!(trip.timeout(), TIMEOUT_START);
        for _ in 0..50 {
            trip.sample(Duration::from_micros(300));
        }
        assert_eq!(trip.timeout(), TIMEOUT_MIN);
        trip.back_off();
        assert_eq!(trip.timeout(), TIMEOUT_MIN * 2);
        for _ in 0..40 {
            trip.back_off();
        }
        assert_eq!(trip.timeout(), TIMEOUT_MAX);
        trip.progress();
        assert_eq!(trip.timeout(), TIMEOUT_MIN);
    }

    #[test]
    fn the_timeout_follows_the_measured_round_trip() {
        let mut trip = RoundTrip::default();
        trip.sample(Duration::from_millis(60));
        assert_eq!(trip.timeout(), Duration::from_millis(180));
        for _ in 0..100 {
            trip.sample(Duration::from_millis(60));
        }
        assert!(trip.timeout() < Duration::from_millis(62));
        assert!(trip.timeout() >= Duration::from_millis(60));
    }
}
