//! Times for programs: RFC 3339, UTC, with microseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Last microsecond that has a year of four digits, as microseconds since 1970.
const LAST: u64 = 253_402_300_799_999_999;

/// `2026-11-25T02:10:07.000123Z`; times before 1970 are its beginning, those after the year 9999 that year's end.
#[must_use]
pub fn rfc3339(time: SystemTime) -> String {
    let time = time.clamp(UNIX_EPOCH, UNIX_EPOCH + Duration::from_micros(LAST));
    humantime::format_rfc3339_micros(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_001, "2000-02-29T00:00:00.000001Z"),
            (1_709_251_199_999_999, "2024-02-29T23:59:59.999999Z"),
            (1_709_251_200_000_000, "2024-03-01T00:00:00.000000Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_micros(micros)), text);
        }
    }

    #[test]
    fn times_without_a_date_are_the_nearest_that_has_one() {
        let (early, late) = (
            UNIX_EPOCH - Duration::from_secs(1),
            UNIX_EPOCH + Duration::from_micros(LAST + 1),
        );
        assert_eq!(rfc3339(early), "1970-01-01T00:00:00.000000Z");
        assert_eq!(rfc3339(late), "9999-12-31T23:59:59.999999Z");
    }
}
