use crate::repair::SHARD_HEAD_BYTES;
use crate::{DATA_HEADER_BYTES, Data, Hop};

/// The part of a data packet that no other packet of its block tells: what parities are sums of.
///
/// ```text
/// 0        2          6
/// +--------+----------+-----------
/// | length | checksum | chunks ...      and zeros, up to the longest shard of the block
/// +--------+----------+-----------
/// ```
/// length: of the whole datagram. The header's other fields are those of any packet of the block
/// ([`Shard::are_of_one_block`]), but for the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard<'a> {
    /// Length and checksum.
    pub head: [u8; SHARD_HEAD_BYTES],
    /// The chunks.
    pub chunks: &'a [u8],
}

/// Places in a data packet, which PROTOCOL.md draws.
const HOP: usize = 3;
const CHECKSUM: core::ops::Range<usize> = 20..24;
const SEQUENCE: core::ops::Range<usize> = 32..40;
const VIEW_AGE: core::ops::Range<usize> = 40..44;

impl<'a> Shard<'a> {
    /// Bytes before the chunks.
    pub const HEAD_BYTES: usize = SHARD_HEAD_BYTES;

    /// The shard of a data packet that has been decoded; `None` if it is none, or too long for its
    /// length to be said.
    #[must_use]
    pub fn of(packet: &'a [u8]) -> Option<Self> {
        let length = u16::try_from(packet.len()).ok()?;
        let (header, chunks) = packet.split_at_checked(DATA_HEADER_BYTES)?;
        let mut head = [0; SHARD_HEAD_BYTES];
        head[..2].copy_from_slice(&length.to_le_bytes());
        head[2..].copy_from_slice(&header[CHECKSUM]);
        Some(Self { head, chunks })
    }

    /// Tells whether two data packets of a stream differ, besides their shards, only in what their
    /// numbers say: they are of one view, and their checksums cover alike.
    #[must_use]
    pub fn are_of_one_block(one: &[u8], other: &[u8]) -> bool {
        let numbers = |packet| Data::read_again(packet).map(|data| data.head);
        let (Some(first), Some(second)) = (numbers(one), numbers(other)) else {
            return false;
        };
        let alike = |range: core::ops::Range<usize>| one[range.clone()] == other[range];
        let starts = (first.view_start(), second.view_start());
        alike(0..HOP)
            && alike(HOP + 1..CHECKSUM.start)
            && alike(CHECKSUM.end..SEQUENCE.start)
            && starts.0 == starts.1
    }

    /// Appends to `out` the packet of this number out of its shard, which zeros may follow, and
    /// another packet of its block. Returns whether that makes a datagram that is as it was sent, as
    /// far as its checksum covers it; else `out` is of no use. The packet comes as a push: its receiver
    /// has not asked for it in this form.
    #[must_use]
    pub fn restore(shard: &[u8], sequence: u64, other: &[u8], out: &mut Vec<u8>) -> bool {
        let begin = out.len();
        let Some(header) = other.first_chunk::<DATA_HEADER_BYTES>() else {
            return false;
        };
        let Some(known) = Data::read_again(other).map(|data| data.head) else {
            return false;
        };
        let Some((head, chunks)) = shard.split_first_chunk::<SHARD_HEAD_BYTES>() else {
            return false;
        };
        let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let content = length
            .checked_sub(DATA_HEADER_BYTES)
            .and_then(|length| chunks.get(..length));
        let Some(content) = content else {
            return false;
        };
        let age = known
            .view_start()
            .and_then(|start| sequence.checked_sub(start))
            .and_then(|age| u32::try_from(age).ok());
        out.extend_from_slice(header);
        let packet = &mut out[begin..];
        packet[CHECKSUM].copy_from_slice(&head[2..]);
        packet[SEQUENCE].copy_from_slice(&sequence.to_le_bytes());
        packet[VIEW_AGE].copy_from_slice(&age.unwrap_or(u32::MAX).to_le_bytes());
        Hop::Push.stamp(packet);
        out.extend_from_slice(content);
        crate::is_intact(&out[begin..])
    }
}
