//! When the region leader opens a round (R060, R072, R073; algorithms (b) 3).
//!
//! Something changed: `token_min` after the last opening, and [`REST`] after its token came back;
//! or as soon as a sixteenth of the credit has arrived. Nothing changed but streams are open: the
//! interval doubles with each round, up to `token_max`. No stream open: never. With `token_min`
//! equal to `token_max` intervals are constant (S2 §2.3.2): however much arrives, no round opens
//! early, and however long one takes, the next does not wait.

use core::time::Duration;

use crate::Instant;

/// Least part of the credit that opens a round early. Smaller credits would open a round with
/// every few packets; larger ones delay the sender's window.
const EARLY_BYTES_MIN: u64 = 16 << 10;
/// The share of the credit whose arrival opens a round early. What is in flight while a round
/// runs must not exhaust the window, and a round may take as long as a scheduler's slice.
const EARLY_SHARE: u64 = 16;
/// Of small credits a larger share, up to this: each round costs every member something, and what is
/// in flight while one runs is less where queues are short (R-RATE-9).
const EARLY_BYTES: u64 = 64 << 10;
const EARLY_SHARE_MAX: u64 = 4;

/// From the end of a round to the next, at most `token_min`. A round costs every member of the
/// region the same few packets, however large the region is, and takes the longer the larger it
/// is: with a rest in between, a large region has fewer rounds, and its members, its senders among
/// them, have less to do for them (E04). Shorter, and the tokens of a region of 10,000 are more
/// than half of its traffic; longer, and watermarks lag behind.
const REST: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct RoundPace {
    token_min: Duration,
    token_max: Duration,
    /// When the last round was opened.
    opened: Option<Instant>,
    /// Not before then is one opened because of time.
    rested: Instant,
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

impl RoundPace {
    pub(super) fn new(token_min: Duration, token_max: Duration) -> Self {
        Self {
            token_min,
            token_max: token_max.max(token_min),
            opened: None,
            rested: Instant(0),
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
        if !self.constant() && self.bytes >= self.early_bytes() {
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
        if !self.constant() {
            self.rested = now.after(REST.min(self.token_min));
        }
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
        let in_time = after_change.into_iter().chain(while_open).min();
        in_time
            .map(|due| due.max(self.rested))
            .into_iter()
            .chain(self.early)
            .min()
            .unwrap_or(Instant::NEVER)
    }

    /// Bytes whose arrival opens a round early.
    fn early_bytes(&self) -> u64 {
        let credit = u64::from(self.credit_bytes);
        let small = EARLY_BYTES.min(credit / EARLY_SHARE_MAX);
        (credit / EARLY_SHARE).max(small).max(EARLY_BYTES_MIN)
    }

    fn constant(&self) -> bool {
        self.token_min == self.token_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant(millis * 1_000_000)
    }

    /// When the next round is due after one that opened at 100 ms and took so long.
    fn next(mut pace: RoundPace, millis: u64) -> Instant {
        pace.note(at(100), 10);
        pace.opened(at(100));
        pace.note(at(101), 10);
        pace.completed(at(100 + millis), true, true);
        pace.due()
    }

    // Rule R-TOK-10.
    #[test]
    fn the_longer_rounds_take_the_rarer_they_are() {
        let modern = || RoundPace::new(Duration::from_millis(5), Duration::from_secs(1));
        assert_eq!(next(modern(), 0), at(105));
        assert_eq!(next(modern(), 3), at(108));
        assert_eq!(next(modern(), 50), at(155));
        let rare = RoundPace::new(Duration::from_millis(500), Duration::from_secs(1));
        assert_eq!(next(rare, 50), at(600));
        // Constant intervals.
        let constant = RoundPace::new(Duration::from_millis(20), Duration::from_millis(20));
        assert_eq!(next(constant, 18), at(120));
    }

    #[test]
    fn much_data_does_not_wait_for_the_rest() {
        let mut pace = RoundPace::new(Duration::from_millis(5), Duration::from_secs(1));
        pace.opened(at(100));
        pace.completed(at(103), true, true);
        pace.credit(1 << 20);
        pace.note(at(104), 1 << 16);
        assert_eq!(pace.due(), at(104));
    }
}
