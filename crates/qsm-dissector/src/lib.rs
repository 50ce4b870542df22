//! A dissector of Quicksilver's packets for Wireshark and tshark.
//!
//! [`PACKETS`], [`TO_SERVICE`] and [`FROM_SERVICE`] declare the formats of PROTOCOL.md. [`dissector`]
//! writes them down as tables in Lua, before `engine.lua`, which reads packets by them:
//!
//! ```text
//!  packets.rs, messages.rs ── lua.rs ──► tables ┐
//!                             engine.lua ───────┴──► `qsm dissector` ──► Wireshark
//!      │
//!      └── tests: the same as PROTOCOL.md says, and as qsm-wire reads
//! ```
//!
//! The decoder of a running node is `qsm-wire`, written by hand for speed. The tests of this crate
//! hold the two together: what one refuses the other refuses, and both read the same values.

#![forbid(unsafe_code)]

mod format;
mod lua;
mod messages;
mod packets;

pub use format::{Count, Field, List, Number, PacketFormat, Shape, Variant};
pub use lua::dissector;
pub use messages::{FROM_SERVICE, TO_SERVICE, UPDATES};
pub use packets::{HEADER, MARKS_MAX, PACKETS};
