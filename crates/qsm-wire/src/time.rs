use core::fmt;
use core::time::Duration;

/// A point in time: nanoseconds since an arbitrary zero that the caller chose (a monotonic clock
/// in production, virtual time in the simulator). The core never reads a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// A point that is never reached.
    pub const NEVER: Self = Self(u64::MAX);

    /// This point and `duration` more, at most [`Instant::NEVER`].
    #[inline]
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanoseconds(duration)))
    }

    /// How long ago `earlier` was; zero if it is later than `self`.
    #[inline]
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:06}",
            self.0 / 1_000_000_000,
            self.0 / 1000 % 1_000_000
        )
    }
}

/// A duration in whole nanoseconds, at most 584 years.
#[inline]
#[must_use]
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
