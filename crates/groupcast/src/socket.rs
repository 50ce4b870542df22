//! A UDP socket of the caller's, and what the kernel says about it.
//!
//! A back-end that builds packets itself must build the ones that the socket would have sent, so
//! the options that show on the wire are read from it: addresses, TTL, traffic class, mark,
//! priority, the device it is bound to.
//!
//! `IP_RECVERR` is switched on, for two reasons. Without it the kernel swallows full device queues
//! (`ENOBUFS`), and it reports no ICMP error at all to a socket that is not connected. With it,
//! ICMP errors wait in the error queue, each with the address of the recipient it is about; besides,
//! the *next* send fails with the error, whoever that send is for. [`Socket::drain`] reads the
//! queue, so that the error is charged to the right recipient.

use std::collections::HashMap;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use crate::error::{Errno, Error};
use crate::recipient::RECIPIENTS_MAX;

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
}

/// What of a socket's state shows on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// Address and port it is bound to; the address may be the wildcard.
    pub(crate) local: SocketAddr,
    /// TTL, or hop limit.
    pub(crate) ttl: u8,
    /// Type of service, or traffic class.
    pub(crate) tos: u8,
    pub(crate) mark: u32,
    pub(crate) priority: u32,
    /// Index of the interface it is bound to; 0 for none.
    pub(crate) device: u32,
    /// Whether datagrams within the MTU carry "don't fragment".
    pub(crate) dont_fragment: bool,
    /// Whether it has something that only the kernel can put into packets, e.g. IP options.
    pub(crate) special: bool,
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
        let (level, name) = if v6 {
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        } else {
            (libc::IPPROTO_IP, libc::IP_RECVERR)
        };
        set_option(fd, level, name, 1).map_err(failed)?;
        bind_any(fd, v6).map_err(failed)?;
        let options = Options::read(fd, v6).map_err(failed)?;
        Ok(Self {
            fd,
            owner: None,
            v6,
            options,
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

/// Whether two sockets are in the same network namespace.
pub(crate) fn same_namespace(one: RawFd, other: RawFd) -> bool {
    let cookie = |fd| wide_option(fd, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE).ok();
    match (cookie(one), cookie(other)) {
        (Some(one), Some(other)) => one == other,
        // Linux before 5.14 cannot tell.
        _ => true,
    }
}

impl Options {
    fn read(fd: RawFd, v6: bool) -> io::Result<Self> {
        let (level, ttl, tos, discover) = if v6 {
            (
                libc::IPPROTO_IPV6,
                libc::IPV6_UNICAST_HOPS,
                libc::IPV6_TCLASS,
                libc::IPV6_MTU_DISCOVER,
            )
        } else {
            (
                libc::IPPROTO_IP,
                libc::IP_TTL,
                libc::IP_TOS,
                libc::IP_MTU_DISCOVER,
            )
        };
        let dont = if v6 {
            libc::IPV6_PMTUDISC_DONT
        } else {
            libc::IP_PMTUDISC_DONT
        };
        let unsigned = |value: i32| u32::try_from(value).unwrap_or(0);
        // -1 is the default of IPv6, 64 unless the administrator chose otherwise.
        let ttl = u8::try_from(option(fd, level, ttl)?).unwrap_or(64);
        Ok(Self {
            local: local_address(fd)?,
            ttl,
            tos: u8::try_from(option(fd, level, tos)?).unwrap_or(0),
            mark: unsigned(option(fd, libc::SOL_SOCKET, libc::SO_MARK)?),
            priority: unsigned(option(fd, libc::SOL_SOCKET, libc::SO_PRIORITY)?),
            device: unsigned(option(fd, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX).unwrap_or(0)),
            dont_fragment: option(fd, level, discover)? != dont,
            special: !v6 && has_ip_options(fd),
        })
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

fn local_address(fd: RawFd) -> io::Result<SocketAddr> {
    // SAFETY: plain data for which zeroes are valid.
    let mut name: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let mut len = size_of_val(&name) as libc::socklen_t;
    // SAFETY: both point to live memory, and `len` states the size of the first.
    check(unsafe { libc::getsockname(fd, (&raw mut name).cast(), &raw mut len) })?;
    address(&name).ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
}

fn has_ip_options(fd: RawFd) -> bool {
    let mut bytes = [0_u8; 40];
    let mut len = bytes.len() as libc::socklen_t;
    // SAFETY: both point to live memory, and `len` states the size of the first.
    let read = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_IP,
            libc::IP_OPTIONS,
            bytes.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    read == 0 && len > 0
}

/// A socket address as the kernel lays it out.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    /// The larger of the two; an IPv4 address lies in the same place.
    v6: libc::sockaddr_in6,
    len: libc::socklen_t,
}

impl Name {
    pub(crate) fn new(to: SocketAddr) -> Self {
        // SAFETY: plain data for which zeroes are valid.
        let mut v6: libc::sockaddr_in6 = unsafe { mem::zeroed() };
        let len = match to {
            SocketAddr::V4(to) => {
                let v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: to.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(to.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: the target is larger than and as aligned as what is written.
                unsafe { (&raw mut v6).cast::<libc::sockaddr_in>().write(v4) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(to) => {
                v6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                v6.sin6_port = to.port().to_be();
                v6.sin6_flowinfo = to.flowinfo();
                v6.sin6_addr.s6_addr = to.ip().octets();
                v6.sin6_scope_id = to.scope_id();
                size_of::<libc::sockaddr_in6>()
            }
        };
        Self {
            v6,
            len: len as libc::socklen_t,
        }
    }

    pub(crate) fn as_ptr(&self) -> *const libc::sockaddr_in6 {
        &raw const self.v6
    }

    pub(crate) fn len(&self) -> libc::socklen_t {
        self.len
    }
}

/// The other way round; `None` for other families.
pub(crate) fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: an address of this family is a `sockaddr_in`, and the storage is larger.
            let v4 = unsafe { *(&raw const *name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a `sockaddr_in6`, and the storage is larger.
            let v6 = unsafe { *(&raw const *name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(std::net::SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

pub(crate) fn check(returned: libc::c_int) -> io::Result<()> {
    if returned < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

pub(crate) fn option(fd: RawFd, level: i32, name: i32) -> io::Result<i32> {
    let mut value: libc::c_int = 0;
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: both point to live memory, and `len` states the size of the first.
    check(unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) })?;
    Ok(value)
}

pub(crate) fn wide_option(fd: RawFd, level: i32, name: i32) -> io::Result<u64> {
    let mut value: u64 = 0;
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: both point to live memory, and `len` states the size of the first.
    check(unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) })?;
    Ok(value)
}

pub(crate) fn set_option(fd: RawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointer is to live memory of the length given.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) })
}
