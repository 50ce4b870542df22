use core::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::RecvError;
use crate::handle::subscription::Upcalls;
use crate::handoff::latest::Turn;
use crate::handoff::mailbox::Mailbox;
use crate::handoff::received::Received;

/// The newest unread message of each key, for readers who want the present state and not its history:
/// made by [`Group::latest_by`](crate::Group::latest_by).
///
/// A message takes the place of an older one with its key that has not been read. So a slow reader
/// skips what is out of date, and what waits for it is at most one message for each key. Keys are
/// read in the order in which they began to wait; numbers of a sender's messages need not ascend
/// across keys, those of one key do.
///
/// Missing messages ([`Received::Lost`] and others) are told in their place among those that wait. Any
/// number of threads may read; each message goes to one of them. Dropping it leaves the groups.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = format!("doc-latest-{}", std::process::id());
/// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
/// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
/// use std::time::Duration;
///
/// // `eur 1.0842`: the first word is the key.
/// let prices = node.group("prices").latest_by(|message| {
///     let mut words = message.bytes.split(|byte| *byte == b' ');
///     words.next().map(<[u8]>::to_vec)
/// })?;
/// let publisher = node.publisher("prices")?;
/// for price in ["eur 1.0842", "usd 0.9224", "eur 1.0843"] {
///     publisher.send(price.as_bytes())?;
/// }
/// node.flush(Duration::from_secs(5))?;
/// let first = prices.recv()?.into_message().unwrap();
/// assert_eq!(first.bytes(), b"eur 1.0843");
/// assert_eq!(prices.replaced(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Latest {
    mailbox: Mailbox<Turn>,
    replaced: Arc<AtomicU64>,
    entry: Upcalls,
}

impl Latest {
    pub(crate) fn new(mailbox: Mailbox<Turn>, replaced: Arc<AtomicU64>, entry: Upcalls) -> Self {
        Self {
            mailbox,
            replaced,
            entry,
        }
    }

    /// Waits for the next message, or what is missing.
    ///
    /// # Errors
    /// [`RecvError`], after everything that waits was taken, when no more will come.
    pub fn recv(&self) -> Result<Received, RecvError> {
        loop {
            // Without a deadline a wait ends with something or an error.
            if let Some(received) = self.wait(None)? {
                return Ok(received);
            }
        }
    }

    /// As [`Latest::recv`], at most this long; `None` when nothing came.
    ///
    /// # Errors
    /// As [`Latest::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Received>, RecvError> {
        self.wait(Instant::now().checked_add(timeout))
    }

    /// As [`Latest::recv`], without waiting; `None` when nothing is there.
    ///
    /// # Errors
    /// As [`Latest::recv`].
    pub fn try_recv(&self) -> Result<Option<Received>, RecvError> {
        Ok(self.mailbox.try_recv()?.and_then(Turn::item))
    }

    /// As [`Latest::recv`], for tasks. A future dropped before its end has taken nothing.
    ///
    /// # Errors
    /// As [`Latest::recv`].
    pub async fn recv_async(&self) -> Result<Received, RecvError> {
        loop {
            let turn = poll_fn(|context| self.mailbox.poll_recv(context)).await?;
            if let Some(received) = turn.item() {
                return Ok(received);
            }
        }
    }

    /// The groups subscribed.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.entry.groups()
    }

    /// Keys with a message that has not been read.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.mailbox.messages()
    }

    /// Bytes of these messages.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.mailbox.bytes()
    }

    /// Messages so far that a newer one of their key has replaced before they were read.
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Messages dropped so far because more keys waited than the limits allow.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.mailbox.dropped()
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<Option<Received>, RecvError> {
        Ok(self.mailbox.recv(deadline)?.and_then(Turn::item))
    }
}

impl Drop for Latest {
    fn drop(&mut self) {
        self.mailbox.leave();
    }
}
