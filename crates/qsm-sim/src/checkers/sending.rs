use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use qsm_proto::{Instant, Reason, Transmit};

use crate::violation::Violation;

/// Interval in which a node's traffic is bounded.
const INTERVAL: Duration = Duration::from_millis(10);
/// Milliseconds whose bytes may have left in it before more that is new does: one may be owed.
const ALLOWED_MS: u64 = 11;

/// Datagrams that left together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaving {
    bytes: u64,
    new: bool,
}

impl Leaving {
    pub(crate) fn of(transmit: &Transmit<'_>) -> Self {
        Self {
            bytes: transmit.bytes.len() as u64,
            new: transmit.reason == Reason::Data,
        }
    }
}

/// A node with a limit of all that it sends sends nothing new while it has sent as much in 10 ms as the limit
/// says (G19, R-RATE-13).
#[derive(Debug, Default)]
pub(crate) struct Sending {
    /// By host what has left lately, by its own clock.
    hosts: BTreeMap<usize, VecDeque<(Instant, u64)>>,
}

impl Sending {
    /// A node that may send so many bytes per second has sent something.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        host: usize,
        leaving: Leaving,
        bytes_per_second: u64,
    ) -> Result<(), Violation> {
        let recent = self.hosts.entry(host).or_default();
        while recent
            .front()
            .is_some_and(|(at, _)| now.since(*at) >= INTERVAL)
        {
            recent.pop_front();
        }
        let before: u64 = recent.iter().map(|(_, bytes)| bytes).sum();
        recent.push_back((now, leaving.bytes));
        // Rounding loses less than a byte of each datagram.
        let allowed = bytes_per_second * ALLOWED_MS / 1000 + recent.len() as u64;
        if !leaving.new || before <= allowed {
            return Ok(());
        }
        let message = format!(
            "host {host} sends something new after {before} bytes in 10 ms, and may send {bytes_per_second} in a \
             second"
        );
        Err(Violation::new("sending", message))
    }

    /// The host's process has ended.
    pub(crate) fn forget(&mut self, host: usize) {
        self.hosts.remove(&host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_messages_wait_for_what_goes_first_and_that_waits_for_nothing() {
        let mut sending = Sending::default();
        let at = |ms: u64| Instant(ms * 1_000_000);
        let mut leave = |ms, bytes, new| {
            let leaving = Leaving { bytes, new };
            sending.check(at(ms), 1, leaving, 1_000_000).is_ok()
        };
        assert!(leave(0, 11_000, true) && leave(1, 1000, false));
        assert!(leave(2, 5000, false), "repairs go first");
        assert!(!leave(9, 1, true));
        assert!(leave(10, 1, true), "the first has left 10 ms before");
    }
}
