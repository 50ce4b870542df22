//! Number of a token.

use core::fmt;
use core::str::FromStr;

use aws_lc_rs::rand;

use crate::keys::KeyError;

/// Number of a token, by which it is revoked. 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(pub u64);

impl Serial {
    /// A number that no other token has: 64 random bits.
    ///
    /// # Errors
    /// [`KeyError::Random`]: the system has no random numbers.
    pub fn random() -> Result<Self, KeyError> {
        let mut bytes = [0; 8];
        rand::fill(&mut bytes).map_err(|_| KeyError::Random)?;
        Ok(Self(u64::from_be_bytes(bytes).max(1)))
    }
}

/// 16 hexadecimal digits.
impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Serial {
    type Err = SerialError;

    /// Reads 16 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, SerialError> {
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = digits.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        match number {
            None | Some(0) => Err(SerialError),
            Some(number) => Ok(Self(number)),
        }
    }
}

/// The text is no serial number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SerialError;

impl fmt::Display for SerialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a serial number has 16 hexadecimal digits, not all of them 0")
    }
}

impl core::error::Error for SerialError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_back_and_nothing_else_is() {
        let serial = Serial::random().unwrap();
        assert_eq!(serial.to_string().parse(), Ok(serial));
        for wrong in [
            "",
            "1",
            "0000000000000000",
            "+00000000000000f",
            "00000000000000g1",
        ] {
            assert_eq!(wrong.parse::<Serial>(), Err(SerialError), "{wrong}");
        }
    }
}
