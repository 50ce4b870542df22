//! Hosts hear each other, and labs do not.

mod support;

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use lab::{HostId, Lab, LabError, LinkCounters, LinkId, LinkShape, Switch, Translation};
use support::{group, lab_with, next, socket, unicast};

/// Where no lab can be made tests are skipped, so a mistake of ours must not look like that.
#[test]
fn a_machine_is_not_found_wanting_for_a_mistake_in_the_rules() {
    if let Err(reason) = Lab::available() {
        let reason = reason.to_string();
        assert!(!reason.contains("syntax error"), "{reason}");
    }
}

#[test]
fn unicast_reaches_the_host_it_is_sent_to() {
    let Some((lab, hosts)) = lab_with(3) else {
        return;
    };
    let sockets: Vec<_> = hosts.iter().map(|&host| socket(&lab, host)).collect();
    sockets[0]
        .send_to(b"to one", unicast(&lab, hosts[1]))
        .unwrap();
    sockets[0]
        .send_to(b"to two", unicast(&lab, hosts[2]))
        .unwrap();
    let mut buffer = [0; 64];
    let (length, from) = sockets[1].recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"to one");
    assert_eq!(from, unicast(&lab, hosts[0]).into());
    assert_eq!(next(&sockets[2]), "to two");
}

#[test]
fn multicast_reaches_all_members() {
    let Some((lab, hosts)) = lab_with(4) else {
        return;
    };
    let sockets: Vec<_> = hosts.iter().map(|&host| socket(&lab, host)).collect();
    sockets[0].send_to(b"to all", group()).unwrap();
    // The sender is a member too, and hears itself by multicast loopback.
    for socket in &sockets {
        assert_eq!(next(socket), "to all");
    }
}

#[test]
fn the_last_host_can_send_as_soon_as_it_is_added() {
    let Some((mut lab, hosts)) = lab_with(1) else {
        return;
    };
    let first = socket(&lab, hosts[0]);
    for round in 0..20 {
        let host = lab.add_host().unwrap();
        let text = format!("round {round}");
        socket(&lab, host)
            .send_to(text.as_bytes(), group())
            .unwrap();
        assert_eq!(next(&first), text);
    }
}

#[test]
fn two_labs_do_not_hear_each_other() {
    let Some((first, first_hosts)) = lab_with(2) else {
        return;
    };
    let Some((second, second_hosts)) = lab_with(2) else {
        return;
    };
    assert_ne!(first.prefix(), second.prefix());
    assert_eq!(
        first.host(first_hosts[1]).address(),
        second.host(second_hosts[1]).address()
    );
    support::pin_to_one_cpu();
    let member = |lab, host| socket(lab, host);
    let (a, b) = (
        member(&first, first_hosts[0]),
        member(&first, first_hosts[1]),
    );
    let (c, d) = (
        member(&second, second_hosts[0]),
        member(&second, second_hosts[1]),
    );
    a.send_to(b"in the first", group()).unwrap();
    c.send_to(b"in the second", group()).unwrap();
    for (socket, text) in [(&b, "in the first"), (&d, "in the second")] {
        assert_eq!(next(socket), text);
        socket.set_nonblocking(true).unwrap();
        assert_eq!(
            socket.recv(&mut [0; 64]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        socket.set_nonblocking(false).unwrap();
    }
    drop(first);
    c.send_to(b"still there", group()).unwrap();
    assert_eq!(next(&d), "still there");
}

#[test]
fn a_host_of_another_lab_is_refused() {
    let Some((first, _)) = lab_with(1) else {
        return;
    };
    let Some((_second, other)) = lab_with(1) else {
        return;
    };
    let error = first.enter(other[0]).unwrap_err();
    assert!(
        matches!(error, LabError::ForeignHost { host } if host == other[0]),
        "{error}"
    );
}

#[test]
fn a_switch_that_snoops_without_querier_floods() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::with_switch(Switch::SnoopingWithoutQuerier).unwrap();
    let hosts = lab.add_hosts(2).unwrap();
    let sockets: Vec<_> = hosts.iter().map(|&host| socket(&lab, host)).collect();
    sockets[0].send_to(b"to all", group()).unwrap();
    assert_eq!(next(&sockets[1]), "to all");
}

#[test]
fn the_guard_takes_the_thread_back() {
    let Some((lab, hosts)) = lab_with(2) else {
        return;
    };
    let network = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let outside = network();
    let first = lab.enter(hosts[0]).unwrap();
    let on_first = network();
    let second = lab.enter(hosts[1]).unwrap();
    assert_ne!(network(), on_first);
    drop(second);
    assert_eq!(network(), on_first);
    drop(first);
    assert_eq!(network(), outside);
    assert_ne!(on_first, outside);
}

/// A host at each of two sites with this link between them.
fn two_sites(shape: LinkShape) -> (Lab, LinkId, [HostId; 2]) {
    let mut lab = Lab::new().unwrap();
    let site = lab.add_site().unwrap();
    let hosts = [lab.add_host().unwrap(), lab.add_host_at(site).unwrap()];
    let link = lab.link(lab.first_site(), site, shape).unwrap();
    (lab, link, hosts)
}

/// Count of what comes of so many packets over a link of 20 ms that loses a tenth, and what the link counts.
fn arrivals_over_a_link() -> (Vec<String>, LinkCounters) {
    const DELAY: Duration = Duration::from_millis(20);
    let shape = LinkShape {
        delay: DELAY,
        loss_ppm: 100_000,
        ..LinkShape::default()
    };
    let (lab, link, hosts) = two_sites(shape);
    let [near, far] = hosts.map(|host| socket(&lab, host));
    let to = unicast(&lab, hosts[1]);
    near.send_to(b"by multicast", group()).unwrap();
    let start = Instant::now();
    near.send_to(b"first", to).unwrap();
    assert_eq!(next(&far), "first", "multicast does not pass");
    // The neighbour's address was asked for first.
    assert!(start.elapsed() >= 3 * DELAY, "{:?}", start.elapsed());
    let marker = "after all";
    for number in 0..200 {
        near.send_to(number.to_string().as_bytes(), to).unwrap();
    }
    // One of them comes.
    (0..20).for_each(|_| assert!(near.send_to(marker.as_bytes(), to).is_ok()));
    let came: Vec<String> = std::iter::repeat_with(|| next(&far))
        .take_while(|text| text != marker)
        .collect();
    let [counters, _] = lab.link_counters(link).unwrap();
    (came, counters)
}

#[test]
fn a_link_delays_and_loses_the_packets_that_its_seed_says() {
    if !lab::ready() {
        return;
    }
    support::pin_to_one_cpu();
    let (came, counters) = arrivals_over_a_link();
    assert!((150..195).contains(&came.len()), "{came:?}");
    assert!(counters.lost_packets >= 200 - came.len() as u64);
    assert_eq!(counters.overflowed_packets, 0);
    assert_eq!(arrivals_over_a_link().0, came);
}

#[test]
fn a_link_may_be_down_and_a_port_may_change_and_mistakes_are_named() {
    if !lab::ready() {
        return;
    }
    let fine = LinkShape::default();
    let (mut lab, link, hosts) = two_sites(fine);
    let [near, far] = hosts.map(|host| socket(&lab, host));
    let from = |text: &str| {
        far.send_to(text.as_bytes(), unicast(&lab, hosts[0]))
            .unwrap();
        let mut buffer = [0; 64];
        let (length, from) = near.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], text.as_bytes());
        near.send_to(b"answer", from).unwrap();
        assert_eq!(next(&far), "answer");
        from.port()
    };
    assert_eq!(from("untranslated"), support::PORT);
    for outside in [5001, 5002] {
        let of = Translation {
            port: support::PORT,
            outside,
        };
        lab.translate(hosts[1], of, hosts[0]).unwrap();
        assert_eq!(from("translated"), outside);
    }
    let all = LinkShape {
        loss_ppm: 1_000_000,
        ..fine
    };
    lab.reshape(link, all).unwrap();
    let to = unicast(&lab, hosts[1]);
    near.send_to(b"into the dark", to).unwrap();
    let start = Instant::now();
    while lab.link_counters(link).unwrap()[0].lost_packets == 0 {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::yield_now();
    }
    lab.reshape(link, fine).unwrap();
    let (other, other_link, _) = two_sites(fine);
    let narrow = LinkShape { queue: 1, ..fine };
    let mistakes = [
        (lab.link(lab.first_site(), lab.first_site(), fine), "loop"),
        (
            lab.link(lab.first_site(), other.first_site(), fine),
            "another lab",
        ),
        (
            lab.link(lab.first_site(), lab.first_site(), narrow),
            "1500 bytes",
        ),
    ];
    for (made, wrong) in mistakes {
        let error = made.unwrap_err().to_string();
        assert!(error.contains(wrong), "{error}");
    }
    assert!(lab.link_counters(other_link).is_err());
}
