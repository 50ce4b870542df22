use core::time::Duration;

use crate::Instant;

/// A token bucket: so much per second, and a burst of as much as comes in 50 ms, or as is taken at
/// once (R209, R210).
/// Rule R-NAK-7.
#[derive(Debug)]
pub struct RateBudget {
    per_second: u64,
    /// How much may be saved up. Asked for with every packet.
    burst: u64,
    left: u64,
    filled: Instant,
}

/// How much unused budget may be saved up.
const BURST: Duration = Duration::from_millis(50);

impl RateBudget {
    /// A full bucket, from which `most` can be taken at once.
    #[must_use]
    pub fn new(per_second: u64, most: u64, now: Instant) -> Self {
        let share = u128::from(per_second) * BURST.as_nanos() / 1_000_000_000;
        let burst = u64::try_from(share).unwrap_or(u64::MAX).max(most);
        Self {
            per_second,
            burst,
            left: burst,
            filled: now,
        }
    }

    /// Takes `amount` if there is that much.
    pub fn take(&mut self, now: Instant, amount: u64) -> bool {
        self.fill(now);
        let enough = self.left >= amount;
        if enough {
            self.left -= amount;
        }
        enough
    }

    /// Adds `amount` to what is left, up to what may be saved up.
    pub fn earn(&mut self, amount: u64) {
        self.left = (self.left + amount).min(self.burst);
    }

    fn fill(&mut self, now: Instant) {
        let elapsed = u128::from(now.0.saturating_sub(self.filled.0));
        let gained = elapsed * u128::from(self.per_second) / 1_000_000_000;
        if gained == 0 {
            return;
        }
        let gained = u64::try_from(gained).unwrap_or(u64::MAX);
        self.left = self.left.saturating_add(gained).min(self.burst);
        self.filled = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Rule R-NAK-7.
    #[test]
    fn never_gives_more_than_its_rate_and_one_burst() {
        let mut budget = RateBudget::new(1_000_000, 1, Instant(0));
        let mut given = 0u64;
        for step in 0..1000u64 {
            while budget.take(Instant(step * 1_000_000), 1000) {
                given += 1000;
            }
        }
        assert!(given <= 1_000_000 + 50_000, "{given}");
        assert!(given >= 1_000_000, "{given}");
    }

    #[test]
    fn what_is_earned_is_saved_up_like_the_rest() {
        let mut budget = RateBudget::new(1_000_000, 1, Instant(0));
        assert!(budget.take(Instant(0), 50_000) && !budget.take(Instant(0), 1));
        budget.earn(300);
        assert!(budget.take(Instant(0), 300) && !budget.take(Instant(0), 1));
        budget.earn(u64::from(u32::MAX));
        assert!(budget.take(Instant(0), 50_000) && !budget.take(Instant(0), 1));
    }
}
