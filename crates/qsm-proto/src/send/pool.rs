/// Size of a block. One GSO train fits with room to spare, so that a full block leaves in one
/// system call; smaller blocks cut trains short, larger ones hold more memory behind one packet
/// that is not yet acknowledged.
pub const BLOCK_BYTES: usize = 1 << 16;

/// Memory for the packets of all streams of a node: blocks of [`BLOCK_BYTES`], allocated when
/// first needed, recycled ever after (R144), bounded (R139).
///
/// Blocks move into the streams that fill them and come back when their packets are acknowledged;
/// a stream that is dropped with blocks in it keeps them from the others for good, so call
/// [`super::SendStream::no_receivers`] before.
#[derive(Debug)]
pub struct BlockPool {
    limit: usize,
    lent: usize,
    retained_limit: usize,
    retained: usize,
    spare: Vec<Vec<u8>>,
}

impl BlockPool {
    /// A pool of `limit_bytes`, rounded down to whole blocks, but of one block at least; and of
    /// `retention_bytes` for blocks whose packets are only kept for members that are away.
    #[must_use]
    pub fn new(limit_bytes: usize, retention_bytes: usize) -> Self {
        Self {
            limit: (limit_bytes / BLOCK_BYTES).max(1),
            lent: 0,
            retained_limit: retention_bytes / BLOCK_BYTES,
            retained: 0,
            spare: Vec::new(),
        }
    }

    /// Blocks there may be in all.
    #[must_use]
    pub fn limit_blocks(&self) -> usize {
        self.limit
    }

    /// Blocks that can still be had.
    #[must_use]
    pub fn free_blocks(&self) -> usize {
        self.limit - self.lent
    }

    /// Blocks that streams hold now.
    #[must_use]
    pub fn lent_blocks(&self) -> usize {
        self.lent
    }

    /// Blocks whose packets are kept for members that are away.
    #[must_use]
    pub fn retained_blocks(&self) -> usize {
        self.retained
    }

    /// Blocks that have been allocated and are kept, lent or not.
    #[must_use]
    pub fn allocated_blocks(&self) -> usize {
        self.lent + self.retained + self.spare.len()
    }

    /// A lent block is retained, if there is room for another one.
    pub(super) fn retain(&mut self) -> bool {
        let room = self.retained < self.retained_limit;
        if room {
            self.retained += 1;
            self.lent = self.lent.saturating_sub(1);
        }
        room
    }

    /// Takes back a retained block. Its memory is freed: spare blocks are as many as were lent.
    pub(super) fn give_retained(&mut self, block: Vec<u8>) {
        self.retained = self.retained.saturating_sub(1);
        drop(block);
    }

    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        if self.lent >= self.limit {
            return None;
        }
        self.lent += 1;
        let block = self.spare.pop();
        Some(block.unwrap_or_else(|| Vec::with_capacity(BLOCK_BYTES)))
    }

    pub(super) fn give(&mut self, mut block: Vec<u8>) {
        block.clear();
        self.lent = self.lent.saturating_sub(1);
        self.spare.push(block);
    }
}
