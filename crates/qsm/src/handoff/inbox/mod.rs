//! The bounded queue from a core thread to a subscription, or to a reader of events.
//!
//! The core thread writes, application threads read: a file for each.

mod read;
mod room;
mod write;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_queue::SegQueue;

use crate::error::RecvError;
use crate::handoff::aside::{Aside, Item};
use crate::handoff::message::{Capacity, Overflow};
use crate::handoff::room::RoomSignal;
use crate::handoff::sleepers::Sleepers;

/// What became of an item that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offered {
    /// It is in the queue.
    pub(crate) kept: bool,
    /// So many items were dropped, this one or older ones.
    pub(crate) dropped: u64,
}

/// Those who read, of one inbox or of several side by side.
#[derive(Debug, Default)]
pub(crate) struct Readership {
    /// They want nothing more: they are gone, or one of the inboxes disconnected them.
    over: AtomicBool,
    /// One of them has put an item back, and another may have found the queue empty meanwhile.
    left: AtomicBool,
    pub(crate) sleepers: Sleepers,
}

impl Readership {
    pub(crate) fn leave(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// After a reader has taken something, when it holds no lock.
    #[inline]
    pub(crate) fn pass_on(&self) {
        if self.left.load(Ordering::Relaxed) && self.left.swap(false, Ordering::Relaxed) {
            self.sleepers.wake();
        }
    }
}

/// Memory of an item's place in the queue, beside the item: its length, its place, and the word by
/// which the queue tells whether it is there.
pub(crate) const ENTRY_BYTES: usize = size_of::<Entry<()>>() + size_of::<usize>();

#[derive(Debug)]
struct Entry<T> {
    item: T,
    bytes: usize,
    /// Among items and notices.
    place: u64,
}

/// One writer, a core thread; any number of readers. Lock-free, but for readers that sleep, and
/// while a notice waits to be read.
///
/// Every item and every notice has its place, counted by the writer. A notice does not go through
/// the queue, so that it needs no room there: a reader that has taken an item looks whether a
/// notice has an earlier place.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    queue: SegQueue<Entry<T>>,
    /// The next place. Written by the writer only.
    places: AtomicU64,
    aside: Aside<T>,
    messages: AtomicUsize,
    bytes: AtomicUsize,
    capacity: Capacity,
    overflow: Overflow,
    dropped: AtomicU64,
    closed: OnceLock<RecvError>,
    /// Used by [`Overflow::Hold`] alone.
    room: RoomSignal,
    readership: Arc<Readership>,
}

impl<T: Item> Inbox<T> {
    pub(crate) fn new(capacity: Capacity, overflow: Overflow) -> Self {
        Self::of(Arc::default(), capacity, overflow)
    }

    /// For readers that may have other inboxes as well.
    pub(crate) fn of(readership: Arc<Readership>, capacity: Capacity, overflow: Overflow) -> Self {
        Self {
            queue: SegQueue::new(),
            places: AtomicU64::new(0),
            aside: Aside::default(),
            messages: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            capacity,
            overflow,
            dropped: AtomicU64::new(0),
            closed: OnceLock::new(),
            room: RoomSignal::default(),
            readership,
        }
    }

    /// The readers are gone or were disconnected.
    pub(crate) fn is_over(&self) -> bool {
        self.readership.over.load(Ordering::Relaxed) || self.closed.get().is_some()
    }

    pub(crate) fn closed(&self) -> Option<&RecvError> {
        self.closed.get()
    }

    pub(crate) fn messages(&self) -> usize {
        self.messages.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn pop(&self) -> Option<Entry<T>> {
        let mut entry = self.queue.pop()?;
        self.messages.fetch_sub(1, Ordering::Relaxed);
        let bytes = entry.bytes + entry.item.settle();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if self.overflow == Overflow::Hold {
            self.room.tell(|| self.has_room());
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::handoff::received::Received;

    fn inbox(overflow: Overflow) -> Inbox<usize> {
        let (messages, bytes) = (3, 100);
        Inbox::new(Capacity { messages, bytes }, overflow)
    }

    fn rest(inbox: &Inbox<usize>) -> Vec<usize> {
        std::iter::from_fn(|| inbox.try_recv().ok().flatten()).collect()
    }

    #[test]
    fn each_policy_drops_what_it_says() {
        let cases = [
            (Overflow::DropNewest, vec![0, 1, 2], 7),
            (Overflow::DropOldest, vec![7, 8, 9], 7),
            (Overflow::Disconnect, vec![0, 1, 2], 1),
        ];
        for (overflow, kept, dropped) in cases {
            let inbox = inbox(overflow);
            let told: u64 = (0..10).map(|item| inbox.offer(1, || item).dropped).sum();
            assert_eq!(
                (rest(&inbox), inbox.dropped(), told),
                (kept, dropped, dropped)
            );
            assert_eq!((inbox.messages(), inbox.bytes()), (0, 0));
        }
    }

    #[test]
    fn bytes_are_bounded_but_one_large_item_fits() {
        let inbox = inbox(Overflow::DropNewest);
        assert!(inbox.offer(1000, || 1).kept);
        assert!(!inbox.offer(1, || 2).kept);
        assert_eq!(rest(&inbox), [1]);
        assert!(inbox.offer(60, || 3).kept);
        assert!(!inbox.offer(41, || 4).kept);
        assert!(inbox.offer(40, || 5).kept);
    }

    #[test]
    fn the_memory_of_short_messages_counts_and_not_their_number() {
        let (messages, bytes) = (usize::MAX, 1 << 20);
        let inbox = Inbox::<Received>::new(Capacity { messages, bytes }, Overflow::DropNewest);
        let dropped = || Received::dropped(1).unwrap_or_else(|| unreachable!());
        while inbox.offer(10, dropped).kept {}
        let kept = (1 << 20) / (10 + Received::OVERHEAD);
        assert_eq!((inbox.messages(), inbox.bytes()), (kept, 10 * kept));
        // As much as the help text of `qsm sub` says.
        assert_eq!(Received::OVERHEAD, 128);
    }

    #[test]
    fn items_offered_before_closing_still_come_out() {
        let inbox = inbox(Overflow::DropNewest);
        inbox.offer(1, || 1);
        inbox.close(RecvError::Overflow);
        assert!(!inbox.offer(1, || 2).kept);
        assert_eq!(inbox.try_recv(), Ok(Some(1)));
        assert_eq!(inbox.recv(None), Err(RecvError::Overflow));
    }

    /// One number, or so many that are missing.
    #[derive(Debug, PartialEq, Eq)]
    enum Told {
        Number(u64),
        Missing(u64),
    }

    impl Item for Told {
        fn dropped(items: u64) -> Option<Self> {
            Some(Self::Missing(items))
        }

        fn missing(&self) -> u64 {
            match self {
                Self::Number(_) => 0,
                Self::Missing(missing) => *missing,
            }
        }

        fn join(&mut self, next: Self) -> Result<(), Self> {
            match (self, next) {
                (Self::Missing(missing), Self::Missing(more)) => *missing += more,
                (_, next) => return Err(next),
            }
            Ok(())
        }
    }

    /// Offers numbers faster than they are read, and loses some.
    fn write(inbox: &Inbox<Told>, numbers: u64) {
        for number in 1..=numbers {
            match number % 7 {
                3 => inbox.tell(Told::Missing(1)),
                _ => drop(inbox.offer(1, || Told::Number(number))),
            }
            inbox.wake();
        }
        inbox.close(RecvError::Overflow);
    }

    #[test]
    fn what_is_missing_is_told_exactly_where_it_is_missing() {
        const NUMBERS: u64 = 200_000;
        for overflow in [Overflow::DropNewest, Overflow::DropOldest] {
            let (messages, bytes) = (5, 1000);
            let inbox = Inbox::new(Capacity { messages, bytes }, overflow);
            let mut next = 1;
            thread::scope(|scope| {
                scope.spawn(|| write(&inbox, NUMBERS));
                while let Ok(told) = inbox.recv(None) {
                    match told.unwrap() {
                        Told::Number(number) => assert_eq!(number, next, "{overflow:?}"),
                        Told::Missing(missing) => next += missing - 1,
                    }
                    next += 1;
                }
            });
            assert_eq!(next, NUMBERS + 1);
            assert_eq!((inbox.messages(), inbox.bytes()), (0, 0));
        }
    }

    #[test]
    fn a_reader_has_one_item_at_most_that_the_queue_does_not_count() {
        let inbox = Inbox::new(
            Capacity {
                messages: 5,
                bytes: 1000,
            },
            Overflow::DropOldest,
        );
        let mut read = 0;
        for number in 1..=10_000 {
            inbox.offer(1, || Told::Number(number));
            inbox.tell(Told::Missing(1));
            read += u64::from(number % 3 == 0 && inbox.try_recv().unwrap().is_some());
        }
        let told: Vec<_> = std::iter::from_fn(|| inbox.try_recv().unwrap()).collect();
        let is_item = |told: &&Told| matches!(told, Told::Number(_));
        assert!(told.iter().filter(is_item).count() <= 6, "{}", told.len());
        assert!(read > 3000 && told.len() < 20);
    }

    /// A lost wake-up leaves the reader asleep for ever.
    #[test]
    fn a_reader_that_sleeps_sees_every_item() {
        let (messages, bytes) = (usize::MAX, usize::MAX);
        let inbox = Inbox::new(Capacity { messages, bytes }, Overflow::DropNewest);
        let inbox = Arc::new(inbox);
        let reader = Arc::clone(&inbox);
        let reader = thread::spawn(move || {
            (0..20_000).for_each(|item| assert_eq!(reader.recv(None), Ok(Some(item))));
        });
        for item in 0..20_000 {
            inbox.offer(1, || item);
            inbox.wake();
        }
        reader.join().unwrap();
    }
}
