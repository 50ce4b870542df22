//! Groups that are delivered in other ways beside their order, seen packet by packet: as messages
//! come, and in order with a limit to waiting (R-DATA-12).

#[expect(dead_code, reason = "other tests use the rest")]
mod cluster;

use std::time::Duration;

use cluster::Cluster;
use qsm_proto::{FullReaders, Promptness};
use qsm_wire::GroupId;

const SENDER: u64 = 20;
const RECEIVER: u64 = 2;
const LIMIT: Duration = Duration::from_millis(50);
const MS: Duration = Duration::from_millis(1);
const ARRIVAL: Promptness = Promptness::Arrival;
const WITHIN: Promptness = Promptness::Within(LIMIT);

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(4, &[SENDER], |_| {});
    want(&mut cluster, RECEIVER, &[ARRIVAL, WITHIN]);
    cluster
}

/// Has a node deliver group 0 in these ways as well.
fn want(cluster: &mut Cluster, node: u64, modes: &[Promptness]) {
    let now = cluster.now;
    let endpoint = cluster.nodes.get_mut(&node).unwrap();
    endpoint.want(now, "group/0", modes);
}

/// Publishes a message of a kilobyte, in a packet of its own.
fn publish(cluster: &mut Cluster, group: u32) {
    cluster.publish(SENDER, group, &[7; 1000]);
    cluster.run(MS);
}

/// The numbers of group 0 that have come in order.
fn ordered(cluster: &Cluster) -> Vec<u64> {
    let got = cluster.got[&RECEIVER].iter();
    let got = got.filter(|message| message.0 == GroupId(0));
    got.map(|message| message.2).collect()
}

/// What has come of group 0 in this way.
fn prompt(cluster: &Cluster, mode: Promptness) -> Vec<&str> {
    let told = cluster.got[&RECEIVER].prompt.get(&mode);
    let lines = told.into_iter().flatten().map(String::as_str);
    lines
        .map(|line| line.strip_suffix(" 1000").unwrap_or(line))
        .collect()
}

// Rule R-DATA-12.
#[test]
fn a_gap_holds_up_the_order_and_nobody_else_for_longer_than_they_want() {
    let mut cluster = cluster();
    publish(&mut cluster, 0);
    cluster.withheld = [(RECEIVER, 2), (RECEIVER, 3)].into();
    for group in [0, 1, 0, 0] {
        publish(&mut cluster, group);
    }
    assert_eq!(ordered(&cluster), [1]);
    assert_eq!(prompt(&cluster, ARRIVAL), ["0#1", "0#3", "0#4"]);
    assert_eq!(prompt(&cluster, WITHIN), ["0#1"]);
    // The gap was found when packet 4 came, less than two milliseconds ago.
    cluster.run(LIMIT - 3 * MS);
    assert_eq!(prompt(&cluster, WITHIN), ["0#1"], "there is still time");
    cluster.run(3 * MS);
    let told = ["0#1", "0 lost 2..2", "0#3", "0#4"];
    assert_eq!(prompt(&cluster, WITHIN), told);
    assert_eq!(ordered(&cluster), [1]);
    cluster.withheld.clear();
    cluster.run(Duration::from_secs(1));
    assert_eq!(ordered(&cluster), [1, 2, 3, 4]);
    assert_eq!(prompt(&cluster, ARRIVAL), ["0#1", "0#3", "0#4", "0#2"]);
    assert_eq!(prompt(&cluster, WITHIN), told, "it comes too late");
    publish(&mut cluster, 0);
    assert_eq!(ordered(&cluster), [1, 2, 3, 4, 5]);
    assert_eq!(prompt(&cluster, ARRIVAL).last(), Some(&"0#5"));
    assert_eq!(prompt(&cluster, WITHIN).last(), Some(&"0#5"));
    let stats = cluster.nodes[&RECEIVER].stats();
    assert_eq!((stats.messages_ahead, stats.messages_overdue), (4, 1));
    assert_eq!(stats.messages_lost, 0);
}

// Rule R-DATA-12.
#[test]
fn what_is_repaired_in_time_is_not_lost_to_anybody() {
    let mut cluster = cluster();
    publish(&mut cluster, 0);
    cluster.withheld.insert((RECEIVER, 2));
    publish(&mut cluster, 0);
    publish(&mut cluster, 0);
    cluster.run(LIMIT / 10);
    cluster.withheld.clear();
    cluster.run(Duration::from_secs(1));
    assert_eq!(ordered(&cluster), [1, 2, 3]);
    assert_eq!(prompt(&cluster, ARRIVAL), ["0#1", "0#3", "0#2"]);
    assert_eq!(prompt(&cluster, WITHIN), ["0#1", "0#2", "0#3"]);
}

fn set_full(cluster: &mut Cluster, full: FullReaders) {
    let now = cluster.now;
    let endpoint = cluster.nodes.get_mut(&RECEIVER).unwrap();
    endpoint.set_full_readers(now, full);
}

// Rules R-DATA-12, R-DATA-13.
#[test]
fn nothing_is_handed_out_ahead_to_readers_that_take_no_more() {
    let mut cluster = cluster();
    publish(&mut cluster, 0);
    cluster.withheld.insert((RECEIVER, 2));
    publish(&mut cluster, 0);
    set_full(&mut cluster, FullReaders::of(vec![GroupId(0)]));
    publish(&mut cluster, 0);
    cluster.run(2 * LIMIT);
    assert_eq!(prompt(&cluster, ARRIVAL), ["0#1"]);
    assert_eq!(prompt(&cluster, WITHIN), ["0#1"]);
    set_full(&mut cluster, FullReaders::None);
    cluster.run(MS);
    assert_eq!(prompt(&cluster, ARRIVAL), ["0#1", "0#3"]);
    assert_eq!(prompt(&cluster, WITHIN), ["0#1", "0 lost 2..2", "0#3"]);
    cluster.withheld.clear();
    cluster.run(Duration::from_secs(1));
    assert_eq!(ordered(&cluster), [1, 2, 3]);
    assert_eq!(prompt(&cluster, ARRIVAL), ["0#1", "0#3", "0#2"]);
}

// Rule R-DATA-12.
#[test]
fn before_the_first_message_of_a_sender_packets_are_told() {
    let mut cluster = cluster();
    cluster.withheld = [(RECEIVER, 1), (RECEIVER, 3)].into();
    for group in [1, 1, 0, 0] {
        publish(&mut cluster, group);
    }
    cluster.run(2 * LIMIT);
    assert_eq!(ordered(&cluster), []);
    assert_eq!(prompt(&cluster, ARRIVAL), ["0#2"]);
    let told = prompt(&cluster, WITHIN);
    assert!(told[0].contains("packets: 2"), "{told:?}");
    assert_eq!(told[1..], ["0#2"]);
    cluster.withheld.clear();
    cluster.run(Duration::from_secs(1));
    assert_eq!(ordered(&cluster), [1, 2]);
    assert_eq!(prompt(&cluster, ARRIVAL), ["0#2", "0#1"]);
    assert_eq!(prompt(&cluster, WITHIN).len(), 2);
}

// Rule R-DATA-12.
#[test]
fn a_message_of_several_packets_comes_ahead_when_it_is_whole() {
    let mut cluster = cluster();
    publish(&mut cluster, 0);
    cluster.withheld = [(RECEIVER, 2), (RECEIVER, 4)].into();
    publish(&mut cluster, 0);
    cluster.publish(SENDER, 0, &[8; 5000]);
    cluster.run(2 * LIMIT);
    publish(&mut cluster, 0);
    cluster.run(LIMIT / 10);
    assert_eq!(ordered(&cluster), [1]);
    assert_eq!(prompt(&cluster, ARRIVAL), ["0#1", "0#4"]);
    assert_eq!(prompt(&cluster, WITHIN), ["0#1", "0 lost 2..3", "0#4"]);
    cluster.withheld.remove(&(RECEIVER, 4));
    cluster.run(Duration::from_secs(1));
    assert_eq!(ordered(&cluster), [1], "the second is still missing");
    assert_eq!(prompt(&cluster, ARRIVAL), ["0#1", "0#4", "0#3 5000"]);
    cluster.withheld.clear();
    cluster.run(Duration::from_secs(2));
    assert_eq!(ordered(&cluster), [1, 2, 3, 4]);
    assert_eq!(prompt(&cluster, ARRIVAL).last(), Some(&"0#2"));
    assert_eq!(prompt(&cluster, WITHIN).len(), 3);
}

// Rule R-DATA-12.
#[test]
fn ways_come_and_go_while_packets_are_missing() {
    let mut cluster = cluster();
    publish(&mut cluster, 0);
    want(&mut cluster, RECEIVER, &[WITHIN]);
    cluster.withheld.insert((RECEIVER, 2));
    for _ in 0..3 {
        publish(&mut cluster, 0);
    }
    want(&mut cluster, RECEIVER, &[ARRIVAL]);
    publish(&mut cluster, 0);
    cluster.run(2 * LIMIT);
    let arrival = ["0#1", "0#3", "0#4", "0#5"];
    assert_eq!(prompt(&cluster, ARRIVAL), arrival);
    assert_eq!(prompt(&cluster, WITHIN), ["0#1"], "nobody wants it so");
    want(&mut cluster, RECEIVER, &[]);
    cluster.withheld.clear();
    cluster.run(Duration::from_secs(1));
    assert_eq!(ordered(&cluster), [1, 2, 3, 4, 5]);
    assert_eq!(prompt(&cluster, ARRIVAL), arrival);
}

/// Numbers in the order in which they were given, and those that were told as lost.
fn numbers(told: &[String]) -> (Vec<u64>, Vec<u64>) {
    let (mut given, mut lost) = (Vec::new(), Vec::new());
    for line in told {
        if let Some((_, range)) = line.split_once(" lost ") {
            let (first, last) = range.split_once("..").unwrap();
            let range = first.parse::<u64>().unwrap()..=last.parse().unwrap();
            assert_eq!(*range.start(), given.len() as u64 + lost.len() as u64 + 1);
            lost.extend(range);
        } else {
            let (_, number) = line.split_once('#').unwrap();
            let (number, _) = number.split_once(' ').unwrap();
            given.push(number.parse().unwrap());
        }
    }
    (given, lost)
}

// Rule R-DATA-12.
#[test]
fn under_loss_each_message_comes_once_in_each_way() {
    let short = Promptness::Within(Duration::from_micros(300));
    let mut cluster = Cluster::new(6, &[SENDER], |_| {});
    // Before the first message, so that all of them count.
    publish(&mut cluster, 0);
    cluster.settle(Duration::from_secs(1));
    for node in 1..=3 {
        want(&mut cluster, node, &[ARRIVAL, WITHIN, short]);
    }
    cluster.flight.loss.data_ppm = 50_000;
    cluster.flight.loss.control_ppm = 50_000;
    let count = 3000;
    for number in 0..count {
        let length = if number % 50 == 0 { 4000 } else { 700 };
        cluster.publish(SENDER, u32::from(number % 3 == 0), &vec![1; length]);
        if number % 10 == 9 {
            cluster.run(Duration::from_micros(200));
        }
    }
    cluster.settle(Duration::from_secs(20));
    for node in 1..=6 {
        let of_group = cluster.got[&node].iter();
        let of_group = of_group.filter(|message| message.0 == GroupId(0)).count() as u64;
        assert_eq!(of_group, 2 * count / 3 + 1);
        let prompt = &cluster.got[&node].prompt;
        assert_eq!(prompt.is_empty(), node > 3);
        if node > 3 {
            continue;
        }
        let mut came: Vec<u64> = vec![1];
        let (given, lost) = numbers(&prompt[&ARRIVAL]);
        assert!(!given.is_sorted() && lost.is_empty());
        came.extend(given);
        came.sort_unstable();
        assert_eq!(came, (1..=of_group).collect::<Vec<_>>());
        for (mode, some) in [(WITHIN, false), (short, true)] {
            let mut told = vec!["0#1 1000".to_owned()];
            told.extend_from_slice(&prompt[&mode]);
            let (given, lost) = numbers(&told);
            assert!(given.is_sorted());
            assert_eq!(given.len() as u64 + lost.len() as u64, of_group);
            assert_eq!(!lost.is_empty(), some, "{mode:?}: {lost:?}");
        }
    }
}
