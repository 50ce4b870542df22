//! Copies for many receivers that the kernel clones, between hosts of a lab: who receives them sees no difference, and
//! what comes back is for the port as ever.

mod common;

use std::net::{SocketAddr, UdpSocket};

use common::{Copied, PATIENCE, config};
use lab::{HostId, Lab};
use qsm_net::{Cloning, Mailing, PortConfig, Ports, choose_interface};

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
fn what_is_mailed_to_many_is_cloned_and_comes_whole_and_in_order() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(2).unwrap();
    let bind = |host: usize| {
        let _inside = lab.enter(hosts[host]).unwrap();
        UdpSocket::bind((lab.host(hosts[host]).address(), 0)).unwrap()
    };
    let from = bind(0);
    let mut mailing = Mailing::new(&from, 1 << 20);
    {
        let _inside = lab.enter(hosts[0]).unwrap();
        mailing.clone_copies(&from).unwrap();
    }
    let mut to: Vec<_> = (0..8).map(|_| bind(1)).collect();
    for socket in &mut to {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    // The socket sends the first ones, for which the kernel has to find its neighbour.
    for round in 0..5 {
        for packet in 0..3 {
            let staged = mailing.stage_train(&[3 * round + packet; 4000], 1000);
            for socket in &to {
                mailing.post(socket.local_addr().unwrap(), staged);
            }
        }
        let alone = mailing.stage(&[99; 50]);
        mailing.post(to[0].local_addr().unwrap(), alone);
        {
            let _inside = lab.enter(hosts[0]).unwrap();
            mailing.send(&from);
        }
        for (number, socket) in to.iter().enumerate() {
            let mut came = Vec::new();
            let count = if number == 0 { 13 } else { 12 };
            while came.len() < count {
                let mut buffer = [0; 2000];
                let (length, source) = socket.recv_from(&mut buffer).unwrap();
                assert_eq!(source, from.local_addr().unwrap());
                came.push((buffer[0], length));
            }
            let alone = came.iter().filter(|one| **one == (99, 50)).count();
            assert_eq!(alone, count - 12);
            came.retain(|one| *one != (99, 50));
            let sent: Vec<_> = (0..12).map(|at| (3 * round + at / 4, 1000)).collect();
            assert_eq!(came, sent);
        }
    }
    let counters = mailing.counters();
    assert_eq!(counters.datagrams, 5 * (8 * 12 + 1));
    assert_eq!(counters.bytes, 5 * (8 * 12_000 + 50));
    assert!(counters.cloned >= 8, "{counters:?}");
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
