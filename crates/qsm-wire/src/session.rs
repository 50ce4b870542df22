use crate::raw::Reader;
use crate::{DecodeError, Header, Kind};

/// The numbers of a session frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// Chosen at random by the client when it opens the session.
    pub session: u64,
    /// The frame's number in its direction, from 1.
    pub number: u64,
    /// All frames of the other direction up to here have arrived.
    pub heard_upto: u64,
    /// Whether the message goes on in the next frame.
    pub more: bool,
}

/// One frame of a reliable, ordered session between a node and the membership service (R057).
///
/// ```text
/// 24           32          40            48      49
/// +------------+-----------+-------------+-------+--- content
/// | session    | number    | heard up to | more  |
/// +------------+-----------+-------------+-------+---
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The numbers.
    pub head: FrameHead,
    /// A part of a membership message.
    pub content: &'a [u8],
}

impl<'a> Frame<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let head = FrameHead {
            session: reader.u64()?,
            number: reader.u64()?,
            heard_upto: reader.u64()?,
            more: crate::repair::flag(reader.u8()?)?,
        };
        if head.number == 0 {
            return Err(DecodeError::BadValue);
        }
        let content = reader.bytes(reader.rest().len())?;
        Ok(Self { head, content })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::Session, out);
        for number in [self.head.session, self.head.number, self.head.heard_upto] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(u8::from(self.head.more));
        out.extend_from_slice(self.content);
    }
}

/// A receipt ([`Kind::SessionAck`]) without a frame of one's own. The membership service also
/// takes a client's receipts as heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// The session.
    pub session: u64,
    /// All frames up to here have arrived.
    pub heard_upto: u64,
}

impl Heard {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            session: reader.u64()?,
            heard_upto: reader.u64()?,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::SessionAck, out);
        out.extend_from_slice(&self.session.to_le_bytes());
        out.extend_from_slice(&self.heard_upto.to_le_bytes());
    }
}

/// The membership service does not know this session (it has restarted, or has excluded the
/// node): the client must open a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reset {
    /// The session.
    pub session: u64,
}

impl Reset {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            session: reader.u64()?,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::SessionReset, out);
        out.extend_from_slice(&self.session.to_le_bytes());
    }
}
