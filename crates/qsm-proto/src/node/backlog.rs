use core::time::Duration;

use crate::Instant;

/// Time in which datagrams had arrived that the runtime had not handed over.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Some wait now.
    waiting: bool,
    /// When that was said last.
    said: Instant,
    total: Duration,
}

impl Backlog {
    /// Some wait, or none do; what was said before was true until now.
    pub(crate) fn set(&mut self, now: Instant, waiting: bool) {
        self.total = self.total(now);
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
