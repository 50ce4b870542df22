//! Opening the sockets of a port, with every option that multicast needs.
//!
//! There is one socket for each multicast address (R056), bound to that address and port. The kernel's limit of
//! memberships (`net.ipv4.igmp_max_memberships`, 20) holds for each *socket*, so with one membership each it is moot.
//! Binding to the group keeps other destinations out; `IP_MULTICAST_ALL` off keeps out the same group when it arrives by an
//! interface where only somebody else has joined. `SO_REUSEADDR` lets several processes of a host join the same group;
//! each gets a copy. The unicast socket does not set it: two processes on one unicast port would steal from each other.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::address;
use crate::config::{Offload, PortConfig};
use crate::error::PortError;
use crate::sys;

/// A bound socket and what the kernel granted it.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    /// The address it is bound to.
    pub(crate) address: SocketAddrV4,
    /// Receive buffer, in bytes, as asked for: half of what the kernel reports, because it doubles the request.
    pub(crate) receive_buffer: usize,
    /// Trains are received whole.
    pub(crate) gro: bool,
    /// The kernel's drop counter when last seen.
    drops_seen: u32,
}

impl Socket {
    /// The socket that receives unicast and sends everything.
    pub(crate) fn unicast(config: &PortConfig) -> Result<Self, PortError> {
        let address = SocketAddrV4::new(config.interface.addr, config.unicast_port);
        let socket = Self::new(config, address, false)?;
        let doing = "set up a socket for multicast";
        socket
            .set_multicast_sending(config)
            .map_err(PortError::interface(&config.interface.name, doing))?;
        Ok(socket)
    }

    /// A socket that receives one group.
    pub(crate) fn multicast(config: &PortConfig, group: SocketAddrV4) -> Result<Self, PortError> {
        let socket = Self::new(config, group, true)?;
        let membership = libc::ip_mreqn {
            imr_multiaddr: address::to_raw_ip(*group.ip()),
            imr_address: address::to_raw_ip(config.interface.addr),
            imr_ifindex: interface_index(config),
        };
        sys::set_option(socket.fd(), libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0)
            .map_err(PortError::os("turn off IP_MULTICAST_ALL"))?;
        sys::set_option(
            socket.fd(),
            libc::IPPROTO_IP,
            libc::IP_ADD_MEMBERSHIP,
            membership,
        )
        .map_err(PortError::membership(group, &config.interface.name))?;
        Ok(socket)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
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

    fn new(config: &PortConfig, address: SocketAddrV4, shared: bool) -> Result<Self, PortError> {
        let fd = sys::udp_socket().map_err(PortError::os("open a socket"))?;
        let set = |name| sys::set_option(fd.as_fd(), libc::SOL_SOCKET, name, 1);
        if shared {
            set(libc::SO_REUSEADDR).map_err(PortError::os("share an address"))?;
        }
        set(libc::SO_RXQ_OVFL).map_err(PortError::os("ask for drop counts"))?;
        let receive_buffer = set_buffer(fd.as_fd(), RECEIVE, config.receive_buffer_bytes)
            .map_err(PortError::os("set the receive buffer"))?;
        let gro = config.offload == Offload::Auto
            && sys::set_option(fd.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        sys::bind(fd.as_fd(), address).map_err(PortError::bind(address))?;
        let address = sys::local_addr(fd.as_fd()).map_err(PortError::os("read an address"))?;
        Ok(Self {
            fd,
            address,
            receive_buffer,
            gro,
            drops_seen: 0,
        })
    }

    fn set_multicast_sending(&self, config: &PortConfig) -> io::Result<()> {
        let interface = libc::ip_mreqn {
            imr_multiaddr: libc::in_addr { s_addr: 0 },
            imr_address: address::to_raw_ip(config.interface.addr),
            imr_ifindex: interface_index(config),
        };
        let set = |name, value| sys::set_option(self.fd(), libc::IPPROTO_IP, name, value);
        sys::set_option(
            self.fd(),
            libc::IPPROTO_IP,
            libc::IP_MULTICAST_IF,
            interface,
        )?;
        set(libc::IP_MULTICAST_TTL, libc::c_int::from(config.ttl))?;
        // See `icmp.rs`: without it the loss of what the device's queue has no room for is concealed.
        set(libc::IP_RECVERR, 1)?;
        set(libc::IP_MULTICAST_LOOP, libc::c_int::from(config.loopback))?;
        set_buffer(self.fd(), SEND, config.send_buffer_bytes).map(drop)
    }
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

/// Asks for a buffer; returns what was granted, in the unit of the request (R217).
fn set_buffer(fd: BorrowedFd<'_>, options: BufferOptions, bytes: usize) -> io::Result<usize> {
    // The kernel doubles the value in an int.
    let wanted = libc::c_int::try_from(bytes)
        .unwrap_or(libc::c_int::MAX)
        .min(libc::c_int::MAX / 2);
    if sys::set_option(fd, libc::SOL_SOCKET, options.force, wanted).is_err() {
        sys::set_option(fd, libc::SOL_SOCKET, options.plain, wanted)?;
    }
    let granted = sys::get_option(fd, libc::SOL_SOCKET, options.plain)?;
    Ok(usize::try_from(granted).unwrap_or(0) / 2)
}

fn interface_index(config: &PortConfig) -> libc::c_int {
    libc::c_int::try_from(config.interface.index).unwrap_or(0)
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
                .find(|interface| interface.loopback)
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
