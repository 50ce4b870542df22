//! Datagrams that leave a port: packets as their links want them, long ones in pieces, and all copies together.

use std::net::{SocketAddr, UdpSocket};

use qsm_link::{Cutter, Link, LinkEvent, WHOLE_MAX};
use qsm_net::{Mailing, SendCounters, Staged};
use qsm_relay::Codepoint;
use qsm_wire::Instant;

/// Bytes of datagrams that are to go, which the system is asked to keep; it gives what its limits allow.
const SEND_BUFFER: usize = 4 << 20;

/// Datagrams that wait to be sent, and the links that they are for.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) link: Box<dyn Link>,
    mail: Mail,
    out: Vec<u8>,
}

impl Outgoing {
    /// A number that nobody else has drawn tells what this port cuts from what another one did.
    pub(super) fn new(socket: &UdpSocket, link: Box<dyn Link>, number: u64) -> Self {
        Self {
            link,
            mail: Mail {
                mailing: Mailing::new(socket, SEND_BUFFER),
                cutter: Cutter::new(u32::try_from(number >> 32).unwrap_or_default()),
            },
            out: Vec::new(),
        }
    }

    /// Has the kernel clone what goes to many, or says why it cannot.
    pub(super) fn clone_copies(&mut self, socket: &UdpSocket) -> Result<(), String> {
        self.mail.mailing.clone_copies(socket).map(drop)
    }

    /// Has a packet sent to each of these with this codepoint: the same bytes, or sealed for each. Rule R-RELAY-80.
    pub(super) fn send(
        &mut self,
        now: Instant,
        to: impl IntoIterator<Item = SocketAddr>,
        packet: &[u8],
        codepoint: Codepoint,
    ) {
        let Self { link, mail, out } = self;
        let ecn = codepoint.bits();
        let same = (!link.is_protected()).then(|| mail.stage(packet).with_ecn(ecn));
        for to in to {
            if let Some(datagram) = same {
                mail.mailing.post(to, datagram);
            } else if let Some(sealed) = link.wrap(now, to, packet, out) {
                let datagram = mail.stage(sealed.bytes).with_ecn(ecn);
                mail.mailing.post(sealed.to, datagram);
            }
        }
    }

    /// Has sent what links send by themselves. Returns the next thing that has happened to them.
    pub(super) fn tend(&mut self) -> Option<LinkEvent> {
        while let Some(to) = self.link.poll_transmit(&mut self.out) {
            let datagram = self.mail.stage(&self.out);
            self.mail.mailing.post(to, datagram);
        }
        self.link.poll_event()
    }

    /// Sends all that waits.
    pub(super) fn leave(&mut self, socket: &UdpSocket) {
        self.mail.mailing.send(socket);
    }

    /// Sends all that waits, if it is much.
    pub(super) fn leave_if_many(&mut self, socket: &UdpSocket) {
        if self.mail.mailing.is_full() {
            self.leave(socket);
        }
    }

    pub(super) fn counters(&self) -> SendCounters {
        self.mail.mailing.counters()
    }

    /// Number of datagrams that were cut into pieces.
    pub(super) fn cut(&self) -> u64 {
        self.mail.cutter.count()
    }
}

/// Datagrams that wait to be sent.
#[derive(Debug)]
struct Mail {
    mailing: Mailing,
    cutter: Cutter,
}

impl Mail {
    /// Keeps a datagram until it is sent, whole or in pieces. Rule R-RELAY-44.
    fn stage(&mut self, datagram: &[u8]) -> Staged {
        if datagram.len() <= WHOLE_MAX {
            self.mailing.stage(datagram)
        } else {
            let (pieces, each) = self.cutter.cut(datagram);
            self.mailing.stage_train(pieces, each)
        }
    }
}
