//! Looking at a cluster changes nothing in it.

use std::collections::BTreeMap;

use qsm_sim::{Report, Scenario};

/// Counters of a membership service that say what has happened to the cluster.
const CLUSTER: [&str; 10] = [
    "batches",
    "views",
    "group_touches",
    "regions_created",
    "regions_closed",
    "moves",
    "admitted",
    "away",
    "excluded",
    "message_bytes",
];

/// Nodes that enter groups, leave them and crash, with so many that look.
fn run(observers: usize) -> Report {
    let nodes = 4 + observers;
    let mut text = format!("scenario 1\nseed 7\nnodes {nodes}\n");
    for observer in 5..=nodes {
        text += &format!("host {observer} observer\n");
    }
    text += "duration 8s\n\
             group members 1 2 3 publishers 1\n\
             group members 2 3 publishers 4\n\
             flow host 1 group 0 start 1s interval 10ms burst 1 messages 300\n\
             at 2s enter 4 group 1 subscriber\n\
             at 3s exit 2 group 0 subscriber\n\
             at 4s crash 3\n";
    finish(&text)
}

fn finish(text: &str) -> Report {
    let run = Scenario::parse(text).unwrap().run();
    run.unwrap_or_else(|failure| panic!("{failure}"))
}

fn cluster(report: &Report) -> BTreeMap<&'static str, u64> {
    let service = &report.hosts[0];
    CLUSTER.iter().map(|name| (*name, service[name])).collect()
}

// Rule R-MEM-18.
#[test]
fn asking_changes_nothing_in_membership() {
    let (unseen, seen) = (run(0), run(3));
    assert_eq!(cluster(&seen), cluster(&unseen));
    assert_eq!(cluster(&seen)["admitted"], 4);
    for observer in &seen.hosts[5..] {
        assert!(observer["lists"] > 100, "{observer:?}");
        let counts = ["nodes_seen", "groups_seen", "lists_late", "lists_failed"];
        assert_eq!(counts.map(|name| observer[name]), [3, 2, 0, 0]);
    }
}

// Rule R-MEM-18.
#[test]
fn an_observer_finds_a_service_by_multicast_and_its_successor() {
    let text = "scenario 1\nseed 9\nnodes 4\nhost 0 embedded-service\nhost 4 observer\n\
                host 3 embedded-service\nduration 12s\ngroup members 1 2 publishers 1\n\
                flow host 1 group 0 start 2s interval 10ms burst 1 messages 300\n\
                at 2s crash 3\nat 4s crash 0\nat 5s restart 3 same-node\n\
                expect host 4 lists >= 50\nexpect host 4 nodes_seen = 2\n\
                expect host 3 list_parts >= 20";
    finish(text);
}

// Rules R-MEM-12, R-MEM-18.
#[test]
fn an_observer_on_two_networks_sees_by_the_second_alone() {
    let text = "scenario 1\nseed 11\nnodes 3\nhost 0 embedded-service two-networks\n\
                host 1 two-networks\nhost 2 two-networks\nhost 3 observer two-networks\n\
                duration 14s\ngroup members 1 2 publishers 1\n\
                flow host 1 group 0 start 2s interval 10ms burst 1 messages 300\n\
                at 3s outage 1 8s\n\
                expect host 3 lists >= 150\nexpect host 3 lists_late = 0\n\
                expect host 3 nodes_seen = 2";
    finish(text);
}
