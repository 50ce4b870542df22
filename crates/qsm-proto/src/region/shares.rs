//! Messages that members of a region receive, where they do not receive all of its groups
//! (R-VIEW-16): who may lack them, and who is waited for.

use qsm_wire::membership::MemberFilter;
use qsm_wire::{GroupId, Origin};

use super::Region;
use super::filters::Filters;
use super::served::Unserved;
use crate::publication::Routes;
use crate::send::SendStream;
use crate::unconfirmed::UnconfirmedNumbers;

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

    /// Tells whether a member does not receive all groups, or has not since it came.
    pub(super) fn has_filter(&self, member: Origin) -> bool {
        self.filters.names(member)
    }

    /// Its groups that this node receives, if it is a receiver; ascending.
    pub(crate) fn received(&self) -> impl Iterator<Item = GroupId> + '_ {
        let me = self.history.owner();
        let groups = self.groups.iter().copied();
        groups.filter(move |group| self.filters.takes(me, *group))
    }

    /// Tells whether this node receives this group here, if it is a receiver.
    pub(crate) fn receives(&self, group: GroupId) -> bool {
        self.groups.binary_search(&group).is_ok() && self.filters.takes(self.history.owner(), group)
    }

    /// Tells whether a member receives a group of the region, as far as this node has to know.
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

    /// Tells whether a member receives one of these messages that are not known to have arrived.
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
        after: u64,
        upto: u64,
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

    /// Members that are not known to have all that this node has sent, and whether messages that they
    /// receive may be among what they lack.
    pub(super) fn behind(&self, me: Origin, routes: &Routes) -> Vec<(Origin, bool)> {
        if self.sender.is_none() {
            return Vec::new();
        }
        let members = self.history.newest().members().iter();
        let others = members
            .map(|member| member.origin)
            .filter(|origin| *origin != me);
        let behind = others.filter_map(|origin| match self.served.away().get(&origin) {
            Some(away) => {
                let known = self.has_filter(origin) && self.served.knows_views();
                let owed = || {
                    !self
                        .owed_in(origin, away.after, away.upto, routes)
                        .is_empty()
                };
                Some((origin, !known || away.misses_freed() || owed()))
            }
            None => {
                let behind = !self.stable() || self.served.has_returned(origin);
                behind.then_some((origin, true))
            }
        });
        behind.collect()
    }

    /// A sender that has said goodbye owes this node nothing.
    pub(super) fn note_nothing_owed(&mut self, sender: Origin) {
        if let Some(stream) = self.streams.get_mut(&sender) {
            stream.note_nothing_owed();
        }
    }

    /// Receivers that vanished, with the messages that each is not known to have; those who receive
    /// all groups together.
    pub(super) fn unserved_messages(
        &self,
        unserved: &Unserved,
        routes: &Routes,
    ) -> Vec<(Vec<Origin>, UnconfirmedNumbers)> {
        let (after, upto) = (unserved.after, unserved.upto);
        let filtered = |origin: &Origin| self.filters.names(*origin);
        let (some, all): (Vec<Origin>, Vec<Origin>) =
            unserved.receivers.iter().copied().partition(filtered);
        let named = |receivers: Vec<Origin>| {
            let first = *receivers.first()?;
            let mut released = unserved.released.clone();
            released.retain(|group| self.takes(first, group));
            let mut numbers = UnconfirmedNumbers::default();
            numbers.add_low(released, routes);
            numbers.extend(self.owed_in(first, after, upto, routes));
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

    use qsm_wire::membership::{AwayReason, Member};
    use qsm_wire::{ChannelId, Header, NodeId, RegionId, StreamId, ViewNumber};

    use super::super::filters::tests::{filter, origin};
    use super::*;
    use crate::send::{BlockPool, Message, SendConfig};
    use crate::view::{Layout, RegionView};
    use crate::{Config, Instant};

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
    fn who_is_away_is_owed_what_it_receives_and_no_other_packet() {
        let mut region = sending(&[7]);
        let mut members = region.history.newest().members().to_vec();
        members[2].away = Some(AwayReason::Silent);
        let channel = (ChannelId(9), SocketAddr::from(([239, 0, 0, 1], 7)));
        let (id, layout) = (RegionId(1), Layout::default());
        let view = RegionView::new(id, ViewNumber(2), channel, members, layout);
        let view = Arc::new(view);
        let stream = region.sender.as_ref();
        region.served.follow(&view, Instant(2), origin(1), stream);
        region.history.push(view);
        let behind = |region: &Region| region.behind(origin(1), &Routes::default());
        let both = [(origin(2), true), (origin(3), true)];
        assert_eq!(behind(&region), both, "all members receive all groups");
        region.take_filters(origin(1), true, vec![filter(3, &[8], &[])]);
        assert_eq!(behind(&region), both);
        region.take_filters(origin(1), true, vec![filter(3, &[7], &[])]);
        assert_eq!(behind(&region), [(origin(2), true), (origin(3), false)]);
        // It has given up something, and may not know yet what that was.
        region.served.note_question(origin(3), 1);
        assert_eq!(behind(&region), both);
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
}
