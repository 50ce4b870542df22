//! Sessions between a node and its membership service in which each knows who the other is: TLS 1.3
//! (RFC 8446) with raw public keys (RFC 7250) in place of certificates, its bytes in numbered fragments that fit
//! datagrams.
//!
//! ```text
//!  Client                                        Server
//!    Ask ─────────────────────────────────────►    keeps nothing
//!    ◄──────────────────────────────── Cookie      as long as the question
//!    cookie, ClientHello ─────────────────────►    now it keeps something
//!    ◄──────────────── ServerHello … Finished      and the service's credential
//!    … Finished, the node's credential ───────►    Admission decides
//!    ◄─────────────────────── welcome, or why not
//! ```
//!
//! Three round trips for the first contact. The key exchange is X25519 with ML-KEM-768 where both have it: who
//! records it today does not read it with a quantum computer later. Both ends get the other's key, what
//! [`Admission`] granted it, and two secrets that nobody else has, for what they say to each other afterwards.
//!
//! This crate has no socket and no clock: datagrams and the time are given to it. Random numbers are the system's.
//!
//! ```
//! use qsm_handshake::{Admission, Client, Identity, Now, Refused, Server};
//!
//! #[derive(Debug)]
//! struct Everybody;
//! impl Admission for Everybody {
//!     type Grant = ();
//!     fn admit(&self, _key: &[u8; 32], _credential: &[u8], _now: u64) -> Result<(), Refused> {
//!         Ok(())
//!     }
//! }
//!
//! let now = Now::default();
//! let from = "192.0.2.1:5000".parse()?;
//! let mut server = Server::new(&Identity::generate()?, b"of the service", Everybody)?;
//! let mut client = Client::new(now, &Identity::generate()?, b"of the node", Everybody)?;
//! while client.outcome().is_none() {
//!     while let Some(datagram) = client.poll_transmit() {
//!         server.receive(now, from, &datagram);
//!     }
//!     while let Some((_to, datagram)) = server.poll_transmit() {
//!         client.receive(now, &datagram);
//!     }
//! }
//! let session = client.take_session().ok_or("refused")?;
//! assert_eq!(session.secrets.to_server.len(), 32);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod admission;
mod budget;
mod client;
mod cookie;
mod engine;
mod fragments;
mod frame;
mod identity;
mod moment;
mod server;
mod session;
mod table;
mod tls;
mod verdict;

/// TLS 1.3 by raw Ed25519 keys, for ends that meet by another transport.
pub mod raw_keys {
    pub use crate::tls::{client_config, initial_suite, public_of, server_config};
}

pub use admission::{Admission, REASON_BYTES_MAX, Refused};
pub use budget::Limits;
pub use client::{Client, Failure, GIVE_UP_AFTER, RETRY_AFTER, RETRY_MAX};
pub use cookie::COOKIE_VALID;
pub use engine::{Broken, CREDENTIAL_BYTES_MAX};
pub use frame::{FRAME_BYTES_MAX, is_to_client};
pub use identity::{Identity, IdentityError};
pub use moment::Now;
pub use server::{Event, Server, ServerCounters};
pub use session::{Secrets, Session};
pub use table::{LINGER, OPEN_FOR};
