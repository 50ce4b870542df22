//! Parities of blocks: sent where many miss different packets, and used (R-NAK-15).

use qsm_wire::{Origin, Parity, SeqRange};

use super::RegionCx;
use crate::repair::{BlockContent, Restored};

impl RegionCx<'_> {
    /// Answers members that have asked together for packets of a block.
    pub(crate) fn answer_collected(&mut self) {
        let now = self.node.now;
        while self.region.blocks.due() <= now {
            let Some(collected) = self.region.blocks.take_due(now) else {
                return;
            };
            self.answering().answer_collected(collected);
        }
    }

    /// Takes a parity. Returns the packets that it lets restore, each a datagram.
    pub(crate) fn take_parity(&mut self, speaker: Origin, parity: &Parity<'_>) -> Vec<Vec<u8>> {
        self.node.stats.parities_received += 1;
        let history = &self.region.history;
        if !self.region.member() || !history.lives(speaker) {
            self.node.stats.discard_stranger += 1;
            return Vec::new();
        }
        let view = history.newest();
        let block = view.parity_block(parity.first);
        let block =
            block.filter(|block| (block.first(), block.last()) == (parity.first, parity.last()));
        let (Some(block), Some(stream)) = (block, self.region.streams.get(&parity.stream.origin))
        else {
            return Vec::new();
        };
        if !self.node.config.recovery.uses_parity() {
            return Vec::new();
        }
        if history.caches(view.number(), parity.first) {
            let (now, round_trip) = (self.node.now, self.node.repairs.round_trip());
            let number = stream.view_of(parity.first, history);
            let requests = &mut self.region.blocks;
            requests.heard(now, round_trip, number, parity);
        }
        if stream
            .missing_of_block(block)
            .is_none_or(|missing| missing == 0)
        {
            return Vec::new();
        }
        self.node.parities.add(parity);
        self.restore(parity.stream.origin, block)
    }

    /// A packet has come: with it there may be enough to restore the rest of its block.
    #[cold]
    pub(crate) fn restore_with(&mut self, sender: Origin, sequence: u64) -> Vec<Vec<u8>> {
        match self.region.history.newest().parity_block(sequence) {
            Some(block) => self.restore(sender, block),
            None => Vec::new(),
        }
    }

    fn restore(&mut self, sender: Origin, block: SeqRange) -> Vec<Vec<u8>> {
        let Some(stream) = self.region.streams.get(&sender) else {
            return Vec::new();
        };
        let has = BlockContent::of(stream, block, &self.node.store);
        let restored = self.node.parities.restore(stream.id(), block, has.as_ref());
        match restored {
            Restored::Packets(packets) => packets,
            Restored::NotYet => Vec::new(),
            Restored::Refused => {
                self.node.stats.parities_refused += 1;
                Vec::new()
            }
        }
    }
}
