//! Queues and flags that application threads and a core thread share; no protocol state. Each
//! side's part has a file of its own.

mod application;
mod core;

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crossbeam_queue::SegQueue;
use qsm_net::Waker;
use qsm_wire::NodeId;

use crate::error::CloseReason;
use crate::handoff::command::Command;
use crate::handoff::gate::{Gate, GateLimits};
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

    pub(crate) fn last_snapshot(&self) -> Option<Snapshot> {
        self.last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
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

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
