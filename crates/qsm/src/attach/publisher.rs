use core::future::poll_fn;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::link::{Link, lock, unexpected};
use super::requests::{RETIRE, Reply, Request};
use super::ring::{readers_bell, writers_bell};
use crate::error::{RequestError, SendError};

/// How long counting members may take.
const COUNT_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends to one group through the engine, from any thread. All publishers of a process share one
/// ring to the engine.
///
/// Dropping it gives up the role of publisher after what was accepted.
#[derive(Debug)]
pub(crate) struct AttachedPublisher {
    link: Arc<Link>,
    slot: u32,
    name: Arc<str>,
}

impl AttachedPublisher {
    pub(super) fn new(link: &Arc<Link>, slot: u32, name: Arc<str>) -> Self {
        Self {
            link: Arc::clone(link),
            slot,
            name,
        }
    }

    pub(crate) fn group(&self) -> &str {
        &self.name
    }

    pub(crate) fn send(&self, message: &[u8]) -> Result<(), SendError> {
        let sent = writers_bell(&self.link.memory).wait(None, || match self.try_send(message) {
            Err(SendError::Full) => None,
            result => Some(result),
        });
        // Without a deadline a wait ends only with a result.
        sent.unwrap_or(Err(SendError::Full))
    }

    pub(crate) fn try_send(&self, message: &[u8]) -> Result<(), SendError> {
        self.check(message.len())?;
        self.write(self.slot, message)
    }

    /// Whether a message of this length may be sent at all.
    pub(crate) fn check(&self, length: usize) -> Result<(), SendError> {
        let max = self.link.message_bytes_max;
        match self.link.closed() {
            _ if length > max => Err(SendError::TooLarge { length, max }),
            Some(reason) => Err(SendError::Closed(reason.clone())),
            None => Ok(()),
        }
    }

    /// As [`AttachedPublisher::send`], yielding to other tasks.
    pub(crate) async fn send_async(&self, message: &[u8]) -> Result<(), SendError> {
        poll_fn(|context| {
            let attempt = || match self.try_send(message) {
                Err(SendError::Full) => None,
                result => Some(result),
            };
            self.link.needs.fetch_max(message.len(), Ordering::SeqCst);
            let sleep = || Link::sleep_for_room(&self.link);
            self.link.room.poll(context, attempt, sleep)
        })
        .await
    }

    /// 1 if something waits to be taken by the engine.
    pub(crate) fn queued(&self) -> usize {
        usize::from(!lock(&self.link.waiting).is_empty())
    }

    pub(crate) fn wait_for_members(
        &self,
        count: u32,
        timeout: Duration,
    ) -> Result<(), RequestError> {
        let doing = "waiting for members of the group; check with `qsm nodes` that they are there";
        self.ask_members(doing, count, timeout).map(drop)
    }

    pub(crate) fn members(&self) -> Result<u32, RequestError> {
        self.ask_members("counting members", 0, COUNT_TIMEOUT)
    }

    fn ask_members(
        &self,
        doing: &'static str,
        count: u32,
        timeout: Duration,
    ) -> Result<u32, RequestError> {
        let answer = self.link.ask(doing, timeout, |id| {
            let request = Request::Members {
                id,
                slot: self.slot,
                count,
                timeout,
            };
            vec![request.encode()]
        })?;
        match answer {
            (Reply::Members { count, .. }, _) => Ok(count),
            _ => Err(unexpected()),
        }
    }

    fn write(&self, tag: u32, bytes: &[u8]) -> Result<(), SendError> {
        if let Some(reason) = self.link.closed() {
            return Err(SendError::Closed(reason.clone()));
        }
        lock(&self.link.waiting).write(tag, bytes)?;
        if readers_bell(&self.link.memory).claim() {
            match self.link.doorbell.try_send(&[1]) {
                // It has been rung already, or the engine is gone, which its socket will tell.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) | Ok(()) => {}
            }
        }
        Ok(())
    }
}

impl Drop for AttachedPublisher {
    fn drop(&mut self) {
        if self.write(RETIRE | self.slot, &[]) == Err(SendError::Full) {
            lock(&self.link.waiting).give_up(self.slot);
        }
    }
}
