use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use super::link::{Link, lock, unexpected};
use super::requests::{RETIRE, Reply, Request};
use super::ring::{readers_bell, writers_bell};
use crate::error::{RequestError, SendError};

/// How long counting members may take.
const COUNT_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends to one group through the engine, from any thread. Made by
/// [`Attached::publisher`](super::Attached::publisher).
///
/// All publishers of a process share one ring to the engine. When receivers are slower than the
/// process, it fills up, and [`send`](Publisher::send) waits.
///
/// Dropping it gives up the role of publisher after what was accepted.
#[derive(Debug)]
pub struct Publisher {
    link: Arc<Link>,
    slot: u32,
    name: Arc<str>,
}

impl Publisher {
    pub(super) fn new(link: &Arc<Link>, slot: u32, name: Arc<str>) -> Self {
        Self {
            link: Arc::clone(link),
            slot,
            name,
        }
    }

    /// The group's name.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.name
    }

    /// Puts the message into the ring; waits while there is no room.
    ///
    /// Accepted means: the engine will send it, also if this process ends now.
    ///
    /// # Errors
    /// [`SendError`]: closed, or too large.
    pub fn send(&self, message: &[u8]) -> Result<(), SendError> {
        let sent = writers_bell(&self.link.memory).wait(None, || match self.try_send(message) {
            Err(SendError::Full) => None,
            result => Some(result),
        });
        // Without a deadline a wait ends only with a result.
        sent.unwrap_or(Err(SendError::Full))
    }

    /// Puts the message into the ring if there is room.
    ///
    /// # Errors
    /// [`SendError`]: closed, full or too large.
    pub fn try_send(&self, message: &[u8]) -> Result<(), SendError> {
        let (length, max) = (message.len(), self.link.message_bytes_max);
        if length > max {
            return Err(SendError::TooLarge { length, max });
        }
        self.write(self.slot, message)
    }

    /// Waits until the group has at least `count` receivers known to the engine, not counting the
    /// engine itself: processes attached to it are no receivers of their own.
    ///
    /// # Errors
    /// [`RequestError`]: timeout, or closed.
    pub fn wait_for_members(&self, count: u32, timeout: Duration) -> Result<(), RequestError> {
        let doing = "waiting for members of the group; check with `qsm nodes` that they are there";
        self.ask_members(doing, count, timeout).map(drop)
    }

    /// How many receivers of the group are known now, in the same way.
    ///
    /// # Errors
    /// [`RequestError`]: closed.
    pub fn members(&self) -> Result<u32, RequestError> {
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

impl Drop for Publisher {
    fn drop(&mut self) {
        if self.write(RETIRE | self.slot, &[]) == Err(SendError::Full) {
            lock(&self.link.waiting).give_up(self.slot);
        }
    }
}
