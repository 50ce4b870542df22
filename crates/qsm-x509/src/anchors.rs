//! Authorities that an operator trusts, and what they have revoked.

use core::fmt;

use qsm_identity::Grant;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, TrustAnchor};
use webpki::{
    ALL_VERIFICATION_ALGS, CertRevocationList, Error, ExtendedKeyUsageValidator, KeyPurposeId,
    KeyPurposeIdIter, KeyUsage, OwnedCertRevocationList, RequiredEkuNotFoundContext,
    RevocationOptionsBuilder, UnknownStatusPolicy, anchor_from_trusted_cert,
};

use crate::chain::{Chain, read};
use crate::error::CertificateError;

/// Most trust anchors.
pub const ANCHORS_MAX: usize = 64;
/// Most lists of revoked certificates.
pub const LISTS_MAX: usize = 64;

/// Trust anchors (RFC 5280 §6.1.1), and the newest lists of what they and those that they trust have revoked.
pub struct Anchors {
    anchors: Vec<TrustAnchor<'static>>,
    lists: Vec<CertRevocationList<'static>>,
}

impl Anchors {
    /// Reads certificates of authorities in PEM. Their dates do not count: who trusts them says so.
    ///
    /// # Errors
    /// [`CertificateError`]: there is none, there are too many, or one cannot be read.
    pub fn from_pem(pem: &[u8]) -> Result<Self, CertificateError> {
        let of = "certificate of an authority";
        let mut anchors = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|_| CertificateError::NoPem { of })?;
            let anchor = anchor_from_trusted_cert(&certificate);
            let anchor = anchor.map_err(|error| CertificateError::Damaged(error.to_string()))?;
            anchors.push(anchor.to_owned());
            bounded(anchors.len(), "certificates of authorities", ANCHORS_MAX)?;
        }
        match anchors.is_empty() {
            true => Err(CertificateError::NoPem { of }),
            false => Ok(Self {
                anchors,
                lists: Vec::new(),
            }),
        }
    }

    /// The same authorities with these lists of revoked certificates (RFC 5280 §5) in PEM, in the place of all former
    /// ones. Lists of other authorities, or that others made in its name, do nothing, and of an authority without a list nothing is revoked. A list
    /// counts beyond the time of its next update, so that nobody is shut out because it comes late.
    ///
    /// # Errors
    /// [`CertificateError`]: there is none, there are too many, or one cannot be read.
    pub fn with_revoked(&self, pem: &[u8]) -> Result<Self, CertificateError> {
        let of = "list of revoked certificates";
        let mut lists = Vec::new();
        for list in CertificateRevocationListDer::pem_slice_iter(pem) {
            let list = list.map_err(|_| CertificateError::NoPem { of })?;
            let list = OwnedCertRevocationList::from_der(&list);
            let list = list.map_err(|error| CertificateError::Damaged(error.to_string()))?;
            lists.push(CertRevocationList::Owned(list));
            bounded(lists.len(), "lists of revoked certificates", LISTS_MAX)?;
        }
        match lists.is_empty() {
            true => Err(CertificateError::NoPem { of }),
            false => Ok(Self {
                anchors: self.anchors.clone(),
                lists,
            }),
        }
    }

    /// Rights of a node in this cluster by its certificates, at this time in seconds since 1970.
    ///
    /// # Errors
    /// [`CertificateError`]: they do not hold, are not of a trusted authority, were revoked, or give no rights.
    pub fn verify(
        &self,
        chain: &Chain,
        cluster: &str,
        now: u64,
    ) -> Result<Grant, CertificateError> {
        self.check(chain)?;
        chain.check_time(now)?;
        chain.claimed(cluster)
    }

    /// Checks that a trusted authority issued them, and that none was revoked, whatever the time is.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn check(&self, chain: &Chain) -> Result<(), CertificateError> {
        let lists: Vec<&CertRevocationList<'_>> = self.lists.iter().collect();
        match self.check_with(chain, &lists)? {
            Err(Error::InvalidCrlSignatureForPublicKey) => {}
            checked => return checked.map_err(of_library),
        }
        // One that somebody else made in an authority's name hides others, so each is asked alone, and that one passed over.
        for list in lists {
            match self.check_with(chain, &[list])? {
                Err(Error::InvalidCrlSignatureForPublicKey) | Ok(()) => {}
                Err(error) => return Err(of_library(error)),
            }
        }
        Ok(())
    }

    fn check_with(
        &self,
        chain: &Chain,
        lists: &[&CertRevocationList<'_>],
    ) -> Result<Result<(), Error>, CertificateError> {
        let [own, others @ ..] = chain.certificates() else {
            return Err(CertificateError::Unknown);
        };
        let own = read(own)?;
        let revocation = RevocationOptionsBuilder::new(lists).ok();
        let revocation = revocation.map(|options| {
            options
                .with_status_policy(UnknownStatusPolicy::Allow)
                .build()
        });
        let verified = own.verify_for_usage(
            ALL_VERIFICATION_ALGS,
            &self.anchors,
            others,
            chain.moment(),
            EitherEnd,
            revocation,
            None,
        );
        Ok(verified.map(|_| ()))
    }
}

/// Without what they are.
impl fmt::Debug for Anchors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Anchors")
            .field("anchors", &self.anchors.len())
            .field("lists", &self.lists.len())
            .finish()
    }
}

fn bounded(count: usize, of: &'static str, max: usize) -> Result<(), CertificateError> {
    match count > max {
        true => Err(CertificateError::TooMany { of, max }),
        false => Ok(()),
    }
}

fn of_library(error: Error) -> CertificateError {
    match error {
        Error::UnknownIssuer | Error::InvalidSignatureForPublicKey | Error::CaUsedAsEndEntity => {
            CertificateError::Unknown
        }
        Error::CertRevoked => CertificateError::Revoked,
        Error::RequiredEkuNotFoundContext(_) => CertificateError::Use,
        // Of a chain whose certificates hold at no common time: its dates are checked with the time here.
        other => CertificateError::Damaged(other.to_string()),
    }
}

/// Uses of a node's certificate: a service is a server of TLS and, to other services, a client.
struct EitherEnd;

impl ExtendedKeyUsageValidator for EitherEnd {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), Error> {
        // RFC 5280 §4.2.1.12: serverAuth and clientAuth.
        let [server, client] = [1, 2].map(|last| [0x2b, 6, 1, 5, 5, 7, 3, last]);
        let either = [&server, &client].map(|oid| KeyPurposeId::new(oid));
        let mut present = Vec::new();
        for purpose in purposes {
            let purpose = purpose?;
            if either.contains(&purpose) {
                return Ok(());
            }
            present.push(purpose.to_decoded_oid());
        }
        match present.is_empty() {
            true => Ok(()),
            false => Err(Error::RequiredEkuNotFoundContext(
                RequiredEkuNotFoundContext {
                    required: KeyUsage::client_auth(),
                    present,
                },
            )),
        }
    }
}
