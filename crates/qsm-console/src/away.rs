//! Times in which the cluster does not hear a node, and what the node says of them.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use qsm::{Event, RegionId};

/// A node that is back sooner is told of once.
const PATIENCE: Duration = Duration::from_secs(1);
/// Who hears of it so long after the service was found again was silent since the service was lost.
const RECENT: Duration = Duration::from_secs(5);

/// The regions in which a node is away, and since when.
#[derive(Debug, Default)]
pub(crate) struct Away {
    regions: BTreeSet<RegionId>,
    from: Option<SystemTime>,
    /// When this is to be said.
    say_at: Option<SystemTime>,
    /// When the membership service was lost last, and found again.
    lost: Option<SystemTime>,
    found: Option<SystemTime>,
}

impl Away {
    /// Takes note of what happened. `stalled` is since when this process stood still, if it has just
    /// gone on. Returns a line when the node is back in all its regions.
    pub(crate) fn take(
        &mut self,
        event: &Event,
        now: SystemTime,
        stalled: Option<SystemTime>,
    ) -> Option<String> {
        match event {
            Event::ServiceLost => (self.lost, self.found) = (Some(now), None),
            Event::ServiceFound { .. } => self.found = Some(now),
            Event::Away { region } => {
                self.regions.insert(*region);
                let from = stalled.or_else(|| self.unserved(now)).unwrap_or(now);
                self.from.get_or_insert(from);
                self.say_at.get_or_insert(now + PATIENCE);
            }
            Event::Back { region } => {
                self.regions.remove(region);
                let from = self.from.filter(|_| self.regions.is_empty())?;
                let away = now.duration_since(from).unwrap_or_default();
                self.end();
                return Some(format!(
                    "was away for {:.1} s; has caught up",
                    away.as_secs_f64()
                ));
            }
            // Another line says so.
            Event::Excluded => self.end(),
            _ => {}
        }
        None
    }

    /// Since when there was no service, until now or a moment ago.
    fn unserved(&self, now: SystemTime) -> Option<SystemTime> {
        let recent = |at: SystemTime| now.duration_since(at).unwrap_or_default() < RECENT;
        self.lost.filter(|_| self.found.is_none_or(recent))
    }

    fn end(&mut self) {
        self.regions.clear();
        (self.from, self.say_at) = (None, None);
    }

    /// A line, once, for a node that has been away for a while.
    pub(crate) fn look(&mut self, now: SystemTime) -> Option<&'static str> {
        self.say_at.take_if(|at| *at <= now)?;
        Some("AWAY: the cluster does not hear this node: what it misses is kept for it")
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
        Event::Away { region }
    }

    fn back(region: u32) -> Event {
        let region = RegionId(region);
        Event::Back { region }
    }

    #[test]
    fn who_stood_still_says_once_that_it_is_back_everywhere_and_for_how_long_it_was_not() {
        let mut one = Away::default();
        assert_eq!(one.take(&away(1), at(5000), Some(at(2000))), None);
        assert_eq!(one.take(&away(2), at(5001), None), None);
        assert_eq!(one.take(&back(1), at(5100), None), None);
        assert_eq!(one.look(at(5100)), None);
        let told = one.take(&back(2), at(5200), None);
        assert_eq!(told.as_deref(), Some("was away for 3.2 s; has caught up"));
        assert_eq!(one.look(at(9000)), None);
    }

    #[test]
    fn who_is_not_back_soon_says_so_meanwhile() {
        let mut one = Away::default();
        one.take(&Event::ServiceLost, at(1000), None);
        one.take(&away(1), at(3000), None);
        assert!(one.look(at(4000)).is_some_and(|line| line.contains("kept")));
        assert_eq!(one.look(at(9000)), None);
        let told = one.take(&back(1), at(9000), None);
        assert_eq!(told.as_deref(), Some("was away for 8.0 s; has caught up"));
    }

    #[test]
    fn an_exclusion_ends_it() {
        let mut one = Away::default();
        one.take(&away(1), at(1000), None);
        one.take(&Event::Excluded, at(1500), None);
        assert_eq!(one.look(at(9000)), None);
        assert_eq!(one.take(&back(1), at(9000), None), None);
    }
}
