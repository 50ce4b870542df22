//! Fragments of the other end, put in order.

use std::collections::BTreeMap;

use crate::frame::{Fragment, Level};

/// Fragments of one end in one handshake; there are no more.
pub(crate) const FRAGMENTS_MAX: u8 = 24;

/// A fragment that is kept.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) number: u8,
    pub(crate) level: Level,
    pub(crate) content: Vec<u8>,
}

/// The other end's fragments.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    next: u8,
    ahead: BTreeMap<u8, Kept>,
}

impl Incoming {
    /// Number of the first one that has not been taken.
    pub(crate) fn next(&self) -> u8 {
        self.next
    }

    /// Keeps one that has not been taken, until those before it have come.
    pub(crate) fn keep(&mut self, fragment: Fragment<'_>) {
        if (self.next..FRAGMENTS_MAX).contains(&fragment.number) {
            self.ahead.entry(fragment.number).or_insert_with(|| Kept {
                number: fragment.number,
                level: fragment.level,
                content: fragment.content.to_vec(),
            });
        }
    }

    /// The one whose turn it is. It counts as taken after [`Self::taken`]; if that is not called, it may come again.
    pub(crate) fn poll(&mut self) -> Option<Kept> {
        self.ahead.remove(&self.next)
    }

    /// The last one was what it should be.
    pub(crate) fn taken(&mut self) {
        self.next += 1;
    }
}
