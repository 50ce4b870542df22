//! A router with a translator of addresses (NAT): hosts behind it have addresses of their own, and to all
//! others they seem to be the router.

use std::net::Ipv4Addr;

use lab::{HostId, Lab};

use super::stage::PORT;
use crate::cluster::Failure;

/// A host that forwards for others.
#[derive(Debug, Clone, Copy)]
pub struct Router {
    host: HostId,
    /// Tells its network from those of others.
    number: u8,
}

impl Router {
    /// Makes a router of a host, with a network of this number behind it, and moves hosts there. These
    /// lose their addresses in the lab.
    ///
    /// # Errors
    /// `ip`, `nft` or the kernel refuse something.
    pub fn open(lab: &Lab, host: HostId, number: u8, behind: &[HostId]) -> Result<Self, Failure> {
        let router = Self { host, number };
        let own = router.address(0);
        run(lab, host, "ip link add lan type bridge")?;
        run(lab, host, &format!("ip addr add {own}/24 dev lan"))?;
        run(lab, host, "ip link set lan up")?;
        run(lab, host, "sysctl -qw net.ipv4.ip_forward=1")?;
        run(lab, host, "nft add table ip translator")?;
        let chain = "nft add chain ip translator out { type nat hook postrouting priority 100 ; }";
        run(lab, host, chain)?;
        let rule = "nft add rule ip translator out oifname eth0 masquerade";
        run(lab, host, rule)?;
        for (place, inner) in (1..).zip(behind) {
            router.connect(lab, *inner, place)?;
        }
        Ok(router)
    }

    /// Forwards the port of sources and relays to a host in this place behind it.
    ///
    /// # Errors
    /// `nft` refuses it.
    pub fn forward(&self, lab: &Lab, place: u8) -> Result<(), Failure> {
        let chain = "nft add chain ip translator in { type nat hook prerouting priority -100 ; }";
        run(lab, self.host, chain)?;
        let to = self.address(place);
        let rule = "nft add rule ip translator in iifname eth0 udp dport";
        run(lab, self.host, &format!("{rule} {PORT} dnat to {to}"))
    }

    /// Address of the host in this place behind it, from 1; 0 is the router.
    #[must_use]
    pub fn address(&self, place: u8) -> Ipv4Addr {
        Ipv4Addr::new(192, 168, self.number, place + 1)
    }

    fn connect(&self, lab: &Lab, inner: HostId, place: u8) -> Result<(), Failure> {
        let name = lab.host(inner).namespace().name();
        let (own, way) = (self.address(place), self.address(0));
        run(lab, inner, "ip link del eth0")?;
        let pair = format!("ip link add to{place} type veth peer name eth0 netns {name}");
        run(lab, self.host, &pair)?;
        run(
            lab,
            self.host,
            &format!("ip link set to{place} master lan up"),
        )?;
        run(lab, inner, &format!("ip addr add {own}/24 dev eth0"))?;
        run(lab, inner, "ip link set eth0 up")?;
        run(lab, inner, &format!("ip route add default via {way}"))
    }
}

/// Runs a command on a host.
///
/// # Errors
/// It fails.
pub(super) fn run(lab: &Lab, host: HostId, line: &str) -> Result<(), Failure> {
    let words: Vec<&str> = line.split(' ').collect();
    let output = lab.command(host, words[0]).args(&words[1..]).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{line}`: {said}").into());
    }
    Ok(())
}
