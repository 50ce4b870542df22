//! Errors that come back later: "nobody listens there", "no such host".
//!
//! The sending socket sets `IP_RECVERR` or `IPV6_RECVERR`, for two reasons. Without it Linux conceals from UDP that the queue of the device was
//! full and the datagram is gone (`udp_send_skb` turns `ENOBUFS` into success; seen with a small `tbf` queue, Linux 6.18:
//! 99 % lost, no error); with it, `send` says so and can slow down. And a peer's host tells us when its process has died.
//!
//! The price: such errors arrive in a queue of the socket, which charges the receive buffer and keeps epoll awake
//! until read; and one is *also* reported by the next call on the socket, which has nothing to do with it. So the queue
//! is emptied when epoll reports it, and a call that fails while the queue holds something is repeated.
//!
//! Each error comes with the address that the datagram was for, so the socket that sends everything is the one that
//! hears of dead processes: [`Refusals`] keeps who refused. Connected sockets beside it, one for each host in doubt, would
//! hear less: a host reports one refusal a second to another host, after a burst of six (`net.ipv4.icmp_ratelimit`), and
//! whatever was sent by the other socket may have used that up.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::address::Raw;
use crate::counters::SendErrorCounters;
use crate::error::SendFailure;
use crate::sys;

/// Most errors read at once, so that a host that floods us with ICMP cannot hold the thread; the rest is reported again.
const ERRORS_AT_ONCE: usize = 64;
/// Most calls repeated for errors that were not theirs.
pub(crate) const REPEATS: usize = 16;
/// Addresses that refused and wait to be asked for; the oldest go first. Who is still not there refuses again.
const REFUSALS_MAX: usize = 64;
/// Room for the control message: 16 bytes of header, 16 of error, at most 28 of the address of who reported it; and half as much again.
const CONTROL_BYTES: usize = 96;

#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Hosts that said that nobody listens at an address, each once.
#[derive(Debug, Default)]
pub(crate) struct Refusals(VecDeque<SocketAddr>);

impl Refusals {
    fn note(&mut self, address: SocketAddr) {
        if self.0.contains(&address) {
            return;
        }
        if self.0.len() == REFUSALS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(address);
    }

    /// The one that has waited longest.
    pub(crate) fn take(&mut self) -> Option<SocketAddr> {
        self.0.pop_front()
    }
}

/// An error that came back.
struct Returned {
    error: io::Error,
    /// Where nobody listens, as the host at this address says itself.
    refused: Option<SocketAddr>,
}

impl Returned {
    fn new(to: SocketAddr, report: &libc::sock_extended_err, reporter: SocketAddr) -> Self {
        let from_network = matches!(
            report.ee_origin,
            libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6
        );
        let error = io::Error::from_raw_os_error(report.ee_errno as i32);
        // A firewall on the way refuses for others: what it says is not about a process.
        let own = reporter.ip() == to.ip();
        let refused = from_network && own && SendFailure::of(&error) == SendFailure::Refused;
        Self {
            error,
            refused: refused.then_some(to),
        }
    }
}

/// Reads and counts the errors that came back, and notes who refused; returns how many there were.
pub(crate) fn drain(
    fd: BorrowedFd<'_>,
    counters: &mut SendErrorCounters,
    refusals: &mut Refusals,
) -> usize {
    for count in 0..ERRORS_AT_ONCE {
        let Some(returned) = next(fd) else {
            return count;
        };
        counters.count(SendFailure::of(&returned.error));
        if let Some(address) = returned.refused {
            refusals.note(address);
        }
    }
    ERRORS_AT_ONCE
}

/// The next error of the queue.
fn next(fd: BorrowedFd<'_>) -> Option<Returned> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut name = Raw::EMPTY;
    // SAFETY: msghdr is plain data, for which zero is valid.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = ptr::from_mut(&mut name).cast();
    header.msg_namelen = Raw::ROOM_BYTES;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = sys::fit(CONTROL_BYTES);
    // SAFETY: the header has no vector, and a name and a control buffer that outlive the call.
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
    // of these levels and types carries a sock_extended_err and, as far as its length says, an address behind it.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&header);
        while let Some(content) = message.as_ref() {
            let kind = (content.cmsg_level, content.cmsg_type);
            if kind == (libc::IPPROTO_IP, libc::IP_RECVERR)
                || kind == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            {
                let data = libc::CMSG_DATA(message);
                let report = ptr::read_unaligned(data.cast::<libc::sock_extended_err>());
                let head = libc::CMSG_LEN(size_of_val(&report) as libc::c_uint) as usize;
                let mut reporter = Raw::EMPTY;
                let bytes = sys::fit::<_, usize>(content.cmsg_len).saturating_sub(head);
                ptr::copy_nonoverlapping(
                    data.add(size_of_val(&report)),
                    ptr::from_mut(&mut reporter).cast(),
                    bytes.min(size_of::<Raw>()),
                );
                return Some(Returned::new(name.address(), &report, reporter.address()));
            }
            message = libc::CMSG_NXTHDR(&header, content);
        }
    }
    // An entry without the message (its buffer was too small) was an error all the same.
    Some(Returned {
        error: io::Error::from_raw_os_error(libc::EIO),
        refused: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], port))
    }

    fn report(errno: i32, origin: u8) -> libc::sock_extended_err {
        libc::sock_extended_err {
            ee_errno: errno as u32,
            ee_origin: origin,
            ee_type: 0,
            ee_code: 0,
            ee_pad: 0,
            ee_info: 0,
            ee_data: 0,
        }
    }

    #[test]
    fn only_the_host_itself_can_refuse() {
        let refused = |report, reporter| Returned::new(at(1, 9), &report, reporter).refused;
        let icmp = libc::SO_EE_ORIGIN_ICMP;
        assert_eq!(
            refused(report(libc::ECONNREFUSED, icmp), at(1, 0)),
            Some(at(1, 9))
        );
        assert_eq!(refused(report(libc::ECONNREFUSED, icmp), at(2, 0)), None);
        assert_eq!(refused(report(libc::EHOSTUNREACH, icmp), at(1, 0)), None);
        let local = libc::SO_EE_ORIGIN_LOCAL;
        assert_eq!(refused(report(libc::ECONNREFUSED, local), at(1, 0)), None);
    }

    #[test]
    fn refusals_that_nobody_asks_for_have_a_bound() {
        let mut refusals = Refusals::default();
        let ports = 1..=u16::try_from(REFUSALS_MAX).unwrap() + 1;
        for port in ports.clone().chain([9, 9]) {
            refusals.note(at(1, port));
        }
        let taken: Vec<_> = std::iter::from_fn(|| refusals.take()).collect();
        assert_eq!(
            taken,
            ports.skip(1).map(|port| at(1, port)).collect::<Vec<_>>()
        );
    }
}
