//! Positions of readers.

use std::path::PathBuf;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use qsm_history::PositionError;

use crate::error::{Failure, Raised as _};

/// Place up to which a subscription was read, of each sender in each group. Its text is what `str` gives.
#[pyclass(frozen, eq, module = "qsm")]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Position(pub(crate) qsm_history::Position);

fn read<T>(py: Python<'_>, read: Result<T, PositionError>) -> PyResult<T> {
    match read {
        Err(PositionError::Io(error)) => Err(PyOSError::new_err(error)),
        Err(error) => Err(Failure::setting(&format!("no position: {error}"))).raised(py),
        Ok(read) => Ok(read),
    }
}

#[pymethods]
impl Position {
    /// Reads a text; one that is no position raises `SettingError`.
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Self> {
        read(py, text.parse()).map(Self)
    }

    /// Reads a file that `save` wrote; `None` if there is none.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Option<Self>> {
        let loaded = py.detach(|| qsm_history::Position::load(&path));
        Ok(read(py, loaded)?.map(Self))
    }

    /// Writes a file, which is whole at any time.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        read(py, py.detach(|| self.0.save(&path)))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("qsm.Position({:?})", self.0.to_string())
    }
}
