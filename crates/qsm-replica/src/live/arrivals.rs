//! The order in which parts of an object changed here, for those who watch it.

use std::collections::BTreeMap;

/// Parts by the number of their last change at this replica: 1, 2, 3, … Bounded by the parts, so nobody who watches
/// costs memory, however slow.
#[derive(Debug, Clone)]
pub(super) struct Arrivals<K> {
    last: u64,
    parts: BTreeMap<u64, K>,
}

impl<K> Default for Arrivals<K> {
    fn default() -> Self {
        Self {
            last: 0,
            parts: BTreeMap::new(),
        }
    }
}

impl<K> Arrivals<K> {
    /// Notes a change of a part, and returns its number.
    pub(super) fn add(&mut self, part: K) -> u64 {
        self.last += 1;
        self.parts.insert(self.last, part);
        self.last
    }

    /// Takes a part at the number of its last change.
    pub(super) fn keep(&mut self, number: u64, part: K) {
        self.parts.insert(number, part);
    }

    /// Forgets a change: the part changed again, or is gone.
    pub(super) fn remove(&mut self, number: u64) {
        self.parts.remove(&number);
    }

    /// A number for something that is no part.
    pub(super) fn pass(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The number of the last change.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The first change behind this number.
    pub(super) fn after(&self, number: u64) -> Option<(u64, &K)> {
        let (number, part) = self.parts.range(number + 1..).next()?;
        Some((*number, part))
    }

    /// The same numbers without any parts, for a state that replaces this one.
    pub(super) fn emptied(&self) -> Self {
        Self {
            last: self.last,
            parts: BTreeMap::new(),
        }
    }
}

/// Place in the changes of a live object ([`Watched`](crate::Watched)), of one replica.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor {
    /// The number of the last change that was seen.
    pub(super) at: u64,
    /// The number of the last change when the watch began: what is missing before it was never to be seen.
    pub(super) begun: u64,
}
