use crate::membership::{GROUP_NAME_BYTES_MAX, QueryKind};
use crate::raw::{Reader, put_text};
use crate::{DecodeError, Header, Kind, TAIL_BYTES};

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

/// A reply to a [`ListQuery`] is at most so many times as long: who is asked in another's name
/// cannot be made to send him much more than the asker has sent.
pub const LIST_AMPLIFICATION_MAX: usize = 3;
/// Longest list that is answered, bytes: half a million groups with names of 100 bytes.
pub const LIST_BYTES_MAX: usize = 64 << 20;

/// Asks a membership service for a part of one of its lists. The asker need not be a node, and is
/// none by asking.
///
/// ```text
/// 24       32     33        41       45
/// +--------+------+---------+--------+-------------
/// | nonce  | list | version | offset | padding ...
/// +--------+------+---------+--------+-------------
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListQuery {
    /// Ties the reply to the question.
    pub nonce: u64,
    /// Which list.
    pub list: QueryKind,
    /// The version that the part is to be of; 0: the newest.
    pub version: u64,
    /// Where the part begins, bytes.
    pub offset: u32,
    /// Zeros at the end, which make room for the reply.
    pub padding: u16,
}

impl ListQuery {
    /// Header and fields.
    pub const BYTES: usize = 45;

    /// The padding with which a reply may fill a datagram of this length.
    #[must_use]
    pub fn padding_for(datagram_bytes: usize) -> u16 {
        let full = datagram_bytes.saturating_sub(TAIL_BYTES);
        let padding = full
            .div_ceil(LIST_AMPLIFICATION_MAX)
            .saturating_sub(Self::BYTES);
        // Datagrams are shorter.
        u16::try_from(padding).unwrap_or(u16::MAX)
    }

    /// Its length as a datagram.
    #[must_use]
    pub fn datagram_bytes(&self) -> usize {
        Self::BYTES + usize::from(self.padding)
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (nonce, list) = (reader.u64()?, QueryKind::from_wire(reader.u8()?)?);
        let (version, offset) = (reader.u64()?, reader.u32()?);
        let padding = reader.bytes(reader.rest().len())?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(DecodeError::BadValue);
        }
        let padding = u16::try_from(padding.len()).map_err(|_| DecodeError::BadLength)?;
        Ok(Self {
            nonce,
            list,
            version,
            offset,
            padding,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::ListQuery, out);
        out.extend_from_slice(&self.nonce.to_le_bytes());
        out.push(self.list.to_wire());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.resize(out.len() + usize::from(self.padding), 0);
    }
}

/// A part of a list, in answer to a [`ListQuery`]. All parts of one version together are the rows
/// ([`AnswerRows::decode_list`](crate::membership::AnswerRows::decode_list)). Versions are those of
/// the packet's origin.
///
/// ```text
/// 24       32     33        41      45       49
/// +--------+------+---------+-------+--------+-------------
/// | nonce  | list | version | total | offset | content ...
/// +--------+------+---------+-------+--------+-------------
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListReply<'a> {
    /// Of the question.
    pub nonce: u64,
    /// Which list.
    pub list: QueryKind,
    /// The version that the part is of: another than was asked for if that is not kept any more,
    /// and then the part is the first one.
    pub version: u64,
    /// Length of the whole list, bytes; without content if that is more than [`LIST_BYTES_MAX`].
    pub total: u32,
    /// Where the part begins.
    pub offset: u32,
    /// The part.
    pub content: &'a [u8],
}

impl<'a> ListReply<'a> {
    /// Header and fields.
    pub const BYTES: usize = 49;

    /// Bytes of content that the reply to this question may have, in datagrams of this length.
    #[must_use]
    pub fn room(query: &ListQuery, datagram_bytes: usize) -> usize {
        let full = datagram_bytes.saturating_sub(TAIL_BYTES);
        full.min(LIST_AMPLIFICATION_MAX * query.datagram_bytes())
            .saturating_sub(Self::BYTES)
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (nonce, list) = (reader.u64()?, QueryKind::from_wire(reader.u8()?)?);
        let (version, total, offset) = (reader.u64()?, reader.u32()?, reader.u32()?);
        let content = reader.bytes(reader.rest().len())?;
        let end = u64::from(offset) + content.len() as u64;
        if version == 0 || end > u64::from(total) {
            return Err(DecodeError::BadValue);
        }
        Ok(Self {
            nonce,
            list,
            version,
            total,
            offset,
            content,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::ListReply, out);
        out.extend_from_slice(&self.nonce.to_le_bytes());
        out.push(self.list.to_wire());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.total.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(self.content);
    }
}

/// Asks a membership service why a group's messages go where they go. The asker need not be a node, and
/// is none by asking.
///
/// ```text
/// 24       32
/// +--------+------+-----------
/// | nonce  | name | zeros ...
/// +--------+------+-----------
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupQuery<'a> {
    /// Ties the reply to the question.
    pub nonce: u64,
    /// The group's name, 1 to [`GROUP_NAME_BYTES_MAX`] bytes.
    pub name: &'a str,
    /// Zeros at the end, which make room for the reply.
    pub padding: u16,
}

impl<'a> GroupQuery<'a> {
    /// Header, nonce, and the length of the name.
    pub const BYTES: usize = 34;

    /// The padding with which a reply may fill a datagram of this length.
    #[must_use]
    pub fn padding_for(name: &str, datagram_bytes: usize) -> u16 {
        let full = datagram_bytes.saturating_sub(TAIL_BYTES);
        let padding = full
            .div_ceil(LIST_AMPLIFICATION_MAX)
            .saturating_sub(Self::BYTES + name.len());
        // Datagrams are shorter.
        u16::try_from(padding).unwrap_or(u16::MAX)
    }

    /// Its length as a datagram.
    #[must_use]
    pub fn datagram_bytes(&self) -> usize {
        Self::BYTES + self.name.len() + usize::from(self.padding)
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (nonce, name) = (reader.u64()?, reader.text()?);
        let padding = reader.bytes(reader.rest().len())?;
        let named = (1..=GROUP_NAME_BYTES_MAX).contains(&name.len());
        if !named || padding.iter().any(|byte| *byte != 0) {
            return Err(DecodeError::BadValue);
        }
        let padding = u16::try_from(padding.len()).map_err(|_| DecodeError::BadLength)?;
        Ok(Self {
            nonce,
            name,
            padding,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::GroupQuery, out);
        out.extend_from_slice(&self.nonce.to_le_bytes());
        put_text(out, self.name);
        out.resize(out.len() + usize::from(self.padding), 0);
    }
}

/// The answer to a [`GroupQuery`], in one packet.
///
/// ```text
/// 24       32
/// +--------+------------
/// | nonce  | answer ...
/// +--------+------------
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupReply<'a> {
    /// Of the question.
    pub nonce: u64,
    /// The answer, for [`GroupAnswer::decode`](crate::membership::GroupAnswer::decode).
    pub answer: &'a [u8],
}

impl<'a> GroupReply<'a> {
    /// Header and nonce.
    pub const BYTES: usize = 32;

    /// Bytes that the answer to this question may have, in datagrams of this length.
    #[must_use]
    pub fn room(query: &GroupQuery<'_>, datagram_bytes: usize) -> usize {
        let full = datagram_bytes.saturating_sub(TAIL_BYTES);
        full.min(LIST_AMPLIFICATION_MAX * query.datagram_bytes())
            .saturating_sub(Self::BYTES)
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            nonce: reader.u64()?,
            answer: reader.bytes(reader.rest().len())?,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::GroupReply, out);
        out.extend_from_slice(&self.nonce.to_le_bytes());
        out.extend_from_slice(self.answer);
    }
}

/// Purpose of an [`AdmissionFrame`].
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

/// Word of a node and a membership service to each other about identities and keys, where a cluster takes tokens
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
    /// Its purpose.
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
