//! Views of a region, and what follows from them for its streams.

use std::sync::Arc;

use qsm_wire::GroupId;

use super::RegionCx;
use crate::Event;
use crate::view::RegionView;

impl RegionCx<'_> {
    /// Goes on under a view that has been put into the history; `departed`: it shows this node as
    /// leaving, which ended long ago. Returns the last packet of this node's stream that nobody is
    /// left to confirm; [`RegionCx::release_packets`] lets go of those.
    pub(crate) fn begin_view(&mut self, view: &Arc<RegionView>, departed: bool) -> Option<u64> {
        let (now, me) = (self.node.now, self.node.origin);
        let region = &mut *self.region;
        region.note_departed(departed);
        let returned = region.ring.set_view(now, view.clone(), me);
        let members = view.members().iter();
        region.receivers = members
            .filter(|member| !member.leaving() && member.origin != me)
            .count();
        let members = u32::try_from(view.members().len()).unwrap_or(u32::MAX);
        self.node.events.push(Event::RegionView {
            region: view.region(),
            view: view.number(),
            members,
        });
        for stream in region.streams.values_mut() {
            stream.restart_gaps(now, view.number());
        }
        if let Some(sender) = &mut region.sender {
            sender.open_view(now, view.number());
        }
        self.follow_absence(returned);
        let region = &mut *self.region;
        let alive = region.history.oldest_alive();
        region.served.follow(view, now, me, region.sender.as_ref());
        let sender = region.sender.as_ref()?;
        alive.map_or(Some(u64::MAX), |view| sender.last_before(view))
    }

    /// Frees packets of this node's stream that no member needs any more: leaving members still
    /// recover what was sent before they left.
    pub(crate) fn release_packets(&mut self) {
        let alive = self.region.history.oldest_alive();
        if let Some(sender) = &mut self.region.sender {
            match alive {
                Some(view) => sender.forget_views_before(self.node.now, self.pool, view),
                None => sender.no_receivers(self.pool),
            }
        }
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
