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
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::sys;

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
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // No packets before the filter is there.
        // SAFETY: no pointers are passed.
        let fd = sys::check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut filter = filter(u32::from_be_bytes(mark));
        let program = libc::sock_fprog {
            len: filter.len() as libc::c_ushort,
            filter: filter.as_mut_ptr(),
        };
        let borrowed = fd.as_fd();
        sys::set_option(borrowed, libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER_BYTES)?;
        sys::set_option(borrowed, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)?;
        // SAFETY: sockaddr_ll is plain data, for which zero is valid: every interface.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: the pointer and the length describe `address`, which outlives the call.
        sys::check(unsafe {
            libc::bind(
                fd.as_raw_fd(),
                ptr::from_ref(&address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        })?;
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

/// An instruction that does not jump.
const fn step(code: u32, k: u32) -> libc::sock_filter {
    jump(code, k, 0, 0)
}

/// A comparison with `k`, and how many instructions it passes over if it holds, and if not.
const fn jump(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

const BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const WORD_BEHIND: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_IND;
const HEADER_LENGTH: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const SHIFT: u32 = libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Lets pass: IGMP, UDP with the mark; of IPv6 what has hop-by-hop options, as MLD has, UDP with the mark, and first
/// fragments of it.
const fn filter(mark: u32) -> [libc::sock_filter; 21] {
    const UDP: u32 = 17;
    const IGMP: u32 = 2;
    const FRAGMENT: u32 = 44;
    [
        step(BYTE, 0),
        step(SHIFT, 4),
        jump(EQUAL, 4, 1, 0),
        jump(EQUAL, 6, 6, 15),
        // IPv4.
        step(BYTE, 9),
        jump(EQUAL, IGMP, 14, 0),
        jump(EQUAL, UDP, 0, 12),
        step(HEADER_LENGTH, 0),
        step(WORD_BEHIND, 8),
        jump(EQUAL, mark, 10, 9),
        // IPv6.
        step(BYTE, 6),
        jump(EQUAL, 0, 8, 0),
        jump(EQUAL, UDP, 3, 0),
        jump(EQUAL, FRAGMENT, 0, 5),
        step(WORD, 56),
        jump(EQUAL, mark, 4, 3),
        step(WORD, 48),
        jump(EQUAL, mark, 2, 1),
        step(RETURN, 0),
        step(RETURN, 0),
        step(RETURN, u32::MAX),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter as the kernel would.
    fn passes(filter: &[libc::sock_filter], packet: &[u8]) -> bool {
        let (mut accumulator, mut index, mut at) = (0_u32, 0_u32, 0_usize);
        let read = |from: u32, bytes: usize| {
            let from = from as usize;
            let read = packet.get(from..from + bytes)?;
            Some(read.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
        };
        loop {
            let one = filter[at];
            at += 1;
            let loaded = match u32::from(one.code) {
                BYTE => read(one.k, 1),
                WORD => read(one.k, 4),
                WORD_BEHIND => read(index + one.k, 4),
                HEADER_LENGTH => {
                    index = 4 * (read(one.k, 1).unwrap() & 15);
                    Some(accumulator)
                }
                SHIFT => Some(accumulator >> one.k),
                EQUAL => {
                    let skipped = match accumulator == one.k {
                        true => one.jt,
                        false => one.jf,
                    };
                    at += usize::from(skipped);
                    Some(accumulator)
                }
                _ => return one.k > 0,
            };
            // A load beyond the packet ends the filter: it does not pass.
            let Some(loaded) = loaded else { return false };
            accumulator = loaded;
        }
    }

    fn v4(protocol: u8, options: usize, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20 + options];
        packet[0] = 0x40 | ((20 + options) / 4) as u8;
        packet[9] = protocol;
        packet.extend(payload);
        packet
    }

    fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x60;
        packet[6] = next;
        packet.extend(payload);
        packet
    }

    #[test]
    fn marked_datagrams_and_queries_pass_and_nothing_else() {
        let filter = filter(u32::from_be_bytes(*b"mark"));
        let udp = [&[0; 8], &b"mark and more"[..]].concat();
        let other = [&[0; 8], &b"park and more"[..]].concat();
        let fragment = [&[17, 0, 0, 1, 0, 0, 0, 0], &udp[..]].concat();
        for packet in [
            v4(17, 0, &udp),
            v4(17, 8, &udp),
            v4(2, 4, &[0x11]),
            v6(17, &udp),
            v6(44, &fragment),
            v6(0, &[58]),
        ] {
            assert!(passes(&filter, &packet), "{packet:?}");
        }
        for packet in [
            v4(17, 0, &other),
            v4(6, 0, &udp),
            v4(17, 0, &udp[..10]),
            v6(17, &other),
            v6(6, &udp),
            v6(44, &udp),
            vec![0x45],
            Vec::new(),
        ] {
            assert!(!passes(&filter, &packet), "{packet:?}");
        }
    }
}
