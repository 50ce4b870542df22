//! Room of a queue that holds senders up ([`Overflow::Hold`]): the core thread asks whether it is full,
//! and is woken by the reader who makes room again. A thread that writes in its place waits.

use qsm_net::Waker;

use super::Inbox;
use crate::handoff::aside::Item;
use crate::handoff::message::Overflow;

/// Bytes, and messages, that have to be read of a full queue before it takes more, or a quarter of it if
/// that is less: the core thread is not woken for each message.
const STEP_BYTES: usize = 1 << 20;
const STEP_MESSAGES: usize = 1024;

impl<T: Item> Inbox<T> {
    /// Tells whether others wait for its readers when it is full.
    pub(crate) fn can_hold(&self) -> bool {
        self.overflow == Overflow::Hold
    }

    /// Tells whether others wait for its readers now.
    pub(crate) fn holds(&self) -> bool {
        self.room.is_awaited() && !self.is_over()
    }

    /// As the core thread: whether it is to take no more. If so, `core` is woken when there is room.
    pub(crate) fn is_full(&self, core: &Waker) -> bool {
        if self.is_over() {
            return false;
        }
        if !self.room.is_awaited() && self.overflows() {
            self.room.wait(core, || self.has_room());
        }
        self.room.is_awaited()
    }

    /// As a thread that writes: waits while a queue is full that drops nothing, and somebody reads it.
    pub(crate) fn wait_for_room(&self) {
        if self.can_hold() && self.overflows() {
            self.room.wait_here(|| self.has_room() || self.is_over());
        }
    }

    /// Lets a thread look again that waits for room.
    pub(crate) fn stop_waiting(&self) {
        self.room.release();
    }

    fn overflows(&self) -> bool {
        let messages = self.messages();
        messages >= self.capacity.messages || self.memory(messages) >= self.capacity.bytes
    }

    /// Less is in the queue than when it was full, by a step.
    pub(super) fn has_room(&self) -> bool {
        let (messages, capacity) = (self.messages(), self.capacity);
        let few = capacity.messages - (capacity.messages / 4).clamp(1, STEP_MESSAGES);
        let little = capacity.bytes - (capacity.bytes / 4).min(STEP_BYTES);
        messages == 0 || messages <= few && self.memory(messages) <= little
    }
}
