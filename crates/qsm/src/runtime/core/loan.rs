//! A core that sleeps is lent. Whoever sends a message to it then takes the message to the socket
//! himself, instead of waking the core thread to do it: a message to an idle node would wait for
//! that as long as it then travels.
//!
//! What runs on the borrowing thread is short and nothing of the application's: no upcalls, no
//! feeds. Messages that follow one another closely are left to the core thread, which stays awake
//! for them and makes trains of them.

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use qsm_proto::Instant;

use super::Core;
use crate::error::CloseReason;
use crate::handoff::shared::Shared;

/// Messages that come sooner after the last one are the core thread's: by the time it is awake,
/// there are several of them.
const APART: Duration = Duration::from_micros(50);

/// Where a core lies while its thread sleeps, for publishers to borrow.
#[derive(Default)]
pub(crate) struct CoreLoan(Mutex<Option<Box<Core>>>);

impl CoreLoan {
    /// The publisher in this place has something to send: it does so itself if the core sleeps.
    /// `shared` is the core's.
    pub(crate) fn send(&self, shared: &Shared, slot: u32) {
        let sent = match self.0.try_lock() {
            Ok(mut lent) => lent.as_mut().is_some_and(|core| core.send_now(slot)),
            Err(_) => false,
        };
        if !sent {
            shared.announce(slot);
        }
    }

    /// As the core thread, which is going to sleep.
    pub(super) fn lend(&self, core: Box<Core>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(core);
    }

    /// As the core thread, once it is awake.
    pub(super) fn take_back(&self) -> Box<Core> {
        let mut lent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lent.take().expect("only the core thread takes it")
    }
}

impl fmt::Debug for CoreLoan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreLoan").finish_non_exhaustive()
    }
}

impl Core {
    /// Sends what the publisher in this place has queued, on its thread. False: the core thread has
    /// to do it.
    fn send_now(&mut self, slot: u32) -> bool {
        let now = self.clock.now();
        let soon = now.since(self.now) < APART;
        let others = self.sources.is_active() || !self.port.writable();
        if soon || others || !self.sources.sends_only(slot, &self.endpoint) {
            return false;
        }
        let sent = catch_unwind(AssertUnwindSafe(|| self.send(now, slot)));
        if let Err(panic) = sent {
            self.broken = Some(CloseReason::panicked(&*panic));
        }
        if self.broken.is_some() || self.is_due_before(self.asleep_until) {
            self.shared.nudge();
        }
        true
    }

    fn send(&mut self, now: Instant, slot: u32) {
        self.now = now;
        self.stats.sends_lent += 1;
        self.sources.activate(slot);
        self.give_messages();
        self.transmitter
            .run(self.now, &mut self.endpoint, &mut self.port);
        self.sources.wake(&self.shared);
        self.note_memory();
    }

    /// Whether the core thread has something to do before that time.
    fn is_due_before(&self, until: Option<Instant>) -> bool {
        let sooner = |due| until.is_none_or(|until| due < until);
        self.sources.is_active()
            || self.transmitter.has_more()
            || !self.pending.is_idle()
            || self.next_timeout().is_some_and(sooner)
    }
}
