use std::collections::BTreeMap;
use std::net::SocketAddr;

use qsm_proto::{Instant, Pace, Reason, Transmit, nanoseconds};
use qsm_wire::{ChannelId, Data, Hop};

use crate::violation::Violation;

/// Packets that may leave at once: the pool is twice a train, and a train may be under way.
const BURST: u64 = 3 * 64;
/// In the mode as printed, α corrects the rate by up to this factor (equation 3).
const TUNED: u64 = 4;

/// Fresh data packets that leave together.
#[derive(Debug)]
pub(crate) struct Train {
    /// The channel of their stream. Two may have one address for a while: a region that is over,
    /// and one that has come after it.
    pub(crate) channel: ChannelId,
    /// Its destination.
    pub(crate) to: SocketAddr,
    pub(crate) packets: u64,
    /// Number of the last one.
    pub(crate) last: u64,
    /// By unicast, to a member that does not hear the multicast (R-REACH-4).
    pub(crate) copy: bool,
}

impl Train {
    /// A node's output as a train, if it is fresh data.
    pub(crate) fn of(transmit: &Transmit<'_>) -> Option<Self> {
        let mut packets = transmit.bytes.chunks(transmit.segment_bytes.max(1));
        let count = packets.len() as u64;
        let first = packets.next().filter(|_| transmit.reason == Reason::Data)?;
        let last = packets.next_back().unwrap_or(first);
        let last = Data::read_again(last)?.head;
        Some(Self {
            channel: last.channel,
            to: transmit.to.address(),
            packets: count,
            last: last.sequence,
            copy: Hop::peek(first) == Some(Hop::Copy),
        })
    }
}

/// No stream sends faster than the operator allows (R113), counted where packets enter the
/// network.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    /// By sender's host, channel and address: what may leave, and since when that is so.
    streams: BTreeMap<(usize, ChannelId, SocketAddr), (u64, Instant)>,
}

impl Rate {
    /// A train has left.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        host: usize,
        train: &Train,
        pace: &Pace,
    ) -> Result<(), Violation> {
        if pace.rate_max_packets == u32::MAX {
            return Ok(());
        }
        let most = u64::from(pace.rate_max_packets.max(1));
        let tuned = if pace.faithful_rate { TUNED } else { 1 };
        // Clocks may run a thousandth too fast.
        let per_second = most * tuned + most / 1000 + 1;
        let room = BURST + 3 * most * tuned / 1000;
        let stream = (host, train.channel, train.to);
        let (credit, since) = self.streams.entry(stream).or_insert((room, now));
        let passed = u128::from(nanoseconds(now.since(*since)));
        let earned = passed * u128::from(per_second) / 1_000_000_000;
        let earned = u64::try_from(earned).unwrap_or(u64::MAX);
        *credit = credit.saturating_add(earned).min(room);
        // What is less than a packet is kept for the next time.
        let taken = u128::from(earned) * 1_000_000_000 / u128::from(per_second);
        *since = Instant(
            since
                .0
                .saturating_add(u64::try_from(taken).unwrap_or(u64::MAX)),
        );
        match credit.checked_sub(train.packets) {
            Some(left) => {
                *credit = left;
                Ok(())
            }
            None => Err(Violation::new(
                "rate",
                format!(
                    "host {host} sends on channel {} to {} faster than {most} packets per second",
                    train.channel.0, train.to
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn the_allowed_rate_passes_and_half_as_much_more_does_not() {
        let pace = Pace {
            rate_max_packets: 1000,
            ..Pace::default()
        };
        let send_each = |gap: Duration, packets| {
            let (mut rate, mut now) = (Rate::default(), Instant(0));
            let train = Train {
                channel: ChannelId(1),
                to: SocketAddr::from(([239, 1, 1, 1], 1)),
                packets,
                last: packets,
                copy: false,
            };
            (0..3000).try_for_each(|_| {
                now = now.after(gap);
                rate.check(now, 1, &train, &pace)
            })
        };
        let send = |gap| send_each(gap, 1);
        assert_eq!(send(Duration::from_millis(1)), Ok(()));
        // Parts of a packet are not forgotten.
        assert_eq!(send_each(Duration::from_micros(1998), 2), Ok(()));
        assert!(send(Duration::from_micros(660)).is_err());
    }
}
