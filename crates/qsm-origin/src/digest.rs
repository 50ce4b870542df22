//! Digests of packets.

use aws_lc_rs::digest::{Context, SHA256};
use qsm_wire::{CHECKSUM_AT, FLAGS_AT, HEADER_BYTES, HOP_AT};

/// Bytes of a digest. Nobody finds another packet with the digest of a given one in fewer than 2¹²⁸ trials; its maker
/// could find two of its own with one digest in 2⁶⁴.
pub const DIGEST_BYTES: usize = 16;

/// Digest of a packet as its maker made it: the first half of SHA-256 (FIPS 180-4) over all its bytes, with zeros for
/// what says how it travels: flags, hop and checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; DIGEST_BYTES]);

impl Digest {
    /// The digest of this datagram, as it is without protection.
    #[must_use]
    pub fn of(datagram: &[u8]) -> Self {
        let mut context = Context::new(&SHA256);
        match datagram.split_first_chunk::<HEADER_BYTES>() {
            Some((head, rest)) => {
                let mut head = *head;
                head[FLAGS_AT] = 0;
                head[HOP_AT] = 0;
                head[CHECKSUM_AT].fill(0);
                context.update(&head);
                context.update(rest);
            }
            None => context.update(datagram),
        }
        let mut bytes = [0; DIGEST_BYTES];
        bytes.copy_from_slice(&context.finish().as_ref()[..DIGEST_BYTES]);
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; DIGEST_BYTES] {
        &self.0
    }

    pub(crate) fn from_bytes(bytes: [u8; DIGEST_BYTES]) -> Self {
        Self(bytes)
    }
}
