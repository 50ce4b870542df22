//! Verdicts on made facts: a healthy host has none but `ok`, and each fault is found alone.

use std::net::Ipv4Addr;

use qsm_doctor::{
    Claim, Facts, Finding, Firewall, Growth, Kind, Ring, Rules, Verdict, Wishes, examine,
};
use qsm_net::Medium;

/// A host on which nothing is wrong.
fn healthy() -> Facts {
    let mut facts = Facts::default();
    let link = &mut facts.link;
    link.name = "eth0".to_owned();
    link.kind = Some(Kind::Ethernet);
    (link.up, link.carrier, link.multicast) = (Some(true), Some(true), Some(true));
    link.mtu = Some(1500);
    link.addresses = vec![Ipv4Addr::new(10, 0, 0, 1)];
    let kernel = &mut facts.kernel;
    (kernel.rmem_max, kernel.granted) = (Some(32 << 20), Some(32 << 20));
    (kernel.igmp_max_memberships, kernel.igmp_max_msf) = (Some(20), Some(10));
    kernel.force_igmp_version = Some(0);
    (kernel.rp_filter_all, kernel.rp_filter) = (Some(0), Some(2));
    kernel.netdev_max_backlog = Some(1000);
    let none = Growth {
        total: 3,
        handled: 1_000_000,
        grown: 0,
    };
    (kernel.udp, kernel.backlog) = (Some(none), Some(none));
    kernel.clock_source = Some("tsc".to_owned());
    kernel.governors = vec![("/sys/a".to_owned(), "performance".to_owned())];
    let card = &mut facts.card;
    (card.gro, card.adaptive_rx, card.pause) = (Some(true), Some(false), Some(false));
    card.rx_usecs = Some(50);
    card.ring = Some(Ring {
        now: 256,
        max: 4096,
    });
    card.missed = Some(none);
    facts.firewall = Firewall::Known(Rules::default());
    facts.route = Some(true);
    facts.claims = Some(Vec::new());
    facts
}

#[test]
fn a_healthy_host_is_healthy() {
    let report = examine(&healthy(), &Wishes::default());
    for finding in &report.findings {
        assert_eq!(finding.verdict, Verdict::Ok, "{finding:?}");
        assert!(finding.remedy.is_empty() && finding.changes.is_empty());
    }
    assert_eq!(report.verdict(), Verdict::Ok);
    assert_eq!(report.findings.len(), 22);
}

/// So are those that are made otherwise.
#[test]
fn other_healthy_hosts_raise_no_alarm() {
    let cases: &[fn(&mut Facts)] = &[
        |facts| facts.link.kind = Some(Kind::Veth),
        |facts| {
            facts.link.kind = Some(Kind::Veth);
            facts.card.gro = Some(false);
        },
        |facts| facts.link.mtu = Some(9000),
        |facts| facts.link.mtu = Some(1400),
        |facts| facts.link.kind = Some(Kind::Bridge),
        |facts| {
            facts.link.kind = Some(Kind::Bridge);
            (facts.link.snooping, facts.link.querier) = (Some(true), Some(true));
        },
        |facts| facts.kernel.rp_filter = Some(1),
        |facts| {
            // The larger one holds.
            facts.others = vec!["eth1".to_owned()];
            (facts.kernel.rp_filter_all, facts.kernel.rp_filter) = (Some(1), Some(2));
        },
        |facts| {
            (facts.link.addresses, facts.link.ipv6) = (Vec::new(), true);
        },
        |facts| facts.kernel.governors = vec![("/sys/a".to_owned(), "schedutil".to_owned())],
        |facts| facts.kernel.clock_source = Some("kvm-clock".to_owned()),
        |facts| facts.kernel.igmp_max_memberships = Some(4096),
    ];
    for (case, change) in cases.iter().enumerate() {
        let mut facts = healthy();
        change(&mut facts);
        let report = examine(&facts, &Wishes::default());
        assert!(report.verdict() <= Verdict::Unknown, "{case}: {report}");
    }
}

/// Breaks a healthy host: the only finding then.
#[track_caller]
fn broken(break_it: impl FnOnce(&mut Facts)) -> Finding {
    let mut facts = healthy();
    break_it(&mut facts);
    let report = examine(&facts, &Wishes::default());
    let bad = report.findings.iter();
    let bad: Vec<_> = bad.filter(|one| one.verdict != Verdict::Ok).collect();
    let [finding] = bad[..] else {
        panic!("not one finding: {report}");
    };
    assert_eq!(report.verdict(), finding.verdict);
    if finding.verdict >= Verdict::Warning {
        assert!(!finding.remedy.is_empty(), "{finding:?}");
    }
    finding.clone()
}

#[track_caller]
fn expect(finding: &Finding, id: &str, verdict: Verdict, change: &str) {
    assert_eq!((finding.id, finding.verdict), (id, verdict), "{finding:?}");
    let changes: Vec<_> = finding.changes.iter().collect();
    let made: Vec<_> = changes.iter().map(|one| one.make.to_string()).collect();
    assert_eq!(made.join("; "), change, "{finding:?}");
}

#[test]
fn faults_of_the_interface() {
    use Verdict::{Fault, Warning};
    let found = broken(|facts| facts.link.up = Some(false));
    expect(&found, "link", Fault, "ip link set dev eth0 up");
    let found = broken(|facts| facts.link.carrier = Some(false));
    expect(&found, "link", Fault, "");
    let found = broken(|facts| facts.link.addresses.clear());
    expect(&found, "address", Fault, "");
    let found = broken(|facts| {
        facts.claims = Some(vec![Claim {
            address: Ipv4Addr::new(10, 0, 0, 1),
            hardware: "02:00:00:00:00:02".to_owned(),
        }]);
    });
    expect(&found, "duplicate-address", Fault, "");
    assert!(found.evidence.contains("02:00:00:00:00:02"), "{found:?}");
    for kind in [
        Kind::Loopback,
        Kind::Wireless,
        Kind::Tunnel("gre".to_owned()),
    ] {
        let found = broken(|facts| facts.link.kind = Some(kind));
        expect(&found, "interface-kind", Warning, "");
    }
    let found = broken(|facts| facts.link.multicast = Some(false));
    expect(
        &found,
        "multicast-flag",
        Fault,
        "ip link set dev eth0 multicast on",
    );
    expect(
        &broken(|facts| facts.link.mtu = Some(1000)),
        "mtu",
        Warning,
        "",
    );
    expect(
        &broken(|facts| facts.link.mtu = Some(500)),
        "mtu",
        Fault,
        "ip link set dev eth0 mtu 1500",
    );
    expect(
        &broken(|facts| facts.route = Some(false)),
        "multicast-route",
        Fault,
        "",
    );
    let found = broken(|facts| {
        facts.link.kind = Some(Kind::Bridge);
        (facts.link.snooping, facts.link.querier) = (Some(true), Some(false));
    });
    let change = "ip link set dev eth0 type bridge mcast_querier 1";
    expect(&found, "bridge-querier", Warning, change);
}

#[test]
fn tunnels_carry_what_they_carry() {
    let mut facts = healthy();
    (facts.link.mtu, facts.link.kind) = (Some(500), Some(Kind::Tunnel("gre".to_owned())));
    let report = examine(&facts, &Wishes::default());
    let mtu = report.findings.iter().find(|one| one.id == "mtu").unwrap();
    assert_eq!(mtu.verdict, Verdict::Fault);
    assert!(!mtu.remedy.is_empty() && mtu.changes.is_empty(), "{mtu:?}");
}

#[test]
fn nodes_need_no_multicast_where_they_go_by_unicast() {
    let mut facts = healthy();
    // What `ip` calls a tunnel may be a wire for nodes.
    facts.link.kind = Some(Kind::Tunnel("vxlan".to_owned()));
    facts.link.multicast = Some(false);
    for (medium, verdict) in [
        (Medium::Wire, Verdict::Fault),
        (Medium::Tunnel, Verdict::Ok),
    ] {
        facts.link.medium = Some(medium);
        let report = examine(&facts, &Wishes::default());
        let of = |id: &str| report.findings.iter().find(|one| one.id == id).unwrap();
        assert_eq!(of("multicast-flag").verdict, verdict);
        let said = &of("interface-kind").evidence;
        let by_unicast = said.contains("nodes go by unicast there");
        assert_eq!(by_unicast, medium == Medium::Tunnel, "{said}");
    }
}

#[test]
fn faults_of_the_kernel() {
    use Verdict::{Fault, Warning};
    let change = "echo 33554432 > /proc/sys/net/core/rmem_max";
    let found = broken(|facts| facts.kernel.rmem_max = Some(212_992));
    expect(&found, "receive-buffer", Fault, change);
    assert_eq!(
        found.changes[0].undo.to_string(),
        "echo 212992 > /proc/sys/net/core/rmem_max"
    );
    let found = broken(|facts| facts.kernel.rmem_max = Some(4 << 20));
    expect(&found, "receive-buffer", Warning, change);
    let change = "echo 20 > /proc/sys/net/ipv4/igmp_max_memberships";
    let found = broken(|facts| facts.kernel.igmp_max_memberships = Some(1));
    expect(&found, "igmp-memberships", Fault, change);
    let found = broken(|facts| facts.kernel.igmp_max_memberships = Some(10));
    expect(&found, "igmp-memberships", Warning, change);
    let found = broken(|facts| facts.kernel.igmp_max_msf = Some(1));
    let change = "echo 10 > /proc/sys/net/ipv4/igmp_max_msf";
    expect(&found, "igmp-sources", Warning, change);
    let found = broken(|facts| facts.kernel.force_igmp_version = Some(2));
    let change = "echo 0 > /proc/sys/net/ipv4/conf/eth0/force_igmp_version";
    expect(&found, "igmp-version", Warning, change);
    let found = broken(|facts| {
        facts.link.name = "eth0.5".to_owned();
        facts.others = vec!["eth1".to_owned()];
        facts.kernel.rp_filter = Some(1);
    });
    let change = "echo 2 > /proc/sys/net/ipv4/conf/eth0.5/rp_filter";
    expect(&found, "rp-filter", Warning, change);
    assert!(found.remedy.contains("net.ipv4.conf.eth0/5.rp_filter=2"));
    let found = broken(|facts| {
        facts.kernel.governors = ["a", "b"]
            .map(|cpu| (format!("/sys/{cpu}"), "powersave".to_owned()))
            .to_vec();
    });
    let change = "echo performance > /sys/a; echo performance > /sys/b";
    expect(&found, "cpu-governor", Warning, change);
    let found = broken(|facts| facts.kernel.clock_source = Some("hpet".to_owned()));
    expect(&found, "clock-source", Warning, "");
}

/// A loss is attributed to the stage at which it happens (requirement R222).
#[test]
fn losses_are_faults_while_they_grow_and_warnings_when_they_were_many() {
    use Verdict::{Fault, Warning};
    let now = Some(Growth {
        total: 5,
        handled: 1_000_000,
        grown: 2,
    });
    let past = Some(Growth {
        total: 5000,
        handled: 1_000_000,
        grown: 0,
    });
    for (growth, verdict) in [(now, Fault), (past, Warning)] {
        expect(
            &broken(|facts| facts.kernel.udp = growth),
            "udp-drops",
            verdict,
            "",
        );
        let found = broken(|facts| facts.kernel.backlog = growth);
        let change = "echo 10000 > /proc/sys/net/core/netdev_max_backlog";
        expect(&found, "softirq-backlog", verdict, change);
        let found = broken(|facts| facts.card.missed = growth);
        expect(&found, "nic-ring", verdict, "ethtool -G eth0 rx 4096");
        let found = broken(|facts| {
            facts.card.missed = growth;
            facts.card.ring = Some(Ring {
                now: 4096,
                max: 4096,
            });
        });
        expect(&found, "nic-ring", verdict, "");
    }
}

#[test]
fn faults_of_the_card() {
    use Verdict::Warning;
    let id = "interrupt-coalescing";
    let found = broken(|facts| facts.card.adaptive_rx = Some(true));
    expect(&found, id, Warning, "ethtool -C eth0 adaptive-rx off");
    let found = broken(|facts| facts.card.rx_usecs = Some(1000));
    // Never 0, with which some cards do not interrupt at all (requirement R258).
    expect(&found, id, Warning, "ethtool -C eth0 rx-usecs 125");
    let found = broken(|facts| facts.card.pause = Some(true));
    expect(
        &found,
        "pause-frames",
        Warning,
        "ethtool -A eth0 autoneg off rx off tx off",
    );
    let found = broken(|facts| facts.card.gro = Some(false));
    expect(&found, "receive-offload", Warning, "ethtool -K eth0 gro on");
}

#[test]
fn what_is_unknown_is_no_fault() {
    let report = examine(&Facts::default(), &Wishes::default());
    assert_eq!(report.verdict(), Verdict::Ok);
    assert_eq!(report.count(Verdict::Unknown), report.findings.len());
    assert!(report.changes().is_empty());
}

#[test]
fn a_firewall_that_drops_multicast_is_named_by_its_rule() {
    let text = r#"{"nftables":[
        {"chain":{"family":"inet","table":"filter","name":"input","hook":"input","prio":0,"policy":"accept"}},
        {"rule":{"family":"inet","table":"filter","chain":"input","handle":7,"expr":[
            {"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"protocol"}},"right":"igmp"}},
            {"drop":null}]}}]}"#;
    let rules = Rules::read(text).unwrap();
    let found = broken(|facts| facts.firewall = Firewall::Known(rules));
    let change = "nft insert rule inet filter input ip daddr 224.0.0.0/4 accept comment qsm-doctor";
    expect(&found, "firewall", Verdict::Fault, change);
    assert!(
        found
            .evidence
            .contains("rule 7 of inet filter input drops igmp"),
        "{found:?}"
    );
    assert!(
        found
            .remedy
            .starts_with("nft insert rule inet filter input")
    );
}

#[test]
fn a_report_is_read_by_people_and_programs() {
    let mut facts = healthy();
    facts.kernel.rmem_max = Some(1000);
    let report = examine(&facts, &Wishes::default());
    let text = report.to_string();
    assert!(text.contains("fault    receive-buffer "), "{text}");
    assert!(
        text.contains("remedy: sysctl -w net.core.rmem_max=33554432"),
        "{text}"
    );
    let json = report.to_json();
    assert!(json.starts_with(r#"{"interface":"eth0","verdict":"fault","findings":["#));
    assert!(json.contains(r#""changes":["echo 33554432 > /proc/sys/net/core/rmem_max"]"#));
}
