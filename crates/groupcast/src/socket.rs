//! A UDP socket of the caller's, and what the kernel says about it.
//!
//! `IP_RECVERR` is switched on, for two reasons. Without it the kernel swallows full device queues
//! (`ENOBUFS`), and it reports no ICMP error at all to a socket that is not connected. With it,
//! ICMP errors wait in the error queue, each with the address of the recipient it is about; besides,
//! the *next* send fails with the error, whoever that send is for. [`Socket::drain`] reads the
//! queue, so that the error is charged to the right recipient. When the socket is let go of, the
//! option is what it was.

use std::collections::HashMap;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use crate::address::{Name, address, local_address};
use crate::error::{Errno, Error};
use crate::fork::Origin;
use crate::options::Options;
use crate::recipient::RECIPIENTS_MAX;
use crate::sockopt::{check, cookie, namespace_cookie, option, set_option};

/// ICMP errors that no call has reported yet, by recipient.
pub(crate) type Faults = HashMap<SocketAddr, Errno>;

/// A socket that a sender sends by.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: RawFd,
    /// Closes it, unless it stays the caller's.
    owner: Option<UdpSocket>,
    pub(crate) v6: bool,
    pub(crate) options: Options,
    reports: Reports,
}

/// The switch that makes the kernel report errors, `IP_RECVERR`, and how it was before.
#[derive(Debug)]
struct Reports {
    level: i32,
    name: i32,
    before: i32,
    /// Of the socket: its descriptor may be another one's by the end.
    cookie: u64,
    /// A forked process must leave the socket as the other one needs it.
    origin: Origin,
}

impl Socket {
    /// Takes over a socket.
    pub(crate) fn owned(socket: UdpSocket) -> Result<Self, Error> {
        let mut made = Self::borrowed(socket.as_raw_fd())?;
        made.owner = Some(socket);
        Ok(made)
    }

    /// Uses a socket that stays the caller's, who must keep it open.
    pub(crate) fn borrowed(fd: RawFd) -> Result<Self, Error> {
        let failed = |e| Error::system("prepare the socket", e);
        let domain = option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN).map_err(failed)?;
        let v6 = domain == libc::AF_INET6;
        bind_any(fd, v6).map_err(failed)?;
        let options = Options::read(fd, v6).map_err(failed)?;
        // Last, so that it is not left on by a failure.
        let reports = Reports::switch_on(fd, v6).map_err(failed)?;
        Ok(Self {
            fd,
            owner: None,
            v6,
            options,
            reports,
        })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd
    }

    pub(crate) fn owner(&self) -> Option<&UdpSocket> {
        self.owner.as_ref()
    }

    /// Reads the options again; `true` if they are other ones.
    pub(crate) fn refresh(&mut self) -> bool {
        match Options::read(self.fd, self.v6) {
            Ok(options) if options != self.options => {
                self.options = options;
                true
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// Moves ICMP errors from the socket's queue to `faults`; how many entries there were.
    pub(crate) fn drain(&self, faults: &mut Faults) -> usize {
        let mut entries = 0;
        while let Some((to, error)) = self.next_fault() {
            entries += 1;
            // The map is bounded like the groups it speaks of; what is over is sent to again and
            // refused again.
            if let (Some(to), true) = (to, faults.len() < RECIPIENTS_MAX) {
                faults.insert(to, error);
            }
        }
        entries
    }

    fn next_fault(&self) -> Option<(Option<SocketAddr>, Errno)> {
        // SAFETY: all three are plain data for which zeroes are valid.
        let (mut name, mut header): (libc::sockaddr_storage, libc::msghdr) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        let mut control = [0_u64; 64];
        header.msg_name = (&raw mut name).cast();
        header.msg_namelen = size_of_val(&name) as libc::socklen_t;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the header points to live, writable memory of the sizes that it states.
        if unsafe { libc::recvmsg(self.fd, &raw mut header, flags) } < 0 {
            return None;
        }
        let mut found = (None, Errno::SENT);
        // SAFETY: the kernel has filled in the control buffer and its length in `header`.
        let mut at = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
        while !at.is_null() {
            // SAFETY: the macros only give places within the control buffer that hold a message.
            let message = unsafe { *at };
            if matches!(
                (message.cmsg_level, message.cmsg_type),
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            ) {
                // SAFETY: a message of this type begins with a `sock_extended_err`; it may be
                // unaligned, hence the unaligned read.
                let error: libc::sock_extended_err = unsafe {
                    libc::CMSG_DATA(at)
                        .cast::<libc::sock_extended_err>()
                        .read_unaligned()
                };
                found = self.fault(&error, &name);
            }
            // SAFETY: as above; null at the end.
            at = unsafe { libc::CMSG_NXTHDR(&raw const header, at) };
        }
        Some(found)
    }

    /// What an entry of the error queue means: nothing if it is of local origin, since the call
    /// that caused it has returned the error already.
    fn fault(
        &self,
        error: &libc::sock_extended_err,
        name: &libc::sockaddr_storage,
    ) -> (Option<SocketAddr>, Errno) {
        let errno = i32::try_from(error.ee_errno).unwrap_or(libc::EIO);
        let icmp = [libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_ICMP6];
        let to = icmp
            .contains(&error.ee_origin)
            .then(|| address(name))
            .flatten();
        (to, Errno::new(errno))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.reports.restore(self.fd);
    }
}

impl Reports {
    fn switch_on(fd: RawFd, v6: bool) -> io::Result<Self> {
        let (level, name) = if v6 {
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        } else {
            (libc::IPPROTO_IP, libc::IP_RECVERR)
        };
        let before = option(fd, level, name)?;
        let cookie = cookie(fd)?;
        set_option(fd, level, name, 1)?;
        Ok(Self {
            level,
            name,
            before,
            cookie,
            origin: Origin::here(),
        })
    }

    /// Switches off what was off before, unless the socket is closed or used by another process.
    fn restore(&self, fd: RawFd) {
        let same = cookie(fd).is_ok_and(|cookie| cookie == self.cookie);
        if self.before != 0 || !same || !self.origin.is_here() {
            return;
        }
        // This empties the error queue; a socket that is open takes it.
        drop(set_option(fd, self.level, self.name, self.before));
        // Reading an error takes it away, which would else be that of the caller's next datagram,
        // whoever that is for.
        drop(option(fd, libc::SOL_SOCKET, libc::SO_ERROR));
    }
}

/// Tells whether two sockets are in the same network namespace.
pub(crate) fn same_namespace(one: RawFd, other: RawFd) -> bool {
    match (namespace_cookie(one), namespace_cookie(other)) {
        (Ok(one), Ok(other)) => one == other,
        // Linux before 5.14 cannot tell.
        _ => true,
    }
}

/// Gives an unbound socket a port, as its first send would.
fn bind_any(fd: RawFd, v6: bool) -> io::Result<()> {
    if local_address(fd)?.port() != 0 {
        return Ok(());
    }
    let any: IpAddr = if v6 {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    };
    let name = Name::new(SocketAddr::new(any, 0));
    // SAFETY: `name` is an address of the length given.
    check(unsafe { libc::bind(fd, name.as_ptr().cast(), name.len()) })
}
