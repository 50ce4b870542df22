//! Seals: what they look like, and when they are good.
//!
//! ```text
//!  | head of the data packet, 44 bytes | chunk header | digest of packet n-k | … | of packet n-1 | signature, 64 bytes |
//! ```
//! n: the seal's own number; k: how many digests there are. A seal that begins has the number of the first packet that
//! no seal is for in their place, 8 bytes.

use core::fmt;

use qsm_identity::NodePublic;
use qsm_wire::{
    Body, CHUNK_HEADER_BYTES, DATA_HEADER_BYTES, Data, DataHeader, GroupId, Header, Hop, Packet,
    Part, StreamId,
};

use crate::digest::{DIGEST_BYTES, Digest};

/// Group number of a chunk that is a seal. No group of an application has it.
pub const SEAL_GROUP: GroupId = GroupId(u32::MAX - 1);
/// Most packets that one seal is for.
pub const PACKETS_MAX: usize = 256;
/// Most bytes of packets that a sender puts under one seal: receivers keep them until it comes.
const SEALED_BYTES: usize = 512 << 10;
/// Bytes of a signature (Ed25519, RFC 8032).
const SIGNATURE_BYTES: usize = 64;
/// Begins what is signed: it is no statement of another kind, which the same key may have signed.
const LABEL: &[u8] = b"qsm seal of origin 1\0";

/// Packets of at most so many bytes that a sender puts under one seal.
pub(crate) fn packets_max(packet_bytes: usize) -> usize {
    let fixed = DATA_HEADER_BYTES + CHUNK_HEADER_BYTES + SIGNATURE_BYTES;
    let fit = packet_bytes.saturating_sub(fixed) / DIGEST_BYTES;
    let kept = SEALED_BYTES / packet_bytes.max(1);
    fit.min(kept).min(PACKETS_MAX)
}

/// Bytes that the maker of a seal signs.
pub(crate) fn statement(header: &Header, head: &DataHeader, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LABEL.len() + DATA_HEADER_BYTES + content.len());
    bytes.extend_from_slice(LABEL);
    let header = Header {
        hop: Hop::Direct,
        ..*header
    };
    head.encode(&header, &mut bytes);
    bytes.extend_from_slice(content);
    bytes
}

/// Number of the first packet that no seal is for, in a seal that begins.
fn first_unsealed(content: &[u8]) -> Option<u64> {
    let bytes = content.try_into().ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// A packet that says it is a seal.
#[derive(Debug, Clone, Copy)]
pub struct Seal<'a> {
    header: Header,
    head: DataHeader,
    /// Content that is signed: digests, or a number.
    content: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Seal<'a> {
    /// The seal that a datagram is; `None` if it is none, which costs a look at four bytes.
    ///
    /// # Errors
    /// [`SealError::Misshapen`].
    pub fn read(datagram: &'a [u8]) -> Result<Option<Self>, SealError> {
        let group = datagram
            .get(DATA_HEADER_BYTES..)
            .and_then(<[u8]>::first_chunk);
        if group != Some(&SEAL_GROUP.0.to_le_bytes()) {
            return Ok(None);
        }
        let Ok(packet) = Packet::decode(datagram) else {
            return Err(SealError::Misshapen);
        };
        match packet.body {
            Body::Data(data) => Self::of(packet.header, &data, datagram).map(Some),
            _ => Ok(None),
        }
    }

    fn of(header: Header, data: &Data<'a>, datagram: &'a [u8]) -> Result<Self, SealError> {
        let head = data.head;
        let chunk = data.chunks().next().ok_or(SealError::Misshapen)?;
        let alone = datagram.len() == DATA_HEADER_BYTES + chunk.encoded_bytes();
        if !alone || chunk.part != Part::Whole || chunk.message != 0 {
            return Err(SealError::Misshapen);
        }
        let end = chunk.content.len().saturating_sub(SIGNATURE_BYTES);
        let (content, signature) = chunk.content.split_at(end);
        let possible = match first_unsealed(content) {
            Some(first) => (1..head.sequence).contains(&first),
            None => {
                let (digests, rest) = content.as_chunks::<DIGEST_BYTES>();
                let packets = digests.len();
                let room = (1..=PACKETS_MAX).contains(&packets) && rest.is_empty();
                room && u64::try_from(packets).is_ok_and(|packets| packets < head.sequence)
            }
        };
        if !possible {
            return Err(SealError::Misshapen);
        }
        Ok(Self {
            header,
            head,
            content,
            signature,
        })
    }

    /// The stream that it says it is of.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        StreamId {
            origin: self.header.origin,
            channel: self.head.channel,
        }
    }

    /// Tells whether it says it is for this packet: by a digest, as itself, or as one that no seal is for.
    #[must_use]
    pub fn is_for(&self, sequence: u64) -> bool {
        let first = first_unsealed(self.content).unwrap_or_else(|| self.first());
        (first..=self.head.sequence).contains(&sequence)
    }

    fn first(&self) -> u64 {
        let packets = u64::try_from(self.listed().len()).unwrap_or(0);
        // Not below 1: see `Seal::of`.
        self.head.sequence - packets
    }

    fn listed(&self) -> &[[u8; DIGEST_BYTES]] {
        match first_unsealed(self.content) {
            Some(_) => &[],
            None => self.content.as_chunks().0,
        }
    }

    /// Proof by the public key of the node that it names. This is what costs time: a signature is verified.
    ///
    /// # Errors
    /// [`SealError::NotSigned`].
    pub fn prove(self, key: &NodePublic) -> Result<ProvenSeal<'a>, SealError> {
        let statement = statement(&self.header, &self.head, self.content);
        match key.verifies(&statement, self.signature) {
            true => Ok(ProvenSeal(self)),
            false => Err(SealError::NotSigned),
        }
    }
}

/// A seal that was made by the node that it names.
#[derive(Debug, Clone, Copy)]
pub struct ProvenSeal<'a>(Seal<'a>);

impl ProvenSeal<'_> {
    /// Number of its own packet.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.0.head.sequence
    }

    /// Number of the first packet that it proves.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.0.first()
    }

    /// Number of the first of the packets right before it that no seal is for, if it begins seals in a stream that has had
    /// none, or none since then.
    #[must_use]
    pub fn unsealed(&self) -> Option<u64> {
        first_unsealed(self.0.content)
    }

    /// The packets that it proves, with their digests, in order; its own, with this digest, is the last one.
    pub(crate) fn digests(&self, own: Digest) -> impl Iterator<Item = (u64, Digest)> + '_ {
        let listed = self.0.listed().iter().copied().map(Digest::from_bytes);
        (self.first()..).zip(listed.chain([own]))
    }
}

/// Reason for which a packet that says it is a seal proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealError {
    /// It is not what a seal looks like: no maker of seals made it.
    Misshapen,
    /// The node that it names has not signed it.
    NotSigned,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Misshapen => "the packet is no seal, though it says so",
            Self::NotSigned => "the node that the seal names has not signed it",
        })
    }
}

impl core::error::Error for SealError {}
