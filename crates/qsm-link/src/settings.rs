//! Who an end of a link is, and whom it takes for a peer.

use core::fmt;
use std::sync::Arc;

use aws_lc_rs::error::Unspecified;
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{ClientConfig, EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};
use qsm_handshake::Identity;
use qsm_handshake::raw_keys::{self, initial_suite};
use qsm_identity::{Admission as _, Grant, NodePublic, Refused, Role, Roster, Token};

use crate::{IDLE_TIMEOUT, KEEP_ALIVE};

/// The protocol that both ends name (RFC 7301).
const PROTOCOL: &[u8] = b"qsm-relay-link-1";
/// A parent shows its token to whoever asks.
const UNBOUND: &str = "the token of a parent is bound to its key, and this one to none; make another \
                       by `qsm token new --node KEY`";

/// An end of links, as its peers are to see it, and what it asks of them.
#[derive(Debug)]
pub struct Settings {
    /// Its key.
    pub identity: Identity,
    /// Its token, which names what it may be.
    pub token: Token,
    /// Its name, which the token allows.
    pub name: String,
    /// A number that its process has drawn.
    pub life: u64,
    /// Roots, and revocations, by which peers' tokens are judged.
    pub roster: Roster,
    /// Children may connect to it.
    pub takes_children: bool,
    /// Seconds since 1970 in UTC at `Instant(0)`.
    pub epoch: u64,
}

impl Settings {
    pub(crate) fn client(&self) -> Result<ClientConfig, LinkError> {
        let tls = raw_keys::client_config(&self.identity, PROTOCOL).map_err(LinkError::tls)?;
        let suite = initial_suite().ok_or(LinkError::Suite)?;
        let crypto = QuicClientConfig::with_initial(tls, suite).map_err(|_| LinkError::Suite)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport()?));
        Ok(config)
    }

    /// None if it takes no children.
    pub(crate) fn server(&self) -> Result<Option<Arc<ServerConfig>>, LinkError> {
        if !self.takes_children {
            return Ok(None);
        }
        let tls = raw_keys::server_config(&self.identity, PROTOCOL).map_err(LinkError::tls)?;
        let suite = initial_suite().ok_or(LinkError::Suite)?;
        let crypto = QuicServerConfig::with_initial(tls, suite).map_err(|_| LinkError::Suite)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::new(transport()?));
        Ok(Some(Arc::new(config)))
    }

    /// Decides on a peer by what it has proven and shown.
    pub(crate) fn admit(&self, shown: &Shown<'_>, now: u64) -> Result<Grant, String> {
        let grant = self.roster.admit(shown.key.as_bytes(), shown.token, now);
        let told = |refused: Refused| format!("{refused}; {}", refused.remedy());
        let grant = grant.map_err(told)?;
        if !grant.may_join(shown.name) {
            let name = shown.name.to_owned();
            return Err(told(Refused::Name { name }));
        }
        let wanted = match shown.is_parent {
            true => [Role::Relay, Role::Publish],
            false => [Role::Relay, Role::Subscribe],
        };
        if !wanted.into_iter().any(|role| grant.roles().has(role)) {
            let [first, second] = wanted.map(Role::name);
            return Err(format!(
                "the token of {:?} has neither role {first} nor {second}; make one by \
                 `qsm token new --role relay`",
                shown.name
            ));
        }
        if shown.is_parent && grant.node_key().is_none() {
            return Err(UNBOUND.to_owned());
        }
        Ok(grant)
    }
}

/// Proofs that a peer has shown.
pub(crate) struct Shown<'a> {
    pub(crate) key: NodePublic,
    pub(crate) token: &'a [u8],
    pub(crate) name: &'a str,
    pub(crate) is_parent: bool,
}

/// Of QUIC's bit (RFC 9287) no use is made: it tells its datagrams from ours.
pub(crate) fn endpoint() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.grease_quic_bit(false);
    config
}

/// One stream each way for a hello, and no others.
fn transport() -> Result<TransportConfig, LinkError> {
    let idle = IdleTimeout::try_from(IDLE_TIMEOUT).map_err(|_| LinkError::Suite)?;
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(1 << 14))
        .receive_window(VarInt::from_u32(1 << 14))
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .mtu_discovery_config(None)
        .datagram_receive_buffer_size(None)
        .enable_segmentation_offload(false);
    Ok(config)
}

/// Reason for which no links can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkError {
    /// The library of ciphers lacks what QUIC needs.
    Suite,
    /// TLS takes the key for none of its own.
    Tls(String),
    /// The system gives no random numbers.
    Random,
}

impl LinkError {
    fn tls(error: impl fmt::Display) -> Self {
        Self::Tls(error.to_string())
    }
}

impl From<Unspecified> for LinkError {
    fn from(_: Unspecified) -> Self {
        Self::Random
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Suite => f.write_str("the library of ciphers lacks what QUIC needs"),
            Self::Tls(cause) => write!(f, "TLS cannot use the key: {cause}"),
            Self::Random => f.write_str("the system gives no random numbers"),
        }
    }
}

impl core::error::Error for LinkError {}
