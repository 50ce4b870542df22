use core::net::SocketAddr;
use std::collections::VecDeque;

use crate::packet::{Body, Missing, Nack, Packet, Report, SessionId};

/// Most packets that wait to be sent.
const WAITING_MAX: usize = 4096;

/// A packet of a relay's or receiver's own, without payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Letter {
    pub(crate) to: SocketAddr,
    pub(crate) packet: Packet<'static>,
}

/// Packets that wait to be sent, a bounded number; what does not fit is left to its timer.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    letters: VecDeque<Letter>,
    overflowed: u64,
}

impl Outbox {
    pub(crate) fn push(&mut self, to: SocketAddr, session: SessionId, body: Body<'static>) {
        if self.letters.len() >= WAITING_MAX {
            self.overflowed += 1;
            return;
        }
        let packet = Packet { session, body };
        self.letters.push_back(Letter { to, packet });
    }

    /// Asks for a packet, by the NACK that waits last if it goes there, too.
    pub(crate) fn ask(
        &mut self,
        to: SocketAddr,
        session: SessionId,
        report: Report,
        sequence: u64,
    ) {
        if let Some(last) = self.letters.back_mut()
            && last.to == to
            && last.packet.session == session
            && let Body::Nack(nack) = &mut last.packet.body
            && nack.missing.push(sequence)
        {
            nack.report = report;
            return;
        }
        let missing = Missing::one(sequence);
        self.push(to, session, Body::Nack(Nack { report, missing }));
    }

    pub(crate) fn pop(&mut self) -> Option<Letter> {
        self.letters.pop_front()
    }

    /// Packets for which there was no room.
    pub(crate) fn overflowed(&self) -> u64 {
        self.overflowed
    }
}
