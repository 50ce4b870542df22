//! Messages of a subscription in order, and notices of those missing between them.

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use qsm_wire::{Incarnation, Origin};

use crate::counted::Counted;
use crate::handoff::aside::{Item, NOTICES_MAX};
use crate::handoff::inbox::ENTRY_BYTES;
use crate::handoff::message::{Message, MessageRef};

/// Memory that the C library takes for a message beside its length, at most: 8 bytes of its own,
/// rounded up to 16, and 32 at least.
const HEAP_BYTES: usize = 32;

/// An item of a subscription. Notices of missing messages come in the order of the messages: after
/// those that came before, and before those that follow.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Received {
    /// A message.
    Message(Message),
    /// Messages that will never be delivered here.
    Lost(Lost),
    /// Packets that nobody holds any more.
    LostPackets(LostPackets),
    /// Messages that this subscription's own queue had no room for.
    Dropped(Dropped),
    /// This node was away for a while, and has caught up: nothing is missing here. Its node tells
    /// the same as [`Event::Back`](crate::Event::Back).
    Back(Back),
    /// This node was away for too long and has begun a new life: something may be missing here. Its
    /// node tells the same as [`Event::Excluded`](crate::Event::Excluded).
    Excluded(Excluded),
}

/// Messages that will never be delivered here: numbers `first..=last` of this sender in this group,
/// for this cause.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The group's name.
    pub group: Arc<str>,
    /// The sender.
    pub sender: Origin,
    /// First message lost.
    pub first: u64,
    /// Last message lost.
    pub last: u64,
    /// Why.
    pub cause: LostCause,
}

/// Why messages will never be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LostCause {
    /// Nobody has them any more: they were lost with a sender that died, while this node was away, or
    /// because it lagged and its senders did not wait for it.
    #[default]
    Gone,
    /// They were sent while this node was excluded ([`Received::Excluded`]): then this comes before
    /// the first message that the sender sends afterwards.
    Excluded,
    /// They were missing for longer than this subscription waits
    /// ([`DeliveryMode::Within`](crate::DeliveryMode::Within)).
    Overdue,
    /// They were missing when their lifetime was over, which the operator gives to groups: older
    /// messages are not repaired.
    Expired,
}

/// Packets that nobody holds any more, of a sender that is gone. Which messages were in them, and of
/// which of the groups of one region, is not known, except where later messages show it by [`Lost`].
/// A sender that is there says which they were, and all of them are told by [`Lost`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostPackets {
    /// The sender.
    pub sender: Origin,
    /// Number of packets.
    pub packets: u64,
}

/// Messages dropped because this subscription's queue was full: its reader is too slow.
///
/// Which ones they were, the numbers of the messages before and after show
/// ([`Message::number`]): the example `missing_messages` keeps an account of them.
///
/// Beyond [`Dropped::NOTICES`] losses that wait to be read, further ones are counted here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dropped {
    /// Number of messages.
    pub messages: u64,
}

impl Dropped {
    /// Losses that wait to be read, of a subscription at one core thread, each told exactly.
    pub const NOTICES: usize = NOTICES_MAX;
}

/// This node was away: the cluster did not hear it, and nobody waited for it. It has caught up, in
/// the same life, and is waited for again. What was sent while it was away has come before this, or
/// is told by [`Lost`] in its place; messages go on behind it.
///
/// It is told to the subscriptions with a group of the region that the node was away in. If the node
/// is away for too long, [`Excluded`] comes instead.
///
/// ```
/// use qsm::{Node, Received};
///
/// # let node = Node::builder()
/// #   .cluster(format!("doc-back-{}", std::process::id()))
/// #   .embedded_service(qsm::Embedded::Always)
/// #   .interface("lo")
/// #   .start()?;
/// let news = node.subscribe(["news"])?;
/// # node.publisher("news")?.send(b"something new")?;
/// match news.recv()? {
///     Received::Message(message) => println!("{:?}", message.bytes()),
///     Received::Back(back) => println!("late by up to {:?}, and complete", back.away),
///     Received::Excluded(_) => println!("what follows does not join what came before"),
///     missing => println!("{missing}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Back {
    /// Time since the node was heard last, as far as it knows. What came before this was sent at
    /// most so long before it came, and a moment.
    pub away: Duration,
}

/// The cluster took this node for dead, because it was silent too long. It has come back in a new
/// life, and misses what was sent meanwhile: of a node with several core threads, in the groups of
/// one of them. What it has missed of a sender, [`Lost`] says before the sender's next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Excluded {
    /// The life that the cluster has ended.
    pub incarnation: Incarnation,
}

impl Received {
    /// The message, if it is one.
    #[must_use]
    pub fn into_message(self) -> Option<Message> {
        match self {
            Self::Message(message) => Some(message),
            _ => None,
        }
    }

    /// Number of messages missing here, as far as known; of lost packets, the number of packets.
    /// 0 of [`Received::Back`], where nothing is, and of [`Received::Excluded`], where nothing is known.
    #[must_use]
    pub fn missing(&self) -> u64 {
        match self {
            Self::Message(_) | Self::Back(_) | Self::Excluded(_) => 0,
            Self::Lost(lost) => lost.messages(),
            Self::LostPackets(lost) => lost.packets,
            Self::Dropped(dropped) => dropped.messages,
        }
    }
}

impl Lost {
    /// Of this sender in this group, `first..=last`, which nobody has any more; for tests of those who
    /// handle losses.
    #[must_use]
    pub fn new(group: impl Into<Arc<str>>, sender: Origin, first: u64, last: u64) -> Self {
        let group = group.into();
        Self {
            group,
            sender,
            first,
            last,
            cause: LostCause::Gone,
        }
    }

    /// The same for another cause.
    #[must_use]
    pub fn because(self, cause: LostCause) -> Self {
        Self { cause, ..self }
    }

    /// Number of messages.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }
}

/// Says what is missing; of a message, which one it is.
impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(message) => write!(
                f,
                "message {} of sender {} in group {:?}",
                message.number(),
                message.sender(),
                message.group()
            ),
            Self::Lost(lost) => lost.fmt(f),
            Self::LostPackets(lost) => lost.fmt(f),
            Self::Dropped(dropped) => dropped.fmt(f),
            Self::Back(back) => back.fmt(f),
            Self::Excluded(excluded) => excluded.fmt(f),
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            sender,
            first,
            last,
            cause,
        } = self;
        let why = match cause {
            LostCause::Gone | LostCause::Excluded => "",
            LostCause::Overdue => ": they were not waited for any longer",
            LostCause::Expired => ": they had expired",
        };
        write!(
            f,
            "messages {first}..={last} of sender {sender} in group {group:?} are lost{why}"
        )
    }
}

impl fmt::Display for LostPackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sender, packets } = self;
        write!(
            f,
            "{} of sender {sender}, which has died, {} lost",
            Counted(*packets, "packet"),
            if *packets == 1 { "is" } else { "are" }
        )
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} dropped because not read in time",
            Counted(self.messages, "message")
        )
    }
}

impl fmt::Display for Back {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this node was away for {:.1} s and has caught up",
            self.away.as_secs_f64()
        )
    }
}

impl fmt::Display for Excluded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the cluster took this node for dead in its life {}; it has come back and misses what \
             was sent meanwhile",
            self.incarnation
        )
    }
}

/// An item of an upcall: as [`Received`], but lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery<'a> {
    /// A message.
    Message(MessageRef<'a>),
    /// See [`Received::Lost`].
    Lost(&'a Lost),
    /// See [`Received::LostPackets`].
    LostPackets(&'a LostPackets),
    /// See [`Received::Dropped`]. An upcall of a node has no queue, and drops nothing.
    Dropped(&'a Dropped),
    /// See [`Received::Back`].
    Back(&'a Back),
    /// See [`Received::Excluded`].
    Excluded(&'a Excluded),
}

impl<'a> Delivery<'a> {
    /// The message, if it is one.
    #[must_use]
    pub fn message(self) -> Option<MessageRef<'a>> {
        match self {
            Self::Message(message) => Some(message),
            _ => None,
        }
    }
}

impl<'a> From<&'a Received> for Delivery<'a> {
    fn from(received: &'a Received) -> Self {
        match received {
            Received::Message(message) => Self::Message(message.lend()),
            Received::Lost(lost) => Self::Lost(lost),
            Received::LostPackets(lost) => Self::LostPackets(lost),
            Received::Dropped(dropped) => Self::Dropped(dropped),
            Received::Back(back) => Self::Back(back),
            Received::Excluded(excluded) => Self::Excluded(excluded),
        }
    }
}

impl Item for Received {
    const OVERHEAD: usize = size_of::<Self>() + ENTRY_BYTES + HEAP_BYTES;

    fn dropped(items: u64) -> Option<Self> {
        Some(Self::Dropped(Dropped { messages: items }))
    }

    fn missing(&self) -> u64 {
        Self::missing(self)
    }

    fn divides(&self) -> bool {
        matches!(self, Self::Back(_) | Self::Excluded(_))
    }

    fn join(&mut self, next: Self) -> Result<(), Self> {
        match (self, next) {
            (Self::Lost(lost), Self::Lost(next))
                if lost.last.checked_add(1) == Some(next.first)
                    && lost.sender == next.sender
                    && lost.group == next.group
                    && lost.cause == next.cause =>
            {
                lost.last = next.last;
            }
            (Self::LostPackets(lost), Self::LostPackets(next)) if lost.sender == next.sender => {
                lost.packets = lost.packets.saturating_add(next.packets);
            }
            (Self::Dropped(dropped), Self::Dropped(next)) => {
                dropped.messages = dropped.messages.saturating_add(next.messages);
            }
            (Self::Back(back), Self::Back(next)) => back.away = next.away.max(back.away),
            (Self::Excluded(excluded), Self::Excluded(next)) => *excluded = next,
            (_, next) => return Err(next),
        }
        Ok(())
    }
}
