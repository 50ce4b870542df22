//! The search for a membership service.
//!
//! A solicitation goes to everybody, since nobody knows where a service may be. When a service
//! fails all nodes of a cluster begin to search at about the same time; did each ask for itself, a
//! cluster of n nodes would have n² packets to read (R012). So a node that hears another ask waits
//! instead: what answers one, answers all (R-MEM-10).

use core::time::Duration;

use crate::{Instant, Random, nanoseconds};

/// First interval between solicitations; it doubles.
const SOLICIT_MIN: Duration = Duration::from_millis(100);
/// Longest interval between them: twice the beacon's.
const SOLICIT_MAX: Duration = Duration::from_secs(2);
/// How long to listen before a service counts as missing: this and up to
/// [`MISSING_SPREAD_NS`] more, so that nodes that start together do not all start services.
const MISSING_MIN: Duration = Duration::from_millis(700);
const MISSING_SPREAD_NS: u64 = 600_000_000;
/// How soon it is said again.
const MISSING_AGAIN: Duration = Duration::from_secs(3);

/// The search for a membership service: when to ask, and when to give up waiting.
#[derive(Debug)]
pub(super) struct Discovery {
    solicit_at: Option<Instant>,
    missing_at: Option<Instant>,
    interval: Duration,
    /// When another node was last heard asking.
    asked_at: Option<Instant>,
}

/// What the search wants done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct DiscoveryAction {
    pub(super) solicit: bool,
    pub(super) missing: bool,
}

impl Discovery {
    /// A search that has not begun.
    pub(super) fn idle() -> Self {
        Self {
            solicit_at: None,
            missing_at: None,
            interval: SOLICIT_MIN,
            asked_at: None,
        }
    }

    /// Begins to search, unless it is under way. `alone` says whether the node may start a
    /// service of its own.
    pub(super) fn start(&mut self, now: Instant, alone: bool, random: &mut Random) {
        if self.solicit_at.is_some() {
            return;
        }
        self.interval = SOLICIT_MIN;
        self.solicit_at = Some(now);
        if let Some(asked) = self.asked_at.filter(|at| now.since(*at) < SOLICIT_MIN) {
            self.put_off(asked, random);
        }
        let spread = Duration::from_nanos(random.below(MISSING_SPREAD_NS));
        self.missing_at = alone.then(|| now.after(MISSING_MIN + spread));
    }

    /// A service has been found.
    pub(super) fn stop(&mut self) {
        *self = Self {
            asked_at: self.asked_at,
            ..Self::idle()
        };
    }

    /// Another node has asked: the answer will be heard here, too.
    pub(super) fn heard(&mut self, now: Instant, random: &mut Random) {
        self.asked_at = Some(now);
        if self.solicit_at.is_some() {
            self.put_off(now, random);
        }
    }

    /// Waits for the answer to somebody else's question, for half of the interval at least. The
    /// rest is drawn, so that one of many asks next, and not always the same.
    fn put_off(&mut self, asked: Instant, random: &mut Random) {
        let half = self.interval / 2;
        let drawn = Duration::from_nanos(random.below(nanoseconds(half) + 1));
        self.solicit_at = Some(asked.after(half + drawn));
        self.interval = (self.interval * 2).min(SOLICIT_MAX);
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        [self.solicit_at, self.missing_at]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, random: &mut Random) -> DiscoveryAction {
        let mut wish = DiscoveryAction::default();
        if self.solicit_at.is_some_and(|at| at <= now) {
            wish.solicit = true;
            self.solicit_at = Some(now.after(self.interval));
            self.interval = (self.interval * 2).min(SOLICIT_MAX);
        }
        if self.missing_at.is_some_and(|at| at <= now) {
            wish.missing = true;
            let spread = Duration::from_nanos(random.below(MISSING_SPREAD_NS));
            self.missing_at = Some(now.after(MISSING_AGAIN + spread));
        }
        wish
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    const SECOND: u64 = 1_000_000_000;

    /// Solicitations of so many nodes that all begin to search within a second, and hear each
    /// other at once, in the ten seconds from then on.
    fn solicitations(nodes: u64) -> usize {
        let mut random = Random::new(Seed(5), "discovery");
        let mut searches: Vec<Discovery> = (0..nodes).map(|_| Discovery::idle()).collect();
        let mut starts: Vec<u64> = (0..nodes).map(|_| random.below(SECOND)).collect();
        starts.sort_unstable();
        let mut count = 0;
        for now in (0..11 * SECOND).step_by(1_000_000).map(Instant) {
            let started = starts.iter().filter(|at| **at <= now.0).count();
            for search in &mut searches[..started] {
                search.start(now, false, &mut random);
            }
            for asker in 0..started {
                let wish = searches[asker].handle_timeout(now, &mut random);
                count += usize::from(wish.solicit);
                let others = searches.iter_mut().enumerate();
                let others = others.filter(|(other, _)| wish.solicit && *other != asker);
                others.for_each(|(_, other)| other.heard(now, &mut random));
            }
        }
        count
    }

    // Rule R-MEM-10.
    #[test]
    fn many_that_search_ask_hardly_more_often_than_one() {
        let alone = solicitations(1);
        assert!((8..=10).contains(&alone), "{alone}");
        let many = solicitations(1000);
        assert!((8..=40).contains(&many), "{many}");
    }

    #[test]
    fn who_searches_alone_asks_at_once_and_then_ever_more_rarely() {
        let mut random = Random::new(Seed(1), "discovery");
        let mut search = Discovery::idle();
        search.start(Instant(SECOND), true, &mut random);
        let asks = |search: &mut Discovery, millis: u64, random: &mut Random| {
            let at = Instant(SECOND + millis * 1_000_000);
            search.handle_timeout(at, random).solicit
        };
        let times: Vec<u64> = (0..1000)
            .filter(|millis| asks(&mut search, *millis, &mut random))
            .collect();
        assert_eq!(times, [0, 100, 300, 700]);
    }
}
