//! Members that leave an inherited region are told that nobody sends to them any more when that is
//! known (R-MEM-6).
//!
//! ```text
//!   the service begins       nobody is waited for any more
//!        │ ── others may report ──► │ ── Settled ──► members leave
//!                                   │                     │
//!   a publisher of the region that nobody knows says hello here: it begins a new life
//! ```

use core::time::Duration;

use qsm_proto::Instant;
use qsm_wire::{GroupId, NodeId, RegionId, ViewNumber};

use super::work::Work;
use super::{Node, Registry};

/// Pause between two looks whether those have reported who are waited for longer than others.
const LOOK: Duration = Duration::from_secs(1);

impl Registry {
    /// Whether it is too early to tell members that leave with this view that nobody sends to them
    /// any more. Who has given up all groups of the region wants nothing more from there.
    pub(super) fn holds_settled(&mut self, now: Instant, id: RegionId, view: ViewNumber) -> bool {
        let held = self.wants_what_it_leaves(id, view) && self.waits_for_others(now);
        if held {
            self.unsettled.hold(id, view);
        }
        held
    }

    /// Tells whether members leave an inherited region with this view whose groups they go on to want.
    fn wants_what_it_leaves(&self, id: RegionId, view: ViewNumber) -> bool {
        let Some(region) = self.regions.get(id).filter(|_| !self.regions.is_own(id)) else {
            return false;
        };
        let leaves = |node: &Node| {
            let departure = node.departures.get(&id);
            departure.is_some_and(|departure| departure.is_member() && departure.view == view)
        };
        let mut leavers = region.members.iter().filter(|member| member.leaving());
        leavers.any(|member| {
            let node = self.nodes.get(&member.origin.node);
            node.is_some_and(|node| leaves(node) && node.wants_any_of(&region.groups))
        })
    }

    /// Tells whether anybody may yet come back who may send to inherited regions: for some time everybody,
    /// then those of whom others know and who are waited for longer (R-MEM-15).
    fn waits_for_others(&mut self, now: Instant) -> bool {
        let Some(until) = self.unsettled.until() else {
            return false;
        };
        if now < until {
            return true;
        }
        let waits = self.nodes.values().any(|node| node.unreported);
        self.unsettled.wait_until(waits.then(|| now.after(LOOK)));
        waits
    }

    /// The time is over in which senders may report: whoever is told of the region by now has to
    /// have the view.
    pub(super) fn expire_unsettled(&mut self, now: Instant) {
        let due = self.unsettled.next_timeout().is_some_and(|at| at <= now);
        if due && !self.waits_for_others(now) {
            for (region, view) in self.unsettled.take() {
                self.work.push(Work::AwaitView { region, view });
            }
        }
    }

    /// These members leave a region for good. If they go on to want its groups, who may have sent to
    /// them there, and has not reported by now, does not go on in its life.
    pub(super) fn note_left<'a>(
        &mut self,
        id: RegionId,
        leavers: impl Iterator<Item = &'a NodeId>,
    ) {
        let Some(region) = self.regions.get(id).filter(|_| !self.regions.is_own(id)) else {
            return;
        };
        let mut leavers = leavers.filter_map(|id| self.nodes.get(id));
        if leavers.any(|node| node.wants_any_of(&region.groups)) {
            self.unsettled.note_left(id);
        }
    }
}

impl Node {
    fn wants_any_of(&self, groups: &[GroupId]) -> bool {
        let mut own = self.groups.iter();
        own.any(|group| groups.binary_search(group).is_ok())
    }
}
