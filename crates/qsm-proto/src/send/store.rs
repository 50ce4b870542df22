//! The packets of one stream, back to back in blocks, and the index that finds them.
//!
//! ```text
//!   blocks   [ 5 | 6 | 7 | 8 ][ 9 | 10 | 11.... open      ]
//!   index      ^ trail + 1                ^ assembled + 1
//! ```
//!
//! The index keeps an entry of 16 bytes for each packet above `trail` (everybody has those up to
//! it); the bytes of a packet may go earlier, when its cachers have it.

use std::collections::VecDeque;

use qsm_wire::{Chunk, Coverage, DataHeader, Header, seal};

use super::pool::BlockPool;
use super::retained::{FreedMessage, RetainedPackets};
use super::{TRAIN_BYTES_MAX, wide};
use crate::Instant;

/// Index entries an idle stream keeps room for, so that a trickle of messages does not allocate
/// (R144) and thousands of idle streams stay small.
const INDEX_KEPT: usize = 64;

/// Where a closed packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SentPacket {
    /// Number of the block, counted over the stream's life, wrapping.
    pub(super) block: u32,
    offset: u16,
    length: u16,
    /// Messages that end in it or before, counted over the stream's life.
    messages: u64,
}

impl SentPacket {
    pub(super) fn length(self) -> usize {
        usize::from(self.length)
    }

    /// Where it lies in its block.
    pub(super) fn range(self) -> core::ops::Range<usize> {
        let start = usize::from(self.offset);
        start..start + self.length()
    }
}

#[derive(Debug)]
struct Block {
    bytes: Vec<u8>,
    /// Its last packet.
    last: u64,
}

/// The packet at the end of the last block that still takes messages.
#[derive(Debug, Clone, Copy)]
struct Open {
    offset: u16,
    since: Instant,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SendBuffer {
    /// All blocks but the last.
    full: VecDeque<Block>,
    /// The one that is being filled. It is apart because each message looks at it.
    last: Option<Vec<u8>>,
    /// Number of the first block.
    first_block: u32,
    index: VecDeque<SentPacket>,
    /// Packets up to here are forgotten.
    trail: u64,
    /// Messages that ended in them.
    trail_messages: u64,
    open: Option<Open>,
    /// Set while members are away: packets up to the trail that are kept for them.
    retained: Option<Box<RetainedPackets>>,
    /// A seal is to follow, in the last block.
    unsealed: bool,
}

impl SendBuffer {
    /// A store whose packets up to here are sent and forgotten.
    pub(super) fn after_packets(highest: u64) -> Self {
        Self {
            trail: highest,
            ..Self::default()
        }
    }

    pub(super) fn trail(&self) -> u64 {
        self.trail
    }

    /// Highest packet closed so far.
    pub(super) fn assembled(&self) -> u64 {
        self.trail + wide(self.index.len())
    }

    pub(super) fn has_blocks(&self) -> bool {
        self.last.is_some()
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The number of the open packet.
    pub(super) fn open_sequence(&self) -> Option<u64> {
        self.open.map(|_| self.assembled() + 1)
    }

    /// The open packet as it is.
    pub(super) fn open_packet(&self) -> Option<&[u8]> {
        let start = usize::from(self.open?.offset);
        self.last.as_deref()?.get(start..)
    }

    /// When the open packet got its first message.
    pub(super) fn open_since(&self) -> Option<Instant> {
        self.open.map(|open| open.since)
    }

    /// Length of the open packet; 0 if there is none.
    pub(super) fn open_bytes(&self) -> usize {
        self.open
            .map_or(0, |open| self.end() - usize::from(open.offset))
    }

    /// What may still be appended to the open packet.
    pub(super) fn open_room(&self, capacity: usize) -> usize {
        match self.open {
            Some(open) => (usize::from(open.offset) + capacity).saturating_sub(self.end()),
            None => 0,
        }
    }

    /// How many packets of full size the last block takes beyond its first `end` bytes.
    pub(super) fn packets_after(&self, end: usize, capacity: usize) -> usize {
        match self.last {
            Some(_) => TRAIN_BYTES_MAX.saturating_sub(end) / capacity,
            None => 0,
        }
    }

    /// Used bytes of the last block.
    pub(super) fn end(&self) -> usize {
        self.last.as_ref().map_or(0, Vec::len)
    }

    /// Number of the block that the open packet is in.
    pub(super) fn last_block(&self) -> u32 {
        let full = u32::try_from(self.full.len()).unwrap_or(u32::MAX);
        self.first_block.wrapping_add(full)
    }

    pub(super) fn add_block(&mut self, bytes: Vec<u8>) {
        debug_assert!(
            self.open.is_none(),
            "an open packet cannot change its block"
        );
        let last = self.assembled();
        let full = self.last.replace(bytes);
        self.full.extend(full.map(|bytes| Block { bytes, last }));
    }

    /// Opens a packet at the end of the last block.
    pub(super) fn open(&mut self, now: Instant, header: &Header, head: &DataHeader) {
        debug_assert!(self.open.is_none(), "one packet is open at a time");
        if let Some(block) = &mut self.last {
            // A block is no longer than `TRAIN_BYTES_MAX`.
            let offset = u16::try_from(block.len()).unwrap_or(u16::MAX);
            self.open = Some(Open { offset, since: now });
            head.encode(header, block);
        }
    }

    /// Appends to the open packet; the caller has seen that there is room.
    #[inline]
    pub(super) fn append(&mut self, chunk: &Chunk<'_>) {
        if let Some(block) = &mut self.last {
            chunk.encode(block);
        }
    }

    /// Closes the open packet after filling it up by `padding` bytes, and seals it; `messages` of the
    /// stream end in it or before. Returns its length.
    pub(super) fn close(&mut self, padding: usize, messages: u64, coverage: Coverage) -> usize {
        let number = self.last_block();
        let (Some(open), Some(block)) = (self.open.take(), &mut self.last) else {
            return 0;
        };
        Chunk::pad(block, padding);
        let packet = &mut block[usize::from(open.offset)..];
        seal(packet, coverage);
        let length = packet.len();
        self.index.push_back(SentPacket {
            block: number,
            offset: open.offset,
            length: u16::try_from(length).unwrap_or(u16::MAX),
            messages,
        });
        length
    }

    /// A seal is to follow what has been closed, or follows nothing.
    pub(super) fn set_unsealed(&mut self, unsealed: bool) {
        self.unsealed = unsealed;
    }

    /// The closed packets above `sequence`, in order.
    pub(super) fn after(&self, sequence: u64) -> impl Iterator<Item = SentPacket> + '_ {
        let skip = usize::try_from(sequence.saturating_sub(self.trail)).unwrap_or(usize::MAX);
        self.index.range(skip.min(self.index.len())..).copied()
    }

    /// The bytes from the start of this packet on, `bytes` long; `None` once they are freed.
    pub(super) fn bytes(&self, sequence: u64, bytes: usize) -> Option<&[u8]> {
        self.bytes_at(self.entry(sequence)?, bytes)
    }

    /// A closed packet, also one that is only retained.
    pub(super) fn packet(&self, sequence: u64) -> Option<&[u8]> {
        let entry = self.entry(sequence);
        let retained = || self.retained.as_ref()?.entry(sequence, self.trail);
        let entry = entry.or_else(retained)?;
        self.bytes_at(entry, entry.length())
    }

    /// Packets up to here are not even retained.
    pub(super) fn freed_upto(&self) -> u64 {
        let retained = self.retained.as_ref();
        self.trail - retained.map_or(0, |retained| retained.packets())
    }

    /// Packets up to here were freed for want of room while members were away.
    pub(super) fn overrun(&self) -> u64 {
        let retained = self.retained.as_ref();
        retained.map_or(0, |retained| retained.overrun())
    }

    /// Messages of these that have not been taken.
    pub(super) fn let_go(&self) -> usize {
        let retained = self.retained.as_ref();
        retained.map_or(0, |retained| retained.let_go())
    }

    /// Takes what was in them, as far as it has not been taken.
    pub(super) fn take_freed(&mut self) -> Vec<FreedMessage> {
        match &mut self.retained {
            Some(retained) => retained.take_freed(),
            None => Vec::new(),
        }
    }

    fn bytes_at(&self, entry: SentPacket, bytes: usize) -> Option<&[u8]> {
        let block = usize::try_from(entry.block.wrapping_sub(self.first_block)).ok()?;
        let start = usize::from(entry.offset);
        let block = match self.full.len() {
            full if block == full => self.last.as_ref()?,
            full if block < full => &self.full[block].bytes,
            _ => {
                let before = self.first_block.wrapping_sub(entry.block);
                self.retained.as_ref()?.block(before)?
            }
        };
        block.get(start..start + bytes)
    }

    /// Whether packets are kept for members that are away, or were.
    pub(super) fn retains(&self) -> bool {
        self.retained.is_some()
    }

    /// Keeps what becomes stable from now on, for members that are away.
    pub(super) fn begin_retaining(&mut self) {
        self.retained.get_or_insert_default();
    }

    /// Nobody lacks retained packets up to here: returns their memory.
    pub(super) fn forget_retained(&mut self, upto: u64, pool: &mut BlockPool) {
        if let Some(retained) = &mut self.retained {
            retained.forget(upto, self.first_block, self.trail, pool);
        }
    }

    /// Returns the memory of what is only retained.
    pub(super) fn end_retaining(&mut self, pool: &mut BlockPool) {
        if let Some(retained) = self.retained.take() {
            retained.end(pool);
        }
        self.release(self.trail, pool);
    }

    /// The packets above this one that are there, up to that one, in order; beyond the closed ones
    /// the open one.
    pub(super) fn kept(&self, after: u64, upto: u64) -> impl Iterator<Item = &[u8]> {
        let closed = (self.freed_upto().max(after) + 1..=upto.min(self.assembled()))
            .filter_map(|sequence| self.packet(sequence));
        let open = self.open.filter(|_| upto > self.assembled());
        let open = open.zip(self.last.as_deref());
        closed.chain(open.and_then(|(open, block)| block.get(usize::from(open.offset)..)))
    }

    fn entry(&self, sequence: u64) -> Option<SentPacket> {
        let at = sequence.checked_sub(self.trail + 1)?;
        self.index.get(usize::try_from(at).ok()?).copied()
    }

    /// Forgets the packets up to this one; returns the length of those newly forgotten.
    pub(super) fn release(&mut self, upto: u64, pool: &mut BlockPool) -> usize {
        let mut bytes = 0;
        while self.trail < upto {
            let Some(entry) = self.index.pop_front() else {
                break;
            };
            bytes += entry.length();
            self.trail += 1;
            self.trail_messages = entry.messages;
            if let Some(retained) = &mut self.retained {
                retained.note(entry);
            }
        }
        while let Some(block) = self.take_released() {
            match &mut self.retained {
                Some(retained) => retained.take_block(self.first_block, block, self.trail, pool),
                None => pool.give(block),
            }
            self.first_block = self.first_block.wrapping_add(1);
        }
        if self.index.is_empty() && self.index.capacity() > INDEX_KEPT {
            self.index.shrink_to(INDEX_KEPT);
        }
        bytes
    }

    /// The first block, if nothing in it is needed any more.
    fn take_released(&mut self) -> Option<Vec<u8>> {
        match self.full.front() {
            Some(front) if front.last > self.trail => None,
            Some(_) => self.full.pop_front().map(|block| block.bytes),
            None if self.open.is_some() || !self.index.is_empty() => None,
            // It is filled up first: a trickle of messages would retain a block for each.
            None if self.retained.is_some() || self.unsealed => None,
            None => self.last.take(),
        }
    }

    /// Forgets all packets, and so all `messages` of the stream; those that are closed count as
    /// sent and received.
    pub(super) fn clear(&mut self, pool: &mut BlockPool, messages: u64) {
        // The number of an open packet has been shown to nobody and goes to the next one.
        self.open = None;
        self.unsealed = false;
        let assembled = self.assembled();
        self.end_retaining(pool);
        self.release(assembled, pool);
        self.trail_messages = messages;
    }

    /// Messages that end in this packet or before; it is not older than the last forgotten one.
    pub(super) fn messages_upto(&self, sequence: u64) -> u64 {
        self.entry(sequence)
            .map_or(self.trail_messages, |entry| entry.messages)
    }

    #[cfg(test)]
    pub(super) fn index_capacity(&self) -> usize {
        self.index.capacity()
    }

    /// Panics if the index and the blocks contradict each other.
    pub(super) fn check(&self) {
        for sequence in self.trail + 1..=self.assembled() {
            assert!(
                self.packet(sequence).is_some(),
                "packet {sequence} has no bytes"
            );
        }
        let full = self.full.iter().map(|block| &block.bytes);
        for block in full.chain(&self.last) {
            assert!(block.len() <= TRAIN_BYTES_MAX, "a block is overfull");
        }
        let kept = self.retained.is_some() || self.unsealed;
        if self.index.is_empty() && self.open.is_none() && !kept {
            let blocks = self.full.len() + usize::from(self.last.is_some());
            assert_eq!(blocks, 0, "an idle stream holds blocks");
        }
    }
}
