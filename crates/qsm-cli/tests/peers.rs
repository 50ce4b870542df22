//! `qsm doctor --peers` between hosts of a lab: healthy ones raise no alarm, and faults that are made
//! between them are named with direction and place.

mod support;

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lab::{HostId, Lab, Network, Switch};
use serde_json::Value;
use support::{Lines, Running};

/// Where the doctor's multicast goes.
const GROUP: &str = "ip daddr 239.192.83.78";
/// A table with a chain where packets come in.
const INPUT: &str = "nft add table inet t; nft add chain inet t c '{ type filter hook input priority 0; }'; \
                     nft add rule inet t c";
/// The same where they go out.
const OUTPUT: &str = "nft add table inet t; nft add chain inet t c '{ type filter hook output priority 0; }'; \
                      nft add rule inet t c";

fn listen(lab: &Lab, host: HostId) -> (Running, Lines) {
    let mut command = lab.command(host, env!("CARGO_BIN_EXE_qsm"));
    command.args(["doctor", "--listen"]).env("QSM_CONFIG", "");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut listener = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let said = Lines::of_stderr(&mut listener.0);
    said.wait("that it listens", |line| line.contains("listening at"));
    (listener, said)
}

fn peers(lab: &Lab, from: HostId, others: &[String], options: &[&str]) -> Output {
    let mut command = lab.command(from, env!("CARGO_BIN_EXE_qsm"));
    command
        .args(["doctor", "--json", "--peers", &others.join(",")])
        .args(options)
        .env("QSM_CONFIG", "");
    command.output().unwrap()
}

fn address(lab: &Lab, host: HostId) -> String {
    lab.host(host).address().to_string()
}

/// The report of the first host, which leads; all others listen.
fn examine(lab: &Lab, hosts: &[HostId], options: &[&str]) -> Report {
    let others = &hosts[1..];
    let _listeners: Vec<_> = others.iter().map(|host| listen(lab, *host)).collect();
    let names: Vec<String> = others.iter().map(|host| address(lab, *host)).collect();
    Report::of(&peers(lab, hosts[0], &names, options))
}

struct Report {
    report: Value,
    code: Option<i32>,
}

impl Report {
    fn of(output: &Output) -> Self {
        let text = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        Self {
            report: serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}\n{said}")),
            code: output.status.code(),
        }
    }

    /// What is neither well nor unknown: where, the check, and its verdict.
    fn bad(&self) -> BTreeSet<String> {
        self.with(|verdict| verdict == "fault" || verdict == "warning")
    }

    fn with(&self, wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut bad = BTreeSet::new();
        let places = ["hosts", "paths"].map(|key| self.report[key].as_array().unwrap());
        for place in places.into_iter().flatten() {
            let whose = match place.get("host") {
                Some(host) => text(host),
                None => format!("{} to {}", text(&place["from"]), text(&place["to"])),
            };
            for one in place["findings"].as_array().unwrap() {
                let (id, verdict) = (text(&one["id"]), text(&one["verdict"]));
                if wanted(&verdict) {
                    bad.insert(format!("{whose}: {id} {verdict}"));
                }
            }
        }
        bad
    }

    /// Evidence and remedy of a check of a direction between hosts of the lab, by their numbers.
    fn said(&self, from: u8, to: u8, id: &str) -> String {
        let path = |path: &&Value| path["from"] == host(from) && path["to"] == host(to);
        let paths = self.report["paths"].as_array().unwrap();
        let path = paths.iter().find(path).unwrap();
        let findings = path["findings"].as_array().unwrap();
        let found = findings.iter().find(|one| one["id"] == id).unwrap();
        format!("{} / {}", found["evidence"], found["remedy"])
    }

    /// The bad ones are exactly these.
    fn assert_bad(&self, expected: &[String]) {
        let expected: BTreeSet<String> = expected.iter().cloned().collect();
        assert_eq!(self.bad(), expected, "{:#}", self.report);
        let faults = expected.iter().any(|one| one.ends_with(" fault"));
        assert_eq!(self.code, Some(if faults { 6 } else { 0 }));
    }
}

fn host(number: u8) -> String {
    format!("10.78.0.{number}")
}

fn bad(from: u8, to: u8, finding: &str) -> String {
    format!("{} to {}: {finding}", host(from), host(to))
}

fn sh(lab: &Lab, host: HostId, line: &str) {
    let mut command = lab.command(host, "sh");
    let output = command.args(["-ec", line]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
}

/// Something in the namespace of the switch.
fn switch(lab: &Lab, line: &str) {
    let name = lab.switch().name();
    let mut command = std::process::Command::new("ip");
    let output = command.args(["netns", "exec", name, "sh", "-ec", line]);
    let output = output.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
}

fn two() -> (Lab, Vec<HostId>) {
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(2).unwrap();
    (lab, hosts)
}

#[test]
fn healthy_hosts_raise_no_alarm() {
    if !lab::ready() {
        return;
    }
    for kind in [Switch::Flood, Switch::Querier] {
        let mut lab = Lab::with_switch(kind).unwrap();
        let hosts = lab.add_hosts(3).unwrap();
        let report = examine(&lab, &hosts, &[]);
        report.assert_bad(&[]);
        let paths = report.report["paths"].as_array().unwrap();
        assert_eq!(paths.len(), 6, "{kind:?}");
        // What was not watched is the only thing that is not known.
        let unknown = report.with(|verdict| verdict == "unknown");
        let watched = |one: &String| one.contains(": survival ") || one.contains(": querier ");
        assert!(unknown.iter().all(watched), "{unknown:?}");
    }
}

#[test]
fn healthy_hosts_of_ipv6_raise_no_alarm() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::with_ipv6().unwrap();
    let hosts = lab.add_hosts(2).unwrap();
    let _listener = listen(&lab, hosts[1]);
    let other = lab.host(hosts[1]).address_v6().unwrap().to_string();
    let report = Report::of(&peers(&lab, hosts[0], &[other], &[]));
    report.assert_bad(&[]);
    let path = &report.report["paths"][0];
    assert!(path["from"].as_str().unwrap().contains(':'), "{path}");
    let multicast = &path["findings"][1];
    assert!(multicast["evidence"].as_str().unwrap().contains("ff15::"));
}

#[test]
fn multicast_that_passes_one_way_only_is_named_with_its_place() {
    if !lab::ready() {
        return;
    }
    // The receiver drops it, the sender does, or the switch between them.
    let (lab, hosts) = two();
    sh(&lab, hosts[1], &format!("{INPUT} {GROUP} drop"));
    let report = examine(&lab, &hosts, &[]);
    report.assert_bad(&[bad(1, 2, "multicast fault")]);
    let said = report.said(1, 2, "multicast");
    assert!(said.contains("kept back by 10.78.0.2 between"), "{said}");
    assert!(said.contains("the other way they pass"), "{said}");
    assert!(said.contains("nft insert rule inet t c"), "{said}");

    let (lab, hosts) = two();
    sh(&lab, hosts[0], &format!("{OUTPUT} {GROUP} drop"));
    let report = examine(&lab, &hosts, &[]);
    report.assert_bad(&[bad(1, 2, "multicast fault")]);
    let said = report.said(1, 2, "multicast");
    assert!(
        said.contains("10.78.0.1 before its card") || said.contains("refused by 10.78.0.1"),
        "{said}"
    );

    let (lab, hosts) = two();
    switch(
        &lab,
        &format!(
            "nft add table bridge t; \
             nft add chain bridge t c '{{ type filter hook forward priority 0; }}'; \
             nft add rule bridge t c iifname h0 {GROUP} drop"
        ),
    );
    let report = examine(&lab, &hosts, &[]);
    report.assert_bad(&[bad(1, 2, "multicast fault")]);
    let said = report.said(1, 2, "multicast");
    assert!(said.contains("lost in the network, between"), "{said}");
    assert!(
        said.contains("switches between 10.78.0.1 and 10.78.0.2"),
        "{said}"
    );
}

#[test]
fn a_firewall_of_one_unicast_port_is_named_at_that_port_alone() {
    if !lab::ready() {
        return;
    }
    let (lab, hosts) = two();
    sh(&lab, hosts[1], &format!("{INPUT} udp dport 5000 drop"));
    let report = examine(&lab, &hosts, &["--unicast-port", "5000"]);
    report.assert_bad(&[bad(1, 2, "unicast fault")]);
    let said = report.said(1, 2, "unicast");
    assert!(said.contains("10.78.0.2:5000 are lost"), "{said}");
    assert!(said.contains("kept back by 10.78.0.2"), "{said}");
    let report = examine(&lab, &hosts, &["--unicast-port", "5001"]);
    report.assert_bad(&[]);
}

#[test]
fn loss_one_way_is_named_that_way() {
    if !lab::ready() {
        return;
    }
    let (lab, hosts) = two();
    let lossy = "numgen random mod 100 '<' 15 drop";
    sh(&lab, hosts[0], &format!("{INPUT} meta l4proto udp {lossy}"));
    let report = examine(&lab, &hosts, &[]);
    report.assert_bad(&[bad(2, 1, "unicast fault"), bad(2, 1, "multicast fault")]);
    for id in ["unicast", "multicast"] {
        let said = report.said(2, 1, id);
        assert!(said.contains("kept back by 10.78.0.1"), "{said}");
    }
}

#[test]
fn a_small_mtu_between_hosts_is_named_with_what_passes() {
    if !lab::ready() {
        return;
    }
    let (lab, hosts) = two();
    switch(&lab, "ip link set dev h1 mtu 1000");
    let report = examine(&lab, &hosts, &[]);
    let found = report.bad();
    assert!(found.contains(&bad(1, 2, "packet-size fault")), "{found:?}");
    let other = |one: &String| !one.contains("packet-size") && !one.contains("fragments");
    assert!(!found.iter().any(other), "{found:?}");
    let said = report.said(1, 2, "packet-size");
    let most = said.split("up to ").nth(1).unwrap();
    let most: u32 = most.split(' ').next().unwrap().parse().unwrap();
    assert!((900..=1000).contains(&most), "{said}");
    assert!(
        said.contains(&format!("ip link set dev eth0 mtu {most}")),
        "{said}"
    );
}

#[test]
fn a_threshold_of_the_ttl_is_named() {
    if !lab::ready() {
        return;
    }
    let (lab, hosts) = two();
    sh(&lab, hosts[1], &format!("{INPUT} {GROUP} ip ttl 1 drop"));
    let report = examine(&lab, &hosts, &[]);
    report.assert_bad(&[]);
    let said = report.said(1, 2, "hops");
    assert!(said.contains("up to 2 hops"), "{said}");
    sh(
        &lab,
        hosts[1],
        &format!("nft add rule inet t c {GROUP} ip ttl '<' 30 drop"),
    );
    let report = examine(&lab, &hosts, &[]);
    report.assert_bad(&[bad(1, 2, "hops fault"), bad(1, 2, "multicast fault")]);
    assert!(report.said(1, 2, "hops").contains("more than 16 hops"));
}

#[test]
fn multicast_that_ends_because_nobody_asks_for_memberships_is_named() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::with_switch(Switch::Querier).unwrap();
    let hosts = lab.add_hosts(2).unwrap();
    let fast = "ip link set dev switch type bridge mcast_query_interval 50 mcast_startup_query_interval 50 \
                mcast_query_response_interval 20 mcast_membership_interval 1500 mcast_igmp_version 3; \
                ip link set dev switch type bridge mcast_querier 0; \
                ip link set dev switch type bridge mcast_querier 1";
    switch(&lab, fast);
    // What nobody has joined goes nowhere, as with real switches.
    for port in ["h0", "h1"] {
        switch(&lab, &format!("bridge link set dev {port} mcast_flood off"));
    }
    let report = examine(&lab, &hosts, &["--for", "4s"]);
    report.assert_bad(&[]);
    assert_eq!(report.with(|verdict| verdict == "unknown"), BTreeSet::new());
    // The questions of the switch come no farther than itself.
    switch(
        &lab,
        "nft add table bridge t; \
         nft add chain bridge t c '{ type filter hook output priority 0; }'; \
         nft add rule bridge t c ip protocol igmp drop",
    );
    let report = examine(&lab, &hosts, &["--for", "30s"]);
    report.assert_bad(&[bad(1, 2, "survival fault"), bad(2, 1, "survival fault")]);
    let said = report.said(1, 2, "survival");
    assert!(said.contains("nobody asked for memberships"), "{said}");
    assert!(said.contains("mcast_querier 1"), "{said}");
}

#[test]
fn a_way_by_another_network_is_named() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap().and_second_network().unwrap();
    let hosts = lab.add_hosts(2).unwrap();
    sh(
        &lab,
        hosts[0],
        "ip route add 10.78.0.2/32 via 10.79.0.2 dev eth1 src 10.78.0.1",
    );
    sh(
        &lab,
        hosts[1],
        "echo 1 > /proc/sys/net/ipv4/conf/all/rp_filter",
    );
    // The words between doctors go the same way, so that the host that is not examined so leads.
    let _listener = listen(&lab, hosts[0]);
    let output = peers(&lab, hosts[1], &[address(&lab, hosts[0])], &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    // Without the filter the words pass, and the probes, which come by the other network.
    sh(
        &lab,
        hosts[1],
        "echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter; echo 0 > /proc/sys/net/ipv4/conf/eth1/rp_filter",
    );
    sh(
        &lab,
        hosts[1],
        &format!("{INPUT} iifname eth1 meta l4proto udp drop"),
    );
    let report = Report::of(&peers(&lab, hosts[1], &[address(&lab, hosts[0])], &[]));
    report.assert_bad(&[bad(1, 2, "unicast fault")]);
    let said = report.said(1, 2, "unicast");
    assert!(said.contains("they leave 10.78.0.1 by eth1"), "{said}");
    let second = Network::Second.interface();
    assert!(
        said.contains("ip route replace 10.78.0.2 dev eth0"),
        "{said} {second}"
    );
}

#[test]
fn another_programs_traffic_at_the_address_is_named() {
    if !lab::ready() {
        return;
    }
    let (lab, hosts) = two();
    let stranger = {
        let _inside = lab.host(hosts[1]).namespace().enter().unwrap();
        UdpSocket::bind((lab.host(hosts[1]).address(), 0)).unwrap()
    };
    let ended = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                // Some at a time, and never so much that it takes the room of others.
                stranger
                    .send_to(b"something else", "239.192.83.78:4484")
                    .unwrap();
                thread::sleep(Duration::from_millis(5));
            }
        });
        let report = examine(&lab, &hosts, &[]);
        ended.store(true, Ordering::Relaxed);
        report
    });
    // The stranger's own host hears it as well.
    report.assert_bad(&[1, 2].map(|number| format!("{}: foreign-traffic warning", host(number))));
}

#[test]
fn a_peer_that_nobody_listens_at_is_named_and_the_others_are_examined() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(3).unwrap();
    let (listener, _said) = listen(&lab, hosts[1]);
    let names = [address(&lab, hosts[1]), address(&lab, hosts[2])];
    let report = Report::of(&peers(&lab, hosts[0], &names, &[]));
    report.assert_bad(&["10.78.0.3: reachable fault".to_owned()]);
    let alone = peers(&lab, hosts[0], &names[1..], &[]);
    let said = String::from_utf8_lossy(&alone.stderr);
    assert_eq!(alone.status.code(), Some(1), "{said}");
    assert!(said.contains("qsm doctor --listen"), "{said}");
    listener.terminate();
    assert_eq!(listener.output().status.code(), Some(0));
}
