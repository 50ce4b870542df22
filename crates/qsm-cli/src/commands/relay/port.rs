//! The socket and clock of a relay, source or receiver.

use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant as Clock};

use qsm_console::failure::Failure;
use qsm_wire::{Instant, Random, Seed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_recv_buffer_size;

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
    /// A number that nobody else has drawn.
    pub(super) number: u64,
    loss: u32,
    random: Random,
}

impl Port {
    /// Opens the port that a command listens at.
    pub(super) fn open(listen: SocketAddr, loss: u32) -> Result<Self, Failure> {
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
        Ok(Self {
            socket,
            began: Clock::now(),
            buffer: vec![0; DATAGRAM_MAX],
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

    /// Waits for a datagram, or for something to read here, until this time, and not for long.
    pub(super) fn wait(
        &self,
        due: Option<Instant>,
        other: Option<BorrowedFd<'_>>,
    ) -> Result<(), Failure> {
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

    /// Takes a datagram into [`Port::bytes`]: its length, and who has sent it.
    pub(super) fn receive(&mut self) -> Option<(SocketAddr, usize)> {
        loop {
            let (length, from) = match self.socket.recv_from(&mut self.buffer) {
                Ok(received) => received,
                // A word of the network on what was sent before; the next one may be a packet.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(_) => return None,
            };
            if self.loss == 0 || !self.random.chance_ppm(self.loss) {
                return Some((from, length));
            }
        }
    }

    pub(super) fn bytes(&self, length: usize) -> &[u8] {
        &self.buffer[..length]
    }

    /// Sends a datagram. One that does not go out is lost, as in a network, and repaired.
    pub(super) fn send(&self, to: SocketAddr, bytes: &[u8]) {
        self.socket.send_to(bytes, to).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_an_error_that_names_it() {
        let port = Port::open("127.0.0.1:0".parse().unwrap(), 0).unwrap();
        let taken = port.address().unwrap();
        let failure = Port::open(taken, 0).unwrap_err();
        assert!(failure.cause.contains(&taken.to_string()), "{failure}");
        assert!(failure.remedy.contains("--listen"), "{failure}");
    }

    #[test]
    fn what_is_sent_is_received_and_waiting_ends() {
        let mut one = Port::open("127.0.0.1:0".parse().unwrap(), 0).unwrap();
        let other = Port::open("127.0.0.1:0".parse().unwrap(), 0).unwrap();
        one.wait(Some(one.now()), None).unwrap();
        assert_eq!(one.receive(), None);
        other.send(one.address().unwrap(), b"hello");
        while one.receive().is_none() {
            one.wait(None, None).unwrap();
        }
        assert_eq!(one.bytes(5), b"hello");
        assert_ne!(one.number, other.number);
    }
}
