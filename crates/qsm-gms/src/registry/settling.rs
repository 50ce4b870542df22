//! Members that leave an inherited region are told that nobody sends to them any more when that is
//! known (R-MEM-6).

use qsm_proto::Instant;
use qsm_wire::{RegionId, ViewNumber};

use super::work::Work;
use super::{Node, Registry};

impl Registry {
    /// Whether it is too early to tell members that leave with this view that nobody sends to them
    /// any more. Who has given up all groups of the region wants nothing more from there.
    pub(super) fn holds_settled(&mut self, now: Instant, id: RegionId, view: ViewNumber) -> bool {
        if self.unsettled.is_over(now) || self.regions.is_own(id) {
            return false;
        }
        let Some(region) = self.regions.get(id) else {
            return false;
        };
        let wants = |node: &Node| {
            let mut groups = node.groups.iter();
            groups.any(|group| region.groups.binary_search(group).is_ok())
        };
        let leaves = |node: &Node| {
            let departure = node.departures.get(&id);
            departure.is_some_and(|departure| departure.is_member() && departure.view == view)
        };
        let mut leavers = region.members.iter().filter(|member| member.leaving());
        let held = leavers.any(|member| {
            let node = self.nodes.get(&member.origin.node);
            node.is_some_and(|node| leaves(node) && wants(node))
        });
        if held {
            self.unsettled.hold(id, view);
        }
        held
    }

    /// The time is over in which senders may report: whoever is told of the region by now has to
    /// have the view.
    pub(super) fn expire_unsettled(&mut self, now: Instant) {
        if self.unsettled.is_over(now) {
            for (region, view) in self.unsettled.take() {
                self.work.push(Work::AwaitView { region, view });
            }
        }
    }
}
