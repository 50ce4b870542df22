//! The line of a node that does not multicast because of its interface.

use qsm::Interface;

/// A line for a node on this interface that was not told how to send; `None` where it multicasts.
#[must_use]
pub fn notice(interface: &Interface) -> Option<String> {
    (!interface.medium.suits_multicast()).then(|| {
        format!(
            "{} is {}: messages go to each receiver by unicast; where the network carries multicast, \
             --multicast asm sends them once",
            interface.name, interface.medium
        )
    })
}

#[cfg(test)]
mod tests {
    use qsm::Medium;

    use super::*;

    #[test]
    fn a_wireless_interface_and_a_tunnel_are_named_and_a_wire_is_not() {
        let on = |medium| {
            notice(&Interface {
                name: "net0".to_owned(),
                index: 1,
                addr: [10, 0, 0, 1].into(),
                mtu: 1500,
                loopback: false,
                multicast: true,
                medium,
            })
        };
        assert_eq!(on(Medium::Wire), None);
        for (medium, part) in [
            (Medium::Wireless, "net0 is wireless"),
            (Medium::Tunnel, "net0 is a tunnel"),
        ] {
            let line = on(medium).unwrap();
            assert!(
                line.starts_with(part) && line.contains("--multicast asm"),
                "{line}"
            );
        }
    }
}
