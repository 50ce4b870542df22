//! A replica over a node: a thread that carries words between its core and the groups.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, WaitTimeoutResult};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use qsm::{ErrorCode, Node, Publisher, Received, RecvError, RequestError, SendError, Subscription};

use crate::core::{Core, Output};
use crate::limits::Limits;
use crate::machine::StateMachine;
use crate::notice::{BindError, Notice};
use crate::order::Order;
use crate::sequence::BATCH;
use crate::stats::ReplicaStats;
use crate::word::Address;

/// The core is told the time so often.
const TICK: Duration = Duration::from_millis(5);
/// Messages that are taken before the core is told the time.
const RUN: usize = 1024;
/// The membership service is asked for the number of members so often, while nobody is live, and
/// under a total order.
const CENSUS: Duration = Duration::from_millis(100);
/// A replica that is dropped is needed for so long at most.
const LEAVING: Duration = Duration::from_millis(500);
/// Notices that wait to be read; the oldest are dropped.
const NOTICES: usize = 256;
/// Wakers that wait for a change; beyond, all are woken, and who still waits asks again.
const WAKERS: usize = 64;

/// A replica of a state, at one node. A node has one of each name at most. Dropping it leaves the group; under
/// [`Order::Total`] this takes up to half a second, in which others are told to go on without it.
#[derive(Debug)]
pub struct Replica<S> {
    shared: Arc<Shared<S>>,
    /// Updates go to the group in the order of their numbers.
    updates: Mutex<Publisher>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<S> {
    inner: Mutex<Inner<S>>,
    changed: Condvar,
    stop: AtomicBool,
    origin: Instant,
}

#[derive(Debug)]
struct Inner<S> {
    core: Core<S>,
    notices: VecDeque<Notice>,
    end: Option<ReplicaError>,
    wakers: Vec<Waker>,
}

/// Why a replica does not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplicaError {
    /// It is not live: wait for it ([`Replica::wait_live`]), and send again.
    NotLive,
    /// It could not bind, and has ended. Join again.
    Bind(BindError),
    /// The node refused a request.
    Request(RequestError),
    /// The node did not take the update.
    Send(SendError),
    /// The subscription has ended, and the replica with it.
    Recv(RecvError),
    /// No thread could be started.
    Thread,
}

impl ReplicaError {
    /// Its stable number.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotLive => ErrorCode::ReplicaNotLive,
            Self::Bind(BindError::Foreign | BindError::Order) => ErrorCode::ReplicaOther,
            Self::Bind(_) => ErrorCode::ReplicaBind,
            Self::Request(error) => error.code(),
            Self::Send(error) => error.code(),
            Self::Recv(error) => error.code(),
            Self::Thread => ErrorCode::StartSystem,
        }
    }
}

impl fmt::Display for ReplicaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLive => {
                f.write_str("the replica is not live; wait for it, and send the update again")
            }
            Self::Bind(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
            Self::Send(error) => error.fmt(f),
            Self::Recv(error) => error.fmt(f),
            Self::Thread => {
                f.write_str("no thread could be started; see the limits of this process")
            }
        }
    }
}

impl std::error::Error for ReplicaError {}

impl From<RequestError> for ReplicaError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl<S> Shared<S> {
    /// A panic of the state machine in another thread leaves the state as it was then.
    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until this is false, but no longer than the timeout.
    fn wait_while(
        &self,
        timeout: Duration,
        waiting: impl FnMut(&mut Inner<S>) -> bool,
    ) -> (MutexGuard<'_, Inner<S>>, WaitTimeoutResult) {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), timeout, waiting);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Has all look who wait for a change.
    fn wake(&self) {
        // Before threads go on, which may begin to wait for the next change.
        let wakers = std::mem::take(&mut self.lock().wakers);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl<S: StateMachine + Send + 'static> Replica<S> {
    /// Enters the group `name` and begins to bind. `state` is what it has if it turns out to be the first of all, which
    /// takes a second. Beside `name` the groups `name/bind` and `name/bind/ADDRESS` are used.
    ///
    /// # Errors
    /// The node refuses one of the groups, or no thread can be started.
    pub fn join(node: &Node, name: &str, state: S, limits: Limits) -> Result<Self, ReplicaError> {
        Self::join_in_order(node, name, state, Order::Source, limits)
    }

    /// As [`Replica::join`], of a group that applies updates in this order. Under [`Order::Total`] a replica must not
    /// change its state but by updates, so `update` of [`Replica::update_by`] only looks at it.
    ///
    /// # Errors
    /// As [`Replica::join`].
    pub fn join_in_order(
        node: &Node,
        name: &str,
        state: S,
        order: Order,
        limits: Limits,
    ) -> Result<Self, ReplicaError> {
        let seed = RandomState::new().build_hasher().finish();
        let origin = Instant::now();
        let core = Core::ordered(state, order, limits, seed, Duration::ZERO);
        let words = format!("{name}/bind");
        let inbox = inbox(&words, core.address());
        let subscription = node.subscribe([name, &words, &inbox])?;
        let updates = Mutex::new(node.publisher(name)?);
        let said = node.publisher(&words)?;
        let inner = Mutex::new(Inner {
            core,
            notices: VecDeque::new(),
            end: None,
            wakers: Vec::new(),
        });
        let (changed, stop) = (Condvar::new(), AtomicBool::new(false));
        let shared = Arc::new(Shared {
            inner,
            changed,
            stop,
            origin,
        });
        let carrier = Carrier {
            shared: Arc::clone(&shared),
            node: node.clone(),
            subscription,
            name: name.to_owned(),
            words,
            said,
            inboxes: BTreeMap::new(),
            order,
            members: None,
            counted: None,
            changes: 0,
        };
        let thread = thread::Builder::new()
            .name("qsm-replica".to_owned())
            .spawn(move || carrier.run());
        let thread = Some(thread.map_err(|_| ReplicaError::Thread)?);
        Ok(Self {
            shared,
            updates,
            thread,
        })
    }

    /// Publishes an update, to this replica as to all others, which apply it when it comes, or, under [`Order::Total`],
    /// when it is its turn. Waits while the network is slower, and while too many of its own wait for their turn
    /// ([`Limits::held_bytes`]). An update is at all replicas once [`Node::flush`] has said so; if this replica binds
    /// anew before ([`Notice::Rebinds`]), it may be lost.
    ///
    /// # Errors
    /// The replica is not live, or the node does not take the message.
    pub fn update(&self, content: &[u8]) -> Result<(), ReplicaError> {
        self.update_by(|_| Ok(content.to_vec()))
    }

    /// As [`Replica::update`], of an update that the state writes, and may apply at once if its coming again changes
    /// nothing.
    ///
    /// # Errors
    /// As [`Replica::update`], and what `update` fails with; then nothing is published.
    pub fn update_by<E: From<ReplicaError>>(
        &self,
        update: impl FnOnce(&mut S) -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        let publisher = self.updates.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |inner: &mut Inner<S>| inner.end.is_none() && !inner.core.has_room();
        let waited = self.shared.changed.wait_while(self.shared.lock(), full);
        let mut inner = waited.unwrap_or_else(PoisonError::into_inner);
        let Some(message) = inner.core.publish_by(update) else {
            return Err(inner.end.clone().unwrap_or(ReplicaError::NotLive).into());
        };
        // Not held while it waits: the thread that empties the queues needs it.
        drop(inner);
        let message = message?;
        self.shared.wake();
        let sent = publisher.send_owned(message);
        sent.map_err(|error| {
            self.shared.lock().core.lost(self.shared.now());
            ReplicaError::Send(error).into()
        })
    }

    /// Reads the state. Updates wait meanwhile. Old, or with a hole, unless [`Replica::is_live`].
    pub fn read<R>(&self, read: impl FnOnce(&S) -> R) -> R {
        read(self.shared.lock().core.state())
    }

    /// Tells whether the state follows every update.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let inner = self.shared.lock();
        inner.end.is_none() && inner.core.is_live()
    }

    /// Number of updates that the state is made of.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.shared.lock().core.updates()
    }

    /// Tells whether this replica is one of those, five at most, a majority of which has to have an update before it is
    /// applied; only under [`Order::Total`].
    #[must_use]
    pub fn votes(&self) -> bool {
        self.shared.lock().core.votes()
    }

    /// Number of the replicas that vote, this one included if it does; 0 without [`Order::Total`]. Of three one may die
    /// or bind anew at a time, of five two; then the number is less, until another replica takes the place.
    #[must_use]
    pub fn voters(&self) -> usize {
        self.shared.lock().core.voters()
    }

    /// Number of updates that this replica has published and that are not in its state yet.
    #[must_use]
    pub fn unapplied(&self) -> u64 {
        self.shared.lock().core.unapplied()
    }

    /// Waits until the replica is live.
    ///
    /// # Errors
    /// [`ReplicaError::NotLive`] after this time; or what it ended by.
    pub fn wait_live(&self, timeout: Duration) -> Result<(), ReplicaError> {
        let waiting = |inner: &mut Inner<S>| !inner.core.is_live() && inner.end.is_none();
        let (inner, _) = self.shared.wait_while(timeout, waiting);
        match &inner.end {
            Some(end) => Err(end.clone()),
            None if inner.core.is_live() => Ok(()),
            None => Err(ReplicaError::NotLive),
        }
    }

    /// Waits until so many updates are in the state of this replica and it is live.
    ///
    /// # Errors
    /// As [`Replica::wait_live`].
    pub fn wait_updates(&self, updates: u64, timeout: Duration) -> Result<(), ReplicaError> {
        let waiting = |inner: &mut Inner<S>| {
            let there = inner.core.is_live() && inner.core.updates() >= updates;
            !there && inner.end.is_none()
        };
        let (inner, waited) = self.shared.wait_while(timeout, waiting);
        match &inner.end {
            Some(end) => Err(end.clone()),
            None if waited.timed_out() => Err(ReplicaError::NotLive),
            None => Ok(()),
        }
    }

    /// Waits until the state, live or not, has what `ready` looks for; `None` after this time.
    ///
    /// # Errors
    /// The replica has ended, and `ready` finds nothing.
    pub fn wait_for<R>(
        &self,
        timeout: Duration,
        mut ready: impl FnMut(&S) -> Option<R>,
    ) -> Result<Option<R>, ReplicaError> {
        let mut found = None;
        let waiting = |inner: &mut Inner<S>| {
            found = ready(inner.core.state());
            found.is_none() && inner.end.is_none()
        };
        let (inner, _) = self.shared.wait_while(timeout, waiting);
        match &inner.end {
            Some(end) if found.is_none() => Err(end.clone()),
            _ => Ok(found),
        }
    }

    /// Looks for the same without waiting: if there is nothing, the task is woken once the state has changed, or whether
    /// it is live, or the replica has ended; now and then without either.
    pub fn poll_for<R>(
        &self,
        context: &Context<'_>,
        ready: impl FnOnce(&S) -> Option<R>,
    ) -> Poll<Result<R, ReplicaError>> {
        let mut inner = self.shared.lock();
        if let Some(found) = ready(inner.core.state()) {
            return Poll::Ready(Ok(found));
        }
        if let Some(end) = &inner.end {
            return Poll::Ready(Err(end.clone()));
        }
        let waker = context.waker();
        if inner.wakers.iter().any(|other| other.will_wake(waker)) {
            return Poll::Pending;
        }
        inner.wakers.push(waker.clone());
        if inner.wakers.len() > WAKERS {
            drop(inner);
            self.shared.wake();
        }
        Poll::Pending
    }

    /// Why it has ended; `None` while it goes on.
    #[must_use]
    pub fn ended(&self) -> Option<ReplicaError> {
        self.shared.lock().end.clone()
    }

    /// Its counters, since it joined.
    #[must_use]
    pub fn stats(&self) -> ReplicaStats {
        self.shared.lock().core.stats()
    }

    /// Takes the notices of this replica since the last call, the newest 256.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        self.shared.lock().notices.drain(..).collect()
    }
}

impl<S> Drop for Replica<S> {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the state machine has been told where it happened.
            drop(thread.join());
        }
    }
}

fn inbox(words: &str, address: Address) -> String {
    format!("{words}/{:016x}", address.0)
}

/// State of the thread.
struct Carrier<S> {
    shared: Arc<Shared<S>>,
    node: Node,
    subscription: Subscription,
    name: String,
    words: String,
    said: Publisher,
    /// Publishers to joiners, kept while their transfer goes on.
    inboxes: BTreeMap<Address, Inbox>,
    order: Order,
    members: Option<u32>,
    counted: Option<Duration>,
    /// Changes of the core that have been told.
    changes: u64,
}

struct Inbox {
    publisher: Publisher,
    used: Duration,
}

/// A joiner that nothing was sent to for so long is done.
const INBOX_IDLE: Duration = Duration::from_secs(10);

impl<S: StateMachine> Carrier<S> {
    fn run(mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            if let Err(end) = self.turn() {
                self.shared.lock().end = Some(end);
                return self.shared.wake();
            }
        }
        self.leave();
        self.shared.wake();
    }

    /// Goes on until the others need this replica no more. What goes wrong now concerns nobody.
    fn leave(&mut self) {
        let until = self.shared.now() + LEAVING;
        self.shared.lock().core.leave(self.shared.now());
        while self.turn().is_ok() {
            let done = self.shared.lock().core.may_end();
            if done || self.shared.now() > until {
                return;
            }
        }
    }

    fn turn(&mut self) -> Result<(), ReplicaError> {
        let pending = self.shared.lock().core.is_pending();
        let mut received = self
            .subscription
            .recv_timeout(if pending { BATCH } else { TICK })
            .map_err(ReplicaError::Recv)?;
        let mut taken = 0;
        while let Some(item) = received.take() {
            self.hear(&item);
            taken += 1;
            if taken < RUN {
                received = self.subscription.try_recv().map_err(ReplicaError::Recv)?;
            }
        }
        self.count()?;
        let now = self.shared.now();
        self.shared.lock().core.tick(self.members, now);
        self.inboxes
            .retain(|_, inbox| now.saturating_sub(inbox.used) < INBOX_IDLE);
        self.speak(now)?;
        let changes = self.shared.lock().core.changes();
        if changes != self.changes {
            self.changes = changes;
            self.shared.wake();
        }
        Ok(())
    }

    fn hear(&self, item: &Received) {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        match item {
            Received::Message(message) if message.group() == self.name => {
                inner.core.update(message.bytes(), now);
            }
            Received::Message(message) => inner.core.word(message.bytes(), now),
            // Nothing is missing there.
            Received::Back(_) => {}
            Received::Lost(lost) if *lost.group != *self.name => {}
            _ => inner.core.lost(now),
        }
    }

    /// Asks for the number of members now and then, as long as it matters.
    fn count(&mut self) -> Result<(), ReplicaError> {
        let now = self.shared.now();
        let due = self
            .counted
            .is_none_or(|at| now.saturating_sub(at) >= CENSUS);
        if due && (self.order == Order::Total || !self.shared.lock().core.is_live()) {
            self.counted = Some(now);
            self.members = Some(self.said.members()?);
        }
        Ok(())
    }

    fn speak(&mut self, now: Duration) -> Result<(), ReplicaError> {
        loop {
            let output = self.shared.lock().core.take();
            match output {
                None => return Ok(()),
                Some(Output::All(word)) => {
                    self.said.send_owned(word).map_err(ReplicaError::Send)?;
                }
                Some(Output::One(to, word)) => self.send(to, word, now)?,
                Some(Output::Tell(notice)) => self.tell(notice)?,
            }
        }
    }

    fn send(&mut self, to: Address, word: Vec<u8>, now: Duration) -> Result<(), ReplicaError> {
        if !self.inboxes.contains_key(&to) {
            let publisher = self.node.publisher(inbox(&self.words, to))?;
            self.inboxes.insert(
                to,
                Inbox {
                    publisher,
                    used: now,
                },
            );
        }
        if let Some(inbox) = self.inboxes.get_mut(&to) {
            inbox.used = now;
            // What finds no room is asked for again: updates go before snapshots.
            if let Err(unsent) = inbox.publisher.try_send_owned(word)
                && unsent.error != SendError::Full
            {
                return Err(ReplicaError::Send(unsent.error));
            }
        }
        Ok(())
    }

    fn tell(&self, notice: Notice) -> Result<(), ReplicaError> {
        let mut inner = self.shared.lock();
        if inner.notices.len() == NOTICES {
            inner.notices.pop_front();
        }
        inner.notices.push_back(notice);
        match notice {
            Notice::Failed(error) => Err(ReplicaError::Bind(error)),
            Notice::Live { .. } | Notice::Rebinds(_) | Notice::Sequencer { .. } => Ok(()),
        }
    }
}
