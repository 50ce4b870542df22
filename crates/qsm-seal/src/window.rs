//! Packets that have come already are not taken again (R-SEC-4).

use std::collections::HashMap;

use qsm_wire::NodeId;

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

/// Members that are told apart in an epoch; a service has fewer sessions.
const MEMBERS_MAX: usize = 1 << 16;

/// The windows of members, by their numbers. None is forgotten while its epoch lasts: what it had seen could come again.
/// So nothing is taken of a member beyond the limit.
#[derive(Debug, Default)]
pub(crate) struct Windows(HashMap<NodeId, Window>);

impl Windows {
    /// Tells whether this counter of a member's has not been seen.
    pub(crate) fn is_new(&self, member: NodeId, counter: u64) -> bool {
        match self.0.get(&member) {
            Some(window) => window.is_new(counter),
            None => self.0.len() < MEMBERS_MAX && counter < u64::MAX,
        }
    }

    /// Notes one that is new.
    pub(crate) fn note(&mut self, member: NodeId, counter: u64) {
        self.0.entry(member).or_default().note(counter);
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

    #[test]
    fn members_are_told_apart_and_none_is_forgotten_for_another() {
        let mut windows = Windows::default();
        for member in 0..MEMBERS_MAX as u64 {
            assert!(windows.is_new(NodeId(member), 7));
            windows.note(NodeId(member), 7);
        }
        let (first, beyond) = (NodeId(0), NodeId(MEMBERS_MAX as u64));
        assert!(!windows.is_new(beyond, 7));
        assert!(!windows.is_new(first, 7) && windows.is_new(first, 8));
        assert!(!Windows::default().is_new(first, u64::MAX));
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
