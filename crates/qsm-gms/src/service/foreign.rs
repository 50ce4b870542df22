//! Packets of other clusters at addresses of regions, by the word of members (R-MEM-20): the region moves
//! to another address, unless too many have moved lately.

use core::time::Duration;
use std::collections::VecDeque;

use qsm_proto::Instant;

/// Regions that move within [`INTERVAL`], at most: who follows them, or sends everywhere, is told of.
const MOVES_MAX: usize = 8;
const INTERVAL: Duration = Duration::from_secs(600);

/// Moves of the last ten minutes.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    moves: VecDeque<Instant>,
    /// When it was said last that a region stays.
    stays_at: Option<Instant>,
}

impl Foreign {
    /// Tells whether another region may move now; if so, it does.
    pub(super) fn moves(&mut self, now: Instant) -> bool {
        while self
            .moves
            .front()
            .is_some_and(|at| now.since(*at) >= INTERVAL)
        {
            self.moves.pop_front();
        }
        let room = self.moves.len() < MOVES_MAX;
        if room {
            self.moves.push_back(now);
        }
        room
    }

    /// Tells whether it is to be said that a region stays: once in ten minutes.
    pub(super) fn says_stays(&mut self, now: Instant) -> bool {
        let says = self.stays_at.is_none_or(|at| now.since(at) >= INTERVAL);
        if says {
            self.stays_at = Some(now);
        }
        says
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Rule R-MEM-20.
    #[test]
    fn eight_regions_move_in_ten_minutes_and_that_others_stay_is_said_once() {
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        let mut foreign = Foreign::default();
        let moved = (0..100).filter(|second| foreign.moves(at(*second)));
        assert_eq!(moved.count(), MOVES_MAX);
        let said = (0..100).filter(|second| foreign.says_stays(at(*second)));
        assert_eq!(said.count(), 1);
        assert!(foreign.moves(at(600)) && !foreign.moves(at(600)));
    }
}
