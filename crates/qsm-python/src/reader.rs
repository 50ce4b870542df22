//! A subscription, read in batches.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use qsm_history::Item;

use crate::batch::{Batch, Messages};
use crate::error::Raised as _;
use crate::notice::notice;
use crate::position::Position;
use crate::wait::{limit, readable};

/// A subscription. One thread reads it at a time.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug)]
pub(crate) struct Reader {
    reader: qsm_binding::Reader,
    /// Taken, and not yet given: runs of messages, and notices between them.
    pieces: Mutex<VecDeque<Piece>>,
}

#[derive(Debug)]
struct Piece {
    taken: Arc<[Item]>,
    run: Range<usize>,
}

impl Reader {
    pub(crate) fn new(reader: qsm_binding::Reader) -> Self {
        Self {
            reader,
            pieces: Mutex::default(),
        }
    }

    fn next_piece(&self, py: Python<'_>, most: usize) -> PyResult<Option<Piece>> {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        if pieces.is_empty() {
            let taken = self
                .reader
                .take(most.max(1), Some(Duration::ZERO))
                .raised(py)?;
            pieces.extend(cut(taken.into()));
        }
        Ok(pieces.pop_front())
    }
}

/// Runs of messages, and each notice by itself.
fn cut(taken: Arc<[Item]>) -> Vec<Piece> {
    let is_message = |item: &Item| matches!(item, Item::Kept(_) | Item::Message(_));
    let mut pieces: Vec<Piece> = Vec::new();
    for (place, item) in taken.iter().enumerate() {
        match pieces.last_mut() {
            Some(last) if is_message(item) && is_message(&taken[last.run.start]) => {
                last.run.end = place + 1;
            }
            _ => pieces.push(Piece {
                taken: Arc::clone(&taken),
                run: place..place + 1,
            }),
        }
    }
    pieces
}

#[pymethods]
impl Reader {
    /// Takes what has come: a batch of at most `most` messages, or a notice of what is missing before the
    /// next one; `None` if nothing is there. Raises what ended the subscription.
    fn take(&self, py: Python<'_>, most: usize) -> PyResult<Option<Py<PyAny>>> {
        let Some(Piece { taken, run }) = self.next_piece(py, most)? else {
            return Ok(None);
        };
        match notice(py, &taken[run.start])? {
            Some(notice) => Ok(Some(notice)),
            None => Ok(Some(Py::new(py, Batch::new(&taken, run))?.into_any())),
        }
    }

    /// Waits until there is something to take, the end included; whether there is.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let limit = limit(timeout)?;
        readable(py, self.reader.descriptor()?, limit)
    }

    /// A descriptor that is readable while `take` would find something new.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.reader.descriptor()?.as_raw_fd())
    }

    /// Position behind what was taken, but for what an iterator has not given yet. `None` without a past.
    #[pyo3(signature = (left=None))]
    fn position(&self, left: Option<PyRef<'_, Messages>>) -> Option<Position> {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let later = pieces
            .iter()
            .flat_map(|piece| piece.taken[piece.run.clone()].iter());
        let left = left.as_ref().map_or(&[][..], |left| left.left());
        self.reader.position(left.iter().chain(later)).map(Position)
    }

    /// Messages dropped so far because the queue was full.
    #[getter]
    fn dropped(&self) -> u64 {
        self.reader.subscription().dropped()
    }

    /// Messages that wait in the queue.
    #[getter]
    fn queued(&self) -> usize {
        self.reader.subscription().queued()
    }

    /// The groups, as they were given.
    #[getter]
    fn groups(&self) -> Vec<String> {
        let groups = self.reader.subscription().groups();
        groups.map(str::to_owned).collect()
    }
}
