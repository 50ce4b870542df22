//! A subscription without a past, read in batches.

use std::fmt;
use std::future::Future as _;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use qsm::{Received, RecvError, Subscription};
use qsm_history::Item;

use crate::bell::Bell;

/// Subscription that is taken in batches, as [`Reader`](crate::Reader) has it.
pub(crate) struct LiveReader {
    subscription: Subscription,
    bell: OnceLock<Bell>,
    /// Taken from the subscription while the bell was armed, and not yet by the application.
    next: Mutex<Option<Result<Received, RecvError>>>,
}

impl LiveReader {
    pub(crate) fn new(subscription: Subscription) -> Self {
        Self {
            subscription,
            bell: OnceLock::new(),
            next: Mutex::default(),
        }
    }

    pub(crate) fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    pub(crate) fn take(&self, most: usize, wait: Option<Duration>) -> Result<Vec<Item>, RecvError> {
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

    pub(crate) fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
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

    fn fill(&self, batch: &mut Vec<Item>, first: Received, most: usize) {
        batch.push(first.into());
        while batch.len() < most {
            match self.subscription.try_recv() {
                Ok(Some(received)) => batch.push(received.into()),
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

impl fmt::Debug for LiveReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveReader")
            .field("subscription", &self.subscription)
            .finish_non_exhaustive()
    }
}
