//! What the node sends: publishers' queues and feeds, each in turn (R131-R133, R139).
//!
//! A source is *idle* (it has nothing; its signal brings it back), *active* (it may have
//! something) or *blocked* (it has a message that the send window has no room for; it is active
//! again after the protocol's next input). So one group whose receivers are slow stops only those
//! who publish to it. Those that send to one region stand in one lane, which is passed over as a
//! whole while the region's window is full: a hundred thousand groups may share a region.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use qsm_proto::send::Batching;
use qsm_proto::{Endpoint, Instant, PublishError};
use qsm_record::{Recorded, RecordedPublication};
use qsm_wire::{GroupId, RegionId};

use super::lanes::Lanes;
use super::routes::Routes;
use crate::handoff::feed::{Feed, Pull};
use crate::handoff::outlet::Outlet;
use crate::handoff::shared::Shared;
use crate::handoff::signal::Signal;
use crate::runtime::clock::Clock;
use crate::snapshot::PublisherRow;
use crate::stats::{PublisherStats, RuntimeStats};

/// Messages taken in one turn; then receiving goes first again. At 0.1 µs each, 100 µs, and at 100
/// bytes a train and a half.
const MESSAGES_PER_TURN: usize = 1024;
/// Bytes taken in one turn: eight trains, about 100 µs of copying.
const BYTES_PER_TURN: usize = 512 << 10;
/// Messages taken from one source before the next one's turn: what a source needs is seldom in a
/// processor's cache.
const MESSAGES_PER_SOURCE: usize = 128;
/// A feed's buffer larger than this is not kept.
const BUFFER_BYTES_KEPT: usize = 1 << 16;

enum Kind {
    Queue(Arc<Outlet>),
    Feed(Box<dyn Feed>, Arc<Signal>),
}

struct Source {
    name: Arc<str>,
    group: Option<GroupId>,
    kind: Kind,
    /// Taken, but not yet accepted by the protocol.
    waiting: Option<Vec<u8>>,
    /// Messages of a feed that the protocol has accepted.
    accepted: u64,
    /// The application has dropped it: it ends when it is empty.
    retired: bool,
    /// The region whose window it waited for last.
    region: Option<RegionId>,
    /// When it wants to be asked again, if it is idle until then.
    due: Option<Instant>,
    /// Limits to the wait of its messages for others, if they are not those of the node.
    batching: Option<Batching>,
    /// The protocol has refused a message since it was idle last.
    held: bool,
}

/// Messages given to the protocol in one turn of the core thread, and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Given {
    messages: usize,
    bytes: usize,
    /// The longest that one of them was in its publisher's queue.
    queued: Duration,
}

/// What happened when a source had its turn.
enum Turn {
    /// It has nothing more, or nothing before then.
    Idle(Option<Instant>),
    /// It has more, and others come first.
    More,
    /// The protocol does not take its message now: for want of room in this region's window, or
    /// for something of its group alone; to be entered, for example.
    Blocked(Option<RegionId>),
    /// It has nothing more and never will.
    Ended,
}

#[derive(Default)]
pub(super) struct Sources {
    /// Places are used again.
    table: Vec<Option<Source>>,
    free: Vec<u32>,
    active: Lanes,
    /// Each for a reason of its group alone.
    blocked: VecDeque<u32>,
    /// Idle ones that want to be asked again, by time.
    timed: BTreeSet<(Instant, u32)>,
    /// A message on its way from its source to the protocol.
    message: Vec<u8>,
    /// Sources of each group, and requests for some, for giving up the role with the last one.
    names: HashMap<Arc<str>, usize>,
    /// Room was made in publishers' queues in this turn.
    released: bool,
    /// How many are publishers' queues.
    queues: usize,
    /// Messages of publishers are timed, one of each at a time.
    timed_queues: bool,
    /// The longest that a message was in such a queue since that was taken.
    queued: Duration,
}

/// What a turn of sources works on.
pub(super) struct Output<'a> {
    pub(super) now: Instant,
    pub(super) clock: Clock,
    pub(super) endpoint: &'a mut Recorded,
    pub(super) routes: &'a mut Routes,
    pub(super) stats: &'a mut RuntimeStats,
}

impl Sources {
    /// Sources whose queues are timed, or not.
    pub(super) fn timed(timed_queues: bool) -> Self {
        Self {
            timed_queues,
            ..Self::default()
        }
    }

    /// The longest that a timed message was in its publisher's queue since this was asked last, while
    /// the protocol took messages.
    pub(super) fn take_handoff(&mut self) -> Duration {
        core::mem::take(&mut self.queued)
    }

    /// A new publisher's queue.
    pub(super) fn add_queue(&mut self, name: &Arc<str>, batching: Option<Batching>) -> Arc<Outlet> {
        let slot = self.free_slot();
        let outlet = Outlet::new(Arc::clone(name), slot).within(batching);
        let outlet = Arc::new(outlet.timed(self.timed_queues));
        self.insert(slot, name, Kind::Queue(Arc::clone(&outlet)), batching);
        outlet
    }

    /// A new feed, asked at once.
    pub(super) fn add_feed(
        &mut self,
        name: &Arc<str>,
        feed: Box<dyn Feed>,
        batching: Option<Batching>,
    ) -> (u32, Arc<Signal>) {
        let slot = self.free_slot();
        let signal = Arc::new(Signal::idle());
        let kind = Kind::Feed(feed, Arc::clone(&signal));
        self.insert(slot, name, kind, batching);
        if signal.raise() {
            self.activate(slot);
        }
        (slot, signal)
    }

    /// Whether there are publishers' queues.
    pub(super) fn has_queues(&self) -> bool {
        self.queues > 0
    }

    /// Whether the publisher in this place does no more than send: its group is entered, and this
    /// node does not receive it.
    pub(super) fn sends_only(&self, slot: u32, endpoint: &Endpoint) -> bool {
        let source = self.table.get(slot as usize).and_then(Option::as_ref);
        let group = source.and_then(|source| source.group);
        group.is_some_and(|group| !endpoint.delivers(group))
    }

    /// The role of publisher is being asked for: the last source of one of these groups may end
    /// meanwhile, and must not give up the role for the source that comes. Until
    /// [`Sources::release`].
    pub(super) fn hold(&mut self, names: &[Arc<str>]) {
        for name in names {
            *self.names.entry(Arc::clone(name)).or_default() += 1;
        }
    }

    /// The request is over. Returns those of its groups that no source is left for.
    pub(super) fn release(&mut self, names: &[Arc<str>]) -> Vec<String> {
        let gone = names.iter().filter_map(|name| self.drop_name(name));
        gone.collect()
    }

    /// The application has dropped it. Returns its group if that was the last source of it.
    pub(super) fn retire(&mut self, slot: u32) -> Option<String> {
        let source = self.table.get_mut(slot as usize)?.as_mut()?;
        source.retired = true;
        // One that is not idle ends in its turn.
        if source.signal().is_idle() {
            self.remove(slot)
        } else {
            None
        }
    }

    /// Ends all feeds: the node is closing, and feeds may never end by themselves.
    pub(super) fn retire_feeds(&mut self) {
        for source in self.table.iter_mut().flatten() {
            source.retired |= matches!(source.kind, Kind::Feed(..));
        }
    }

    /// When the first of those that are idle until then wants to be asked.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.timed.first().map(|(due, _)| *due)
    }

    /// Notes the sources that have something new, or whose time has come.
    pub(super) fn collect(&mut self, now: Instant, shared: &Shared) {
        while let Some(&(due, slot)) = self.timed.first()
            && due <= now
        {
            self.timed.pop_first();
            self.rouse(slot);
        }
        while let Some(slot) = shared.next_ready() {
            if self.table.get(slot as usize).is_some_and(Option::is_some) {
                self.activate(slot);
            }
        }
    }

    /// Blocked sources may try again: one for each window, to find out whether it has room.
    pub(super) fn unblock(&mut self) {
        self.active.open();
        for slot in core::mem::take(&mut self.blocked) {
            self.activate(slot);
        }
    }

    /// Group numbers are void.
    pub(super) fn forget_numbers(&mut self) {
        self.table
            .iter_mut()
            .flatten()
            .for_each(|source| source.group = None);
    }

    /// Whether some source may have something that the protocol may take.
    pub(super) fn is_active(&self) -> bool {
        self.active.has_next()
    }

    /// Whether all that was accepted has been given to the protocol.
    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.blocked.is_empty()
    }

    /// For each publisher that has accepted messages and not yet given them on, how many it has
    /// accepted so far; for a feed, those it was asked for.
    pub(super) fn backlog(&self) -> Vec<(u32, u64)> {
        let of = |slot: usize| {
            let source = self.table[slot].as_ref()?;
            let (waiting, taken) = match &source.kind {
                Kind::Queue(outlet) => (outlet.messages() as u64, outlet.taken()),
                Kind::Feed(..) => (u64::from(source.waiting.is_some()), source.accepted),
            };
            (waiting > 0).then(|| (u32::try_from(slot).unwrap_or(0), taken + waiting))
        };
        (0..self.table.len()).filter_map(of).collect()
    }

    /// The groups of publishers whose messages wait, and how many do.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        let waiting = |source: &Source| match &source.kind {
            Kind::Queue(outlet) => outlet.messages() as u64,
            Kind::Feed(..) => u64::from(source.waiting.is_some()),
        };
        let sources = self.table.iter().flatten();
        let all = sources.map(move |source| (&source.name, waiting(source)));
        all.filter(|(_, messages)| *messages > 0)
    }

    /// The groups of all publishers and feeds.
    pub(super) fn names(&self) -> impl Iterator<Item = Arc<str>> {
        self.names.keys().map(Arc::clone)
    }

    /// Whether a publisher has given on so many messages, or has ended.
    pub(super) fn has_taken(&self, slot: u32, count: u64) -> bool {
        let source = self.table.get(slot as usize).and_then(Option::as_ref);
        source.is_none_or(|source| match &source.kind {
            Kind::Queue(outlet) => outlet.taken() >= count,
            Kind::Feed(..) => source.accepted >= count,
        })
    }

    /// Gives messages to the protocol, from each active source in turn, up to the quantum.
    /// Returns the groups that no source is left for.
    pub(super) fn run(&mut self, shared: &Shared, mut output: Output<'_>) -> Vec<String> {
        let mut given = Given::default();
        let mut gone = Vec::new();
        while given.messages < MESSAGES_PER_TURN && given.bytes < BYTES_PER_TURN {
            let Some(slot) = self.active.next() else {
                break;
            };
            let Some(source) = self.table[slot as usize].as_mut() else {
                continue;
            };
            if let Some(due) = source.due.take() {
                self.timed.remove(&(due, slot));
            }
            let before = given;
            let message = &mut self.message;
            let turn = source.turn(shared, &mut output, message, &mut given);
            self.released |= before != given;
            match turn {
                Turn::Idle(due) => self.rest(slot, due),
                Turn::More => self.activate(slot),
                Turn::Blocked(region) => {
                    output.stats.window_full += 1;
                    source.region = region;
                    match region {
                        Some(region) => self.active.close(region, slot),
                        None => self.blocked.push_back(slot),
                    }
                }
                Turn::Ended => gone.extend(self.remove(slot)),
            }
        }
        self.queued = self.queued.max(given.queued);
        gone
    }

    /// Lets those go on who wait for room in a queue. Once per turn.
    pub(super) fn wake(&mut self, shared: &Shared) {
        if core::mem::take(&mut self.released) {
            shared.gate.sleepers.wake();
        }
    }

    pub(super) fn rows(&self) -> Vec<PublisherRow> {
        let row = |source: &Source| {
            let shut = source
                .region
                .is_some_and(|region| self.active.is_closed(region));
            let outlet = match &source.kind {
                Kind::Queue(outlet) => Some(outlet),
                Kind::Feed(..) => None,
            };
            let blocked = source.waiting.is_some() || (shut && !source.signal().is_idle());
            PublisherRow {
                group: Arc::clone(&source.name),
                feed: outlet.is_none(),
                stats: PublisherStats {
                    queued_messages: outlet.map_or(0, |outlet| outlet.messages() as u64),
                    queued_bytes: outlet.map_or(0, |outlet| outlet.bytes() as u64),
                    blocked: blocked.into(),
                },
            }
        };
        self.table.iter().flatten().map(row).collect()
    }

    /// It may have something.
    pub(super) fn activate(&mut self, slot: u32) {
        let source = self.table.get(slot as usize).and_then(Option::as_ref);
        self.active
            .add(source.and_then(|source| source.region), slot);
    }

    /// The source is idle, until then if it said so.
    fn rest(&mut self, slot: u32, due: Option<Instant>) {
        let Some(source) = self.table.get_mut(slot as usize).and_then(Option::as_mut) else {
            return;
        };
        source.due = due;
        self.timed.extend(due.map(|due| (due, slot)));
    }

    /// Its time has come. If something else has woken it, it has its turn anyway.
    fn rouse(&mut self, slot: u32) {
        let source = self.table.get_mut(slot as usize).and_then(Option::as_mut);
        let idle = source.is_some_and(|source| {
            source.due = None;
            source.signal().raise()
        });
        if idle {
            self.activate(slot);
        }
    }

    fn free_slot(&mut self) -> u32 {
        // Sources are bounded by memory long before 2^32.
        let next = || u32::try_from(self.table.len()).unwrap_or(u32::MAX);
        self.free.pop().unwrap_or_else(next)
    }

    fn insert(&mut self, slot: u32, name: &Arc<str>, kind: Kind, batching: Option<Batching>) {
        let slot = slot as usize;
        self.queues += usize::from(matches!(kind, Kind::Queue(_)));
        if slot == self.table.len() {
            self.table.push(None);
        }
        self.table[slot] = Some(Source {
            name: Arc::clone(name),
            group: None,
            kind,
            waiting: None,
            accepted: 0,
            retired: false,
            region: None,
            due: None,
            batching,
            held: false,
        });
        self.hold(core::slice::from_ref(name));
    }

    /// One whose turn it is, or that is idle: it stands in no lane.
    fn remove(&mut self, slot: u32) -> Option<String> {
        let source = self.table.get_mut(slot as usize)?.take()?;
        self.queues -= usize::from(matches!(source.kind, Kind::Queue(_)));
        self.free.push(slot);
        if let Some(due) = source.due {
            self.timed.remove(&(due, slot));
        }
        self.drop_name(&source.name)
    }

    /// One source or request less. Returns the group if that was the last.
    fn drop_name(&mut self, name: &Arc<str>) -> Option<String> {
        let count = self.names.get_mut(name)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        self.names.remove(name);
        Some(name.to_string())
    }
}

impl Source {
    /// Up to a quantum of its messages, each by way of `message`.
    fn turn(
        &mut self,
        shared: &Shared,
        output: &mut Output<'_>,
        message: &mut Vec<u8>,
        given: &mut Given,
    ) -> Turn {
        self.signal().begin();
        if self.group.is_none() {
            self.group = output.endpoint.group(&self.name);
        }
        let mut publication = self.publication(output.now, output.endpoint);
        for _ in 0..MESSAGES_PER_SOURCE {
            match self.fetch(message, output.stats) {
                Pull::Message => {}
                Pull::Idle if self.retired => return Turn::Ended,
                Pull::Idle if self.signal().end() => {
                    self.held = false;
                    return Turn::Idle(None);
                }
                Pull::At(at) if self.signal().end() => {
                    return Turn::Idle(Some(output.clock.at(at)));
                }
                Pull::Idle | Pull::At(_) => {
                    self.signal().begin();
                    continue;
                }
                Pull::End => return Turn::Ended,
            }
            let result = match &mut publication {
                Some(publication) => publication.push(message, output.routes),
                None => Err(PublishError::NotEntered),
            };
            match result {
                Err(PublishError::TooLarge { .. }) => output.stats.messages_refused += 1,
                Err(error) => {
                    self.waiting = Some(core::mem::take(message));
                    self.held = true;
                    return Turn::Blocked(match error {
                        PublishError::WindowFull { region } => Some(region),
                        _ => None,
                    });
                }
                Ok(_) => {}
            }
            given.bytes += message.len();
            given.messages += 1;
            if let Kind::Queue(outlet) = &self.kind {
                outlet.release(&shared.gate, message.len());
                // While it was held, that was not the queue's time.
                if let Some(since) = outlet.timed_since().filter(|_| !self.held) {
                    let queued = output.now.since(output.clock.at(since));
                    given.queued = given.queued.max(queued);
                }
            } else {
                self.accepted += 1;
            }
            if message.capacity() > BUFFER_BYTES_KEPT {
                *message = Vec::new();
            }
        }
        Turn::More
    }

    /// Its group, open for messages; `None` if it has not been entered, or if the node has been
    /// excluded and enters again by itself.
    fn publication<'e>(
        &self,
        now: Instant,
        endpoint: &'e mut Recorded,
    ) -> Option<RecordedPublication<'e>> {
        let publication = endpoint.publication(now, self.group?).ok()?;
        Some(match self.batching {
            None => publication,
            Some(batching) => publication.within(batching),
        })
    }

    /// Gets the next message.
    fn fetch(&mut self, message: &mut Vec<u8>, stats: &mut RuntimeStats) -> Pull {
        if let Some(waiting) = self.waiting.take() {
            *message = waiting;
            return Pull::Message;
        }
        match &mut self.kind {
            Kind::Queue(outlet) => match outlet.pop() {
                Some(next) => {
                    *message = next;
                    stats.messages_pushed += 1;
                    Pull::Message
                }
                None => Pull::Idle,
            },
            Kind::Feed(..) if self.retired => Pull::End,
            Kind::Feed(feed, _) => {
                message.clear();
                let pull = feed.pull(message);
                stats.messages_pulled += u64::from(pull == Pull::Message);
                pull
            }
        }
    }

    fn signal(&self) -> &Signal {
        match &self.kind {
            Kind::Queue(outlet) => &outlet.signal,
            Kind::Feed(_, signal) => signal,
        }
    }
}
