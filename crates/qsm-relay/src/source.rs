use core::fmt;
use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use qsm_wire::Instant;

use crate::children::Children;
use crate::links::Links;
use crate::outbox::Outbox;
use crate::packet::{
    Body, Data, Heartbeat, Joined, Missing, Packet, Report, SessionId, WINDOW_MAX,
};
use crate::stats::SourceStats;
use crate::timers::Repetition;
use crate::timing::Timing;

/// Packets that are remembered as repaired just now.
const HELD_MAX: usize = 4096;
/// Most packets that wait to be sent while repairs still find room.
const OUTGOING_MAX: usize = 2 * WINDOW_MAX as usize;
/// Longest payload, bytes.
const PAYLOAD_MAX: usize = 65_000;

/// Why a packet was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The stream has been ended.
    Finished,
    /// The payload does not fit a datagram.
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// Most bytes.
        max: usize,
    },
    /// As many packets are not acknowledged as the window holds: try again after an ACK.
    WindowFull {
        /// Packets of the window.
        packets: u64,
    },
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("the stream has been ended"),
            Self::TooLong { bytes, max } => {
                write!(f, "a payload of {bytes} bytes, at most {max} fit a packet")
            }
            Self::WindowFull { packets } => {
                write!(f, "all {packets} packets of the window wait for ACKs")
            }
        }
    }
}

impl core::error::Error for SendError {}

/// Recipients of a packet of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// This address.
    Address(SocketAddr),
    /// These children, whose addresses [`Source::addresses`] knows.
    Children(Links),
}

/// A packet that waits to be sent.
#[derive(Debug, Clone, Copy)]
enum Outgoing {
    Data { sequence: u64 },
    Repair { sequence: u64, place: usize },
    Heartbeat,
}

/// The root of a session: numbers packets, keeps them until everybody has them, and sends again what
/// its children ask for. Rule R-RELAY-12.
#[derive(Debug)]
pub struct Source {
    session: SessionId,
    timing: Timing,
    window: u64,
    children: Children,
    highest: u64,
    released: u64,
    /// Packets behind `released`, in order.
    kept: VecDeque<Arc<[u8]>>,
    /// Children that have been repaired just now, by packet, and until when that counts.
    held: BTreeMap<u64, (Links, Instant)>,
    heartbeat: Option<Repetition>,
    /// When silent children are looked for, once there are any.
    look: Instant,
    finished: bool,
    outbox: Outbox,
    outgoing: VecDeque<Outgoing>,
    stats: SourceStats,
}

impl Source {
    /// A source that keeps up to `window` packets, at most [`WINDOW_MAX`], for its receivers.
    #[must_use]
    pub fn new(session: SessionId, timing: Timing, window: u64) -> Self {
        Self {
            session,
            timing,
            window: window.clamp(1, WINDOW_MAX),
            children: Children::default(),
            highest: 0,
            released: 0,
            kept: VecDeque::new(),
            held: BTreeMap::new(),
            heartbeat: None,
            look: Instant::NEVER,
            finished: false,
            outbox: Outbox::default(),
            outgoing: VecDeque::new(),
            stats: SourceStats::default(),
        }
    }

    /// Takes a packet for all children, and returns its number. Without children nobody gets it.
    ///
    /// # Errors
    /// The payload is too long, the window full or the stream ended; nothing was taken.
    pub fn send(&mut self, now: Instant, payload: &[u8]) -> Result<u64, SendError> {
        if self.finished {
            return Err(SendError::Finished);
        }
        if payload.len() > PAYLOAD_MAX {
            let (bytes, max) = (payload.len(), PAYLOAD_MAX);
            return Err(SendError::TooLong { bytes, max });
        }
        self.release();
        if self.highest - self.released >= self.window {
            let packets = self.window;
            return Err(SendError::WindowFull { packets });
        }
        self.highest += 1;
        self.kept.push_back(payload.into());
        let sequence = self.highest;
        self.outgoing.push_back(Outgoing::Data { sequence });
        self.heartbeat = Some(Repetition::new(now, self.timing.heartbeat_min));
        Ok(sequence)
    }

    /// Ends the stream; heartbeats tell it to all.
    pub fn finish(&mut self, now: Instant) {
        self.finished = true;
        self.outgoing.push_back(Outgoing::Heartbeat);
        self.heartbeat = Some(Repetition::new(now, self.timing.heartbeat_min));
    }

    /// Takes a datagram.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        let Ok(packet) = Packet::decode(bytes) else {
            self.stats.malformed += 1;
            return;
        };
        let asks = matches!(packet.body, Body::Join | Body::Ack(_) | Body::Nack(_));
        let known = self.children.find(from);
        if packet.session != self.session || (!asks && known.is_none()) {
            self.stats.refused += 1;
            return;
        }
        let Some(place) = self.children.admit(from, now) else {
            self.stats.limited += 1;
            return;
        };
        self.look = self.look.min(now.after(self.timing.child_lifetime));
        match &packet.body {
            Body::Join => self.join(place, from),
            Body::Leave => self.remove(place),
            Body::Ack(report) => self.report(now, place, report),
            Body::Nack(nack) => {
                self.report(now, place, &nack.report);
                self.nack(now, place, &nack.missing);
            }
            // The source has asked nobody to repair.
            Body::Repair(_) | Body::Data(_) | Body::Heartbeat(_) | Body::Joined(_) => {
                self.stats.refused += 1;
            }
        }
    }

    /// Carries out the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if now >= self.look {
            let silent = self.children.expire(now, self.timing.child_lifetime);
            self.stats.children_lost += silent.len() as u64;
            if !silent.is_empty() {
                // Their places may become other children's.
                self.held.clear();
            }
            self.look = if self.children.is_empty() {
                Instant::NEVER
            } else {
                now.after(self.timing.ack_max)
            };
            self.release();
        }
        if let Some(heartbeat) = &mut self.heartbeat
            && now >= heartbeat.at
        {
            heartbeat.double(now, self.timing.ack_max);
            self.outgoing.push_back(Outgoing::Heartbeat);
            if self.released == self.highest && (!self.finished || self.children.is_empty()) {
                self.heartbeat = None;
            }
        }
    }

    /// When [`Source::handle_timeout`] is to be called next.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let heartbeat = self.heartbeat.map_or(Instant::NEVER, |it| it.at);
        let next = self.look.min(heartbeat);
        (next < Instant::NEVER).then_some(next)
    }

    /// Writes the next packet into `out`, and says who gets it.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<To> {
        if let Some(letter) = self.outbox.pop() {
            letter.packet.encode(out);
            return Some(To::Address(letter.to));
        }
        while let Some(outgoing) = self.outgoing.pop_front() {
            let Some(children) = self.write(outgoing, out) else {
                continue;
            };
            match outgoing {
                Outgoing::Data { .. } => self.stats.sent += 1,
                Outgoing::Repair { .. } => self.stats.repairs_sent += 1,
                Outgoing::Heartbeat => {}
            }
            return Some(To::Children(children));
        }
        None
    }

    /// The addresses of children.
    pub fn addresses(&self, children: Links) -> impl Iterator<Item = SocketAddr> {
        self.children.addresses(children)
    }

    /// Number of receivers, as relays have counted them.
    #[must_use]
    pub fn receivers(&self) -> u32 {
        self.children.receivers()
    }

    /// All receivers have everything up to here; what is behind is kept.
    #[must_use]
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Account since it was made.
    #[must_use]
    pub fn stats(&self) -> SourceStats {
        SourceStats {
            limited: self.stats.limited + self.outbox.overflowed(),
            ..self.stats
        }
    }

    fn join(&mut self, place: usize, from: SocketAddr) {
        let known = self.children.is_known(place);
        let first = self.children.owed(place).unwrap_or_else(|| {
            self.children.owe(place, self.highest + 1);
            self.highest + 1
        });
        let joined = Joined {
            first,
            highest: self.highest.max(first - 1),
            known,
        };
        self.outbox.push(from, self.session, Body::Joined(joined));
    }

    fn report(&mut self, now: Instant, place: usize, report: &Report) {
        let upto = report.upto.min(self.highest);
        self.children
            .report(place, &Report { upto, ..*report }, now);
        self.release();
    }

    /// The source repairs what no replier could: to the child that asks, once in a while.
    fn nack(&mut self, now: Instant, place: usize, missing: &Missing) {
        let hold = now.after(self.timing.served_hold);
        for sequence in missing.iter() {
            self.stats.nacks_received += 1;
            if sequence <= self.released {
                // It is told how far packets are released by the next heartbeat.
                self.stats.released_before += 1;
                self.heartbeat
                    .get_or_insert_with(|| Repetition::new(now, self.timing.heartbeat_min));
                continue;
            }
            if sequence > self.highest {
                continue;
            }
            let (served, until) = self.held.get(&sequence).copied().unwrap_or_default();
            if served.contains(place) && now < until {
                self.stats.nacks_suppressed += 1;
                continue;
            }
            if self.outgoing.len() >= OUTGOING_MAX {
                self.stats.limited += 1;
                continue;
            }
            let served = if now < until {
                served
            } else {
                Links::default()
            };
            if self.held.len() >= HELD_MAX {
                self.held.retain(|_, (_, until)| now < *until);
            }
            if self.held.len() < HELD_MAX {
                let served = served.with(Links::one(place));
                self.held.insert(sequence, (served, hold));
            }
            self.outgoing
                .push_back(Outgoing::Repair { sequence, place });
        }
    }

    fn remove(&mut self, place: usize) {
        self.children.remove(place);
        self.held.clear();
        self.release();
    }

    fn release(&mut self) {
        let upto = self.children.upto_min().unwrap_or(self.highest);
        while self.released < upto.min(self.highest) {
            self.kept.pop_front();
            self.released += 1;
            self.held.remove(&self.released);
        }
    }

    /// Writes a packet, unless it is released meanwhile, and says who gets it.
    fn write(&self, outgoing: Outgoing, out: &mut Vec<u8>) -> Option<Links> {
        let (body, to) = match outgoing {
            Outgoing::Data { sequence } => {
                let data = self.kept_data(sequence)?;
                (Body::Data(data), self.children.members())
            }
            Outgoing::Repair { sequence, place } => {
                let data = self.kept_data(sequence)?;
                (Body::Repair(data), Links::one(place))
            }
            Outgoing::Heartbeat => {
                let heartbeat = Heartbeat {
                    highest: self.highest,
                    released: self.released,
                    finished: self.finished,
                };
                (Body::Heartbeat(heartbeat), self.children.members())
            }
        };
        let session = self.session;
        Packet { session, body }.encode(out);
        Some(to)
    }

    fn kept_data(&self, sequence: u64) -> Option<Data<'_>> {
        let at = sequence.checked_sub(self.released + 1)?;
        let payload = self.kept.get(usize::try_from(at).ok()?)?;
        Some(Data {
            sequence,
            released: self.released,
            payload,
        })
    }
}
