//! Requests for repair: those that are due are made, of cachers, neighbours, leaders or the
//! sender; what exists nowhere any more is lost.

use std::net::SocketAddr;

use qsm_wire::{Absent, AbsentCause, MemberIndex, Origin, Request, RequestHead, SeqRange};

use super::{Region, RegionCx};
use crate::ranges::{append, append_own};
use crate::receive::ReceiveStream;
use crate::repair::{
    PlannedRequest, RequestAllowance, RequestPlanner, RequestTarget, RequestUrgency,
    leave_to_cachers, missing_everywhere, missing_parts, note_missing,
};
use crate::{Deliver, Destination, Instant, Reason};

/// Packets that the sender has not got any more which a receiver gives up in one go, at least.
const SKIPPED_IN_ONE_GO: u64 = 65_536;
/// Pieces of gaps that one token's pulls look at.
const PIECES_PER_TOKEN: usize = 1024;

impl RegionCx<'_> {
    /// Makes the requests that are due; `asked`: how many packets have been asked for, in all
    /// regions. Returns the senders of which packets were given up instead, because nobody has them.
    pub(crate) fn make_requests(&mut self, asked: &mut u64, out: &mut dyn Deliver) -> Vec<Origin> {
        let mut given_up = Vec::new();
        for request in self.plan_requests(asked) {
            self.node.rest_from_requests();
            // What was asked for before has not come from the sender either.
            self.doubt_sender(request.head.stream.origin);
            if request.target != RequestTarget::Nobody {
                self.send_request(&request);
            } else if self.is_placed(request.head.stream.origin, last(&request.ranges)) {
                self.give_up_packets(&request, out);
                given_up.push(request.head.stream.origin);
            }
        }
        given_up
    }

    fn plan_requests(&mut self, asked: &mut u64) -> Vec<PlannedRequest> {
        let now = self.node.now;
        let planner = RequestPlanner {
            history: &self.region.history,
            me: self.node.origin,
            now,
            retry: self.node.retry_interval(),
            recovery: self.node.config.recovery,
        };
        let mut allowance = RequestAllowance {
            request_window: &mut self.node.request_window,
            received: self.node.stats.data_received,
            asked: *asked,
            requests: &mut self.node.request_budget,
        };
        let streams = self.region.streams.values_mut();
        let due = streams.filter(|stream| stream.due() <= now);
        let asks = due.flat_map(|stream| planner.due(stream, &mut allowance));
        let asks = asks.collect();
        *asked = allowance.asked;
        asks
    }

    pub(super) fn send_request(&mut self, ask: &PlannedRequest) {
        let sender = ask.head.stream.origin;
        let view = self.region.history.nearest(ask.head.view);
        let to = match ask.target {
            RequestTarget::Member(index) => view.member(index).map(|member| member.address),
            RequestTarget::Sender => self.region.address_of(sender),
            RequestTarget::Nobody => None,
        };
        let to_sender = ask.target == RequestTarget::Sender;
        if to_sender {
            self.pass_over_unheard(sender);
            self.ask_whether_over(sender, &ask.ranges);
        }
        let Some(to) = to else {
            return;
        };
        let stats = &mut self.node.stats;
        if to_sender {
            stats.sender_asked += packets(&ask.ranges);
        }
        stats.naks_sent += 1;
        stats.naks_forwarded += u64::from(!ask.waiters.is_empty());
        let kind = ask.urgency.kind();
        let header = self.node.header();
        self.node
            .outbox
            .push(Reason::Request, Destination::Node(to), |bytes| {
                Request::encode(&header, kind, &ask.head, &ask.waiters, &ask.ranges, bytes);
            });
    }

    /// Nobody has these packets: those who wait are told, and they are lost here too (R-NAK-8).
    fn give_up_packets(&mut self, ask: &PlannedRequest, out: &mut dyn Deliver) {
        let stream = ask.head.stream;
        let header = self.node.header();
        let view = self.region.history.nearest(ask.head.view);
        for member in ask.waiters.iter().filter_map(|index| view.member(*index)) {
            self.node.outbox.push(
                Reason::Request,
                Destination::Node(member.address),
                |bytes| {
                    Absent::encode(&header, stream, AbsentCause::Gone, &ask.ranges, bytes);
                },
            );
        }
        self.lose(stream.origin, AbsentCause::Gone, &ask.ranges, out);
    }

    fn lose(
        &mut self,
        sender: Origin,
        cause: AbsentCause,
        ranges: &[SeqRange],
        out: &mut dyn Deliver,
    ) {
        let region = &mut *self.region;
        if let Some(stream) = region.streams.get_mut(&sender) {
            let mut context =
                self.node
                    .stream_context(&region.backoff, &region.history, &region.groups, out);
            for range in ranges {
                stream.lose(*range, cause, &region.history, &mut context);
            }
        }
    }

    /// Takes the word of a sender that packets exist nowhere any more, or of a member that it
    /// misses them. Returns whether something of the stream may be delivered now.
    pub(crate) fn take_absent(
        &mut self,
        speaker: Origin,
        absent: &Absent<'_>,
        out: &mut dyn Deliver,
    ) -> bool {
        let sender = absent.stream.origin;
        let region = &mut *self.region;
        let member = region.history.lives(speaker);
        let Some(stream) = region.streams.get_mut(&sender) else {
            return false;
        };
        if speaker != sender && !member {
            self.node.stats.discard_stranger += 1;
            return false;
        }
        if absent.cause == AbsentCause::Expired {
            // Only its sender could know of a lifetime here. Rule R-SEC-42.
            let may = speaker == sender || region.lifetimes.is_some();
            return may && self.take_expired(absent, out);
        }
        // A member speaks for itself: what another cacher may have is not lost, nor what the sender
        // has.
        if speaker != sender {
            for range in absent.ranges.iter() {
                note_missing(self.node.now, stream, &region.history, speaker, range);
            }
            stream.refresh_due();
            if !stream.sender_dead() {
                return false;
            }
        }
        self.lose_what_nobody_has(sender, absent, out);
        if speaker == sender {
            absent
                .ranges
                .iter()
                .for_each(|range| self.leave_to_cachers(sender, range));
        }
        true
    }

    /// Takes the word that messages have expired, of somebody who has them, or has been told so: they
    /// are given up, whoever else may have them. What a dead sender has sent is repaired all the same,
    /// since nobody could say which messages those were. Rule R-DATA-14.
    fn take_expired(&mut self, absent: &Absent<'_>, out: &mut dyn Deliver) -> bool {
        let sender = absent.stream.origin;
        let ranges: Vec<SeqRange> = absent.ranges.iter().collect();
        let stream = self.region.streams.get(&sender);
        let dead = stream.is_none_or(ReceiveStream::sender_dead);
        if dead || !self.is_placed(sender, last(&ranges)) {
            return false;
        }
        self.pass_expired_on(sender, &ranges);
        self.lose(sender, AbsentCause::Expired, &ranges, out);
        if let Some(stream) = self.region.streams.get_mut(&sender) {
            stream.refresh_due();
        }
        true
    }

    /// Tells those that wait here for packets that they have expired.
    fn pass_expired_on(&mut self, sender: Origin, ranges: &[SeqRange]) {
        let (id, header) = (self.stream_id(sender), self.node.header());
        let Some(stream) = self.region.streams.get(&sender) else {
            return;
        };
        let history = &self.region.history;
        let awaited = stream.gaps().iter().filter(|gap| !gap.waiters.is_empty());
        for gap in awaited {
            let parts = ranges.iter().filter_map(|range| {
                let (first, last) = (range.first().max(gap.first), range.last().min(gap.last));
                SeqRange::new(first, last)
            });
            let parts: Vec<SeqRange> = parts.collect();
            let view = history.nearest(stream.view_of(gap.first, history));
            let waiters = gap.waiters.members().iter();
            let waiters = waiters.filter_map(|index| view.member(*index));
            for member in waiters.filter(|_| !parts.is_empty()) {
                let to = Destination::Node(member.address);
                self.node.outbox.push(Reason::Request, to, |bytes| {
                    Absent::encode(&header, id, AbsentCause::Expired, &parts, bytes);
                });
            }
        }
    }

    /// Gives up what neither the sender nor a cacher may have, if it is clear who caches it.
    fn lose_what_nobody_has(&mut self, sender: Origin, absent: &Absent<'_>, out: &mut dyn Deliver) {
        let upto = absent.ranges.iter().map(|range| range.last()).max();
        if !self.is_placed(sender, upto.unwrap_or(0)) {
            return;
        }
        let Some(stream) = self.region.streams.get(&sender) else {
            return;
        };
        let (now, give_up) = (self.node.now, self.node.config.recovery.give_up);
        let mut lost: Vec<SeqRange> = Vec::new();
        for range in absent.ranges.iter() {
            let parts = missing_everywhere(now, give_up, stream, &self.region.history, range);
            parts.into_iter().for_each(|part| join(&mut lost, part));
        }
        self.lose(sender, AbsentCause::Gone, &lost, out);
    }

    /// The sender does not have these packets, and cachers may: only those are asked from now on.
    fn leave_to_cachers(&mut self, sender: Origin, range: SeqRange) {
        if let Some(stream) = self.region.streams.get_mut(&sender) {
            leave_to_cachers(self.node.now, stream, &self.region.history, range);
            stream.note_gone(range.last());
            stream.refresh_due();
        }
    }

    /// The sender has said before that it has not got these packets any more, which count as
    /// missing since now: what no cacher may have either is lost at once, and so on with those
    /// behind it. A receiver that is far behind does not ask for all of them. Rule R-NAK-14.
    pub(super) fn skip_gone(&mut self, sender: Origin, part: SeqRange, out: &mut dyn Deliver) {
        let (now, give_up) = (self.node.now, self.node.config.recovery.give_up);
        let (mut next, upto) = (Some(part), part.first() + SKIPPED_IN_ONE_GO);
        while let Some(part) = next.take() {
            self.leave_to_cachers(sender, part);
            if !self.is_placed(sender, part.last()) {
                return;
            }
            let region = &mut *self.region;
            let Some(stream) = region.streams.get_mut(&sender) else {
                return;
            };
            let lost = missing_everywhere(now, give_up, stream, &region.history, part);
            if lost.is_empty() || part.first() > upto {
                return;
            }
            self.lose(sender, AbsentCause::Gone, &lost, out);
            let region = &mut *self.region;
            if let Some(stream) = region.streams.get_mut(&sender) {
                stream.go_on(self.node.now);
                let (backoff, groups) = (&region.backoff, &region.groups);
                let history = &region.history;
                let context = &mut self.node.stream_context(backoff, history, groups, out);
                next = stream.extend(context);
                stream.refresh_due();
            }
        }
    }

    /// Asks a ring neighbour for what it has and this node misses (R076); where the fast plane
    /// asks, too, only for what that has tried in vain (R-TOK-6).
    pub(super) fn pull(&mut self, from: MemberIndex, sender: Origin, ranges: &[SeqRange]) {
        let view = self.region.history.newest();
        let Some(to) = view.member(from).map(|member| member.address) else {
            return;
        };
        let mut wanted = ranges.to_vec();
        if self.node.fast() {
            wanted.clear();
            let Some(stream) = self.region.streams.get(&sender) else {
                return;
            };
            let parts = ranges
                .iter()
                .flat_map(|range| missing_parts(stream, &self.region.history, *range));
            let mut vain = parts.filter(|part| stream.tried_in_vain(part.first()));
            vain.all(|part| append_own(&mut wanted, part, view));
        }
        if !wanted.is_empty() {
            self.request(to, RequestUrgency::WhenAvailable, sender, 0, &wanted);
        }
    }

    /// Asks a stream's sender for what a whole partition misses, as its leader (R079), if nobody
    /// here has lately: rounds may be shorter than the way to the sender and back (R-TOK-7).
    pub(super) fn ask_sender(&mut self, sender: Origin, ranges: &[SeqRange]) {
        let (now, retry) = (self.node.now, self.node.retry_interval());
        let to = self.region.address_of(sender);
        let history = &self.region.history;
        let stream = self.region.streams.get_mut(&sender);
        let stream = stream.filter(|stream| !stream.sender_dead());
        let (Some(stream), Some(to)) = (stream, to) else {
            return;
        };
        let current = history.newest().number();
        let mut wanted: Vec<SeqRange> = Vec::new();
        for range in ranges {
            let mut parts = missing_parts(stream, history, *range);
            parts.retain(|part| history.caches(current, part.first()));
            parts.retain(|part| stream.asks_again(now, *part, retry));
            parts.iter().all(|part| append(&mut wanted, *part));
        }
        if wanted.is_empty() {
            return;
        }
        self.doubt_sender(sender);
        self.node.stats.sender_asked += packets(&wanted);
        self.request(to, RequestUrgency::AtOnce, sender, u32::MAX, &wanted);
    }

    /// Without the fast plane: what the rings cannot bring, because its cachers are those of an
    /// older view, because its sender is dead or because members and the sender may have let it go
    /// (R-RATE-10), is asked of its cachers one by one, at most once per token. So they learn who
    /// misses it, and in the end that nobody has it (R-TOK-8).
    pub(super) fn ask_around(&mut self, sender: Origin, cutoff: u64) {
        let (now, retry) = (self.node.now, self.node.retry_interval());
        let history = &self.region.history;
        let Some(stream) = self.region.streams.get_mut(&sender) else {
            return;
        };
        let current = history.newest().number();
        let all = stream.sender_dead() || history.is_away() || self.region.minimum_rate > 0;
        let pieces: Vec<SeqRange> = stream
            .pieces(cutoff, history)
            .take(PIECES_PER_TOKEN)
            .filter(|piece| all || stream.view_of(piece.first(), history) != current)
            .collect();
        for piece in pieces {
            stream.make_due(now, piece, retry);
        }
    }

    /// Asks the leaders of the caching partitions for what is missing here (R081), perhaps only what
    /// all its cachers have (R082); in the fast plane's presence the cachers that it asks, and only
    /// for what it has given a try (R-TOK-8).
    pub(super) fn pull_leaders(&mut self, sender: Origin, cutoff: u64) {
        let fast = self.node.fast();
        let upto = if fast || !self.node.config.recovery.pull_late {
            cutoff
        } else {
            cutoff.min(self.region.ring.watermarks(sender).1)
        };
        for (leader, ranges) in self.region.missing_by_leader(sender, upto, fast) {
            let view = self.region.history.newest();
            if let Some(to) = view.member(leader).map(|member| member.address) {
                self.request(to, RequestUrgency::WhenAvailable, sender, 0, &ranges);
            }
        }
    }

    /// Sends a request of this node alone to a member of the current view, under its structures.
    fn request(
        &mut self,
        to: SocketAddr,
        urgency: RequestUrgency,
        sender: Origin,
        tried: u32,
        ranges: &[SeqRange],
    ) {
        let head = RequestHead {
            stream: self.stream_id(sender),
            view: self.region.history.newest().number(),
            tried,
            for_itself: true,
            takes_parity: false,
        };
        let header = self.node.header();
        let counter = match urgency {
            RequestUrgency::WhenAvailable => &mut self.node.stats.pulls_sent,
            RequestUrgency::AtOnce => &mut self.node.stats.naks_sent,
        };
        *counter += 1;
        self.node
            .outbox
            .push(Reason::Request, Destination::Node(to), |bytes| {
                Request::encode(&header, urgency.kind(), &head, &[], ranges, bytes);
            });
    }
}

impl Region {
    /// Whether requests of a member are due.
    pub(crate) fn requests_due(&self, now: Instant) -> bool {
        let mut streams = self.streams.values();
        self.member() && streams.any(|stream| stream.due() <= now)
    }

    /// Lets be asked for what a member has put off, as far as there is `room`. Returns how much is
    /// left of it.
    pub(super) fn resume_requests(&mut self, now: Instant, room: u64) -> u64 {
        match self.member() {
            true => {
                let streams = self.streams.values_mut();
                streams.fold(room, |room, stream| stream.take_up(now, room))
            }
            false => room,
        }
    }

    /// Packets missing here, by the leader of the partition that caches them; with the fast plane
    /// by the cacher that it asks, and only those that it has asked for in vain.
    fn missing_by_leader(
        &self,
        sender: Origin,
        upto: u64,
        fast: bool,
    ) -> Vec<(MemberIndex, Vec<SeqRange>)> {
        let mut requests: Vec<(MemberIndex, Vec<SeqRange>)> = Vec::new();
        let Some(stream) = self.streams.get(&sender) else {
            return requests;
        };
        let (history, view) = (&self.history, self.history.newest());
        for piece in stream.pieces(upto, history).take(PIECES_PER_TOKEN) {
            let tried = stream.tried_in_vain(piece.first());
            let mine = history.caches(view.number(), piece.first());
            let partition = view.caching_partition(piece.first());
            let asked = match history.me().filter(|_| fast) {
                Some(me) => {
                    let counterpart = view.counterpart(partition, me);
                    counterpart.filter(|index| view.index_of(sender) != Some(*index))
                }
                None => view.partition_leader(partition),
            };
            let Some(leader) = asked else { continue };
            if mine || (fast && !tried) || history.me() == Some(leader) {
                continue;
            }
            match requests.iter_mut().find(|(to, _)| *to == leader) {
                Some((_, ranges)) => {
                    append_own(ranges, piece, view);
                }
                None => requests.push((leader, vec![piece])),
            }
        }
        requests
    }
}

/// Adds a range above all others, so that what is lost together is told at once.
fn join(ranges: &mut Vec<SeqRange>, range: SeqRange) {
    let joined = ranges.last().and_then(|last| {
        let next = last.last() + 1 == range.first();
        SeqRange::new(last.first(), range.last()).filter(|_| next)
    });
    match joined {
        Some(joined) if joined.last() == range.last() => {
            ranges.pop();
            ranges.push(joined);
        }
        _ => ranges.push(range),
    }
}

fn last(ranges: &[SeqRange]) -> u64 {
    ranges.last().map_or(0, |range| range.last())
}

fn packets(ranges: &[SeqRange]) -> u64 {
    ranges.iter().map(|range| u64::from(range.count())).sum()
}
