//! A socket of packets, of which a filter in the kernel lets through what bears a mark.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::sys;

/// Bytes by which a datagram is known, and their place in its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The first one's place.
    pub at: u8,
    /// Compared as they stand there.
    pub bytes: [u8; 4],
}

/// A socket that gets packets of the interface of this index, or of all, from the header of IP on.
///
/// # Errors
/// The program lacks `CAP_NET_RAW` (`EPERM`), or another error of the system.
pub(crate) fn open(mark: Mark, interface: Option<u32>, buffer: libc::c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // No packets before the filter is there.
    // SAFETY: no pointers are passed.
    let fd = sys::check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut filter = filter(mark);
    let program = libc::sock_fprog {
        len: filter.len() as libc::c_ushort,
        filter: filter.as_mut_ptr(),
    };
    let borrowed = fd.as_fd();
    let forced = sys::set_option(borrowed, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, buffer);
    if forced.is_err() {
        // Without CAP_NET_ADMIN as much as everybody may have.
        sys::set_option(borrowed, libc::SOL_SOCKET, libc::SO_RCVBUF, buffer)?;
    }
    sys::set_option(borrowed, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)?;
    // SAFETY: sockaddr_ll is plain data, for which zero is valid: every interface.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface.map_or(0, sys::fit);
    // SAFETY: the pointer and the length describe `address`, which outlives the call.
    sys::check(unsafe {
        libc::bind(
            fd.as_raw_fd(),
            ptr::from_ref(&address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    })?;
    Ok(fd)
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
const fn filter(mark: Mark) -> [libc::sock_filter; 21] {
    const UDP: u32 = 17;
    const IGMP: u32 = 2;
    const FRAGMENT: u32 = 44;
    let at = mark.at as u32;
    let mark = u32::from_be_bytes(mark.bytes);
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
        step(WORD_BEHIND, 8 + at),
        jump(EQUAL, mark, 10, 9),
        // IPv6.
        step(BYTE, 6),
        jump(EQUAL, 0, 8, 0),
        jump(EQUAL, UDP, 3, 0),
        jump(EQUAL, FRAGMENT, 0, 5),
        step(WORD, 56 + at),
        jump(EQUAL, mark, 4, 3),
        step(WORD, 48 + at),
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
        for at in [0, 4] {
            let filter = filter(Mark {
                at,
                bytes: *b"mark",
            });
            let before = vec![0; 8 + usize::from(at)];
            sorts(
                &filter,
                &[&before, &b"mark and more"[..]].concat(),
                &[&before, &b"park and more"[..]].concat(),
            );
        }
    }

    fn sorts(filter: &[libc::sock_filter], udp: &[u8], other: &[u8]) {
        let fragment = [&[17, 0, 0, 1, 0, 0, 0, 0], udp].concat();
        for packet in [
            v4(17, 0, udp),
            v4(17, 8, udp),
            v4(2, 4, &[0x11]),
            v6(17, udp),
            v6(44, &fragment),
            v6(0, &[58]),
        ] {
            assert!(passes(filter, &packet), "{packet:?}");
        }
        for packet in [
            v4(17, 0, other),
            v4(6, 0, udp),
            v4(17, 0, &udp[..10]),
            v6(17, other),
            v6(6, udp),
            v6(44, udp),
            vec![0x45],
            Vec::new(),
        ] {
            assert!(!passes(filter, &packet), "{packet:?}");
        }
    }
}
