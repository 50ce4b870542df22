use core::net::SocketAddr;
use std::collections::VecDeque;

use qsm_wire::Instant;

use crate::cache::Cache;
use crate::maker::Copies;
use crate::outbox::Outbox;
use crate::packet::SessionId;
use crate::parents::Parents;
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
    /// A block of parity that is not full.
    Block,
}

/// Most answers that wait to be sent, and most packets of the relay's own making for several children.
const ANSWERS_MAX: usize = 4096;

/// A repair out of the cache that waits to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) to: SocketAddr,
    pub(crate) session: SessionId,
    pub(crate) sequence: u64,
}

/// The surroundings of one session during one call of its relay.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) id: SessionId,
    pub(crate) parent: SocketAddr,
    /// All parents, the present one among them.
    pub(crate) parents: &'a Parents,
    /// Number of this relay as a child.
    pub(crate) child: u64,
    pub(crate) timing: &'a Timing,
    pub(crate) timers: &'a mut Timers<(SessionId, Due)>,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) cache: &'a mut Cache,
    /// Packets of the cache that are to be sent.
    pub(crate) answers: &'a mut VecDeque<Answer>,
    /// Restored packets and parities that are to be sent.
    pub(crate) made: &'a mut VecDeque<(SessionId, Copies)>,
    /// Children get parity.
    pub(crate) parity: bool,
    pub(crate) stats: &'a mut RelayStats,
}

impl Context<'_> {
    /// Sends a packet of the cache. What does not fit is asked for again.
    pub(crate) fn answer(&mut self, to: SocketAddr, sequence: u64) {
        if self.answers.len() >= ANSWERS_MAX {
            self.stats.limited += 1;
            return;
        }
        let session = self.id;
        self.answers.push_back(Answer {
            to,
            session,
            sequence,
        });
    }

    /// Sends a packet of the relay's own making. What does not fit is asked for.
    pub(crate) fn send_copies(&mut self, copies: Copies) {
        if self.made.len() >= ANSWERS_MAX {
            self.stats.limited += 1;
        } else if !copies.children.is_empty() {
            self.made.push_back((self.id, copies));
        }
    }

    pub(crate) fn set_timer(&mut self, at: Instant, due: Due) {
        self.timers.set(at, (self.id, due));
    }

    pub(crate) fn cancel_timer(&mut self, at: Instant, due: Due) {
        self.timers.cancel(at, (self.id, due));
    }
}
