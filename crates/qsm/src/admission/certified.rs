//! Rights by certificates of X.509, in the place of a token (R-SEC-19).

use std::sync::Arc;

use qsm_handshake::Refused;
use qsm_identity::{Grant, NodePublic};
use qsm_x509::{Anchors, CertificateError, Chain};

/// Certificates that hold, and what they give.
#[derive(Debug, Clone)]
pub(super) struct Certified {
    pub(super) chain: Arc<Chain>,
    pub(super) grant: Grant,
}

impl Certified {
    /// By the certificates that the owner of this key shows. Without authorities that are trusted there are none.
    pub(super) fn verify(
        anchors: Option<&Anchors>,
        cluster: &str,
        shown: &Shown<'_>,
    ) -> Result<Self, CertificateError> {
        let anchors = anchors.ok_or(CertificateError::Unknown)?;
        let chain = Chain::decode(shown.credential)?;
        if chain.node_key() != *shown.key {
            return Err(CertificateError::OtherKey);
        }
        let grant = anchors.verify(&chain, cluster, shown.now)?;
        let chain = Arc::new(chain);
        Ok(Self { chain, grant })
    }
}

/// A credential, the key that its owner has proven, and the time in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) key: &'a NodePublic,
    pub(super) credential: &'a [u8],
    pub(super) now: u64,
}

/// Cause and remedy, for whoever is refused.
pub(super) fn refused(error: &CertificateError) -> Refused {
    Refused::new(told(error))
}

/// Cause and remedy.
pub(super) fn told(error: &CertificateError) -> String {
    format!("{error}; {}", error.remedy())
}

#[cfg(test)]
mod tests;
