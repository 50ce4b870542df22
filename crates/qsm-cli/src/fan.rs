//! Several subscriptions read as one, by one thread.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use futures_core::Stream;
use qsm::{Received, RecvError, Subscription};

/// Subscriptions that take turns. To be used on the thread that made it.
#[derive(Debug)]
pub(crate) struct Fan {
    subscriptions: Vec<Subscription>,
    /// Whose turn it is.
    turn: usize,
    waker: Waker,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Fan {
    /// Of none yet, read by the calling thread.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self {
            subscriptions: Vec::new(),
            turn: 0,
            waker: Waker::from(Arc::new(Unpark(thread::current()))),
        }
    }

    /// Adds one.
    pub(crate) fn add(&mut self, subscription: Subscription) {
        self.subscriptions.push(subscription);
    }

    /// What comes next, or `None` when nothing came until then.
    ///
    /// # Errors
    /// A subscription has ended.
    pub(crate) fn recv(&mut self, until: Instant) -> Result<Option<Received>, RecvError> {
        loop {
            if let Some(received) = self.poll()? {
                return Ok(Some(received));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            thread::park_timeout(left);
        }
    }

    /// Messages that wait to be read, and their bytes.
    #[must_use]
    pub(crate) fn queued(&self) -> (usize, usize) {
        let messages = self.subscriptions.iter().map(Subscription::queued);
        let bytes = self.subscriptions.iter().map(Subscription::queued_bytes);
        (messages.sum(), bytes.sum())
    }

    /// Messages dropped because this program was too slow.
    #[must_use]
    pub(crate) fn dropped(&self) -> u64 {
        self.subscriptions.iter().map(Subscription::dropped).sum()
    }

    /// What comes next, or `None`, and then this thread is unparked when something comes.
    fn poll(&mut self) -> Result<Option<Received>, RecvError> {
        let count = self.subscriptions.len();
        let mut context = Context::from_waker(&self.waker);
        for step in 0..count {
            let at = (self.turn + step) % count;
            let subscription = &mut self.subscriptions[at];
            match Pin::new(&mut *subscription).poll_next(&mut context) {
                Poll::Ready(Some(received)) => {
                    self.turn = at + 1;
                    return received.map(Some);
                }
                // It has ended, and has said why.
                Poll::Ready(None) => return subscription.try_recv(),
                Poll::Pending => {}
            }
        }
        Ok(None)
    }
}

impl Default for Fan {
    fn default() -> Self {
        Self::new()
    }
}
