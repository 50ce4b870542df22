//! What the numbers of this node's messages stood at when receivers joined a region or left it
//! (R-DATA-11): which messages each of them is owed.
//!
//! A receiver is owed what is sent from its view on, or from the later one in which it takes up a
//! group, and until the view that it leaves with. So of each group the number at the beginning of
//! views is remembered, if messages have been sent since the last one. Groups that nothing has been
//! sent to take no room.

use std::collections::BTreeMap;

use qsm_wire::{GroupId, ViewNumber};

use crate::publication::Routes;
use crate::table::GroupTable;
use crate::view::RegionView;

/// Numbers remembered in a region. Beyond that those are forgotten of views in which no member joined
/// or left, and if that is not enough, the older half of each group's.
const MARKS_MAX: usize = 65_536;

/// Where the numbers of a region's groups stood at the beginning of views.
#[derive(Debug, Default)]
pub(super) struct NumberMarks {
    groups: GroupTable<GroupMarks>,
    /// Groups that were in the region, and what the next number was when they went out.
    former: BTreeMap<GroupId, u64>,
    /// There were more of them than are remembered.
    former_forgotten: bool,
    /// The newest view; `None` before the first.
    view: Option<ViewNumber>,
    /// Of views up to this one only those are remembered in which members joined or left.
    sparse_upto: Option<ViewNumber>,
    count: usize,
}

/// The numbers of one group.
#[derive(Debug, Default, PartialEq, Eq)]
struct GroupMarks {
    /// From which view on, and the number of the first message then; ascending.
    marks: Vec<(ViewNumber, u64)>,
    /// There were older ones.
    forgotten: bool,
}

impl GroupMarks {
    /// The number of the first message in the first view that is not older than this.
    fn at(&self, view: ViewNumber) -> Option<u64> {
        let after = self.marks.partition_point(|(from, _)| *from <= view);
        match after.checked_sub(1) {
            Some(at) => Some(self.marks[at].1),
            None => (!self.forgotten).then_some(1),
        }
    }

    /// Forgets what no member needs; the members joined and left with these views, ascending.
    fn retain(&mut self, views: &[ViewNumber]) {
        let ends: Vec<_> = self.marks.iter().skip(1).map(|(from, _)| *from).collect();
        let mut ends = ends.into_iter();
        self.marks.retain(|(from, _)| {
            let end = ends.next();
            let at = views.partition_point(|view| view < from);
            let needs = views.get(at);
            needs.is_some_and(|view| end.is_none_or(|end| *view < end)) || end.is_none()
        });
    }

    /// Messages sent from this view on have this number and higher ones.
    fn set(&mut self, from: ViewNumber, next: u64) {
        if self.marks.last().is_none_or(|(_, last)| *last != next) {
            self.marks.push((from, next));
        }
    }

    fn forget_half(&mut self) {
        let half = self.marks.len() / 2;
        self.forgotten |= half > 0;
        self.marks.drain(..half);
    }
}

impl NumberMarks {
    /// The region has these groups now instead of those. What is sent to a group that is new here
    /// is owed to everybody from its next number on. If nothing was sent to it while it was out,
    /// only this node was not a publisher of it.
    pub(super) fn change_groups(&mut self, old: &[GroupId], new: &[GroupId], routes: &Routes) {
        let from = self.next_view();
        for group in old.iter().filter(|group| new.binary_search(group).is_err()) {
            let next = routes.next_number(*group);
            match self.former.len() < MARKS_MAX {
                true if next > 1 => {
                    self.former.insert(*group, next);
                    // Members may take it up while this node has left it.
                    self.set(*group, from, next);
                }
                false if next > 1 => self.former_forgotten = true,
                _ => {}
            }
        }
        for group in new.iter().filter(|group| old.binary_search(group).is_err()) {
            let next = routes.next_number(*group);
            if self.former.remove(group) != Some(next) && next > 1 {
                let marks = self.groups.entry(*group);
                self.count = self.count - marks.marks.len() + 1;
                marks.marks = vec![(ViewNumber(0), next)];
                marks.forgotten = false;
            }
        }
    }

    /// A view begins.
    pub(super) fn follow(&mut self, view: &RegionView, groups: &[GroupId], routes: &Routes) {
        let from = self.next_view();
        self.view = Some(view.number());
        for group in groups {
            self.set(*group, from, routes.next_number(*group));
        }
        if self.count > MARKS_MAX {
            self.forget_old(view);
        }
    }

    /// The first view that has not begun.
    fn next_view(&self) -> ViewNumber {
        self.view
            .map_or(ViewNumber(0), |last| ViewNumber(last.0 + 1))
    }

    fn set(&mut self, group: GroupId, from: ViewNumber, next: u64) {
        if next > 1 {
            let marks = self.groups.entry(group);
            let before = marks.marks.len();
            marks.set(from, next);
            self.count += marks.marks.len() - before;
        }
    }

    /// Names of groups that were in the region are missing from [`NumberMarks::former_from`].
    pub(super) fn has_forgotten_groups(&self) -> bool {
        self.former_forgotten
    }

    /// The groups from this one on that were in the region and are not any more: their messages may
    /// still be missed. With each the next number at that time.
    pub(super) fn former_from(&self, from: GroupId) -> impl Iterator<Item = (GroupId, u64)> {
        self.former
            .range(from..)
            .map(|(group, next)| (*group, *next))
    }

    /// The number of the first message to a group that is sent in this view, or in the first one
    /// after it that this node knew; `None`: forgotten.
    pub(super) fn at(&self, group: GroupId, view: ViewNumber) -> Option<u64> {
        self.groups
            .get(group)
            .map_or(Some(1), |marks| marks.at(view))
    }

    /// The same for a view in which perhaps no member joined or left; `None`: forgotten.
    pub(super) fn at_any(&self, group: GroupId, view: ViewNumber) -> Option<u64> {
        let whole = self.sparse_upto.is_none_or(|upto| upto < view);
        whole.then(|| self.at(group, view)).flatten()
    }

    fn forget_old(&mut self, view: &RegionView) {
        self.sparse_upto = self.view;
        let members = view.members().iter();
        let ends = members.flat_map(|member| [Some(member.joined), member.left]);
        let mut views: Vec<ViewNumber> = ends.flatten().collect();
        views.sort_unstable();
        views.dedup();
        self.groups
            .values_mut()
            .for_each(|marks| marks.retain(&views));
        self.recount();
        if self.count > MARKS_MAX / 2 {
            self.groups.values_mut().for_each(GroupMarks::forget_half);
            self.recount();
        }
    }

    fn recount(&mut self) {
        let counts = self.groups.values_mut().map(|marks| marks.marks.len());
        self.count = counts.sum();
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use qsm_wire::membership::Member;
    use qsm_wire::{ChannelId, Incarnation, NodeId, Origin, RegionId};

    use super::*;
    use crate::view::Layout;

    const GROUP: GroupId = GroupId(7);

    /// A view of members that joined and left with these views.
    fn view(number: u32, members: &[(u32, Option<u32>)]) -> RegionView {
        let member = |(node, (joined, left)): (u64, &(u32, Option<u32>))| Member {
            origin: Origin {
                node: NodeId(node),
                incarnation: Incarnation(1),
            },
            address: SocketAddr::from(([10, 0, 0, 1], u16::try_from(node).unwrap())),
            joined: ViewNumber(*joined),
            left: left.map(ViewNumber),
            away: None,
        };
        let channel = (ChannelId(1), SocketAddr::from(([239, 0, 0, 1], 1)));
        let members = (1..).zip(members).map(member).collect();
        let (region, number) = (RegionId(1), ViewNumber(number));
        RegionView::new(region, number, channel, members, Layout::default())
    }

    fn publish(routes: &mut Routes, group: GroupId, count: u64) {
        routes.enter(group, true);
        let (_, numbering) = routes.open(group).unwrap();
        (0..count).for_each(|_| numbering.count());
    }

    fn at(marks: &NumberMarks, views: impl IntoIterator<Item = u32>) -> Vec<Option<u64>> {
        let views = views.into_iter();
        views
            .map(|view| marks.at(GROUP, ViewNumber(view)))
            .collect()
    }

    // Rule R-DATA-11.
    #[test]
    fn a_member_is_owed_what_is_sent_from_its_view_on() {
        let (mut marks, mut routes) = (NumberMarks::default(), Routes::default());
        let groups = [GROUP];
        marks.change_groups(&[], &groups, &routes);
        marks.follow(&view(3, &[(3, None)]), &groups, &routes);
        publish(&mut routes, GROUP, 4);
        // The view 4 was not heard of; with 6 nobody comes or goes.
        marks.follow(&view(5, &[(3, None), (4, None)]), &groups, &routes);
        publish(&mut routes, GROUP, 2);
        marks.follow(&view(6, &[(3, None), (4, None)]), &groups, &routes);
        publish(&mut routes, GROUP, 1);
        marks.follow(&view(7, &[(3, Some(7)), (4, None)]), &groups, &routes);
        let expected = [1, 5, 5, 7, 8].map(Some);
        assert_eq!(at(&marks, [3, 4, 5, 6, 7]), expected);
        assert_eq!(
            marks.at(GroupId(8), ViewNumber(3)),
            Some(1),
            "nothing was sent"
        );
    }

    #[test]
    fn a_group_that_is_new_in_the_region_is_owed_from_its_next_number_on() {
        let (mut marks, mut routes) = (NumberMarks::default(), Routes::default());
        let groups = [GROUP];
        publish(&mut routes, GROUP, 9);
        marks.change_groups(&[], &groups, &routes);
        marks.follow(&view(3, &[(2, None)]), &groups, &routes);
        assert_eq!(at(&marks, [2]), [Some(10)]);
        publish(&mut routes, GROUP, 2);
        marks.change_groups(&groups, &[], &routes);
        marks.change_groups(&[], &groups, &routes);
        assert_eq!(at(&marks, [2]), [Some(10)], "only this node was out");
        assert_eq!(
            at(&marks, [4]),
            [Some(12)],
            "it sent nothing while it was out"
        );
        marks.change_groups(&groups, &[], &routes);
        publish(&mut routes, GROUP, 5);
        marks.change_groups(&[], &groups, &routes);
        assert_eq!(at(&marks, [2]), [Some(17)], "others were sent elsewhere");
        assert_eq!(marks.former_from(GroupId(0)).next(), None);
        marks.change_groups(&groups, &[], &routes);
        publish(&mut routes, GROUP, 5);
        let former: Vec<_> = marks.former_from(GROUP).collect();
        assert_eq!(former, [(GROUP, 17)], "its last message here was 16");
        assert_eq!(marks.former_from(GroupId(8)).next(), None);
    }

    #[test]
    fn so_many_groups_that_went_out_are_remembered() {
        let (mut marks, mut routes) = (NumberMarks::default(), Routes::default());
        let most = u32::try_from(MARKS_MAX).unwrap();
        for group in (0..=most).map(GroupId) {
            assert!(!marks.has_forgotten_groups());
            publish(&mut routes, group, 1);
            marks.change_groups(&[group], &[], &routes);
        }
        assert!(marks.has_forgotten_groups());
        assert_eq!(marks.former_from(GroupId(0)).count(), MARKS_MAX);
    }

    #[test]
    fn what_no_member_needs_is_forgotten_first_and_then_the_oldest() {
        let mut marks = GroupMarks {
            marks: (1..=8)
                .map(|n| (ViewNumber(n * 10), u64::from(n)))
                .collect(),
            ..GroupMarks::default()
        };
        marks.retain(&[15, 42, 80].map(ViewNumber));
        let kept = |marks: &GroupMarks| -> Vec<u64> {
            marks.marks.iter().map(|(_, number)| *number).collect()
        };
        assert_eq!(kept(&marks), [1, 4, 8]);
        assert_eq!(marks.at(ViewNumber(42)), Some(4));
        assert_eq!(marks.at(ViewNumber(5)), Some(1), "before the first message");
        marks.forget_half();
        assert_eq!(kept(&marks), [4, 8]);
        assert_eq!(marks.at(ViewNumber(15)), None);
    }

    #[test]
    fn a_region_remembers_so_many_numbers() {
        let (mut marks, mut routes) = (NumberMarks::default(), Routes::default());
        let groups: Vec<GroupId> = (1..=1000).map(GroupId).collect();
        marks.change_groups(&[], &groups, &routes);
        // Each view brings a member, and before it every group has got a message.
        let mut members: Vec<(u32, Option<u32>)> = Vec::new();
        for number in 1..=200 {
            members.push((number, None));
            marks.follow(&view(number, &members), &groups, &routes);
            groups
                .iter()
                .for_each(|group| publish(&mut routes, *group, 1));
            assert!(marks.count <= MARKS_MAX);
        }
        assert_eq!(at(&marks, [200, 199, 3]), [Some(200), Some(199), None]);
        let any = [200, 3].map(|view| marks.at_any(GROUP, ViewNumber(view)));
        assert_eq!(any, [Some(200), None]);
    }
}
