//! Keys of nodes as files of X.509 have them.

use aws_lc_rs::signature::Ed25519KeyPair;
use qsm_identity::NodeKey;
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use zeroize::Zeroizing;

use crate::error::CertificateError;

/// Bytes of the secret of an Ed25519 key.
const SEED_BYTES: usize = 32;

/// The key of a node out of a private key in PEM (PKCS #8, RFC 5958), as `openssl genpkey -algorithm ed25519` makes it.
///
/// # Errors
/// [`CertificateError::PrivateKey`]: it is none, or of another algorithm.
pub fn node_key(pem: &[u8]) -> Result<NodeKey, CertificateError> {
    let der = PrivatePkcs8KeyDer::from_pem_slice(pem);
    let der = der.map_err(|_| CertificateError::PrivateKey)?;
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der());
    let pair = pair.map_err(|_| CertificateError::PrivateKey)?;
    let secret = pair.seed().map_err(|_| CertificateError::PrivateKey)?;
    let bytes =
        aws_lc_rs::encoding::AsBigEndian::<aws_lc_rs::encoding::Curve25519SeedBin<'_>>::as_be_bytes(
            &secret,
        );
    let bytes = bytes.map_err(|_| CertificateError::PrivateKey)?;
    let mut seed = Zeroizing::new([0; SEED_BYTES]);
    if bytes.as_ref().len() != SEED_BYTES {
        return Err(CertificateError::PrivateKey);
    }
    seed.copy_from_slice(bytes.as_ref());
    NodeKey::from_seed(&seed).map_err(|_| CertificateError::PrivateKey)
}
