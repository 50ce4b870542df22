//! The decision on a node that asks to be let in.

use core::fmt;

use crate::grant::Grant;
use crate::serial::Serial;
use crate::time::utc;
use crate::token::TokenError;

/// Decides on nodes by what they show.
pub trait Admission {
    /// Decides on a node that has proven to have the key, by a credential, at this time in seconds since 1970.
    ///
    /// # Errors
    /// [`Refused`]: the node is not let in, and is told why.
    fn admit(&self, node_key: &[u8; 32], credential: &[u8], now: u64) -> Result<Grant, Refused>;
}

/// Reason for which a node is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// Its token is not accepted.
    Token(TokenError),
    /// Its token was revoked.
    Revoked(Serial),
    /// Its key was revoked.
    KeyRevoked,
    /// Its token is bound to another key.
    OtherKey,
    /// Its certificate holds no more.
    CertificateExpired {
        /// First second at which it held no more.
        expires: u64,
        /// Time of the clock here.
        now: u64,
    },
    /// Its token or certificate is for other names.
    Name {
        /// The name that it wants.
        name: String,
    },
    /// Another node is in with the same key: two nodes have one key, or it is an earlier life that is not known to
    /// have ended.
    KeyInUse {
        /// Name of that node.
        by: String,
    },
    /// A node with another key has this name.
    NameInUse {
        /// The name.
        name: String,
    },
    /// As many nodes are in as are allowed.
    Full {
        /// So many.
        max: usize,
    },
}

impl Refused {
    /// Remedy: a thing to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Token(TokenError::NotYet { .. }) => "compare the clocks of both hosts",
            Self::Token(_) | Self::Revoked(_) | Self::OtherKey => {
                "ask who has the cluster's root for a token"
            }
            Self::KeyRevoked => "make another key, and ask for a token for it",
            Self::CertificateExpired { .. } => "have another certificate issued",
            Self::Name { .. } => "use a name that it allows, or ask for another one",
            Self::KeyInUse { .. } => {
                "give each node a key of its own; if the node was started again, try again in some seconds"
            }
            Self::NameInUse { .. } => "use another name, or have the name released",
            Self::Full { .. } => "stop nodes that are not needed",
        }
    }
}

/// The cause alone; [`Refused::remedy`] has the rest.
impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(error) => error.fmt(f),
            Self::Revoked(serial) => write!(f, "the token {serial} was revoked"),
            Self::KeyRevoked => f.write_str("the node's key was revoked"),
            Self::OtherKey => f.write_str("the token is bound to another node's key"),
            Self::CertificateExpired { expires, now } => write!(
                f,
                "the certificate expired at {}, and it is {} here",
                utc(*expires),
                utc(*now)
            ),
            Self::Name { name } => {
                write!(
                    f,
                    "the token or certificate does not allow the name {name:?}"
                )
            }
            Self::KeyInUse { by } => {
                write!(f, "two nodes have one key: a node {by:?} is in with it")
            }
            Self::NameInUse { name } => {
                write!(f, "the name {name:?} belongs to a node with another key")
            }
            Self::Full { max } => write!(f, "{max} nodes are in, and no more are allowed"),
        }
    }
}

impl core::error::Error for Refused {}

impl From<TokenError> for Refused {
    fn from(error: TokenError) -> Self {
        Self::Token(error)
    }
}
