//! Session: that which both ends have when a handshake is done.

use core::fmt;

use zeroize::Zeroize;

/// A session with a peer that is who it says it is.
#[derive(Debug)]
#[non_exhaustive]
pub struct Session<G> {
    /// The peer's key.
    pub peer: [u8; 32],
    /// Grant of [`Admission`](crate::Admission).
    pub grant: G,
    /// Secrets that both ends have, and nobody else.
    pub secrets: Secrets,
    /// True if the key exchange was X25519 with ML-KEM-768, false if X25519 alone.
    pub hybrid: bool,
}

/// Two secrets out of the handshake's exporter (RFC 8446, 7.5), one for each direction; wiped when they are dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secrets {
    /// For what the client says.
    pub to_server: [u8; 32],
    /// For what the server says.
    pub to_client: [u8; 32],
}

impl Drop for Secrets {
    fn drop(&mut self) {
        self.to_server.zeroize();
        self.to_client.zeroize();
    }
}

/// Without the secrets.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}
