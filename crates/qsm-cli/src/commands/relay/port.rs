//! The socket and clock of a relay, source or receiver.

use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant as Clock};

use qsm_console::failure::Failure;
use qsm_console::log::Note;
use qsm_link::{LinkStats, PieceStats, Received};
use qsm_net::{EcnCounters, PortCounters};
use qsm_relay::Codepoint;
use qsm_wire::{Instant, Random, Seed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::ecn::Ecn;
use super::guard::{GuardArgs, Place};
use super::incoming::Incoming;
use super::notices::Notices;
use super::outgoing::Outgoing;

/// How often signals are looked at.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Datagrams that are taken before timers are looked at.
pub(super) const BATCH: usize = 64;

/// Port of one role. What is sent leaves when the port waits or is closed, so that many datagrams go together.
#[derive(Debug)]
pub(super) struct Port {
    socket: UdpSocket,
    incoming: Incoming,
    outgoing: Outgoing,
    began: Clock,
    notices: Notices,
    /// A number that nobody else has drawn.
    pub(super) number: u64,
    loss: u32,
    /// Datagrams lost on purpose.
    lost: u64,
    random: Random,
    ecn: Ecn,
    /// Datagrams that were dropped for their mark.
    unmarkable: u64,
}

impl Port {
    /// Opens the port that a command listens at, with the links that its identity makes.
    pub(super) fn open(
        listen: SocketAddr,
        loss: u32,
        guard: &GuardArgs,
        place: Place<'_>,
    ) -> Result<Self, Failure> {
        let socket = UdpSocket::bind(listen).map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => Failure::failed(
                format!("another program has the port {listen}"),
                "end it, or give another address or port with --listen; port 0 is any that is free",
            ),
            ErrorKind::AddrNotAvailable => Failure::failed(
                format!("{listen} is no address of this host"),
                "give one of its own with --listen, or 0.0.0.0 for all",
            ),
            _ => Failure::io(format_args!("listen at {listen}"), &error),
        })?;
        let nonblocking = socket.set_nonblocking(true);
        nonblocking.map_err(|error| Failure::io("prepare a socket", &error))?;
        let number = RandomState::new().hash_one(std::process::id()).max(1);
        let link = guard.links(place, number)?;
        Ok(Self {
            incoming: Incoming::new(&socket),
            outgoing: Outgoing::new(&socket, link, number),
            socket,
            began: Clock::now(),
            notices: Notices::default(),
            number,
            loss,
            lost: 0,
            random: Random::new(Seed(number), "loss"),
            ecn: Ecn::On,
            unmarkable: 0,
        })
    }

    /// Has what leaves marked by queues, or not.
    pub(super) fn use_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }

    pub(super) fn uses_ecn(&self) -> bool {
        self.ecn == Ecn::On
    }

    /// Has the kernel clone what goes to many, or says why it does not: then the socket sends.
    pub(super) fn clone_copies(&mut self) {
        if let Err(cause) = self.outgoing.clone_copies(&self.socket) {
            let line = format!("copies are not cloned in the kernel: {cause}");
            Note::warn("not-cloned", &line).say();
        }
    }

    /// Where it listens.
    pub(super) fn address(&self) -> Result<SocketAddr, Failure> {
        let address = self.socket.local_addr();
        address.map_err(|error| Failure::io("ask a socket for its address", &error))
    }

    pub(super) fn now(&self) -> Instant {
        Instant(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Makes a link to a parent, where links are made.
    pub(super) fn connect(&mut self, parent: SocketAddr) {
        self.outgoing.link.connect(self.now(), parent);
        self.tend();
    }

    /// Why there is no link to the parent, if that is known.
    pub(super) fn failure(&self) -> Option<&str> {
        self.notices.failure()
    }

    /// Counters of its links; none where they are open.
    pub(super) fn links(&self) -> Option<LinkStats> {
        let link = &self.outgoing.link;
        link.is_protected().then(|| link.stats())
    }

    /// Counters of what is too long for a datagram.
    pub(super) fn pieces(&self) -> PieceStats {
        PieceStats {
            cut: self.outgoing.cut(),
            ..self.incoming.pieces()
        }
    }

    /// Counters of codepoints that have come.
    pub(super) fn ecn(&self) -> EcnCounters {
        EcnCounters {
            dropped: self.unmarkable,
            ..self.incoming.ecn()
        }
    }

    /// Counters of its socket.
    pub(super) fn counters(&self) -> PortCounters {
        let mut counters = PortCounters {
            unicast: self.incoming.counters(),
            sent: self.outgoing.counters(),
            ..PortCounters::default()
        };
        counters.faults.lost = self.lost;
        counters
    }

    /// Sends what is to be sent; then waits for a datagram, or for something to read here, until this time, and not for
    /// long.
    pub(super) fn wait(
        &mut self,
        due: Option<Instant>,
        other: Option<BorrowedFd<'_>>,
    ) -> Result<(), Failure> {
        self.tend();
        self.outgoing.leave(&self.socket);
        if self.incoming.has_more() {
            return Ok(());
        }
        let due = [due, self.outgoing.link.next_timeout()];
        let due = due.into_iter().flatten().min();
        let time = due.map_or(LOOK, |due| due.since(self.now()).min(LOOK));
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        let socket = PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN);
        let other = other.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let mut watched: Vec<PollFd<'_>> = [Some(socket), other].into_iter().flatten().collect();
        let ready = poll(&mut watched, Some(&timeout));
        if !watched[0].revents().is_empty() {
            self.incoming.look_again();
        }
        match ready {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Failure::io("wait for packets", &error.into())),
        }
    }

    /// Takes a datagram into [`Port::bytes`]: who has sent the packet in it, and where that is. None
    /// also after many without one, since timers are to have their turn.
    pub(super) fn receive(&mut self) -> Option<Received> {
        for _ in 0..BATCH {
            let from = self.incoming.next(&self.socket)?;
            if self.loss > 0 && self.random.chance_ppm(self.loss) {
                self.lost += 1;
                continue;
            }
            if self.ecn == Ecn::Off && self.codepoint() == Codepoint::Marked {
                // Nobody behind this port would hear of the queue otherwise (RFC 6040, 4.2).
                self.unmarkable += 1;
                continue;
            }
            let now = self.now();
            if let Some(datagram) = self.incoming.take(from)
                && let Some(received) = self.outgoing.link.receive(now, from, datagram)
            {
                return Some(received);
            }
        }
        None
    }

    pub(super) fn bytes(&self, received: &Received) -> &[u8] {
        &self.incoming.datagram()[received.at.clone()]
    }

    /// The codepoint with which the datagram has come that was received last.
    pub(super) fn codepoint(&self) -> Codepoint {
        self.incoming.codepoint()
    }

    /// Sends a packet. One that does not go out is lost, as in a network, and repaired.
    pub(super) fn send(&mut self, to: SocketAddr, packet: &[u8]) {
        self.send_copies([to], packet, Codepoint::NotCapable);
    }

    /// Sends a packet to each of these, with this codepoint if it may have one.
    pub(super) fn send_copies(
        &mut self,
        to: impl IntoIterator<Item = SocketAddr>,
        packet: &[u8],
        codepoint: Codepoint,
    ) {
        let now = self.now();
        let codepoint = self.allowed(codepoint);
        self.outgoing.send(now, to, packet, codepoint);
        self.outgoing.leave_if_many(&self.socket);
    }

    /// Sends the packet that has come on, to each of these, with the codepoint with which it has come. Rule R-RELAY-80.
    pub(super) fn pass_on(
        &mut self,
        received: &Received,
        to: impl IntoIterator<Item = SocketAddr>,
    ) {
        let now = self.now();
        let codepoint = self.allowed(self.codepoint());
        let packet = &self.incoming.datagram()[received.at.clone()];
        self.outgoing.send(now, to, packet, codepoint);
        self.outgoing.leave_if_many(&self.socket);
    }

    fn allowed(&self, codepoint: Codepoint) -> Codepoint {
        match self.ecn {
            Ecn::On => codepoint,
            Ecn::Off => Codepoint::NotCapable,
        }
    }

    /// Takes leave of all peers.
    pub(super) fn close(&mut self) {
        self.outgoing.link.close(self.now());
        self.tend();
        self.outgoing.leave(&self.socket);
    }

    /// Does what links have to do by themselves, and tells what has happened to them.
    fn tend(&mut self) {
        let now = self.now();
        let link = &mut self.outgoing.link;
        if link.next_timeout().is_some_and(|due| due <= now) {
            link.handle_timeout(now);
        }
        while let Some(event) = self.outgoing.tend() {
            self.notices.tell(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(listen: SocketAddr) -> Result<Port, Failure> {
        let guard = GuardArgs {
            identity: None,
            token: None,
            root: None,
            called: None,
        };
        Port::open(listen, 0, &guard, Place::Relay)
    }

    #[test]
    fn a_port_that_is_taken_is_an_error_that_names_it() {
        let port = opened("127.0.0.1:0".parse().unwrap()).unwrap();
        let taken = port.address().unwrap();
        let failure = opened(taken).unwrap_err();
        assert!(failure.cause.contains(&taken.to_string()), "{failure}");
        assert!(failure.remedy.contains("--listen"), "{failure}");
    }

    #[test]
    fn what_is_sent_is_received_and_waiting_ends() {
        let mut one = opened("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut other = opened("127.0.0.1:0".parse().unwrap()).unwrap();
        one.wait(Some(one.now()), None).unwrap();
        assert_eq!(one.receive(), None);
        // As packets of relays begin.
        let packet = b"\x82hello";
        other.send(one.address().unwrap(), packet);
        // What is sent leaves when its port waits.
        other.wait(Some(other.now()), None).unwrap();
        let received = loop {
            match one.receive() {
                Some(received) => break received,
                None => one.wait(None, None).unwrap(),
            }
        };
        assert_eq!(one.bytes(&received), packet);
        assert_ne!(one.number, other.number);
        assert_eq!(one.counters().unicast.datagrams, 1);
        assert_eq!(other.counters().sent.datagrams, 1);
    }

    /// R-RELAY-44.
    #[test]
    fn what_is_long_is_passed_on_in_pieces_to_all() {
        let mut ports: Vec<Port> = (0..4)
            .map(|_| opened("127.0.0.1:0".parse().unwrap()).unwrap())
            .collect();
        let to: Vec<SocketAddr> = ports.iter().map(|it| it.address().unwrap()).collect();
        // As packets of relays begin.
        let mut packet = vec![0x82; 10_000];
        packet[9999] = 7;
        for (from, to) in [(0, &to[1..2]), (1, &to[2..4])] {
            if from == 0 {
                ports[0].send_copies(to.to_vec(), &packet, Codepoint::Capable);
            } else {
                let received = awaited(&mut ports[1]);
                ports[1].pass_on(&received, to.to_vec());
            }
            ports[from].close();
        }
        for port in &mut ports[2..] {
            let received = awaited(port);
            assert_eq!(received.from, to[1]);
            assert_eq!(port.bytes(&received), packet);
            assert_eq!(port.codepoint(), Codepoint::Capable);
            assert_eq!(port.pieces().joined, 1);
        }
        assert_eq!(ports[1].counters().sent.datagrams, 18);
        assert_eq!((ports[1].pieces().joined, ports[1].pieces().cut), (1, 1));
    }

    /// R-RELAY-80.
    #[test]
    fn a_mark_goes_on_with_its_packet_or_costs_it_where_nothing_is_to_be_marked() {
        for ecn in [Ecn::On, Ecn::Off] {
            let mut ports = [0, 1, 2].map(|_| opened("127.0.0.1:0".parse().unwrap()).unwrap());
            let to = ports.each_ref().map(|port| port.address().unwrap());
            ports[1].use_ecn(ecn);
            for (packet, codepoint) in [
                (b"\x82marked", Codepoint::Marked),
                (b"\x82able  ", Codepoint::Capable),
            ] {
                ports[0].send_copies([to[1]], packet, codepoint);
            }
            ports[0].close();
            let passed = if ecn == Ecn::On { 2 } else { 1 };
            for _ in 0..passed {
                let received = awaited(&mut ports[1]);
                ports[1].pass_on(&received, [to[2]]);
            }
            ports[1].close();
            let came: Vec<_> = (0..passed)
                .map(|_| {
                    let received = awaited(&mut ports[2]);
                    (ports[2].bytes(&received)[1], ports[2].codepoint())
                })
                .collect();
            let expected = match ecn {
                Ecn::On => vec![(b'm', Codepoint::Marked), (b'a', Codepoint::Capable)],
                Ecn::Off => vec![(b'a', Codepoint::NotCapable)],
            };
            assert_eq!(came, expected);
            let counted = ports[1].ecn();
            let dropped = u64::from(ecn == Ecn::Off);
            assert_eq!(
                (counted.capable, counted.marked, counted.dropped),
                (2, 1, dropped)
            );
        }
    }

    /// The next packet that comes.
    fn awaited(port: &mut Port) -> Received {
        loop {
            match port.receive() {
                Some(received) => return received,
                None => port.wait(None, None).unwrap(),
            }
        }
    }
}
