//! From messages to packets.
//!
//! ```text
//!  whole messages       [head|A|B|C ]          never split when they fit an empty packet
//!  a large one          [head|A|B|D1][head|D2  ][head|D3|E|F ]
//!  closed too short     [head|A|B|C ..]        filled up to the length before, if ≤ 1/8 is missing
//! ```

use core::time::Duration;

use qsm_wire::{CHUNK_HEADER_BYTES, Chunk, Part, TOTAL_LENGTH_BYTES};

use super::batching::BatchEnd;
use super::{Batching, BlockPool, Intake, Message, PushError, SendConfig, SendStream, wide};
use crate::Instant;

/// A packet is padded by at most this part of its train's packet length.
const PADDING_SHARE: usize = 8;
/// Bytes before the content of a message's first part.
const FIRST_PART_BYTES: usize = CHUNK_HEADER_BYTES + TOTAL_LENGTH_BYTES;

impl SendStream {
    /// Takes a message: copies it into the open packet, or opens the next one, or spreads it
    /// over as many as it needs.
    ///
    /// A message is taken whatever its size when nothing is unsent and the pool has room: the
    /// window concerns sending, not taking (R-DATA-4).
    ///
    /// # Errors
    /// Nothing has changed then. [`PushError::Full`] passes; the others do not.
    #[inline]
    pub fn push(
        &mut self,
        now: Instant,
        pool: &mut BlockPool,
        message: Message<'_>,
    ) -> Result<(), PushError> {
        match self.intake {
            Intake::Freely => self.take(now, pool, message),
            _ => self.push_otherwise(now, pool, message),
        }
    }

    #[cold]
    fn push_otherwise(
        &mut self,
        now: Instant,
        pool: &mut BlockPool,
        message: Message<'_>,
    ) -> Result<(), PushError> {
        let batching = Batching {
            delay: Duration::from_nanos(self.config.batch_delay_ns),
            ..Batching::default()
        };
        self.push_within(now, pool, message, batching)
    }

    /// As [`SendStream::push`], with these limits to the wait for other messages (R-DATA-15).
    ///
    /// # Errors
    /// The same.
    pub fn push_within(
        &mut self,
        now: Instant,
        pool: &mut BlockPool,
        message: Message<'_>,
        batching: Batching,
    ) -> Result<(), PushError> {
        if self.intake == Intake::Finished {
            return Err(PushError::Finished);
        }
        let (before, end) = (self.store.open_sequence(), self.open_end());
        self.take(now, pool, message)?;
        let mut end = match self.store.open_sequence() == before {
            true => end,
            false => BatchEnd::OPEN,
        };
        end.limit(now, batching, self.store.open_bytes());
        self.batch_end = end;
        self.intake = match end == self.usual_end() {
            true => Intake::Freely,
            false => Intake::Patiently,
        };
        Ok(())
    }

    /// The time until which the open packet waits.
    pub(super) fn open_end(&self) -> BatchEnd {
        match self.intake {
            Intake::Patiently => self.batch_end,
            _ => self.usual_end(),
        }
    }

    /// The same, as the configuration has it.
    fn usual_end(&self) -> BatchEnd {
        let since = self.store.open_since();
        let mut end = BatchEnd::OPEN;
        if let Some(since) = since {
            end.limit_time(since, Duration::from_nanos(self.config.batch_delay_ns));
        }
        end
    }

    #[inline]
    fn take(
        &mut self,
        now: Instant,
        pool: &mut BlockPool,
        message: Message<'_>,
    ) -> Result<(), PushError> {
        if self.unsent_bytes() >= self.config.backlog_bytes {
            return Err(PushError::Full);
        }
        let bytes = CHUNK_HEADER_BYTES + message.payload.len();
        if bytes > self.config.packet_room() {
            self.push_parts(now, pool, message)?;
        } else {
            if bytes > self.store.open_room(self.config.packet_bytes) {
                self.next_packet(now, pool)?;
            }
            self.store
                .append(&chunk(message, Part::Whole, message.payload));
        }
        self.counters.messages += 1;
        Ok(())
    }

    /// The longest message that would be taken now with that many free blocks, bytes. A lower bound: one that is a little
    /// longer may be taken too.
    #[must_use]
    pub fn room_bytes(&self, free_blocks: usize) -> usize {
        if self.intake == Intake::Finished || self.unsent_bytes() >= self.config.backlog_bytes {
            return 0;
        }
        let room = self.store.open_room(self.config.packet_bytes);
        let here = self.packets_here(self.store.end() + room);
        let packets = here + free_blocks * self.packets_per_block();
        let packets = packets.saturating_sub(self.seals_among(packets));
        match packets {
            0 => room.saturating_sub(CHUNK_HEADER_BYTES),
            more => self.config.content_bytes(more),
        }
    }

    /// New blocks that a message of this length would take; `None` if it would not be taken however
    /// many there are.
    #[must_use]
    pub fn blocks_needed(&self, length: usize) -> Option<usize> {
        if self.intake == Intake::Finished || self.unsent_bytes() >= self.config.backlog_bytes {
            return None;
        }
        let room = self.store.open_room(self.config.packet_bytes);
        let bytes = CHUNK_HEADER_BYTES + length;
        if bytes > self.config.packet_room() {
            return Some(self.blocks_for(length, room > FIRST_PART_BYTES));
        }
        let end = self.store.end() + self.padding_bytes() + self.next_seal_bytes();
        let fits = bytes <= room || self.packets_here(end) > 0;
        Some(usize::from(!fits))
    }

    fn push_parts(
        &mut self,
        now: Instant,
        pool: &mut BlockPool,
        message: Message<'_>,
    ) -> Result<(), PushError> {
        let length = message.payload.len();
        let max = self.config.message_bytes_max(pool.limit_blocks());
        let total = u32::try_from(length).map_err(|_| PushError::TooLarge { max })?;
        let capacity = self.config.packet_bytes;
        let begins_here = self.store.open_room(capacity) > FIRST_PART_BYTES;
        let blocks = self.blocks_for(length, begins_here);
        if length > max || blocks > pool.limit_blocks() && self.seals.is_some() {
            return Err(PushError::TooLarge { max });
        }
        if blocks > pool.free_blocks() {
            return Err(PushError::Full);
        }
        if !begins_here {
            self.next_packet(now, pool)?;
        }
        let room = self.store.open_room(capacity) - FIRST_PART_BYTES;
        let (first, mut rest) = message.payload.split_at(room);
        self.store
            .append(&chunk(message, Part::First { total }, first));
        while !rest.is_empty() {
            // Cannot fail: the blocks were counted above.
            self.next_packet(now, pool)?;
            let room = self.store.open_room(capacity) - CHUNK_HEADER_BYTES;
            let (content, after) = rest.split_at(room.min(rest.len()));
            let part = if after.is_empty() {
                Part::Last
            } else {
                Part::Middle
            };
            self.store.append(&chunk(message, part, content));
            rest = after;
        }
        Ok(())
    }

    /// New blocks that a message of several parts takes. All its packets but the last are full.
    fn blocks_for(&self, length: usize, begins_here: bool) -> usize {
        let capacity = self.config.packet_bytes;
        let (end, first) = if begins_here {
            let room = self.store.open_room(capacity);
            (self.store.end() + room, room - FIRST_PART_BYTES)
        } else {
            (self.store.end() + self.padding_bytes(), 0)
        };
        // The total of the first part takes its place in a packet of its own.
        let total = if begins_here { 0 } else { TOTAL_LENGTH_BYTES };
        let each = self.config.packet_room() - CHUNK_HEADER_BYTES;
        let packets = (length + total - first).div_ceil(each);
        let packets = packets + self.seals_among(packets);
        packets
            .saturating_sub(self.packets_here(end))
            .div_ceil(self.packets_per_block())
    }

    /// Closes the open packet and opens the next one, in a new block if need be.
    fn next_packet(&mut self, now: Instant, pool: &mut BlockPool) -> Result<(), PushError> {
        if self.minimum.is_some() {
            self.pass_over(now, pool);
        }
        if self.seals.is_some() {
            return self.next_sealed_packet(now, pool);
        }
        let padding = self.padding_bytes();
        let end = self.store.end() + padding;
        if self.store.packets_after(end, self.config.packet_bytes) > 0 {
            self.close_packet(now, padding);
        } else {
            let block = pool.take().ok_or(PushError::Full)?;
            self.close_packet(now, padding);
            self.store.add_block(block);
        }
        self.open_next(now);
        Ok(())
    }

    /// The same where packets are sealed, perhaps with a seal between both.
    #[cold]
    fn next_sealed_packet(&mut self, now: Instant, pool: &mut BlockPool) -> Result<(), PushError> {
        let padding = self.padding_bytes();
        let end = self.store.end() + padding + self.next_seal_bytes();
        let block = match self.packets_here(end) {
            0 => Some(pool.take().ok_or(PushError::Full)?),
            _ => None,
        };
        self.close_packet(now, padding);
        self.seal_if_full(now);
        if let Some(block) = block {
            self.store.add_block(block);
        }
        self.begin_seals(now);
        self.open_next(now);
        Ok(())
    }

    fn open_next(&mut self, now: Instant) {
        let head = self.next_head();
        self.store.open(now, &self.header, &head);
    }

    /// By how much the open packet is filled up if it is closed for want of room.
    fn padding_bytes(&self) -> usize {
        let missing = self.run.bytes().saturating_sub(self.store.open_bytes());
        if self.store.is_open() && missing <= self.run.bytes() / PADDING_SHARE {
            missing
        } else {
            0
        }
    }

    /// Closes the open packet, if there is one.
    pub(super) fn close_packet(&mut self, now: Instant, padding: usize) {
        if !self.store.is_open() {
            return;
        }
        if self.passage.is_some() {
            self.follow_open(now);
        }
        let coverage = self.config.coverage;
        let length = self.store.close(padding, self.counters.messages, coverage);
        self.closed_bytes += length;
        self.run.closed(length);
        self.counters.padding_bytes += wide(padding);
        if self.seals.is_some() {
            self.note_closed(now);
        }
    }
}

impl SendConfig {
    /// Longest message that this many empty blocks hold.
    #[must_use]
    pub fn message_bytes_max(&self, blocks: usize) -> usize {
        self.content_bytes(blocks.saturating_mul(self.packets_per_block()))
    }

    /// Longest message that this many empty packets hold.
    fn content_bytes(&self, packets: usize) -> usize {
        let each = self.packet_room().saturating_sub(CHUNK_HEADER_BYTES);
        packets
            .saturating_mul(each)
            .saturating_sub(TOTAL_LENGTH_BYTES)
            .min(u32::MAX as usize)
    }
}

fn chunk<'a>(message: Message<'_>, part: Part, content: &'a [u8]) -> Chunk<'a> {
    Chunk {
        group: message.group,
        message: Chunk::low(message.number),
        part,
        content,
    }
}
