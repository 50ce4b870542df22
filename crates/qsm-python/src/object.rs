//! Live objects that Python holds, of whatever kind.

use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use qsm_binding::Changes;
use qsm_replica::{Replica, ReplicaError, Watched};

use crate::error::Raised as _;
use crate::wait::{limit, readable};

/// An object, until it is closed or garbage. What waits for it lets go of the interpreter's lock.
#[derive(Debug)]
pub(crate) struct Opened<S>(Mutex<Option<Arc<Replica<S>>>>);

impl<S: Watched + Send + 'static> Opened<S> {
    pub(crate) fn new(object: Arc<Replica<S>>) -> Self {
        Self(Mutex::new(Some(object)))
    }

    /// The object; an exception once it is closed.
    pub(crate) fn object(&self) -> PyResult<Arc<Replica<S>>> {
        let object = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let object = object.as_ref().map(Arc::clone);
        object.ok_or_else(|| PyValueError::new_err("this object is closed; open it again"))
    }

    /// Waits so long until it is live; tells whether it is.
    pub(crate) fn wait_live(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let (object, limit) = (self.object()?, limit(Some(timeout))?);
        match py.detach(|| object.wait_live(limit)) {
            Err(ReplicaError::NotLive) => Ok(false),
            waited => waited.raised(py).map(|()| true),
        }
    }

    pub(crate) fn is_live(&self, py: Python<'_>) -> PyResult<bool> {
        let object = self.object()?;
        Ok(py.detach(|| object.is_live()))
    }

    /// Reads its state.
    pub(crate) fn read<T: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&S) -> T + Send,
    ) -> PyResult<T> {
        let object = self.object()?;
        Ok(py.detach(|| object.read(read)))
    }

    pub(crate) fn follow(&self, py: Python<'_>) -> PyResult<Followed<S>> {
        let object = self.object()?;
        Ok(Followed(py.detach(|| Changes::new(&object))))
    }

    /// Counters, as an object of JSON.
    pub(crate) fn stats(&self, py: Python<'_>) -> PyResult<String> {
        let object = self.object()?;
        Ok(qsm::metrics::json(&py.detach(|| object.stats())))
    }

    /// Leaves it; again, nothing.
    pub(crate) fn close(&self, py: Python<'_>) {
        let object = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(object));
    }
}

/// Changes of an object, followed by one loop.
#[derive(Debug)]
pub(crate) struct Followed<S>(Changes<S>);

impl<S: Watched<Change: Send> + Send + 'static> Followed<S> {
    /// Takes what has changed, without waiting; `None` once the object was closed.
    pub(crate) fn take(&self, py: Python<'_>, most: usize) -> PyResult<Option<Vec<S::Change>>> {
        py.detach(|| self.0.take(most, Some(Duration::ZERO)))
            .raised(py)
    }

    /// Waits until there is something to take, the end included; tells whether there is, or may be.
    pub(crate) fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let limit = limit(timeout)?;
        let descriptor = py.detach(|| self.0.descriptor())?;
        readable(py, descriptor, limit)
    }

    pub(crate) fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        Ok(py.detach(|| self.0.descriptor())?.as_raw_fd())
    }
}
