//! Links between relays, and between them and sources and receivers: a connection of QUIC for
//! identity, paths and keys, and beside it, on the same port, datagrams that are sealed by these keys.
//!
//! ```text
//!              child                                        parent
//!   packets ──► wrap ──► sealed (0x84) ───────────────────► receive ──► packets
//!              QuicLink ◄── QUIC (bit 0x40): TLS 1.3, hello, keep-alive, paths ──► QuicLink
//!                       ◄── speak (0x85) ── to who is not known, or not there ────
//! ```
//!
//! Children connect to parents, never the reverse. Each end proves an Ed25519 key in the handshake (raw
//! public keys, RFC 7250), and shows a token of the cluster (`qsm-identity`) with the role that its
//! place needs. Nothing is sent or taken before. The rules are R-RELAY-22 to R-RELAY-25 in PROTOCOL.md,
//! section 10.
//!
//! Datagrams that are too long for most paths travel in pieces: [`Cutter`] and [`Joiner`].
//!
//! [`Link`] is what relays use; [`QuicLink`] protects, and [`PlainLink`] does not. Both are pure:
//! datagrams and times come from outside, at most [`LINKS_MAX`] links at a port. Only random numbers
//! come from the system.

#![forbid(unsafe_code)]

mod hello;
mod link;
mod parent;
mod peer;
mod pieces;
mod plain;
mod quic;
mod seal;
mod settings;
mod stats;
mod window;

#[cfg(test)]
mod tests;

use core::time::Duration;

pub use link::{Link, LinkEvent, Received, Wrapped};
pub use pieces::{Cutter, Joiner, WHOLE_MAX};
pub use plain::PlainLink;
pub use quic::QuicLink;
pub use seal::SEAL_BYTES;
pub use settings::{LinkError, Settings};
pub use stats::{LinkStats, PieceStats};

/// Most links at one port.
pub const LINKS_MAX: usize = 1024;
/// Silence of a connection after which keep-alives are sent.
pub const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Silence of a connection after which it is lost.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// Time in which a new connection has to show its token.
pub const SAID_IN: Duration = Duration::from_secs(10);
