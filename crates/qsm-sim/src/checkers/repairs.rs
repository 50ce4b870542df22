use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use qsm_proto::Instant;
use qsm_wire::StreamId;

use super::expiry::Repaired;
use crate::violation::Violation;

/// Interval in which repairs are bounded.
const INTERVAL: Duration = Duration::from_millis(10);

/// In no interval of 10 ms a node sends more again than the operator allows, but for one packet with its
/// copies (R209, R-NAK-16).
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    /// By host what it has sent again lately, by its own clock.
    hosts: BTreeMap<usize, VecDeque<Sent>>,
}

/// A packet that was sent again.
#[derive(Debug)]
struct Sent {
    at: Instant,
    packet: (StreamId, u64),
    bytes: u64,
}

impl Repairs {
    /// A node that has been told a limit, of so many bytes per second, sends a packet again.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        host: usize,
        repaired: &Repaired,
        bytes_per_second: u64,
    ) -> Result<(), Violation> {
        let recent = self.hosts.entry(host).or_default();
        while recent
            .front()
            .is_some_and(|sent| now.since(sent.at) >= INTERVAL)
        {
            recent.pop_front();
        }
        recent.push_back(Sent {
            at: now,
            packet: (repaired.stream(), repaired.sequence()),
            bytes: repaired.bytes(),
        });
        let sum: u64 = recent.iter().map(|sent| sent.bytes).sum();
        let several = recent.iter().any(|sent| sent.packet != recent[0].packet);
        if !several || sum <= bytes_per_second / 100 {
            return Ok(());
        }
        let message = format!(
            "host {host} sends {sum} bytes again in 10 ms, in {} packets, and may send {bytes_per_second} in a \
             second",
            recent.len()
        );
        Err(Violation::new("repairs", message))
    }

    /// The host's process has ended.
    pub(crate) fn forget(&mut self, host: usize) {
        self.hosts.remove(&host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Rule R-NAK-16.
    #[test]
    fn one_packet_passes_and_more_than_the_limit_does_not() {
        let packet = |sequence| Repaired::example(sequence, 1000);
        let at = |ms: u64| Instant(ms * 1_000_000);
        let mut repairs = Repairs::default();
        let mut check =
            |ms, host, sequence, limit| repairs.check(at(ms), host, &packet(sequence), limit);
        // With its copies.
        assert_eq!([1, 1, 1].map(|one| check(0, 1, one, 1).is_ok()), [true; 3]);
        assert!(check(9, 1, 2, 1).is_err());
        assert!(check(9, 2, 2, 1).is_ok(), "another host");
        // Two in each interval.
        for ms in 0..50 {
            assert!(check(5 * ms, 3, ms, 200_000).is_ok(), "{ms}");
        }
        assert!(check(249, 3, 99, 200_000).is_err());
    }
}
