//! Interfaces whose addresses change, go and come again under an open port, on hosts of a lab.

mod common;

use std::net::SocketAddr;

use common::{PATIENCE, config, group};
use lab::{HostId, Lab, Network};
use qsm_net::{Family, Port, PortConfig, PortError, Ports, choose_interface};

fn lab() -> Option<(Lab, HostId, HostId)> {
    if !lab::ready() {
        return None;
    }
    let mut lab = Lab::with_ipv6().unwrap().and_second_network().unwrap();
    let (one, other) = (lab.add_host().unwrap(), lab.add_host().unwrap());
    Some((lab, one, other))
}

fn at(interface: &str, family: Family) -> PortConfig {
    let (interface, _) = choose_interface(Some(interface), Some(family)).unwrap();
    PortConfig {
        interface,
        ..config()
    }
}

/// Runs `ip` on a host.
#[track_caller]
fn ip(lab: &Lab, host: HostId, words: &str) {
    let status = lab
        .command(host, "ip")
        .args(words.split(' '))
        .status()
        .unwrap();
    assert!(status.success(), "ip {words}: {status}");
}

/// Waits until the kernel tells of a change.
#[track_caller]
fn await_change(ports: &mut Ports) {
    while !ports.take_change() {
        let ready = ports.wait(Some(PATIENCE)).unwrap();
        assert!(ready.readable, "the kernel told of no change");
        while ports.receive().unwrap() > 0 {}
    }
}

/// Receives what is sent to both.
#[track_caller]
fn hears(ports: &mut Ports, sender: &mut Port, group: SocketAddr) {
    for to in [group, ports.local_addr()] {
        sender.send(to, b"hello", 5).unwrap();
        let mut heard = false;
        while !heard {
            let ready = ports.wait(Some(PATIENCE)).unwrap();
            assert!(ready.readable, "nothing came to {to}");
            while ports.receive().unwrap() > 0 {
                heard |= ports
                    .datagrams()
                    .any(|datagram| datagram.source == sender.local_addr());
            }
        }
    }
}

#[test]
fn a_port_follows_its_interface_to_another_address() {
    let Some((lab, host, other)) = lab() else {
        return;
    };
    for (family, old, new, group) in [
        (Family::V4, "10.78.0.1/16", "10.78.9.9/16", group()),
        (
            Family::V6,
            "fd00:78::1/64",
            "fd00:78::99/64",
            "[ff15::8000:7]:7007".parse().unwrap(),
        ),
    ] {
        let mut sender = {
            let _inside = lab.enter(other).unwrap();
            Port::open(at(Network::First.interface(), family)).unwrap()
        };
        let _inside = lab.enter(host).unwrap();
        let mut ports = Ports::open(at(Network::First.interface(), family), None).unwrap();
        ports.join(group).unwrap();
        let former = ports.local_addr();
        hears(&mut ports, &mut sender, group);
        ip(&lab, host, &format!("addr del {old} dev eth0"));
        await_change(&mut ports);
        let error = ports.follow_addresses().unwrap_err();
        assert!(
            matches!(error, PortError::AddressNotAvailable { .. }),
            "{error}"
        );
        let nodad = if family == Family::V6 { " nodad" } else { "" };
        ip(&lab, host, &format!("addr add {new} dev eth0{nodad}"));
        await_change(&mut ports);
        ports.follow_addresses().unwrap();
        let now = ports.local_addr();
        assert_eq!(now.port(), former.port(), "others know the number");
        assert_eq!(Some(now.ip()), new.split('/').next().unwrap().parse().ok());
        hears(&mut ports, &mut sender, group);
        // Another address beside it changes nothing.
        ip(&lab, host, &format!("addr add {old} dev eth0{nodad}"));
        await_change(&mut ports);
        ports.follow_addresses().unwrap();
        assert_eq!(ports.local_addr(), now);
    }
}

#[test]
fn a_port_whose_interface_was_down_goes_on() {
    let Some((lab, host, other)) = lab() else {
        return;
    };
    let (family, group) = (Family::V4, group());
    let mut sender = {
        let _inside = lab.enter(other).unwrap();
        Port::open(at(Network::First.interface(), family)).unwrap()
    };
    let _inside = lab.enter(host).unwrap();
    let mut ports = Ports::open(at(Network::First.interface(), family), None).unwrap();
    ports.join(group).unwrap();
    let address = ports.local_addr();
    ip(&lab, host, "link set eth0 down");
    await_change(&mut ports);
    let error = ports.follow_addresses().unwrap_err();
    assert!(matches!(error, PortError::InterfaceGone { .. }), "{error}");
    ip(&lab, host, "link set eth0 up");
    while ports.follow_addresses().is_err() {
        await_change(&mut ports);
    }
    assert_eq!(ports.local_addr(), address);
    hears_again(&mut ports, &mut sender, group);
}

/// As [`hears`], once the switch passes on what comes from a new link.
fn hears_again(ports: &mut Ports, sender: &mut Port, group: SocketAddr) {
    let start = std::time::Instant::now();
    loop {
        sender.send(group, b"hello", 5).unwrap();
        let ready = ports
            .wait(Some(std::time::Duration::from_millis(20)))
            .unwrap();
        if ready.readable && ports.receive().unwrap() > 0 {
            return hears(ports, sender, group);
        }
        assert!(start.elapsed() < PATIENCE, "it stays deaf");
    }
}

#[test]
fn a_second_network_may_change_its_address_while_the_first_goes_on() {
    let Some((lab, host, _)) = lab() else { return };
    let _inside = lab.enter(host).unwrap();
    let second = at(Network::Second.interface(), Family::V4);
    let first = at(Network::First.interface(), Family::V4);
    let mut ports = Ports::open(first, Some(second)).unwrap();
    let (address, former) = (ports.local_addr(), ports.second_addr().unwrap());
    let device = Network::Second.interface();
    ip(&lab, host, &format!("addr flush dev {device}"));
    await_change(&mut ports);
    assert!(ports.follow_addresses().is_err());
    ip(&lab, host, &format!("addr add 10.79.9.9/16 dev {device}"));
    await_change(&mut ports);
    ports.follow_addresses().unwrap();
    let now = ports.second_addr().unwrap();
    assert_eq!(
        (now.ip(), now.port()),
        ([10, 79, 9, 9].into(), former.port())
    );
    assert_eq!(ports.local_addr(), address);
}
