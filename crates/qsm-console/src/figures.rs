//! Numbers, for people.

use std::time::Duration;

/// With a comma between thousands: `1,234,567`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 message`, `1,200 messages`. `noun` is one of them, with a regular plural.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number))
}

/// Bytes in the unit that leaves one to three digits before the point: `1.5 MB`. Decimal units.
#[must_use]
pub fn bytes(number: u64) -> String {
    scaled(number as f64, &["B", "kB", "MB", "GB", "TB", "PB"])
}

/// Per second, with k, M or G: `12.3 k`.
#[must_use]
pub fn rate(per_second: f64) -> String {
    scaled(per_second, &["", "k", "M", "G"])
        .trim_end()
        .to_owned()
}

fn scaled(number: f64, units: &[&str]) -> String {
    let mut value = number.max(0.0);
    let mut unit = 0;
    // 999.5 and more would be shown with four digits.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 99.95 { 0 } else { 1 };
    format!("{value:.digits$} {}", units[unit])
}

/// In the unit that suits it: `850 µs`, `12.3 ms`, `1.25 s`.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let micros = duration.as_micros();
    if micros < 1000 {
        format!("{micros} µs")
    } else if micros < 1_000_000 {
        format!("{:.1} ms", micros as f64 / 1e3)
    } else {
        format!("{:.2} s", duration.as_secs_f64())
    }
}

/// A share in percent, `-` of nothing.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_in_the_singular() {
        let told = [0, 1, 1200].map(|number| counted(number, "message"));
        assert_eq!(told, ["0 messages", "1 message", "1,200 messages"]);
    }

    #[test]
    fn numbers_are_short_and_have_units() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1500), "1.5 kB");
        assert_eq!(bytes(999_999), "1.0 MB");
        assert_eq!(bytes(16 << 20), "16.8 MB");
        assert_eq!(rate(12.4), "12");
        assert_eq!(rate(123_456.0), "123 k");
        assert_eq!(duration(Duration::from_micros(850)), "850 µs");
        assert_eq!(duration(Duration::from_micros(12_345)), "12.3 ms");
        assert_eq!(duration(Duration::from_millis(1250)), "1.25 s");
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(0, 0), "-");
    }
}
