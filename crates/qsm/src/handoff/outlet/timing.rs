use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time of one message at a time in a publisher's queue, of a node with a latency budget.
#[derive(Debug)]
pub(super) struct QueueTiming {
    start: Instant,
    /// A message is followed.
    follows: AtomicBool,
    /// Its number among those accepted.
    number: AtomicU64,
    /// When it came, nanoseconds from the start; 0: that is not said yet.
    came: AtomicU64,
}

impl QueueTiming {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            follows: AtomicBool::new(false),
            number: AtomicU64::new(0),
            came: AtomicU64::new(0),
        }
    }

    /// As an application thread: a message has been accepted as this one.
    pub(super) fn accept(&self, number: u64) {
        if self.follows.load(Ordering::Relaxed) || self.follows.swap(true, Ordering::AcqRel) {
            return;
        }
        let came = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.number.store(number, Ordering::Relaxed);
        self.came.store(came.max(1), Ordering::Release);
    }

    /// As the core thread: so many messages have been taken. Returns when the followed one came, if it
    /// is among them.
    pub(super) fn take(&self, taken: u64) -> Option<Instant> {
        let came = self.came.load(Ordering::Acquire);
        if came == 0 || taken < self.number.load(Ordering::Relaxed) {
            return None;
        }
        self.came.store(0, Ordering::Relaxed);
        self.follows.store(false, Ordering::Release);
        Some(self.start + Duration::from_nanos(came))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_is_followed_until_it_is_taken_and_then_another_one() {
        let timing = QueueTiming::new();
        assert_eq!(timing.take(9), None);
        let before = Instant::now();
        timing.accept(3);
        timing.accept(4);
        assert_eq!(timing.take(2), None);
        let came = timing.take(3).unwrap();
        assert!(before <= came && came <= Instant::now());
        assert_eq!(timing.take(4), None, "nobody follows it");
        timing.accept(5);
        assert!(timing.take(7).is_some());
    }
}
