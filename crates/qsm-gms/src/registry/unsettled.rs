use core::time::Duration;
use std::collections::BTreeSet;

use qsm_proto::Instant;
use qsm_wire::{RegionId, ViewNumber};

use super::work::Work;
use super::{Node, Registry};

/// Views of inherited regions of which it cannot be told yet that all who may send there have them:
/// whom the former service let publish, only they know, and who has not reported may come back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct UnsettledViews {
    /// When everybody who may come back in its life has done so.
    until: Instant,
    views: BTreeSet<(RegionId, ViewNumber)>,
}

impl UnsettledViews {
    /// Others may report so long.
    pub(super) fn begin(&mut self, now: Instant, patience: Duration) {
        self.until = now.after(patience);
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        (!self.views.is_empty()).then_some(self.until)
    }
}

impl Registry {
    /// Whether it is too early to tell members that leave with this view that nobody sends to them
    /// any more. Who has given up all groups of the region wants nothing more from there.
    pub(super) fn holds_settled(&mut self, now: Instant, id: RegionId, view: ViewNumber) -> bool {
        if now >= self.unsettled.until || self.regions.is_own(id) {
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
            self.unsettled.views.insert((id, view));
        }
        held
    }

    /// The time is over in which senders may report: whoever is told of the region by now has to
    /// have the view.
    pub(super) fn expire_unsettled(&mut self, now: Instant) {
        if now >= self.unsettled.until {
            for (region, view) in core::mem::take(&mut self.unsettled.views) {
                self.work.push(Work::AwaitView { region, view });
            }
        }
    }
}
