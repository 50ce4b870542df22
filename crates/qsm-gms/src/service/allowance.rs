use qsm_proto::Instant;

/// Accounts of groups in a second, to all askers together, and at once: each is about a millisecond of
/// work at most.
const ACCOUNTS_PER_SECOND: u64 = 64;
const ACCOUNTS_BURST: u64 = 32;

const BILLION: u64 = 1_000_000_000;

/// A right to do something so often, which adds up while it is not used.
#[derive(Debug)]
pub(super) struct Allowance {
    per_second: u64,
    burst: u64,
    /// Billionths of once.
    left: u64,
    filled: Option<Instant>,
}

impl Allowance {
    /// So often a second, and at once at most so often.
    pub(super) fn new(per_second: u64, burst: u64) -> Self {
        Self {
            per_second,
            burst,
            left: 0,
            filled: None,
        }
    }

    /// The right to give accounts of groups.
    pub(super) fn of_accounts() -> Self {
        Self::new(ACCOUNTS_PER_SECOND, ACCOUNTS_BURST)
    }

    /// Takes the right to do it once, if there is one.
    pub(super) fn admit(&mut self, now: Instant) -> bool {
        let full = self.burst * BILLION;
        let since = self.filled.map(|at| now.since(at));
        let passed = since.map_or(u64::MAX, qsm_proto::nanoseconds);
        let more = passed.saturating_mul(self.per_second);
        self.left = self.left.saturating_add(more).min(full);
        self.filled = Some(now);
        let admitted = self.left >= BILLION;
        if admitted {
            self.left -= BILLION;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_up_to_a_rate() {
        let mut allowance = Allowance::new(2048, 256);
        let mut admitted = |ms: u64| {
            let now = Instant(ms * 1_000_000);
            (0..1000).filter(|_| allowance.admit(now)).count()
        };
        assert_eq!([0, 0, 10, 10_000].map(&mut admitted), [256, 0, 20, 256]);
    }
}
