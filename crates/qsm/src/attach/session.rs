//! The engine's side of one attached process.
//!
//! Two threads, so that nothing that one waits for holds up the other:
//!
//! - *control* receives requests from the socket, and owns the session: when the socket ends, for
//!   whatever reason, it releases everything. What may take long (the membership service, a flush)
//!   runs on a thread for that request only, so that an end is always seen at once.
//! - *data* takes messages from the process's ring and gives them to publishers. It waits where
//!   these wait, for room in their queues; then the ring fills up, and the process waits. It sleeps
//!   on the *doorbell*, a second socket: unlike a word in shared memory the process cannot keep it
//!   from waking it when the engine wants an end.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use qsm_net::{Peer, SharedMemory};
use qsm_wire::membership::QueryKind;

use super::backlog::KeptBytes;
use super::error::CutReason;
use super::line::{End, Line};
use super::log::Logs;
use super::options::ShareOptions;
use super::outcome::fit_flushed;
use super::published::Published;
use super::requests::{PACKET_BYTES_MAX, REQUESTS_AT_ONCE, RETIRE, RING_BYTES_MIN, Reply, Request};
use super::ring::{Reader, memory_words, readers_bell, writers_bell};
use super::room::RingRoom;
use super::rows;
use super::sink::{RingSink, Way};
use super::tally::{ClientRow, ClientStats, Tally};
use crate::error::RequestError;
use crate::handle::cores::Membership;
use crate::handle::own::OwnNode;
use crate::handle::own_publisher::OwnPublisher;
use crate::handoff::message::Overflow;
use crate::handoff::mode::DeliveryMode;
use crate::handoff::sink::Sink;
use crate::handoff::sleepers::Sleepers;
use crate::handoff::void::Told;

/// Requests of one process that wait for something at the same time.
const REQUESTS_MAX: usize = 2 * REQUESTS_AT_ONCE;
/// How long one too many may wait.
const REQUESTS_PATIENCE: Duration = Duration::from_secs(1);
/// Longest that a request waits, so that nothing of a process outlives it for long.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// How often one who waits for members looks whether the process is still there.
const LOOK: Duration = Duration::from_millis(200);

/// A subscription of the process.
struct Held {
    _membership: Membership,
    names: Arc<[Arc<str>]>,
    bytes: usize,
    /// Of each ring, if it holds senders up.
    rooms: Vec<Arc<RingRoom>>,
}

/// Groups that have been entered, with rings for them.
struct Entered {
    membership: Membership,
    descriptor: OwnedFd,
    rooms: Vec<Arc<RingRoom>>,
}

/// What the process has.
#[derive(Default)]
struct Table {
    subscriptions: BTreeMap<u32, Held>,
    publishers: HashMap<u32, Arc<OwnPublisher>>,
    next_key: u32,
    published: Published,
    /// Groups of subscriptions and publishers, counted with each, those being entered included.
    groups: usize,
    /// Of rings, likewise.
    bytes: usize,
    /// Requests under way.
    requests: usize,
}

/// An attached process.
pub(super) struct Session {
    pub(super) number: u32,
    pub(super) peer: Peer,
    pub(super) line: Arc<Line>,
    pub(super) tally: Arc<Tally>,
    node: OwnNode,
    options: Arc<ShareOptions>,
    logs: Arc<Logs>,
    memory: Arc<SharedMemory>,
    /// What is kept for subscriptions whose rings are full.
    kept: Arc<KeptBytes>,
    table: Mutex<Table>,
    /// How far the process's ring was read.
    taken: AtomicU64,
    /// What the process has been told of by each core when it flushed.
    told: Vec<Told>,
    flushers: Sleepers,
}

impl Session {
    pub(super) fn new(
        number: u32,
        peer: Peer,
        node: &OwnNode,
        options: &Arc<ShareOptions>,
        logs: &Arc<Logs>,
        memory: &Arc<SharedMemory>,
        line: Line,
    ) -> Self {
        Self {
            number,
            peer,
            line: Arc::new(line),
            tally: Arc::default(),
            node: node.clone(),
            options: Arc::clone(options),
            logs: Arc::clone(logs),
            memory: Arc::clone(memory),
            kept: Arc::new(KeptBytes::new(options.client_bytes_max)),
            table: Mutex::default(),
            taken: AtomicU64::new(0),
            told: node.told(),
            flushers: Sleepers::default(),
        }
    }

    /// Serves the process until its end, on the thread that calls. Then everything is released.
    pub(super) fn run(self: &Arc<Self>) {
        let session = Arc::clone(self);
        let data = thread::Builder::new().name("qsm-ring".to_owned());
        match data.spawn(move || session.carry()) {
            Ok(data) => {
                self.control();
                // A panic there would have ended the process's messages, nothing else.
                drop(data.join());
            }
            Err(error) => self.line.end(End::Closed {
                cause: format!("the engine cannot start a thread: {error}"),
            }),
        }
        let mut table = self.table();
        table.subscriptions.clear();
        table.publishers.clear();
        drop(table);
        // Its threads are counted as long as they are there.
        let none = || (self.table().requests == 0).then_some(());
        self.flushers.wait(None, none);
    }

    /// Ends the session soon, whatever its threads are waiting for.
    pub(super) fn end(&self, end: End) {
        self.line.end(end);
        self.flushers.wake();
        self.node.wake_publishers();
    }

    pub(super) fn row(&self) -> ClientRow {
        let table = self.table();
        ClientRow {
            client: self.number,
            pid: self.peer.pid,
            stats: ClientStats {
                subscriptions: table.subscriptions.len() as u64,
                publishers: table.publishers.len() as u64,
                ..self.tally.read()
            },
        }
    }

    fn control(self: &Arc<Self>) {
        let mut packet = vec![0; PACKET_BYTES_MAX];
        let mut names = Vec::new();
        let end = loop {
            let request = match self.line.socket.recv(&mut packet) {
                Ok(0) => break End::Left,
                Ok(length) => Request::decode(&packet[..length]),
                Err(error) if error.kind() == ErrorKind::InvalidData => None,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break End::Left,
            };
            let handled = match request {
                None | Some(Request::Hello { .. }) => Err(CutReason::Packet),
                Some(Request::Names(more)) => {
                    names.extend(more);
                    // One more than may be is refused where it is used, and no more are kept.
                    names.truncate(self.options.groups_max + 1);
                    Ok(())
                }
                Some(Request::Unsubscribe { key }) => {
                    self.unsubscribe(key);
                    Ok(())
                }
                Some(Request::Room { key }) => {
                    self.tell_room(key);
                    Ok(())
                }
                Some(request) => self.serve(request, core::mem::take(&mut names)),
            };
            if let Err(reason) = handled {
                break End::Cut(reason);
            }
        };
        self.end(end);
    }

    /// Serves a request on a thread of its own.
    fn serve(self: &Arc<Self>, request: Request, names: Vec<Arc<str>>) -> Result<(), CutReason> {
        let free = || {
            let mut table = self.table();
            let free = table.requests < REQUESTS_MAX;
            table.requests += usize::from(free);
            free.then_some(())
        };
        // A process keeps to half of them; others may be sending their answer yet.
        let deadline = Instant::now() + REQUESTS_PATIENCE;
        let room = self.flushers.wait(Some(deadline), free);
        room.ok_or(CutReason::Requests)?;
        let session = Arc::clone(self);
        let thread = thread::Builder::new().name("qsm-request".to_owned());
        let started = thread.spawn(move || {
            let (reply, descriptor) = session.answer(request, names);
            let descriptors: Vec<_> = descriptor.iter().map(AsFd::as_fd).collect();
            let packet = reply.encode();
            // One that is gone needs no answer.
            drop(match *descriptors {
                [] => session.line.socket.send(&packet),
                _ => session.line.socket.send_with(&packet, &descriptors),
            });
            session.table().requests -= 1;
            session.flushers.wake();
        });
        if let Err(error) = started {
            self.table().requests -= 1;
            let cause = format!("the engine cannot start a thread: {error}");
            self.end(End::Closed { cause });
        }
        Ok(())
    }

    fn answer(&self, request: Request, names: Vec<Arc<str>>) -> (Reply, Option<OwnedFd>) {
        let (id, answer) = match request {
            Request::Publish { id, slot } => (id, self.publish(id, slot, &names)),
            Request::Subscribe {
                id,
                ring_bytes,
                overflow,
                delivery,
            } => match self.subscribe(id, names, ring_bytes, overflow, delivery) {
                Ok((reply, descriptor)) => return (reply, Some(descriptor)),
                Err(error) => (id, Err(error)),
            },
            Request::Query { id, kind } => match self.query(id, kind) {
                Ok((reply, descriptor)) => return (reply, Some(descriptor)),
                Err(error) => (id, Err(error)),
            },
            Request::Flush {
                id,
                position,
                timeout,
            } => (id, self.flush(id, position, timeout)),
            Request::Members {
                id,
                slot,
                count,
                timeout,
            } => (id, self.members(id, slot, count, timeout)),
            Request::Stats { id } => {
                let values = self.row().values();
                (id, Ok(Reply::Stats { id, values }))
            }
            // Handled where they are received.
            Request::Hello { .. }
            | Request::Names(_)
            | Request::Unsubscribe { .. }
            | Request::Room { .. } => (0, Err(refused("not a request to wait for".to_owned()))),
        };
        let reply = answer.unwrap_or_else(|error| Reply::Failed {
            id,
            error: error.into(),
        });
        (reply, None)
    }

    fn query(&self, id: u32, kind: QueryKind) -> Result<(Reply, OwnedFd), RequestError> {
        let written = rows::write(self.node.cores.query(kind)?);
        let (descriptor, words) = written.map_err(|error| {
            refused(format!(
                "the engine cannot make shared memory: {error}; let it have more descriptors \
                 (`ulimit -n`) and memory"
            ))
        })?;
        Ok((Reply::Rows { id, words }, descriptor))
    }

    fn publish(&self, id: u32, slot: u32, names: &[Arc<str>]) -> Result<Reply, RequestError> {
        let last = slot.checked_add(u32::try_from(names.len()).unwrap_or(u32::MAX));
        if last.is_none_or(|last| last > RETIRE) {
            return Err(refused(
                "a process cannot have so many publishers".to_owned(),
            ));
        }
        self.reserve(names.len(), 0)?;
        let made = self.node.publishers(names, None);
        let mut table = self.table();
        if made.is_err() || self.line.ended().is_some() {
            table.groups -= names.len();
        }
        let made = made?;
        if self.line.ended().is_none() {
            table.published.add(names);
            let made = made.into_iter().map(Arc::new);
            table.publishers.extend((slot..).zip(made));
        }
        Ok(Reply::Done { id })
    }

    fn subscribe(
        &self,
        id: u32,
        names: Vec<Arc<str>>,
        ring_bytes: u64,
        overflow: Overflow,
        delivery: DeliveryMode,
    ) -> Result<(Reply, OwnedFd), RequestError> {
        if overflow == Overflow::DropOldest {
            let reason = "an engine does not drop what was received first; choose \
                          `Overflow::DropNewest`, `Overflow::Disconnect` or `Overflow::Hold`";
            return Err(refused(reason.to_owned()));
        }
        let shares = self.node.cores.shards().split(&names);
        let rings = shares.len();
        let bytes = self.ring_bytes(ring_bytes, rings)?;
        self.reserve(names.len(), bytes * rings)?;
        let all: Arc<[Arc<str>]> = names.into();
        let entered = self.enter(&all, shares, bytes, overflow, delivery);
        let mut table = self.table();
        let entered = match entered {
            Ok(entered) if self.line.ended().is_none() => entered,
            other => {
                table.groups -= all.len();
                table.bytes -= bytes * rings;
                // Before it is dropped, which needs no lock.
                drop(table);
                other?;
                return Err(refused("the process has detached".to_owned()));
            }
        };
        let key = table.next_key;
        table.next_key = key.wrapping_add(1);
        let held = Held {
            _membership: entered.membership,
            names: all,
            bytes: bytes * rings,
            rooms: entered.rooms,
        };
        table.subscriptions.insert(key, held);
        let reply = Reply::Subscribed {
            id,
            key,
            // At most one for each core.
            rings: rings as u32,
            ring_words: (bytes / size_of::<u64>()) as u64,
        };
        Ok((reply, entered.descriptor))
    }

    /// Makes a ring for each core that has some of the groups, and enters these.
    fn enter(
        &self,
        names: &Arc<[Arc<str>]>,
        shares: Vec<crate::shard::Share>,
        bytes: usize,
        overflow: Overflow,
        delivery: DeliveryMode,
    ) -> Result<Entered, RequestError> {
        let capacity = bytes / size_of::<u64>();
        let words = memory_words(shares.len(), capacity);
        let (memory, descriptor) = SharedMemory::create(words).map_err(|error| {
            refused(format!(
                "the engine cannot make shared memory: {error}; let it have more descriptors \
                 (`ulimit -n`) and memory, or use smaller rings"
            ))
        })?;
        let memory = Arc::new(memory);
        let mut rooms = Vec::new();
        let sinks = shares.into_iter().enumerate().map(|(number, share)| {
            let way = Way {
                memory: &memory,
                number,
                capacity,
                log: self.logs.part(share.core),
                kept: &self.kept,
            };
            let (line, tally) = (&self.line, &self.tally);
            let sink = RingSink::new(names, way, overflow, line, tally, self.peer.pid);
            rooms.extend(sink.room().map(Arc::clone));
            (share, Sink::Foreign(Box::new(sink)))
        });
        let membership = self.node.cores.enter(names.to_vec(), delivery, sinks)?;
        Ok(Entered {
            membership,
            descriptor,
            rooms,
        })
    }

    /// The capacity of each ring: what was asked for, up to what is allowed.
    fn ring_bytes(&self, asked: u64, rings: usize) -> Result<usize, RequestError> {
        let max = self.options.ring_bytes_max;
        let asked = match usize::try_from(asked).unwrap_or(usize::MAX) {
            0 => ShareOptions::RING_BYTES.min(max),
            bytes => bytes,
        };
        if asked > max {
            return Err(refused(format!(
                "a ring of {asked} bytes is more than the engine gives, {max}; ask for less, or \
                 let it give more (`ShareOptions::ring_bytes_max`, `qsm engine --ring-max`)"
            )));
        }
        let each = asked.div_ceil(rings.max(1)).max(RING_BYTES_MIN);
        Ok(each.next_power_of_two())
    }

    /// Counts what a request is going to take, if it is within the limits.
    fn reserve(&self, groups: usize, bytes: usize) -> Result<(), RequestError> {
        let options = &self.options;
        let mut table = self.table();
        if table.groups + groups > options.groups_max {
            return Err(refused(format!(
                "more than {} groups of one process; attach with several, or let the engine take \
                 more (`ShareOptions::groups_max`)",
                options.groups_max
            )));
        }
        if table.bytes + bytes > options.client_bytes_max {
            return Err(refused(format!(
                "more than {} bytes of rings of one process; use fewer subscriptions or smaller \
                 rings, or let the engine give more (`ShareOptions::client_bytes_max`)",
                options.client_bytes_max
            )));
        }
        table.groups += groups;
        table.bytes += bytes;
        Ok(())
    }

    fn unsubscribe(&self, key: u32) {
        let mut table = self.table();
        // A second time it is gone.
        if let Some(held) = table.subscriptions.remove(&key) {
            table.groups -= held.names.len();
            table.bytes -= held.bytes;
        }
    }

    /// Core threads that wait for room in the rings of a subscription go on, where there is some.
    fn tell_room(&self, key: u32) {
        if let Some(held) = self.table().subscriptions.get(&key) {
            held.rooms.iter().for_each(|room| room.tell());
        }
    }

    fn flush(&self, id: u32, position: u64, timeout: Duration) -> Result<Reply, RequestError> {
        let after = timeout.min(WAIT_MAX);
        let deadline = Instant::now() + after;
        let taken = self.flushers.wait(Some(deadline), || {
            let taken = self.taken.load(Ordering::SeqCst) >= position;
            (taken || self.line.ended().is_some()).then_some(())
        });
        let doing = "waiting for the engine to take everything";
        // The whole of it, of which the core is given what is left.
        let late = |outstanding| RequestError::Timeout {
            doing,
            after,
            outstanding,
        };
        if taken.is_none() {
            return Err(late(None));
        }
        // Until it is stable it counts as a request of the process, also when that is gone: so a
        // core thread has no more of them to look after than processes and requests are allowed.
        let own = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let over = || self.line.is_void();
            let flushed = self.node.flush_unless(left, &self.told, over);
            // What other processes have lost is told once, and then what is of this one.
            if let Some(own) = self.table().published.own(flushed) {
                break own;
            }
        };
        match own {
            Err(RequestError::Timeout { outstanding, .. }) => Err(late(outstanding)),
            Err(error) => Err(error),
            Ok(flushed) => {
                let flushed = fit_flushed(flushed);
                Ok(Reply::Flushed { id, flushed })
            }
        }
    }

    fn members(
        &self,
        id: u32,
        slot: u32,
        count: u32,
        timeout: Duration,
    ) -> Result<Reply, RequestError> {
        let publisher = self.table().publishers.get(&slot).cloned();
        let publisher = publisher.ok_or_else(|| refused("no such publisher".to_owned()))?;
        let after = timeout.min(WAIT_MAX);
        let deadline = Instant::now() + after;
        // In short waits, to see the end of the process.
        while count > 0 && self.line.ended().is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            match publisher.wait_for_unnamed(count, left.min(LOOK)) {
                Err(RequestError::TooFewReceivers { .. }) if left > LOOK => {}
                Err(RequestError::TooFewReceivers {
                    group,
                    wanted,
                    receivers,
                    ..
                }) => {
                    let error = RequestError::TooFewReceivers {
                        group,
                        wanted,
                        after,
                        receivers,
                    };
                    let named = self.node.names.add(Err(error), &self.node.cores);
                    return named.map(|()| Reply::Done { id });
                }
                other => {
                    other?;
                    break;
                }
            }
        }
        let count = publisher.members()?;
        Ok(Reply::Members { id, count })
    }

    /// The data thread: from the process's ring to publishers, until the end.
    fn carry(&self) {
        let capacity = self.options.publish_ring_bytes / size_of::<u64>();
        let mut carrier = Carrier {
            session: self,
            reader: Reader::new(Arc::clone(&self.memory), 0, capacity),
            publishers: HashMap::new(),
        };
        let mut bytes = [0; 64];
        let carried = loop {
            if let Err(end) = carrier.drain(u64::MAX) {
                break Err(end);
            }
            if self.line.is_void() {
                break Ok(());
            }
            readers_bell(&self.memory).announce();
            if !carrier.reader.is_empty() {
                continue;
            }
            match self.line.doorbell.recv(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // More than a doorbell says; it has woken us, which is all it can.
                Err(error) if error.kind() == ErrorKind::InvalidData => {}
                // What it wrote before it left; no more than the ring holds, in case it goes on.
                Ok(0) | Err(_) => break carrier.drain(carrier.reader.position() + capacity as u64),
                Ok(_) => self.tally.doorbells.add(1),
            }
        };
        // Those who flush wait for nothing any more.
        self.end(carried.err().unwrap_or(End::Left));
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the data thread has.
struct Carrier<'a> {
    session: &'a Session,
    reader: Reader<0>,
    /// Those used so far.
    publishers: HashMap<u32, Arc<OwnPublisher>>,
}

impl Carrier<'_> {
    /// Takes what is there, up to this position.
    fn drain(&mut self, until: u64) -> Result<(), End> {
        let session = self.session;
        while self.reader.position() < until {
            if session.line.is_void() {
                return Ok(());
            }
            let record = self.reader.next();
            let record = record.map_err(|_| End::Cut(CutReason::Ring))?;
            let Some(record) = record else {
                return Ok(());
            };
            let slot = record.tag & !RETIRE;
            if record.tag & RETIRE != 0 {
                self.publishers.remove(&slot);
                let mut table = session.table();
                if table.publishers.remove(&slot).is_some() {
                    table.groups -= 1;
                }
            } else {
                let publisher = match self.publishers.entry(slot) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(free) => {
                        let prepared = session.table().publishers.get(&slot).cloned();
                        free.insert(prepared.ok_or(End::Cut(CutReason::Publisher))?)
                    }
                };
                let over = || session.line.is_void();
                let sent = publisher.send_unless(record.bytes, over);
                sent.map_err(|error| End::Closed {
                    cause: error.to_string(),
                })?;
                session.tally.published.add(1);
            }
            session
                .taken
                .store(self.reader.position(), Ordering::SeqCst);
            session.flushers.wake();
            writers_bell(&session.memory).ring();
        }
        Ok(())
    }
}

fn refused(reason: String) -> RequestError {
    RequestError::Refused { reason }
}
