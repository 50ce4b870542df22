//! Datagrams that come to a port, in batches, and long ones joined of their pieces.

use std::net::{SocketAddr, UdpSocket};

use qsm_link::{Joiner, PieceStats};
use qsm_net::{EcnCounters, Intake, ReceiveCounters};
use qsm_relay::Codepoint;

/// Bytes of datagrams that have come, which the system is asked to keep; it gives what its limits allow.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Datagrams as they have come.
#[derive(Debug)]
pub(super) struct Incoming {
    intake: Intake,
    joiner: Joiner,
    /// The datagram at hand came in pieces.
    joined: bool,
}

impl Incoming {
    pub(super) fn new(socket: &UdpSocket) -> Self {
        Self {
            intake: Intake::new(socket, RECEIVE_BUFFER),
            joiner: Joiner::default(),
            joined: false,
        }
    }

    /// Goes on to the next datagram that there is, and returns its sender.
    pub(super) fn next(&mut self, socket: &UdpSocket) -> Option<SocketAddr> {
        self.joined = false;
        self.intake.next(socket)
    }

    /// The datagram, to be opened in place; none if it is a piece, and others of its kind are missing. Once for each.
    pub(super) fn take(&mut self, from: SocketAddr) -> Option<&mut [u8]> {
        if !Joiner::is_piece(self.intake.datagram()) {
            return Some(self.intake.datagram_mut());
        }
        let codepoint = self.codepoint();
        self.joined =
            self.joiner
                .join(from, self.intake.datagram(), codepoint == Codepoint::Marked);
        self.joined.then(|| self.joiner.whole_mut())
    }

    /// The codepoint with which the datagram at hand has come; of one in pieces a mark, if one of them had it.
    pub(super) fn codepoint(&self) -> Codepoint {
        match self.joined && self.joiner.is_marked() {
            true => Codepoint::Marked,
            false => Codepoint::of(self.intake.ecn()),
        }
    }

    /// The datagram at hand.
    pub(super) fn datagram(&self) -> &[u8] {
        match self.joined {
            true => self.joiner.whole(),
            false => self.intake.datagram(),
        }
    }

    /// Tells whether there may be another one without waiting.
    pub(super) fn has_more(&self) -> bool {
        self.intake.has_more()
    }

    /// The socket has something.
    pub(super) fn look_again(&mut self) {
        self.intake.look_again();
    }

    pub(super) fn counters(&self) -> ReceiveCounters {
        self.intake.counters()
    }

    /// Counters of codepoints that have come.
    pub(super) fn ecn(&self) -> EcnCounters {
        self.intake.ecn_counters()
    }

    /// Counters of pieces that have come.
    pub(super) fn pieces(&self) -> PieceStats {
        self.joiner.stats()
    }
}
