//! Copies for many receivers that the kernel clones, between hosts of a lab: who receives them sees no difference, and
//! what comes back is for the port as ever.

mod common;

use std::net::SocketAddr;

use common::{Copied, PATIENCE, config};
use lab::{HostId, Lab};
use qsm_net::{Cloning, PortConfig, Ports, choose_interface};

const SEGMENT: usize = 1000;
const SEGMENTS: usize = 10;

fn open(lab: &Lab, host: HostId, clone_copies: bool) -> Ports {
    let _inside = lab.enter(host).unwrap();
    let (interface, _) = choose_interface(Some("eth0"), None).unwrap();
    let config = PortConfig {
        interface,
        clone_copies,
        ..config()
    };
    Ports::open(config, None).unwrap()
}

/// Receives until `count` datagrams have come.
fn collect(ports: &mut Ports, count: usize) -> Vec<Copied> {
    let mut all = Vec::new();
    while all.len() < count {
        assert!(ports.wait(Some(PATIENCE)).unwrap().readable);
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

/// Bytes of which each datagram has its own.
fn train() -> Vec<u8> {
    (0..SEGMENT * SEGMENTS)
        .map(|at| (at / SEGMENT) as u8)
        .collect()
}

/// Sends a train to all others, and looks at what comes.
fn copy_to_all(lab: &Lab, host: HostId, from: &mut Ports, to: &mut [Ports]) {
    let mut left: Vec<SocketAddr> = to.iter().map(Ports::local_addr).collect();
    let bytes = train();
    let sent = {
        let _inside = lab.enter(host).unwrap();
        from.send_copies(&mut left, &bytes, SEGMENT).unwrap()
    };
    assert_eq!((sent, left.len()), (bytes.len() * to.len(), 0));
    for receiver in to {
        let came = collect(receiver, SEGMENTS);
        for (number, datagram) in came.iter().enumerate() {
            assert_eq!(datagram.source, from.local_addr());
            assert_eq!(datagram.bytes, [number as u8; SEGMENT]);
        }
        assert_eq!(came.len(), SEGMENTS);
    }
}

/// Sends trains until one was cloned for all: the socket sends the first ones, for which the kernel has to find its
/// neighbours. Returns how many there were.
fn copy_until_cloned(lab: &Lab, host: HostId, from: &mut Ports, to: &mut [Ports]) -> usize {
    for calls in 1..=10 {
        let before = from.counters().sent.cloned;
        copy_to_all(lab, host, from, to);
        if from.counters().sent.cloned - before == to.len() as u64 {
            return calls;
        }
    }
    panic!("nothing was cloned: {:?}", from.counters().sent);
}

#[test]
fn the_kernel_clones_copies_from_the_ports_own_address() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(4).unwrap();
    let mut from = open(&lab, hosts[0], true);
    let others = hosts[1..].iter();
    let mut to: Vec<Ports> = others.map(|host| open(&lab, *host, false)).collect();
    let cloning = from.report().cloning;
    assert!(matches!(cloning, Cloning::By(_)), "{cloning:?}");
    let calls = copy_until_cloned(&lab, hosts[0], &mut from, &mut to);
    let all = calls * to.len() * SEGMENTS;
    assert_eq!(from.counters().sent.datagrams, all as u64);
    // The socket that clones come from takes nothing of what is for this port.
    for (number, other) in (0..).zip(&mut to) {
        for _ in 0..20 {
            other.send(from.local_addr(), &[number; 9], 9).unwrap();
        }
    }
    let came = collect(&mut from, 20 * to.len());
    for other in &to {
        let its = came.iter().filter(|one| one.source == other.local_addr());
        assert_eq!(its.count(), 20);
    }
}

#[test]
fn clones_follow_the_ports_address() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(3).unwrap();
    let mut from = open(&lab, hosts[0], true);
    let others = hosts[1..].iter();
    let mut to: Vec<Ports> = others.map(|host| open(&lab, *host, false)).collect();
    copy_to_all(&lab, hosts[0], &mut from, &mut to);
    let before = from.local_addr();
    let new = before.ip().to_string().replace("10.78.0.", "10.78.9.");
    for words in [
        format!("address del {}/16 dev eth0", before.ip()),
        format!("address add {new}/16 dev eth0"),
    ] {
        let mut ip = lab.command(hosts[0], "ip");
        assert!(ip.args(words.split(' ')).status().unwrap().success());
    }
    {
        let _inside = lab.enter(hosts[0]).unwrap();
        from.follow_addresses().unwrap();
    }
    assert_ne!(before.ip(), from.local_addr().ip());
    copy_until_cloned(&lab, hosts[0], &mut from, &mut to);
}

#[test]
fn without_clones_each_copy_goes_by_itself() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(3).unwrap();
    let mut from = open(&lab, hosts[0], false);
    let others = hosts[1..].iter();
    let mut to: Vec<Ports> = others.map(|host| open(&lab, *host, false)).collect();
    assert_eq!(from.report().cloning, Cloning::NotAsked);
    copy_to_all(&lab, hosts[0], &mut from, &mut to);
    assert_eq!(from.counters().sent.cloned, 0);
}
