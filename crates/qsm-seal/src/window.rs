//! Packets that have come already are not taken again (R-SEC-4).

/// Counters below the highest one that are told apart; what is further behind counts as seen.
pub(crate) const WINDOW: u64 = 1024;
const WORDS: usize = (WINDOW / 64) as usize;

/// The counters of one maker that have been seen (RFC 4303, 3.4.3, and RFC 6479).
#[derive(Debug, Clone, Default)]
pub(crate) struct Window {
    /// The highest one, counted from 1; 0 before the first.
    highest: u64,
    /// A bit for each of the last ones, at its remainder.
    seen: [u64; WORDS],
}

impl Window {
    /// Tells whether this counter has not been seen.
    pub(crate) fn is_new(&self, counter: u64) -> bool {
        let Some(number) = counter.checked_add(1) else {
            return false;
        };
        if number > self.highest {
            return true;
        }
        let (word, bit) = place(number);
        self.highest - number < WINDOW && self.seen[word] & bit == 0
    }

    /// Notes one that is new.
    pub(crate) fn note(&mut self, counter: u64) {
        let number = counter.saturating_add(1);
        if number > self.highest {
            let passed = (number - self.highest).min(WINDOW);
            for skipped in number - passed + 1..=number {
                let (word, bit) = place(skipped);
                self.seen[word] &= !bit;
            }
            self.highest = number;
        }
        let (word, bit) = place(number);
        self.seen[word] |= bit;
    }
}

/// Where a number has its bit.
fn place(number: u64) -> (usize, u64) {
    let at = number % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Takes a counter if it is new.
    fn take(window: &mut Window, counter: u64) -> bool {
        let new = window.is_new(counter);
        if new {
            window.note(counter);
        }
        new
    }

    #[test]
    fn each_counter_is_taken_once_whatever_the_order() {
        let mut window = Window::default();
        assert_eq!(
            [0, 0, 2, 1, 1, 2].map(|n| take(&mut window, n)),
            [true, false, true, true, false, false]
        );
    }

    #[test]
    fn what_is_too_far_behind_counts_as_seen() {
        let mut window = Window::default();
        assert!(take(&mut window, 5000));
        assert!(take(&mut window, 5001 - WINDOW));
        assert!(!take(&mut window, 5000 - WINDOW));
        assert!(!window.is_new(u64::MAX));
    }

    proptest! {
        #[test]
        fn it_is_a_set_of_what_was_taken(counters in prop::collection::vec(0_u64..4096, 0..500)) {
            let mut window = Window::default();
            let mut taken = BTreeSet::new();
            for counter in counters {
                let behind = taken.last().is_some_and(|last: &u64| counter + WINDOW <= *last);
                prop_assert_eq!(take(&mut window, counter), !behind && !taken.contains(&counter));
                taken.insert(counter);
            }
        }
    }
}
