//! Measures of a receiver: what it gets, what it loses, and the rate that it could take.

use core::time::Duration;

use qsm_wire::{Instant, nanoseconds};

use crate::equation::{ALL_LOST, loss_at, tcp_rate};
use crate::losses::Losses;
use crate::packet::Limit;

/// Shortest time over which a rate is measured.
const SPAN_MIN: Duration = Duration::from_millis(5);
/// Packets in which a rate is measured at least, unless they come too slowly.
const PACKETS_MIN: u32 = 4;
/// Bytes of the headers of IP and UDP, which the network counts too.
const OVERHEAD_BYTES: u64 = 28;

/// The way from a source, as far as its receiver knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) round_trip_us: u32,
    /// Rate of the source, bytes a second.
    pub(crate) rate: u64,
}

/// Gauge of what comes to a receiver. Rules R-RELAY-13, R-RELAY-14.
#[derive(Debug, Clone)]
pub(crate) struct Gauge {
    receiver: u64,
    losses: Losses,
    /// Smoothed size of a packet, eighths of a byte.
    size: u64,
    /// What has come since then.
    since: Instant,
    bytes: u64,
    packets: u32,
    /// Bytes a second, measured last; 0: not yet.
    received: u64,
    arrived: Instant,
}

impl Gauge {
    pub(crate) fn new(receiver: u64, now: Instant) -> Self {
        Self {
            receiver,
            losses: Losses::new(),
            size: 0,
            since: now,
            bytes: 0,
            packets: 0,
            received: 0,
            arrived: now,
        }
    }

    /// Takes note of a packet that came for the first time; true if it shows a loss event.
    pub(crate) fn arrived(
        &mut self,
        now: Instant,
        sequence: u64,
        bytes: usize,
        path: Path,
    ) -> bool {
        let round_trip_us = path.round_trip_us;
        let round_trip = Duration::from_micros(u64::from(round_trip_us));
        let bytes = bytes as u64 + OVERHEAD_BYTES;
        self.size = match self.size {
            0 => bytes * 8,
            size => size - size / 8 + bytes,
        };
        let span = round_trip.max(SPAN_MIN);
        if self.received > 0 && now.since(self.arrived) > span * 8 {
            // The source was silent: that is no rate.
            (self.since, self.bytes, self.packets) = (now, 0, 0);
        } else {
            self.bytes += bytes;
            self.packets += 1;
        }
        self.arrived = now;
        let elapsed = now.since(self.since);
        let enough = self.packets >= PACKETS_MIN || elapsed >= span * 4;
        if elapsed >= span && enough {
            let elapsed = u128::from(nanoseconds(elapsed).max(1));
            let rate = u128::from(self.bytes) * 1_000_000_000 / elapsed;
            self.received = u64::try_from(rate).unwrap_or(u64::MAX);
            (self.since, self.bytes, self.packets) = (now, 0, 0);
        }
        let before = self.losses.any();
        let news = self.losses.arrived(now, sequence, round_trip);
        if news && !before {
            self.begin(path);
        }
        news
    }

    /// The rate that this receiver can take, with the round trip to its source, once known.
    pub(crate) fn limit(&self, round_trip_us: u32) -> Limit {
        let loss_ppb = self.losses.rate_ppb();
        let rate = match loss_ppb {
            0 => self.received.saturating_mul(2),
            _ => tcp_rate(self.size / 8, round_trip_us, loss_ppb).max(1),
        };
        Limit {
            receiver: self.receiver,
            rate,
            round_trip_us,
            loss_ppb,
        }
    }

    /// At the first loss the source has gone too far: half of what came is taken for what TCP would
    /// have sent (RFC 5348, 6.3.1).
    fn begin(&mut self, path: Path) {
        let rate = match self.received {
            0 => path.rate,
            received => received,
        };
        let loss = loss_at(self.size / 8, path.round_trip_us, rate / 2);
        self.losses.begin(u64::from(ALL_LOST / loss.max(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP_US: u32 = 20_000;
    const PATH: Path = Path {
        round_trip_us: TRIP_US,
        rate: 1_000_000,
    };

    /// Packets of 1000 bytes with headers, one each millisecond, from the first of these numbers on.
    fn feed(gauge: &mut Gauge, sequences: impl Iterator<Item = u64>) {
        for sequence in sequences {
            gauge.arrived(Instant(sequence * 1_000_000), sequence, 972, PATH);
        }
    }

    /// R-RELAY-14.
    #[test]
    fn without_losses_a_receiver_can_take_twice_what_it_gets() {
        let mut gauge = Gauge::new(5, Instant(0));
        assert_eq!(gauge.limit(TRIP_US).rate, 0);
        feed(&mut gauge, 1..=200);
        let limit = gauge.limit(TRIP_US);
        assert_eq!((limit.receiver, limit.loss_ppb), (5, 0));
        assert_eq!(limit.rate, 2_000_000);
    }

    #[test]
    fn the_first_loss_halves_what_came() {
        let mut gauge = Gauge::new(5, Instant(0));
        feed(&mut gauge, (1..=300).filter(|it| *it != 295));
        let rate = gauge.limit(TRIP_US).rate;
        assert!((480_000..520_000).contains(&rate), "{rate}");
    }

    #[test]
    fn a_loss_before_anything_is_measured_halves_the_rate_of_the_source() {
        let mut gauge = Gauge::new(5, Instant(0));
        feed(&mut gauge, [1, 3, 4, 5, 6].into_iter());
        let rate = gauge.limit(TRIP_US).rate;
        assert!((480_000..520_000).contains(&rate), "{rate}");
    }

    #[test]
    fn a_silent_source_does_not_lower_the_rate() {
        let mut gauge = Gauge::new(5, Instant(0));
        feed(&mut gauge, 1..=200);
        let later = Instant(60_000_000_000);
        gauge.arrived(later, 201, 972, PATH);
        assert_eq!(gauge.limit(TRIP_US).rate, 2_000_000);
    }
}
