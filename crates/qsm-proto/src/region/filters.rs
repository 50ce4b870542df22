//! Members of a region that do not receive all of its groups (R-VIEW-16).
//!
//! Such a member takes part in all else: it acknowledges and caches whatever is sent in the region,
//! and passes over the messages of groups that it does not receive. A sender has to know so, to say
//! truly who receives a group and who may lack a message.

use std::collections::BTreeMap;

use qsm_wire::membership::MemberFilter;
use qsm_wire::{GroupId, Origin, ViewNumber};

use crate::view::RegionView;

/// Groups that members of a region do not receive, or not since they came.
#[derive(Debug, Default)]
pub(super) struct Filters {
    /// The region is merged.
    merged: bool,
    members: BTreeMap<Origin, MemberFilter>,
}

impl Filters {
    /// Takes the membership service's word; `whole`: nothing else holds any more.
    pub(super) fn take(&mut self, whole: bool, members: Vec<MemberFilter>) {
        if whole {
            self.merged = true;
            self.members.clear();
        }
        for filter in members {
            if filter.unwanted.is_empty() && filter.since.is_empty() {
                self.members.remove(&filter.origin);
            } else {
                self.members.insert(filter.origin, filter);
            }
        }
    }

    /// Forgets those who are no members of this view.
    pub(super) fn retain(&mut self, view: &RegionView) {
        self.members
            .retain(|origin, _| view.index_of(*origin).is_some());
    }

    /// Members may not receive all groups, also where no filter says so.
    pub(super) fn is_merged(&self) -> bool {
        self.merged
    }

    /// Every member receives all groups.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Tells whether a member receives a group.
    pub(super) fn takes(&self, member: Origin, group: GroupId) -> bool {
        let filter = self.members.get(&member);
        filter.is_none_or(|filter| filter.unwanted.binary_search(&group).is_err())
    }

    /// The first view in which a member receives each group that it has not received since it came.
    pub(super) fn starts(&self, member: Origin) -> BTreeMap<GroupId, ViewNumber> {
        let filter = self.members.get(&member).into_iter();
        let starts = filter.flat_map(|filter| &filter.since);
        starts.map(|start| (start.group, start.view)).collect()
    }

    /// Tells whether a member does not receive all groups, or has not since it came.
    pub(super) fn names(&self, member: Origin) -> bool {
        self.members.contains_key(&member)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use qsm_wire::membership::GroupStart;
    use qsm_wire::{Incarnation, NodeId};

    use super::*;

    pub(in crate::region) fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    pub(in crate::region) fn filter(
        node: u64,
        unwanted: &[u32],
        since: &[(u32, u32)],
    ) -> MemberFilter {
        let since = since.iter().map(|(group, view)| GroupStart {
            group: GroupId(*group),
            view: ViewNumber(*view),
        });
        MemberFilter {
            origin: origin(node),
            unwanted: unwanted.iter().copied().map(GroupId).collect(),
            since: since.collect(),
        }
    }

    // Rule R-VIEW-16.
    #[test]
    fn a_word_on_one_member_replaces_the_one_before_and_a_whole_word_all() {
        let mut filters = Filters::default();
        let takes = |filters: &Filters| {
            [(1, 7), (1, 8), (2, 7)]
                .map(|(node, group)| filters.takes(origin(node), GroupId(group)))
        };
        assert_eq!(takes(&filters), [true, true, true]);
        let both = vec![filter(1, &[7, 8], &[]), filter(2, &[7], &[])];
        filters.take(true, both);
        assert_eq!(takes(&filters), [false, false, false]);
        filters.take(false, vec![filter(1, &[8], &[(7, 5)])]);
        assert_eq!(takes(&filters), [true, false, false]);
        let starts = BTreeMap::from([(GroupId(7), ViewNumber(5))]);
        assert_eq!(filters.starts(origin(1)), starts);
        filters.take(false, vec![filter(1, &[], &[])]);
        assert_eq!(takes(&filters), [true, true, false]);
        filters.take(true, vec![filter(1, &[7], &[])]);
        assert_eq!(takes(&filters), [false, true, true]);
    }
}
