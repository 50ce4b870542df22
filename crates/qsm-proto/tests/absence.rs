//! Members that nobody waits for: what they miss is kept for them, they catch up, and are live
//! again in the same life.

#[expect(dead_code, reason = "other tests use the rest")]
mod cluster;

use std::time::Duration;

use cluster::{Cluster, origin};
use qsm_proto::{Config, Event};
use qsm_wire::GroupId;

const SECOND: Duration = Duration::from_secs(1);

/// Publishes that many messages of 300 bytes to one group, 2000 a second.
fn publish(cluster: &mut Cluster, node: u64, count: u64) {
    for number in 0..count {
        let payload = number.to_le_bytes().repeat(38);
        cluster.publish(node, 0, &payload);
        cluster.run(Duration::from_micros(500));
    }
}

/// Every member has the messages `1..=count` of that node, in order.
fn check_all(cluster: &Cluster, node: u64, count: u64) {
    for member in &cluster.members {
        let got = cluster.got[member].iter();
        let got = got.filter(|message| (message.0, message.1) == (GroupId(0), origin(node)));
        let numbers: Vec<u64> = got.map(|message| message.2).collect();
        let expected: Vec<u64> = (1..=count).collect();
        assert!(
            numbers == expected,
            "member {member} has {} of {count}",
            numbers.len()
        );
    }
}

fn counted(cluster: &Cluster, node: u64, is: impl Fn(&Event) -> bool) -> usize {
    cluster.events[&node]
        .iter()
        .filter(|event| is(event))
        .count()
}

/// A member is silent for a while; the membership service notices it after 300 ms.
fn pause(cluster: &mut Cluster, member: u64, publisher: u64, meanwhile: u64) {
    cluster.paused.insert(member);
    publish(cluster, publisher, 600);
    cluster.away.insert(member);
    cluster.change_view();
    publish(cluster, publisher, meanwhile);
    cluster.paused.remove(&member);
    publish(cluster, publisher, 1000);
}

fn config(config: &mut Config) {
    config.limits.send_bytes = 8 << 20;
}

// Rules R-VIEW-12, R-VIEW-13, R-VIEW-14: any member, in regions of one partition and of several.
#[test]
fn a_member_that_pauses_misses_nothing_and_delays_nobody() {
    for members in [2, 4, 8, 16] {
        for paused in [1, 2, members] {
            let mut cluster = Cluster::new(members, &[40], config);
            publish(&mut cluster, 40, 200);
            pause(&mut cluster, paused, 40, 6000);
            cluster.settle(2 * SECOND);
            assert!(
                cluster.away.is_empty(),
                "{members} members: {paused} is away"
            );
            check_all(&cluster, 40, 7800);
            let told = [
                |event: &Event| matches!(event, Event::Away { .. }),
                |event: &Event| matches!(event, Event::Back { .. }),
            ];
            assert_eq!(told.map(|is| counted(&cluster, paused, is)), [1, 1]);
            let excluded = |event: &Event| matches!(event, Event::Excluded);
            assert_eq!(counted(&cluster, paused, excluded), 0);
            cluster.run(5 * SECOND);
            let kept: usize = cluster
                .nodes
                .values()
                .map(|node| node.memory_bytes().0)
                .sum();
            assert_eq!(kept, 0, "what was retained is freed");
        }
    }
}

// Rule R-VIEW-12.
#[test]
fn what_is_stable_without_a_member_that_is_away_is_stable() {
    let mut cluster = Cluster::new(8, &[40], config);
    cluster.paused.insert(3);
    cluster.away.insert(3);
    cluster.change_view();
    publish(&mut cluster, 40, 100);
    cluster.run(SECOND / 10);
    assert!(cluster.nodes[&40].is_stable());
    cluster.paused.clear();
    cluster.settle(SECOND);
    cluster.run(SECOND);
    check_all(&cluster, 40, 100);
}

// Rule R-VIEW-13: a publisher that nobody hears blocks, and loses nothing.
#[test]
fn the_only_receiver_may_pause() {
    let mut cluster = Cluster::new(1, &[40], config);
    publish(&mut cluster, 40, 100);
    pause(&mut cluster, 1, 40, 2000);
    cluster.settle(2 * SECOND);
    check_all(&cluster, 40, 3700);
}

// Rule R-VIEW-14: streams that began and ended meanwhile are found.
#[test]
fn a_stream_that_nobody_sends_on_any_more_is_caught_up_with() {
    let mut cluster = Cluster::new(8, &[40, 41], config);
    publish(&mut cluster, 40, 100);
    cluster.paused.insert(2);
    cluster.run(SECOND / 4);
    cluster.away.insert(2);
    cluster.change_view();
    publish(&mut cluster, 40, 500);
    publish(&mut cluster, 41, 500);
    cluster.settle(SECOND);
    cluster.run(10 * SECOND);
    cluster.paused.clear();
    cluster.run(SECOND);
    check_all(&cluster, 40, 600);
    check_all(&cluster, 41, 500);
    assert!(cluster.away.is_empty());
}

// Rule R-VIEW-13: what is older than what is retained is lost, and told exactly, in order.
#[test]
fn what_is_not_retained_any_more_is_told_exactly() {
    let mut cluster = Cluster::new(4, &[40], |config| {
        config.limits.retention_bytes = 1 << 20;
        config.limits.receive_bytes = 2 << 20;
    });
    publish(&mut cluster, 40, 100);
    cluster.paused.insert(4);
    cluster.run(SECOND / 4);
    cluster.away.insert(4);
    cluster.change_view();
    publish(&mut cluster, 40, 12_000);
    cluster.paused.clear();
    publish(&mut cluster, 40, 1000);
    cluster.settle(5 * SECOND);
    cluster.run(5 * SECOND);
    assert!(cluster.away.is_empty());
    assert_eq!(cluster.got[&1].len(), 13_100);
    let missed = &cluster.got[&4].missed;
    let [(first, last)] = missed[..] else {
        panic!("{missed:?}");
    };
    assert_eq!(first, 101, "nothing before was missed");
    let kept = 13_100 - last;
    assert!((2000..9000).contains(&kept), "{kept} of 13,000 were kept");
    let expected: Vec<u64> = (1..first).chain(last + 1..=13_100).collect();
    let got: Vec<u64> = cluster.got[&4].iter().map(|message| message.2).collect();
    assert!(got == expected, "a message is missing beside {missed:?}");
}
