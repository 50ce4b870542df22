//! As a reader: the next item or notice, at once or when there is one.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{Entry, Inbox};
use crate::error::RecvError;
use crate::handoff::aside::{Item, NOTHING};

impl<T: Item> Inbox<T> {
    /// The next item, `None` when there is none yet.
    pub(crate) fn try_recv(&self) -> Result<Option<T>, RecvError> {
        // Closed is read first: items pushed before closing must still come out.
        let closed = self.closed.get();
        match (self.take(), closed) {
            (Some(item), _) => Ok(Some(item)),
            (None, Some(why)) => Err(why.clone()),
            (None, None) => Ok(None),
        }
    }

    pub(crate) fn recv(&self, deadline: Option<Instant>) -> Result<Option<T>, RecvError> {
        let received = match self.try_recv().transpose() {
            Some(result) => result.map(Some),
            None => self
                .readership
                .sleepers
                .wait(deadline, || self.try_recv().transpose())
                .transpose(),
        };
        self.readership.pass_on();
        received
    }

    /// The next item or notice.
    fn take(&self) -> Option<T> {
        if self.aside.holds() {
            return self.take_aside(None);
        }
        let entry = self.pop();
        let from = self.aside.from();
        match entry {
            Some(entry) if entry.place < from => Some(entry.item),
            None if from == NOTHING => None,
            entry => self.take_aside(entry),
        }
    }

    /// The next item or notice, one of which may be aside.
    fn take_aside(&self, entry: Option<Entry<T>>) -> Option<T> {
        let placed = |entry: Entry<T>| (entry.place, entry.item);
        let oldest = || self.pop().map(placed);
        let (next, left) = self.aside.take(entry.map(placed), oldest);
        if left {
            self.readership.left.store(true, Ordering::Relaxed);
        }
        next
    }
}
