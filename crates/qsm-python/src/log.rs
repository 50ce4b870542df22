//! Live logs.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use qsm_replica::{LogEvent, LogState, Stamp};

use crate::buffer::with_bytes;
use crate::error::Raised as _;
use crate::object::{Followed, Opened};

/// A live log, until it is closed or garbage.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug)]
pub(crate) struct LiveLog(Opened<LogState>);

/// Entries of a log as they come, followed by one loop.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug)]
pub(crate) struct LogEvents(Followed<LogState>);

/// Time of an entry, microseconds since 1970, and its content; or a number of entries, and none.
type Line<'py> = (u64, Option<Bound<'py, PyBytes>>);

impl LiveLog {
    pub(crate) fn new(log: Arc<qsm_replica::LiveLog>) -> Self {
        Self(Opened::new(log))
    }
}

#[pymethods]
impl LiveLog {
    /// Waits so long until the log is live; tells whether it is. Raises what it has ended by.
    fn wait_live(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        self.0.wait_live(py, timeout)
    }

    /// True while its state is that of the others, and follows every entry.
    #[getter]
    fn live(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.is_live(py)
    }

    /// Appends an entry.
    fn append(&self, py: Python<'_>, content: &Bound<'_, PyAny>) -> PyResult<()> {
        let log = self.0.object()?;
        with_bytes(content, |content| {
            py.detach(|| log.append(content)).raised(py)
        })
    }

    /// All entries, the oldest first.
    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Vec<Line<'py>>> {
        let copied = |(stamp, content): (Stamp, &[u8])| (stamp.time, content.to_vec());
        let copies: Vec<_> = self
            .0
            .read(py, |state| state.iter().map(copied).collect())?;
        let object = |(time, content): (u64, Vec<u8>)| (time, Some(PyBytes::new(py, &content)));
        Ok(copies.into_iter().map(object).collect())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.0.read(py, LogState::len)
    }

    /// Follows the log from its beginning.
    fn events(&self, py: Python<'_>) -> PyResult<LogEvents> {
        self.0.follow(py).map(LogEvents)
    }

    /// Its counters, as an object of JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        self.0.stats(py)
    }

    /// Leaves the log; again, nothing.
    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }
}

#[pymethods]
impl LogEvents {
    /// Takes what has come, at most `most` entries, without waiting: without content so many were missed. `None` once the
    /// log was closed; raises what it has ended by.
    fn take<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Option<Vec<Line<'py>>>> {
        let object = |event| match event {
            LogEvent::Entry { stamp, content } => (stamp.time, Some(PyBytes::new(py, &content))),
            LogEvent::Missed { entries } => (entries, None),
            // One that this version does not know may be anything.
            _ => (0, None),
        };
        let taken = self.0.take(py, most)?;
        Ok(taken.map(|taken| taken.into_iter().map(object).collect()))
    }

    /// Waits until there is something to take, the end included; tells whether there is, or may be.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.0.wait(py, timeout)
    }

    /// A descriptor that is readable while `take` may find something new.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.0.fileno(py)
    }
}
