use super::*;

const UP: u32 = libc::IFF_UP as u32;
const MULTICAST: u32 = libc::IFF_MULTICAST as u32;
const LOOPBACK: u32 = libc::IFF_LOOPBACK as u32;

fn link(name: &str, flags: u32, addrs: &[[u8; 4]]) -> Link {
    let addrs = addrs.iter().map(|&octets| Ipv4Addr::from(octets)).collect();
    Link {
        name: name.to_owned(),
        index: 7,
        flags,
        mtu: 1500,
        addrs,
    }
}

fn sample() -> Vec<Link> {
    vec![
        link("lo", UP | LOOPBACK, &[[127, 0, 0, 1]]),
        link("plain", UP | MULTICAST, &[[10, 0, 0, 1]]),
        link("gate", UP | MULTICAST, &[[10, 1, 0, 1], [10, 1, 0, 2]]),
        link("multi", UP | MULTICAST, &[[10, 2, 0, 1]]),
        link("off", MULTICAST, &[[10, 3, 0, 1]]),
        link("bare", UP | MULTICAST, &[]),
        link("tunnel", UP, &[[10, 4, 0, 1]]),
    ]
}

fn route(interface: &str, network: [u8; 4], mask: [u8; 4]) -> Route {
    Route {
        interface: interface.to_owned(),
        network: network.into(),
        mask: mask.into(),
    }
}

fn table() -> Vec<Route> {
    vec![
        route("gate", [0, 0, 0, 0], [0, 0, 0, 0]),
        route("multi", [224, 0, 0, 0], [240, 0, 0, 0]),
    ]
}

#[test]
fn prefers_multicast_route_then_default_route_then_any_then_loopback() {
    let mut links = sample();
    for expected in ["multi", "gate", "plain", "lo"] {
        let (interface, why) = choose(&links, &table(), None).unwrap();
        assert_eq!(interface.name, expected);
        assert!(why.starts_with(expected), "{why}");
        links.retain(|link| link.name != expected);
    }
    let error = choose(&links, &table(), None).unwrap_err().to_string();
    assert!(
        error.contains("off (10.3.0.1, down), bare (no IPv4 address), tunnel (10.4.0.1)"),
        "{error}"
    );
}

#[test]
fn request_by_name_or_address() {
    let (by_name, _) = choose(&sample(), &[], Some("gate")).unwrap();
    assert_eq!(by_name.addr, Ipv4Addr::new(10, 1, 0, 1));
    let (by_address, why) = choose(&sample(), &[], Some("10.1.0.2")).unwrap();
    assert_eq!(
        (by_address.name.as_str(), by_address.addr),
        ("gate", Ipv4Addr::new(10, 1, 0, 2))
    );
    assert_eq!(why, "gate (10.1.0.2) as asked for");
    assert_eq!(choose(&sample(), &[], Some("lo")).unwrap().0.name, "lo");
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
            "interface bare has no IPv4 address; give it one with `ip addr add ADDRESS/LENGTH dev bare`",
        ),
        ("tunnel", "`ip link set dev tunnel multicast on`"),
        ("tunnel", "`ip route add 224.0.0.0/4 dev tunnel`"),
        (
            "eth9",
            "no interface has the name or IPv4 address \"eth9\"; choose one of: lo (127.0.0.1), plain (10.0.0.1)",
        ),
    ] {
        let error = choose(&sample(), &[], Some(requested))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
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
        assert_eq!(routes[1].mask, Ipv4Addr::new(240, 0, 0, 0));
    }
}

#[test]
fn the_host_has_a_loopback_interface() {
    let all = interfaces().unwrap();
    let lo = all.iter().find(|interface| interface.loopback).unwrap();
    assert_eq!(lo.addr, Ipv4Addr::LOCALHOST);
    assert!(lo.index > 0 && lo.mtu >= 1500);
}
