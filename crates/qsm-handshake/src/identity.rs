//! A node's key: Ed25519 (RFC 8032), named by its public half.

use core::fmt;
use std::sync::Arc;

use aws_lc_rs::rand;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};
use zeroize::Zeroize;

/// Bytes before an Ed25519 key in a `SubjectPublicKeyInfo` (RFC 8410).
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// A key of its own for each node and each service. Clones share it.
#[derive(Clone)]
pub struct Identity {
    pair: Arc<Ed25519KeyPair>,
    public: [u8; 32],
}

impl Identity {
    /// A new one, drawn by the system's generator.
    ///
    /// # Errors
    /// [`IdentityError::Random`]: the system has no random numbers.
    pub fn generate() -> Result<Self, IdentityError> {
        let mut seed = [0; 32];
        rand::fill(&mut seed).map_err(|_| IdentityError::Random)?;
        let identity = Self::from_seed(&seed);
        seed.zeroize();
        identity
    }

    /// The one whose private half is this (RFC 8032, 5.1.5).
    ///
    /// # Errors
    /// [`IdentityError::Seed`]: the library takes no key from it.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self, IdentityError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| IdentityError::Seed)?;
        let mut public = [0; 32];
        public.copy_from_slice(pair.public_key().as_ref());
        Ok(Self {
            pair: Arc::new(pair),
            public,
        })
    }

    /// The public half, which names it.
    #[must_use]
    pub fn public(&self) -> [u8; 32] {
        self.public
    }

    /// In the form that TLS wants it: a raw public key in a certificate's place.
    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        let info = [&SPKI_PREFIX[..], &self.public].concat();
        let key = RawKey {
            pair: Arc::clone(&self.pair),
            info: info.clone(),
        };
        Arc::new(CertifiedKey::new(
            vec![CertificateDer::from(info)],
            Arc::new(key),
        ))
    }
}

/// Without the private half.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(")?;
        for byte in &self.public[..4] {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("…)")
    }
}

/// The key in a raw public key of TLS, if it is one of Ed25519.
pub(crate) fn public_of(certificate: &CertificateDer<'_>) -> Option<[u8; 32]> {
    let key = certificate.as_ref().strip_prefix(&SPKI_PREFIX)?;
    key.try_into().ok()
}

/// Why there is no identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdentityError {
    /// The system has no random numbers.
    Random,
    /// No key can be made of these bytes.
    Seed,
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Random => "the system gives no random numbers",
            Self::Seed => "no key can be made of these bytes",
        })
    }
}

impl core::error::Error for IdentityError {}

/// Signs handshakes.
#[derive(Clone)]
struct RawKey {
    pair: Arc<Ed25519KeyPair>,
    info: Vec<u8>,
}

impl SigningKey for RawKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let signer: Box<dyn Signer> = Box::new(self.clone());
        offered
            .contains(&SignatureScheme::ED25519)
            .then_some(signer)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(&self.info[..]))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for RawKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        Ok(self.pair.sign(message).as_ref().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

impl fmt::Debug for RawKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_one_identity() {
        // RFC 8032, 7.1, test 1.
        let seed = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec,
            0x2c, 0xc4, 0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03,
            0x1c, 0xae, 0x7f, 0x60,
        ];
        let identity = Identity::from_seed(&seed).unwrap();
        assert_eq!(identity.public()[..4], [0xd7, 0x5a, 0x98, 0x01]);
        assert_eq!(
            public_of(&identity.certified().cert[0]),
            Some(identity.public())
        );
        assert_eq!(format!("{identity:?}"), "Identity(d75a9801…)");
    }

    #[test]
    fn nothing_else_is_taken_for_a_key() {
        let identity = Identity::generate().unwrap();
        let whole = identity.certified().cert[0].to_vec();
        for length in 0..whole.len() {
            assert_eq!(public_of(&CertificateDer::from(&whole[..length])), None);
        }
        let longer = [&whole[..], &[0]].concat();
        assert_eq!(public_of(&CertificateDer::from(longer)), None);
    }
}
