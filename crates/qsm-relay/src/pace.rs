//! Pace of a source: when the next packet may go.

use core::time::Duration;

use qsm_wire::{Instant, nanoseconds};

use crate::departures::Departures;
use crate::model::{Model, PACKETS_FIRST, per_second};
use crate::packet::Limit;
use crate::reporter::Tempo;

/// Round trips without feedback after which the rate is halved.
const SILENT_TRIPS: u32 = 10;
/// Shortest such time.
const SILENCE_MIN: Duration = Duration::from_millis(500);
/// Part of the rate at which the source goes on when it has sent more than is usual without a report.
const SLOWER: u64 = 4;
/// Most times that it is halved.
const HALVINGS_MAX: u32 = 16;
/// Bounds of what a source may be behind, so that a late timer costs nothing: an eighth of a round trip.
const BURST_MIN: Duration = Duration::from_millis(2);
const BURST_MAX: Duration = Duration::from_millis(10);
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
    model: Model,
    departures: Departures,
    /// Bytes that may go at this rate before more is heard.
    room: u64,
    heard: Instant,
    /// Something was sent since.
    sent: bool,
    /// Times that silence has halved the rate since.
    halvings: u32,
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
            model: Model::new(),
            departures: Departures::default(),
            room: u64::MAX,
            heard: Instant(0),
            sent: false,
            halvings: 0,
            size: 0,
            next: Instant(0),
        }
    }

    /// The slowest receiver, and what it gets.
    pub(crate) fn tempo(&self) -> Tempo {
        let Limit { receiver, rate, .. } = self.model.limit();
        Tempo {
            limiting: receiver,
            rate,
        }
    }

    /// Bytes a second.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// The way to the slowest receiver.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Has packets marked by queues from now on.
    pub(crate) fn want_marks(&mut self) {
        self.model.want_marks();
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

    /// A packet or repair of so many bytes is sent now. `highest`: the newest packet that was sent, this one
    /// included.
    pub(crate) fn sent(&mut self, now: Instant, highest: u64, bytes: usize) {
        let bytes = bytes as u64 + OVERHEAD_BYTES;
        self.size = match self.size {
            0 => bytes * 8,
            size => size - size / 8 + bytes,
        };
        if !self.sent {
            self.heard = self.heard.max(now);
            self.sent = true;
        }
        self.departures.sent(now, highest, bytes, self.round_trip());
        self.spend(now, bytes);
    }

    /// A parity of so many bytes is sent now: beside data, which alone is told of by receivers.
    pub(crate) fn sent_parity(&mut self, now: Instant, bytes: usize) {
        let bytes = bytes as u64 + OVERHEAD_BYTES;
        self.departures.sent_parity(bytes);
        self.spend(now, bytes);
    }

    /// So many bytes take their time.
    fn spend(&mut self, now: Instant, bytes: u64) {
        let trip = self.round_trip();
        let burst = (trip / 8).clamp(BURST_MIN, BURST_MAX);
        let earliest = Instant(now.0.saturating_sub(nanoseconds(burst)));
        let cost = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        self.next = Instant(self.next.max(earliest).0.saturating_add(cost));
        let room = self.room.saturating_sub(bytes);
        if room == 0 && self.room > 0 {
            let least = self.model.least_rate(self.packet_bytes());
            self.adopt(now, (self.rate / SLOWER).max(least));
        }
        self.room = room;
    }

    /// There was nothing to send until now.
    pub(crate) fn rested(&mut self, now: Instant) {
        if self.next <= now {
            self.departures.idle();
        }
    }

    /// The slowest receiver's word.
    pub(crate) fn heard(&mut self, now: Instant, limit: Limit) {
        self.heard_something(now);
        let packet = self.packet_bytes();
        self.model.heard(now, limit, &self.departures, packet);
        self.room = self.model.room(packet);
        let rate = match self.model.rate(packet) {
            rate if self.room == 0 => rate / SLOWER,
            rate => rate,
        };
        let rate = rate.max(self.model.least_rate(packet));
        self.adopt(now, rate);
    }

    /// A round trip to the source is known now, and nothing else: the first packets may go.
    pub(crate) fn measured(&mut self, now: Instant, round_trip_us: u32) {
        if self.model.bandwidth() == 0 && round_trip_us > 0 {
            let first = PACKETS_FIRST * self.packet_bytes();
            self.adopt(now, per_second(first, round_trip_us));
        }
    }

    /// When silence of all children would halve the rate.
    pub(crate) fn silence_due(&self) -> Instant {
        if self.sent && self.model.bandwidth() > 0 && self.halvings < HALVINGS_MAX {
            self.heard.after(self.patience())
        } else {
            Instant::NEVER
        }
    }

    /// Halves the rate if nobody has said anything for too long. What is known of the way is kept for the next
    /// word.
    pub(crate) fn look(&mut self, now: Instant) {
        if now >= self.silence_due() {
            self.halvings += 1;
            self.heard = now;
            self.adopt(now, self.rate / 2);
        }
    }

    fn heard_something(&mut self, now: Instant) {
        (self.heard, self.sent, self.halvings) = (now, false, 0);
    }

    fn adopt(&mut self, now: Instant, rate: u64) {
        let RateBounds { min, max } = self.bounds;
        self.rate = rate.max(min).min(max).max(1);
        // A packet does not wait by a rate that was lower.
        self.next = self.next.min(now.after(self.gap()));
    }

    fn packet_bytes(&self) -> u64 {
        match self.size {
            0 => 1500,
            size => size / 8,
        }
    }

    fn round_trip(&self) -> Duration {
        Duration::from_micros(u64::from(self.model.limit().round_trip_us))
    }

    fn patience(&self) -> Duration {
        (self.round_trip() * SILENT_TRIPS).max(SILENCE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: usize = 972;
    const TRIP_US: u32 = 100_000;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// A sample of a round trip at this rate, up to this packet.
    fn limit(rate: u64, highest: u64) -> Limit {
        Limit {
            receiver: 7,
            rate,
            received: rate,
            highest,
            packets: 10,
            round_trip_us: TRIP_US,
            least_us: TRIP_US,
            ..Limit::default()
        }
    }

    /// A pace of 1000 bytes with headers, that has sent its first packets for a second.
    fn pace() -> Pace {
        let mut pace = Pace::new(RateBounds::default());
        pace.sent(at(0), 1, PACKET);
        pace.measured(at(0), TRIP_US);
        for highest in 2..100 {
            pace.sent(at(highest * 10), highest, PACKET);
        }
        pace
    }

    /// R-RELAY-17.
    #[test]
    fn it_begins_with_ten_packets_in_a_round_trip_and_grows_by_what_comes_through() {
        let mut pace = pace();
        assert_eq!(pace.rate(), 100_000);
        pace.heard(at(1000), limit(100_000, 95));
        assert_eq!((pace.rate(), pace.tempo().limiting), (277_000, 7));
    }

    /// R-RELAY-17: a receiver cannot get more than was sent.
    #[test]
    fn what_comes_in_clumps_is_no_higher_rate() {
        let mut pace = pace();
        pace.heard(at(1000), limit(900_000, 95));
        assert_eq!(pace.rate(), 277_000);
    }

    /// R-RELAY-17.
    #[test]
    fn without_news_it_goes_on_at_a_quarter() {
        let mut pace = pace();
        pace.heard(at(1000), limit(100_000, 99));
        let mut highest = 99;
        while pace.rate() == 277_000 {
            highest += 1;
            pace.sent(pace.next(), highest, PACKET);
        }
        // Five round trips' worth, and half of one. A quarter would be less than ten packets in a round trip.
        assert_eq!((pace.rate(), highest), (100_000, 99 + 55));
    }

    /// R-RELAY-18.
    #[test]
    fn silence_halves_it_again_and_again_and_the_next_word_ends_that() {
        let mut pace = pace();
        pace.heard(at(1000), limit(100_000, 99));
        assert_eq!(pace.silence_due(), Instant::NEVER);
        pace.sent(at(1200), 100, PACKET);
        assert_eq!(pace.silence_due(), at(2200));
        pace.look(at(2200));
        assert_eq!(pace.rate(), 138_500);
        for second in 3..30 {
            pace.look(at(200 + second * 1000));
        }
        assert_eq!(pace.rate(), 1500);
        pace.heard(at(60_000), limit(100_000, 100));
        assert_eq!(pace.rate(), 277_000);
    }

    #[test]
    fn packets_go_at_the_rate_and_at_most_a_little_is_caught_up() {
        let mut pace = Pace::new(RateBounds {
            min: 1_000_000,
            max: 1_000_000,
        });
        for sent in 0..5 {
            pace.sent(at(50), sent + 1, PACKET);
            assert_eq!(pace.next(), at(48 + sent + 1));
        }
        assert_eq!(pace.gap(), Duration::from_millis(1));
        pace.sent(at(500), 6, PACKET);
        assert_eq!(pace.next(), at(499));
    }
}
