//! The credit of a region, lent to its senders by what they use (R-RATE-11; algorithms (c) 4).
//!
//! ```text
//!  used in this term and the one before ── × 2 ──► demand ── max-min ──► lease ── ACK ──► window
//! ```
//!
//! The leader sees in each round how far streams go and how much of them has arrived, so senders need not
//! say what they need. A sender that its window holds uses all of it, and its demand is twice that: it gets
//! more in each round until its share is as large as that of others who want more. What a sender leaves
//! unused for a whole term goes to the others.
//!
//! Nothing of it has to survive. ACKs carry the lease as it is now, never how it changes, so a lost one takes
//! nothing for good; and a leader that has just begun knows of no use and divides equally.

use core::time::Duration;

use crate::Instant;
use crate::send::FIRST_WINDOW_BYTES;

/// Shortest term, and rounds that it has at least. It also is the longest round trip of a sender whose use
/// is seen in full: of one farther away less arrives in a term than its window is.
const TERM: Duration = Duration::from_millis(100);
const ROUNDS: u8 = 3;
/// A sender may double what it uses from one round to the next.
const GROWTH: u64 = 2;
/// No lease is smaller than this part of an equal share, if that is less than what a sender begins with:
/// who has sent little can send a burst without asking.
const RESERVE_SHARE: u32 = 2;

/// The use that one stream makes of its credit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lease {
    /// When this term began; `None` before the first round.
    began: Option<Instant>,
    rounds: u8,
    /// Highest packet that had arrived everywhere when this term began, and when the one before did.
    arrived: u64,
    before: Option<u64>,
    /// Highest packet seen.
    highest: u64,
}

impl Lease {
    /// A round has found that the stream goes up to `highest`, and that everybody has got `arrived`.
    pub(super) fn note(&mut self, now: Instant, highest: u64, arrived: u64) {
        self.highest = self.highest.max(highest);
        let arrived = arrived.min(self.highest);
        let Some(began) = self.began else {
            (self.began, self.arrived) = (Some(now), arrived);
            return;
        };
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds < ROUNDS || now.since(began) < TERM {
            return;
        }
        self.before = Some(self.arrived);
        (self.began, self.arrived, self.rounds) = (Some(now), arrived, 0);
    }

    /// Bytes that the stream can use, if its packets have this length; all there are before a term is over.
    pub(super) fn demand(&self, packet_bytes: usize) -> u32 {
        let Some(before) = self.before else {
            return u32::MAX;
        };
        let packets = self.highest.saturating_sub(before).saturating_mul(GROWTH);
        let bytes = packets.saturating_mul(packet_bytes as u64);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}

/// Division of the credit of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Division {
    /// The least that each gets.
    reserve: u32,
    /// The most that a demand brings.
    level: u32,
    /// Credit that nobody wants, which each gets besides.
    spare: u32,
}

impl Division {
    /// Divides the credit among senders with these demands: who wants less than an equal share gets that,
    /// and the others share the rest equally.
    pub(super) fn new(credit: u32, demands: &mut [u32]) -> Self {
        let count = u32::try_from(demands.len()).unwrap_or(u32::MAX).max(1);
        let begins = u32::try_from(FIRST_WINDOW_BYTES).unwrap_or(u32::MAX);
        let reserve = begins.min(credit / count / RESERVE_SHARE);
        demands.sort_unstable();
        let (mut left, mut others) = (credit, count);
        for demand in demands {
            let wanted = (*demand).max(reserve);
            let level = left / others;
            if wanted > level {
                return Self {
                    reserve,
                    level,
                    spare: 0,
                };
            }
            left -= wanted;
            others = others.saturating_sub(1).max(1);
        }
        Self {
            reserve,
            level: credit,
            spare: left / count,
        }
    }

    /// Credit of a sender with this demand. Rule R-RATE-11.
    pub(super) fn lease(&self, demand: u32) -> u32 {
        demand
            .max(self.reserve)
            .min(self.level)
            .saturating_add(self.spare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u32 = 1 << 10;

    fn leases<const N: usize>(credit: u32, demands: [u32; N]) -> [u32; N] {
        let division = Division::new(credit, &mut demands.clone());
        demands.map(|demand| division.lease(demand))
    }

    // Rule R-RATE-11.
    #[test]
    fn who_wants_less_leaves_the_rest_to_others_and_all_together_get_no_more_than_there_is() {
        assert_eq!(leases(900, [u32::MAX]), [900]);
        assert_eq!(leases(900, [u32::MAX; 3]), [300; 3]);
        // The reserve is half of an equal share.
        assert_eq!(leases(900, [0, u32::MAX, 10]), [150, 600, 150]);
        assert_eq!(leases(900, [200, u32::MAX, 500]), [200, 350, 350]);
        // What nobody wants is for all.
        assert_eq!(leases(900, [200, 150, 250]), [300, 250, 350]);
        assert_eq!(leases(1000 * KIB, [0, u32::MAX]), [64 * KIB, 936 * KIB]);
        for demands in [[0, 7, 400], [1, 299, 301], [450, 450, 0], [u32::MAX, 0, 0]] {
            let sum: u32 = leases(900, demands).iter().sum();
            assert!((898..=900).contains(&sum), "{demands:?}: {sum}");
        }
    }

    fn at(millis: u64) -> Instant {
        Instant(millis * 1_000_000)
    }

    #[test]
    fn a_stream_wants_twice_what_it_has_used_in_two_terms_and_everything_at_first() {
        let mut lease = Lease::default();
        for round in 0..=50 {
            lease.note(at(round), 10 * round, 10 * round);
        }
        assert_eq!(lease.demand(1000), u32::MAX);
        for round in 51..=100 {
            lease.note(at(round), 10 * round, 10 * round);
        }
        assert_eq!(lease.demand(1000), 2 * 1000 * 1000);
        // It has stopped: a term later nothing of that is left, if there are rounds at all.
        lease.note(at(250), 1000, 1000);
        assert_eq!(lease.demand(1000), 2 * 1000 * 1000);
        for round in 251..=400 {
            lease.note(at(round), 1000, 1000);
        }
        assert_eq!(lease.demand(1000), 0);
    }

    #[test]
    fn a_stream_that_waits_for_a_receiver_uses_what_it_has_under_way() {
        let mut lease = Lease::default();
        for round in 0..=1000 {
            lease.note(at(round), 30, 20);
        }
        assert_eq!(lease.demand(1000), 20_000);
    }
}
