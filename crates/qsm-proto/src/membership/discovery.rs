use core::time::Duration;

use crate::{Instant, Random};

/// First interval between solicitations; it doubles.
const SOLICIT_MIN: Duration = Duration::from_millis(100);
/// Longest interval between them: twice the beacon's.
const SOLICIT_MAX: Duration = Duration::from_secs(2);
/// How long to listen before a service counts as missing: this and up to
/// [`MISSING_SPREAD_NS`] more, so that nodes that start together do not all start services.
const MISSING_MIN: Duration = Duration::from_millis(700);
const MISSING_SPREAD_NS: u64 = 600_000_000;
/// How soon it is said again.
const MISSING_AGAIN: Duration = Duration::from_secs(3);

/// The search for a membership service: when to ask, and when to give up waiting.
#[derive(Debug)]
pub(super) struct Discovery {
    solicit_at: Option<Instant>,
    missing_at: Option<Instant>,
    interval: Duration,
}

/// What the search wants done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Wish {
    pub(super) solicit: bool,
    pub(super) missing: bool,
}

impl Discovery {
    /// A search that has not begun.
    pub(super) fn idle() -> Self {
        Self {
            solicit_at: None,
            missing_at: None,
            interval: SOLICIT_MIN,
        }
    }

    /// Begins to search, unless it is under way. `alone` says whether the node may start a
    /// service of its own.
    pub(super) fn start(&mut self, now: Instant, alone: bool, random: &mut Random) {
        if self.solicit_at.is_some() {
            return;
        }
        self.interval = SOLICIT_MIN;
        self.solicit_at = Some(now);
        let spread = Duration::from_nanos(random.below(MISSING_SPREAD_NS));
        self.missing_at = alone.then(|| now.after(MISSING_MIN + spread));
    }

    /// A service has been found.
    pub(super) fn stop(&mut self) {
        *self = Self::idle();
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        [self.solicit_at, self.missing_at]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, random: &mut Random) -> Wish {
        let mut wish = Wish::default();
        if self.solicit_at.is_some_and(|at| at <= now) {
            wish.solicit = true;
            self.solicit_at = Some(now.after(self.interval));
            self.interval = (self.interval * 2).min(SOLICIT_MAX);
        }
        if self.missing_at.is_some_and(|at| at <= now) {
            wish.missing = true;
            let spread = Duration::from_nanos(random.below(MISSING_SPREAD_NS));
            self.missing_at = Some(now.after(MISSING_AGAIN + spread));
        }
        wish
    }
}
