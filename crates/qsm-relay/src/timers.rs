use core::time::Duration;
use std::collections::BTreeSet;

use qsm_wire::{Instant, nanoseconds};

/// Points in time with what is due then, earliest first: one queue for all timers of a state machine,
/// where S1's first implementation had a thread for each (R176).
#[derive(Debug, Clone)]
pub(crate) struct Timers<K> {
    queue: BTreeSet<(Instant, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self {
            queue: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Copy> Timers<K> {
    pub(crate) fn set(&mut self, at: Instant, key: K) {
        self.queue.insert((at, key));
    }

    pub(crate) fn cancel(&mut self, at: Instant, key: K) {
        self.queue.remove(&(at, key));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Takes out the first one that is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<K> {
        let (at, key) = *self.queue.first()?;
        if at > now {
            return None;
        }
        self.queue.pop_first();
        Some(key)
    }
}

/// Something that is done again and again, at intervals that double.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repetition {
    pub(crate) at: Instant,
    pub(crate) interval: Duration,
}

impl Repetition {
    /// First in this interval.
    pub(crate) fn new(now: Instant, interval: Duration) -> Self {
        Self {
            at: now.after(interval),
            interval,
        }
    }

    /// Next after this interval since it was done last, if that is sooner.
    pub(crate) fn hasten(&mut self, interval: Duration) {
        if interval < self.interval {
            let earlier = nanoseconds(self.interval - interval);
            self.at = Instant(self.at.0.saturating_sub(earlier));
            self.interval = interval;
        }
    }

    /// Next after twice as long as before.
    pub(crate) fn double(&mut self, now: Instant, max: Duration) {
        *self = Self::new(now, (self.interval * 2).min(max));
    }
}
