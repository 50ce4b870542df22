//! Rings of several subscriptions, read into one queue of this process: groups that a pattern
//! finds later need rings of their own.

use std::sync::{Arc, Mutex, OnceLock};

use super::link::lock;
use crate::error::{CloseReason, RecvError};
use crate::handoff::inbox::Inbox;
use crate::handoff::message::Overflow;
use crate::handoff::received::Received;

/// The queue's writing side. Threads that read rings take turns at it; when the last of those who
/// hold it is gone, the queue ends.
pub(crate) struct Funnel {
    inbox: Arc<Inbox<Received>>,
    /// The queue has one writer at a time.
    turn: Mutex<()>,
    end: OnceLock<RecvError>,
}

impl Funnel {
    pub(crate) fn new(inbox: Arc<Inbox<Received>>) -> Self {
        Self {
            inbox,
            turn: Mutex::new(()),
            end: OnceLock::new(),
        }
    }

    /// The policy of the rings: while the queue has no room and drops nothing, they fill up.
    pub(super) fn of_rings(&self) -> Overflow {
        match self.inbox.can_hold() {
            true => Overflow::Hold,
            false => Overflow::default(),
        }
    }

    /// Adds what a ring has told. Waits for room, if the queue drops nothing.
    pub(super) fn put(&self, received: Received) {
        let turn = lock(&self.turn);
        self.inbox.wait_for_room();
        match received {
            Received::Message(message) => {
                // The inbox counts what it drops, and tells.
                self.inbox
                    .offer(message.bytes().len(), || Received::Message(message));
            }
            notice => self.inbox.tell(notice),
        }
        drop(turn);
        self.inbox.wake();
    }

    /// Says why the queue will end; the first reason stays.
    pub(crate) fn tell_end(&self, why: RecvError) {
        drop(self.end.set(why));
    }

    /// Ends the queue at once, because a ring cannot be read any more.
    pub(super) fn close(&self, why: RecvError) {
        self.inbox.close(why);
    }

    /// The reader is gone, or was disconnected.
    pub(crate) fn is_over(&self) -> bool {
        self.inbox.is_over()
    }
}

impl Drop for Funnel {
    fn drop(&mut self) {
        let why = self.end.take();
        let why = why.unwrap_or(RecvError::Closed(CloseReason::ShutDown));
        self.inbox.close(why);
    }
}
