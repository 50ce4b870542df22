use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_core::Stream;

use crate::error::RecvError;
use crate::handoff::command::Command;
use crate::handoff::mailbox::Mailbox;
use crate::handoff::message::{Capacity, Message, Overflow};
use crate::handoff::shared::Shared;

/// How a subscription queues.
///
/// ```
/// use qsm::{Overflow, SubscribeOptions};
///
/// let options = SubscribeOptions::default()
///     .capacity_messages(1000)
///     .capacity_bytes(1 << 20)
///     .overflow(Overflow::DropOldest);
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscribeOptions {
    pub(crate) capacity: Capacity,
    pub(crate) overflow: Overflow,
}

impl SubscribeOptions {
    /// Default of [`SubscribeOptions::capacity_messages`]: a quarter of a second at 250,000 a
    /// second.
    pub const CAPACITY_MESSAGES: usize = 1 << 16;
    /// Default of [`SubscribeOptions::capacity_bytes`]: four of the largest messages.
    pub const CAPACITY_BYTES: usize = 64 << 20;

    /// Most messages that wait to be read. Where the groups lie on several core threads
    /// ([`Builder::cores`](crate::Builder::cores)), each has its share of this.
    #[must_use]
    pub fn capacity_messages(mut self, messages: usize) -> Self {
        self.capacity.messages = messages.max(1);
        self
    }

    /// Most bytes that wait to be read, shared in the same way. A larger message is taken when the
    /// queue is empty.
    #[must_use]
    pub fn capacity_bytes(mut self, bytes: usize) -> Self {
        self.capacity.bytes = bytes;
        self
    }

    /// What happens beyond.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }
}

impl Default for SubscribeOptions {
    fn default() -> Self {
        let messages = Self::CAPACITY_MESSAGES;
        let bytes = Self::CAPACITY_BYTES;
        Self {
            capacity: Capacity { messages, bytes },
            overflow: Overflow::default(),
        }
    }
}

/// What a subscription and an upcall have in common: leaving when dropped.
#[derive(Debug)]
pub(crate) struct Membership {
    /// The cores that have the groups, and the number of the subscription at each.
    pub(crate) places: Vec<(Arc<Shared>, u64)>,
    pub(crate) names: Box<[Arc<str>]>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        for (shared, key) in &self.places {
            shared.tell(Command::Unsubscribe { key: *key });
        }
    }
}

/// Messages of some groups, queued for the application's own threads or tasks. Made by
/// [`Node::subscribe`](crate::Node::subscribe); dropping it leaves those groups that no other
/// subscription of the node holds.
///
/// Within a group, messages of one sender come in the order of their numbers, also of a node with
/// several core threads: a group lies on one. It can be read from several threads at once; each
/// message goes to one of them.
#[derive(Debug)]
pub struct Subscription {
    pub(crate) mailbox: Mailbox<Message>,
    pub(crate) membership: Membership,
}

impl Subscription {
    /// Waits for the next message.
    ///
    /// # Errors
    /// [`RecvError`], after all queued messages were taken, when no more will come.
    pub fn recv(&self) -> Result<Message, RecvError> {
        loop {
            // Without a deadline a wait ends with a message or an error.
            if let Some(message) = self.mailbox.recv(None)? {
                return Ok(message);
            }
        }
    }

    /// Waits for the next message at most this long; `None` when none came.
    ///
    /// # Errors
    /// As [`Subscription::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Message>, RecvError> {
        self.mailbox.recv(Instant::now().checked_add(timeout))
    }

    /// The next message, or `None` when none is there.
    ///
    /// # Errors
    /// As [`Subscription::recv`].
    pub fn try_recv(&self) -> Result<Option<Message>, RecvError> {
        self.mailbox.try_recv()
    }

    /// Waits for messages until the subscription ends.
    pub fn iter(&self) -> Iter<'_> {
        Iter(self)
    }

    /// The groups subscribed.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.membership.names.iter().map(|name| &**name)
    }

    /// Messages that wait to be read.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.mailbox.messages()
    }

    /// Messages dropped because the queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.mailbox.dropped()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.mailbox.leave();
    }
}

/// Iterator of [`Subscription::iter`]: waits for each message, ends with the subscription.
#[derive(Debug)]
pub struct Iter<'a>(&'a Subscription);

impl Iterator for Iter<'_> {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        self.0.recv().ok()
    }
}

impl<'a> IntoIterator for &'a Subscription {
    type Item = Message;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Needs no executor of its own: any will do. Ends with the subscription.
impl Stream for Subscription {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Message>> {
        self.mailbox.poll_recv(context).map(Result::ok)
    }
}

/// Upcalls for some groups; made by [`Node::subscribe_with`](crate::Node::subscribe_with).
/// Dropping it leaves those groups that no subscription of the node holds; an upcall that runs
/// at that moment runs to its end, and a few more may follow before the core thread has heard.
#[derive(Debug)]
pub struct Upcalls {
    pub(crate) membership: Membership,
}

impl Upcalls {
    /// The groups subscribed.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.membership.names.iter().map(|name| &**name)
    }
}
