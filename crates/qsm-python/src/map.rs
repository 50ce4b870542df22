//! Live maps.

use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use qsm_binding::Changes as Source;
use qsm_replica::{MapChange, MapState, ReplicaError};

use crate::buffer::with_bytes;
use crate::error::Raised as _;
use crate::wait::{limit, readable};

/// A live map, until it is closed or garbage.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug)]
pub(crate) struct LiveMap(Mutex<Option<Arc<qsm_replica::LiveMap>>>);

/// Changes of a map, followed by one loop.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug)]
pub(crate) struct Changes(Source<MapState>);

/// Keys and values that have changed, each `None` where there is none.
type Taken<'py> = Vec<(Option<String>, Option<Bound<'py, PyBytes>>)>;

impl LiveMap {
    pub(crate) fn new(map: Arc<qsm_replica::LiveMap>) -> Self {
        Self(Mutex::new(Some(map)))
    }

    fn map(&self) -> PyResult<Arc<qsm_replica::LiveMap>> {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let map = map.as_ref().map(Arc::clone);
        map.ok_or_else(|| PyValueError::new_err("this map is closed; open it again"))
    }
}

#[pymethods]
impl LiveMap {
    /// Waits so long until the map is live; whether it is. Raises what it has ended by.
    fn wait_live(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let (map, limit) = (self.map()?, limit(Some(timeout))?);
        match py.detach(|| map.wait_live(limit)) {
            Err(ReplicaError::NotLive) => Ok(false),
            waited => waited.raised(py).map(|()| true),
        }
    }

    /// True while its state is that of the others, and follows every change.
    #[getter]
    fn live(&self, py: Python<'_>) -> PyResult<bool> {
        let map = self.map()?;
        Ok(py.detach(|| map.is_live()))
    }

    /// Sets the value of a key.
    fn set(&self, py: Python<'_>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let map = self.map()?;
        with_bytes(value, |value| py.detach(|| map.set(key, value)).raised(py))
    }

    /// Removes a key.
    fn remove(&self, py: Python<'_>, key: &str) -> PyResult<()> {
        let map = self.map()?;
        py.detach(|| map.remove(key)).raised(py)
    }

    /// The value of a key; `None` if it has none.
    fn get<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let map = self.map()?;
        let value = py.detach(|| map.get(key));
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// All keys, in order.
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let map = self.map()?;
        let keys = || map.read(|state| state.iter().map(|(key, _)| key.to_owned()).collect());
        Ok(py.detach(keys))
    }

    /// All keys and their values, in order.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyBytes>)>> {
        let map = self.map()?;
        let copied = |(key, value): (&str, &[u8])| (key.to_owned(), value.to_vec());
        let copies: Vec<_> = py.detach(|| map.read(|state| state.iter().map(copied).collect()));
        let object = |(key, value): (String, Vec<u8>)| (key, PyBytes::new(py, &value));
        Ok(copies.into_iter().map(object).collect())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let map = self.map()?;
        Ok(py.detach(|| map.read(MapState::len)))
    }

    /// Follows the map from its beginning.
    fn changes(&self, py: Python<'_>) -> PyResult<Changes> {
        let map = self.map()?;
        Ok(Changes(py.detach(|| Source::new(&map))))
    }

    /// Its counters, as an object of JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        let map = self.map()?;
        Ok(qsm::metrics::json(&py.detach(|| map.stats())))
    }

    /// Leaves the map; again, nothing.
    fn close(&self, py: Python<'_>) {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(map));
    }
}

#[pymethods]
impl Changes {
    /// Takes what has changed, at most `most` entries, without waiting: without a value an entry is gone, and without a key
    /// those that follow are all. `None` once the map was closed; raises what it has ended by.
    fn take<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Option<Taken<'py>>> {
        let taken = py.detach(|| self.0.take(most, Some(Duration::ZERO)));
        let object = |change| match change {
            MapChange::Set { key, value } => (Some(key), Some(PyBytes::new(py, &value))),
            MapChange::Removed { key } => (Some(key), None),
            // One that this version does not know may be anything.
            _ => (None, None),
        };
        let taken = taken.raised(py)?;
        Ok(taken.map(|taken| taken.into_iter().map(object).collect()))
    }

    /// Waits until there is something to take, the end included; whether there is, or may be.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let limit = limit(timeout)?;
        let descriptor = py.detach(|| self.0.descriptor())?;
        readable(py, descriptor, limit)
    }

    /// A descriptor that is readable while `take` may find something new.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        Ok(py.detach(|| self.0.descriptor())?.as_raw_fd())
    }
}
