//! Blocks that are kept whole for a while: out of the rest of a block and a parity what is missing
//! of it can be restored (R-NAK-15).
//!
//! A receiver that loses nothing keeps nothing for this. From a loss on it keeps what comes of each
//! block until nothing of the block is missing, as long as losses follow each other.

use qsm_wire::SeqRange;

use super::{PacketState, ReceiveStream};
use crate::history::History;
use crate::receive::PacketStore;

/// Packets after the last that was found missing of which blocks are still kept: two losses in a
/// thousand packets are enough to go on.
const HELD_AFTER_LOSS: u64 = 1024;

/// The packets of a stream that are kept until their block is whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldBlocks {
    /// Packets from here on, which are of blocks that are not whole.
    from: u64,
    /// Packets up to here.
    upto: u64,
}

impl Default for HeldBlocks {
    fn default() -> Self {
        Self {
            from: u64::MAX,
            upto: 0,
        }
    }
}

impl ReceiveStream {
    /// Packets are found missing: keeps what comes from now on.
    pub(super) fn hold_blocks(&mut self, lost: SeqRange) {
        self.held_blocks.from = self.held_blocks.from.min(lost.first());
        self.held_blocks.upto = lost.last().saturating_add(HELD_AFTER_LOSS);
    }

    /// Returns whether a packet that is delivered is kept for its block, for which there is plenty of room.
    #[inline]
    pub(super) fn holds(&self, sequence: u64, store: &PacketStore) -> bool {
        sequence <= self.held_blocks.upto && !store.is_filling()
    }

    /// Nothing above this is freed: it is of a block that is not whole.
    pub(super) fn held_above(&self) -> u64 {
        match self.gaps.is_empty() {
            true => u64::MAX,
            false => self.held_blocks.from.saturating_sub(1),
        }
    }

    /// Frees what is not cached here of the blocks that are whole and delivered.
    #[inline]
    pub(super) fn release_blocks(&mut self, history: &History, store: &mut PacketStore) {
        if self.held_blocks.from <= self.delivered {
            self.release_whole_blocks(history, store);
        }
    }

    #[cold]
    fn release_whole_blocks(&mut self, history: &History, store: &mut PacketStore) {
        let newest = history.newest();
        let upto = self.delivered;
        let block = newest.parity_block(upto + 1);
        // Of the block that is being received all is kept until the next one begins.
        let end = block.map_or(upto + 1, |block| block.first());
        let begin = self.held_blocks.from.max(self.base + 1);
        if end <= begin {
            return;
        }
        for sequence in begin..end {
            let view = self.view_of(sequence, history);
            if let PacketState::Kept(place) = self.slot(sequence)
                && !history.role(view, sequence).keeps
            {
                store.free(place);
                self.set(sequence, PacketState::Received);
            }
        }
        self.held_blocks.from = match end > self.held_blocks.upto {
            true => u64::MAX,
            false => end,
        };
        self.purge(store);
    }

    /// Packets of a block that are missing here, or not known yet, as bits from its first one on.
    /// `None` if something of it is not kept, is lost, or is not for this node.
    #[must_use]
    pub(crate) fn missing_of_block(&self, block: SeqRange) -> Option<u32> {
        if block.first() < self.start {
            return None;
        }
        let mut missing = 0;
        for (bit, sequence) in (0..).zip(block.first()..=block.last()) {
            let slot = match sequence > self.highest {
                true => PacketState::Missing,
                false => self.lookup(sequence)?,
            };
            match slot {
                PacketState::Kept(_) => {}
                PacketState::Missing => missing |= 1 << bit,
                PacketState::Received | PacketState::Lost | PacketState::Expired => return None,
            }
        }
        Some(missing)
    }
}
