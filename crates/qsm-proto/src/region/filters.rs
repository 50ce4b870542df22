//! Members of a region that do not receive all of its groups (R-VIEW-16).
//!
//! Such a member takes part in all else: it acknowledges and caches whatever is sent in the region,
//! and passes over the messages of groups that it does not receive. A sender has to know so, to say
//! truly who receives a group and who may lack a message.

use std::collections::BTreeMap;

use qsm_wire::membership::MemberFilter;
use qsm_wire::{GroupId, Origin, ViewNumber};

use super::Region;
use super::served::Unserved;
use crate::publication::Routes;
use crate::send::SendStream;
use crate::unconfirmed::UnconfirmedNumbers;
use crate::view::RegionView;

/// Groups that members of a region do not receive, or not since they came.
#[derive(Debug, Default)]
pub(super) struct Filters {
    members: BTreeMap<Origin, MemberFilter>,
}

impl Filters {
    /// Takes the membership service's word; `whole`: nothing else holds any more.
    fn take(&mut self, whole: bool, members: Vec<MemberFilter>) {
        if whole {
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
    fn retain(&mut self, view: &RegionView) {
        self.members
            .retain(|origin, _| view.index_of(*origin).is_some());
    }

    /// Every member receives all groups.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether a member receives a group.
    pub(super) fn takes(&self, member: Origin, group: GroupId) -> bool {
        let filter = self.members.get(&member);
        filter.is_none_or(|filter| filter.unwanted.binary_search(&group).is_err())
    }

    /// The first view in which a member receives each group that it has not received since it came.
    fn starts(&self, member: Origin) -> BTreeMap<GroupId, ViewNumber> {
        let filter = self.members.get(&member).into_iter();
        let starts = filter.flat_map(|filter| &filter.since);
        starts.map(|start| (start.group, start.view)).collect()
    }
}

impl Region {
    /// Takes the membership service's word who receives what. `me` is this node.
    pub(super) fn take_filters(&mut self, me: Origin, whole: bool, members: Vec<MemberFilter>) {
        self.filters.take(whole, members);
        self.filters.retain(self.history.newest());
        self.history.add_starts(self.filters.starts(me));
    }

    /// All members receive all groups from now on. What this node has not received since it came it
    /// still has from that view on.
    pub(super) fn clear_filters(&mut self) {
        self.filters = Filters::default();
    }

    /// Whether a member does not receive all groups, or has not since it came.
    pub(super) fn has_filter(&self, member: Origin) -> bool {
        self.filters.members.contains_key(&member)
    }

    /// Its groups that this node receives, if it is a receiver; ascending.
    pub(crate) fn received(&self) -> impl Iterator<Item = GroupId> + '_ {
        let me = self.history.owner();
        let groups = self.groups.iter().copied();
        groups.filter(move |group| self.filters.takes(me, *group))
    }

    /// Whether this node receives this group here, if it is a receiver.
    pub(crate) fn receives(&self, group: GroupId) -> bool {
        self.groups.binary_search(&group).is_ok() && self.filters.takes(self.history.owner(), group)
    }

    /// Whether a member receives a group of the region, as far as this node has to know.
    #[must_use]
    pub fn takes(&self, member: Origin, group: GroupId) -> bool {
        self.filters.takes(member, group)
    }

    /// Whether a member that is not leaving receives one of the messages of this node that are not
    /// known to have arrived. If not, who has yet to acknowledge them is no receiver of any.
    #[must_use]
    pub fn awaits_receivers(&self) -> bool {
        let Some(stream) = self.sender.as_ref().filter(|_| !self.filters.is_empty()) else {
            return true;
        };
        let (view, me) = (self.history.newest(), self.history.owner());
        let members = view.members().iter();
        let mut others = members.filter(|member| !member.leaving() && member.origin != me);
        others.any(|member| self.is_owed(member.origin, stream))
    }

    /// Whether a member receives one of these messages that are not known to have arrived.
    fn is_owed(&self, member: Origin, stream: &SendStream) -> bool {
        let starts = self.filters.starts(member);
        let mut all = stream.unstable(0, u64::MAX);
        let mut late = starts
            .iter()
            .filter(|(group, _)| self.takes(member, **group));
        all.any(|(group, _)| self.takes(member, group) && !starts.contains_key(&group))
            || late.any(|(group, view)| {
                let before = stream.last_before(*view).unwrap_or(0);
                let mut since = stream.unstable(before, u64::MAX);
                since.any(|(other, _)| other == *group)
            })
    }

    /// Messages of this node in packets above `after`, up to `upto`, that a member receives.
    pub(super) fn owed_in(
        &self,
        member: Origin,
        (after, upto): (u64, u64),
        routes: &Routes,
    ) -> UnconfirmedNumbers {
        let mut numbers = UnconfirmedNumbers::default();
        let Some(stream) = &self.sender else {
            return numbers;
        };
        let starts = self.filters.starts(member);
        numbers.add_kept_of(stream, after, upto, routes, |group| {
            self.takes(member, group) && !starts.contains_key(&group)
        });
        for (group, view) in starts {
            let before = stream.last_before(view).unwrap_or(0);
            numbers.add_kept_of(stream, after.max(before), upto, routes, |other| {
                other == group && self.takes(member, group)
            });
        }
        numbers
    }

    /// Receivers that vanished, with the messages that each is not known to have; those who receive
    /// all groups together.
    pub(super) fn unserved_messages(
        &self,
        unserved: &Unserved,
        routes: &Routes,
    ) -> Vec<(Vec<Origin>, UnconfirmedNumbers)> {
        let range = (unserved.after, unserved.upto);
        let filtered = |origin: &Origin| self.filters.members.contains_key(origin);
        let (some, all): (Vec<Origin>, Vec<Origin>) =
            unserved.receivers.iter().copied().partition(filtered);
        let named = |receivers: Vec<Origin>| {
            let first = *receivers.first()?;
            let mut released = unserved.released.clone();
            released.retain(|group| self.takes(first, group));
            let mut numbers = UnconfirmedNumbers::default();
            numbers.add_low(released, routes);
            numbers.extend(self.owed_in(first, range, routes));
            Some((receivers, numbers))
        };
        let each = some.into_iter().map(|origin| vec![origin]);
        core::iter::once(all)
            .chain(each)
            .filter_map(named)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use qsm_wire::membership::{GroupStart, Member};
    use qsm_wire::{ChannelId, Header, Incarnation, NodeId, RegionId, StreamId};

    use super::*;
    use crate::send::{BlockPool, Message, SendConfig};
    use crate::view::Layout;
    use crate::{Config, Instant};

    fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    fn filter(node: u64, unwanted: &[u32], since: &[(u32, u32)]) -> MemberFilter {
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

    /// A region of this node, 1, and two others; and messages of node 1 to these groups, a packet each.
    fn sending(groups: &[u32]) -> Region {
        let config = Config::new(NodeId(1), SocketAddr::from(([127, 0, 0, 1], 1)));
        let members = [1, 2, 3].map(|node| Member {
            origin: origin(node),
            address: config.address,
            joined: ViewNumber(1),
            left: None,
            away: None,
        });
        let channel = (ChannelId(9), SocketAddr::from(([239, 0, 0, 1], 7)));
        let (region, layout) = (RegionId(1), Layout::default());
        let view = RegionView::new(region, ViewNumber(1), channel, members.to_vec(), layout);
        let mut region = Region::new(&config, origin(1), Arc::new(view));
        let id = StreamId {
            origin: origin(1),
            channel: ChannelId(9),
        };
        let header = Header {
            origin: origin(1),
            ..Header::default()
        };
        let mut stream = SendStream::new(SendConfig::new(&config), header, id, ViewNumber(1));
        let mut pool = BlockPool::new(1 << 20, 1 << 20);
        for group in groups {
            let message = Message {
                group: GroupId(*group),
                number: 1,
                payload: &[1; 1200],
            };
            stream.push(Instant(1), &mut pool, message).unwrap();
        }
        region.sender = Some(stream);
        region
    }

    // Rule R-VIEW-16.
    #[test]
    fn a_receiver_lacks_what_it_receives_and_nobody_else_is_waited_for() {
        let mut region = sending(&[7]);
        let name = |group: GroupId| Some(Arc::from(group.0.to_string()));
        let lacking = |region: &Region| {
            let all = region
                .lacking(origin(1), &Routes::default(), &name)
                .into_iter();
            let all = all.map(|one| (one.receivers, one.messages.len()));
            all.collect::<Vec<_>>()
        };
        let both = vec![origin(2), origin(3)];
        assert_eq!(lacking(&region), [(both, 1)]);
        region.take_filters(origin(1), true, vec![filter(2, &[7], &[])]);
        assert_eq!(lacking(&region), [(vec![origin(3)], 1)]);
        assert!(region.awaits_receivers());
        region.take_filters(origin(1), false, vec![filter(3, &[7], &[])]);
        assert_eq!(lacking(&region), []);
        assert!(!region.awaits_receivers());

        let stream = region.sender.as_mut().unwrap();
        stream.open_view(Instant(2), ViewNumber(2));
        region.take_filters(origin(1), false, vec![filter(3, &[], &[(7, 2)])]);
        assert_eq!(
            lacking(&region),
            [],
            "it receives what is sent from view 2 on"
        );
        assert!(!region.awaits_receivers());

        // Of two groups, each lacks its own.
        let mut region = sending(&[7, 8]);
        let filters = vec![filter(2, &[7], &[]), filter(3, &[8], &[(7, 2)])];
        region.take_filters(origin(1), true, filters);
        // Node 3 has group 7 from view 2 on.
        assert_eq!(lacking(&region), [(vec![origin(2)], 1)]);
        assert!(region.awaits_receivers());
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
