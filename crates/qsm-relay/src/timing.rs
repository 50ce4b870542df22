use core::time::Duration;

/// Intervals of a source, relay or receiver. S1 prints which timers there are, and of their lengths
/// only that the delay to decide is the time to the farthest receiver at least (4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// S1's DTD: from the first NACK for a packet to the choice of who repairs it. Rule R-RELAY-6.
    pub delay_to_decide: Duration,
    /// Time that an elected replier has to repair before another one is asked. A relay that is
    /// elected has to elect in its turn.
    pub replier_wait: Duration,
    /// Time in which a child that has just been repaired does not get the same packet again.
    pub served_hold: Duration,
    /// Time after which a parent that has not repaired is asked again; then it doubles. Rule R-RELAY-5.
    pub upstream_retry: Duration,
    /// Longest time between two NACKs for the same packet.
    pub retry_max: Duration,
    /// Life of a packet's NACK state after the last NACK for it.
    pub nack_lifetime: Duration,
    /// Shortest time between two ACKs: while much comes, or the source waits for them. Rule R-RELAY-9.
    pub ack_min: Duration,
    /// Time between a receiver's ACKs while packets come; while nothing changes it doubles up to `ack_max`.
    pub ack_steady: Duration,
    /// Longest time between two ACKs.
    pub ack_max: Duration,
    /// Silence after which a child is gone. Rule R-RELAY-3.
    pub child_lifetime: Duration,
    /// Silence after which a relay forgets a session without children.
    pub session_lifetime: Duration,
    /// Time after which an unanswered Join is repeated; then it doubles up to `ack_max`.
    pub join_retry: Duration,
    /// First silence of a source that is broken by a heartbeat; then it doubles up to `ack_max`.
    pub heartbeat_min: Duration,
}

impl Timing {
    /// Goes by these round trips from now on, if they differ by more than a fourth from what it goes
    /// by; the longer ones that are not given are kept.
    pub(crate) fn follow(&mut self, children: Duration, parent: Duration) {
        let new = Self::new(children, parent);
        let far = |one: Duration, other: Duration| one > other * 5 / 4 || other > one * 5 / 4;
        let moved = far(new.upstream_retry, self.upstream_retry)
            || far(new.delay_to_decide, self.delay_to_decide);
        if moved {
            *self = Self {
                ack_max: self.ack_max,
                child_lifetime: self.child_lifetime,
                session_lifetime: self.session_lifetime,
                ..new
            };
        }
    }

    /// Intervals for these round trips: to the farthest child, and to the parent.
    #[must_use]
    pub fn new(children: Duration, parent: Duration) -> Self {
        let ms = Duration::from_millis;
        let upstream_retry = ms(1).max(parent * 3 / 2);
        Self {
            delay_to_decide: Duration::from_micros(200).max(children),
            replier_wait: ms(1).max(children * 4),
            served_hold: ms(1).max(children * 5 / 4),
            upstream_retry,
            retry_max: ms(500).max(upstream_retry * 8),
            nack_lifetime: ms(2000).max(upstream_retry * 16),
            ack_min: ms(10).max(parent / 4),
            ack_steady: ms(100).max(parent / 4),
            ack_max: ms(1000),
            child_lifetime: ms(5000),
            session_lifetime: ms(30_000),
            join_retry: ms(100).max(parent * 2),
            heartbeat_min: ms(2),
        }
    }
}
