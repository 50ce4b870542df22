use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_wire::membership::AwayReason;
use qsm_wire::{RegionId, ViewNumber};

/// Pause before a node that was back shortly before may come back once more.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Least such pause of one that was slow: meanwhile those show that are nearly as slow. Otherwise they
/// would hold senders in turn, each while the other catches up.
const PAUSE_SLOW: Duration = Duration::from_secs(10);
/// Time without an absence after which the former ones are forgotten.
const QUIET: Duration = Duration::from_secs(60);

/// Absences of one node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Absences {
    present: Option<Absence>,
    /// When the last one ended.
    returned: Option<Instant>,
    /// Absences that followed each other without a quiet time.
    in_row: u32,
}

/// Time in which nobody waits for a node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Absence {
    reason: AwayReason,
    began: Instant,
    /// Regions that mark the node, and since which view for this reason.
    marks: BTreeMap<RegionId, ViewNumber>,
}

impl Absences {
    /// An absence begins, or goes on for this reason; `true`: that is news.
    pub(super) fn begin(&mut self, now: Instant, reason: AwayReason) -> bool {
        if let Some(absence) = &mut self.present {
            if absence.reason == reason {
                return false;
            }
            absence.reason = reason;
            absence.marks.clear();
            return true;
        }
        let again = self.returned.is_some_and(|at| now.since(at) < QUIET);
        self.in_row = if again { self.in_row + 1 } else { 1 };
        self.present = Some(Absence {
            reason,
            began: now,
            marks: BTreeMap::new(),
        });
        true
    }

    /// A region marks the node from this view on; `false`: it does already, or there is no absence.
    pub(super) fn mark(&mut self, region: RegionId, view: ViewNumber) -> bool {
        let Some(absence) = &mut self.present else {
            return false;
        };
        let fresh = !absence.marks.contains_key(&region);
        absence.marks.entry(region).or_insert(view);
        fresh
    }

    /// The node is no member of the region any more.
    pub(super) fn unmark(&mut self, region: RegionId) {
        if let Some(absence) = &mut self.present {
            absence.marks.remove(&region);
        }
    }

    /// An inherited view marks the node.
    pub(super) fn inherit(
        &mut self,
        now: Instant,
        reason: AwayReason,
        region: RegionId,
        view: ViewNumber,
    ) {
        if self.present.is_none() {
            self.begin(now, reason);
        }
        self.mark(region, view);
    }

    /// A region that marks the node does so from a later view on.
    pub(super) fn mark_anew(&mut self, region: RegionId, view: ViewNumber) {
        let marks = self.present.as_mut().map(|absence| &mut absence.marks);
        if let Some(since) = marks.and_then(|marks| marks.get_mut(&region)) {
            *since = view;
        }
    }

    /// The view since which a region marks the node, for this reason.
    pub(super) fn since(&self, region: RegionId) -> Option<ViewNumber> {
        let absence = self.present.as_ref()?;
        absence.marks.get(&region).copied()
    }

    /// The reason of the present absence.
    pub(super) fn reason(&self) -> Option<AwayReason> {
        self.present.as_ref().map(|absence| absence.reason)
    }

    /// The reason for which nobody waits for the node in this region.
    pub(super) fn reason_in(&self, region: RegionId) -> Option<AwayReason> {
        let absence = self.present.as_ref()?;
        absence
            .marks
            .contains_key(&region)
            .then_some(absence.reason)
    }

    /// There is an absence, and no mark is left of it.
    pub(super) fn is_unmarked(&self) -> bool {
        let absence = self.present.as_ref();
        absence.is_some_and(|absence| absence.marks.is_empty())
    }

    /// When its word that it has caught up counts.
    pub(super) fn ends(&self) -> Instant {
        let pause = match self.in_row {
            0 | 1 => Duration::ZERO,
            more => (PAUSE_MIN * (1 << (more - 2).min(5))).min(PAUSE_MAX),
        };
        let Some(absence) = &self.present else {
            return Instant::default().after(pause);
        };
        let least = match absence.reason {
            AwayReason::Slow | AwayReason::Demoted => PAUSE_SLOW,
            _ => Duration::ZERO,
        };
        absence.began.after(pause.max(least))
    }

    /// The absence is over if no mark is left; `true`: it was not before.
    pub(super) fn end(&mut self, now: Instant) -> bool {
        let ends = self.is_unmarked();
        if ends {
            self.present = None;
            self.returned = Some(now);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    #[test]
    fn who_goes_away_again_and_again_is_believed_later_each_time() {
        let mut absences = Absences::default();
        let mut pause = |seconds| {
            assert!(absences.begin(at(seconds), AwayReason::Silent));
            let pause = absences.ends().since(at(seconds)).as_secs();
            assert!(absences.end(at(seconds + 5)));
            pause
        };
        assert_eq!([10, 20, 30, 40].map(&mut pause), [0, 1, 2, 4]);
        assert_eq!([50, 60, 70, 80].map(&mut pause), [8, 16, 30, 30]);
        // It was back at second 85.
        assert_eq!(pause(144), 30);
        assert_eq!(pause(209), 0, "after a quiet time");
    }

    #[test]
    fn who_was_slow_is_believed_after_a_while() {
        let mut absences = Absences::default();
        assert!(absences.begin(at(100), AwayReason::Slow));
        assert_eq!(absences.ends(), at(110));
        assert!(absences.begin(at(101), AwayReason::Silent));
        assert_eq!(absences.ends(), at(100));
    }

    #[test]
    fn another_reason_marks_anew_and_the_same_one_does_not() {
        let (region, other) = (RegionId(1), RegionId(2));
        let mut absences = Absences::default();
        assert!(!absences.mark(region, ViewNumber(1)), "there is no absence");
        assert!(absences.begin(at(1), AwayReason::Silent));
        assert!(absences.mark(region, ViewNumber(2)));
        assert!(!absences.begin(at(2), AwayReason::Silent));
        assert!(!absences.mark(region, ViewNumber(3)) && absences.mark(other, ViewNumber(7)));
        assert!(absences.begin(at(3), AwayReason::Unreachable));
        assert_eq!(absences.reason_in(region), None);
        assert!(absences.mark(region, ViewNumber(4)));
        assert_eq!(absences.reason_in(region), Some(AwayReason::Unreachable));
        assert!(!absences.end(at(4)), "a mark is left");
        absences.unmark(region);
        assert!(absences.end(at(4)) && !absences.end(at(4)));
    }
}
