//! Parities of a block: made by who has all of it, used by who has enough of it (R-NAK-15).

use std::collections::VecDeque;

use qsm_parity::{Restorer, add_row, subtract_row};
use qsm_wire::{Header, Parity, SeqRange, Shard, StreamId};

use crate::receive::{PacketStore, ReceiveStream};

/// Parities that a node keeps until it has enough of their block. With the largest datagrams of
/// Ethernet they take 96 KB.
const HELD_MAX: usize = 64;

/// A block of which parities can be made: it is whole, and its packets are alike.
#[derive(Debug)]
pub(crate) struct WholeBlock<'p> {
    stream: StreamId,
    first: u64,
    packets: Vec<&'p [u8]>,
}

impl<'p> WholeBlock<'p> {
    /// The block of these packets, from `first` on; `None` if one is missing, if they are not alike, or if a
    /// parity would be longer than this.
    pub(crate) fn of(
        stream: StreamId,
        first: u64,
        packets: impl Iterator<Item = Option<&'p [u8]>>,
        parity_bytes: usize,
    ) -> Option<Self> {
        let packets = packets.collect::<Option<Vec<_>>>()?;
        let one = packets.first()?;
        let alike = |packet: &&[u8]| Shard::are_of_one_block(one, packet);
        let block = packets.iter().all(alike).then_some(Self {
            stream,
            first,
            packets,
        })?;
        (block.parity_bytes() <= parity_bytes).then_some(block)
    }

    /// Length of each of its parities.
    pub(crate) fn parity_bytes(&self) -> usize {
        let longest = self.packets.iter().map(|packet| packet.len()).max();
        longest.unwrap_or(0) + Parity::OVERHEAD_BYTES
    }

    /// Appends the parity of this row, which has no checksum yet.
    pub(crate) fn encode_parity(&self, row: u8, header: &Header, out: &mut Vec<u8>) {
        let head = Parity {
            stream: self.stream,
            first: self.first,
            count: u8::try_from(self.packets.len()).unwrap_or(u8::MAX),
            row,
            sum: &[],
        };
        head.encode_head(header, out);
        put_sum(row.into(), &self.packets, out);
    }
}

/// Appends the sum of these packets' shards, in this row.
fn put_sum(row: usize, packets: &[&[u8]], out: &mut Vec<u8>) {
    let begin = out.len();
    let shards = || packets.iter().filter_map(|packet| Shard::of(packet));
    let longest = shards().map(|shard| shard.chunks.len()).max().unwrap_or(0);
    out.resize(begin + Shard::HEAD_BYTES + longest, 0);
    let (head, chunks) = out[begin..].split_at_mut(Shard::HEAD_BYTES);
    for (index, shard) in shards().enumerate() {
        add_row(row, index, &shard.head, head);
        add_row(row, index, shard.chunks, chunks);
    }
}

/// A parity that has come and is not enough yet.
#[derive(Debug)]
struct HeldParity {
    stream: StreamId,
    block: SeqRange,
    row: u8,
    sum: Vec<u8>,
}

/// Parities that a node keeps, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct ParityShelf {
    held: VecDeque<HeldParity>,
}

/// Packets that have been restored, or why none have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Restored {
    /// These, ascending. Empty: none was missing.
    Packets(Vec<Vec<u8>>),
    /// Too much is missing, or the rest of the block is not there.
    NotYet,
    /// The parities contradict each other, or the rest of the block.
    Refused,
}

impl ParityShelf {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Puts a parity here, of which one more may push out the oldest.
    pub(crate) fn add(&mut self, parity: &Parity<'_>) {
        let Some(block) = SeqRange::new(parity.first, parity.last()) else {
            return;
        };
        let known = |held: &HeldParity| {
            held.row == parity.row && held.block == block && held.stream == parity.stream
        };
        if self.held.iter().any(known) {
            return;
        }
        if self.held.len() >= HELD_MAX {
            self.held.pop_front();
        }
        self.held.push_back(HeldParity {
            stream: parity.stream,
            block,
            row: parity.row,
            sum: parity.sum.to_vec(),
        });
    }

    /// The block is whole, or is not to be restored.
    pub(crate) fn forget(&mut self, stream: StreamId, block: SeqRange) {
        self.held
            .retain(|held| held.block != block || held.stream != stream);
    }

    /// Restores what is missing of a block, if there is enough of it. `has`: what has come of it; `None`
    /// if that is not all kept. What is used up, or useless, is put away.
    pub(crate) fn restore(
        &mut self,
        stream: StreamId,
        block: SeqRange,
        has: Option<&BlockContent<'_>>,
    ) -> Restored {
        let Some(has) = has else {
            self.forget(stream, block);
            return Restored::NotYet;
        };
        let lost: Vec<usize> = has.lost().collect();
        let of_block = |held: &&HeldParity| held.block == block && held.stream == stream;
        let parities = self.held.iter().filter(of_block);
        let parities: Vec<&HeldParity> = parities.take(lost.len()).collect();
        if parities.len() < lost.len() {
            return Restored::NotYet;
        }
        let packets = solve(block, &lost, &parities, &has.packets);
        self.forget(stream, block);
        packets.map_or(Restored::Refused, Restored::Packets)
    }
}

/// The packets of a block that have come, in their places.
#[derive(Debug)]
pub(crate) struct BlockContent<'p> {
    packets: Vec<Option<&'p [u8]>>,
}

impl<'p> BlockContent<'p> {
    /// Packets that a stream has of a block; `None` if something of it has come and is not kept, is lost, or is
    /// not for this node.
    pub(crate) fn of(
        stream: &ReceiveStream,
        block: SeqRange,
        store: &'p PacketStore,
    ) -> Option<Self> {
        stream.missing_of_block(block)?;
        let numbers = block.first()..=block.last();
        Some(Self {
            packets: numbers.map(|one| stream.packet(one, store)).collect(),
        })
    }

    fn lost(&self) -> impl Iterator<Item = usize> {
        let packets = self.packets.iter().enumerate();
        packets.filter_map(|(index, packet)| packet.is_none().then_some(index))
    }
}

/// The lost packets, out of as many parities and those that are present.
fn solve(
    block: SeqRange,
    lost: &[usize],
    parities: &[&HeldParity],
    present: &[Option<&[u8]>],
) -> Option<Vec<Vec<u8>>> {
    if lost.is_empty() {
        return Some(Vec::new());
    }
    let other = present.iter().flatten().next()?;
    let length = parities.first()?.sum.len();
    let mut sums = Vec::new();
    for parity in parities {
        let mut sum = parity.sum.clone();
        if sum.len() != length {
            return None;
        }
        let (head, chunks) = sum.split_at_mut_checked(Shard::HEAD_BYTES)?;
        for (index, packet) in present.iter().enumerate() {
            let Some(packet) = packet else { continue };
            let shard = Shard::of(packet).filter(|shard| shard.chunks.len() <= chunks.len())?;
            subtract_row(parity.row.into(), index, &shard.head, head);
            subtract_row(parity.row.into(), index, shard.chunks, chunks);
        }
        sums.push(sum);
    }
    let rows: Vec<usize> = parities.iter().map(|parity| parity.row.into()).collect();
    let restorer = Restorer::new(&rows, lost)?;
    let restore = |at: usize| {
        let mut shard = vec![0; length];
        restorer.restore(at, sums.iter().map(Vec::as_slice), &mut shard);
        let mut packet = Vec::new();
        let sequence = block.first() + lost[at] as u64;
        Shard::restore(&shard, sequence, other, &mut packet).then_some(packet)
    };
    (0..lost.len()).map(restore).collect()
}

#[cfg(test)]
mod tests {
    use qsm_wire::{
        ChannelId, Chunk, Coverage, DataHeader, GroupId, Hop, Incarnation, NodeId, Origin, Packet,
        Part, ViewNumber, seal,
    };

    use super::*;

    const SENDER: Origin = Origin {
        node: NodeId(1),
        incarnation: Incarnation(1),
    };

    fn block() -> SeqRange {
        SeqRange::new(16, 31).unwrap()
    }

    fn packet(sequence: u64) -> Vec<u8> {
        let head = DataHeader {
            channel: ChannelId(1),
            view: ViewNumber(1),
            sequence,
            view_age: u32::try_from(sequence).unwrap() - 1,
        };
        let header = Header {
            origin: SENDER,
            ..Header::default()
        };
        let mut bytes = Vec::new();
        head.encode(&header, &mut bytes);
        let content = vec![sequence as u8; 10 + (sequence * 7 % 50) as usize];
        let chunk = Chunk {
            group: GroupId(1),
            message: sequence as u32,
            part: Part::Whole,
            content: &content,
        };
        chunk.encode(&mut bytes);
        seal(&mut bytes, Coverage::Whole);
        bytes
    }

    fn id() -> StreamId {
        StreamId {
            origin: SENDER,
            channel: ChannelId(1),
        }
    }

    fn sum_of(row: u8) -> Vec<u8> {
        let packets: Vec<Vec<u8>> = (16..=31).map(packet).collect();
        let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        let mut sum = b"head".to_vec();
        put_sum(row.into(), &packets, &mut sum);
        sum.split_off(4)
    }

    fn add(shelf: &mut ParityShelf, row: u8, sum: &[u8]) {
        shelf.add(&Parity {
            stream: id(),
            first: 16,
            count: 16,
            row,
            sum,
        });
    }

    /// Packets that these parities restore where all but these have come.
    fn restored(shelf: &mut ParityShelf, lost: &[u64]) -> Restored {
        let all: Vec<Vec<u8>> = (16..=31).map(packet).collect();
        let come = |(sequence, packet)| (!lost.contains(&sequence)).then_some(packet);
        let packets = (16..)
            .zip(all.iter().map(Vec::as_slice))
            .map(come)
            .collect();
        shelf.restore(id(), block(), Some(&BlockContent { packets }))
    }

    fn repaired(sequence: u64) -> Vec<u8> {
        let mut bytes = packet(sequence);
        Hop::Push.stamp(&mut bytes);
        bytes
    }

    // Rule R-NAK-15.
    #[test]
    fn as_many_parities_as_packets_are_lost_bring_them_back() {
        let mut shelf = ParityShelf::default();
        add(&mut shelf, 5, &sum_of(5));
        assert_eq!(restored(&mut shelf, &[16, 20]), Restored::NotYet);
        add(&mut shelf, 5, &sum_of(5));
        assert_eq!(
            restored(&mut shelf, &[16, 20]),
            Restored::NotYet,
            "the same again"
        );
        add(&mut shelf, 2, &sum_of(2));
        let packets = Restored::Packets(vec![repaired(16), repaired(20)]);
        assert_eq!(restored(&mut shelf, &[16, 20]), packets);
        assert!(shelf.is_empty());
        assert!(Packet::open(&repaired(20)).is_ok());
    }

    // Rules R-NAK-15, R-PKT-8.
    #[test]
    fn a_parity_that_is_wrong_restores_nothing() {
        let whole = sum_of(0);
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 4;
            let mut shelf = ParityShelf::default();
            add(&mut shelf, 0, &damaged);
            let after = restored(&mut shelf, &[20]);
            let length = packet(20).len() - 44 + Shard::HEAD_BYTES;
            match at < length {
                true => assert_eq!(after, Restored::Refused, "byte {at}"),
                // Nothing of the packet lies there.
                false => assert_eq!(after, Restored::Packets(vec![repaired(20)]), "byte {at}"),
            }
            assert!(shelf.is_empty());
        }
        let mut shelf = ParityShelf::default();
        add(&mut shelf, 0, &whole[..20]);
        assert_eq!(
            restored(&mut shelf, &[20]),
            Restored::Refused,
            "too short for the others"
        );
        add(&mut shelf, 0, &whole);
        add(&mut shelf, 1, &[0; 200]);
        assert_eq!(
            restored(&mut shelf, &[20, 21]),
            Restored::Refused,
            "of different lengths"
        );
    }

    #[test]
    fn the_oldest_parities_give_way() {
        let mut shelf = ParityShelf::default();
        for first in 1..200u64 {
            shelf.add(&Parity {
                stream: id(),
                first: first * 16,
                count: 16,
                row: 0,
                sum: &[0; 6],
            });
        }
        assert_eq!(shelf.held.len(), HELD_MAX);
        assert_eq!(shelf.held.back().unwrap().block.first(), 199 * 16);
    }
}
