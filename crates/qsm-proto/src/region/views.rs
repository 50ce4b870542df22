//! Views of a region, and what follows from them for its streams.

use std::sync::Arc;

use qsm_wire::GroupId;

use super::RegionCx;
use crate::Event;
use crate::view::RegionView;

impl RegionCx<'_> {
    /// Goes on under a view that has been put into the history; `departed`: it shows this node as
    /// leaving, which ended long ago.
    pub(crate) fn begin_view(&mut self, view: &Arc<RegionView>, departed: bool) {
        let (now, me) = (self.node.now, self.node.origin);
        let region = &mut *self.region;
        region.note_departed(departed);
        region.ring.set_view(now, view.clone(), me);
        let members = view.members().iter();
        region.receivers = members
            .filter(|member| !member.leaving() && member.origin != me)
            .count();
        if let Some(sender) = &mut region.sender {
            sender.open_view(now, view.number());
            // Leaving members still recover what was sent before they left.
            match region.history.oldest_alive() {
                Some(view) => sender.forget_views_before(now, self.pool, view),
                None => sender.no_receivers(self.pool),
            }
        }
        let members = u32::try_from(view.members().len()).unwrap_or(u32::MAX);
        self.node.events.push(Event::RegionView {
            region: view.region(),
            view: view.number(),
            members,
        });
    }

    /// Takes over the region's groups. It concerns this node again if it did not any more.
    pub(crate) fn set_groups(&mut self, groups: Vec<GroupId>) {
        self.region.groups = groups;
        if self.region.parted {
            self.region.parted = false;
            self.membership.not_drained(self.region.id());
        }
    }
}
