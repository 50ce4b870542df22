//! A look at marked packets between the protocols and the card: when they leave, and when they come.
//!
//! ```text
//!   sender's socket ─► filters ─► [tap] ─► card ─► network ─► card ─► [tap] ─► filters ─► receiver's socket
//! ```
//!
//! What a socket sent and no tap saw was kept back by the sender's host; what left and does not come was lost between the
//! cards; what came and is not received was kept back by the receiver's host.
//!
//! The kernel hands over datagrams that begin with the given mark, the first bytes of each, and IGMP and MLD, whose
//! queries say that somebody asks for memberships. Everything else is sorted out by a filter in the kernel. A train that
//! crosses the tap whole is one packet.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use crate::packet_socket::{self, Mark};

/// Of each packet, bytes: IPv6's header, an extension, UDP's, and room for what follows the mark.
const SEEN_BYTES: usize = 128;
/// Room for packets that nobody has looked at yet.
const BUFFER_BYTES: libc::c_int = 4 << 20;

/// All packets of this host that the filter lets through. Needs `CAP_NET_RAW`.
#[derive(Debug)]
pub struct Tap {
    fd: OwnedFd,
    bytes: [u8; SEEN_BYTES],
}

/// A packet that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen<'a> {
    /// It leaves this host.
    pub leaving: bool,
    /// Index of the interface that it leaves or comes by.
    pub interface: u32,
    /// Its first bytes, from the header of IP on.
    pub packet: &'a [u8],
}

impl Tap {
    /// Looks at datagrams whose payload begins with these bytes, on all interfaces.
    ///
    /// # Errors
    /// The program lacks `CAP_NET_RAW` (`EPERM`), or another error of the system.
    pub fn open(mark: [u8; 4]) -> io::Result<Self> {
        let mark = Mark { at: 0, bytes: mark };
        let fd = packet_socket::open(mark, None, BUFFER_BYTES)?;
        Ok(Self {
            fd,
            bytes: [0; SEEN_BYTES],
        })
    }

    /// The next packet, without waiting.
    ///
    /// # Errors
    /// An error of the system other than "nothing there".
    pub fn next_seen(&mut self) -> io::Result<Option<Seen<'_>>> {
        // SAFETY: sockaddr_ll is plain data, for which zero is valid.
        let mut from: libc::sockaddr_ll = unsafe { mem::zeroed() };
        let mut length = size_of_val(&from) as libc::socklen_t;
        // SAFETY: buffer and address are writable for the lengths that are given, and outlive the call.
        let count = unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                self.bytes.as_mut_ptr().cast(),
                self.bytes.len(),
                0,
                ptr::from_mut(&mut from).cast(),
                &mut length,
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        };
        Ok(Some(Seen {
            leaving: from.sll_pkttype == libc::PACKET_OUTGOING,
            interface: u32::try_from(from.sll_ifindex).unwrap_or(0),
            packet: &self.bytes[..count],
        }))
    }
}
