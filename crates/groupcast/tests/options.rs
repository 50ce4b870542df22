//! What the options of the caller's socket, and rules that look at more than the destination, mean
//! for every back-end: the same as for `sendmsg`.

mod support;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use groupcast::wire::Wire;
use groupcast::{BackEnd, Errno, Message, Recipient, Sender};
use support::{PORT, Receivers, on_all, set_option};

/// Calls until clones and connected sockets are in use.
const ROUNDS: usize = 4;
/// Receivers that a message goes to: of IPv4, then of IPv6.
const PLACES: [usize; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 64, 65, 66, 67, 68, 69, 70, 71];
/// The sender's addresses on the two wires.
const FIRST: [&str; 2] = ["10.79.0.1", "fd79::1"];
const SECOND: [&str; 2] = ["10.80.0.1", "fd80::1"];
/// Longest time of a packet within this machine.
const ARRIVAL_MAX: Duration = Duration::from_secs(5);

/// Lays a second wire beside the first, which no route uses.
fn lay_second(wire: &Wire) {
    let near = format!(
        "link add second index 22 type veth peer name behind netns {}\n\
         addr add 10.80.0.1/16 dev second\naddr add fd80::1/64 dev second nodad\n\
         link set second up\n",
        wire.far.path()
    );
    wire.near.ip(&near).unwrap();
    let far = "addr add 10.80.0.2/16 dev behind\naddr add fd80::2/64 dev behind nodad\n\
        link set behind up\n";
    wire.far.ip(far).unwrap();
    wire.far.run(|| {
        for which in ["all", "behind", "wire1"] {
            let path = format!("/proc/sys/net/ipv4/conf/{which}/rp_filter");
            std::fs::write(path, "0").unwrap();
        }
    });
}

/// Lays it with routes in a table of its own.
fn lay_table(wire: &Wire) {
    lay_second(wire);
    let routes = "route add 10.81.0.0/16 via 10.80.0.2 table 100\n\
        route add fd81::/64 via fd80::2 table 100\n";
    wire.near.ip(routes).unwrap();
}

/// Adds or deletes a rule that sends to the receivers, for whatever else it selects, by that table.
fn rule(wire: &Wire, verb: &str, selects: &str) {
    for (family, to) in [("-4", "10.81.0.0/16"), ("-6", "fd81::/64")] {
        let words = format!("{family} rule {verb} to {to} {selects} lookup 100");
        let mut ip = Command::new("ip");
        ip.args(words.split(' '));
        let status = wire.near.run(|| ip.status());
        assert!(status.unwrap().success(), "ip {words}");
    }
}

/// The index of an interface of the calling thread's namespace.
fn index_of(name: &str) -> u32 {
    let name = std::ffi::CString::new(name).unwrap();
    // SAFETY: the name ends with a zero byte.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    assert_ne!(index, 0);
    index
}

fn back_end(name: &str) -> BackEnd {
    BackEnd::ALL.into_iter().find(|b| b.name() == name).unwrap()
}

/// Sends some rounds to all places and checks by which wire they come.
fn assert_source(sender: &mut Sender, receivers: &mut Receivers, from: [&str; 2], told: &str) {
    let recipients: Vec<_> = PLACES
        .iter()
        .map(|place| Recipient::new(receivers.address(*place)))
        .collect();
    for round in 0..ROUNDS {
        let sent = sender.send(&Message::new(b"where from"), &recipients, None);
        assert_eq!(sent.unwrap(), PLACES.len(), "{told}");
        for place in PLACES {
            let wanted = from[usize::from(place >= 64)].parse::<IpAddr>().unwrap();
            let heard = receivers.receive_from(place).ip();
            assert_eq!(heard, wanted, "{told}, at {place} in round {round}");
        }
    }
}

fn assert_cloned(sender: &Sender, name: &str) {
    let stats = sender.stats();
    match name {
        "ebpf" => assert!(stats.cloned > 0, "{stats:?}"),
        "connected" => assert!(stats.connected > 0, "{stats:?}"),
        _ => {}
    }
}

#[test]
fn rules_by_port_and_user_send_by_the_same_interface_as_the_socket() {
    on_all(1500, |wire, sender, name| {
        lay_table(wire);
        drop(sender);
        let mut receivers = Receivers::new(wire);
        let rules = [
            "ipproto udp sport 7001-7002",
            "ipproto udp dport 9000",
            "ipproto udp",
            "uidrange 1234-1234",
        ];
        let mut sender = wire.near.run(|| {
            let sockets = ["0.0.0.0:7001", "[::]:7002"].map(|any| {
                let socket = UdpSocket::bind(any).unwrap();
                // SAFETY: takes integers only.
                let given = unsafe { libc::fchown(socket.as_raw_fd(), 1234, u32::MAX) };
                assert_eq!(given, 0);
                socket
            });
            Sender::with(Vec::from(sockets), back_end(name)).unwrap()
        });
        for selects in rules {
            let told = format!("{name}, {selects}");
            assert_source(&mut sender, &mut receivers, FIRST, &told);
            rule(wire, "add", selects);
            assert_source(&mut sender, &mut receivers, SECOND, &told);
            rule(wire, "del", selects);
            assert_source(&mut sender, &mut receivers, FIRST, &told);
        }
        receivers.assert_silent();
        if name == "ebpf" {
            assert_cloned(&sender, name);
        }
    });
}

#[test]
fn ports_of_one_address_may_be_reached_by_different_interfaces() {
    on_all(1500, |wire, mut sender, name| {
        lay_table(wire);
        let others = wire.far.run(|| {
            let bind = |n: usize| {
                let ip = if n < 64 {
                    Wire::receiver_v4(n as u16 + 1)
                } else {
                    Wire::receiver_v6(n as u16 - 63)
                };
                let socket = UdpSocket::bind((ip, PORT + 100)).unwrap();
                socket.set_read_timeout(Some(ARRIVAL_MAX)).unwrap();
                socket
            };
            PLACES.map(bind)
        });
        let mut receivers = Receivers::new(wire);
        rule(wire, "add", &format!("ipproto udp dport {PORT}"));
        let recipients: Vec<_> = PLACES
            .iter()
            .zip(&others)
            .flat_map(|(place, other)| {
                [receivers.address(*place), other.local_addr().unwrap()].map(Recipient::new)
            })
            .collect();
        for _ in 0..ROUNDS {
            let sent = sender.send(&Message::new(b"both"), &recipients, None);
            assert_eq!(sent.unwrap(), recipients.len(), "{name}");
            for (place, other) in PLACES.into_iter().zip(&others) {
                let family = usize::from(place >= 64);
                let by_rule = receivers.receive_from(place).ip().to_string();
                assert_eq!(by_rule, SECOND[family], "{name}");
                let (_, from) = other.recv_from(&mut [0; 10]).unwrap();
                assert_eq!(from.ip().to_string(), FIRST[family], "{name}");
            }
        }
        assert_cloned(&sender, name);
    });
}

/// Makes a socket send by an interface, by its index.
type Bind = fn(&UdpSocket, bool, u32);

#[test]
fn the_interface_that_a_socket_names_is_used() {
    let unicast: Bind = |socket, v6, index| {
        let level = [libc::IPPROTO_IP, libc::IPPROTO_IPV6][usize::from(v6)];
        let option = [libc::IP_UNICAST_IF, libc::IPV6_UNICAST_IF][usize::from(v6)];
        set_option(socket, level, option, index.to_be());
    };
    let bound: Bind = |socket, _, index| {
        set_option(socket, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, index);
    };
    let marked: Bind = |socket, _, _| set_option(socket, libc::SOL_SOCKET, libc::SO_MARK, 5_u32);
    let sticky: Bind = |socket, v6, index| {
        if v6 {
            // The address, of no effect here, then the index.
            let info = [0, 0, 0, 0, index];
            set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        } else {
            set_option(socket, libc::SOL_SOCKET, libc::SO_MARK, 5_u32);
        }
    };
    let ways = [
        ("the interface for unicast", unicast),
        ("a bound device", bound),
        ("a mark", marked),
        ("sticky packet information", sticky),
    ];
    on_all(1500, |wire, sender, name| {
        drop(sender);
        lay_table(wire);
        let routes = "route add 10.81.0.0/16 via 10.80.0.2 dev second metric 5000\n\
            route add fd81::/64 via fd80::2 dev second metric 5000\n";
        wire.near.ip(routes).unwrap();
        rule(wire, "add", "fwmark 5");
        let mut receivers = Receivers::new(wire);
        for (told, bind) in ways {
            let mut sender = wire.near.run(|| {
                let sockets = ["0.0.0.0:0", "[::]:0"].map(|any| {
                    let socket = UdpSocket::bind(any).unwrap();
                    bind(&socket, any.contains('['), index_of("second"));
                    socket
                });
                Sender::with(Vec::from(sockets), back_end(name)).unwrap()
            });
            let told = format!("{name}, {told}");
            assert_source(&mut sender, &mut receivers, SECOND, &told);
            if name == "ebpf" {
                assert_cloned(&sender, name);
            }
        }
        receivers.assert_silent();
    });
}

/// Sees the IP packets that arrive by an interface.
struct Tap(OwnedFd);

impl Tap {
    fn new(index: u32) -> Self {
        let all = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: takes integers only.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, i32::from(all)) };
        assert!(fd >= 0);
        // SAFETY: the call has just made this descriptor for us alone.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: plain data for which zeroes are valid.
        let mut name: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        name.sll_family = libc::AF_PACKET as u16;
        name.sll_protocol = all;
        name.sll_ifindex = index as i32;
        let len = size_of_val(&name) as libc::socklen_t;
        // SAFETY: `name` is an address of the length given.
        let bound = unsafe { libc::bind(fd, (&raw const name).cast(), len) };
        assert_eq!(bound, 0);
        Self(socket)
    }

    /// The headers of the next UDP packet to the receivers' port.
    fn next(&self) -> Vec<u8> {
        let start = Instant::now();
        loop {
            let late = start.elapsed() > ARRIVAL_MAX;
            let mut packet = vec![0; 2000];
            // SAFETY: the buffer is live, writable and of the length given.
            let len = unsafe {
                let (at, room) = (packet.as_mut_ptr(), packet.len());
                libc::recv(self.0.as_raw_fd(), at.cast(), room, 0)
            };
            let Ok(len) = usize::try_from(len) else {
                assert!(!late, "no packet came");
                std::thread::yield_now();
                continue;
            };
            packet.truncate(len);
            let (protocol, udp_at) = if packet[0] >> 4 == 4 {
                (9, 20)
            } else {
                (6, 40)
            };
            let port = packet.get(udp_at + 2..udp_at + 4);
            if packet[protocol] == 17 && port == Some(&PORT.to_be_bytes()) {
                return packet;
            }
        }
    }
}

/// Checks traffic class, hop limit and "don't fragment" of a packet.
fn assert_headers(packet: &[u8], discovery: i32, name: &str) {
    if packet[0] >> 4 == 4 {
        assert_eq!((packet[1], packet[8]), (0xb8, 7), "{name}");
        let whole = packet[6] & 0x40 != 0;
        let told = "is it to stay whole";
        assert_eq!(
            whole,
            (1..4).contains(&discovery),
            "{name}, {discovery}: {told}"
        );
    } else {
        let class = packet[0] << 4 | packet[1] >> 4;
        assert_eq!((class, packet[7]), (0x48, 9), "{name}");
    }
}

#[test]
fn headers_are_those_of_the_sockets_own_datagrams() {
    on_all(1500, |wire, sender, name| {
        drop(sender);
        let mut receivers = Receivers::new(wire);
        let recipients: Vec<_> = PLACES
            .iter()
            .map(|place| Recipient::new(receivers.address(*place)))
            .collect();
        // Path MTU discovery: never, wanted, always, probing, not at all of two kinds.
        for discovery in 0..6 {
            let tap = wire.far.run(|| Tap::new(index_of("wire1")));
            let mut sender = wire.near.run(|| {
                let [v4, v6] = ["0.0.0.0:0", "[::]:0"].map(|any| UdpSocket::bind(any).unwrap());
                set_option(&v4, libc::IPPROTO_IP, libc::IP_TTL, 7);
                set_option(&v4, libc::IPPROTO_IP, libc::IP_TOS, 0xb8);
                set_option(&v4, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, discovery);
                set_option(&v6, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, 9);
                set_option(&v6, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 0x48);
                Sender::with(vec![v4, v6], back_end(name)).unwrap()
            });
            for _ in 0..ROUNDS {
                let sent = sender.send(&Message::new(b"headers"), &recipients, None);
                assert_eq!(sent.unwrap(), PLACES.len(), "{name}");
                for place in PLACES {
                    assert_eq!(receivers.receive(place), b"headers");
                }
                for _ in PLACES {
                    assert_headers(&tap.next(), discovery, name);
                }
            }
            assert_cloned(&sender, name);
        }
    });
}

#[test]
fn an_extension_header_of_the_socket_is_in_every_datagram() {
    const DESTINATION_OPTIONS: u8 = 60;
    on_all(1500, |wire, sender, name| {
        let mut receivers = Receivers::new(wire);
        let tap = wire.far.run(|| Tap::new(index_of("wire1")));
        drop(sender);
        let mut sender = wire.near.run(|| {
            let socket = UdpSocket::bind("[::]:0").unwrap();
            // Eight bytes that mean nothing.
            let header = [0_u8, 0, 1, 4, 0, 0, 0, 0];
            set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_DSTOPTS, header);
            Sender::with(vec![socket], back_end(name)).unwrap()
        });
        let places = &PLACES[8..];
        let recipients: Vec<_> = places
            .iter()
            .map(|place| Recipient::new(receivers.address(*place)))
            .collect();
        for _ in 0..ROUNDS {
            let sent = sender.send(&Message::new(b"extended"), &recipients, None);
            assert_eq!(sent.unwrap(), places.len(), "{name}");
            for place in places {
                assert_eq!(receivers.receive(*place), b"extended");
            }
        }
        let count = places.len() * ROUNDS;
        assert_eq!(
            tap.count_next_headers(&receivers, DESTINATION_OPTIONS),
            count,
            "{name}"
        );
    });
}

impl Tap {
    /// Number of IPv6 packets to the receivers whose first header after IP's is this one.
    fn count_next_headers(&self, receivers: &Receivers, header: u8) -> usize {
        let IpAddr::V6(first) = receivers.address(64).ip() else {
            panic!("the receivers from 64 on are of IPv6");
        };
        let mut count = 0;
        loop {
            let mut packet = vec![0; 2000];
            // SAFETY: the buffer is live, writable and of the length given.
            let len = unsafe {
                let (at, room) = (packet.as_mut_ptr(), packet.len());
                libc::recv(self.0.as_raw_fd(), at.cast(), room, 0)
            };
            if len < 0 {
                return count;
            }
            let to_receivers = packet[24..32] == first.octets()[..8];
            if packet[0] >> 4 == 6 && to_receivers && packet[6] == header {
                count += 1;
            }
        }
    }
}

#[test]
fn a_socket_that_may_not_route_reaches_its_own_link_alone() {
    on_all(1500, |wire, sender, name| {
        // So that clones could be made at once.
        wire.fix_neighbours().unwrap();
        let receivers = Receivers::new(wire);
        drop(sender);
        for by_flag in [false, true] {
            let mut sender = wire.near.run(|| {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                let dont = i32::from(!by_flag);
                set_option(&socket, libc::SOL_SOCKET, libc::SO_DONTROUTE, dont);
                Sender::with(vec![socket], back_end(name)).unwrap()
            });
            let recipients: Vec<_> = (0..8)
                .map(|place| Recipient::new(receivers.address(place)))
                .collect();
            let flags = if by_flag { libc::MSG_DONTROUTE } else { 0 };
            let message = Message::new(b"no further").flags(flags);
            for _ in 0..ROUNDS {
                let mut errors = [Errno::SENT; 8];
                let sent = sender.send(&message, &recipients, Some(&mut errors));
                assert_eq!(errors, [Errno::UNREACHABLE; 8], "{name}");
                assert_eq!(sent.unwrap(), 0);
            }
        }
    });
}

#[test]
fn a_socket_that_cuts_what_it_sends_does_so_for_all() {
    on_all(1500, |wire, sender, name| {
        let mut receivers = Receivers::new(wire);
        drop(sender);
        let mut sender = wire.near.run(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            set_option(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 100);
            Sender::with(vec![socket], back_end(name)).unwrap()
        });
        let recipients: Vec<_> = (0..8)
            .map(|place| Recipient::new(receivers.address(place)))
            .collect();
        let payload: Vec<u8> = (0..=249).collect();
        for _ in 0..ROUNDS {
            let sent = sender.send(&Message::new(&payload), &recipients, None);
            assert_eq!(sent.unwrap(), 8, "{name}");
            for place in 0..8 {
                for piece in payload.chunks(100) {
                    assert_eq!(receivers.receive(place), piece, "{name}");
                }
            }
        }
        receivers.assert_silent();
    });
}

#[test]
fn addresses_that_the_kernel_takes_for_others_reach_those() {
    on_all(1500, |wire, sender, name| {
        // So that the routing tables have an answer for mapped addresses, too.
        wire.near.ip("route add default via fd79::2\n").unwrap();
        wire.fix_neighbours().unwrap();
        let mut receivers = Receivers::new(wire);
        drop(sender);
        let (mut sender, own) = wire.near.run(|| {
            let socket = UdpSocket::bind("[::]:0").unwrap();
            let own = UdpSocket::bind("[::1]:9000").unwrap();
            own.set_read_timeout(Some(ARRIVAL_MAX)).unwrap();
            (Sender::with(vec![socket], back_end(name)).unwrap(), own)
        });
        let mapped = (0..8).map(|place| {
            let SocketAddr::V4(to) = receivers.address(place) else {
                panic!("the first receivers are of IPv4");
            };
            SocketAddr::new(to.ip().to_ipv6_mapped().into(), to.port())
        });
        let anybody = "[::]:9000".parse().unwrap();
        let recipients: Vec<_> = mapped.chain([anybody; 2]).map(Recipient::new).collect();
        for _ in 0..ROUNDS {
            let sent = sender.send(&Message::new(b"stand for"), &recipients, None);
            assert_eq!(sent.unwrap(), recipients.len(), "{name}");
            (0..8).for_each(|place| assert_eq!(receivers.receive(place), b"stand for"));
            for _ in 0..2 {
                assert_eq!(own.recv(&mut [0; 20]).expect(name), 9);
            }
        }
        receivers.assert_silent();
    });
}
