use core::time::Duration;
use std::net::SocketAddr;

use qsm_wire::membership::ToService;
use qsm_wire::{Header, Origin};

use super::HEARTBEAT_START;
use crate::session::{Session, SessionPeer};
use crate::{Instant, Outbox};

/// A session with one service, and what is known of that service.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) address: SocketAddr,
    /// The run of the service that answered first.
    pub(super) service: Option<Origin>,
    pub(super) session: Session,
    pub(super) welcomed: bool,
    pub(super) heartbeat: Duration,
    pub(super) heartbeat_at: Instant,
    pub(super) heard_at: Instant,
    /// Number of the last batch.
    pub(super) batch: u64,
}

impl Link {
    pub(super) fn new(now: Instant, address: SocketAddr, id: u64, frame_bytes: usize) -> Self {
        Self {
            address,
            service: None,
            session: Session::new(id, frame_bytes),
            welcomed: false,
            heartbeat: HEARTBEAT_START,
            heartbeat_at: now.after(HEARTBEAT_START),
            heard_at: now,
            batch: 0,
        }
    }

    /// Queues a message; `false` when the session is full.
    pub(super) fn tell(&mut self, message: &ToService) -> bool {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.tell_bytes(&bytes)
    }

    pub(super) fn tell_bytes(&mut self, bytes: &[u8]) -> bool {
        self.session.send(bytes).is_ok()
    }

    /// Sends what is due. A node that is going shows no signs of life any more.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        header: Header,
        going: bool,
        outbox: &mut Outbox,
    ) {
        let peer = SessionPeer {
            header,
            to: self.address,
        };
        self.session.transmit(now, &peer, outbox);
        if self.heartbeat_at <= now {
            self.heartbeat_at = now.after(self.heartbeat);
            if !going {
                self.session.show_life(now, &peer, outbox);
            }
        }
    }
}
