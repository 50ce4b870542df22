use std::net::SocketAddr;

use qsm_wire::Header;

/// The peer of a session, and the header of what is sent to it.
#[derive(Debug, Clone, Copy)]
pub struct SessionPeer {
    /// The header of each datagram.
    pub header: Header,
    /// The peer.
    pub to: SocketAddr,
}
