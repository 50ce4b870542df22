//! Rate at which a keeper sends.

use std::time::Duration;

/// Longest time whose bytes may be sent at once, after a pause.
const BURST: Duration = Duration::from_millis(10);

/// Bytes that may be sent, growing with time. One thing is sent whole whenever any may be, so that long messages pass,
/// and time is then waited for afterwards (R-HIST-6).
#[derive(Debug)]
pub(crate) struct Pace {
    bytes_per_second: u64,
    /// Time at which all that was sent is paid for.
    paid: Duration,
}

impl Pace {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second: bytes_per_second.max(1),
            paid: Duration::ZERO,
        }
    }

    /// Tells whether something may be sent.
    pub(crate) fn is_open(&self, now: Duration) -> bool {
        self.paid <= now
    }

    /// Counts what was sent.
    pub(crate) fn spend(&mut self, bytes: usize, now: Duration) {
        let nanoseconds = u128::try_from(bytes).unwrap_or_default() * 1_000_000_000
            / u128::from(self.bytes_per_second);
        let cost = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        let from = self.paid.max(now.saturating_sub(BURST));
        self.paid = from.saturating_add(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-HIST-6.
    #[test]
    fn what_is_sent_keeps_to_the_rate_and_long_things_pass() {
        let mut pace = Pace::new(1000);
        let mut sent = 0;
        for millisecond in 0..10_000 {
            let now = Duration::from_millis(millisecond);
            while pace.is_open(now) {
                pace.spend(100, now);
                sent += 100;
            }
        }
        assert!((9_900..=10_200).contains(&sent), "{sent} in ten seconds");
        let now = Duration::from_secs(20);
        assert!(pace.is_open(now));
        pace.spend(5000, now);
        assert!(!pace.is_open(now + Duration::from_secs(4)));
        assert!(pace.is_open(now + Duration::from_secs(5)));
    }
}
