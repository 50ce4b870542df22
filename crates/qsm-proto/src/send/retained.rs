//! Packets that all live members have, kept for those that are away (R-VIEW-13).
//!
//! ```text
//!   retained blocks        the store's blocks
//!   [ 2 | 3 | 4 ][ 5 | 6 ] [ 7 | 8 | 9 ][ 10 | 11... open ]
//!     ^ oldest                   ^ trail: everybody live has these
//! ```
//!
//! Nothing is copied: a block whose packets are all stable moves here instead of going back to the
//! pool, which counts how many blocks its streams may retain in all.

use std::collections::VecDeque;

use qsm_origin::SEAL_GROUP;
use qsm_wire::{Data, GroupId};

use super::pool::BlockPool;
use super::store::SentPacket;
use super::wide;

/// A message in a packet that was freed for want of room, while members were away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreedMessage {
    /// The packet.
    pub sequence: u64,
    /// The message's group.
    pub group: GroupId,
    /// The low 32 bits of its number.
    pub low: u32,
}

/// The newest stable packets of one stream.
#[derive(Debug, Default)]
pub(super) struct RetainedPackets {
    /// Ends with the store's trail.
    packets: VecDeque<SentPacket>,
    /// Blocks before the store's first, without a break.
    blocks: VecDeque<Vec<u8>>,
    /// Packets up to here were freed for want of room.
    overrun: u64,
    /// What was in them, until it is taken: after each acknowledgement, which frees no more than
    /// was sent before it.
    freed: Vec<FreedMessage>,
}

impl RetainedPackets {
    /// Nobody is away any more: returns the memory.
    pub(super) fn end(self, pool: &mut BlockPool) {
        for block in self.blocks {
            pool.give_retained(block);
        }
    }

    /// Nobody lacks packets up to `upto`: returns the memory of whole blocks of them. The store begins
    /// with block `first`, and everybody live has its packets up to `trail`.
    pub(super) fn forget(&mut self, upto: u64, first: u32, trail: u64, pool: &mut BlockPool) {
        let number = |blocks: usize| u32::try_from(blocks).unwrap_or(u32::MAX);
        while !self.blocks.is_empty() {
            let oldest = first.wrapping_sub(number(self.blocks.len()));
            let packets = self.packets.iter();
            let in_it = packets.take_while(|packet| packet.block == oldest).count();
            if trail - self.packets() + wide(in_it) > upto {
                return;
            }
            self.packets.drain(..in_it);
            let block = self.blocks.pop_front();
            block
                .into_iter()
                .for_each(|block| pool.give_retained(block));
        }
    }

    /// A packet has become stable.
    pub(super) fn note(&mut self, packet: SentPacket) {
        self.packets.push_back(packet);
    }

    /// All packets of the store's first block, which has this number, have become stable, those up
    /// to `trail` in all. When there is no room for another block, the stream's oldest gives way.
    pub(super) fn take_block(
        &mut self,
        number: u32,
        block: Vec<u8>,
        trail: u64,
        pool: &mut BlockPool,
    ) {
        let room = pool.retain();
        self.blocks.push_back(block);
        if room {
            return;
        }
        let before = u32::try_from(self.blocks.len() - 1).unwrap_or(u32::MAX);
        let oldest = number.wrapping_sub(before);
        let Some(block) = self.blocks.pop_front() else {
            return;
        };
        while let Some(packet) = self.packets.front().copied()
            && packet.block == oldest
        {
            self.packets.pop_front();
            self.overrun = trail - self.packets();
            let bytes = block.get(packet.range()).unwrap_or_default();
            self.note_freed(self.overrun, bytes);
        }
        pool.give(block);
    }

    fn note_freed(&mut self, sequence: u64, packet: &[u8]) {
        let chunks = Data::read_again(packet).into_iter();
        let chunks = chunks.flat_map(|data| data.chunks());
        let chunks = chunks.filter(|chunk| chunk.group != SEAL_GROUP);
        self.freed.extend(chunks.map(|chunk| FreedMessage {
            sequence,
            group: chunk.group,
            low: chunk.message,
        }));
    }

    /// Messages freed for want of room since they were taken last.
    pub(super) fn let_go(&self) -> usize {
        self.freed.len()
    }

    /// Takes what has been freed for want of room since it was taken last.
    pub(super) fn take_freed(&mut self) -> Vec<FreedMessage> {
        core::mem::take(&mut self.freed)
    }

    /// Packets up to here were freed for want of room.
    pub(super) fn overrun(&self) -> u64 {
        self.overrun
    }

    /// How many packets are retained.
    pub(super) fn packets(&self) -> u64 {
        wide(self.packets.len())
    }

    /// The place of a packet up to `trail`.
    pub(super) fn entry(&self, sequence: u64, trail: u64) -> Option<SentPacket> {
        let before = usize::try_from(trail.checked_sub(sequence)?).ok()?;
        let at = self.packets.len().checked_sub(before + 1)?;
        self.packets.get(at).copied()
    }

    /// The block that lies so many before the store's first one, from 1.
    pub(super) fn block(&self, before: u32) -> Option<&Vec<u8>> {
        let before = usize::try_from(before).ok()?;
        let at = self.blocks.len().checked_sub(before)?;
        self.blocks.get(at)
    }
}
