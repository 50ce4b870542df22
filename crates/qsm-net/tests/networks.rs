//! Ports on two networks, on hosts of a lab: both carry everything, and either may be missing.

mod common;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use common::{Copied, PATIENCE, config, group, lo};
use lab::{HostId, Lab, Network};
use qsm_net::{Family, PortConfig, PortError, Ports, choose_interface};

/// A lab with two networks and hosts on both; `None`, with the reason printed, where this machine cannot run one.
fn lab(hosts: usize) -> Option<(Lab, Vec<HostId>)> {
    if !lab::ready() {
        return None;
    }
    let mut lab = Lab::with_ipv6().unwrap().and_second_network().unwrap();
    let hosts = lab.add_hosts(hosts).unwrap();
    Some((lab, hosts))
}

fn at(network: Network, family: Family) -> PortConfig {
    PortConfig {
        interface: choose_interface(Some(network.interface()), Some(family))
            .unwrap()
            .0,
        ..config()
    }
}

fn open(lab: &Lab, host: HostId, family: Family) -> Ports {
    let _inside = lab.enter(host).unwrap();
    Ports::open(
        at(Network::First, family),
        Some(at(Network::Second, family)),
    )
    .unwrap()
}

/// Sockets are of the network in which they are made.
fn join(lab: &Lab, host: HostId, ports: &mut Ports, group: SocketAddr) {
    let _inside = lab.enter(host).unwrap();
    ports.join(group).unwrap();
}

fn group_of(family: Family) -> SocketAddr {
    let v4 = group();
    match family {
        Family::V4 => v4,
        Family::V6 => SocketAddr::from(([0xff15, 0, 0, 0, 0, 0, 0x8000, 7], v4.port())),
    }
}

/// Receives until `count` datagrams have come.
fn collect(ports: &mut Ports, count: usize) -> Vec<Copied> {
    let mut all = Vec::new();
    while all.len() < count {
        let ready = ports.wait(Some(PATIENCE)).unwrap();
        assert!(ready.readable, "only {} of {count} came", all.len());
        while ports.receive().unwrap() > 0 {
            all.extend(ports.datagrams().map(|datagram| Copied {
                group: datagram.group,
                source: datagram.source,
                bytes: datagram.bytes.to_vec(),
            }));
        }
    }
    all
}

fn sources(datagrams: &[Copied]) -> Vec<SocketAddr> {
    let mut sources: Vec<_> = datagrams.iter().map(|datagram| datagram.source).collect();
    sources.sort();
    sources
}

/// The two know each other's addresses.
fn introduce(one: &mut Ports, other: &mut Ports) {
    one.learn(other.local_addr(), other.second_addr().unwrap());
    other.learn(one.local_addr(), one.second_addr().unwrap());
}

#[test]
fn everything_comes_by_both_and_from_one_host() {
    let Some((lab, hosts)) = lab(2) else { return };
    for family in [Family::V4, Family::V6] {
        let group = group_of(family);
        let mut sender = open(&lab, hosts[0], family);
        let mut receiver = open(&lab, hosts[1], family);
        join(&lab, hosts[1], &mut receiver, group);
        let (first, second) = (sender.local_addr(), sender.second_addr().unwrap());

        sender.send(group, &[7; 3000], 1000).unwrap();
        let known = [first, first, first, second, second, second];
        assert_eq!(sources(&collect(&mut receiver, 6)), known);

        introduce(&mut sender, &mut receiver);
        for to in [group, receiver.local_addr()] {
            sender.send(to, &[7; 3000], 1000).unwrap();
            let came = collect(&mut receiver, 6);
            assert_eq!(sources(&came), [first; 6]);
            let to = to.ip().is_multicast().then_some(to);
            assert!(came.iter().all(|datagram| datagram.group == to));
        }
        let [all, second] = [receiver.counters(), receiver.second_counters().unwrap()];
        assert_eq!(
            (all.multicast.datagrams, second.multicast.datagrams),
            (12, 6)
        );
        assert_eq!((all.unicast.datagrams, second.unicast.datagrams), (6, 3));
        receiver.leave(group);
    }
}

#[test]
fn a_host_of_which_nothing_is_known_is_answered_on_the_network_it_was_heard_on() {
    let Some((lab, hosts)) = lab(2) else { return };
    let group = group();
    let mut sender = open(&lab, hosts[0], Family::V4);
    let mut receiver = open(&lab, hosts[1], Family::V4);
    join(&lab, hosts[1], &mut receiver, group);
    lab.set_network(Network::First, false).unwrap();
    sender.send(group, b"who", 3).unwrap();
    let source = collect(&mut receiver, 1)[0].source;
    assert_eq!(source, sender.second_addr().unwrap());
    receiver.send(source, b"you", 3).unwrap();
    assert_eq!(
        collect(&mut sender, 1)[0].source,
        receiver.second_addr().unwrap()
    );
}

#[test]
fn either_network_may_be_silent_or_its_interface_down() {
    let Some((lab, hosts)) = lab(2) else { return };
    let group = group();
    let mut sender = open(&lab, hosts[0], Family::V4);
    let mut receiver = open(&lab, hosts[1], Family::V4);
    join(&lab, hosts[1], &mut receiver, group);
    introduce(&mut sender, &mut receiver);
    let mut number = 0_u32;
    let mut arrives = || {
        for to in [group, receiver.local_addr()] {
            number += 1;
            sender.send(to, &number.to_le_bytes(), 4).unwrap();
            // What waited for the address of a silent neighbour may come before it.
            while !collect(&mut receiver, 1)
                .iter()
                .any(|datagram| datagram.bytes == number.to_le_bytes())
            {}
        }
    };
    arrives();
    for down in [Network::First, Network::Second] {
        lab.set_network(down, false).unwrap();
        arrives();
        lab.set_network(down, true).unwrap();
    }
    for down in [Network::First, Network::Second] {
        set_link(&lab, hosts[0], down, "down");
        arrives();
        set_link(&lab, hosts[0], down, "up");
        while !link_is_up(&lab, hosts[0], down) {
            std::thread::yield_now();
        }
    }
    let failed = sender.counters().sent.errors.unreachable;
    assert!(failed >= 2, "{failed} sends failed");
}

fn set_link(lab: &Lab, host: HostId, network: Network, state: &str) {
    let mut command = lab.command(host, "ip");
    command.args(["link", "set", network.interface(), state]);
    assert!(command.status().unwrap().success());
}

fn link_is_up(lab: &Lab, host: HostId, network: Network) -> bool {
    let mut command = lab.command(host, "ip");
    command.args(["-brief", "link", "show", network.interface()]);
    let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
    shown.split_whitespace().nth(1) == Some("UP")
}

#[test]
fn two_interfaces_must_be_two_of_one_family() {
    let twice = Ports::open(config(), Some(config())).unwrap_err();
    assert!(matches!(twice, PortError::SameInterface { .. }));
    assert_eq!(
        twice.to_string(),
        "lo is given twice; two interfaces must be on two networks, else nothing is redundant"
    );
    let mut other = config();
    other.interface.index += 1;
    other.interface.addr = IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]);
    let mixed = Ports::open(config(), Some(other)).unwrap_err();
    assert!(matches!(mixed, PortError::OtherFamilies { .. }), "{mixed}");
    assert!(mixed.to_string().contains("give both by addresses of one"));
    assert_eq!(Ports::open(config(), None).unwrap().second_addr(), None);
    assert!(lo().loopback);
}

/// Sends until somebody has refused: the kernel sends so many refusals a second, for all hosts of the
/// machine together, and none for the rest.
#[track_caller]
fn refusal(ports: &mut Ports, to: SocketAddr) -> SocketAddr {
    for _ in 0..PATIENCE.as_secs() {
        ports.send(to, b"there?", 6).unwrap();
        if ports.wait(Some(Duration::from_secs(1))).unwrap().readable {
            while ports.receive().unwrap() > 0 {}
        }
        if let Some(address) = ports.take_refusal() {
            return address;
        }
    }
    panic!("nobody has refused");
}

/// A process that is gone is known to be gone, by its first address, whichever network works.
#[test]
fn a_host_without_the_process_refuses_by_either_network() {
    let Some((lab, hosts)) = lab(2) else {
        return;
    };
    for family in [Family::V4, Family::V6] {
        for cut in [Network::Second, Network::First] {
            let mut sender = open(&lab, hosts[0], family);
            let gone = open(&lab, hosts[1], family);
            let (first, second) = (gone.local_addr(), gone.second_addr().unwrap());
            sender.learn(first, second);
            drop(gone);
            lab.set_network(cut, false).unwrap();
            let refused = refusal(&mut sender, first);
            assert_eq!(refused, first, "{family}, without {cut:?}");
            lab.set_network(cut, true).unwrap();
        }
    }
}
