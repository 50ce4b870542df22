use core::net::SocketAddr;

use qsm_wire::Instant;

use crate::outbox::Outbox;
use crate::packet::SessionId;
use crate::stats::RelayStats;
use crate::timers::Timers;
use crate::timing::Timing;

/// A timer of a relay's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// ACKs, joins, and what has been silent for too long.
    Tick,
    /// The NACK state of this packet.
    Nack(u64),
    /// A Feedback.
    Rate,
}

/// The surroundings of one session during one call of its relay.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) id: SessionId,
    pub(crate) parent: SocketAddr,
    /// Number of this relay as a child.
    pub(crate) child: u64,
    pub(crate) timing: &'a Timing,
    pub(crate) timers: &'a mut Timers<(SessionId, Due)>,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) stats: &'a mut RelayStats,
}

impl Context<'_> {
    pub(crate) fn set_timer(&mut self, at: Instant, due: Due) {
        self.timers.set(at, (self.id, due));
    }

    pub(crate) fn cancel_timer(&mut self, at: Instant, due: Due) {
        self.timers.cancel(at, (self.id, due));
    }
}
