//! Whole numbers of seven bits a byte, the lowest first, as postcard has them.

use crate::error::Cause;

/// Appends a number.
pub(crate) fn append(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Takes a number of so many bits from the front.
pub(crate) fn take(from: &mut &[u8], bits: u32) -> Result<u64, Cause> {
    let number = take_wide(from, bits)?;
    u64::try_from(number).map_err(|_| Cause::TooLarge)
}

/// As [`take`], up to 128 bits.
pub(crate) fn take_wide(from: &mut &[u8], bits: u32) -> Result<u128, Cause> {
    let mut number = 0u128;
    for shift in (0..bits).step_by(7) {
        let (byte, rest) = from.split_first().ok_or(Cause::Short)?;
        *from = rest;
        let low = u128::from(byte & 0x7f);
        if shift + 7 > bits && low >> (bits - shift) != 0 {
            return Err(Cause::TooLarge);
        }
        number |= low << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Cause::TooLarge)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_those_of_postcard(number: u64) {
            let mut written = Vec::new();
            append(number, &mut written);
            prop_assert_eq!(&written, &postcard::to_stdvec(&number).unwrap());
            let mut left = &written[..];
            prop_assert_eq!(take(&mut left, 64), Ok(number));
            prop_assert!(left.is_empty());
        }

        #[test]
        fn nonsense_is_refused_or_read(bytes: Vec<u8>, bits in 8u32..=64) {
            let mut left = &bytes[..];
            if let Ok(number) = take(&mut left, bits) {
                prop_assert!(bits == 64 || number >> bits == 0);
            }
        }
    }

    #[test]
    fn a_number_of_too_many_bits_is_refused() {
        assert_eq!(take(&mut &[0xff, 0xff, 0x03][..], 16), Ok(0xffff));
        assert_eq!(take(&mut &[0xff, 0xff, 0x04][..], 16), Err(Cause::TooLarge));
        assert_eq!(take(&mut &[0x80, 0x80, 0x80][..], 16), Err(Cause::TooLarge));
        assert_eq!(take(&mut &[0x80][..], 16), Err(Cause::Short));
    }
}
