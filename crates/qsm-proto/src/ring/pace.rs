//! When the region leader opens a round (R060, R072, R073; algorithms (b) 3).
//!
//! Something changed: `token_min` after the last opening, or as soon as a sixteenth of the credit
//! has arrived. Nothing changed but streams are open: the interval doubles with each round, up to
//! `token_max`. No stream open: never. With `token_min` equal to `token_max` intervals are constant
//! (S2 §2.3.2): however much arrives, no round opens early.

use core::time::Duration;

use crate::Instant;

/// Least part of the credit that opens a round early. Smaller credits would open a round with
/// every few packets; larger ones delay the sender's window.
const EARLY_BYTES_MIN: u64 = 16 << 10;
/// The share of the credit whose arrival opens a round early. What is in flight while a round
/// runs must not exhaust the window, and a round may take as long as a scheduler's slice.
const EARLY_SHARE: u64 = 16;

#[derive(Debug)]
pub(super) struct Pace {
    token_min: Duration,
    token_max: Duration,
    /// When the last round was opened.
    opened: Option<Instant>,
    /// From there to the next one if nothing changes.
    interval: Duration,
    /// When the first change after the last opening was noticed.
    changed: Option<Instant>,
    open: bool,
    /// Arrived since the last opening.
    bytes: u64,
    credit_bytes: u32,
    /// When so much had arrived that the next round is due at once.
    early: Option<Instant>,
}

impl Pace {
    pub(super) fn new(token_min: Duration, token_max: Duration) -> Self {
        Self {
            token_min,
            token_max: token_max.max(token_min),
            opened: None,
            interval: token_min,
            changed: None,
            open: false,
            bytes: 0,
            credit_bytes: u32::MAX,
            early: None,
        }
    }

    /// Something new: a round is due.
    pub(super) fn note(&mut self, now: Instant, bytes: usize) {
        self.changed.get_or_insert(now);
        self.bytes = self
            .bytes
            .saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        let constant = self.token_min == self.token_max;
        if !constant
            && self.bytes >= (u64::from(self.credit_bytes) / EARLY_SHARE).max(EARLY_BYTES_MIN)
        {
            self.early.get_or_insert(now);
        }
    }

    /// A round begins.
    pub(super) fn opened(&mut self, now: Instant) {
        self.opened = Some(now);
        self.changed = None;
        self.early = None;
        self.bytes = 0;
    }

    /// A round came back.
    pub(super) fn completed(&mut self, now: Instant, changed: bool, open: bool) {
        self.open = open;
        if changed {
            self.interval = self.token_min;
            self.changed.get_or_insert(now);
        } else {
            self.interval = (self.interval * 2).clamp(self.token_min, self.token_max);
        }
    }

    /// What the slowest member grants, after a round.
    pub(super) fn credit(&mut self, bytes: u32) {
        self.credit_bytes = bytes;
    }

    /// No stream needs a round.
    pub(super) fn hold(&mut self) {
        self.open = false;
        self.changed = None;
        self.early = None;
        self.bytes = 0;
        self.interval = self.token_min;
    }

    /// When the next round is due; [`Instant::NEVER`] if none is (R-TOK-10).
    pub(super) fn due(&self) -> Instant {
        let Some(opened) = self.opened else {
            return self.changed.unwrap_or(Instant::NEVER);
        };
        let after_change = self
            .changed
            .map(|changed| changed.max(opened.after(self.token_min)));
        let while_open = self.open.then(|| opened.after(self.interval));
        [self.early, after_change, while_open]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(Instant::NEVER)
    }
}
