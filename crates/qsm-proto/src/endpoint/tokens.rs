//! The token plane's packets in, and its decisions out to the streams.

use core::mem::take;

use qsm_wire::membership::Member;
use qsm_wire::{
    Ack, Header, Kind, MemberIndex, Origin, RegionId, SeqRange, Summary, Token, TokenAck,
};

use super::Endpoint;
use super::requests::missing_parts;
use crate::ranges::{append, append_own};
use crate::region::{Region, RegionStreams};
use crate::ring::{Action, CALL, Turn};
use crate::send::AckOutcome;
use crate::{Instant, Reason};

impl Endpoint {
    pub(super) fn on_token(&mut self, now: Instant, (header, token): (&Header, &Token<'_>)) {
        let id = token.head.region;
        // A call only announces a round: it has not been anywhere yet.
        if token.head.level != CALL {
            self.note_token(now, id);
            self.note_losers(token);
        }
        self.turn(now, id, |region_ring, turn| {
            region_ring.handle_token(turn, header.origin, token);
        });
    }

    // Rule R-TOK-9.
    pub(super) fn on_summary(&mut self, now: Instant, (header, summary): (&Header, &Summary<'_>)) {
        self.note_token(now, summary.region);
        self.turn(now, summary.region, |region_ring, turn| {
            region_ring.handle_summary(turn, header.origin, summary);
        });
    }

    pub(super) fn on_token_ack(&mut self, now: Instant, from: Origin, ack: &TokenAck) {
        if let Some(region) = self.regions.get_mut(&ack.region) {
            region.ring.handle_token_ack(now, from, ack);
        }
    }

    /// The region's word on what this sender may forget, and how fast it may go on; perhaps with
    /// the word of each of its partitions (R094).
    pub(super) fn on_ack(&mut self, now: Instant, from: Origin, (ack, marks): (&Ack, &[u64])) {
        let region = self
            .regions
            .get_mut(&ack.region)
            .filter(|region| region.channel() == ack.stream.channel && region.history.lives(from));
        let Some(region) = region else {
            self.core.stats.discard_stranger += 1;
            return;
        };
        if let Some(sender) = &mut region.sender {
            self.core.stats.acks_received += 1;
            let outcome = sender.handle_ack(now, &mut self.pool, ack);
            let view = region.history.newest();
            if outcome == AckOutcome::Applied && ack.view == view.number() {
                sender.handle_marks(view, marks);
            }
        }
    }

    /// Runs the rings whose time has come.
    pub(super) fn run_rings(&mut self, now: Instant) {
        let due: Vec<RegionId> = self
            .regions
            .iter()
            .filter(|(_, region)| region.ring.next_timeout().is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            self.turn(now, id, |region_ring, turn| {
                region_ring.handle_timeout(turn);
            });
        }
    }

    fn note_losers(&mut self, token: &Token<'_>) {
        if let Some(region) = self.regions.get_mut(&token.head.region) {
            let losers = token
                .slots()
                .map(|slot| slot.head.losers)
                .max()
                .unwrap_or(0);
            region
                .backoff
                .note(losers, token.head.visited, region.history.size());
        }
    }

    fn note_token(&mut self, now: Instant, id: RegionId) {
        if let Some(leaving) = self.regions.get_mut(&id).and_then(|r| r.leaving.as_mut()) {
            leaving.last_token = now;
            leaving.tokens += 1;
        }
    }

    /// Lets a ring act, and carries out what it decides.
    fn turn(
        &mut self,
        now: Instant,
        id: RegionId,
        act: impl FnOnce(&mut crate::ring::RegionRing, &mut Turn<'_>),
    ) {
        let Some(region) = self.regions.get_mut(&id) else {
            self.core.stats.discard_channel += 1;
            return;
        };
        let mut actions = take(&mut self.actions);
        let streams = RegionStreams {
            history: &region.history,
            streams: &region.streams,
            sender: region.sender.as_ref(),
            me: self.core.origin,
            rate_packets: self.meter.advertised(now),
            credit_bytes: self.core.credit_bytes(),
            has_room: self.core.has_room(),
        };
        let outbox = &mut self.core.outbox;
        act(
            &mut region.ring,
            &mut Turn {
                now,
                streams: &streams,
                outbox,
                actions: &mut actions,
            },
        );
        for action in actions.drain(..) {
            self.act(now, id, action);
        }
        self.actions = actions;
    }

    fn act(&mut self, now: Instant, id: RegionId, action: Action) {
        match action {
            Action::Push { to, sender, range } => self.push(now, id, (to, sender, range)),
            Action::Pull {
                from,
                sender,
                ranges,
            } => self.pull(id, from, (sender, ranges.as_slice())),
            Action::PullLeaders { sender, cutoff } => {
                if !self.core.config.recovery.fast {
                    self.ask_around(now, id, sender, cutoff);
                }
                self.pull_leaders(id, sender, cutoff);
            }
            Action::AskSender { sender, ranges } => {
                self.ask_sender(now, id, sender, ranges.as_slice());
            }
            Action::Watermarks {
                sender,
                cutoff,
                stable_upto,
                cached_upto,
            } => {
                self.watermarks(now, id, (sender, cutoff, stable_upto, cached_upto));
            }
            Action::Acknowledge { sender, ack, marks } => {
                self.acknowledge(now, id, sender, (&ack, &marks));
            }
            Action::Tell { member, sender } => self.tell(id, member, sender),
            Action::Suspect { member } => {
                self.membership.suspect(now, member, &mut self.core.outbox);
            }
        }
    }

    fn member(&self, id: RegionId, index: MemberIndex) -> Option<Member> {
        self.regions
            .get(&id)?
            .history
            .newest()
            .member(index)
            .copied()
    }

    /// Asks a ring neighbour for what it has and this node misses (R076); where the fast plane
    /// asks, too, only for what that has tried in vain (R-TOK-6).
    fn pull(&mut self, id: RegionId, from: MemberIndex, (sender, ranges): (Origin, &[SeqRange])) {
        let (Some(to), Some(region)) = (self.member(id, from), self.regions.get(&id)) else {
            return;
        };
        let mut wanted = ranges.to_vec();
        if self.core.config.recovery.fast {
            wanted.clear();
            let Some(stream) = region.streams.get(&sender) else {
                return;
            };
            let parts = ranges
                .iter()
                .flat_map(|range| missing_parts(stream, &region.history, *range));
            let mut vain = parts.filter(|part| stream.tried_in_vain(part.first()));
            vain.all(|part| append_own(&mut wanted, part, region.history.newest()));
        }
        if !wanted.is_empty() {
            self.request_from(id, Kind::Pull, (to.address, sender, 0), &wanted);
        }
    }

    /// The whole partition misses these: its leader asks their sender (R079), if nobody here has
    /// lately: rounds may be shorter than the way to the sender and back (R-TOK-7).
    fn ask_sender(&mut self, now: Instant, id: RegionId, sender: Origin, ranges: &[SeqRange]) {
        let retry = self.core.retry();
        let Some(region) = self.regions.get_mut(&id) else {
            return;
        };
        let stream = region.streams.get_mut(&sender);
        let Some(stream) = stream.filter(|stream| !stream.sender_dead()) else {
            return;
        };
        let Some(to) = stream.sender_address() else {
            return;
        };
        let current = region.history.newest().number();
        let mut wanted: Vec<SeqRange> = Vec::new();
        for range in ranges {
            let mut parts = missing_parts(stream, &region.history, *range);
            parts.retain(|part| region.history.caches(current, part.first()));
            parts.retain(|part| stream.asks_again(now, *part, retry));
            parts.iter().all(|part| append(&mut wanted, *part));
        }
        if wanted.is_empty() {
            return;
        }
        let packets: u64 = wanted.iter().map(|range| u64::from(range.count())).sum();
        self.core.stats.sender_asked += packets;
        self.request_from(id, Kind::Nak, (to, sender, u32::MAX), &wanted);
    }

    /// Without the fast plane: what the rings cannot bring, because its cachers are those of an
    /// older view or because its sender is dead, is asked of its cachers one by one, at most once
    /// per token. So they learn who misses it, and in the end that nobody has it (R-TOK-8).
    fn ask_around(&mut self, now: Instant, id: RegionId, sender: Origin, cutoff: u64) {
        let retry = self.core.retry();
        let Some(region) = self.regions.get_mut(&id) else {
            return;
        };
        let Some(stream) = region.streams.get_mut(&sender) else {
            return;
        };
        let current = region.history.newest().number();
        let pieces: Vec<SeqRange> = stream
            .pieces(cutoff, &region.history)
            .take(PIECES_PER_TOKEN)
            .filter(|piece| {
                stream.sender_dead() || stream.view_of(piece.first(), &region.history) != current
            })
            .collect();
        for piece in pieces {
            stream.make_due(now, piece, retry);
        }
    }

    /// Asks the leaders of the caching partitions for what is missing here (R081), perhaps only what
    /// all its cachers have (R082); in the fast plane's presence those whom it asks, and only what
    /// it has given a try (R-TOK-8).
    fn pull_leaders(&mut self, id: RegionId, sender: Origin, cutoff: u64) {
        let Some(region) = self.regions.get(&id) else {
            return;
        };
        let Some(stream) = region.streams.get(&sender) else {
            return;
        };
        let fast = self.core.config.recovery.fast;
        let upto = if fast || !self.core.config.recovery.pull_late {
            cutoff
        } else {
            cutoff.min(region.ring.watermarks(sender).1)
        };
        let view = region.history.newest();
        let mut requests: Vec<(MemberIndex, Vec<SeqRange>)> = Vec::new();
        for piece in stream.pieces(upto, &region.history).take(PIECES_PER_TOKEN) {
            let tried = stream.tried_in_vain(piece.first());
            let mine = region.history.caches(view.number(), piece.first());
            let partition = view.caching_partition(piece.first());
            let asked = match region.history.me().filter(|_| fast) {
                Some(me) => {
                    let mut order = view.asked_for(piece.first(), me).into_iter();
                    let is_sender = |index| view.index_of(sender) == Some(index);
                    order.find(|index| !is_sender(*index))
                }
                None => view.partition_leader(partition),
            };
            let Some(leader) = asked else { continue };
            if mine || (fast && !tried) || region.history.me() == Some(leader) {
                continue;
            }
            match requests.iter_mut().find(|(to, _)| *to == leader) {
                Some((_, ranges)) => {
                    append_own(ranges, piece, view);
                }
                None => requests.push((leader, vec![piece])),
            }
        }
        for (leader, ranges) in requests {
            if let Some(to) = self.member(id, leader) {
                self.request_from(id, Kind::Pull, (to.address, sender, 0), &ranges);
            }
        }
    }

    fn watermarks(
        &mut self,
        now: Instant,
        id: RegionId,
        (sender, cutoff, stable_upto, cached_upto): (Origin, u64, u64, u64),
    ) {
        let Some(region) = self.regions.get_mut(&id) else {
            return;
        };
        let Some(stream) = region.streams.get_mut(&sender) else {
            // What everybody had was sent before this node came.
            if stable_upto < cutoff {
                self.place_unknown(now, id, sender);
            }
            return;
        };
        stream.watermarks(stable_upto, cached_upto, &mut self.core.store);
        stream.announce(now, cutoff);
    }

    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        id: RegionId,
        sender: Origin,
        (ack, marks): (&Ack, &[u64]),
    ) {
        if sender == self.core.origin {
            self.on_ack(now, sender, (ack, marks));
            return;
        }
        let Some(region) = self.regions.get(&id) else {
            return;
        };
        let to = region.address_of(sender);
        if let Some(to) = to {
            let header = self.core.header();
            self.core.stats.acks_sent += 1;
            self.core.outbox.push(Reason::Ack, to, |bytes| {
                ack.encode_with(&header, marks, bytes);
            });
        }
    }
}

/// Pieces of gaps that one token's pulls look at.
const PIECES_PER_TOKEN: usize = 1024;

impl Region {
    /// Where a sender was last heard from, or where the view says it is.
    pub(super) fn address_of(&self, sender: Origin) -> Option<std::net::SocketAddr> {
        let view = self.history.newest();
        let member = view.index_of(sender).and_then(|at| view.member(at));
        let stream = self
            .streams
            .get(&sender)
            .filter(|stream| !stream.sender_dead());
        stream
            .and_then(|stream| stream.sender_address())
            .or_else(|| member.map(|member| member.address))
    }
}

/// Adds what a region's parts count themselves.
pub(super) fn add_counters(stats: &mut crate::Stats, region: &Region) {
    let ring = region.ring.stats();
    stats.tokens_received += ring.tokens_received;
    stats.tokens_sent += ring.tokens_sent;
    stats.tokens_repeated += ring.tokens_repeated;
    stats.tokens_bypassed += ring.tokens_bypassed;
    stats.rounds += ring.rounds;
    stats.rounds_abandoned += ring.rounds_abandoned;
    stats.summaries += ring.summaries;
    stats.discard_stale += ring.stale;
    if let Some(sender) = &region.sender {
        stats.data_sent += sender.counters().packets;
        stats.last_resort += sender.counters().last_resort;
        stats.heartbeats_sent += sender.counters().heartbeats;
    }
}
