//! An attached process: a handle, and a thread that reads what the engine says.

use core::fmt;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use qsm_net::{LocalSocket, SharedMemory};
use qsm_wire::NodeId;
use qsm_wire::membership::GROUP_NAME_BYTES_MAX;

use super::error::AttachError;
use super::publisher::{Publisher, Waiting};
use super::requests::{Failed, PACKET_BYTES_MAX, Reply, Request, VERSION, packets_of_names};
use super::ring::{Writer, memory_words, writers_bell};
use super::session::REQUESTS_AT_ONCE;
use super::subscription::{Inbound, SubscribeOptions, Subscription, Upcalls};
use super::tally::ClientRow;
use crate::error::{CloseReason, RecvError, RequestError};
use crate::event::{Event, Events};
use crate::inbox::Inbox;
use crate::sleepers::Sleepers;
use crate::subscription::Delivery;

/// How long the engine may take to say welcome.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(5);
/// How much longer than the engine a caller waits, so that the engine's answer is the rule.
const REPLY_GRACE: Duration = Duration::from_secs(1);
/// How long entering groups may take: longer than the engine's own limit, which it answers with.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Of these the engine makes an error when there are more.
const NAME: &str = "a group's name has 1 to 255 bytes; give it another";

/// An attachment to the engine of another process, in place of a [`Node`](crate::Node) of one's
/// own.
///
/// Handles are cheap to clone and may be used from any thread. It ends with
/// [`Attached::shutdown`], when the last handle is dropped, or with the engine; then its
/// subscriptions and publishers say why.
#[derive(Clone)]
pub struct Attached {
    handle: Arc<Handle>,
}

struct Handle {
    link: Arc<Link>,
    listener: Mutex<Option<JoinHandle<()>>>,
}

/// What is asked for and not answered yet.
#[derive(Default)]
struct Pending {
    next: u32,
    answers: HashMap<u32, SyncSender<Answer>>,
}

type Answer = (Reply, Vec<OwnedFd>);

/// What handles, publishers and subscriptions share.
pub(super) struct Link {
    pub(super) socket: LocalSocket,
    pub(super) doorbell: LocalSocket,
    pub(super) memory: Arc<SharedMemory>,
    pub(super) message_bytes_max: usize,
    /// Where publishers of this process write, one after the other.
    pub(super) waiting: Mutex<Waiting>,
    client: u32,
    node: NodeId,
    slots: AtomicU32,
    pending: Mutex<Pending>,
    /// Threads that wait until they may ask.
    turns: Sleepers,
    closed: OnceLock<CloseReason>,
    inbounds: Mutex<Vec<Weak<Inbound>>>,
    readers: Mutex<Vec<Arc<Inbox<Event>>>>,
}

impl Attached {
    /// Attaches to the engine that is shared at this path.
    ///
    /// # Errors
    /// [`AttachError`], whose text says what to do.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, AttachError> {
        let path = path.as_ref();
        let link = Arc::new(Link::open(path)?);
        let listening = Arc::clone(&link);
        let thread = thread::Builder::new().name("qsm-attached".to_owned());
        let thread = thread.spawn(move || listening.listen());
        let thread = thread.map_err(|source| AttachError::of(path.to_owned(), source))?;
        let listener = Mutex::new(Some(thread));
        Ok(Self {
            handle: Arc::new(Handle { link, listener }),
        })
    }

    /// The id of the engine's node: [`Message::sender`](crate::Message::sender) of what the
    /// processes of this engine publish.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.link().node
    }

    /// The number of this process among those of the engine, from 1.
    #[must_use]
    pub fn client(&self) -> u32 {
        self.link().client
    }

    /// Receives the messages of these groups; see [`Node::subscribe`](crate::Node::subscribe).
    ///
    /// # Errors
    /// [`RequestError`]: a name or a limit of the engine is met, no membership service answers in
    /// time, or the engine has ended.
    pub fn subscribe<I>(&self, groups: I) -> Result<Subscription, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.subscribe_queued(groups, SubscribeOptions::default())
    }

    /// As [`Attached::subscribe`], with a ring of one's own choice.
    ///
    /// # Errors
    /// As [`Attached::subscribe`].
    pub fn subscribe_queued<I>(
        &self,
        groups: I,
        options: SubscribeOptions,
    ) -> Result<Subscription, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let names = names(groups)?;
        let link = self.link();
        let mut names_sent = packets_of_names(&names);
        let doing = "entering groups; is a membership service running and reachable?";
        let answer = link.ask(doing, REQUEST_TIMEOUT, |id| {
            let request = Request::Subscribe {
                id,
                ring_bytes: options.ring_bytes.map_or(0, |bytes| bytes.max(1) as u64),
                overflow: options.overflow,
            };
            names_sent.push(request.encode());
            core::mem::take(&mut names_sent)
        })?;
        let (reply, descriptors) = answer;
        let Reply::Subscribed {
            key,
            rings,
            ring_words,
            ..
        } = reply
        else {
            return Err(unexpected());
        };
        let opened = Inbound::open(names, descriptors, (rings, ring_words));
        let inbound = opened.map_err(|error| RequestError::Refused {
            reason: format!(
                "cannot map the engine's memory: {error}; check `ulimit -v` and `ulimit -n`"
            ),
        });
        // Made in any case, so that what cannot be mapped is left.
        let subscription = Subscription::new(link, key, inbound)?;
        link.list(&subscription.inbound);
        Ok(subscription)
    }

    /// As [`Attached::subscribe`], but each message is handed to `upcall`, on a thread for this
    /// subscription. Unlike the upcalls of a node it may take its time: the ring fills up
    /// meanwhile, and nothing else waits.
    ///
    /// # Errors
    /// As [`Attached::subscribe`].
    pub fn subscribe_with<I>(
        &self,
        groups: I,
        upcall: impl FnMut(Delivery<'_>) + Send + 'static,
    ) -> Result<Upcalls, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        Upcalls::start(self.subscribe(groups)?, upcall)
    }

    /// Prepares to send to a group.
    ///
    /// # Errors
    /// As [`Attached::subscribe`].
    pub fn publisher(&self, group: impl AsRef<str>) -> Result<Publisher, RequestError> {
        let mut publishers = self.publishers([group])?;
        publishers.pop().ok_or_else(unexpected)
    }

    /// Prepares to send to many groups, in one request; publishers come in the order of the names.
    ///
    /// # Errors
    /// As [`Attached::subscribe`].
    pub fn publishers<I>(&self, groups: I) -> Result<Vec<Publisher>, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let names = names(groups)?;
        let link = self.link();
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let slot = link.slots.fetch_add(count, Ordering::Relaxed);
        let mut packets = packets_of_names(&names);
        let doing = "entering groups; is a membership service running and reachable?";
        link.ask(doing, REQUEST_TIMEOUT, |id| {
            packets.push(Request::Publish { id, slot }.encode());
            core::mem::take(&mut packets)
        })?;
        let places = slot..;
        let publisher = |(slot, name)| Publisher::new(link, slot, name);
        Ok(places.zip(names).map(publisher).collect())
    }

    /// A reader of events from now on: losses in the groups of this process, subscriptions whose
    /// reader is too slow, what happens to the engine's membership of the cluster, and the end.
    #[must_use]
    pub fn events(&self) -> Events {
        let events = Events::new(1);
        let link = self.link();
        for inbox in events.mailbox.inboxes() {
            let mut readers = lock(&link.readers);
            readers.retain(|reader| !reader.is_over());
            readers.push(Arc::clone(inbox));
            if let Some(reason) = link.closed() {
                inbox.close(RecvError::Closed(reason.clone()));
            }
        }
        events
    }

    /// Waits until everything that this process has sent before is stable: every live member of
    /// its groups has it. It also waits for what other processes of the engine have sent.
    ///
    /// # Errors
    /// [`RequestError`]: timeout, the engine has ended, or [`RequestError::Unconfirmed`]: the
    /// engine was excluded since the last flush; the messages named may be those of others.
    pub fn flush(&self, timeout: Duration) -> Result<(), RequestError> {
        let doing = "waiting for all receivers to have everything";
        let link = self.link();
        let position = lock(&link.waiting).position();
        let answer = link.ask(doing, timeout, |id| {
            let request = Request::Flush {
                id,
                position,
                timeout,
            };
            vec![request.encode()]
        });
        answer.map(drop)
    }

    /// What the engine has counted of this process.
    ///
    /// # Errors
    /// [`RequestError::Closed`].
    pub fn stats(&self) -> Result<ClientRow, RequestError> {
        let ask = |id| vec![Request::Stats { id }.encode()];
        match self.link().ask("reading counters", REQUEST_TIMEOUT, ask)? {
            (Reply::Stats { values, .. }, _) => Ok(ClientRow::of_values(&values)),
            _ => Err(unexpected()),
        }
    }

    /// Why it has ended, if it has.
    #[must_use]
    pub fn closed(&self) -> Option<CloseReason> {
        self.link().closed().cloned()
    }

    /// Waits until everything sent is stable, and detaches.
    ///
    /// # Errors
    /// [`RequestError`]: it has detached, but some receivers may lack messages.
    pub fn shutdown(&self, timeout: Duration) -> Result<(), RequestError> {
        let flushed = match self.closed() {
            Some(CloseReason::ShutDown) => Ok(()),
            _ => self.flush(timeout),
        };
        self.link().close(CloseReason::ShutDown);
        flushed
    }

    fn link(&self) -> &Arc<Link> {
        &self.handle.link
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached")
            .field("client", &self.client())
            .field("closed", &self.closed())
            .finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.link.close(CloseReason::ShutDown);
        if let Some(listener) = lock(&self.listener).take() {
            // A panic there was told by the panic's own message.
            drop(listener.join());
        }
    }
}

impl Link {
    /// The handshake.
    fn open(path: &Path) -> Result<Self, AttachError> {
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
        let (client, node, message_bytes_max, ring_words) = match Reply::decode(&packet[..length]) {
            Some(Reply::Welcome { version, .. }) if version != VERSION => {
                return Err(AttachError::Version { engine: version });
            }
            Some(Reply::Welcome {
                client,
                node,
                message_bytes_max,
                ring_words,
                ..
            }) => (client, node, message_bytes_max, ring_words),
            Some(Reply::Closed { cause }) => return Err(AttachError::Refused { reason: cause }),
            _ => return Err(strange()),
        };
        socket.set_timeout(None).map_err(failed)?;
        let capacity = usize::try_from(ring_words).map_err(|_| strange())?;
        let [memory, doorbell] = <[OwnedFd; 2]>::try_from(descriptors).map_err(|_| strange())?;
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
            message_bytes_max: usize::try_from(message_bytes_max).unwrap_or(usize::MAX),
            waiting: Mutex::new(Waiting::new(writer)),
            client,
            node,
            slots: AtomicU32::new(0),
            pending: Mutex::default(),
            turns: Sleepers::default(),
            closed: OnceLock::new(),
            inbounds: Mutex::default(),
            readers: Mutex::default(),
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
        self.socket.shutdown();
        lock(&self.pending).answers.clear();
        self.turns.wake();
        writers_bell(&self.memory).ring();
        for inbound in lock(&self.inbounds).iter().filter_map(Weak::upgrade) {
            inbound.wake();
        }
        for reader in &*lock(&self.readers) {
            reader.close(RecvError::Closed(reason.clone()));
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

    fn list(&self, inbound: &Arc<Inbound>) {
        let mut inbounds = lock(&self.inbounds);
        inbounds.retain(|other| other.strong_count() > 0);
        inbounds.push(Arc::downgrade(inbound));
    }

    fn failed(&self, error: Failed, doing: &'static str) -> RequestError {
        match error {
            Failed::Closed { cause } => RequestError::Closed(CloseReason::EngineGone { cause }),
            Failed::Refused { reason } => RequestError::Refused { reason },
            Failed::Timeout { after } => RequestError::Timeout { doing, after },
            Failed::Unconfirmed { ranges, more } => RequestError::Unconfirmed { ranges, more },
        }
    }

    fn why_closed(&self) -> RequestError {
        let gone = || CloseReason::EngineGone {
            cause: "its socket has ended".to_owned(),
        };
        RequestError::Closed(self.closed().cloned().unwrap_or_else(gone))
    }

    /// The thread that hears the engine.
    fn listen(&self) {
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
        | Reply::Subscribed { id, .. }
        | Reply::Members { id, .. }
        | Reply::Stats { id, .. }
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

fn names<I>(groups: I) -> Result<Vec<Arc<str>>, RequestError>
where
    I: IntoIterator<Item: AsRef<str>>,
{
    let name = |group: I::Item| {
        let name = group.as_ref();
        let fits = (1..=GROUP_NAME_BYTES_MAX).contains(&name.len());
        fits.then(|| Arc::from(name))
    };
    let names: Option<Vec<_>> = groups.into_iter().map(name).collect();
    names.ok_or_else(|| RequestError::Refused {
        reason: NAME.to_owned(),
    })
}
