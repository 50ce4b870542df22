//! Setting of TLS: version 1.3, Ed25519, both ends show a key, nothing is resumed. Also for connections of QUIC, whose
//! ends are to have the same keys.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::quic::Suite;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    PeerIncompatible, ServerConfig, SignatureScheme,
};

use crate::identity::{self, Identity};

/// The protocol that both ends of a session name (RFC 7301): nothing else is spoken to.
pub(crate) const PROTOCOL: &[u8] = b"qsm-session-1";

/// Settings of who connects, and speaks this protocol alone (RFC 7301). Any Ed25519 key of the other end is taken that it
/// proves: who it is must be judged behind the handshake, by [`public_of`].
///
/// # Errors
/// TLS cannot be set up.
pub fn client_config(identity: &Identity, protocol: &[u8]) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(provider());
    let verifier = Arc::new(AnyKey::new(&provider));
    let mut config = ClientConfig::builder_with_details(provider, Arc::new(Timeless))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
            identity.certified(),
        )));
    config.alpn_protocols = vec![protocol.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::new(config))
}

/// Settings of who is connected to, as [`client_config`].
///
/// # Errors
/// TLS cannot be set up.
pub fn server_config(identity: &Identity, protocol: &[u8]) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(provider());
    let verifier = Arc::new(AnyKey::new(&provider));
    let mut config = ServerConfig::builder_with_details(provider, Arc::new(Timeless))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(
            identity.certified(),
        )));
    config.alpn_protocols = vec![protocol.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Cipher suite of QUIC's first packets (RFC 9001, 5.2).
#[must_use]
pub fn initial_suite() -> Option<Suite> {
    let suite = cipher_suite::TLS13_AES_128_GCM_SHA256.tls13()?;
    suite.quic_suite()
}

/// Key in a raw public key of TLS, if it is one of Ed25519.
#[must_use]
pub fn public_of(certificate: &CertificateDer<'_>) -> Option<[u8; 32]> {
    identity::public_of(certificate)
}

fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519],
        ..default_provider()
    }
}

/// Keys have no dates; those of credentials are checked by whoever admits.
#[derive(Debug)]
struct Timeless;

impl TimeProvider for Timeless {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(core::time::Duration::ZERO))
    }
}

/// Takes any Ed25519 key whose owner has signed the handshake. Who it is, is judged after that, by its credential.
#[derive(Debug)]
struct AnyKey {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyKey {
    fn new(provider: &CryptoProvider) -> Self {
        Self {
            algorithms: provider.signature_verification_algorithms,
        }
    }

    fn check(key: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), Error> {
        if public_of(key).is_none() || !others.is_empty() {
            return Err(CertificateError::BadEncoding.into());
        }
        Ok(())
    }
}

/// The methods that rustls asks of both ends' verifiers alike: TLS 1.3, and a signature by the key that was shown.
macro_rules! signed_by_a_raw_key {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _key: &CertificateDer<'_>,
            _signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(PeerIncompatible::Tls13RequiredForQuic.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let info = SubjectPublicKeyInfoDer::from(key.as_ref());
            verify_tls13_signature_with_raw_key(message, &info, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Self::check(end_entity, intermediates)?;
        Ok(ServerCertVerified::assertion())
    }

    signed_by_a_raw_key!();
}

impl ClientCertVerifier for AnyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Self::check(end_entity, intermediates)?;
        Ok(ClientCertVerified::assertion())
    }

    signed_by_a_raw_key!();
}
