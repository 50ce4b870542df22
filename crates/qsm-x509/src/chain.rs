//! Chains of certificates.

use core::fmt;
use core::time::Duration;

use qsm_identity::{CLOCK_TOLERANCE_SECONDS, Grant, NodePublic, Rights};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, Error, KeyUsage};

use crate::error::CertificateError;
use crate::uri::{self, NameUri};

/// Most certificates of a chain.
pub const CERTIFICATES_MAX: usize = 4;
/// Longest chain, bytes: it fits a handshake's credential with all else that is in it.
pub const CHAIN_BYTES_MAX: usize = 7168;

/// First byte of a chain as a credential. That of a token is 1.
const VERSION: u8 = 2;
/// Head of the key of a certificate that is of Ed25519 (RFC 8410 §4).
const ED25519: [u8; 12] = [0x30, 42, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 33, 0];

/// A node's certificate and those between it and a trust anchor. Nothing of it is believed before
/// [`Anchors::verify`](crate::Anchors::verify).
#[derive(Clone, PartialEq, Eq)]
pub struct Chain {
    certificates: Vec<CertificateDer<'static>>,
    key: NodePublic,
    /// Time in which all of them hold: the first second, and the first after it.
    not_before: u64,
    expires: u64,
    bytes: Vec<u8>,
}

impl Chain {
    /// Reads a file in PEM: the node's certificate first.
    ///
    /// # Errors
    /// [`CertificateError`]: there is none, there are too many, or they cannot be read.
    pub fn from_pem(pem: &[u8]) -> Result<Self, CertificateError> {
        let of = "certificate";
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let certificates = read.map_err(|_| CertificateError::NoPem { of })?;
        if certificates.is_empty() {
            return Err(CertificateError::NoPem { of });
        }
        Self::of(certificates)
    }

    /// Returns whether a credential begins as one of certificates does.
    #[must_use]
    pub fn is_chain(credential: &[u8]) -> bool {
        credential.first() == Some(&VERSION)
    }

    /// Reads what [`Chain::as_bytes`] gives.
    ///
    /// # Errors
    /// [`CertificateError`]: it is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, CertificateError> {
        let damaged = || CertificateError::Damaged("it is no chain of certificates".to_owned());
        if bytes.len() > CHAIN_BYTES_MAX {
            return Err(too_long(bytes));
        }
        let ([version, count], mut rest) = bytes.split_first_chunk::<2>().ok_or_else(damaged)?;
        if *version != VERSION || *count == 0 || usize::from(*count) > CERTIFICATES_MAX {
            return Err(damaged());
        }
        let mut certificates = Vec::with_capacity(usize::from(*count));
        for _ in 0..*count {
            let (length, behind) = rest.split_first_chunk::<2>().ok_or_else(damaged)?;
            let length = usize::from(u16::from_be_bytes(*length));
            let (der, behind) = behind.split_at_checked(length).ok_or_else(damaged)?;
            certificates.push(CertificateDer::from(der.to_vec()));
            rest = behind;
        }
        match rest {
            [] => Self::of(certificates),
            _ => Err(damaged()),
        }
    }

    fn of(certificates: Vec<CertificateDer<'static>>) -> Result<Self, CertificateError> {
        let max = CERTIFICATES_MAX;
        if certificates.len() > max {
            let of = "certificates";
            return Err(CertificateError::TooMany { of, max });
        }
        let bytes = encode(&certificates);
        if bytes.len() > CHAIN_BYTES_MAX {
            return Err(too_long(&bytes));
        }
        let (mut not_before, mut expires) = (0, u64::MAX);
        for certificate in &certificates {
            let (begin, end) = period(&read(certificate)?)?;
            not_before = begin.max(not_before);
            expires = end.min(expires);
        }
        let own = certificates
            .first()
            .ok_or(CertificateError::NoPem { of: "certificate" })?;
        let key = read(own)?.subject_public_key_info();
        let key = key
            .strip_prefix(&ED25519)
            .and_then(|key| key.try_into().ok());
        let key = NodePublic::from_bytes(key.ok_or(CertificateError::Algorithm)?);
        Ok(Self {
            certificates,
            key,
            not_before,
            expires,
            bytes,
        })
    }

    /// As a credential.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The key that the node's certificate is for.
    #[must_use]
    pub fn node_key(&self) -> NodePublic {
        self.key
    }

    /// Checks that all of them hold at this time.
    ///
    /// # Errors
    /// [`CertificateError::NotYet`], but for clocks that are slow by [`CLOCK_TOLERANCE_SECONDS`];
    /// [`CertificateError::Expired`].
    pub fn check_time(&self, now: u64) -> Result<(), CertificateError> {
        let (not_before, expires) = (self.not_before, self.expires);
        if now >= expires {
            return Err(CertificateError::Expired { expires, now });
        }
        match now.saturating_add(CLOCK_TOLERANCE_SECONDS) < not_before {
            true => Err(CertificateError::NotYet { not_before, now }),
            false => Ok(()),
        }
    }

    /// Rights that its URI of this cluster gives, whoever issued it.
    ///
    /// # Errors
    /// [`CertificateError`]: it has no such URI, or several, or one that says what cannot be.
    pub fn claimed(&self, cluster: &str) -> Result<Grant, CertificateError> {
        let own = read(&self.certificates[0])?;
        let mut found = None;
        let mut other = None;
        for text in own.valid_uri_names().filter(|text| uri::is_ours(text)) {
            let uri: NameUri = text.parse().map_err(CertificateError::Uri)?;
            if uri.cluster != cluster {
                other = Some(uri.cluster);
            } else if found.replace(uri).is_some() {
                let cluster = cluster.to_owned();
                return Err(CertificateError::SeveralNames { cluster });
            }
        }
        let uri = found.ok_or_else(|| CertificateError::NoName {
            cluster: cluster.to_owned(),
            of: other,
        })?;
        let rights = Rights {
            name: uri.name,
            node_key: self.key,
            roles: uri.roles,
            expires: self.expires,
            publish: uri.publish,
            subscribe: uri.subscribe,
        };
        Grant::of_authority(rights).map_err(CertificateError::Rights)
    }

    pub(crate) fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    /// A time at which all of them hold, if there is one.
    pub(crate) fn moment(&self) -> UnixTime {
        at(self.not_before)
    }
}

/// Without the bytes.
impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain")
            .field("key", &self.key)
            .field("certificates", &self.certificates.len())
            .finish_non_exhaustive()
    }
}

fn encode(certificates: &[CertificateDer<'_>]) -> Vec<u8> {
    // There are few.
    let mut bytes = vec![VERSION, certificates.len() as u8];
    for certificate in certificates {
        let length = u16::try_from(certificate.len()).unwrap_or(u16::MAX);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(certificate);
    }
    bytes
}

fn too_long(bytes: &[u8]) -> CertificateError {
    CertificateError::TooLong {
        bytes: bytes.len(),
        max: CHAIN_BYTES_MAX,
    }
}

pub(crate) fn read<'a>(
    certificate: &'a CertificateDer<'a>,
) -> Result<EndEntityCert<'a>, CertificateError> {
    let read = EndEntityCert::try_from(certificate);
    read.map_err(|error| CertificateError::Damaged(error.to_string()))
}

/// First second at which a certificate holds, and first at which it does no more. The library tells them in its errors
/// alone: it looks at the time before all else.
fn period(certificate: &EndEntityCert<'_>) -> Result<(u64, u64), CertificateError> {
    let at_time = |seconds| {
        let verified = certificate.verify_for_usage(
            ALL_VERIFICATION_ALGS,
            &[],
            &[],
            at(seconds),
            KeyUsage::client_auth(),
            None,
            None,
        );
        verified.err()
    };
    let not_before = match at_time(0) {
        Some(Error::CertNotValidYet { not_before, .. }) => not_before.as_secs(),
        _ => 0,
    };
    match at_time(u64::MAX) {
        Some(Error::CertExpired { not_after, .. }) => Ok((not_before, not_after.as_secs() + 1)),
        Some(error) => Err(CertificateError::Damaged(error.to_string())),
        None => Err(CertificateError::Damaged("it has no end".to_owned())),
    }
}

fn at(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}
