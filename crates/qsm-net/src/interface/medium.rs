//! The medium of an interface, as far as multicast is concerned.

use std::fmt;
use std::fs;
use std::path::Path;

/// Medium of an interface, as far as multicast is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A cable, or what works like one, as far as the kernel knows: one packet reaches all.
    Wire,
    /// Wireless (IEEE 802.11): access points send multicast at their lowest rate, and unacknowledged.
    Wireless,
    /// Packets within packets, to one other end or to some (`tun`, WireGuard, IPIP, GRE, PPP): most of them carry no
    /// multicast, and none saves packets by it.
    Tunnel,
}

/// Where the kernel shows interfaces.
const SYSFS: &str = "/sys/class/net";
/// Kinds of hardware (`ARPHRD_…` of `linux/if_arp.h`) that are tunnels.
const TUNNELS: [u16; 7] = [
    512,    // PPP
    768,    // IPIP
    769,    // IPv6 in IPv6
    776,    // IPv6 in IPv4
    778,    // GRE
    823,    // GRE over IPv6
    0xfffe, // none: tun, WireGuard
];

impl Medium {
    /// Tells whether a node multicasts there if nobody says anything.
    #[must_use]
    pub fn suits_multicast(self) -> bool {
        self == Self::Wire
    }

    /// Of an interface of this kind of hardware; `pointed`: it has one other end (`IFF_POINTOPOINT`).
    pub(super) fn of(name: &str, index: u32, hardware: Option<u16>, pointed: bool) -> Self {
        let tunnel = hardware.is_some_and(|kind| TUNNELS.contains(&kind));
        if pointed || tunnel {
            Self::Tunnel
        } else if is_wireless(Path::new(SYSFS), name, index) {
            Self::Wireless
        } else {
            Self::Wire
        }
    }
}

/// As in "wlan0 is wireless".
impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wire => "wired",
            Self::Wireless => "wireless",
            Self::Tunnel => "a tunnel",
        })
    }
}

/// Looks in `sysfs`. It may show another network than this thread's, so the index must be the same.
fn is_wireless(sysfs: &Path, name: &str, index: u32) -> bool {
    let folder = sysfs.join(name);
    let shown = fs::read_to_string(folder.join("ifindex")).unwrap_or_default();
    let same = shown.trim().parse() == Ok(index);
    same && ["phy80211", "wireless"]
        .iter()
        .any(|entry| folder.join(entry).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_is_told_by_its_hardware_or_its_other_end() {
        let of = |hardware, pointed| Medium::of("no-such0", 7, hardware, pointed);
        for kind in TUNNELS {
            assert_eq!(of(Some(kind), false), Medium::Tunnel, "{kind}");
        }
        assert_eq!(of(None, true), Medium::Tunnel);
        // Ethernet, loopback, unknown.
        for kind in [Some(1), Some(772), None] {
            assert_eq!(of(kind, false), Medium::Wire, "{kind:?}");
        }
        assert!(Medium::Wire.suits_multicast());
        assert!(!Medium::Tunnel.suits_multicast() && !Medium::Wireless.suits_multicast());
    }

    #[test]
    fn a_wireless_interface_is_told_by_sysfs_of_the_same_network() {
        let name = format!("qsm-sysfs-{}", std::process::id());
        let sysfs = std::env::temp_dir().join(name);
        for (interface, index, entry) in [
            ("wlan0", "3\n", "phy80211"),
            ("wlan1", "4\n", "wireless"),
            ("eth0", "2\n", "queues"),
        ] {
            fs::create_dir_all(sysfs.join(interface).join(entry)).unwrap();
            fs::write(sysfs.join(interface).join("ifindex"), index).unwrap();
        }
        let is = |name, index| is_wireless(&sysfs, name, index);
        let told = [is("wlan0", 3), is("wlan1", 4), is("eth0", 2)];
        let foreign = [is("wlan0", 4), is("wlan2", 3)];
        fs::remove_dir_all(&sysfs).unwrap();
        assert_eq!(told, [true, true, false]);
        assert_eq!(foreign, [false, false]);
    }
}
