//! Live maps.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use qsm_replica::{MapChange, MapState};

use crate::buffer::with_bytes;
use crate::error::Raised as _;
use crate::object::{Followed, Opened};

/// A live map, until it is closed or garbage.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug)]
pub(crate) struct LiveMap(Opened<MapState>);

/// Changes of a map, followed by one loop.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug)]
pub(crate) struct Changes(Followed<MapState>);

/// Keys and values that have changed, each `None` where there is none.
type Taken<'py> = Vec<(Option<String>, Option<Bound<'py, PyBytes>>)>;

impl LiveMap {
    pub(crate) fn new(map: Arc<qsm_replica::LiveMap>) -> Self {
        Self(Opened::new(map))
    }
}

#[pymethods]
impl LiveMap {
    /// Waits so long until the map is live; tells whether it is. Raises what it has ended by.
    fn wait_live(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        self.0.wait_live(py, timeout)
    }

    /// True while its state is that of the others, and follows every change.
    #[getter]
    fn live(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.is_live(py)
    }

    /// Sets the value of a key.
    fn set(&self, py: Python<'_>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let map = self.0.object()?;
        with_bytes(value, |value| py.detach(|| map.set(key, value)).raised(py))
    }

    /// Removes a key.
    fn remove(&self, py: Python<'_>, key: &str) -> PyResult<()> {
        let map = self.0.object()?;
        py.detach(|| map.remove(key)).raised(py)
    }

    /// The value of a key; `None` if it has none.
    fn get<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let map = self.0.object()?;
        let value = py.detach(|| map.get(key));
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// All keys, in order.
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let keys = |state: &MapState| state.iter().map(|(key, _)| key.to_owned()).collect();
        self.0.read(py, keys)
    }

    /// All keys and their values, in order.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyBytes>)>> {
        let copied = |(key, value): (&str, &[u8])| (key.to_owned(), value.to_vec());
        let copies: Vec<_> = self
            .0
            .read(py, |state| state.iter().map(copied).collect())?;
        let object = |(key, value): (String, Vec<u8>)| (key, PyBytes::new(py, &value));
        Ok(copies.into_iter().map(object).collect())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.0.read(py, MapState::len)
    }

    /// Follows the map from its beginning.
    fn changes(&self, py: Python<'_>) -> PyResult<Changes> {
        self.0.follow(py).map(Changes)
    }

    /// Its counters, as an object of JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        self.0.stats(py)
    }

    /// Leaves the map; again, nothing.
    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }
}

#[pymethods]
impl Changes {
    /// Takes what has changed, at most `most` entries, without waiting: without a value an entry is gone, and without a key
    /// those that follow are all. `None` once the map was closed; raises what it has ended by.
    fn take<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Option<Taken<'py>>> {
        let object = |change| match change {
            MapChange::Set { key, value } => (Some(key), Some(PyBytes::new(py, &value))),
            MapChange::Removed { key } => (Some(key), None),
            // One that this version does not know may be anything.
            _ => (None, None),
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
