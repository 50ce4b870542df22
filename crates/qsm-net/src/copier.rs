//! Copies for many receivers: a train is given to the kernel once, and cloned there for each of them (crate `groupcast`).
//!
//! Clones come from a socket of their own, bound to address and port of the unicast socket, so that receivers see no other
//! source. It is connected to a port of this host at which nothing sends: the kernel gives it nothing but what comes from
//! there, and all else, what ICMP says included, to the unicast socket as ever. `SO_REUSEPORT` is set on both for the moment
//! of binding, which lets in sockets of the same user alone.

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use groupcast::{BackEnd, Errno, Message, Recipient, Sender};

use crate::address::{Family, Raw};
use crate::sys;

/// The port of this host that the socket is connected to (RFC 863, discard).
const NOBODY: u16 = 9;

/// Tells whether copies are cloned in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cloning {
    /// It was not asked for.
    #[default]
    NotAsked,
    /// They are, from this device.
    By(String),
    /// It cannot be had, for this reason.
    Refused(String),
}

impl Cloning {
    /// What it is called among the [strategies](crate::IoReport::strategies).
    pub const NAME: &str = "copies cloned in the kernel";
}

/// Sends a train to many receivers in one call.
pub(crate) struct Copier {
    sender: Sender,
    recipients: Vec<Recipient<'static>>,
    errors: Vec<Errno>,
    /// Those whom the last call did not reach.
    missed: Vec<SocketAddr>,
}

impl Copier {
    /// One that sends as the unicast socket does.
    ///
    /// # Errors
    /// Why copies cannot be cloned here, and what to do.
    pub(crate) fn open(unicast: BorrowedFd<'_>, local: SocketAddr) -> Result<Self, String> {
        let socket = twin(unicast, local).map_err(|error| format!("no socket for it: {error}"))?;
        let sender = Sender::with(vec![socket], BackEnd::Clone).map_err(|e| e.to_string())?;
        Ok(Self {
            sender,
            recipients: Vec::new(),
            errors: Vec::new(),
            missed: Vec::new(),
        })
    }

    /// The device that clones start from.
    pub(crate) fn device(&self) -> String {
        self.sender.device().unwrap_or("a device").to_owned()
    }

    /// Sends a train of at most 64 KiB to each of these without blocking. Returns those whom it did not leave for, whatever
    /// the reason: the unicast socket is to try, and to say why.
    pub(crate) fn send(
        &mut self,
        to: &[SocketAddr],
        bytes: &[u8],
        segment_bytes: u16,
    ) -> &[SocketAddr] {
        self.recipients.clear();
        self.recipients
            .extend(to.iter().map(|to| Recipient::new(*to)));
        self.errors.clear();
        self.errors.resize(to.len(), Errno::SENT);
        self.missed.clear();
        let message = Message::train(bytes, segment_bytes).flags(libc::MSG_DONTWAIT);
        let sent = self
            .sender
            .send(&message, &self.recipients, Some(&mut self.errors));
        let told = to.iter().zip(&self.errors);
        match sent {
            Ok(sent) if sent == to.len() => {}
            Ok(_) => {
                let missed = told.filter(|(_, error)| !error.sent());
                self.missed.extend(missed.map(|(to, _)| *to));
            }
            Err(_) => self.missed.extend(to),
        }
        &self.missed
    }

    /// Receivers that clones were made for so far.
    pub(crate) fn cloned(&self) -> u64 {
        self.sender.stats().cloned
    }
}

impl fmt::Debug for Copier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copier")
            .field("device", &self.device())
            .finish_non_exhaustive()
    }
}

/// A socket with the same address that receives nothing.
fn twin(unicast: BorrowedFd<'_>, local: SocketAddr) -> io::Result<UdpSocket> {
    let share = |fd: BorrowedFd<'_>, value: libc::c_int| {
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, value)
    };
    let socket = sys::udp_socket(Family::of(local.ip()))?;
    share(socket.as_fd(), 1)?;
    share(unicast, 1)?;
    let bound = sys::bind(socket.as_fd(), &Raw::new(local, 0))
        .and_then(|()| sys::connect(socket.as_fd(), &Raw::new((local.ip(), NOBODY).into(), 0)));
    share(unicast, 0)?;
    bound?;
    share(socket.as_fd(), 0)?;
    Ok(UdpSocket::from(socket))
}
