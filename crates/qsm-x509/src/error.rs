//! Reasons for which a certificate is not accepted.

use core::fmt;

use qsm_identity::{Malformed, utc};

use crate::uri::UriError;

/// Reason for which a certificate, a private key or a list of revoked certificates is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateError {
    /// There is no such thing in PEM.
    NoPem {
        /// The thing.
        of: &'static str,
    },
    /// There is no private key of Ed25519 in PKCS #8.
    PrivateKey,
    /// There are more than can be taken.
    TooMany {
        /// Of which.
        of: &'static str,
        /// So many can be.
        max: usize,
    },
    /// A chain is too long.
    TooLong {
        /// Bytes of it.
        bytes: usize,
        /// Bytes that are allowed.
        max: usize,
    },
    /// It is no certificate, or not one as it has to be.
    Damaged(String),
    /// The certificate's key is none of Ed25519.
    Algorithm,
    /// The certificate is for another key than the node has.
    OtherKey,
    /// No trusted authority has issued it.
    Unknown,
    /// It, or one between it and the authority, holds not yet.
    NotYet {
        /// First second at which it holds.
        not_before: u64,
        /// Time of the clock here.
        now: u64,
    },
    /// It, or one between it and the authority, holds no more.
    Expired {
        /// First second at which it held no more.
        expires: u64,
        /// Time of the clock here.
        now: u64,
    },
    /// It, or one between it and the authority, was revoked.
    Revoked,
    /// It is for other uses than TLS.
    Use,
    /// Its subject alternative name has no URI of this cluster.
    NoName {
        /// The cluster.
        cluster: String,
        /// One that it is for.
        of: Option<String>,
    },
    /// Its subject alternative name has more than one URI of this cluster.
    SeveralNames {
        /// The cluster.
        cluster: String,
    },
    /// Its URI is none as it has to be.
    Uri(UriError),
    /// Its URI says what no rights can be.
    Rights(Malformed),
}

impl CertificateError {
    /// Remedy: a thing to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoPem { .. } => {
                "name the file in PEM, which has lines that begin with -----BEGIN"
            }
            Self::PrivateKey | Self::Algorithm => {
                "make a key by `openssl genpkey -algorithm ed25519`, and have a certificate issued for it"
            }
            Self::TooMany { .. } | Self::TooLong { .. } => "leave out those that are not needed",
            Self::OtherKey => "use the private key that the certificate was issued for",
            Self::Unknown => {
                "have it issued by an authority that --trust names, with all certificates between them in its file"
            }
            Self::NotYet { .. } => "compare the clocks of both hosts",
            Self::Damaged(_) | Self::Expired { .. } | Self::Revoked => {
                "have another certificate issued"
            }
            Self::Use => {
                "have one issued for clientAuth or serverAuth, or without extended key usage"
            }
            Self::NoName { .. } | Self::SeveralNames { .. } | Self::Uri(_) | Self::Rights(_) => {
                "have one issued with one URI qsm://CLUSTER/NAME?subscribe=GROUPS as its subject alternative name"
            }
        }
    }
}

/// The cause alone; [`CertificateError::remedy`] has the rest.
impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPem { of } => write!(f, "there is no {of} in PEM"),
            Self::PrivateKey => f.write_str("there is no private key of Ed25519 (PKCS #8, PEM)"),
            Self::TooMany { of, max } => write!(f, "there are more than {max} {of}"),
            Self::TooLong { bytes, max } => {
                write!(f, "the chain has {bytes} bytes, and {max} are allowed")
            }
            Self::Damaged(why) => write!(f, "the certificate is damaged or not usable: {why}"),
            Self::Algorithm => f.write_str("the certificate's key is not of Ed25519"),
            Self::OtherKey => f.write_str("the certificate is for another key"),
            Self::Unknown => {
                f.write_str("no authority that is trusted here has issued the certificate")
            }
            Self::NotYet { not_before, now } => write!(
                f,
                "the certificate is not valid yet, but from {} on, and it is {} here; is the clock right?",
                utc(*not_before),
                utc(*now)
            ),
            Self::Expired { expires, now } => write!(
                f,
                "the certificate expired at {}, and it is {} here",
                utc(*expires),
                utc(*now)
            ),
            Self::Revoked => f.write_str("the certificate was revoked"),
            Self::Use => f.write_str("the certificate is for other uses than TLS"),
            Self::NoName { cluster, of: None } => {
                write!(f, "the certificate has no URI qsm://{cluster}/…")
            }
            Self::NoName {
                cluster,
                of: Some(of),
            } => write!(
                f,
                "the certificate is for the cluster {of:?}, and this is {cluster:?}"
            ),
            Self::SeveralNames { cluster } => {
                write!(f, "the certificate has several URIs qsm://{cluster}/…")
            }
            Self::Uri(error) => write!(f, "the certificate's URI {error}"),
            Self::Rights(error) => write!(f, "the certificate's URI says what cannot be: {error}"),
        }
    }
}

impl core::error::Error for CertificateError {}
