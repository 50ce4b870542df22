//! Quantities with their units, as options take them.

use std::time::Duration;

/// Seconds with a fraction, as options take them; also with the unit, as in `300s`.
///
/// # Errors
/// Not a number from 0 to a million.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text
        .trim_end_matches('s')
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.0..=1e6).contains(&number) {
        return Err("must be between 0 and 1000000 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(number))
}

/// A time with its unit, as in `5ms`, `200us` or `2s`; without one, seconds.
///
/// # Errors
/// Not such a time, or more than a million seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, parts) = match (text.strip_suffix("us"), text.strip_suffix("ms")) {
        (Some(number), _) => (number, 1_000_000),
        (_, Some(number)) => (number, 1000),
        _ => (text, 1),
    };
    let time =
        seconds(number).map_err(|_| format!("{text:?} is not a time, such as 5ms, 200us or 2s"))?;
    Ok(time / parts)
}

/// A least number, or `none`, which nothing reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold(pub Option<u32>);

impl core::fmt::Display for Threshold {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Some(number) => number.fmt(f),
            None => f.write_str("none"),
        }
    }
}

impl core::str::FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let number = text.parse();
        let wrong = |_| "neither a whole number nor `none`".to_owned();
        number.map(|number| Self(Some(number))).map_err(wrong)
    }
}

/// Percent into parts per million.
///
/// # Errors
/// Not a number from 0 to 100.
pub fn loss_ppm(text: &str) -> Result<u32, String> {
    let number: f64 = text
        .trim_end_matches('%')
        .parse()
        .map_err(|_| "not a number of percent".to_owned())?;
    if !(0.0..=100.0).contains(&number) {
        return Err("must be between 0 and 100".to_owned());
    }
    // At most a million, and not negative.
    Ok((number * 1e4).round() as u32)
}

/// Bytes, with suffix k (1024), M (1024 k) or G (1024 M).
///
/// # Errors
/// Not such a number.
pub fn size(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: usize = digits
        .parse()
        .map_err(|_| "not a number of bytes".to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let micros = |micros| Ok(Duration::from_micros(micros));
        assert_eq!(duration("5ms"), micros(5000));
        assert_eq!(duration("200us"), micros(200));
        assert_eq!(duration("2s"), micros(2_000_000));
        assert_eq!(duration("0.5"), micros(500_000));
        for wrong in ["", "ms", "5 m", "-1ms", "5ns"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn quantities_are_read_with_their_units() {
        assert_eq!(size("8M"), Ok(8 << 20));
        assert_eq!(size("3G"), Ok(3 << 30));
        assert_eq!(size("64k"), Ok(64 << 10));
        assert_eq!(size("17"), Ok(17));
        assert!(size("x").is_err() && size("").is_err());
        assert!(size("99999999999999M").is_err());
        assert_eq!(loss_ppm("2%"), Ok(20_000));
        assert_eq!(loss_ppm("0.0001"), Ok(1));
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(seconds("300s"), Ok(Duration::from_secs(300)));
        assert!(seconds("-1").is_err() && seconds("NaN").is_err());
    }
}
