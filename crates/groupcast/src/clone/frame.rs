//! Ethernet, IP and UDP headers, prepared once per destination and finished per packet.
//!
//! What depends on the destination alone is summed up in advance; a packet adds its lengths. The UDP
//! checksum field holds the sum of the pseudo header only: the device, or the kernel in its place,
//! adds the rest ("checksum partial", what the kernel's own UDP leaves to be done).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::options::Options;

/// Ethernet header.
const ETHERNET_BYTES: usize = 14;
/// All headers over IPv4 and over IPv6.
pub(super) const HEADERS_V4: usize = ETHERNET_BYTES + 20 + 8;
pub(super) const HEADERS_V6: usize = ETHERNET_BYTES + 40 + 8;
const UDP_BYTES: usize = 8;
const PROTOCOL_UDP: u8 = 17;
/// Where the UDP header's checksum is.
pub(super) const UDP_CHECKSUM_AT: u16 = 6;

/// A hardware address.
pub(super) type Mac = [u8; 6];

/// Headers for one destination, without lengths and port.
#[derive(Debug, Clone)]
pub(super) struct Head {
    bytes: [u8; HEADERS_V6],
    v6: bool,
    /// Sum of the IPv4 header without length, identification and checksum.
    ip_sum: u32,
    /// Sum of the pseudo header without length.
    udp_sum: u32,
}

/// What changes from packet to packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub(super) target: Mac,
    pub(super) port: u16,
    /// Bytes behind the UDP header.
    pub(super) body_bytes: usize,
    /// Identification, which fragments of one packet share; 0 where it must not be fragmented.
    pub(super) id: u16,
}

impl Head {
    /// Prepares headers. Both addresses must be of the same family.
    pub(super) fn new(own: Mac, from: IpAddr, to: IpAddr, options: &Options) -> Self {
        let mut bytes = [0; HEADERS_V6];
        bytes[6..12].copy_from_slice(&own);
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => v4(bytes, from, to, options),
            (IpAddr::V6(from), IpAddr::V6(to)) => v6(bytes, from, to, options),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {
                unreachable!("the route to {to} has the source {from}")
            }
        }
    }

    /// Bytes of all headers.
    pub(super) fn len(&self) -> usize {
        if self.v6 { HEADERS_V6 } else { HEADERS_V4 }
    }

    /// The headers of a packet; those of IPv4 leave the end unused.
    #[inline]
    pub(super) fn finish(&self, packet: &Packet) -> [u8; HEADERS_V6] {
        let mut bytes = self.bytes;
        bytes[..6].copy_from_slice(&packet.target);
        let udp_bytes = (UDP_BYTES + packet.body_bytes) as u16;
        let udp_at = self.len() - UDP_BYTES;
        if self.v6 {
            bytes[18..20].copy_from_slice(&udp_bytes.to_be_bytes());
        } else {
            let total = udp_bytes + 20;
            let sum = self.ip_sum + u32::from(total) + u32::from(packet.id);
            bytes[16..18].copy_from_slice(&total.to_be_bytes());
            bytes[18..20].copy_from_slice(&packet.id.to_be_bytes());
            bytes[24..26].copy_from_slice(&(!fold(sum)).to_be_bytes());
        }
        let sum = fold(self.udp_sum + u32::from(udp_bytes));
        bytes[udp_at + 2..udp_at + 4].copy_from_slice(&packet.port.to_be_bytes());
        bytes[udp_at + 4..udp_at + 6].copy_from_slice(&udp_bytes.to_be_bytes());
        bytes[udp_at + 6..udp_at + 8].copy_from_slice(&sum.to_be_bytes());
        bytes
    }
}

fn v4(mut bytes: [u8; HEADERS_V6], from: Ipv4Addr, to: Ipv4Addr, options: &Options) -> Head {
    const DONT_FRAGMENT: u8 = 0x40;
    bytes[12..14].copy_from_slice(&(libc::ETH_P_IP as u16).to_be_bytes());
    bytes[14] = 0x45;
    bytes[15] = options.tos;
    bytes[20] = if options.dont_fragment {
        DONT_FRAGMENT
    } else {
        0
    };
    bytes[22] = options.ttl;
    bytes[23] = PROTOCOL_UDP;
    bytes[26..30].copy_from_slice(&from.octets());
    bytes[30..34].copy_from_slice(&to.octets());
    bytes[34..36].copy_from_slice(&options.local.port().to_be_bytes());
    Head {
        ip_sum: sum(&bytes[14..34]),
        udp_sum: sum(&bytes[26..34]) + u32::from(PROTOCOL_UDP),
        v6: false,
        bytes,
    }
}

fn v6(mut bytes: [u8; HEADERS_V6], from: Ipv6Addr, to: Ipv6Addr, options: &Options) -> Head {
    bytes[12..14].copy_from_slice(&(libc::ETH_P_IPV6 as u16).to_be_bytes());
    let first = (6_u32 << 28) | (u32::from(options.tos) << 20);
    bytes[14..18].copy_from_slice(&first.to_be_bytes());
    bytes[20] = PROTOCOL_UDP;
    bytes[21] = options.ttl;
    bytes[22..38].copy_from_slice(&from.octets());
    bytes[38..54].copy_from_slice(&to.octets());
    bytes[54..56].copy_from_slice(&options.local.port().to_be_bytes());
    Head {
        ip_sum: 0,
        udp_sum: sum(&bytes[22..54]) + u32::from(PROTOCOL_UDP),
        v6: true,
        bytes,
    }
}

/// One's complement sum of words, not folded; for headers it does not overflow.
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2);
    words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum()
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            local: "0.0.0.0:4000".parse().unwrap(),
            ttl: 64,
            tos: 0x10,
            mark: 0,
            priority: 0,
            device: 0,
            unicast_device: 0,
            user: 0,
            dont_fragment: true,
            special: false,
        }
    }

    /// With the body, and the checksum done the way a device does it.
    fn received(head: &Head, body: &[u8], id: u16) -> Vec<u8> {
        let bytes = head.finish(&Packet {
            target: [2; 6],
            port: 9000,
            body_bytes: body.len(),
            id,
        });
        let mut packet = bytes[..head.len()].to_vec();
        packet.extend_from_slice(body);
        let udp_at = head.len() - UDP_BYTES;
        let mut rest = packet[udp_at..].to_vec();
        if rest.len() % 2 == 1 {
            rest.push(0);
        }
        let check = !fold(sum(&rest));
        packet[udp_at + 6..udp_at + 8].copy_from_slice(&check.to_be_bytes());
        packet
    }

    #[test]
    fn checksums_over_ipv4_come_out_right() {
        let (from, to) = (
            "10.1.2.3".parse().unwrap(),
            "10.255.254.253".parse().unwrap(),
        );
        let head = Head::new([1; 6], from, to, &options());
        for (body, id) in [(&b""[..], 0), (b"odd", 7), (&[0xff; 1400], u16::MAX)] {
            let packet = received(&head, body, id);
            assert_eq!(fold(sum(&packet[14..34])), 0xffff, "IP header");
            let udp_bytes = packet.len() - 34;
            let mut udp = packet[34..].to_vec();
            udp.resize(udp.len().next_multiple_of(2), 0);
            let pseudo = sum(&packet[26..34]) + 17 + udp_bytes as u32;
            assert_eq!(fold(pseudo + sum(&udp)), 0xffff, "UDP");
            assert_eq!(packet[38..40], (udp_bytes as u16).to_be_bytes());
            assert_eq!(packet[16..18], (packet.len() as u16 - 14).to_be_bytes());
        }
    }

    #[test]
    fn checksums_over_ipv6_come_out_right() {
        let (from, to) = ("fd00::1".parse().unwrap(), "fd00::ffff:2".parse().unwrap());
        let head = Head::new([1; 6], from, to, &options());
        for body in [&b"x"[..], &[0xa5; 1400]] {
            let packet = received(&head, body, 0);
            let udp_bytes = packet.len() - 54;
            let mut udp = packet[54..].to_vec();
            udp.resize(udp.len().next_multiple_of(2), 0);
            let pseudo = sum(&packet[22..54]) + 17 + udp_bytes as u32;
            assert_eq!(fold(pseudo + sum(&udp)), 0xffff);
            assert_eq!(packet[14..18], [0x61, 0x00, 0, 0]);
        }
    }
}
