//! Seconds since 1970 as people read them.

use std::time::{Duration, UNIX_EPOCH};

/// Last second that tokens can name: the end of the year 9999.
pub(crate) const LAST: u64 = 253_402_300_799;

/// Date and time in UTC (RFC 3339), such as `2026-11-28T12:00:00Z`. Times past the year 9999 are given in seconds.
///
/// ```
/// assert_eq!(qsm_identity::utc(951_782_400), "2000-02-29T00:00:00Z");
/// ```
#[must_use]
pub fn utc(seconds: u64) -> String {
    if seconds > LAST {
        return format!("{seconds} s after 1970");
    }
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_time() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(LAST), "9999-12-31T23:59:59Z");
        assert_eq!(utc(u64::MAX), "18446744073709551615 s after 1970");
    }
}
