//! Questions where a stream begins: asked when packets do not tell, and answered by the sender or
//! by whoever knows.

use std::net::SocketAddr;

use qsm_wire::{ChannelId, Heartbeat, Opening, Origin, RegionId, StreamId, StreamQuery};

use super::Endpoint;
use crate::region::{Query, Region};
use crate::{Instant, Reason};

/// How often a sender is asked for its openings before other members are.
const QUERIES_TO_SENDER: u32 = 3;
/// When a question is given up. If the stream still matters, it comes up again.
const QUERIES_MAX: u32 = 20;
/// Most senders that are asked at once in a region.
const QUERIES_OPEN_MAX: usize = 1024;

/// How far a stream goes, whether it is over, and where its views begin, newest first.
type Extent = (u64, bool, Vec<Opening>);

impl Endpoint {
    /// Answers a question for openings: of one's own stream, or of one that is known here.
    pub(super) fn on_query(&mut self, from: SocketAddr, query: &StreamQuery) {
        let header = self.core.header();
        let id = self.channels.get(&query.channel);
        let region = id.and_then(|id| self.regions.get(id));
        let answer = match region {
            _ if query.stream != header.origin => {
                region.and_then(|region| region.known_stream(query.stream))
            }
            Some(region) if region.sender.is_some() || self.pasts.complete() => {
                Some(region.own_stream())
            }
            Some(_) => None,
            None => self.ended_stream(query.channel),
        };
        let Some(answer) = answer else {
            self.core.stats.discard_channel += u64::from(region.is_none());
            return;
        };
        let stream = StreamId {
            origin: query.stream,
            channel: query.channel,
        };
        self.say_extent(from, stream, answer);
    }

    /// Tells a member how far a stream goes, without being asked (R-TOK-12).
    pub(super) fn tell(&mut self, id: RegionId, member: Origin, sender: Origin) {
        let Some(region) = self.regions.get(&id) else {
            return;
        };
        let extent = match sender == self.core.origin {
            true => Some(region.own_stream()),
            false => region.known_stream(sender),
        };
        let stream = StreamId {
            origin: sender,
            channel: region.channel(),
        };
        if let (Some(extent), Some(to)) = (extent, region.address_of(member)) {
            self.say_extent(to, stream, extent);
        }
    }

    fn say_extent(
        &mut self,
        to: SocketAddr,
        stream: StreamId,
        (highest, finished, newest_first): Extent,
    ) {
        let header = self.core.header();
        self.core.stats.heartbeats_sent += 1;
        self.core.outbox.push(Reason::Status, to, |bytes| {
            let newest_first = newest_first.into_iter();
            Heartbeat::encode(&header, stream, highest, finished, newest_first, bytes);
        });
    }

    /// What this node has sent on a channel that does not concern it: it is over.
    fn ended_stream(&self, channel: ChannelId) -> Option<Extent> {
        let past = self.pasts.get(channel);
        past.map(|past| {
            let newest_first = past.openings.iter().rev().copied();
            (past.highest, true, newest_first.collect())
        })
        .or_else(|| self.pasts.complete().then(|| (0, true, Vec::new())))
    }

    /// A stream that is in the token but was never heard of here: its sender, if it is a member,
    /// or else the region's other members know where it begins.
    pub(super) fn place_unknown(&mut self, now: Instant, id: RegionId, sender: Origin) {
        let Some(region) = self.regions.get_mut(&id) else {
            return;
        };
        if sender == self.core.origin || region.history.joined().is_none() {
            return;
        }
        let view = region.history.newest();
        let known = view.index_of(sender).and_then(|at| view.member(at));
        let address = known.map(|member| member.address);
        region.ask_later(now, address, sender);
    }

    /// Asks again for the openings of streams that could not be placed.
    pub(super) fn ask_queries(&mut self, now: Instant) {
        let header = self.core.header();
        let retry = self.core.retry();
        for region in self.regions.values_mut() {
            let due = region.queries.iter().filter(|(_, query)| query.due <= now);
            let due: Vec<(Origin, Query)> = due.map(|(sender, query)| (*sender, *query)).collect();
            for (sender, query) in due {
                let dead = self.membership.is_dead(sender);
                let to = region.whom_to_ask(header.origin, (sender, dead), query);
                let again = query.attempts < QUERIES_MAX || region.awaits(sender);
                let Some(to) = to.filter(|_| again) else {
                    region.give_up(sender, dead);
                    continue;
                };
                let next = Query {
                    due: now.after(retry * (1 << query.attempts.min(6))),
                    attempts: query.attempts.saturating_add(1),
                    ..query
                };
                region.queries.insert(sender, next);
                self.core.stats.queries_sent += 1;
                let query = StreamQuery {
                    channel: region.channel(),
                    stream: sender,
                };
                self.core
                    .outbox
                    .push(Reason::Status, to, |bytes| query.encode(&header, bytes));
            }
        }
    }
}

impl Region {
    /// Another's stream, as far as it is known here.
    fn known_stream(&self, sender: Origin) -> Option<Extent> {
        let known = self.streams.get(&sender)?;
        let newest_first = known.openings().collect();
        Some((known.highest(), known.is_final(), newest_first))
    }

    /// This node's own stream.
    fn own_stream(&self) -> Extent {
        match &self.sender {
            Some(sender) => {
                let newest_first = sender.openings().iter().rev().copied();
                (sender.highest(), false, newest_first.collect())
            }
            None => {
                let view = self.history.newest().number();
                (0, false, vec![Opening { view, start: 1 }])
            }
        }
    }

    /// Puts a question to a sender on the list; `address`: where it is, if that is known.
    pub(crate) fn ask_later(&mut self, now: Instant, address: Option<SocketAddr>, sender: Origin) {
        if self.queries.len() < QUERIES_OPEN_MAX {
            self.queries.entry(sender).or_insert(Query {
                address,
                due: now,
                attempts: 0,
            });
        }
    }

    /// The sender first; then in turn, and if it is dead or nobody knows where it is, the other
    /// members, each twice, the leader first.
    fn whom_to_ask(
        &self,
        me: Origin,
        (sender, dead): (Origin, bool),
        query: Query,
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
        let count = members.len() - usize::from(self.member());
        let other = candidates.cycle().nth(turn % count.max(1));
        other
            .map(|member| member.address)
            .or_else(|| query.address.filter(|_| !dead))
    }

    /// Nobody answers. Of a dead sender nothing more will be heard.
    fn give_up(&mut self, sender: Origin, dead: bool) {
        self.queries.remove(&sender);
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
    use crate::view::{Layout, RegionView};
    use qsm_wire::membership::Member;
    use qsm_wire::{Incarnation, NodeId, ViewNumber};

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
            address: from.map(address),
            due: Instant(0),
            attempts,
        };
        (0..8)
            .map(|attempts| region.whom_to_ask(origin(5), (origin(9), dead), query(attempts)))
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
}
