//! Verdicts on made evidence of peers: a healthy pair has none but `ok`, and each fault is found alone.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use qsm_doctor::Verdict;
use qsm_doctor::peers::{
    Absent, Course, Evidence, Fault, Kind, Path, Peer, PeersReport, Way, judge,
};

fn peer(number: u8) -> Peer {
    let address: SocketAddr = format!("10.0.0.{number}:5000").parse().unwrap();
    Peer {
        address: address.ip(),
        name: format!("host-{number}"),
        interface: "eth0".to_owned(),
        mtu: 1500,
        unicast: address,
        blind: None,
        faults: Vec::new(),
        queries: 2,
        foreign: 0,
    }
}

fn all(count: u64) -> Course {
    Course {
        wanted: count,
        sent: count,
        left: Some(count),
        came: Some(count),
        arrived: count,
        ..Course::default()
    }
}

/// Two hosts between which nothing is lost, watched for 300 s.
fn healthy() -> Evidence {
    let mut courses = BTreeMap::new();
    for way in [Way::Unicast, Way::Multicast] {
        courses.insert((way, Kind::Single), all(400));
        let sizes = Course {
            sizes: [576, 1000, 1500]
                .into_iter()
                .map(|size| (size, 6))
                .collect(),
            ..all(18)
        };
        courses.insert((way, Kind::Sizes), sizes);
        courses.insert((way, Kind::Fragments), all(16));
        let trains = Course {
            together: 40,
            ..all(480)
        };
        courses.insert((way, Kind::Trains), trains);
    }
    for hops in [1, 2, 4, 8, 16, 64] {
        courses.insert((Way::Multicast, Kind::Hops(hops)), all(4));
    }
    courses.insert((Way::Beside, Kind::Beside), all(20));
    for round in 1..=10 {
        let after = Kind::After(Duration::from_secs(30 * round));
        courses.insert((Way::Multicast, after), all(4));
    }
    let path = |from, to| Path {
        from,
        to,
        courses: courses.clone(),
    };
    Evidence {
        group: "239.192.83.78:4484".parse().unwrap(),
        beside: "239.192.83.79:4484".parse().unwrap(),
        peers: vec![peer(1), peer(2)],
        absent: Vec::new(),
        paths: vec![path(0, 1), path(1, 0)],
        watched: Duration::from_secs(300),
    }
}

/// The course of the first host's probes to the second.
fn course(evidence: &mut Evidence, way: Way, kind: Kind) -> &mut Course {
    evidence.paths[0].courses.get_mut(&(way, kind)).unwrap()
}

fn bad(report: &PeersReport) -> Vec<(&'static str, Verdict)> {
    let findings = report.findings();
    let bad = findings.filter(|one| one.verdict != Verdict::Ok);
    bad.map(|one| (one.id, one.verdict)).collect()
}

fn only(evidence: &Evidence, id: &str, verdict: Verdict) -> String {
    let report = judge(evidence);
    let found = bad(&report);
    assert!(
        found.len() == 1 && found[0] == (found[0].0, verdict) && found[0].0 == id,
        "{found:?}\n{report}"
    );
    let finding = report.findings().find(|one| one.id == id);
    let bad = report.findings().find(|one| one.verdict == verdict);
    assert!(finding.is_some());
    let bad = bad.unwrap();
    assert!(!bad.remedy.is_empty());
    format!("{} / {}", bad.evidence, bad.remedy)
}

#[test]
fn nothing_is_wrong_between_healthy_hosts() {
    let report = judge(&healthy());
    assert_eq!(bad(&report), Vec::new(), "{report}");
    assert_eq!(report.verdict(), Verdict::Ok);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["paths"][1]["from"], "10.0.0.2");
}

#[test]
fn a_few_losses_warn_and_one_of_a_hundred_is_a_fault() {
    for (lost, verdict) in [(1, Verdict::Warning), (4, Verdict::Fault)] {
        let mut evidence = healthy();
        let single = course(&mut evidence, Way::Unicast, Kind::Single);
        single.arrived -= lost;
        single.came = Some(single.arrived);
        let said = only(&evidence, "unicast", verdict);
        assert!(said.contains("between the cards"), "{said}");
        assert!(said.contains("the other way they pass"), "{said}");
    }
}

#[test]
fn the_remedy_is_that_of_the_host_that_knows_why() {
    let mut evidence = healthy();
    evidence.peers[1].faults.push(Fault {
        id: "rp-filter".to_owned(),
        evidence: "strict".to_owned(),
        remedy: "loosen it".to_owned(),
    });
    course(&mut evidence, Way::Multicast, Kind::Single).arrived = 390;
    let said = only(&evidence, "multicast", Verdict::Fault);
    assert!(
        said.contains("on 10.0.0.2: loosen it (rp-filter: strict)"),
        "{said}"
    );
}

#[test]
fn trains_that_lose_more_than_single_ones_name_the_buffer() {
    let mut evidence = healthy();
    let trains = course(&mut evidence, Way::Unicast, Kind::Trains);
    (trains.arrived, trains.full) = (400, 2);
    let said = only(&evidence, "trains", Verdict::Fault);
    assert!(said.contains("no room in the receive buffer"), "{said}");
    // Where single ones are lost as often, trains add nothing.
    course(&mut evidence, Way::Unicast, Kind::Single).arrived = 340;
    assert_eq!(bad(&judge(&evidence)), [("unicast", Verdict::Fault)]);
}

#[test]
fn trains_are_lost_whole_and_then_six_of_twelve_are_chance() {
    let verdicts = |lost_trains: u64, lost_singles: u64| {
        let mut evidence = healthy();
        course(&mut evidence, Way::Unicast, Kind::Trains).arrived -= 40 * lost_trains;
        course(&mut evidence, Way::Unicast, Kind::Single).arrived -= lost_singles;
        bad(&judge(&evidence))
    };
    let (unicast, trains) = (("unicast", Verdict::Fault), ("trains", Verdict::Fault));
    assert_eq!(verdicts(6, 60), [unicast]);
    assert_eq!(verdicts(11, 60), [unicast, trains]);
    // One of a hundred single ones, and half of all trains.
    assert_eq!(verdicts(2, 4), [unicast]);
    assert_eq!(verdicts(6, 4), [unicast, trains]);
}

#[test]
fn what_comes_late_or_astray_is_named() {
    let mut evidence = healthy();
    course(&mut evidence, Way::Multicast, Kind::Single).late = 3;
    only(&evidence, "order", Verdict::Warning);
    let mut evidence = healthy();
    course(&mut evidence, Way::Beside, Kind::Beside).astray = 5;
    only(&evidence, "cross-talk", Verdict::Fault);
    let mut evidence = healthy();
    evidence.peers[0].foreign = 5;
    only(&evidence, "foreign-traffic", Verdict::Warning);
}

#[test]
fn a_limit_of_size_is_named_with_what_passes() {
    let mut evidence = healthy();
    let sizes = course(&mut evidence, Way::Unicast, Kind::Sizes);
    sizes.sizes.remove(&1500);
    sizes.arrived = 12;
    let report = judge(&evidence);
    // Trains are of full packets.
    assert_eq!(
        bad(&report),
        [
            ("packet-size", Verdict::Fault),
            ("trains", Verdict::Unknown)
        ]
    );
    let size = report.findings().find(|one| one.verdict == Verdict::Fault);
    let size = size.unwrap();
    assert!(size.remedy.contains("mtu 1000"), "{size:?}");
}

#[test]
fn hops_beyond_those_of_nodes_are_a_fault() {
    let mut evidence = healthy();
    for hops in [1, 2, 4, 8] {
        course(&mut evidence, Way::Multicast, Kind::Hops(hops)).arrived = 0;
    }
    assert_eq!(bad(&judge(&evidence)), Vec::new());
    course(&mut evidence, Way::Multicast, Kind::Hops(16)).arrived = 0;
    only(&evidence, "hops", Verdict::Fault);
}

#[test]
fn multicast_that_ceases_or_pauses_is_named() {
    let silent = |rounds: std::ops::RangeInclusive<u64>| {
        let mut evidence = healthy();
        for round in rounds {
            let kind = Kind::After(Duration::from_secs(30 * round));
            let course = course(&mut evidence, Way::Multicast, kind);
            (course.came, course.arrived) = (Some(0), 0);
        }
        evidence
    };
    let said = only(&silent(8..=10), "survival", Verdict::Fault);
    assert!(said.contains("stopped 240.0 s"), "{said}");
    only(&silent(3..=5), "survival", Verdict::Warning);
    assert_eq!(bad(&judge(&silent(4..=4))), Vec::new());
    let mut asked = silent(8..=10);
    asked.peers[1].queries = 0;
    let report = judge(&asked);
    let said = report.findings().find(|one| one.verdict == Verdict::Fault);
    assert!(said.unwrap().evidence.contains("nobody asked"));
}

#[test]
fn nothing_is_said_where_too_little_arrives() {
    let mut evidence = healthy();
    let path = &mut evidence.paths[0];
    for ((way, _), course) in &mut path.courses {
        if *way != Way::Unicast {
            course.arrived = 0;
            course.sizes.clear();
        }
    }
    let found = bad(&judge(&evidence));
    let faults = found
        .iter()
        .filter(|(_, verdict)| *verdict == Verdict::Fault);
    assert_eq!(faults.count(), 1, "{found:?}");
    assert!(found.contains(&("multicast", Verdict::Fault)));
}

#[test]
fn who_does_not_answer_is_a_fault() {
    let mut evidence = healthy();
    evidence.absent.push(Absent {
        name: "db-3".to_owned(),
        reason: "connection refused".to_owned(),
    });
    let said = only(&evidence, "reachable", Verdict::Fault);
    assert!(said.contains("qsm doctor --listen"), "{said}");
}
