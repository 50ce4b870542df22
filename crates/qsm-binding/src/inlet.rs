//! A subscription, read into a buffer of the runtime's.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use qsm::{RecvError, Subscription};
use qsm_history::{Item, Position};

use crate::frame::{Frames, Full, Names};
use crate::reader::Reader;

/// Subscription that is read into a buffer of the runtime's, by one thread at a time: as frames, one behind the other. So a
/// runtime takes many messages at a call, and sees no pointer. A frame is a multiple of 8 bytes, little-endian:
///
/// ```text
///    0  i32  length of the frame
///    4  i32  kind; of messages that are lost or not kept the cause above its lowest byte
///    8  i32  number of the group's name; -1 without a group
///   12  i32  length of the content
///   16  i64  node that sent it; of the end of the past the keepers that answered
///   24  i64  life of that node
///   32  i64  number of the message; the first that is lost; messages that came from keepers
///   40  i64  last that is lost, or as the kind says
///   48  content: of a message its bytes, of a notice a sentence, of a name the name
/// ```
///
/// A name is told once, before the first frame that has its number; number 0 is the first, and begins the list anew.
#[derive(Debug)]
pub struct Inlet {
    reader: Reader,
    has_past: bool,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// Taken from the subscription, and not written yet: the buffer was full.
    left: std::vec::IntoIter<Item>,
    /// Written by the last call, with a past: the runtime may not have handed them on yet.
    written: Vec<Item>,
    names: Names,
}

impl Inlet {
    /// Reads this subscription from now on.
    #[must_use]
    pub fn new(subscription: Subscription) -> Self {
        Self::of(Reader::new(subscription), false)
    }

    /// Reads a subscription with a past.
    #[must_use]
    pub fn with_past(reader: Reader) -> Self {
        Self::of(reader, true)
    }

    fn of(reader: Reader, has_past: bool) -> Self {
        Self {
            reader,
            has_past,
            taken: Mutex::default(),
        }
    }

    /// Position behind what was written, but for so many items, the last ones of the last call. `None` without a past.
    #[must_use]
    pub fn position(&self, unread: usize) -> Option<Position> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let read = taken.written.len().saturating_sub(unread);
        let unread = taken.written[read..].iter();
        self.reader.position(unread.chain(taken.left.as_slice()))
    }

    /// The reader, for who takes without a buffer. Who does both loses their order.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The subscription: its groups, what waits in its queue, and what that had no room for.
    #[must_use]
    pub fn subscription(&self) -> &Subscription {
        self.reader.subscription()
    }

    /// Readable while there is something new to take, as of [`Reader::descriptor`].
    ///
    /// # Errors
    /// The process has no descriptor left (`ulimit -n`).
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.reader.descriptor()
    }

    /// Writes frames of what has come, at most `most` beside names, and waits so long for the first. Bytes
    /// written; or, below 0, so many are needed for the first frame, and it was not written.
    ///
    /// # Errors
    /// [`RecvError`], after everything queued was taken, when no more will come.
    pub fn take(&self, buffer: &mut [u8], most: usize, wait: Duration) -> Result<isize, RecvError> {
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
