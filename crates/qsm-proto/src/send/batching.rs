//! Limits to the wait of messages for others that fill their packet. Rule R-DATA-15.

use core::time::Duration;

use crate::Instant;

/// Limits to the time for which messages wait for others that go with them in one packet (R244).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// Longest time that a message waits. Zero: it leaves as soon as the core has nothing more
    /// urgent.
    pub delay: Duration,
    /// Length from which on a packet does not wait, bytes, its header included. One that is full
    /// never does.
    pub bytes: usize,
}

impl Default for Batching {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            bytes: usize::MAX,
        }
    }
}

/// The time from which on the open packet does not wait for more messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BatchEnd(Instant);

impl BatchEnd {
    const AT_ONCE: Self = Self(Instant(0));

    /// Of a packet without messages.
    pub(super) const OPEN: Self = Self(Instant::NEVER);

    /// A message that waits for so long is in the packet.
    #[inline]
    pub(super) fn limit_time(&mut self, now: Instant, delay: Duration) {
        let end = match delay.is_zero() {
            true => Self::AT_ONCE,
            false => Self(now.after(delay)),
        };
        *self = end.min(*self);
    }

    /// A message with these limits is in the packet, which is so long now.
    pub(super) fn limit(&mut self, now: Instant, batching: Batching, bytes: usize) {
        match bytes >= batching.bytes {
            true => *self = Self::AT_ONCE,
            false => self.limit_time(now, batching.delay),
        }
    }

    /// Tells whether the packet does not leave at once in any case.
    #[inline]
    pub(super) fn waits(self) -> bool {
        self > Self::AT_ONCE
    }

    pub(super) fn is_over(self, now: Instant) -> bool {
        self.0 <= now
    }

    /// When it is over, if it has to be waited for.
    pub(super) fn timeout(self) -> Option<Instant> {
        self.waits().then_some(self.0)
    }

    /// The time from which on a packet opened then was ready to leave, if it is closed now.
    pub(super) fn ready(self, opened: Instant, now: Instant) -> Instant {
        self.0.min(now).max(opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    // Rule R-DATA-15.
    #[test]
    fn the_most_hurried_message_decides_when_its_packet_leaves() {
        let start = Instant(1000);
        let patient = Batching {
            delay: MS * 5,
            bytes: 400,
        };
        let mut end = BatchEnd::OPEN;
        end.limit(start, patient, 100);
        assert_eq!(end.timeout(), Some(start.after(MS * 5)));
        let hurried = Batching {
            delay: MS,
            ..patient
        };
        end.limit(start.after(MS), hurried, 200);
        assert_eq!(end.timeout(), Some(start.after(MS * 2)));
        end.limit(start.after(MS), patient, 300);
        assert_eq!(end.timeout(), Some(start.after(MS * 2)));
        assert!(!end.is_over(start.after(MS)) && end.is_over(start.after(MS * 2)));
        end.limit(start.after(MS), patient, 400);
        assert!(end.is_over(start) && end.timeout().is_none(), "long enough");
    }

    #[test]
    fn without_a_delay_nothing_waits_and_readiness_is_never_before_the_first_message() {
        let mut end = BatchEnd::OPEN;
        end.limit(Instant(50), Batching::default(), 1);
        assert_eq!(end.timeout(), None);
        assert_eq!(end.ready(Instant(50), Instant(90)), Instant(50));
        assert_eq!(BatchEnd::OPEN.ready(Instant(50), Instant(90)), Instant(90));
    }
}
