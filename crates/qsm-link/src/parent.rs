//! The parent that an end connects to, and when it is tried again.

use core::time::Duration;
use std::net::SocketAddr;

use qsm_wire::Instant;

/// First time between attempts; it doubles.
const AGAIN_MIN: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(4);
/// First time for an answer, since a port may change in the midst of it; it doubles.
const PATIENCE_MIN: Duration = Duration::from_millis(1500);
const PATIENCE_MAX: Duration = Duration::from_secs(6);
/// A link that was open for so long is made again as the first time.
const STEADY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Parent {
    pub(crate) address: SocketAddr,
    /// The connection that there is.
    pub(crate) handle: Option<usize>,
    /// When the next one is made.
    pub(crate) due: Instant,
    again: Duration,
    /// Time that it has to answer and to show its token.
    pub(crate) patience: Duration,
}

impl Parent {
    pub(crate) fn new(address: SocketAddr, now: Instant) -> Self {
        Self {
            address,
            handle: None,
            due: now,
            again: AGAIN_MIN,
            patience: PATIENCE_MIN,
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.handle.is_none().then_some(self.due)
    }

    /// The connection is gone; the link was open since, if it was.
    pub(crate) fn lost(&mut self, now: Instant, since: Option<Instant>) {
        if since.is_some_and(|since| now.since(since) >= STEADY) {
            self.again = AGAIN_MIN;
        }
        self.patience = match since {
            Some(_) => PATIENCE_MIN,
            None => (self.patience * 2).min(PATIENCE_MAX),
        };
        self.handle = None;
        self.due = now.after(self.again);
        self.again = (self.again * 2).min(AGAIN_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-RELAY-22.
    #[test]
    fn a_parent_that_is_lost_again_and_again_is_tried_more_and_more_seldom() {
        let mut parent = Parent::new(SocketAddr::from(([127, 0, 0, 1], 1)), Instant(0));
        let mut now = Instant(0);
        let mut waits = Vec::new();
        for _ in 0..6 {
            parent.lost(now, Some(now));
            waits.push(parent.due.since(now).as_millis());
            now = parent.due;
        }
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 4000]);
        parent.lost(now.after(STEADY), Some(now));
        assert_eq!(parent.due.since(now), STEADY + AGAIN_MIN);
    }
}
