//! Whether a speaker's multicast reaches a member: the question, and both kinds of answer.

use crate::raw::{Reader, put_origin};
use crate::repair::flag;
use crate::{DecodeError, Header, Kind, Origin, RegionId};

/// A member's word on the multicast of the node that it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Hearing {
    /// It has not heard it for a moment, and does not know yet.
    Unsure = 0,
    /// It is deaf to it.
    Deaf = 1,
    /// It was deaf to it, and hears it again.
    Hears = 2,
}

impl Hearing {
    fn from_wire(value: u8) -> Result<Self, DecodeError> {
        Ok(match value {
            0 => Self::Unsure,
            1 => Self::Deaf,
            2 => Self::Hears,
            _ => return Err(DecodeError::BadValue),
        })
    }
}

/// Asks a node to speak to the region by multicast, and says what has been heard of it so far: from
/// a member, by unicast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// The region whose address is in question.
    pub region: RegionId,
    /// The node that is asked. A member that is not this one passes the question on.
    pub speaker: Origin,
    /// Ties the answer to the question; ascending.
    pub nonce: u32,
    /// What the asker hears.
    pub hearing: Hearing,
    /// A member has passed it on: it is passed on once.
    pub relayed: bool,
}

impl Reach {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            region: RegionId(reader.u32()?),
            speaker: reader.origin()?,
            nonce: reader.u32()?,
            hearing: Hearing::from_wire(reader.u8()?)?,
            relayed: flag(reader.u8()?)?,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::Reach, out);
        out.extend_from_slice(&self.region.0.to_le_bytes());
        put_origin(out, self.speaker);
        out.extend_from_slice(&self.nonce.to_le_bytes());
        out.push(self.hearing as u8);
        out.push(u8::from(self.relayed));
    }
}

/// Answers a [`Reach`]: once by multicast, for all who ask at that time, and to each by unicast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReachReply {
    /// The region.
    pub region: RegionId,
    /// Nonce of the question.
    pub nonce: u32,
    /// Number of the newest answer by multicast, counted by the one who speaks.
    pub spoken: u32,
    /// This is that answer; else it came by unicast.
    pub multicast: bool,
}

impl ReachReply {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            region: RegionId(reader.u32()?),
            nonce: reader.u32()?,
            spoken: reader.u32()?,
            multicast: flag(reader.u8()?)?,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::ReachReply, out);
        out.extend_from_slice(&self.region.0.to_le_bytes());
        out.extend_from_slice(&self.nonce.to_le_bytes());
        out.extend_from_slice(&self.spoken.to_le_bytes());
        out.push(u8::from(self.multicast));
    }
}
