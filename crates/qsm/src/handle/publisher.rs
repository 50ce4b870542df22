use std::sync::Arc;
use std::time::Duration;

use crate::attach::publisher::AttachedPublisher;
use crate::error::{RequestError, SendError};
use crate::handle::feed::FeedHandle;
use crate::handle::own_publisher::OwnPublisher;
use crate::handoff::feed::Feed;

/// Sends to one group, from any thread. Made by [`Node::publisher`](crate::Node::publisher).
///
/// Messages wait in a bounded queue of this publisher until the core thread may send them, which
/// it does for all publishers in turn. While it sleeps, and the last message is some time ago, the
/// caller sends the message himself, which takes a few microseconds and spares the message the
/// time until the core thread is awake. When receivers are slower than the publisher, the queue
/// fills up, and [`send`](Publisher::send) waits: memory stays bounded (R139). For data that is
/// better made at the last moment than queued, see [`Publisher::feed`].
///
/// Clones are the same publisher, with the same queue, and cheap. Dropping the last one gives up
/// the role of publisher after what is queued was sent. Shut the node down with
/// [`Node::shutdown`](crate::Node::shutdown) to be sure that it arrived.
///
/// Attached, all publishers of a process share one queue to the engine, in shared memory.
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
    /// Accepted means: it will be sent, and every live member of the group will receive it,
    /// unless this process ends before. [`Node::flush`](crate::Node::flush) waits for that.
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
    /// # Errors
    /// [`SendError`]: closed or too large.
    pub async fn send_async(&self, message: &[u8]) -> Result<(), SendError> {
        match &self.back {
            PublisherBack::Own(own) => own.send_async(message).await,
            PublisherBack::Attached(attached) => attached.send_async(message).await,
        }
    }

    /// Lets the core thread pull messages from a feed of the application whenever it may send
    /// (R131, R135): nothing is queued, messages are made when there is room for them, and the
    /// newest state can be sent instead of old ones. A publisher may have several feeds, and be
    /// sent to as well; all take turns.
    ///
    /// The feed is asked at once, and after [`Pull::Idle`](crate::Pull::Idle) again when
    /// [`FeedHandle::wake`] was called; after [`Pull::At`](crate::Pull::At) at that time, too.
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
    /// node itself. Messages sent earlier than that do not reach those who join later.
    ///
    /// # Errors
    /// [`RequestError`]: timeout, closed, or called on the core thread.
    pub fn wait_for_members(&self, count: u32, timeout: Duration) -> Result<(), RequestError> {
        match &self.back {
            PublisherBack::Own(own) => own.wait_for_members(count, timeout),
            PublisherBack::Attached(attached) => attached.wait_for_members(count, timeout),
        }
    }

    /// How many receivers of the group are known here now, not counting this node itself.
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
