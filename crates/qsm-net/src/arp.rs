//! Another host with an address of this one, as ARP shows it (RFC 5227).

use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::{Duration, Instant};

use crate::sys;

/// Questions that are asked.
const PROBES: u32 = 2;
/// Bytes of ARP about addresses of IPv4 and Ethernet.
const ARP_BYTES: usize = 28;
/// Before the addresses: Ethernet, IPv4, lengths 6 and 4.
const HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: u8 = 1;
const REPLY: u8 = 2;

/// The hardware address of another host that answers for this address on the network behind an interface, by its
/// index; `None`: none answers within the time. The question is asked twice, and needs `CAP_NET_RAW`.
///
/// # Errors
/// The program lacks the right (`EPERM`); the interface has no addresses of Ethernet
/// ([`Unsupported`](io::ErrorKind::Unsupported)), or is down; another error of the system.
pub fn address_claimed(
    interface: u32,
    address: Ipv4Addr,
    wait: Duration,
) -> io::Result<Option<[u8; 6]>> {
    let socket = ArpSocket::open(interface)?;
    for _ in 0..PROBES {
        socket.ask(address)?;
        let until = Instant::now() + wait / PROBES;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if !sys::poll_readable(socket.fd.as_fd(), Some(left))? {
                break;
            }
            if let Some(other) = socket.hear(address)? {
                return Ok(Some(other));
            }
        }
    }
    Ok(None)
}

struct ArpSocket {
    fd: OwnedFd,
    /// The interface, and its hardware address.
    own: libc::sockaddr_ll,
}

impl ArpSocket {
    fn open(interface: u32) -> io::Result<Self> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers are passed.
        let fd = sys::check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: sockaddr_ll is plain data, for which zero is valid.
        let mut own: libc::sockaddr_ll = unsafe { mem::zeroed() };
        own.sll_family = libc::AF_PACKET as libc::c_ushort;
        own.sll_protocol = (libc::ETH_P_ARP as u16).to_be();
        own.sll_ifindex = sys::fit(interface);
        let mut length = size_of_val(&own) as libc::socklen_t;
        // SAFETY: the pointer and the length describe `own`, which outlives the call.
        sys::check(unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(&own).cast(), length) })?;
        // SAFETY: the same, and `own` is writable.
        sys::check(unsafe {
            libc::getsockname(fd.as_raw_fd(), ptr::from_mut(&mut own).cast(), &mut length)
        })?;
        match (own.sll_hatype, own.sll_halen) {
            (libc::ARPHRD_ETHER, 6) => Ok(Self { fd, own }),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Asks everybody who has the address, without saying that this host has it.
    fn ask(&self, address: Ipv4Addr) -> io::Result<()> {
        let question = question(self.hardware(), address);
        let mut to = self.own;
        to.sll_addr = [0xff; 8];
        // SAFETY: both pointers and lengths describe locals that outlive the call; the kernel only reads.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                question.as_ptr().cast(),
                question.len(),
                0,
                ptr::from_ref(&to).cast(),
                size_of_val(&to) as libc::socklen_t,
            )
        };
        match sent < 0 {
            true => Err(io::Error::last_os_error()),
            false => Ok(()),
        }
    }

    /// Another host's answer, if one is there.
    fn hear(&self, address: Ipv4Addr) -> io::Result<Option<[u8; 6]>> {
        let mut bytes = [0; ARP_BYTES];
        // SAFETY: the buffer is writable for its length, and outlives the call.
        let count = unsafe {
            libc::recv(
                self.fd.as_raw_fd(),
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                0,
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        };
        Ok(claimant(&bytes[..count], address, self.hardware()))
    }

    fn hardware(&self) -> [u8; 6] {
        let [a, b, c, d, e, f, ..] = self.own.sll_addr;
        [a, b, c, d, e, f]
    }
}

/// A question of a host that has no address yet.
fn question(from: [u8; 6], address: Ipv4Addr) -> [u8; ARP_BYTES] {
    let mut question = [0; ARP_BYTES];
    question[..6].copy_from_slice(&HEAD);
    question[7] = REQUEST;
    question[8..14].copy_from_slice(&from);
    question[24..].copy_from_slice(&address.octets());
    question
}

/// Who says of itself that it has the address; `own` is not meant.
fn claimant(bytes: &[u8], address: Ipv4Addr, own: [u8; 6]) -> Option<[u8; 6]> {
    let said = bytes.len() >= ARP_BYTES
        && bytes[..6] == HEAD
        && bytes[6] == 0
        && [REQUEST, REPLY].contains(&bytes[7])
        && bytes[14..18] == address.octets();
    let hardware: [u8; 6] = bytes.get(8..14)?.try_into().ok()?;
    (said && hardware != own).then_some(hardware)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];

    #[test]
    fn who_says_that_it_has_the_address_is_told_from_all_others() {
        let address = Ipv4Addr::new(10, 0, 0, 1);
        let question = question(OTHER, address);
        // It asks, and says nothing of itself.
        assert_eq!(claimant(&question, address, OWN), None);
        let mut reply = question;
        reply[7] = REPLY;
        reply[14..18].copy_from_slice(&address.octets());
        assert_eq!(claimant(&reply, address, OWN), Some(OTHER));
        assert_eq!(claimant(&reply, address, OTHER), None);
        assert_eq!(claimant(&reply, Ipv4Addr::new(10, 0, 0, 2), OWN), None);
        for length in 0..ARP_BYTES {
            assert_eq!(claimant(&reply[..length], address, OWN), None);
        }
        reply[1] = 6;
        assert_eq!(claimant(&reply, address, OWN), None);
    }
}
