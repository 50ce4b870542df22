use core::fmt;
use core::time::Duration;

/// Writes a duration as a decimal number of seconds, exactly and without trailing zeros.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if nanos == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{nanos:09}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact_and_short() {
        let of = |nanos| Seconds(Duration::from_nanos(nanos)).to_string();
        assert_eq!(of(0), "0");
        assert_eq!(of(1), "0.000000001");
        assert_eq!(of(1_500_000_000), "1.5");
        assert_eq!(of(20_000_000_000), "20");
    }
}
