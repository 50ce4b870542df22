//! Where the messages of a subscription go.

use std::sync::Arc;

use qsm_net::Waker;

use crate::error::RecvError;
use crate::handoff::inbox::{Inbox, Offered};
use crate::handoff::message::MessageRef;
use crate::handoff::received::{Delivery, Received};

/// An application's function for upcalls.
pub(crate) type Upcall = Box<dyn FnMut(Delivery<'_>) + Send>;

/// Where the messages of a subscription go.
pub(crate) enum Sink {
    Queue(Arc<Inbox<Received>>),
    Upcall(Upcall),
    Foreign(Box<dyn ForeignQueue>),
}

impl Sink {
    /// Tells whether it takes no more, if it is a queue whose reader others wait for; then `core` is
    /// woken when there is room. Once per turn of the core thread.
    pub(crate) fn is_full(&mut self, core: &Waker) -> Option<bool> {
        match self {
            Self::Queue(inbox) => inbox.can_hold().then(|| inbox.is_full(core)),
            Self::Foreign(queue) => queue.is_full(core),
            Self::Upcall(_) => None,
        }
    }
}

/// Outcome of offering several messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Offers {
    /// Messages that wait to be read.
    pub(crate) kept: u64,
    /// Messages that were dropped, these or older ones.
    pub(crate) dropped: u64,
}

/// Offers messages one by one.
pub(crate) fn offer_each<Q: ForeignQueue + ?Sized>(
    queue: &mut Q,
    first: u64,
    messages: &[MessageRef<'_>],
) -> Offers {
    let mut all = Offers::default();
    for (delivery, message) in (first..).zip(messages) {
        let offered = queue.offer(delivery, *message);
        all.kept += u64::from(offered.kept);
        all.dropped += offered.dropped;
    }
    all
}

/// A queue of another kind: its reader is another process, or wants the newest message of each key.
pub(crate) trait ForeignQueue: Send {
    /// Writes a message, or drops it by the queue's policy. Queues of one core thread that are offered
    /// the same one are told the same number of the delivery, and no other message has it.
    fn offer(&mut self, delivery: u64, message: MessageRef<'_>) -> Offered;

    /// The same for messages of one group; the number of the first one's delivery, which those of the others
    /// follow.
    fn offer_run(&mut self, first: u64, messages: &[MessageRef<'_>]) -> Offers {
        offer_each(self, first, messages)
    }

    /// Writes what is missing, or keeps it until there is room.
    fn tell(&mut self, notice: Received);

    /// Writes what was kept, as far as there is room; true if nothing is left.
    fn catch_up(&mut self) -> bool;

    /// Tells whether it takes no more, if others wait for its reader; then `core` is woken when there
    /// is room, or looks again by [`ForeignQueue::catch_up`].
    fn is_full(&mut self, _core: &Waker) -> Option<bool> {
        None
    }

    /// Wakes the reader if it sleeps. Once per turn of the core thread.
    fn wake(&mut self);

    /// Tells the reader why no more will come, if it does not learn that otherwise.
    fn close(&self, _why: RecvError) {}

    /// Bytes that wait to be read.
    fn queued_bytes(&self) -> usize;

    /// Messages dropped because the queue was full.
    fn dropped(&self) -> u64;

    /// The process that reads, if it is another one.
    fn process(&self) -> Option<u32> {
        None
    }
}
