//! Questions where a stream begins: asked when packets do not tell, and answered by the sender or
//! by whoever knows.

use std::collections::btree_map::Entry;
use std::net::SocketAddr;

use qsm_wire::{Heartbeat, Opening, Origin, SeqRange, StreamId, StreamQuery, ViewNumber};

use super::{Region, RegionCx};
use crate::membership::Membership;
use crate::node::NodeState;
use crate::receive::ReceiveStream;
use crate::send::PastStreams;
use crate::{Destination, Instant, Reason};

/// How often a sender is asked for its openings before other members are.
const QUERIES_TO_SENDER: u32 = 3;
/// When a question is given up. If the stream still matters, it comes up again.
const QUERIES_MAX: u32 = 20;
/// Most senders that are asked at once in a region.
const QUERIES_OPEN_MAX: usize = 1024;

/// A question to a sender where the views of its stream begin.
#[derive(Debug, Clone)]
pub(super) struct Query {
    /// Where the sender is, if that is known.
    pub(super) address: Option<SocketAddr>,
    /// When to ask next.
    pub(super) due: Instant,
    /// How often it has been asked.
    pub(super) attempts: u32,
    /// Members of `view` that have nothing of the stream, whose sender is dead.
    without: Vec<Origin>,
    view: ViewNumber,
}

impl Query {
    /// A question to be put at once; `address`: where the sender is, if that is known.
    pub(super) fn new(now: Instant, address: Option<SocketAddr>) -> Self {
        Self {
            address,
            due: now,
            attempts: 0,
            without: Vec::new(),
            view: ViewNumber::default(),
        }
    }

    /// A member of the newest view, which is this one, has nothing of the stream: the next is asked at once.
    fn note_without(&mut self, now: Instant, view: ViewNumber, member: Origin) {
        if self.view != view {
            self.without.clear();
            self.view = view;
        }
        if !self.without.contains(&member) {
            self.without.push(member);
            (self.due, self.attempts) = (now, 0);
        }
    }

    /// This member of the newest view, which is that one, has not said that it has nothing of the stream.
    fn may_have(&self, view: ViewNumber, member: Origin) -> bool {
        self.view != view || !self.without.contains(&member)
    }
}

/// How far a stream goes, whether it is over, and where its views begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamExtent {
    highest: u64,
    finished: bool,
    newest_first: Vec<Opening>,
}

impl StreamExtent {
    /// The extent of a stream as far as this node has it all: no view begins there that it does not
    /// know of. Of a dead sender also what it is not concerned with, which has been sent as surely
    /// as it ever will.
    fn received(stream: &ReceiveStream) -> Self {
        let sent = match stream.sender_dead() {
            true => u64::MAX,
            false => stream.sent(),
        };
        Self {
            highest: stream.contiguous().min(sent),
            finished: stream.is_final(),
            newest_first: stream.openings().collect(),
        }
    }

    /// Nothing: of a stream whose sender is dead, at a member that has not received any of it.
    fn nothing() -> Self {
        Self {
            highest: 0,
            finished: true,
            newest_first: Vec::new(),
        }
    }

    /// The extent of what this node has sent on a channel that does not concern it: it is over.
    fn ended(pasts: &PastStreams, stream: StreamId) -> Option<Self> {
        let past = pasts.get(stream.channel).map(|past| Self {
            highest: past.highest,
            finished: true,
            newest_first: past.openings.iter().rev().copied().collect(),
        });
        past.or_else(|| pasts.complete().then(Self::nothing))
    }

    /// Says so to a node.
    pub(crate) fn say(self, node: &mut NodeState, to: SocketAddr, stream: StreamId) {
        let header = node.header();
        node.stats.heartbeats_sent += 1;
        node.outbox
            .push(Reason::Status, Destination::Node(to), |bytes| {
                let newest_first = self.newest_first.into_iter();
                let (highest, finished) = (self.highest, self.finished);
                Heartbeat::encode(&header, stream, highest, finished, newest_first, bytes);
            });
    }
}

/// The extent of a stream that somebody asks for: of this node's own, or of one that is known in
/// its region, or of which nothing is known and, as its sender is dead, never will be but by others.
pub(crate) fn extent_asked_for(
    region: Option<&Region>,
    pasts: &PastStreams,
    membership: &Membership,
    stream: StreamId,
) -> Option<StreamExtent> {
    let sender = stream.origin;
    match region {
        _ if sender != membership.origin() => {
            let region = region.filter(|region| region.history.joined().is_some())?;
            let known = region.streams.get(&sender).map(StreamExtent::received);
            known.or_else(|| membership.is_dead(sender).then(StreamExtent::nothing))
        }
        Some(region) if region.sender.is_some() || pasts.complete() => Some(region.own_extent()),
        Some(_) => None,
        None => StreamExtent::ended(pasts, stream),
    }
}

/// Whether a sender with these openings, newest first, sends nothing more in views before this one:
/// it knows this one, or it is over and has none.
pub(super) fn reaches(mut newest_first: impl Iterator<Item = Opening>, view: ViewNumber) -> bool {
    let newest = newest_first.next();
    newest.is_none_or(|opening| opening.view >= view)
}

/// Tells whether a sender has given packets their numbers. They may still wait there until they may leave, and are sent
/// in the view that they were numbered in.
pub(super) fn has_numbered(beat: &Heartbeat<'_>) -> bool {
    beat.highest > 0 || beat.openings().any(|opening| opening.start > 1)
}

impl RegionCx<'_> {
    /// Tells a member how far a stream goes, without being asked (R-TOK-12).
    pub(super) fn tell_extent(&mut self, member: Origin, sender: Origin) {
        let extent = match sender == self.node.origin {
            true => Some(self.region.own_extent()),
            false => {
                let stream = self.region.streams.get(&sender);
                stream.map(StreamExtent::received)
            }
        };
        let stream = self.stream_id(sender);
        if let (Some(extent), Some(to)) = (extent, self.region.address_of(member)) {
            extent.say(self.node, to, stream);
        }
    }

    /// A stream that is in the token but was never heard of here: its sender, if it is a member,
    /// or else the region's other members know where it begins.
    pub(super) fn place_unknown(&mut self, sender: Origin) {
        let region = &mut *self.region;
        if sender == self.node.origin || region.history.joined().is_none() {
            return;
        }
        let view = region.history.newest();
        let known = view.index_of(sender).and_then(|at| view.member(at));
        let address = known.map(|member| member.address);
        region.ask_later(self.node.now, address, sender);
    }

    /// These packets are asked of their sender, since nobody else has them. If it is silent for long and
    /// no member, it may be dead: no view says so, and the service has not if that was before this node came
    /// back. Others know. Rule R-NAK-8.
    pub(super) fn ask_whether_over(&mut self, sender: Origin, ranges: &[SeqRange]) {
        let (now, give_up) = (self.node.now, self.node.config.recovery.give_up);
        let region = &mut *self.region;
        let Some(stream) = region.streams.get(&sender) else {
            return;
        };
        let mut gaps = ranges.iter().map(|range| stream.gaps().find(range.first()));
        let vain = gaps.any(|gap| gap.is_some_and(|gap| now.since(gap.found) >= give_up));
        if vain && !region.history.lives(sender) {
            region.ask_later(now, stream.sender_address(), sender);
        }
    }

    /// Asks again for the openings of streams that could not be placed.
    pub(crate) fn ask_queries(&mut self) {
        let now = self.node.now;
        let queries = self.region.queries.iter();
        let due = queries.filter(|(_, query)| query.due <= now);
        let due: Vec<(Origin, Query)> = due
            .map(|(sender, query)| (*sender, query.clone()))
            .collect();
        for (sender, query) in due {
            let dead = self.membership.is_dead(sender);
            self.ask_query(sender, dead, query);
        }
    }

    fn ask_query(&mut self, sender: Origin, dead: bool, query: Query) {
        let (header, retry) = (self.node.header(), self.node.retry());
        let region = &mut *self.region;
        let to = region.whom_to_ask(header.origin, sender, dead, &query);
        let again = query.attempts < QUERIES_MAX || region.awaits(sender);
        let Some(to) = to.filter(|_| again) else {
            region.give_up_query(self.node.now, sender, dead);
            return;
        };
        let next = Query {
            due: self.node.now.after(retry * (1 << query.attempts.min(6))),
            attempts: query.attempts.saturating_add(1),
            ..query
        };
        region.queries.insert(sender, next);
        self.node.stats.queries_sent += 1;
        let query = StreamQuery {
            channel: region.channel(),
            stream: sender,
        };
        self.node
            .outbox
            .push(Reason::Status, Destination::Node(to), |bytes| {
                query.encode(&header, bytes);
            });
    }
}

/// Tells whether these are the words of a member that has nothing of a stream whose sender is dead.
pub(super) fn says_nothing(beat: &Heartbeat<'_>) -> bool {
    beat.highest == 0 && beat.finished && beat.openings().next().is_none()
}

impl RegionCx<'_> {
    /// A member has nothing of a stream that is not received here either, and says that its sender is dead.
    /// If that is so of all members, nobody has any of it and ever will: it is passed over.
    /// Rule R-VIEW-6.
    pub(super) fn note_without(&mut self, member: Origin, sender: Origin) {
        let (now, me) = (self.node.now, self.node.origin);
        let region = &mut *self.region;
        let view = region.history.newest();
        let Some(query) = region.queries.get_mut(&sender) else {
            return;
        };
        query.note_without(now, view.number(), member);
        let members = view.members().iter();
        let mut others = members.filter(|member| ![me, sender].contains(&member.origin));
        if others.all(|member| !query.may_have(view.number(), member.origin)) {
            let upto = region.extent_heard_of(sender);
            self.pass_over_foreign(sender, upto);
            self.region.give_up_query(now, sender, true);
        }
    }
}

impl Region {
    /// How far a stream that is not received here goes, by the word of those who have heard of it.
    fn extent_heard_of(&self, sender: Origin) -> u64 {
        let absence = self.absence.as_ref();
        let extent = absence.and_then(|absence| absence.extent_of(sender));
        self.ring.cutoff(sender).max(extent.unwrap_or(0))
    }

    /// The extent of this node's own stream.
    pub(super) fn own_extent(&self) -> StreamExtent {
        match &self.sender {
            Some(sender) => StreamExtent {
                highest: sender.highest(),
                finished: false,
                newest_first: sender.openings().iter().rev().copied().collect(),
            },
            None => {
                let view = self.history.newest().number();
                StreamExtent {
                    highest: 0,
                    finished: false,
                    newest_first: vec![Opening { view, start: 1 }],
                }
            }
        }
    }

    /// Where this node's part of a stream begins, judged by where its views begin; `None` if it
    /// begins in none of them yet. `openings` come newest first (R-VIEW-6).
    pub(super) fn start_of(&self, openings: impl Iterator<Item = Opening>) -> Option<u64> {
        let joined = self.history.joined()?;
        openings
            .take_while(|opening| opening.view >= joined)
            .last()
            .map(|opening| opening.start)
    }

    /// Puts a question to a sender on the list; `address`: where it is, if that is known.
    pub(super) fn ask_later(&mut self, now: Instant, address: Option<SocketAddr>, sender: Origin) {
        let query = Query::new(now, address);
        let room = self.queries.len() < QUERIES_OPEN_MAX;
        match self.queries.entry(sender) {
            Entry::Vacant(entry) if room => {
                entry.insert(query);
            }
            // Others, who are asked meanwhile, may not know the sender at all.
            Entry::Occupied(mut entry) if entry.get().address.is_none() && address.is_some() => {
                entry.insert(query);
            }
            _ => {}
        }
    }

    /// Somebody who knows has said where views begin in a stream that is received here, up to a number:
    /// that is all that could be asked, unless a view is to begin before this node is out.
    pub(super) fn note_answer(&mut self, sender: Origin, upto: u64) {
        if self.queries.is_empty() || self.awaits(sender) {
            return;
        }
        let stream = self.streams.get(&sender);
        if stream.is_some_and(|stream| stream.highest() <= upto) {
            self.queries.remove(&sender);
        }
    }

    /// The sender first; then in turn, and if it is dead or nobody knows where it is, the other
    /// members that may have something of the stream, each twice, the leader first.
    fn whom_to_ask(
        &self,
        me: Origin,
        sender: Origin,
        dead: bool,
        query: &Query,
    ) -> Option<SocketAddr> {
        let others = dead || query.attempts >= QUERIES_TO_SENDER && query.attempts % 2 == 1;
        if let Some(address) = query.address.filter(|_| !others) {
            return Some(address);
        }
        let view = self.history.newest();
        let members = view.members();
        let first = view.leader().map_or(0, |leader| usize::from(leader.0));
        let turn = usize::try_from(query.attempts / 2).unwrap_or(0);
        let candidates = members.iter().cycle().skip(first).take(members.len());
        let candidates = candidates.filter(|member| ![me, sender].contains(&member.origin));
        let candidates = candidates.filter(|member| query.may_have(view.number(), member.origin));
        let other = candidates
            .clone()
            .cycle()
            .nth(turn % candidates.count().max(1));
        other
            .map(|member| member.address)
            .or_else(|| query.address.filter(|_| !dead))
    }

    /// Nobody answers. Of a dead sender nothing more will be heard.
    fn give_up_query(&mut self, now: Instant, sender: Origin, dead: bool) {
        self.queries.remove(&sender);
        self.place(now, sender, u64::MAX);
        if dead {
            self.note_silent(sender);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Config;
    use crate::receive::StreamMarks;
    use crate::view::{Layout, RegionView};
    use qsm_wire::membership::Member;
    use qsm_wire::{ChannelId, Incarnation, NodeId, RegionId};

    fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    fn address(node: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], node))
    }

    /// A region of these nodes, seen by the first.
    fn region(nodes: &[u16]) -> Region {
        let members = nodes.iter().map(|node| Member {
            origin: origin(u64::from(*node)),
            address: address(*node),
            joined: ViewNumber(1),
            left: None,
            away: None,
        });
        let channel = (ChannelId(1), SocketAddr::from(([239, 0, 0, 1], 1)));
        let view = RegionView::new(
            RegionId(1),
            ViewNumber(1),
            channel,
            members.collect(),
            Layout::default(),
        );
        let config = Config::new(NodeId(u64::from(nodes[0])), address(nodes[0]));
        Region::new(&config, origin(u64::from(nodes[0])), Arc::new(view))
    }

    /// Whom node 5 asks one after the other for the beginnings of node 9's stream.
    fn asked(nodes: &[u16], from: Option<u16>, dead: bool) -> Vec<Option<u16>> {
        let region = region(nodes);
        let query = |attempts| Query {
            attempts,
            ..Query::new(Instant(0), from.map(address))
        };
        (0..8)
            .map(|attempts| region.whom_to_ask(origin(5), origin(9), dead, &query(attempts)))
            .map(|to| to.map(|to| to.port()))
            .collect()
    }

    #[test]
    fn the_sender_is_asked_first_and_then_others_too() {
        let asked = asked(&[5, 2, 3], Some(9), false);
        let expected = [9, 9, 9, 3, 9, 2, 9, 3].map(Some);
        assert_eq!(asked, expected);
    }

    #[test]
    fn the_dead_are_not_asked_nor_does_a_node_ask_itself() {
        let expected = [2, 2, 3, 3, 2, 2, 3, 3].map(Some);
        assert_eq!(asked(&[5, 2, 3], Some(9), true), expected);
        assert_eq!(asked(&[5, 2, 3], None, false), expected);
        assert_eq!(asked(&[5], None, false), [None; 8]);
        assert_eq!(asked(&[5, 9], Some(9), true), [None; 8]);
        assert_eq!(asked(&[5, 9], Some(9), false), [Some(9); 8]);
    }

    // Rule R-VIEW-6.
    #[test]
    fn who_has_nothing_of_a_dead_stream_is_not_asked_again_in_the_same_view() {
        let region = region(&[5, 2, 3, 4]);
        let view = region.history.newest().number();
        let mut query = Query::new(Instant(0), None);
        let asks = |query: &Query| {
            let to = region.whom_to_ask(origin(5), origin(9), true, query);
            to.map(|to| to.port())
        };
        assert_eq!(asks(&query), Some(2));
        query.attempts = 3;
        query.note_without(Instant(7), view, origin(2));
        assert_eq!((query.due, query.attempts), (Instant(7), 0));
        assert_eq!(asks(&query), Some(3));
        query.note_without(Instant(8), view, origin(3));
        query.note_without(Instant(9), view, origin(4));
        assert_eq!(asks(&query), None);
        // In another view others may have it.
        query.note_without(Instant(10), ViewNumber(view.0 + 1), origin(4));
        assert_eq!(asks(&query), Some(2));
    }

    // Rule R-VIEW-5. A stream may be open since an earlier view though nothing was sent on it.
    #[test]
    fn the_newest_opening_says_whether_a_sender_knows_a_view() {
        let knows = |views: &[u32], view| {
            let openings = views.iter().map(|view| Opening {
                view: ViewNumber(*view),
                start: 1,
            });
            reaches(openings, ViewNumber(view))
        };
        assert!(knows(&[2, 1], 2));
        assert!(knows(&[3], 2));
        assert!(knows(&[], 2));
        assert!(!knows(&[1], 2));
    }

    // Rule R-VIEW-6.
    #[test]
    fn who_hears_where_the_sender_is_asks_it_from_then_on() {
        let mut region = region(&[5, 2, 3]);
        let asks = |region: &Region| {
            let query = &region.queries[&origin(9)];
            (query.address.map(|to| to.port()), query.attempts)
        };
        region.ask_later(Instant(0), None, origin(9));
        region.queries.get_mut(&origin(9)).unwrap().attempts = 7;
        region.ask_later(Instant(1), None, origin(9));
        assert_eq!(asks(&region), (None, 7));
        region.ask_later(Instant(2), Some(address(9)), origin(9));
        assert_eq!(asks(&region), (Some(9), 0));
        region.queries.get_mut(&origin(9)).unwrap().attempts = 2;
        region.ask_later(Instant(3), Some(address(4)), origin(9));
        assert_eq!(asks(&region), (Some(9), 2));
    }

    // Rules R-VIEW-6, R-TOK-5.
    #[test]
    fn what_is_only_numbered_is_not_said_to_be_sent() {
        let id = StreamId {
            origin: origin(9),
            channel: ChannelId(1),
        };
        let extent = |stream: &ReceiveStream| {
            let extent = StreamExtent::received(stream);
            assert_eq!(extent.newest_first, []);
            (extent.highest, extent.finished)
        };
        let mut stream = ReceiveStream::new(id, 541, StreamMarks::default());
        assert_eq!(extent(&stream), (0, false));
        stream.announce(Instant(0), 288);
        assert_eq!(extent(&stream), (288, false));
        stream.sender_died(Instant(0));
        assert_eq!(extent(&stream), (540, true));
    }
}
