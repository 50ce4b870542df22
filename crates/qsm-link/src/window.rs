//! Numbers that have come, so that none is taken twice.

/// Numbers that may come late.
const WIDTH: u64 = 1024;
const WORD_BITS: u64 = 64;

/// The newest number, and which of those before it have come.
#[derive(Debug, Default)]
pub(crate) struct Window {
    highest: u64,
    /// A bit for each number, in its place modulo the width.
    seen: [u64; (WIDTH / WORD_BITS) as usize],
}

impl Window {
    /// Tells whether a number, from 1, has not come, and is not too old to tell.
    pub(crate) fn is_new(&self, number: u64) -> bool {
        if number > self.highest {
            return true;
        }
        let (word, bit) = place(number);
        number > 0 && self.highest - number < WIDTH && self.seen[word] & bit == 0
    }

    /// Takes note of one that is new.
    pub(crate) fn take(&mut self, number: u64) {
        if number > self.highest {
            let passed = (number - self.highest).min(WIDTH);
            for old in number - passed + 1..=number {
                let (word, bit) = place(old);
                self.seen[word] &= !bit;
            }
            self.highest = number;
        }
        let (word, bit) = place(number);
        self.seen[word] |= bit;
    }
}

fn place(number: u64) -> (usize, u64) {
    // The remainder is less than 1024.
    let at = number % WIDTH;
    ((at / WORD_BITS) as usize, 1 << (at % WORD_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_new_once_in_any_order_within_the_width() {
        let mut window = Window::default();
        assert!(!window.is_new(0));
        for number in [5, 1, 3, 2000, 1500, 977, 4, 3024] {
            let new = window.is_new(number);
            assert_eq!(
                new,
                number != 4 && number + WIDTH > window.highest,
                "{number}"
            );
            if new {
                window.take(number);
                assert!(!window.is_new(number), "{number}");
            }
        }
        assert!(window.is_new(2001) && !window.is_new(2000));
        window.take(u64::MAX);
        assert!(!window.is_new(3024) && window.is_new(u64::MAX - 1));
    }
}
