//! The views of one region as one node sees them: which packets it delivers, which it caches,
//! who else cached them, and who of those still lives.
//!
//! Packets carry the number of the view they were sent in. They are recovered under that view's
//! structures as long as somebody may miss them, so old views are remembered for a while.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use qsm_wire::membership::AwayReason;
use qsm_wire::{GroupId, MemberIndex, Origin, ViewNumber};

use crate::view::RegionView;

/// What a node does with the messages of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Delivers them.
    Deliver,
    /// The view is not known yet: keeps the packet until it is.
    Wait,
    /// Is no receiver of that view: passes over them.
    Pass,
}

/// What a node does with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRole {
    /// With its messages.
    pub duty: Duty,
    /// With its bytes, once it has been delivered here: whether they must be kept for others.
    pub keeps: bool,
    /// Whether this node keeps at least half of the view's packets, if it keeps any.
    pub keeps_most: bool,
}

#[derive(Debug)]
struct Entry {
    view: Arc<RegionView>,
    me: Option<MemberIndex>,
    /// This node is a member, and not a leaving one.
    receives: bool,
}

impl Entry {
    /// Whether this node must cache that packet of this view.
    fn caches(&self, sequence: u64) -> bool {
        let view = &self.view;
        self.me.is_some_and(|me| view.is_cacher(me, sequence))
    }

    /// This node's place among those that take part.
    fn live(&self) -> Option<MemberIndex> {
        self.me.filter(|me| self.view.is_live(*me))
    }
}

/// Later than all views.
const NEVER: ViewNumber = ViewNumber(u32::MAX);

/// The last views of one region.
#[derive(Debug)]
pub struct History {
    me: Origin,
    entries: VecDeque<Entry>,
    /// First view in which this node is a receiver.
    joined: Option<ViewNumber>,
    /// First view in which it is leaving or gone.
    left: Option<ViewNumber>,
    /// Groups that the application has given up here, and the view from which on it has them
    /// again.
    given_up: BTreeMap<GroupId, ViewNumber>,
    /// Groups that this node receives from a later view on than it has joined in.
    starts: BTreeMap<GroupId, ViewNumber>,
    /// Groups that this node receives, and not here.
    elsewhere: BTreeSet<GroupId>,
    /// No group begins in a later view than this, of those that are given up, those that start and
    /// those that are received elsewhere.
    whole_from: ViewNumber,
}

impl History {
    /// Views remembered. At ten batches a second these are six seconds; packets of older views
    /// that are still missing somewhere are asked of the newest view's cachers and their sender.
    pub const MAX: usize = 64;

    /// The history of a region whose first known view is this.
    #[must_use]
    pub fn new(me: Origin, view: Arc<RegionView>) -> Self {
        let mut history = Self {
            me,
            entries: VecDeque::new(),
            joined: None,
            left: None,
            given_up: BTreeMap::new(),
            starts: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
            whole_from: ViewNumber(0),
        };
        history.push(view);
        history
    }

    /// The next view.
    pub fn push(&mut self, view: Arc<RegionView>) {
        let me = view.index_of(self.me);
        let member = me.and_then(|at| view.member(at));
        let stayed = self.me().is_some();
        // Not: whether it is the first view that shows this. The views before may not have come.
        match (member.map(|member| (member.joined, member.left)), self.left) {
            // Back before it was out: it has taken part in the recovery all the time. It may be leaving
            // again, and the views of that stay have not come.
            (Some((joined, left)), Some(before))
                if stayed && (left.is_none() || joined > before) =>
            {
                self.left = left;
            }
            (Some((joined, left)), _) if !stayed => {
                self.starts.clear();
                self.joined = Some(joined);
                self.left = left;
            }
            (Some((_, left)), None) => self.left = left,
            (None, None) if self.joined.is_some() => self.left = Some(view.number()),
            _ => {}
        }
        if self.entries.len() == Self::MAX {
            self.entries.pop_front();
            let oldest = self.entries.front().map(|entry| entry.view.number());
            self.given_up.retain(|_, again| Some(*again) > oldest);
        }
        let receives = member.is_some_and(|member| !member.leaving());
        self.entries.push_back(Entry { view, me, receives });
    }

    /// This node's part begins with the current view, whatever it was before.
    pub fn join_now(&mut self) {
        self.joined = Some(self.newest().number());
    }

    /// The node whose history it is.
    #[must_use]
    pub fn owner(&self) -> Origin {
        self.me
    }

    /// The current view.
    #[must_use]
    pub fn newest(&self) -> &Arc<RegionView> {
        // Never empty: `new` puts one in and `push` only takes out to put in.
        &self.entries[self.entries.len() - 1].view
    }

    /// Live members of the current view.
    #[must_use]
    pub fn size(&self) -> usize {
        self.newest().live_members().len()
    }

    /// Whether this node is a member of the current view that nobody waits for.
    #[must_use]
    pub fn is_away(&self) -> bool {
        let newest = self.entries.back();
        newest.is_some_and(|entry| entry.me.is_some() && entry.live().is_none())
    }

    /// The reason for which nobody waits for this node in the current view, if so.
    pub(crate) fn away(&self) -> Option<AwayReason> {
        let me = self.me().and_then(|at| self.newest().member(at));
        me.and_then(|member| member.away)
    }

    /// Tells whether this node is a member of the current view that catches up with nothing (R-RATE-12).
    pub(crate) fn is_demoted(&self) -> bool {
        self.is_away() && self.away() == Some(AwayReason::Demoted)
    }

    /// This node's place in the current view.
    #[must_use]
    pub fn me(&self) -> Option<MemberIndex> {
        self.entries.back().and_then(|entry| entry.me)
    }

    /// Whether this node is a receiver of one of these views.
    #[must_use]
    pub fn has_received(&self) -> bool {
        self.entries.iter().any(|entry| entry.receives)
    }

    /// First view in which this node is a receiver.
    #[must_use]
    pub fn joined(&self) -> Option<ViewNumber> {
        self.joined
    }

    /// First view in which this node, once a receiver, is none any more.
    #[must_use]
    pub fn left(&self) -> Option<ViewNumber> {
        self.left
    }

    /// The view of this number, or else the one that is nearest to it.
    #[must_use]
    pub fn nearest(&self, number: ViewNumber) -> &Arc<RegionView> {
        &self.entry(number).view
    }

    /// The view of exactly this number.
    #[must_use]
    pub fn exact(&self, number: ViewNumber) -> Option<&Arc<RegionView>> {
        let view = self.nearest(number);
        (view.number() == number).then_some(view)
    }

    /// What to do with messages sent in that view (R-VIEW-2).
    #[must_use]
    pub fn duty(&self, number: ViewNumber) -> Duty {
        self.duty_by(self.entry(number), number)
    }

    /// What to do with that packet of that view.
    #[must_use]
    pub fn role(&self, number: ViewNumber, sequence: u64) -> PacketRole {
        let entry = self.entry(number);
        let others = entry.view.members().len() > 1;
        PacketRole {
            duty: self.duty_by(entry, number),
            keeps: others && (self.missed(entry, number) || entry.caches(sequence)),
            keeps_most: entry.view.partitions() <= 2,
        }
    }

    fn duty_by(&self, entry: &Entry, number: ViewNumber) -> Duty {
        if number > self.newest().number() {
            return Duty::Wait;
        }
        let joined = self.joined.is_some_and(|joined| joined <= number);
        let left = self.left.is_some_and(|left| left <= number);
        // A node that came back has views in between in which it received nothing.
        let away = entry.view.number() == number && !entry.receives;
        if joined && !left && !away {
            Duty::Deliver
        } else {
            Duty::Pass
        }
    }

    /// The application has given up this group: nothing of it is delivered any more.
    pub fn give_up(&mut self, group: GroupId) {
        self.given_up.insert(group, NEVER);
        self.whole_from = NEVER;
    }

    /// The application has these groups, those among them that it had given up here from the
    /// current view on: what was sent here before belongs to a stay that is over (R-MEM-9).
    pub fn take_up(&mut self, has: impl Fn(GroupId) -> bool) {
        let current = self.newest().number();
        for (group, again) in &mut self.given_up {
            if *again == NEVER && has(*group) {
                *again = self.starts.get(group).copied().unwrap_or(current);
            }
        }
        let all = self.given_up.values().chain(self.starts.values());
        let last = all.copied().max().unwrap_or_default();
        self.whole_from = match self.elsewhere.is_empty() {
            true => last,
            false => NEVER,
        };
    }

    /// This node receives these groups, and not here: what comes of them here was sent to others
    /// (R-VIEW-16).
    pub fn leave_to_others(&mut self, groups: BTreeSet<GroupId>) {
        self.elsewhere = groups;
        self.take_up(|_| false);
    }

    /// Whether this node receives this group, and not here.
    #[must_use]
    pub fn is_elsewhere(&self, group: GroupId) -> bool {
        self.elsewhere.contains(&group)
    }

    /// Tells whether the application has given this group up here, and has not taken it up here again.
    #[must_use]
    pub fn has_given_up(&self, group: GroupId) -> bool {
        self.given_up.get(&group) == Some(&NEVER)
    }

    /// Whether messages to this group that were sent in that view belong to a stay that is over, or
    /// were sent before this node received the group, or are received elsewhere.
    #[must_use]
    pub fn gave_up(&self, number: ViewNumber, group: GroupId) -> bool {
        let before = |views: &BTreeMap<GroupId, ViewNumber>| {
            views.get(&group).is_some_and(|from| number < *from)
        };
        // Asked for every message, and hardly ever is there any.
        number < self.whole_from
            && (before(&self.given_up) || before(&self.starts) || self.is_elsewhere(group))
    }

    /// First view from which on this node receives this group here: that in which it joined, unless it
    /// has it from a later one on. No view is as late where it has given the group up.
    #[must_use]
    pub fn begins(&self, group: GroupId) -> ViewNumber {
        let given_up = self.given_up.get(&group).copied();
        let later = given_up.max(self.starts.get(&group).copied());
        later.max(self.joined).unwrap_or_default()
    }

    /// This node receives these groups from these views on, and has joined before. What it has
    /// received so before is so still, also if another service does not know of it.
    pub fn add_starts(&mut self, starts: BTreeMap<GroupId, ViewNumber>) {
        let last = starts.values().copied().max();
        self.whole_from = self.whole_from.max(last.unwrap_or_default());
        self.starts.extend(starts);
    }

    /// Whether this node must cache that packet of that view.
    #[must_use]
    pub fn caches(&self, number: ViewNumber, sequence: u64) -> bool {
        self.entry(number).caches(sequence)
    }

    /// Whether that packet counts as cached only once this node has it: it is one of its cachers,
    /// or none of them lives, or this node does not know the view and so who they are (R-VIEW-9).
    #[must_use]
    pub fn answers_for(&self, number: ViewNumber, sequence: u64) -> bool {
        let entry = self.entry(number);
        self.missed(entry, number)
            || entry.caches(sequence)
            || self.cachers(number, sequence).next().is_none()
    }

    /// Whether that view was passed over, or is forgotten: the one that stands in for it has other
    /// partitions.
    fn missed(&self, entry: &Entry, number: ViewNumber) -> bool {
        number < self.newest().number() && entry.view.number() != number
    }

    /// This node's rank among the cachers of its partition in that view.
    #[must_use]
    pub fn my_rank(&self, number: ViewNumber) -> Option<usize> {
        let entry = self.entry(number);
        entry.live().map(|me| entry.view.rank_of(me))
    }

    /// Whether a member of an older view is one of the current view too.
    #[must_use]
    pub fn lives(&self, member: Origin) -> bool {
        self.newest().index_of(member).is_some()
    }

    /// Whether a member of an older view takes part in the current one.
    #[must_use]
    pub fn takes_part(&self, member: Origin) -> bool {
        let newest = self.newest();
        newest.index_of(member).is_some_and(|at| newest.is_live(at))
    }

    /// The oldest view still known of which another member is left; `None` if there are no others.
    #[must_use]
    pub fn oldest_alive(&self) -> Option<ViewNumber> {
        let mut views = self.entries.iter().map(|entry| &entry.view);
        let alive = views.find(|view| {
            let mut others = view.members().iter().map(|member| member.origin);
            others.any(|other| other != self.me && self.lives(other))
        });
        alive.map(|view| view.number())
    }

    /// The live cachers of that packet besides this node: rank and member (R-VIEW-9).
    pub fn cachers(
        &self,
        number: ViewNumber,
        sequence: u64,
    ) -> impl Iterator<Item = (usize, MemberIndex)> + '_ {
        self.cachers_who(number, sequence, |member| self.takes_part(member))
    }

    /// The cachers of that packet that are away, besides this node: rank and member.
    pub fn cachers_away(
        &self,
        number: ViewNumber,
        sequence: u64,
    ) -> impl Iterator<Item = (usize, MemberIndex)> + '_ {
        self.cachers_who(number, sequence, |member| {
            self.lives(member) && !self.takes_part(member)
        })
    }

    /// The cachers of that packet besides this node that are like this.
    fn cachers_who<'a>(
        &'a self,
        number: ViewNumber,
        sequence: u64,
        like: impl Fn(Origin) -> bool + 'a,
    ) -> impl Iterator<Item = (usize, MemberIndex)> + 'a {
        let view = self.nearest(number);
        view.partition(view.caching_partition(sequence))
            .enumerate()
            .filter(move |(_, index)| {
                view.member(*index)
                    .is_some_and(|member| member.origin != self.me && like(member.origin))
            })
    }

    fn entry(&self, number: ViewNumber) -> &Entry {
        let newest = &self.entries[self.entries.len() - 1];
        if number >= newest.view.number() {
            return newest;
        }
        let at = self
            .entries
            .partition_point(|entry| entry.view.number() < number);
        &self.entries[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Layout;
    use qsm_wire::membership::Member;
    use qsm_wire::{ChannelId, Incarnation, NodeId, RegionId};
    use std::net::SocketAddr;

    fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    fn view(number: u32, members: &[(u64, bool)]) -> Arc<RegionView> {
        let address = SocketAddr::from(([10, 0, 0, 1], 1));
        let members = members
            .iter()
            .map(|(node, leaving)| Member {
                origin: origin(*node),
                address,
                joined: ViewNumber(if *leaving { 1 } else { number }),
                left: leaving.then_some(ViewNumber(number)),
                away: None,
            })
            .collect();
        let channel = (ChannelId(1), SocketAddr::from(([239, 0, 0, 1], 1)));
        let layout = Layout::default();
        Arc::new(RegionView::new(
            RegionId(1),
            ViewNumber(number),
            channel,
            members,
            layout,
        ))
    }

    /// The view in which node 1 has been a receiver from `joined` on, until `left`.
    fn view_of_stay(number: u32, joined: u32, left: Option<u32>) -> Arc<RegionView> {
        let plain = view(number, &[(1, false), (2, false)]);
        let mut members = plain.members().to_vec();
        let me = members.iter_mut().find(|member| member.origin == origin(1));
        let me = me.unwrap();
        me.joined = ViewNumber(joined);
        me.left = left.map(ViewNumber);
        let channel = (plain.channel(), plain.address());
        let (region, number) = (plain.region(), plain.number());
        Arc::new(RegionView::new(
            region,
            number,
            channel,
            members,
            Layout::default(),
        ))
    }

    fn duties(history: &History, numbers: core::ops::RangeInclusive<u32>) -> Vec<Duty> {
        numbers
            .map(|number| history.duty(ViewNumber(number)))
            .collect()
    }

    #[test]
    fn a_node_that_was_out_and_comes_back_delivers_from_its_return_on() {
        let mut history = History::new(origin(1), view(1, &[(1, false), (2, false)]));
        history.push(view(2, &[(1, true), (2, false)]));
        history.push(view(3, &[(2, false)]));
        assert_eq!(history.left(), Some(ViewNumber(2)));
        history.push(view(4, &[(1, false), (2, false)]));
        assert_eq!(
            (history.joined(), history.left()),
            (Some(ViewNumber(4)), None)
        );
        let duties = duties(&history, 1..=5);
        assert_eq!(duties[..3], [Duty::Pass; 3]);
        assert_eq!(duties[3..], [Duty::Deliver, Duty::Wait]);
    }

    #[test]
    fn a_node_that_comes_back_while_it_leaves_delivers_all_but_the_time_between() {
        let mut history = History::new(origin(1), view(1, &[(1, false), (2, false)]));
        history.push(view(2, &[(1, true), (2, false)]));
        history.push(view(3, &[(1, false), (2, false)]));
        assert_eq!(
            (history.joined(), history.left()),
            (Some(ViewNumber(1)), None)
        );
        let duties = duties(&history, 1..=3);
        assert_eq!(duties, [Duty::Deliver, Duty::Pass, Duty::Deliver]);
    }

    // Rule R-VIEW-6.
    #[test]
    fn a_node_that_is_told_late_delivers_from_the_view_in_which_it_joined() {
        let late = |left: Option<u32>| History::new(origin(1), view_of_stay(7, 3, left));
        let stays = duties(&late(None), 2..=7);
        assert_eq!(stays[0], Duty::Pass);
        assert_eq!(stays[1..], [Duty::Deliver; 5]);
        let leaves = duties(&late(Some(5)), 2..=7);
        assert_eq!(leaves[1..3], [Duty::Deliver; 2]);
        assert_eq!(leaves[3..], [Duty::Pass; 3]);
    }

    // Rule R-VIEW-6.
    #[test]
    fn a_stay_that_was_not_heard_of_while_it_lasted_is_delivered() {
        let mut history = History::new(origin(1), view(1, &[(1, false), (2, false)]));
        history.push(view(2, &[(1, true), (2, false)]));
        history.push(view_of_stay(7, 4, Some(6)));
        assert_eq!(history.left(), Some(ViewNumber(6)));
        let duties = duties(&history, 4..=7);
        assert_eq!(duties[..2], [Duty::Deliver; 2]);
        assert_eq!(duties[2..], [Duty::Pass; 2]);
    }

    // Rule R-MEM-9.
    #[test]
    fn what_was_sent_before_a_group_is_taken_up_again_belongs_to_a_stay_that_is_over() {
        let mut history = History::new(origin(1), view(3, &[(1, false)]));
        let over = |history: &History, group| {
            let views = (1..=5).map(ViewNumber);
            views
                .filter(|number| history.gave_up(*number, group))
                .count()
        };
        history.take_up(|group| group == GroupId(7));
        assert_eq!(over(&history, GroupId(7)), 0);
        history.give_up(GroupId(7));
        assert_eq!(
            (over(&history, GroupId(7)), over(&history, GroupId(8))),
            (5, 0)
        );
        assert!(history.has_given_up(GroupId(7)) && !history.has_given_up(GroupId(8)));
        history.push(view(4, &[(1, false)]));
        history.take_up(|group| group == GroupId(7));
        assert!(!history.has_given_up(GroupId(7)));
        assert_eq!(over(&history, GroupId(7)), 3);
        history.push(view(5, &[(1, false)]));
        history.take_up(|group| group == GroupId(7));
        assert_eq!(over(&history, GroupId(7)), 3);
    }

    /// A view in which each packet has one cacher.
    fn split(number: u32, members: &[(u64, bool)]) -> Arc<RegionView> {
        let layout = Layout {
            replication: 1,
            block_packets: 1,
            ..Layout::default()
        };
        let plain = view(number, members);
        let channel = (plain.channel(), plain.address());
        let members = plain.members().to_vec();
        let (region, number) = (plain.region(), plain.number());
        Arc::new(RegionView::new(region, number, channel, members, layout))
    }

    #[test]
    fn without_living_cachers_everybody_answers_for_a_packet() {
        let mut history = History::new(origin(1), split(1, &[(1, false), (2, false)]));
        let answers =
            |history: &History| [2, 3].map(|sequence| history.answers_for(ViewNumber(1), sequence));
        assert_eq!(answers(&history).iter().filter(|own| **own).count(), 1);
        history.push(split(2, &[(1, false)]));
        assert_eq!(answers(&history), [true, true]);
    }

    // Rule R-VIEW-16.
    #[test]
    fn a_group_that_is_taken_up_within_a_stay_begins_with_its_view() {
        let mut history = History::new(origin(1), view(1, &[(1, false), (2, false)]));
        history.push(view(4, &[(1, false), (2, false)]));
        let (group, other) = (GroupId(7), GroupId(8));
        let over = |history: &History, group| {
            [3, 4, 5].map(|view| history.gave_up(ViewNumber(view), group))
        };
        history.add_starts(BTreeMap::from([(group, ViewNumber(4))]));
        assert_eq!(over(&history, group), [true, false, false]);
        assert_eq!(over(&history, other), [false; 3]);
        let begins = |history: &History| [group, other].map(|group| history.begins(group).0);
        assert_eq!(begins(&history), [4, 1]);
        // Given up and taken up again, by a later view than that which this node knows first.
        history.give_up(group);
        assert_eq!(over(&history, group), [true; 3]);
        history.add_starts(BTreeMap::from([(group, ViewNumber(5))]));
        history.push(view(6, &[(1, false), (2, false)]));
        history.take_up(|taken| taken == group);
        assert_eq!(over(&history, group), [true, true, false]);
        assert_eq!(begins(&history), [5, 1]);
        // It has the other one in another region, until it has it here.
        history.leave_to_others(BTreeSet::from([other]));
        assert_eq!(over(&history, other), [true; 3]);
        assert_eq!(over(&history, group), [true, true, false]);
        assert!(history.is_elsewhere(other) && !history.is_elsewhere(group));
        history.add_starts(BTreeMap::from([(other, ViewNumber(5))]));
        history.leave_to_others(BTreeSet::new());
        assert_eq!(over(&history, other), [true, true, false]);
    }

    // Rule R-VIEW-9.
    #[test]
    fn a_node_that_missed_a_view_caches_and_answers_for_all_its_packets() {
        let mut history = History::new(origin(1), split(1, &[(1, false), (2, false)]));
        history.push(split(3, &[(1, false), (2, false)]));
        let of = |number| {
            let number = ViewNumber(number);
            let answers = [2, 3].map(|sequence| history.answers_for(number, sequence));
            assert_eq!(
                answers,
                [2, 3].map(|sequence| history.role(number, sequence).keeps)
            );
            answers.iter().filter(|own| **own).count()
        };
        assert_eq!([of(1), of(2), of(3)], [1, 2, 1]);
    }
}
