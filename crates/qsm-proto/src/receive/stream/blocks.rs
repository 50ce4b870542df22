//! Blocks that are kept whole for a while: out of the rest of a block and a parity what is missing
//! of it can be restored (R-NAK-15).
//!
//! A receiver that loses nothing keeps nothing for this. From a loss on it keeps what comes of each
//! block until nothing of the block is missing, as long as losses follow each other; and so from a parity
//! on that the sender has sent unasked, as long as such parities follow each other (R-NAK-17).

use core::time::Duration;

use qsm_wire::SeqRange;

use super::{PacketState, ReceiveStream};
use crate::Instant;
use crate::history::History;
use crate::receive::PacketStore;

/// Packets after the last that was found missing of which blocks are still kept: two losses in a
/// thousand packets are enough to go on.
const HELD_AFTER_LOSS: u64 = 1024;

/// Shortest time for which a loss waits for parities that nobody asked for: a block of sixteen packets
/// takes it at 16,000 packets a second.
const PARITY_WAIT_MIN: Duration = Duration::from_millis(1);

/// The packets of a stream that are kept until their block is whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldBlocks {
    /// Packets from here on, which are of blocks that are not whole.
    from: u64,
    /// Packets up to here.
    upto: u64,
    /// Packets up to here are expected to be followed by parities that nobody asked for.
    ahead_upto: u64,
}

impl Default for HeldBlocks {
    fn default() -> Self {
        Self {
            from: u64::MAX,
            upto: 0,
            ahead_upto: 0,
        }
    }
}

impl ReceiveStream {
    /// Packets are found missing: keeps what comes from now on.
    pub(super) fn hold_blocks(&mut self, lost: SeqRange) {
        self.held_blocks.from = self.held_blocks.from.min(lost.first());
        self.held_blocks.upto = lost.last().saturating_add(HELD_AFTER_LOSS);
    }

    /// A parity of this block has come that the sender sent unasked: others will, and what comes is kept
    /// for them. What is missing of the block and before may be asked for at that time, if it still is.
    pub(crate) fn expect_parities(&mut self, block: SeqRange, ask_at: Instant) {
        let held = &mut self.held_blocks;
        let upto = block.last().saturating_add(HELD_AFTER_LOSS);
        held.ahead_upto = held.ahead_upto.max(upto);
        held.upto = held.upto.max(upto);
        held.from = held.from.min(block.last() + 1);
        let waiting = self.gaps.iter_mut();
        let waiting = waiting.filter(|gap| gap.first <= block.last() && gap.attempts == 0);
        for gap in waiting.filter(|gap| gap.due > ask_at) {
            gap.due = ask_at;
            self.due = self.due.min(ask_at);
        }
    }

    /// Time for which what is found missing here waits for parities that nobody asked for.
    pub(super) fn parity_wait(&self, lost: SeqRange, round_trip: Duration) -> Duration {
        match lost.first() <= self.held_blocks.ahead_upto {
            true => round_trip.max(PARITY_WAIT_MIN),
            false => Duration::ZERO,
        }
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
