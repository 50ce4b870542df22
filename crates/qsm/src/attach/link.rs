//! An attached process's connection to the engine: requests and answers, events, and the ring that
//! its publishers write.

use core::fmt;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use qsm_net::{LocalSocket, SharedMemory};
use qsm_wire::NodeId;

use super::error::AttachError;
use super::log::View;
use super::outcome::Failed;
use super::requests::{
    PACKET_BYTES_MAX, REQUESTS_AT_ONCE, RETIRE, Reply, Request, VERSION, welcome_version,
};
use super::ring::{Writer, Written, memory_words, writers_bell};
use super::watch::{Sleep, Watch};
use crate::error::{CloseReason, RecvError, RequestError, SendError};
use crate::event::Event;
use crate::handoff::inbox::Inbox;
use crate::handoff::sleepers::Sleepers;

/// How long the engine may take to say welcome.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(5);
/// How much longer than the engine a caller waits, so that the engine's answer is the rule.
const REPLY_GRACE: Duration = Duration::from_secs(1);

/// What is asked for and not answered yet.
#[derive(Default)]
struct Pending {
    next: u32,
    answers: HashMap<u32, SyncSender<Answer>>,
}

pub(super) type Answer = (Reply, Vec<OwnedFd>);

/// A subscription of this process, as its attachment sees it.
pub(super) trait Shelf: Send + Sync {
    /// Wakes those who read it.
    fn wake(&self);

    /// Takes a copy of everything that the engine has written for it; false while somebody reads it,
    /// who calls [`Link::part`] afterwards.
    fn settle(&self) -> bool;
}

/// What handles, publishers and subscriptions share.
pub(super) struct Link {
    pub(super) socket: LocalSocket,
    pub(super) doorbell: LocalSocket,
    pub(super) memory: Arc<SharedMemory>,
    /// The engine's.
    pub(super) log: Arc<View>,
    pub(super) message_bytes_max: usize,
    /// Where publishers of this process write, one after the other.
    pub(super) waiting: Mutex<Waiting>,
    /// Tasks that wait for room, and what the longest of their messages needs, bytes.
    pub(super) room: Watch,
    pub(super) needs: AtomicUsize,
    client: u32,
    pub(super) node: NodeId,
    pub(super) slots: AtomicU32,
    pending: Mutex<Pending>,
    /// Threads that wait until they may ask.
    pub(super) turns: Sleepers,
    closed: OnceLock<CloseReason>,
    subscriptions: Mutex<Vec<Weak<dyn Shelf>>>,
    pub(super) readers: Mutex<Vec<Arc<Inbox<Event>>>>,
}

/// Where publishers of one process write, one after the other.
#[derive(Debug)]
pub(super) struct Waiting {
    writer: Writer<0>,
    /// Publishers given up when the ring was full.
    retired: Vec<u32>,
}

impl Waiting {
    pub(super) fn new(writer: Writer<0>) -> Self {
        Self {
            writer,
            retired: Vec::new(),
        }
    }

    /// How far it was written.
    pub(super) fn position(&self) -> u64 {
        self.writer.position()
    }

    pub(super) fn write(&mut self, tag: u32, bytes: &[u8]) -> Result<(), SendError> {
        while let Some(slot) = self.retired.last() {
            put(&mut self.writer, RETIRE | slot, &[])?;
            self.retired.pop();
        }
        put(&mut self.writer, tag, bytes)
    }

    /// Whether a message of this length would find room now.
    fn has_room(&mut self, bytes: usize) -> bool {
        self.writer.has_room(bytes)
    }

    /// The engine has taken everything.
    pub(super) fn is_empty(&self) -> bool {
        self.writer.queued_bytes() == 0
    }

    /// The publisher is given up; the engine is told when there is room.
    pub(super) fn give_up(&mut self, slot: u32) {
        self.retired.push(slot);
    }
}

fn put(writer: &mut Writer<0>, tag: u32, bytes: &[u8]) -> Result<(), SendError> {
    match writer.write(tag, [], bytes) {
        Ok(Written::Yes) => Ok(()),
        // One that never fits is longer than the engine has said.
        Ok(Written::Full | Written::Never) => Err(SendError::Full),
        Err(_) => Err(SendError::Closed(CloseReason::EngineGone {
            cause: "its side of the ring says what cannot be".to_owned(),
        })),
    }
}

impl Link {
    /// The handshake.
    pub(super) fn open(path: &Path) -> Result<Self, AttachError> {
        let failed = |source| AttachError::of(path.to_owned(), source);
        let socket = LocalSocket::connect(path).map_err(failed)?;
        socket.set_timeout(Some(WELCOME_TIMEOUT)).map_err(failed)?;
        // An engine that refuses has said why, and may be gone before it hears this.
        drop(socket.send(&Request::Hello { version: VERSION }.encode()));
        let mut packet = vec![0; PACKET_BYTES_MAX];
        let received = socket.recv_with(&mut packet);
        let (length, descriptors) = received.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => AttachError::Silent {
                path: path.to_owned(),
                after: WELCOME_TIMEOUT,
            },
            _ => failed(error),
        })?;
        let strange = || failed(ErrorKind::InvalidData.into());
        let packet = &packet[..length];
        if let Some(engine) = welcome_version(packet).filter(|version| *version != VERSION) {
            return Err(AttachError::Version { engine });
        }
        let (client, node, message_bytes_max, ring_words, log_words) = match Reply::decode(packet) {
            Some(Reply::Welcome {
                client,
                node,
                message_bytes_max,
                ring_words,
                log_words,
                ..
            }) => (client, node, message_bytes_max, ring_words, log_words),
            Some(Reply::Closed { cause }) => return Err(AttachError::Refused { reason: cause }),
            _ => return Err(strange()),
        };
        socket.set_timeout(None).map_err(failed)?;
        let capacity = usize::try_from(ring_words).map_err(|_| strange())?;
        let [memory, doorbell, log] =
            <[OwnedFd; 3]>::try_from(descriptors).map_err(|_| strange())?;
        if !capacity.is_power_of_two() {
            return Err(strange());
        }
        let memory = SharedMemory::open(memory, memory_words(1, capacity)).map_err(failed)?;
        let memory = Arc::new(memory);
        let writer = Writer::new(Arc::clone(&memory), 0, capacity);
        Ok(Self {
            socket,
            doorbell: doorbell.into(),
            memory,
            log: Arc::new(View::open(log, log_words).map_err(failed)?),
            message_bytes_max: usize::try_from(message_bytes_max).unwrap_or(usize::MAX),
            waiting: Mutex::new(Waiting::new(writer)),
            room: Watch::default(),
            needs: AtomicUsize::new(0),
            client,
            node,
            slots: AtomicU32::new(0),
            pending: Mutex::default(),
            turns: Sleepers::default(),
            closed: OnceLock::new(),
            subscriptions: Mutex::default(),
            readers: Mutex::default(),
        })
    }

    /// For the thread that sleeps in place of tasks.
    pub(super) fn sleep_for_room(link: &Arc<Self>) -> Sleep {
        let link = Arc::clone(link);
        Box::new(move || {
            let changed = || {
                let needs = link.needs.load(Ordering::SeqCst);
                let over = link.closed().is_some();
                (over || lock(&link.waiting).has_room(needs)).then_some(over)
            };
            let over = writers_bell(&link.memory).wait(None, changed);
            link.needs.store(0, Ordering::SeqCst);
            // Without a deadline a wait ends only with a result.
            over.unwrap_or(true)
        })
    }

    pub(super) fn closed(&self) -> Option<&CloseReason> {
        self.closed.get()
    }

    /// Asks the engine for something in these packets, and waits for the answer.
    pub(super) fn ask(
        &self,
        doing: &'static str,
        timeout: Duration,
        packets: impl FnOnce(u32) -> Vec<Vec<u8>>,
    ) -> Result<Answer, RequestError> {
        let (sender, answer) = sync_channel(1);
        let id = self.send(sender, packets);
        let deadline = Instant::now().checked_add(timeout.saturating_add(REPLY_GRACE));
        let answer = self.wait(&answer, deadline);
        let result = match answer {
            Ok((Reply::Failed { error, .. }, _)) => Err(self.failed(error, doing)),
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => Err(RequestError::Timeout {
                doing,
                after: timeout,
                outstanding: None,
            }),
            Err(RecvTimeoutError::Disconnected) => Err(self.why_closed()),
        };
        self.forget(id);
        result
    }

    /// Tells the engine something that it does not answer.
    pub(super) fn tell(&self, request: &Request) {
        let _order = lock(&self.pending);
        // An engine that is gone has released everything.
        drop(self.socket.send(&request.encode()));
    }

    /// Tells events to those who read them.
    pub(super) fn tell_event(&self, event: &Event) {
        let mut readers = lock(&self.readers);
        readers.retain(|reader| !reader.is_over());
        for reader in &*readers {
            reader.offer(0, || event.clone());
            reader.wake();
        }
    }

    /// Ends it; the first reason stays. Everybody who waits is told.
    pub(super) fn close(&self, reason: CloseReason) {
        if self.closed.set(reason.clone()).is_err() {
            return;
        }
        if self.is_parting() {
            self.socket.shutdown_receiving();
            fence(Ordering::SeqCst);
            self.part();
        } else {
            self.socket.shutdown();
        }
        lock(&self.pending).answers.clear();
        self.turns.wake();
        writers_bell(&self.memory).ring();
        for subscription in lock(&self.subscriptions).iter().filter_map(Weak::upgrade) {
            subscription.wake();
        }
        for reader in &*lock(&self.readers) {
            reader.close(RecvError::Closed(reason.clone()));
        }
    }

    /// This process has ended it, and not the engine.
    pub(super) fn is_parting(&self) -> bool {
        self.closed() == Some(&CloseReason::ShutDown)
    }

    /// Tells the engine that this process has left, when all subscriptions have copies of what was
    /// not read: afterwards it writes where that lies.
    pub(super) fn part(&self) {
        let subscriptions = lock(&self.subscriptions);
        let there = subscriptions.iter().filter_map(Weak::upgrade);
        let busy = there.filter(|subscription| !subscription.settle());
        if busy.count() == 0 {
            self.socket.shutdown();
        }
    }

    /// Sends all packets of a request before those of another, when fewer than may be are under
    /// way.
    fn send(&self, sender: SyncSender<Answer>, packets: impl FnOnce(u32) -> Vec<Vec<u8>>) -> u32 {
        let turn = || {
            let pending = lock(&self.pending);
            (pending.answers.len() < REQUESTS_AT_ONCE || self.closed().is_some()).then_some(pending)
        };
        // Without a deadline a wait ends only with a result.
        let turn = self.turns.wait(None, turn);
        let mut pending = turn.unwrap_or_else(|| lock(&self.pending));
        let id = pending.next;
        pending.next = id.wrapping_add(1);
        let packets = packets(id);
        let mut packets = packets.iter();
        let sent = packets.try_for_each(|packet| self.socket.send(packet));
        // Dropping the sender says that no answer will come.
        if sent.is_ok() && self.closed().is_none() {
            pending.answers.insert(id, sender);
        }
        id
    }

    /// Nobody waits for this answer any more, and another may be asked for.
    fn forget(&self, id: u32) -> Option<SyncSender<Answer>> {
        let forgotten = lock(&self.pending).answers.remove(&id);
        self.turns.wake();
        forgotten
    }

    fn wait(
        &self,
        answer: &Receiver<Answer>,
        deadline: Option<Instant>,
    ) -> Result<Answer, RecvTimeoutError> {
        match deadline {
            None => answer.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => {
                answer.recv_timeout(deadline.saturating_duration_since(Instant::now()))
            }
        }
    }

    /// Whoever reads it is woken at the end; an error if that has come.
    pub(super) fn list(&self, subscription: Weak<dyn Shelf>) -> Result<(), RequestError> {
        let mut subscriptions = lock(&self.subscriptions);
        subscriptions.retain(|other| other.strong_count() > 0);
        subscriptions.push(subscription);
        match self.closed() {
            Some(reason) => Err(RequestError::Closed(reason.clone())),
            None => Ok(()),
        }
    }

    fn failed(&self, error: Failed, doing: &'static str) -> RequestError {
        match error {
            Failed::Closed { cause } => RequestError::Closed(CloseReason::EngineGone { cause }),
            Failed::Refused { reason } => RequestError::Refused { reason },
            Failed::Timeout { after, outstanding } => RequestError::Timeout {
                doing,
                after,
                outstanding,
            },
            Failed::Unconfirmed { ranges, more } => RequestError::Unconfirmed { ranges, more },
            Failed::TooFewReceivers {
                group,
                wanted,
                after,
                receivers,
            } => RequestError::TooFewReceivers {
                group,
                wanted,
                after,
                receivers,
            },
        }
    }

    fn why_closed(&self) -> RequestError {
        let gone = || CloseReason::EngineGone {
            cause: "its socket has ended".to_owned(),
        };
        RequestError::Closed(self.closed().cloned().unwrap_or_else(gone))
    }

    /// The thread that hears the engine.
    pub(super) fn listen(&self) {
        let mut packet = vec![0; PACKET_BYTES_MAX];
        let cause = loop {
            let (reply, descriptors) = match self.socket.recv_with(&mut packet) {
                Ok((0, _)) => break "its process has ended".to_owned(),
                Ok((length, descriptors)) => (Reply::decode(&packet[..length]), descriptors),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => break error.to_string(),
            };
            match reply {
                Some(Reply::Closed { cause }) => break cause,
                Some(Reply::Event(event)) => self.tell_event(&event),
                Some(reply) => self.answered(reply, descriptors),
                None => break "it said what is no message; is it of the same version?".to_owned(),
            }
        };
        self.close(CloseReason::EngineGone { cause });
    }

    fn answered(&self, reply: Reply, descriptors: Vec<OwnedFd>) {
        let (Reply::Done { id }
        | Reply::Flushed { id, .. }
        | Reply::Subscribed { id, .. }
        | Reply::Members { id, .. }
        | Reply::Stats { id, .. }
        | Reply::Rows { id, .. }
        | Reply::Failed { id, .. }) = reply
        else {
            return;
        };
        match (self.forget(id), &reply) {
            (Some(waiting), _) => drop(waiting.try_send((reply, descriptors))),
            // Nobody waits for it any more.
            (None, Reply::Subscribed { key, .. }) => self.tell(&Request::Unsubscribe { key: *key }),
            (None, _) => {}
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("client", &self.client)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

/// What a panic of another thread left is valid: every change is one step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The engine's answer was to another question.
pub(super) fn unexpected() -> RequestError {
    RequestError::Refused {
        reason: "the engine answered another question; is it of the same version?".to_owned(),
    }
}
