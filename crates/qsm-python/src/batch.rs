//! Messages, many at a time.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::{PyBufferError, PyIndexError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView};
use qsm_history::Item;

use crate::notice::sender;

/// Messages that were taken together. What is not a message stands between runs of messages.
type Taken = Arc<[Item]>;

/// Messages taken together, in order. They stay in memory as long as the batch, one of its messages
/// or a view of one lives.
#[pyclass(frozen, sequence, module = "qsm")]
#[derive(Debug)]
pub(crate) struct Batch {
    taken: Taken,
    /// A run of messages within it.
    run: Range<usize>,
}

/// A message. It is a buffer: `memoryview(message)` and `message.data` show its content without a
/// copy, `bytes(message)` copies it.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug)]
pub(crate) struct Message {
    taken: Taken,
    place: usize,
}

/// Iterator of a batch.
#[pyclass(module = "qsm")]
#[derive(Debug)]
pub(crate) struct Messages {
    taken: Taken,
    left: Range<usize>,
}

fn content(item: &Item) -> &[u8] {
    match item {
        Item::Kept(message) | Item::Message(message) => message.bytes(),
        // Runs have messages only.
        _ => &[],
    }
}

impl Messages {
    /// Those that it has not given yet.
    pub(crate) fn left(&self) -> &[Item] {
        &self.taken[self.left.clone()]
    }
}

impl Batch {
    pub(crate) fn new(taken: &Taken, run: Range<usize>) -> Self {
        let taken = Arc::clone(taken);
        Self { taken, run }
    }

    fn contents(&self) -> impl Iterator<Item = &[u8]> {
        self.taken[self.run.clone()].iter().map(content)
    }
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.run.len()
    }

    fn __iter__(&self) -> Messages {
        Messages {
            taken: Arc::clone(&self.taken),
            left: self.run.clone(),
        }
    }

    fn __getitem__(&self, index: isize) -> PyResult<Message> {
        let from_end = if index < 0 { self.run.len() } else { 0 };
        let index = from_end.checked_add_signed(index);
        let place = index.filter(|index| *index < self.run.len());
        let place = place.ok_or_else(|| PyIndexError::new_err("the batch has fewer messages"))?;
        Ok(Message {
            taken: Arc::clone(&self.taken),
            place: self.run.start + place,
        })
    }

    /// Contents of all messages, copied.
    fn contents_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let contents: Vec<_> = self
            .contents()
            .map(|content| PyBytes::new(py, content))
            .collect();
        PyList::new(py, contents)
    }

    /// Contents of all messages, one behind the other, copied once; each must have `size` bytes.
    fn joined<'py>(&self, py: Python<'py>, size: usize) -> PyResult<Bound<'py, PyBytes>> {
        if let Some(other) = self.contents().find(|content| content.len() != size) {
            let text = format!("a message has {} bytes, the type {size}", other.len());
            return Err(PyValueError::new_err(text));
        }
        PyBytes::new_with(py, size * self.run.len(), |joined| {
            let mut rest = joined;
            for content in self.contents() {
                let (place, behind) = rest.split_at_mut(size);
                place.copy_from_slice(content);
                rest = behind;
            }
            Ok(())
        })
    }

    fn __repr__(&self) -> String {
        format!("<qsm.Batch of {} messages>", self.run.len())
    }
}

#[pymethods]
impl Messages {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self) -> Option<Message> {
        let place = self.left.next()?;
        let taken = Arc::clone(&self.taken);
        Some(Message { taken, place })
    }

    fn __length_hint__(&self) -> usize {
        self.left.len()
    }
}

impl Message {
    fn received(&self) -> PyResult<&qsm::Message> {
        match &self.taken[self.place] {
            Item::Kept(message) | Item::Message(message) => Ok(message),
            other => Err(PyValueError::new_err(format!("not a message: {other:?}"))),
        }
    }
}

#[pymethods]
impl Message {
    /// Name of the group.
    #[getter]
    fn group(&self) -> PyResult<&str> {
        Ok(self.received()?.group())
    }

    /// The sender: a node in one of its lives.
    #[getter]
    fn sender(&self) -> PyResult<String> {
        Ok(sender(self.received()?.sender()))
    }

    /// Its number among this sender's messages to this group, from 1.
    #[getter]
    fn number(&self) -> PyResult<u64> {
        Ok(self.received()?.number())
    }

    /// Its content, not copied. The view keeps its batch in memory.
    #[getter]
    fn data<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(slf.as_any())
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, content(&self.taken[self.place]))
    }

    fn __len__(&self) -> usize {
        content(&self.taken[self.place]).len()
    }

    /// True: an empty message is one.
    fn __bool__(&self) -> bool {
        true
    }

    /// # Safety
    /// The interpreter calls it with a view to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        let bytes = content(&slf.get().taken[slf.get().place]);
        let length = isize::try_from(bytes.len())?;
        let start = bytes.as_ptr().cast_mut().cast();
        // SAFETY: the view holds the message, which owns the bytes and never changes; it is filled
        // as one that cannot be written to.
        let failed = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, 1, flags) };
        match failed {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }

    fn __repr__(&self) -> PyResult<String> {
        let message = self.received()?;
        Ok(format!(
            "<qsm.Message {} in {:?}, {} bytes>",
            message.number(),
            message.group(),
            message.bytes().len()
        ))
    }
}
