//! Source-specific multicast: addresses that are received from named senders only.

use core::net::IpAddr;

/// Whether a multicast address is received from named senders only: those of 232.0.0.0/8 and ff3x::/32 (RFC 4607).
#[must_use]
pub fn is_source_specific(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => ip.octets()[0] == 232,
        IpAddr::V6(ip) => {
            let [first, second, ..] = ip.segments();
            first & 0xfff0 == 0xff30 && second == 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_told_by_the_address() {
        for (address, expected) in [
            ("232.1.2.3", true),
            ("239.192.0.1", false),
            ("ff35::8000:1", true),
            ("ff3e::8000:1", true),
            ("ff35:40::1", false),
            ("ff15::8000:1", false),
            ("fe30::1", false),
        ] {
            assert_eq!(
                is_source_specific(address.parse().unwrap()),
                expected,
                "{address}"
            );
        }
    }
}
