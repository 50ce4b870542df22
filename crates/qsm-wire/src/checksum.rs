//! A checksum of our own: UDP's 16 bits let one damaged datagram in 65,536 pass, and all that are
//! damaged where a host or a network card computes it anew (R-PKT-8).
//!
//! It is the lower half of XXH3-64, so one damaged datagram in four billion passes. A CRC would
//! find every error of few bits, but the call of the processor's instruction for it costs more than
//! all of XXH3 for a header.
//!
//! It lies where a protected packet has the number of its key: a packet has either a checksum or an
//! authentication tag.

use xxhash_rust::xxh3::xxh3_64;

use crate::header::{SEALED, WHOLE};
use crate::{
    CHECKSUM_AT, DATA_HEADER_BYTES, DecodeError, FLAGS_AT, HEADER_BYTES, HOP_AT, Kind, Packet,
    VERSION,
};

const KIND: usize = 1;

/// Bytes of a datagram that its checksum covers. Of control packets it is always the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Coverage {
    /// The header of a data packet, and the length of the datagram: nothing is taken for another
    /// packet, and none is cut short. Damage behind the header goes unnoticed: in a message, or in
    /// the words before it that say its group and number.
    #[default]
    Head,
    /// Everything.
    Whole,
}

/// Writes the checksum of a datagram that is complete. Does nothing to a buffer too short to be one.
pub fn seal(datagram: &mut [u8], coverage: Coverage) {
    if datagram.len() < HEADER_BYTES {
        return;
    }
    let whole = coverage == Coverage::Whole || datagram[KIND] != Kind::Data as u8;
    datagram[FLAGS_AT] = if whole { WHOLE } else { 0 };
    let length = datagram.len();
    let sum = match datagram.first_chunk::<DATA_HEADER_BYTES>() {
        Some(covered) if !whole => of_head(covered, length),
        _ => of_whole(datagram),
    };
    datagram[CHECKSUM_AT].copy_from_slice(&sum.to_le_bytes());
}

/// True if a datagram is as it was when it was sealed, as far as its checksum covers it. The hop,
/// which changes on the way, does not count.
#[must_use]
#[inline]
pub fn is_intact(datagram: &[u8]) -> bool {
    checksum(datagram).is_some_and(|sum| datagram[CHECKSUM_AT] == sum.to_le_bytes())
}

impl<'a> Packet<'a> {
    /// Takes a datagram from the network: nothing of it is looked at but its version until its
    /// checksum has been compared (R-PKT-8).
    ///
    /// # Errors
    /// [`DecodeError::Sealed`], [`DecodeError::Damaged`], or as [`Packet::decode`].
    #[inline]
    pub fn open(datagram: &'a [u8]) -> Result<Self, DecodeError> {
        // Other versions may have other checksums.
        if datagram.first() == Some(&VERSION) && !is_intact(datagram) {
            return Err(match sealed_by(datagram) {
                Some(_) => DecodeError::Sealed,
                None => DecodeError::Damaged,
            });
        }
        Self::decode(datagram)
    }
}

/// Number of the key that a datagram is protected by, as it says itself (PROTOCOL.md, section 9); `None` if it is not,
/// or is of another version.
#[must_use]
#[inline]
pub fn sealed_by(datagram: &[u8]) -> Option<u32> {
    let head = datagram.first_chunk::<HEADER_BYTES>()?;
    let mut key = [0; 4];
    key.copy_from_slice(&head[CHECKSUM_AT]);
    (head[0] == VERSION && head[FLAGS_AT] == SEALED).then_some(u32::from_le_bytes(key))
}

/// Number of bytes of a sealed datagram that its checksum covers, from the first one on.
#[must_use]
pub fn covered_bytes(datagram: &[u8]) -> usize {
    match covers_whole(datagram) {
        true => datagram.len(),
        false => datagram.len().min(DATA_HEADER_BYTES),
    }
}

#[inline]
fn covers_whole(datagram: &[u8]) -> bool {
    datagram.len() < HEADER_BYTES
        || datagram[FLAGS_AT] & WHOLE != 0
        || datagram[KIND] != Kind::Data as u8
}

/// `None` if it is too short to have one.
#[inline]
fn checksum(datagram: &[u8]) -> Option<u32> {
    if datagram.len() < HEADER_BYTES {
        return None;
    }
    if covers_whole(datagram) {
        return Some(of_whole(datagram));
    }
    let covered = datagram.first_chunk::<DATA_HEADER_BYTES>()?;
    Some(of_head(covered, datagram.len()))
}

/// Of the header of a data packet, without what may change, and of the datagram's length.
#[inline]
fn of_head(covered: &[u8; DATA_HEADER_BYTES], length: usize) -> u32 {
    let mut head = *covered;
    head[HOP_AT] = 0;
    // In the checksum's place. No datagram is longer than 64 KiB.
    head[CHECKSUM_AT].copy_from_slice(&(length as u32).to_le_bytes());
    lower(xxh3_64(&head))
}

/// Of everything, without what may change.
fn of_whole(datagram: &[u8]) -> u32 {
    let (covered, rest) = datagram.split_at(HEADER_BYTES);
    let mut head = [0; HEADER_BYTES];
    head.copy_from_slice(covered);
    head[HOP_AT] = 0;
    head[CHECKSUM_AT].fill(0);
    lower(xxh3_64(&head) ^ xxh3_64(rest))
}

#[inline]
fn lower(sum: u64) -> u32 {
    (sum & u64::from(u32::MAX)) as u32
}
