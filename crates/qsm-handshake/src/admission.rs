//! Admission is decided outside (R-SEC-7): by tokens, by a list, by whatever credentials are.

use core::fmt;
use std::sync::Arc;

/// Longest reason that goes over the network, bytes.
pub const REASON_BYTES_MAX: usize = 200;

/// Decides whether the owner of a key may come in.
pub trait Admission {
    /// Rights of the owner.
    type Grant;

    /// Judges the credential that the owner of this key shows. That it is the key's owner has been proven.
    /// `now`: seconds since 1970.
    ///
    /// # Errors
    /// [`Refused`], with the reason, which the owner of the key is told.
    fn admit(
        &self,
        node_key: &[u8; 32],
        credential: &[u8],
        now: u64,
    ) -> Result<Self::Grant, Refused>;
}

impl<A: Admission + ?Sized> Admission for Arc<A> {
    type Grant = A::Grant;

    fn admit(
        &self,
        node_key: &[u8; 32],
        credential: &[u8],
        now: u64,
    ) -> Result<Self::Grant, Refused> {
        (**self).admit(node_key, credential, now)
    }
}

/// Why somebody may not come in, in words for whoever runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The reason. Over the network go its first [`REASON_BYTES_MAX`] bytes.
    pub reason: String,
}

impl Refused {
    /// For this reason.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl core::error::Error for Refused {}
