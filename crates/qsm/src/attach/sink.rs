//! A core thread's end of a subscription: a message goes from the receive buffer into the log, once
//! for all who want it, and into the ring of each what refers to it. The process is woken at most
//! once at the end of a turn.
//!
//! Messages that lie one behind the other in the log and are of one group are referred to together:
//! what a further reader costs is not a copy of each message, but a few words for each run of them.
//! A reader that holds its share of the log gets copies in its ring, until it has read on.
//!
//! For a subscription that holds senders up, what finds no room in its ring is kept until its reader
//! has made some, and the protocol is told to bring no more.

use core::mem;
use std::collections::HashMap;
use std::sync::Arc;

use qsm_net::{SharedMemory, Waker};
use qsm_wire::GroupId;

use super::backlog::{Backlog, Kept, KeptBytes};
use super::error::CutReason;
use super::line::{End, Line};
use super::log::{Holds, Log, Run, message_words};
use super::record;
use super::requests::EXTRA;
use super::ring::{Nonsense, Writer, Written, readers_bell};
use super::room::RingRoom;
use super::tally::Tally;
use crate::handoff::aside::{Item, Notices};
use crate::handoff::inbox::Offered;
use crate::handoff::message::{MessageRef, Overflow};
use crate::handoff::received::Received;
use crate::handoff::sink::{ForeignQueue, Offers, offer_each};

/// Words of a run after which it is shown to the reader, which may be awake.
const RUN_WORDS: usize = 2048;

/// Most that a notice takes, in words.
const NOTICE_WORDS: usize = record::NOTICE_BYTES / size_of::<u64>();

/// Messages that are not referred to yet.
struct Open {
    /// Of the group's name.
    place: u32,
    run: Run,
}

/// Writes the messages of one subscription that come on one core thread.
pub(super) struct RingSink {
    pub(super) names: Arc<[Arc<str>]>,
    places: HashMap<Arc<str>, u32>,
    /// The group of the latest message, and the place of its name: messages of a group often follow
    /// each other. Numbers may pass to other groups, so the name is compared.
    latest: Option<(GroupId, u32)>,
    writer: Writer<EXTRA>,
    holds: Holds,
    open: Option<Open>,
    memory: Arc<SharedMemory>,
    overflow: Overflow,
    /// Where it waits for room, if it holds senders up.
    room: Option<Arc<RingRoom>>,
    /// What found no room then.
    backlog: Backlog,
    /// What is to be written before the next message.
    notices: Notices<Received>,
    /// Nothing is written any more.
    over: bool,
    line: Arc<Line>,
    tally: Arc<Tally>,
    /// Messages kept that the tally does not know yet.
    delivered: u64,
    /// The process at the other end.
    process: u32,
}

/// By which the messages go.
pub(super) struct Way<'a> {
    /// With the rings of the subscription, of equal capacity in words.
    pub(super) memory: &'a Arc<SharedMemory>,
    /// Of the ring.
    pub(super) number: usize,
    pub(super) capacity: usize,
    /// Of the core thread.
    pub(super) log: &'a Arc<Log>,
    /// What may be kept for the process.
    pub(super) kept: &'a Arc<KeptBytes>,
}

impl RingSink {
    pub(super) fn new(
        names: &Arc<[Arc<str>]>,
        way: Way<'_>,
        overflow: Overflow,
        line: &Arc<Line>,
        tally: &Arc<Tally>,
        process: u32,
    ) -> Self {
        let Way {
            memory,
            number,
            capacity,
            log,
            kept,
        } = way;
        let writer = Writer::new(Arc::clone(memory), number, capacity);
        let holds = overflow == Overflow::Hold;
        let room = holds.then(|| Arc::new(RingRoom::new(writer.head())));
        let names = Arc::clone(names);
        let places = names.iter().cloned().zip(0..).collect();
        Self {
            names,
            places,
            latest: None,
            writer,
            holds: Holds::new(log),
            open: None,
            memory: Arc::clone(memory),
            overflow,
            room,
            backlog: Backlog::new(kept),
            notices: Notices::default(),
            over: false,
            line: Arc::clone(line),
            tally: Arc::clone(tally),
            delivered: 0,
            process,
        }
    }

    /// Where it waits for room, if it holds senders up.
    pub(super) fn room(&self) -> Option<&Arc<RingRoom>> {
        self.room.as_ref()
    }

    fn drop_one(&mut self) {
        self.refer();
        // Else with its record, which comes behind what is kept.
        if self.room.is_none() {
            self.writer.drop_one();
        }
        self.tally.dropped.add(1);
        if let Some(notice) = Received::dropped(1) {
            self.notices.add(notice);
        }
        if self.overflow == Overflow::Disconnect {
            self.end();
        }
    }

    /// The subscription ends behind what is in its ring.
    fn end(&mut self) {
        self.over = true;
        self.writer.end();
        self.backlog.clear();
    }

    fn place(&mut self, message: &MessageRef<'_>) -> Option<u32> {
        if let Some((group, place)) = self.latest
            && group == message.group_id
            && *self.names[place as usize] == *message.group
        {
            return Some(place);
        }
        let place = *self.places.get(message.group)?;
        self.latest = Some((message.group_id, place));
        Some(place)
    }

    /// For this message behind all notices: each of them written as soon as it fits, there would be
    /// one for each message dropped.
    fn has_room(&mut self, message: &[u8]) -> bool {
        let notices = self.notices.len() * record::NOTICE_BYTES;
        self.writer.has_room(message.len() + notices)
    }

    /// Keeps a message until the ring has room for it; false if that is more than may be kept for the
    /// process: then the subscription ends.
    fn keep(&mut self, place: u32, message: &MessageRef<'_>) -> bool {
        let kept = Kept {
            notices: mem::take(&mut self.notices),
            place,
            message: message.own(&self.names[place as usize]),
        };
        let may = self.backlog.push(kept);
        if !may {
            self.refer();
            self.end();
        }
        may
    }

    /// Writes what was kept, as far as there is room; true if nothing is left.
    fn write_backlog(&mut self) -> bool {
        while let Some(mut kept) = self.backlog.pop() {
            let told = self.write_notices(&mut kept.notices);
            if !told || self.write_kept(&kept) == Written::Full {
                self.backlog.put_back(kept);
                return false;
            }
        }
        true
    }

    fn write_kept(&mut self, kept: &Kept) -> Written {
        let message = kept.message.lend();
        let record = record::Written::message(kept.place, &message);
        let written = self.write(&record, message.bytes);
        if written == Written::Yes {
            self.delivered += 1;
            self.tally.copied.add(1);
        }
        written
    }

    /// Writes notices, as far as there is room; true if none is left.
    fn write_notices(&mut self, notices: &mut Notices<Received>) -> bool {
        while let Some(notice) = notices.front().filter(|_| !self.over) {
            if let Some(record) = self.record(notice) {
                let last = record.last.map(u64::to_le_bytes);
                let bytes = last.as_ref().map_or(&[][..], |last| &last[..]);
                if self.write(&record, bytes) == Written::Full {
                    return false;
                }
            }
            self.writer.drop_more(self.dropped_of(notice));
            notices.pop();
        }
        true
    }

    /// Messages dropped that are counted with this notice, and not before.
    fn dropped_of(&self, notice: &Received) -> u64 {
        match notice {
            Received::Dropped(dropped) if self.room.is_some() => dropped.messages,
            _ => 0,
        }
    }

    /// Something is to be written before the next message.
    fn has_more(&self) -> bool {
        !self.backlog.is_empty() || !self.notices.is_empty()
    }

    /// Waits for the reader, if something has no room; false if it has made some meanwhile.
    fn wait(&mut self, room: &RingRoom, core: &Waker) -> bool {
        let first = self.backlog.front();
        let notices = first.map_or(&self.notices, |kept| &kept.notices).len();
        let message = first.map_or(0, |kept| message_words(kept.message.bytes().len()));
        let position = self.writer.want(notices * NOTICE_WORDS + message);
        room.wait(core, position)
    }

    /// Puts a message where its reader finds it.
    fn put(&mut self, delivery: u64, place: u32, message: &MessageRef<'_>) -> Written {
        let words = message_words(message.bytes.len());
        let until = self.writer.position() + words as u64;
        match self.writer.has_room_for(words) {
            Ok(Written::Yes) => {}
            other => return self.checked(other),
        }
        self.delivered += 1;
        let (holds, writer) = (&mut self.holds, &mut self.writer);
        let start = holds.write(delivery, message, until, || writer.passed());
        let Some(start) = start else {
            self.tally.copied.add(1);
            let record = record::Written::message(place, message);
            return self.write(&record, message.bytes);
        };
        let end = start + words;
        self.claim(place, Run { start, end })
    }

    /// Puts messages of one group into the log, or joins another reader's who was offered them before, if
    /// all of them have room and nothing waits; how many, from the first on.
    fn put_together(&mut self, first: u64, messages: &[MessageRef<'_>]) -> usize {
        let place = messages.first().and_then(|any| self.place(any));
        let Some(place) = place.filter(|_| !self.over && !self.has_more()) else {
            return 0;
        };
        let words = |message: &MessageRef<'_>| message_words(message.bytes.len());
        let all = messages.iter().map(words).sum();
        if self.writer.has_room_for(all) != Ok(Written::Yes) {
            return 0;
        }
        let until = self.writer.position() + all as u64;
        let (holds, writer) = (&mut self.holds, &mut self.writer);
        let deliveries = first..first + messages.len() as u64;
        if let Some(run) = holds.join(deliveries, all, until, || writer.passed()) {
            self.delivered += messages.len() as u64;
            self.claim(place, run);
            return messages.len();
        }
        let mut until = self.writer.position();
        for (put, (delivery, message)) in (first..).zip(messages).enumerate() {
            let words = words(message);
            until += words as u64;
            let (holds, writer) = (&mut self.holds, &mut self.writer);
            let Some(start) = holds.write(delivery, message, until, || writer.passed()) else {
                return put;
            };
            let end = start + words;
            self.delivered += 1;
            self.claim(place, Run { start, end });
        }
        messages.len()
    }

    /// The next messages lie here, and there is room for them.
    fn claim(&mut self, place: u32, run: Run) -> Written {
        let claimed = self.writer.claim(run.end - run.start);
        self.extend(place, run);
        self.checked(claimed)
    }

    /// The next message lies here.
    fn extend(&mut self, place: u32, next: Run) {
        match &mut self.open {
            Some(open) if open.place == place && open.run.end == next.start => {
                open.run.end = next.end;
            }
            _ => {
                self.refer();
                self.open = Some(Open { place, run: next });
            }
        }
        let long = |open: &Open| open.run.end - open.run.start >= RUN_WORDS;
        if self.open.as_ref().is_some_and(long) {
            self.refer();
        }
    }

    /// Shows the reader what is not referred to yet. It is counted before.
    fn refer(&mut self) {
        if self.delivered > 0 {
            self.tally.delivered.add(mem::take(&mut self.delivered));
        }
        if let Some(open) = self.open.take() {
            let record = record::reference(open.place, open.run);
            self.writer.refer(record.tag, record.extra);
        }
    }

    fn write(&mut self, record: &record::Written, bytes: &[u8]) -> Written {
        self.refer();
        let written = self.writer.write(record.tag, record.extra, bytes);
        self.checked(written)
    }

    /// A process whose ring holds nonsense is cut off.
    fn checked(&mut self, written: Result<Written, Nonsense>) -> Written {
        written.unwrap_or_else(|_: Nonsense| {
            self.over = true;
            self.line.end(End::Cut(CutReason::Ring));
            Written::Never
        })
    }

    /// What would become of a message whose turn has not come.
    fn later(&self, message: &MessageRef<'_>) -> Written {
        match self.writer.fits_ever(message_words(message.bytes.len())) {
            true => Written::Full,
            false => Written::Never,
        }
    }

    /// The record of a notice; `None` for what this ring says nothing about.
    fn record(&self, notice: &Received) -> Option<record::Written> {
        Some(match notice {
            Received::Lost(lost) => record::Written::lost(*self.places.get(&lost.group)?, lost),
            Received::LostPackets(lost) => record::Written::lost_packets(*lost),
            Received::Dropped(_) => {
                record::Written::dropped(self.writer.dropped() + self.dropped_of(notice))
            }
            Received::Back(back) => record::Written::back(*back),
            Received::Excluded(excluded) => record::Written::excluded(*excluded),
            Received::Message(_) => return None,
        })
    }
}

impl ForeignQueue for RingSink {
    fn offer(&mut self, delivery: u64, message: MessageRef<'_>) -> Offered {
        let mut offered = Offered {
            kept: false,
            dropped: 0,
        };
        let Some(place) = self.place(&message).filter(|_| !self.over) else {
            return offered;
        };
        let in_turn = self.backlog.is_empty()
            && (self.notices.is_empty() || (self.has_room(message.bytes) && self.catch_up()));
        let written = match in_turn {
            true => self.put(delivery, place, &message),
            false => self.later(&message),
        };
        match written {
            Written::Yes => offered.kept = true,
            _ if self.over => {}
            Written::Full if self.room.is_some() => offered.kept = self.keep(place, &message),
            Written::Full | Written::Never => {
                self.drop_one();
                offered.dropped = 1;
            }
        }
        offered
    }

    fn offer_run(&mut self, first: u64, messages: &[MessageRef<'_>]) -> Offers {
        let put = self.put_together(first, messages);
        let mut offers = offer_each(self, first + put as u64, &messages[put..]);
        offers.kept += put as u64;
        offers
    }

    fn tell(&mut self, notice: Received) {
        if !self.over {
            self.notices.add(notice);
        }
    }

    fn catch_up(&mut self) -> bool {
        if !self.write_backlog() {
            return false;
        }
        let mut notices = mem::take(&mut self.notices);
        let told = self.write_notices(&mut notices);
        self.notices = notices;
        told
    }

    fn is_full(&mut self, core: &Waker) -> Option<bool> {
        let room = self.room.as_ref()?;
        if self.over {
            return Some(false);
        }
        if room.is_awaited() {
            return Some(true);
        }
        let room = Arc::clone(room);
        let full = self.has_more() && !self.catch_up();
        if !full {
            self.writer.want_nothing();
        } else if !self.wait(&room, core) {
            // The reader has made some room meanwhile.
            core.wake();
        }
        Some(full)
    }

    fn wake(&mut self) {
        self.refer();
        if readers_bell(&self.memory).ring() {
            self.tally.wakes.add(1);
        }
    }

    fn queued_bytes(&self) -> usize {
        self.writer.queued_bytes() + self.backlog.bytes()
    }

    fn dropped(&self) -> u64 {
        self.writer.dropped()
    }

    fn process(&self) -> Option<u32> {
        Some(self.process)
    }
}
