//! Seconds since 1970 as people read them.

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
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Years that begin in March have their odd day at the end; eras of 400 years all have the same days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..=9 => (year + 400 * era, month + 3),
        _ => (year + 400 * era + 1, month - 9),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_follows_the_one_before() {
        let mut expected = (1970, 1, 1);
        for day in 0..200_000 {
            let (year, month, date) = expected;
            let text = utc(day * 86_400 + 86_399);
            assert_eq!(text, format!("{year:04}-{month:02}-{date:02}T23:59:59Z"));
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 => 28 + i32::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (month, date) {
                (12, 31) => (year + 1, 1, 1),
                (_, date) if date == last => (year, month + 1, 1),
                _ => (year, month, date + 1),
            };
        }
    }

    #[test]
    fn the_ends_of_time() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(LAST), "9999-12-31T23:59:59Z");
        assert_eq!(utc(u64::MAX), "18446744073709551615 s after 1970");
    }
}
