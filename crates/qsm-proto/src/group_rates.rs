//! What a node publishes to each group, for the plans of the membership service (R-MEM-19).
//!
//! Counts are compared with those of ten seconds ago, a few thousand groups at a time: a node that
//! publishes to 100,000 looks at them in thirty steps of a tenth of a millisecond.

use core::cmp::Reverse;
use core::time::Duration;

use qsm_wire::GroupId;
use qsm_wire::membership::{GroupRate, GroupRates};

use crate::table::GroupTable;
use crate::{Instant, nanoseconds};

/// Time over which messages are counted.
const INTERVAL: Duration = Duration::from_secs(10);
/// Places of the table of groups that are looked at in a step.
pub(crate) const STEP: usize = 4096;
/// Rates, in messages per 1000 seconds, below which nothing is told apart: one in an interval.
const LEAST: u32 = 100;

/// Counts messages to groups.
#[derive(Debug)]
pub(crate) struct GroupCounts {
    before: GroupTable<u64>,
    /// The next place to be looked at, and how long one has to wait for it; `None` before the node is
    /// admitted.
    due: Option<Instant>,
    place: usize,
    /// When this round of looks began, and the one before.
    began: Instant,
    former: Instant,
    /// Groups with messages, of this round.
    found: Vec<GroupRate>,
    said: Option<GroupRates>,
}

impl GroupCounts {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            before: GroupTable::default(),
            due: None,
            place: 0,
            began: now,
            former: now,
            found: Vec::new(),
            said: None,
        }
    }

    /// The node is admitted, perhaps by another service than before, and says its rates anew.
    pub(crate) fn admitted(&mut self, now: Instant) {
        self.due = Some(now.after(INTERVAL));
        (self.place, self.said) = (0, None);
        (self.began, self.former) = (now.after(INTERVAL), now);
        self.found.clear();
    }

    /// When [`GroupCounts::look`] has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The place of the table to be looked at, if one is due.
    pub(crate) fn place(&self, now: Instant) -> Option<usize> {
        self.due.filter(|due| *due <= now).map(|_| self.place)
    }

    /// Takes messages published so far to the groups of the places from the present one on, of a table
    /// of so many places. Returns the rates at the end of a round, if they have changed.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        places: usize,
        counts: impl Iterator<Item = (GroupId, u64)>,
    ) -> Option<GroupRates> {
        if self.place == 0 {
            self.began = now;
        }
        let time = nanoseconds(self.began.since(self.former)).max(1);
        for (group, count) in counts {
            let before = core::mem::replace(self.before.entry(group), count);
            let messages = u128::from(count.saturating_sub(before));
            let rate = messages * 1_000_000_000_000 / u128::from(time);
            if rate > 0 {
                let rate = u32::try_from(rate).unwrap_or(u32::MAX);
                self.found.push(GroupRate { group, rate });
            }
        }
        self.place += STEP;
        let steps = u32::try_from(places.div_ceil(STEP).max(1)).unwrap_or(u32::MAX);
        if self.place < places {
            self.due = Some(now.after(INTERVAL / steps));
            return None;
        }
        (self.place, self.former) = (0, self.began);
        self.due = Some(self.began.after(INTERVAL).max(now.after(INTERVAL / steps)));
        let rates = most(core::mem::take(&mut self.found));
        let news = self.said.as_ref().is_none_or(|said| differs(said, &rates));
        news.then(|| self.said.insert(rates).clone())
    }
}

/// The groups with most messages.
fn most(mut found: Vec<GroupRate>) -> GroupRates {
    let whole = found.len() <= GroupRates::GROUPS_MAX;
    found.sort_unstable_by_key(|one| (Reverse(one.rate), one.group));
    found.truncate(GroupRates::GROUPS_MAX);
    found.sort_unstable_by_key(|one| one.group);
    let groups = found;
    GroupRates { groups, whole }
}

/// Tells whether a rate has doubled, or halved.
fn differs(said: &GroupRates, now: &GroupRates) -> bool {
    let rate = |rates: &GroupRates, group: GroupId| {
        let at = rates.groups.binary_search_by_key(&group, |one| one.group);
        at.map_or(0, |at| rates.groups[at].rate).max(LEAST)
    };
    let mut groups = said.groups.iter().chain(&now.groups);
    groups.any(|one| {
        let (former, present) = (rate(said, one.group), rate(now, one.group));
        present >= former.saturating_mul(2) || former >= present.saturating_mul(2)
    }) || said.whole != now.whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    fn rates(rates: Option<GroupRates>) -> Option<Vec<(u32, u32)>> {
        let groups = rates?.groups.into_iter();
        Some(groups.map(|one| (one.group.0, one.rate)).collect())
    }

    // Rule R-MEM-19.
    #[test]
    fn rates_of_groups_are_said_at_first_and_when_one_doubles_or_halves() {
        let mut counts = GroupCounts::new(at(0));
        assert_eq!((counts.due(), counts.place(at(99))), (None, None));
        counts.admitted(at(5));
        assert_eq!(
            (counts.place(at(14)), counts.place(at(15))),
            (None, Some(0))
        );
        let mut look = |seconds, counted: &[(u32, u64)]| {
            let counted = counted
                .iter()
                .map(|(group, count)| (GroupId(*group), *count));
            rates(counts.look(at(seconds), 8, counted))
        };
        // 40 in ten seconds are 4 a second.
        assert_eq!(
            look(15, &[(7, 40), (3, 1)]),
            Some(vec![(3, 100), (7, 4000)])
        );
        assert_eq!(look(25, &[(7, 100), (3, 1)]), None);
        assert_eq!(look(35, &[(7, 190), (3, 1)]), Some(vec![(7, 9000)]));
        assert_eq!(look(45, &[(7, 190), (3, 1)]), Some(vec![]));
        assert_eq!(
            look(55, &[(7, 191), (3, 1)]),
            None,
            "one is as good as none"
        );
    }

    #[test]
    fn a_large_table_is_looked_at_in_steps_and_the_groups_with_most_are_named() {
        let mut counts = GroupCounts::new(at(0));
        counts.admitted(at(0));
        let first = (0..400).map(|group| (GroupId(group), u64::from(group)));
        assert_eq!(counts.look(at(10), 2 * STEP, first), None);
        assert_eq!(counts.place(at(15)), Some(STEP));
        let rates = counts.look(at(15), 2 * STEP, [(GroupId(900), 5000)].into_iter());
        let rates = rates.unwrap();
        assert_eq!((rates.groups.len(), rates.whole), (256, false));
        // 255 of the first, by numbers, and the one of the second step.
        assert_eq!(rates.groups[0].group, GroupId(145));
        assert_eq!(rates.groups[255].rate, 500_000);
        assert_eq!(counts.due(), Some(at(20)));
    }
}
