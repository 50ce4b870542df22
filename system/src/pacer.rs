//! A pace: so many events a second.

use std::time::{Duration, Instant};

/// Longest time that is made up for after a halt.
const BEHIND_MAX: Duration = Duration::from_millis(100);
/// Shortest sleep between two events.
pub const NAP: Duration = Duration::from_micros(200);

/// Events so far, and when the next one is due.
#[derive(Debug)]
pub struct Pacer {
    /// Events a second; 0: as many as can be.
    rate: u64,
    start: Instant,
    /// Events since then.
    passed: u64,
}

impl Default for Pacer {
    fn default() -> Self {
        Self {
            rate: 0,
            start: Instant::now(),
            passed: 0,
        }
    }
}

impl Pacer {
    /// A pace that begins now.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Time until the next event is due at this rate; `None`: it is. What should have happened long
    /// ago is not made up for, nor what another rate would have asked for.
    pub fn wait(&mut self, rate: u64) -> Option<Duration> {
        if rate == 0 {
            self.rate = 0;
            return None;
        }
        let now = Instant::now();
        if self.rate != rate {
            self.begin(now, rate);
        }
        let due = self.start + Duration::from_micros(self.passed * 1_000_000 / rate);
        if now.saturating_duration_since(due) > BEHIND_MAX {
            self.begin(now, rate);
        }
        (due > now).then(|| due - now)
    }

    fn begin(&mut self, now: Instant, rate: u64) {
        (self.rate, self.start, self.passed) = (rate, now, 0);
    }

    /// An event has happened.
    pub fn pass(&mut self) {
        self.passed += 1;
    }
}
