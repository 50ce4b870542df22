//! Certificates of X.509 (RFC 5280) as credentials of nodes and services, in the place of tokens (R-SEC-19).
//!
//! ```text
//!  PEM ── Chain::from_pem ──► Chain ── bytes, in the handshake ──► Chain::decode
//!                                                                      │
//!  PEM ── Anchors::from_pem ──► Anchors::verify(chain, cluster, time) ◄┘ ──► Grant
//! ```
//!
//! The first certificate of a chain is the node's own. Its key is Ed25519, the one that the node proves in its handshake
//! and signs packets by. A URI in its subject alternative name says what a token says:
//!
//! ```text
//!  qsm://plant/press-7/**?publish=states/press-7&subscribe=orders/*&role=relay
//!        cluster name      groups                                   other roles
//! ```
//!
//! Signatures, dates, uses and lists of revoked certificates are checked by `rustls-webpki`.
//!
//! This crate knows bytes and keys: no socket, no clock, no file. Times are seconds since 1970 in UTC.

#![forbid(unsafe_code)]

mod anchors;
mod chain;
mod error;
mod key;
mod uri;

pub use anchors::{ANCHORS_MAX, Anchors, LISTS_MAX};
pub use chain::{CERTIFICATES_MAX, CHAIN_BYTES_MAX, Chain};
pub use error::CertificateError;
pub use key::node_key;
pub use uri::{NameUri, UriError};
