//! Messages of groups with a lifetime: what is older is not repaired, and told by exact numbers
//! (R-DATA-14).

#[expect(dead_code, reason = "other tests use the rest")]
mod cluster;

use std::time::Duration;

use cluster::{Cluster, REGION, origin};
use qsm_wire::GroupId;
use qsm_wire::membership::{GroupLifetime, Update};

const SENDER: u64 = 40;
/// The member that lacks packets.
const LACKING: u64 = 4;
const MS: Duration = Duration::from_millis(1);
const LIFETIME: u32 = 200;

/// Four members and a sender. Messages to group 0 have a lifetime, those to group 1 have none.
fn cluster() -> Cluster {
    let mut cluster = Cluster::with_groups(2, 4, &[SENDER], |_| {});
    cluster.batch(&[lifetimes(&[(0, LIFETIME)])]);
    cluster.run(50 * MS);
    cluster
}

fn lifetimes(groups: &[(u32, u32)]) -> Update {
    let groups = groups.iter().map(|(group, ms)| GroupLifetime {
        group: GroupId(*group),
        ms: *ms,
    });
    Update::Lifetimes {
        region: REGION,
        groups: groups.collect(),
    }
}

/// Publishes so many messages, each in a packet of its own.
fn publish(cluster: &mut Cluster, group: u32, count: u32) {
    for number in 0..count {
        cluster.publish(SENDER, group, &number.to_le_bytes().repeat(75));
        cluster.run(MS);
    }
}

/// Numbers of a group that were delivered at a node.
fn delivered(cluster: &Cluster, at: u64, group: u32) -> Vec<u64> {
    let got = cluster.got[&at].iter();
    let got = got.filter(|message| message.0 == GroupId(group));
    got.map(|message| message.2).collect()
}

/// What was told at a node: group, first and last number, and the messages that had come before.
fn lost(cluster: &Cluster, at: u64) -> Vec<(u32, u64, u64, usize)> {
    let lost = cluster.got[&at].lost.iter();
    lost.map(|(group, first, last, before)| (group.0, *first, *last, *before))
        .collect()
}

fn expired(cluster: &Cluster, at: u64) -> u64 {
    let stats = cluster.nodes[&at].stats();
    assert_eq!(stats.messages_lost, 0);
    assert_eq!(cluster.got[&at].expired, stats.messages_expired);
    stats.messages_expired
}

// Rule R-DATA-14.
#[test]
fn what_has_expired_is_told_in_its_place_and_delivery_goes_on() {
    let mut cluster = cluster();
    cluster.withheld.extend([(LACKING, 3), (LACKING, 4)]);
    publish(&mut cluster, 0, 10);
    cluster.run(100 * MS);
    assert_eq!(delivered(&cluster, LACKING, 0), [1, 2], "it may still come");
    cluster.run(Duration::from_secs(1));
    assert_eq!(delivered(&cluster, LACKING, 0), [1, 2, 5, 6, 7, 8, 9, 10]);
    assert_eq!(lost(&cluster, LACKING), [(0, 3, 4, 2)]);
    assert_eq!(expired(&cluster, LACKING), 2);
    assert_eq!(cluster.nodes[&LACKING].stats().packets_expired, 2);
    assert!(cluster.total(|stats| stats.repairs_expired) >= 2);
    let all: Vec<u64> = (1..=10).collect();
    assert_eq!(delivered(&cluster, 1, 0), all);
    // The sender takes it for received, and a late copy changes nothing.
    assert!(cluster.nodes[&SENDER].is_stable());
    cluster.withheld.clear();
    publish(&mut cluster, 0, 1);
    cluster.run(Duration::from_secs(1));
    assert_eq!(delivered(&cluster, LACKING, 0).last(), Some(&11));
    assert_eq!(expired(&cluster, LACKING), 2, "it is told once");
}

// Rule R-DATA-14.
#[test]
fn what_can_be_repaired_in_time_is() {
    let mut cluster = cluster();
    cluster.withheld.extend([(LACKING, 3), (LACKING, 4)]);
    publish(&mut cluster, 0, 10);
    cluster.run(100 * MS);
    cluster.withheld.clear();
    cluster.run(Duration::from_secs(1));
    let all: Vec<u64> = (1..=10).collect();
    assert_eq!(delivered(&cluster, LACKING, 0), all);
    assert_eq!(lost(&cluster, LACKING), []);
    assert_eq!(cluster.total(|stats| stats.repairs_expired), 0);
}

// Rule R-DATA-14.
#[test]
fn a_packet_with_a_message_that_has_no_lifetime_is_repaired_however_late() {
    let mut cluster = cluster();
    cluster.withheld.extend([(LACKING, 2), (LACKING, 3)]);
    publish(&mut cluster, 0, 1);
    // One packet with both groups, and one with the second alone.
    for group in [0, 1] {
        let node = cluster.nodes.get_mut(&SENDER).unwrap();
        let got = cluster.got.entry(SENDER).or_default();
        node.publish(cluster.now, GroupId(group), b"both", got)
            .unwrap();
    }
    cluster.run(MS);
    publish(&mut cluster, 1, 1);
    publish(&mut cluster, 0, 1);
    cluster.run(Duration::from_secs(2));
    assert_eq!(delivered(&cluster, LACKING, 0), [1]);
    cluster.withheld.clear();
    cluster.run(Duration::from_secs(2));
    assert_eq!(delivered(&cluster, LACKING, 0), [1, 2, 3]);
    assert_eq!(delivered(&cluster, LACKING, 1), [1, 2]);
    assert_eq!(lost(&cluster, LACKING), []);
}

// Rule R-DATA-14.
#[test]
fn a_message_whose_first_part_has_expired_has_expired() {
    let mut cluster = cluster();
    cluster.withheld.insert((LACKING, 2));
    publish(&mut cluster, 0, 1);
    // Its other parts come, and end behind what has expired.
    cluster.publish(SENDER, 0, &[7; 10_000]);
    cluster.run(MS);
    publish(&mut cluster, 0, 1);
    cluster.run(Duration::from_secs(2));
    assert_eq!(delivered(&cluster, LACKING, 0), [1, 3]);
    assert_eq!(lost(&cluster, LACKING), [(0, 2, 2, 1)]);
    assert_eq!(expired(&cluster, LACKING), 1);
}

// Rule R-DATA-14.
#[test]
fn what_nobody_has_got_is_given_up_by_all() {
    let mut cluster = cluster();
    cluster.withheld.extend((1..=4).map(|member| (member, 3)));
    publish(&mut cluster, 0, 10);
    cluster.run(Duration::from_secs(3));
    for member in 1..=4 {
        assert_eq!(lost(&cluster, member), [(0, 3, 3, 2)], "{member}");
        assert_eq!(delivered(&cluster, member, 0), [1, 2, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(expired(&cluster, member), 1);
    }
    assert!(cluster.nodes[&SENDER].is_stable());
}

// Rule R-DATA-14.
#[test]
fn what_a_dead_sender_has_sent_does_not_expire() {
    let mut cluster = cluster();
    cluster.withheld.insert((LACKING, 3));
    publish(&mut cluster, 0, 10);
    cluster.crash(SENDER);
    let origin = origin(SENDER);
    cluster.batch(&[Update::Dead { origin }]);
    cluster.run(Duration::from_secs(1));
    cluster.withheld.clear();
    cluster.run(Duration::from_secs(2));
    let all: Vec<u64> = (1..=10).collect();
    assert_eq!(delivered(&cluster, LACKING, 0), all);
    assert_eq!(cluster.total(|stats| stats.repairs_expired), 0);
}

// Rule R-DATA-14.
#[test]
fn what_was_sent_before_its_lifetime_was_told_expires_though_nobody_speaks_of_it() {
    let mut cluster = Cluster::with_groups(2, 4, &[SENDER], |_| {});
    cluster.withheld.insert((LACKING, 3));
    publish(&mut cluster, 0, 10);
    cluster.paused.insert(LACKING);
    cluster.batch(&[lifetimes(&[(0, LIFETIME)])]);
    cluster.run(Duration::from_secs(1));
    cluster.withheld.clear();
    cluster.paused.clear();
    cluster.run(Duration::from_secs(1));
    assert_eq!(
        delivered(&cluster, LACKING, 0),
        [1, 2, 4, 5, 6, 7, 8, 9, 10]
    );
    assert_eq!(lost(&cluster, LACKING), [(0, 3, 3, 2)]);
    assert_eq!(expired(&cluster, LACKING), 1);
}

// Rule R-DATA-14.
#[test]
fn a_region_that_is_told_anew_without_lifetimes_has_none() {
    let mut cluster = cluster();
    cluster.change_view();
    cluster.run(50 * MS);
    let of_member = cluster.nodes[&LACKING].regions().next().unwrap();
    assert_eq!(of_member.lifetimes().count(), 0);
    cluster.withheld.insert((LACKING, 3));
    publish(&mut cluster, 0, 10);
    cluster.run(Duration::from_secs(1));
    cluster.withheld.clear();
    cluster.run(Duration::from_secs(1));
    let all: Vec<u64> = (1..=10).collect();
    assert_eq!(delivered(&cluster, LACKING, 0), all);
}
