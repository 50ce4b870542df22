use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

use qsm_wire::Instant;

use crate::cache::Cache;
use crate::context::{Answer, Context, Due};
use crate::links::Links;
use crate::maker::Copies;
use crate::nack::Waiting;
use crate::outbox::Outbox;
use crate::packet::{Body, Data, Join, Packet, SessionId, WINDOW_MAX};
use crate::parents::{Parents, Silent};
use crate::session::Session;
use crate::stats::RelayStats;
use crate::timers::Timers;
use crate::timing::Timing;

/// Most children of a session; S1 has 1 to 50 (its section 5).
pub const CHILDREN_MAX: usize = Links::MAX;
/// Most sessions of a relay.
pub const SESSIONS_MAX: usize = 1024;

/// Where a datagram that has come goes on to, unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the datagram is lost unless the caller sends it on"]
pub struct Onward {
    session: SessionId,
    /// Children of its session that get it.
    pub children: Links,
    /// The parent gets it.
    pub parent: bool,
}

impl Onward {
    /// Nobody gets it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.children.is_empty() && !self.parent
    }
}

/// A loop of declared parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loop {
    /// Child by which a relay's own Join has come back to it.
    pub child: SocketAddr,
    /// Relays in the loop, this one with them.
    pub relays: usize,
}

/// The active services of a relay (S1, 3.2) for any number of sessions, whose sources it reaches by
/// one parent at a time: a source, or a relay nearer to it. It keeps no packets, unless [`Relay::keep`] gives it memory
/// for them.
#[derive(Debug)]
pub struct Relay {
    parents: Parents,
    /// Number of this relay as a child.
    child: u64,
    timing: Timing,
    looped: Option<Loop>,
    /// Boxed, since a node of the map has room for eleven.
    sessions: BTreeMap<SessionId, Box<Session>>,
    timers: Timers<(SessionId, Due)>,
    outbox: Outbox,
    cache: Cache,
    answers: VecDeque<Answer>,
    /// Packets of its own making, for several children.
    made: VecDeque<(SessionId, Copies)>,
    parity: bool,
    stats: RelayStats,
}

impl Relay {
    /// A relay that knows nothing yet: what it has to know it learns from its children. Its number
    /// is to be drawn at random, and not 0: its parent knows it by that.
    #[must_use]
    pub fn new(parent: SocketAddr, child: u64, timing: Timing) -> Self {
        Self {
            parents: Parents::one(parent),
            child,
            timing,
            looped: None,
            sessions: BTreeMap::new(),
            timers: Timers::default(),
            outbox: Outbox::default(),
            cache: Cache::default(),
            answers: VecDeque::new(),
            made: VecDeque::new(),
            parity: false,
            stats: RelayStats::default(),
        }
    }

    /// Keeps the newest packets in so many bytes, payloads and what they take beside, and answers NACKs
    /// out of them. Before the first datagram. Rule R-RELAY-40.
    pub fn keep(&mut self, bytes: usize) {
        self.cache = Cache::new(bytes);
    }

    /// Sends parity ahead of requests to children whose own hop loses packets, of streams whose source adapts its rate.
    /// Before the first datagram. Rules R-RELAY-70 to R-RELAY-73.
    pub fn send_parity(&mut self) {
        self.parity = true;
    }

    /// Goes on with this parent when all that were named before are silent, and so on in a circle; or
    /// begins with it, if it answers first. Before the first datagram. Rule R-RELAY-42.
    pub fn add_parent(&mut self, now: Instant, parent: SocketAddr) {
        self.parents.add(now, parent);
    }

    /// The parent that it has now, for all sessions.
    #[must_use]
    pub fn parent(&self) -> SocketAddr {
        self.parents.present()
    }

    /// Takes a datagram, and says where the caller is to send the same bytes. Its service follows
    /// from the packet's kind (R177), and its cost does not depend on the payload (R178).
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) -> Onward {
        let Ok(packet) = Packet::decode(bytes) else {
            self.stats.malformed += 1;
            return nobody(SessionId {
                source: 0,
                group: 0,
            });
        };
        if let Some(relays) = self.own_join(from, &packet) {
            self.loops(
                now,
                Loop {
                    child: from,
                    relays,
                },
            );
            return nobody(packet.session);
        }
        let waiting = if from == self.parents.present() {
            self.hear_parent(now, &packet, bytes)
        } else if self.is_of_parent(from, &packet) {
            self.hear_another(now, from, &packet, bytes)
        } else {
            self.hear_child(now, from, &packet)
        };
        Onward {
            session: packet.session,
            children: waiting.children,
            parent: waiting.parent,
        }
    }

    /// Carries out the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.watch_parent(now);
        while let Some((id, due)) = self.timers.pop_due(now) {
            let Some((session, mut cx)) = self.session(now, id) else {
                continue;
            };
            let lives = match due {
                Due::Nack(sequence) => {
                    session.nack_due(&mut cx, sequence);
                    true
                }
                Due::Rate => {
                    session.rate_due(&mut cx);
                    true
                }
                Due::Block => {
                    session.block_due(&mut cx);
                    true
                }
                Due::Tick => session.tick(&mut cx),
            };
            if !lives {
                self.sessions.remove(&id);
                self.stats.sessions_ended += 1;
            }
        }
    }

    /// When [`Relay::handle_timeout`] is to be called next.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let silent = match self.has_parent_to_lose() {
            true => self.parents.due(self.timing.upstream_retry),
            false => Instant::NEVER,
        };
        let next = self.timers.next().unwrap_or(Instant::NEVER).min(silent);
        (next < Instant::NEVER).then_some(next)
    }

    /// Writes the next packet of its own into `out`, and says who gets it.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<SocketAddr> {
        if let Some(letter) = self.outbox.pop() {
            letter.packet.encode(out);
            return Some(letter.to);
        }
        while let Some(answer) = self.answers.pop_front() {
            let Answer {
                to,
                session,
                sequence,
            } = answer;
            let Some(payload) = self.cache.payload(session, sequence) else {
                continue;
            };
            self.stats.cache_repairs += 1;
            // What is released is its parent's word: this says no more than that a source had sent it.
            let body = Body::Repair(Data {
                sequence,
                released: sequence.saturating_sub(WINDOW_MAX),
                payload,
            });
            Packet { session, body }.encode(out);
            return Some(to);
        }
        while let Some((session, copies)) = self.made.front_mut() {
            let Some(place) = copies.children.first() else {
                self.made.pop_front();
                continue;
            };
            copies.children.remove(place);
            let session = self.sessions.get(session);
            if let Some(to) = session.and_then(|it| it.children().address(place)) {
                out.clone_from(&copies.bytes);
                return Some(to);
            }
        }
        None
    }

    /// The addresses that a datagram goes on to.
    pub fn addresses(&self, onward: Onward) -> impl Iterator<Item = SocketAddr> {
        let session = self.sessions.get(&onward.session);
        let children = session.map(|session| session.children().addresses(onward.children));
        let parent = onward.parent.then_some(self.parents.present());
        children.into_iter().flatten().chain(parent)
    }

    /// The loop of parents that a Join has shown last, if there is one and no other parent. Nothing comes by
    /// it. Rule R-RELAY-20.
    #[must_use]
    pub fn looped(&self) -> Option<Loop> {
        self.looped
    }

    /// Tells whether the parent has not answered the Join for a session that has children.
    #[must_use]
    pub fn waits_for_parent(&self) -> bool {
        let mut sessions = self.sessions.values();
        sessions.any(|session| session.waits_for_parent())
    }

    /// Number of receivers at and below all children of all sessions.
    #[must_use]
    pub fn all_receivers(&self) -> u64 {
        let sessions = self.sessions.values();
        let counts = sessions.map(|session| u64::from(session.children().receivers()));
        counts.sum()
    }

    /// Number of receivers at and below a session's children (S1, 3.2.1).
    #[must_use]
    pub fn receivers(&self, session: SessionId) -> u32 {
        let session = self.sessions.get(&session);
        session.map_or(0, |session| session.children().receivers())
    }

    /// Tells whether a packet is kept.
    #[must_use]
    pub fn keeps(&self, session: SessionId, sequence: u64) -> bool {
        self.cache.has(session, sequence)
    }

    /// Bytes that kept packets take.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Sessions of which something is known.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Packets of a session whose NACK state lives.
    #[must_use]
    pub fn nack_states(&self, session: SessionId) -> usize {
        let session = self.sessions.get(&session);
        session.map_or(0, |session| session.nack_states())
    }

    /// S1's `lastOrdered` and `lastReceived` of a session, once known.
    #[must_use]
    pub fn progress(&self, session: SessionId) -> Option<[u64; 2]> {
        let track = self.sessions.get(&session)?.track()?;
        Some([track.last_ordered(), track.last_received()])
    }

    /// Memory of a session, bytes, without what packets that are being asked for take.
    #[must_use]
    pub fn session_bytes(&self, session: SessionId) -> Option<usize> {
        let session = self.sessions.get(&session)?;
        let entry = size_of::<(SessionId, Session)>() + size_of::<(Instant, SessionId, Due)>();
        Some(entry + session.allocated_bytes())
    }

    /// Account since it was made.
    #[must_use]
    pub fn stats(&self) -> RelayStats {
        RelayStats {
            limited: self.stats.limited + self.outbox.overflowed(),
            cache_bytes: self.cache.bytes() as u64,
            cache_evicted: self.cache.evicted(),
            ..self.stats
        }
    }

    #[inline]
    fn hear_parent(&mut self, now: Instant, packet: &Packet<'_>, bytes: &[u8]) -> Waiting {
        // Where two relays are each other's parents, what a child sends is no word of a parent.
        if packet.body.child().is_none()
            && let Some(orphaned) = self.parents.hear(now)
        {
            let us = u64::try_from(orphaned.as_micros()).unwrap_or(u64::MAX);
            self.stats.orphaned_us = self.stats.orphaned_us.max(us);
        }
        let Some((session, mut cx)) = self.session(now, packet.session) else {
            self.stats.refused += 1;
            return Waiting::default();
        };
        if session.children().is_empty() {
            // It has left, and what is on its way must not begin it anew.
            cx.stats.refused += 1;
            return Waiting::default();
        }
        match &packet.body {
            Body::Data(data) => return session.data(&mut cx, data, bytes),
            Body::Repair(data) => return session.repair(&mut cx, data, None),
            Body::Heartbeat(heartbeat) => return session.heartbeat(&mut cx, heartbeat),
            Body::Parity(parity) => session.parity(&mut cx, parity),
            Body::Nack(nack) => session.asked(&mut cx, nack),
            Body::Joined(joined) => session.joined(&mut cx, joined),
            Body::Echo(echo) => {
                session.echo(&mut cx, echo);
                let trips = session.rates().and_then(|rates| rates.round_trips());
                if let Some([children, parent]) = trips {
                    self.timing.follow(children, parent);
                }
            }
            Body::Ack(_) | Body::Join(_) | Body::Leave(_) | Body::Feedback(_) | Body::Lost(_) => {
                cx.stats.refused += 1;
            }
        }
        Waiting::default()
    }

    /// Tells whether this is the word of a parent that is not the present one, and not of a child, which it may
    /// be as well.
    fn is_of_parent(&self, from: SocketAddr, packet: &Packet<'_>) -> bool {
        let session = || self.sessions.get(&packet.session);
        let is_child = || session().is_some_and(|it| it.children().find(from).is_some());
        self.parents.is_other(from)
            && packet.body.child().is_none()
            && !(matches!(packet.body, Body::Repair(_)) && is_child())
    }

    /// Hears a parent that is not the present one: before the first contact whoever answers is, and of one
    /// that was thought gone what it still sends counts. Rule R-RELAY-42.
    fn hear_another(
        &mut self,
        now: Instant,
        from: SocketAddr,
        packet: &Packet<'_>,
        bytes: &[u8],
    ) -> Waiting {
        let session = self.sessions.get(&packet.session);
        let Some(session) = session.filter(|session| !session.children().is_empty()) else {
            self.stats.refused += 1;
            return Waiting::default();
        };
        let answered = matches!(packet.body, Body::Joined(_)) && session.waits_for_parent();
        if answered && self.parents.is_doubted(now) {
            self.parents.choose(now, from);
            self.change_parent(now);
            return self.hear_parent(now, packet, bytes);
        }
        let Some((session, mut cx)) = self.session(now, packet.session) else {
            return Waiting::default();
        };
        match &packet.body {
            Body::Data(data) => return session.data(&mut cx, data, bytes),
            Body::Repair(data) => return session.repair(&mut cx, data, None),
            Body::Heartbeat(heartbeat) => return session.heartbeat(&mut cx, heartbeat),
            // It has answered later than the one that is the parent now, and is not needed.
            Body::Joined(_) if cx.stats.parents_changed == 0 => {
                let leave = Body::Leave(cx.child);
                cx.outbox.push(from, cx.id, leave);
            }
            _ => cx.stats.refused += 1,
        }
        Waiting::default()
    }

    /// Tells whether some session goes by a parent that another one could replace.
    fn has_parent_to_lose(&self) -> bool {
        self.parents.are_several() && self.sessions.values().any(|it| it.acknowledges())
    }

    /// Asks a parent that is silent, or goes on with the next one. Rule R-RELAY-42.
    fn watch_parent(&mut self, now: Instant) {
        if !self.has_parent_to_lose() {
            return;
        }
        match self.parents.look(now, self.timing.upstream_retry) {
            None => {}
            Some(Silent::Asked) => {
                let mut sessions = self.sessions.iter();
                let id = sessions.find_map(|(id, it)| it.acknowledges().then_some(*id));
                if let Some((session, mut cx)) = id.and_then(|id| self.session(now, id)) {
                    session.ask_parent(&mut cx);
                }
            }
            Some(Silent::Replaced) => self.change_parent(now),
        }
    }

    /// Another parent has taken the place of the one before, for all sessions.
    fn change_parent(&mut self, now: Instant) {
        self.stats.parents_changed += u64::from(self.has_parent_to_lose());
        for id in self.sessions.keys().copied().collect::<Vec<_>>() {
            if let Some((session, mut cx)) = self.session(now, id) {
                session.change_parent(&mut cx);
            }
        }
    }

    /// Parents form a loop: nothing can come by the present one.
    fn loops(&mut self, now: Instant, found: Loop) {
        self.stats.loops += 1;
        if self.parents.are_several() {
            self.parents.replace(now);
            self.change_parent(now);
        } else {
            self.looped = Some(found);
        }
    }

    /// State is soft: who sends what a child sends is one, so that a relay that has begun anew
    /// learns its children from their ACKs and NACKs. Rule R-RELAY-3.
    fn hear_child(&mut self, now: Instant, from: SocketAddr, packet: &Packet<'_>) -> Waiting {
        let asks = match &packet.body {
            Body::Join(join) => Some(*join),
            body => body.reporter().map(Join::new),
        };
        if asks.is_some() && !self.sessions.contains_key(&packet.session) {
            self.begin(now, packet.session);
        }
        let Some((session, mut cx)) = self.session(now, packet.session) else {
            self.stats.refused += 1;
            return Waiting::default();
        };
        let known = match packet.body.child() {
            Some(child) => session.locate(&mut cx, child, from),
            None => session.children().find(from),
        };
        let place = match asks {
            Some(join) if known.is_none() => session.admit(&mut cx, &join, from),
            _ => known,
        };
        let Some(place) = place else {
            cx.stats.refused += 1;
            return Waiting::default();
        };
        match &packet.body {
            Body::Repair(data) => return session.repair(&mut cx, data, Some(place)),
            Body::Nack(nack) => {
                session.report(&mut cx, place, &nack.report);
                session.nack(&mut cx, place, &nack.missing);
            }
            Body::Lost(nack) => {
                session.report(&mut cx, place, &nack.report);
                session.lost(&cx, place, &nack.missing);
            }
            Body::Ack(report) => session.report(&mut cx, place, report),
            Body::Join(join) => session.join(&mut cx, place, join),
            Body::Leave(_) => session.leave(&mut cx, place),
            Body::Feedback(feedback) => session.feedback(&mut cx, place, feedback),
            Body::Data(_)
            | Body::Heartbeat(_)
            | Body::Joined(_)
            | Body::Echo(_)
            | Body::Parity(_) => {
                cx.stats.refused += 1;
            }
        }
        Waiting::default()
    }

    /// The relays of a loop of parents, if this packet is a Join that shows one: one that this relay
    /// has brought about, or one by which its parent wants to be its child.
    fn own_join(&self, from: SocketAddr, packet: &Packet<'_>) -> Option<usize> {
        let Body::Join(join) = &packet.body else {
            return None;
        };
        let mine = join.path().iter().rposition(|relay| *relay == self.child);
        match mine {
            _ if join.child == self.child => Some(1),
            Some(at) => Some(join.path().len() - at + 1),
            None => (from == self.parents.present()).then_some(2),
        }
    }

    fn begin(&mut self, now: Instant, id: SessionId) {
        if self.sessions.len() >= SESSIONS_MAX {
            self.stats.limited += 1;
            return;
        }
        let session = Session::new(now, &self.timing);
        self.sessions.insert(id, Box::new(session));
    }

    #[inline]
    fn session(&mut self, now: Instant, id: SessionId) -> Option<(&mut Session, Context<'_>)> {
        let session = self.sessions.get_mut(&id)?;
        let cx = Context {
            now,
            id,
            parent: self.parents.present(),
            parents: &self.parents,
            child: self.child,
            timing: &self.timing,
            timers: &mut self.timers,
            outbox: &mut self.outbox,
            cache: &mut self.cache,
            answers: &mut self.answers,
            made: &mut self.made,
            parity: self.parity,
            stats: &mut self.stats,
        };
        Some((session, cx))
    }
}

fn nobody(session: SessionId) -> Onward {
    Onward {
        session,
        children: Links::default(),
        parent: false,
    }
}
