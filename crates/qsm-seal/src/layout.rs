//! Places in a protected packet (PROTOCOL.md, section 9).
//!
//! ```text
//!  data      | header, 44 bytes | sealed | tag |
//!  others    | header, 24 bytes | sealed | tag | counter |
//! ```

use qsm_wire::{DATA_HEADER_BYTES, HEADER_BYTES, HOP_AT, Kind, TAG_BYTES, TAIL_BYTES};

use crate::aead::NONCE_BYTES;

/// Bytes of the counter of a packet that is not data.
pub(crate) const COUNTER_BYTES: usize = TAIL_BYTES - TAG_BYTES;

/// Form of a protected packet, which its kind decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Its number is in its header.
    Data,
    /// Its number comes behind the tag.
    Control,
}

impl Form {
    pub(crate) fn of(datagram: &[u8]) -> Self {
        match Kind::peek(datagram) {
            Some(Kind::Data) => Self::Data,
            _ => Self::Control,
        }
    }

    /// Bytes that stay readable.
    pub(crate) fn head_bytes(self) -> usize {
        match self {
            Self::Data => DATA_HEADER_BYTES,
            Self::Control => HEADER_BYTES,
        }
    }

    /// Bytes that are added at the end.
    pub(crate) fn tail_bytes(self) -> usize {
        match self {
            Self::Data => TAG_BYTES,
            Self::Control => TAIL_BYTES,
        }
    }
}

/// The counter at the end of a packet that is not data, and as long as such packets are.
pub(crate) fn counter_of(datagram: &[u8]) -> u64 {
    let mut bytes = [0; COUNTER_BYTES];
    bytes.copy_from_slice(&datagram[datagram.len() - COUNTER_BYTES..]);
    u64::from_le_bytes(bytes)
}

/// The nonce of a data packet: its channel and its number.
pub(crate) fn data_nonce(head: &[u8]) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce[..4].copy_from_slice(&head[24..28]);
    nonce[4..].copy_from_slice(&head[32..40]);
    nonce
}

/// The nonce of another packet: its counter.
pub(crate) fn control_nonce(counter: u64) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    nonce
}

/// Authenticated part of a header: all of it but the hop.
pub(crate) fn authenticated(head: &[u8]) -> ([u8; DATA_HEADER_BYTES], usize) {
    let mut bytes = [0; DATA_HEADER_BYTES];
    bytes[..head.len()].copy_from_slice(head);
    bytes[HOP_AT] = 0;
    (bytes, head.len())
}
