//! One leader's current round as this node sees it.
//!
//! ```text
//!  ring of a partition        member:  taken ──► passed on
//!                             leader:  opened ──► came back = gathered
//!  ring of leaders            member:  held until the ring below has come back ──► passed on
//!                             leader:  opened with what the ring below gathered ──► came back
//! ```
//! All rings of a level rotate at the same time; only the rings of leaders wait for the ones below.

use core::time::Duration;

use qsm_wire::{MemberIndex, Origin};

use super::gathered::Gathered;
use super::hop::{HopSendings, TokenHop};
use super::place::RingPlace;
use crate::{Instant, nanoseconds};

/// Shortest patience of a ring's leader, for each level from the leaves up to its own. More than
/// the wait for one silent member (10 + 20 + 40 ms).
const LEVEL_TIMEOUT: Duration = Duration::from_millis(100);
/// Shortest patience of the region leader.
const ROUND_TIMEOUT: Duration = Duration::from_millis(200);
/// A ring's leader waits this many times the longest rotation of late.
const PATIENCE: u32 = 8;
/// Age from which on a round may have been invented.
const DOUBTFUL: Duration = Duration::from_millis(500);
/// Giving up makes leaders no more patient than this.
const TIMEOUT_MAX: Duration = Duration::from_secs(5);

/// What happens in one ring.
#[derive(Debug, Default)]
pub(super) struct Stage {
    /// A token of this ring has been dealt with, or sent off as the ring's leader.
    pub(super) taken: bool,
    /// As the ring's leader: the token as it was sent off.
    pub(super) opened: Option<Gathered>,
    /// As the ring's leader: what came back, or what there is instead.
    pub(super) gathered: Option<Gathered>,
    /// As a member of a ring of leaders: the token, waiting for the ring below.
    pub(super) held: Option<Gathered>,
    /// The token on its way to the successor.
    pub(super) passing: Option<TokenHop>,
    /// Those passed over, and when the token was sent to them: their receipts may still come.
    pub(super) passed_over: Vec<(MemberIndex, HopSendings)>,
}

impl Stage {
    /// The member that sends a receipt, if it has been sent the token, and when for the first time.
    pub(super) fn receipt(
        &mut self,
        place: &RingPlace,
        from: Origin,
    ) -> Option<(MemberIndex, HopSendings)> {
        let is = |to: MemberIndex| place.origin(to) == Some(from);
        if let Some(passing) = self.passing.take_if(|passing| is(passing.to)) {
            return Some((passing.to, passing.sent));
        }
        let late = self.passed_over.iter().position(|(to, _)| is(*to))?;
        Some(self.passed_over.swap_remove(late))
    }

    /// As the ring's leader: still waiting for the token.
    pub(super) fn waiting(&self) -> bool {
        self.opened.is_some() && self.gathered.is_none()
    }
}

#[derive(Debug)]
pub(super) struct Round {
    pub(super) leader: Origin,
    pub(super) number: u64,
    /// When this node learned of it.
    pub(super) started: Instant,
    /// One per seat.
    pub(super) stages: Vec<Stage>,
}

impl Round {
    pub(super) fn new(leader: Origin, number: u64, now: Instant, seats: usize) -> Self {
        Self {
            leader,
            number,
            started: now,
            stages: core::iter::repeat_with(Stage::default)
                .take(seats)
                .collect(),
        }
    }

    /// Tells whether the round has lasted for so long that its number may be a member's lie.
    pub(super) fn is_doubtful(&self, now: Instant) -> bool {
        now.since(self.started) >= DOUBTFUL
    }
}

/// How long rings have taken lately, per level; decides when a token counts as lost.
#[derive(Debug, Default)]
pub(super) struct RoundPatience {
    longest_ns: Vec<u64>,
    /// A round takes so long at least, however fast it was so far.
    least: Duration,
}

impl RoundPatience {
    pub(super) fn new(least: Duration) -> Self {
        Self {
            longest_ns: Vec::new(),
            least,
        }
    }

    /// A ring of that level took so long. What was longer before fades.
    pub(super) fn took(&mut self, level: usize, duration: Duration) {
        if self.longest_ns.len() <= level {
            self.longest_ns.resize(level + 1, 0);
        }
        if let Some(longest) = self.longest_ns.get_mut(level) {
            *longest = nanoseconds(duration).max(*longest - *longest / 8);
        }
    }

    /// A ring of that level was given up. It may only be slow: the next one gets twice the time.
    pub(super) fn lost(&mut self, level: usize, top: bool) {
        let waited = self.timeout(level, top).min(TIMEOUT_MAX / 2);
        self.took(level, 2 * waited / PATIENCE);
    }

    /// How long to wait for a ring of that level, from the round's start; `top`: for a whole round.
    pub(super) fn timeout(&self, level: usize, top: bool) -> Duration {
        let longest = self.longest_ns.get(level).copied().unwrap_or(0);
        let usual = Duration::from_nanos(longest.saturating_mul(PATIENCE.into()));
        let levels = u32::try_from(level).unwrap_or(u32::MAX).saturating_add(1);
        let least = LEVEL_TIMEOUT.saturating_mul(levels);
        let least = if top { least.max(ROUND_TIMEOUT) } else { least };
        usual.max(least).max(self.least)
    }
}
