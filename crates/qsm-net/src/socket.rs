//! Opening the sockets of a port, with every option that multicast needs.
//!
//! There is one socket for each multicast address (R056), bound to that address and port. The kernel's limit of
//! memberships (`net.ipv4.igmp_max_memberships`, 20) holds for each *socket*, so with one membership each it is moot.
//! Binding to the group keeps other destinations out. The same group that arrives by an interface where only somebody else
//! has joined is kept out by `IP_MULTICAST_ALL` off for IPv4; for IPv6, where the kernel compares the address only
//! (`inet6_mc_check`), by binding to the device. `SO_REUSEADDR` lets several processes of a host join the same group;
//! each gets a copy. The unicast socket does not set it: two processes on one unicast port would steal from each other.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::address::{self, Raw};
use crate::busy_poll;
use crate::config::{Offload, PortConfig};
use crate::error::PortError;
use crate::sys;

/// A bound socket and what the kernel granted it.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    /// The address it is bound to.
    pub(crate) address: SocketAddr,
    /// Receive buffer, in bytes, as asked for: half of what the kernel reports, because it doubles the request.
    pub(crate) receive_buffer: usize,
    /// Trains are received whole.
    pub(crate) gro: bool,
    /// The error number with which the kernel refused busy polling, if it was asked for and did.
    pub(crate) busy_poll_refused: Option<i32>,
    /// The hosts whose datagrams it receives; none: those of all.
    pub(crate) sources: Vec<IpAddr>,
    /// The kernel's drop counter when last seen.
    drops_seen: u32,
}

impl Socket {
    /// The socket that receives unicast and sends everything.
    pub(crate) fn unicast(config: &PortConfig) -> Result<Self, PortError> {
        let interface = &config.interface;
        let address = SocketAddr::new(interface.addr, config.unicast_port);
        let socket = Self::new(config, address, false)?;
        let failed = PortError::interface(&interface.name, "set up a socket for multicast");
        socket.set_multicast_sending(config).map_err(failed)?;
        check_multicast_route(config)?;
        Ok(socket)
    }

    /// A socket that receives one group, which is of the family of the interface's address.
    pub(crate) fn multicast(config: &PortConfig, group: SocketAddr) -> Result<Self, PortError> {
        let socket = Self::new(config, group, true)?;
        let joined = match group.ip() {
            IpAddr::V4(ip) => socket.join_v4(config, ip),
            IpAddr::V6(ip) => socket.join_v6(config, ip),
        };
        joined.map_err(PortError::membership(group, &config.interface.name))?;
        Ok(socket)
    }

    /// A socket that receives one group from hosts that are still to be named.
    pub(crate) fn of_sources(config: &PortConfig, group: SocketAddr) -> Result<Self, PortError> {
        let socket = Self::new(config, group, true)?;
        if group.is_ipv4() {
            let failed = PortError::os("keep out what others have joined");
            socket.set_ip(libc::IP_MULTICAST_ALL, 0).map_err(failed)?;
        }
        Ok(socket)
    }

    /// Receives what this host sends to the group as well.
    pub(crate) fn join_source(&mut self, config: &PortConfig, source: IpAddr) -> io::Result<()> {
        self.set_source(config, libc::MCAST_JOIN_SOURCE_GROUP, source)?;
        self.sources.push(source);
        Ok(())
    }

    /// Ceases to receive what the source in this place sends.
    pub(crate) fn leave_source(&mut self, config: &PortConfig, at: usize) -> io::Result<()> {
        let source = self.sources.swap_remove(at);
        self.set_source(config, libc::MCAST_LEAVE_SOURCE_GROUP, source)
    }

    fn set_source(&self, config: &PortConfig, name: libc::c_int, source: IpAddr) -> io::Result<()> {
        let index = config.interface.index;
        let request = libc::group_source_req {
            gsr_interface: index,
            gsr_group: Raw::new(self.address, index).storage(),
            gsr_source: Raw::new(SocketAddr::new(source, 0), index).storage(),
        };
        match self.address {
            SocketAddr::V4(_) => self.set_ip(name, request),
            SocketAddr::V6(_) => self.set_ipv6(name, request),
        }
    }

    fn join_v4(&self, config: &PortConfig, group: Ipv4Addr) -> io::Result<()> {
        self.set_ip(libc::IP_MULTICAST_ALL, 0)?;
        let membership = libc::ip_mreqn {
            imr_multiaddr: address::to_raw_v4(group),
            ..interface_v4(config)
        };
        self.set_ip(libc::IP_ADD_MEMBERSHIP, membership)
    }

    fn join_v6(&self, config: &PortConfig, group: Ipv6Addr) -> io::Result<()> {
        let membership = libc::ipv6_mreq {
            ipv6mr_multiaddr: address::to_raw_v6(group),
            ipv6mr_interface: config.interface.index,
        };
        self.set_ipv6(libc::IPV6_ADD_MEMBERSHIP, membership)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Send buffer, in bytes, as [`Socket::receive_buffer`].
    pub(crate) fn send_buffer(&self) -> usize {
        granted(self.fd(), &SEND).unwrap_or(0)
    }

    /// Takes note of the kernel's drop counter; returns how many drops are new. The counter wraps at 32 bits, and a
    /// value that came with an old datagram may be older than one asked for since.
    pub(crate) fn note_drops(&mut self, count: u32) -> u64 {
        let new = count.wrapping_sub(self.drops_seen);
        if new > u32::MAX / 2 {
            return 0;
        }
        self.drops_seen = count;
        u64::from(new)
    }

    fn new(config: &PortConfig, address: SocketAddr, shared: bool) -> Result<Self, PortError> {
        let interface = &config.interface;
        let fd = sys::udp_socket(interface.family()).map_err(PortError::os("open a socket"))?;
        let set = |name| sys::set_option(fd.as_fd(), libc::SOL_SOCKET, name, 1);
        if shared {
            set(libc::SO_REUSEADDR).map_err(PortError::os("share an address"))?;
        }
        if shared && interface.addr.is_ipv6() {
            let failed = PortError::interface(&interface.name, "bind a socket to the interface");
            bind_to_device(fd.as_fd(), &interface.name).map_err(failed)?;
        }
        set(libc::SO_RXQ_OVFL).map_err(PortError::os("ask for drop counts"))?;
        set(libc::SO_TIMESTAMPNS).map_err(PortError::os("ask for times of arrival"))?;
        let receive_buffer = set_buffer(fd.as_fd(), &RECEIVE, config.receive_buffer_bytes)
            .map_err(PortError::os("set the receive buffer"))?;
        let gro = config.offload == Offload::Auto
            && sys::set_option(fd.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        let busy_poll_refused = config
            .busy_poll
            .and_then(|asked| busy_poll::set_reading(fd.as_fd(), asked));
        let raw = Raw::new(address, interface.index);
        sys::bind(fd.as_fd(), &raw).map_err(PortError::bind(address))?;
        let address = sys::local_addr(fd.as_fd()).map_err(PortError::os("read an address"))?;
        Ok(Self {
            fd,
            address,
            receive_buffer,
            gro,
            busy_poll_refused,
            sources: Vec::new(),
            drops_seen: 0,
        })
    }

    fn set_multicast_sending(&self, config: &PortConfig) -> io::Result<()> {
        let (hops, loopback) = (libc::c_int::from(config.ttl), config.loopback.into());
        // About RECVERR see `icmp.rs`: without it the loss of what the device's queue has no room for is concealed.
        match config.interface.addr {
            IpAddr::V4(_) => {
                self.set_ip(libc::IP_MULTICAST_IF, interface_v4(config))?;
                self.set_ip(libc::IP_MULTICAST_TTL, hops)?;
                self.set_ip(libc::IP_RECVERR, 1)?;
                self.set_ip::<libc::c_int>(libc::IP_MULTICAST_LOOP, loopback)?;
            }
            IpAddr::V6(_) => {
                self.set_ipv6(libc::IPV6_MULTICAST_IF, config.interface.index)?;
                self.set_ipv6(libc::IPV6_MULTICAST_HOPS, hops)?;
                self.set_ipv6(libc::IPV6_RECVERR, 1)?;
                self.set_ipv6::<libc::c_int>(libc::IPV6_MULTICAST_LOOP, loopback)?;
            }
        }
        set_buffer(self.fd(), &SEND, config.send_buffer_bytes).map(drop)
    }

    fn set_ip<T: Copy>(&self, name: libc::c_int, value: T) -> io::Result<()> {
        sys::set_option(self.fd(), libc::IPPROTO_IP, name, value)
    }

    fn set_ipv6<T: Copy>(&self, name: libc::c_int, value: T) -> io::Result<()> {
        sys::set_option(self.fd(), libc::IPPROTO_IPV6, name, value)
    }
}

/// The interface in the form that IPv4's options take.
fn interface_v4(config: &PortConfig) -> libc::ip_mreqn {
    let address = match config.interface.addr {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    libc::ip_mreqn {
        imr_multiaddr: libc::in_addr { s_addr: 0 },
        imr_address: address::to_raw_v4(address),
        imr_ifindex: libc::c_int::try_from(config.interface.index).unwrap_or(0),
    }
}

/// Keeps out what arrives by other interfaces. Before Linux 5.7 it takes a privilege (`CAP_NET_RAW`); without, the protocol
/// above sorts out what it does not want.
fn bind_to_device(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let mut device = [0_u8; libc::IFNAMSIZ];
    device
        .iter_mut()
        .take(libc::IFNAMSIZ - 1)
        .zip(name.bytes())
        .for_each(|(to, from)| *to = from);
    match sys::set_option(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

/// Unlike IPv4, IPv6 sends no multicast without a route, even where the interface is named. Interfaces have one from the
/// kernel, but for loopback. A connected socket is asked, because connecting looks up the route and sends nothing.
fn check_multicast_route(config: &PortConfig) -> Result<(), PortError> {
    /// Any group will do; this one is of the scope that the plan of the membership service uses.
    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0x8000, 1);
    let interface = &config.interface;
    if interface.addr.is_ipv4() {
        return Ok(());
    }
    let fd = sys::udp_socket(interface.family()).map_err(PortError::os("open a socket"))?;
    let source = SocketAddr::new(interface.addr, 0);
    sys::bind(fd.as_fd(), &Raw::new(source, interface.index)).map_err(PortError::bind(source))?;
    let (level, name) = (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF);
    sys::set_option(fd.as_fd(), level, name, interface.index)
        .and_then(|()| {
            let group = SocketAddr::from((GROUP, 9));
            sys::connect(fd.as_fd(), &Raw::new(group, interface.index))
        })
        .map_err(PortError::multicast_route(interface))
}

/// Whether the kernel knows UDP GSO at all (Linux 4.18). A device may still refuse later.
pub(crate) fn kernel_has_gso(fd: BorrowedFd<'_>) -> bool {
    // Size 0 means "none": it changes nothing, and a kernel that lacks the option says so.
    sys::set_option(fd, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok()
}

/// The options that set a buffer: without limit for the privileged, and within the limit of `sysctl`.
struct BufferOptions {
    force: libc::c_int,
    plain: libc::c_int,
}

const RECEIVE: BufferOptions = BufferOptions {
    force: libc::SO_RCVBUFFORCE,
    plain: libc::SO_RCVBUF,
};
const SEND: BufferOptions = BufferOptions {
    force: libc::SO_SNDBUFFORCE,
    plain: libc::SO_SNDBUF,
};

/// Asks for a receive buffer of a socket.
pub(crate) fn ask_receive_buffer(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    set_buffer(fd, &RECEIVE, bytes)
}

/// Asks for a send buffer of a socket.
pub(crate) fn ask_send_buffer(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    set_buffer(fd, &SEND, bytes)
}

/// Asks for a buffer; returns what was granted, in the unit of the request (R217).
fn set_buffer(fd: BorrowedFd<'_>, options: &BufferOptions, bytes: usize) -> io::Result<usize> {
    // The kernel doubles the value in an int.
    let wanted = libc::c_int::try_from(bytes)
        .unwrap_or(libc::c_int::MAX)
        .min(libc::c_int::MAX / 2);
    if sys::set_option(fd, libc::SOL_SOCKET, options.force, wanted).is_err() {
        sys::set_option(fd, libc::SOL_SOCKET, options.plain, wanted)?;
    }
    granted(fd, options)
}

fn granted(fd: BorrowedFd<'_>, options: &BufferOptions) -> io::Result<usize> {
    let granted = sys::get_option(fd, libc::SOL_SOCKET, options.plain)?;
    Ok(usize::try_from(granted).unwrap_or(0) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::interfaces;

    fn config() -> PortConfig {
        PortConfig::new(
            interfaces()
                .unwrap()
                .into_iter()
                .find(|interface| interface.loopback && interface.addr.is_ipv4())
                .unwrap(),
        )
    }

    #[test]
    fn sending_options_reach_the_kernel() {
        let config = PortConfig {
            ttl: 7,
            loopback: false,
            ..config()
        };
        let socket = Socket::unicast(&config).unwrap();
        let get = |name| sys::get_option(socket.fd(), libc::IPPROTO_IP, name).unwrap();
        assert_eq!(get(libc::IP_MULTICAST_TTL), 7);
        assert_eq!(get(libc::IP_MULTICAST_LOOP), 0);
    }

    #[test]
    fn drop_counter_wraps_and_never_goes_back() {
        let mut socket = Socket::unicast(&config()).unwrap();
        assert_eq!(socket.note_drops(5), 5);
        assert_eq!(socket.note_drops(3), 0);
        assert_eq!(socket.note_drops(6), 1);
        assert_eq!(socket.note_drops(u32::MAX / 2), u64::from(u32::MAX / 2 - 6));
        assert_eq!(socket.note_drops(u32::MAX - 1), u64::from(u32::MAX / 2));
        assert_eq!(socket.note_drops(2), 4);
    }
}
