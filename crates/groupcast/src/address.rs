//! Addresses of sockets as the kernel lays them out.

use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::RawFd;

use crate::sockopt::check;

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
            Some(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// The address that a socket is bound to.
pub(crate) fn local_address(fd: RawFd) -> io::Result<SocketAddr> {
    // SAFETY: plain data for which zeroes are valid.
    let mut name: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let mut len = size_of_val(&name) as libc::socklen_t;
    // SAFETY: both point to live memory, and `len` states the size of the first.
    check(unsafe { libc::getsockname(fd, (&raw mut name).cast(), &raw mut len) })?;
    address(&name).ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
}
