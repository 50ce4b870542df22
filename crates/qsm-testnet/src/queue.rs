use std::cmp::Ordering;
use std::collections::BinaryHeap;

use qsm_wire::Instant;

/// Things to happen, ordered by (time, order of scheduling): the only source of order in a
/// simulation, so that a run is a function of its seed.
#[derive(Debug)]
pub struct Queue<T> {
    heap: BinaryHeap<Entry<T>>,
    scheduled: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Instant,
    order: u64,
    what: T,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Queue<T> {
    /// A queue in which nothing waits.
    #[must_use]
    pub fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            scheduled: 0,
        }
    }

    /// Adds something to happen at `at`.
    pub fn push(&mut self, at: Instant, what: T) {
        self.scheduled += 1;
        self.heap.push(Entry {
            at,
            order: self.scheduled,
            what,
        });
    }

    /// Time of the next thing.
    #[must_use]
    pub fn next_time(&self) -> Option<Instant> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Takes the next thing.
    pub fn pop(&mut self) -> Option<(Instant, T)> {
        self.heap.pop().map(|entry| (entry.at, entry.what))
    }

    /// Keeps only what `keep` says; the order stays.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.heap.retain(|entry| keep(&entry.what));
    }
}

impl<T> Entry<T> {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.order)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// Reversed: the standard heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_by_time_and_then_in_the_order_of_scheduling() {
        let mut queue = Queue::new();
        for (at, what) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            queue.push(Instant(at), what);
        }
        assert_eq!(queue.next_time(), Some(Instant(1)));
        let order: String = core::iter::from_fn(|| queue.pop().map(|(_, what)| what)).collect();
        assert_eq!(order, "abcd");
    }
}
