use core::num::NonZeroU64;

use qsm_wire::{GroupId, RegionId};

use crate::table::GroupTable;

/// The regions of a group's current view (R018), ascending. Most groups have one or none, and pay
/// for no list on the heap. Two variants, so that neither pays for a tag.
#[derive(Debug, PartialEq, Eq)]
enum GroupSpread {
    One(RegionId),
    /// None, or several.
    Many(Box<[RegionId]>),
}

impl Default for GroupSpread {
    fn default() -> Self {
        Self::Many(Box::default())
    }
}

impl GroupSpread {
    fn regions(&self) -> &[RegionId] {
        match self {
            Self::One(region) => core::slice::from_ref(region),
            Self::Many(regions) => regions,
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut Vec<RegionId>)) {
        let mut regions = self.regions().to_vec();
        change(&mut regions);
        *self = match regions[..] {
            [region] => Self::One(region),
            _ => Self::Many(regions.into()),
        };
    }
}

/// The number of the next message to a group (the first is 1), twice, and one more if the
/// application has entered the group as publisher. In one word that is never zero, a free place of
/// the table costs no word of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Numbering(NonZeroU64);

impl Numbering {
    fn new(next: u64, entered: bool) -> Self {
        // Nobody publishes 2^63 messages.
        let word = next.saturating_mul(2) | u64::from(entered);
        Self(NonZeroU64::new(word).unwrap_or(NonZeroU64::MIN))
    }

    /// The number of the next message.
    pub(crate) fn next(self) -> u64 {
        self.0.get() / 2
    }

    /// A message has been published.
    pub(crate) fn count(&mut self) {
        *self = Self::new(self.next() + 1, self.entered());
    }

    fn entered(self) -> bool {
        self.0.get() % 2 == 1
    }
}

impl Default for Numbering {
    fn default() -> Self {
        Self::new(1, false)
    }
}

/// Where a group's messages go, and how many this node has sent in this life.
#[derive(Debug, Default, PartialEq, Eq)]
struct Route {
    spread: GroupSpread,
    numbering: Numbering,
}

/// The routes of all groups that this node has to do with. An idle group costs 43 to 85 bytes
/// (R146).
#[derive(Debug, Default)]
pub(crate) struct Routes {
    routes: GroupTable<Route>,
}

impl Routes {
    /// A region has these groups now instead of those.
    pub(crate) fn replace(&mut self, region: RegionId, old: &[GroupId], new: &[GroupId]) {
        for group in old.iter().filter(|group| new.binary_search(group).is_err()) {
            let spread = &mut self.routes.entry(*group).spread;
            spread.change(|regions| regions.retain(|other| *other != region));
        }
        for group in new.iter().filter(|group| old.binary_search(group).is_err()) {
            let spread = &mut self.routes.entry(*group).spread;
            if let Err(at) = spread.regions().binary_search(&region) {
                spread.change(|regions| regions.insert(at, region));
            }
        }
    }

    /// The regions of a group.
    pub(crate) fn regions(&self, group: GroupId) -> &[RegionId] {
        let route = self.routes.get(group);
        route.map_or(&[], |route| route.spread.regions())
    }

    /// This node may publish to the group, or may not any more.
    pub(crate) fn enter(&mut self, group: GroupId, entered: bool) {
        let route = self.routes.entry(group);
        route.numbering = Numbering::new(route.numbering.next(), entered);
    }

    /// Tells whether this node may publish to the group.
    pub(crate) fn is_entered(&self, group: GroupId) -> bool {
        let route = self.routes.get(group);
        route.is_some_and(|route| route.numbering.entered())
    }

    /// The regions of a group and the number of its next message; `None` if this node may not
    /// publish to it.
    pub(crate) fn open(&mut self, group: GroupId) -> Option<(&[RegionId], &mut Numbering)> {
        let route = self.routes.get_mut(group)?;
        let entered = route.numbering.entered();
        entered.then_some((route.spread.regions(), &mut route.numbering))
    }

    /// The number of the next message to a group.
    pub(crate) fn next_number(&self, group: GroupId) -> u64 {
        let route = self.routes.get(group);
        route.map_or(1, |route| route.numbering.next())
    }

    /// Places of the table of groups.
    pub(crate) fn places(&self) -> usize {
        self.routes.places()
    }

    /// Messages published to the groups in so many places from this one on.
    pub(crate) fn counts(
        &self,
        place: usize,
        count: usize,
    ) -> impl Iterator<Item = (GroupId, u64)> {
        let routes = self.routes.look(place, count);
        let counts = routes.map(|(group, route)| (group, route.numbering.next() - 1));
        counts.filter(|(_, count)| *count > 0)
    }

    /// A new life numbers its messages from 1 again, and may not publish to a group before it has
    /// been named again: until then it has no regions, and messages would go nowhere.
    pub(crate) fn forget_numbers(&mut self) {
        for route in self.routes.values_mut() {
            route.numbering = Numbering::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R146: a fifth of the memory of a publisher's idle groups would be padding otherwise.
    #[test]
    fn a_place_in_the_table_is_four_words() {
        assert_eq!(size_of::<Option<(GroupId, Route)>>(), 32);
    }

    #[test]
    fn numbers_go_on_when_a_group_is_exited_and_entered_again() {
        let (mut routes, group) = (Routes::default(), GroupId(3));
        let next = |routes: &mut Routes| routes.open(group).map(|(_, numbering)| numbering.next());
        assert_eq!(next(&mut routes), None);
        routes.enter(group, true);
        assert_eq!(next(&mut routes), Some(1));
        routes.open(group).unwrap().1.count();
        routes.enter(group, false);
        assert_eq!(next(&mut routes), None);
        routes.enter(group, true);
        assert_eq!(next(&mut routes), Some(2));
        routes.forget_numbers();
        assert_eq!(next(&mut routes), None, "not before it is named again");
        routes.enter(group, true);
        assert_eq!(next(&mut routes), Some(1));
    }

    #[test]
    fn a_group_has_the_regions_that_have_it() {
        let (mut routes, group) = (Routes::default(), GroupId(3));
        for region in [5, 2, 9] {
            routes.replace(RegionId(region), &[], &[group]);
        }
        assert_eq!(routes.regions(group), [2, 5, 9].map(RegionId));
        routes.replace(RegionId(5), &[group], &[]);
        routes.replace(RegionId(2), &[group], &[]);
        assert_eq!(routes.regions(group), [RegionId(9)]);
        routes.replace(RegionId(9), &[group], &[]);
        assert_eq!(routes.regions(group), []);
    }
}
