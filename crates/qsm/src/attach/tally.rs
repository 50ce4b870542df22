//! What is counted of each attached process.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one attached process, written by whoever does what they count.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) delivered: Count,
    pub(super) dropped: Count,
    pub(super) wakes: Count,
    pub(super) published: Count,
    pub(super) doorbells: Count,
    pub(super) events_dropped: Count,
}

/// A counter that only grows, until it is read.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// An attached process as its engine sees it. Counters only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClientRow {
    /// Its number among those of this engine, from 1.
    pub client: u32,
    /// Its process.
    pub pid: u32,
    /// Subscriptions it has.
    pub subscriptions: u64,
    /// Publishers it has.
    pub publishers: u64,
    /// Messages put into its rings.
    pub delivered: u64,
    /// Messages that found no room in them.
    pub dropped: u64,
    /// Times it was woken for messages: at most once per turn of a core thread.
    pub wakes: u64,
    /// Messages taken from it.
    pub published: u64,
    /// Times it has woken the engine for messages.
    pub doorbells: u64,
    /// Events that it was not told because it does not read them.
    pub events_dropped: u64,
}

impl ClientRow {
    /// As they travel to the process itself.
    pub(super) fn values(&self) -> Vec<u64> {
        vec![
            u64::from(self.client),
            u64::from(self.pid),
            self.subscriptions,
            self.publishers,
            self.delivered,
            self.dropped,
            self.wakes,
            self.published,
            self.doorbells,
            self.events_dropped,
        ]
    }

    /// Out of [`ClientRow::values`].
    pub(super) fn of_values(values: &[u64]) -> Self {
        let at = |place: usize| values.get(place).copied().unwrap_or(0);
        // Both were 32 bits long.
        let short = |place: usize| at(place) as u32;
        Self {
            client: short(0),
            pid: short(1),
            subscriptions: at(2),
            publishers: at(3),
            delivered: at(4),
            dropped: at(5),
            wakes: at(6),
            published: at(7),
            doorbells: at(8),
            events_dropped: at(9),
        }
    }

    pub(super) fn count(mut self, tally: &Tally) -> Self {
        self.delivered = tally.delivered.value();
        self.dropped = tally.dropped.value();
        self.wakes = tally.wakes.value();
        self.published = tally.published.value();
        self.doorbells = tally.doorbells.value();
        self.events_dropped = tally.events_dropped.value();
        self
    }
}

/// What a shared engine has done for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ShareStats {
    /// Processes attached now.
    pub clients: u64,
    /// Processes attached since the beginning.
    pub attached: u64,
    /// Processes not let in.
    pub refused: u64,
    /// Processes cut off for nonsense.
    pub cut_off: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_travels_whole() {
        let values: Vec<u64> = (1..=10).collect();
        assert_eq!(ClientRow::of_values(&values).values(), values);
        assert_eq!(ClientRow::of_values(&[]), ClientRow::default());
    }
}
