//! The end of a gateway: asked for, or because a part of it has failed.

use std::sync::{Mutex, PoisonError};

use qsm_console::failure::Failure;
use qsm_console::stop::Stop;

/// Tells all threads of a gateway when it ends.
#[derive(Debug)]
pub(super) struct End {
    stop: Stop,
    failure: Mutex<Option<Failure>>,
}

impl End {
    pub(super) fn new(stop: Stop) -> Self {
        Self {
            stop,
            failure: Mutex::new(None),
        }
    }

    /// It ends.
    pub(super) fn is_near(&self) -> bool {
        self.stop.is_asked() || self.failure().is_some()
    }

    /// Takes the outcome of a part; the first failure ends all.
    pub(super) fn take(&self, outcome: Result<(), Failure>) {
        if let Err(failure) = outcome {
            self.failure().get_or_insert(failure);
        }
    }

    /// The outcome of all.
    pub(super) fn outcome(&self) -> Result<(), Failure> {
        self.failure().take().map_or(Ok(()), Err)
    }

    fn failure(&self) -> std::sync::MutexGuard<'_, Option<Failure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
