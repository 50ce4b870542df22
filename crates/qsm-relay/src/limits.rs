//! Limits that the children of a source or relay have told of.

use core::time::Duration;

use qsm_wire::Instant;

use crate::packet::{Feedback, Limit};

/// Age at which a limit does not count any more: its receiver may be gone.
const LIFETIME: Duration = Duration::from_secs(3);
/// Round trips after which a receiver's limit is old if it has lost nothing: what it received then says
/// nothing about a rate that has grown since.
const FRESH_TRIPS: u32 = 4;
/// Shortest time for which such a limit is not old.
const FRESH_MIN: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy)]
struct Told {
    place: usize,
    limit: Limit,
    hop_us: u32,
    at: Instant,
}

/// The newest limit of each child. It takes memory only while children tell something.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    told: Vec<Told>,
}

impl Limits {
    /// Takes a child's word.
    pub(crate) fn tell(&mut self, now: Instant, place: usize, feedback: &Feedback) {
        let told = Told {
            place,
            limit: feedback.limit,
            hop_us: feedback.hop_us,
            at: now,
        };
        match self.told.iter_mut().find(|told| told.place == place) {
            Some(before) => *before = told,
            None => self.told.push(told),
        }
    }

    /// Forgets a child that is gone.
    pub(crate) fn forget(&mut self, place: usize) {
        self.told.retain(|told| told.place != place);
        if self.told.is_empty() {
            self.told = Vec::new();
        }
    }

    /// The lowest limit: of receivers that lose, else of those that have told something just now, else
    /// the newest. Rule R-RELAY-15.
    pub(crate) fn lowest(&self, now: Instant) -> Option<Limit> {
        let live = |told: &&Told| told.limit.rate > 0 && now.since(told.at) <= LIFETIME;
        let counts = |told: &&Told| {
            let trips = Duration::from_micros(u64::from(told.limit.round_trip_us)) * FRESH_TRIPS;
            told.limit.loss_ppb > 0 || now.since(told.at) <= trips.max(FRESH_MIN)
        };
        let told = self.told.iter().filter(live);
        let lowest = told
            .clone()
            .filter(counts)
            .min_by_key(|told| told.limit.rate);
        let chosen = lowest.or_else(|| told.max_by_key(|told| told.at));
        chosen.map(|told| told.limit)
    }

    /// Longest round trip of a receiver to the source, microseconds; 0: not known.
    pub(crate) fn round_trip_us(&self) -> u32 {
        let trips = self.told.iter().map(|told| told.limit.round_trip_us);
        trips.max().unwrap_or(0)
    }

    /// Longest round trip to a child, as children have measured it, microseconds; 0: not known.
    pub(crate) fn hop_us(&self) -> u32 {
        let hops = self.told.iter().map(|told| told.hop_us);
        hops.max().unwrap_or(0)
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.told.capacity() * size_of::<Told>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feedback(receiver: u64, rate: u64, loss_ppb: u32) -> Feedback {
        Feedback {
            child: receiver,
            sent: 0,
            hop_us: 500,
            limit: Limit {
                receiver,
                rate,
                round_trip_us: 10_000,
                loss_ppb,
            },
        }
    }

    fn lowest(limits: &Limits, ms: u64) -> Option<u64> {
        let now = Instant(ms * 1_000_000);
        limits.lowest(now).map(|limit| limit.receiver)
    }

    /// R-RELAY-15.
    #[test]
    fn the_lowest_limit_counts_until_its_child_is_gone() {
        let mut limits = Limits::default();
        assert_eq!(lowest(&limits, 0), None);
        limits.tell(Instant(0), 3, &feedback(30, 500, 9));
        limits.tell(Instant(0), 1, &feedback(10, 400, 9));
        limits.tell(Instant(0), 2, &feedback(20, 0, 0));
        assert_eq!(lowest(&limits, 1), Some(10));
        limits.forget(1);
        assert_eq!(lowest(&limits, 1), Some(30));
        assert_eq!(lowest(&limits, 4000), None, "it is old");
    }

    #[test]
    fn a_receiver_without_losses_limits_by_what_it_gets_now() {
        let mut limits = Limits::default();
        limits.tell(Instant(0), 1, &feedback(10, 400, 0));
        limits.tell(Instant(50_000_000), 2, &feedback(20, 900, 0));
        assert_eq!(lowest(&limits, 51), Some(20));
        assert_eq!(lowest(&limits, 1000), Some(20), "the newest of old ones");
    }
}
