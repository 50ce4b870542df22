//! Requests of others: a sender or cacher answers with packets, passes the request on, or says
//! that the packets exist nowhere.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use qsm_wire::{
    Absent, AbsentCause, Header, Hop, MemberIndex, Origin, Parity, Ranges, Request, RequestHead,
    SeqRange, StreamId, ViewNumber,
};

use super::collect::{BlockAnswer, BlockRequest, BlockRequests, Collected, NeededPackets};
use super::parity::WholeBlock;
use super::route::RequestRoute;
use super::{
    PlannedRequest, Repair, RepairRecipient, RepairSender, RequestTarget, RequestUrgency, bit,
};
use crate::history::History;
use crate::lifetimes::Lifetimes;
use crate::ranges::append;
use crate::receive::{PacketStore, ReceiveStream, Waiters};
use crate::send::SendStream;
use crate::view::RegionView;
use crate::{Destination, Path, Reason, Recovery};

/// Ranks that a partition may have: it has fewer than twice as many members as packets have copies.
const RANKS: u32 = u32::MAX >> 1;
/// Packets of one request that are looked at; the rest is asked for again.
const PACKETS_PER_REQUEST: usize = 512;
/// Packets that one token makes a node push to its neighbour where that asks for what it can take
/// (R-NAK-10).
const PUSHED_BESIDE_NAKS: usize = 32;
/// Packets that one answer tells as expired behind one that is asked for, at most.
const EXPIRED_IN_ONE_GO: usize = 1024;
/// Numbers of one request that are looked at to find them: other partitions' are among them.
const NUMBERS_PER_REQUEST: usize = 1 << 16;

/// Answers requests for packets of one region's streams.
#[derive(Debug)]
pub(crate) struct Answering<'a> {
    /// The region's views.
    pub(crate) history: &'a History,
    /// How packets reach the whole region.
    pub(crate) path: Path,
    /// This node's own stream.
    pub(crate) own: Option<&'a SendStream>,
    /// Which packets have expired; `None`: none does.
    pub(crate) lifetimes: Option<&'a Lifetimes>,
    /// Streams of others.
    pub(crate) streams: &'a mut BTreeMap<Origin, ReceiveStream>,
    /// The memory in which their packets are kept.
    pub(crate) store: &'a PacketStore,
    /// Sends the packets.
    pub(crate) repairs: RepairSender<'a>,
    /// Of this node's packets.
    pub(crate) header: Header,
    /// Age of a gap before it is asked for.
    pub(crate) guard: Duration,
    /// Age at which repairs are forgotten.
    pub(crate) round_trip: Duration,
    /// Says if requests are passed on at once, and how long silent cachers are passed over.
    pub(crate) recovery: Recovery,
    /// Requests for packets of blocks; `None` where no parities are sent.
    pub(crate) blocks: Option<&'a mut BlockRequests>,
    /// Longest parity, bytes.
    pub(crate) parity_bytes: usize,
}

/// A request as this node sees it: who asks, and who else waits.
#[derive(Debug)]
struct ReceivedRequest {
    stream: StreamId,
    view: ViewNumber,
    /// The view that the asker names, which this node may not know.
    named: ViewNumber,
    tried: u32,
    waiters: Vec<MemberIndex>,
    /// The partition of who asks.
    partition: usize,
    urgency: RequestUrgency,
    /// Member that asks for itself alone, and can use parities.
    takes_parity: Option<MemberIndex>,
}

impl ReceivedRequest {
    /// A member of the view asks; the request may name members of another view than this one.
    fn new(
        request: &Request<'_>,
        urgency: RequestUrgency,
        view: &RegionView,
        asker: MemberIndex,
    ) -> Self {
        let head = request.head;
        let known_view = view.number() == head.view;
        let mut tried = if known_view { head.tried } else { 0 };
        let mut waiters: Vec<MemberIndex> = if known_view {
            request.requesters().collect()
        } else {
            Vec::new()
        };
        if head.for_itself {
            waiters.push(asker);
            let first = request
                .ranges
                .iter()
                .next()
                .map_or(0, |range| range.first());
            if view.is_cacher(asker, first) {
                tried |= bit(view.rank_of(asker));
            }
        }
        let alone = head.for_itself && waiters.len() == 1 && known_view;
        let at_once = urgency == RequestUrgency::AtOnce;
        let takes_parity = (head.takes_parity && alone && at_once).then_some(asker);
        Self {
            takes_parity,
            stream: head.stream,
            view: view.number(),
            named: head.view,
            tried,
            waiters,
            partition: view.partition_of(asker),
            urgency,
        }
    }
}

/// The part of a request that cannot be answered with packets.
#[derive(Debug, Default)]
struct Unanswered {
    /// Given up here, or come and not kept, or sent before this node joined.
    absent: Vec<SeqRange>,
    /// Not sent again, because their messages have expired.
    expired: Vec<SeqRange>,
    /// To be asked of others.
    passed_on: Vec<PlannedRequest>,
}

impl Unanswered {
    /// Whether this number, the highest so far, has been answered as absent or expired with one before.
    fn has_answered(&self, sequence: u64) -> bool {
        let last = [self.absent.last(), self.expired.last()];
        let mut last = last.into_iter().flatten();
        last.any(|range| sequence <= range.last())
    }
}

impl Answering<'_> {
    /// Answers a member that misses packets and asks this node, from that address. Returns the
    /// requests that others have to answer instead.
    pub(crate) fn answer(
        &mut self,
        from: SocketAddr,
        asker: Origin,
        request: &Request<'_>,
        urgency: RequestUrgency,
    ) -> Vec<PlannedRequest> {
        let mut view = self.history.nearest(request.head.view);
        if view.index_of(asker).is_none() {
            // It has joined since, and must have what was sent before (R-TOK-4).
            view = self.history.newest();
        }
        let Some(asker) = view.index_of(asker) else {
            self.repairs.stats.discard_stranger += 1;
            return Vec::new();
        };
        let stats = &mut self.repairs.stats;
        match urgency {
            RequestUrgency::WhenAvailable => stats.pulls_received += 1,
            RequestUrgency::AtOnce => stats.naks_received += 1,
        }
        let mut asked = ReceivedRequest::new(request, urgency, view, asker);
        if asked.stream.origin != self.header.origin {
            // What is noted here is said again to the sender, who takes all bits for a whole partition's
            // word. Rule R-SEC-44.
            asked.tried &= RANKS;
        }
        self.forget_old_repairs();
        let unanswered = match asked.stream.origin == self.header.origin {
            true => self.answer_as_sender(&asked, request.ranges),
            false => self.answer_as_cacher(&asked, request.ranges),
        };
        self.say_absent(from, &asked, &unanswered.absent);
        self.say_expired(from, &asked, &unanswered.expired);
        unanswered.passed_on
    }

    /// Serves members that wait here for a packet that has come.
    pub(crate) fn serve_waiters(&mut self, stream: StreamId, sequence: u64, waiters: Waiters) {
        let known = self.streams.get(&stream.origin);
        let view = known.map_or_else(
            || self.history.newest().number(),
            |known| known.view_of(sequence, self.history),
        );
        let expired = known.and_then(|known| self.expired_of(known, sequence));
        if expired.is_some() {
            let view = self.history.nearest(view);
            let waiting = waiters.members().iter();
            let waiting = waiting.filter_map(|index| view.member(*index));
            let to = waiting.map(|member| member.address).collect();
            self.tell_expired(stream, to, &[SeqRange::one(sequence)]);
            return;
        }
        let hop = RequestUrgency::of_plane(self.recovery.fast).repair_hop();
        self.repair(stream, sequence, hop, view, waiters.members());
    }

    /// Sends packets that a ring neighbour misses (R076).
    pub(crate) fn push(&mut self, stream: StreamId, to: MemberIndex, range: SeqRange) {
        let view = self.history.newest();
        let Some(member) = view.member(to) else {
            return;
        };
        self.forget_old_repairs();
        let current = view.number();
        let own = own_numbers(core::iter::once(range), |sequence| {
            self.history.caches(current, sequence)
        });
        let most = match self.recovery.fast {
            true => PUSHED_BESIDE_NAKS,
            false => PACKETS_PER_REQUEST,
        };
        let mut expired = Vec::new();
        for sequence in own.take(most) {
            let packet = match self.streams.get(&stream.origin) {
                Some(stream) => stream.packet(sequence, self.store),
                None => self.own.and_then(|own| own.packet(sequence)),
            };
            let Some(packet) = packet else { continue };
            if self.has_expired(stream.origin, sequence, packet) {
                expired.push(SeqRange::one(sequence));
                continue;
            }
            let repair = Repair {
                stream,
                sequence,
                hop: Hop::Push,
                packet,
            };
            self.repairs.send(
                &repair,
                RepairRecipient::One(to),
                Destination::Node(member.address),
            );
        }
        self.tell_expired(stream, vec![member.address], &expired);
    }

    /// Tells whether a packet is not sent again: its sender lives, and its messages have expired.
    fn has_expired(&self, sender: Origin, sequence: u64, packet: &[u8]) -> bool {
        let Some(lifetimes) = self.lifetimes else {
            return false;
        };
        let stream = self.streams.get(&sender);
        let dead = stream.is_some_and(ReceiveStream::sender_dead);
        !dead && lifetimes.is_expired(self.repairs.now, sender, sequence, packet)
    }

    /// The kept packets from this one on that have expired, one behind the other; `None`: this one has
    /// not.
    fn expired_from<'p>(
        &self,
        sender: Origin,
        first: u64,
        packet: impl Fn(u64) -> Option<&'p [u8]>,
    ) -> Option<SeqRange> {
        self.lifetimes?;
        let expired = |sequence: &u64| {
            packet(*sequence).is_some_and(|packet| self.has_expired(sender, *sequence, packet))
        };
        let last = (first..).take(EXPIRED_IN_ONE_GO).take_while(expired).last();
        SeqRange::new(first, last?)
    }

    /// The same of a stream of another sender.
    fn expired_of(&self, stream: &ReceiveStream, first: u64) -> Option<SeqRange> {
        let sender = stream.id().origin;
        self.expired_from(sender, first, |sequence| {
            stream.packet(sequence, self.store)
        })
    }

    fn forget_old_repairs(&mut self) {
        self.repairs.recent.turn(self.repairs.now, self.round_trip);
    }

    /// Repairs this node's own packets; returns those that it has freed.
    fn answer_as_sender(&mut self, asked: &ReceivedRequest, ranges: Ranges<'_>) -> Unanswered {
        let mut unanswered = Unanswered::default();
        let Some(sender) = self.own else {
            return unanswered;
        };
        let view = self.history.nearest(asked.view);
        // A whole partition misses what it caches in these ranges.
        let all = asked.tried != u32::MAX;
        let wanted = |sequence| all || view.caching_partition(sequence) == asked.partition;
        let numbers_max = match all {
            true => PACKETS_PER_REQUEST,
            false => NUMBERS_PER_REQUEST,
        };
        let numbers = numbers(ranges.iter(), numbers_max).filter(|sequence| wanted(*sequence));
        for sequence in numbers.take(PACKETS_PER_REQUEST) {
            if unanswered.has_answered(sequence) {
                continue;
            }
            if let Some(packet) = sender.packet(sequence) {
                match self.expired_from(asked.stream.origin, sequence, |next| sender.packet(next)) {
                    Some(expired) => unanswered.expired.push(expired),
                    None => self.repair_as_sender(asked, sequence, packet),
                }
            } else if let Some(freed) = SeqRange::new(sequence, sender.freed_upto()) {
                unanswered.absent.push(freed);
            }
        }
        unanswered
    }

    /// Repairs an own packet to everybody, since a whole caching partition misses it (R080). If
    /// only one member could not be served otherwise, only that one gets it.
    fn repair_as_sender(&mut self, asked: &ReceivedRequest, sequence: u64, packet: &[u8]) {
        let view = self.history.nearest(asked.view);
        // What all live members have is missing at one that was away.
        let stable = self.own.is_some_and(|own| sequence <= own.stable_upto());
        let alone = (asked.tried == 0 || stable) && asked.waiters.len() == 1;
        let one = asked.waiters.first().filter(|_| alone);
        let member = one.and_then(|waiter| Some((*waiter, view.member(*waiter)?.address)));
        let (recipient, to) = match member {
            Some((waiter, to)) => (RepairRecipient::One(waiter), Destination::Node(to)),
            None => (RepairRecipient::All, self.path.destination()),
        };
        let repair = Repair {
            stream: asked.stream,
            sequence,
            hop: Hop::SenderRepair,
            packet,
        };
        self.repairs.send(&repair, recipient, to);
    }

    /// Repairs packets that are kept here, and lets others wait for those that are missing here.
    /// Passes on what others have to answer: what is not this node's to cache, because a neighbour
    /// asks that its counterpart does not serve, and what it had no room to keep. Rule R-NAK-3.
    fn answer_as_cacher(&mut self, asked: &ReceivedRequest, ranges: Ranges<'_>) -> Unanswered {
        let mut unanswered = Unanswered::default();
        let Some(stream) = self.streams.get_mut(&asked.stream.origin) else {
            return unanswered;
        };
        let history = self.history;
        let wanted: Vec<u64> = match asked.urgency {
            RequestUrgency::WhenAvailable => {
                let own = |sequence| history.answers_for(asked.named, sequence);
                own_numbers(ranges.iter(), own).collect()
            }
            RequestUrgency::AtOnce => numbers(ranges.iter(), PACKETS_PER_REQUEST).collect(),
        };
        // What is missing here is cut at the borders of what is said of it.
        for range in ranges.iter() {
            stream.gaps_mut().cut_out(range);
        }
        let hop = asked.urgency.repair_hop();
        for sequence in wanted {
            let Some(stream) = self.streams.get(&asked.stream.origin) else {
                break;
            };
            if unanswered.has_answered(sequence) {
                continue;
            }
            if stream.packet(sequence, self.store).is_some() {
                match self.expired_of(stream, sequence) {
                    Some(expired) => unanswered.expired.push(expired),
                    None if self.collects(asked, sequence) => {}
                    None => self.repair(asked.stream, sequence, hop, asked.view, &asked.waiters),
                }
            } else if stream.gave_up_expired(sequence) {
                unanswered.expired.push(SeqRange::one(sequence));
            } else if let Some(purged) = stream.purged_from(sequence) {
                unanswered.absent.push(purged);
            } else if stream.gave_up(sequence) {
                unanswered.absent.push(SeqRange::one(sequence));
            } else if let Some(request) = self.pass_on(asked, sequence, stream) {
                merge(&mut unanswered.passed_on, request, sequence);
            } else if stream.has_let_go(sequence)
                || stream.is_foreign(sequence)
                || stream.misses_gone(sequence)
            {
                unanswered.absent.push(SeqRange::one(sequence));
            } else {
                self.wait_for(asked, ranges, sequence);
            }
        }
        unanswered
    }

    /// Returns whether a request for a packet that is kept here waits for others, or is served already, by
    /// parities. Rule R-NAK-15.
    fn collects(&mut self, asked: &ReceivedRequest, sequence: u64) -> bool {
        let view = self.history.nearest(asked.view);
        let (Some(requests), Some(asker)) = (self.blocks.as_deref_mut(), asked.takes_parity) else {
            return false;
        };
        let stream = self.streams.get(&asked.stream.origin);
        let (Some(block), Some(stream)) = (view.parity_block(sequence), stream) else {
            return false;
        };
        let request = BlockRequest {
            stream: asked.stream,
            first: block.first(),
            index: u8::try_from(sequence - block.first()).unwrap_or(u8::MAX),
            view: view.number(),
            asker,
        };
        let whole = || stream.missing_of_block(block) == Some(0);
        let rank = self.history.my_rank(asked.view).unwrap_or(0);
        let cachers = view.partition_len(view.caching_partition(sequence));
        let wait = patience(self.round_trip, block.last(), rank, cachers);
        let answer = requests.note(self.repairs.now, self.round_trip, &request, wait, whole);
        answer != BlockAnswer::Packet
    }

    /// Answers members that have asked together for packets of a block: by parities to all, by packets, or by
    /// both.
    pub(crate) fn answer_collected(&mut self, mut collected: Collected) {
        self.forget_old_repairs();
        let expired = self.refuse_expired(&mut collected);
        let collected = &collected;
        if !expired && collected.parities > 0 && self.send_parities(collected) {
            let beside = collected.beside_parities();
            beside.for_each(|needed| self.send_needed(collected, needed));
        } else {
            let all = collected.packets.iter();
            all.for_each(|needed| self.send_needed(collected, *needed));
        }
    }

    /// Tells members of packets that have expired while they waited, and takes these out; `true`: there
    /// were some. Rule R-DATA-14.
    fn refuse_expired(&mut self, collected: &mut Collected) -> bool {
        let (id, first) = (collected.stream, collected.first);
        let stream = self.streams.get(&id.origin);
        let Some(stream) = stream.filter(|_| self.lifetimes.is_some()) else {
            return false;
        };
        let asked = collected.packets.iter();
        let asked = asked.fold(0, |all, needed| all | needed.packets);
        let expired = bits(asked).filter(|index| {
            let packet = stream.packet(first + index, self.store);
            packet.is_some_and(|packet| self.has_expired(id.origin, first + index, packet))
        });
        let expired = expired.fold(0, |all, index| all | 1_u32 << index);
        let view = self.history.nearest(collected.view);
        for needed in &mut collected.packets {
            let over = bits(needed.packets & expired).map(|index| SeqRange::one(first + index));
            let over: Vec<SeqRange> = over.collect();
            needed.packets &= !expired;
            if let Some(member) = view.member(needed.member) {
                self.tell_expired(id, vec![member.address], &over);
            }
        }
        expired != 0
    }

    fn send_needed(&mut self, collected: &Collected, needed: NeededPackets) {
        let hop = RequestUrgency::AtOnce.repair_hop();
        for sequence in bits(needed.packets).map(|index| collected.first + index) {
            let (stream, view) = (collected.stream, collected.view);
            self.repair(stream, sequence, hop, view, &[needed.member]);
        }
    }

    /// Sends as many parities as are needed. `false`: the block makes none, or they would be too long.
    fn send_parities(&mut self, collected: &Collected) -> bool {
        let (id, first) = (collected.stream, collected.first);
        let block = self.history.nearest(collected.view).parity_block(first);
        let stream = self.streams.get(&id.origin);
        let (Some(block), Some(stream)) = (block, stream) else {
            return false;
        };
        let packets =
            (block.first()..=block.last()).map(|sequence| stream.packet(sequence, self.store));
        let Some(block) = WholeBlock::of(id, first, packets, self.parity_bytes) else {
            return false;
        };
        let (to, rank) = (
            self.path.destination(),
            self.history.my_rank(collected.view),
        );
        let rows = free_rows(collected.rows, rank.unwrap_or(0));
        for row in rows.take(collected.parities as usize) {
            let (header, length) = (self.header, block.parity_bytes());
            let sent = self.repairs.send_parity(length, to, |bytes| {
                block.encode_parity(row, &header, bytes);
            });
            if let Some(requests) = self.blocks.as_deref_mut().filter(|_| sent) {
                requests.sent(self.repairs.now, id, first, row);
            }
        }
        true
    }

    /// The request for a packet that this node cannot answer, now or later, to a node that may.
    fn pass_on(
        &self,
        asked: &ReceivedRequest,
        sequence: u64,
        stream: &ReceiveStream,
    ) -> Option<PlannedRequest> {
        let (history, view) = (self.history, self.history.nearest(asked.view));
        let known_view = stream.view_of(sequence, history) == view.number();
        let for_others = !history.answers_for(view.number(), sequence);
        let let_go = stream.has_let_go(sequence);
        if !self.passes_on(asked) || !known_view || !(for_others || let_go) {
            return None;
        }
        let me = view.index_of(self.header.origin);
        let mine = me
            .filter(|_| !for_others)
            .map_or(0, |me| bit(view.rank_of(me)));
        let route = RequestRoute {
            history,
            stream,
            view,
            me,
            sequence,
            known_missing: asked.tried | mine,
            now: self.repairs.now,
            give_up: self.recovery.give_up,
        };
        let next = match for_others {
            true => route.beside(),
            false => route.next(0),
        };
        let target = match next {
            Some(member) => RequestTarget::Member(member),
            // The asker goes to the sender by itself, and gives up what a dead one sent, or one that has
            // not got it any more, only by the word of its cachers. Rule R-NAK-8.
            None if for_others || stream.sender_lacks(sequence) => return None,
            None => RequestTarget::Sender,
        };
        Some(PlannedRequest {
            target,
            urgency: asked.urgency,
            head: RequestHead {
                stream: asked.stream,
                view: view.number(),
                tried: route.known_missing,
                for_itself: false,
                takes_parity: false,
            },
            waiters: asked.waiters.clone(),
            ranges: vec![SeqRange::one(sequence)],
        })
    }

    /// Notes who waits here for a packet that is missing here too, and who misses it.
    fn wait_for(&mut self, asked: &ReceivedRequest, ranges: Ranges<'_>, sequence: u64) {
        let urgent = self.passes_on(asked);
        let Some(stream) = self.streams.get_mut(&asked.stream.origin) else {
            return;
        };
        let Some(gap) = stream.gaps_mut().find_mut(sequence) else {
            if urgent {
                stream.expect(sequence, asked.tried, &asked.waiters);
            }
            return;
        };
        // Unless there was no room to cut it out: of the rest this was not said.
        let tried = match ranges.iter().any(|range| range.covers(gap.range())) {
            true => asked.tried,
            false => 0,
        };
        let mine = self
            .history
            .my_rank(asked.view)
            .filter(|_| self.history.caches(asked.view, sequence));
        let tried = tried & !mine.map_or(0, bit);
        let news = tried & !gap.known_missing != 0;
        gap.known_missing |= tried;
        for waiter in &asked.waiters {
            gap.waiters.add(*waiter);
        }
        if urgent && news {
            // Passed on, but not before it is certain that it is not just late here.
            let certain = gap.found.after(self.guard);
            gap.due = gap.due.min(self.repairs.now.max(certain));
        }
        stream.refresh_due();
    }

    fn passes_on(&self, asked: &ReceivedRequest) -> bool {
        self.recovery.fast && asked.urgency == RequestUrgency::AtOnce
    }

    /// Tells who asks, and those that wait there, whom nobody else would tell: they would go on
    /// asking that way. What a dead sender sent is given up by such words, and they are left out:
    /// each cacher is asked itself (R-NAK-8).
    fn say_absent(&mut self, from: SocketAddr, asked: &ReceivedRequest, absent: &[SeqRange]) {
        if absent.is_empty() {
            return;
        }
        let (header, ranges) = (self.header, merged(absent));
        let mut to = vec![from];
        let stream = self.streams.get(&asked.stream.origin);
        // It is this node that sends what it has no such stream of.
        if stream.is_none_or(|stream| !stream.sender_dead()) {
            let view = self.history.nearest(asked.view);
            let waiters = asked.waiters.iter();
            let waiting = waiters.filter_map(|index| view.member(*index));
            // What was passed on may come back to who began it.
            let others = waiting.filter(|member| member.origin != header.origin);
            let others = others.map(|member| member.address);
            to.extend(others.filter(|address| *address != from));
        }
        for to in to {
            self.repairs
                .outbox
                .push(Reason::Request, Destination::Node(to), |bytes| {
                    Absent::encode(&header, asked.stream, AbsentCause::Gone, &ranges, bytes);
                });
        }
    }

    /// Tells who asks, and those that wait there, that packets have expired. Rule R-DATA-14.
    fn say_expired(&mut self, from: SocketAddr, asked: &ReceivedRequest, expired: &[SeqRange]) {
        if expired.is_empty() {
            return;
        }
        let view = self.history.nearest(asked.view);
        let waiting = asked.waiters.iter();
        let waiting = waiting.filter_map(|index| view.member(*index));
        let others = waiting.filter(|member| member.origin != self.header.origin);
        let mut to = vec![from];
        to.extend(others.map(|member| member.address).filter(|at| *at != from));
        self.tell_expired(asked.stream, to, expired);
    }

    fn tell_expired(&mut self, stream: StreamId, to: Vec<SocketAddr>, expired: &[SeqRange]) {
        let (header, cause) = (self.header, AbsentCause::Expired);
        let counts = expired.iter().map(|range| u64::from(range.count()));
        self.repairs.stats.repairs_expired += counts.sum::<u64>();
        let ranges = joined(expired);
        for to in to {
            for part in ranges.chunks(Ranges::MAX) {
                let to = Destination::Node(to);
                self.repairs.outbox.push(Reason::Request, to, |bytes| {
                    Absent::encode(&header, stream, cause, part, bytes);
                });
            }
        }
    }

    /// Sends a kept packet to those who wait for it, or to everybody if they are many.
    fn repair(
        &mut self,
        id: StreamId,
        sequence: u64,
        hop: Hop,
        view: ViewNumber,
        waiters: &[MemberIndex],
    ) {
        let stream = self.streams.get(&id.origin);
        let Some(packet) = stream.and_then(|stream| stream.packet(sequence, self.store)) else {
            return;
        };
        let repair = Repair {
            stream: id,
            sequence,
            hop,
            packet,
        };
        let served = self.repairs.recent.singles(id, sequence);
        if served + waiters.len() >= many(self.history.size()) {
            self.repairs
                .send(&repair, RepairRecipient::All, self.path.destination());
            return;
        }
        let view = self.history.nearest(view);
        for index in waiters {
            if let Some(member) = view.member(*index) {
                self.repairs.send(
                    &repair,
                    RepairRecipient::One(*index),
                    Destination::Node(member.address),
                );
            }
        }
    }
}

/// From how many recipients on a repair is multicast (R-NAK-6). Everybody else gets it for nothing:
/// a few of a large region are served one by one. R cachers share the requests, so that R times as
/// many members miss the packet then.
fn many(members: usize) -> usize {
    (members / 32).max(3)
}

/// Time that requests for packets of a block wait at a cacher of this rank for others: half a round
/// trip at most, and less at one that comes before others in the block's turn: these may hear of its
/// parities in time.
fn patience(round_trip: Duration, block: u64, rank: usize, cachers: usize) -> Duration {
    let cachers = cachers.max(1);
    let turn = usize::try_from(block % cachers as u64).unwrap_or(0);
    let place = (rank + turn) % cachers;
    let share = u32::try_from(place).unwrap_or(0);
    let of = u32::try_from(cachers).unwrap_or(1);
    round_trip / 2 * (share + 1) / of
}

/// The places of the bits that are set, ascending.
fn bits(set: u32) -> impl Iterator<Item = u64> {
    (0..32).filter(move |place| set >> place & 1 == 1)
}

/// Rows that have not been sent. Cachers begin with different ones: parities that cross each other
/// are of use.
fn free_rows(sent: u32, rank: usize) -> impl Iterator<Item = u8> {
    let begin = u8::try_from(rank * 2 % usize::from(Parity::ROWS_MAX)).unwrap_or(0);
    let rows = (0..Parity::ROWS_MAX).map(move |row| (begin + row) % Parity::ROWS_MAX);
    rows.filter(move |row| sent >> row & 1 == 0)
}

/// The first numbers of these ranges.
fn numbers(ranges: impl Iterator<Item = SeqRange>, most: usize) -> impl Iterator<Item = u64> {
    ranges
        .flat_map(|range| range.first()..=range.last())
        .take(most)
}

/// Those of the ranges' numbers that `own` accepts, at most [`PACKETS_PER_REQUEST`].
fn own_numbers(
    ranges: impl Iterator<Item = SeqRange>,
    own: impl Fn(u64) -> bool,
) -> impl Iterator<Item = u64> {
    numbers(ranges, NUMBERS_PER_REQUEST)
        .filter(move |sequence| own(*sequence))
        .take(PACKETS_PER_REQUEST)
}

/// Adds the request for this packet to one that goes the same way, if there is one with room.
fn merge(requests: &mut Vec<PlannedRequest>, request: PlannedRequest, sequence: u64) {
    let mut same = requests.iter_mut();
    let same = same.find(|other| other.target == request.target && other.head == request.head);
    let joined = same.is_some_and(|other| append(&mut other.ranges, SeqRange::one(sequence)));
    if !joined {
        requests.push(request);
    }
}

/// Neighbouring ranges put together, as many as fit into one message.
fn merged(ranges: &[SeqRange]) -> Vec<SeqRange> {
    let mut out = Vec::new();
    ranges.iter().all(|range| append(&mut out, *range));
    out
}

/// Neighbouring ranges put together, all of them; they ascend.
fn joined(ranges: &[SeqRange]) -> Vec<SeqRange> {
    let mut out: Vec<SeqRange> = Vec::new();
    for range in ranges {
        let before = out.last().filter(|last| last.last() + 1 == range.first());
        match before.and_then(|last| SeqRange::new(last.first(), range.last())) {
            Some(both) if both.last() == range.last() => {
                out.pop();
                out.push(both);
            }
            _ => out.push(*range),
        }
    }
    out
}
