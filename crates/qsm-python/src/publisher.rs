//! Publishers.

use pyo3::prelude::*;
use qsm::SendError;

use crate::buffer::with_bytes;
use crate::error::Raised as _;
use crate::wait::{finished, limit};

/// Sends to one group; any number of threads may use it.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug)]
pub(crate) struct Publisher(pub(crate) qsm::Publisher);

impl Publisher {
    /// Without the interpreter's lock only where it has to wait.
    fn send_one(&self, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = message.py();
        with_bytes(message, |bytes| match self.0.try_send(bytes) {
            Err(SendError::Full) => finished(py, self.0.send_async(bytes))?.raised(py),
            sent => sent.raised(py),
        })
    }
}

#[pymethods]
impl Publisher {
    /// Sends a message, which is copied; waits while the queue is full.
    fn send(&self, message: &Bound<'_, PyAny>) -> PyResult<()> {
        self.send_one(message)
    }

    /// As `send`, if there is room; whether there was.
    fn try_send(&self, message: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = message.py();
        with_bytes(message, |bytes| match self.0.try_send(bytes) {
            Err(SendError::Full) => Ok(false),
            sent => sent.raised(py).map(|()| true),
        })
    }

    /// Sends each message of an iterable; how many there were.
    fn send_all(&self, messages: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut sent = 0;
        for message in messages.try_iter()? {
            self.send_one(&message?)?;
            sent += 1;
        }
        Ok(sent)
    }

    /// Waits until the group has so many receivers beside this node.
    #[pyo3(signature = (count, timeout=None))]
    fn wait_for_members(&self, py: Python<'_>, count: u32, timeout: Option<f64>) -> PyResult<()> {
        let limit = limit(timeout)?;
        py.detach(|| self.0.wait_for_members(count, limit))
            .raised(py)
    }

    /// Receivers of the group known now, beside this node.
    #[getter]
    fn members(&self, py: Python<'_>) -> PyResult<u32> {
        py.detach(|| self.0.members()).raised(py)
    }

    /// Name of the group.
    #[getter]
    fn group(&self) -> &str {
        self.0.group()
    }

    /// Messages that wait to be sent.
    #[getter]
    fn queued(&self) -> usize {
        self.0.queued()
    }
}
