//! Admission by tokens or certificates, at the sockets: who is in has proven its key, and packets are sealed by keys that change.
//!
//! ```text
//!  node                                     service
//!  Entry  ── Seek ───────────────────────►  Gate         in clear: header, and room for the answer
//!         ◄─────────────────────── Here ──               in clear: where the service is
//!         ◄── handshake (qsm-handshake) ─►  Doorman      the roster decides
//!         ◄─ words: keys of epochs ──────►  EpochIssuer  sealed by the session
//!         ◄─ Session, Probe, lists ──────►               sealed by the session
//!  Epochs ◄─ everything between nodes ────► Epochs       by the pair of two nodes, or by the epoch and signed; data by
//!                                                        the epoch alone
//! ```
//!
//! [`Entry`] and [`Gate`] are guards of ports: no state machine of the protocol knows of them. What they have to tell
//! goes by a queue, and so do the orders of the service's thread.

mod attempts;
mod certified;
mod claim;
mod doorman;
mod entry;
mod gate;
mod identity;
mod introduction;
mod judge;
mod lists;
mod neighbours;
mod orders;
mod packet;
mod peers;
mod revocations;
mod rivals;
mod session;
mod signatures;
mod stats;
mod words;

pub(crate) use entry::{Entrant, Entry, EntryNews};
pub(crate) use gate::{Gate, GateLink, GateNews, GateOrder, Leaves};
pub(crate) use identity::Bearer;
pub use identity::{Identity, IdentityError};
pub(crate) use packet::refusal;
pub(crate) use revocations::{CertificateLists, LIST_BYTES_MAX, RevocationFile};
pub use stats::AdmissionStats;
