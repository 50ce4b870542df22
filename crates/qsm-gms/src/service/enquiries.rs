use core::time::Duration;
use std::net::SocketAddr;

use qsm_proto::{Destination, Instant, Reason};
use qsm_wire::membership::{AnswerRows, QueryKind};
use qsm_wire::{ListQuery, ListReply};

use super::{Phase, Service};

/// A service to which no node has said hello for so long after its start has an empty cluster: who
/// was in one has heard its beacons.
const EMPTY_AFTER: Duration = Duration::from_millis(1500);

/// Questions of those who are no nodes.
impl Service {
    /// Somebody looks. Nothing about the cluster changes. Rule R-MEM-18.
    pub(super) fn take_list_query(&mut self, now: Instant, from: SocketAddr, query: &ListQuery) {
        if !self.knows_cluster(now) {
            self.stats.lists_unready += 1;
            return;
        }
        if !self.lists.admit(now) {
            self.stats.lists_refused += 1;
            return;
        }
        let list = query.list;
        let known = query.version != 0 && self.lists.has(list, query.version);
        if !known && self.lists.needs_new(now, list) {
            let mut bytes = Vec::new();
            self.list_rows(list).encode_list(&mut bytes);
            self.lists.add(now, list, bytes);
        }
        let number = if known { query.version } else { 0 };
        let Some(version) = self.lists.version(now, list, number) else {
            return;
        };
        // Of another version than the asker has parts of, he begins with the first.
        let offset = if known { query.offset } else { 0 };
        let room = ListReply::room(query, self.config.datagram_bytes);
        let reply = ListReply {
            nonce: query.nonce,
            list,
            version: version.number,
            total: version.total(),
            offset: offset.min(version.total()),
            content: version.part(offset, room),
        };
        self.stats.list_parts += 1;
        let header = self.header;
        let to = Destination::Node(from);
        self.outbox.push(Reason::Membership, to, |out| {
            reply.encode(&header, out);
        });
    }

    /// Whether it can tell of the cluster. One that does not know yet, or not any more, leaves the answer
    /// to its next self or its successor.
    pub(super) fn knows_cluster(&self, now: Instant) -> bool {
        match &self.phase {
            Phase::Open => true,
            Phase::Holding(hold) => hold.is_empty() && now.since(self.started) >= EMPTY_AFTER,
            Phase::Yielded { .. } => false,
        }
    }

    pub(super) fn list_rows(&self, list: QueryKind) -> AnswerRows {
        match list {
            QueryKind::Nodes => AnswerRows::Nodes(self.node_rows()),
            QueryKind::Groups => AnswerRows::Groups(self.registry.group_rows()),
            QueryKind::Regions => AnswerRows::Regions(self.registry.region_rows()),
        }
    }
}
