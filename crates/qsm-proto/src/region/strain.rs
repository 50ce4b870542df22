//! Who holds a region (R-RATE-6): a member whose host has more to read than it can, or whose readers take
//! no more, says so, and a
//! sender that has more to send than it may. Each second, for as long as it lasts; the membership
//! service sees which member it is because of.

use core::time::Duration;

use qsm_wire::membership::Strain;

use super::RegionCx;
use crate::Instant;
use crate::send::SendStream;

/// Time of which a word speaks.
const WORD: Duration = Duration::from_secs(1);
/// Time without a look after which what was before is not spoken of.
const FORGOTTEN: Duration = Duration::from_secs(3);
/// Share of that time from which on there is something to say, percent.
const WORTH_SAYING: u8 = 50;

/// Findings of the present second so far.
#[derive(Debug, Default)]
pub(super) struct StrainMeter {
    began: Option<Instant>,
    /// When the sender was looked at last.
    seen: Instant,
    /// Time of [`Backlog`](crate::node::Backlog) before it.
    waited: Duration,
    /// Time at whose end the sender had more to send than it might.
    held: Duration,
}

impl StrainMeter {
    fn begin(&mut self, now: Instant, waited: Duration) {
        *self = Self {
            began: Some(now),
            seen: now,
            waited,
            held: Duration::ZERO,
        };
    }

    /// Notes a look: how long this node has been behind in all, and whether it has more to send than
    /// it may. Returns the shares of the second that is over in which it was behind and held,
    /// percent, if they are worth saying.
    fn note(&mut self, now: Instant, waited: Duration, held: bool) -> Option<Strain> {
        let since = now.since(self.seen);
        let Some(began) = self.began.filter(|_| since < FORGOTTEN) else {
            self.begin(now, waited);
            return None;
        };
        self.seen = now;
        if held {
            self.held += since;
        }
        let time = now.since(began);
        if time < WORD {
            return None;
        }
        let behind = percent(waited.saturating_sub(self.waited), time);
        let held = percent(self.held, time);
        self.begin(now, waited);
        (behind.max(held) >= WORTH_SAYING).then_some(Strain { behind, held })
    }
}

fn percent(part: Duration, whole: Duration) -> u8 {
    let share = (part.as_micros() * 100)
        .checked_div(whole.as_micros())
        .unwrap_or(0);
    u8::try_from(share.min(100)).unwrap_or(100)
}

impl RegionCx<'_> {
    /// Notes whether senders wait for this node's readers: they take no more, and much of what can be
    /// kept here is in use. Called where that may change.
    pub(crate) fn note_readers(&mut self) {
        let full = !self.node.cursors.full().is_none();
        let region = &mut *self.region;
        if !full && !region.readers.is_waiting() {
            return;
        }
        let mut streams = region.streams.values();
        let waits =
            self.node.store.is_filling() && streams.any(|stream| stream.waits_for_readers(full));
        region.readers.set(self.node.now, waits);
    }

    /// Looks at how this node keeps up, and tells the membership service what it is time to tell.
    /// Called at each timeout, and before what an ACK allows is sent. Rule R-RATE-6.
    pub(crate) fn note_strain(&mut self) {
        let now = self.node.now;
        let waited = self.node.backlog.total(now) + self.region.readers.total(now);
        let held = self.region.sender.as_ref().is_some_and(SendStream::is_held);
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

    /// A look every 100 ms, of which the node is behind for so long.
    fn words(looks: u64, behind_ms: u64, held: bool) -> Vec<[u8; 2]> {
        let mut strain = StrainMeter::default();
        let look = |number| {
            let waited = Duration::from_millis(behind_ms * number);
            strain.note(at(1000 + 100 * number), waited, held)
        };
        let words = (0..looks).filter_map(look);
        words.map(|word| [word.behind, word.held]).collect()
    }

    #[test]
    fn who_is_behind_or_held_says_so_each_second_and_others_say_nothing() {
        assert_eq!(words(31, 95, false), [[95, 0]; 3]);
        assert_eq!(words(31, 0, true), [[0, 100]; 3]);
        assert_eq!(words(31, 49, false), [[0; 2]; 0]);
    }

    #[test]
    fn many_looks_in_a_moment_weigh_no_more_than_one() {
        let mut strain = StrainMeter::default();
        strain.note(at(0), Duration::ZERO, false);
        strain.note(at(700), Duration::ZERO, true);
        for us in 1..=50 {
            let now = Instant(700_000_000 + us * 1000);
            assert_eq!(strain.note(now, Duration::ZERO, false), None);
        }
        let word = strain.note(at(1000), Duration::ZERO, false);
        assert_eq!(word.map(|word| word.held), Some(70));
    }

    #[test]
    fn what_was_before_a_long_rest_is_not_spoken_of() {
        let mut strain = StrainMeter::default();
        assert_eq!(strain.note(at(0), Duration::ZERO, true), None);
        let behind = Duration::from_secs(9);
        assert_eq!(strain.note(at(10_000), behind, true), None);
        assert_eq!(strain.note(at(11_000), behind, false), None);
    }
}
