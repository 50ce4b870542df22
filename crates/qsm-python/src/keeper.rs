//! Keepers of groups' last messages.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use qsm_history::KeeperStats;

/// A keeper. It keeps until it is closed, or garbage.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug)]
pub(crate) struct Keeper(Mutex<Option<qsm_history::Keeper>>);

impl Keeper {
    pub(crate) fn new(keeper: qsm_history::Keeper) -> Self {
        Self(Mutex::new(Some(keeper)))
    }

    fn with<T: Default>(&self, read: impl FnOnce(&qsm_history::Keeper) -> T) -> T {
        let keeper = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keeper.as_ref().map(read).unwrap_or_default()
    }

    fn stats(&self) -> KeeperStats {
        self.with(qsm_history::Keeper::stats)
    }
}

#[pymethods]
impl Keeper {
    /// Messages kept now.
    #[getter]
    fn messages(&self) -> u64 {
        self.stats().messages
    }

    /// Memory that they take, bytes, with 96 bytes for each.
    #[getter]
    fn bytes(&self) -> u64 {
        self.stats().bytes
    }

    /// Senders known now.
    #[getter]
    fn senders(&self) -> u64 {
        self.stats().senders
    }

    /// Messages sent to subscribers, in all.
    #[getter]
    fn sent_messages(&self) -> u64 {
        self.stats().sent_messages
    }

    /// Questions not served, because too many others were, in all.
    #[getter]
    fn refused(&self) -> u64 {
        self.stats().refused
    }

    /// Why it keeps no more; `None` while it does, and when it was closed.
    #[getter]
    fn ended(&self) -> Option<String> {
        self.with(|keeper| keeper.ended().map(|error| error.to_string()))
    }

    /// Leaves the groups, and forgets what was kept.
    fn close(&self, py: Python<'_>) {
        let keeper = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(keeper));
    }

    fn __repr__(&self) -> String {
        let KeeperStats {
            messages, senders, ..
        } = self.stats();
        format!("<qsm.Keeper of {messages} messages of {senders} senders>")
    }
}
