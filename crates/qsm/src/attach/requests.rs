//! What an attached process and the engine say to each other over their socket: everything but
//! messages of groups. Each is one packet; numbers are little-endian, texts follow their length.
//!
//! ```text
//!   process                              engine
//!   Hello ─────────────────────────────► is the version the same, is there room?
//!         ◄───────────────────────────── Welcome, with the ring's memory and the doorbell
//!   Names… Subscribe ──────────────────►
//!         ◄───────────────────────────── Subscribed, with the memory of its rings
//!   Names… Publish, Members, … ────────►
//!         ◄───────────────────────────── Done, Members, … or Failed, in any order
//!         ◄───────────────────────────── Event, at any time
//!         ◄───────────────────────────── Closed, the last one
//! ```
//!
//! The decoders take any bytes, and return `None` for what is not a message.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use qsm_proto::{Deafness, UnconfirmedCause};
use qsm_wire::membership::QueryKind;
use qsm_wire::{Incarnation, NodeId, Origin, RegionId};

use super::rows;
use crate::error::{Outstanding, RequestError, Unconfirmed, Unserved};
use crate::event::Event;
use crate::handoff::message::Overflow;

/// Version of the handshake, the requests and the rings. Both sides must have the same.
pub(super) const VERSION: u32 = 4;
/// Longest packet. A socket takes at least four of them.
pub(super) const PACKET_BYTES_MAX: usize = 48 << 10;
/// Bytes of names in one packet.
const NAMES_BYTES: usize = 32 << 10;
/// Longest text of an error.
const TEXT_BYTES_MAX: usize = 2000;
/// In the tag of a record: the publisher is given up.
pub(super) const RETIRE: u32 = 1 << 31;
/// Smallest ring, bytes.
pub(super) const RING_BYTES_MIN: usize = 4096;
/// Requests that an attached process makes at once; more of its threads wait for their turn.
pub(super) const REQUESTS_AT_ONCE: usize = 8;
/// Words of a record beside length and place of the group: group and incarnation, node, number.
pub(super) const EXTRA: usize = 3;
/// Every first packet begins so: `qsm` and what it is about.
const MAGIC: u64 = u64::from_le_bytes(*b"qsmattch");

/// From an attached process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    Hello {
        version: u32,
    },
    /// Groups for the next request.
    Names(Vec<Arc<str>>),
    /// Publishers for the names, in places from `slot` on.
    Publish {
        id: u32,
        slot: u32,
    },
    Subscribe {
        id: u32,
        /// 0: as the engine likes.
        ring_bytes: u64,
        overflow: Overflow,
    },
    Unsubscribe {
        key: u32,
    },
    /// Of everything before this position of the ring.
    Flush {
        id: u32,
        position: u64,
        timeout: Duration,
    },
    /// Waits until the group has so many members; with 0 it does not wait.
    Members {
        id: u32,
        slot: u32,
        count: u32,
        timeout: Duration,
    },
    Stats {
        id: u32,
    },
    /// A list of the cluster.
    Query {
        id: u32,
        kind: QueryKind,
    },
}

/// To an attached process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Welcome {
        version: u32,
        client: u32,
        node: NodeId,
        message_bytes_max: u64,
        /// Capacity of the ring to the engine, words.
        ring_words: u64,
    },
    Done {
        id: u32,
    },
    Subscribed {
        id: u32,
        key: u32,
        rings: u32,
        /// Capacity of each, words.
        ring_words: u64,
    },
    Members {
        id: u32,
        count: u32,
    },
    /// In the order of [`super::ClientRow`].
    Stats {
        id: u32,
        values: Vec<u64>,
    },
    /// With the memory that holds them.
    Rows {
        id: u32,
        /// Its capacity.
        words: u64,
    },
    Failed {
        id: u32,
        error: Failed,
    },
    Event(Event),
    Closed {
        cause: String,
    },
}

/// A [`RequestError`] as it travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failed {
    Closed {
        cause: String,
    },
    Refused {
        reason: String,
    },
    Timeout {
        after: Duration,
        outstanding: Option<Box<Outstanding>>,
    },
    /// As many ranges as a packet holds; how many more messages.
    Unconfirmed {
        ranges: Vec<Unconfirmed>,
        more: u64,
    },
}

/// Ranges in a packet: each has a name, at most 255 bytes long.
const RANGES_MAX: usize = 128;

impl From<RequestError> for Failed {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Closed(reason) => Self::Closed {
                cause: reason.to_string(),
            },
            RequestError::Timeout {
                after, outstanding, ..
            } => Self::Timeout { after, outstanding },
            RequestError::Refused { reason } => Self::Refused { reason },
            RequestError::OnCoreThread
            | RequestError::NotAttached { .. }
            | RequestError::Pattern { .. } => Self::Refused {
                reason: error.to_string(),
            },
            RequestError::Unconfirmed { mut ranges, more } => {
                let rest = ranges.split_off(ranges.len().min(RANGES_MAX));
                let rest: u64 = rest.iter().map(Unconfirmed::messages).sum();
                let more = more + rest;
                Self::Unconfirmed { ranges, more }
            }
        }
    }
}

/// Names in as many packets as they need.
pub(super) fn packets_of_names(names: &[Arc<str>]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut packet = Writer::new(NAMES);
    for name in names {
        if packet.0.len() + name.len() > NAMES_BYTES {
            packets.push(packet.0);
            packet = Writer::new(NAMES);
        }
        packet.text(name);
    }
    packets.push(packet.0);
    packets
}

const HELLO: u8 = 1;
const NAMES: u8 = 2;
const PUBLISH: u8 = 3;
const SUBSCRIBE: u8 = 4;
const UNSUBSCRIBE: u8 = 5;
const FLUSH: u8 = 6;
const MEMBERS: u8 = 7;
const STATS: u8 = 8;
const QUERY: u8 = 9;
const WELCOME: u8 = 65;
const DONE: u8 = 66;
const SUBSCRIBED: u8 = 67;
const COUNTED: u8 = 68;
const COUNTERS: u8 = 69;
const FAILED: u8 = 70;
const EVENT: u8 = 71;
const CLOSED: u8 = 72;
const ROWS: u8 = 73;

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello { version } => Writer::new(HELLO).u64(MAGIC).u32(*version).0,
            Self::Names(names) => {
                names
                    .iter()
                    .fold(Writer::new(NAMES), |mut packet, name| {
                        packet.text(name);
                        packet
                    })
                    .0
            }
            Self::Publish { id, slot } => Writer::new(PUBLISH).u32(*id).u32(*slot).0,
            Self::Subscribe {
                id,
                ring_bytes,
                overflow,
            } => {
                let packet = Writer::new(SUBSCRIBE).u32(*id).u64(*ring_bytes);
                packet.u32(overflow_code(*overflow)).0
            }
            Self::Unsubscribe { key } => Writer::new(UNSUBSCRIBE).u32(*key).0,
            Self::Flush {
                id,
                position,
                timeout,
            } => {
                let packet = Writer::new(FLUSH).u32(*id).u64(*position);
                packet.duration(*timeout).0
            }
            Self::Members {
                id,
                slot,
                count,
                timeout,
            } => {
                let packet = Writer::new(MEMBERS).u32(*id).u32(*slot).u32(*count);
                packet.duration(*timeout).0
            }
            Self::Stats { id } => Writer::new(STATS).u32(*id).0,
            Self::Query { id, kind } => Writer::new(QUERY).u32(*id).u32(rows::code(*kind)).0,
        }
    }

    pub(super) fn decode(packet: &[u8]) -> Option<Self> {
        let mut rest = Rest(packet);
        let request = match rest.u8()? {
            HELLO if rest.u64()? == MAGIC => Self::Hello {
                version: rest.u32()?,
            },
            NAMES => {
                let mut names = Vec::new();
                while !rest.0.is_empty() {
                    names.push(Arc::from(rest.text()?));
                }
                Self::Names(names)
            }
            PUBLISH => Self::Publish {
                id: rest.u32()?,
                slot: rest.u32()?,
            },
            SUBSCRIBE => Self::Subscribe {
                id: rest.u32()?,
                ring_bytes: rest.u64()?,
                overflow: overflow_of(rest.u32()?)?,
            },
            UNSUBSCRIBE => Self::Unsubscribe { key: rest.u32()? },
            FLUSH => Self::Flush {
                id: rest.u32()?,
                position: rest.u64()?,
                timeout: rest.duration()?,
            },
            MEMBERS => Self::Members {
                id: rest.u32()?,
                slot: rest.u32()?,
                count: rest.u32()?,
                timeout: rest.duration()?,
            },
            STATS => Self::Stats { id: rest.u32()? },
            QUERY => Self::Query {
                id: rest.u32()?,
                kind: rows::kind(rest.u32()?)?,
            },
            _ => return None,
        };
        rest.0.is_empty().then_some(request)
    }
}

impl Reply {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Welcome {
                version,
                client,
                node,
                message_bytes_max,
                ring_words,
            } => {
                // The version stays in this place for ever, so that others can be told.
                let packet = Writer::new(WELCOME).u32(*version).u32(*client).u64(node.0);
                packet.u64(*message_bytes_max).u64(*ring_words).0
            }
            Self::Done { id } => Writer::new(DONE).u32(*id).0,
            Self::Subscribed {
                id,
                key,
                rings,
                ring_words,
            } => {
                let packet = Writer::new(SUBSCRIBED).u32(*id).u32(*key);
                packet.u32(*rings).u64(*ring_words).0
            }
            Self::Members { id, count } => Writer::new(COUNTED).u32(*id).u32(*count).0,
            Self::Stats { id, values } => {
                values
                    .iter()
                    .fold(Writer::new(COUNTERS).u32(*id), |packet, value| {
                        packet.u64(*value)
                    })
                    .0
            }
            Self::Rows { id, words } => Writer::new(ROWS).u32(*id).u64(*words).0,
            Self::Failed { id, error } => {
                let packet = Writer::new(FAILED).u32(*id);
                match error {
                    Failed::Closed { cause } => packet.u32(0).cut(cause).0,
                    Failed::Refused { reason } => packet.u32(1).cut(reason).0,
                    Failed::Timeout { after, outstanding } => {
                        let packet = packet.u32(2).duration(*after);
                        match outstanding {
                            None => packet.u32(0).0,
                            Some(left) => packet.u32(1).outstanding(left).0,
                        }
                    }
                    Failed::Unconfirmed { ranges, more } => {
                        // No more than fit into a packet.
                        let count = u32::try_from(ranges.len()).unwrap_or(u32::MAX);
                        let packet = packet.u32(3).u64(*more).u32(count);
                        ranges.iter().fold(packet, Writer::unconfirmed).0
                    }
                }
            }
            Self::Event(event) => encode_event(event).0,
            Self::Closed { cause } => Writer::new(CLOSED).cut(cause).0,
        }
    }

    pub(super) fn decode(packet: &[u8]) -> Option<Self> {
        let mut rest = Rest(packet);
        let reply = match rest.u8()? {
            WELCOME => Self::Welcome {
                version: rest.u32()?,
                client: rest.u32()?,
                node: NodeId(rest.u64()?),
                message_bytes_max: rest.u64()?,
                ring_words: rest.u64()?,
            },
            DONE => Self::Done { id: rest.u32()? },
            SUBSCRIBED => Self::Subscribed {
                id: rest.u32()?,
                key: rest.u32()?,
                rings: rest.u32()?,
                ring_words: rest.u64()?,
            },
            COUNTED => Self::Members {
                id: rest.u32()?,
                count: rest.u32()?,
            },
            COUNTERS => {
                let id = rest.u32()?;
                let values = std::iter::from_fn(|| rest.u64()).collect();
                Self::Stats { id, values }
            }
            ROWS => Self::Rows {
                id: rest.u32()?,
                words: rest.u64()?,
            },
            FAILED => Self::Failed {
                id: rest.u32()?,
                error: match rest.u32()? {
                    0 => Failed::Closed {
                        cause: rest.text()?.to_owned(),
                    },
                    1 => Failed::Refused {
                        reason: rest.text()?.to_owned(),
                    },
                    2 => Failed::Timeout {
                        after: rest.duration()?,
                        outstanding: match rest.u32()? {
                            0 => None,
                            _ => Some(Box::new(rest.outstanding()?)),
                        },
                    },
                    3 => {
                        let (more, count) = (rest.u64()?, rest.u32()?);
                        let ranges = (0..count).map(|_| rest.unconfirmed());
                        let ranges = ranges.collect::<Option<_>>()?;
                        Failed::Unconfirmed { ranges, more }
                    }
                    _ => return None,
                },
            },
            EVENT => Self::Event(decode_event(&mut rest)?),
            CLOSED => Self::Closed {
                cause: rest.text()?.to_owned(),
            },
            _ => return None,
        };
        rest.0.is_empty().then_some(reply)
    }
}

/// Whether an attached process is told of such an event; others are the engine's own affair.
pub(super) fn travels(event: &Event) -> bool {
    matches!(
        event,
        Event::Admitted { .. }
            | Event::Away { .. }
            | Event::Back { .. }
            | Event::Deaf(_)
            | Event::Hears(_)
            | Event::Excluded
            | Event::ServiceFound { .. }
            | Event::ServiceLost
            | Event::Unconfirmed { .. }
            | Event::Unserved(_)
    )
}

fn encode_event(event: &Event) -> Writer {
    let packet = Writer::new(EVENT);
    match event {
        Event::Admitted { incarnation } => packet.u32(1).u32(incarnation.0),
        Event::Excluded => packet.u32(2),
        Event::ServiceFound { address } => packet.u32(3).cut(&address.to_string()),
        Event::ServiceLost => packet.u32(4),
        Event::Unconfirmed { messages, cause } => {
            let new_life = *cause == UnconfirmedCause::NewLife;
            packet.u32(5).u32(u32::from(new_life)).unconfirmed(messages)
        }
        Event::Unserved(unserved) => packet.u32(6).unserved(unserved),
        Event::Away { region } => packet.u32(7).u32(region.0),
        Event::Back { region } => packet.u32(8).u32(region.0),
        Event::Deaf(deafness) => packet.u32(9).deafness(deafness),
        Event::Hears(deafness) => packet.u32(10).deafness(deafness),
        // See `travels`.
        _ => packet.u32(0),
    }
}

fn decode_event(rest: &mut Rest<'_>) -> Option<Event> {
    Some(match rest.u32()? {
        1 => Event::Admitted {
            incarnation: Incarnation(rest.u32()?),
        },
        2 => Event::Excluded,
        3 => Event::ServiceFound {
            address: rest.text()?.parse::<SocketAddr>().ok()?,
        },
        4 => Event::ServiceLost,
        5 => Event::Unconfirmed {
            cause: match rest.u32()? {
                0 => UnconfirmedCause::NoReceivers,
                _ => UnconfirmedCause::NewLife,
            },
            messages: rest.unconfirmed()?,
        },
        6 => Event::Unserved(rest.unserved()?),
        7 => Event::Away {
            region: RegionId(rest.u32()?),
        },
        8 => Event::Back {
            region: RegionId(rest.u32()?),
        },
        9 => Event::Deaf(rest.deafness()?),
        10 => Event::Hears(rest.deafness()?),
        _ => return None,
    })
}

fn overflow_code(overflow: Overflow) -> u32 {
    match overflow {
        Overflow::DropNewest => 0,
        Overflow::Disconnect => 1,
        Overflow::DropOldest => 2,
    }
}

fn overflow_of(code: u32) -> Option<Overflow> {
    [
        Overflow::DropNewest,
        Overflow::Disconnect,
        Overflow::DropOldest,
    ]
    .into_iter()
    .find(|overflow| overflow_code(*overflow) == code)
}

/// A packet being written.
struct Writer(Vec<u8>);

impl Writer {
    fn new(kind: u8) -> Self {
        Self(vec![kind])
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn duration(self, value: Duration) -> Self {
        self.u64(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))
    }

    fn outstanding(self, left: &Outstanding) -> Self {
        // The core names a few.
        let count = u32::try_from(left.groups.len()).unwrap_or(u32::MAX);
        let numbers = [
            left.queued,
            left.unconfirmed,
            left.regions,
            left.groups_more,
        ];
        let packet = numbers.into_iter().fold(self, Self::u64).u32(count);
        let groups = left.groups.iter();
        groups.fold(packet, |packet, group| packet.cut(group))
    }

    /// A text, cut where it is longer than any that is of use.
    fn cut(mut self, text: &str) -> Self {
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.text(&text[..end]);
        self
    }

    fn unconfirmed(self, messages: &Unconfirmed) -> Self {
        let packet = self.u32(messages.incarnation.0);
        packet
            .u64(messages.first)
            .u64(messages.last)
            .cut(&messages.group)
    }

    fn unserved(self, unserved: &Unserved) -> Self {
        let count = |many: usize| u32::try_from(many).unwrap_or(u32::MAX);
        let packet = self
            .u64(unserved.receivers_more)
            .u64(unserved.messages_more)
            .u32(count(unserved.receivers.len()))
            .u32(count(unserved.messages.len()));
        // The core names so few that they fit.
        let packet = unserved
            .receivers
            .iter()
            .fold(packet, |packet, receiver| packet.origin(*receiver));
        unserved.messages.iter().fold(packet, Self::unconfirmed)
    }

    fn deafness(self, deafness: &Deafness) -> Self {
        let peer = deafness.peer.map(|peer| peer.to_string());
        self.u32(deafness.region.0)
            .u32(u32::from(deafness.here))
            .origin(deafness.listener)
            .origin(deafness.speaker)
            .cut(&deafness.address.to_string())
            .cut(&peer.unwrap_or_default())
    }

    fn origin(self, origin: Origin) -> Self {
        self.u64(origin.node.0).u32(origin.incarnation.0)
    }

    fn text(&mut self, text: &str) {
        // A name of a group longer than that is refused by the node, and so it may be cut.
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_le_bytes());
        self.0.extend(&text.as_bytes()[..usize::from(length)]);
    }
}

/// What is left of a packet being read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn unconfirmed(&mut self) -> Option<Unconfirmed> {
        Some(Unconfirmed {
            incarnation: Incarnation(self.u32()?),
            first: self.u64()?,
            last: self.u64()?,
            group: Arc::from(self.text()?),
        })
    }

    fn unserved(&mut self) -> Option<Unserved> {
        let (receivers_more, messages_more) = (self.u64()?, self.u64()?);
        let (receivers, messages) = (self.u32()?, self.u32()?);
        let receivers = (0..receivers).map(|_| self.origin());
        let receivers = receivers.collect::<Option<_>>()?;
        let messages = (0..messages).map(|_| self.unconfirmed());
        Some(Unserved {
            receivers,
            receivers_more,
            messages: messages.collect::<Option<_>>()?,
            messages_more,
        })
    }

    fn origin(&mut self) -> Option<Origin> {
        Some(Origin {
            node: NodeId(self.u64()?),
            incarnation: Incarnation(self.u32()?),
        })
    }

    fn deafness(&mut self) -> Option<Deafness> {
        let (region, here) = (RegionId(self.u32()?), self.u32()? != 0);
        let (listener, speaker) = (self.origin()?, self.origin()?);
        Some(Deafness {
            region,
            address: self.text()?.parse().ok()?,
            listener,
            speaker,
            peer: match self.text()? {
                "" => None,
                peer => Some(peer.parse().ok()?),
            },
            here,
        })
    }

    fn outstanding(&mut self) -> Option<Outstanding> {
        let (queued, unconfirmed) = (self.u64()?, self.u64()?);
        let (regions, groups_more) = (self.u64()?, self.u64()?);
        let groups = (0..self.u32()?).map(|_| self.text().map(Arc::from));
        Some(Outstanding {
            queued,
            unconfirmed,
            regions,
            groups: groups.collect::<Option<_>>()?,
            groups_more,
        })
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn duration(&mut self) -> Option<Duration> {
        self.u64().map(Duration::from_nanos)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::from(u16::from_le_bytes(self.take()?));
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        core::str::from_utf8(text).ok()
    }
}

#[cfg(test)]
mod tests;
