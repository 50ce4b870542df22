//! Digests of several packets at once: their pieces are hashed side by side, in the lanes of the processor's vectors.
//!
//! ```text
//!   packet 1   [ piece | piece | … | rest ]  ──► BLAKE3 of each ──► BLAKE3 of these, whose first half is the digest
//!   packet 2   [ piece | piece | … | rest ]      └ 16 of one length at a time
//! ```
//!
//! Alone, a packet of 1456 bytes would be hashed in one lane, and one of 8119 in seven and a rest.

use blake3::platform::{MAX_SIMD_DEGREE, Platform};
use blake3::{BLOCK_LEN, CHUNK_LEN, IncrementCounter, OUT_LEN};
use qsm_wire::{CHECKSUM_AT, FLAGS_AT, HEADER_BYTES, HOP_AT};

use crate::digest::Digest;

/// Most packets of a batch.
pub(crate) const BATCH_PACKETS: usize = 16;
/// Lanes of the widest vectors.
const LANES: usize = 16;
/// Words that BLAKE3 begins with, as SHA-256 does.
const BEGINNING: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];
/// BLAKE3's flag of a chunk's first block.
const CHUNK_START: u8 = 1;
/// BLAKE3's flags of the last block of a text that is one chunk: the chunk ends, and is the root.
const TEXT_END: u8 = 2 | 8;

/// A hash by BLAKE3.
type Hash = [u8; OUT_LEN];
/// Hashes texts of one length, by the number of their blocks less one.
type HashLanes = fn(&[&[u8]], &mut [Hash; LANES]);

const BY_BLOCKS: [HashLanes; CHUNK_LEN / BLOCK_LEN] = [
    hash_lanes::<64>,
    hash_lanes::<128>,
    hash_lanes::<192>,
    hash_lanes::<256>,
    hash_lanes::<320>,
    hash_lanes::<384>,
    hash_lanes::<448>,
    hash_lanes::<512>,
    hash_lanes::<576>,
    hash_lanes::<640>,
    hash_lanes::<704>,
    hash_lanes::<768>,
    hash_lanes::<832>,
    hash_lanes::<896>,
    hash_lanes::<960>,
    hash_lanes::<1024>,
];

const _: () = assert!(BLOCK_LEN == 64 && CHUNK_LEN == 1024 && MAX_SIMD_DEGREE <= LANES);

/// Packets that wait for their digests: copies, so that their places may be used again.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The packets as they are hashed, each of whole blocks.
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
    /// Hashes of their pieces, of each packet an even number: the last may be zeros.
    hashes: Vec<Hash>,
}

impl Batch {
    /// Adds a packet as it is without protection; there is room for it.
    pub(crate) fn add(&mut self, datagram: &[u8]) {
        debug_assert!(!self.is_full());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(datagram);
        if let Some(head) = self.bytes[start..].first_chunk_mut::<HEADER_BYTES>() {
            let length = u32::try_from(datagram.len()).unwrap_or(u32::MAX);
            head[FLAGS_AT] = 0;
            head[HOP_AT] = 0;
            head[CHECKSUM_AT].copy_from_slice(&length.to_le_bytes());
        }
        let end = start + datagram.len().next_multiple_of(BLOCK_LEN);
        self.bytes.resize(end, 0);
        self.ends.push(end);
    }

    pub(crate) fn packets(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.packets() >= BATCH_PACKETS
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Digests of the packets, in order; the batch is empty then.
    pub(crate) fn digests(&mut self) -> Vec<Digest> {
        let starts = core::iter::once(0).chain(self.ends.iter().copied());
        let packets = starts.zip(&self.ends);
        let packets: Vec<&[u8]> = packets
            .map(|(start, end)| &self.bytes[start..*end])
            .collect();
        let slots = packets.iter().map(|packet| slots(packet)).sum();
        self.hashes.clear();
        self.hashes.resize(slots, [0; OUT_LEN]);
        let mut texts = Vec::with_capacity(slots);
        let mut slot = 0;
        for packet in &packets {
            texts.extend(packet.chunks(CHUNK_LEN).zip(slot..));
            slot += self::slots(packet);
        }
        hash_all(&mut texts, &mut self.hashes);
        texts.clear();
        let mut lists = self.hashes.as_flattened();
        for (packet, slot) in packets.iter().zip(0..) {
            let (list, rest) = lists.split_at(self::slots(packet) * OUT_LEN);
            texts.push((list, slot));
            lists = rest;
        }
        let mut whole = [[0; OUT_LEN]; BATCH_PACKETS];
        hash_all(&mut texts, &mut whole);
        let digests = whole[..packets.len()].iter();
        let digests = digests.map(Digest::first_half).collect();
        self.clear();
        digests
    }
}

impl Digest {
    /// The digest of this datagram, as it is without protection. Several at once take a third of the time: [`Sealer`] and
    /// [`Verifier`] do so.
    ///
    /// [`Sealer`]: crate::Sealer
    /// [`Verifier`]: crate::Verifier
    #[must_use]
    pub fn of(datagram: &[u8]) -> Self {
        let mut batch = Batch::default();
        batch.add(datagram);
        batch.digests()[0]
    }
}

/// Places for hashes of a packet's pieces: as many as whole blocks hold.
fn slots(packet: &[u8]) -> usize {
    packet
        .len()
        .div_ceil(CHUNK_LEN)
        .next_multiple_of(BLOCK_LEN / OUT_LEN)
}

/// Hashes texts of whole blocks, each into its slot.
fn hash_all(texts: &mut [(&[u8], usize)], hashes: &mut [Hash]) {
    texts.sort_unstable_by_key(|(text, _)| text.len());
    for alike in texts.chunk_by(|(one, _), (other, _)| one.len() == other.len()) {
        let blocks = alike[0].0.len() / BLOCK_LEN;
        let Some(hash_lanes) = blocks.checked_sub(1).and_then(|at| BY_BLOCKS.get(at)) else {
            for (text, slot) in alike {
                hashes[*slot] = *blake3::hash(text).as_bytes();
            }
            continue;
        };
        for side_by_side in alike.chunks(LANES) {
            // A lane that is left over costs nothing: it takes the first text again.
            let mut lanes = [side_by_side[0].0; LANES];
            for (lane, (text, _)) in lanes.iter_mut().zip(side_by_side) {
                *lane = text;
            }
            let mut made = [[0; OUT_LEN]; LANES];
            hash_lanes(&lanes[..side_by_side.len().next_power_of_two()], &mut made);
            for ((_, slot), hash) in side_by_side.iter().zip(made) {
                hashes[*slot] = hash;
            }
        }
    }
}

/// Hashes texts of so many bytes, a lane for each.
fn hash_lanes<const BYTES: usize>(texts: &[&[u8]], hashes: &mut [Hash; LANES]) {
    let mut lanes = [&[0; BYTES]; LANES];
    for (lane, text) in lanes.iter_mut().zip(texts) {
        *lane = text.first_chunk().unwrap_or(lane);
    }
    Platform::detect().hash_many(
        &lanes[..texts.len()],
        &BEGINNING,
        0,
        IncrementCounter::No,
        0,
        CHUNK_START,
        TEXT_END,
        hashes.as_flattened_mut(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest as PROTOCOL.md says, by the library's own function.
    fn plainly(datagram: &[u8]) -> Digest {
        let mut bytes = datagram.to_vec();
        bytes[FLAGS_AT] = 0;
        bytes[HOP_AT] = 0;
        let length = u32::try_from(datagram.len()).unwrap();
        bytes[CHECKSUM_AT].copy_from_slice(&length.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        let pieces = bytes.chunks(1024).map(blake3::hash);
        let mut list: Vec<u8> = pieces.flat_map(|hash| *hash.as_bytes()).collect();
        list.resize(list.len().next_multiple_of(64), 0);
        Digest::first_half(blake3::hash(&list).as_bytes())
    }

    fn packet(number: usize, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at * 7 + number * 13) as u8).collect()
    }

    // Rule R-SEC-30.
    #[test]
    fn digests_of_a_batch_are_those_of_blake3_whatever_lengths_it_has() {
        let lengths = (44..3000).step_by(17).chain([8119, 8956, 60_000, 65_507]);
        let packets: Vec<Vec<u8>> = lengths.enumerate().map(|(n, len)| packet(n, len)).collect();
        let mut batch = Batch::default();
        for count in 1..=BATCH_PACKETS {
            for packets in packets.chunks(count) {
                packets.iter().for_each(|packet| batch.add(packet));
                let wanted: Vec<Digest> = packets.iter().map(|one| plainly(one)).collect();
                assert_eq!(batch.digests(), wanted);
            }
        }
    }

    #[test]
    fn zeros_at_the_end_give_another_digest() {
        let short = packet(1, 100);
        let mut long = short.clone();
        long.resize(128, 0);
        assert_ne!(Digest::of(&short), Digest::of(&long));
    }
}
