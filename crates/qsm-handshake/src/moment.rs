//! The time, as it is given from outside.

use core::time::Duration;

/// The time of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// Since any moment that stays the same; it never goes back.
    pub elapsed: Duration,
    /// Seconds since 1970, for credentials that expire.
    pub unix: u64,
}
