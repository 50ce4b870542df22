use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_wire::{Origin, RegionId};

use super::history::History;
use crate::violation::Violation;

/// Longest time for which a sender's stream may stand still though nobody lies any more.
const HANG_MAX: Duration = Duration::from_secs(10);
/// Time in which what was sent before a member fell silent would have become stable.
const ROUNDS: Duration = Duration::from_secs(1);

/// A member that lies does no more to others than `PROTOCOL.md` says: no correct node delivers what was not
/// published, or twice, or out of order; nothing of a correct sender is lost at correct receivers; and
/// when the lies have ended, senders go on. What the liar sends and receives is not judged.
#[derive(Debug)]
pub(crate) struct Honesty {
    host: usize,
    /// When it has told its last lie.
    ended: Instant,
    /// From when to when it is silent and still a member: others wait for it as for any member that is silent (R-MEM-15).
    silent: Option<(Instant, Instant)>,
    /// By stream how far it was stable, and since when it has stood still.
    standing: BTreeMap<(RegionId, Origin), (u64, Instant)>,
}

impl Honesty {
    pub(crate) fn new(host: usize, ended: Instant) -> Self {
        Self {
            host,
            ended,
            silent: None,
            standing: BTreeMap::new(),
        }
    }

    /// It is shut out at `silent`, and taken for dead by `gone`.
    pub(crate) fn shut_out(mut self, silent: Instant, gone: Instant) -> Self {
        self.silent = Some((silent, gone));
        self
    }

    /// From when on a stream that has stood still since `since` stands still for another reason than that the liar is silent.
    fn judged_from(&self, since: Instant) -> Instant {
        let waited = self
            .silent
            .filter(|(silent, _)| since.after(ROUNDS) >= *silent);
        let gone = waited.map_or(Instant(0), |(_, gone)| gone);
        since.max(self.ended).max(gone)
    }

    /// Tells whether the liar runs there.
    pub(crate) fn is_liar(&self, host: usize) -> bool {
        self.host == host
    }

    /// Tells whether that life is the liar's.
    pub(crate) fn is_of_liar(&self, history: &History, origin: Origin) -> bool {
        history
            .life(origin)
            .is_some_and(|life| life.host == self.host)
    }

    /// A stream of a correct sender is stable up to `stable`, and goes up to `highest`.
    pub(crate) fn check_hang(
        &mut self,
        now: Instant,
        stream: (RegionId, Origin),
        stable: u64,
        highest: u64,
    ) -> Result<(), Violation> {
        let standing = self.standing.entry(stream).or_insert((stable, now));
        if standing.0 != stable || stable >= highest {
            *standing = (stable, now);
        }
        let standing = *standing;
        let since = self.judged_from(standing.1);
        if stable < highest && now.since(since) > HANG_MAX && now > self.ended {
            let (region, sender) = stream;
            let message = format!(
                "{sender} in region {region} stands still at {stable} of {highest}, {:?} after \
                 the last lie",
                now.since(self.ended)
            );
            return Err(Violation::new("insider", message));
        }
        Ok(())
    }
}

/// What a checker says of a run in which a member lies.
pub(crate) fn named(violation: Violation) -> Violation {
    let Violation { checker, message } = violation;
    Violation::new(
        "insider",
        format!("beside a member that lies, {checker}: {message}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_may_stand_still_while_somebody_lies_and_not_for_long_after() {
        let second = |seconds: u64| Instant(seconds * 1_000_000_000);
        let mut honesty = Honesty::new(1, second(30));
        let stream = (RegionId(1), Origin::default());
        let mut at = |seconds, stable| honesty.check_hang(second(seconds), stream, stable, 9);
        assert!(at(1, 5).is_ok() && at(29, 5).is_ok() && at(39, 5).is_ok());
        assert!(at(41, 5).is_err());
        assert!(at(42, 6).is_ok() && at(51, 6).is_ok() && at(53, 6).is_err());
        assert!(at(54, 9).is_ok() && at(90, 9).is_ok());
    }

    #[test]
    fn a_stream_may_stand_still_until_a_liar_that_was_shut_out_is_gone() {
        let second = |seconds: u64| Instant(seconds * 1_000_000_000);
        let honesty = Honesty::new(1, second(2)).shut_out(second(12), second(22));
        let stands_from = |began, now| {
            let mut honesty = Honesty {
                standing: BTreeMap::new(),
                ..honesty
            };
            let stream = (RegionId(1), Origin::default());
            let mut at = |seconds| honesty.check_hang(second(seconds), stream, 5, 9);
            at(began).and_then(|()| at(now))
        };
        assert!(stands_from(5, 15).is_ok() && stands_from(5, 16).is_err());
        assert!(stands_from(11, 32).is_ok() && stands_from(11, 33).is_err());
        assert!(stands_from(30, 40).is_ok() && stands_from(30, 41).is_err());
    }
}
