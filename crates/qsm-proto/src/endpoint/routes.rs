use qsm_wire::{GroupId, RegionId};

use crate::table::GroupTable;

/// Where a group's messages go, and how many this node has sent.
#[derive(Debug, Default, PartialEq, Eq)]
struct Route {
    /// The regions of the group's current view (R018), ascending.
    regions: Vec<RegionId>,
    /// Messages published by this node in this life.
    published: u64,
    /// The application has entered the group as publisher.
    entered: bool,
}

/// The routes of all groups that this node has to do with. An idle group costs 64 to 128 bytes
/// (R146).
#[derive(Debug, Default)]
pub(super) struct Routes {
    routes: GroupTable<Route>,
}

impl Routes {
    /// A region has these groups now instead of those.
    pub(super) fn replace(&mut self, region: RegionId, old: &[GroupId], new: &[GroupId]) {
        for group in old.iter().filter(|group| new.binary_search(group).is_err()) {
            let regions = &mut self.routes.entry(*group).regions;
            regions.retain(|other| *other != region);
        }
        for group in new.iter().filter(|group| old.binary_search(group).is_err()) {
            let regions = &mut self.routes.entry(*group).regions;
            if let Err(at) = regions.binary_search(&region) {
                regions.insert(at, region);
            }
        }
    }

    /// The regions of a group.
    pub(super) fn regions(&self, group: GroupId) -> &[RegionId] {
        self.routes.get(group).map_or(&[], |route| &route.regions)
    }

    /// This node may publish to the group, or may not any more.
    pub(super) fn enter(&mut self, group: GroupId, entered: bool) {
        self.routes.entry(group).entered = entered;
    }

    /// The number of the next message; `None` if this node may not publish to the group.
    pub(super) fn next_number(&self, group: GroupId) -> Option<u64> {
        let route = self.routes.get(group).filter(|route| route.entered);
        route.map(|route| route.published + 1)
    }

    /// A message has been published.
    pub(super) fn count(&mut self, group: GroupId) {
        self.routes.entry(group).published += 1;
    }

    /// A new life numbers its messages from 1 again.
    pub(super) fn forget_numbers(&mut self) {
        let routes = self.routes.values_mut();
        routes.for_each(|route| route.published = 0);
    }
}
