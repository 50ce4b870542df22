//! Who receives what: memberships, several receivers of a host, foreign groups, leaving, loopback.

mod common;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use common::{collect, config, drain, group, open};
use qsm_net::{Interface, Offload, Port, PortConfig, interfaces};

/// An interface that is not loopback and carries multicast. Machines without any skip what only it can show.
fn network_interface() -> Option<Interface> {
    let found = interfaces()
        .unwrap()
        .into_iter()
        .find(|interface| interface.multicast && !interface.loopback && interface.addr.is_ipv4());
    if found.is_none() {
        lab::pass_over("no interface but loopback carries multicast");
    }
    found
}

/// Sends a last word to a port by unicast and receives everything up to it.
fn up_to_last_word(sender: &mut Port, receiver: &mut Port) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    sender.send(receiver.local_addr(), b"last", 4).unwrap();
    while !all
        .iter()
        .any(|datagram: &common::Copied| datagram.bytes == b"last")
    {
        all.extend(collect(receiver, 1));
    }
    drain(receiver, &mut all);
    all.into_iter()
        .map(|datagram| datagram.bytes)
        .filter(|bytes| bytes != b"last")
        .collect()
}

#[test]
fn several_ports_of_a_host_receive_the_same_multicast() {
    for offload in [Offload::Auto, Offload::Off] {
        let group = group();
        let mut sender = open(offload);
        let mut receivers = [open(offload), open(offload), open(offload)];
        for receiver in &mut receivers {
            receiver.join(group).unwrap();
        }
        sender.send(group, &[7; 5000], 1000).unwrap();
        for receiver in &mut receivers {
            assert_eq!(collect(receiver, 5).len(), 5);
        }
    }
}

#[test]
fn a_sender_that_joined_hears_itself() {
    let group = group();
    let mut port = open(Offload::Auto);
    port.join(group).unwrap();
    port.send(group, b"echo", 4).unwrap();
    assert_eq!(collect(&mut port, 1)[0].source, port.local_addr());
}

#[test]
fn a_group_of_another_port_is_foreign() {
    let (mine, other) = (group(), group());
    let theirs = SocketAddr::new(other.ip(), mine.port());
    let (mut sender, mut me, mut them) = (
        open(Offload::Auto),
        open(Offload::Auto),
        open(Offload::Auto),
    );
    me.join(mine).unwrap();
    them.join(theirs).unwrap();
    sender.send(theirs, b"theirs", 6).unwrap();
    sender.send(mine, b"mine", 4).unwrap();
    assert_eq!(collect(&mut them, 1)[0].bytes, b"theirs");
    assert_eq!(collect(&mut me, 1)[0].bytes, b"mine");
    assert!(up_to_last_word(&mut sender, &mut me).is_empty());
}

#[test]
fn the_same_group_on_another_interface_is_foreign() {
    let Some(interface) = network_interface() else {
        return;
    };
    let group = group();
    let (mut sender, mut inside) = (open(Offload::Auto), open(Offload::Auto));
    let mut outside = Port::open(PortConfig {
        interface,
        ..config()
    })
    .unwrap();
    inside.join(group).unwrap();
    outside.join(group).unwrap();
    sender.send(group, b"on lo", 5).unwrap();
    assert_eq!(collect(&mut inside, 1)[0].bytes, b"on lo");
    outside.refresh_drops();
    assert_eq!(outside.receive().unwrap(), 0);
}

#[test]
fn leaving_stops_delivery_and_joining_is_idempotent() {
    let group = group();
    let (mut sender, mut receiver) = (open(Offload::Auto), open(Offload::Auto));
    receiver.join(group).unwrap();
    receiver.join(group).unwrap();
    assert_eq!(receiver.groups().collect::<Vec<_>>(), [group]);
    sender.send(group, b"one", 3).unwrap();
    assert_eq!(collect(&mut receiver, 1).len(), 1);
    receiver.leave(group);
    receiver.leave(group);
    assert_eq!(receiver.groups().count(), 0);
    sender.send(group, b"two", 3).unwrap();
    assert!(up_to_last_word(&mut sender, &mut receiver).is_empty());
    receiver.join(group).unwrap();
    sender.send(group, b"three", 5).unwrap();
    assert_eq!(collect(&mut receiver, 1)[0].bytes, b"three");
}

#[test]
fn leaving_a_group_with_datagrams_already_announced() {
    let (first, second) = (group(), group());
    let (mut sender, mut receiver) = (open(Offload::Auto), open(Offload::Auto));
    receiver.join(first).unwrap();
    receiver.join(second).unwrap();
    sender.send(first, b"first", 5).unwrap();
    sender.send(second, b"second", 6).unwrap();
    assert!(receiver.wait(Some(common::PATIENCE)).unwrap().readable);
    receiver.leave(first);
    let received = collect(&mut receiver, 1);
    assert_eq!(received.len(), 1);
    assert_eq!(
        (received[0].group, &received[0].bytes[..]),
        (Some(second), &b"second"[..])
    );
}

/// The kernel allows 20 memberships of one socket; with one socket each the limit does not bind (R056).
#[test]
fn more_groups_than_memberships_of_a_socket_and_all_are_served_in_turn() {
    const GROUPS: usize = 60;
    const TRAINS: usize = 20;
    let base = group();
    let IpAddr::V4(ip) = base.ip() else {
        panic!("{base}");
    };
    let nth = |i| Ipv4Addr::from(u32::from(ip) & !0xff | i);
    let groups: Vec<SocketAddr> = (0..GROUPS as u32)
        .map(|i| SocketAddr::from((nth(i), base.port())))
        .collect();
    let (mut sender, mut receiver) = (open(Offload::Off), open(Offload::Off));
    for &group in &groups {
        receiver.join(group).unwrap();
        for _ in 0..TRAINS {
            sender.send(group, &[1; 10], 10).unwrap();
        }
    }
    sender.send(receiver.local_addr(), b"control", 7).unwrap();
    // The first batches must hold different groups, and control must come first.
    let mut seen = Vec::new();
    let mut total = 0;
    while total < GROUPS * TRAINS + 1 {
        assert!(receiver.wait(Some(common::PATIENCE)).unwrap().readable);
        while receiver.receive().unwrap() > 0 {
            if total == 0 {
                assert_eq!(receiver.datagrams().next().unwrap().bytes, b"control");
            }
            total += receiver.datagrams().count();
            seen.extend(receiver.datagrams().filter_map(|datagram| datagram.group));
        }
    }
    let mut early: Vec<SocketAddr> = seen[..GROUPS * 16].to_vec();
    early.sort_unstable();
    early.dedup();
    // A batch takes up to 16 messages of one socket, so 60 batches that served the groups in turn hold all of them.
    assert!(
        early.len() >= GROUPS - 1,
        "only {} groups in the first {} datagrams",
        early.len(),
        GROUPS * 16
    );
}

/// On the interface `lo` the device itself loops, so this needs another. A TTL of 0 keeps everything on this host (R233).
#[test]
fn loopback_off_is_not_heard_on_this_host() {
    let Some(interface) = network_interface() else {
        return;
    };
    let group = group();
    let config = PortConfig {
        interface,
        ttl: 0,
        ..config()
    };
    let mut loud = Port::open(config.clone()).unwrap();
    let mut silent = Port::open(PortConfig {
        loopback: false,
        ..config.clone()
    })
    .unwrap();
    let mut receiver = Port::open(config).unwrap();
    receiver.join(group).unwrap();
    silent.send(group, &[0; 4000], 1000).unwrap();
    loud.send(group, &[1; 4000], 1000).unwrap();
    assert!(
        collect(&mut receiver, 4)
            .iter()
            .all(|datagram| datagram.source == loud.local_addr())
    );
    assert!(up_to_last_word(&mut loud, &mut receiver).is_empty());
    assert!(
        silent
            .report()
            .to_string()
            .ends_with("received by nobody: ttl 0 stays on this host, and loopback is off")
    );
}
