//! A relay's soft state of one session, and the services that keep it.

use core::net::SocketAddr;

use qsm_wire::Instant;

use crate::cadence::Cadence;
use crate::children::Children;
use crate::context::{Context, Due};
use crate::maker::{Copies, ParityMaker};
use crate::nack::{Asked, Nacks, Waiting};
use crate::packet::{
    Body, Data, Echo, Feedback, Heartbeat, Join, Joined, Missing, Nack, Packet, Report,
};
use crate::parity::Parity;
use crate::rates::Rates;
use crate::shelf::{ParityShelf, Restored};
use crate::timers::Repetition;
use crate::timing::Timing;
use crate::track::{Arrival, TrackList};

/// State of a session that nothing is asked for; the rest is allocated for what is missing.
#[derive(Debug)]
pub(crate) struct Session {
    track: Option<TrackList>,
    cadence: Cadence,
    children: Children,
    nacks: Nacks,
    /// Missing packets up to here have a NACK state, or had one.
    asked_upto: u64,
    /// The Join that is repeated until it is answered.
    joining: Option<Repetition>,
    join: Option<Box<Join>>,
    /// There if the source adapts its rate.
    rates: Option<Box<Rates>>,
    /// There if the parent sends parity.
    shelf: Option<Box<ParityShelf>>,
    /// There once a child has told of losses, if it may get parity.
    maker: Option<Box<ParityMaker>>,
    ack: Repetition,
    reported: Report,
    /// Until then children may be alive that this relay does not know of yet.
    quiet_until: Instant,
    heard: Instant,
    tick: Instant,
}

impl Session {
    /// A session that nobody has joined yet.
    pub(crate) fn new(now: Instant, timing: &Timing) -> Self {
        Self {
            track: None,
            cadence: Cadence::new(now),
            children: Children::default(),
            nacks: Nacks::default(),
            asked_upto: 0,
            joining: Some(Repetition::new(now, timing.join_retry)),
            join: None,
            rates: None,
            shelf: None,
            maker: None,
            ack: Repetition::new(now, timing.ack_min),
            reported: Report::NONE,
            quiet_until: now,
            heard: now,
            tick: Instant::NEVER,
        }
    }

    /// Tells whether there are children for whom the parent has not answered yet.
    pub(crate) fn waits_for_parent(&self) -> bool {
        self.joining.is_some() && !self.children.is_empty()
    }

    pub(crate) fn children(&self) -> &Children {
        &self.children
    }

    pub(crate) fn track(&self) -> Option<&TrackList> {
        self.track.as_ref()
    }

    /// Packets whose NACK state lives.
    pub(crate) fn nack_states(&self) -> usize {
        self.nacks.count()
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        let track = self.track.as_ref().map_or(0, TrackList::allocated_bytes);
        let rates = self.rates.as_ref().map_or(0, |it| it.allocated_bytes());
        let join = self.join.as_ref().map_or(0, |_| size_of::<Join>());
        let shelf = self.shelf.as_ref().map_or(0, |it| it.allocated_bytes());
        let maker = self.maker.as_ref().map_or(0, |it| it.allocated_bytes());
        self.children.allocated_bytes() + track + rates + join + shelf + maker
    }

    /// The data service: notes the packet, asks for what is missing before it, and passes it on. `bytes`: all of it, as
    /// it travels. Rules R-RELAY-4, R-RELAY-5.
    pub(crate) fn data(&mut self, cx: &mut Context<'_>, data: &Data<'_>, bytes: &[u8]) -> Waiting {
        let arrival = self.note(data.sequence, data.released);
        self.give_up(cx, data.released);
        let members = self.children.members();
        // What is restored by it is not to be asked for.
        self.keep(cx, data.sequence, bytes, arrival);
        match arrival {
            Arrival::Duplicate => {
                cx.stats.data_duplicates += 1;
                return Waiting::default();
            }
            Arrival::Next => self.cadence.note(cx.now),
            Arrival::Gap(gap) => {
                self.cadence.note(cx.now);
                cx.stats.losses_detected += u64::from(gap.count());
                self.ask_for_lost(cx);
            }
            Arrival::Filled => {
                self.nacks.serve_all(cx, data.sequence, members);
            }
        }
        cx.cache.put(cx.id, data.sequence, data.payload);
        cx.stats.data_forwarded += 1;
        self.cover(cx, data.sequence, bytes);
        Waiting {
            children: members,
            parent: false,
        }
    }

    /// Keeps a packet of the parent for as long as parities may need it, and restores what it makes possible.
    #[inline]
    fn keep(&mut self, cx: &mut Context<'_>, sequence: u64, bytes: &[u8], arrival: Arrival) {
        let (Some(shelf), Some(track)) = (&mut self.shelf, &self.track) else {
            return;
        };
        if arrival == Arrival::Duplicate {
            shelf.came(sequence);
            return;
        }
        let restored = shelf.data(cx.now, sequence, bytes, |number| track.lacks(number));
        self.restored(cx, &restored);
    }

    /// Takes a parity of the parent. Rule R-RELAY-74.
    pub(crate) fn parity(&mut self, cx: &mut Context<'_>, parity: &Parity<'_>) {
        let (Some(shelf), Some(track)) = (&mut self.shelf, &self.track) else {
            cx.stats.refused += 1;
            return;
        };
        cx.stats.parity_received += 1;
        let restored = shelf.parity(cx.now, parity, |number| track.lacks(number));
        self.restored(cx, &restored);
    }

    /// Passes restored packets on as repairs, to all children: those below count them as lost on the way, as they were.
    /// Rules R-RELAY-74, R-RELAY-76.
    fn restored(&mut self, cx: &mut Context<'_>, restored: &Restored) {
        cx.stats.parity_unused += restored.unused;
        cx.stats.parity_malformed += restored.malformed;
        for packet in &restored.packets {
            let Ok(Packet { session, body }) = Packet::decode(packet) else {
                continue;
            };
            let Body::Data(data) = body else {
                continue;
            };
            cx.stats.parity_restored += 1;
            let Waiting { children, .. } = self.take_repair(cx, &data, None);
            let (body, mut bytes) = (Body::Repair(data), Vec::new());
            Packet { session, body }.encode(&mut bytes);
            cx.send_copies(Copies { children, bytes });
        }
        if !restored.packets.is_empty() {
            self.ask_for_lost(cx);
        }
    }

    /// Takes a packet that goes to all children into a parity, if one of them needs it. Rule R-RELAY-71.
    #[inline]
    fn cover(&mut self, cx: &mut Context<'_>, sequence: u64, bytes: &[u8]) {
        if let Some(maker) = &mut self.maker {
            let due = maker.due();
            maker.pass(cx.now, sequence, bytes);
            self.send_parity(cx, due);
        }
    }

    /// A block's time is over.
    pub(crate) fn block_due(&mut self, cx: &mut Context<'_>) {
        if let Some(maker) = &mut self.maker {
            let due = maker.due();
            maker.handle_timeout(cx.now);
            self.send_parity(cx, due);
        }
    }

    /// Sends the parities that have been made, and sets the timer, which was for this time.
    fn send_parity(&mut self, cx: &mut Context<'_>, before: Instant) {
        let Some(maker) = &mut self.maker else {
            return;
        };
        while let Some(copies) = maker.pop() {
            cx.stats.parity_sent += copies.children.len() as u64;
            cx.send_copies(copies);
        }
        let due = maker.due();
        if due != before {
            cx.cancel_timer(before, Due::Block);
            if due < Instant::NEVER {
                cx.set_timer(due, Due::Block);
            }
        }
    }

    /// A child's word on packets that have not come to it at first. Rule R-RELAY-70.
    pub(crate) fn lost(&mut self, cx: &Context<'_>, place: usize, missing: &Missing) {
        let Some(rates) = self.rates.as_ref().filter(|_| cx.parity) else {
            return;
        };
        let maker = self
            .maker
            .get_or_insert_with(|| Box::new(ParityMaker::new(cx.id)));
        maker.lost(place, missing, rates.trip_us(place));
    }

    /// Notes that a packet was lost on its way to this relay, and tells the parent when these are many. Rule
    /// R-RELAY-70.
    fn missed(&mut self, cx: &mut Context<'_>, sequence: u64) {
        let full = self.shelf.as_mut().and_then(|it| it.missed(sequence));
        if let Some(missing) = full {
            self.tell_lost(cx, missing);
        }
    }

    fn tell_lost(&mut self, cx: &mut Context<'_>, missing: Missing) {
        let report = self.own_report(cx);
        self.reported = report;
        let lost = Body::Lost(Nack { report, missing });
        cx.outbox.push(cx.parent, cx.id, lost);
    }

    /// The parent sends parity, or does not.
    fn expect_parity(&mut self, cx: &Context<'_>, comes: bool) {
        if comes && self.shelf.is_none() {
            self.shelf = Some(Box::new(ParityShelf::new(cx.id)));
        } else if !comes {
            self.shelf = None;
        }
    }

    /// The end of the stream as its source tells it, which may show losses that no packet shows. Rule
    /// R-RELAY-43.
    pub(crate) fn heartbeat(&mut self, cx: &mut Context<'_>, heartbeat: &Heartbeat) -> Waiting {
        let track = self
            .track
            .get_or_insert_with(|| TrackList::behind(heartbeat.highest));
        track.release(heartbeat.released);
        if let Some(gap) = track.extend(heartbeat.highest) {
            cx.stats.losses_detected += u64::from(gap.count());
        }
        self.give_up(cx, heartbeat.released);
        self.ask_for_lost(cx);
        let is_end = heartbeat.finished || heartbeat.released == heartbeat.highest;
        if !is_end && !self.cadence.is_broken(cx.now) {
            // The next packet, which is not overdue, tells the same.
            cx.stats.heartbeats_held += 1;
            return Waiting::default();
        }
        Waiting {
            children: self.children.members(),
            parent: false,
        }
    }

    /// The repair service: subcasts to those alone that have asked; to all children if this relay
    /// lacked the packet, since none of them can have got it. Rule R-RELAY-8.
    pub(crate) fn repair(
        &mut self,
        cx: &mut Context<'_>,
        data: &Data<'_>,
        from: Option<usize>,
    ) -> Waiting {
        let waiting = self.take_repair(cx, data, from);
        self.ask_for_lost(cx);
        waiting
    }

    /// Takes a repair, and asks for nothing yet.
    fn take_repair(
        &mut self,
        cx: &mut Context<'_>,
        data: &Data<'_>,
        from: Option<usize>,
    ) -> Waiting {
        // What no packet of the parent's has shown is not believed of a child.
        let lacks = |track: &TrackList| {
            let newest = from.is_none() && data.sequence > track.last_received();
            newest || track.is_lost(data.sequence)
        };
        let lacked = self.track.as_ref().is_some_and(lacks);
        let mut waiting = if lacked {
            // A child's word does not release anything.
            let released = if from.is_some() { 0 } else { data.released };
            self.note(data.sequence, released);
            cx.cache.put(cx.id, data.sequence, data.payload);
            self.missed(cx, data.sequence);
            let members = self.children.members();
            self.nacks.serve_all(cx, data.sequence, members)
        } else {
            self.nacks.serve(cx, data.sequence)
        };
        match from {
            Some(place) => waiting.children.remove(place),
            None => waiting.parent = false,
        }
        let copies = waiting.children.len() as u64 + u64::from(waiting.parent);
        cx.stats.repair_copies += copies;
        if copies == 0 {
            cx.stats.repairs_unneeded += 1;
        } else {
            cx.stats.repairs_forwarded += 1;
        }
        waiting
    }

    /// The NACK service, for a child. Rule R-RELAY-6.
    pub(crate) fn nack(&mut self, cx: &mut Context<'_>, place: usize, missing: &Missing) {
        for sequence in missing.iter() {
            cx.stats.nacks_received += 1;
            if cx.cache.has(cx.id, sequence) {
                self.answer(cx, place, sequence);
                continue;
            }
            let lost = self.lacks(sequence);
            self.nacks
                .missed_by(cx, &self.children, place, sequence, lost);
        }
        self.send_asks(cx);
    }

    /// Answers a child's NACK out of the cache, before anybody is elected. Rule R-RELAY-40.
    fn answer(&mut self, cx: &mut Context<'_>, place: usize, sequence: u64) {
        if let Some(address) = self.children.address(place)
            && self.nacks.serve_one(cx, place, sequence)
        {
            cx.answer(address, sequence);
        }
    }

    /// Gives up packets up to here, which everybody has.
    fn give_up(&mut self, cx: &mut Context<'_>, released: u64) {
        self.nacks.give_up(cx, released);
        cx.cache.release(cx.id, released);
        if let Some(maker) = &mut self.maker {
            maker.release(cx.now, released);
        }
    }

    /// The parent has elected this relay.
    pub(crate) fn asked(&mut self, cx: &mut Context<'_>, nack: &Nack) {
        for sequence in nack.missing.iter() {
            if cx.cache.has(cx.id, sequence) {
                cx.answer(cx.parent, sequence);
                continue;
            }
            let lost = self.lacks(sequence);
            self.nacks
                .wanted_by_parent(cx, &self.children, sequence, lost);
        }
        self.send_asks(cx);
    }

    /// Somebody wants to be a child; it is told so as soon as this relay is one itself. Rule
    /// R-RELAY-2.
    pub(crate) fn join(&mut self, cx: &mut Context<'_>, place: usize, join: &Join) {
        if cx.parents.are_several() {
            self.join = join.by(cx.child).map(Box::new);
        }
        if cx.parents.are_silent() {
            // Nothing comes by this relay: its child is to go to another one.
            return;
        }
        if self.children.owed(place).is_none() {
            match &self.track {
                Some(track) if self.joining.is_none() => {
                    let first = track.last_received() + 1;
                    self.children.owe(place, first);
                }
                _ => return,
            }
        }
        self.welcome(cx, place);
    }

    /// The place of a child that says its number, whatever its address is now. Rule R-RELAY-19.
    pub(crate) fn locate(
        &mut self,
        cx: &mut Context<'_>,
        child: u64,
        from: SocketAddr,
    ) -> Option<usize> {
        let place = self.children.find_child(child, from)?;
        let moved = self.children.locate(place, child, from);
        cx.stats.children_moved += u64::from(moved);
        Some(place)
    }

    /// The place of who has sent something that children send, as a child from now on. The first
    /// one makes this relay join, too.
    pub(crate) fn admit(
        &mut self,
        cx: &mut Context<'_>,
        join: &Join,
        from: SocketAddr,
    ) -> Option<usize> {
        let before = self.children.members();
        let Some(place) = self.children.admit(join.child, from, cx.now) else {
            cx.stats.limited += 1;
            return None;
        };
        self.heard = cx.now;
        cx.stats.children_joined += 1;
        if before.is_empty() && self.joining.is_some() {
            self.joining = Some(Repetition::new(cx.now, cx.timing.join_retry));
            self.join = join.by(cx.child).map(Box::new);
            self.ask_to_join(cx, cx.parent);
        }
        self.schedule(cx);
        Some(place)
    }

    /// Sends the Join that tells by whom it came about, so that a loop of parents shows. Rule
    /// R-RELAY-20.
    fn ask_to_join(&self, cx: &mut Context<'_>, parent: SocketAddr) {
        match &self.join {
            Some(join) => cx.outbox.push(parent, cx.id, Body::Join(**join)),
            None => cx.stats.limited += 1,
        }
    }

    /// Asks a parent that is silent whether it is there. Rule R-RELAY-42.
    pub(crate) fn ask_parent(&self, cx: &mut Context<'_>) {
        let join = self
            .join
            .as_ref()
            .map_or_else(|| Join::new(cx.child), |join| **join);
        cx.outbox.push(cx.parent, cx.id, Body::Join(join));
    }

    /// Goes on with another parent, which learns its child by this, and repairs what the one before has left
    /// open. Rule R-RELAY-42.
    pub(crate) fn change_parent(&mut self, cx: &mut Context<'_>) {
        if let Some(rates) = &mut self.rates {
            rates.moved(cx);
        }
        self.shelf = None;
        if self.acknowledges() {
            self.acknowledge(cx);
            self.ask_parent(cx);
            self.nacks.ask_another_parent(cx);
            self.send_asks(cx);
            self.schedule(cx);
        } else if self.waits_for_parent() {
            self.ask_to_join(cx, cx.parent);
        }
    }

    /// A child's word on rates, which a parent answers. Rule R-RELAY-15.
    pub(crate) fn feedback(&mut self, cx: &mut Context<'_>, place: usize, feedback: &Feedback) {
        let Some(address) = self.children.address(place) else {
            return;
        };
        self.children.hear(place, cx.now);
        if let Some(maker) = &mut self.maker
            && feedback.limit.is_overloaded()
        {
            maker.quiet(place);
        }
        let rates = self.rates.get_or_insert_with(|| Box::new(Rates::new(cx)));
        let echo = rates.feedback(cx, place, feedback);
        cx.outbox.push(address, cx.id, Body::Echo(echo));
    }

    /// The parent's answer to this relay's Feedback.
    pub(crate) fn echo(&mut self, cx: &mut Context<'_>, echo: &Echo) {
        if let Some(rates) = &mut self.rates {
            rates.echo(cx, echo);
        }
    }

    /// A Feedback may be due.
    pub(crate) fn rate_due(&mut self, cx: &mut Context<'_>) {
        if let Some(rates) = &mut self.rates {
            rates.due(cx);
        }
    }

    pub(crate) fn rates(&self) -> Option<&Rates> {
        self.rates.as_deref()
    }

    /// Takes a child's report: the ACK of a packet of its own, or of a NACK. Rule R-RELAY-9.
    pub(crate) fn report(&mut self, cx: &mut Context<'_>, place: usize, report: &Report) {
        self.heard = cx.now;
        let news = self.children.report(place, report, cx.now);
        if news && self.ack.interval > cx.timing.ack_min {
            self.ack.hasten(cx.timing.ack_min);
            self.schedule(cx);
        }
    }

    pub(crate) fn leave(&mut self, cx: &mut Context<'_>, place: usize) {
        self.children.remove(place);
        self.forget(place);
        self.leave_if_alone(cx);
    }

    /// Forgets what was kept of a child that is gone.
    fn forget(&mut self, place: usize) {
        self.nacks.forget_child(&self.children, place);
        if let Some(rates) = &mut self.rates {
            rates.forget(place);
        }
        if let Some(maker) = &mut self.maker {
            maker.forget(place);
        }
    }

    /// The parent's answer. What is owed to this relay is owed to those who have waited for it.
    pub(crate) fn joined(&mut self, cx: &mut Context<'_>, joined: &Joined) {
        self.expect_parity(cx, joined.parity);
        if self.joining.take().is_none() {
            // The answer to a question shows how far the stream is, where no packet does.
            let track = self.track.as_mut();
            let track = track.filter(|it| it.reaches(joined.highest));
            let gap = track.and_then(|it| it.extend(joined.highest));
            cx.stats.losses_detected += gap.map_or(0, |gap| u64::from(gap.count()));
            self.ask_for_lost(cx);
            return;
        }
        if !cx.parents.are_several() {
            self.join = None;
        }
        if joined.rated && self.rates.is_none() {
            self.rates = Some(Box::new(Rates::new(cx)));
        }
        if self.track.is_none() {
            self.track = Some(TrackList::behind(joined.highest));
            self.asked_upto = joined.highest;
        }
        if joined.known {
            self.quiet_until = cx.now.after(cx.timing.child_lifetime);
        }
        for place in self.children.untold().iter() {
            self.children.owe(place, joined.first);
            self.welcome(cx, place);
        }
        self.schedule(cx);
    }

    /// A packet's NACK state is due.
    pub(crate) fn nack_due(&mut self, cx: &mut Context<'_>, sequence: u64) {
        self.nacks.due(cx, &self.children, sequence);
        self.ask_for_lost(cx);
    }

    /// Joins, reports and looks who is silent; false if the session is over.
    pub(crate) fn tick(&mut self, cx: &mut Context<'_>) -> bool {
        self.tick = Instant::NEVER;
        let silent = self.children.expire(cx.now, cx.timing.child_lifetime);
        for place in silent.iter() {
            cx.stats.children_lost += 1;
            self.forget(place);
        }
        if !silent.is_empty() {
            self.leave_if_alone(cx);
        }
        if self.children.is_empty() && cx.now >= self.heard.after(cx.timing.session_lifetime) {
            self.clear(cx);
            return false;
        }
        if let Some(join) = &mut self.joining
            && cx.now >= join.at
            && !self.children.is_empty()
        {
            join.double(cx.now, cx.timing.ack_max);
            // The present one has not answered: whoever does so first is the parent.
            for parent in cx.parents.all() {
                self.ask_to_join(cx, parent);
            }
        }
        if let Some(maker) = &mut self.maker {
            maker.rest(cx.now);
        }
        if self.acknowledges() && cx.now >= self.ack.at {
            self.acknowledge(cx);
        }
        self.schedule(cx);
        true
    }

    /// Tells whether the parent has answered for children that there are.
    pub(crate) fn acknowledges(&self) -> bool {
        self.joining.is_none() && !self.children.is_empty()
    }

    fn acknowledge(&mut self, cx: &mut Context<'_>) {
        let report = self.own_report(cx);
        if report == self.reported {
            self.ack.double(cx.now, cx.timing.ack_max);
        } else {
            self.ack = Repetition::new(cx.now, cx.timing.ack_min);
        }
        self.reported = report;
        let missed = self.shelf.as_mut().and_then(|shelf| {
            shelf.rest(cx.now);
            shelf.take_missed()
        });
        match missed {
            Some(missing) => self.tell_lost(cx, missing),
            None => cx.outbox.push(cx.parent, cx.id, Body::Ack(report)),
        }
    }

    /// Report of what everybody below has. A relay that has begun anew says nothing as long as
    /// children may live that have not told it of themselves. Rules R-RELAY-3, R-RELAY-9.
    fn own_report(&self, cx: &Context<'_>) -> Report {
        let quiet = cx.now < self.quiet_until || !self.children.untold().is_empty();
        let known = self.children.first_min().zip(self.children.upto_min());
        match known {
            Some((first, upto)) if self.joining.is_none() && !quiet => Report {
                child: cx.child,
                first,
                upto: upto.max(first.saturating_sub(1)),
                receivers: self.children.receivers(),
            },
            _ => Report::none_of(cx.child),
        }
    }

    fn lacks(&self, sequence: u64) -> bool {
        let track = self.track.as_ref();
        track.is_none_or(|track| track.lacks(sequence))
    }

    #[inline]
    fn note(&mut self, sequence: u64, released: u64) -> Arrival {
        let track = match &mut self.track {
            Some(track) => track,
            None => {
                self.asked_upto = sequence - 1;
                self.track.insert(TrackList::behind(sequence - 1))
            }
        };
        track.release(released);
        track.record(sequence)
    }

    /// Asks for missing packets that have not been asked for, as far as there is room.
    fn ask_for_lost(&mut self, cx: &mut Context<'_>) {
        while let Some(track) = &self.track
            && let Some(sequence) = track.next_lost(self.asked_upto)
            && !self.nacks.is_full()
        {
            self.asked_upto = sequence;
            if !self.nacks.has(sequence) {
                // Half a round trip at most.
                let patience = self.shelf.as_ref().and_then(|it| it.patience(sequence));
                let patience = patience.map(|it| it.min(cx.timing.upstream_retry / 3));
                self.nacks.found_missing(cx, sequence, patience);
            }
        }
        self.send_asks(cx);
    }

    /// Sends the NACKs that are due. Those to the parent carry this relay's ACK.
    fn send_asks(&mut self, cx: &mut Context<'_>) {
        let mut asks = self.nacks.take_asks();
        asks.sort_unstable();
        let mut report = None;
        for ask in &asks {
            match ask.whom {
                Asked::Parent => {
                    let report = *report.get_or_insert_with(|| self.own_report(cx));
                    cx.outbox.ask(cx.parent, cx.id, report, ask.sequence);
                }
                Asked::Child(place) => {
                    if let Some(address) = self.children.address(place) {
                        cx.outbox.ask(address, cx.id, Report::NONE, ask.sequence);
                    }
                }
            }
        }
        if let Some(report) = report {
            self.reported = report;
            self.ack.at = cx.now.after(self.ack.interval);
        }
        self.nacks.reuse(asks);
    }

    fn welcome(&self, cx: &mut Context<'_>, place: usize) {
        let highest = self.track.as_ref().map_or(0, TrackList::last_received);
        if let (Some(first), Some(address)) =
            (self.children.owed(place), self.children.address(place))
        {
            let joined = Joined {
                first,
                highest: highest.max(first - 1),
                known: self.children.is_known(place),
                rated: self.rates.is_some(),
                parity: self.rates.is_some() && cx.parity,
            };
            cx.outbox.push(address, cx.id, Body::Joined(joined));
        }
    }

    /// Without children there is nothing to receive for.
    fn leave_if_alone(&mut self, cx: &mut Context<'_>) {
        if self.children.is_empty() && self.joining.is_none() {
            cx.outbox.push(cx.parent, cx.id, Body::Leave(cx.child));
            self.joining = Some(Repetition::new(cx.now, cx.timing.join_retry));
            self.track = None;
            self.clear(cx);
        }
    }

    fn clear(&mut self, cx: &mut Context<'_>) {
        self.nacks.clear(cx);
        cx.cache.release(cx.id, u64::MAX);
        if let Some(rates) = self.rates.take() {
            rates.end(cx);
        }
        self.shelf = None;
        if let Some(maker) = self.maker.take() {
            cx.cancel_timer(maker.due(), Due::Block);
        }
    }

    fn schedule(&mut self, cx: &mut Context<'_>) {
        let at = match &self.joining {
            _ if self.children.is_empty() => self.heard.after(cx.timing.session_lifetime),
            Some(join) => join.at,
            None => self.ack.at,
        };
        if at != self.tick {
            cx.cancel_timer(self.tick, Due::Tick);
            self.tick = at;
            cx.set_timer(at, Due::Tick);
        }
    }
}
