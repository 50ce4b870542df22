use qsm_wire::{GroupId, RegionId};

/// Where a group's messages go, and how many this node has sent.
#[derive(Debug, Default)]
struct Route {
    /// The regions of the group's current view (R018), ascending.
    regions: Vec<RegionId>,
    /// Messages published by this node in this life.
    published: u64,
    /// The application has entered the group as publisher.
    entered: bool,
}

/// The routes of all groups, by their dense numbers. An idle group costs 40 bytes (R146).
#[derive(Debug, Default)]
pub(super) struct Routes {
    routes: Vec<Route>,
}

impl Routes {
    /// A region has these groups now instead of those.
    pub(super) fn replace(&mut self, region: RegionId, old: &[GroupId], new: &[GroupId]) {
        for group in old.iter().filter(|group| new.binary_search(group).is_err()) {
            let regions = &mut self.entry(*group).regions;
            regions.retain(|other| *other != region);
        }
        for group in new.iter().filter(|group| old.binary_search(group).is_err()) {
            let regions = &mut self.entry(*group).regions;
            if let Err(at) = regions.binary_search(&region) {
                regions.insert(at, region);
            }
        }
    }

    /// The regions of a group.
    pub(super) fn regions(&self, group: GroupId) -> &[RegionId] {
        self.route(group).map_or(&[], |route| &route.regions)
    }

    /// Whether this node may publish to the group.
    pub(super) fn entered(&self, group: GroupId) -> bool {
        self.route(group).is_some_and(|route| route.entered)
    }

    /// This node may publish to the group, or may not any more.
    pub(super) fn enter(&mut self, group: GroupId, entered: bool) {
        self.entry(group).entered = entered;
    }

    /// The number of the next message.
    pub(super) fn next_number(&self, group: GroupId) -> u64 {
        self.route(group).map_or(0, |route| route.published) + 1
    }

    /// A message has been published.
    pub(super) fn count(&mut self, group: GroupId) {
        self.entry(group).published += 1;
    }

    /// A new life numbers its messages from 1 again.
    pub(super) fn forget_numbers(&mut self) {
        self.routes.iter_mut().for_each(|route| route.published = 0);
    }

    fn route(&self, group: GroupId) -> Option<&Route> {
        self.routes.get(group.0 as usize)
    }

    fn entry(&mut self, group: GroupId) -> &mut Route {
        let at = group.0 as usize;
        if at >= self.routes.len() {
            self.routes.resize_with(at + 1, Route::default);
        }
        &mut self.routes[at]
    }
}
