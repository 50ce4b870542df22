//! Events of a node.

use pyo3::prelude::*;

use crate::error::Raised as _;
use crate::wait::limit;

/// A reader of a node's events.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug)]
pub(crate) struct Events(pub(crate) qsm::Events);

/// An event: its kind, and one line for people.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug, Clone)]
pub(crate) struct Event {
    event: qsm::Event,
}

#[pymethods]
impl Events {
    /// The next event, or `None` if there is none in time. Raises when no more will come.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Event>> {
        let limit = limit(timeout)?;
        let received = py.detach(|| self.0.recv_timeout(limit)).raised(py)?;
        Ok(received.map(|event| Event { event }))
    }
}

#[pymethods]
impl Event {
    /// The kind, such as `Admitted`: the names are those of `qsm::Event`.
    #[getter]
    fn kind(&self) -> String {
        qsm_binding::event_kind(&self.event)
    }

    fn __str__(&self) -> String {
        self.event.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<qsm.Event {}: {}>", self.kind(), self.event)
    }
}
