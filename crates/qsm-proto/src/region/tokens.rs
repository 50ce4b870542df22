//! The token plane's packets in, and its decisions out to the streams.

use core::mem::take;

use qsm_wire::{Ack, Header, Hop, Origin, Summary, Token, TokenAck};

use super::RegionCx;
use super::streams::RegionStreams;
use crate::node::Round;
use crate::receive::StreamMarks;
use crate::ring::{Action, CALL, RegionRing, Turn};
use crate::send::AckOutcome;
use crate::{Destination, Reason};

impl RegionCx<'_> {
    /// Takes a token or call.
    pub(crate) fn take_token(&mut self, header: &Header, token: &Token<'_>) {
        let maker = header.origin;
        self.note_round(token.head.round);
        // A call only announces a round: it has not been anywhere yet.
        if token.head.level != CALL {
            self.note_token();
            self.note_losers(token);
        } else if maker == token.head.leader && header.hop == Hop::Direct {
            self.hear_call(maker, token.head.round);
        }
        self.turn(|ring, turn| ring.handle_token(turn, maker, token));
        if token.head.level != CALL {
            self.doubt_leader(token);
            self.doubt_senders(token);
        }
    }

    fn note_round(&mut self, number: u64) {
        let region = self.region.id();
        self.node.note_round(Round { region, number });
    }

    /// Takes the result of a round. Rule R-TOK-9.
    pub(crate) fn take_summary(&mut self, header: &Header, summary: &Summary<'_>) {
        let maker = header.origin;
        if self.region.absence.is_some() {
            // It is in no ring: this answers a question.
            self.take_extents(maker, summary);
            return;
        }
        self.note_token();
        self.note_round(summary.round);
        if header.hop == Hop::Direct {
            self.hear_summary(maker, summary);
        }
        self.turn(|ring, turn| ring.handle_summary(turn, maker, summary));
    }

    /// Takes the receipt of a token.
    pub(crate) fn take_token_ack(&mut self, from: Origin, ack: &TokenAck) {
        let hop = self.region.ring.handle_token_ack(self.node.now, from, ack);
        if let Some(took) = hop {
            self.node.times.token_hop.record(took);
        }
    }

    /// Does what is due on the ring.
    pub(crate) fn run_ring(&mut self) {
        let due = self.region.ring.next_timeout();
        if due.is_some_and(|at| at <= self.node.now) {
            self.turn(|ring, turn| ring.handle_timeout(turn));
        }
    }

    /// The region's word on what this sender may forget, and how fast it may go on; perhaps with
    /// the word of each of its partitions (R094). It is the word of the view's leader, as far as this
    /// node knows that view. Rule R-SEC-40.
    pub(crate) fn take_ack(&mut self, from: Origin, ack: &Ack, marks: &[u64]) {
        let region = &*self.region;
        let known = region.history.exact(ack.view);
        let leads = known.is_none_or(|view| {
            view.leader()
                .and_then(|at| view.member(at))
                .is_some_and(|leader| leader.origin == from)
        });
        let heard = region.history.lives(from) && leads;
        if region.channel() != ack.stream.channel || !heard {
            self.node.stats.discard_stranger += 1;
            return;
        }
        self.note_strain();
        let region = &mut *self.region;
        if let Some(sender) = &mut region.sender {
            region.served.note_ack(ack, sender);
            self.node.stats.acks_received += 1;
            let times = &mut self.node.times.stable;
            let view = region.history.newest();
            let newest = ack.view == view.number() && sender.is_sound(ack);
            let away = region.others_away || !region.served.knows(view);
            if newest {
                sender.confirm_retained(self.pool, ack.stable_upto, away);
            }
            let outcome = sender.handle_ack(self.node.now, self.pool, ack, times);
            if outcome != AckOutcome::Malformed {
                region.served.note_taken(ack, sender);
            }
            if outcome == AckOutcome::Applied && ack.view == view.number() {
                sender.handle_marks(view, marks);
            }
            region.note_let_go();
        }
    }

    /// Tells a sender the region's word, as its leader.
    pub(super) fn acknowledge(&mut self, sender: Origin, ack: &Ack, marks: &[u64]) {
        // The only receiver of a region sees no tokens.
        self.note_round(ack.round);
        if sender == self.node.origin {
            self.take_ack(sender, ack, marks);
            return;
        }
        if let Some(to) = self.region.address_of(sender) {
            let header = self.node.header();
            self.node.stats.acks_sent += 1;
            self.node
                .outbox
                .push(Reason::Ack, Destination::Node(to), |bytes| {
                    ack.encode_with(&header, marks, bytes);
                });
        }
    }

    fn note_losers(&mut self, token: &Token<'_>) {
        let losers = token.slots().map(|slot| slot.head.losers).max();
        self.region.backoff.note(
            losers.unwrap_or(0),
            token.head.visited,
            self.region.history.size(),
        );
    }

    /// Lets the ring act, and carries out what it decides.
    fn turn(&mut self, act: impl FnOnce(&mut RegionRing, &mut Turn<'_>)) {
        let mut actions = take(&mut self.node.actions);
        let node = &mut *self.node;
        let streams = RegionStreams {
            history: &self.region.history,
            streams: &self.region.streams,
            passed: &self.region.passed,
            sender: self.region.sender.as_ref(),
            me: node.origin,
            rate_packets: node.meter.advertised(node.now),
            credit_bytes: node.credit_bytes(),
            has_room: node.has_room(),
            fills: node.store.is_filling(),
            full: !node.cursors.full().is_none(),
        };
        let mut turn = Turn {
            now: node.now,
            streams: &streams,
            outbox: &mut node.outbox,
            actions: &mut actions,
            times: &mut node.times,
        };
        act(&mut self.region.ring, &mut turn);
        for action in actions.drain(..) {
            self.act(action);
        }
        self.node.actions = actions;
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Push { to, sender, range } => {
                let stream = self.stream_id(sender);
                self.answering().push(stream, to, range);
            }
            Action::Pull {
                from,
                sender,
                ranges,
            } => self.pull(from, sender, ranges.as_slice()),
            Action::PullLeaders { sender, cutoff } => {
                if !self.node.fast() {
                    self.ask_around(sender, cutoff);
                }
                self.pull_leaders(sender, cutoff);
            }
            Action::AskSender { sender, ranges } => self.ask_sender(sender, ranges.as_slice()),
            Action::Watermarks {
                sender,
                cutoff,
                stable_upto,
                cached_upto,
            } => {
                let marks = StreamMarks {
                    stable_upto,
                    cached_upto,
                };
                self.note_marks(sender, cutoff, marks);
            }
            Action::Acknowledge { sender, ack, marks } => self.acknowledge(sender, &ack, &marks),
            Action::Tell { member, sender } => self.tell_extent(member, sender),
            Action::Suspect { member, silent } => {
                let outbox = &mut self.node.outbox;
                self.membership
                    .suspect(self.node.now, member, silent, outbox);
            }
        }
    }

    /// Follows the word of a token how far a stream goes, and how far the region has got with it.
    fn note_marks(&mut self, sender: Origin, cutoff: u64, marks: StreamMarks) {
        let Some(stream) = self.region.streams.get_mut(&sender) else {
            self.follow_unknown(sender, cutoff, marks);
            return;
        };
        let (now, me) = (self.node.now, self.node.origin);
        stream.announce(now, cutoff);
        self.region.note_unproven_age(now, me, sender);
        self.purge_stable(sender, marks);
        self.doubt_sender(sender);
    }

    /// Follows the word of a token of a stream that is not received here. What everybody had was sent
    /// before this node came, or this node has forgotten the stream.
    fn follow_unknown(&mut self, sender: Origin, cutoff: u64, marks: StreamMarks) {
        let region = &mut *self.region;
        let Some(joined) = region.history.joined() else {
            return;
        };
        region.passed.note(joined, sender, marks.stable_upto);
        if region.passed.upto(joined, sender) < cutoff {
            self.place_unknown(sender);
        }
    }

    /// Frees what the region has got through with, but what is kept for members that are away.
    pub(super) fn purge_stable(&mut self, sender: Origin, marks: StreamMarks) {
        let Some(stream) = self.region.streams.get_mut(&sender) else {
            return;
        };
        let limits = &self.node.config.limits;
        let retained = limits.retention_bytes.min(limits.receive_bytes / 2);
        stream.note_marks(marks, &mut self.node.store);
        if !self.region.others_away {
            stream.release_retained(marks.stable_upto, &mut self.node.store);
        }
        stream.limit_retained(&mut self.node.store, retained);
        if self.region.minimum_rate > 0 {
            let (history, limit) = (&self.region.history, limits.receive_bytes / 2);
            stream.limit_cached(&mut self.node.store, limit, history);
        }
        stream.ask_for_crowded_out(self.node.now, &self.node.store);
    }
}
