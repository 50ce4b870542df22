use core::net::SocketAddr;
use std::collections::BTreeMap;

use qsm_wire::Instant;

use crate::context::{Context, Due};
use crate::links::Links;
use crate::nack::Waiting;
use crate::outbox::Outbox;
use crate::packet::{Body, Packet, SessionId};
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

/// The active services of a relay (S1, 3.2) for any number of sessions, whose sources it reaches by
/// one parent: a source, or a relay nearer to it. It keeps no packets.
#[derive(Debug)]
pub struct Relay {
    parent: SocketAddr,
    timing: Timing,
    /// Boxed, since a node of the map has room for eleven.
    sessions: BTreeMap<SessionId, Box<Session>>,
    timers: Timers<(SessionId, Due)>,
    outbox: Outbox,
    stats: RelayStats,
}

impl Relay {
    /// A relay that knows nothing yet: what it has to know it learns from its children.
    #[must_use]
    pub fn new(parent: SocketAddr, timing: Timing) -> Self {
        Self {
            parent,
            timing,
            sessions: BTreeMap::new(),
            timers: Timers::default(),
            outbox: Outbox::default(),
            stats: RelayStats::default(),
        }
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
        let waiting = if from == self.parent {
            self.hear_parent(now, &packet)
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
        while let Some((id, due)) = self.timers.pop_due(now) {
            let Some((session, mut cx)) = self.session(now, id) else {
                continue;
            };
            let lives = match due {
                Due::Nack(sequence) => {
                    session.nack_due(&mut cx, sequence);
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
        self.timers.next()
    }

    /// Writes the next packet of its own into `out`, and says who gets it.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<SocketAddr> {
        let letter = self.outbox.pop()?;
        letter.packet.encode(out);
        Some(letter.to)
    }

    /// The addresses that a datagram goes on to.
    pub fn addresses(&self, onward: Onward) -> impl Iterator<Item = SocketAddr> {
        let session = self.sessions.get(&onward.session);
        let children = session.map(|session| session.children().addresses(onward.children));
        let parent = onward.parent.then_some(self.parent);
        children.into_iter().flatten().chain(parent)
    }

    /// Number of receivers at and below a session's children (S1, 3.2.1).
    #[must_use]
    pub fn receivers(&self, session: SessionId) -> u32 {
        let session = self.sessions.get(&session);
        session.map_or(0, |session| session.children().receivers())
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
            ..self.stats
        }
    }

    #[inline]
    fn hear_parent(&mut self, now: Instant, packet: &Packet<'_>) -> Waiting {
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
            Body::Data(data) => return session.data(&mut cx, data),
            Body::Repair(data) => return session.repair(&mut cx, data, None),
            Body::Heartbeat(heartbeat) => return session.heartbeat(&mut cx, heartbeat),
            Body::Nack(nack) => session.asked(&mut cx, nack),
            Body::Joined(joined) => session.joined(&mut cx, joined),
            Body::Ack(_) | Body::Join | Body::Leave => cx.stats.refused += 1,
        }
        Waiting::default()
    }

    /// State is soft: who sends what a child sends is one, so that a relay that has begun anew
    /// learns its children from their ACKs and NACKs. Rule R-RELAY-3.
    fn hear_child(&mut self, now: Instant, from: SocketAddr, packet: &Packet<'_>) -> Waiting {
        let asks = matches!(packet.body, Body::Join | Body::Ack(_) | Body::Nack(_));
        if asks && !self.sessions.contains_key(&packet.session) {
            self.begin(now, packet.session);
        }
        let Some((session, mut cx)) = self.session(now, packet.session) else {
            self.stats.refused += 1;
            return Waiting::default();
        };
        let known = session.children().find(from);
        let place = match known {
            None if asks => session.admit(&mut cx, from),
            known => known,
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
            Body::Ack(report) => session.report(&mut cx, place, report),
            Body::Join => session.join(&mut cx, place),
            Body::Leave => session.leave(&mut cx, place),
            Body::Data(_) | Body::Heartbeat(_) | Body::Joined(_) => cx.stats.refused += 1,
        }
        Waiting::default()
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
            parent: self.parent,
            timing: &self.timing,
            timers: &mut self.timers,
            outbox: &mut self.outbox,
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
