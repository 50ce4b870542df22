//! A publisher at a core thread of this process.

use core::future::poll_fn;
use core::mem;
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

/// Room for a message in a publisher's queue. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Room {
    publisher: Arc<OwnPublisher>,
    bytes: usize,
    filled: bool,
}

impl Room {
    /// Queues a message that is not longer than the room.
    pub(crate) fn fill(mut self, message: Vec<u8>) -> Result<(), SendError> {
        let OwnPublisher {
            outlet,
            shared,
            loan,
            ..
        } = &*self.publisher;
        shared.check_open().map_err(SendError::Closed)?;
        self.filled = true;
        let unused = message.len() < self.bytes;
        let announce = outlet.fill(&shared.gate, self.bytes, message);
        if unused {
            shared.gate.sleepers.wake();
        }
        if announce {
            loan.send(shared, outlet.slot);
        }
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if !self.filled {
            let OwnPublisher { outlet, shared, .. } = &*self.publisher;
            outlet.give_back(&shared.gate, self.bytes);
            shared.gate.sleepers.wake();
        }
    }
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
        self.send_made(message.len(), || message.to_vec())
    }

    pub(crate) fn send_owned(&self, mut message: Vec<u8>) -> Result<(), SendError> {
        self.send_made(message.len(), || mem::take(&mut message))
    }

    fn send_made(&self, length: usize, mut make: impl FnMut() -> Vec<u8>) -> Result<(), SendError> {
        match self.try_send_made(length, &mut make) {
            Err(SendError::Full) => self.wait_at_gate(|| self.attempt(length, &mut make)),
            other => other,
        }
    }

    /// Tries again whenever there may be room.
    fn wait_at_gate<T>(
        &self,
        attempt: impl FnMut() -> Option<Result<T, SendError>>,
    ) -> Result<T, SendError> {
        if self.shared.on_core_thread() {
            return Err(SendError::OnCoreThread);
        }
        let accepted = self.shared.gate.sleepers.wait(None, attempt);
        // Without a deadline a wait ends only with a result.
        accepted.unwrap_or(Err(SendError::Full))
    }

    pub(crate) fn try_send(&self, message: &[u8]) -> Result<(), SendError> {
        self.try_send_made(message.len(), || message.to_vec())
    }

    /// The message is taken only if it is accepted.
    pub(crate) fn try_send_owned(&self, message: &mut Vec<u8>) -> Result<(), SendError> {
        self.try_send_made(message.len(), || mem::take(message))
    }

    fn try_send_made(
        &self,
        length: usize,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), SendError> {
        if self.queue(length, make)? {
            self.loan.send(&self.shared, self.outlet.slot);
        }
        Ok(())
    }

    /// Queues a message if there is room. True if somebody has to look at the queue.
    fn queue(&self, length: usize, make: impl FnOnce() -> Vec<u8>) -> Result<bool, SendError> {
        self.check(length)?;
        let queued = self.outlet.push(&self.shared.gate, length, make);
        queued.ok_or(SendError::Full)
    }

    fn check(&self, length: usize) -> Result<(), SendError> {
        self.shared.check_open().map_err(SendError::Closed)?;
        let max = self.shared.message_bytes_max;
        match length > max {
            true => Err(SendError::TooLarge { length, max }),
            false => Ok(()),
        }
    }

    /// Takes room for a message of this length, if there is some.
    pub(crate) fn try_reserve(self: &Arc<Self>, length: usize) -> Result<Room, SendError> {
        self.check(length)?;
        match self.outlet.reserve(&self.shared.gate, length) {
            true => Ok(Room {
                publisher: Arc::clone(self),
                bytes: length,
                filled: false,
            }),
            false => Err(SendError::Full),
        }
    }

    /// The same; waits until there is some.
    pub(crate) fn reserve(self: &Arc<Self>, length: usize) -> Result<Room, SendError> {
        match self.try_reserve(length) {
            Err(SendError::Full) => self.wait_at_gate(|| match self.try_reserve(length) {
                Err(SendError::Full) => None,
                result => Some(result),
            }),
            other => other,
        }
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
            false => {
                let sent = self.attempt(message.len(), || message.to_vec());
                sent.map(|sent| sent.map(|()| true))
            }
        };
        let sent = self.shared.gate.sleepers.wait(None, attempt);
        // Without a deadline a wait ends only with a result.
        sent.unwrap_or(Err(SendError::Full))
    }

    pub(crate) async fn send_async(&self, message: &[u8]) -> Result<(), SendError> {
        self.send_made_async(message.len(), || message.to_vec())
            .await
    }

    pub(crate) async fn send_owned_async(&self, mut message: Vec<u8>) -> Result<(), SendError> {
        self.send_made_async(message.len(), || mem::take(&mut message))
            .await
    }

    async fn send_made_async(
        &self,
        length: usize,
        mut make: impl FnMut() -> Vec<u8>,
    ) -> Result<(), SendError> {
        poll_fn(|context| {
            let attempt = || self.attempt(length, &mut make);
            match self.shared.gate.sleepers.poll(context, attempt) {
                Poll::Ready(result) => Poll::Ready(result),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    pub(crate) fn feed(&self, feed: Box<dyn Feed>) -> Result<OwnFeed, RequestError> {
        let name = Arc::clone(&self.outlet.name);
        let batching = self.outlet.batching;
        let command = |reply, _| Command::Feed {
            name,
            feed,
            batching,
            reply,
        };
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
    fn attempt(
        &self,
        length: usize,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Option<Result<(), SendError>> {
        match self.queue(length, make) {
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
