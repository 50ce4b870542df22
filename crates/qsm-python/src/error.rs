//! Errors, as exceptions that `qsm/_errors.py` declares.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use qsm::ErrorCode;
use qsm::attach::AttachError;
use qsm::{RecvError, RequestError, SendError, StartError};
use qsm_binding::SettingError;
use qsm_history::HistoryError;
use qsm_replica::{LiveError, ReplicaError};

/// Number of errors of settings; the interface for C has the same.
const SETTING: u16 = 1703;

/// An error of the library, to be raised.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u16,
    text: String,
}

impl Failure {
    fn of(code: ErrorCode, error: &impl ToString) -> Self {
        let (code, text) = (code.number(), error.to_string());
        Self { code, text }
    }

    /// Error of a text that is no value.
    pub(crate) fn setting(error: &impl ToString) -> Self {
        let (code, text) = (SETTING, error.to_string());
        Self { code, text }
    }

    /// The exception: the class that Python has for the code, with the text.
    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        static OF: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let made = OF
            .import(py, "qsm._errors", "of")
            .and_then(|of| of.call1((self.code, PyString::new(py, &self.text))));
        made.map_or_else(|error| error, PyErr::from_value)
    }
}

macro_rules! failures {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::of(error.code(), &error)
            }
        })+
    };
}

failures!(
    StartError,
    RequestError,
    SendError,
    RecvError,
    AttachError,
    HistoryError,
    ReplicaError,
    LiveError
);

impl From<SettingError> for Failure {
    fn from(error: SettingError) -> Self {
        Self::setting(&error)
    }
}

/// Of what failed without the interpreter's lock.
pub(crate) trait Raised<T> {
    /// Raises the error.
    fn raised(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<Failure>> Raised<T> for Result<T, E> {
    fn raised(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| error.into().raise(py))
    }
}
