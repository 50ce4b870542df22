//! What the tests share: a lab or a reason to skip, and sockets on hosts.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use lab::{HostId, Lab};

/// Multicast group of the tests; labs are closed, so that every test can use the same.
pub(crate) const GROUP: Ipv4Addr = Ipv4Addr::new(239, 77, 7, 7);

/// Port of the tests.
pub(crate) const PORT: u16 = 7777;

/// How long a packet that must come is waited for: only a guard against hanging.
const GUARD: Duration = Duration::from_secs(10);

/// A lab with `hosts` hosts; `None`, with the reason printed, where this machine cannot run one.
pub(crate) fn lab_with(hosts: usize) -> Option<(Lab, Vec<HostId>)> {
    if !lab::ready() {
        return None;
    }
    let mut lab = Lab::new().unwrap_or_else(|e| panic!("{e}"));
    let ids = lab.add_hosts(hosts).unwrap_or_else(|e| panic!("{e}"));
    Some((lab, ids))
}

/// A socket on the host, bound to [`PORT`] and member of [`GROUP`], which hears both unicast and
/// multicast.
pub(crate) fn socket(lab: &Lab, host: HostId) -> UdpSocket {
    let _inside = lab.enter(host).unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap();
    socket
        .join_multicast_v4(&GROUP, &lab.host(host).address())
        .unwrap();
    socket.set_read_timeout(Some(GUARD)).unwrap();
    socket
}

pub(crate) fn group() -> SocketAddrV4 {
    SocketAddrV4::new(GROUP, PORT)
}

pub(crate) fn unicast(lab: &Lab, host: HostId) -> SocketAddrV4 {
    SocketAddrV4::new(lab.host(host).address(), PORT)
}

/// The next packet, as text; panics if none comes.
pub(crate) fn next(socket: &UdpSocket) -> String {
    let mut buffer = [0; 2048];
    let length = socket.recv(&mut buffer).expect("a packet");
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// Keeps the calling thread on one CPU. All packets it sends then pass through one backlog queue in
/// the kernel, so that they arrive in the order in which they were sent, over all hosts of a lab:
/// when a marker has arrived, so has everything sent before it, or it never will.
pub(crate) fn pin_to_one_cpu() {
    // SAFETY: sched_getcpu has no arguments; `cpu_set_t` is plain data for which all zeroes are
    // valid, and is ours; CPU_SET checks its index.
    let done = unsafe {
        let cpu = usize::try_from(libc::sched_getcpu()).unwrap();
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Exchanges a packet each way, so that neighbours know each other's hardware address, and later
/// packets wait for nothing.
pub(crate) fn acquaint(lab: &Lab, members: &[(HostId, &UdpSocket)]) {
    for (from, sender) in members {
        for (to, receiver) in members.iter().filter(|(to, _)| to != from) {
            sender.send_to(b"hello", unicast(lab, *to)).unwrap();
            assert_eq!(next(receiver), "hello");
        }
    }
}
