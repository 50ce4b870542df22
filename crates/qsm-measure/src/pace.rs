//! When messages are due.

use std::thread;
use std::time::{Duration, Instant};

use qsm_console::stop::Stop;

/// A sleep may end so much late: the kernel's timer slack of 50 µs and a wake-up. The rest of a
/// wait is spent awake, yielding to whoever else wants the CPU.
const SLACK: Duration = Duration::from_micros(150);

/// The longest sleep, to hear signals.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// A fixed rate from a start on, whatever happens: who falls behind catches up, and each message
/// is timed from when it was due. So a stall is seen by all the messages that it delays (Tene's
/// "coordinated omission").
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    start: Instant,
    per_second: u32,
}

impl Pace {
    /// From now on.
    #[must_use]
    pub(crate) fn new(start: Instant, per_second: u32) -> Self {
        Self { start, per_second }
    }

    /// When the message with this number, from 0, is due.
    #[must_use]
    pub(crate) fn due(&self, index: u64) -> Instant {
        let rate = u64::from(self.per_second);
        let (seconds, rest) = (index / rate, index % rate);
        self.start + Duration::new(seconds, (rest * 1_000_000_000 / rate) as u32)
    }

    /// Messages in this time.
    #[must_use]
    pub(crate) fn messages_in(&self, time: Duration) -> u64 {
        (time.as_secs_f64() * f64::from(self.per_second)) as u64
    }
}

/// Waits until then; false if the user wants an end. With `spin`, without giving up the CPU.
pub(crate) fn wait_until(due: Instant, spin: bool, stop: &Stop) -> bool {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if stop.is_asked() {
            return false;
        }
        if left.is_zero() {
            return true;
        }
        match (spin, left.checked_sub(SLACK)) {
            (true, _) => std::hint::spin_loop(),
            (false, Some(rest)) => thread::sleep(rest.min(SLEEP_MAX)),
            (false, None) => thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_due_at_the_rate_without_drift() {
        let start = Instant::now();
        let pace = Pace::new(start, 3);
        assert_eq!(pace.due(0), start);
        assert_eq!(pace.due(1), start + Duration::from_nanos(333_333_333));
        assert_eq!(pace.due(3_000_000), start + Duration::from_secs(1_000_000));
        assert_eq!(pace.messages_in(Duration::from_secs(2)), 6);
    }
}
