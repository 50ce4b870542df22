//! What a subscription, or a reader of events, reads: an inbox from each core thread that has
//! something for it. Cores share none; the reader takes from them in turn.

use core::task::{Context, Poll};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::error::RecvError;
use crate::handoff::aside::Item;
use crate::handoff::inbox::{Inbox, Readership};
use crate::handoff::message::{Capacity, Overflow};

#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    inboxes: Box<[Arc<Inbox<T>>]>,
    /// Where to look first.
    next: AtomicUsize,
    readership: Arc<Readership>,
}

impl<T: Item> Mailbox<T> {
    /// With so many inboxes, each with its share of the capacity.
    pub(crate) fn new(count: usize, capacity: Capacity, overflow: Overflow) -> Self {
        let readership = Arc::new(Readership::default());
        let share = Capacity {
            messages: capacity.messages.div_ceil(count),
            bytes: capacity.bytes.div_ceil(count),
        };
        let inbox = |_| Arc::new(Inbox::of(Arc::clone(&readership), share, overflow));
        Self {
            inboxes: (0..count).map(inbox).collect(),
            next: AtomicUsize::new(0),
            readership,
        }
    }

    pub(crate) fn inboxes(&self) -> impl Iterator<Item = &Arc<Inbox<T>>> {
        self.inboxes.iter()
    }

    /// The only inbox of one core.
    pub(crate) fn first(&self) -> &Arc<Inbox<T>> {
        &self.inboxes[0]
    }

    /// The next item, `None` when there is none yet. The error comes when all inboxes are closed
    /// and empty, or one is that has overflowed.
    pub(crate) fn try_recv(&self) -> Result<Option<T>, RecvError> {
        let received = self.look();
        self.readership.pass_on();
        received
    }

    pub(crate) fn recv(&self, deadline: Option<Instant>) -> Result<Option<T>, RecvError> {
        let received = match self.look().transpose() {
            Some(result) => result.map(Some),
            None => self
                .readership
                .sleepers
                .wait(deadline, || self.look().transpose())
                .transpose(),
        };
        self.readership.pass_on();
        received
    }

    pub(crate) fn poll_recv(&self, context: &Context<'_>) -> Poll<Result<T, RecvError>> {
        let attempt = || self.look().transpose();
        let received = self.readership.sleepers.poll(context, attempt);
        self.readership.pass_on();
        received
    }

    pub(crate) fn leave(&self) {
        self.readership.leave();
        self.inboxes.iter().for_each(|inbox| inbox.stop_waiting());
    }

    pub(crate) fn messages(&self) -> usize {
        self.inboxes.iter().map(|inbox| inbox.messages()).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.inboxes.iter().map(|inbox| inbox.bytes()).sum()
    }

    /// Tells whether senders wait for its readers.
    pub(crate) fn holds(&self) -> bool {
        self.inboxes.iter().any(|inbox| inbox.holds())
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.inboxes.iter().map(|inbox| inbox.dropped()).sum()
    }

    /// As [`Mailbox::try_recv`], for those who may hold the lock of the sleepers.
    fn look(&self) -> Result<Option<T>, RecvError> {
        let [only] = &*self.inboxes else {
            return self.try_each();
        };
        only.try_recv()
    }

    fn try_each(&self) -> Result<Option<T>, RecvError> {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.inboxes.len();
        let (before, after) = self.inboxes.split_at(first);
        let (mut open, mut ended) = (false, None);
        for inbox in after.iter().chain(before) {
            match inbox.try_recv() {
                Ok(None) => open = true,
                Err(why) if ended != Some(RecvError::Overflow) => ended = Some(why),
                Err(_) => {}
                item => return item,
            }
        }
        match ended {
            Some(why) if !open || why == RecvError::Overflow => Err(why),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::error::CloseReason;

    fn mailbox(overflow: Overflow) -> Mailbox<usize> {
        let (messages, bytes) = (4, 1000);
        Mailbox::new(2, Capacity { messages, bytes }, overflow)
    }

    #[test]
    fn inboxes_take_turns_and_share_the_capacity() {
        let mailbox = mailbox(Overflow::DropNewest);
        for (at, inbox) in mailbox.inboxes().enumerate() {
            for item in 0..3 {
                inbox.offer(1, || 10 * at + item);
            }
        }
        assert_eq!((mailbox.messages(), mailbox.dropped()), (4, 2));
        let taken: Vec<_> = std::iter::from_fn(|| mailbox.try_recv().unwrap()).collect();
        assert_eq!(taken, [0, 10, 1, 11]);
    }

    #[test]
    fn it_ends_with_its_last_inbox() {
        let mailbox = mailbox(Overflow::DropNewest);
        let closed = RecvError::Closed(CloseReason::ShutDown);
        let inboxes: Vec<_> = mailbox.inboxes().collect();
        inboxes[0].offer(1, || 1);
        inboxes[0].close(closed.clone());
        assert!(inboxes[1].offer(1, || 2).kept, "the other one goes on");
        let mut taken = [mailbox.try_recv(), mailbox.try_recv()];
        taken.sort_by_key(|result| result.clone().unwrap());
        assert_eq!(taken, [Ok(Some(1)), Ok(Some(2))]);
        assert_eq!(mailbox.try_recv(), Ok(None));
        inboxes[1].close(closed.clone());
        assert_eq!(mailbox.try_recv(), Err(closed));
    }

    #[test]
    fn one_that_overflows_ends_them_all_after_what_is_queued() {
        let mailbox = mailbox(Overflow::Disconnect);
        let inboxes: Vec<_> = mailbox.inboxes().collect();
        inboxes[1].offer(1, || 9);
        for item in 0..3 {
            inboxes[0].offer(1, || item);
        }
        assert!(!inboxes[1].offer(1, || 10).kept);
        let taken: Vec<_> = std::iter::from_fn(|| mailbox.try_recv().ok().flatten()).collect();
        assert_eq!(taken, [0, 9, 1]);
        assert_eq!(mailbox.try_recv(), Err(RecvError::Overflow));
    }

    fn offer(inbox: &Inbox<usize>, item: usize) {
        inbox.offer(1, || item);
        inbox.wake();
    }

    /// A lost wake-up leaves the reader asleep for ever.
    #[test]
    fn a_reader_that_sleeps_sees_every_item_of_every_writer() {
        const EACH: usize = 10_000;
        let (messages, bytes) = (usize::MAX, usize::MAX);
        let mailbox = Mailbox::new(3, Capacity { messages, bytes }, Overflow::DropNewest);
        thread::scope(|scope| {
            for inbox in mailbox.inboxes() {
                scope.spawn(move || (0..EACH).for_each(|item| offer(inbox, item)));
            }
            let sum: usize = (0..3 * EACH)
                .map(|_| mailbox.recv(None).unwrap().unwrap())
                .sum();
            assert_eq!(sum, 3 * EACH * (EACH - 1) / 2);
        });
    }
}
