//! Identities of a cluster: keys of nodes, tokens that say what a node may do, and their revocation (Ed25519,
//! RFC 8032).
//!
//! ```text
//!  ClusterRoot ── issue ──► Token ── bytes ──► Token::verify(RootKey, time, cluster) ──► Grant
//!       │                                                │
//!       └──── revoke ──► Revocations ────────────────► Roster: admit, enter, leave
//! ```
//!
//! Whoever has the root makes members. A token names a cluster, the names that a node may have, its roles and
//! groups, and the time for which it holds; a node that shows it proves by its own key that it is who it says, where
//! the token is bound to that key. [`Admission`] is what decides on a node that shows a token; [`Roster`] decides by
//! roots, revocations, and by the nodes that are in already.
//!
//! Each token and each list has one form in bytes and one in text. What is not that form is no token, whatever it
//! says: nothing is ignored, and nothing is read in two ways.
//!
//! This crate knows bytes and keys: no socket, no clock, no file. Times are seconds since 1970 in UTC, as the caller
//! has them.
//!
//! ```
//! use qsm_identity::{Admission, Claims, ClusterRoot, NodeKey, Role, Roles, Roster, Serial};
//!
//! let root = ClusterRoot::generate()?;
//! let node = NodeKey::generate()?;
//! let claims = Claims {
//!     cluster: "plant".into(),
//!     serial: Serial::random()?,
//!     name: "press-7/**".parse()?,
//!     node_key: Some(node.public()),
//!     roles: Roles::NONE.with(Role::Subscribe),
//!     not_before: 1_700_000_000,
//!     expires: 1_700_003_600,
//!     publish: Vec::new(),
//!     subscribe: vec!["orders/*".parse()?],
//! };
//! let token = root.issue(claims)?;
//!
//! let roster = Roster::new("plant", root.public());
//! let grant = roster.admit(node.public().as_bytes(), token.as_bytes(), 1_700_000_060)?;
//! assert!(grant.may_join("press-7/reader") && !grant.may_join("press-8/reader"));
//! assert!(grant.may_subscribe("orders/steel") && !grant.may_publish("orders/steel"));
//!
//! let stranger = NodeKey::generate()?;
//! let refused = roster.admit(stranger.public().as_bytes(), token.as_bytes(), 1_700_000_060);
//! assert_eq!(refused.unwrap_err().to_string(), "the token is bound to another node's key");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod admission;
mod form;
mod grant;
mod keys;
mod pattern;
mod revocations;
mod role;
mod roster;
mod serial;
mod text;
mod time;
mod token;

pub use admission::{Admission, Refused};
pub use form::{CLUSTER_BYTES_MAX, GROUP_BYTES_MAX, Malformed, NODE_NAME_BYTES_MAX};
pub use grant::{Grant, PATTERNS_MAX, Rights};
pub use keys::{ClusterRoot, KeyError, NodeKey, NodePublic, RootKey};
pub use pattern::{Pattern, PatternError};
pub use revocations::{
    REVOKED_KEYS_MAX, REVOKED_SERIALS_MAX, RevocationError, Revocations, RevokedParts,
};
pub use role::{Role, RoleError, Roles};
pub use roster::{BINDINGS_MAX, Entrant, ROOTS_MAX, Roster, Update};
pub use serial::{Serial, SerialError};
pub use text::TextError;
pub use time::utc;
pub use token::{CLOCK_TOLERANCE_SECONDS, Claims, TOKEN_BYTES_MAX, Token, TokenError};
