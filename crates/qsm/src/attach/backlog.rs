//! What an engine keeps for a subscription that holds senders up, while its ring is full: what is
//! delivered before the protocol hears that it is to wait, and what a node that ends still has.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::handoff::aside::Notices;
use crate::handoff::message::Message;
use crate::handoff::received::Received;

/// A message that waits for room in the ring, behind what is missing before it.
pub(super) struct Kept {
    pub(super) notices: Notices<Received>,
    /// Of the group's name.
    pub(super) place: u32,
    pub(super) message: Message,
}

impl Kept {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.message.bytes.len()
    }
}

/// Bytes that an engine keeps for all subscriptions of a process.
#[derive(Debug)]
pub(super) struct KeptBytes {
    now: AtomicUsize,
    most: usize,
}

impl KeptBytes {
    pub(super) fn new(most: usize) -> Self {
        Self {
            now: AtomicUsize::new(0),
            most,
        }
    }

    /// Bytes that are kept now.
    #[cfg(test)]
    pub(super) fn now(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// Counts more, if they may be kept.
    fn add(&self, bytes: usize) -> bool {
        let more = |now: usize| now.checked_add(bytes).filter(|sum| *sum <= self.most);
        let added = self
            .now
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        added.is_ok()
    }

    fn subtract(&self, bytes: usize) {
        self.now.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Messages that wait for room in one ring, in their order.
pub(super) struct Backlog {
    kept: VecDeque<Kept>,
    bytes: usize,
    of_process: Arc<KeptBytes>,
}

impl Backlog {
    pub(super) fn new(of_process: &Arc<KeptBytes>) -> Self {
        Self {
            kept: VecDeque::new(),
            bytes: 0,
            of_process: Arc::clone(of_process),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Bytes of messages, with what is kept of each beside its content.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn front(&self) -> Option<&Kept> {
        self.kept.front()
    }

    /// Adds one behind all others; false if the process has as much as it may.
    pub(super) fn push(&mut self, kept: Kept) -> bool {
        let bytes = kept.bytes();
        let may = self.of_process.add(bytes);
        if may {
            self.bytes += bytes;
            self.kept.push_back(kept);
        }
        may
    }

    /// Takes the first one.
    pub(super) fn pop(&mut self) -> Option<Kept> {
        let kept = self.kept.pop_front()?;
        self.bytes -= kept.bytes();
        self.of_process.subtract(kept.bytes());
        Some(kept)
    }

    /// Puts the one back that was taken last.
    pub(super) fn put_back(&mut self, kept: Kept) {
        self.bytes += kept.bytes();
        // It was counted before, and may be more than is allowed for a moment.
        self.of_process
            .now
            .fetch_add(kept.bytes(), Ordering::Relaxed);
        self.kept.push_front(kept);
    }

    /// Gives all of them up.
    pub(super) fn clear(&mut self) {
        self.of_process.subtract(self.bytes);
        self.bytes = 0;
        self.kept.clear();
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{GroupId, Origin};

    use super::*;

    fn kept(number: u64, length: usize) -> Kept {
        Kept {
            notices: Notices::default(),
            place: 0,
            message: Message {
                group: Arc::from("x"),
                group_id: GroupId(1),
                sender: Origin::default(),
                number,
                bytes: vec![0; length],
            },
        }
    }

    #[test]
    fn a_process_has_no_more_than_it_may_in_all_its_subscriptions() {
        let each = size_of::<Kept>() + 100;
        let process = Arc::new(KeptBytes::new(3 * each));
        let (mut one, mut other) = (Backlog::new(&process), Backlog::new(&process));
        assert!(one.push(kept(1, 100)) && one.push(kept(2, 100)) && other.push(kept(3, 100)));
        assert!(!one.push(kept(4, 0)) && !other.push(kept(4, 0)));
        let first = one.pop().unwrap();
        assert_eq!((first.message.number(), one.bytes()), (1, each));
        one.put_back(first);
        assert!(!other.push(kept(4, 100)));
        drop(one);
        assert!(other.push(kept(4, 100)) && other.push(kept(5, 100)));
        other.clear();
        assert_eq!(process.now(), 0);
    }
}
