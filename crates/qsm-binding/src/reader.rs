//! A subscription that is read in batches.

use std::fmt;
use std::future::Future as _;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use qsm::{Received, RecvError, Subscription};

use crate::bell::Bell;

/// A subscription, taken in batches by one thread at a time.
///
/// ```
/// # use qsm_binding::{Reader, Settings};
/// # let mut settings = Settings::default();
/// # settings.set("interface", "lo")?;
/// # settings.set("cluster", &format!("doc-reader-{}", std::process::id()))?;
/// # settings.set("embedded", "always")?;
/// # let node = settings.start()?;
/// use std::time::Duration;
///
/// let news = Reader::new(node.subscribe(["news"])?);
/// assert!(news.take(10, Some(Duration::ZERO))?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reader {
    subscription: Subscription,
    bell: OnceLock<Bell>,
    /// Taken from the subscription while the bell was armed, and not yet by the application.
    next: Mutex<Option<Result<Received, RecvError>>>,
}

impl Reader {
    /// Reads this subscription from now on.
    #[must_use]
    pub fn new(subscription: Subscription) -> Self {
        Self {
            subscription,
            bell: OnceLock::new(),
            next: Mutex::default(),
        }
    }

    /// The subscription: its groups, what waits in its queue, and what that had no room for.
    #[must_use]
    pub fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    /// Takes what has come, in order, at most `most` items; if there is nothing, waits so long for
    /// the first, or for ever. Empty when nothing came in time, or `most` is 0.
    ///
    /// # Errors
    /// [`RecvError`], after everything queued was taken, when no more will come.
    pub fn take(&self, most: usize, wait: Option<Duration>) -> Result<Vec<Received>, RecvError> {
        let mut batch = Vec::new();
        if most == 0 {
            return Ok(batch);
        }
        match self.first(wait) {
            Ok(None) => {}
            Ok(Some(first)) => self.fill(&mut batch, first, most),
            Err(end) => {
                self.hold_end(&end);
                return Err(end);
            }
        }
        if batch.len() < most {
            self.arm();
        }
        Ok(batch)
    }

    /// A descriptor for `poll`, `epoll` or a runtime's own loop. It is readable while there is
    /// something to take, the end included, and is not to be read from: [`Reader::take`] makes it
    /// unreadable when it has taken everything. It lives as long as the reader.
    ///
    /// # Errors
    /// The process has no descriptor left (`ulimit -n`).
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(bell) = self.bell.get() {
            return Ok(bell.descriptor());
        }
        let new = Bell::new()?;
        let bell = self.bell.get_or_init(|| new);
        self.arm();
        Ok(bell.descriptor())
    }

    fn first(&self, wait: Option<Duration>) -> Result<Option<Received>, RecvError> {
        if let Some(held) = self.held().take() {
            return held.map(Some);
        }
        match wait {
            Some(Duration::ZERO) => self.subscription.try_recv(),
            Some(wait) => self.subscription.recv_timeout(wait),
            None => self.subscription.recv().map(Some),
        }
    }

    fn fill(&self, batch: &mut Vec<Received>, first: Received, most: usize) {
        batch.push(first);
        while batch.len() < most {
            match self.subscription.try_recv() {
                Ok(Some(received)) => batch.push(received),
                // The end comes again, alone.
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Has the bell ring when something comes, or now if it is there. It is silenced before the
    /// subscription is asked, so that what comes meanwhile rings.
    fn arm(&self) {
        let Some(bell) = self.bell.get() else {
            return;
        };
        let mut held = self.held();
        bell.silence();
        if held.is_none() {
            let waker = bell.waker();
            let receiving = pin!(self.subscription.recv_async());
            if let Poll::Ready(received) = receiving.poll(&mut Context::from_waker(&waker)) {
                *held = Some(received);
            }
        }
        if held.is_some() {
            bell.ring();
        }
    }

    /// The end stays readable.
    fn hold_end(&self, end: &RecvError) {
        if let Some(bell) = self.bell.get() {
            *self.held() = Some(Err(end.clone()));
            bell.ring();
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<Result<Received, RecvError>>> {
        // Valid after any panic.
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("subscription", &self.subscription)
            .finish_non_exhaustive()
    }
}
