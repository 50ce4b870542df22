use std::net::{Ipv4Addr, Ipv6Addr};

use super::system::{parse_passing, parse_routes, parse_routes_v6, sort};
use super::*;

const UP: u32 = libc::IFF_UP as u32;
const MULTICAST: u32 = libc::IFF_MULTICAST as u32;
const LOOPBACK: u32 = libc::IFF_LOOPBACK as u32;

fn link(name: &str, flags: u32, addrs: &[&str]) -> Link {
    Link {
        name: name.to_owned(),
        index: 7,
        flags,
        mtu: 1500,
        hardware: None,
        addrs: addrs.iter().map(|addr| addr.parse().unwrap()).collect(),
    }
}

fn sample() -> Vec<Link> {
    vec![
        link("lo", UP | LOOPBACK, &["127.0.0.1", "::1"]),
        link("plain", UP | MULTICAST, &["10.0.0.1", "fe80::1"]),
        link(
            "gate",
            UP | MULTICAST,
            &["10.1.0.1", "10.1.0.2", "2001:db8::7"],
        ),
        link("multi", UP | MULTICAST, &["10.2.0.1"]),
        link("off", MULTICAST, &["10.3.0.1"]),
        link("bare", UP | MULTICAST, &[]),
        link("tunnel", UP, &["10.4.0.1"]),
        link("modern", UP | MULTICAST, &["fd00::9", "fe80::2"]),
    ]
}

fn route(interface: &str, network: &str, length: u32) -> Route {
    Route {
        interface: interface.to_owned(),
        network: network.parse().unwrap(),
        length,
    }
}

fn table() -> Vec<Route> {
    vec![
        route("gate", "0.0.0.0", 0),
        route("multi", "224.0.0.0", 4),
        route("modern", "::", 0),
    ]
}

fn wish(requested: Option<&str>, family: Option<Family>) -> Wish<'_> {
    Wish {
        requested,
        family,
        multicast: true,
    }
}

fn chosen(links: &[Link], family: Option<Family>) -> String {
    let (interface, why) = choose(links, &table(), wish(None, family)).unwrap();
    assert!(why.starts_with(&interface.name), "{why}");
    interface.to_string()
}

fn asked(name: &str, family: Option<Family>) -> Result<(Interface, String), InterfaceError> {
    choose(&sample(), &[], wish(Some(name), family))
}

#[test]
fn prefers_multicast_route_then_default_route_then_any_then_loopback() {
    let mut links = sample();
    for expected in [
        "multi (10.2.0.1)",
        "gate (10.1.0.1)",
        "plain (10.0.0.1)",
        "modern (fd00::9)",
        "lo (127.0.0.1)",
    ] {
        assert_eq!(chosen(&links, None), expected);
        let (_, why) = choose(&links, &table(), wish(None, None)).unwrap();
        assert_eq!(
            why.contains("off is down"),
            expected.starts_with("lo"),
            "{why}"
        );
        let name = expected.split(' ').next().unwrap();
        links.retain(|link| link.name != name);
    }
    let error = choose(&links, &table(), wish(None, None))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("off (10.3.0.1, down), bare (no address), tunnel (10.4.0.1)"),
        "{error}"
    );
}

#[test]
fn of_ipv6_a_link_local_address_comes_before_loopback_only() {
    let mut links = sample();
    for expected in ["modern (fd00::9)", "gate (2001:db8::7)", "plain (fe80::1)"] {
        assert_eq!(chosen(&links, Some(Family::V6)), expected);
        let name = expected.split(' ').next().unwrap();
        links.retain(|link| link.name != name);
    }
    assert_eq!(chosen(&links, Some(Family::V6)), "lo (::1)");
    links.retain(|link| link.name != "lo");
    let error = choose(&links, &[], wish(None, Some(Family::V6))).unwrap_err();
    assert!(error.to_string().contains("with an IPv6 address"));
    // Unasked, a host without a network does not go by its link-local address.
    let offline = [
        link("lo", UP | LOOPBACK, &["127.0.0.1"]),
        link("unplugged", UP | MULTICAST, &["fe80::1"]),
    ];
    assert_eq!(chosen(&offline, None), "lo (127.0.0.1)");
}

#[test]
fn request_by_name_or_address() {
    for (requested, family, expected) in [
        ("gate", None, "gate (10.1.0.1) as asked for"),
        ("10.1.0.2", None, "gate (10.1.0.2) as asked for"),
        ("gate", Some(Family::V6), "gate (2001:db8::7) as asked for"),
        ("modern", None, "modern (fd00::9) as asked for"),
        ("::1", None, "lo (::1) as asked for"),
        ("lo", None, "lo (127.0.0.1) as asked for"),
        ("lo", Some(Family::V6), "lo (::1) as asked for"),
        ("fe80::2", None, "modern (fe80::2) as asked for"),
        ("fe80::2%modern", None, "modern (fe80::2) as asked for"),
        ("fe80::2%7", None, "modern (fe80::2) as asked for"),
    ] {
        assert_eq!(asked(requested, family).unwrap().1, expected);
    }
}

#[test]
fn a_link_local_address_of_several_interfaces_needs_one_said() {
    let mut links = sample();
    links.push(link("other", UP | MULTICAST, &["fe80::2"]));
    let error = choose(&links, &[], wish(Some("fe80::2"), None)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "several interfaces have the address fe80::2: modern, other; say which one, as in fe80::2%modern"
    );
    let (interface, _) = choose(&links, &[], wish(Some("fe80::2%other"), None)).unwrap();
    assert_eq!(interface.name, "other");
}

#[test]
fn errors_name_cause_and_remedy() {
    for (requested, expected) in [
        (
            "off",
            "interface off is down; bring it up with `ip link set dev off up`",
        ),
        (
            "bare",
            "interface bare has no IP address; give it one with `ip addr add ADDRESS/LENGTH dev bare`",
        ),
        ("tunnel", "`ip link set dev tunnel multicast on`"),
        ("tunnel", "`ip route add 224.0.0.0/4 dev tunnel`"),
        (
            "eth9",
            "no interface has the name or address \"eth9\"; choose one of: lo (127.0.0.1 ::1), plain (10.0.0.1 fe80::1)",
        ),
    ] {
        let error = asked(requested, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = asked("multi", Some(Family::V6)).unwrap_err().to_string();
    assert!(
        error.starts_with("interface multi has no IPv6 address"),
        "{error}"
    );
}

#[test]
fn reads_the_kernels_routing_table() {
    let text = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                eth1\t000000E0\t00000000\t0001\t0\t0\t0\t000000F0\t0\t0\t0\n\
                broken line\n";
    let routes = parse_routes(text);
    assert_eq!(routes.len(), 2);
    // The words are printed in the machine's order; these are a little-endian machine's.
    if cfg!(target_endian = "little") {
        assert_eq!(routes[1].network, Ipv4Addr::new(224, 0, 0, 0));
        assert_eq!(routes[1].length, 4);
    }
}

#[test]
fn reads_the_kernels_tables_of_ipv6() {
    let zero = "0".repeat(32);
    let text = format!(
        "{zero} 00 {zero} 00 fd000000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n\
         ff000000000000000000000000000000 08 {zero} 00 {zero} 00000100 00000001 00000000 00000001     eth1\n\
         broken line\n"
    );
    let routes = parse_routes_v6(&text);
    assert_eq!(routes.len(), 1);
    assert_eq!(
        (routes[0].interface.as_str(), routes[0].length),
        ("eth0", 0)
    );

    let text = "fd000000000000000000000000000002 04 40 00 82     eth0\n\
                fd000000000000000000000000000003 04 40 00 01     eth0\n\
                fd000000000000000000000000000004 04 40 00 c0     eth0\n\
                broken line\n";
    let [lasting, private, tentative]: [Ipv6Addr; 3] =
        ["fd00::2", "fd00::3", "fd00::4"].map(|text| text.parse().unwrap());
    let passing = parse_passing(text);
    assert_eq!(passing, [private, tentative]);
    let link_local: IpAddr = "fe80::1".parse().unwrap();
    let v4: IpAddr = "10.0.0.1".parse().unwrap();
    let mut addrs = [link_local, private.into(), lasting.into(), v4];
    sort(&mut addrs, &passing);
    assert_eq!(addrs, [v4, lasting.into(), private.into(), link_local]);
}

#[test]
fn the_host_has_a_loopback_interface() {
    let all = interfaces().unwrap();
    let lo = all.iter().find(|interface| interface.loopback).unwrap();
    assert_eq!(lo.addr, IpAddr::from(Ipv4Addr::LOCALHOST));
    assert!(lo.index > 0 && lo.mtu >= 1500);
}

#[test]
fn an_interface_keeps_its_address_while_it_has_it() {
    let mut links = sample();
    let former = links[2].entries().nth(1).unwrap();
    assert_eq!(again(&links, &former).unwrap(), former);
    links[2].addrs.remove(1);
    let now = again(&links, &former).unwrap();
    assert_eq!(now.to_string(), "gate (10.1.0.1)");
    links[2].addrs.remove(0);
    let error = again(&links, &former).unwrap_err();
    assert!(matches!(error, InterfaceError::NoAddress { .. }));
    links.remove(2);
    let error = again(&links, &former).unwrap_err();
    assert!(matches!(error, InterfaceError::Unknown { .. }));
    let mut modern = vec![link("modern", UP | MULTICAST, &["fd00::9", "fe80::2"])];
    let former = modern[0].entries().next().unwrap();
    modern[0].addrs.remove(0);
    let error = again(&modern, &former).unwrap_err();
    assert!(
        matches!(error, InterfaceError::NoAddress { .. }),
        "others may be beyond the link"
    );
}

#[test]
fn an_interface_without_multicast_will_do_where_none_is_needed() {
    let links = [
        link("lo", UP | LOOPBACK, &["127.0.0.1"]),
        link("tunnel", UP, &["10.4.0.1"]),
    ];
    for requested in [None, Some("tunnel"), Some("10.4.0.1")] {
        let wish = Wish {
            multicast: false,
            ..wish(requested, None)
        };
        let (interface, why) = choose(&links, &[], wish).unwrap();
        assert_eq!(interface.to_string(), "tunnel (10.4.0.1)");
        assert!(!why.contains("carries multicast"), "{why}");
        assert_eq!(again(&links, &interface).unwrap(), interface);
    }
    let error = choose(&links, &[], wish(Some("tunnel"), None)).unwrap_err();
    assert!(matches!(error, InterfaceError::NoMulticast { .. }));
}
