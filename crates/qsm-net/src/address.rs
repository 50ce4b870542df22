//! The one place that knows how addresses look in memory, and what differs between the families.
//!
//! A port is on one interface, so an address needs no scope of its own. The kernel is given the interface's with each one
//! (it looks at it for link-local addresses only), and what it says of scopes and flows is left out. So an address means
//! the same on every host and in every packet, and equal ones compare equal.

use std::fmt;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The two families of IP addresses. A port speaks one, that of its interface's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address. One of IPv4 in the clothes of IPv6 (`::ffff:10.0.0.1`) is of IPv6, and of no use.
    #[must_use]
    pub fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Bytes of IP and UDP header of each datagram, without options.
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::V4 => 20 + UDP_HEADER_BYTES,
            Self::V6 => 40 + UDP_HEADER_BYTES,
        }
    }

    /// Largest payload of one datagram, and of one GSO train: IPv4 counts its own header among the 65,535 bytes of a
    /// packet, IPv6 does not.
    #[must_use]
    pub const fn payload_max_bytes(self) -> usize {
        match self {
            Self::V4 => 65_535 - 20 - UDP_HEADER_BYTES,
            Self::V6 => 65_535 - UDP_HEADER_BYTES,
        }
    }

    pub(crate) const fn domain(self) -> libc::c_int {
        match self {
            Self::V4 => libc::AF_INET,
            Self::V6 => libc::AF_INET6,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

const UDP_HEADER_BYTES: usize = 8;

/// The kernel's form of an address: room for both families. The first field says which it is.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union Raw {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Raw {
    /// Room for what the kernel writes.
    pub(crate) const EMPTY: Self = {
        // SAFETY: both structures are plain data, for which zero is valid.
        unsafe { mem::zeroed() }
    };

    /// Size of the room, as the socket calls want it.
    pub(crate) const ROOM_BYTES: libc::socklen_t = size_of::<Self>() as libc::socklen_t;

    /// An address as seen from the interface with this index.
    pub(crate) fn new(address: SocketAddr, interface: u32) -> Self {
        let mut raw = Self::EMPTY;
        let port = address.port().to_be();
        match address.ip() {
            IpAddr::V4(ip) => {
                raw.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: port,
                    sin_addr: to_raw_v4(ip),
                    sin_zero: [0; 8],
                }
            }
            IpAddr::V6(ip) => {
                raw.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: port,
                    sin6_flowinfo: 0,
                    sin6_addr: to_raw_v6(ip),
                    sin6_scope_id: interface,
                }
            }
        }
        raw
    }

    /// An address as it is, with its own scope.
    pub(crate) fn scoped(address: SocketAddr) -> Self {
        let scope = match address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(address) => address.scope_id(),
        };
        Self::new(address, scope)
    }

    /// In the room that structures of the kernel have for any address.
    pub(crate) fn storage(&self) -> libc::sockaddr_storage {
        const {
            assert!(size_of::<Self>() <= size_of::<libc::sockaddr_storage>());
        }
        // SAFETY: sockaddr_storage is plain data, for which zero is valid.
        let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
        // SAFETY: the value fits, all of its bytes are initialised (it begins as zero), and the two do not overlap.
        unsafe {
            let to = std::ptr::from_mut(&mut storage).cast::<Self>();
            to.write_unaligned(*self);
        }
        storage
    }

    /// Bytes that count, as the socket calls want them.
    pub(crate) fn bytes(&self) -> libc::socklen_t {
        match self.is_v6() {
            false => size_of::<libc::sockaddr_in>() as libc::socklen_t,
            true => size_of::<libc::sockaddr_in6>() as libc::socklen_t,
        }
    }

    /// What the kernel wrote. Of neither family: nobody (IPv4).
    #[inline]
    pub(crate) fn address(&self) -> SocketAddr {
        // SAFETY: a value begins as zero and is written as one of the two; any bytes are valid for both.
        unsafe {
            if self.is_v6() {
                let ip = Ipv6Addr::from(self.v6.sin6_addr.s6_addr);
                SocketAddr::from((ip, u16::from_be(self.v6.sin6_port)))
            } else {
                let ip = Ipv4Addr::from(self.v4.sin_addr.s_addr.to_ne_bytes());
                SocketAddr::from((ip, u16::from_be(self.v4.sin_port)))
            }
        }
    }

    /// Address that the kernel wrote, with the scope that it wrote.
    pub(crate) fn scoped_address(&self) -> SocketAddr {
        match self.address() {
            SocketAddr::V6(address) => {
                // SAFETY: it is one of IPv6; any bytes are valid for it.
                let scope = unsafe { self.v6.sin6_scope_id };
                SocketAddrV6::new(*address.ip(), address.port(), 0, scope).into()
            }
            address @ SocketAddr::V4(_) => address,
        }
    }

    fn is_v6(&self) -> bool {
        // SAFETY: the family is the first field of both structures, and any bytes are valid for it.
        libc::c_int::from(unsafe { self.v4.sin_family }) == libc::AF_INET6
    }
}

/// The address without what only this host understands: the scope and the flow.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

pub(crate) fn to_raw_v4(ip: Ipv4Addr) -> libc::in_addr {
    // Memory order is network order, whatever the machine's own order.
    libc::in_addr {
        s_addr: u32::from_ne_bytes(ip.octets()),
    }
}

pub(crate) fn to_raw_v6(ip: Ipv6Addr) -> libc::in6_addr {
    libc::in6_addr {
        s6_addr: ip.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_form_is_network_order_and_reversible() {
        let address = SocketAddr::from(([239, 255, 1, 2], 0x1234));
        let raw = Raw::new(address, 7);
        // SAFETY: it was made as one of IPv4.
        let v4 = unsafe { raw.v4 };
        assert_eq!(v4.sin_port.to_ne_bytes(), [0x12, 0x34]);
        assert_eq!(v4.sin_addr.s_addr.to_ne_bytes(), [239, 255, 1, 2]);
        assert_eq!((raw.address(), raw.bytes()), (address, 16));
    }

    #[test]
    fn scopes_are_given_to_the_kernel_and_not_taken_from_it() {
        let address: SocketAddr = "[fe80::1]:4660".parse().unwrap();
        let raw = Raw::new(address, 7);
        // SAFETY: it was made as one of IPv6.
        let v6 = unsafe { raw.v6 };
        assert_eq!(v6.sin6_port.to_ne_bytes(), [0x12, 0x34]);
        assert_eq!(v6.sin6_scope_id, 7);
        assert_eq!((raw.address(), raw.bytes()), (address, 28));
    }

    #[test]
    fn an_address_with_a_scope_of_its_own_keeps_it() {
        for text in ["[fe80::1%7]:4660", "[fd00::1]:4660", "10.0.0.1:4660"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Raw::scoped(address).scoped_address(), address);
        }
    }

    #[test]
    fn the_largest_payload_and_its_headers_fill_a_packet() {
        let packet = |family: Family| family.payload_max_bytes() + family.header_bytes();
        assert_eq!((packet(Family::V4), packet(Family::V6)), (65_535, 65_575));
    }
}
