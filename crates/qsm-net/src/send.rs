//! Sending: trains of datagrams in as few system calls, and as few passes through the network stack, as possible.
//!
//! The second matters, not the first: a system call costs 0.2 µs of the 3 to 5 µs that one datagram takes, so `sendmmsg`
//! alone gains nearly nothing, and a GSO train of 46 datagrams ten to twenty times (measured, Linux 6.18). Both are one path
//! here: the bytes are cut into *chunks*, one message each, and a chunk is a train with offload and a datagram without.
//!
//! Offload can be refused: by an old kernel, or by a device without checksum offload (`EIO`, older kernels), or for a
//! reason we do not know (`EINVAL`). Then the same bytes go once more one by one, and if that works, trains are not
//! tried again on this port. Datagrams above the MTU cannot travel in trains, so they never try.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::address::{Family, Raw};
use crate::control::Control;
use crate::counters::SendCounters;
use crate::error::{SendError, SendFailure, Sent};
use crate::icmp::{self, Refusals};
use crate::interface::Interface;
use crate::sys;

/// Most datagrams of a train: what every kernel with GSO takes (`UDP_MAX_SEGMENTS`; 128 since Linux 6.11).
pub(crate) const TRAIN_MAX: usize = 64;
/// Messages of one system call. More gained nothing; the arrays live on the stack.
pub(crate) const MESSAGES: usize = 32;
/// Room for the one control message, of 24 bytes on 64-bit machines.
const CONTROL_BYTES: usize = 32;

/// Whether trains are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gso {
    /// They are.
    On,
    /// The configuration forbids it.
    OffByConfiguration,
    /// The kernel does not know `UDP_SEGMENT` (before 4.18).
    OffByKernel,
    /// Kernel or device refused a train with this error number, and took the datagrams one by one.
    Refused(i32),
}

#[derive(Debug)]
pub(crate) struct Transmitter {
    pub(crate) gso: Gso,
    /// Who refused what was sent.
    pub(crate) refusals: Refusals,
    family: Family,
    /// Index of the interface.
    interface: u32,
    mtu: usize,
}

/// How to cut the bytes.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Bytes of a message.
    chunk: usize,
    /// Bytes of a datagram.
    segment: usize,
}

impl Cut {
    fn train(segment: usize, family: Family) -> Self {
        Self {
            chunk: segment * TRAIN_MAX.min(family.payload_max_bytes() / segment),
            segment,
        }
    }

    fn single(segment: usize) -> Self {
        Self {
            chunk: segment,
            segment,
        }
    }
}

impl Transmitter {
    pub(crate) fn new(gso: Gso, interface: &Interface) -> Self {
        Self {
            gso,
            refusals: Refusals::default(),
            family: interface.family(),
            interface: interface.index,
            mtu: interface.mtu as usize,
        }
    }

    /// Sends by another interface from now on.
    pub(crate) fn follow(&mut self, interface: &Interface) {
        *self = Self {
            refusals: mem::take(&mut self.refusals),
            ..Self::new(self.gso, interface)
        };
    }

    /// Tells whether datagrams of so many bytes leave in trains.
    pub(crate) fn sends_trains_of(&self, segment_bytes: usize) -> bool {
        let packet_bytes = segment_bytes + self.family.header_bytes();
        self.gso == Gso::On && packet_bytes <= self.mtu
    }

    pub(crate) fn send(
        &mut self,
        fd: BorrowedFd<'_>,
        to: SocketAddr,
        bytes: &[u8],
        segment_bytes: usize,
        counters: &mut SendCounters,
    ) -> Result<Sent, SendError> {
        if segment_bytes == 0 || segment_bytes > self.family.payload_max_bytes() {
            let max_bytes = self.family.payload_max_bytes();
            return Err(SendError::SegmentSize {
                segment_bytes,
                max_bytes,
            });
        }
        if Family::of(to.ip()) != self.family {
            return Err(SendError::OtherFamily { to });
        }
        let name = Raw::new(to, self.interface);
        let mut cut = if self.sends_trains_of(segment_bytes) {
            Cut::train(segment_bytes, self.family)
        } else {
            Cut::single(segment_bytes)
        };
        let mut sent = Sent::default();
        // The error that a train met, until its datagrams have passed, which shows that the train was at fault.
        let mut suspicion = None;
        let mut repeats = icmp::REPEATS;
        while sent.bytes < bytes.len() {
            let rest = &bytes[sent.bytes..];
            sent.calls += 1;
            counters.calls += 1;
            let error = match send_batch(fd, &name, rest, cut) {
                Ok(messages) => {
                    account(
                        &mut sent,
                        counters,
                        rest.len().min(messages * cut.chunk),
                        cut,
                    );
                    if let Some(number) = suspicion.take() {
                        self.gso = Gso::Refused(number);
                    }
                    continue;
                }
                Err(error) => error,
            };
            let train = cut.chunk > cut.segment && rest.len() > cut.segment;
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => {
                    counters.errors.would_block += 1;
                    return Err(SendError::WouldBlock { sent });
                }
                Some(number @ (libc::EIO | libc::EINVAL)) if train => {
                    counters.errors.trains_refused += 1;
                    suspicion = Some(number);
                    cut = Cut::single(segment_bytes);
                }
                // The path is narrower than the interface: a matter of this destination, not of the device.
                Some(libc::EMSGSIZE) if train => cut = Cut::single(segment_bytes),
                // The kernel reports what ICMP said about an earlier datagram by failing this one.
                _ if repeats > 0
                    && icmp::drain(fd, &mut counters.errors, &mut self.refusals) > 0 =>
                {
                    repeats -= 1;
                }
                _ => return Err(failed(error, to, sent, counters)),
            }
        }
        Ok(sent)
    }
}

fn account(sent: &mut Sent, counters: &mut SendCounters, bytes: usize, cut: Cut) {
    let datagrams = bytes.div_ceil(cut.segment);
    sent.bytes += bytes;
    sent.datagrams += datagrams;
    counters.bytes += bytes as u64;
    counters.datagrams += datagrams as u64;
    if cut.chunk > cut.segment {
        // All chunks are trains, except a last one of a single datagram.
        let last_is_single = (bytes - 1) % cut.chunk < cut.segment;
        counters.trains += (bytes.div_ceil(cut.chunk) - usize::from(last_is_single)) as u64;
    }
}

fn failed(source: io::Error, to: SocketAddr, sent: Sent, counters: &mut SendCounters) -> SendError {
    let failure = SendFailure::of(&source);
    counters.errors.count(failure);
    SendError::Failed {
        failure,
        to,
        sent,
        source,
    }
}

/// Sends as many chunks as one call takes; returns how many the kernel took.
fn send_batch(fd: BorrowedFd<'_>, name: &Raw, bytes: &[u8], cut: Cut) -> io::Result<usize> {
    let mut vectors = [libc::iovec {
        iov_base: ptr::null_mut(),
        iov_len: 0,
    }; MESSAGES];
    // SAFETY: mmsghdr is plain data, for which zero is valid.
    let mut messages: [libc::mmsghdr; MESSAGES] = unsafe { mem::zeroed() };
    // All trains of a call have the same segment size, so they share one control message, which the kernel only reads.
    let mut control = Control::<CONTROL_BYTES>::EMPTY;
    let control_length = control.put_segment(0, cut.segment);
    let mut count = 0;
    for chunk in bytes.chunks(cut.chunk).take(MESSAGES) {
        vectors[count] = libc::iovec {
            iov_base: chunk.as_ptr().cast_mut().cast(),
            iov_len: chunk.len(),
        };
        let header = &mut messages[count].msg_hdr;
        header.msg_name = ptr::from_ref(name).cast_mut().cast();
        header.msg_namelen = name.bytes();
        header.msg_iov = &mut vectors[count];
        header.msg_iovlen = 1;
        if chunk.len() > cut.segment {
            header.msg_control = control.as_mut_ptr();
            header.msg_controllen = sys::fit(control_length);
        }
        count += 1;
    }
    // SAFETY: each message points to the name, one vector over a part of `bytes`, and perhaps the control message; all
    // outlive the call, and the kernel only reads them. Padding, which musl has in place of the upper half of lengths, is
    // zero as all that was not written. The call goes past the C library, since musl's sends one message after the other.
    let taken = unsafe {
        libc::syscall(
            libc::SYS_sendmmsg,
            fd.as_raw_fd(),
            messages.as_mut_ptr(),
            count as libc::c_uint,
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(taken).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::os::fd::{AsFd, OwnedFd};

    use super::*;
    use crate::sys;

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    fn transmitter(addr: IpAddr, mtu: u32) -> Transmitter {
        let interface = Interface {
            name: "lo".to_owned(),
            index: 1,
            addr,
            mtu,
            loopback: true,
            multicast: false,
            medium: crate::Medium::Wire,
        };
        Transmitter::new(Gso::On, &interface)
    }

    /// A socket bound to a loopback address; `None` where this host lacks the family.
    fn socket(addr: IpAddr) -> Option<(OwnedFd, SocketAddr)> {
        let fd = sys::udp_socket(Family::of(addr)).ok()?;
        sys::bind(fd.as_fd(), &Raw::new((addr, 0).into(), 1)).ok()?;
        let address = sys::local_addr(fd.as_fd()).ok()?;
        Some((fd, address))
    }

    /// A socket without checksums cannot send trains (`udp_send_skb`), which makes the kernel refuse one on purpose.
    #[test]
    fn a_refused_train_goes_out_as_single_datagrams_and_is_not_tried_again() {
        let ((from, _), (to, address)) = (socket(V4).unwrap(), socket(V4).unwrap());
        sys::set_option(from.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
        let mut transmitter = transmitter(V4, 65_536);
        let mut counters = SendCounters::default();
        for _ in 0..2 {
            let sent = transmitter
                .send(from.as_fd(), address, &[1; 4500], 1000, &mut counters)
                .unwrap();
            assert_eq!((sent.bytes, sent.datagrams), (4500, 5));
        }
        assert!(
            matches!(transmitter.gso, Gso::Refused(libc::EINVAL | libc::EIO)),
            "{:?}",
            transmitter.gso
        );
        assert_eq!(
            (
                counters.errors.trains_refused,
                counters.trains,
                counters.datagrams
            ),
            (1, 0, 10)
        );
        assert!(sys::poll_readable(to.as_fd(), Some(std::time::Duration::from_secs(20))).unwrap());
    }

    #[test]
    fn datagrams_above_the_mtu_do_not_try_trains() {
        for (addr, fits) in [(V4, 1472), (V6, 1452)] {
            let Some((socket, address)) = socket(addr) else {
                continue;
            };
            let mut transmitter = transmitter(addr, 1500);
            let mut counters = SendCounters::default();
            transmitter
                .send(socket.as_fd(), address, &[1; 2000], fits, &mut counters)
                .unwrap();
            assert_eq!(counters.trains, 1);
            transmitter
                .send(socket.as_fd(), address, &[1; 2000], fits + 1, &mut counters)
                .unwrap();
            assert_eq!((counters.trains, counters.datagrams), (1, 4));
            assert_eq!(transmitter.gso, Gso::On);
        }
    }

    #[test]
    fn the_other_family_is_refused_before_the_kernel_is_asked() {
        let (socket, _) = socket(V4).unwrap();
        let mut counters = SendCounters::default();
        let error = transmitter(V4, 1500)
            .send(socket.as_fd(), (V6, 9).into(), &[1], 1, &mut counters)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot send to [::1]:9 from an IPv4 address; all nodes must use interfaces of one family"
        );
        assert_eq!(counters, SendCounters::default());
    }

    #[test]
    fn trains_respect_both_limits() {
        for family in [Family::V4, Family::V6] {
            let most = family.payload_max_bytes();
            for segment in [1, 100, 1000, 1023, 1024, 1400, 40_000, most] {
                let cut = Cut::train(segment, family);
                assert_eq!(cut.chunk % segment, 0);
                assert!(
                    cut.chunk <= most && cut.chunk / segment <= TRAIN_MAX,
                    "{cut:?}"
                );
                assert!(
                    cut.chunk + segment > most || cut.chunk / segment == TRAIN_MAX,
                    "{cut:?}"
                );
            }
        }
    }

    #[test]
    fn accounts_short_ends() {
        let count = |bytes| {
            let (mut sent, mut counters) = (Sent::default(), SendCounters::default());
            account(
                &mut sent,
                &mut counters,
                bytes,
                Cut {
                    chunk: 40,
                    segment: 10,
                },
            );
            assert_eq!(sent.datagrams as u64, counters.datagrams);
            (sent.datagrams, counters.trains)
        };
        assert_eq!(count(40), (4, 1));
        assert_eq!(count(39), (4, 1));
        assert_eq!(count(41), (5, 1));
        assert_eq!(count(50), (5, 1));
        assert_eq!(count(51), (6, 2));
        assert_eq!(count(7), (1, 0));
    }
}
