//! A subscription, read into a buffer.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use qsm::{RecvError, Subscription};
use qsm_binding::Reader;
use qsm_history::{Item, Position};

use crate::frame::{Frames, Full, Names};

/// A subscription, read by one thread at a time.
#[derive(Debug)]
pub(crate) struct Inlet {
    reader: Reader,
    has_past: bool,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// Taken from the subscription, and not written yet: the buffer was full.
    left: std::vec::IntoIter<Item>,
    /// Written by the last call, with a past: Java may not have handed them on yet.
    written: Vec<Item>,
    names: Names,
}

impl Inlet {
    pub(crate) fn new(subscription: Subscription) -> Self {
        Self::of(Reader::new(subscription), false)
    }

    /// Of a subscription with a past.
    pub(crate) fn with_past(reader: Reader) -> Self {
        Self::of(reader, true)
    }

    fn of(reader: Reader, has_past: bool) -> Self {
        Self {
            reader,
            has_past,
            taken: Mutex::default(),
        }
    }

    /// Position behind what was written, but for so many items, the last ones. `None` without a past.
    pub(crate) fn position(&self, unread: usize) -> Option<Position> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let read = taken.written.len().saturating_sub(unread);
        let unread = taken.written[read..].iter();
        self.reader.position(unread.chain(taken.left.as_slice()))
    }

    pub(crate) fn subscription(&self) -> &Subscription {
        self.reader.subscription()
    }

    /// Readable while there is something new to take, as of [`Reader::descriptor`].
    pub(crate) fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.reader.descriptor()
    }

    /// Writes frames of what has come, at most `most`, and waits so long for the first. Bytes
    /// written; or, below 0, so many are needed for the first frame, and it was not written.
    pub(crate) fn take(
        &self,
        buffer: &mut [u8],
        most: usize,
        wait: Duration,
    ) -> Result<isize, RecvError> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let Taken {
            left,
            written,
            names,
        } = &mut *taken;
        written.clear();
        if left.as_slice().is_empty() {
            *left = self.reader.take(most, Some(wait))?.into_iter();
        }
        let mut frames = Frames::new(buffer);
        for _ in 0..most {
            let Some(next) = left.as_slice().first() else {
                break;
            };
            match frames.append(next, names) {
                Ok(()) => written.extend(left.next().filter(|_| self.has_past)),
                Err(Full { needed }) if frames.used() == 0 => return Ok(-(needed as isize)),
                Err(_) => break,
            }
        }
        Ok(frames.used() as isize)
    }
}
