//! Source-specific multicast, on hosts of a lab: named hosts are heard and others are not.

mod common;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use common::{collect, config, drain, group};
use lab::{HostId, Lab};
use qsm_net::{Family, Port, PortConfig, PortError, choose_interface};

/// A lab with hosts; `None`, with the reason printed, where this machine cannot run one.
fn lab(hosts: usize) -> Option<(Lab, Vec<HostId>)> {
    if !lab::ready() {
        return None;
    }
    let mut lab = Lab::with_ipv6().unwrap();
    let hosts = lab.add_hosts(hosts).unwrap();
    Some((lab, hosts))
}

fn open(lab: &Lab, host: HostId, family: Family) -> Port {
    let _inside = lab.enter(host).unwrap();
    let (interface, _) = choose_interface(Some("eth0"), Some(family)).unwrap();
    Port::open(PortConfig {
        interface,
        ..config()
    })
    .unwrap()
}

fn group_of(family: Family) -> SocketAddr {
    let port = group().port();
    match family {
        Family::V4 => SocketAddr::from(([232, 192, 7, 7], port)),
        Family::V6 => SocketAddr::from(([0xff35, 0, 0, 0, 0, 0, 0x8000, 7], port)),
    }
}

/// Sockets are of the network in which they are made.
fn join(lab: &Lab, host: HostId, port: &mut Port, group: SocketAddr, sources: &[IpAddr]) {
    let _inside = lab.enter(host).unwrap();
    let sources: BTreeSet<IpAddr> = sources.iter().copied().collect();
    port.join_sources(group, &sources).unwrap();
}

/// Which of these senders the receiver hears: each sends to the group, and a last word by unicast.
fn heard(receiver: &mut Port, senders: &mut [Port], group: SocketAddr) -> Vec<bool> {
    let to = receiver.local_addr();
    let mut one = |sender: &mut Port| {
        sender.send(group, b"group", 5).unwrap();
        sender.send(to, b"last", 4).unwrap();
        let mut all = Vec::new();
        while !all
            .iter()
            .any(|datagram: &common::Copied| datagram.bytes == b"last")
        {
            all.extend(collect(receiver, 1));
        }
        drain(receiver, &mut all);
        all.iter().any(|datagram| datagram.group == Some(group))
    };
    senders.iter_mut().map(&mut one).collect()
}

#[test]
fn named_hosts_are_heard_and_others_are_not() {
    let Some((lab, hosts)) = lab(3) else { return };
    for family in [Family::V4, Family::V6] {
        let group = group_of(family);
        let mut receiver = open(&lab, hosts[0], family);
        let mut senders = [1, 2].map(|at| open(&lab, hosts[at], family));
        let [one, other] = [0, 1].map(|at| senders[at].local_addr().ip());
        for (named, expected) in [
            (vec![one], [true, false]),
            (vec![one, other], [true, true]),
            (vec![other], [false, true]),
        ] {
            join(&lab, hosts[0], &mut receiver, group, &named);
            assert_eq!(
                heard(&mut receiver, &mut senders, group),
                expected,
                "{family}"
            );
        }
        assert_eq!(receiver.counters().multicast.datagrams, 4, "{family}");
        receiver.leave(group);
        assert_eq!(heard(&mut receiver, &mut senders, group), [false, false]);
        assert_eq!(receiver.groups().count(), 0);
    }
}

#[test]
fn more_hosts_than_a_socket_may_name_take_more_sockets() {
    let Some((lab, hosts)) = lab(2) else { return };
    for family in [Family::V4, Family::V6] {
        let group = group_of(family);
        let mut receiver = open(&lab, hosts[0], family);
        let mut senders = [open(&lab, hosts[1], family)];
        let own = senders[0].local_addr().ip();
        // Named after all others, whatever their order.
        let many: Vec<IpAddr> = (0..150_u8)
            .map(|number| match family {
                Family::V4 => IpAddr::from([10, 1, 0, number]),
                Family::V6 => IpAddr::from([0xfc00, 0, 0, 0, 0, 0, 0, number.into()]),
            })
            .collect();
        join(&lab, hosts[0], &mut receiver, group, &many);
        let sockets = receiver.groups().count();
        assert!((3..150).contains(&sockets), "{sockets} sockets, {family}");
        assert_eq!(
            heard(&mut receiver, &mut senders, group),
            [false],
            "{family}"
        );
        let all: Vec<IpAddr> = many.iter().copied().chain([own]).collect();
        join(&lab, hosts[0], &mut receiver, group, &all);
        assert_eq!(
            heard(&mut receiver, &mut senders, group),
            [true],
            "{family}"
        );
        join(&lab, hosts[0], &mut receiver, group, &[own]);
        assert_eq!(receiver.groups().count(), 1, "{family}");
        assert_eq!(
            heard(&mut receiver, &mut senders, group),
            [true],
            "{family}"
        );
        receiver.leave(group);
    }
}

#[test]
fn hosts_of_the_other_family_are_refused() {
    let mut port = Port::open(config()).unwrap();
    let sources = BTreeSet::from([IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1])]);
    let error = port
        .join_sources(group_of(Family::V4), &sources)
        .unwrap_err();
    assert!(matches!(error, PortError::OtherFamily { .. }), "{error}");
    let error = port
        .join_sources("10.0.0.1:5".parse().unwrap(), &sources)
        .unwrap_err();
    assert!(matches!(error, PortError::NotMulticast { .. }), "{error}");
}
