//! Room of a queue that holds senders up ([`Overflow::Hold`]): the core thread asks whether it is full,
//! and is woken by the reader who makes room again.
//!
//! Nothing is lost: the core thread says that it waits and then looks again; a reader takes an item
//! and then looks whether somebody waits. One of the two sees the other.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use qsm_net::Waker;

use super::Inbox;
use crate::handoff::aside::Item;
use crate::handoff::message::Overflow;

/// Bytes, and messages, that have to be read of a full queue before it takes more, or a quarter of it if
/// that is less: the core thread is not woken for each message.
const STEP_BYTES: usize = 1 << 20;
const STEP_MESSAGES: usize = 1024;

/// The core thread, while it waits for room.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The queue was full when the core thread looked last.
    awaited: AtomicBool,
    core: OnceLock<Waker>,
}

impl<T: Item> Inbox<T> {
    /// Whether others wait for its readers when it is full.
    pub(crate) fn can_hold(&self) -> bool {
        self.overflow == Overflow::Hold
    }

    /// Whether others wait for its readers now.
    pub(crate) fn holds(&self) -> bool {
        self.room.awaited.load(Ordering::Relaxed) && !self.is_over()
    }

    /// As the core thread: whether it is to take no more. If so, `core` is woken when there is room.
    pub(crate) fn is_full(&self, core: &Waker) -> bool {
        if self.is_over() {
            return false;
        }
        let awaited = &self.room.awaited;
        if awaited.load(Ordering::SeqCst) {
            return true;
        }
        if !self.overflows() {
            return false;
        }
        self.room.core.get_or_init(|| core.clone());
        awaited.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // A reader that has taken items meanwhile may not have seen it.
        if self.has_room() {
            awaited.store(false, Ordering::SeqCst);
        }
        awaited.load(Ordering::SeqCst)
    }

    /// As a reader that has taken an item.
    pub(super) fn tell_room(&self) {
        fence(Ordering::SeqCst);
        let awaited = &self.room.awaited;
        if awaited.load(Ordering::SeqCst)
            && self.has_room()
            && awaited.swap(false, Ordering::SeqCst)
            && let Some(core) = self.room.core.get()
        {
            core.wake();
        }
    }

    fn overflows(&self) -> bool {
        let messages = self.messages();
        messages >= self.capacity.messages || self.memory(messages) >= self.capacity.bytes
    }

    /// Less is in the queue than when it was full, by a step.
    fn has_room(&self) -> bool {
        let (messages, capacity) = (self.messages(), self.capacity);
        let few = capacity.messages - (capacity.messages / 4).clamp(1, STEP_MESSAGES);
        let little = capacity.bytes - (capacity.bytes / 4).min(STEP_BYTES);
        messages == 0 || messages <= few && self.memory(messages) <= little
    }
}
