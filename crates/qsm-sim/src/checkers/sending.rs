use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use qsm_proto::{Instant, Transmit};
use qsm_wire::ChannelId;

use super::rate::Train;
use crate::violation::Violation;

/// Interval in which a node's traffic is bounded.
const INTERVAL: Duration = Duration::from_millis(10);
/// Milliseconds whose bytes may have left in it before more that is new does: one may be owed.
const ALLOWED_MS: u64 = 11;

/// Datagrams that left together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaving {
    bytes: u64,
    /// The stream and the last packet, if they are new: copies have the same.
    new: Option<(ChannelId, u64)>,
}

impl Leaving {
    pub(crate) fn of(transmit: &Transmit<'_>) -> Self {
        Self {
            bytes: transmit.bytes.len() as u64,
            new: Train::of(transmit).map(|train| (train.channel, train.last)),
        }
    }
}

/// A node with a limit of all that it sends sends nothing new while it has sent as much in 10 ms as the limit
/// says (G19, R-RATE-13). New packets that leave together leave with their copies, however many these are.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    /// By host what has left lately, by its own clock.
    hosts: BTreeMap<usize, VecDeque<(Instant, Leaving)>>,
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
        let others = recent.iter().map(|(_, left)| left);
        let others = others.filter(|left| left.new.is_none() || left.new != leaving.new);
        let before: u64 = others.map(|left| left.bytes).sum();
        recent.push_back((now, leaving));
        // Rounding loses less than a byte of each datagram.
        let allowed = bytes_per_second * ALLOWED_MS / 1000 + recent.len() as u64;
        if leaving.new.is_none() || before <= allowed {
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
        let mut leave = |ms, bytes, packet: Option<u64>| {
            let new = packet.map(|packet| (ChannelId(1), packet));
            let leaving = Leaving { bytes, new };
            sending.check(at(ms), 1, leaving, 1_000_000).is_ok()
        };
        assert!(leave(0, 11_000, Some(1)) && leave(1, 1000, None));
        assert!(leave(2, 5000, None), "repairs go first");
        assert!(!leave(9, 1, Some(2)));
        assert!(leave(10, 1, Some(3)), "the first has left 10 ms before");
    }

    #[test]
    fn a_packet_leaves_with_its_copies_and_the_next_one_waits_for_these() {
        let mut sending = Sending::default();
        let mut leave = |ms: u64, packet| {
            let new = Some((ChannelId(1), packet));
            let leaving = Leaving { bytes: 9000, new };
            let at = Instant(ms * 1_000_000);
            sending.check(at, 1, leaving, 1_000_000).is_ok()
        };
        assert_eq!([1, 1, 1].map(|packet| leave(0, packet)), [true; 3]);
        assert!(!leave(9, 2) && leave(10, 3));
    }
}
