//! The nftables rules of a host: loss, network splits, and their counters.
//!
//! They sit where packets enter the host's own IP layer (hook `input`), not at the device. So
//! multicast of groups that nobody on this host has joined, which a switch floods here all the
//! same, is neither dropped nor counted: sent = received + dropped holds for what a member was
//! meant to get. ARP and neighbour discovery pass, also in a split, so that a sender who is cut off
//! sees silence, as behind a real switch, and not `EHOSTUNREACH`; and so that a one-way split stays
//! one-way. A
//! datagram sent as IP fragments is put together first, and is lost or not as a whole.
//!
//! A host's own packets, by loopback or multicast loopback, are never dropped.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::LabError;
use crate::network::Network;

/// Loss is given in packets per million; this many means all.
pub const LOSS_PPM_MAX: u32 = 1_000_000;

/// What kind of incoming UDP packets a loss applies to (requirement R239: the two are reported
/// apart).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Traffic {
    /// Multicast and unicast.
    All,
    /// Packets to 224.0.0.0/4 or ff00::/8.
    Multicast,
    /// Packets to the host's own address.
    Unicast,
}

impl Traffic {
    /// The chains, and the counters of the same name.
    fn chains(self) -> &'static [&'static str] {
        match self {
            Self::All => &["loss_multicast", "loss_unicast"],
            Self::Multicast => &["loss_multicast"],
            Self::Unicast => &["loss_unicast"],
        }
    }
}

/// Which way a network split cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// What `a` sends does not reach `b`; the other way works.
    AToB,
    /// Neither side hears the other.
    Both,
}

/// What a host's rules have dropped since it was added. A GSO train counts as one packet (see the
/// crate's text).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops {
    /// Multicast packets dropped by random loss.
    pub multicast_packets: u64,
    /// Unicast packets dropped by random loss.
    pub unicast_packets: u64,
    /// Packets of any kind dropped because of a network split.
    pub split_packets: u64,
}

impl Drops {
    /// All packets dropped.
    #[must_use]
    pub fn total_packets(&self) -> u64 {
        self.multicast_packets + self.unicast_packets + self.split_packets
    }
}

/// The rules of a new host: nothing is dropped, all counters are zero.
pub(crate) fn table(addresses: &[IpAddr]) -> String {
    let mut text = String::from(
        "table inet lab {
            counter split { }
            counter loss_multicast { }
            counter loss_unicast { }
            counter damaged { }
            set cut { type ipv4_addr; }
            set cut6 { type ipv6_addr; }
            chain loss_multicast { }
            chain loss_unicast { }
            chain damage { }
            chain input {
                type filter hook input priority 0; policy accept;
        ",
    );
    let [first, second] = [Network::First, Network::Second].map(Network::interface);
    let others = format_args!("iifname != {{ \"{first}\", \"{second}\" }} accept");
    push_line(&mut text, others);
    for address in addresses {
        push_line(
            &mut text,
            format_args!("{} saddr {address} accept", ip(*address)),
        );
    }
    text.push_str(
        "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
         ip saddr @cut counter name split drop
         ip6 saddr @cut6 counter name split drop
         meta l4proto udp ip daddr 224.0.0.0/4 jump loss_multicast
         meta l4proto udp ip6 daddr ff00::/8 jump loss_multicast
        ",
    );
    for address in addresses {
        let ip = ip(*address);
        let rule = format_args!("meta l4proto udp {ip} daddr {address} jump loss_unicast");
        push_line(&mut text, rule);
    }
    text.push_str("meta l4proto udp jump damage\n}\n}\n");
    text
}

/// What nftables calls the family.
fn ip(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "ip",
        IpAddr::V6(_) => "ip6",
    }
}

/// Everything a host may come to need, to try whether the kernel has it.
pub(crate) fn probe() -> String {
    let mut text = table(&[Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    for chain in Traffic::All.chains() {
        add_loss(&mut text, chain, LOSS_PPM_MAX / 2);
    }
    text
}

/// Replaces the loss of some traffic.
pub(crate) fn loss(ppm: u32, which: Traffic) -> Result<String, LabError> {
    if ppm > LOSS_PPM_MAX {
        return Err(LabError::LossOutOfRange { ppm });
    }
    let mut text = String::new();
    for chain in which.chains() {
        push_line(&mut text, format_args!("flush chain inet lab {chain}"));
        add_loss(&mut text, chain, ppm);
    }
    Ok(text)
}

fn add_loss(text: &mut String, chain: &str, ppm: u32) {
    let action = format_args!("counter name {chain} drop");
    match ppm {
        0 => {}
        // `numgen … < modulus` is always true, which nft refuses as out of range.
        LOSS_PPM_MAX => push_line(text, format_args!("add rule inet lab {chain} {action}")),
        _ => push_line(
            text,
            format_args!(
                "add rule inet lab {chain} numgen random mod {LOSS_PPM_MAX} < {ppm} {action}"
            ),
        ),
    }
}

/// Drops what comes from these addresses, besides what is dropped already.
pub(crate) fn cut(from: &[IpAddr]) -> String {
    let mut text = String::new();
    for address in from {
        let set = match address {
            IpAddr::V4(_) => "cut",
            IpAddr::V6(_) => "cut6",
        };
        let element = format_args!("add element inet lab {set} {{ {address} }}");
        push_line(&mut text, element);
    }
    text
}

/// Ends all splits.
pub(crate) const HEAL: &str = "flush set inet lab cut\nflush set inet lab cut6\n";

/// A port of a host that seems another one to some other host ([`crate::Lab::translate`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Translation {
    /// The port of the host's program.
    pub port: u16,
    /// Port that the other host takes it for.
    pub outside: u16,
}

/// Replaces the translation of UDP ports towards another host. What the other one sends to the port
/// itself goes nowhere, as behind a translator that has forgotten it.
pub(crate) fn translation(of: Translation, towards: Ipv4Addr) -> String {
    let Translation { port, outside } = of;
    let table = "inet lab_ports";
    let mut text = format!(
        "add table {table}\ndelete table {table}\nadd table {table}\n\
         add chain {table} out {{ type filter hook output priority 300; }}\n\
         add chain {table} in {{ type filter hook prerouting priority -350; }}\n"
    );
    let (to, from) = (
        format_args!("ip daddr {towards}"),
        format_args!("ip saddr {towards}"),
    );
    push_line(
        &mut text,
        format_args!("add rule {table} out {to} udp sport {port} udp sport set {outside}"),
    );
    if port != outside {
        push_line(
            &mut text,
            format_args!("add rule {table} in {from} udp dport {port} drop"),
        );
    }
    push_line(
        &mut text,
        format_args!("add rule {table} in {from} udp dport {outside} udp dport set {port}"),
    );
    text
}

/// Arguments with which `nft` prints what [`parse_drops`] reads.
pub(crate) const LIST_COUNTERS: [&str; 5] = ["list", "counters", "table", "inet", "lab"];

/// Reads the counters from what `nft` prints; `None` if one of them is missing.
pub(crate) fn parse_drops(text: &str) -> Option<Drops> {
    Some(Drops {
        multicast_packets: packets(text, "loss_multicast")?,
        unicast_packets: packets(text, "loss_unicast")?,
        split_packets: packets(text, "split")?,
    })
}

/// Packets that the counter of this name has counted.
pub(crate) fn packets(text: &str, name: &str) -> Option<u64> {
    let words = text.lines().map(|line| line.split_whitespace().collect());
    let mut lines = words.skip_while(|words: &Vec<&str>| words[..] != ["counter", name, "{"]);
    match lines.nth(1)?[..] {
        ["packets", count, "bytes", _] => count.parse().ok(),
        _ => None,
    }
}

pub(crate) fn push_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    writeln!(text, "{line}").unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "table inet lab {
	counter split {
		packets 3 bytes 84
	}

	counter loss_multicast {
		packets 12 bytes 336
	}

	counter loss_unicast {
		packets 0 bytes 0
	}
}
";

    #[test]
    fn counters_are_read_by_name() {
        let drops = parse_drops(LISTED).unwrap();
        assert_eq!(
            drops,
            Drops {
                multicast_packets: 12,
                unicast_packets: 0,
                split_packets: 3
            }
        );
        assert_eq!(drops.total_packets(), 15);
    }

    #[test]
    fn a_missing_counter_is_noticed() {
        assert_eq!(parse_drops(&LISTED.replace("loss_unicast", "other")), None);
    }

    #[test]
    fn no_loss_leaves_an_empty_chain() {
        assert_eq!(
            loss(0, Traffic::Unicast).unwrap(),
            "flush chain inet lab loss_unicast\n"
        );
    }

    #[test]
    fn loss_of_more_than_all_packets_is_refused() {
        let error = loss(LOSS_PPM_MAX + 1, Traffic::All).unwrap_err();
        assert!(matches!(error, LabError::LossOutOfRange { ppm: 1_000_001 }));
    }
}
