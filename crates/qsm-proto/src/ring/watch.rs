//! Who notices that the region leader is gone: no round comes although streams are open.

use core::time::Duration;

use crate::Instant;

use super::place::Place;
use super::{Action, RegionRing, Turn};

/// Intervals without a round before the region leader is suspected. Open streams get a round in
/// every `token_max`, so that one lost or abandoned round is no reason yet.
const SILENT_INTERVALS: u32 = 3;

#[derive(Debug)]
pub(super) struct Watch {
    patience: Duration,
    /// Since when a round would be wanted; `None` if none is.
    since: Option<Instant>,
}

impl Watch {
    pub(super) fn new(token_max: Duration) -> Self {
        Self {
            patience: token_max.saturating_mul(SILENT_INTERVALS),
            since: None,
        }
    }

    /// There is traffic.
    pub(super) fn note(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// A sign of life from a leader; `open`: with streams in it.
    pub(super) fn heard(&mut self, now: Instant, open: bool) {
        self.since = open.then_some(now);
    }

    /// When this node, at this turn of the watch, has waited long enough.
    pub(super) fn deadline(&self, turn: u32) -> Instant {
        self.since.map_or(Instant::NEVER, |since| {
            since.after(self.patience.saturating_mul(turn))
        })
    }
}

impl RegionRing {
    /// Suspects the region leader if it is time.
    pub(super) fn watch(&mut self, turn: &mut Turn<'_>, place: &Place) {
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
            return;
        }
        self.watch.since = Some(turn.now);
        turn.actions.push(Action::Suspect {
            member: place.leader,
        });
    }
}
