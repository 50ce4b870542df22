//! What application threads and a core thread share: queues and flags, no protocol state.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use qsm_net::Waker;
use qsm_wire::NodeId;
use qsm_wire::membership::{GroupRow, NodeRow, QueryKind, RegionRow};

use crate::attach::RingSink;
use crate::builder::Builder;
use crate::core::{Core, Told};
use crate::error::{CloseReason, RequestError};
use crate::event::Event;
use crate::feed::{Feed, FeedHandle};
use crate::inbox::Inbox;
use crate::outlet::{Gate, Outlet};
use crate::snapshot::Snapshot;
use crate::subscription::{Delivery, Message};

/// How much longer than the core a caller waits, so that the core's answer is the rule.
const REPLY_GRACE: Duration = Duration::from_millis(500);

/// How often one who waits for somebody else looks whether that one is still there.
const LOOK: Duration = Duration::from_millis(100);

/// Where the answer to a command goes; dropped without answer when the node ends.
pub(crate) type Reply<T> = SyncSender<Result<T, RequestError>>;

/// An application's function for upcalls.
pub(crate) type Upcall = Box<dyn FnMut(Delivery<'_>) + Send>;

/// Where the messages of a subscription go.
pub(crate) enum Sink {
    Queue(Arc<Inbox<Message>>),
    Upcall(Upcall),
    /// Shared memory of an attached process.
    Ring(Box<RingSink>),
}

/// The answer to a query.
pub(crate) enum Rows {
    Nodes(Vec<NodeRow>),
    Groups(Vec<GroupRow>),
    Regions(Vec<RegionRow>),
}

/// What application threads, or the node's other cores, want of a core, beside sending.
pub(crate) enum Command {
    /// A core of this node finds no membership service: start one, or say where it is.
    Embed,
    Events {
        inbox: Arc<Inbox<Event>>,
    },
    Feed {
        name: Arc<str>,
        feed: Box<dyn Feed>,
        reply: Reply<FeedHandle>,
    },
    Flush {
        deadline: Instant,
        /// What the one who flushes has been told of.
        told: Told,
        reply: Reply<()>,
    },
    Leave {
        names: Vec<Arc<str>>,
        deadline: Instant,
        reply: Reply<()>,
    },
    Members {
        name: Arc<str>,
        reply: Reply<u32>,
    },
    Publish {
        names: Vec<Arc<str>>,
        deadline: Instant,
        reply: Reply<Vec<Arc<Outlet>>>,
    },
    Query {
        kind: QueryKind,
        deadline: Instant,
        reply: Reply<Rows>,
    },
    Retire {
        slot: u32,
    },
    /// The membership service is there.
    Service {
        address: SocketAddr,
    },
    ServiceYielded,
    Shutdown {
        deadline: Instant,
        /// What handles will be told.
        reason: CloseReason,
        reply: Option<Reply<()>>,
    },
    Snapshot {
        reply: Reply<Snapshot>,
    },
    Subscribe(Subscribe),
    Unsubscribe {
        key: u64,
    },
    WaitAdmitted {
        deadline: Instant,
        reply: Reply<()>,
    },
    WaitMembers {
        name: Arc<str>,
        count: u32,
        deadline: Instant,
        reply: Reply<()>,
    },
}

pub(crate) struct Subscribe {
    pub(crate) key: u64,
    pub(crate) names: Arc<[Arc<str>]>,
    pub(crate) sink: Sink,
    pub(crate) deadline: Instant,
    pub(crate) reply: Reply<()>,
}

pub(crate) struct Shared {
    /// Bounded by the callers: each waits for its answer, or drops a handle it had.
    commands: SegQueue<Command>,
    /// Sources that have something to send; each is in here at most once.
    ready: SegQueue<u32>,
    pub(crate) gate: Gate,
    pub(crate) message_bytes_max: usize,
    /// The node, as all its cores call it.
    node: NodeId,
    /// How long requests to the membership service may take.
    request_timeout: Duration,
    waker: Waker,
    /// Nothing is accepted any more; what was accepted is still being delivered.
    closing: AtomicBool,
    closed: OnceLock<CloseReason>,
    keys: AtomicU64,
    /// Ranges of messages that former lives have left unconfirmed.
    pub(crate) voids: AtomicU64,
    /// Of these, those that the node's own flushes have told.
    pub(crate) told: Told,
    /// The core, while its thread sleeps.
    lent: Mutex<Option<Box<Core>>>,
    /// Kept when the node ends.
    last: Mutex<Option<Snapshot>>,
}

impl Shared {
    pub(crate) fn new(node: NodeId, builder: &Builder, waker: Waker) -> Self {
        Self {
            commands: SegQueue::new(),
            ready: SegQueue::new(),
            gate: Gate::new(builder.queues),
            message_bytes_max: builder.limits.message_bytes,
            node,
            request_timeout: builder.request_timeout,
            waker,
            closing: AtomicBool::new(false),
            closed: OnceLock::new(),
            keys: AtomicU64::new(1),
            voids: AtomicU64::new(0),
            told: Told::default(),
            lent: Mutex::new(None),
            last: Mutex::new(None),
        }
    }

    /// A number for a new subscription.
    pub(crate) fn key(&self) -> u64 {
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether this is a core thread of the same node, whichever.
    pub(crate) fn on_core_thread(&self) -> bool {
        CORE_OF.get() == Some(self.node)
    }

    pub(crate) fn check_open(&self) -> Result<(), CloseReason> {
        if !self.closing.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(self.closed.get().cloned().unwrap_or(CloseReason::ShutDown))
    }

    pub(crate) fn closed(&self) -> Option<&CloseReason> {
        self.closed.get()
    }

    /// The publisher in this place has something to send: it does so itself if the core sleeps.
    pub(crate) fn send(&self, slot: u32) {
        let sent = match self.lent.try_lock() {
            Ok(mut lent) => lent.as_mut().is_some_and(|core| core.send_now(slot)),
            Err(_) => false,
        };
        if !sent {
            self.announce(slot);
        }
    }

    /// As the core thread, which is going to sleep.
    pub(crate) fn lend(&self, core: Box<Core>) {
        *self.lent.lock().unwrap_or_else(PoisonError::into_inner) = Some(core);
    }

    /// As the core thread, once it is awake.
    pub(crate) fn take_back(&self) -> Box<Core> {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        lent.take().expect("only the core thread takes it")
    }

    /// The source in this place has something to send.
    pub(crate) fn announce(&self, slot: u32) {
        self.ready.push(slot);
        self.waker.wake();
    }

    /// Lets the core look around.
    pub(crate) fn nudge(&self) {
        self.waker.wake();
    }

    /// Gives the core a command, without an answer.
    pub(crate) fn tell(&self, command: Command) {
        self.commands.push(command);
        if self.closed.get().is_some() {
            self.discard();
        } else {
            self.waker.wake();
        }
    }

    /// Gives the core a command and waits for the answer, `timeout` or as long as requests may
    /// take.
    pub(crate) fn ask<T>(
        &self,
        doing: &'static str,
        timeout: Option<Duration>,
        command: impl FnOnce(Reply<T>, Instant) -> Command,
    ) -> Result<T, RequestError> {
        self.request(doing, timeout, command)?.wait()
    }

    /// The same, without waiting yet: so one can ask several cores at once.
    pub(crate) fn request<T>(
        &self,
        doing: &'static str,
        timeout: Option<Duration>,
        command: impl FnOnce(Reply<T>, Instant) -> Command,
    ) -> Result<Answer<'_, T>, RequestError> {
        if self.on_core_thread() {
            return Err(RequestError::OnCoreThread);
        }
        let after = timeout.unwrap_or(self.request_timeout).min(TIMEOUT_MAX);
        let (reply, answer) = sync_channel(1);
        let deadline = Instant::now() + after;
        self.tell(command(reply, deadline));
        Ok(Answer {
            shared: self,
            doing,
            after,
            deadline,
            answer,
        })
    }

    pub(crate) fn last_snapshot(&self) -> Option<Snapshot> {
        self.last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The core's answer to a command whose deadline has passed.
    pub(crate) fn timeout(&self, doing: &'static str) -> RequestError {
        RequestError::Timeout {
            doing,
            after: self.request_timeout,
        }
    }

    /// The calling thread is the core thread.
    pub(crate) fn started(&self) {
        CORE_OF.set(Some(self.node));
    }

    pub(crate) fn next_command(&self) -> Option<Command> {
        self.commands.pop()
    }

    pub(crate) fn next_ready(&self) -> Option<u32> {
        self.ready.pop()
    }

    /// From now on nothing is accepted.
    pub(crate) fn begin_closing(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.gate.sleepers.wake();
    }

    /// The node has ended: everybody is told, nobody waits any more.
    pub(crate) fn finish(&self, reason: CloseReason, last: Option<Snapshot>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
        // The first reason stays.
        drop(self.closed.set(reason));
        self.begin_closing();
        self.discard();
    }

    /// Drops commands, and with them the places for their answers.
    fn discard(&self) {
        while self.commands.pop().is_some() {}
    }

    fn why_closed(&self) -> RequestError {
        RequestError::Closed(self.closed.get().cloned().unwrap_or(CloseReason::ShutDown))
    }
}

/// What a core was asked for, and will say.
pub(crate) struct Answer<'a, T> {
    shared: &'a Shared,
    doing: &'static str,
    after: Duration,
    deadline: Instant,
    answer: Receiver<Result<T, RequestError>>,
}

impl<T> Answer<'_, T> {
    /// As [`Answer::wait`], but gives up when nobody wants the answer any more.
    pub(crate) fn wait_unless(self, over: impl Fn() -> bool) -> Result<T, RequestError> {
        let Self { doing, after, .. } = self;
        let last = self.deadline + REPLY_GRACE;
        loop {
            let left = last.saturating_duration_since(Instant::now());
            match self.answer.recv_timeout(left.min(LOOK)) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Err(self.shared.why_closed()),
                Err(RecvTimeoutError::Timeout) if left > LOOK && !over() => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(RequestError::Timeout { doing, after });
                }
            }
        }
    }

    pub(crate) fn wait(self) -> Result<T, RequestError> {
        let Self { doing, after, .. } = self;
        let left = self.deadline.saturating_duration_since(Instant::now());
        let answer = self.answer.recv_timeout(left + REPLY_GRACE);
        answer.unwrap_or_else(|error| {
            Err(match error {
                RecvTimeoutError::Timeout => RequestError::Timeout { doing, after },
                RecvTimeoutError::Disconnected => self.shared.why_closed(),
            })
        })
    }
}

thread_local! {
    /// The node that the calling thread is a core thread of.
    static CORE_OF: Cell<Option<NodeId>> = const { Cell::new(None) };
}

/// Longest wait for an answer: a century would overflow the clock.
const TIMEOUT_MAX: Duration = Duration::from_secs(1 << 30);

impl core::fmt::Debug for Shared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Shared")
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
