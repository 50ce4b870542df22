//! Bytes of objects of Python.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Runs something with the bytes of an object, copied if it is not `bytes`: its owner may write to it
/// meanwhile.
pub(crate) fn with_bytes<T>(
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
