//! Hosts with addresses of IPv6: traffic, loss and network splits as with IPv4.

mod support;

use std::ffi::CString;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::Duration;

use lab::{Direction, HostId, LOSS_PPM_MAX, Lab, Traffic};
use support::{PORT, next};

const GROUP: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0x8000, 7);

/// How long a packet that must come is waited for: only a guard against hanging.
const GUARD: Duration = Duration::from_secs(10);

fn lab_with(hosts: usize) -> Option<(Lab, Vec<HostId>)> {
    if !lab::ready() {
        return None;
    }
    let mut lab = Lab::with_ipv6().unwrap();
    let ids = lab.add_hosts(hosts).unwrap();
    Some((lab, ids))
}

/// The number of the host's interface, in the namespace that the thread is in.
fn interface_index(lab: &Lab, host: HostId) -> u32 {
    let name = CString::new(lab.host(host).interface()).unwrap();
    // SAFETY: the name is a string that ends with zero.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// A socket on the host that hears unicast and the group.
fn socket(lab: &Lab, host: HostId) -> UdpSocket {
    let _inside = lab.enter(host).unwrap();
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, PORT)).unwrap();
    socket
        .join_multicast_v6(&GROUP, interface_index(lab, host))
        .unwrap();
    socket.set_multicast_loop_v6(false).unwrap();
    socket.set_read_timeout(Some(GUARD)).unwrap();
    socket
}

fn unicast(lab: &Lab, host: HostId) -> SocketAddr {
    (lab.host(host).address_v6().unwrap(), PORT).into()
}

#[test]
fn hosts_reach_each_other_by_unicast_and_multicast() {
    let Some((lab, hosts)) = lab_with(3) else {
        return;
    };
    let sockets = [0, 1, 2].map(|at| socket(&lab, hosts[at]));
    sockets[0].send_to(b"group", (GROUP, PORT)).unwrap();
    sockets[0].send_to(b"one", unicast(&lab, hosts[1])).unwrap();
    let link = lab.host(hosts[2]).link_address_v6().unwrap();
    let scope = {
        let _inside = lab.enter(hosts[0]).unwrap();
        interface_index(&lab, hosts[0])
    };
    let link = SocketAddrV6::new(link, PORT, 0, scope);
    sockets[0].send_to(b"two", link).unwrap();
    assert_eq!([next(&sockets[1]), next(&sockets[1])], ["group", "one"]);
    assert_eq!([next(&sockets[2]), next(&sockets[2])], ["group", "two"]);
}

#[test]
fn loss_and_splits_meet_ipv6_and_are_counted() {
    let Some((lab, hosts)) = lab_with(2) else {
        return;
    };
    let [sender, receiver] = [0, 1].map(|at| socket(&lab, hosts[at]));
    let there = unicast(&lab, hosts[1]);
    sender.send_to(b"hello", there).unwrap();
    assert_eq!(next(&receiver), "hello");
    lab.set_loss(hosts[1], LOSS_PPM_MAX, Traffic::Multicast)
        .unwrap();
    sender.send_to(b"lost", (GROUP, PORT)).unwrap();
    sender.send_to(b"unicast", there).unwrap();
    assert_eq!(next(&receiver), "unicast");
    lab.set_loss(hosts[1], 0, Traffic::Multicast).unwrap();
    lab.split(&[hosts[0]], &[hosts[1]], Direction::AToB)
        .unwrap();
    sender.send_to(b"cut", there).unwrap();
    // The other way works, also for finding the neighbour.
    receiver.send_to(b"back", unicast(&lab, hosts[0])).unwrap();
    assert_eq!(next(&sender), "back");
    lab.heal().unwrap();
    sender.send_to(b"healed", (GROUP, PORT)).unwrap();
    assert_eq!(next(&receiver), "healed");
    let drops = lab.drops(hosts[1]).unwrap();
    let counts = (drops.multicast_packets, drops.unicast_packets);
    assert_eq!((counts, drops.split_packets), ((1, 0), 1));
}

#[test]
fn a_link_that_was_down_has_its_addresses_again() {
    let Some((lab, hosts)) = lab_with(2) else {
        return;
    };
    lab.set_link(hosts[1], false).unwrap();
    lab.set_link(hosts[1], true).unwrap();
    let [sender, receiver] = [0, 1].map(|at| socket(&lab, hosts[at]));
    sender.send_to(b"group", (GROUP, PORT)).unwrap();
    sender.send_to(b"one", unicast(&lab, hosts[1])).unwrap();
    assert_eq!([next(&receiver), next(&receiver)], ["group", "one"]);
    // The other way, too: routes are there again.
    receiver.send_to(b"back", unicast(&lab, hosts[0])).unwrap();
    receiver.send_to(b"all", (GROUP, PORT)).unwrap();
    assert_eq!([next(&sender), next(&sender)], ["back", "all"]);
}
