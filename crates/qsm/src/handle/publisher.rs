use core::future::poll_fn;
use core::task::Poll;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{RequestError, SendError};
use crate::handle::feed::FeedHandle;
use crate::handoff::command::{Command, FeedPlace};
use crate::handoff::feed::Feed;
use crate::handoff::outlet::Outlet;
use crate::handoff::shared::Shared;
use crate::runtime::core::CoreLoan;

/// Sends to one group, from any thread. Made by [`Node::publisher`](crate::Node::publisher).
///
/// Messages wait in a bounded queue of this publisher until the core thread may send them, which
/// it does for all publishers in turn. While it sleeps, and the last message is some time ago, the
/// caller sends the message himself, which takes a few microseconds and spares the message the
/// time until the core thread is awake. When receivers are slower than the publisher, the queue
/// fills up, and [`send`](Publisher::send) waits: memory stays bounded (R139). For data that is
/// better made at the last moment than queued, see [`Publisher::feed`].
///
/// Dropping it gives up the role of publisher after what is queued was sent. Shut the node down
/// with [`Node::shutdown`](crate::Node::shutdown) to be sure that it arrived.
#[derive(Debug)]
pub struct Publisher {
    pub(crate) outlet: Arc<Outlet>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) loan: Arc<CoreLoan>,
}

impl Publisher {
    /// The group's name.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.outlet.name
    }

    /// Queues a copy of the message; waits while there is no room.
    ///
    /// Accepted means: it will be sent, and every live member of the group will receive it,
    /// unless this process ends before. [`Node::flush`](crate::Node::flush) waits for that.
    ///
    /// # Errors
    /// [`SendError`]: closed, too large, or called on the core thread when there is no room.
    pub fn send(&self, message: &[u8]) -> Result<(), SendError> {
        match self.try_send(message) {
            Err(SendError::Full) if self.shared.on_core_thread() => Err(SendError::OnCoreThread),
            Err(SendError::Full) => {
                let accepted = self
                    .shared
                    .gate
                    .sleepers
                    .wait(None, || self.attempt(message));
                // Without a deadline a wait ends only with a result.
                accepted.unwrap_or(Err(SendError::Full))
            }
            other => other,
        }
    }

    /// Queues a copy of the message if there is room.
    ///
    /// # Errors
    /// [`SendError`]: closed, full or too large.
    pub fn try_send(&self, message: &[u8]) -> Result<(), SendError> {
        if self.queue(message)? {
            self.loan.send(&self.shared, self.outlet.slot);
        }
        Ok(())
    }

    /// Queues a copy if there is room. True if somebody has to look at the queue.
    fn queue(&self, message: &[u8]) -> Result<bool, SendError> {
        self.shared.check_open().map_err(SendError::Closed)?;
        let (length, max) = (message.len(), self.shared.message_bytes_max);
        if length > max {
            return Err(SendError::TooLarge { length, max });
        }
        let queued = self.outlet.push(&self.shared.gate, message);
        queued.ok_or(SendError::Full)
    }

    /// As [`Publisher::send`], on a thread that is no core thread, unless it is over before there
    /// is room; then false. Whoever ends it wakes those who wait at the gate.
    pub(crate) fn send_unless(
        &self,
        message: &[u8],
        over: impl Fn() -> bool,
    ) -> Result<bool, SendError> {
        match self.try_send(message) {
            Err(SendError::Full) => {}
            result => return result.map(|()| true),
        }
        let attempt = || match over() {
            true => Some(Ok(false)),
            false => self.attempt(message).map(|sent| sent.map(|()| true)),
        };
        let sent = self.shared.gate.sleepers.wait(None, attempt);
        // Without a deadline a wait ends only with a result.
        sent.unwrap_or(Err(SendError::Full))
    }

    /// Queues a copy of the message; yields to other tasks while there is no room. Any executor
    /// will do. A future dropped before its end has queued nothing.
    ///
    /// # Errors
    /// [`SendError`]: closed or too large.
    pub async fn send_async(&self, message: &[u8]) -> Result<(), SendError> {
        poll_fn(|context| {
            let attempt = || self.attempt(message);
            match self.shared.gate.sleepers.poll(context, attempt) {
                Poll::Ready(result) => Poll::Ready(result),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
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
    /// [`RequestError::Closed`].
    pub fn feed(&self, feed: impl Feed + 'static) -> Result<FeedHandle, RequestError> {
        let name = Arc::clone(&self.outlet.name);
        let feed = Box::new(feed);
        let command = |reply, _| Command::Feed { name, feed, reply };
        let FeedPlace { slot, signal } = self.shared.ask("registering a feed", None, command)?;
        Ok(FeedHandle {
            slot,
            signal,
            shared: Arc::clone(&self.shared),
        })
    }

    /// Waits until the group has at least `count` receivers known to this node, not counting this
    /// node itself. Messages sent earlier than that do not reach those who join later.
    ///
    /// # Errors
    /// [`RequestError`]: timeout, closed, or called on the core thread.
    pub fn wait_for_members(&self, count: u32, timeout: Duration) -> Result<(), RequestError> {
        let name = Arc::clone(&self.outlet.name);
        let doing = "waiting for members of the group; check with `qsm nodes` that they are there";
        self.shared.ask(doing, Some(timeout), |reply, deadline| {
            Command::WaitMembers {
                name,
                count,
                deadline,
                reply,
            }
        })
    }

    /// How many receivers of the group are known here now, not counting this node itself.
    ///
    /// # Errors
    /// [`RequestError`]: closed, or called on the core thread.
    pub fn members(&self) -> Result<u32, RequestError> {
        let name = Arc::clone(&self.outlet.name);
        self.shared
            .ask("counting members", None, |reply, _| Command::Members {
                name,
                reply,
            })
    }

    /// Messages that wait to be sent.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.outlet.messages()
    }

    /// Of one who waits at the gate. He has it locked, so that the core is not to be borrowed.
    fn attempt(&self, message: &[u8]) -> Option<Result<(), SendError>> {
        match self.queue(message) {
            Err(SendError::Full) => None,
            Err(error) => Some(Err(error)),
            Ok(announce) => {
                if announce {
                    self.shared.announce(self.outlet.slot);
                }
                Some(Ok(()))
            }
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.shared.tell(Command::Retire {
            slot: self.outlet.slot,
        });
    }
}
