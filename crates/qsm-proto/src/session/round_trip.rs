use core::time::Duration;

use crate::repetition::Repetition;

/// Shortest retransmission timeout: ten times the receipt delay, so that no delayed receipt
/// looks like a loss.
const TIMEOUT_MIN: Duration = Duration::from_millis(20);
/// Longest one: the silence after which a service is declared lost.
const TIMEOUT_MAX: Duration = Duration::from_secs(1);
/// Doublings that reach it from any timeout.
const DOUBLINGS_MAX: u32 = 8;
/// Before the first measurement.
const TIMEOUT_START: Duration = Duration::from_millis(100);

/// The round-trip time and the timeout that follows from it (RFC 6298, in integers).
#[derive(Debug)]
pub(super) struct RoundTrip {
    smoothed: Option<Duration>,
    variation: Duration,
    /// Sendings of the first frame since the last progress.
    sendings: u32,
    /// Sendings that progress has taken.
    repetition: Repetition,
}

impl Default for RoundTrip {
    fn default() -> Self {
        Self {
            smoothed: None,
            variation: Duration::ZERO,
            sendings: 1,
            repetition: Repetition::default(),
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
        self.sendings = self.sendings.saturating_add(1);
    }

    /// What was not acknowledged is lost: timeouts are as usual.
    pub(super) fn restart(&mut self) {
        self.sendings = 1;
    }

    /// Frames were acknowledged, one of them sent so often.
    pub(super) fn progress(&mut self, sendings: u32) {
        self.repetition.count(sendings);
        self.sendings = 1;
    }

    /// Sendings of a frame that are no sign of silence.
    pub(super) fn steady(&self) -> usize {
        usize::try_from(self.repetition.steady()).unwrap_or(usize::MAX)
    }

    /// Between 20 ms and 1 s; doubled with each sending beyond the usual.
    pub(super) fn timeout(&self) -> Duration {
        let doublings = self.sendings.saturating_sub(self.repetition.steady());
        (self.usual() * (1 << doublings.min(DOUBLINGS_MAX))).min(TIMEOUT_MAX)
    }

    /// The timeout without doublings.
    pub(super) fn usual(&self) -> Duration {
        let base = self
            .smoothed
            .map_or(TIMEOUT_START, |smoothed| smoothed + self.variation * 4);
        base.clamp(TIMEOUT_MIN, TIMEOUT_MAX)
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
        trip.progress(1);
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
