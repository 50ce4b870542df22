//! A publisher at a core thread of this process.

use core::future::poll_fn;
use core::task::Poll;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{RequestError, SendError};
use crate::handle::cores::Cores;
use crate::handle::names::Names;
use crate::handoff::command::{Command, FeedPlace};
use crate::handoff::feed::Feed;
use crate::handoff::outlet::Outlet;
use crate::handoff::shared::Shared;
use crate::handoff::signal::Signal;
use crate::runtime::core::CoreLoan;

/// Dropping it gives up the role of publisher after what is queued was sent.
#[derive(Debug)]
pub(crate) struct OwnPublisher {
    pub(crate) outlet: Arc<Outlet>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) loan: Arc<CoreLoan>,
    /// For the names of receivers.
    pub(crate) cores: Cores,
    pub(crate) names: Arc<Names>,
}

/// A feed's place in a core. Dropping it drops the feed.
pub(crate) struct OwnFeed {
    slot: u32,
    pub(crate) signal: Arc<Signal>,
    shared: Arc<Shared>,
}

impl OwnFeed {
    pub(crate) fn wake(&self) {
        if self.signal.raise() {
            self.shared.announce(self.slot);
        }
    }
}

impl Drop for OwnFeed {
    fn drop(&mut self) {
        self.shared.tell(Command::Retire { slot: self.slot });
    }
}

impl OwnPublisher {
    pub(crate) fn group(&self) -> &str {
        &self.outlet.name
    }

    pub(crate) fn send(&self, message: &[u8]) -> Result<(), SendError> {
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

    pub(crate) fn try_send(&self, message: &[u8]) -> Result<(), SendError> {
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

    /// As [`OwnPublisher::send`], on a thread that is no core thread, unless it is over before there
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

    pub(crate) async fn send_async(&self, message: &[u8]) -> Result<(), SendError> {
        poll_fn(|context| {
            let attempt = || self.attempt(message);
            match self.shared.gate.sleepers.poll(context, attempt) {
                Poll::Ready(result) => Poll::Ready(result),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    pub(crate) fn feed(&self, feed: Box<dyn Feed>) -> Result<OwnFeed, RequestError> {
        let name = Arc::clone(&self.outlet.name);
        let command = |reply, _| Command::Feed { name, feed, reply };
        let FeedPlace { slot, signal } = self.shared.ask("registering a feed", None, command)?;
        Ok(OwnFeed {
            slot,
            signal,
            shared: Arc::clone(&self.shared),
        })
    }

    pub(crate) fn wait_for_members(
        &self,
        count: u32,
        timeout: Duration,
    ) -> Result<(), RequestError> {
        let waited = self.wait_for_unnamed(count, timeout);
        self.names.add(waited, &self.cores)
    }

    /// The same, without asking for the names of those that are there.
    pub(crate) fn wait_for_unnamed(
        &self,
        count: u32,
        timeout: Duration,
    ) -> Result<(), RequestError> {
        let name = Arc::clone(&self.outlet.name);
        let doing = "waiting for members of the group; check with `qsm nodes` that they are there";
        self.shared
            .ask(doing, Some(timeout), |reply, deadline| {
                Command::WaitMembers {
                    name,
                    count,
                    deadline,
                    reply,
                }
            })
            .map(drop)
    }

    pub(crate) fn members(&self) -> Result<u32, RequestError> {
        let name = Arc::clone(&self.outlet.name);
        self.shared
            .ask("counting members", None, |reply, _| Command::Members {
                name,
                reply,
            })
    }

    pub(crate) fn queued(&self) -> usize {
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

impl Drop for OwnPublisher {
    fn drop(&mut self) {
        self.shared.tell(Command::Retire {
            slot: self.outlet.slot,
        });
    }
}
