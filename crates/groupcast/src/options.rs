//! The options of a socket that show on the wire, or decide on the way there.
//!
//! A back-end that does not send by the caller's socket must send what that socket would have sent.
//! The options that it can do the same with are read one by one: addresses, TTL, traffic class,
//! mark, priority, the interface to send by, the user that rules go by. A socket with any other
//! option that changes a datagram is [special](Options::special): all its datagrams go by itself.

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;

use crate::address::{Name, local_address};
use crate::sockopt::{check, has_bytes, option};

/// Options of a socket as far as a datagram depends on them.
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
    /// Index of the interface that it sends unicast by (`IP_UNICAST_IF`); 0 for none.
    pub(crate) unicast_device: u32,
    /// Its user, whom rules for routing may name.
    pub(crate) user: u32,
    /// Whether datagrams within the MTU carry "don't fragment".
    pub(crate) dont_fragment: bool,
    /// Whether it has something that only the kernel can put into packets, e.g. IP options.
    pub(crate) special: bool,
}

impl Options {
    pub(crate) fn read(fd: RawFd, v6: bool) -> io::Result<Self> {
        let (level, ttl, tos, discover, unicast) = if v6 {
            (
                libc::IPPROTO_IPV6,
                libc::IPV6_UNICAST_HOPS,
                libc::IPV6_TCLASS,
                libc::IPV6_MTU_DISCOVER,
                libc::IPV6_UNICAST_IF,
            )
        } else {
            (
                libc::IPPROTO_IP,
                libc::IP_TTL,
                libc::IP_TOS,
                libc::IP_MTU_DISCOVER,
                libc::IP_UNICAST_IF,
            )
        };
        // The other kinds leave it to the network, over both IP versions.
        let whole = [
            libc::IP_PMTUDISC_WANT,
            libc::IP_PMTUDISC_DO,
            libc::IP_PMTUDISC_PROBE,
        ];
        let unsigned = |value: i32| u32::try_from(value).unwrap_or(0);
        // -1 is the default of IPv6, 64 unless the administrator chose otherwise.
        let ttl = u8::try_from(option(fd, level, ttl)?).unwrap_or(64);
        let mut options = Self {
            local: local_address(fd)?,
            ttl,
            tos: u8::try_from(option(fd, level, tos)?).unwrap_or(0),
            mark: unsigned(option(fd, libc::SOL_SOCKET, libc::SO_MARK)?),
            priority: unsigned(option(fd, libc::SOL_SOCKET, libc::SO_PRIORITY)?),
            device: unsigned(option(fd, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX).unwrap_or(0)),
            // In the order of the network.
            unicast_device: u32::from_be(option(fd, level, unicast).unwrap_or(0) as u32),
            user: user(fd)?,
            dont_fragment: whole.contains(&option(fd, level, discover)?),
            special: false,
        };
        options.special = is_special(fd)
            || if v6 {
                options.is_special_v6(fd)
            } else {
                has_bytes(fd, libc::IPPROTO_IP, libc::IP_OPTIONS)
            };
        Ok(options)
    }

    fn is_special_v6(&self, fd: RawFd) -> bool {
        /// Which of its addresses a host prefers as source: temporary, public, of its own network.
        const PREFERS: i32 = 1 | 2 | 4;
        let extensions = [
            libc::IPV6_HOPOPTS,
            libc::IPV6_RTHDRDSTOPTS,
            libc::IPV6_RTHDR,
            libc::IPV6_DSTOPTS,
        ];
        let level = libc::IPPROTO_IPV6;
        let preferences = option(fd, level, libc::IPV6_ADDR_PREFERENCES).unwrap_or(0);
        let mapped = |ip| matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
        extensions.iter().any(|name| has_bytes(fd, level, *name))
            || option(fd, level, libc::IPV6_FLOWINFO_SEND).unwrap_or(0) != 0
            || preferences & PREFERS != 0
            || mapped(self.local.ip())
            || (self.device == 0 && self.unicast_device == 0 && names_interface(fd))
    }
}

/// Looks for options that both IP versions have.
fn is_special(fd: RawFd) -> bool {
    /// Gathers what is sent until it is switched off.
    const UDP_CORK: i32 = 1;
    /// The rate of a socket without limit.
    const UNLIMITED: i32 = -1;
    let switches = [
        (libc::SOL_SOCKET, libc::SO_DONTROUTE),
        (libc::SOL_SOCKET, libc::SO_NO_CHECK),
        (libc::SOL_UDP, libc::UDP_SEGMENT),
        (libc::SOL_UDP, UDP_CORK),
        (libc::SOL_UDP, libc::UDP_NO_CHECK6_TX),
    ];
    let on = |(level, name): &(i32, i32)| option(fd, *level, *name).unwrap_or(0) != 0;
    let rate = option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE).unwrap_or(UNLIMITED);
    switches.iter().any(on) || rate != UNLIMITED
}

/// Tells whether an IPv6 socket that is bound to no interface names one in `IPV6_PKTINFO`.
///
/// The kernel does not tell that option. But it tells whether there is a way to the loopback
/// address, without sending anything: for such a socket there is none.
fn names_interface(fd: RawFd) -> bool {
    /// Looks for a way and sends nothing.
    const MSG_PROBE: i32 = 0x10;
    let to = Name::new(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 9));
    let flags = libc::MSG_CONFIRM | MSG_PROBE | libc::MSG_DONTWAIT;
    let (name, len) = (to.as_ptr().cast(), to.len());
    // SAFETY: no bytes are to be read, and `name` is an address of the length given.
    let found = unsafe { libc::sendto(fd, std::ptr::null(), 0, flags, name, len) };
    found < 0
}

/// The user that a socket was made by, unless it was given to another one.
pub(crate) fn user(fd: RawFd) -> io::Result<u32> {
    // SAFETY: plain data for which zeroes are valid.
    let mut status: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: writes to a `stat` that we own.
    check(unsafe { libc::fstat(fd, &raw mut status) })?;
    Ok(status.st_uid)
}
