use crate::raw::Reader;
use crate::{DecodeError, Header, Kind};

/// What an [`AdmissionFrame`] is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AdmissionStage {
    /// A node looks for a service; its content is room for the answer.
    Seek = 1,
    /// A service says where it is; its content is that of a [`Beacon`](crate::Beacon).
    Here = 2,
    /// A frame of a handshake.
    Handshake = 3,
    /// A word about keys, in a session that protects it.
    Word = 4,
}

impl AdmissionStage {
    /// Every stage, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Seek, Self::Here, Self::Handshake, Self::Word];

    fn from_wire(value: u8) -> Result<Self, DecodeError> {
        let known = Self::ALL.into_iter().find(|stage| *stage as u8 == value);
        known.ok_or(DecodeError::BadValue)
    }
}

/// What a node and a membership service say to each other about identities and keys, where a cluster takes tokens
/// (PROTOCOL.md, section 9). It goes from socket to socket: no state machine of the protocol sees it.
///
/// ```text
/// 24      25
/// +-------+--- content
/// | stage |
/// +-------+---
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionFrame<'a> {
    /// What it is for.
    pub stage: AdmissionStage,
    /// The rest, by stage.
    pub content: &'a [u8],
}

impl<'a> AdmissionFrame<'a> {
    /// Bytes of a frame but for its content.
    pub const HEAD_BYTES: usize = crate::HEADER_BYTES + 1;

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let stage = AdmissionStage::from_wire(reader.u8()?)?;
        let content = reader.bytes(reader.rest().len())?;
        Ok(Self { stage, content })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::Admission, out);
        out.push(self.stage as u8);
        out.extend_from_slice(self.content);
    }
}
