use core::net::SocketAddr;

use crate::marks::Marks;
use crate::raw::{Reader, put_address, put_origin};
use crate::repair::flag;
use crate::{ChannelId, DecodeError, Header, Kind, Origin, RegionId, StreamId, ViewNumber};

/// Where the packets of one view begin in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// The region view.
    pub view: ViewNumber,
    /// The first sequence number with that view (or with a later one, if it got none).
    pub start: u64,
}

/// How far a stream goes: sent by its sender after data stops (G01: tail loss), at view changes,
/// and in answer to a [`StreamQuery`] (then also by others who know).
#[derive(Debug, Clone, Copy)]
pub struct Heartbeat<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Highest sequence number sent; 0 before the first packet.
    pub highest: u64,
    /// Whether the stream has ended: nothing above `highest` will ever come.
    pub finished: bool,
    openings: &'a [u8],
}

impl<'a> Heartbeat<'a> {
    /// Most openings a heartbeat carries: of half as many views in a row each may begin elsewhere.
    pub const OPENINGS_MAX: usize = 32;

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let channel = ChannelId(reader.u32()?);
        let stream = StreamId {
            origin: reader.origin()?,
            channel,
        };
        let highest = reader.u64()?;
        let finished = flag(reader.u8()?)?;
        let count = usize::from(reader.u8()?);
        if count > Self::OPENINGS_MAX {
            return Err(DecodeError::BadLength);
        }
        let openings = reader.bytes(count * 12)?;
        Ok(Self {
            stream,
            highest,
            finished,
            openings,
        })
    }

    /// The openings, newest view first.
    pub fn openings(&self) -> impl Iterator<Item = Opening> + use<'a> {
        let mut reader = Reader::new(self.openings);
        core::iter::from_fn(move || {
            let view = ViewNumber(reader.u32().ok()?);
            Some(Opening {
                view,
                start: reader.u64().ok()?,
            })
        })
    }

    /// Appends the packet; openings beyond the limit are left out, so give the newest first.
    pub fn encode(
        header: &Header,
        stream: StreamId,
        highest: u64,
        finished: bool,
        openings: impl Iterator<Item = Opening>,
        out: &mut Vec<u8>,
    ) {
        header.encode(Kind::Heartbeat, out);
        out.extend_from_slice(&stream.channel.0.to_le_bytes());
        put_origin(out, stream.origin);
        out.extend_from_slice(&highest.to_le_bytes());
        out.push(u8::from(finished));
        let count_at = out.len();
        out.push(0);
        for opening in openings.take(Self::OPENINGS_MAX) {
            out.extend_from_slice(&opening.view.0.to_le_bytes());
            out.extend_from_slice(&opening.start.to_le_bytes());
            out[count_at] += 1;
        }
    }
}

/// Asks where the views of a stream begin (a new member that saw only later packets).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamQuery {
    /// The channel.
    pub channel: ChannelId,
    /// Whose stream.
    pub stream: Origin,
}

impl StreamQuery {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            channel: ChannelId(reader.u32()?),
            stream: reader.origin()?,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::StreamQuery, out);
        out.extend_from_slice(&self.channel.0.to_le_bytes());
        put_origin(out, self.stream);
    }
}

/// Asks how far the streams of a region go: from a member that was away to one that was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatchUp {
    /// The region.
    pub region: RegionId,
    /// The newest view that the asker knows.
    pub view: ViewNumber,
    /// Ties the answer, a [`Summary`] with this number for its round, to the question.
    pub nonce: u64,
}

impl CatchUp {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            region: RegionId(reader.u32()?),
            view: ViewNumber(reader.u32()?),
            nonce: reader.u64()?,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::CatchUp, out);
        out.extend_from_slice(&self.region.0.to_le_bytes());
        out.extend_from_slice(&self.view.0.to_le_bytes());
        out.extend_from_slice(&self.nonce.to_le_bytes());
    }
}

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
    /// The node that is asked. A member that is not this one passes the question on, once, in its own name.
    pub speaker: Origin,
    /// The member that asks; where it is not who has sent this, that one has passed it on.
    pub asker: Origin,
    /// Ties the answer to the question; ascending.
    pub nonce: u32,
    /// The asker's hearing.
    pub hearing: Hearing,
}

impl Reach {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            region: RegionId(reader.u32()?),
            speaker: reader.origin()?,
            asker: reader.origin()?,
            nonce: reader.u32()?,
            hearing: Hearing::from_wire(reader.u8()?)?,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::Reach, out);
        out.extend_from_slice(&self.region.0.to_le_bytes());
        put_origin(out, self.speaker);
        put_origin(out, self.asker);
        out.extend_from_slice(&self.nonce.to_le_bytes());
        out.push(self.hearing as u8);
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

/// What one token round says to one sender (R091, X06).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The sender's stream.
    pub stream: StreamId,
    /// The region that acknowledges.
    pub region: RegionId,
    /// The view the round ran in.
    pub view: ViewNumber,
    /// The round, so that an old ACK cannot undo a newer one's rate.
    pub round: u64,
    /// All live members have everything up to here.
    pub stable_upto: u64,
    /// All live cachers have their part of everything up to here.
    pub cached_upto: u64,
    /// All live members have received a packet of this number or a higher one: up to here nothing
    /// waits in their receive buffers, though some may be missing.
    pub arrived_upto: u64,
    /// Rate this sender may use, packets per second (S2 eq. 1); `u32::MAX` when nobody objects.
    pub rate_packets: u32,
    /// Bytes above `arrived_upto` that may be in flight from this sender: the receivers' buffers,
    /// shared out.
    pub credit_bytes: u32,
    /// How many members missed something of this stream in the round.
    pub losers: u16,
}

impl Ack {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let channel = ChannelId(reader.u32()?);
        let ack = Self {
            stream: StreamId {
                origin: reader.origin()?,
                channel,
            },
            region: RegionId(reader.u32()?),
            view: ViewNumber(reader.u32()?),
            round: reader.u64()?,
            stable_upto: reader.u64()?,
            cached_upto: reader.u64()?,
            arrived_upto: reader.u64()?,
            rate_packets: reader.u32()?,
            credit_bytes: reader.u32()?,
            losers: reader.u16()?,
        };
        if ack.stable_upto > ack.cached_upto {
            return Err(DecodeError::BadValue);
        }
        Ok(ack)
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::Ack, out);
        out.extend_from_slice(&self.stream.channel.0.to_le_bytes());
        put_origin(out, self.stream.origin);
        out.extend_from_slice(&self.region.0.to_le_bytes());
        out.extend_from_slice(&self.view.0.to_le_bytes());
        let numbers = [
            self.round,
            self.stable_upto,
            self.cached_upto,
            self.arrived_upto,
        ];
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.rate_packets.to_le_bytes());
        out.extend_from_slice(&self.credit_bytes.to_le_bytes());
        out.extend_from_slice(&self.losers.to_le_bytes());
    }

    /// Appends the packet and how far each partition has got, if that is said (R094).
    pub fn encode_with(&self, header: &Header, marks: &[u64], out: &mut Vec<u8>) {
        self.encode(header, out);
        if !marks.is_empty() {
            Marks::encode(marks, out);
        }
    }
}

/// One stream's line of a [`Summary`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummarySlot {
    /// The sender.
    pub origin: Origin,
    /// What may be counted as missing in the next round.
    pub cutoff: u64,
    /// All live members have everything up to here: purge.
    pub stable_upto: u64,
    /// All live cachers have their part up to here.
    pub cached_upto: u64,
}

impl SummarySlot {
    const BYTES: usize = 36;

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            origin: reader.origin()?,
            cutoff: reader.u64()?,
            stable_upto: reader.u64()?,
            cached_upto: reader.u64()?,
        })
    }
}

/// The result of a token round, multicast by the region leader so that nobody has to wait for
/// the next token (algorithms (b)). Losing one is harmless. The leader is the packet's origin.
#[derive(Debug, Clone, Copy)]
pub struct Summary<'a> {
    /// The region.
    pub region: RegionId,
    /// The view the round ran in.
    pub view: ViewNumber,
    /// The round that ended.
    pub round: u64,
    slots: &'a [u8],
}

impl<'a> Summary<'a> {
    /// Most slots of one packet; more streams mean more packets.
    pub const SLOTS_MAX: usize = 36;
    /// Region, view, round, count.
    const FIXED_BYTES: usize = 4 + 4 + 8 + 1;

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let region = RegionId(reader.u32()?);
        let view = ViewNumber(reader.u32()?);
        let round = reader.u64()?;
        let count = usize::from(reader.u8()?);
        if count > Self::SLOTS_MAX {
            return Err(DecodeError::BadLength);
        }
        Ok(Self {
            region,
            view,
            round,
            slots: reader.bytes(count * SummarySlot::BYTES)?,
        })
    }

    /// How many slots, at least one, fit into so many bytes.
    #[must_use]
    pub fn slots_within(bytes: usize) -> usize {
        let room = bytes.saturating_sub(crate::HEADER_BYTES + Self::FIXED_BYTES);
        (room / SummarySlot::BYTES).clamp(1, Self::SLOTS_MAX)
    }

    /// The streams.
    pub fn slots(&self) -> impl Iterator<Item = SummarySlot> + use<'a> {
        let mut reader = Reader::new(self.slots);
        core::iter::from_fn(move || SummarySlot::read(&mut reader).ok())
    }

    /// Appends the packet; slots beyond the limit are left out.
    pub fn encode(
        header: &Header,
        region: RegionId,
        view: ViewNumber,
        round: u64,
        slots: impl Iterator<Item = SummarySlot>,
        out: &mut Vec<u8>,
    ) {
        header.encode(Kind::Summary, out);
        out.extend_from_slice(&region.0.to_le_bytes());
        out.extend_from_slice(&view.0.to_le_bytes());
        out.extend_from_slice(&round.to_le_bytes());
        let count_at = out.len();
        out.push(0);
        for slot in slots.take(Self::SLOTS_MAX) {
            put_origin(out, slot.origin);
            for number in [slot.cutoff, slot.stable_upto, slot.cached_upto] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out[count_at] += 1;
        }
    }
}

/// Where a membership service is. Multicast by the service, and sent in answer to a solicitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beacon {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it listens on a second network, if it is on two.
    pub second: Option<SocketAddr>,
    /// Counts the lives of the cluster's membership service; the higher one is right.
    pub term: u64,
    /// Whether it serves on its own (`qsm gms`) or only because no other was found. One that is
    /// embedded yields to one that is not, and among equals the lower node id stays.
    pub embedded: bool,
}

impl Beacon {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let address = reader.address()?;
        let term = reader.u64()?;
        let embedded = flag(reader.u8()?)?;
        let second = match flag(reader.u8()?)? {
            true => Some(reader.address()?),
            false => None,
        };
        Ok(Self {
            address,
            second,
            term,
            embedded,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::Beacon, out);
        put_address(out, self.address);
        out.extend_from_slice(&self.term.to_le_bytes());
        out.push(u8::from(self.embedded));
        out.push(u8::from(self.second.is_some()));
        if let Some(second) = self.second {
            put_address(out, second);
        }
    }
}

/// The membership service's question to a suspect, and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Whom it is about: a node in another incarnation does not answer.
    pub subject: Origin,
    /// Ties the answer to the question.
    pub nonce: u64,
}

impl Probe {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            subject: reader.origin()?,
            nonce: reader.u64()?,
        })
    }

    /// Appends the packet as [`Kind::Probe`] or [`Kind::ProbeReply`].
    pub fn encode(&self, header: &Header, kind: Kind, out: &mut Vec<u8>) {
        header.encode(kind, out);
        put_origin(out, self.subject);
        out.extend_from_slice(&self.nonce.to_le_bytes());
    }
}
