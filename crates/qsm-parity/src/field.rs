//! Arithmetic in GF(256), the field of the polynomial x⁸ + x⁴ + x³ + x² + 1.

/// Most packets of a block.
pub const PACKETS_MAX: usize = 16;
/// Most parities of a block.
pub const ROWS_MAX: usize = 8;

const POLYNOMIAL: u16 = 0x11d;

/// Products of a factor and each value of the lower and of the upper half of a byte: two look-ups
/// make a product, and a vector instruction makes sixteen look-ups at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Products {
    pub(crate) low: [u8; 16],
    pub(crate) high: [u8; 16],
}

/// The products of each factor.
pub(crate) static PRODUCTS: [Products; 256] = products();
/// Factors of the packets in each parity.
pub(crate) static FACTORS: [[u8; PACKETS_MAX]; ROWS_MAX] = factors();

/// The product of two elements.
pub(crate) const fn times(a: u8, b: u8) -> u8 {
    let (mut a, mut b, mut product) = (a as u16, b, 0u16);
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a <<= 1;
        if a & 0x100 != 0 {
            a ^= POLYNOMIAL;
        }
        b >>= 1;
    }
    product as u8
}

/// The element whose product with this one is 1; of 0 it is 0.
pub(crate) const fn inverse(a: u8) -> u8 {
    // The 254th power: the group has 255 elements.
    let (mut power, mut square, mut left) = (1, a, 254u8);
    while left != 0 {
        if left & 1 != 0 {
            power = times(power, square);
        }
        square = times(square, square);
        left >>= 1;
    }
    power
}

const fn products() -> [Products; 256] {
    let none = Products {
        low: [0; 16],
        high: [0; 16],
    };
    let mut all = [none; 256];
    let mut factor = 0;
    while factor < 256 {
        let mut value = 0;
        while value < 16 {
            all[factor].low[value] = times(factor as u8, value as u8);
            all[factor].high[value] = times(factor as u8, (value << 4) as u8);
            value += 1;
        }
        factor += 1;
    }
    all
}

/// Cauchy's matrix 1 / (x + y) with different x for each row and y for each packet, each column
/// divided by its first element: that changes no square part from one that can be inverted to one
/// that cannot.
const fn factors() -> [[u8; PACKETS_MAX]; ROWS_MAX] {
    let mut all = [[0; PACKETS_MAX]; ROWS_MAX];
    let mut row = 0;
    while row < ROWS_MAX {
        let mut index = 0;
        while index < PACKETS_MAX {
            let cauchy = inverse((PACKETS_MAX + row) as u8 ^ index as u8);
            let first = PACKETS_MAX as u8 ^ index as u8;
            all[row][index] = times(cauchy, first);
            index += 1;
        }
        row += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_but_zero_has_an_inverse() {
        assert!((1..=255).all(|a| times(a, inverse(a)) == 1));
        assert_eq!(inverse(0), 0);
    }

    #[test]
    fn multiplication_is_that_of_a_field() {
        for (a, b, c) in [(2, 3, 200), (0x80, 2, 0xff), (77, 191, 13)] {
            assert_eq!(times(a, b), times(b, a));
            assert_eq!(times(times(a, b), c), times(a, times(b, c)));
            assert_eq!(times(a, b ^ c), times(a, b) ^ times(a, c));
        }
        assert_eq!(times(0x80, 2), 0x1d);
    }

    #[test]
    fn the_first_row_is_an_exclusive_or_and_no_factor_is_zero() {
        assert_eq!(FACTORS[0], [1; PACKETS_MAX]);
        assert!(FACTORS.iter().flatten().all(|factor| *factor != 0));
    }
}
