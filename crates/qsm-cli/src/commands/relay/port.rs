//! The socket and clock of a relay, source or receiver.

use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant as Clock};

use qsm_console::failure::Failure;
use qsm_link::{Link, LinkStats, Received};
use qsm_wire::{Instant, Random, Seed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_recv_buffer_size;

use super::guard::{GuardArgs, Place};
use super::notices::Notices;

/// Longest datagram.
const DATAGRAM_MAX: usize = 65_536;
/// What the system is asked to keep of datagrams that have come; it gives what its limits allow.
const RECEIVE_BUFFER: usize = 4 << 20;
/// How often signals are looked at.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Datagrams that are taken before timers are looked at.
pub(super) const BATCH: usize = 64;

/// Port of one role.
#[derive(Debug)]
pub(super) struct Port {
    socket: UdpSocket,
    began: Clock,
    buffer: Vec<u8>,
    out: Vec<u8>,
    link: Box<dyn Link>,
    notices: Notices,
    /// A number that nobody else has drawn.
    pub(super) number: u64,
    loss: u32,
    random: Random,
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
        // It works with less, too.
        set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER).unwrap_or_default();
        let number = RandomState::new().hash_one(std::process::id()).max(1);
        let link = guard.links(place, number)?;
        Ok(Self {
            socket,
            began: Clock::now(),
            buffer: vec![0; DATAGRAM_MAX],
            out: Vec::new(),
            link,
            notices: Notices::default(),
            number,
            loss,
            random: Random::new(Seed(number), "loss"),
        })
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
        self.link.connect(self.now(), parent);
        self.tend();
    }

    /// Why there is no link to the parent, if that is known.
    pub(super) fn failure(&self) -> Option<&str> {
        self.notices.failure()
    }

    /// Counters of its links; none where they are open.
    pub(super) fn links(&self) -> Option<LinkStats> {
        self.link.is_protected().then(|| self.link.stats())
    }

    /// Waits for a datagram, or for something to read here, until this time, and not for long.
    pub(super) fn wait(
        &mut self,
        due: Option<Instant>,
        other: Option<BorrowedFd<'_>>,
    ) -> Result<(), Failure> {
        self.tend();
        let due = [due, self.link.next_timeout()].into_iter().flatten().min();
        let time = due.map_or(LOOK, |due| due.since(self.now()).min(LOOK));
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        let socket = PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN);
        let other = other.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let mut watched: Vec<PollFd<'_>> = [Some(socket), other].into_iter().flatten().collect();
        match poll(&mut watched, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Failure::io("wait for packets", &error.into())),
        }
    }

    /// Takes a datagram into [`Port::bytes`]: who has sent the packet in it, and where that is. None
    /// also after many without one, since timers are to have their turn.
    pub(super) fn receive(&mut self) -> Option<Received> {
        for _ in 0..BATCH {
            let (length, from) = match self.socket.recv_from(&mut self.buffer) {
                Ok(received) => received,
                // A word of the network on what was sent before; the next one may be a packet.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(_) => return None,
            };
            if self.loss > 0 && self.random.chance_ppm(self.loss) {
                continue;
            }
            let now = self.now();
            let datagram = &mut self.buffer[..length];
            if let Some(received) = self.link.receive(now, from, datagram) {
                return Some(received);
            }
        }
        None
    }

    pub(super) fn bytes(&self, received: &Received) -> &[u8] {
        &self.buffer[received.at.clone()]
    }

    /// Sends a packet. One that does not go out is lost, as in a network, and repaired.
    pub(super) fn send(&mut self, to: SocketAddr, packet: &[u8]) {
        let now = self.now();
        if let Some(datagram) = self.link.wrap(now, to, packet, &mut self.out) {
            let sent = self.socket.send_to(datagram.bytes, datagram.to);
            sent.unwrap_or_default();
        }
    }

    /// Sends the packet that has come on.
    pub(super) fn pass_on(&mut self, received: &Received, to: SocketAddr) {
        let now = self.now();
        let packet = &self.buffer[received.at.clone()];
        if let Some(datagram) = self.link.wrap(now, to, packet, &mut self.out) {
            let sent = self.socket.send_to(datagram.bytes, datagram.to);
            sent.unwrap_or_default();
        }
    }

    /// Takes leave of all peers.
    pub(super) fn close(&mut self) {
        self.link.close(self.now());
        self.tend();
    }

    /// Does what links have to do by themselves, and tells what has happened to them.
    fn tend(&mut self) {
        let now = self.now();
        if self.link.next_timeout().is_some_and(|due| due <= now) {
            self.link.handle_timeout(now);
        }
        while let Some(to) = self.link.poll_transmit(&mut self.out) {
            self.socket.send_to(&self.out, to).unwrap_or_default();
        }
        while let Some(event) = self.link.poll_event() {
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
        let received = loop {
            match one.receive() {
                Some(received) => break received,
                None => one.wait(None, None).unwrap(),
            }
        };
        assert_eq!(one.bytes(&received), packet);
        assert_ne!(one.number, other.number);
    }
}
