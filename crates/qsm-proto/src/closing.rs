//! The end of a node: it says goodbye once its messages are stable, or after a while.

use crate::Instant;

/// How long a closing node waits for its messages to become stable.
const CLOSE_PATIENCE: core::time::Duration = core::time::Duration::from_secs(10);

/// How long it waits until senders know what it has received from them (R-MEM-14). A few rounds of tokens; more
/// only where other receivers hang.
const RECEIPT_PATIENCE: core::time::Duration = core::time::Duration::from_millis(500);

/// Pause between two looks at the clock while this node waits.
const LOOK: core::time::Duration = core::time::Duration::from_millis(500);

/// Delay of a look from which on this node has stood still: nobody could tell it anything meanwhile.
const STILL: core::time::Duration = core::time::Duration::from_millis(500);

/// Stages of a node's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Closing {
    /// It goes on.
    #[default]
    No,
    /// It waits.
    Waiting(Patience),
    /// It has said goodbye.
    Said,
}

/// Time for which a closing node waits. Time for which it stood still does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    /// For receipts of what it has published,
    until: Instant,
    /// and for others to have its own.
    receipts_until: Instant,
    /// It looked at the clock.
    looked: Instant,
}

impl Patience {
    fn begin(now: Instant) -> Self {
        Self {
            until: now.after(CLOSE_PATIENCE),
            receipts_until: now.after(RECEIPT_PATIENCE),
            looked: now,
        }
    }

    fn look(&mut self, now: Instant) {
        let passed = now.since(self.looked);
        if passed >= LOOK + STILL {
            self.until = self.until.after(passed);
            self.receipts_until = self.receipts_until.after(passed);
        }
        self.looked = now;
    }
}

impl Closing {
    /// Begins to close; `false`: it has begun before.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let first = *self == Self::No;
        if first {
            *self = Self::Waiting(Patience::begin(now));
        }
        first
    }

    /// True if it is time to say goodbye; `stable`: all that was published has been received by all;
    /// `receipted`: senders know what this node has received from them.
    pub(crate) fn is_due(&mut self, now: Instant, stable: bool, receipted: bool) -> bool {
        let Self::Waiting(patience) = self else {
            return false;
        };
        patience.look(now);
        let received = receipted || now >= patience.receipts_until;
        let due = now >= patience.until || stable && received;
        if due {
            *self = Self::Said;
        }
        due
    }

    /// When it waits no longer for something, or looks at the clock.
    pub(crate) fn timeout(self, now: Instant) -> Option<Instant> {
        let Self::Waiting(patience) = self else {
            return None;
        };
        let receipts = Some(patience.receipts_until).filter(|until| now < *until);
        let next = receipts.unwrap_or(patience.until);
        Some(next.min(patience.looked.after(LOOK)))
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const START: Instant = Instant(1_000_000_000);

    fn after(millis: u64) -> Instant {
        START.after(Duration::from_millis(millis))
    }

    #[test]
    fn waits_ten_seconds_for_what_is_not_stable() {
        let mut closing = Closing::default();
        assert!(closing.begin(START));
        assert!(!closing.begin(START));
        for look in (0..10_000).step_by(500) {
            assert!(!closing.is_due(after(look), false, true));
            assert_eq!(closing.timeout(after(look)), Some(after(look + 500)));
        }
        assert!(closing.is_due(after(10_000), false, false));
        assert_eq!(closing.timeout(after(10_000)), None);
    }

    #[test]
    fn time_for_which_it_stood_still_does_not_count() {
        let mut closing = Closing::default();
        closing.begin(START);
        assert!(!closing.is_due(after(100), true, false));
        assert!(!closing.is_due(after(20_600), true, false));
        assert!(!closing.is_due(after(20_999), true, false));
        assert!(closing.is_due(after(21_000), true, false));
        closing = Closing::default();
        closing.begin(START);
        assert!(!closing.is_due(after(20_500), false, true));
        for look in (21_000..30_500).step_by(500) {
            assert!(!closing.is_due(after(look), false, true));
        }
        assert!(closing.is_due(after(30_500), false, true));
    }
}
