use std::time::Duration;

use qsm_proto::Instant;

/// Wait of one message at a time in a subscription's queue, of a node with a latency budget.
#[derive(Debug, Default)]
pub(super) struct ReaderWait {
    /// Messages that the queue has taken.
    kept: u64,
    followed: Option<FollowedMessage>,
}

/// A message that is followed until a reader takes it.
#[derive(Debug, Clone, Copy)]
struct FollowedMessage {
    number: u64,
    since: Instant,
    /// It has waited for too long, and that has been said.
    said: bool,
}

impl ReaderWait {
    /// The queue takes a message now.
    pub(super) fn keep(&mut self, now: Instant) {
        self.kept += 1;
        if self.followed.is_none() {
            self.followed = Some(FollowedMessage {
                number: self.kept,
                since: now,
                said: false,
            });
        }
    }

    /// Since when the followed message waits, if so many messages are in the queue now and it has
    /// not been said that it waits for too long.
    pub(super) fn since(&self, waiting: u64) -> Option<Instant> {
        let followed = self.followed?;
        let waits = self.kept - waiting.min(self.kept) < followed.number;
        (waits && !followed.said).then_some(followed.since)
    }

    /// Time for which it has waited, if that is more than it may; said once for each message.
    pub(super) fn overdue(
        &mut self,
        now: Instant,
        share: Duration,
        waiting: u64,
    ) -> Option<Duration> {
        let taken = self.kept - waiting.min(self.kept);
        let followed = self.followed.take_if(|followed| taken >= followed.number);
        let since = self.since(waiting)?;
        debug_assert!(followed.is_none(), "it waits no more");
        let took = now.since(since);
        if took <= share {
            return None;
        }
        if let Some(followed) = &mut self.followed {
            followed.said = true;
        }
        Some(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Instant {
        Instant(0).after(MS * ms)
    }

    #[test]
    fn a_reader_that_does_not_read_is_said_once_and_one_that_does_is_not() {
        let mut wait = ReaderWait::default();
        wait.keep(at(1));
        wait.keep(at(3));
        assert_eq!(wait.since(2), Some(at(1)));
        assert_eq!(wait.overdue(at(6), MS * 5, 2), None, "as long as it may");
        assert_eq!(wait.overdue(at(7), MS * 5, 2), Some(MS * 6));
        assert_eq!(
            (wait.since(2), wait.overdue(at(9), MS * 5, 2)),
            (None, None)
        );
        // It reads the first one, and the next one that comes is followed.
        assert_eq!(wait.overdue(at(20), MS * 5, 1), None);
        wait.keep(at(21));
        assert_eq!(wait.since(1), Some(at(21)));
        assert_eq!(wait.since(0), None, "read at once");
        assert_eq!(wait.overdue(at(99), MS * 5, 0), None);
    }
}
