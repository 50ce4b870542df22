//! Times in which the cluster does not hear a node, and what the node says of them.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use qsm::{AwayReason, Event, RegionId};

/// A node that is back sooner is told of once.
const PATIENCE: Duration = Duration::from_secs(1);

/// The regions in which a node is away, and for how long it was in those that it is back in.
#[derive(Debug, Default)]
pub(crate) struct Away {
    regions: BTreeSet<RegionId>,
    longest: Duration,
    /// It is away because it is slow.
    slow: bool,
    /// And it loses what it misses.
    demoted: bool,
    /// It has been away.
    ever: bool,
    /// When this is to be said.
    say_at: Option<SystemTime>,
}

impl Away {
    /// Takes note of what happened. Returns a line when the node is back in all its regions.
    pub(crate) fn take(&mut self, event: &Event, now: SystemTime) -> Option<String> {
        match event {
            Event::Away { region, reason } => {
                self.ever = true;
                self.demoted = *reason == AwayReason::Demoted;
                self.slow = self.demoted || *reason == AwayReason::Slow;
                self.regions.insert(*region);
                self.say_at.get_or_insert(now + PATIENCE);
            }
            Event::Back { region, away } => {
                self.longest = self.longest.max(*away);
                if !self.regions.remove(region) || !self.regions.is_empty() {
                    return None;
                }
                let away = self.longest.as_secs_f64();
                self.end();
                return Some(format!("was away for {away:.1} s; has caught up"));
            }
            // Another line says so.
            Event::Excluded => self.end(),
            _ => {}
        }
        None
    }

    /// It is away in some region.
    pub(crate) fn is_away(&self) -> bool {
        !self.regions.is_empty()
    }

    fn end(&mut self) {
        let ever = self.ever;
        *self = Self {
            ever,
            ..Self::default()
        };
    }

    /// The node has been away.
    pub(crate) fn ever(&self) -> bool {
        self.ever
    }

    /// A line, once, for a node that has been away for a while.
    pub(crate) fn look(&mut self, now: SystemTime) -> Option<&'static str> {
        self.say_at.take_if(|at| *at <= now)?;
        Some(match self.slow {
            true if self.demoted => {
                "DEMOTED: this node is slower than the others, and publishers do not wait for it any \
                 more: it goes on from the present, and loses what it misses"
            }
            true => {
                "AWAY: this node is slower than the others, and publishers do not wait for it any \
                 more: what it misses is kept for it"
            }
            false => "AWAY: the cluster does not hear this node: what it misses is kept for it",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn at(milliseconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(milliseconds)
    }

    fn away(region: u32) -> Event {
        let region = RegionId(region);
        let reason = AwayReason::Silent;
        Event::Away { region, reason }
    }

    fn back(region: u32, milliseconds: u64) -> Event {
        Event::Back {
            region: RegionId(region),
            away: Duration::from_millis(milliseconds),
        }
    }

    #[test]
    fn who_stood_still_says_once_that_it_is_back_everywhere_and_for_how_long_it_was_not() {
        let mut one = Away::default();
        assert!(!one.ever());
        assert_eq!(one.take(&away(1), at(5000)), None);
        assert_eq!(one.take(&away(2), at(5001)), None);
        assert_eq!(one.take(&back(1, 3100), at(5100)), None);
        assert_eq!(one.look(at(5100)), None);
        let told = one.take(&back(2, 3200), at(5200));
        assert_eq!(told.as_deref(), Some("was away for 3.2 s; has caught up"));
        assert_eq!(one.look(at(9000)), None);
        assert!(one.ever());
    }

    #[test]
    fn who_is_slow_is_told_so() {
        let mut one = Away::default();
        let (region, reason) = (RegionId(1), AwayReason::Slow);
        assert_eq!(one.take(&Event::Away { region, reason }, at(5000)), None);
        let line = one.look(at(6000)).expect("a line");
        assert!(line.contains("slower than the others"), "{line}");
    }

    #[test]
    fn who_is_not_back_soon_says_so_meanwhile() {
        let mut one = Away::default();
        one.take(&away(1), at(3000));
        assert!(one.look(at(4000)).is_some_and(|line| line.contains("kept")));
        assert_eq!(one.look(at(9000)), None);
        let told = one.take(&back(1, 8000), at(9000));
        assert_eq!(told.as_deref(), Some("was away for 8.0 s; has caught up"));
    }

    #[test]
    fn an_exclusion_ends_it() {
        let mut one = Away::default();
        one.take(&away(1), at(1000));
        one.take(&Event::Excluded, at(1500));
        assert_eq!(one.look(at(9000)), None);
        assert_eq!(one.take(&back(1, 500), at(9000)), None);
    }
}
