//! Limits that the children of a source or relay have told of.

use core::time::Duration;

use qsm_wire::Instant;

use crate::packet::{Feedback, Limit};

/// Round trips after which the slowest child's word is old: it reports some times in each.
const FRESH_TRIPS: u32 = 4;
/// Shortest time for which it is not.
const FRESH_MIN: Duration = Duration::from_millis(50);
/// Share of packets that may be lost in a round trip before that counts as heavy: one of so many.
const LOSS_SHARE: u32 = 50;
/// Packets that may be lost besides.
const LOSSES_SPARED: u32 = 2;

impl Limit {
    /// More of the sample is lost than 2 % and what chance adds to that.
    pub(crate) fn is_overloaded(&self) -> bool {
        let share = self.packets / LOSS_SHARE;
        let chance = share.isqrt().saturating_mul(2);
        self.lost > share.saturating_add(chance).saturating_add(LOSSES_SPARED)
    }

    /// It gets less than this rate by more than errors explain.
    pub(crate) fn is_below(&self, rate: u64) -> bool {
        self.rate > 0 && self.rate < rate - rate / 16
    }
}

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
    /// Place of the slowest child.
    slowest: Option<usize>,
}

impl Limits {
    /// Takes a child's word. It is the slowest one from now on if it is below the present one by more than errors
    /// explain, or that one's word is old. Only what is told now is compared with: of a stream that becomes faster
    /// what was told before is less. Rule R-RELAY-15.
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
        let limit = feedback.limit;
        let stays = self.present().is_some_and(|slowest| {
            let trips = Duration::from_micros(u64::from(slowest.limit.round_trip_us)) * FRESH_TRIPS;
            let fresh = now.since(slowest.at) <= trips.max(FRESH_MIN);
            fresh && !limit.is_below(slowest.limit.rate)
        });
        if limit.rate > 0 && !stays {
            self.slowest = Some(place);
        }
    }

    /// Forgets a child that is gone.
    pub(crate) fn forget(&mut self, place: usize) {
        self.told.retain(|told| told.place != place);
        if self.told.is_empty() {
            self.told = Vec::new();
        }
    }

    /// The limit of the slowest child; of the one that has told something last, if that one is gone.
    pub(crate) fn lowest(&self) -> Option<Limit> {
        let measured = self.told.iter().filter(|told| told.limit.rate > 0);
        let newest = || measured.max_by_key(|told| told.at);
        self.present().or_else(newest).map(|told| told.limit)
    }

    fn present(&self) -> Option<&Told> {
        let mut told = self.told.iter();
        told.find(|told| Some(told.place) == self.slowest && told.limit.rate > 0)
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

    /// Round trip to this child, as it has measured it, microseconds; 0: not known.
    pub(crate) fn trip_us(&self, place: usize) -> u32 {
        let mut told = self.told.iter();
        let told = told.find(|told| told.place == place);
        told.map_or(0, |told| told.hop_us)
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.told.capacity() * size_of::<Told>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feedback(receiver: u64, rate: u64) -> Feedback {
        Feedback {
            child: receiver,
            sent: 0,
            hop_us: 500,
            limit: Limit {
                receiver,
                rate,
                round_trip_us: 20_000,
                ..Limit::default()
            },
        }
    }

    fn tell(limits: &mut Limits, ms: u64, place: usize, receiver: u64, rate: u64) -> Option<u64> {
        let now = Instant(ms * 1_000_000);
        limits.tell(now, place, &feedback(receiver, rate));
        limits.lowest().map(|limit| limit.receiver)
    }

    /// R-RELAY-15.
    #[test]
    fn the_slowest_child_counts_until_its_word_is_old_or_it_is_gone() {
        let mut limits = Limits::default();
        assert_eq!(tell(&mut limits, 0, 2, 20, 0), None);
        assert_eq!(tell(&mut limits, 0, 3, 30, 500), Some(30));
        assert_eq!(tell(&mut limits, 1, 1, 10, 400), Some(10));
        assert_eq!(tell(&mut limits, 80, 3, 30, 900), Some(10));
        assert_eq!(tell(&mut limits, 82, 3, 30, 900), Some(30));
        assert_eq!(tell(&mut limits, 83, 2, 20, 800), Some(20));
        limits.forget(2);
        assert_eq!(limits.lowest().map(|limit| limit.receiver), Some(30));
        assert_eq!(tell(&mut limits, 84, 1, 10, 5000), Some(10));
    }

    /// R-RELAY-15.
    #[test]
    fn another_one_takes_the_place_of_the_slowest_only_if_it_is_clearly_below() {
        let mut limits = Limits::default();
        assert_eq!(tell(&mut limits, 0, 1, 10, 500), Some(10));
        assert_eq!(tell(&mut limits, 0, 2, 20, 500), Some(10));
        assert_eq!(
            tell(&mut limits, 1, 1, 10, 1000),
            Some(10),
            "500 was before"
        );
        assert_eq!(tell(&mut limits, 1, 2, 20, 950), Some(10));
        assert_eq!(tell(&mut limits, 1, 2, 20, 930), Some(20));
    }

    /// R-RELAY-14.
    #[test]
    fn losses_are_heavy_where_chance_does_not_explain_them() {
        let heavy = |lost, packets| {
            let limit = Limit {
                lost,
                packets,
                ..Limit::default()
            };
            limit.is_overloaded()
        };
        // 1 % lost at random has 10 in 1000, and hardly ever more than 20.
        for (packets, most) in [(0, 2), (10, 2), (100, 6), (1000, 30), (10_000, 230)] {
            assert!(!heavy(most, packets), "{most} of {packets}");
            assert!(heavy(most + 1, packets), "{most} of {packets}, and one");
        }
    }
}
