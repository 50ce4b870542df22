//! Rate of a source: that of its slowest receiver (RFC 4654, section 3).

use core::time::Duration;

use qsm_wire::{Instant, nanoseconds};

use crate::packet::Limit;
use crate::reporter::Tempo;

/// Packets in the first round trip (RFC 5348, 4.2).
const FIRST_PACKETS: u64 = 4;
/// Round trips without feedback after which the rate is halved.
const SILENT_TRIPS: u32 = 10;
/// Shortest such time.
const SILENCE_MIN: Duration = Duration::from_millis(500);
/// What a source may be behind, so that a late timer costs nothing (RFC 5348, 4.6).
const BURST: Duration = Duration::from_millis(2);
/// Shortest round trip that the growth of the rate goes by.
const TRIP_MIN_US: u32 = 100;
/// Bytes of the headers of IP and UDP, which the network counts too.
const OVERHEAD_BYTES: u64 = 28;

/// Bounds of a source's rate, bytes a second with the headers of IP and UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateBounds {
    /// It sends so fast whatever is lost: 1 at least.
    pub min: u64,
    /// It sends no faster whatever receivers can take.
    pub max: u64,
}

impl Default for RateBounds {
    /// From a packet of 1500 bytes each second up, without an end.
    fn default() -> Self {
        Self {
            min: 1500,
            max: u64::MAX,
        }
    }
}

/// Pace of a source. Rules R-RELAY-17, R-RELAY-18.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    bounds: RateBounds,
    rate: u64,
    /// Nobody has lost anything yet.
    slow_start: bool,
    /// The slowest receiver, by its last word.
    limit: Limit,
    /// When the rate was raised last, or could have been.
    raised: Instant,
    heard: Instant,
    /// Something was sent since.
    sent: bool,
    /// Smoothed size of a packet, eighths of a byte.
    size: u64,
    /// When the next packet may go.
    next: Instant,
}

impl Pace {
    pub(crate) fn new(bounds: RateBounds) -> Self {
        Self {
            bounds,
            rate: bounds.min.max(1),
            slow_start: true,
            limit: Limit::default(),
            raised: Instant(0),
            heard: Instant(0),
            sent: false,
            size: 0,
            next: Instant(0),
        }
    }

    /// The rate, and whom it goes by.
    pub(crate) fn tempo(&self) -> Tempo {
        Tempo {
            limiting: self.limit.receiver,
            rate: self.rate,
        }
    }

    /// The slowest receiver, by its last word.
    pub(crate) fn limit(&self) -> Limit {
        self.limit
    }

    /// When the next packet may be sent.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Time between two packets.
    pub(crate) fn gap(&self) -> Duration {
        let gap = u128::from(self.size / 8) * 1_000_000_000 / u128::from(self.rate);
        Duration::from_nanos(u64::try_from(gap).unwrap_or(u64::MAX))
    }

    /// A packet of so many bytes is sent now.
    pub(crate) fn sent(&mut self, now: Instant, bytes: usize) {
        let bytes = bytes as u64 + OVERHEAD_BYTES;
        self.size = match self.size {
            0 => bytes * 8,
            size => size - size / 8 + bytes,
        };
        if !self.sent {
            self.heard = self.heard.max(now);
            self.sent = true;
        }
        let earliest = Instant(now.0.saturating_sub(nanoseconds(BURST)));
        let cost = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        self.next = Instant(self.next.max(earliest).0.saturating_add(cost));
    }

    /// The slowest receiver's limit, from the children's newest words.
    pub(crate) fn heard(&mut self, now: Instant, limit: Limit) {
        (self.heard, self.sent) = (now, false);
        if self.limit.rate == 0 {
            let trip = u64::from(limit.round_trip_us.max(TRIP_MIN_US));
            let first = FIRST_PACKETS * self.packet_bytes() * 1_000_000 / trip;
            self.rate = self.rate.max(first);
            self.raised = now;
        }
        self.limit = limit;
        let rate = match limit.loss_ppb {
            0 if self.slow_start => limit.rate.clamp(self.rate, self.rate.saturating_mul(2)),
            // Who loses nothing may be faster, and is not overtaxed.
            0 => limit.rate.clamp(self.rate, self.grown(now)),
            _ => limit.rate.min(self.grown(now)),
        };
        if limit.loss_ppb > 0 {
            self.slow_start = false;
        }
        self.raised = now;
        self.rate = rate.clamp(self.bounds.min.max(1), self.bounds.max.max(1));
        self.keep_waiting_bounded(now);
    }

    /// A round trip to the source is known now, and nothing else: the first packets may go.
    pub(crate) fn measured(&mut self, now: Instant, round_trip_us: u32) {
        if self.limit.rate == 0 && round_trip_us > 0 {
            let trip = u64::from(round_trip_us.max(TRIP_MIN_US));
            let first = FIRST_PACKETS * self.packet_bytes() * 1_000_000 / trip;
            self.rate = first.clamp(self.bounds.min.max(1), self.bounds.max.max(1));
            self.raised = now;
            self.keep_waiting_bounded(now);
        }
    }

    /// When silence of all children would halve the rate.
    pub(crate) fn silence_due(&self) -> Instant {
        if self.sent && self.limit.rate > 0 {
            self.heard.after(self.patience())
        } else {
            Instant::NEVER
        }
    }

    /// Halves the rate if nobody has said anything for too long (RFC 5348, 4.4).
    pub(crate) fn look(&mut self, now: Instant) {
        if now >= self.silence_due() {
            self.rate = (self.rate / 2).max(self.bounds.min.max(1));
            (self.heard, self.raised) = (now, now);
            self.keep_waiting_bounded(now);
        }
    }

    /// The rate as far as it may have grown since: by one packet a round trip, each round trip.
    fn grown(&self, now: Instant) -> u64 {
        let trip = u128::from(self.limit.round_trip_us.max(TRIP_MIN_US));
        let elapsed = u128::from(nanoseconds(now.since(self.raised)) / 1000);
        let more = u128::from(self.packet_bytes()) * elapsed * 1_000_000 / (trip * trip);
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        self.rate.saturating_add(more)
    }

    fn packet_bytes(&self) -> u64 {
        match self.size {
            0 => 1500,
            size => size / 8,
        }
    }

    fn patience(&self) -> Duration {
        let trip = Duration::from_micros(u64::from(self.limit.round_trip_us));
        (trip * SILENT_TRIPS).max(SILENCE_MIN)
    }

    /// A packet does not wait by a rate that was lower.
    fn keep_waiting_bounded(&mut self, now: Instant) {
        self.next = self.next.min(now.after(self.gap()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn limit(rate: u64, loss_ppb: u32) -> Limit {
        Limit {
            receiver: 7,
            rate,
            round_trip_us: 100_000,
            loss_ppb,
        }
    }

    /// A pace of 1000 bytes with headers, after its first feedback.
    fn pace() -> Pace {
        let mut pace = Pace::new(RateBounds::default());
        pace.sent(at(0), 972);
        pace.measured(at(0), 100_000);
        pace
    }

    /// R-RELAY-17.
    #[test]
    fn it_doubles_at_most_until_somebody_loses_something() {
        let mut pace = pace();
        assert_eq!(pace.tempo().rate, 40_000);
        pace.heard(at(100), limit(500_000, 0));
        assert_eq!(pace.tempo().rate, 80_000);
        pace.heard(at(200), limit(120_000, 0));
        assert_eq!(pace.tempo().rate, 120_000);
        pace.heard(at(300), limit(60_000, 0));
        assert_eq!(pace.tempo().rate, 120_000, "nothing is lost");
        pace.heard(at(400), limit(90_000, 5));
        assert_eq!((pace.tempo().rate, pace.tempo().limiting), (90_000, 7));
    }

    #[test]
    fn afterwards_it_falls_at_once_and_grows_by_a_packet_each_round_trip() {
        let mut pace = pace();
        pace.heard(at(100), limit(50_000, 5));
        pace.heard(at(200), limit(10_000, 5));
        assert_eq!(pace.tempo().rate, 10_000);
        pace.heard(at(300), limit(90_000, 5));
        assert_eq!(pace.tempo().rate, 20_000);
        pace.heard(at(350), limit(90_000, 0));
        assert_eq!(pace.tempo().rate, 25_000);
    }

    /// R-RELAY-18.
    #[test]
    fn silence_halves_it_again_and_again_down_to_its_bound() {
        let mut pace = pace();
        assert_eq!(pace.silence_due(), Instant::NEVER);
        pace.heard(at(100), limit(50_000, 5));
        pace.sent(at(200), 972);
        assert_eq!(pace.silence_due(), at(1200));
        pace.look(at(1200));
        assert_eq!(pace.tempo().rate, 20_000);
        for second in 2..20 {
            pace.look(at(200 + second * 1000));
        }
        assert_eq!(pace.tempo().rate, 1500);
    }

    #[test]
    fn packets_go_at_the_rate_and_at_most_a_little_is_caught_up() {
        let mut pace = Pace::new(RateBounds {
            min: 1_000_000,
            max: 1_000_000,
        });
        for sent in 0..5 {
            pace.sent(at(50), 972);
            assert_eq!(pace.next(), at(48 + sent + 1));
        }
        assert_eq!(pace.gap(), Duration::from_millis(1));
        pace.sent(at(500), 972);
        assert_eq!(pace.next(), at(499));
    }
}
