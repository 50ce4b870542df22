use std::time::Duration;

use qsm_proto::send::Batching;

use crate::handoff::aside::Item;
use crate::handoff::message::{Capacity, Overflow};
use crate::handoff::mode::DeliveryMode;
use crate::handoff::received::Received;

/// Options of a publisher to groups, as plain data.
///
/// ```
/// use std::time::Duration;
/// use qsm::PublishOptions;
///
/// // Samples may wait for a millisecond, so that more of them share a packet.
/// let samples = PublishOptions::default().batch_delay(Duration::from_millis(1));
/// # assert_ne!(samples, PublishOptions::default());
/// ```
///
/// [`Group::publish_options`](crate::Group::publish_options) and
/// [`Groups::publish_options`](crate::Groups::publish_options) take them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishOptions {
    delay: Option<Duration>,
    bytes: usize,
}

impl Default for PublishOptions {
    fn default() -> Self {
        Self {
            delay: None,
            bytes: usize::MAX,
        }
    }
}

impl PublishOptions {
    /// Longest time that a message waits for others to fill its packet; what
    /// [`Pace::batch_delay`](crate::Pace::batch_delay) says if not given, which is no time. Messages of
    /// different groups share packets, and the one that may wait least decides when its packet
    /// leaves. Full packets never wait. Receivers' credit and the rate may hold a packet for longer.
    #[must_use]
    pub fn batch_delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Length from which on a packet does not wait, bytes, its header included; if not given, that of
    /// a full one. Without effect without [`PublishOptions::batch_delay`].
    #[must_use]
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// The same for the protocol, if it is given.
    pub(crate) fn batching(&self) -> Option<Batching> {
        let bytes = self.bytes;
        self.delay.map(|delay| Batching { delay, bytes })
    }
}

/// Options of a subscription to groups, as plain data: keep them, copy them, use them for many.
///
/// ```
/// use qsm::{GroupOptions, Overflow};
///
/// let newest_only = GroupOptions::default()
///     .capacity_messages(1000)
///     .capacity_bytes(1 << 20)
///     .overflow(Overflow::DropOldest);
/// assert_ne!(newest_only, GroupOptions::default());
/// ```
///
/// [`Group::options`](crate::Group::options) and [`Groups::options`](crate::Groups::options) take
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupOptions {
    messages: usize,
    /// `None`: the default, or what the engine gives.
    bytes: Option<usize>,
    overflow: Overflow,
    pub(crate) delivery: DeliveryMode,
    pub(crate) groups_max: usize,
}

impl GroupOptions {
    /// Default of [`GroupOptions::capacity_messages`]: no limit but that of memory.
    pub const CAPACITY_MESSAGES: usize = usize::MAX;
    /// Default of [`GroupOptions::capacity_bytes`], 64 MiB: almost half a million short messages, or three
    /// of the largest.
    pub const CAPACITY_BYTES: usize = 64 << 20;
    /// Memory that a message takes in a queue beside its length, at most. In a ring of an engine
    /// it is 32 bytes.
    pub const MESSAGE_OVERHEAD: usize = <Received as Item>::OVERHEAD;

    /// Default of [`GroupOptions::groups_max`], 131,072: as many as a node enters
    /// ([`Limits::groups`](crate::Limits::groups)).
    pub const GROUPS_MAX: usize = 1 << 17;

    /// Most messages that wait to be read, if that is fewer than fit into the memory. Where the groups lie on several core threads
    /// ([`Builder::cores`](crate::Builder::cores)), each has its share of this.
    #[must_use]
    pub fn capacity_messages(mut self, messages: usize) -> Self {
        self.messages = messages.max(1);
        self
    }

    /// Most memory of messages that wait to be read, bytes, shared in the same way: each takes its
    /// length and [`GroupOptions::MESSAGE_OVERHEAD`]. A larger message is taken when the queue is
    /// empty. Memory is in use only while messages wait.
    ///
    /// Attached, this is the ring (but with a pattern, see [`Group`](crate::Group#patterns)), rounded up to a power of two, and the number of messages has no
    /// limit. A message takes its length and 32 bytes; one that is longer than the ring is dropped.
    /// The engine gives 4 MiB if not asked, at most
    /// [`ring_bytes_max`](crate::attach::ShareOptions::ring_bytes_max).
    #[must_use]
    pub fn capacity_bytes(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// The policy for messages beyond that. Attached, [`Overflow::DropOldest`] is refused: what
    /// lies in the ring belongs to the reader. The queue of a pattern takes it.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// What is done with messages while earlier ones are missing.
    ///
    /// Attached, the engine does it. The newest message of each
    /// key ([`Group::latest_by`](crate::Group::latest_by)) is not to be had in the order of arrival.
    #[must_use]
    pub fn delivery(mut self, delivery: DeliveryMode) -> Self {
        self.delivery = delivery;
        self
    }

    /// Most groups that patterns are followed to; see [`Group`](crate::Group#patterns). When there
    /// are more, [`Group::subscribe`](crate::Group::subscribe) is refused; those that appear later
    /// are left out and counted
    /// ([`Subscription::followed`](crate::Subscription::followed)).
    #[must_use]
    pub fn groups_max(mut self, groups: usize) -> Self {
        self.groups_max = groups;
        self
    }

    /// Of a queue in this process.
    pub(crate) fn queue(&self) -> (Capacity, Overflow) {
        let capacity = Capacity {
            messages: self.messages,
            bytes: self.bytes.unwrap_or(Self::CAPACITY_BYTES),
        };
        (capacity, self.overflow)
    }

    /// Of a ring of an engine, and its bytes if they were given.
    pub(crate) fn ring(&self) -> (Option<usize>, Overflow) {
        (self.bytes, self.overflow)
    }
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self {
            messages: Self::CAPACITY_MESSAGES,
            bytes: None,
            overflow: Overflow::default(),
            delivery: DeliveryMode::Ordered,
            groups_max: Self::GROUPS_MAX,
        }
    }
}
