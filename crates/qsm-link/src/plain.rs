//! Links without protection: datagrams are packets, and addresses are believed.

use std::net::SocketAddr;

use qsm_wire::Instant;

use crate::link::{Events, Link, LinkEvent, Received, Wrapped};
use crate::stats::LinkStats;

/// Set in the first byte of all datagrams of QUIC (RFC 9000, 17), and in none of relays'.
pub(crate) const QUIC_BIT: u8 = 0x40;

/// Links that neither encrypt nor authenticate.
#[derive(Debug, Default)]
pub struct PlainLink {
    events: Events,
    stats: LinkStats,
}

impl PlainLink {
    /// Links of one port.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Link for PlainLink {
    fn connect(&mut self, _now: Instant, _parent: SocketAddr) {}

    fn receive(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) -> Option<Received> {
        if datagram.first().is_some_and(|first| first & QUIC_BIT != 0) {
            self.stats.mismatched += 1;
            self.events.mismatch(now, from);
            return None;
        }
        let at = 0..datagram.len();
        Some(Received { from, at })
    }

    fn wrap<'a>(
        &mut self,
        _now: Instant,
        to: SocketAddr,
        packet: &'a [u8],
        _out: &'a mut Vec<u8>,
    ) -> Option<Wrapped<'a>> {
        Some(Wrapped { to, bytes: packet })
    }

    fn poll_transmit(&mut self, _out: &mut Vec<u8>) -> Option<SocketAddr> {
        None
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop()
    }

    fn is_protected(&self) -> bool {
        false
    }

    fn stats(&self) -> LinkStats {
        self.stats
    }

    fn close(&mut self, _now: Instant) {}
}
