//! Relays between a source and its receivers, as DyRAM (S1) has them, without sockets and clock.
//!
//! A source multicasts numbered packets to its *children*, receivers and relays; a relay passes them
//! on to children of its own, and so on. Whoever misses a packet tells its parent by a NACK. A relay
//! keeps no packets, unless it is given memory for them. It has four services:
//!
//! | service | module |
//! |---|---|
//! | early detection of losses: a gap is asked for upstream at once | `track`, `session` |
//! | suppression: of all NACKs for a packet, one goes on | `nack` |
//! | subcast: a repair goes to those children alone that have asked for it | `session` |
//! | election of a replier for each packet, out of who has asked and who has not, without messages | `nack` |
//! | parity ahead of requests, to children whose own hop loses packets, and restoring by it | `maker`, `shelf` |
//! | rate of the source by its slowest receiver: a model of the way there, as BBR has it; of each relay's children the slowest is passed up | `rates`, `model`, `pace`, `marks` |
//!
//! ```text
//!            Data, Heartbeat, Joined, Nack (to an elected replier) ──►
//!   Source ─────────────── Relay ─────────────── Relay ─────────────── Receiver
//!            ◄── Nack, Ack, Join, Leave, Repair (by a replier)
//! ```
//!
//! [`Source`], [`Relay`] and [`Receiver`] are state machines. The caller gives them datagrams and the
//! time ([`qsm_wire::Instant`]), and sends what they say. A relay does not copy what it passes on:
//! [`Relay::handle_datagram`] says where the caller's bytes go.
//!
//! ```
//! use std::net::SocketAddr;
//! use std::time::Duration;
//!
//! use qsm_relay::{Event, Receiver, SessionId, Source, Timing, To};
//! use qsm_wire::Instant;
//!
//! let session = SessionId { source: 7, group: 0xefc0_0001 };
//! let (at_source, at_receiver): (SocketAddr, SocketAddr) =
//!     ("10.0.0.1:4500".parse().unwrap(), "10.0.0.2:4500".parse().unwrap());
//! let timing = Timing::new(Duration::from_millis(1), Duration::from_millis(1));
//! let mut source = Source::new(session, timing, 1024);
//! let mut receiver = Receiver::new(session, 77, timing, at_source, Instant(0));
//!
//! // The receiver joins, and is told so.
//! let mut bytes = Vec::new();
//! while receiver.poll_transmit(&mut bytes).is_some() {
//!     source.handle_datagram(Instant(1), at_receiver, &bytes);
//! }
//! while source.poll_transmit(&mut bytes).is_some() {
//!     receiver.handle_datagram(Instant(2), at_source, &bytes);
//! }
//! assert!(matches!(receiver.poll_event(), Some(Event::Joined { first: 1 })));
//!
//! source.send(Instant(3), b"hello").unwrap();
//! let to = source.poll_transmit(&mut bytes);
//! assert!(matches!(to, Some(To::Children(links)) if links.len() == 1));
//! receiver.handle_datagram(Instant(4), at_source, &bytes);
//! let Some(Event::Delivered { sequence: 1, payload }) = receiver.poll_event() else { panic!() };
//! assert_eq!(&payload[..], b"hello");
//! ```
//!
//! Two gateways of a site are a source and a receiver each, and take turns in publishing by two more state machines,
//! [`Merge`] and [`Standby`].
//!
//! Datagrams are not authenticated: a relay believes its parent and who says to be a child of it. Its
//! rules are R-RELAY-1 to R-RELAY-21, R-RELAY-40 to R-RELAY-43, R-RELAY-60 to R-RELAY-63, R-RELAY-70 to R-RELAY-76,
//! R-RELAY-80 and R-RELAY-81 in PROTOCOL.md, section 10.

#![forbid(unsafe_code)]

mod cache;
mod cadence;
mod children;
mod codepoint;
mod context;
mod departures;
mod gauge;
mod limits;
mod links;
mod maker;
mod marks;
mod merge;
mod model;
mod nack;
mod outbox;
mod pace;
mod packet;
mod parents;
mod parity;
mod rates;
mod receiver;
mod relay;
mod reporter;
mod session;
mod shard;
mod shelf;
mod source;
mod standby;
mod stats;
mod timers;
mod timing;
mod track;
mod window;

pub use codepoint::Codepoint;
pub use links::Links;
pub use merge::{MERGE_WAIT, Merge, MergeStats, Numbered};
pub use pace::RateBounds;
pub use packet::{
    Body, DATA_HEADER_BYTES, Data, Echo, Feedback, HEADER_BYTES, Heartbeat, Join, Joined, Kind,
    LEVELS_MAX, Limit, Missing, NACK_MAX, Nack, Packet, RANGES_MAX, Report, SessionId, VERSION,
    WINDOW_MAX,
};
pub use parity::{BLOCK_MAX, Parity, ROWS_MAX};
pub use receiver::{Event, Receiver};
pub use relay::{CHILDREN_MAX, Loop, Onward, Relay, SESSIONS_MAX};
pub use source::{PAYLOAD_MAX, SendError, Source, To};
pub use standby::{Release, STANDBY_TICK, Standby, StandbySettings, StandbyStats, Turn};
pub use stats::{ReceiverStats, RelayStats, SourceStats};
pub use timing::Timing;
pub use track::{Arrival, TrackList};
