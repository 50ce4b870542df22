//! Questions which messages were in packets that are lost for good: asked by the receiver that has
//! passed over them, and answered by their sender (R-DATA-11).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use qsm_wire::{GroupId, GroupNumbers, Numbers, NumbersQuery, Origin, RegionId, TAIL_BYTES};

use super::{Region, RegionCx, RegionSet};
use crate::node::NodeState;
use crate::publication::Routes;
use crate::receive::{AnswerWorth, SEQUENCE_MAX};
use crate::send::SendStream;
use crate::unconfirmed::UnconfirmedNumbers;
use crate::{Deliver, Destination, Reason};

/// A sender's account of its stream to one receiver.
#[derive(Debug)]
struct NumbersAnswer {
    query: NumbersQuery,
    next: Option<GroupId>,
    groups: Vec<GroupNumbers>,
}

impl RegionCx<'_> {
    /// Asks the senders of which packets were passed over for the numbers of their messages, where
    /// that is due.
    pub(crate) fn ask_numbers(&mut self) {
        let now = self.node.now;
        let mut streams = self.region.streams.values();
        if streams.all(|stream| stream.numbers_due() > now) {
            return;
        }
        let (retry, header) = (self.node.retry(), self.node.header());
        let due = self.region.streams.iter();
        let due = due.filter(|(_, stream)| stream.numbers_due() <= now);
        let due: Vec<Origin> = due.map(|(sender, _)| *sender).collect();
        let joined = self.region.history.joined().unwrap_or_default();
        for sender in due {
            let to = self.region.address_of(sender);
            let asked = self.region.streams.get_mut(&sender);
            let asked = asked.and_then(|stream| stream.ask_numbers(now, retry, joined));
            let Some((query, to)) = asked.zip(to) else {
                continue;
            };
            self.node.stats.numbers_asked += 1;
            self.node
                .outbox
                .push(Reason::Status, Destination::Node(to), |bytes| {
                    query.encode(&header, bytes);
                });
        }
    }

    /// Takes a sender's word which messages were in packets that this node has passed over. Returns
    /// whether something of the stream may be delivered now.
    pub(crate) fn take_numbers(
        &mut self,
        speaker: Origin,
        numbers: &Numbers<'_>,
        out: &mut dyn Deliver,
    ) -> bool {
        let query = &numbers.query;
        if speaker != query.stream.origin {
            self.node.stats.discard_stranger += 1;
            return false;
        }
        let region = &mut *self.region;
        let Some(stream) = region.streams.get_mut(&speaker) else {
            return false;
        };
        let worth = match query.position < SEQUENCE_MAX {
            true => {
                let (history, groups) = (&region.history, &region.groups);
                let backoff = &region.backoff;
                let mut context = self.node.stream_context(backoff, history, groups, out);
                stream.take_numbers(numbers, &region.history, &mut context.delivery)
            }
            false => AnswerWorth::Impossible,
        };
        self.node.stats.numbers_refused += u64::from(worth == AnswerWorth::Impossible);
        worth == AnswerWorth::Whole
    }
}

impl Region {
    /// The groups from this one on that this node has sent to here, or may have, with the number of
    /// the next message; ascending. A publisher may have left the group since.
    fn numbered_from(
        &self,
        from: GroupId,
        routes: &Routes,
    ) -> impl Iterator<Item = (GroupId, u64)> {
        let first = self.groups.partition_point(|group| *group < from);
        let present = self.groups[first..].iter();
        let mut present = present
            .map(|group| (*group, routes.next_number(*group)))
            .peekable();
        let mut former = self.marks.former_from(from).peekable();
        core::iter::from_fn(move || match (present.peek(), former.peek()) {
            (Some((one, _)), Some((other, _))) if other < one => former.next(),
            (Some(_), _) => present.next(),
            (None, _) => former.next(),
        })
    }

    /// Says which messages of this node's stream the asker is owed, up to the last packet that has
    /// been sent, or that was sent before the asker left: none, where this node has yet to begin the
    /// view that they are owed from. `None`: the asker is no member, or there is no such stream.
    fn answer_numbers(
        &self,
        asker: Origin,
        query: &NumbersQuery,
        routes: &Routes,
        groups_max: usize,
    ) -> Option<NumbersAnswer> {
        let view = self.history.newest();
        let asker = view.index_of(asker).and_then(|at| view.member(at))?;
        let stream = self.sender.as_ref()?;
        let end = asker.left.and_then(|left| stream.last_before(left));
        let position = stream.highest().min(end.unwrap_or(u64::MAX));
        let unsent = first_unsent(stream, routes);
        let joins = asker.joined == query.joined;
        let mut answer = NumbersAnswer {
            query: NumbersQuery { position, ..*query },
            next: None,
            groups: Vec::new(),
        };
        if query.joined > view.number() {
            // All of it was sent in views before.
            return Some(answer);
        }
        for (group, next) in self.numbered_from(query.from, routes) {
            let sent = unsent.get(&group).map_or(next, |first| next.min(*first));
            let end = match asker.left {
                Some(left) => self.marks.at(group, left).map(|number| number.min(sent)),
                None => Some(sent),
            };
            let begin = match joins {
                true => self.marks.at(group, query.joined),
                // It has taken the group up later.
                false => self.marks.at_any(group, query.joined),
            };
            let named = match (begin, end) {
                (Some(begin), Some(end)) if begin >= end => continue,
                (begin, end) => GroupNumbers {
                    group,
                    first: begin.filter(|_| end.is_some()).unwrap_or(0),
                    last: end.map_or(0, |end| end.saturating_sub(1)),
                },
            };
            if answer.groups.len() == groups_max {
                answer.next = Some(group);
                break;
            }
            answer.groups.push(named);
        }
        Some(answer)
    }
}

impl RegionSet {
    /// Answers the question of a member which messages this node has sent it.
    pub(crate) fn answer_numbers(
        &self,
        node: &mut NodeState,
        from: SocketAddr,
        asker: Origin,
        query: &NumbersQuery,
    ) {
        let id = self.table.of_channel(query.stream.channel);
        let region = id.and_then(|id| self.table.get(id));
        let Some(region) = region.filter(|_| query.stream.origin == node.origin) else {
            node.stats.discard_channel += 1;
            return;
        };
        if region.marks.has_forgotten_groups() {
            // An answer would leave them out, as if nothing of them were missing.
            return;
        }
        let room = node.config.datagram_bytes.saturating_sub(TAIL_BYTES);
        let most = Numbers::groups_within(room);
        let Some(answer) = region.answer_numbers(asker, query, &self.routes, most) else {
            node.stats.discard_stranger += 1;
            return;
        };
        node.stats.numbers_answered += 1;
        let header = node.header();
        node.outbox
            .push(Reason::Status, Destination::Node(from), |bytes| {
                let (query, next) = (&answer.query, answer.next);
                Numbers::encode(&header, query, next, &answer.groups, bytes);
            });
    }

    /// The region will have these groups.
    pub(super) fn mark_groups(&mut self, id: RegionId, groups: &[GroupId]) {
        if let Some(region) = self.table.get_mut(id) {
            let old = core::mem::take(&mut region.groups);
            region.marks.change_groups(&old, groups, &self.routes);
            region.groups = old;
        }
    }

    /// The region has a new view.
    pub(super) fn mark_view(&mut self, id: RegionId) {
        if let Some(region) = self.table.get_mut(id) {
            let view = region.history.newest();
            region.marks.follow(view, &region.groups, &self.routes);
        }
    }
}

/// The first message of each group that has not been sent, or not to its end.
fn first_unsent(stream: &SendStream, routes: &Routes) -> BTreeMap<GroupId, u64> {
    let mut numbers = UnconfirmedNumbers::default();
    if stream.unsent_bytes() > 0 {
        numbers.add_kept(stream, stream.highest(), u64::MAX, routes);
    }
    numbers.firsts()
}
