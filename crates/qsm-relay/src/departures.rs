//! Record of what a source has sent when.

use core::time::Duration;
use std::collections::VecDeque;

use qsm_wire::{Instant, nanoseconds};

/// Parts of a round trip after each of which a mark is made.
const PARTS: u32 = 16;
/// Shortest time between two marks.
const APART_MIN: Duration = Duration::from_millis(1);
/// Marks that are kept: those of several round trips.
const MARKS_MAX: usize = 128;

/// State of a source when it sent the packet behind a number.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// Number before that packet.
    before: u64,
    at: Instant,
    /// Bytes sent before it, repairs and parities included.
    bytes: u64,
    /// Those of parities among them.
    parity_bytes: u64,
    /// Since then the source has had nothing to send for a while.
    idle: bool,
}

/// Rate at which packets were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Bytes a second.
    pub(crate) rate: u64,
    /// Those of parities among them.
    parity_rate: u64,
    /// The source had nothing to send for a part of the time.
    pub(crate) idle: bool,
}

impl Sent {
    /// The rate of all that was sent where so much of what is no parity has come: receivers do not measure parity, since
    /// relays pass none on. No higher than the rate at which it was sent. Rule R-RELAY-76.
    pub(crate) fn with_parity(&self, received: u64) -> u64 {
        let data = self.rate.saturating_sub(self.parity_rate).max(1);
        let whole = u128::from(received) * u128::from(self.rate) / u128::from(data);
        u64::try_from(whole).unwrap_or(u64::MAX).min(self.rate)
    }
}

/// Departures of packets, some in a round trip.
#[derive(Debug, Clone, Default)]
pub(crate) struct Departures {
    marks: VecDeque<Mark>,
    /// Newest packet.
    highest: u64,
    bytes: u64,
    parity_bytes: u64,
}

impl Departures {
    /// Takes note of a packet or repair. `highest`: the newest packet that was sent, this one included.
    pub(crate) fn sent(&mut self, now: Instant, highest: u64, bytes: u64, round_trip: Duration) {
        let apart = (round_trip / PARTS).max(APART_MIN);
        let last = self.marks.back().map(|mark| mark.at);
        if highest > self.highest && last.is_none_or(|last| now.since(last) >= apart) {
            if self.marks.len() >= MARKS_MAX {
                self.marks.pop_front();
            }
            self.marks.push_back(Mark {
                before: highest - 1,
                at: now,
                bytes: self.bytes,
                parity_bytes: self.parity_bytes,
                idle: false,
            });
        }
        self.highest = self.highest.max(highest);
        self.bytes += bytes;
    }

    /// Takes note of a parity.
    pub(crate) fn sent_parity(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.parity_bytes += bytes;
    }

    /// Takes note that there is nothing to send, though something might go.
    pub(crate) fn idle(&mut self) {
        if let Some(mark) = self.marks.back_mut() {
            mark.idle = true;
        }
    }

    /// The newest packet.
    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// Bytes sent behind this packet.
    pub(crate) fn bytes_behind(&self, sequence: u64) -> u64 {
        if sequence >= self.highest {
            return 0;
        }
        let at = self.marks.partition_point(|mark| mark.before <= sequence);
        let Some(mark) = at.checked_sub(1).and_then(|at| self.marks.get(at)) else {
            let oldest = self.marks.front().map_or(self.bytes, |mark| mark.bytes);
            return self.bytes - oldest;
        };
        // Packets between two marks are taken to be equally long.
        let (last, bytes) = match self.marks.get(at) {
            Some(next) => (next.before, next.bytes),
            None => (self.highest, self.bytes),
        };
        let part = u128::from(bytes - mark.bytes) * u128::from(sequence - mark.before)
            / u128::from((last - mark.before).max(1));
        self.bytes - mark.bytes - u64::try_from(part).unwrap_or(0)
    }

    /// Pace at which the packets behind the first number up to the second one were sent; none if that is
    /// not known any more.
    pub(crate) fn between(&self, after: u64, last: u64) -> Option<Sent> {
        let upto = |sequence: u64| self.marks.partition_point(|mark| mark.before <= sequence);
        let first = upto(after).checked_sub(1)?;
        // The next mark behind the last one, so that there is a time between the two.
        let end = upto(last).max(first + 1);
        let end = end.min(self.marks.len().saturating_sub(1));
        let (from, to) = (self.marks.get(first)?, self.marks.get(end)?);
        let time = nanoseconds(to.at.since(from.at));
        let rate = |bytes: u64| {
            let rate = (u128::from(bytes) * 1_000_000_000).checked_div(u128::from(time))?;
            Some(u64::try_from(rate).unwrap_or(u64::MAX))
        };
        Some(Sent {
            rate: rate(to.bytes - from.bytes)?,
            parity_rate: rate(to.parity_bytes - from.parity_bytes)?,
            idle: self.marks.range(first..end).any(|mark| mark.idle),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(16);

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// Packets of 1000 bytes, one each millisecond, and from the 101st on one each half.
    fn departures() -> Departures {
        let mut departures = Departures::default();
        for packet in 1..=100 {
            departures.sent(at(packet), packet, 1000, TRIP);
        }
        for packet in 101..=200 {
            let now = Instant(at(100).0 + (packet - 100) * 500_000);
            departures.sent(now, packet, 1000, TRIP);
        }
        departures
    }

    #[test]
    fn the_rate_between_two_packets_is_that_at_which_they_were_sent() {
        let departures = departures();
        let of = |rate| {
            Some(Sent {
                rate,
                parity_rate: 0,
                idle: false,
            })
        };
        assert_eq!(departures.between(60, 80), of(1_000_000));
        assert_eq!(departures.between(120, 160), of(2_000_000));
        assert_eq!(
            departures.between(0, 1).map(|sent| sent.rate),
            None,
            "it is forgotten"
        );
        assert_eq!(departures.bytes_behind(200), 0);
        assert_eq!(departures.bytes_behind(150), 50_000);
        assert_eq!(departures.bytes_behind(151), 49_000);
    }

    /// R-RELAY-76: a parity for eight packets, each as long.
    #[test]
    fn parity_counts_as_sent_and_is_added_to_what_receivers_tell() {
        let mut departures = Departures::default();
        for packet in 1..=80 {
            departures.sent(at(packet), packet, 1000, TRIP);
            if packet % 8 == 0 {
                departures.sent_parity(1000);
            }
        }
        let sent = departures.between(8, 71).unwrap();
        assert_eq!((sent.rate, sent.parity_rate), (1_125_000, 125_000));
        let told = [0, 500_000, 1_000_000, 2_000_000];
        let whole = told.map(|told| sent.with_parity(told));
        assert_eq!(whole, [0, 562_500, 1_125_000, 1_125_000]);
        assert_eq!(departures.bytes_behind(72), 9000);
    }

    #[test]
    fn a_time_without_packets_is_known_of_those_around_it_alone() {
        let mut departures = departures();
        departures.idle();
        for packet in 201..=240 {
            departures.sent(at(packet + 100), packet, 1000, TRIP);
        }
        let idle = |after, last| departures.between(after, last).map(|sent| sent.idle);
        assert_eq!(idle(150, 180), Some(false));
        assert_eq!(idle(190, 210), Some(true));
        assert_eq!(idle(205, 230), Some(false));
    }
}
