//! The one place that knows how addresses look in memory.
//!
//! Everything else in the crate handles `SocketAddrV4`. To add IPv6, this module changes to `sockaddr_in6` (which can
//! carry mapped IPv4 addresses) and `SocketAddr`, and `socket.rs` gains the `IPV6_` twins of its options.

use std::net::{Ipv4Addr, SocketAddrV4};

/// The kernel's form of an address.
pub(crate) type Raw = libc::sockaddr_in;

/// Size of [`Raw`] as the socket calls want it.
pub(crate) const RAW_BYTES: libc::socklen_t = size_of::<Raw>() as libc::socklen_t;

/// Bytes of IPv4 and UDP header of each datagram, without options.
pub(crate) const HEADER_BYTES: usize = 28;

/// Largest payload of one datagram, and of one GSO train: 65,535 less the headers.
pub(crate) const PAYLOAD_MAX_BYTES: usize = 65_535 - HEADER_BYTES;

pub(crate) fn to_raw(address: SocketAddrV4) -> Raw {
    Raw {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: to_raw_ip(*address.ip()),
        sin_zero: [0; 8],
    }
}

pub(crate) fn to_raw_ip(ip: Ipv4Addr) -> libc::in_addr {
    // Memory order is network order, whatever the machine's own order.
    libc::in_addr {
        s_addr: u32::from_ne_bytes(ip.octets()),
    }
}

pub(crate) fn from_raw(raw: &Raw) -> SocketAddrV4 {
    SocketAddrV4::new(
        Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes()),
        u16::from_be(raw.sin_port),
    )
}

pub(crate) fn unspecified_raw() -> Raw {
    to_raw(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_form_is_network_order_and_reversible() {
        let address = SocketAddrV4::new(Ipv4Addr::new(239, 255, 1, 2), 0x1234);
        let raw = to_raw(address);
        assert_eq!(raw.sin_port.to_ne_bytes(), [0x12, 0x34]);
        assert_eq!(raw.sin_addr.s_addr.to_ne_bytes(), [239, 255, 1, 2]);
        assert_eq!(from_raw(&raw), address);
    }
}
