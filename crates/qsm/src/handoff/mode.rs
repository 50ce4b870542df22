//! What a subscription wants while messages are missing.

use std::time::Duration;

use qsm_proto::Promptness;

/// Order and patience of a subscription: what it does with messages while earlier ones of their
/// sender are missing and may still be repaired. Chosen for each subscription
/// ([`GroupOptions::delivery`](crate::GroupOptions::delivery)); others of the same group and node
/// are not concerned, and neither are senders and other nodes: what is missing is repaired for all
/// in the same way.
///
/// ```
/// use std::time::Duration;
/// use qsm::{DeliveryMode, Node, Received};
///
/// let node = Node::builder()
/// #   .cluster(format!("doc-delivery-{}", std::process::id()))
/// #   .embedded_service(qsm::Embedded::Always)
///     .interface("lo")
///     .start()?;
/// let soon = DeliveryMode::Within(Duration::from_millis(20));
/// let screen = node.group("positions").delivery(soon).subscribe()?;
/// let journal = node.group("positions").subscribe()?; // every message, in order
/// # node.publisher("positions")?.send(b"3.1 4.7")?;
/// match screen.recv()? {
///     Received::Message(message) => println!("#{}", message.number()),
///     Received::Lost(lost) => println!("no {} to {}", lost.first, lost.last),
///     other => println!("{other}"),
/// }
/// # assert!(journal.recv()?.into_message().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DeliveryMode {
    /// In each sender's order, each message once. A message waits for those before it until they
    /// are repaired or nobody has them any more. The default.
    #[default]
    Ordered,
    /// In each sender's order, but what has been missing for so long is told as lost as soon as a
    /// later message is there, and delivery goes on behind it. What is repaired after that is not
    /// delivered to this subscription. The time counts from when this node finds out that packets
    /// are missing.
    ///
    /// A loss is told by exact numbers ([`Received::Lost`](crate::Received::Lost)), in its place.
    /// Before the first message of a sender to the group that this node gets, only the number of
    /// missing packets is known ([`Received::LostPackets`](crate::Received::LostPackets)), which may
    /// have had messages of other groups.
    Within(Duration),
    /// As messages come: one that is there is delivered at once, whatever is missing before it, and
    /// each once. [`Message::number`](crate::Message::number) tells its place. What is never had is
    /// told as lost when that is known.
    ///
    /// A message of several packets comes when it is whole.
    Arrival,
}

impl DeliveryMode {
    /// What the core is to do beside the delivery in order; `None`: nothing.
    pub(crate) fn promptness(self) -> Option<Promptness> {
        match self {
            Self::Ordered => None,
            Self::Within(limit) => Some(Promptness::Within(limit)),
            Self::Arrival => Some(Promptness::Arrival),
        }
    }
}
