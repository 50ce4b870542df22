use crate::range::put_ranges;
pub(crate) use crate::raw::flag;
use crate::raw::{Reader, put_origin};
use crate::{
    ChannelId, DecodeError, Header, Kind, MemberIndex, Ranges, SeqRange, StreamId, ViewNumber,
};

/// The fixed part of a NAK or pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHead {
    /// The stream with the gap.
    pub stream: StreamId,
    /// The region view whose partitions `tried` and `requesters` refer to.
    pub view: ViewNumber,
    /// Bit r: the cacher of rank r in the packets' partition is known to miss all of them.
    pub tried: u32,
    /// Whether the maker of this request misses the packets too, or only passes the request on.
    pub for_itself: bool,
}

/// A request for repair: the body of a NAK (fast plane) and of a pull (token plane). All ranges
/// are cached by the same partition.
///
/// ```text
/// 24        28            40     44      48     49      50      51
/// +---------+-------------+------+-------+------+-------+-------+---+------------+--------
/// | channel | origin (12) | view | tried | self | nreq  | nrange| 0 | requesters | ranges
/// +---------+-------------+------+-------+------+-------+-------+---+------------+--------
/// ```
/// Requesters are member indexes (2 bytes each), ranges are first (8) and count (4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The fixed part.
    pub head: RequestHead,
    requesters: &'a [u8],
    /// The missing packets.
    pub ranges: Ranges<'a>,
}

impl<'a> Request<'a> {
    /// Most members a request may name besides its maker; with more, the repair is multicast.
    pub const REQUESTERS_MAX: usize = 8;

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let channel = ChannelId(reader.u32()?);
        let stream = StreamId {
            origin: reader.origin()?,
            channel,
        };
        let view = ViewNumber(reader.u32()?);
        let tried = reader.u32()?;
        let for_itself = flag(reader.u8()?)?;
        let requester_count = usize::from(reader.u8()?);
        let range_count = reader.u8()?;
        if requester_count > Self::REQUESTERS_MAX || range_count == 0 || reader.u8()? != 0 {
            return Err(DecodeError::BadLength);
        }
        let requesters = reader.bytes(requester_count * 2)?;
        let ranges = Ranges::read(reader, range_count)?;
        Ok(Self {
            head: RequestHead {
                stream,
                view,
                tried,
                for_itself,
            },
            requesters,
            ranges,
        })
    }

    /// The members that miss the packets, besides the maker.
    pub fn requesters(&self) -> impl Iterator<Item = MemberIndex> + use<'a> {
        let mut reader = Reader::new(self.requesters);
        core::iter::from_fn(move || reader.u16().ok().map(MemberIndex))
    }

    /// Appends a request of this kind ([`Kind::Nak`] or [`Kind::Pull`]). Requesters and ranges
    /// beyond the limits are left out.
    pub fn encode(
        header: &Header,
        kind: Kind,
        head: &RequestHead,
        requesters: &[MemberIndex],
        ranges: &[SeqRange],
        out: &mut Vec<u8>,
    ) {
        header.encode(kind, out);
        out.extend_from_slice(&head.stream.channel.0.to_le_bytes());
        put_origin(out, head.stream.origin);
        out.extend_from_slice(&head.view.0.to_le_bytes());
        out.extend_from_slice(&head.tried.to_le_bytes());
        let requesters = &requesters[..requesters.len().min(Self::REQUESTERS_MAX)];
        let ranges = &ranges[..ranges.len().min(Ranges::MAX)];
        out.extend_from_slice(&[
            u8::from(head.for_itself),
            u8::try_from(requesters.len()).unwrap_or(0),
            u8::try_from(ranges.len()).unwrap_or(0),
            0,
        ]);
        for requester in requesters {
            out.extend_from_slice(&requester.0.to_le_bytes());
        }
        put_ranges(out, ranges);
    }
}

/// The packets that nobody holds any more: their sender is dead and every live cacher has said
/// that it misses them. The receiver turns them into LOST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absent<'a> {
    /// The dead sender's stream.
    pub stream: StreamId,
    /// What is gone.
    pub ranges: Ranges<'a>,
}

impl<'a> Absent<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let channel = ChannelId(reader.u32()?);
        let stream = StreamId {
            origin: reader.origin()?,
            channel,
        };
        let count = reader.u8()?;
        Ok(Self {
            stream,
            ranges: Ranges::read(reader, count)?,
        })
    }

    /// Appends the packet. Ranges beyond [`Ranges::MAX`] are left out.
    pub fn encode(header: &Header, stream: StreamId, ranges: &[SeqRange], out: &mut Vec<u8>) {
        header.encode(Kind::Absent, out);
        out.extend_from_slice(&stream.channel.0.to_le_bytes());
        put_origin(out, stream.origin);
        let ranges = &ranges[..ranges.len().min(Ranges::MAX)];
        out.push(u8::try_from(ranges.len()).unwrap_or(0));
        put_ranges(out, ranges);
    }
}
