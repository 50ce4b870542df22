//! What only the cloning back-end can get wrong: the network around it changes.

mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use groupcast::wire::{Namespace, Wire};
use groupcast::{BackEnd, Discard, Error, Message, Recipient, Sender, Stats, Unavailable};
use support::{Random, Receivers, drop_capabilities, privileged, sender};

/// Set in the process that is killed while it holds a device.
const HOLD: &str = "GROUPCAST_TEST_HOLD";
/// What that process says once it does.
const HOLDS: &str = "holds a device";

/// Sends to the first receivers of both families and checks what comes.
fn deliver(sender: &mut Sender, receivers: &mut Receivers, payload: &[u8]) {
    let places = [0, 1, 2, 3, 64, 65, 66, 67];
    let recipients = places.map(|place| Recipient::new(receivers.address(place)).prepend(b"own"));
    let sent = sender.send(&Message::new(payload), &recipients, None);
    assert_eq!(sent.unwrap(), places.len());
    for place in places {
        assert!(receivers.receive(place) == [b"own", payload].concat());
    }
}

/// A cloning sender that has sent clones already.
fn ready(wire: &Wire) -> (Sender, Receivers) {
    let mut receivers = Receivers::new(wire);
    let mut sender = sender(wire, BackEnd::Clone).expect("root can have this back-end");
    for round in 0_u8..3 {
        deliver(&mut sender, &mut receivers, &[round; 100]);
    }
    assert!(sender.stats().cloned > 0, "{:?}", sender.stats());
    let own = sender.socket(0).unwrap().local_addr().unwrap().port();
    let to = [Recipient::new(receivers.address(0))];
    sender.send(&Message::new(b"x"), &to, None).unwrap();
    assert_eq!(receivers.receive_from(0).port(), own);
    (sender, receivers)
}

fn devices(namespace: &Namespace) -> String {
    let output = namespace.run(|| Command::new("ip").args(["-o", "link"]).output());
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn checksums_are_right_where_the_device_does_not_make_them() {
    if !privileged() {
        return;
    }
    let wire = Wire::new(1500).unwrap();
    let (mut sender, mut receivers) = ready(&wire);
    let off = "-K wire0 tx off tso off gso off tx-udp-segmentation off";
    let changed = wire.near.run(|| {
        let mut ethtool = Command::new("ethtool");
        ethtool.args(off.split(' ')).stderr(Stdio::null()).status()
    });
    assert!(
        changed.is_ok_and(|status| status.success()),
        "ethtool {off}"
    );
    let before = sender.stats().cloned;
    let mut random = Random(3);
    for len in [0, 1, 2, 999, 1400] {
        let payload = random.bytes(len);
        deliver(&mut sender, &mut receivers, &payload);
    }
    let train = random.bytes(46 * 1400);
    let recipients = [0, 1, 64, 65].map(|place| Recipient::new(receivers.address(place)));
    let sent = sender.send(&Message::train(&train, 1400), &recipients, None);
    assert_eq!(sent.unwrap(), 4);
    for place in [0, 1, 64, 65] {
        for piece in train.chunks(1400) {
            assert!(receivers.receive(place) == piece);
        }
    }
    assert!(sender.stats().cloned >= before + 5 * 8);
    assert_eq!(sender.stats().clones_refused, 0);
}

#[test]
fn a_hook_that_somebody_removes_is_noticed_and_made_again() {
    if !privileged() {
        return;
    }
    let wire = Wire::new(1500).unwrap();
    let (mut sender, mut receivers) = ready(&wire);
    for lost in 1..=3 {
        let device = sender.device().unwrap().to_owned();
        wire.near.ip(&format!("link del {device}\n")).unwrap();
        let before = sender.stats().cloned;
        // The device has to be made again in the sockets' namespace.
        wire.near
            .run(|| deliver(&mut sender, &mut receivers, b"all the same"));
        assert!(sender.stats().hooks_lost >= lost, "{:?}", sender.stats());
        wire.near
            .run(|| deliver(&mut sender, &mut receivers, b"and again"));
        assert!(sender.stats().cloned > before);
    }
    receivers.assert_silent();
}

/// The descriptor of this process's only hook.
fn hook() -> i32 {
    let hooks = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let mut hooks = hooks.filter_map(|entry| {
        let path = entry.ok()?.path();
        let told = std::fs::read_to_string(&path).ok()?;
        let hook = told
            .lines()
            .any(|line| line.starts_with("link_type:") && line.ends_with("tcx"));
        hook.then(|| path.file_name().unwrap().to_str().unwrap().parse().unwrap())
    });
    hooks.next().expect("a program is attached")
}

/// In a process of its own, whose only hook is the sender's.
#[test]
fn a_hook_that_somebody_detaches_is_noticed_and_made_again() {
    const ALONE: &str = "GROUPCAST_TEST_ALONE";
    const LINK_DETACH: libc::c_long = 34;
    if !privileged() {
        return;
    }
    if std::env::var_os(ALONE).is_none() {
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let test = "a_hook_that_somebody_detaches_is_noticed_and_made_again";
        let alone = alone.args(["--exact", test]).env(ALONE, "1").status();
        return assert!(alone.unwrap().success());
    }
    let wire = Wire::new(1500).unwrap();
    let (mut sender, mut receivers) = ready(&wire);
    for lost in 1..=3 {
        let attributes = [hook(), 0];
        // SAFETY: the attributes are live and of the length given.
        let done = unsafe { libc::syscall(libc::SYS_bpf, LINK_DETACH, attributes.as_ptr(), 8) };
        assert_eq!(done, 0);
        let before = sender.stats().cloned;
        for payload in [&b"all the same"[..], b"and again"] {
            wire.near
                .run(|| deliver(&mut sender, &mut receivers, payload));
        }
        assert!(sender.stats().hooks_lost >= lost, "{:?}", sender.stats());
        assert!(sender.stats().cloned > before);
    }
    receivers.assert_silent();
}

#[test]
fn private_bytes_of_any_length_fit_the_map() {
    if !privileged() {
        return;
    }
    let wire = Wire::new(9000).unwrap();
    let (mut sender, mut receivers) = ready(&wire);
    let mut random = Random(11);
    // The most that a record holds is 1,494 and 1,536 bytes; longer ones go by the socket.
    for (before, after) in [
        (1494, 1536),
        (1495, 1537),
        (0, 1536),
        (1494, 0),
        (4000, 4000),
    ] {
        let (prepend, append) = (random.bytes(before), random.bytes(after));
        let recipients: Vec<_> = (0..1000)
            .map(|n| {
                Recipient::new(receivers.address(n % 128))
                    .prepend(&prepend)
                    .append(&append)
            })
            .collect();
        let sent = sender.send(&Message::new(b"between"), &recipients, None);
        assert_eq!(sent.unwrap(), 1000);
        for n in 0..1000 {
            let wanted = [&prepend[..], b"between", &append].concat();
            assert!(receivers.receive(n % 128) == wanted, "{before}, {after}");
        }
    }
    assert_eq!(sender.stats().hooks_lost, 0);
    receivers.assert_silent();
}

#[test]
fn devices_on_top_of_others_take_clones() {
    if !privileged() {
        return;
    }
    let routes = "route replace 10.81.0.0/16 via 10.83.0.2\nroute replace fd81::/64 via fd83::2\n";
    let near = "addr add 10.83.0.1/16 dev top\naddr add fd83::1/64 dev top nodad\n\
        link set top up\n";
    let stacks = [
        (
            "macvlan",
            "link add link wire0 name top type macvlan mode bridge\n",
            "addr add 10.83.0.2/16 dev wire1\naddr add fd83::2/64 dev wire1 nodad\n",
        ),
        (
            "bridge",
            "link add top type bridge\nlink set wire0 master top\n",
            "addr add 10.83.0.2/16 dev wire1\naddr add fd83::2/64 dev wire1 nodad\n",
        ),
        (
            "vlan",
            "link add link wire0 name top type vlan id 5\n",
            "link add link wire1 name top type vlan id 5\nlink set top up\n\
             addr add 10.83.0.2/16 dev top\naddr add fd83::2/64 dev top nodad\n",
        ),
    ];
    for (kind, stack, far) in stacks {
        let wire = Wire::new(1500).unwrap();
        if let Err(error) = wire.near.ip(stack) {
            let reason = error.to_string();
            assert!(reason.contains("Unknown device type"), "{reason}");
            lab::pass_over(format_args!("{kind}: the kernel has no such devices"));
            continue;
        }
        wire.far.ip(far).unwrap();
        wire.near.ip(near).unwrap();
        wire.near.ip(routes).unwrap();
        let (mut sender, mut receivers) = ready(&wire);
        let before = sender.stats().cloned;
        deliver(&mut sender, &mut receivers, kind.as_bytes());
        assert!(
            sender.stats().cloned >= before + 6,
            "{kind}: {:?}",
            sender.stats()
        );
        assert_eq!(sender.stats().clones_refused, 0, "{kind}");
        receivers.assert_silent();
    }
}

#[test]
fn without_the_capability_a_lost_hook_degrades_to_the_socket() {
    if !privileged() {
        return;
    }
    let wire = Wire::new(1500).unwrap();
    let (mut sender, mut receivers) = ready(&wire);
    let device = sender.device().unwrap().to_owned();
    wire.near.run(|| {
        drop_capabilities();
        deliver(
            &mut sender,
            &mut receivers,
            b"clones need no capability any more",
        );
    });
    let before = sender.stats();
    wire.near.ip(&format!("link del {device}\n")).unwrap();
    wire.near.run(|| {
        drop_capabilities();
        for _ in 0..3 {
            deliver(&mut sender, &mut receivers, b"by the socket");
        }
    });
    assert_eq!(sender.stats().cloned, before.cloned);
    assert_eq!(sender.device(), None);
    assert_eq!(sender.back_end(), BackEnd::Batch);
    receivers.assert_silent();
}

#[test]
fn the_missing_capability_is_named_and_the_next_best_used() {
    if !privileged() {
        return;
    }
    let namespace = Namespace::new().unwrap();
    namespace.run(|| {
        drop_capabilities();
        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = Sender::with(vec![socket()], BackEnd::Clone).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Unavailable(Unavailable::Capability {
                    name: "CAP_NET_ADMIN",
                    ..
                })
            ),
            "{error}"
        );
        let sender = Sender::new(vec![socket()]).unwrap();
        let report = sender.choice().to_string();
        assert_ne!(sender.back_end(), BackEnd::Clone);
        assert!(report.contains("ebpf") && report.contains("CAP_NET_ADMIN is missing"));
    });
}

#[test]
fn a_socket_of_another_namespace_is_not_cloned_for() {
    if !privileged() {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = namespace
        .run(|| Sender::with(vec![socket], BackEnd::Clone))
        .unwrap_err();
    let reason = "a socket belongs to another network namespace";
    assert_eq!(error.to_string(), reason);
}

#[test]
fn routes_neighbours_and_interfaces_may_change_between_calls() {
    if !privileged() {
        return;
    }
    let wire = Wire::new(1500).unwrap();
    let (mut sender, mut receivers) = ready(&wire);
    let mut clones_after = |change: &str, near: &str, far: &str| {
        wire.far.ip(far).unwrap();
        wire.near.ip(near).unwrap();
        for round in 0_u8..3 {
            deliver(&mut sender, &mut receivers, &[round; 64]);
        }
        let before = sender.stats();
        deliver(&mut sender, &mut receivers, change.as_bytes());
        let Stats { cloned, .. } = sender.stats();
        assert!(
            cloned >= before.cloned + 6,
            "{change}: {:?}",
            sender.stats()
        );
    };
    clones_after(
        "another gateway",
        "route replace 10.81.0.0/16 via 10.79.0.3\nroute replace fd81::/64 via fd79::3\n",
        "addr add 10.79.0.3/16 dev wire1\naddr add fd79::3/64 dev wire1 nodad\n",
    );
    clones_after(
        "the gateway's hardware address",
        "neigh flush dev wire0\n",
        "link set wire1 address 02:00:00:00:00:33\n",
    );
    clones_after(
        "a second interface",
        &format!(
            "link add second type veth peer name behind netns {}\n\
             addr add 10.80.0.1/16 dev second\nlink set second up\n",
            wire.far.path()
        ),
        "link set lo up\n",
    );
    clones_after(
        "a route by the second interface",
        "route replace 10.81.0.0/16 via 10.80.0.2\n",
        "addr add 10.80.0.2/16 dev behind\nlink set behind up\n",
    );
    clones_after(
        "one of them gone",
        "link del second\nroute replace 10.81.0.0/16 via 10.79.0.2\n",
        "",
    );
    receivers.assert_silent();
}

#[test]
fn an_interface_that_goes_down_is_an_error_of_its_recipients_alone() {
    if !privileged() {
        return;
    }
    let wire = Wire::new(1500).unwrap();
    let (mut sender, mut receivers) = ready(&wire);
    wire.near.ip("link set wire0 down\n").unwrap();
    let recipients = [0, 1, 64, 65].map(|place| Recipient::new(receivers.address(place)));
    let mut errors = [groupcast::Errno::SENT; 4];
    let sent = sender.send(&Message::new(b"x"), &recipients, Some(&mut errors));
    assert_eq!(sent.unwrap(), 0, "{errors:?}");
    assert_eq!(errors, [groupcast::Errno::UNREACHABLE; 4]);
    receivers.assert_silent();
}

#[test]
fn clones_pass_the_programs_of_others_on_the_way_out() {
    if !privileged() {
        return;
    }
    let wire = Wire::new(1500).unwrap();
    let (mut sender, receivers) = ready(&wire);
    // Nothing else leaves: the kernel would ask for neighbours and routers, and be counted.
    wire.fix_neighbours().unwrap();
    let ipv6 = "/proc/sys/net/ipv6/conf/wire0/disable_ipv6";
    wire.near.run(|| std::fs::write(ipv6, "1")).unwrap();
    let other = wire.near.run(|| Discard::attach("wire0")).unwrap();
    let recipients: Vec<_> = (0..64)
        .map(|place| Recipient::new(receivers.address(place)))
        .collect();
    sender
        .send(&Message::new(&[0; 100]), &recipients, None)
        .unwrap();
    assert_eq!(other.packets(), 64);
    assert_eq!(other.bytes(), 64 * 142);
}

#[test]
fn nothing_is_left_when_a_sender_is_dropped_or_killed() {
    if !privileged() {
        return;
    }
    let wire = Wire::new(1500).unwrap();
    let before = devices(&wire.near);
    let (sender, _receivers) = ready(&wire);
    assert!(devices(&wire.near).contains("gcast"));
    drop(sender);
    // A child that another test starts just now has its descriptors too, until it is another program.
    let end = Instant::now() + Duration::from_secs(20);
    while devices(&wire.near) != before {
        assert!(Instant::now() < end, "{}", devices(&wire.near));
        thread::sleep(Duration::from_millis(1));
    }
    let mut child = wire.near.run(|| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "holds_a_device_until_killed", "--nocapture"]);
        command
            .env(HOLD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    });
    let said = BufReader::new(child.stdout.take().unwrap()).lines();
    let holds = said.map_while(Result::ok).any(|line| line == HOLDS);
    assert!(holds, "the process made its device");
    assert!(devices(&wire.near).contains("gcast"));
    child.kill().unwrap();
    child.wait().unwrap();
    // A process's descriptors are closed before its end is told.
    assert_eq!(devices(&wire.near), before);
}

/// Does nothing unless another test starts it to be killed.
#[test]
fn holds_a_device_until_killed() {
    if std::env::var_os(HOLD).is_some() {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let _sender = Sender::with(vec![socket], BackEnd::Clone).unwrap();
        println!("{HOLDS}");
        // Until the other test is gone, should it not kill this one.
        let end = std::io::stdin().read(&mut [0]);
        assert_eq!(end.unwrap(), 0);
    }
}
