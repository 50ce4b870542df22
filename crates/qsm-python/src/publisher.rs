//! Publishers.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use qsm::SendError;

use crate::error::Raised as _;
use crate::wait::{finished, limit};

/// Sends to one group; any number of threads may use it.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug)]
pub(crate) struct Publisher(pub(crate) qsm::Publisher);

/// Runs something with the bytes of an object, copied if it is not `bytes`: its owner may write to it
/// meanwhile.
fn with_bytes<T>(
    message: &Bound<'_, PyAny>,
    work: impl FnOnce(&[u8]) -> PyResult<T>,
) -> PyResult<T> {
    if let Ok(bytes) = message.cast::<PyBytes>() {
        return work(bytes.as_bytes());
    }
    work(copied(message)?.as_bytes())
}

/// A copy of what a buffer holds now.
fn copied<'py>(message: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    // SAFETY: the object lives, and the interpreter's lock is held.
    if unsafe { ffi::PyObject_CheckBuffer(message.as_ptr()) } == 0 {
        let text = format!("{} is no bytes-like object", message.get_type().name()?);
        return Err(PyTypeError::new_err(text));
    }
    // SAFETY: as above; what comes back is a new reference, or null with an exception.
    let bytes = unsafe {
        let copy = ffi::PyBytes_FromObject(message.as_ptr());
        Bound::from_owned_ptr_or_err(message.py(), copy)
    };
    Ok(bytes?.cast_into()?)
}

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
