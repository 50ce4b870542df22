//! Formats of the packets between a source, its relays and its receivers (PROTOCOL.md, section 10).

use qsm_wire::{DecodeError, SeqRange, mix};

use crate::parity::Parity;

/// First byte of each packet: the version of these formats, told apart from that of nodes' packets
/// by its highest bit and from QUIC's by the one below, which is not set.
pub const VERSION: u8 = 0x87;
/// Bytes that all packets begin with.
pub const HEADER_BYTES: usize = 20;
/// Bytes in front of the payload of a Data or Repair.
pub const DATA_HEADER_BYTES: usize = HEADER_BYTES + 16;
/// Most packets between the last one that is released and the newest one.
pub const WINDOW_MAX: u64 = 65_536;
/// Most ranges in one NACK.
pub const RANGES_MAX: usize = 8;
/// Most packets that one NACK may ask for.
pub const NACK_MAX: u64 = 256;
/// Most relays between a receiver and its source.
pub const LEVELS_MAX: usize = 16;
/// Place of the checksum.
pub(crate) const CHECK_AT: usize = 4;
pub(crate) const CHECK_END: usize = 8;

/// Key of all state: the session's source and its multicast address (S1, 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// The source's number.
    pub source: u64,
    /// The multicast address, or what stands for it.
    pub group: u32,
}

/// Service that a packet is for: what S1's SVC field says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A packet of the source.
    Data = 1,
    /// A packet that is sent again.
    Repair = 2,
    /// Packets that are missing; from a parent: packets that a child is to repair.
    Nack = 3,
    /// Progress of a child.
    Ack = 4,
    /// Somebody wants to be a child.
    Join = 5,
    /// It is one.
    Joined = 6,
    /// It is none any more.
    Leave = 7,
    /// Progress of the stream, when the source is silent.
    Heartbeat = 8,
    /// The rate that the slowest receiver at or below a child can take.
    Feedback = 9,
    /// Answer to a Feedback, by which round trips are measured.
    Echo = 10,
    /// Sum of packets that a parent has sent, by which lost ones are restored.
    Parity = 11,
    /// Packets that have not come as Data, and are here.
    Lost = 12,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Data,
        Self::Repair,
        Self::Nack,
        Self::Ack,
        Self::Join,
        Self::Joined,
        Self::Leave,
        Self::Heartbeat,
        Self::Feedback,
        Self::Echo,
        Self::Parity,
        Self::Lost,
    ];

    fn of(byte: u8) -> Result<Self, DecodeError> {
        let found = Self::ALL.get(usize::from(byte).wrapping_sub(1));
        found.copied().ok_or(DecodeError::UnknownKind)
    }
}

/// A packet of a source, first or again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    /// Its number, from 1.
    pub sequence: u64,
    /// All receivers have everything up to here, and nobody keeps it any more.
    pub released: u64,
    /// Bytes of the source's application.
    pub payload: &'a [u8],
}

/// Word of a child on itself and what is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Number that the child has drawn for itself: its address may change on its way. 0 from a parent.
    pub child: u64,
    /// First packet that it wants; it has none before that.
    pub first: u64,
    /// It, and everybody below it, has everything from `first` up to here.
    pub upto: u64,
    /// Receivers at and below it.
    pub receivers: u32,
}

impl Report {
    /// The report of who has nothing to say.
    pub const NONE: Self = Self {
        child: 0,
        first: 1,
        upto: 0,
        receivers: 0,
    };

    /// The report of a child that has nothing to say but that it lives.
    #[must_use]
    pub fn none_of(child: u64) -> Self {
        Self {
            child,
            ..Self::NONE
        }
    }
}

/// Numbers of missing packets, ascending.
#[derive(Debug, Clone, Copy)]
pub struct Missing {
    ranges: [SeqRange; RANGES_MAX],
    count: usize,
}

impl Missing {
    /// One number.
    #[must_use]
    pub fn one(sequence: u64) -> Self {
        Self {
            ranges: [SeqRange::one(sequence); RANGES_MAX],
            count: 1,
        }
    }

    /// Adds a number behind all others; false if it is not behind them, or there is no room.
    pub fn push(&mut self, sequence: u64) -> bool {
        let Some(last) = self.ranges[..self.count].last().copied() else {
            return false;
        };
        if sequence <= last.last() || self.packets() >= NACK_MAX {
            return false;
        }
        if sequence == last.last() + 1 {
            let grown = SeqRange::new(last.first(), sequence);
            self.ranges[self.count - 1] = grown.unwrap_or(last);
            return true;
        }
        let room = self.count < RANGES_MAX;
        if room {
            self.ranges[self.count] = SeqRange::one(sequence);
            self.count += 1;
        }
        room
    }

    /// The ranges, ascending, one at least.
    #[must_use]
    pub fn ranges(&self) -> &[SeqRange] {
        &self.ranges[..self.count]
    }

    /// The numbers, at most [`NACK_MAX`].
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<> {
        let this = *self;
        (0..this.count).flat_map(move |at| this.ranges[at].first()..=this.ranges[at].last())
    }

    fn packets(&self) -> u64 {
        let counts = self.ranges().iter().map(|range| u64::from(range.count()));
        counts.sum()
    }
}

impl PartialEq for Missing {
    fn eq(&self, other: &Self) -> bool {
        self.ranges() == other.ranges()
    }
}

impl Eq for Missing {}

/// A NACK, with the ACK that it carries (S1, 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nack {
    /// Progress of its maker; [`Report::NONE`] from a parent.
    pub report: Report,
    /// Packets that it misses, or is to repair.
    pub missing: Missing,
}

/// A Join: who wants to be a child, and by which relays that has come about.
#[derive(Debug, Clone, Copy)]
pub struct Join {
    /// Number of the child, as in a [`Report`].
    pub child: u64,
    path: [u64; LEVELS_MAX],
    levels: usize,
}

impl Join {
    /// Of a receiver.
    #[must_use]
    pub fn new(child: u64) -> Self {
        Self {
            child,
            path: [0; LEVELS_MAX],
            levels: 0,
        }
    }

    /// Of a relay that joins because this child of it does; `None` if there are too many levels.
    #[must_use]
    pub fn by(&self, relay: u64) -> Option<Self> {
        let mut join = *self;
        *join.path.get_mut(join.levels)? = self.child;
        join.levels += 1;
        join.child = relay;
        Some(join)
    }

    /// Who has joined for this Join to be made, the one that began first.
    #[must_use]
    pub fn path(&self) -> &[u64] {
        &self.path[..self.levels]
    }
}

impl PartialEq for Join {
    fn eq(&self, other: &Self) -> bool {
        (self.child, self.path()) == (other.child, other.path())
    }
}

impl Eq for Join {}

/// Answer to a Join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joined {
    /// First packet that the child is owed.
    pub first: u64,
    /// Newest packet that the parent knows of.
    pub highest: u64,
    /// The child was one before, and has reported.
    pub known: bool,
    /// The source adapts its rate, and wants Feedback.
    pub rated: bool,
    /// This parent sends parity where packets are lost, and wants to hear of them.
    pub parity: bool,
}

/// Progress of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Number of the newest packet, 0 before the first.
    pub highest: u64,
    /// As in [`Data`].
    pub released: u64,
    /// Nothing follows.
    pub finished: bool,
}

/// Word of a child on what comes to the slowest receiver at or below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feedback {
    /// Number of the child, as in a [`Report`].
    pub child: u64,
    /// The child's time, which an [`Echo`] gives back.
    pub sent: u64,
    /// Round trip between the child and this parent as it has measured it, microseconds; 0: not yet.
    pub hop_us: u32,
    /// The slowest receiver, if one has measured anything.
    pub limit: Limit,
}

/// Measure of one receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// Number of the receiver, as in a [`Report`].
    pub receiver: u64,
    /// Highest rate of its last ten round trips, bytes a second with the headers of IP and UDP; 0: it has not
    /// measured anything.
    pub rate: u64,
    /// Rate of its newest sample, a round trip or more.
    pub received: u64,
    /// Newest packet that has come.
    pub highest: u64,
    /// Packets by which the last one of the sample is behind that.
    pub behind: u32,
    /// Packets of the sample, those that are lost among them.
    pub packets: u32,
    /// Of these, packets that have not come.
    pub lost: u32,
    /// Its round trip to the source, microseconds.
    pub round_trip_us: u32,
    /// The shortest one lately, microseconds: without a queue.
    pub least_us: u32,
    /// Data and Repairs that came to it as [`Codepoint::Capable`](crate::Codepoint) or with a mark, counted modulo 2³².
    pub capable: u32,
    /// Of these, packets with a mark.
    pub marked: u32,
}

/// Answer of a parent to a [`Feedback`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// The child's time, as it was in the Feedback.
    pub sent: u64,
    /// Round trip between the parent and the source, microseconds; 0 at the source, and
    /// [`Echo::UNKNOWN`] where it is not known yet.
    pub above_us: u32,
    /// The shortest one lately, likewise.
    pub above_least_us: u32,
    /// Receiver that limits the source.
    pub limiting: u64,
    /// The rate that it has told, bytes a second.
    pub rate: u64,
}

impl Echo {
    /// A round trip that is not known.
    pub const UNKNOWN: u32 = u32::MAX;
}

/// Content of a packet by its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// [`Kind::Data`]
    Data(Data<'a>),
    /// [`Kind::Repair`]
    Repair(Data<'a>),
    /// [`Kind::Nack`]
    Nack(Nack),
    /// [`Kind::Ack`]
    Ack(Report),
    /// [`Kind::Join`]
    Join(Join),
    /// [`Kind::Joined`]
    Joined(Joined),
    /// [`Kind::Leave`], with the number of the child
    Leave(u64),
    /// [`Kind::Heartbeat`]
    Heartbeat(Heartbeat),
    /// [`Kind::Feedback`]
    Feedback(Feedback),
    /// [`Kind::Echo`]
    Echo(Echo),
    /// [`Kind::Parity`]
    Parity(Parity<'a>),
    /// [`Kind::Lost`]
    Lost(Nack),
}

impl Body<'_> {
    /// The kind of packet that this is the content of.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Data(_) => Kind::Data,
            Self::Repair(_) => Kind::Repair,
            Self::Nack(_) => Kind::Nack,
            Self::Ack(_) => Kind::Ack,
            Self::Join(_) => Kind::Join,
            Self::Joined(_) => Kind::Joined,
            Self::Leave(_) => Kind::Leave,
            Self::Heartbeat(_) => Kind::Heartbeat,
            Self::Feedback(_) => Kind::Feedback,
            Self::Echo(_) => Kind::Echo,
            Self::Parity(_) => Kind::Parity,
            Self::Lost(_) => Kind::Lost,
        }
    }
}

impl Body<'_> {
    /// Tells whether sources send it at their rate: then a queue may mark it. Rule R-RELAY-80.
    pub(crate) fn is_paced(&self) -> bool {
        matches!(self, Self::Data(_) | Self::Repair(_))
    }

    /// Number of the child that has sent this as a child, if the packet says it.
    pub(crate) fn child(&self) -> Option<u64> {
        match self {
            Self::Join(join) => Some(join.child),
            Self::Leave(child) => Some(*child),
            Self::Feedback(feedback) => Some(feedback.child),
            body => body.reporter(),
        }
    }

    /// Number of the child whose report this is.
    pub(crate) fn reporter(&self) -> Option<u64> {
        // A NACK of a parent has none.
        match self {
            Self::Ack(report) => Some(report.child),
            Self::Nack(nack) | Self::Lost(nack) if nack.report.child > 0 => Some(nack.report.child),
            _ => None,
        }
    }
}

/// A checked packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Session that it belongs to.
    pub session: SessionId,
    /// Its content.
    pub body: Body<'a>,
}

impl<'a> Packet<'a> {
    /// Checks all of a datagram but its payload, once. Rule R-RELAY-1.
    ///
    /// # Errors
    /// The first reason found why it is none of these packets.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields(bytes);
        if fields.u8()? != VERSION {
            return Err(DecodeError::UnknownVersion);
        }
        let kind = Kind::of(fields.u8()?)?;
        let reserved = u16::from_le_bytes(fields.array()?);
        let check = fields.u32()?;
        let session = SessionId {
            source: fields.u64()?,
            group: fields.u32()?,
        };
        if reserved != 0 {
            return Err(DecodeError::BadValue);
        }
        if check != checksum(kind, bytes) {
            return Err(DecodeError::Damaged);
        }
        let body = fields.body(kind)?;
        Ok(Self { session, body })
    }

    /// Writes the packet, and nothing else, into `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = self.body.kind();
        out.clear();
        out.extend_from_slice(&[VERSION, kind as u8, 0, 0, 0, 0, 0, 0]);
        put(out, self.session.source);
        out.extend_from_slice(&self.session.group.to_le_bytes());
        self.body.encode(out);
        let check = checksum(kind, out);
        out[CHECK_AT..CHECK_END].copy_from_slice(&check.to_le_bytes());
    }
}

impl Body<'_> {
    /// Writes what follows the header.
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Data(data) | Self::Repair(data) => {
                put(out, data.sequence);
                put(out, data.released);
                out.extend_from_slice(data.payload);
            }
            Self::Nack(nack) | Self::Lost(nack) => {
                put_report(out, &nack.report);
                let ranges = nack.missing.ranges();
                put_count(out, ranges.len());
                for range in ranges {
                    put(out, range.first());
                    put_short(out, range.count());
                }
            }
            Self::Ack(report) => put_report(out, report),
            Self::Join(join) => {
                put(out, join.child);
                put_count(out, join.levels);
                join.path().iter().for_each(|relay| put(out, *relay));
            }
            Self::Leave(child) => put(out, *child),
            Self::Joined(joined) => {
                put(out, joined.first);
                put(out, joined.highest);
                let flags = u8::from(joined.known) | u8::from(joined.rated) << 1;
                out.push(flags | u8::from(joined.parity) << 2);
            }
            Self::Heartbeat(heartbeat) => {
                put(out, heartbeat.highest);
                put(out, heartbeat.released);
                out.push(u8::from(heartbeat.finished));
            }
            Self::Feedback(feedback) => {
                put(out, feedback.child);
                put(out, feedback.sent);
                put_short(out, feedback.hop_us);
                put_limit(out, &feedback.limit);
            }
            Self::Echo(echo) => {
                put(out, echo.sent);
                put_short(out, echo.above_us);
                put_short(out, echo.above_least_us);
                put(out, echo.limiting);
                put(out, echo.rate);
            }
            Self::Parity(parity) => parity.encode(out),
        }
    }
}

fn put(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_short(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.push(u8::try_from(count).unwrap_or(u8::MAX));
}

fn put_report(out: &mut Vec<u8>, report: &Report) {
    put(out, report.child);
    put(out, report.first);
    put(out, report.upto);
    put_short(out, report.receivers);
}

fn put_limit(out: &mut Vec<u8>, limit: &Limit) {
    put(out, limit.receiver);
    put(out, limit.rate);
    put(out, limit.received);
    put(out, limit.highest);
    put_short(out, limit.behind);
    put_short(out, limit.packets);
    put_short(out, limit.lost);
    put_short(out, limit.round_trip_us);
    put_short(out, limit.least_us);
    put_short(out, limit.capable);
    put_short(out, limit.marked);
}

/// The checksum of everything but itself and a payload, and of the length: its cost does not depend
/// on the payload (R178).
fn checksum(kind: Kind, bytes: &[u8]) -> u32 {
    let end = match kind {
        Kind::Data | Kind::Repair => DATA_HEADER_BYTES.min(bytes.len()),
        _ => bytes.len(),
    };
    let mut sum = mix(bytes.len() as u64 + 1);
    let mut add = |word: &[u8]| {
        let mut padded = [0; 8];
        padded[..word.len()].copy_from_slice(word);
        sum = mix(sum ^ u64::from_le_bytes(padded)).wrapping_add(1);
    };
    add(&bytes[..CHECK_AT.min(end)]);
    bytes
        .get(CHECK_END..end)
        .unwrap_or_default()
        .chunks(8)
        .for_each(&mut add);
    (sum >> 32) as u32
}

/// Takes fields off the front of a slice; every step is checked.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let split = self.0.split_first_chunk::<N>();
        let (head, tail) = split.ok_or(DecodeError::Truncated)?;
        self.0 = tail;
        Ok(*head)
    }

    #[inline]
    fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    #[inline]
    fn body(mut self, kind: Kind) -> Result<Body<'a>, DecodeError> {
        let body = match kind {
            Kind::Data => return self.data().map(Body::Data),
            Kind::Repair => return self.data().map(Body::Repair),
            Kind::Parity => return Parity::decode(self.0).map(Body::Parity),
            Kind::Nack => Body::Nack(self.nack()?),
            Kind::Ack => Body::Ack(self.report()?),
            Kind::Join => Body::Join(self.join()?),
            Kind::Joined => Body::Joined(self.joined()?),
            Kind::Leave => Body::Leave(self.u64()?),
            Kind::Heartbeat => Body::Heartbeat(self.heartbeat()?),
            Kind::Feedback => Body::Feedback(self.feedback()?),
            Kind::Echo => Body::Echo(self.echo()?),
            Kind::Lost => Body::Lost(self.nack()?),
        };
        if self.0.is_empty() {
            Ok(body)
        } else {
            Err(DecodeError::TrailingBytes)
        }
    }

    #[inline]
    fn data(mut self) -> Result<Data<'a>, DecodeError> {
        let (sequence, released) = (self.u64()?, self.u64()?);
        if sequence <= released {
            return Err(DecodeError::BadValue);
        }
        within(released, sequence)?;
        Ok(Data {
            sequence,
            released,
            payload: self.0,
        })
    }

    fn report(&mut self) -> Result<Report, DecodeError> {
        let report = Report {
            child: self.u64()?,
            first: self.u64()?,
            upto: self.u64()?,
            receivers: self.u32()?,
        };
        let legal = report.first >= 1 && report.upto >= report.first - 1;
        let legal = legal && report.upto < u64::MAX;
        legal.then_some(report).ok_or(DecodeError::BadValue)
    }

    fn nack(&mut self) -> Result<Nack, DecodeError> {
        let report = self.report()?;
        let count = usize::from(self.u8()?);
        if count == 0 || count > RANGES_MAX {
            return Err(DecodeError::BadLength);
        }
        let mut missing = Missing::one(1);
        missing.count = count;
        let mut floor = 0;
        for at in 0..count {
            let (first, count) = (self.u64()?, self.u32()?);
            let last = first.checked_add(u64::from(count)).map(|end| end - 1);
            let range = last.and_then(|last| SeqRange::new(first, last));
            let range = range.filter(|range| range.first() > floor);
            let range = range.ok_or(DecodeError::BadRange)?;
            floor = range.last();
            missing.ranges[at] = range;
        }
        if missing.packets() > NACK_MAX {
            return Err(DecodeError::BadLength);
        }
        Ok(Nack { report, missing })
    }

    fn joined(&mut self) -> Result<Joined, DecodeError> {
        let (first, highest) = (self.u64()?, self.u64()?);
        if first == 0 || highest < first - 1 {
            return Err(DecodeError::BadValue);
        }
        within(first - 1, highest)?;
        let flags = self.u8()?;
        if flags > 7 {
            return Err(DecodeError::BadValue);
        }
        Ok(Joined {
            first,
            highest,
            known: flags & 1 != 0,
            rated: flags & 2 != 0,
            parity: flags & 4 != 0,
        })
    }

    fn join(&mut self) -> Result<Join, DecodeError> {
        let mut join = Join::new(self.u64()?);
        join.levels = usize::from(self.u8()?);
        if join.levels > LEVELS_MAX {
            return Err(DecodeError::BadLength);
        }
        for at in 0..join.levels {
            join.path[at] = self.u64()?;
        }
        Ok(join)
    }

    fn feedback(&mut self) -> Result<Feedback, DecodeError> {
        Ok(Feedback {
            child: self.u64()?,
            sent: self.u64()?,
            hop_us: self.u32()?,
            limit: self.limit()?,
        })
    }

    fn limit(&mut self) -> Result<Limit, DecodeError> {
        Ok(Limit {
            receiver: self.u64()?,
            rate: self.u64()?,
            received: self.u64()?,
            highest: self.u64()?,
            behind: self.u32()?,
            packets: self.u32()?,
            lost: self.u32()?,
            round_trip_us: self.u32()?,
            least_us: self.u32()?,
            capable: self.u32()?,
            marked: self.u32()?,
        })
    }

    fn echo(&mut self) -> Result<Echo, DecodeError> {
        Ok(Echo {
            sent: self.u64()?,
            above_us: self.u32()?,
            above_least_us: self.u32()?,
            limiting: self.u64()?,
            rate: self.u64()?,
        })
    }

    fn heartbeat(&mut self) -> Result<Heartbeat, DecodeError> {
        let (highest, released) = (self.u64()?, self.u64()?);
        within(released, highest)?;
        Ok(Heartbeat {
            highest,
            released,
            finished: self.flag()?,
        })
    }

    fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::BadValue),
        }
    }
}

/// A number that is farther ahead than any window would make others wait for what never was.
fn within(released: u64, highest: u64) -> Result<(), DecodeError> {
    let ahead = highest.checked_sub(released);
    let fine = ahead.is_some_and(|ahead| ahead <= WINDOW_MAX) && highest < u64::MAX;
    fine.then_some(()).ok_or(DecodeError::BadValue)
}
