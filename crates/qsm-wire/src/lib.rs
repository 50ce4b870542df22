//! Packet formats of Quicksilver: checked views over bytes, without allocation, versioned.
//!
//! This crate knows bytes: no socket, no clock, no protocol state. Beside them stand the two values
//! that all pure crates share, a point in time ([`Instant`]) and drawn numbers ([`Random`]). A datagram
//! comes in as `&[u8]`; [`Packet::open`] checks all of it once and hands out a view whose
//! fields and iterators cannot fail any more. Outgoing packets are appended to a buffer that the
//! caller owns and reuses.
//!
//! ```text
//!  &[u8] ── Packet::open ────► Packet { header, body } ──► fields, chunks(), slots(), ranges()
//!  Vec<u8> ◄── encode ── the same structures
//! ```
//!
//! [`seal`] gives a datagram that is complete its checksum, and [`Packet::open`] looks at nothing
//! that has changed since.
//!
//! All integers are little-endian. Layouts are drawn in PROTOCOL.md, and declared as tables in
//! `qsm-dissector`, whose tests compare them with this crate.
//!
//! ```
//! use qsm_wire::{Header, Hop, Incarnation, NodeId, Origin, Packet, Body, StreamQuery, ChannelId};
//!
//! let origin = Origin { node: NodeId(7), incarnation: Incarnation(1) };
//! let header = Header { cluster: 42, origin, hop: Hop::Direct };
//! let query = StreamQuery { channel: ChannelId(3), stream: origin };
//! let mut bytes = Vec::new();
//! query.encode(&header, &mut bytes);
//! let packet = Packet::decode(&bytes).unwrap();
//! assert_eq!(packet.header, header);
//! assert!(matches!(packet.body, Body::StreamQuery(q) if q == query));
//! ```
//!
//! Contract: decoding never panics, never allocates, and rejects with one [`DecodeError`] per
//! reason; whatever it accepts re-encodes to an equal value. (Membership messages, which are
//! carried by the reliable session and are not on the packet path, decode into owned values.)

#![forbid(unsafe_code)]

mod checksum;
mod data;
mod error;
mod header;
mod id;
mod marks;
pub mod membership;
mod random;
mod range;
mod raw;
mod repair;
mod session;
mod shard;
mod status;
mod time;
mod token;

pub use checksum::{Coverage, covered_bytes, is_intact, seal, sealed_by};
pub use data::{
    CHUNK_HEADER_BYTES, CHUNK_LENGTH_MAX, Chunk, ChunkIter, DATA_HEADER_BYTES, Data, DataHeader,
    Part, TOTAL_LENGTH_BYTES,
};
pub use error::DecodeError;
pub use header::{
    Body, CHECKSUM_AT, CLUSTER_AT, FLAGS_AT, HEADER_BYTES, HOP_AT, Header, HeaderTemplate, Hop,
    Kind, Packet, SEALED, SIGNATURE_BYTES, SIGNED_TAIL_BYTES, TAG_BYTES, TAIL_BYTES, VERSION,
    cluster_number, cluster_of, origin_of,
};
pub use id::{
    ChannelId, GroupId, Incarnation, MemberIndex, NodeId, Origin, RegionId, StreamId, ViewNumber,
};
pub use marks::Marks;
pub use random::{Random, Seed, mix};
pub use range::{Ranges, SeqRange};
pub use repair::{
    Absent, AbsentCause, GroupNumbers, Numbers, NumbersQuery, Parity, Request, RequestHead,
};
pub use session::{
    AdmissionFrame, AdmissionStage, Frame, FrameHead, GroupQuery, GroupReply, Heard,
    LIST_AMPLIFICATION_MAX, LIST_BYTES_MAX, ListQuery, ListReply, Reset,
};
pub use shard::Shard;
pub use status::{
    Ack, Beacon, CatchUp, Hearing, Heartbeat, Opening, Probe, Reach, ReachReply, StreamQuery,
    Summary, SummarySlot,
};
pub use time::{Instant, nanoseconds};
pub use token::{Slot, SlotHead, Token, TokenAck, TokenHead, TokenWriter};
