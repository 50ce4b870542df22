use std::fs;
use std::net::Ipv4Addr;

use qsm_net::{Medium, interfaces};
use serde_json::Value;

use super::error::CollectError;
use super::tool;
use crate::facts::{Kind, Link};

/// Kinds, as `ip` calls them, that carry packets within packets.
const TUNNELS: [&str; 17] = [
    "amt",
    "bareudp",
    "erspan",
    "geneve",
    "gre",
    "gretap",
    "ip6gre",
    "ip6tnl",
    "ipip",
    "l2tp",
    "sit",
    "tun",
    "vti",
    "vti6",
    "vxlan",
    "wireguard",
    "xfrm",
];

/// The interface, and the names of others that are up and have an address.
pub(crate) fn read(interface: &str) -> Result<(Link, Vec<String>), CollectError> {
    let links = list(&["-d", "-j", "link", "show"]).ok_or(CollectError::NoIp)?;
    let addresses = list(&["-j", "address", "show"]).unwrap_or_default();
    let (link, others) = links_of(&links, &addresses, interface, wireless(interface))?;
    let medium = medium(interface);
    Ok((Link { medium, ..link }, others))
}

/// The medium that nodes take the interface for.
fn medium(interface: &str) -> Option<Medium> {
    let all = interfaces().ok()?;
    let found = all.into_iter().find(|one| one.name == interface)?;
    Some(found.medium)
}

fn list(arguments: &[&str]) -> Option<Vec<Value>> {
    let text = tool::output("ip", arguments)?;
    let value: Value = serde_json::from_str(&text).ok()?;
    value.as_array().cloned()
}

fn name(of: &Value) -> &str {
    of["ifname"].as_str().unwrap_or_default()
}

fn has(link: &Value, flag: &str) -> bool {
    let flags = link["flags"].as_array();
    flags.is_some_and(|flags| flags.iter().any(|other| other == flag))
}

fn links_of(
    links: &[Value],
    addresses: &[Value],
    interface: &str,
    wireless: bool,
) -> Result<(Link, Vec<String>), CollectError> {
    let Some(link) = links.iter().find(|link| name(link) == interface) else {
        let known = links.iter().map(|link| name(link).to_owned()).collect();
        let name = interface.to_owned();
        return Err(CollectError::NoInterface { name, known });
    };
    let infos = |link: &Value| -> Vec<Value> {
        let own = addresses.iter().find(|one| name(one) == name(link));
        let infos = own.and_then(|one| one["addr_info"].as_array());
        infos.cloned().unwrap_or_default()
    };
    let v4 = |link: &Value| -> Vec<Ipv4Addr> {
        let infos = infos(link).into_iter();
        infos
            .filter_map(|info| info["local"].as_str()?.parse().ok())
            .collect()
    };
    let others = links.iter().filter(|other| {
        name(other) != interface
            && has(other, "UP")
            && !has(other, "LOOPBACK")
            && !v4(other).is_empty()
    });
    let others = others.map(|other| name(other).to_owned()).collect();
    let bridge = &link["linkinfo"]["info_data"];
    let flag = |key: &str| bridge[key].as_u64().map(|value| value != 0);
    let up = has(link, "UP");
    let link = Link {
        name: interface.to_owned(),
        index: link["ifindex"]
            .as_u64()
            .and_then(|index| u32::try_from(index).ok()),
        kind: Some(kind(link, wireless)),
        medium: None,
        up: Some(up),
        carrier: up.then(|| has(link, "LOWER_UP")),
        multicast: Some(has(link, "MULTICAST")),
        mtu: link["mtu"].as_u64(),
        addresses: v4(link),
        ipv6: infos(link).iter().any(|info| info["family"] == "inet6"),
        snooping: flag("mcast_snooping"),
        querier: flag("mcast_querier"),
    };
    Ok((link, others))
}

fn kind(link: &Value, wireless: bool) -> Kind {
    let info = link["linkinfo"]["info_kind"].as_str();
    match (info, link["link_type"].as_str()) {
        _ if has(link, "LOOPBACK") => Kind::Loopback,
        (Some("veth"), _) => Kind::Veth,
        (Some("bridge"), _) => Kind::Bridge,
        (Some(kind), _) if TUNNELS.contains(&kind) => Kind::Tunnel(kind.to_owned()),
        (Some(kind), _) => Kind::Other(kind.to_owned()),
        (None, Some("ether")) if wireless => Kind::Wireless,
        (None, Some("ether")) => Kind::Ethernet,
        (None, kind) => Kind::Other(kind.unwrap_or("unknown").to_owned()),
    }
}

/// Within a network namespace `/sys` shows the interfaces of another one; there are no wireless ones
/// in namespaces, as a rule, and the name tells it as well.
fn wireless(interface: &str) -> bool {
    let path = format!("/sys/class/net/{interface}/phy80211");
    interface.starts_with("wl") && fs::exists(path).unwrap_or(false)
}

/// Packets that the card had no descriptor for, and those received.
pub(crate) fn missed(interface: &str) -> Option<[u64; 2]> {
    let links = list(&["-s", "-s", "-j", "link", "show", "dev", interface])?;
    let rx = &links.first()?["stats64"]["rx"];
    let of = |key: &str| rx[key].as_u64();
    let lost = of("missed_errors").unwrap_or(0) + of("fifo_errors").unwrap_or(0);
    Some([lost, of("packets")?])
}

/// Whether the kernel finds a way for multicast out of the interface.
pub(crate) fn route(interface: &str) -> Option<bool> {
    list(&["-j", "link", "show", "dev", interface])?;
    let found = list(&["-j", "route", "get", "239.192.83.77", "oif", interface]);
    Some(found.is_some_and(|routes| routes.iter().any(|route| route["dev"] == interface)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_ip_writes_is_understood() {
        let links = [
            json!({"ifname": "lo", "flags": ["LOOPBACK", "UP", "LOWER_UP"], "mtu": 65536}),
            json!({"ifname": "eth0", "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
                   "mtu": 1500, "link_type": "ether"}),
            json!({"ifname": "br0", "flags": ["UP"], "mtu": 9000, "link_type": "ether", "linkinfo":
                   {"info_kind": "bridge", "info_data": {"mcast_snooping": 1, "mcast_querier": 0}}}),
            json!({"ifname": "wg0", "flags": [], "mtu": 1420, "link_type": "none",
                   "linkinfo": {"info_kind": "wireguard"}}),
        ];
        let addresses = [
            json!({"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1"}]}),
            json!({"ifname": "eth0", "addr_info": [{"family": "inet", "local": "10.0.0.1"},
                                                   {"family": "inet6", "local": "fe80::1"}]}),
            json!({"ifname": "br0", "addr_info": [{"family": "inet", "local": "10.1.0.1"}]}),
        ];
        let of = |name: &str| links_of(&links, &addresses, name, false);
        let (eth0, others) = of("eth0").unwrap();
        assert_eq!(others, ["br0"]);
        assert_eq!(eth0.addresses, [Ipv4Addr::new(10, 0, 0, 1)]);
        assert_eq!(
            (eth0.kind, eth0.ipv6, eth0.carrier),
            (Some(Kind::Ethernet), true, Some(true))
        );
        let (br0, _) = of("br0").unwrap();
        assert_eq!((br0.kind, br0.carrier), (Some(Kind::Bridge), Some(false)));
        assert_eq!((br0.snooping, br0.querier), (Some(true), Some(false)));
        let (wg0, _) = of("wg0").unwrap();
        assert_eq!(wg0.kind, Some(Kind::Tunnel("wireguard".to_owned())));
        assert_eq!((wg0.up, wg0.carrier), (Some(false), None));
        assert_eq!(of("lo").unwrap().0.kind, Some(Kind::Loopback));
        let error = of("eth9").unwrap_err().to_string();
        assert!(
            error.contains("eth9; choose one of lo, eth0, br0, wg0"),
            "{error}"
        );
    }
}
