//! Requests of others: answered, or passed on.

use std::net::SocketAddr;

use qsm_wire::{Origin, Request};

use super::{Region, RegionCx};
use crate::receive::ReceiveStream;
use crate::repair::{Answering, REQUEST_COST, RequestUrgency};
use crate::send::SendStream;

impl Region {
    /// Tells whether this node has let go some of its own packets that are asked for.
    pub(crate) fn has_let_go(&self, request: &Request<'_>) -> bool {
        let freed = self.sender.as_ref().map_or(0, SendStream::freed_upto);
        request.ranges.iter().any(|range| range.first() <= freed)
    }

    /// Those whom the answer to a request reaches: who asks, and who waits there.
    pub(crate) fn told_by_answer(&self, asker: Origin, request: &Request<'_>) -> Vec<Origin> {
        let view = self.history.exact(request.head.view);
        let waiting = view.into_iter().flat_map(|view| {
            let members = request.requesters().map(|index| view.member(index));
            members.flatten().map(|member| member.origin)
        });
        let others = waiting.filter(|waiter| *waiter != asker);
        core::iter::once(asker).chain(others).collect()
    }

    /// Tells whether packets are asked for that this node has not sent: who waits for proof takes a forged packet for a
    /// sign of them (R-SEC-32).
    fn has_not_sent(&self, me: Origin, request: &Request<'_>) -> bool {
        let own = self.proof.is_some() && request.head.stream.origin == me;
        let sent = self.sender.as_ref().map_or(0, SendStream::highest);
        own && request.ranges.iter().any(|range| range.last() > sent)
    }

    /// Tells whether packets are asked for that this node has given up, of a stream whose sender is dead:
    /// who asks may not know that, and would wait for the sender (R-NAK-8).
    fn is_over(&self, request: &Request<'_>) -> bool {
        let stream = self.streams.get(&request.head.stream.origin);
        let over = stream.filter(|stream| stream.is_final());
        let lost = |stream: &ReceiveStream| {
            let mut ranges = request.ranges.iter();
            ranges.any(|range| stream.gave_up(range.first()))
        };
        over.is_some_and(lost)
    }
}

impl RegionCx<'_> {
    /// Lends what answering requests takes.
    pub(crate) fn answering(&mut self) -> Answering<'_> {
        let (header, guard, recovery) = (
            self.node.header(),
            self.node.guard(),
            self.node.config.recovery,
        );
        let round_trip = self.node.repairs.round_trip();
        let path = self.region.path();
        // Where all members get copies, packets for some of them are fewer.
        let parity = recovery.uses_parity() && path.is_multicast() && self.node.config.multicast;
        let parity_bytes = self.node.config.parity_bytes();
        let (repairs, store) = self.node.repairs();
        Answering {
            history: &self.region.history,
            path,
            own: self.region.sender.as_ref(),
            lifetimes: self.region.lifetimes.as_deref(),
            streams: &mut self.region.streams,
            store,
            repairs,
            header,
            guard,
            round_trip,
            recovery,
            blocks: parity.then_some(&mut self.region.blocks),
            parity_bytes,
        }
    }

    /// Answers a request for packets, or passes it on as far as there is budget for that.
    pub(crate) fn take_request(
        &mut self,
        from: SocketAddr,
        asker: Origin,
        request: &Request<'_>,
        urgency: RequestUrgency,
    ) {
        let sender = request.head.stream.origin;
        let (now, me) = (self.node.now, self.node.origin);
        self.region.note_age(now, me, sender);
        let passed_on = self.answering().answer(from, asker, request, urgency);
        if self.region.is_over(request) || self.region.has_not_sent(me, request) {
            self.tell_extent(asker, sender);
        }
        for request in &passed_on {
            if self.node.request_budget.take(self.node.now, REQUEST_COST) {
                self.send_request(request);
            }
        }
    }
}
