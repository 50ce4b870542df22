//! Messages that have their sender and group in common: what is looked up for one of them serves
//! all.

use qsm_wire::{Chunk, ChunkIter, GroupId, Origin, Part};

use crate::Delivery;

/// Whole messages of one sender to one group that follow each other in a packet without a gap, to
/// be delivered.
#[derive(Debug)]
pub struct Run<'a, 'p> {
    sender: Origin,
    group: GroupId,
    /// The sender's place in the group; it moves on with each message.
    expected: &'a mut u64,
    next: Option<Chunk<'p>>,
    chunks: &'a mut ChunkIter<'p>,
    messages: u64,
    bytes: u64,
}

impl<'a, 'p> Run<'a, 'p> {
    /// The run that begins with this chunk, if it is a message that is expected.
    #[inline]
    pub(super) fn begin(
        sender: Origin,
        first: Chunk<'p>,
        expected: &'a mut u64,
        chunks: &'a mut ChunkIter<'p>,
    ) -> Option<Self> {
        let run = Self {
            sender,
            group: first.group,
            expected,
            next: Some(first),
            chunks,
            messages: 0,
            bytes: 0,
        };
        run.goes_on().is_some().then_some(run)
    }

    /// The group of all of them.
    #[must_use]
    #[inline]
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// Messages and bytes taken, and the chunk that comes after them.
    #[inline]
    pub(super) fn end(self) -> (u64, u64, Option<Chunk<'p>>) {
        (self.messages, self.bytes, self.next)
    }

    #[inline]
    fn goes_on(&self) -> Option<Chunk<'p>> {
        self.next.filter(|chunk| {
            chunk.group == self.group
                && chunk.part == Part::Whole
                && chunk.message == Chunk::low(*self.expected)
        })
    }
}

impl<'p> Iterator for Run<'_, 'p> {
    type Item = Delivery<'p>;

    #[inline]
    fn next(&mut self) -> Option<Delivery<'p>> {
        let chunk = self.goes_on()?;
        let number = *self.expected;
        *self.expected += 1;
        self.messages += 1;
        self.bytes += chunk.content.len() as u64;
        self.next = self.chunks.next();
        Some(Delivery {
            group: self.group,
            sender: self.sender,
            number,
            bytes: chunk.content,
        })
    }
}
