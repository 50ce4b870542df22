//! `qsm doctor` on hosts of a lab: a healthy one raises no alarm, and faults that are made there
//! are found, mended, and as they were after the script.

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use lab::{HostId, Lab};
use serde_json::Value;
use support::{Lines, Running};

/// Checks of what hosts of a lab have for themselves; all else is the machine's.
const OWN: [&str; 14] = [
    "link",
    "address",
    "duplicate-address",
    "interface-kind",
    "multicast-flag",
    "mtu",
    "multicast-route",
    "rp-filter",
    "igmp-version",
    "igmp-memberships",
    "igmp-sources",
    "firewall",
    "bridge-querier",
    "udp-drops",
];

fn doctor(lab: &Lab, host: HostId, options: &[&str]) -> Output {
    let mut command = lab.command(host, env!("CARGO_BIN_EXE_qsm"));
    command
        .args(["doctor", "--interface", "eth0", "--watch", "0", "--json"])
        .args(options)
        .env("QSM_CONFIG", "");
    command.output().unwrap()
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}\n{said}"))
}

/// The verdicts of the host's own checks that are not `ok`.
fn bad(report: &Value) -> BTreeMap<String, String> {
    let findings = report["findings"].as_array().unwrap().iter();
    let own = findings.filter(|one| OWN.contains(&one["id"].as_str().unwrap()));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    own.map(|one| (text(&one["id"]), text(&one["verdict"])))
        .filter(|(_, verdict)| verdict != "ok")
        .collect()
}

fn sh(lab: &Lab, host: HostId, line: &str) {
    let mut command = lab.command(host, "sh");
    let output = command.args(["-ec", line]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
}

/// Layouts of a host with which multicast works: what they are, and the commands that make them.
const HEALTHY: [(&str, &str); 10] = [
    ("as the lab makes it", "true"),
    ("jumbo frames", "ip link set eth0 mtu 9000"),
    (
        "a strict filter of reverse paths, and one network",
        "echo 1 > /proc/sys/net/ipv4/conf/eth0/rp_filter",
    ),
    (
        "two networks, and a loose filter of reverse paths",
        "ip link add eth1 type veth peer name far1; ip address add 10.79.0.1/24 dev eth1; \
         ip link set eth1 up; ip link set far1 up; echo 2 > /proc/sys/net/ipv4/conf/all/rp_filter",
    ),
    (
        "a second address, and one of another network",
        "ip address add 10.78.7.7/16 dev eth0; ip address add 192.168.7.7/24 dev eth0",
    ),
    (
        "a default route by a gateway",
        "ip route add default via 10.78.0.250 dev eth0",
    ),
    (
        "a firewall that lets through what nodes need",
        "nft add table inet t; nft add chain inet t c \
         '{ type filter hook input priority 0; policy drop; }'; \
         nft add rule inet t c ct state established,related accept; \
         nft add rule inet t c tcp dport 22 accept; nft add rule inet t c ip protocol igmp accept; \
         nft add rule inet t c udp dport 4481-4484 accept",
    ),
    (
        "containers: a bridge of their own, translated addresses, and nothing forwarded",
        "ip link add cbr0 type bridge; ip address add 172.31.0.1/24 dev cbr0; ip link set cbr0 up; \
         ip link add c0 type veth peer name c1; ip link set c0 master cbr0; ip link set c0 up; \
         nft add table ip n; nft add chain ip n post '{ type nat hook postrouting priority 100; }'; \
         nft add rule ip n post ip saddr 172.31.0.0/24 masquerade; \
         nft add chain ip n between '{ type filter hook forward priority 0; policy drop; }'",
    ),
    (
        "a firewall that drops other multicast, and other networks' packets",
        "nft add table inet t; nft add chain inet t c '{ type filter hook input priority 0; }'; \
         nft add rule inet t c ip daddr 224.0.0.251 drop; nft add rule inet t c ip saddr 192.168.0.0/16 drop",
    ),
    (
        "a limit on new connections, and a counter of everything",
        "nft add table inet t; nft add chain inet t c '{ type filter hook input priority 0; }'; \
         nft add rule inet t c counter; nft add rule inet t c tcp flags syn limit rate over 10/second drop",
    ),
];

#[test]
fn ten_healthy_layouts_raise_no_alarm() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    for (layout, made) in HEALTHY {
        let host = lab.add_host().unwrap();
        sh(&lab, host, made);
        let output = doctor(&lab, host, &[]);
        assert_eq!(bad(&json(&output)), BTreeMap::new(), "{layout}");
    }
}

/// Faults, each with its check, its verdict, and the commands that make it.
fn faults() -> Vec<(&'static str, &'static str, String)> {
    let ipv4 = "/proc/sys/net/ipv4";
    let table = "nft add table inet t; nft add chain inet t c";
    let hook = |hook: &str, policy: &str| {
        format!("{table} '{{ type filter hook {hook} priority 0; policy {policy}; }}'")
    };
    vec![
        ("link", "fault", "ip link set eth0 down".to_owned()),
        ("address", "fault", "ip address flush dev eth0".to_owned()),
        (
            "multicast-flag",
            "fault",
            "ip link set eth0 multicast off".to_owned(),
        ),
        ("mtu", "fault", "ip link set eth0 mtu 500".to_owned()),
        ("mtu", "warning", "ip link set eth0 mtu 1000".to_owned()),
        (
            "igmp-memberships",
            "fault",
            format!("echo 1 > {ipv4}/igmp_max_memberships"),
        ),
        (
            "igmp-sources",
            "warning",
            format!("echo 1 > {ipv4}/igmp_max_msf"),
        ),
        (
            "igmp-version",
            "warning",
            format!("echo 2 > {ipv4}/conf/eth0/force_igmp_version"),
        ),
        (
            "rp-filter",
            "warning",
            format!(
                "ip link add x type veth peer name y; ip address add 10.9.9.1/24 dev x; \
                 ip link set x up; echo 1 > {ipv4}/conf/eth0/rp_filter"
            ),
        ),
        (
            "firewall",
            "fault",
            hook("input", "accept") + "; nft add rule inet t c ip daddr 224.0.0.0/4 counter drop",
        ),
        (
            "firewall",
            "fault",
            hook("output", "accept") + "; nft add rule inet t c udp dport 4484 reject",
        ),
        (
            "firewall",
            "fault",
            hook("input", "drop") + "; nft add rule inet t c ct state established,related accept",
        ),
        (
            "firewall",
            "warning",
            hook("input", "accept")
                + "; nft add rule inet t c meta pkttype multicast numgen random mod 10 1 drop",
        ),
    ]
}

#[test]
fn each_fault_of_a_host_is_named_alone() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    for (id, verdict, fault) in faults() {
        let host = lab.add_host().unwrap();
        sh(&lab, host, &fault);
        let output = doctor(&lab, host, &[]);
        let mut found = bad(&json(&output));
        if id == "link" || id == "address" {
            // Without an address, or down, nothing else can be said of routes, nor can others be asked.
            found.remove("multicast-route");
            found.remove("duplicate-address");
        }
        assert_eq!(found, alone(id, verdict), "{fault}");
        if verdict == "fault" {
            assert_eq!(output.status.code(), Some(6), "{fault}");
        }
    }
}

#[test]
fn an_address_that_two_hosts_have_is_named_with_the_other_host() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(2).unwrap();
    let own = lab.host(hosts[0]).address();
    assert_eq!(bad(&json(&doctor(&lab, hosts[0], &[]))), BTreeMap::new());
    sh(&lab, hosts[1], &format!("ip address add {own}/16 dev eth0"));
    let report = json(&doctor(&lab, hosts[0], &[]));
    let fault = BTreeMap::from([("duplicate-address".to_owned(), "fault".to_owned())]);
    assert_eq!(bad(&report), fault);
    let mut other = lab.command(hosts[1], "ip");
    let other = other.args(["-o", "link", "show", "eth0"]).output().unwrap();
    let other = String::from_utf8(other.stdout).unwrap();
    let mut words = other.split_whitespace();
    words.find(|word| *word == "link/ether").unwrap();
    let hardware = words.next().unwrap();
    let mut findings = report["findings"].as_array().unwrap().iter();
    let found = findings
        .find(|one| one["id"] == "duplicate-address")
        .unwrap();
    assert!(
        found["evidence"].as_str().unwrap().contains(hardware),
        "{found}"
    );
}

#[test]
fn a_firewall_that_keeps_unicast_from_a_node_is_named() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let host = lab.add_host().unwrap();
    let mut sub = lab.command(host, env!("CARGO_BIN_EXE_qsm"));
    sub.args(["sub", "news"]).env("QSM_CONFIG", "");
    sub.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut sub = Running(sub.spawn().unwrap());
    let said = Lines::of_stderr(&mut sub.0);
    said.wait("its groups", |line| line.starts_with("qsm: subscribed"));
    assert_eq!(bad(&json(&doctor(&lab, host, &[]))), BTreeMap::new());
    let rules = "nft add table inet t; nft add chain inet t c \
                 '{ type filter hook input priority 0; }'; \
                 nft add rule inet t c ip daddr 10.0.0.0/8 udp dport != 4481-4484 drop";
    sh(&lab, host, rules);
    let report = json(&doctor(&lab, host, &[]));
    let firewall = BTreeMap::from([("firewall".to_owned(), "fault".to_owned())]);
    assert_eq!(bad(&report), firewall);
    let mut findings = report["findings"].as_array().unwrap().iter();
    let found = findings.find(|one| one["id"] == "firewall").unwrap();
    let remedy = found["remedy"].as_str().unwrap();
    let own = format!("ip daddr {} udp dport ", lab.host(host).address());
    assert!(remedy.contains(&own), "{found}");
}

/// Output of a line for the shell.
fn said(lab: &Lab, host: HostId, line: &str) -> String {
    let mut command = lab.command(host, "sh");
    let output = command.args(["-c", line]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// A path for a script that nothing is at.
fn undo_file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("qsm-doctor-{name}-{}", std::process::id()));
    // Of an earlier process with the same number.
    drop(std::fs::remove_file(&path));
    path
}

/// Whether a healthy host of a lab has nothing to be mended: what is the machine's must not be changed
/// by a test.
fn is_spared(lab: &Lab, host: HostId) -> bool {
    let machine = json(&doctor(lab, host, &["--receive-buffer", "1k"]));
    let foreign = machine["findings"].as_array().unwrap().iter();
    let foreign: Vec<&Value> = foreign
        .filter(|one| !one["changes"].as_array().unwrap().is_empty())
        .collect();
    if !foreign.is_empty() {
        lab::pass_over(format!("this machine would be changed: {foreign:?}"));
    }
    foreign.is_empty()
}

#[test]
fn what_can_be_mended_is_mended_and_undone() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let host = lab.add_host().unwrap();
    if !is_spared(&lab, host) {
        return;
    }
    sh(
        &lab,
        host,
        "echo 1 > /proc/sys/net/ipv4/igmp_max_memberships; echo 3 > /proc/sys/net/ipv4/igmp_max_msf; \
         echo 2 > /proc/sys/net/ipv4/conf/eth0/force_igmp_version; ip link set eth0 multicast off",
    );
    let undo = undo_file("kernel");
    let options = [
        "--receive-buffer",
        "1k",
        "--fix",
        "--undo-file",
        undo.to_str().unwrap(),
    ];
    let output = doctor(&lab, host, &options);
    let fixed = json(&output);
    assert_eq!(output.status.code(), Some(0), "{fixed}");
    assert_eq!(
        (bad(&fixed["before"]).len(), bad(&fixed["after"]).len()),
        (4, 0)
    );
    assert_eq!(fixed["changes"].as_array().unwrap().len(), 4);
    // A script that is there already is not overwritten, and nothing is changed without one.
    sh(
        &lab,
        host,
        "echo 2 > /proc/sys/net/ipv4/igmp_max_memberships",
    );
    let again = doctor(&lab, host, &options);
    assert_eq!(again.status.code(), Some(1));
    sh(
        &lab,
        host,
        "test $(cat /proc/sys/net/ipv4/igmp_max_memberships) = 2",
    );
    sh(&lab, host, undo.to_str().unwrap());
    sh(
        &lab,
        host,
        "test $(cat /proc/sys/net/ipv4/igmp_max_memberships) = 1; \
         test $(cat /proc/sys/net/ipv4/igmp_max_msf) = 3; \
         test $(cat /proc/sys/net/ipv4/conf/eth0/force_igmp_version) = 2; \
         ! ip link show eth0 | grep -q MULTICAST",
    );
    std::fs::remove_file(undo).unwrap();
}

/// Verdicts of one check alone.
fn alone(id: &str, verdict: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(id.to_owned(), verdict.to_owned())])
}

/// Commands that show the interface, and the setting of the kernel that a fault changes.
const STATE: &str = "ip -j link show eth0 | tr -d '[:space:]'; \
                     cat /proc/sys/net/ipv4/conf/eth0/rp_filter";

#[test]
fn interfaces_are_mended_and_undone() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    for (id, verdict, fault) in [
        ("mtu", "fault", "ip link set eth0 mtu 500"),
        (
            "rp-filter",
            "warning",
            "ip link add x type veth peer name y; ip address add 10.9.9.1/24 dev x; \
             ip link set x up; echo 1 > /proc/sys/net/ipv4/conf/eth0/rp_filter",
        ),
    ] {
        let host = lab.add_host().unwrap();
        if !is_spared(&lab, host) {
            return;
        }
        sh(&lab, host, fault);
        let before = said(&lab, host, STATE);
        let undo = undo_file("interface");
        let undo_at = undo.to_str().unwrap();
        let options = ["--receive-buffer", "1k", "--fix", "--undo-file", undo_at];
        let fixed = json(&doctor(&lab, host, &options));
        assert_eq!(bad(&fixed["before"]), alone(id, verdict), "{fault}");
        assert_eq!(bad(&fixed["after"]), BTreeMap::new(), "{fault}");
        sh(&lab, host, undo_at);
        assert_eq!(said(&lab, host, STATE), before, "{fault}");
        std::fs::remove_file(undo).unwrap();
    }
}

#[test]
fn an_interface_that_is_down_is_mended_and_undone() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let host = lab.add_host().unwrap();
    if !is_spared(&lab, host) {
        return;
    }
    sh(&lab, host, "ip link set eth0 down");
    let undo = undo_file("link");
    let undo_at = undo.to_str().unwrap();
    let options = ["--receive-buffer", "1k", "--fix", "--undo-file", undo_at];
    let fixed = json(&doctor(&lab, host, &options));
    assert_eq!(bad(&fixed["before"])["link"], "fault", "{fixed}");
    assert_eq!(bad(&fixed["after"]), BTreeMap::new(), "{fixed}");
    sh(&lab, host, undo_at);
    assert_eq!(
        said(&lab, host, "ip -br link show eth0 | grep -c UP").trim(),
        "0"
    );
    std::fs::remove_file(undo).unwrap();
}

/// What is the network's of this host alone, so that it is the same on every machine.
#[test]
fn firewalls_are_mended_and_undone() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    for (count, fault) in [
        (
            1,
            "nft add table inet t; nft add chain inet t c '{ type filter hook input priority 0; policy drop; }'; \
             nft add rule inet t c tcp dport 22 accept",
        ),
        (
            1,
            "nft add table inet t; nft add chain inet t c '{ type filter hook output priority 0; }'; \
             nft add rule inet t c ip daddr 224.0.0.0/4 drop",
        ),
        (
            2,
            "nft add table ip t; nft add chain ip t a '{ type filter hook input priority 0; }'; \
             nft add chain ip t b '{ type filter hook output priority 0; }'; \
             nft add rule ip t a udp dport 4484 drop; nft add rule ip t b udp dport 4484 drop",
        ),
    ] {
        let host = lab.add_host().unwrap();
        if !is_spared(&lab, host) {
            return;
        }
        sh(&lab, host, fault);
        let state = "nft list ruleset";
        let before = said(&lab, host, state);
        let undo = undo_file("network");
        let undo_at = undo.to_str().unwrap();
        let options = ["--receive-buffer", "1k", "--fix", "--undo-file", undo_at];
        let fixed = json(&doctor(&lab, host, &options));
        assert_eq!(bad(&fixed["before"]), alone("firewall", "fault"));
        assert_eq!(bad(&fixed["after"]), BTreeMap::new());
        assert_eq!(fixed["changes"].as_array().unwrap().len(), count, "{fixed}");
        assert_ne!(said(&lab, host, state), before);
        sh(&lab, host, undo.to_str().unwrap());
        assert_eq!(said(&lab, host, state), before);
        std::fs::remove_file(undo).unwrap();
    }
}

#[test]
fn an_interface_that_is_not_there_is_an_error_that_names_the_others() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qsm"));
    let output = command.args(["doctor", "--interface", "no-such0"]).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("no-such0") && said.contains("choose one of lo"),
        "{said}"
    );
}

#[test]
fn people_read_a_line_for_each_check() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qsm"));
    command.args(["doctor", "--interface", "lo", "--watch", "0"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("ok       link "), "{text}");
    assert!(text.contains("warning  interface-kind"), "{text}");
    assert!(text.contains("of 22 checks"), "{text}");
}
