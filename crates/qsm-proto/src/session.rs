//! A reliable, ordered session of messages over datagrams, between a node and the membership
//! service (R057). Both ends use the same code.
//!
//! Membership traffic is rare, small and must not be lost; a TCP connection per node would cost
//! the service a socket each and tie its recovery to the kernel's timers. So messages are cut
//! into frames, numbered per direction, and acknowledged cumulatively:
//!
//! ```text
//!  send() ─► frames ─► window of 64 ─► datagrams ─► reorder buffer ─► messages ─► poll_message()
//!                        ▲  resent after RTO, or at once when receipts repeat themselves
//!                        └── heard_upto, in every frame and in SessionAck
//! ```
//!
//! Loss is repaired as in `NewReno` (RFC 6582) without its congestion window, since a window of
//! 64 small frames needs none: three equal receipts, or the timeout of RFC 6298, resend the first
//! missing frame, and where frames usually take several sendings as many in all; as long as receipts then move on but not past what was sent before, the next
//! first missing frame is resent at once.
//!
//! The two directions are apart: `session/outgoing.rs` cuts messages into frames and repeats them,
//! `session/incoming.rs` puts them together. They meet where a frame carries a receipt.
//!
//! Nothing is sent by itself: [`Session::transmit`] does whatever is due, and its owner calls it
//! after every input and at [`Session::next_timeout`].

mod incoming;
mod outgoing;
mod peer;
mod round_trip;
#[cfg(test)]
mod tests;

use core::time::Duration;

use qsm_wire::{Frame, HEADER_BYTES, Heard, TAIL_BYTES};

use self::incoming::IncomingFrames;
pub use self::incoming::{ACK_DELAY, ACK_FRAMES, INBOX_MAX};
use self::outgoing::OutgoingFrames;
pub use self::outgoing::{SEND_BYTES_MAX, SendError, WINDOW_FRAMES};
pub use self::peer::SessionPeer;
use crate::{Destination, Instant, Outbox, Reason};

/// Bytes of a frame before its content, after the header.
const FRAME_HEAD_BYTES: usize = 25;

/// Content bytes of a frame in datagrams of this size.
#[must_use]
pub fn frame_bytes(datagram_bytes: usize) -> usize {
    datagram_bytes
        .saturating_sub(HEADER_BYTES + FRAME_HEAD_BYTES + TAIL_BYTES)
        .max(64)
}

/// One end of a session (R-MEM-3).
#[derive(Debug)]
pub struct Session {
    id: u64,
    frame_bytes: usize,
    outgoing: OutgoingFrames,
    incoming: IncomingFrames,
}

impl Session {
    /// A session of this id whose frames carry at most `frame_bytes` of content (see
    /// [`frame_bytes`]).
    #[must_use]
    pub fn new(id: u64, frame_bytes: usize) -> Self {
        Self {
            id,
            frame_bytes: frame_bytes.max(1),
            outgoing: OutgoingFrames::default(),
            incoming: IncomingFrames::default(),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Queues a message.
    ///
    /// # Errors
    /// When it is too large or too much waits already; nothing is queued then.
    pub fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        self.outgoing.push(message, self.frame_bytes)
    }

    /// A frame of this session arrived.
    pub fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        self.handle_heard(now, frame.head.heard_upto, true);
        self.incoming
            .take(now, frame.head.number, frame.head.more, frame.content);
    }

    /// A receipt of this session arrived, alone or in a frame; only lone ones show losses by
    /// repeating themselves.
    pub fn handle_heard(&mut self, now: Instant, heard_upto: u64, in_frame: bool) {
        self.outgoing.acknowledge(now, heard_upto, in_frame);
    }

    /// The next message, whole and in order.
    pub fn poll_message(&mut self) -> Option<Vec<u8>> {
        self.incoming.poll()
    }

    /// Sends what is due: new frames within the window, repetitions, a receipt.
    pub fn transmit(&mut self, now: Instant, peer: &SessionPeer, outbox: &mut Outbox) {
        let receipt = self.receipt();
        if self.outgoing.transmit(now, receipt, peer, outbox) {
            self.incoming.acknowledged();
        }
        if self.incoming.ack_at().is_some_and(|at| at <= now) {
            self.transmit_heard(peer, outbox);
        }
    }

    /// Shows that this end is there: by the first frame without receipt, if that of its last sending
    /// could be there by now, else by a receipt.
    pub fn show_life(&mut self, now: Instant, peer: &SessionPeer, outbox: &mut Outbox) {
        let receipt = self.receipt();
        match self.outgoing.repeat(now, receipt, peer, outbox) {
            true => self.incoming.acknowledged(),
            false => self.transmit_heard(peer, outbox),
        }
    }

    /// Sends a receipt now.
    pub fn transmit_heard(&mut self, peer: &SessionPeer, outbox: &mut Outbox) {
        let heard = self.receipt();
        outbox.push(Reason::Membership, Destination::Node(peer.to), |out| {
            heard.encode(&peer.header, out);
        });
        self.incoming.acknowledged();
    }

    /// When [`Session::transmit`] has something to do again.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let incoming = self.incoming.ack_at();
        self.outgoing
            .next_timeout()
            .into_iter()
            .chain(incoming)
            .min()
    }

    /// Number of the last frame of what has been queued so far; 0 if nothing has.
    #[must_use]
    pub fn last_queued(&self) -> u64 {
        self.outgoing.last_queued()
    }

    /// The peer has received all frames up to this number.
    #[must_use]
    pub fn confirmed_upto(&self) -> u64 {
        self.outgoing.confirmed_upto()
    }

    /// Whether everything sent has been acknowledged.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// How long the way to the peer and back takes, as far as receipts show it, which wait for
    /// company; `None` before the first.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        let smoothed = self.outgoing.round_trip();
        smoothed.map(|smoothed| smoothed.saturating_sub(ACK_DELAY))
    }

    /// How long an answer of the peer may take: the way there and back, or more where it was not
    /// measured yet because everything had to be sent more than once, or before its receipt came.
    #[must_use]
    pub fn answers_in(&self) -> Duration {
        self.outgoing.receipted_in()
    }

    /// Whether the peer broke the rules (a message without end); the session is of no use then.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.incoming.is_broken()
    }

    /// Whether a frame has ever arrived.
    #[must_use]
    pub fn has_heard(&self) -> bool {
        self.incoming.heard_upto() > 0
    }

    /// Frames sent more than once so far, counted each time.
    #[must_use]
    pub fn retransmitted(&self) -> u64 {
        self.outgoing.retransmitted()
    }

    fn receipt(&self) -> Heard {
        Heard {
            session: self.id,
            heard_upto: self.incoming.heard_upto(),
        }
    }
}
