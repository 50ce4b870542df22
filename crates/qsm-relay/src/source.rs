use core::fmt;
use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use qsm_wire::Instant;

use crate::children::Children;
use crate::codepoint::Codepoint;
use crate::limits::Limits;
use crate::links::Links;
use crate::maker::ParityMaker;
use crate::outbox::Outbox;
use crate::pace::{Pace, RateBounds};
use crate::packet::{
    Body, Data, Feedback, Heartbeat, Joined, Missing, Packet, Report, SessionId, WINDOW_MAX,
};
use crate::reporter::{Tempo, Trips};
use crate::stats::SourceStats;
use crate::timers::Repetition;
use crate::timing::Timing;

/// Packets that are remembered as repaired just now.
const HELD_MAX: usize = 4096;
/// Most repairs that wait to be sent.
const REPAIRS_MAX: usize = WINDOW_MAX as usize;
/// Longest payload, bytes.
pub const PAYLOAD_MAX: usize = 65_000;

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

/// A repair that waits to be sent.
#[derive(Debug, Clone, Copy)]
struct Repair {
    sequence: u64,
    place: usize,
}

/// Rate of a source that adapts it.
#[derive(Debug)]
struct Control {
    pace: Pace,
    limits: Limits,
    parity: Option<ParityMaker>,
}

/// The root of a session: numbers packets, keeps them until everybody has them, and sends again what
/// its children ask for. Rule R-RELAY-12. Data and repairs go as fast as its slowest receiver can
/// take them, if it is told to: [`Source::adapt_rate`].
#[derive(Debug)]
pub struct Source {
    session: SessionId,
    timing: Timing,
    window: u64,
    children: Children,
    highest: u64,
    /// Packets up to here have been sent; those behind wait for their time.
    sent: u64,
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
    repairs: VecDeque<Repair>,
    /// A heartbeat is to be sent.
    beat: bool,
    control: Option<Box<Control>>,
    /// Of the packet that was written last.
    codepoint: Codepoint,
    /// The latest time that it was told.
    now: Instant,
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
            sent: 0,
            released: 0,
            kept: VecDeque::new(),
            held: BTreeMap::new(),
            heartbeat: None,
            look: Instant::NEVER,
            finished: false,
            outbox: Outbox::default(),
            repairs: VecDeque::new(),
            beat: false,
            control: None,
            codepoint: Codepoint::NotCapable,
            now: Instant(0),
            stats: SourceStats::default(),
        }
    }

    /// Adapts the rate to the slowest receiver from now on, within these bounds. Before the first call
    /// of another function. Rule R-RELAY-17.
    pub fn adapt_rate(&mut self, bounds: RateBounds) {
        self.control = Some(Box::new(Control {
            pace: Pace::new(bounds),
            limits: Limits::default(),
            parity: None,
        }));
    }

    /// Sends parity ahead of requests to children whose own hop loses packets, within the rate. Before the first
    /// packet, and behind [`Source::adapt_rate`]: without a rate none is sent. Rules R-RELAY-70 to R-RELAY-73.
    pub fn send_parity(&mut self) {
        if let Some(control) = &mut self.control {
            control.parity = Some(ParityMaker::new(self.session));
        }
    }

    /// Lets queues mark packets in the place of dropping them, and makes way for marks: for a source that adapts its
    /// rate, and a caller that sends each packet with its [`Source::codepoint`]. Rules R-RELAY-80, R-RELAY-81.
    pub fn use_marks(&mut self) {
        if let Some(control) = &mut self.control {
            control.pace.want_marks();
        }
    }

    /// The codepoint in the header of IP for the packet that was written last.
    #[must_use]
    pub fn codepoint(&self) -> Codepoint {
        self.codepoint
    }

    /// Numbers packets from behind this number on, where an earlier source of the session may have got
    /// as far: its receivers then go on with this one. Before the first packet. Rule R-RELAY-21.
    pub fn number_behind(&mut self, sequence: u64) {
        if self.highest == 0 {
            let sequence = sequence.min(u64::MAX / 2);
            (self.highest, self.sent, self.released) = (sequence, sequence, sequence);
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
        self.rested(now);
        self.highest += 1;
        self.kept.push_back(payload.into());
        self.now = self.now.max(now);
        self.expect_silence(now);
        Ok(self.highest)
    }

    /// Ends the stream; heartbeats tell it to all.
    pub fn finish(&mut self, now: Instant) {
        self.finished = true;
        self.beat = true;
        self.expect_silence(now);
    }

    /// Takes a datagram.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        self.now = self.now.max(now);
        let Ok(packet) = Packet::decode(bytes) else {
            self.stats.malformed += 1;
            return;
        };
        if packet.session != self.session {
            self.stats.refused += 1;
            return;
        }
        let Some(place) = self.child(now, from, &packet.body) else {
            return;
        };
        self.look = self.look.min(now.after(self.timing.child_lifetime));
        match &packet.body {
            Body::Join(_) => self.join(place, from),
            Body::Leave(_) => self.remove(place),
            Body::Ack(report) => self.report(now, place, report),
            Body::Nack(nack) => {
                self.report(now, place, &nack.report);
                self.nack(now, place, &nack.missing);
            }
            Body::Lost(nack) => {
                self.report(now, place, &nack.report);
                self.lost(place, &nack.missing);
            }
            Body::Feedback(feedback) => self.feedback(now, place, feedback),
            // The source has asked nobody to repair.
            Body::Repair(_) | Body::Data(_) => self.stats.refused += 1,
            Body::Heartbeat(_) | Body::Joined(_) | Body::Echo(_) | Body::Parity(_) => {
                self.stats.refused += 1;
            }
        }
    }

    /// Carries out the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if let Some(control) = &mut self.control {
            control.pace.look(now);
            if let Some(parity) = &mut control.parity {
                parity.handle_timeout(now);
            }
        }
        if now >= self.look {
            let silent = self.children.expire(now, self.timing.child_lifetime);
            self.stats.children_lost += silent.len() as u64;
            silent.iter().for_each(|place| self.forget_limit(place));
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
            self.beat = true;
            if self.released == self.highest && (!self.finished || self.children.is_empty()) {
                self.heartbeat = None;
            }
        }
    }

    /// When [`Source::handle_timeout`] is to be called next.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let heartbeat = self.heartbeat.map_or(Instant::NEVER, |it| it.at);
        let mut next = self.look.min(heartbeat);
        if let Some(control) = &self.control {
            next = next.min(control.pace.silence_due());
            let parity = control.parity.as_ref();
            next = next.min(parity.map_or(Instant::NEVER, ParityMaker::due));
            let made = parity.is_some_and(ParityMaker::has_made);
            if self.sent < self.highest || !self.repairs.is_empty() || made {
                next = next.min(control.pace.next());
            }
        }
        (next < Instant::NEVER).then_some(next)
    }

    /// Writes the next packet into `out`, and says who gets it.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<To> {
        self.codepoint = Codepoint::NotCapable;
        if let Some(letter) = self.outbox.pop() {
            letter.packet.encode(out);
            return Some(To::Address(letter.to));
        }
        if core::mem::take(&mut self.beat) {
            self.write_heartbeat(out);
            return Some(To::Children(self.children.members()));
        }
        let pace = self.control.as_ref().map(|control| &control.pace);
        if pace.is_some_and(|pace| pace.next() > self.now) {
            return None;
        }
        if let Some(to) = self.next_parity(out) {
            return Some(To::Children(to));
        }
        let to = self.next_repair(out).or_else(|| self.next_data(out))?;
        if let Some(control) = &mut self.control {
            control.pace.sent(self.now, self.sent, out.len());
            if control.pace.model().marks().are_on() {
                self.codepoint = Codepoint::Capable;
            }
        }
        Some(To::Children(to))
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

    /// Number of children, receivers and relays.
    #[must_use]
    pub fn children(&self) -> usize {
        self.children.members().len()
    }

    /// All receivers have everything up to here; what is behind is kept.
    #[must_use]
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Packets that have been taken and not yet sent.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.highest - self.sent
    }

    /// Account since it was made.
    #[must_use]
    pub fn stats(&self) -> SourceStats {
        let mut stats = self.stats;
        stats.limited += self.outbox.overflowed();
        if let Some(control) = &self.control {
            let model = control.pace.model();
            let limit = model.limit();
            stats.rate = control.pace.rate();
            stats.bandwidth = model.bandwidth();
            stats.round_trip_us = u64::from(limit.round_trip_us);
            stats.least_us = u64::from(limit.least_us);
            stats.loss_ppm = u64::from(limit.lost) * 1_000_000 / u64::from(limit.packets.max(1));
            stats.in_flight = model.in_flight();
            stats.rivals = model.rivals();
            stats.marks = model.marks().answers();
            stats.unmarkable = model.marks().given_up();
        }
        stats
    }

    /// The place of the child that has sent this; `None` if there is none for it.
    fn child(&mut self, now: Instant, from: SocketAddr, body: &Body<'_>) -> Option<usize> {
        let known = match body.child() {
            Some(child) => self.children.find_child(child, from),
            None => self.children.find(from),
        };
        let asks = matches!(body, Body::Join(_) | Body::Ack(_) | Body::Nack(_));
        match (known, body.child()) {
            (Some(place), Some(child)) => {
                let moved = self.children.locate(place, child, from);
                self.stats.children_moved += u64::from(moved);
            }
            (None, Some(child)) if asks => {
                let place = self.children.admit(child, from, now);
                self.stats.limited += u64::from(place.is_none());
                if place.is_some() && self.sent > 0 {
                    // One that was away has to learn what is released, and that the stream has ended.
                    self.expect_silence(now);
                }
                return place;
            }
            _ => self.stats.refused += u64::from(known.is_none()),
        }
        known
    }

    /// A child's word on rates, which is answered. Rules R-RELAY-15, R-RELAY-17.
    fn feedback(&mut self, now: Instant, place: usize, feedback: &Feedback) {
        self.stats.feedback_received += 1;
        self.children.hear(place, now);
        let mut tempo = Tempo::default();
        if let Some(control) = &mut self.control {
            control.limits.tell(now, place, feedback);
            if let Some(parity) = &mut control.parity
                && feedback.limit.is_overloaded()
            {
                parity.quiet(place);
            }
            match control.limits.lowest() {
                Some(limit) => control.pace.heard(now, limit),
                None => control.pace.measured(now, control.limits.round_trip_us()),
            }
            tempo = control.pace.tempo();
        }
        if let Some(address) = self.children.address(place) {
            let echo = tempo.echo(feedback, Some(Trips::NONE));
            self.outbox.push(address, self.session, Body::Echo(echo));
        }
    }

    /// Notes that what is sent next was not there before, though it might have gone.
    fn rested(&mut self, now: Instant) {
        if let Some(control) = &mut self.control
            && self.sent == self.highest
            && self.repairs.is_empty()
        {
            control.pace.rested(now);
        }
    }

    /// A heartbeat follows if nothing else does.
    fn expect_silence(&mut self, now: Instant) {
        let gap = self.control.as_ref().map(|control| control.pace.gap() * 2);
        let silence = self.timing.heartbeat_min.max(gap.unwrap_or_default());
        let silence = silence.min(self.timing.ack_max);
        self.heartbeat = Some(Repetition::new(now, silence));
    }

    fn join(&mut self, place: usize, from: SocketAddr) {
        let known = self.children.is_known(place);
        let first = self.children.owed(place).unwrap_or_else(|| {
            self.children.owe(place, self.sent + 1);
            self.sent + 1
        });
        let joined = Joined {
            first,
            highest: self.sent.max(first - 1),
            known,
            rated: self.control.is_some(),
            parity: self.parity().is_some(),
        };
        self.outbox.push(from, self.session, Body::Joined(joined));
    }

    fn report(&mut self, now: Instant, place: usize, report: &Report) {
        let upto = report.upto.min(self.sent);
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
            if sequence > self.sent {
                continue;
            }
            let (served, until) = self.held.get(&sequence).copied().unwrap_or_default();
            if served.contains(place) && now < until {
                self.stats.nacks_suppressed += 1;
                continue;
            }
            if self.repairs.len() >= REPAIRS_MAX {
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
            self.repairs.push_back(Repair { sequence, place });
        }
    }

    fn remove(&mut self, place: usize) {
        self.children.remove(place);
        self.forget_limit(place);
        self.held.clear();
        self.release();
    }

    /// Who is gone does not limit the rate any more.
    fn forget_limit(&mut self, place: usize) {
        if let Some(control) = &mut self.control {
            control.limits.forget(place);
            if let Some(parity) = &mut control.parity {
                parity.forget(place);
            }
        }
    }

    /// A child's word on packets that have not come to it at first. Rule R-RELAY-70.
    fn lost(&mut self, place: usize, missing: &Missing) {
        if let Some(control) = &mut self.control
            && let Some(parity) = &mut control.parity
        {
            parity.lost(place, missing, control.limits.trip_us(place));
        }
    }

    fn parity(&mut self) -> Option<&mut ParityMaker> {
        self.control.as_mut()?.parity.as_mut()
    }

    fn release(&mut self) {
        let upto = self.children.upto_min().unwrap_or(self.highest);
        while self.released < upto.min(self.highest) {
            self.kept.pop_front();
            self.released += 1;
            self.held.remove(&self.released);
        }
        self.sent = self.sent.max(self.released);
    }

    /// Writes the repair that waits longest, unless its packet is released meanwhile.
    fn next_repair(&mut self, out: &mut Vec<u8>) -> Option<Links> {
        while let Some(Repair { sequence, place }) = self.repairs.pop_front() {
            if let Some(data) = self.kept_data(sequence) {
                self.write(Body::Repair(data), out);
                self.stats.repairs_sent += 1;
                return Some(Links::one(place));
            }
        }
        None
    }

    /// Writes the parity that waits longest, which takes its time as packets do. Rule R-RELAY-76.
    fn next_parity(&mut self, out: &mut Vec<u8>) -> Option<Links> {
        let control = self.control.as_mut()?;
        let copies = control.parity.as_mut()?.pop()?;
        *out = copies.bytes;
        control.pace.sent_parity(self.now, out.len());
        self.stats.parity_sent += copies.children.len() as u64;
        Some(copies.children)
    }

    /// Writes the next packet of the stream.
    fn next_data(&mut self, out: &mut Vec<u8>) -> Option<Links> {
        let data = self.kept_data(self.sent + 1)?;
        self.write(Body::Data(data), out);
        self.sent += 1;
        self.stats.sent += 1;
        let (now, sequence) = (self.now, self.sent);
        if let Some(parity) = self.parity() {
            parity.pass(now, sequence, out);
        }
        if self.control.is_some() {
            self.expect_silence(self.now);
        }
        Some(self.children.members())
    }

    fn write_heartbeat(&self, out: &mut Vec<u8>) {
        let heartbeat = Heartbeat {
            highest: self.sent,
            released: self.released,
            finished: self.finished && self.sent == self.highest,
        };
        self.write(Body::Heartbeat(heartbeat), out);
    }

    fn write(&self, body: Body<'_>, out: &mut Vec<u8>) {
        let session = self.session;
        Packet { session, body }.encode(out);
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
