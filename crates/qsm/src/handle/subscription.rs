use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_core::Stream;
use qsm_wire::{GroupId, Origin};

use crate::error::RecvError;
use crate::handoff::inbox::Capacity;
use crate::handoff::mailbox::Mailbox;
use crate::handoff::shared::{Command, Shared};

/// What happens when a subscription's queue is full, that is, when its reader is slower than the
/// messages come (R128). Whatever is chosen, other subscriptions, other nodes and the senders are
/// not slowed down; drops are counted ([`Subscription::dropped`]) and told
/// ([`Event::SlowConsumer`](crate::Event::SlowConsumer)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// The message that finds no room is dropped. Default: what was received first stays.
    #[default]
    DropNewest,
    /// The oldest messages are dropped to make room: for readers who want the present state.
    DropOldest,
    /// The subscription ends with [`RecvError::Overflow`] after what is queued: for readers to
    /// whom a gap is worse than an end.
    Disconnect,
}

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

/// A message received.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub(crate) group: Arc<str>,
    pub(crate) group_id: GroupId,
    pub(crate) sender: Origin,
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Message {
    /// Name of the group it was published to.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The group's number, while the node stays in the cluster.
    #[must_use]
    pub fn group_id(&self) -> GroupId {
        self.group_id
    }

    /// Who published it: a node in one of its lives.
    #[must_use]
    pub fn sender(&self) -> Origin {
        self.sender
    }

    /// Its number among this sender's messages to this group: 1, 2, 3, …
    ///
    /// A reader that joined later begins above 1. After that numbers grow by one; those that are
    /// left out are told by [`Event::Lost`](crate::Event::Lost), or were dropped because this
    /// subscription's queue was full.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its content.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its content, to keep.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("group", &self.group)
            .field("sender", &format_args!("{}", self.sender))
            .field("number", &self.number)
            .field("length", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// A message during an upcall (R128): its bytes are lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery<'a> {
    /// Name of the group it was published to.
    pub group: &'a str,
    /// The group's number, while the node stays in the cluster.
    pub group_id: GroupId,
    /// Who published it.
    pub sender: Origin,
    /// Its number among this sender's messages to this group, from 1. See [`Message::number`].
    pub number: u64,
    /// Its content.
    pub bytes: &'a [u8],
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
