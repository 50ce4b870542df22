//! Who notices that no round comes although streams are open: the region leader does not know of
//! their packets, and is told, or it is gone.

use core::time::Duration;

use qsm_wire::Origin;

use crate::Instant;

use super::place::RingPlace;
use super::{Action, RegionRing, Turn};

/// Intervals without a round before the region leader is suspected at the latest. Open streams get
/// a round in every `token_max`, so that one lost or abandoned round is no reason yet.
const SILENT_INTERVALS: u32 = 3;

/// Shortest silence after which the leader is told what there is; after twice that it is suspected,
/// which costs it the answer to a probe: senders may not go on for much longer without it.
const TELL_MIN: Duration = Duration::from_millis(100);

/// Most streams that the leader is told of at once.
const TOLD_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct LeaderWatch {
    patience: Duration,
    /// Since when a round would be wanted; `None` if none is.
    since: Option<Instant>,
    /// Since when none has come that would have been wanted.
    silent_since: Option<Instant>,
    /// How long leaders are usually silent while streams are open: the longest time of late.
    usual: Duration,
    /// The leader has been told, and did nothing yet.
    told: bool,
}

impl LeaderWatch {
    pub(super) fn new(token_max: Duration) -> Self {
        Self {
            patience: token_max.saturating_mul(SILENT_INTERVALS),
            since: None,
            silent_since: None,
            usual: Duration::ZERO,
            told: false,
        }
    }

    /// There is traffic.
    pub(super) fn note(&mut self, now: Instant) {
        self.since.get_or_insert(now);
        self.silent_since.get_or_insert(now);
    }

    /// A sign of life from a leader; `open`: with streams in it.
    pub(super) fn heard(&mut self, now: Instant, open: bool) {
        if let Some(since) = self.since.filter(|_| !self.told) {
            self.usual = now.since(since).max(self.usual - self.usual / 8);
        }
        self.since = open.then_some(now);
        self.silent_since = self.since;
        self.told = false;
    }

    /// When this node, at this turn of the watch, has waited long enough: first to tell, then to
    /// suspect.
    pub(super) fn deadline(&self, turn: u32) -> Instant {
        let silence = TELL_MIN.max(self.usual * 2);
        let silence = match self.told {
            false => silence,
            true => silence * 2,
        };
        let silence = silence.min(self.patience);
        self.since.map_or(Instant::NEVER, |since| {
            since.after(silence.saturating_mul(turn))
        })
    }
}

impl RegionRing {
    /// Tells the region leader of streams that it seems not to know (R-TOK-12), or suspects it, if
    /// it is time.
    pub(super) fn watch(&mut self, turn: &mut Turn<'_>, place: &RingPlace) {
        let Some(number) = place.watch_turn() else {
            return;
        };
        if self.watch.deadline(number) > turn.now {
            return;
        }
        let mut active = Vec::new();
        turn.streams.active(&mut active);
        if active.is_empty() {
            self.watch.since = None;
            self.watch.silent_since = None;
            return;
        }
        self.watch.told = !self.watch.told;
        if !self.watch.told {
            self.watch.since = Some(turn.now);
            let since = self.watch.silent_since.unwrap_or(turn.now);
            turn.actions.push(Action::Suspect {
                member: place.leader,
                silent: turn.now.since(since),
            });
            return;
        }
        let beyond = |sender: &Origin| {
            let known = self.cutoff(*sender);
            let report = turn.streams.report(*sender);
            report.is_some_and(|report| report.highest > known)
        };
        for sender in active.into_iter().filter(beyond).take(TOLD_MAX) {
            turn.actions.push(Action::Tell {
                member: place.leader,
                sender,
            });
        }
    }
}
