//! The buffers that messages are received into, counted so that their content can be kept without copying.

use std::collections::VecDeque;
use std::sync::Arc;

/// Room of one message: any datagram, any train.
pub(crate) const BUFFER_BYTES: usize = 65_536;
/// Of so many buffers taken from the spare ones one is freed: the pool shrinks to what is needed.
const FREED_ONE_IN: u32 = 64;

/// Room of a buffer: the buffers of consecutive slots, allocated one after the other, do not begin in the same sets of a
/// processor's caches, which matters where each holds one short datagram.
const ALLOCATED_BYTES: usize = BUFFER_BYTES + 2048;

/// One buffer for each slot of the ring that is in use, those that others hold, and those that they have given back.
///
/// Their number is bounded by what the holders hold: a buffer is allocated only while none has been given back. They
/// come back in about the order in which they went, so that only the oldest needs to be looked at. What came back last is
/// used first: with luck it is still in a cache, and what is not needed for long can be freed.
#[derive(Debug)]
pub(crate) struct Buffers {
    slots: Vec<Arc<[u8]>>,
    /// Oldest first.
    held: VecDeque<Arc<[u8]>>,
    /// Last returned last.
    spare: VecDeque<Arc<[u8]>>,
    taken: u32,
}

impl Buffers {
    /// With buffers for so many slots; further ones get theirs when they are used.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            slots: (0..slots).map(|_| allocate()).collect(),
            held: VecDeque::new(),
            spare: VecDeque::new(),
            taken: 0,
        }
    }

    pub(crate) fn buffer(&self, slot: usize) -> &Arc<[u8]> {
        &self.slots[slot]
    }

    /// The slot's memory, to write into: another buffer if somebody holds the one it had.
    pub(crate) fn writable(&mut self, slot: usize) -> &mut [u8] {
        while self.slots.len() <= slot {
            self.slots.push(allocate());
        }
        if Arc::get_mut(&mut self.slots[slot]).is_none() {
            let fresh = self.take().unwrap_or_else(allocate);
            let held = std::mem::replace(&mut self.slots[slot], fresh);
            self.held.push_back(held);
        }
        // Just now nobody else had a count of it, and only this pool can give one.
        Arc::get_mut(&mut self.slots[slot]).unwrap_or_default()
    }

    /// A buffer that was given back.
    fn take(&mut self) -> Option<Arc<[u8]>> {
        while let Some(oldest) = self.held.front_mut()
            && Arc::get_mut(oldest).is_some()
        {
            self.spare.extend(self.held.pop_front());
        }
        self.taken += 1;
        if self.taken.is_multiple_of(FREED_ONE_IN) {
            self.spare.pop_front();
        }
        self.spare.pop_back()
    }
}

fn allocate() -> Arc<[u8]> {
    std::iter::repeat_n(0, ALLOCATED_BYTES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_buffer_is_replaced_and_used_again_when_it_is_given_back() {
        let mut buffers = Buffers::new(1);
        buffers.writable(0)[0] = 1;
        let first = Arc::clone(buffers.buffer(0));
        buffers.writable(0)[0] = 2;
        let second = Arc::clone(buffers.buffer(0));
        assert_eq!((first[0], second[0]), (1, 2));
        let address = first.as_ptr();
        drop(first);
        assert_eq!(buffers.writable(0).as_ptr(), address);
        assert_eq!(second[0], 2);
    }

    #[test]
    fn without_holders_nothing_is_allocated() {
        let mut buffers = Buffers::new(1);
        let address = buffers.writable(0).as_ptr();
        assert!((0..100).all(|_| buffers.writable(0).as_ptr() == address));
    }

    #[test]
    fn the_pool_shrinks_to_what_is_needed() {
        let mut buffers = Buffers::new(1);
        let held: Vec<_> = (0..100)
            .map(|_| {
                buffers.writable(0);
                Arc::clone(buffers.buffer(0))
            })
            .collect();
        drop(held);
        for _ in 0..100 * FREED_ONE_IN {
            buffers.writable(0);
            let _held = Arc::clone(buffers.buffer(0));
            buffers.writable(0);
        }
        let kept = buffers.held.len() + buffers.spare.len();
        assert!(kept < 10, "{kept}");
    }
}
