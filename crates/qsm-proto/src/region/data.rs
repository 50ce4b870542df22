//! Packets of streams: data and heartbeats.

use std::net::SocketAddr;

use qsm_wire::{DataHeader, Heartbeat, Origin};

use super::queries::{has_numbered, reaches, says_nothing};
use super::{Region, RegionCx};
use crate::Deliver;
use crate::history::Duty;
use crate::node::NodeState;
use crate::receive::{Arrival, Incoming, ReceiveStream, SEQUENCE_MAX, StreamMarks};

/// How long a dead sender's stream is remembered after everything of it is stable.
const LINGER: core::time::Duration = core::time::Duration::from_secs(30);

/// Weight of what a heartbeat says of a stream.
#[derive(Debug, Clone, Copy)]
struct HeartbeatWord {
    /// The sender of the stream speaks.
    own: bool,
    /// A member speaks that is not the sender.
    witness: bool,
    end: StreamEnd,
}

/// Whose word the end of a stream is.
#[derive(Debug, Clone, Copy)]
enum StreamEnd {
    /// It goes on.
    None,
    BySender,
    /// The membership service has declared the sender dead.
    ByService,
    ByMember,
}

impl RegionCx<'_> {
    /// Takes a data packet; `held`: its messages wait for those of another region. Returns whether
    /// it was new.
    pub(crate) fn take_data(
        &mut self,
        from: SocketAddr,
        incoming: &Incoming<'_>,
        held: bool,
        out: &mut dyn Deliver,
    ) -> bool {
        if !self.region.member() {
            self.node.stats.discard_channel += 1;
            return false;
        }
        let (sender, head) = (incoming.header.origin, &incoming.data.head);
        let proves = self.region.proof.is_some();
        if proves && !self.is_trusted(sender) {
            return false;
        }
        let stream = match self.region.streams.get_mut(&sender) {
            Some(stream) => stream,
            None => {
                self.open_stream(incoming.source(from), sender, head);
                match self.region.streams.get_mut(&sender) {
                    Some(stream) => stream,
                    None => return false,
                }
            }
        };
        if proves {
            stream.note_source(head.sequence, from);
        }
        if incoming.header.hop.is_first() {
            match proves && stream.waits_for_proof() {
                true => stream.heard(self.node.now),
                false => stream.heard_from(self.node.now, from),
            }
        }
        let history = &self.region.history;
        let mut context =
            self.node
                .stream_context(&self.region.backoff, history, &self.region.groups, out);
        let arrival = stream.take(incoming, history, held, &mut context);
        if proves {
            self.tell_forged(sender);
            self.tell_barred(sender);
            self.begin_by_seal(sender);
        }
        if arrival == Arrival::Dropped {
            return false;
        }
        let (now, bytes) = (self.node.now, incoming.datagram.bytes.len());
        if let Some(lifetimes) = &mut self.region.lifetimes {
            let stream = self.region.streams.get(&sender);
            let sent = stream.map_or(0, ReceiveStream::sent);
            lifetimes.note(now, sender, sent);
        }
        self.region.ring.note_traffic(now, bytes);
        self.node.earn_repairs(bytes);
        self.node.earn_requests();
        self.node.meter.count(now, 1);
        if let Arrival::Awaited(waiters) = arrival {
            let stream = self.stream_id(sender);
            self.answering()
                .serve_waiters(stream, head.sequence, waiters);
        }
        if self.node.cursors.is_special() {
            self.note_readers();
        }
        true
    }

    /// Takes the word of a stream's sender, or of another who knows: how far it goes, and where
    /// views begin. Returns whether it counts.
    pub(crate) fn take_heartbeat(
        &mut self,
        from: SocketAddr,
        speaker: Origin,
        beat: &Heartbeat<'_>,
    ) -> bool {
        if !self.region.member() {
            self.node.stats.discard_channel += 1;
            return false;
        }
        let sender = beat.stream.origin;
        let sane = beat.highest < SEQUENCE_MAX
            && beat
                .openings()
                .all(|opening| (1..SEQUENCE_MAX).contains(&opening.start));
        if sender == self.node.origin || !sane {
            self.node.stats.discard_own += u64::from(sane);
            self.node.stats.discard_ahead += u64::from(!sane);
            return false;
        }
        let dead = self.membership.is_dead(sender);
        let own = speaker == sender;
        // Of others' streams members say so when the sender is dead; so does what they answer
        // when they are asked about the dead.
        let witness = !own && self.region.history.lives(speaker);
        let unknown = !self.region.streams.contains_key(&sender);
        // Of a sender that is a member here the service says it, by a view without it. Rule R-SEC-43.
        let gone = dead || !self.region.history.lives(sender);
        if witness && unknown && gone && says_nothing(beat) {
            self.note_without(speaker, sender);
            return true;
        }
        let over = beat.finished && (own || witness && gone) || witness && dead;
        let word = HeartbeatWord {
            own,
            witness,
            end: match over {
                false => StreamEnd::None,
                true if own => StreamEnd::BySender,
                true if dead => StreamEnd::ByService,
                true => StreamEnd::ByMember,
            },
        };
        if own && !has_numbered(beat) {
            // It may yet send in the newest view that it knows.
            let left = self.region.history.left().unwrap_or_default();
            if reaches(beat.openings(), left) {
                self.region.note_silent(sender);
            }
        } else if unknown && (word.witness || !dead) && self.node.has_room_for_stream() {
            match self.region.start_by(beat, over) {
                Some(start) => {
                    self.membership.heard_sender(sender);
                    self.add_stream(sender, start);
                }
                // Who has all of it knows of no packet in a view that this node is in.
                None if beat.openings().next().is_some() => {
                    self.pass_over_foreign(sender, beat.highest);
                }
                None => {}
            }
        }
        if own || witness && dead {
            self.begin_by_word(beat);
        }
        self.follow(from, beat, word);
        true
    }

    /// Follows a heartbeat's word of a stream that is received here.
    fn follow(&mut self, from: SocketAddr, beat: &Heartbeat<'_>, word: HeartbeatWord) {
        let (now, sender) = (self.node.now, beat.stream.origin);
        let Some(stream) = self.region.streams.get_mut(&sender) else {
            return;
        };
        if word.own {
            stream.heard_from(now, from);
            stream.forget_unsent(now, beat, &mut self.node.store);
            stream.vouch(beat.highest);
        }
        for opening in beat.openings() {
            stream.note_opening(opening);
        }
        stream.announce(now, beat.highest);
        let (known, contiguous) = (beat.highest, stream.contiguous());
        match word.end {
            StreamEnd::None => {}
            StreamEnd::BySender => stream.ended(beat.highest),
            StreamEnd::ByService => stream.sender_died(now),
            StreamEnd::ByMember => stream.presume_dead(now, self.node.config.recovery.give_up),
        }
        self.region.note_unproven_age(now, self.node.origin, sender);
        if word.own || word.witness {
            self.region.place(now, sender, known);
            self.region.note_answer(sender, known);
        }
        self.doubt_sender(sender);
        if known > contiguous {
            self.region.ring.note_traffic(now, 0);
        }
        if word.own {
            let last = self.region.ring.last_ack(sender);
            if let Some(ack) = &last {
                self.acknowledge(sender, ack, &[]);
            }
            // Of views before this node's nothing comes here that would open a round.
            if last.is_none_or(|ack| ack.stable_upto < known) {
                self.region.ring.want(now, sender);
            }
        }
    }

    /// Counts as missing what senders and tokens have announced: all that has arrived has been
    /// read.
    pub(crate) fn extend_streams(&mut self, out: &mut dyn Deliver) {
        let region = &mut *self.region;
        let mut gone = Vec::new();
        for (sender, stream) in &mut region.streams {
            if stream.behind() {
                let (backoff, groups) = (&region.backoff, &region.groups);
                let history = &region.history;
                let context = &mut self.node.stream_context(backoff, history, groups, out);
                let part = stream.extend(context);
                gone.extend(part.map(|part| (*sender, part)));
                stream.refresh_due();
                if let Some(lifetimes) = &mut region.lifetimes {
                    lifetimes.note(self.node.now, *sender, stream.sent());
                }
            }
        }
        for (sender, part) in gone {
            self.skip_gone(sender, part, out);
        }
    }

    /// Forgets dead senders' streams that nobody needs any more.
    pub(crate) fn forget_ended(&mut self) {
        let node = &mut *self.node;
        if let Some(lifetimes) = &mut self.region.lifetimes {
            let streams = &self.region.streams;
            lifetimes.retain(|sender| sender == node.origin || streams.contains_key(&sender));
        }
        self.region.streams.retain(|sender, stream| {
            let over = stream.over(node.now, LINGER);
            if over {
                stream.release(&mut node.store);
                node.cursors.forget(*sender);
                node.streams -= 1;
            }
            !over
        });
    }

    /// Makes a stream for a packet if its beginning is clear.
    /// Rule R-VIEW-6.
    fn open_stream(&mut self, source: Option<SocketAddr>, sender: Origin, head: &DataHeader) {
        let stats = &mut self.node.stats;
        let Some(joined) = self.region.history.joined() else {
            stats.discard_view += 1;
            return;
        };
        if self.membership.is_dead(sender) {
            stats.discard_stranger += 1;
            return;
        }
        if self.region.history.duty(head.view) == Duty::Pass && head.view < joined {
            stats.discard_not_mine += 1;
            return;
        }
        if !self.node.has_room_for_stream() {
            self.node.stats.discard_streams += 1;
            return;
        }
        match head.view_start() {
            Some(start) if head.view == joined || start == 1 => {
                self.membership.heard_sender(sender);
                self.add_stream(sender, start);
                if let Some(stream) = self.region.streams.get_mut(&sender) {
                    stream.doubt_beginning();
                }
            }
            _ => {
                self.node.stats.discard_view += 1;
                match self.region.waits_for_proof() {
                    true => self.place_unknown(sender),
                    false => self.region.ask_later(self.node.now, source, sender),
                }
            }
        }
    }

    /// Begins a stream whose first packet for this node is known. Tokens may have said already how
    /// far it goes, and say it only once (R-TOK-5).
    pub(super) fn add_stream(&mut self, sender: Origin, start: u64) {
        self.region.queries.remove(&sender);
        self.region.passed.forget(sender);
        let (stable_upto, cached_upto) = self.region.ring.watermarks(sender);
        let marks = StreamMarks {
            stable_upto,
            cached_upto,
        };
        let mut stream = ReceiveStream::new(self.stream_id(sender), start, marks);
        let cutoff = self.region.ring.cutoff(sender);
        if stable_upto < cutoff {
            stream.announce(self.node.now, cutoff);
        }
        if self.region.others_away {
            stream.begin_retaining();
        }
        if self.membership.is_owed_nothing(sender) {
            stream.note_nothing_owed();
        }
        self.region.streams.insert(sender, stream);
        self.node.streams += 1;
        if self.region.proof.is_some() {
            self.region.judge_stream(self.node, sender);
        }
    }
}

impl Region {
    /// Delivers what waits in a stream.
    pub(super) fn deliver(&mut self, node: &mut NodeState, sender: Origin, out: &mut dyn Deliver) {
        if let Some(stream) = self.streams.get_mut(&sender) {
            let history = &self.history;
            let mut context = node.stream_context(&self.backoff, history, &self.groups, out);
            stream.deliver(&self.history, false, &mut context);
            if context.delivery.cursors.is_special() {
                stream.hurry(None, &self.history, &mut context);
            }
        }
    }

    /// Counts what is proven in a stream as proven though its messages wait: they are acknowledged meanwhile. Rule R-SEC-32.
    pub(super) fn settle_held(
        &mut self,
        node: &mut NodeState,
        sender: Origin,
        out: &mut dyn Deliver,
    ) {
        let stream = self.streams.get_mut(&sender);
        if let Some(stream) = stream.filter(|stream| stream.is_judged()) {
            let mut context = node.stream_context(&self.backoff, &self.history, &self.groups, out);
            stream.settle(&mut context);
        }
    }

    /// Hands out what is due ahead of its order, for those who want it so.
    pub(super) fn hurry(&mut self, node: &mut NodeState, out: &mut dyn Deliver) {
        let (now, history) = (node.now, &self.history);
        for stream in self.streams.values_mut() {
            if stream.prompt_due() <= now {
                let mut context = node.stream_context(&self.backoff, history, &self.groups, out);
                stream.hurry(None, &self.history, &mut context);
            }
        }
    }

    /// Where this node's part of a stream begins by this word. Of a stream that is over it may be
    /// after all that is said of it: that was sent before this node came.
    fn start_by(&self, beat: &Heartbeat<'_>, over: bool) -> Option<u64> {
        let end = over.then_some(beat.highest + 1);
        self.start_of(beat.openings()).or(end)
    }
}
