//! Whole packets at the card, with the time at which the kernel saw them.
//!
//! The kernel hands over datagrams that bear the mark, and IGMP and MLD, as they leave and as they come; everything else
//! is sorted out by a filter in the kernel. What has no room in the socket's buffer is lost, and counted. A train that
//! passes whole is one packet of up to 64 KiB.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::packet_socket::{self, Mark};
use crate::sys;

/// The longest packet: IP's length has 16 bits, and IPv6 does not count its header.
const PACKET_BYTES: usize = 65_535 + 40;
/// Room for packets that nobody has read yet; without `CAP_NET_ADMIN` no more than `net.core.rmem_max`.
const BUFFER_BYTES: libc::c_int = 32 << 20;
/// Room for the control message with the time, rounded up.
const CONTROL_BYTES: usize = 64;

/// Packets of this host that bear a mark. Needs `CAP_NET_RAW`.
#[derive(Debug)]
pub struct Sniffer {
    fd: OwnedFd,
    bytes: Box<[u8]>,
    lost: u64,
}

/// A packet that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sniffed<'a> {
    /// When the kernel saw it, by the host's clock.
    pub time: SystemTime,
    /// It leaves this host.
    pub leaving: bool,
    /// Index of the interface that it leaves or comes by.
    pub interface: u32,
    /// All of it, from the header of IP on.
    pub packet: &'a [u8],
}

#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

impl Sniffer {
    /// Takes packets of the interface of this index, or of all, from now on.
    ///
    /// # Errors
    /// The program lacks `CAP_NET_RAW` (`EPERM`), there is no such interface (`ENODEV`), or another error of the system.
    pub fn open(mark: Mark, interface: Option<u32>) -> io::Result<Self> {
        let fd = packet_socket::open(mark, interface, BUFFER_BYTES)?;
        let on: libc::c_int = 1;
        sys::set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, on)?;
        Ok(Self {
            fd,
            bytes: vec![0; PACKET_BYTES].into(),
            lost: 0,
        })
    }

    /// Waits for a packet, for so long at most. True if there may be one.
    ///
    /// # Errors
    /// An error of the system other than a signal.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        match sys::poll_readable(self.fd.as_fd(), Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            result => result,
        }
    }

    /// The next packet, without waiting.
    ///
    /// # Errors
    /// `ENETDOWN` once when an interface goes down: what comes later is taken nevertheless. Another error of the system.
    pub fn next_packet(&mut self) -> io::Result<Option<Sniffed<'_>>> {
        // SAFETY: sockaddr_ll is plain data, for which zero is valid.
        let mut from: libc::sockaddr_ll = unsafe { mem::zeroed() };
        let mut control = Control([0; CONTROL_BYTES]);
        let mut entry = libc::iovec {
            iov_base: self.bytes.as_mut_ptr().cast(),
            iov_len: self.bytes.len(),
        };
        // SAFETY: msghdr is plain data, for which zero is valid.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = ptr::from_mut(&mut from).cast();
        header.msg_namelen = size_of_val(&from) as libc::socklen_t;
        header.msg_iov = &mut entry;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = sys::fit(CONTROL_BYTES);
        // SAFETY: the header points to buffers that are writable for the lengths it gives, and outlive the call.
        let count = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut header, 0) };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        };
        Ok(Some(Sniffed {
            time: time_of(&header).unwrap_or_else(SystemTime::now),
            leaving: from.sll_pkttype == libc::PACKET_OUTGOING,
            interface: u32::try_from(from.sll_ifindex).unwrap_or(0),
            packet: &self.bytes[..count],
        }))
    }

    /// Packets that were lost so far for want of room in the socket's buffer.
    ///
    /// # Errors
    /// An error of the system.
    pub fn lost(&mut self) -> io::Result<u64> {
        // SAFETY: tpacket_stats is plain data, for which zero is valid.
        let mut now: libc::tpacket_stats = unsafe { mem::zeroed() };
        let mut length = size_of_val(&now) as libc::socklen_t;
        // SAFETY: the pointer and the length describe `now`, which is writable and outlives the call.
        sys::check(unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                ptr::from_mut(&mut now).cast(),
                &mut length,
            )
        })?;
        // The kernel begins anew with each answer.
        self.lost += u64::from(now.tp_drops);
        Ok(self.lost)
    }
}

/// The time that the kernel has put beside a packet.
fn time_of(header: &libc::msghdr) -> Option<SystemTime> {
    // SAFETY: the header is as `recvmsg` left it, and its control buffer is still there; the macros stay within it.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while !at.is_null() {
            if ((*at).cmsg_level, (*at).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                let time: libc::timespec = ptr::read_unaligned(libc::CMSG_DATA(at).cast());
                let seconds = u64::try_from(time.tv_sec).ok()?;
                return Some(UNIX_EPOCH + Duration::new(seconds, sys::fit(time.tv_nsec)));
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
        None
    }
}
