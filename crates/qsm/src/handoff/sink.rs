//! Where the messages of a subscription go.

use std::sync::Arc;

use crate::handoff::inbox::{Inbox, Offered};
use crate::handoff::message::{Delivery, Message};

/// An application's function for upcalls.
pub(crate) type Upcall = Box<dyn FnMut(Delivery<'_>) + Send>;

/// Where the messages of a subscription go.
pub(crate) enum Sink {
    Queue(Arc<Inbox<Message>>),
    Upcall(Upcall),
    Foreign(Box<dyn ForeignQueue>),
}

/// A queue whose reader is another process.
pub(crate) trait ForeignQueue: Send {
    /// Writes a message, or drops it by the queue's policy.
    fn offer(&mut self, message: Delivery<'_>) -> Offered;

    /// Wakes the reader if it sleeps. Once per turn of the core thread.
    fn wake(&self);

    /// Bytes that wait to be read.
    fn queued_bytes(&self) -> usize;

    /// Messages dropped because the queue was full.
    fn dropped(&self) -> u64;
}
