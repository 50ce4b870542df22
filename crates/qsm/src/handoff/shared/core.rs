//! As the core thread: what it was told, and its end.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::{CORE_OF, Shared};
use qsm_net::Waker;

use crate::error::CloseReason;
use crate::handoff::command::Command;
use crate::snapshot::Snapshot;

impl Shared {
    /// The calling thread is the core thread.
    pub(crate) fn started(&self) {
        CORE_OF.set(Some(self.node));
    }

    /// For those who have something for the core thread.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
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
}
