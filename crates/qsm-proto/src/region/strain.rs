//! Who holds a region (R-RATE-6): a member whose host has more to read than it can says so, and a
//! sender that has more to send than it may. Each second, for as long as it lasts; the membership
//! service sees which member it is because of.

use core::time::Duration;

use qsm_wire::membership::Strain;

use super::RegionCx;
use crate::Instant;

/// Time of which a word speaks.
const WORD: Duration = Duration::from_secs(1);
/// Time without a round after which what was before is not spoken of.
const FORGOTTEN: Duration = Duration::from_secs(3);
/// Share of that time from which on there is something to say, percent.
const WORTH_SAYING: u8 = 50;

/// What the present second has shown so far.
#[derive(Debug, Default)]
pub(super) struct StrainMeter {
    began: Option<Instant>,
    /// Time of [`Backlog`](crate::node::Backlog) before it.
    waited: Duration,
    /// Rounds whose result has come to this node as a sender.
    rounds: u32,
    /// Of those, in which it had more to send than it might.
    held: u32,
}

impl StrainMeter {
    fn begin(&mut self, now: Instant, waited: Duration) {
        *self = Self {
            began: Some(now),
            waited,
            ..Self::default()
        };
    }

    /// Notes the end of a round: how long this node has been behind in all, and, if it is a sender,
    /// whether it had more to send than it might. Returns the shares of the second that is over in
    /// which it was behind and held, percent, if they are worth saying.
    fn note(&mut self, now: Instant, waited: Duration, held: Option<bool>) -> Option<Strain> {
        if let Some(held) = held {
            self.rounds += 1;
            self.held += u32::from(held);
        }
        let time = self.began.map(|began| now.since(began));
        match time {
            Some(time) if time < WORD => None,
            Some(time) if time < FORGOTTEN => {
                let behind = waited.saturating_sub(self.waited).as_micros();
                let behind = percent(behind, time.as_micros());
                let held = percent(self.held.into(), self.rounds.into());
                self.begin(now, waited);
                (behind.max(held) >= WORTH_SAYING).then_some(Strain { behind, held })
            }
            _ => {
                self.begin(now, waited);
                None
            }
        }
    }
}

fn percent(part: u128, whole: u128) -> u8 {
    let share = (part * 100).checked_div(whole).unwrap_or(0);
    u8::try_from(share.min(100)).unwrap_or(100)
}

impl RegionCx<'_> {
    /// Notes that a round has come by, and tells the membership service what it is time to tell.
    /// Rule R-RATE-6.
    pub(super) fn note_strain(&mut self, held: Option<bool>) {
        let now = self.node.now;
        let waited = self.node.backlog.total(now);
        let word = self.region.strain.note(now, waited, held);
        if let Some(strain) = word.filter(|_| self.region.absence.is_none()) {
            let region = self.region.id();
            self.node.stats.strained += 1;
            let outbox = &mut self.node.outbox;
            self.membership.strained(now, region, strain, outbox);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// Rounds every 100 ms for so long, of each of which the node is behind for so long.
    fn words(rounds: u64, behind_ms: u64, held: Option<bool>) -> Vec<[u8; 2]> {
        let mut strain = StrainMeter::default();
        let round = |number| {
            let waited = Duration::from_millis(behind_ms * number);
            strain.note(at(1000 + 100 * number), waited, held)
        };
        let words = (0..rounds).filter_map(round);
        words.map(|word| [word.behind, word.held]).collect()
    }

    #[test]
    fn who_is_behind_or_held_says_so_each_second_and_others_say_nothing() {
        assert_eq!(words(31, 95, None), [[95, 0]; 3]);
        assert_eq!(words(31, 0, Some(true)), [[0, 100]; 3]);
        assert_eq!(words(31, 49, Some(false)), [[0; 2]; 0]);
    }

    #[test]
    fn what_was_before_a_long_rest_is_not_spoken_of() {
        let mut strain = StrainMeter::default();
        assert_eq!(strain.note(at(0), Duration::ZERO, None), None);
        let behind = Duration::from_secs(9);
        assert_eq!(strain.note(at(10_000), behind, None), None);
        assert_eq!(strain.note(at(11_000), behind, None), None);
    }
}
