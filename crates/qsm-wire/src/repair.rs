use crate::range::put_ranges;
pub(crate) use crate::raw::flag;
use crate::raw::{Reader, put_origin};
use crate::{
    ChannelId, DATA_HEADER_BYTES, DecodeError, GroupId, HEADER_BYTES, Header, Kind, MemberIndex,
    Ranges, SeqRange, StreamId, ViewNumber,
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
    /// Tells that the maker has kept what has come to it of the packets' blocks: with so many parities
    /// as it misses packets of a block it restores them.
    pub takes_parity: bool,
}

/// A request for repair: the body of a NAK (fast plane) and of a pull (token plane). All ranges
/// are cached by the same partition.
///
/// ```text
/// 24        28            40     44      48     49      50      51       52
/// +---------+-------------+------+-------+------+-------+-------+--------+------------+--------
/// | channel | origin (12) | view | tried | self | nreq  | nrange| parity | requesters | ranges
/// +---------+-------------+------+-------+------+-------+-------+--------+------------+--------
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
        if requester_count > Self::REQUESTERS_MAX || range_count == 0 {
            return Err(DecodeError::BadLength);
        }
        let takes_parity = flag(reader.u8()?)?;
        let requesters = reader.bytes(requester_count * 2)?;
        let ranges = Ranges::read(reader, range_count)?;
        Ok(Self {
            head: RequestHead {
                stream,
                view,
                tried,
                for_itself,
                takes_parity,
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
            u8::from(head.takes_parity),
        ]);
        for requester in requesters {
            out.extend_from_slice(&requester.0.to_le_bytes());
        }
        put_ranges(out, ranges);
    }
}

/// Why packets are not sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AbsentCause {
    /// They are not held any more where this is said.
    #[default]
    Gone = 0,
    /// The lifetime of all messages in them is over (R-DATA-14).
    Expired = 1,
}

/// Packets that are not sent again: their speaker does not hold them any more, or their messages
/// have expired. The receiver turns them into LOST, if nobody else may have them.
///
/// ```text
/// 24        28            40      41      42
/// +---------+-------------+-------+-------+--------
/// | channel | origin (12) | cause | count | ranges
/// +---------+-------------+-------+-------+--------
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absent<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Why.
    pub cause: AbsentCause,
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
        let cause = match flag(reader.u8()?)? {
            false => AbsentCause::Gone,
            true => AbsentCause::Expired,
        };
        let count = reader.u8()?;
        Ok(Self {
            stream,
            cause,
            ranges: Ranges::read(reader, count)?,
        })
    }

    /// Appends the packet. Ranges beyond [`Ranges::MAX`] are left out.
    pub fn encode(
        header: &Header,
        stream: StreamId,
        cause: AbsentCause,
        ranges: &[SeqRange],
        out: &mut Vec<u8>,
    ) {
        header.encode(Kind::Absent, out);
        out.extend_from_slice(&stream.channel.0.to_le_bytes());
        put_origin(out, stream.origin);
        out.push(cause as u8);
        let ranges = &ranges[..ranges.len().min(Ranges::MAX)];
        out.push(u8::try_from(ranges.len()).unwrap_or(0));
        put_ranges(out, ranges);
    }
}

/// Asks a stream's sender for the numbers of the messages that it has put into the stream: from a
/// member that has passed over packets which exist nowhere any more. Answered by [`Numbers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumbersQuery {
    /// The stream.
    pub stream: StreamId,
    /// The view in which the asker joined: it is owed what was sent from there on.
    pub joined: ViewNumber,
    /// Last packet that the asker has passed over.
    pub position: u64,
    /// The first group that is asked about; answers of several packets go on from group to group.
    pub from: GroupId,
}

impl NumbersQuery {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream: read_stream(reader)?,
            joined: ViewNumber(reader.u32()?),
            position: reader.u64()?,
            from: GroupId(reader.u32()?),
        })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::NumbersQuery, out);
        put_stream(out, self.stream);
        out.extend_from_slice(&self.joined.0.to_le_bytes());
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&self.from.0.to_le_bytes());
    }
}

/// The messages of one group that a member is owed of the packets of a stream up to a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupNumbers {
    /// The group.
    pub group: GroupId,
    /// The first one; 0 if the sender does not know it any more.
    pub first: u64,
    /// The last one that ends in these packets.
    pub last: u64,
}

impl GroupNumbers {
    /// No number reaches this.
    const NUMBER_END: u64 = 1 << 63;

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            group: GroupId(reader.u32()?),
            first: reader.u64()?,
            last: reader.u64()?,
        })
    }

    fn is_legal(&self) -> bool {
        self.first <= self.last && self.last < Self::NUMBER_END
    }
}

/// The answer to a [`NumbersQuery`], or a part of it.
#[derive(Debug, Clone, Copy)]
pub struct Numbers<'a> {
    /// The query that is answered. Its position is the last packet that the numbers speak of, not
    /// below the one asked about.
    pub query: NumbersQuery,
    /// Where the next part begins; `None`: there is none. Groups before that are not named have no
    /// message that the asker is owed.
    pub next: Option<GroupId>,
    groups: &'a [u8],
}

impl<'a> Numbers<'a> {
    /// Most groups that a packet names.
    pub const GROUPS_MAX: usize = 255;
    /// Bytes of the packet without its groups.
    const HEAD_BYTES: usize = HEADER_BYTES + 37;
    const GROUP_BYTES: usize = 20;
    /// In place of the next group: there is none. It is no group's number (padding).
    const COMPLETE: u32 = u32::MAX;

    /// Number of groups that fit into so many bytes.
    #[must_use]
    pub fn groups_within(bytes: usize) -> usize {
        let room = bytes.saturating_sub(Self::HEAD_BYTES) / Self::GROUP_BYTES;
        room.clamp(1, Self::GROUPS_MAX)
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let query = NumbersQuery::read(reader)?;
        let next = GroupId(reader.u32()?);
        let count = usize::from(reader.u8()?);
        let groups = reader.bytes(count * Self::GROUP_BYTES)?;
        let numbers = Self {
            query,
            next: (next.0 != Self::COMPLETE).then_some(next),
            groups,
        };
        let mut from = query.from;
        for group in numbers.groups() {
            if !group.is_legal() || group.group < from || group.group >= next {
                return Err(DecodeError::BadValue);
            }
            from = GroupId(group.group.0 + 1);
        }
        if numbers.next.is_some_and(|next| next <= query.from) {
            return Err(DecodeError::BadValue);
        }
        Ok(numbers)
    }

    /// The groups, ascending.
    pub fn groups(&self) -> impl Iterator<Item = GroupNumbers> + use<'a> {
        let mut reader = Reader::new(self.groups);
        core::iter::from_fn(move || GroupNumbers::read(&mut reader).ok())
    }

    /// Appends the packet; groups beyond the limit are left out.
    pub fn encode(
        header: &Header,
        query: &NumbersQuery,
        next: Option<GroupId>,
        groups: &[GroupNumbers],
        out: &mut Vec<u8>,
    ) {
        let head = out.len();
        query.encode(header, out);
        if let Some(kind) = out.get_mut(head + 1) {
            *kind = Kind::Numbers as u8;
        }
        let next = next.map_or(Self::COMPLETE, |next| next.0);
        out.extend_from_slice(&next.to_le_bytes());
        let groups = groups.get(..Self::GROUPS_MAX).unwrap_or(groups);
        out.push(u8::try_from(groups.len()).unwrap_or(u8::MAX));
        for group in groups {
            out.extend_from_slice(&group.group.0.to_le_bytes());
            out.extend_from_slice(&group.first.to_le_bytes());
            out.extend_from_slice(&group.last.to_le_bytes());
        }
    }
}

fn read_stream(reader: &mut Reader<'_>) -> Result<StreamId, DecodeError> {
    let channel = ChannelId(reader.u32()?);
    Ok(StreamId {
        origin: reader.origin()?,
        channel,
    })
}

fn put_stream(out: &mut Vec<u8>, stream: StreamId) {
    out.extend_from_slice(&stream.channel.0.to_le_bytes());
    put_origin(out, stream.origin);
}

/// Bytes of a shard before its chunks: a length and a checksum.
pub(crate) const SHARD_HEAD_BYTES: usize = 6;

/// A parity of a block of data packets: with as many of them as packets are lost, and the rest of
/// the block, a receiver restores the block.
///
/// ```text
/// 24        28           40      48      49    50
/// +---------+------------+-------+-------+-----+-----------
/// | channel | origin     | first | count | row | sum ...
/// +---------+------------+-------+-------+-----+-----------
/// ```
/// The packets are `first` and those after it, `count` of them. The sum is of their [`Shard`](crate::Shard)s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parity<'a> {
    /// The stream of the packets.
    pub stream: StreamId,
    /// The first packet of the block, at least 1 and below 2⁶³.
    pub first: u64,
    /// Packets of the block, 1 to [`Parity::PACKETS_MAX`].
    pub count: u8,
    /// Number of this parity among those of the block, below [`Parity::ROWS_MAX`].
    pub row: u8,
    /// The sum: as long as the longest shard, so at least [`Shard::HEAD_BYTES`](crate::Shard::HEAD_BYTES).
    pub sum: &'a [u8],
}

impl<'a> Parity<'a> {
    /// Most packets of a block.
    pub const PACKETS_MAX: u8 = 16;
    /// Most parities of a block.
    pub const ROWS_MAX: u8 = 8;
    /// Bytes of a parity by which it is longer than the longest packet of its block.
    pub const OVERHEAD_BYTES: usize = Self::HEAD_BYTES + SHARD_HEAD_BYTES - DATA_HEADER_BYTES;
    /// No block begins here or above.
    const FIRST_END: u64 = 1 << 63;
    /// Bytes before the sum.
    const HEAD_BYTES: usize = 50;

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let channel = ChannelId(reader.u32()?);
        let stream = StreamId {
            origin: reader.origin()?,
            channel,
        };
        let (first, count, row) = (reader.u64()?, reader.u8()?, reader.u8()?);
        let numbers = (1..Self::FIRST_END).contains(&first);
        let counts = (1..=Self::PACKETS_MAX).contains(&count) && row < Self::ROWS_MAX;
        if !numbers || !counts {
            return Err(DecodeError::BadValue);
        }
        let sum = reader.bytes(reader.rest().len())?;
        if sum.len() < SHARD_HEAD_BYTES {
            return Err(DecodeError::Truncated);
        }
        Ok(Self {
            stream,
            first,
            count,
            row,
            sum,
        })
    }

    /// Appends the packet up to its sum, which the caller appends.
    pub fn encode_head(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::Parity, out);
        out.extend_from_slice(&self.stream.channel.0.to_le_bytes());
        put_origin(out, self.stream.origin);
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&[self.count, self.row]);
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        self.encode_head(header, out);
        out.extend_from_slice(self.sum);
    }

    /// Number of the last packet of the block.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.first + u64::from(self.count) - 1
    }
}
