//! Parities of blocks: sent where many miss different packets (R-NAK-15), or ahead of all requests
//! (R-NAK-17), and used.

use qsm_wire::{Coverage, Origin, Parity, SeqRange, seal};

use super::RegionCx;
use crate::Reason;
use crate::repair::{BlockContent, Restored, WholeBlock};

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

    /// Multicasts parities of this node's blocks that end among these packets, which have left for the
    /// first time. Rule R-NAK-17.
    #[cold]
    pub(crate) fn send_parities_ahead(&mut self, sent: SeqRange) {
        let config = &self.node.config;
        let (count, bytes) = (config.recovery.parities_ahead(), config.parity_bytes());
        let (path, header, now) = (self.region.path(), self.node.header(), self.node.now);
        let view = self.region.history.newest();
        let Some(stream) = &mut self.region.sender else {
            return;
        };
        if count == 0 || !path.is_multicast() || !config.multicast {
            return;
        }
        let mut from = sent.first();
        while let Some(block) = view.parity_block(from)
            && block.last() <= sent.last()
        {
            from = block.last() + 1;
            let packets = (block.first()..=block.last()).map(|sequence| stream.packet(sequence));
            let Some(whole) = WholeBlock::of(stream.id(), block.first(), packets, bytes) else {
                continue;
            };
            for row in (0..Parity::ROWS_MAX).rev().take(count.into()) {
                let outbox = &mut self.node.outbox;
                outbox.push(Reason::Repair, path.destination(), |bytes| {
                    whole.encode_parity(row, &header, bytes);
                    seal(bytes, Coverage::Whole);
                });
                self.node.stats.parities_ahead_sent += 1;
            }
            stream.spend_rate(now, count.into());
        }
    }

    /// Takes a parity. Returns the packets that it lets restore, each a datagram.
    pub(crate) fn take_parity(&mut self, speaker: Origin, parity: &Parity<'_>) -> Vec<Vec<u8>> {
        self.node.stats.parities_received += 1;
        let history = &self.region.history;
        let ahead = speaker == parity.stream.origin;
        if !self.region.member() || !(ahead || history.lives(speaker)) {
            self.node.stats.discard_stranger += 1;
            return Vec::new();
        }
        let view = history.newest();
        let block = view.parity_block(parity.first);
        let block =
            block.filter(|block| (block.first(), block.last()) == (parity.first, parity.last()));
        let streams = &mut self.region.streams;
        let (Some(block), Some(stream)) = (block, streams.get_mut(&parity.stream.origin)) else {
            return Vec::new();
        };
        if !self.node.config.recovery.uses_parity() {
            return Vec::new();
        }
        if ahead {
            stream.expect_parities(block, self.node.now.after(self.node.guard()));
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
