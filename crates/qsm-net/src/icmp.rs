//! Errors that come back later: "nobody listens there", "no such host".
//!
//! The sending socket sets `IP_RECVERR` or `IPV6_RECVERR`, for two reasons. Without it Linux conceals from UDP that the queue of the device was
//! full and the datagram is gone (`udp_send_skb` turns `ENOBUFS` into success; seen with a small `tbf` queue, Linux 6.18:
//! 99 % lost, no error); with it, `send` says so and can slow down. And a peer's host tells us when its process has died.
//!
//! The price: such errors arrive in a queue of the socket, which charges the receive buffer and keeps epoll awake
//! until read; and one is *also* reported by the next call on the socket, which has nothing to do with it. So the queue
//! is emptied when epoll reports it, and a call that fails while the queue holds something is repeated.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::counters::SendErrorCounters;
use crate::error::SendFailure;

/// Most errors read at once, so that a host that floods us with ICMP cannot hold the thread; the rest is reported again.
const ERRORS_AT_ONCE: usize = 64;
/// Most calls repeated for errors that were not theirs.
pub(crate) const REPEATS: usize = 16;
/// Room for the control message: 16 bytes of header, 16 of error, at most 28 of the address of who reported it; and half as much again.
const CONTROL_BYTES: usize = 96;

#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Reads and counts the errors that came back; returns how many there were.
pub(crate) fn drain(fd: BorrowedFd<'_>, counters: &mut SendErrorCounters) -> usize {
    for count in 0..ERRORS_AT_ONCE {
        let Some(error) = next(fd) else { return count };
        counters.count(SendFailure::of(&error));
    }
    ERRORS_AT_ONCE
}

/// The next error of the queue.
fn next(fd: BorrowedFd<'_>) -> Option<io::Error> {
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: msghdr is plain data, for which zero is valid.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES;
    // SAFETY: the header has no name and no vector, and a control buffer that outlives the call.
    let result = unsafe {
        libc::recvmsg(
            fd.as_raw_fd(),
            &mut header,
            libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
        )
    };
    if result < 0 {
        return None;
    }
    // SAFETY: the kernel filled the control buffer, which is alive; the macros stay within its length, and a message
    // of these levels and types carries a sock_extended_err.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&header);
        while let Some(content) = message.as_ref() {
            let kind = (content.cmsg_level, content.cmsg_type);
            if kind == (libc::IPPROTO_IP, libc::IP_RECVERR)
                || kind == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            {
                let error =
                    ptr::read_unaligned(libc::CMSG_DATA(message).cast::<libc::sock_extended_err>());
                return Some(io::Error::from_raw_os_error(error.ee_errno as i32));
            }
            message = libc::CMSG_NXTHDR(&header, content);
        }
    }
    // An entry without the message (its buffer was too small) was an error all the same.
    Some(io::Error::from_raw_os_error(libc::EIO))
}
