//! Account of one message: what a node knows of it now, out of the packets and gaps that it has anyway.
//!
//! Nothing is noted for each message, so a node cannot say when one came, and of one that it has delivered and does
//! not keep for others it knows no more than that its turn is past. A recording of the node has all of it.

use core::time::Duration;

use qsm_wire::{Body, ChannelId, Chunk, GroupId, Hop, Origin, Packet, Part, RegionId, ViewNumber};

use crate::Instant;
use crate::receive::{Gap, PacketStore, ReceiveStream};
use crate::region::Region;
use crate::send::SendStream;

/// Packets of a stream that are looked through on each side of the first that is missing.
pub const SEARCHED_MAX: u64 = 4096;
/// Gaps of a stream that are named.
pub const GAPS_MAX: usize = 8;

/// A message as a node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageAccount {
    /// Its group.
    pub group: GroupId,
    /// Its sender.
    pub sender: Origin,
    /// Its number among the sender's messages to the group.
    pub number: u64,
    /// Where it stands here.
    pub standing: Standing,
    /// The number of the sender's message that is delivered here next; `None`: none has come, or it is this node's.
    pub next: Option<u64>,
    /// The sender's streams in the regions of the group, of which one or more may carry it.
    pub streams: Vec<MessageStream>,
}

/// Place of a message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// This node has not published so many messages to the group.
    Unpublished,
    /// This node has published it, and has not sent all of it to all regions.
    Unsent,
    /// This node has sent it, and does not know yet that all live receivers have it.
    Unacknowledged,
    /// All live receivers of this node's message have it.
    Acknowledged,
    /// This node does not receive the group.
    NotReceived,
    /// Nothing of the sender to this group has come.
    Unheard,
    /// It was delivered, or the application was told that it is lost: its turn is past.
    Past,
    /// It is here, and waits for packets before it.
    Waits,
    /// A part of it is here.
    Partial,
    /// It is in no packet here, and packets are missing that may have it.
    Missing,
    /// It is in no packet here, and none is known to be missing: it has not been sent, as far as is known here. Of a
    /// message of this node: there are more packets than are looked through.
    Unknown,
}

/// A stream that may carry a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageStream {
    /// The region.
    pub region: RegionId,
    /// The region's channel.
    pub channel: ChannelId,
    /// Packets known to exist.
    pub highest: u64,
    /// All packets up to here have come, or are lost; of this node's own stream: were sent.
    pub contiguous: u64,
    /// All live members have packets up to here, as far as is known.
    pub stable_upto: u64,
    /// The packets here that have parts of it.
    pub parts: Option<Parts>,
    /// Packets were passed over in the search: there were more than [`SEARCHED_MAX`].
    pub cut_short: bool,
    /// The membership service has declared the sender dead.
    pub dead: bool,
    /// Missing packets, the oldest first, at most [`GAPS_MAX`].
    pub gaps: Vec<GapAccount>,
    /// Packets that are missing in all.
    pub missing: u64,
}

/// Packets with parts of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parts {
    /// The number of the first of them.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
    /// Number of them that are here.
    pub packets: u64,
    /// The view that the first was sent in.
    pub view: ViewNumber,
    /// How the first came.
    pub hop: Hop,
    /// The message begins in one of them, ends in one, and all in between are here.
    pub complete: bool,
}

/// Packets that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GapAccount {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// Time since they were found missing.
    pub age: Duration,
    /// Requests made.
    pub requests: u8,
    /// Whom the last request went to; `None` with requests: the sender.
    pub asked: Option<Origin>,
    /// They wait until fewer packets are asked for at a time (R-NAK-10).
    pub put_off: bool,
}

impl MessageStream {
    /// The sender's stream as received in a region.
    pub(crate) fn received(
        region: &Region,
        stream: &ReceiveStream,
        wanted: Wanted,
        store: &PacketStore,
        now: Instant,
    ) -> Self {
        let (contiguous, highest) = (stream.contiguous(), stream.highest());
        let mut search = Search::new(wanted);
        search.look(contiguous, highest, |sequence| {
            stream.packet(sequence, store)
        });
        let gaps = stream.gaps();
        Self {
            region: region.id(),
            channel: stream.id().channel,
            highest,
            contiguous,
            stable_upto: region.stable_upto(stream.id().origin),
            parts: search.parts(),
            cut_short: search.cut_short,
            dead: stream.sender_dead(),
            gaps: gaps
                .iter()
                .take(GAPS_MAX)
                .map(|gap| GapAccount::new(region, stream, gap, now))
                .collect(),
            missing: gaps.iter().map(|gap| gap.last - gap.first + 1).sum(),
        }
    }

    /// This node's own stream in a region.
    pub(crate) fn sent(region: &Region, stream: &SendStream, wanted: Wanted) -> Self {
        let (stable_upto, highest) = (stream.stable_upto(), stream.highest());
        let mut search = Search::new(wanted);
        search.look(stable_upto, stream.assembled_upto(), |sequence| {
            stream.assembled(sequence)
        });
        Self {
            region: region.id(),
            channel: stream.id().channel,
            highest,
            contiguous: highest,
            stable_upto,
            parts: search.parts(),
            cut_short: search.cut_short,
            dead: false,
            gaps: Vec::new(),
            missing: 0,
        }
    }

    fn whole(&self) -> bool {
        self.parts.is_some_and(|parts| parts.complete)
    }
}

impl Standing {
    /// Of a message of another node. `next`: the number that is delivered next.
    pub(crate) fn received(number: u64, next: Option<u64>, streams: &[MessageStream]) -> Self {
        match next {
            Some(next) if number < next => Self::Past,
            _ if streams.iter().any(MessageStream::whole) => Self::Waits,
            _ if streams.iter().any(|stream| stream.parts.is_some()) => Self::Partial,
            _ if streams.iter().any(|stream| stream.missing > 0) => Self::Missing,
            None => Self::Unheard,
            Some(_) => Self::Unknown,
        }
    }

    /// Of one of this node's own messages, all of which were put into packets when they were published.
    pub(crate) fn sent(number: u64, published: u64, streams: &[MessageStream]) -> Self {
        if number == 0 || number > published {
            return Self::Unpublished;
        }
        let mut standing = Self::Acknowledged;
        for stream in streams {
            match stream.parts {
                Some(parts) if parts.last > stream.highest => return Self::Unsent,
                Some(parts) if parts.last > stream.stable_upto => standing = Self::Unacknowledged,
                None if stream.cut_short => return Self::Unknown,
                // It is not kept any more: all have it.
                _ => {}
            }
        }
        standing
    }
}

impl GapAccount {
    fn new(region: &Region, stream: &ReceiveStream, gap: &Gap, now: Instant) -> Self {
        let history = region.history();
        let view = history.exact(stream.view_of(gap.first, history));
        let member = |at| Some(view?.member(at)?.origin);
        Self {
            first: gap.first,
            last: gap.last,
            age: now.since(gap.found),
            requests: gap.attempts,
            asked: gap.asked_of.and_then(member),
            put_off: gap.put_off.is_some(),
        }
    }
}

/// A message that is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) group: GroupId,
    pub(crate) number: u64,
}

/// A search through the packets of a stream.
struct Search {
    wanted: Wanted,
    found: Option<Parts>,
    begins: bool,
    ends: bool,
    cut_short: bool,
}

impl Search {
    fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            found: None,
            begins: false,
            ends: false,
            cut_short: false,
        }
    }

    /// Looks first at what is above this number, and then, if that has nothing, at what is kept below.
    fn look<'p>(&mut self, above: u64, highest: u64, packet: impl Fn(u64) -> Option<&'p [u8]>) {
        let top = highest.min(above.saturating_add(SEARCHED_MAX));
        // A message may begin below.
        let bottom = above.saturating_sub(SEARCHED_MAX);
        self.cut_short = top < highest;
        for sequence in above + 1..=top {
            self.look_at(sequence, packet(sequence));
        }
        for sequence in (bottom + 1..=above).rev() {
            self.look_at(sequence, packet(sequence));
        }
    }

    fn look_at(&mut self, sequence: u64, packet: Option<&[u8]>) {
        let Some(packet) = packet.and_then(|bytes| Packet::decode(bytes).ok()) else {
            return;
        };
        let Body::Data(data) = packet.body else {
            return;
        };
        let low = Chunk::low(self.wanted.number);
        let mut of_it = data
            .chunks()
            .filter(|chunk| (chunk.group, chunk.message) == (self.wanted.group, low));
        let Some(chunk) = of_it.next() else {
            return;
        };
        self.begins |= matches!(chunk.part, Part::Whole | Part::First { .. });
        self.ends |= matches!(chunk.part, Part::Whole | Part::Last);
        let parts = self.found.get_or_insert(Parts {
            first: sequence,
            last: sequence,
            packets: 0,
            view: data.head.view,
            hop: packet.header.hop,
            complete: false,
        });
        parts.packets += 1;
        parts.last = parts.last.max(sequence);
        if sequence < parts.first {
            parts.first = sequence;
            parts.view = data.head.view;
            parts.hop = packet.header.hop;
        }
    }

    /// Findings. A message's parts are in packets that follow each other.
    fn parts(&self) -> Option<Parts> {
        let parts = self.found?;
        let all = parts.packets == parts.last - parts.first + 1;
        Some(Parts {
            complete: self.begins && self.ends && all,
            ..parts
        })
    }
}
