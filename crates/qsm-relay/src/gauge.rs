//! Measures of a receiver: what comes in a round trip, and what of it is lost.

use core::time::Duration;
use std::collections::VecDeque;

use qsm_wire::{Instant, nanoseconds};

use crate::codepoint::Codepoint;
use crate::packet::{Limit, WINDOW_MAX};

/// Spans in a round trip.
const SPANS: u32 = 4;
/// Shortest span.
const SPAN_MIN: Duration = Duration::from_millis(2);
/// Spans that are remembered: those of a round trip, also after it has grown, and the one that goes on.
const SPANS_MAX: usize = 12;
/// Round trips of which the highest rate counts.
const ROUNDS: usize = 10;
/// Bytes of the headers of IP and UDP, which the network counts too.
const OVERHEAD_BYTES: u64 = 28;

/// Packets that came in a part of a round trip.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// It has the numbers behind this one, up to `last`.
    after: u64,
    last: u64,
    began: Instant,
    bytes: u64,
    packets: u64,
}

/// Measure over a round trip.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    /// Bytes a second; 0: nothing is measured.
    rate: u64,
    last: u64,
    packets: u32,
    lost: u32,
}

/// Gauge of what comes to a receiver. Rules R-RELAY-13, R-RELAY-14.
#[derive(Debug, Clone)]
pub(crate) struct Gauge {
    receiver: u64,
    highest: u64,
    /// The newest one goes on.
    spans: VecDeque<Span>,
    sample: Sample,
    /// The highest rate of each of the last round trips.
    rounds: [u64; ROUNDS],
    round: usize,
    round_began: Instant,
    /// Packets with a codepoint that can be marked, or with a mark; and of these the latter.
    capable: u32,
    marked: u32,
}

impl Gauge {
    pub(crate) fn new(receiver: u64, now: Instant) -> Self {
        Self {
            receiver,
            highest: 0,
            spans: VecDeque::with_capacity(SPANS_MAX),
            sample: Sample::default(),
            rounds: [0; ROUNDS],
            round: 0,
            round_began: now,
            capable: 0,
            marked: 0,
        }
    }

    /// Takes note of a packet that came for the first time, and not as a repair; true if a new sample is
    /// measured by it.
    pub(crate) fn arrived(
        &mut self,
        now: Instant,
        sequence: u64,
        bytes: usize,
        round_trip: Duration,
    ) -> bool {
        let bytes = bytes as u64 + OVERHEAD_BYTES;
        if sequence <= self.highest {
            self.overtaken(sequence, bytes);
            return false;
        }
        let leap = sequence - self.highest > WINDOW_MAX;
        let before = self.highest;
        self.highest = sequence;
        let open = match self.spans.back() {
            Some(open) if !leap => open.began,
            _ => {
                self.spans.clear();
                self.open(now, sequence - 1, sequence, bytes);
                return false;
            }
        };
        let ends = now.since(open) >= (round_trip / SPANS).max(SPAN_MIN);
        let measured = ends && self.measure(now, round_trip);
        if ends {
            self.open(now, before, sequence, bytes);
        } else if let Some(open) = self.spans.back_mut() {
            open.last = sequence;
            open.bytes += bytes;
            open.packets += 1;
        }
        measured
    }

    /// Takes note of a repair, which takes room on the way as well.
    pub(crate) fn repaired(&mut self, bytes: usize) {
        if let Some(open) = self.spans.back_mut() {
            open.bytes += bytes as u64 + OVERHEAD_BYTES;
        }
    }

    /// Takes note of the codepoint of a packet, whether it had come before or not. Rule R-RELAY-80.
    pub(crate) fn came_as(&mut self, codepoint: Codepoint) {
        let capable = u32::from(codepoint != Codepoint::NotCapable);
        let marked = u32::from(codepoint == Codepoint::Marked);
        self.capable = self.capable.wrapping_add(capable);
        self.marked = self.marked.wrapping_add(marked);
    }

    /// Packets that have come in the round trip of the newest measure.
    pub(crate) fn round_trip_packets(&self) -> usize {
        let came = self.sample.packets - self.sample.lost;
        usize::try_from(came).unwrap_or(usize::MAX / 2)
    }

    /// Its newest measure, with the round trips to its source that it has now, and had at least.
    pub(crate) fn limit(&self, round_trip_us: u32, least_us: u32) -> Limit {
        let behind = self.highest.saturating_sub(self.sample.last);
        Limit {
            receiver: self.receiver,
            rate: self.rounds.iter().copied().max().unwrap_or(0),
            received: self.sample.rate,
            highest: self.highest,
            behind: u32::try_from(behind).unwrap_or(u32::MAX),
            packets: self.sample.packets,
            lost: self.sample.lost,
            round_trip_us,
            least_us,
            capable: self.capable,
            marked: self.marked,
        }
    }

    fn open(&mut self, now: Instant, after: u64, last: u64, bytes: u64) {
        if self.spans.len() >= SPANS_MAX {
            self.spans.pop_front();
        }
        self.spans.push_back(Span {
            after,
            last,
            began: now,
            bytes,
            packets: 1,
        });
    }

    /// Measures over the round trip that has ended a span ago: until now packets may have been overtaken.
    fn measure(&mut self, now: Instant, round_trip: Duration) -> bool {
        let Some(newest) = self.spans.back().copied() else {
            return false;
        };
        let (mut bytes, mut packets) = (0, 0);
        for span in self.spans.iter().rev().skip(1) {
            bytes += span.bytes;
            packets += span.packets;
            let elapsed = newest.began.since(span.began);
            if elapsed < round_trip.max(SPAN_MIN * SPANS) {
                continue;
            }
            let rate = u128::from(bytes) * 1_000_000_000 / u128::from(nanoseconds(elapsed).max(1));
            let expected = newest.after - span.after;
            self.sample = Sample {
                rate: u64::try_from(rate).unwrap_or(u64::MAX).max(1),
                last: newest.after,
                packets: u32::try_from(expected).unwrap_or(u32::MAX),
                lost: u32::try_from(expected.saturating_sub(packets)).unwrap_or(u32::MAX),
            };
            if now.since(self.round_began) >= round_trip {
                self.round_began = now;
                self.round = (self.round + 1) % ROUNDS;
                self.rounds[self.round] = 0;
            }
            let highest = &mut self.rounds[self.round];
            *highest = self.sample.rate.max(*highest);
            return true;
        }
        false
    }

    /// A packet that was thought missing has come.
    fn overtaken(&mut self, sequence: u64, bytes: u64) {
        let mut spans = self.spans.iter_mut().rev();
        if let Some(span) = spans.find(|it| it.after < sequence && sequence <= it.last) {
            span.bytes += bytes;
            span.packets += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(20);
    const TRIP_US: u32 = 20_000;

    /// Packets of 1000 bytes with headers, in this order, one each millisecond.
    fn fed(sequences: impl Iterator<Item = u64>) -> Gauge {
        let mut gauge = Gauge::new(5, Instant(0));
        for (at, sequence) in sequences.enumerate() {
            gauge.arrived(Instant(at as u64 * 1_000_000), sequence, 972, TRIP);
        }
        gauge
    }

    /// R-RELAY-13.
    #[test]
    fn what_comes_in_a_round_trip_is_its_rate() {
        assert_eq!(Gauge::new(5, Instant(0)).limit(TRIP_US, 1).rate, 0);
        let limit = fed(1..=200).limit(TRIP_US, 15_000);
        assert_eq!((limit.receiver, limit.lost), (5, 0));
        assert_eq!((limit.rate, limit.received), (1_000_000, 1_000_000));
        assert_eq!((limit.highest, limit.packets), (200, 20));
        assert!((5..=10).contains(&limit.behind), "{}", limit.behind);
        assert_eq!((limit.round_trip_us, limit.least_us), (TRIP_US, 15_000));
    }

    /// R-RELAY-13.
    #[test]
    fn packets_that_do_not_come_are_lost_and_those_that_come_late_are_not() {
        let limit = fed((1..=300).filter(|it| it % 10 != 5)).limit(TRIP_US, TRIP_US);
        assert!((20..=24).contains(&limit.packets), "{}", limit.packets);
        assert!((2..=3).contains(&limit.lost), "{}", limit.lost);
        // Each second packet is overtaken by two.
        let swapped = (1..=300).map(|it| match it % 3 {
            0 => it - 2,
            _ => it + 1,
        });
        assert_eq!(fed(swapped).limit(TRIP_US, TRIP_US).lost, 0);
    }

    #[test]
    fn the_highest_rate_of_ten_round_trips_is_kept() {
        let mut gauge = fed(1..=200);
        let half = |gauge: &mut Gauge, packets: core::ops::Range<u64>| {
            for at in packets {
                gauge.arrived(Instant((200 + at * 2) * 1_000_000), 200 + at, 972, TRIP);
            }
        };
        half(&mut gauge, 1..60);
        let limit = gauge.limit(TRIP_US, TRIP_US);
        assert_eq!((limit.rate, limit.received), (1_000_000, 500_000));
        half(&mut gauge, 60..200);
        assert_eq!(gauge.limit(TRIP_US, TRIP_US).rate, 500_000);
    }

    /// R-RELAY-80.
    #[test]
    fn codepoints_are_counted_also_beyond_the_highest_number() {
        let mut gauge = fed(1..=200);
        gauge.capable = u32::MAX;
        for codepoint in [
            Codepoint::NotCapable,
            Codepoint::Capable,
            Codepoint::Capable,
            Codepoint::Marked,
        ] {
            gauge.came_as(codepoint);
        }
        let limit = gauge.limit(TRIP_US, TRIP_US);
        assert_eq!((limit.capable, limit.marked), (2, 1));
    }

    #[test]
    fn a_leap_beyond_any_window_begins_anew() {
        let mut gauge = fed(1..=200);
        let far = u64::MAX / 2;
        for at in 0..10 {
            assert!(!gauge.arrived(Instant((200 + at) * 1_000_000), far + at, 972, TRIP));
        }
        assert_eq!(gauge.limit(TRIP_US, TRIP_US).lost, 0);
    }
}
