//! Taking datagrams from a socket of unicast, in batches, so that each can be opened in place.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::counters::{EcnCounters, ReceiveCounters};
use crate::receive::{BATCH, Place, Ring};
use crate::socket;
use crate::sys;

/// Datagrams of one socket, received in batches (`recvmmsg`, and trains whole where the kernel keeps them so).
#[derive(Debug)]
pub struct Intake {
    ring: Ring,
    /// Datagrams of the batch, and how many of them have been taken.
    batch: Vec<Place>,
    taken: usize,
    /// The socket had less than a batch when it was asked last.
    drained: bool,
    /// The kernel's drop counter when last seen.
    drops_seen: u32,
    /// The kernel says the codepoint of each datagram.
    reads_ecn: bool,
    counters: ReceiveCounters,
    ecn: EcnCounters,
}

impl Intake {
    /// Prepares a socket: asks for so large a receive buffer, of which it gets what the system allows, for trains, for
    /// codepoints of ECN and for counts of what is dropped.
    #[must_use]
    pub fn new(socket: impl AsFd, buffer_bytes: usize) -> Self {
        let fd = socket.as_fd();
        // It works without each of them, too.
        socket::ask_receive_buffer(fd, buffer_bytes).unwrap_or_default();
        sys::set_option(fd, libc::SOL_UDP, libc::UDP_GRO, 1).unwrap_or_default();
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1).unwrap_or_default();
        let asks = |level, name| sys::set_option(fd, level, name, 1).is_ok();
        // A socket of IPv6 may have IPv4 as well.
        let v6 = asks(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS);
        let v4 = asks(libc::IPPROTO_IP, libc::IP_RECVTOS);
        Self {
            ring: Ring::scoped(),
            batch: Vec::new(),
            taken: 0,
            drained: false,
            drops_seen: 0,
            reads_ecn: v4 || v6,
            counters: ReceiveCounters::default(),
            ecn: EcnCounters::default(),
        }
    }

    /// Goes on to the next datagram, without waiting, and returns its sender. None when the socket had no more when it was
    /// asked last; then it is asked again after [`Intake::look_again`].
    pub fn next(&mut self, socket: impl AsFd) -> Option<SocketAddr> {
        if self.taken == self.batch.len() {
            if self.drained {
                return None;
            }
            self.fill(socket.as_fd());
        }
        let place = *self.batch.get(self.taken)?;
        self.taken += 1;
        Some(self.ring.datagram(place).source)
    }

    /// Tells whether [`Intake::next`] may go on without waiting.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.taken < self.batch.len() || !self.drained
    }

    /// Has the socket asked again, for which something may have come.
    pub fn look_again(&mut self) {
        self.drained = false;
    }

    /// The datagram that [`Intake::next`] went on to; empty before the first one.
    #[must_use]
    pub fn datagram(&self) -> &[u8] {
        let place = self.taken.checked_sub(1).and_then(|at| self.batch.get(at));
        place.map_or(&[], |place| self.ring.datagram(*place).bytes)
    }

    /// The same, to be changed.
    pub fn datagram_mut(&mut self) -> &mut [u8] {
        let place = self.taken.checked_sub(1).and_then(|at| self.batch.get(at));
        place.map_or(&mut [], |place| self.ring.writable(*place))
    }

    /// The two bits of ECN in the header of IP (RFC 3168) with which [`Intake::datagram`] has come; 0 where the kernel does
    /// not say it.
    #[must_use]
    pub fn ecn(&self) -> u8 {
        let place = self.taken.checked_sub(1).and_then(|at| self.batch.get(at));
        place.map_or(0, |place| self.ring.ecn(*place))
    }

    /// Counters of codepoints since it was made.
    #[must_use]
    pub fn ecn_counters(&self) -> EcnCounters {
        self.ecn
    }

    /// Counters since it was made.
    #[must_use]
    pub fn counters(&self) -> ReceiveCounters {
        self.counters
    }

    fn fill(&mut self, fd: BorrowedFd<'_>) {
        self.ring.clear();
        self.batch.clear();
        self.taken = 0;
        // An error is a word of the network on what was sent before: who waits for the socket hears of more.
        let filled = self.ring.fill(fd, None, BATCH).unwrap_or_default();
        self.drained = filled.messages < BATCH;
        self.batch.extend(self.ring.places());
        let counters = &mut self.counters;
        counters.calls += u64::from(filled.messages > 0);
        counters.datagrams += filled.datagrams;
        counters.bytes += filled.bytes;
        counters.trains += filled.trains;
        counters.truncated += filled.truncated;
        self.ecn.capable += filled.capable;
        self.ecn.marked += filled.marked;
        self.ecn.unread += filled.datagrams * u64::from(!self.reads_ecn);
        if let Some(drops) = filled.drops {
            counters.kernel_drops += u64::from(drops.wrapping_sub(self.drops_seen));
            self.drops_seen = drops;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::UdpSocket;

    use super::*;
    use crate::mailing::Mailing;

    fn socket() -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    #[test]
    fn datagrams_come_one_by_one_in_order_and_can_be_changed() -> io::Result<()> {
        let (from, to) = (socket(), socket());
        let mut intake = Intake::new(&to, 1 << 20);
        assert_eq!(intake.next(&to), None);
        assert!(intake.datagram().is_empty() && intake.datagram_mut().is_empty());
        let mut mailing = Mailing::new(&from, 1 << 20);
        for number in 0..100_u8 {
            let staged = mailing.stage(&[number; 50]);
            mailing.post(to.local_addr()?, staged);
        }
        mailing.send(&from);
        // Over loopback all has come when the call returns.
        intake.look_again();
        for number in 0..100_u8 {
            assert_eq!(intake.next(&to), Some(from.local_addr()?));
            assert_eq!(intake.datagram(), [number; 50]);
            intake.datagram_mut()[0] = 7;
            assert_eq!(intake.datagram()[0], 7);
        }
        assert_eq!(intake.next(&to), None);
        let counters = intake.counters();
        assert_eq!((counters.datagrams, counters.bytes), (100, 5000));
        assert_eq!((counters.kernel_drops, counters.truncated), (0, 0));
        Ok(())
    }

    #[test]
    fn what_the_socket_had_no_room_for_is_counted() -> io::Result<()> {
        let (from, to) = (socket(), socket());
        let mut intake = Intake::new(&to, 1);
        for _ in 0..100 {
            from.send_to(&[1; 1000], to.local_addr()?)?;
        }
        let mut came = 0;
        while intake.next(&to).is_some() {
            came += 1;
        }
        // The count comes with the next datagram that finds room.
        from.send_to(&[2; 1000], to.local_addr()?)?;
        intake.look_again();
        assert!(intake.next(&to).is_some());
        assert_eq!(came + intake.counters().kernel_drops, 100);
        assert!(intake.counters().kernel_drops > 0);
        Ok(())
    }
}
