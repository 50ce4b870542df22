//! Digests of packets.

/// Bytes of a digest. Nobody finds another packet with the digest of a given one in fewer than 2¹²⁸ trials; its maker
/// could find two of its own with one digest in 2⁶⁴.
pub const DIGEST_BYTES: usize = 16;

/// Digest of a packet as its maker made it: by BLAKE3 over pieces of 1024 bytes, and over their hashes; the first half.
/// Bytes that say how it travels count as zeros, flags and hop, or as its length: the checksum. Zeros fill it up to whole
/// blocks of 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; DIGEST_BYTES]);

impl Digest {
    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; DIGEST_BYTES] {
        &self.0
    }

    pub(crate) fn from_bytes(bytes: [u8; DIGEST_BYTES]) -> Self {
        Self(bytes)
    }

    pub(crate) fn first_half(hash: &[u8; 2 * DIGEST_BYTES]) -> Self {
        let (halves, _) = hash.as_chunks();
        Self(halves[0])
    }
}
