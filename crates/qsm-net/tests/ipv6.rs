//! The same with IPv6, on hosts of a lab: a host's `lo` has no route for multicast unless somebody gives it one.

mod common;

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};

use common::{collect, config, pattern};
use lab::{HostId, Lab};
use qsm_net::{
    Family, Offload, Port, PortConfig, PortError, SendError, SendFailure, choose_interface,
};

const BOTH: [Offload; 2] = [Offload::Auto, Offload::Off];

/// A lab with one host or more; `None`, with the reason printed, where this machine cannot run one.
fn lab(hosts: usize) -> Option<(Lab, Vec<HostId>)> {
    if !lab::ready() {
        return None;
    }
    let mut lab = Lab::with_ipv6().unwrap();
    let hosts = lab.add_hosts(hosts).unwrap();
    Some((lab, hosts))
}

/// A configuration for the interface with this name or address, of the host that the thread is on.
fn at(interface: &str) -> PortConfig {
    PortConfig {
        interface: choose_interface(Some(interface), Some(Family::V6))
            .unwrap()
            .0,
        ..config()
    }
}

fn open(interface: &str, offload: Offload) -> Port {
    Port::open(PortConfig {
        offload,
        ..at(interface)
    })
    .unwrap()
}

/// Labs are closed, but the tests of one process share a machine's memory: an address of its own for each.
fn group() -> SocketAddr {
    let [a, b, c, d, ..] = RandomState::new().hash_one(0).to_le_bytes();
    let words = [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])];
    let port = 20_000 + words[0] % 40_000;
    SocketAddr::from(([0xff15, 0, 0, 0, 0, 0, 0x8000, words[1]], port))
}

fn round_trip(sending: Offload, receiving: Offload, (length, segment): (usize, usize)) {
    let (mut sender, mut receiver) = (open("lo", sending), open("lo", receiving));
    let (group, bytes) = (group(), pattern(length));
    receiver.join(group).unwrap();
    let sent = sender.send(group, &bytes, segment).unwrap();
    let expected: Vec<&[u8]> = bytes.chunks(segment).collect();
    assert_eq!((sent.bytes, sent.datagrams), (length, expected.len()));
    let received = collect(&mut receiver, expected.len());
    for (datagram, bytes) in received.iter().zip(expected) {
        assert_eq!(datagram.bytes, bytes);
        assert_eq!(datagram.group, Some(group));
        assert_eq!(datagram.source, sender.local_addr());
    }
    let counters = receiver.counters().multicast;
    assert_eq!(counters.bytes, length as u64);
}

#[test]
fn every_cut_arrives_the_same_on_every_path() {
    let Some((lab, hosts)) = lab(1) else { return };
    let _inside = lab.enter(hosts[0]).unwrap();
    // Single; full train; short last segment; more than a train; more than a system call takes without offload; jumbo;
    // the largest datagram.
    let cuts = [
        (1, 1),
        (64_000, 1000),
        (63_001, 1000),
        (500_000, 1400),
        (4001, 40),
        (60_000, 9000),
        (131_054, 65_527),
    ];
    for sending in BOTH {
        for receiving in BOTH {
            for cut in cuts {
                round_trip(sending, receiving, cut);
            }
        }
    }
    let mut port = open("lo", Offload::Auto);
    let error = port.send(group(), &[1], 65_528).unwrap_err();
    assert_eq!(
        error.to_string(),
        "datagrams of 65528 bytes are impossible; use 1 to 65527"
    );
}

#[test]
fn a_train_crosses_the_kernel_whole() {
    let Some((lab, hosts)) = lab(1) else { return };
    let _inside = lab.enter(hosts[0]).unwrap();
    let mut sender = open("lo", Offload::Auto);
    let mut receiver = open("lo", Offload::Auto);
    let group = group();
    receiver.join(group).unwrap();
    sender.send(group, &pattern(63_500), 1000).unwrap();
    assert_eq!(collect(&mut receiver, 64).len(), 64);
    let (sent, received) = (sender.counters().sent, receiver.counters().multicast);
    assert_eq!((sent.calls, sent.trains), (1, 1));
    assert_eq!((received.calls, received.trains), (1, 1));
}

#[test]
fn link_local_addresses_are_told_without_scope_and_reached_by_the_interface() {
    let Some((lab, hosts)) = lab(2) else { return };
    let mut ports = hosts.iter().map(|&host| {
        let _inside = lab.enter(host).unwrap();
        let address = lab.host(host).link_address_v6().unwrap();
        let mut port = open(&format!("{address}%eth0"), Offload::Auto);
        port.join("[ff15::8000:1]:7777".parse().unwrap()).unwrap();
        // Of the link as well, which is another address on each link.
        port.join("[ff12::8000:2]:7777".parse().unwrap()).unwrap();
        assert_eq!(port.local_addr().ip(), IpAddr::V6(address));
        port
    });
    let (mut one, mut two) = (ports.next().unwrap(), ports.next().unwrap());
    for group in ["[ff15::8000:1]:7777", "[ff12::8000:2]:7777"] {
        let group: SocketAddr = group.parse().unwrap();
        one.send(group, &pattern(3000), 1000).unwrap();
        let received = collect(&mut two, 3);
        assert_eq!(received[2].bytes, pattern(3000)[2000..]);
        assert_eq!(received[0].group, Some(group));
        assert_eq!(received[0].source, one.local_addr());
    }
    two.send(one.local_addr(), b"answer", 6).unwrap();
    let received = collect(&mut one, 7);
    let answer = received.iter().find(|datagram| datagram.group.is_none());
    assert_eq!(answer.unwrap().bytes, b"answer");
    assert_eq!(answer.unwrap().source, two.local_addr());
}

#[test]
fn the_same_group_on_another_interface_is_foreign() {
    let Some((lab, hosts)) = lab(1) else { return };
    let _inside = lab.enter(hosts[0]).unwrap();
    let group = group();
    let mut sender = open("lo", Offload::Auto);
    let (mut inside, mut outside) = (open("lo", Offload::Auto), open("eth0", Offload::Auto));
    inside.join(group).unwrap();
    outside.join(group).unwrap();
    sender.send(group, b"on lo", 5).unwrap();
    assert_eq!(collect(&mut inside, 1)[0].bytes, b"on lo");
    outside.refresh_drops();
    assert_eq!(outside.receive().unwrap(), 0);
    let mut other = open("eth0", Offload::Auto);
    other.send(group, b"on eth0", 7).unwrap();
    assert_eq!(collect(&mut outside, 1)[0].bytes, b"on eth0");
    assert_eq!(inside.receive().unwrap(), 0);
}

#[test]
fn leaving_stops_delivery_and_joining_is_idempotent() {
    let Some((lab, hosts)) = lab(1) else { return };
    let _inside = lab.enter(hosts[0]).unwrap();
    let group = group();
    let (mut sender, mut receiver) = (open("lo", Offload::Auto), open("lo", Offload::Auto));
    receiver.join(group).unwrap();
    receiver.join(group).unwrap();
    assert_eq!(receiver.groups().collect::<Vec<_>>(), [group]);
    receiver.leave(group);
    sender.send(group, b"nobody", 6).unwrap();
    sender.send(receiver.local_addr(), b"last", 4).unwrap();
    assert_eq!(collect(&mut receiver, 1)[0].bytes, b"last");
    receiver.join(group).unwrap();
    sender.send(group, b"again", 5).unwrap();
    assert_eq!(collect(&mut receiver, 1)[0].bytes, b"again");
}

#[test]
fn what_the_kernel_drops_is_counted() {
    const DATAGRAMS: usize = 2000;
    let Some((lab, hosts)) = lab(1) else { return };
    let _inside = lab.enter(hosts[0]).unwrap();
    let group = group();
    let mut sender = open("lo", Offload::Off);
    let mut receiver = Port::open(PortConfig {
        receive_buffer_bytes: 64 << 10,
        offload: Offload::Off,
        ..at("lo")
    })
    .unwrap();
    receiver.join(group).unwrap();
    let bytes = vec![1; DATAGRAMS * 1000];
    sender.send(group, &bytes, 1000).unwrap();
    while receiver.receive().unwrap() > 0 {}
    receiver.refresh_drops();
    let counters = receiver.counters().multicast;
    assert!(counters.kernel_drops > 0);
    assert_eq!(counters.datagrams + counters.kernel_drops, DATAGRAMS as u64);
}

/// A host that answers "nobody listens there" disturbs neither the next send nor the next receive, and is counted once.
#[test]
fn refusals_are_counted_and_disturb_nothing() {
    let Some((lab, hosts)) = lab(1) else { return };
    let _inside = lab.enter(hosts[0]).unwrap();
    let group = group();
    let mut port = open("lo", Offload::Auto);
    port.join(group).unwrap();
    port.send("[::1]:1".parse().unwrap(), b"hello", 5).unwrap();
    assert_eq!(port.send(group, &[1; 3000], 1000).unwrap().datagrams, 3);
    assert_eq!(collect(&mut port, 3).len(), 3);
    let errors = port.counters().sent.errors;
    assert_eq!((errors.refused, errors.trains_refused), (1, 0));
}

#[test]
fn one_port_speaks_one_family() {
    let Some((lab, hosts)) = lab(1) else { return };
    let _inside = lab.enter(hosts[0]).unwrap();
    let mut port = open("eth0", Offload::Auto);
    let address = lab.host(hosts[0]).address_v6().unwrap();
    let error = port.join("239.255.1.1:7000".parse().unwrap()).unwrap_err();
    let expected = format!(
        "eth0 ({address}) cannot join the IPv4 group 239.255.1.1:7000; give a group of its family, \
         or choose an interface by an address of the group's"
    );
    assert_eq!(error.to_string(), expected);
    let error = port.send("10.78.0.1:7".parse().unwrap(), &[1], 1);
    let error = error.unwrap_err();
    assert!(matches!(error, SendError::OtherFamily { .. }), "{error}");
    let error = port.join(SocketAddr::new(address.into(), 7)).unwrap_err();
    let text = error.to_string();
    assert!(
        text.ends_with("use one of ff00::/8, best within ff15::/16"),
        "{text}"
    );
}

#[test]
fn a_missing_route_is_named_with_the_remedy() {
    let Some((lab, hosts)) = lab(1) else { return };
    let _inside = lab.enter(hosts[0]).unwrap();
    let ip = |words: &[&str]| {
        let status = lab.command(hosts[0], "ip").args(words).status().unwrap();
        assert!(status.success(), "{words:?}");
    };
    ip(&["-6", "route", "del", "local", "ff00::/8", "dev", "lo"]);
    let error = Port::open(at("lo")).unwrap_err();
    assert!(matches!(
        error,
        PortError::NoMulticastRoute { loopback: true, .. }
    ));
    let text = error.to_string();
    let (_, remedy) = text.split_once("add one with `ip ").unwrap();
    let words: Vec<&str> = remedy.trim_end_matches('`').split(' ').collect();
    ip(&words);
    drop(Port::open(at("lo")).unwrap());

    ip(&[
        "-6", "route", "del", "ff00::/8", "dev", "eth0", "table", "local",
    ]);
    let text = Port::open(at("eth0")).unwrap_err().to_string();
    let (_, remedy) = text.split_once("add one with `ip ").unwrap();
    let words: Vec<&str> = remedy.trim_end_matches('`').split(' ').collect();
    ip(&words);
    let mut port = Port::open(at("eth0")).unwrap();
    let group = group();
    port.join(group).unwrap();
    port.send(group, b"echo", 4).unwrap();
    assert_eq!(collect(&mut port, 1)[0].source, port.local_addr());
}

#[test]
fn a_vanished_address_is_named() {
    let Some((lab, hosts)) = lab(1) else { return };
    let _inside = lab.enter(hosts[0]).unwrap();
    let mut config = at("eth0");
    // Of the block for documentation (RFC 3849); no interface has it.
    config.interface.addr = "2001:db8::77".parse().unwrap();
    assert_eq!(
        Port::open(config).unwrap_err().to_string(),
        "this host no longer has the address 2001:db8::77; choose the interface again"
    );
}

#[test]
fn an_unreachable_host_is_told_with_the_remedy_for_ipv6() {
    let Some((lab, hosts)) = lab(1) else { return };
    let _inside = lab.enter(hosts[0]).unwrap();
    let mut port = open("eth0", Offload::Auto);
    let error = port.send("[2001:db8::1]:7".parse().unwrap(), &[1], 1);
    let error = error.unwrap_err();
    let kind = |error: &SendError| match error {
        SendError::Failed { failure, .. } => Some(*failure),
        _ => None,
    };
    assert_eq!(kind(&error), Some(SendFailure::Unreachable));
    assert!(error.to_string().contains("`ip -6 route get"), "{error}");
}
