//! What an attached process and the engine say to each other over their socket: everything but
//! messages of groups. Each is one packet; numbers are little-endian, texts follow their length.
//!
//! ```text
//!   process                              engine
//!   Hello ─────────────────────────────► is the version the same, is there room?
//!         ◄───────────────────────────── Welcome, with the ring's memory, doorbell and log
//!   Names… Subscribe ──────────────────►
//!         ◄───────────────────────────── Subscribed, with the memory of its rings
//!   Names… Publish, Members, … ────────►
//!         ◄───────────────────────────── Done, Members, … or Failed, in any order
//!   Unsubscribe, Room ─────────────────► not answered
//!         ◄───────────────────────────── Event, at any time
//!         ◄───────────────────────────── Closed, the last one
//! ```
//!
//! The decoders take any bytes, and return `None` for what is not a message.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use qsm_proto::UnconfirmedCause;
use qsm_wire::membership::{AwayReason, QueryKind};
use qsm_wire::{Incarnation, NodeId, RegionId};

use super::outcome::Failed;
use super::packet::{Rest, Writer};
use super::rows;
use crate::error::Flushed;
use crate::event::Event;
use crate::handoff::message::Overflow;
use crate::handoff::mode::DeliveryMode;

/// Version of the handshake, the requests and the rings. Both sides must have the same.
pub(super) const VERSION: u32 = 10;
/// Longest packet. A socket takes at least four of them.
pub(super) const PACKET_BYTES_MAX: usize = 48 << 10;
/// Bytes of names in one packet.
const NAMES_BYTES: usize = 32 << 10;
/// In the tag of a record: the publisher is given up.
pub(super) const RETIRE: u32 = 1 << 31;
/// Smallest ring, bytes.
pub(super) const RING_BYTES_MIN: usize = 4096;
/// Requests that an attached process makes at once; more of its threads wait for their turn.
pub(super) const REQUESTS_AT_ONCE: usize = 8;
/// Words of a message beside length and place of the group: group and incarnation, node, number.
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
        delivery: DeliveryMode,
    },
    Unsubscribe {
        key: u32,
    },
    /// The engine waits until this subscription has been read so far, and it has.
    Room {
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
        /// Of the engine's log, in all.
        log_words: u64,
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
    Flushed {
        id: u32,
        flushed: Flushed,
    },
    Event(Event),
    Closed {
        cause: String,
    },
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
const ROOM: u8 = 10;
const WELCOME: u8 = 65;
const DONE: u8 = 66;
const SUBSCRIBED: u8 = 67;
const COUNTED: u8 = 68;
const COUNTERS: u8 = 69;
const FAILED: u8 = 70;
const EVENT: u8 = 71;
const CLOSED: u8 = 72;
const ROWS: u8 = 73;
const FLUSHED: u8 = 74;

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
                delivery,
            } => {
                let packet = Writer::new(SUBSCRIBE).u32(*id).u64(*ring_bytes);
                let (code, patience) = delivery_code(*delivery);
                let packet = packet.u32(overflow_code(*overflow)).u32(code);
                packet.duration(patience).0
            }
            Self::Unsubscribe { key } => Writer::new(UNSUBSCRIBE).u32(*key).0,
            Self::Room { key } => Writer::new(ROOM).u32(*key).0,
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
                delivery: delivery_of(rest.u32()?, rest.duration()?)?,
            },
            UNSUBSCRIBE => Self::Unsubscribe { key: rest.u32()? },
            ROOM => Self::Room { key: rest.u32()? },
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
                log_words,
            } => {
                // The version stays in this place for ever, so that others can be told.
                let packet = Writer::new(WELCOME).u32(*version).u32(*client).u64(node.0);
                let packet = packet.u64(*message_bytes_max).u64(*ring_words);
                packet.u64(*log_words).0
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
            Self::Failed { id, error } => Writer::new(FAILED).u32(*id).failed(error).0,
            Self::Flushed { id, flushed } => Writer::new(FLUSHED).u32(*id).flushed(flushed).0,
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
                log_words: rest.u64()?,
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
                error: rest.failed()?,
            },
            FLUSHED => Self::Flushed {
                id: rest.u32()?,
                flushed: rest.flushed()?,
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

/// The version that a welcome says, also one of another version.
pub(super) fn welcome_version(packet: &[u8]) -> Option<u32> {
    let mut rest = Rest(packet);
    (rest.u8()? == WELCOME).then(|| rest.u32())?
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
            | Event::Dropped { .. }
            | Event::Excluded
            | Event::Expelled
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
        Event::Away { region, reason } => packet.u32(7).u32(region.0).u32(away_number(*reason)),
        Event::Back { region, away } => packet.u32(8).u32(region.0).duration(*away),
        Event::Dropped { events } => packet.u32(9).u64(*events),
        Event::Deaf(deafness) => packet.u32(10).deafness(deafness),
        Event::Hears(deafness) => packet.u32(11).deafness(deafness),
        Event::Expelled => packet.u32(12),
        // See `travels`.
        _ => packet.u32(0),
    }
}

fn away_number(reason: AwayReason) -> u32 {
    match reason {
        AwayReason::Silent => 1,
        AwayReason::Unreachable => 2,
        AwayReason::Unreported => 3,
        AwayReason::Slow => 4,
        AwayReason::Demoted => 5,
        // Not known to this build.
        _ => 0,
    }
}

fn away_reason(number: u32) -> Option<AwayReason> {
    Some(match number {
        1 => AwayReason::Silent,
        2 => AwayReason::Unreachable,
        3 => AwayReason::Unreported,
        4 => AwayReason::Slow,
        5 => AwayReason::Demoted,
        _ => return None,
    })
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
            reason: away_reason(rest.u32()?)?,
        },
        8 => Event::Back {
            region: RegionId(rest.u32()?),
            away: rest.duration()?,
        },
        9 => Event::Dropped {
            events: rest.u64()?,
        },
        10 => Event::Deaf(rest.deafness()?),
        12 => Event::Expelled,
        11 => Event::Hears(rest.deafness()?),
        _ => return None,
    })
}

fn overflow_code(overflow: Overflow) -> u32 {
    match overflow {
        Overflow::DropNewest => 0,
        Overflow::Disconnect => 1,
        Overflow::DropOldest => 2,
        Overflow::Hold => 3,
    }
}

fn overflow_of(code: u32) -> Option<Overflow> {
    [
        Overflow::DropNewest,
        Overflow::Disconnect,
        Overflow::DropOldest,
        Overflow::Hold,
    ]
    .into_iter()
    .find(|overflow| overflow_code(*overflow) == code)
}

/// The number of a way, and its patience, which is zero in the others.
fn delivery_code(delivery: DeliveryMode) -> (u32, Duration) {
    match delivery {
        DeliveryMode::Ordered => (0, Duration::ZERO),
        DeliveryMode::Arrival => (1, Duration::ZERO),
        DeliveryMode::Within(patience) => (2, patience),
    }
}

fn delivery_of(code: u32, patience: Duration) -> Option<DeliveryMode> {
    match code {
        0 => Some(DeliveryMode::Ordered),
        1 => Some(DeliveryMode::Arrival),
        2 => Some(DeliveryMode::Within(patience)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
