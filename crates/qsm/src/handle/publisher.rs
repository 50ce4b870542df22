use std::sync::Arc;
use std::time::Duration;

use crate::attach::publisher::AttachedPublisher;
use crate::error::{RequestError, SendError, Unsent};
use crate::handle::feed::FeedHandle;
use crate::handle::own_publisher::OwnPublisher;
use crate::handle::reservation::Reservation;
use crate::handoff::feed::Feed;

/// Sends to one group, from any thread. Made by [`Node::publisher`](crate::Node::publisher).
///
/// Messages wait in a bounded queue of this publisher until the core thread may send them, which
/// it does for all publishers in turn. While it sleeps, and the last message is some time ago, the
/// caller sends the message himself, which takes a few microseconds and spares the message the
/// time until the core thread is awake. When the network, or a receiving node that is live, is
/// slower than the publisher, the queue fills up, and [`send`](Publisher::send) waits: memory stays
/// bounded. For nodes that are away nobody waits, unless all receivers are. For data that is better
/// made at the last moment than queued, see [`Publisher::feed`].
///
/// No publisher waits for the programs behind those nodes. A node takes in what comes as fast as it
/// can, and puts it into the queues of its subscriptions; a program that reads one more slowly
/// misses what its queue has no room for ([`Overflow`](crate::Overflow)), and is told how much. A
/// reader that must not miss anything at any rate needs an agreement with its publishers, such as
/// answers that they wait for, or takes messages by an upcall
/// ([`Group::subscribe_with`](crate::Group::subscribe_with)), which its node waits for.
///
/// Clones are the same publisher, with the same queue, and cheap. Dropping the last one gives up
/// the role of publisher after what is queued was sent. Shut the node down with
/// [`Node::shutdown`](crate::Node::shutdown) to be sure that it arrived.
///
/// Attached, all publishers of a process share one queue to the engine, in shared memory.
///
/// ```
/// use std::time::Duration;
///
/// # let builder = qsm::Node::builder()
/// #   .cluster(format!("doc-publisher-{}", std::process::id()))
/// #   .interface("lo");
/// # let first = builder.clone().embedded_service(qsm::Embedded::Always);
/// # let receiver = first.start()?;
/// # let news = receiver.subscribe(["news"])?;
/// # let node = builder.start()?;
/// let publisher = node.publisher("news")?;
/// // What is sent before somebody listens is not heard by those who join later.
/// publisher.wait_for_members(1, Duration::from_secs(10))?;
/// publisher.send(b"something new")?;
/// // Waits until all receivers have it.
/// node.flush(Duration::from_secs(10))?;
/// # assert!(news.recv()?.into_message().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Publisher {
    back: PublisherBack,
}

/// The back-end that sends.
#[derive(Debug, Clone)]
enum PublisherBack {
    Own(Arc<OwnPublisher>),
    Attached(Arc<AttachedPublisher>),
}

impl Publisher {
    /// The group's name.
    #[must_use]
    pub fn group(&self) -> &str {
        match &self.back {
            PublisherBack::Own(own) => own.group(),
            PublisherBack::Attached(attached) => attached.group(),
        }
    }

    /// Queues a copy of the message; waits while there is no room.
    ///
    /// Accepted means: it will be sent, and every live member of the group, that is its node, will
    /// receive it, unless this process ends before. [`Node::flush`](crate::Node::flush) waits for
    /// that.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-p-send-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// use qsm::SendError;
    ///
    /// let publisher = node.publisher("news")?;
    /// publisher.send(b"something new")?;
    /// # let too_long = vec![0; 100 << 20];
    /// assert!(matches!(publisher.send(&too_long), Err(SendError::TooLarge { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SendError`]: closed, too large, or called on the core thread when there is no room.
    pub fn send(&self, message: &[u8]) -> Result<(), SendError> {
        match &self.back {
            PublisherBack::Own(own) => own.send(message),
            PublisherBack::Attached(attached) => attached.send(message),
        }
    }

    /// Queues a copy of the message if there is room.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-p-try-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// use qsm::SendError;
    ///
    /// let publisher = node.publisher("temperature")?;
    /// match publisher.try_send(b"21.3") {
    ///     // The next one will do as well.
    ///     Ok(()) | Err(SendError::Full) => {}
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SendError`]: closed, full or too large.
    pub fn try_send(&self, message: &[u8]) -> Result<(), SendError> {
        match &self.back {
            PublisherBack::Own(own) => own.try_send(message),
            PublisherBack::Attached(attached) => attached.try_send(message),
        }
    }

    /// Queues a copy of the message; yields to other tasks while there is no room. Any executor
    /// will do. A future dropped before its end has queued nothing.
    ///
    /// ```no_run
    /// # fn main() {
    /// # async fn run(publisher: qsm::Publisher) -> Result<(), qsm::SendError> {
    /// for number in 0_u32..1_000_000 {
    ///     publisher.send_async(&number.to_le_bytes()).await?;
    /// }
    /// # Ok(())
    /// # }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SendError`]: closed or too large.
    pub async fn send_async(&self, message: &[u8]) -> Result<(), SendError> {
        match &self.back {
            PublisherBack::Own(own) => own.send_async(message).await,
            PublisherBack::Attached(attached) => attached.send_async(message).await,
        }
    }

    /// Queues the message itself, without copying it; waits while there is no room. A `Vec<u8>` or
    /// a `String` goes as it is, also one that others make from without a copy, such as
    /// `bytes::Bytes` that nobody shares.
    ///
    /// Attached, the message is copied into the queue to the engine, as by [`Publisher::send`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-p-owned-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// let publisher = node.publisher("pictures")?;
    /// let picture = vec![0; 1 << 20];
    /// publisher.send_owned(picture)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Publisher::send`].
    pub fn send_owned(&self, message: impl Into<Vec<u8>>) -> Result<(), SendError> {
        let message = message.into();
        match &self.back {
            PublisherBack::Own(own) => own.send_owned(message),
            PublisherBack::Attached(attached) => attached.send(&message),
        }
    }

    /// As [`Publisher::send_owned`], if there is room. Otherwise the message is in the error.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-p-try-owned-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// let publisher = node.publisher("pictures")?;
    /// let picture = vec![0; 1 << 20];
    /// if let Err(unsent) = publisher.try_send_owned(picture) {
    ///     println!("{unsent}; kept are {} bytes", unsent.message.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Unsent`], with the causes of [`Publisher::try_send`].
    pub fn try_send_owned(&self, message: impl Into<Vec<u8>>) -> Result<(), Unsent> {
        let mut message = message.into();
        let sent = match &self.back {
            PublisherBack::Own(own) => own.try_send_owned(&mut message),
            PublisherBack::Attached(attached) => attached.try_send(&message),
        };
        sent.map_err(|error| Unsent { error, message })
    }

    /// As [`Publisher::send_owned`], for tasks: yields to others while there is no room. A future
    /// dropped before its end has queued nothing.
    ///
    /// # Errors
    /// As [`Publisher::send_async`].
    pub async fn send_owned_async(&self, message: impl Into<Vec<u8>>) -> Result<(), SendError> {
        let message = message.into();
        match &self.back {
            PublisherBack::Own(own) => own.send_owned_async(message).await,
            PublisherBack::Attached(attached) => attached.send_async(&message).await,
        }
    }

    /// Takes room for a message of this length, to be written in place; waits while there is none.
    /// [`Reservation`] has an example.
    ///
    /// # Errors
    /// As [`Publisher::send`].
    pub fn reserve(&self, length: usize) -> Result<Reservation, SendError> {
        match &self.back {
            PublisherBack::Own(own) => Ok(Reservation::own(own.reserve(length)?, length)),
            PublisherBack::Attached(attached) => reserve_attached(attached, length),
        }
    }

    /// As [`Publisher::reserve`], if there is room. Attached there always is, and
    /// [`Reservation::commit`] waits for that of the queue.
    ///
    /// # Errors
    /// As [`Publisher::try_send`].
    pub fn try_reserve(&self, length: usize) -> Result<Reservation, SendError> {
        match &self.back {
            PublisherBack::Own(own) => Ok(Reservation::own(own.try_reserve(length)?, length)),
            PublisherBack::Attached(attached) => reserve_attached(attached, length),
        }
    }

    /// Lets the core thread pull messages from a feed of the application whenever it may
    /// send: nothing is queued, messages are made when there is room for them, and the
    /// newest state can be sent instead of old ones. A publisher may have several feeds, and be
    /// sent to as well; all take turns.
    ///
    /// The feed is asked at once, and after [`Pull::Idle`](crate::Pull::Idle) again when
    /// [`FeedHandle::wake`] was called; after [`Pull::At`](crate::Pull::At) at that time, too.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-p-feed-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use qsm::Pull;
    ///
    /// # let prices = node.subscribe(["prices/eur"])?;
    /// let price = Arc::new(AtomicU64::new(0));
    /// let newest = Arc::clone(&price);
    /// let mut sent = 0;
    /// let feed = node.publisher("prices/eur")?.feed(move |message: &mut Vec<u8>| {
    ///     let price = newest.load(Ordering::Relaxed);
    ///     if price == sent {
    ///         return Pull::Idle;
    ///     }
    ///     sent = price;
    ///     message.extend_from_slice(&price.to_le_bytes());
    ///     Pull::Message
    /// })?;
    /// price.store(10_842, Ordering::Relaxed);
    /// feed.wake();
    /// # let message = prices.recv()?.into_message().expect("nothing is missing");
    /// # assert_eq!(message.bytes(), 10_842_u64.to_le_bytes());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RequestError::Closed`]; [`RequestError::NotAttached`] of an attached node, whose core
    /// thread is in another process.
    pub fn feed(&self, feed: impl Feed + 'static) -> Result<FeedHandle, RequestError> {
        match &self.back {
            PublisherBack::Own(own) => Ok(FeedHandle(own.feed(Box::new(feed))?)),
            PublisherBack::Attached(_) => Err(RequestError::NotAttached {
                what: "a feed, which the core thread pulls from",
                remedy: "use `Publisher::send`, or run a node of this process",
            }),
        }
    }

    /// Waits until the group has at least `count` receivers known to this node, not counting this
    /// node itself. Messages sent earlier than that do not reach those who join later. Receivers that
    /// are away count: they get what is sent when they are back.
    ///
    /// # Errors
    /// [`RequestError::TooFewReceivers`] names who is there and who of them is away; closed, or called
    /// on the core thread.
    pub fn wait_for_members(&self, count: u32, timeout: Duration) -> Result<(), RequestError> {
        match &self.back {
            PublisherBack::Own(own) => own.wait_for_members(count, timeout),
            PublisherBack::Attached(attached) => attached.wait_for_members(count, timeout),
        }
    }

    /// The number of receivers of the group known here now, not counting this node itself; those that
    /// are away included.
    ///
    /// # Errors
    /// [`RequestError`]: closed, or called on the core thread.
    pub fn members(&self) -> Result<u32, RequestError> {
        match &self.back {
            PublisherBack::Own(own) => own.members(),
            PublisherBack::Attached(attached) => attached.members(),
        }
    }

    /// Messages that wait to be sent. Attached, 0 or 1: whether this process's queue to the engine
    /// holds anything.
    #[must_use]
    pub fn queued(&self) -> usize {
        match &self.back {
            PublisherBack::Own(own) => own.queued(),
            PublisherBack::Attached(attached) => attached.queued(),
        }
    }

    pub(crate) fn own(own: OwnPublisher) -> Self {
        let back = PublisherBack::Own(Arc::new(own));
        Self { back }
    }

    pub(crate) fn attached(attached: AttachedPublisher) -> Self {
        let back = PublisherBack::Attached(Arc::new(attached));
        Self { back }
    }
}

fn reserve_attached(
    attached: &Arc<AttachedPublisher>,
    length: usize,
) -> Result<Reservation, SendError> {
    attached.check(length)?;
    Ok(Reservation::attached(Arc::clone(attached), length))
}
