//! Times of one packet at a time, from its first message until it leaves: what batching took, and
//! what receivers' credit and the rate took.
//!
//! ```text
//!   first message ──── waits for more ──── ready ──── held ──── leaves
//!                        batching                  admission
//! ```
//!
//! Time counts as held if the stream was asked for a packet and had none that may leave. While
//! nobody asks, because the socket takes nothing, no stream is held.

use core::time::Duration;

use super::batching::BatchEnd;
use crate::Instant;

/// Delays of one packet at its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PacketDelays {
    /// From its first message until it waited for no more.
    pub(crate) batching: Duration,
    /// Time for which receivers' credit or the rate then held it.
    pub(crate) admission: Duration,
}

/// A packet that is closed now.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClosedPacket {
    pub(super) sequence: u64,
    pub(super) opened: Instant,
    pub(super) end: BatchEnd,
}

/// A packet that is followed until it leaves.
#[derive(Debug, Clone, Copy)]
struct Followed {
    sequence: u64,
    batching_ns: u64,
    /// All time held before it was ready.
    held_before_ns: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Passage {
    followed: Option<Followed>,
    held_since: Option<Instant>,
    /// Time held that is over.
    held_ns: u64,
    /// The longest since they were taken.
    longest: PacketDelays,
}

impl Passage {
    /// Follows a packet, unless another one is on its way.
    pub(super) fn close(&mut self, now: Instant, packet: ClosedPacket) {
        if self.followed.is_none() {
            let ready = packet.end.ready(packet.opened, now);
            let held_after = self.held_from(ready, now);
            self.followed = Some(Followed {
                sequence: packet.sequence,
                batching_ns: ready.0.saturating_sub(packet.opened.0),
                held_before_ns: self.held(now) - held_after,
            });
        }
    }

    /// Packets are ready, and none may leave.
    pub(super) fn hold(&mut self, now: Instant) {
        self.held_since.get_or_insert(now);
    }

    /// Packets up to here have left now.
    pub(super) fn leave(&mut self, now: Instant, highest: u64) {
        if let Some(since) = self.held_since.take() {
            self.held_ns += now.0.saturating_sub(since.0);
        }
        if let Some(packet) = self.followed.take_if(|packet| packet.sequence <= highest) {
            let admission = Duration::from_nanos(self.held_ns - packet.held_before_ns);
            let batching = Duration::from_nanos(packet.batching_ns);
            self.longest.batching = self.longest.batching.max(batching);
            self.longest.admission = self.longest.admission.max(admission);
        }
    }

    /// The longest delays of packets that have left since this was called last, and of what is held
    /// now.
    pub(super) fn take(&mut self, now: Instant) -> PacketDelays {
        let mut longest = core::mem::take(&mut self.longest);
        longest.admission = longest.admission.max(self.held_for(now));
        longest
    }

    /// Forgets what waits: it will not leave.
    pub(super) fn forget(&mut self) {
        self.followed = None;
        self.held_since = None;
    }

    /// Time for which packets have been held until now, if they are.
    fn held_for(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.held_from(Instant(0), now))
    }

    fn held(&self, now: Instant) -> u64 {
        self.held_ns + self.held_from(Instant(0), now)
    }

    /// Time held without a break until now, as far as it is after `from`; nanoseconds.
    fn held_from(&self, from: Instant, now: Instant) -> u64 {
        let since = self.held_since;
        since.map_or(0, |since| now.0.saturating_sub(since.max(from).0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::batching::Batching;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Instant {
        Instant(1000).after(MS * ms)
    }

    fn packet(sequence: u64, opened: u32, delay: u32) -> ClosedPacket {
        let mut end = BatchEnd::OPEN;
        let delay = MS * delay;
        let batching = Batching {
            delay,
            ..Batching::default()
        };
        end.limit(at(opened), batching, 1);
        ClosedPacket {
            sequence,
            opened: at(opened),
            end,
        }
    }

    #[test]
    fn each_part_of_the_time_counts_once() {
        let mut passage = Passage::default();
        passage.close(at(3), packet(1, 0, 10));
        passage.hold(at(4));
        passage.hold(at(6));
        assert_eq!(passage.held_for(at(9)), MS * 5);
        passage.leave(at(9), 1);
        assert_eq!(passage.held_for(at(20)), Duration::ZERO);
        let left = passage.take(at(20));
        assert_eq!((left.batching, left.admission), (MS * 3, MS * 5));
        assert_eq!(passage.take(at(20)), PacketDelays::default());
    }

    #[test]
    fn a_packet_that_was_ready_while_it_was_open_counts_from_then() {
        let mut passage = Passage::default();
        passage.hold(at(1));
        passage.close(at(8), packet(5, 2, 2));
        passage.leave(at(9), 7);
        let left = passage.take(at(9));
        assert_eq!((left.batching, left.admission), (MS * 2, MS * 5));
    }

    #[test]
    fn what_nobody_asks_for_is_not_held_and_one_packet_is_followed_at_a_time() {
        let mut passage = Passage::default();
        passage.close(at(0), packet(1, 0, 0));
        passage.close(at(0), packet(2, 0, 0));
        passage.leave(at(4), 0);
        assert!(passage.followed.is_some());
        passage.leave(at(50), 2);
        assert!(passage.followed.is_none());
        assert_eq!(passage.take(at(60)), PacketDelays::default());
    }
}
