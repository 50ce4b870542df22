use core::fmt;
use core::str::FromStr;

/// Unit of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second.
    BitRate,
    /// Bytes.
    Bytes,
    /// Things.
    Count,
    /// Things per second.
    Frequency,
    /// Metres.
    Metres,
    /// Time.
    Seconds,
    /// A part of a whole; 1 is all of it.
    Share,
}

/// Suffixes of a unit, each with the number of base units that it stands for.
type Suffixes = &'static [(&'static str, f64)];

const KIBI: f64 = 1024.0;

impl Unit {
    /// Its symbol in JSON, which has base units.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::BitRate => "bit/s",
            Self::Bytes => "B",
            Self::Count | Self::Share => "1",
            Self::Frequency => "1/s",
            Self::Metres => "m",
            Self::Seconds => "s",
        }
    }

    /// The suffixes that are understood.
    fn suffixes(self) -> Suffixes {
        match self {
            Self::BitRate => &[
                ("bit/s", 1.0),
                ("kbit/s", 1e3),
                ("Mbit/s", 1e6),
                ("Gbit/s", 1e9),
                ("Tbit/s", 1e12),
                ("B/s", 8.0),
                ("kB/s", 8e3),
                ("MB/s", 8e6),
                ("GB/s", 8e9),
            ],
            // Letters alone are as in all options of `qsm`: powers of 1024.
            Self::Bytes => &[
                ("", 1.0),
                ("B", 1.0),
                ("k", KIBI),
                ("M", KIBI * KIBI),
                ("G", KIBI * KIBI * KIBI),
                ("KiB", KIBI),
                ("MiB", KIBI * KIBI),
                ("GiB", KIBI * KIBI * KIBI),
                ("kB", 1e3),
                ("MB", 1e6),
                ("GB", 1e9),
                ("TB", 1e12),
            ],
            Self::Count => &[("", 1.0), ("k", 1e3), ("M", 1e6)],
            Self::Frequency => &[
                ("", 1.0),
                ("/s", 1.0),
                ("k/s", 1e3),
                ("M/s", 1e6),
                ("Hz", 1.0),
                ("kHz", 1e3),
                ("MHz", 1e6),
            ],
            Self::Metres => &[("m", 1.0), ("km", 1e3), ("mi", 1609.344)],
            Self::Seconds => &[
                ("ns", 1e-9),
                ("us", 1e-6),
                ("µs", 1e-6),
                ("ms", 1e-3),
                ("s", 1.0),
                ("min", 60.0),
                ("h", 3600.0),
            ],
            Self::Share => &[("%", 1e-2)],
        }
    }

    /// What is wanted, and examples.
    fn wanted(self) -> (&'static str, &'static str) {
        match self {
            Self::BitRate => (
                "a data rate",
                "such as 1Gbit/s, or 100MB/s, which is 800Mbit/s",
            ),
            Self::Bytes => ("a number of bytes", "such as 1500, 64k, 8MiB or 12.5MB"),
            Self::Count => ("a number", "such as 256 or 2.5k"),
            Self::Frequency => ("a number per second", "such as 8000/s or 1.2M/s"),
            Self::Metres => ("a distance", "such as 3000km or 100m"),
            Self::Seconds => ("a time", "such as 50ms, 125us or 2s"),
            Self::Share => ("a share", "in percent, such as 0.5%"),
        }
    }

    /// The sizes that people read, smallest first.
    fn shown(self) -> Suffixes {
        match self {
            Self::BitRate => &[
                (" bit/s", 1.0),
                (" kbit/s", 1e3),
                (" Mbit/s", 1e6),
                (" Gbit/s", 1e9),
                (" Tbit/s", 1e12),
            ],
            Self::Bytes => &[
                (" B", 1.0),
                (" kB", 1e3),
                (" MB", 1e6),
                (" GB", 1e9),
                (" TB", 1e12),
            ],
            Self::Count => &[("", 1.0)],
            Self::Frequency => &[("/s", 1.0), (" k/s", 1e3), (" M/s", 1e6), (" G/s", 1e9)],
            Self::Metres => &[(" m", 1.0), (" km", 1e3)],
            Self::Seconds => &[(" ns", 1e-9), (" µs", 1e-6), (" ms", 1e-3), (" s", 1.0)],
            Self::Share => &[(" %", 1e-2)],
        }
    }
}

/// A number with its unit; `Display` writes it with three to four digits and a prefix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    /// In the base unit.
    pub value: f64,
    /// The unit.
    pub unit: Unit,
}

/// Largest value that is understood, in base units; far above anything that exists.
const LARGEST: f64 = 1e18;

impl Quantity {
    /// Reads a number and a suffix of this unit, with or without a blank between them.
    ///
    /// # Errors
    /// It is no number, the suffix is missing or of another unit, or it is too large.
    pub fn parse(text: &str, unit: Unit) -> Result<Self, ParseQuantityError> {
        let fault = || ParseQuantityError {
            text: text.chars().take(40).collect(),
            unit,
        };
        let trimmed = text.trim();
        let number = |c: char| c.is_ascii_digit() || c == '.';
        let end = trimmed.find(|c| !number(c)).unwrap_or(trimmed.len());
        let (digits, suffix) = trimmed.split_at(end);
        let suffix = suffix.trim_start();
        let known = unit.suffixes().iter().find(|(name, _)| *name == suffix);
        let (_, factor) = known.ok_or_else(fault)?;
        let number: f64 = digits.parse().map_err(|_| fault())?;
        let value = number * factor;
        match value.is_finite() && value <= LARGEST {
            true => Ok(Self { value, unit }),
            false => Err(fault()),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.unit.shown();
        // 999.95 and more would round to four digits before the point.
        let fits = |(_, size): &&(&str, f64)| self.value.abs() >= 0.99995 * size;
        let (suffix, size) = match shown.iter().rev().find(fits) {
            Some(found) => *found,
            None if self.value == 0.0 => shown[shown.len() / 2],
            None => shown[0],
        };
        let number = self.value / size;
        let digits = match number.abs() {
            size if size >= 1000.0 => 0,
            size if size >= 100.0 => 1,
            size if size >= 10.0 => 2,
            _ => 3,
        };
        let text = format!("{number:.digits$}");
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => &text,
        };
        write!(f, "{text}{suffix}")
    }
}

/// A text that is no quantity of the wanted unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseQuantityError {
    text: String,
    unit: Unit,
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wanted, examples) = self.unit.wanted();
        write!(
            f,
            "{:?} is not {wanted}; give one with its unit, {examples}",
            self.text
        )
    }
}

impl core::error::Error for ParseQuantityError {}

/// Quantities of one unit each.
macro_rules! quantities {
    ($($(#[$doc:meta])* $name:ident of $unit:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
            pub struct $name(pub f64);

            impl FromStr for $name {
                type Err = ParseQuantityError;

                fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
                    Quantity::parse(text, Unit::$unit).map(|quantity| Self(quantity.value))
                }
            }

            impl From<$name> for Quantity {
                fn from(of: $name) -> Self {
                    Self { value: of.0, unit: Unit::$unit }
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    Quantity::from(*self).fmt(f)
                }
            }
        )*
    };
}

quantities! {
    /// Bits per second.
    BitRate of BitRate;
    /// Bytes.
    Bytes of Bytes;
    /// Things.
    Count of Count;
    /// Things per second.
    Frequency of Frequency;
    /// Metres.
    Metres of Metres;
    /// Seconds.
    Seconds of Seconds;
    /// A part of a whole; 1 is all of it.
    Share of Share;
}

impl BitRate {
    /// Bytes per second.
    #[must_use]
    pub fn bytes(self) -> f64 {
        self.0 / 8.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_with_their_units() {
        let rate = |text: &str| text.parse::<BitRate>().unwrap().0;
        assert_eq!(rate("1Gbit/s"), 1e9);
        assert_eq!(rate("100 MB/s"), 8e8);
        assert_eq!(rate("1.5Mbit/s"), 1.5e6);
        let bytes = |text: &str| text.parse::<Bytes>().unwrap().0;
        assert_eq!(bytes("1500"), 1500.0);
        assert_eq!(
            (bytes("8M"), bytes("8MiB"), bytes("8MB")),
            (8388608.0, 8388608.0, 8e6)
        );
        assert_eq!("125us".parse(), Ok(Seconds(125.0 * 1e-6)));
        assert_eq!("125µs".parse::<Seconds>(), "125us".parse());
        assert_eq!("6%".parse(), Ok(Share(0.06)));
        assert_eq!("8000".parse::<Frequency>(), "8k/s".parse());
        assert_eq!("3000km".parse(), Ok(Metres(3e6)));
    }

    #[test]
    fn a_rate_or_a_time_without_unit_is_refused_with_an_example() {
        let error = "1000".parse::<BitRate>().unwrap_err().to_string();
        assert!(error.contains("1Gbit/s"), "{error}");
        let error = "50".parse::<Seconds>().unwrap_err().to_string();
        assert!(error.contains("50ms"), "{error}");
        for wrong in ["", "s", "-5ms", "5 m s", "1e400s", "NaNs", "5ms5", "1.2.3s"] {
            assert!(wrong.parse::<Seconds>().is_err(), "{wrong}");
        }
        let endless = "9".repeat(400);
        let error = format!("{endless}s").parse::<Seconds>().unwrap_err();
        assert!(error.to_string().len() < 150, "{error}");
        assert!("0.5".parse::<Share>().is_err());
    }

    #[test]
    fn numbers_are_short_and_have_prefixes() {
        for (quantity, text) in [
            (Bytes(1.25e6).to_string(), "1.25 MB"),
            (Bytes(999.99).to_string(), "1 kB"),
            (Bytes(8388608.0).to_string(), "8.389 MB"),
            (Seconds(0.05).to_string(), "50 ms"),
            (Seconds(0.214286).to_string(), "214.3 ms"),
            (Seconds(0.0).to_string(), "0 ms"),
            (Seconds(125e-6).to_string(), "125 µs"),
            (BitRate(1e9).to_string(), "1 Gbit/s"),
            (Frequency(83_333.0).to_string(), "83.33 k/s"),
            (Share(0.0602663).to_string(), "6.027 %"),
            (Count(12.0).to_string(), "12"),
            (Metres(6.4e6).to_string(), "6400 km"),
        ] {
            assert_eq!(quantity, text);
        }
    }
}
