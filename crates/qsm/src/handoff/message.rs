//! Messages on their way to the application, and the limits of the queues they wait in.

use core::fmt;
use std::sync::Arc;

use qsm_wire::{GroupId, Origin};

use crate::relayed::{Relayed, RelayedNumbers, RelayedOrder, content};

/// The policy of a subscription whose queue is full
/// ([`GroupOptions::capacity_bytes`](crate::GroupOptions::capacity_bytes)), that is, whose reader is
/// slower than the messages come. Only with [`Overflow::Hold`] do others wait for this reader. Drops
/// are counted ([`Subscription::dropped`]) and told in the subscription,
/// where the messages are missing ([`Received::Dropped`](crate::Received::Dropped)).
///
/// [`Subscription::dropped`]: crate::Subscription::dropped
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// The message that finds no room is dropped. Default: what was received first stays.
    #[default]
    DropNewest,
    /// The oldest messages are dropped to make room: for readers who want the present state.
    DropOldest,
    /// The subscription ends with [`RecvError::Overflow`] after what is queued: for readers to
    /// whom a gap is worse than an end.
    ///
    /// [`RecvError::Overflow`]: crate::RecvError::Overflow
    Disconnect,
    /// Nothing is dropped: the node keeps what comes, up to a quarter of
    /// [`Limits::receive_bytes`](crate::Limits::receive_bytes), and then the senders wait, as they do for
    /// a slow host. With them wait the other messages of their streams to the same region, also to
    /// other subscriptions; other regions go on. A node that makes others wait for 10 s
    /// ([`ServiceBuilder::slow_after`](crate::ServiceBuilder::slow_after)) is away, if at least as many
    /// of the region's nodes do not: then nobody waits, and what is not kept for it any more is told by
    /// [`Received::Lost`](crate::Received::Lost). The queue may be longer than its capacity by what is
    /// delivered in one go, 1 MiB and a message for each sender. A thread that both publishes to a group and
    /// reads it must not wait in [`Publisher::send`](crate::Publisher::send): its own queue may be what is full.
    ///
    /// Attached, the engine keeps what the ring has no room for, and makes the senders wait; a message
    /// that is longer than the ring is dropped and told. A process for which the engine keeps more than
    /// [`ShareOptions::client_bytes_max`](crate::attach::ShareOptions::client_bytes_max) has the
    /// subscription ended with [`RecvError::Overflow`](crate::RecvError::Overflow). What is kept ends
    /// with the engine.
    ///
    /// Not for [`Group::latest_by`](crate::Group::latest_by).
    Hold,
}

/// Limits of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) messages: usize,
    /// Of memory: what each item takes beside its content included.
    pub(crate) bytes: usize,
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
    /// Of a group by name and number, with this number of a sender: for those who keep messages or bring them from
    /// elsewhere, and for tests.
    #[must_use]
    pub fn new(
        group: impl Into<Arc<str>>,
        group_id: GroupId,
        sender: Origin,
        number: u64,
        bytes: Vec<u8>,
    ) -> Self {
        Self {
            group: group.into(),
            group_id,
            sender,
            number,
            bytes,
        }
    }

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

    /// The publisher: a node in one of its lives.
    #[must_use]
    pub fn sender(&self) -> Origin {
        self.sender
    }

    /// Its number among this sender's messages to this group: 1, 2, 3, …
    ///
    /// A reader that joined later begins above 1. After that numbers grow by one; those that are
    /// left out are told before, by [`Received::Lost`](crate::Received::Lost), or were dropped
    /// because this subscription's queue was full ([`Received::Dropped`](crate::Received::Dropped)).
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its content.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        content(&self.bytes)
    }

    /// Its content, to keep.
    #[must_use]
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.truncate(content(&self.bytes).len());
        self.bytes
    }

    /// Where a gateway has it from, if one has relayed it from another site. Then [`Message::sender`] and
    /// [`Message::number`] are the gateway's.
    #[must_use]
    pub fn relayed(&self) -> Option<Relayed<'_>> {
        Relayed::split(&self.bytes).map(|(_, relayed)| relayed)
    }

    /// Place of a relayed message among those of its sender; `None` if it is not relayed.
    pub fn relayed_order(&self, numbers: &mut RelayedNumbers) -> Option<RelayedOrder> {
        let relayed = self.relayed()?;
        Some(numbers.check(&self.group, &relayed))
    }

    pub(crate) fn lend(&self) -> MessageRef<'_> {
        MessageRef {
            group: &self.group,
            group_id: self.group_id,
            sender: self.sender,
            number: self.number,
            bytes: &self.bytes,
        }
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

/// A message that is lent: its bytes are the core thread's, or the ring's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageRef<'a> {
    /// Name of the group it was published to.
    pub group: &'a str,
    /// The group's number, while the node stays in the cluster.
    pub group_id: GroupId,
    /// The publisher.
    pub sender: Origin,
    /// Its number among this sender's messages to this group, from 1. See [`Message::number`].
    pub number: u64,
    /// Its content; of a message of another site with the trailer that says from where it is
    /// ([`MessageRef::content`], [`MessageRef::relayed`]).
    pub bytes: &'a [u8],
}

impl<'a> MessageRef<'a> {
    /// Its content, without a trailer.
    #[must_use]
    pub fn content(&self) -> &'a [u8] {
        content(self.bytes)
    }

    /// Where a gateway has it from: see [`Message::relayed`].
    #[must_use]
    pub fn relayed(&self) -> Option<Relayed<'a>> {
        Relayed::split(self.bytes).map(|(_, relayed)| relayed)
    }

    /// The same, to keep; this is the group's name.
    pub(crate) fn own(&self, group: &Arc<str>) -> Message {
        Message {
            group: Arc::clone(group),
            group_id: self.group_id,
            sender: self.sender,
            number: self.number,
            bytes: self.bytes.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-RELAY-28.
    #[test]
    fn a_relayed_message_has_a_content_and_an_origin() {
        let relayed = Relayed::new("fra", "ticker", Origin::default(), 9);
        let mut bytes = b"1.0842".to_vec();
        relayed.append(&mut bytes);
        let message = Message {
            group: "prices".into(),
            group_id: GroupId(1),
            sender: Origin::default(),
            number: 2,
            bytes,
        };
        let mut numbers = RelayedNumbers::default();
        let order = message.relayed_order(&mut numbers);
        assert_eq!(order, Some(RelayedOrder::First));
        assert_eq!(message.relayed(), Some(relayed));
        let lent = message.lend();
        assert_eq!(
            (lent.content(), lent.relayed()),
            (&b"1.0842"[..], Some(relayed))
        );
        assert_eq!(message.bytes(), b"1.0842");
        assert_eq!(message.into_bytes(), b"1.0842");
    }
}
