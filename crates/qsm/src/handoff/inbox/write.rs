//! As the writer, a core thread: is there room, and what is dropped if not.

use std::sync::atomic::Ordering;

use super::{Entry, Inbox, Offered};
use crate::error::RecvError;
use crate::handoff::aside::Item;
use crate::handoff::message::Overflow;

impl<T: Item> Inbox<T> {
    /// Adds an item, made only if there is room, or drops by the policy. Readers are told by
    /// [`Inbox::wake`]. Nothing is dropped, and nothing kept, once the reader is gone.
    pub(crate) fn offer(&self, bytes: usize, item: impl FnOnce() -> T) -> Offered {
        let mut offered = Offered {
            kept: false,
            dropped: 0,
        };
        if self.is_over() {
            return offered;
        }
        // What overflows is bounded by who asks whether it is full.
        while self.overflow != Overflow::Hold && !self.fits(bytes) {
            // Between this look and the next a reader may have taken items too.
            offered.dropped += match self.overflow {
                Overflow::DropOldest => u64::from(self.drop_oldest()),
                Overflow::DropNewest | Overflow::Disconnect | Overflow::Hold => 1,
            };
            if self.overflow != Overflow::DropOldest {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                if self.overflow == Overflow::Disconnect {
                    self.close(RecvError::Overflow);
                    self.readership.leave();
                } else if let Some(notice) = T::dropped(1) {
                    self.aside.put(self.next_place(), notice);
                }
                return offered;
            }
        }
        self.dropped.fetch_add(offered.dropped, Ordering::Relaxed);
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let place = self.next_place();
        let item = item();
        self.queue.push(Entry { item, bytes, place });
        offered.kept = true;
        offered
    }

    /// Counts bytes of an item that are not said when it is offered, before a reader may take it.
    pub(crate) fn charge(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts them no longer.
    pub(crate) fn refund(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Drops the oldest items until the others fit, after one has grown. The last one always does.
    pub(crate) fn trim(&self) -> u64 {
        let mut dropped = 0;
        while self.messages() > 1 && self.memory(self.messages()) > self.capacity.bytes {
            dropped += u64::from(self.drop_oldest());
        }
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
        dropped
    }

    /// Adds a notice after what was offered so far; there is always room for it.
    pub(crate) fn tell(&self, notice: T) {
        if !self.is_over() {
            self.aside.put(self.next_place(), notice);
        }
    }

    /// Lets readers look. Once per turn of the core thread, not once per item.
    pub(crate) fn wake(&self) {
        self.readership.sleepers.wake();
    }

    /// No more items will come; those that wait can still be taken.
    pub(crate) fn close(&self, why: RecvError) {
        // The first reason stays.
        drop(self.closed.set(why));
        self.readership.sleepers.wake();
    }

    /// An item larger than the whole queue fits when the queue is empty.
    fn fits(&self, bytes: usize) -> bool {
        let messages = self.messages();
        let memory = self.memory(messages + 1) + bytes;
        messages == 0 || (messages < self.capacity.messages && memory <= self.capacity.bytes)
    }

    /// With so many items of these bytes.
    pub(super) fn memory(&self, messages: usize) -> usize {
        self.bytes() + messages * T::OVERHEAD
    }

    /// True if there was one.
    fn drop_oldest(&self) -> bool {
        match T::dropped(1) {
            None => self.pop().is_some(),
            Some(notice) => {
                let drop_one = || self.pop().map(|entry| entry.place);
                self.aside.put_for(notice, drop_one)
            }
        }
    }

    fn next_place(&self) -> u64 {
        let place = self.places.load(Ordering::Relaxed);
        self.places.store(place + 1, Ordering::Relaxed);
        place
    }
}
