//! What application threads and a core thread share: queues and flags, no protocol state.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use qsm_net::Waker;
use qsm_wire::NodeId;

use crate::error::{CloseReason, RequestError};
use crate::handoff::command::Command;
use crate::handoff::outlet::{Gate, GateLimits};
use crate::handoff::reply::{Answer, Reply};
use crate::handoff::void::Told;
use crate::snapshot::Snapshot;

/// Limits on what a core accepts of applications.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandoffLimits {
    pub(crate) queues: GateLimits,
    /// Of a message.
    pub(crate) message_bytes: usize,
    /// Time that requests to the membership service may take.
    pub(crate) request_timeout: Duration,
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
    /// Kept when the node ends.
    last: Mutex<Option<Snapshot>>,
}

impl Shared {
    pub(crate) fn new(node: NodeId, limits: HandoffLimits, waker: Waker) -> Self {
        Self {
            commands: SegQueue::new(),
            ready: SegQueue::new(),
            gate: Gate::new(limits.queues),
            message_bytes_max: limits.message_bytes,
            node,
            request_timeout: limits.request_timeout,
            waker,
            closing: AtomicBool::new(false),
            closed: OnceLock::new(),
            keys: AtomicU64::new(1),
            voids: AtomicU64::new(0),
            told: Told::default(),
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
        let after = timeout.unwrap_or(self.request_timeout);
        let (reply, answer) = Answer::to_come(&self.closed, doing, after);
        self.tell(command(reply, answer.deadline()));
        Ok(answer)
    }

    pub(crate) fn last_snapshot(&self) -> Option<Snapshot> {
        self.last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
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
}

thread_local! {
    /// The node that the calling thread is a core thread of.
    static CORE_OF: Cell<Option<NodeId>> = const { Cell::new(None) };
}

impl core::fmt::Debug for Shared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Shared")
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
