//! Time in which nobody looked at the sockets though the core did not mean to sleep: it had no CPU.
//!
//! ```text
//!   look ── the turn's work ── sleep, until then at most │ it had no CPU ── next look
//!        └───── counts ──────┘                           └──── counts ────┘
//! ```

use std::time::Duration;

use qsm_proto::Instant;

/// Less than that is the usual work of a turn.
const LATE: Duration = Duration::from_millis(10);
/// Longest sleep while much comes: what the core had no CPU for before the end of a sleep that was
/// meant does not show.
const NAP: Duration = Duration::from_millis(5);
/// Time after a turn with much work for which that lasts.
const BUSY: Duration = Duration::from_secs(1);

/// Work of one core between its looks at the sockets.
#[derive(Debug)]
pub(super) struct Attention {
    /// When the sockets were looked at last.
    looked: Instant,
    /// When the work that followed was done.
    done: Instant,
    /// Until when the core meant to sleep then.
    wakes: Instant,
    busy_until: Instant,
}

impl Attention {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            looked: now,
            done: now,
            wakes: now,
            busy_until: now,
        }
    }

    /// Notes the end of a turn in which there was much to do, or not.
    pub(super) fn rest(&mut self, done: Instant, busy: bool) {
        (self.done, self.wakes) = (done, done);
        if busy {
            self.busy_until = done.after(BUSY);
        }
    }

    /// Notes that the core is going to sleep until then; returns until when it should.
    pub(super) fn sleep(&mut self, due: Option<Instant>) -> Option<Instant> {
        let due = match self.done < self.busy_until {
            true => Some(due.unwrap_or(Instant::NEVER).min(self.done.after(NAP))),
            false => due,
        };
        self.wakes = due.unwrap_or(Instant::NEVER);
        due
    }

    /// Notes a look at the sockets. Returns for how long what is found there may have waited because
    /// the core had no CPU, if that is worth a word.
    pub(super) fn look(&mut self, now: Instant) -> Option<Duration> {
        let time = self.done.since(self.looked) + now.since(self.wakes);
        (self.looked, self.done, self.wakes) = (now, now, now);
        (time >= LATE).then_some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn sleep_that_was_meant_does_not_count_and_other_time_does() {
        let mut attention = Attention::new(at(1000));
        attention.rest(at(1001), false);
        assert_eq!(attention.sleep(Some(at(1200))), Some(at(1200)));
        assert_eq!(attention.look(at(1150)), None, "something came");
        attention.rest(at(1151), false);
        attention.sleep(Some(at(1200)));
        let late = attention.look(at(1300));
        assert_eq!(late, Some(Duration::from_millis(1 + 100)));
        attention.rest(at(1390), false);
        let late = attention.look(at(1400));
        assert_eq!(late, Some(Duration::from_millis(100)), "a long turn");
    }

    #[test]
    fn sleep_is_short_while_much_comes() {
        let mut attention = Attention::new(at(1000));
        attention.rest(at(1000), true);
        assert_eq!(attention.sleep(None), Some(at(1005)));
        attention.look(at(1500));
        attention.rest(at(1500), false);
        assert_eq!(attention.sleep(Some(at(1503))), Some(at(1503)));
        attention.look(at(2000));
        attention.rest(at(2000), false);
        assert_eq!(attention.sleep(None), None);
        assert_eq!(attention.look(at(9000)), None);
    }
}
