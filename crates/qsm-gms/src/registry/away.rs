//! Members that nobody waits for (R-MEM-15).
//!
//! ```text
//!             the detector's word              CaughtUp, not before the pause is over
//!   live ─────────────────────────────► away ─────────────────────────────────────────► live
//! ```
//!
//! Away is a mark of a membership and not a state of a life: a node is a member of several regions
//! while it moves, and catches up in each of them. It keeps its life, its roles and its place until
//! the detector says that it is gone.
//!
//! A node that goes away again and again is believed later each time: each way back costs its
//! region two views.

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_wire::membership::AwayReason;
use qsm_wire::{NodeId, RegionId, ViewNumber};

use super::Registry;
use super::draft::Draft;
use super::work::Work;

/// Pause before a node that was back shortly before may come back once more.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Time without an absence after which the former ones are forgotten.
const QUIET: Duration = Duration::from_secs(60);

/// Absences of one node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Absences {
    /// Regions in which it is away, and the views that say so.
    pub(super) regions: BTreeMap<RegionId, ViewNumber>,
    /// When the present or the last one began.
    began: Instant,
    /// Absences that followed each other without a quiet time.
    in_row: u32,
}

impl Absences {
    fn begin(&mut self, now: Instant) {
        let quiet = self.in_row == 0 || now.since(self.began) >= QUIET;
        self.in_row = if quiet { 1 } else { self.in_row + 1 };
        self.began = now;
    }

    /// When its word that it has caught up counts.
    fn ends(&self) -> Instant {
        let pause = match self.in_row {
            0 | 1 => Duration::ZERO,
            more => (PAUSE_MIN * (1 << (more - 2).min(5))).min(PAUSE_MAX),
        };
        self.began.after(pause)
    }
}

impl Registry {
    /// Nobody is to wait for a node any more, wherever it is a member; `false`: that is so already,
    /// or it is a member of nothing.
    pub(super) fn set_away(&mut self, now: Instant, id: NodeId, reason: AwayReason) -> bool {
        let Some(node) = self
            .nodes
            .get_mut(&id)
            .filter(|node| node.life.is_running())
        else {
            return false;
        };
        let regions: Vec<RegionId> = node.home.into_iter().chain(node.leaving()).collect();
        let mut news = false;
        for region in regions {
            if !node.absences.regions.contains_key(&region) {
                let member = node.origin;
                self.work.push(Work::MarkAway {
                    region,
                    member,
                    reason,
                });
                news = true;
            }
        }
        if news {
            node.absences.begin(now);
        }
        news
    }

    /// The node has caught up in a region, under that view. Repeated and late words change nothing,
    /// nor does the word of a view without live members, once there is one: who gave it has asked
    /// nobody.
    pub(super) fn caught_up(
        &mut self,
        now: Instant,
        id: NodeId,
        region: RegionId,
        view: ViewNumber,
    ) {
        let Some(node) = self.nodes.get(&id) else {
            return;
        };
        let since = node.absences.regions.get(&region);
        let away = since.is_some_and(|since| *since <= view);
        let entry = self.regions.get(region);
        let asked = entry.is_some_and(|entry| !entry.is_repopulated_since(view));
        if away && asked && now >= node.absences.ends() {
            let member = node.origin;
            self.work.push(Work::MarkLive { region, member });
        }
    }

    /// The reason for which nobody waits for a node in some region, or will not with this batch. It
    /// is away in every region that it enters, too.
    pub(super) fn absence_of(&self, id: NodeId, draft: &Draft) -> Option<AwayReason> {
        let node = self.nodes.get(&id)?;
        let regions = node.absences.regions.keys();
        let regions = regions.filter_map(|region| self.regions.get(*region));
        let mut members = regions.flat_map(|region| &region.members);
        let member = members.find(|member| member.origin == node.origin && member.is_away());
        let mut changes = draft.changes.values();
        let begins = || changes.find_map(|change| *change.away.get(&node.origin)?);
        member.map_or_else(begins, |member| member.away)
    }

    /// The reason for which nobody waits for a node in its home region.
    pub(super) fn away_reason(&self, id: NodeId) -> Option<AwayReason> {
        let node = self.nodes.get(&id)?;
        let region = self.regions.get(node.home?)?;
        let mut members = region.members.iter();
        members.find(|member| member.origin == node.origin)?.away
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_away_again_and_again_is_believed_later_each_time() {
        let mut absences = Absences::default();
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        let mut pause = |seconds| {
            absences.begin(at(seconds));
            absences.ends().since(at(seconds)).as_secs()
        };
        assert_eq!([10, 20, 30, 40].map(&mut pause), [0, 1, 2, 4]);
        assert_eq!([50, 60, 70, 80].map(&mut pause), [8, 16, 30, 30]);
        assert_eq!(pause(140), 0, "after a quiet time");
    }
}
