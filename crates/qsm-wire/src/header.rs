use crate::raw::Reader;
use crate::{
    Absent, Ack, AdmissionFrame, Beacon, CatchUp, Data, DecodeError, Frame, GroupQuery, GroupReply,
    Heard, Heartbeat, ListQuery, ListReply, Marks, Numbers, NumbersQuery, Origin, Parity, Probe,
    Reach, ReachReply, Request, Reset, StreamQuery, Summary, Token, TokenAck,
};

/// The protocol version in the first byte of every datagram (R-PKT-2).
pub const VERSION: u8 = 17;
/// Bytes of the header that every datagram begins with.
pub const HEADER_BYTES: usize = 24;
/// Bytes at the end of a datagram that a protected packet uses for its authentication tag.
/// Senders leave them free in every packet, so that protection never changes the packet size.
pub const TAG_BYTES: usize = 16;
/// The same of packets that are not data, which carry a counter as well (R-SEC-5).
pub const TAIL_BYTES: usize = TAG_BYTES + 8;
/// Bytes of a signature (Ed25519, RFC 8032).
pub const SIGNATURE_BYTES: usize = 64;
/// The same as [`TAIL_BYTES`] of packets that go to all and that their maker signs (R-SEC-17).
pub const SIGNED_TAIL_BYTES: usize = TAIL_BYTES + SIGNATURE_BYTES;

/// Flag: the checksum covers the whole datagram.
pub(crate) const WHOLE: u8 = 1;
/// Flag: the packet is protected by a key, whose number is in the checksum's place.
pub const SEALED: u8 = 2;
/// Place of the flags in every datagram.
pub const FLAGS_AT: usize = 2;
/// Place of the hop in every datagram.
pub const HOP_AT: usize = 3;
/// Place of the checksum in every datagram, or of the number of the key that protects it.
pub const CHECKSUM_AT: core::ops::Range<usize> = 20..24;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        /// What a datagram is. Numbers are never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Kind { $($(#[$doc])* $name = $value,)* }

        impl Kind {
            /// Every kind, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Kind of a datagram that nobody has checked yet, `None` if it is none of ours: for
            /// sorting and counting; [`Packet::decode`] decides whether the datagram is valid.
            #[inline]
            #[must_use]
            pub fn peek(datagram: &[u8]) -> Option<Self> {
                Self::from_wire(*datagram.get(1)?)
            }

            #[inline]
            fn from_wire(value: u8) -> Option<Self> {
                match value { $($value => Some(Self::$name),)* _ => None }
            }
        }
    };
}

kinds! {
    /// Messages of many groups, or a part of a large one.
    Data = 1,
    /// A sender's word on how far its stream goes and which view began where.
    Heartbeat = 2,
    /// Fast plane: please repair these, or pass the request on.
    Nak = 3,
    /// Token plane: please send these as soon as you have them.
    Pull = 4,
    /// The control message that circulates in a ring.
    Token = 5,
    /// Receipt for a token, to the one who passed it on.
    TokenAck = 6,
    /// The result of a token round, from the region leader to the region.
    Summary = 7,
    /// The result of a token round, from the region leader to one sender.
    Ack = 8,
    /// Where did this stream's views begin? Answered by a heartbeat.
    StreamQuery = 9,
    /// One frame of a reliable session with the membership service.
    Session = 10,
    /// A membership service says where it is.
    Beacon = 11,
    /// A node looks for a membership service; answered by a beacon.
    Solicit = 12,
    /// Are you alive?
    Probe = 13,
    /// Yes.
    ProbeReply = 14,
    /// These packets exist nowhere any more: their sender is dead and no cacher holds them.
    Absent = 15,
    /// The receipt of a session frame without a frame of one's own.
    SessionAck = 16,
    /// The membership service does not know this session.
    SessionReset = 17,
    /// How far do your streams go? A member that was away asks one that was not; answered by a
    /// Summary.
    CatchUp = 18,
    /// Does your multicast reach me? From a member that has not heard a speaker lately.
    Reach = 19,
    /// The answer, by multicast and by unicast.
    ReachReply = 20,
    /// Which messages were in the packets that I have passed over? From a member to the sender.
    NumbersQuery = 21,
    /// The answer, or a part of it.
    Numbers = 22,
    /// What is in the membership service's list? From anybody.
    ListQuery = 23,
    /// A part of the list.
    ListReply = 24,
    /// Why do this group's messages go where they go? From anybody.
    GroupQuery = 25,
    /// The membership service's answer.
    GroupReply = 26,
    /// A sum of the packets of a block, for those that miss some of them.
    Parity = 27,
    /// Word between a node and its membership service on identities and keys.
    Admission = 28,
}

/// How a packet came to its present receiver. The only byte that may change on the way; it is
/// not covered by the authentication tag, and decides nothing but counters and whether the
/// multicast of its origin counts as heard (R-REACH-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
#[repr(u8)]
pub enum Hop {
    /// From its origin, for the first time.
    #[default]
    Direct = 0,
    /// A repair from its origin.
    SenderRepair = 1,
    /// A repair from a cacher that was asked by NAK.
    CacherRepair = 2,
    /// A repair that a ring neighbour sent unasked.
    Push = 3,
    /// A repair that was asked for by pull.
    PullRepair = 4,
    /// From its origin, for the first time, by unicast: a copy of what it has sent by multicast, for
    /// a member that does not hear that (R-REACH-4).
    Copy = 5,
}

impl Hop {
    #[inline]
    fn from_wire(value: u8) -> Result<Self, DecodeError> {
        Ok(match value {
            0 => Self::Direct,
            1 => Self::SenderRepair,
            2 => Self::CacherRepair,
            3 => Self::Push,
            4 => Self::PullRepair,
            5 => Self::Copy,
            _ => return Err(DecodeError::BadValue),
        })
    }

    /// Tells whether the packet has come from its origin, and for the first time.
    #[inline]
    #[must_use]
    pub fn is_first(self) -> bool {
        matches!(self, Self::Direct | Self::Copy)
    }

    /// Hop of a datagram that nobody has checked yet, `None` if it is none of ours.
    #[inline]
    #[must_use]
    pub fn peek(datagram: &[u8]) -> Option<Self> {
        Self::from_wire(*datagram.get(3)?).ok()
    }

    /// Marks how a datagram's copy is sent. Does nothing to a buffer too short to be a datagram.
    /// Rule R-PKT-4.
    pub fn stamp(self, datagram: &mut [u8]) {
        if let Some(byte) = datagram.get_mut(3) {
            *byte = self as u8;
        }
    }
}

/// The first 24 bytes of every datagram. [`seal`](crate::seal) adds the checksum and the flag that
/// says what it covers.
///
/// ```text
///  0        1        2        3        4                          8
/// +--------+--------+--------+--------+--------------------------+
/// |version |  kind  | flags  |  hop   |   cluster                |
/// +--------+--------+--------+--------+--------------------------+
/// |                       node (8 bytes)                         |
/// +-----------------------------------+--------------------------+
/// |   incarnation                     |   checksum               |
/// +-----------------------------------+--------------------------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Hash of the cluster's name: datagrams of foreign clusters on the same address are dropped.
    pub cluster: u32,
    /// Who made the packet (not: who repaired or forwarded it).
    pub origin: Origin,
    /// How it came here.
    pub hop: Hop,
}

/// Place of the cluster's number in every datagram.
pub const CLUSTER_AT: usize = 4;
/// Place of the maker in every datagram.
const ORIGIN_AT: usize = 8;

/// The number that stands for a cluster's name in every header (FNV-1a, 32 bits).
#[must_use]
pub fn cluster_number(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Number of the cluster that a datagram of this version says it is of, whatever else is in it.
#[must_use]
pub fn cluster_of(datagram: &[u8]) -> Option<u32> {
    let (head, rest) = datagram.split_at_checked(CLUSTER_AT)?;
    let number = rest.first_chunk()?;
    (head[0] == VERSION).then(|| u32::from_le_bytes(*number))
}

/// Maker that a datagram of this version names, whatever else is in it.
#[must_use]
pub fn origin_of(datagram: &[u8]) -> Option<Origin> {
    let head = datagram.first_chunk::<HEADER_BYTES>()?;
    let mut reader = Reader::new(&head[ORIGIN_AT..]);
    (head[0] == VERSION).then(|| reader.origin().ok()).flatten()
}

/// Makes the headers of a cluster's packets: the fields that do not depend on the packet are
/// filled in here and nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderTemplate {
    cluster: u32,
}

impl HeaderTemplate {
    /// A template for this cluster.
    #[must_use]
    pub const fn new(cluster: u32) -> Self {
        Self { cluster }
    }

    /// The cluster's number.
    #[must_use]
    pub fn cluster(self) -> u32 {
        self.cluster
    }

    /// The header of a packet that leaves its origin for the first time.
    #[inline]
    #[must_use]
    pub fn header(self, origin: Origin) -> Header {
        Header {
            cluster: self.cluster,
            origin,
            hop: Hop::Direct,
        }
    }
}

impl Header {
    /// Appends the header of a packet of this kind, with a 0 for the checksum.
    #[inline]
    pub fn encode(&self, kind: Kind, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes(kind));
    }

    #[inline]
    pub(crate) fn to_bytes(self, kind: Kind) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&[VERSION, kind as u8, 0, self.hop as u8]);
        bytes[4..8].copy_from_slice(&self.cluster.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.origin.node.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.origin.incarnation.0.to_le_bytes());
        bytes
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<(Self, Kind), DecodeError> {
        if reader.u8()? != VERSION {
            return Err(DecodeError::UnknownVersion);
        }
        let kind = Kind::from_wire(reader.u8()?).ok_or(DecodeError::UnknownKind)?;
        let flags = reader.u8()?;
        if flags != SEALED && flags & !WHOLE != 0 {
            return Err(DecodeError::BadValue);
        }
        let hop = Hop::from_wire(reader.u8()?)?;
        let cluster = reader.u32()?;
        let origin = reader.origin()?;
        // The checksum, which is looked at before anything else.
        reader.u32()?;
        if flags == SEALED {
            return Err(DecodeError::Sealed);
        }
        Ok((
            Self {
                cluster,
                origin,
                hop,
            },
            kind,
        ))
    }
}

/// A datagram whose every field has been checked.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// What all packets have.
    pub header: Header,
    /// The rest, by kind.
    pub body: Body<'a>,
}

/// The body of a packet; the variants are the kinds.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant is documented at its Kind")]
pub enum Body<'a> {
    Data(Data<'a>),
    Heartbeat(Heartbeat<'a>),
    Nak(Request<'a>),
    Pull(Request<'a>),
    Token(Token<'a>),
    TokenAck(TokenAck),
    Summary(Summary<'a>),
    Ack(Ack, Marks<'a>),
    StreamQuery(StreamQuery),
    Session(Frame<'a>),
    Beacon(Beacon),
    Solicit,
    Probe(Probe),
    ProbeReply(Probe),
    Absent(Absent<'a>),
    SessionAck(Heard),
    SessionReset(Reset),
    CatchUp(CatchUp),
    Reach(Reach),
    ReachReply(ReachReply),
    NumbersQuery(NumbersQuery),
    Numbers(Numbers<'a>),
    ListQuery(ListQuery),
    ListReply(ListReply<'a>),
    GroupQuery(GroupQuery<'a>),
    GroupReply(GroupReply<'a>),
    Parity(Parity<'a>),
    Admission(AdmissionFrame<'a>),
}

impl<'a> Body<'a> {
    /// Kept apart: most packets are data or tokens, which this would make slower to read.
    #[inline(never)]
    fn read(kind: Kind, r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match kind {
            Kind::Data => Body::Data(Data::read(r)?),
            Kind::Heartbeat => Body::Heartbeat(Heartbeat::read(r)?),
            Kind::Nak => Body::Nak(Request::read(r)?),
            Kind::Pull => Body::Pull(Request::read(r)?),
            Kind::Token => Body::Token(Token::read(r)?),
            Kind::TokenAck => Body::TokenAck(TokenAck::read(r)?),
            Kind::Summary => Body::Summary(Summary::read(r)?),
            Kind::Ack => Body::Ack(Ack::read(r)?, Marks::read_rest(r)?),
            Kind::StreamQuery => Body::StreamQuery(StreamQuery::read(r)?),
            Kind::Session => Body::Session(Frame::read(r)?),
            Kind::Beacon => Body::Beacon(Beacon::read(r)?),
            Kind::Solicit => Body::Solicit,
            Kind::Probe => Body::Probe(Probe::read(r)?),
            Kind::ProbeReply => Body::ProbeReply(Probe::read(r)?),
            Kind::Absent => Body::Absent(Absent::read(r)?),
            Kind::SessionAck => Body::SessionAck(Heard::read(r)?),
            Kind::SessionReset => Body::SessionReset(Reset::read(r)?),
            Kind::CatchUp => Body::CatchUp(CatchUp::read(r)?),
            Kind::Reach => Body::Reach(Reach::read(r)?),
            Kind::ReachReply => Body::ReachReply(ReachReply::read(r)?),
            Kind::NumbersQuery => Body::NumbersQuery(NumbersQuery::read(r)?),
            Kind::Numbers => Body::Numbers(Numbers::read(r)?),
            Kind::ListQuery => Body::ListQuery(ListQuery::read(r)?),
            Kind::ListReply => Body::ListReply(ListReply::read(r)?),
            Kind::GroupQuery => Body::GroupQuery(GroupQuery::read(r)?),
            Kind::GroupReply => Body::GroupReply(GroupReply::read(r)?),
            Kind::Parity => Body::Parity(Parity::read(r)?),
            Kind::Admission => Body::Admission(AdmissionFrame::read(r)?),
        })
    }
}

impl<'a> Packet<'a> {
    /// Checks every field of a datagram (R-PKT-1), whatever its checksum says.
    ///
    /// # Errors
    /// One [`DecodeError`] per reason; nothing of a rejected datagram may be used.
    #[inline]
    pub fn decode(datagram: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(datagram);
        let (header, kind) = Header::read(&mut reader)?;
        let body = match kind {
            Kind::Data => Body::Data(Data::read(&mut reader)?),
            Kind::Token => Body::Token(Token::read(&mut reader)?),
            control => Body::read(control, &mut reader)?,
        };
        reader.end()?;
        Ok(Self { header, body })
    }
}
