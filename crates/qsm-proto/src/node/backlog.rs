use core::time::Duration;

use crate::Instant;

/// Time in which datagrams had arrived that the runtime had not handed over, or messages that readers
/// had no room for.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Some wait now.
    waiting: bool,
    /// When that was said last.
    said: Instant,
    /// When it was said first of those that wait now.
    since: Instant,
    total: Duration,
}

impl Backlog {
    /// Some wait, or none do; what was said before was true until now.
    pub(crate) fn set(&mut self, now: Instant, waiting: bool) {
        self.total = self.total(now);
        if !self.waiting {
            self.since = now;
        }
        (self.waiting, self.said) = (waiting, now);
    }

    /// Those that were handed over just now had waited for so long, or nearly, without a word.
    pub(crate) fn add_unsaid(&mut self, now: Instant, time: Duration) {
        if !self.waiting {
            self.total += time.min(now.since(self.said));
            self.said = now;
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Time for which some have waited without a break: what is read now may have come so long ago.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        match self.waiting {
            true => now.since(self.since),
            false => Duration::ZERO,
        }
    }

    /// All such time up to the last word.
    pub(crate) fn counted(&self) -> Duration {
        self.total
    }

    /// All such time up to now.
    pub(crate) fn total(&self, now: Instant) -> Duration {
        match self.waiting {
            true => self.total + now.since(self.said),
            false => self.total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_from_the_word_that_some_wait_to_the_word_that_none_do() {
        let mut backlog = Backlog::default();
        backlog.set(Instant(5), true);
        assert_eq!(backlog.total(Instant(9)).as_nanos(), 4);
        backlog.set(Instant(10), true);
        backlog.set(Instant(12), false);
        assert_eq!(backlog.total(Instant(20)).as_nanos(), 7);
        assert!(!backlog.is_waiting());
    }

    #[test]
    fn what_is_read_is_as_old_as_the_queue() {
        let mut backlog = Backlog::default();
        let age = |backlog: &Backlog, now| backlog.age(Instant(now)).as_nanos();
        backlog.set(Instant(5), false);
        assert_eq!(age(&backlog, 9), 0);
        backlog.set(Instant(10), true);
        backlog.set(Instant(20), true);
        assert_eq!(age(&backlog, 25), 15);
        backlog.set(Instant(30), false);
        assert_eq!(age(&backlog, 35), 0);
        backlog.set(Instant(40), true);
        assert_eq!(age(&backlog, 41), 1, "all had been read meanwhile");
    }

    #[test]
    fn no_time_counts_twice() {
        let mut backlog = Backlog::default();
        backlog.set(Instant(10), true);
        backlog.add_unsaid(Instant(30), Duration::from_nanos(20));
        backlog.set(Instant(30), false);
        backlog.add_unsaid(Instant(60), Duration::from_nanos(25));
        backlog.add_unsaid(Instant(60), Duration::from_nanos(25));
        assert_eq!(backlog.total(Instant(70)).as_nanos(), 20 + 25);
    }
}
