use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use qsm_wire::Instant;

use crate::codepoint::Codepoint;
use crate::gauge::Gauge;
use crate::outbox::Outbox;
use crate::packet::{
    Body, Data, Echo, Heartbeat, Join, Joined, Missing, Nack, Packet, Report, SessionId, WINDOW_MAX,
};
use crate::parents::{Parents, Silent};
use crate::parity::Parity;
use crate::reporter::{Reporter, Trips};
use crate::shelf::{ParityShelf, Restored};
use crate::stats::ReceiverStats;
use crate::timers::{Repetition, Timers};
use crate::timing::Timing;
use crate::track::{Arrival, TrackList};

/// Most packets that are asked for at a time.
const ASKED_MAX: usize = 4096;
/// Round trips whose packets they are at most, where a rate is measured: repairs are not to fill a link that others
/// than the source send them by.
const ASKED_TRIPS: usize = 2;
/// Packets that are asked for in any case.
const ASKED_MIN: usize = 16;
/// Most repairs that wait to be sent.
const REPAIRS_MAX: usize = 4096;
/// Packets after which an ACK goes without waiting for its time.
const ACK_PACKETS: u64 = 64;

/// Something that a receiver's application learns, in the order of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It gets everything from this packet on.
    Joined {
        /// The packet's number.
        first: u64,
    },
    /// A packet, once, in order.
    Delivered {
        /// Its number.
        sequence: u64,
        /// Bytes of the source's application.
        payload: Arc<[u8]>,
    },
    /// Packets that nobody keeps any more.
    Lost {
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
    },
    /// The source has ended the stream, and everything of it has been delivered.
    Ended,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Until a Join is answered nothing is of interest.
    Joining(Repetition),
    Member,
}

/// Time in which nothing has come at all: the parent had nothing, and may have found another one of its own.
const STALLED: Duration = Duration::from_millis(250);
/// Round trip before it is measured.
const FIRST_TRIP: Duration = Duration::from_millis(100);

/// Measures for a source that adapts its rate, and the reports on them.
#[derive(Debug)]
struct Rates {
    gauge: Gauge,
    reporter: Reporter,
}

/// Leaf of a session: receives by a parent, a relay or the source, and repairs for others when it is
/// elected. Rule R-RELAY-11.
#[derive(Debug)]
pub struct Receiver {
    session: SessionId,
    /// Number of this receiver as a child.
    child: u64,
    timing: Timing,
    parents: Parents,
    rates: Option<Box<Rates>>,
    /// There if the parent sends parity.
    shelf: Option<Box<ParityShelf>>,
    stage: Stage,
    track: TrackList,
    first: u64,
    /// Everything up to here has been handed out.
    delivered: u64,
    /// Everything up to here has been taken by the application.
    taken: u64,
    released: u64,
    /// The number that the stream ends with, once known.
    end: Option<u64>,
    ended: bool,
    /// Packets that are not released.
    kept: BTreeMap<u64, Arc<[u8]>>,
    /// Requests that are repeated until their packets come.
    asked: BTreeMap<u64, Repetition>,
    timers: Timers<u64>,
    asked_upto: u64,
    /// When something has come last that was not here.
    progress: Instant,
    ack: Repetition,
    reported: Report,
    /// The source was silent when it had sent everything up to here, and waits for ACKs.
    awaited: u64,
    outbox: Outbox,
    repairs: VecDeque<u64>,
    events: VecDeque<Event>,
    stats: ReceiverStats,
}

impl Receiver {
    /// A receiver that asks this parent to join. Its number is to be drawn at random, and not 0: its
    /// parent knows it by that, whatever its address is.
    #[must_use]
    pub fn new(
        session: SessionId,
        child: u64,
        timing: Timing,
        parent: SocketAddr,
        now: Instant,
    ) -> Self {
        let mut outbox = Outbox::default();
        outbox.push(parent, session, Body::Join(Join::new(child)));
        Self {
            session,
            child,
            timing,
            parents: Parents::one(parent),
            rates: None,
            shelf: None,
            stage: Stage::Joining(Repetition::new(now, timing.join_retry)),
            track: TrackList::behind(0),
            first: 0,
            delivered: 0,
            taken: 0,
            released: 0,
            end: None,
            ended: false,
            kept: BTreeMap::new(),
            asked: BTreeMap::new(),
            timers: Timers::default(),
            asked_upto: 0,
            progress: now,
            ack: Repetition::new(now, timing.ack_min),
            reported: Report::none_of(child),
            awaited: 0,
            outbox,
            repairs: VecDeque::new(),
            events: VecDeque::new(),
            stats: ReceiverStats::default(),
        }
    }

    /// Goes on with this parent when all that were named before are silent, and so on in a circle; or
    /// begins with it, if it answers first. Before the first datagram. Rule R-RELAY-42.
    pub fn add_parent(&mut self, now: Instant, parent: SocketAddr) {
        self.parents.add(now, parent);
    }

    /// Asks all parents at once, in the place of the first one before the others: which answers first is the
    /// nearest, and the present one. Before the first datagram, behind [`Receiver::add_parent`]. Rule R-RELAY-45.
    pub fn choose_nearest(&mut self) {
        let first = self.parents.present();
        for parent in self.parents.all().filter(|parent| *parent != first) {
            let join = Body::Join(Join::new(self.child));
            self.outbox.push(parent, self.session, join);
        }
    }

    /// The parent that it has now.
    #[must_use]
    pub fn parent(&self) -> SocketAddr {
        self.parents.present()
    }

    /// Takes a datagram that has come without a codepoint.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        self.handle_marked(now, from, bytes, Codepoint::NotCapable);
    }

    /// Takes a datagram that has come with this codepoint in the header of IP. Rule R-RELAY-80.
    pub fn handle_marked(
        &mut self,
        now: Instant,
        from: SocketAddr,
        bytes: &[u8],
        codepoint: Codepoint,
    ) {
        let Ok(packet) = Packet::decode(bytes) else {
            self.stats.malformed += 1;
            return;
        };
        if packet.session != self.session {
            self.stats.refused += 1;
            return;
        }
        if from != self.parents.present() {
            self.hear_another(now, from, &packet.body);
            return;
        }
        if let Some(orphaned) = self.parents.hear(now) {
            let us = u64::try_from(orphaned.as_micros()).unwrap_or(u64::MAX);
            self.stats.orphaned_us = self.stats.orphaned_us.max(us);
        }
        if let Some(rates) = self.rates.as_mut().filter(|_| packet.body.is_paced()) {
            rates.gauge.came_as(codepoint);
        }
        match (&packet.body, self.stage) {
            (Body::Joined(joined), Stage::Joining(_)) => self.joined(now, joined),
            // The answer to a question shows how far the stream is, where no packet does.
            (Body::Joined(joined), Stage::Member) => {
                self.expect_parity(joined.parity);
                if self.track.reaches(joined.highest) {
                    self.track.extend(joined.highest);
                    self.ask_for_lost(now);
                }
            }
            (_, Stage::Joining(_)) => {}
            (Body::Data(data), Stage::Member) => {
                let needed = self.take(now, data);
                // What is restored by it is not to be asked for.
                self.keep(now, data.sequence, bytes, needed);
                self.ask_for_lost(now);
                if needed {
                    self.measure(now, data.sequence, bytes.len());
                }
            }
            (Body::Repair(data), Stage::Member) => {
                self.stats.repairs_received += 1;
                if let Some(rates) = &mut self.rates {
                    // The source's rate is that of repairs, too.
                    rates.reporter.packet(now);
                    rates.gauge.repaired(bytes.len());
                }
                let needed = self.data(now, data);
                self.stats.repairs_unneeded += u64::from(!needed);
                if needed {
                    self.missed(data.sequence);
                }
            }
            (Body::Parity(parity), Stage::Member) => self.parity(now, parity),
            (Body::Heartbeat(heartbeat), Stage::Member) => self.heartbeat(now, heartbeat),
            (Body::Nack(nack), Stage::Member) => self.elected(now, &nack.missing),
            (Body::Echo(echo), Stage::Member) => self.echo(now, echo),
            (
                Body::Ack(_) | Body::Join(_) | Body::Leave(_) | Body::Feedback(_) | Body::Lost(_),
                Stage::Member,
            ) => self.stats.refused += 1,
        }
    }

    /// Carries out the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Stage::Joining(join) = &mut self.stage {
            if now >= join.at {
                join.double(now, self.timing.ack_max);
                // The first one has not answered: whoever does so first is the parent.
                for parent in self.parents.all() {
                    let join = Body::Join(Join::new(self.child));
                    self.outbox.push(parent, self.session, join);
                }
            }
            return;
        }
        self.watch_parent(now);
        while let Some(sequence) = self.timers.pop_due(now) {
            let Some(asked) = self.asked.get(&sequence) else {
                continue;
            };
            // Half as long as a relay waits at most: what follows waits for this packet.
            let longest = self.timing.retry_max / 2;
            let interval = (asked.interval * 2).clamp(self.retry(), longest.max(self.retry()));
            self.ask(now, sequence, interval);
        }
        self.ask_for_lost(now);
        if now >= self.ack.at {
            self.acknowledge(now);
        }
        self.report_rate(now);
    }

    /// When [`Receiver::handle_timeout`] is to be called next.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        if let Stage::Joining(join) = &self.stage {
            return Some(join.at);
        }
        let request = self.timers.next().unwrap_or(Instant::NEVER);
        let rates = self.rates.as_ref().map(|rates| rates.reporter.due());
        let rates = rates.unwrap_or(Instant::NEVER);
        let silent = self.parents.due(self.timing.upstream_retry);
        Some(request.min(rates).min(self.ack.at).min(silent))
    }

    /// Writes the next packet into `out`, and says who gets it.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<SocketAddr> {
        if let Some(letter) = self.outbox.pop() {
            letter.packet.encode(out);
            return Some(letter.to);
        }
        while let Some(sequence) = self.repairs.pop_front() {
            let Some(payload) = self.kept.get(&sequence) else {
                continue;
            };
            self.stats.repairs_sent += 1;
            let body = Body::Repair(Data {
                sequence,
                released: self.released.min(sequence - 1),
                payload,
            });
            let session = self.session;
            Packet { session, body }.encode(out);
            return Some(self.parents.present());
        }
        None
    }

    /// The next event. Only what has been taken is acknowledged, so an application that is slow
    /// holds up the source, and events are no more than the source's window.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        match event {
            Event::Delivered { sequence: upto, .. } | Event::Lost { last: upto, .. } => {
                self.taken = upto;
                self.hasten_ack();
            }
            Event::Joined { .. } | Event::Ended => {}
        }
        Some(event)
    }

    /// Asks the parent, once it has answered the Join, whether it is there: who sends a stream that rests says
    /// nothing by itself. Its answer is a datagram.
    pub fn probe(&mut self) {
        if self.is_member() {
            self.ask_parent();
        }
    }

    /// Tells the parent that nothing is wanted any more.
    pub fn leave(&mut self) {
        let leave = Body::Leave(self.child);
        self.outbox
            .push(self.parents.present(), self.session, leave);
    }

    /// Tells whether the parent has answered the Join.
    #[must_use]
    pub fn is_member(&self) -> bool {
        matches!(self.stage, Stage::Member)
    }

    /// Round trip to the source, once it is measured: where the source adapts its rate.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        let trips = self.rates.as_ref()?.reporter.trips()?;
        Some(Duration::from_micros(u64::from(trips.now_us)))
    }

    /// Packets that it keeps to repair with: those that are not released, as far as it knows.
    #[must_use]
    pub fn kept_packets(&self) -> usize {
        self.kept.len()
    }

    /// Account since it was made.
    #[must_use]
    pub fn stats(&self) -> ReceiverStats {
        ReceiverStats {
            limited: self.stats.limited + self.outbox.overflowed(),
            ..self.stats
        }
    }

    /// Hears a parent that is not the present one: before the first contact whoever answers is, and of
    /// one that was thought gone what it still sends counts. Rule R-RELAY-42.
    fn hear_another(&mut self, now: Instant, from: SocketAddr, body: &Body<'_>) {
        if !self.parents.is_other(from) {
            self.stats.refused += 1;
            return;
        }
        match (body, self.stage) {
            (Body::Joined(joined), Stage::Joining(_)) => {
                self.parents.choose(now, from);
                self.parents.hear(now);
                self.joined(now, joined);
            }
            // It has answered later than the one that is the parent now, and is not needed.
            (Body::Joined(_), Stage::Member) if self.stats.parents_changed == 0 => {
                let leave = Body::Leave(self.child);
                self.outbox.push(from, self.session, leave);
            }
            (Body::Data(data) | Body::Repair(data), Stage::Member) => {
                self.data(now, data);
            }
            (Body::Heartbeat(heartbeat), Stage::Member) => self.heartbeat(now, heartbeat),
            _ => self.stats.refused += 1,
        }
    }

    /// Asks a parent that is silent, by a Join that it answers, or goes on with the next one.
    fn watch_parent(&mut self, now: Instant) {
        match self.parents.look(now, self.timing.upstream_retry) {
            None => {}
            Some(Silent::Asked) => self.ask_parent(),
            Some(Silent::Replaced) => {
                self.stats.parents_changed += 1;
                self.shelf = None;
                if let Some(rates) = &mut self.rates {
                    rates.reporter.moved(now);
                }
                // It learns its child by this, and repairs what the other one has left open. The other one
                // is not told: until it gives up this child, the source keeps what that lacks.
                self.acknowledge(now);
                self.ask_parent();
                for sequence in self.asked.keys().copied().collect::<Vec<_>>() {
                    self.ask(now, sequence, self.retry());
                }
            }
        }
    }

    /// Asks the parent whether it is there, and how far the stream is.
    fn ask_parent(&mut self) {
        let join = Body::Join(Join::new(self.child));
        self.outbox.push(self.parents.present(), self.session, join);
    }

    fn heartbeat(&mut self, now: Instant, heartbeat: &Heartbeat) {
        if heartbeat.finished {
            self.end = Some(heartbeat.highest);
        }
        self.release(heartbeat.released);
        self.track.extend(heartbeat.highest);
        self.ask_for_lost(now);
        self.deliver();
        self.awaited = heartbeat.highest;
        self.hasten_ack();
    }

    fn joined(&mut self, now: Instant, joined: &Joined) {
        self.stage = Stage::Member;
        self.first = joined.first;
        self.delivered = joined.first - 1;
        (self.taken, self.asked_upto) = (self.delivered, self.delivered);
        self.track = TrackList::behind(self.delivered);
        self.events.push_back(Event::Joined {
            first: joined.first,
        });
        self.track.extend(joined.highest);
        self.expect_parity(joined.parity);
        if joined.rated {
            self.rates = Some(Box::new(Rates {
                gauge: Gauge::new(self.child, now),
                reporter: Reporter::new(self.child, now),
            }));
        }
        self.ask_for_lost(now);
        self.acknowledge(now);
    }

    /// Measures a packet that came for the first time, not a repair.
    fn measure(&mut self, now: Instant, sequence: u64, bytes: usize) {
        let Some(rates) = &mut self.rates else {
            return;
        };
        let Rates { gauge, reporter } = &mut **rates;
        reporter.packet(now);
        let trips = reporter.trips();
        let trip = trips.map_or(FIRST_TRIP, |trips| {
            Duration::from_micros(u64::from(trips.now_us))
        });
        if gauge.arrived(now, sequence, bytes, trip)
            && let Some(Trips { now_us, least_us }) = trips
        {
            let limit = gauge.limit(now_us, least_us);
            self.stats.overloads += u64::from(limit.is_overloaded());
            reporter.news(now, &limit);
        }
    }

    /// The answer to a Feedback: a round trip.
    fn echo(&mut self, now: Instant, echo: &Echo) {
        if let Some(rates) = &mut self.rates {
            rates.reporter.echo(now, echo);
            if let Some(hop) = rates.reporter.hop_us() {
                let hop = Duration::from_micros(u64::from(hop));
                self.timing.follow(hop, hop);
            }
        }
    }

    /// Tells the parent the rate that it can take, when that is due. Rule R-RELAY-16.
    fn report_rate(&mut self, now: Instant) {
        let Some(rates) = &mut self.rates else {
            return;
        };
        let Rates { gauge, reporter } = &mut **rates;
        if now < reporter.due() {
            return;
        }
        let trips = reporter.trips();
        let limit = trips.map(|trips| gauge.limit(trips.now_us, trips.least_us));
        let limit = limit.unwrap_or_default();
        let feedback = reporter.report(now, limit);
        self.stats.feedback_sent += 1;
        let feedback = Body::Feedback(feedback);
        self.outbox
            .push(self.parents.present(), self.session, feedback);
    }

    /// Takes a packet, and asks for what it shows to be missing; false if it was here, or is not wanted.
    fn data(&mut self, now: Instant, data: &Data<'_>) -> bool {
        let needed = self.take(now, data);
        self.ask_for_lost(now);
        needed
    }

    /// Takes a packet, first or again; false if it was here, or is not wanted.
    fn take(&mut self, now: Instant, data: &Data<'_>) -> bool {
        self.release(data.released);
        let arrival = self.track.record(data.sequence);
        let needed = arrival != Arrival::Duplicate;
        if needed {
            self.kept.insert(data.sequence, data.payload.into());
            if let Some(asked) = self.asked.remove(&data.sequence) {
                self.timers.cancel(asked.at, data.sequence);
            }
            if now.since(core::mem::replace(&mut self.progress, now)) >= STALLED {
                self.hasten_requests(now);
            }
        } else {
            self.stats.duplicates += 1;
        }
        self.deliver();
        needed
    }

    /// The parent sends parity, or does not.
    fn expect_parity(&mut self, comes: bool) {
        if comes && self.shelf.is_none() {
            self.shelf = Some(Box::new(ParityShelf::new(self.session)));
        } else if !comes {
            self.shelf = None;
        }
    }

    /// Takes a parity. Rule R-RELAY-74.
    fn parity(&mut self, now: Instant, parity: &Parity<'_>) {
        let Some(shelf) = &mut self.shelf else {
            self.stats.refused += 1;
            return;
        };
        self.stats.parity_received += 1;
        let restored = shelf.parity(now, parity, |number| self.track.lacks(number));
        self.restored(now, &restored);
        self.ask_for_lost(now);
    }

    /// Keeps a packet of the stream for as long as parities may need it, and restores what it makes possible.
    fn keep(&mut self, now: Instant, sequence: u64, bytes: &[u8], needed: bool) {
        let Some(shelf) = &mut self.shelf else {
            return;
        };
        if !needed {
            shelf.came(sequence);
            return;
        }
        let restored = shelf.data(now, sequence, bytes, |number| self.track.lacks(number));
        self.restored(now, &restored);
    }

    /// Takes packets that were lost on the way: they do not count as come there. Rules R-RELAY-74, R-RELAY-76.
    fn restored(&mut self, now: Instant, restored: &Restored) {
        self.stats.parity_unused += restored.unused;
        self.stats.parity_malformed += restored.malformed;
        for packet in &restored.packets {
            if let Ok(Packet { body, .. }) = Packet::decode(packet)
                && let Body::Data(data) = body
                && self.take(now, &data)
            {
                self.stats.parity_restored += 1;
                self.missed(data.sequence);
            }
        }
    }

    /// Notes that a packet was lost on its way, and tells the parent when these are many. Rule R-RELAY-70.
    fn missed(&mut self, sequence: u64) {
        let full = self.shelf.as_mut().and_then(|it| it.missed(sequence));
        if let Some(missing) = full {
            self.tell_lost(missing);
        }
    }

    fn tell_lost(&mut self, missing: Missing) {
        let report = self.report();
        self.reported = report;
        let lost = Body::Lost(Nack { report, missing });
        self.outbox.push(self.parents.present(), self.session, lost);
    }

    /// It is to repair. What it lacks itself it says by a NACK of its own.
    fn elected(&mut self, now: Instant, missing: &Missing) {
        for sequence in missing.iter() {
            if self.kept.contains_key(&sequence) {
                if self.repairs.len() < REPAIRS_MAX {
                    self.repairs.push_back(sequence);
                } else {
                    self.stats.limited += 1;
                }
            } else if sequence > self.track.last_ordered()
                && sequence <= self.released.saturating_add(WINDOW_MAX)
            {
                self.track.extend(sequence);
                self.ask(now, sequence, self.retry());
            }
        }
        self.ask_for_lost(now);
    }

    /// Nobody keeps these any more, so nobody can repair them.
    fn release(&mut self, upto: u64) {
        if upto <= self.released {
            return;
        }
        self.released = upto;
        self.track.release(upto);
        self.deliver();
        self.kept = self.kept.split_off(&(upto + 1));
        let rest = self.asked.split_off(&(upto + 1));
        for (sequence, asked) in core::mem::replace(&mut self.asked, rest) {
            self.timers.cancel(asked.at, sequence);
        }
    }

    /// Hands out what is in order, and tells what will not come.
    fn deliver(&mut self) {
        while self.delivered < self.track.last_ordered() {
            let sequence = self.delivered + 1;
            if let Some(payload) = self.kept.get(&sequence) {
                let payload = Arc::clone(payload);
                self.stats.delivered += 1;
                self.events
                    .push_back(Event::Delivered { sequence, payload });
                self.delivered = sequence;
                continue;
            }
            let next = self.kept.range(sequence..).next();
            let end = self.track.last_ordered();
            let last = next.map_or(end, |(next, _)| end.min(next - 1));
            self.stats.lost += last + 1 - sequence;
            let first = sequence;
            self.events.push_back(Event::Lost { first, last });
            self.delivered = last;
        }
        if self.end == Some(self.delivered) && !self.ended {
            self.ended = true;
            self.events.push_back(Event::Ended);
        }
    }

    fn ask_for_lost(&mut self, now: Instant) {
        let most = self.rates.as_ref().map_or(ASKED_MAX, |rates| {
            let packets = rates.gauge.round_trip_packets() * ASKED_TRIPS;
            packets.clamp(ASKED_MIN, ASKED_MAX)
        });
        while self.asked.len() < most
            && let Some(sequence) = self.track.next_lost(self.asked_upto)
        {
            self.asked_upto = sequence;
            if !self.asked.contains_key(&sequence) {
                match self.patience(sequence) {
                    Some(patience) => self.await_parity(now, sequence, patience),
                    None => self.ask(now, sequence, self.retry()),
                }
            }
        }
    }

    /// Longest wait for parity, half a round trip at most. Rule R-RELAY-75.
    fn patience(&self, sequence: u64) -> Option<Duration> {
        let patience = self.shelf.as_ref()?.patience(sequence)?;
        Some(patience.min(self.timing.upstream_retry / 3))
    }

    /// Asks for a packet after so long, unless it is here by then.
    fn await_parity(&mut self, now: Instant, sequence: u64, patience: Duration) {
        let request = Repetition::new(now, patience);
        self.asked.insert(sequence, request);
        self.timers.set(request.at, sequence);
    }

    fn ask(&mut self, now: Instant, sequence: u64, interval: Duration) {
        let request = Repetition::new(now, interval);
        if let Some(before) = self.asked.insert(sequence, request) {
            self.timers.cancel(before.at, sequence);
        }
        self.timers.set(request.at, sequence);
        self.stats.nacked += 1;
        self.reported = self.report();
        self.ack.at = now.after(self.ack.interval);
        let parent = self.parents.present();
        self.outbox
            .ask(parent, self.session, self.reported, sequence);
    }

    /// Asks for all that is missing as if it had just been asked for the first time: the parent has something
    /// again, and intervals have doubled while it had nothing.
    fn hasten_requests(&mut self, now: Instant) {
        let first = Repetition::new(now, self.retry());
        for (sequence, asked) in &mut self.asked {
            if asked.at > first.at {
                self.timers.cancel(asked.at, *sequence);
                *asked = first;
                self.timers.set(first.at, *sequence);
            }
        }
    }

    /// A parent that elects a replier takes its delay and the replier's round trip besides.
    fn retry(&self) -> Duration {
        self.timing.upstream_retry * 2 + self.timing.delay_to_decide
    }

    fn report(&self) -> Report {
        Report {
            child: self.child,
            first: self.first,
            upto: self.taken,
            receivers: 1,
        }
    }

    /// Has the ACK of what has been taken go soon enough: at once where it is much or the source waits
    /// for it, but not more often than ACKs may go. Rule R-RELAY-9.
    fn hasten_ack(&mut self) {
        let reported = self.reported.upto;
        let unreported = self.taken.saturating_sub(reported);
        if unreported >= ACK_PACKETS || unreported > 0 && self.awaited > reported {
            self.ack.hasten(self.timing.ack_min);
        } else if unreported > 0 {
            self.ack.hasten(self.timing.ack_steady);
        }
    }

    fn acknowledge(&mut self, now: Instant) {
        let report = self.report();
        if report == self.reported {
            self.ack.double(now, self.timing.ack_max);
        } else {
            self.ack = Repetition::new(now, self.timing.ack_steady);
        }
        self.reported = report;
        let missed = self.shelf.as_mut().and_then(|shelf| {
            shelf.rest(now);
            shelf.take_missed()
        });
        match missed {
            Some(missing) => self.tell_lost(missing),
            None => self
                .outbox
                .push(self.parents.present(), self.session, Body::Ack(report)),
        }
    }
}
