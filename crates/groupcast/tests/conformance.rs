//! What every back-end must do alike. Each test runs on all of them.

mod support;

use std::net::UdpSocket;

use groupcast::wire::Wire;
use groupcast::{BackEnd, Errno, Error, Group, Message, RECIPIENTS_MAX, Recipient, Sender, Via};
use support::{RECEIVERS, Random, Receivers, on_all, set_option};

/// Groups whose deliveries are compared byte for byte, per back-end.
const GROUPS: usize = 10_000;

struct Expected {
    place: usize,
    prepend: Vec<u8>,
    append: Vec<u8>,
}

/// Members of a random group; some of the groups have private bytes of one length only, as most
/// applications do.
fn random_group(random: &mut Random) -> Vec<Expected> {
    let alike = random.below(2) == 0;
    let lengths = [random.below(40), random.below(40)];
    let count = 1 + random.below(24);
    (0..count)
        .map(|_| {
            let [before, after] = if alike {
                lengths
            } else {
                [random.below(300), random.below(300)]
            };
            Expected {
                place: random.below(2 * usize::from(RECEIVERS)),
                prepend: random.bytes(before),
                append: random.bytes(after),
            }
        })
        .collect()
}

#[test]
fn random_groups_arrive_byte_for_byte_and_nothing_else_does() {
    on_all(1500, |wire, mut sender, name| {
        let mut receivers = Receivers::new(wire);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for round in 0..GROUPS {
            let members = random_group(&mut random);
            let len = random.below(900);
            let payload = random.bytes(len);
            let recipients: Vec<_> = members
                .iter()
                .map(|member| {
                    Recipient::new(receivers.address(member.place))
                        .prepend(&member.prepend)
                        .append(&member.append)
                })
                .collect();
            let mut errors = vec![Errno::INVALID; recipients.len()];
            let message = Message::new(&payload);
            let sent = sender.send(&message, &recipients, Some(&mut errors));
            assert_eq!(sent.unwrap(), members.len(), "{name}, {round}: {errors:?}");
            // A recipient that is in twice may receive in either order: private bytes tell.
            let mut wanted: Vec<_> = members
                .iter()
                .map(|member| {
                    let bytes = [&member.prepend[..], &payload, &member.append].concat();
                    (member.place, bytes)
                })
                .collect();
            let mut got: Vec<_> = members
                .iter()
                .map(|member| (member.place, receivers.receive(member.place).to_vec()))
                .collect();
            wanted.sort();
            got.sort();
            assert!(wanted == got, "{name}, group {round}");
        }
        receivers.assert_silent();
        let stats = sender.stats();
        match name {
            "ebpf" => assert!(stats.cloned > stats.sent / 3, "{stats:?}"),
            "connected" => assert!(stats.connected > stats.sent / 3, "{stats:?}"),
            _ => {}
        }
    });
}

#[test]
fn errors_are_those_of_the_recipients_that_caused_them() {
    on_all(1500, |wire, mut sender, name| {
        let mut receivers = Receivers::new(wire);
        wire.near
            .ip("route add prohibit 10.98.0.0/16\nroute add unreachable 10.97.0.0/16\n")
            .unwrap();
        let long = vec![1; 65_000];
        let payload = [7; 600];
        let to = |text: &str| Recipient::new(text.parse().unwrap());
        let good = receivers.address(0);
        let recipients = [
            Recipient::new(good),
            to("10.99.0.1:9000"),
            to("10.98.0.1:9000"),
            to("10.97.0.1:9000"),
            to("[fd99::1]:9000"),
            to("10.81.0.1:0"),
            Recipient::new(good).prepend(&long),
            Recipient::new(receivers.address(1)),
            to("10.81.0.1:9000").via(Via::Socket(1)),
            to("10.81.0.1:9000").via(Via::Socket(9)),
            Recipient::new(receivers.address(70)).append(&[9; 3]),
        ];
        for _ in 0..3 {
            let mut errors = [Errno::SENT; 11];
            let message = Message::new(&payload);
            let sent = sender.send(&message, &recipients, Some(&mut errors));
            let codes = errors.map(Errno::code);
            let wanted = [
                0,
                libc::ENETUNREACH,
                libc::EACCES,
                libc::EHOSTUNREACH,
                libc::ENETUNREACH,
                libc::EINVAL,
                libc::EMSGSIZE,
                0,
                libc::EAFNOSUPPORT,
                libc::EAFNOSUPPORT,
                0,
            ];
            assert_eq!(codes, wanted, "{name}");
            assert_eq!(sent.unwrap(), 3);
            assert_eq!(receivers.receive(0), payload);
            assert_eq!(receivers.receive(1), payload);
            assert_eq!(receivers.receive(70).len(), 603);
        }
        receivers.assert_silent();
    });
}

/// Returns when the kernel has the errors that earlier datagrams cause, and its coarse clock has
/// ticked, before which a sender does not look again.
fn await_refusals(receivers: &mut Receivers) {
    // There and back.
    receivers.settle();
    receivers.settle();
    let seen = coarse_now();
    while coarse_now() == seen {
        std::thread::yield_now();
    }
}

fn coarse_now() -> (i64, i64) {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to a `timespec` that we own.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    (now.tv_sec, now.tv_nsec)
}

#[test]
fn a_refusal_is_reported_once_to_the_recipient_that_refused() {
    on_all(1500, |wire, mut sender, name| {
        let mut receivers = Receivers::new(wire);
        let closed = "10.81.0.9:9999".parse().unwrap();
        let recipients = [
            Recipient::new(receivers.address(0)),
            Recipient::new(closed),
            Recipient::new(receivers.address(1)),
        ];
        let mut outcomes = Vec::new();
        for _ in 0..4 {
            let mut errors = [Errno::SENT; 3];
            sender
                .send(&Message::new(b"knock"), &recipients, Some(&mut errors))
                .unwrap();
            assert!(errors[0].sent() && errors[2].sent(), "{name}: {errors:?}");
            outcomes.push(errors[1]);
            await_refusals(&mut receivers);
        }
        let wanted = [Errno::SENT, Errno::REFUSED, Errno::SENT, Errno::REFUSED];
        assert_eq!(outcomes, wanted, "{name}");
        for place in [0, 1] {
            (0..4).for_each(|_| assert_eq!(receivers.receive(place), b"knock"));
        }
        receivers.assert_silent();
    });
}

#[test]
fn a_full_queue_is_reported() {
    on_all(1500, |wire, mut sender, name| {
        let mut receivers = Receivers::new(wire);
        let recipients: Vec<_> = (0..64)
            .map(|place| Recipient::new(receivers.address(place)))
            .collect();
        let payload = [0; 1000];
        let message = Message::new(&payload);
        sender.send(&message, &recipients, None).unwrap();
        // Once these are there, the next hop is known: the kernel holds packets back until then.
        for place in 0..64 {
            assert_eq!(receivers.receive(place).len(), 1000);
        }
        // 8 kbit/s and room for a handful of packets.
        wire.near.run(|| {
            let tc = std::process::Command::new("tc")
                .args("qdisc add dev wire0 root tbf rate 8kbit burst 2000 limit 4000".split(' '))
                .status();
            assert!(tc.unwrap().success());
        });
        let mut errors = vec![Errno::SENT; recipients.len()];
        let sent = sender.send(&message, &recipients, Some(&mut errors));
        let full = errors.iter().filter(|e| **e == Errno::QUEUE_FULL).count();
        assert!(full >= 50, "{name}: {errors:?}");
        assert_eq!(sent.unwrap(), 64 - full, "{name}: {errors:?}");
    });
}

#[test]
fn a_call_that_may_not_wait_names_those_that_it_has_no_room_for() {
    on_all(1500, |wire, sender, name| {
        let receivers = Receivers::new(wire);
        let back_end = BackEnd::ALL.into_iter().find(|b| b.name() == name).unwrap();
        drop(sender);
        wire.fix_neighbours().unwrap();
        // The device holds everything for longer than this takes, and the socket's buffer a little.
        let mut sender = wire.near.run(|| {
            let tc = std::process::Command::new("tc")
                .args("qdisc add dev wire0 root tbf rate 8kbit burst 2000 limit 1000000".split(' '))
                .status();
            assert!(tc.unwrap().success());
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, 5000);
            Sender::with(vec![socket], back_end).unwrap()
        });
        let recipients: Vec<_> = (0..64)
            .map(|place| Recipient::new(receivers.address(place)))
            .collect();
        let message = Message::new(&[0; 1000]).flags(libc::MSG_DONTWAIT);
        let mut errors = vec![Errno::INVALID; recipients.len()];
        let sent = sender
            .send(&message, &recipients, Some(&mut errors))
            .unwrap();
        let full = errors.iter().filter(|e| **e == Errno::BUFFER_FULL).count();
        assert_eq!(sent + full, 64, "{name}: {errors:?}");
        if name == "ebpf" {
            // Clones are not charged to the socket.
            assert_eq!(sent, 64);
        } else {
            assert!(full >= 50, "{name}: {errors:?}");
        }
    });
}

/// Sends a train with so many private bytes at either end, and checks what comes.
fn send_train(
    sender: &mut Sender,
    receivers: &mut Receivers,
    random: &mut Random,
    (segments, segment, own): (usize, u16, usize),
) {
    let payload = random.bytes(segments * usize::from(segment) - 1);
    let (prepend, append) = (random.bytes(own), random.bytes(own));
    let places = [0, 1, 2, 64, 65];
    let recipients = places.map(|place| {
        Recipient::new(receivers.address(place))
            .prepend(&prepend)
            .append(&append)
    });
    let message = Message::train(&payload, segment);
    assert_eq!(sender.send(&message, &recipients, None).unwrap(), 5);
    for place in places {
        for piece in payload.chunks(usize::from(segment)) {
            let wanted = [&prepend, piece, &append].concat();
            let got = receivers.receive(place);
            assert!(got == wanted, "{segments} x {segment}, at {place}");
        }
    }
}

#[test]
fn trains_arrive_as_datagrams_in_order() {
    on_all(1500, |wire, mut sender, name| {
        let mut receivers = Receivers::new(wire);
        let mut random = Random(77);
        // The last one is longer than the kernel takes at once.
        for (segments, segment) in [(2, 1), (46, 1400), (3, 777), (64, 100), (150, 1000)] {
            for own in [0, 12] {
                let shape = (segments, segment, own);
                send_train(&mut sender, &mut receivers, &mut random, shape);
            }
        }
        receivers.assert_silent();
        if name == "ebpf" {
            assert!(sender.stats().cloned > 0, "{:?}", sender.stats());
        }
    });
}

#[test]
fn payloads_above_the_mtu_arrive_whole() {
    on_all(1500, |wire, mut sender, name| {
        let mut receivers = Receivers::new(wire);
        let mut random = Random(5);
        for len in [0, 1, 1452, 1453, 1472, 1473, 9000, 65_507 - 16] {
            let payload = random.bytes(len);
            let own = random.bytes(8);
            let places = [0, 1, 2, 64, 65];
            let recipients = places.map(|place| {
                let recipient = Recipient::new(receivers.address(place));
                recipient.prepend(&own).append(&own)
            });
            let mut errors = [Errno::SENT; 5];
            let sent = sender.send(&Message::new(&payload), &recipients, Some(&mut errors));
            assert_eq!(sent.unwrap(), 5, "{name}, {len}: {errors:?}");
            for place in places {
                let wanted = [&own[..], &payload, &own].concat();
                assert!(
                    receivers.receive(place) == wanted,
                    "{name}, {len} at {place}"
                );
            }
        }
        // An empty datagram without private bytes is one, too.
        let recipients = [0, 64].map(|place| Recipient::new(receivers.address(place)));
        assert_eq!(
            sender.send(&Message::new(b""), &recipients, None).unwrap(),
            2
        );
        assert!(receivers.receive(0).is_empty() && receivers.receive(64).is_empty());
        receivers.assert_silent();
    });
}

#[test]
fn a_payload_that_only_ipv6_can_carry_fails_for_ipv4_alone() {
    on_all(65_535, |wire, mut sender, name| {
        let mut receivers = Receivers::new(wire);
        let payload = vec![3; 65_508];
        let recipients = [0, 64].map(|place| Recipient::new(receivers.address(place)));
        let mut errors = [Errno::SENT; 2];
        let sent = sender.send(&Message::new(&payload), &recipients, Some(&mut errors));
        assert_eq!(errors, [Errno::TOO_LARGE, Errno::SENT], "{name}");
        assert_eq!(sent.unwrap(), 1);
        assert_eq!(receivers.receive(64).len(), 65_508);
        receivers.assert_silent();
    });
}

#[test]
fn members_of_a_group_on_loopback_are_reached() {
    on_all(1500, |wire, mut sender, name| {
        let sockets = wire.near.run(|| {
            let bind = |n| {
                let any = if n % 2 == 0 { "127.0.0.1:0" } else { "[::1]:0" };
                UdpSocket::bind(any).unwrap()
            };
            (0..8).map(bind).collect::<Vec<_>>()
        });
        let mut group = Group::new();
        for socket in &sockets {
            let to = socket.local_addr().unwrap();
            let own = to.port().to_be_bytes();
            group.add(&Recipient::new(to).prepend(&own)).unwrap();
        }
        let message = Message::new(b"local");
        assert_eq!(
            sender.send_group(&message, &group, None).unwrap(),
            8,
            "{name}"
        );
        for socket in &sockets {
            let mut buffer = [0; 100];
            socket
                .set_read_timeout(Some(std::time::Duration::from_secs(5)))
                .unwrap();
            let len = socket.recv(&mut buffer).unwrap();
            let port = socket.local_addr().unwrap().port().to_be_bytes();
            assert_eq!(&buffer[..len], [&port[..], b"local"].concat(), "{name}");
        }
    });
}

#[test]
fn calls_that_make_no_sense_are_named() {
    let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
    for back_end in [BackEnd::Loop, BackEnd::Batch] {
        let mut sender = Sender::with(vec![socket()], back_end).unwrap();
        let to = sender.socket(0).unwrap().local_addr().unwrap();
        let one = [Recipient::new(to)];
        let fine = Message::new(b"x");
        let refused = |result: Result<usize, Error>| result.unwrap_err();
        let error = refused(sender.send(&fine, &[], None));
        assert!(matches!(error, Error::NoRecipients));
        let error = refused(sender.send_group(&fine, &Group::new(), None));
        assert!(matches!(error, Error::NoRecipients));
        let error = refused(sender.send(&fine.flags(libc::MSG_MORE), &one, None));
        assert!(matches!(
            error,
            Error::UnsupportedFlags {
                flags: libc::MSG_MORE
            }
        ));
        let error = refused(sender.send(&fine, &one, Some(&mut [])));
        assert!(matches!(
            error,
            Error::ErrorsTooShort {
                len: 0,
                recipients: 1
            }
        ));
        let many = vec![one[0]; RECIPIENTS_MAX + 1];
        let error = refused(sender.send(&fine, &many, None));
        assert!(matches!(
            error,
            Error::TooManyRecipients {
                count: 100_001,
                max: 100_000
            }
        ));
        let huge = vec![0; 65_528];
        let error = refused(sender.send(&Message::new(&huge), &one, None));
        assert!(matches!(
            error,
            Error::PayloadTooLarge {
                len: 65_528,
                max: 65_527
            }
        ));
    }
    let none = Sender::new(Vec::new()).unwrap_err();
    assert!(matches!(none, Error::NoSocket));
}

#[test]
fn a_group_may_be_larger_than_any_queue() {
    on_all(1500, |wire, mut sender, name| {
        let ports = 20_000..22_500_u16;
        let sink = wire.far.run(|| {
            let bind = |port| UdpSocket::bind(("0.0.0.0", port)).unwrap();
            ports.clone().map(bind).collect::<Vec<_>>()
        });
        let mut group = Group::new();
        for port in ports {
            for number in [1, 2] {
                let to = (Wire::receiver_v4(number), port).into();
                group.add(&Recipient::new(to)).unwrap();
            }
        }
        let payload = [5; 100];
        let sent = sender.send_group(&Message::new(&payload), &group, None);
        assert_eq!(sent.unwrap(), 5000, "{name}");
        for socket in &sink {
            let mut buffer = [0; 200];
            socket
                .set_read_timeout(Some(std::time::Duration::from_secs(5)))
                .unwrap();
            for _ in 0..2 {
                assert_eq!(socket.recv(&mut buffer).unwrap(), 100, "{name}");
            }
        }
    });
}

#[test]
fn a_family_that_no_socket_has_is_an_error_of_its_recipients_alone() {
    on_all(1500, |wire, sender, name| {
        let mut receivers = Receivers::new(wire);
        let back_end = BackEnd::ALL.into_iter().find(|b| b.name() == name).unwrap();
        drop(sender);
        for (any, there, other) in [("0.0.0.0:0", 0, 64), ("[::]:0", 64, 0)] {
            let mut sender = wire.near.run(|| {
                let socket = UdpSocket::bind(any).unwrap();
                Sender::with(vec![socket], back_end).unwrap()
            });
            let recipients =
                [there, other, there + 1].map(|place| Recipient::new(receivers.address(place)));
            let mut errors = [Errno::INVALID; 3];
            let sent = sender.send(&Message::new(b"family"), &recipients, Some(&mut errors));
            assert_eq!(errors, [Errno::SENT, Errno::FAMILY, Errno::SENT], "{name}");
            assert_eq!(sent.unwrap(), 2);
            assert_eq!(receivers.receive(there), b"family");
            assert_eq!(receivers.receive(there + 1), b"family");
        }
        receivers.assert_silent();
    });
}

#[test]
fn recipients_hear_from_the_socket_that_they_name() {
    on_all(1500, |wire, sender, name| {
        let mut receivers = Receivers::new(wire);
        let back_end = BackEnd::ALL.into_iter().find(|b| b.name() == name).unwrap();
        drop(sender);
        wire.near.ip("addr add 10.79.7.7/16 dev wire0\n").unwrap();
        let mut sender = wire.near.run(|| {
            let any = [
                "0.0.0.0:7001",
                "10.79.7.7:7002",
                "[::]:7003",
                "[fd79::1]:7004",
            ];
            let sockets = any.map(|any| UdpSocket::bind(any).unwrap());
            Sender::with(Vec::from(sockets), back_end).unwrap()
        });
        let from = [
            "10.79.0.1:7001",
            "10.79.7.7:7002",
            "[fd79::1]:7003",
            "[fd79::1]:7004",
        ];
        let places = [0, 1, 64, 65];
        for _ in 0..3 {
            let recipients: Vec<_> = (0..4_u8)
                .flat_map(|via| {
                    let first = if via < 2 { 0 } else { 64 };
                    [first, first + 1].map(|place| (place, via))
                })
                .map(|(place, via)| Recipient::new(receivers.address(place)).via(Via::Socket(via)))
                .collect();
            let sent = sender.send(&Message::new(b"from"), &recipients, None);
            assert_eq!(sent.unwrap(), 8, "{name}");
            for place in places {
                let first = if place < 64 { 0 } else { 2 };
                let mut heard: Vec<String> = (0..2)
                    .map(|_| receivers.receive_from(place).to_string())
                    .collect();
                heard.sort_by_key(|text| text.chars().rev().collect::<String>());
                assert_eq!(heard, from[first..first + 2], "{name}");
            }
        }
        receivers.assert_silent();
    });
}

/// Packets that a device has sent.
fn packets_sent(wire: &Wire, device: &str) -> u64 {
    let text = wire
        .near
        .run(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
    let text = text.unwrap();
    let mut lines = text.lines().map(str::trim_start);
    let line = lines.find_map(|line| line.strip_prefix(device)).unwrap();
    let sent = line.trim_start_matches(':').split_whitespace().nth(9);
    sent.unwrap().parse().unwrap()
}

/// Sends to everybody, and takes the interface down while that goes on.
fn send_while_it_goes_down(
    wire: &Wire,
    sender: &mut Sender,
    recipients: &[Recipient<'_>],
) -> (usize, Vec<Errno>) {
    let mut errors = vec![Errno::INVALID; recipients.len()];
    let before = packets_sent(wire, "wire0");
    let sent = std::thread::scope(|scope| {
        scope.spawn(|| {
            while packets_sent(wire, "wire0") < before + 1000 {
                std::thread::yield_now();
            }
            wire.near.ip("link set wire0 down\n").unwrap();
        });
        sender.send(&Message::new(b"onward"), recipients, Some(&mut errors))
    });
    (sent.unwrap(), errors)
}

/// Takes what has come to a receiver; every datagram must name it.
fn take_own(receivers: &Receivers, place: usize) -> usize {
    let mut buffer = [0; 100];
    let own = (place as u16).to_be_bytes();
    let mut count = 0;
    while let Ok(len) = receivers.sockets[place].1.recv(&mut buffer) {
        assert_eq!(buffer[..len], [&own[..], b"onward"].concat());
        count += 1;
    }
    count
}

#[test]
fn an_interface_that_goes_down_in_mid_call_is_an_error_of_those_not_yet_sent_to() {
    on_all(1500, |wire, mut sender, name| {
        let mut receivers = Receivers::new(wire);
        let places = 2 * usize::from(RECEIVERS);
        let own: Vec<_> = (0..places as u16).map(u16::to_be_bytes).collect();
        let recipient = |n: usize| {
            let place = n % places;
            Recipient::new(receivers.address(place)).prepend(&own[place])
        };
        let recipients: Vec<_> = (0..RECIPIENTS_MAX).map(recipient).collect();
        // So that next hops are known.
        for _ in 0..2 {
            let sent = sender.send(&Message::new(b"onward"), &recipients[..places], None);
            assert_eq!(sent.unwrap(), places, "{name}");
            (0..places).for_each(|place| assert_eq!(receivers.receive(place).len(), 8));
        }
        // The interface can also go down between two blocks at the very end: then once more.
        loop {
            let (sent, errors) = send_while_it_goes_down(wire, &mut sender, &recipients);
            receivers.settle();
            let came: usize = (0..places).map(|place| take_own(&receivers, place)).sum();
            // An interface that is going down swallows some packets without an error.
            assert!(
                came <= sent && sent < came + 1000,
                "{name}: {came} of {sent}"
            );
            let unsent = errors.iter().filter(|e| **e == Errno::UNREACHABLE).count();
            assert_eq!(sent + unsent, recipients.len(), "{name}");
            let again = sender.send(&Message::new(b"onward"), &recipients, None);
            assert_eq!(again.unwrap(), 0, "{name}");
            if unsent > 0 {
                break;
            }
            wire.near.ip(UP_AGAIN).unwrap();
        }
        receivers.assert_silent();
    });
}

/// Makes the wire what it was before it went down.
const UP_AGAIN: &str = "link set wire0 up\n\
    addr replace fd79::1/64 dev wire0 nodad\n\
    route replace 10.81.0.0/16 via 10.79.0.2\n\
    route replace fd81::/64 via fd79::2\n";
