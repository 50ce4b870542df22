//! Packets that are lost for good while their sender lives: which messages were in them is told by
//! exact numbers, group by group (R-DATA-11).

#[expect(dead_code, reason = "other tests use the rest")]
mod cluster;

use std::time::Duration;

use cluster::{CHANNEL, Cluster, REGION, address, multicast, origin};
use qsm_proto::Config;
use qsm_proto::account::{MessageAccount, Standing};
use qsm_wire::membership::{GroupStart, Member, MemberFilter, Update, ViewStep};
use qsm_wire::{
    ChannelId, GroupId, GroupNumbers, Header, Hop, Kind, Numbers, NumbersQuery, RegionId, StreamId,
    ViewNumber, seal,
};

const SECOND: Duration = Duration::from_secs(1);
const SENDER: u64 = 40;
/// The member that is away.
const AWAY: u64 = 4;

/// Keeps a sixteenth of what the sender publishes while that member is away.
fn config(config: &mut Config) {
    config.limits.retention_bytes = 1 << 18;
}

fn publish(cluster: &mut Cluster, group: u32, count: u32) {
    for number in 0..count {
        cluster.publish(SENDER, group, &number.to_le_bytes().repeat(75));
        cluster.run(Duration::from_micros(500));
    }
}

/// A member is away while each of the groups but the first gets as many messages as its number
/// says, and then the first one so many that all of that is lost to it.
fn overrun(groups: u32) -> Cluster {
    let mut cluster = Cluster::with_groups(groups, AWAY, &[SENDER], config);
    publish(&mut cluster, 0, 100);
    publish(&mut cluster, 1, 3);
    cluster.run(SECOND / 4);
    cluster.paused.insert(AWAY);
    cluster.away.insert(AWAY);
    cluster.change_view();
    for group in 1..groups {
        publish(&mut cluster, group, group);
    }
    publish(&mut cluster, 0, 6_000);
    cluster.settle(5 * SECOND);
    cluster
}

/// First and last numbers of a group that were told as lost, in the order in which they were told.
fn lost(cluster: &Cluster, group: u32) -> Vec<(u64, u64)> {
    let lost = cluster.got[&AWAY].lost.iter();
    let lost = lost.filter(|loss| loss.0 == GroupId(group));
    lost.map(|(_, first, last, _)| (*first, *last)).collect()
}

fn delivered(cluster: &Cluster, group: u32) -> Vec<u64> {
    let got = cluster.got[&AWAY].iter();
    let got = got.filter(|message| message.0 == GroupId(group));
    got.map(|message| message.2).collect()
}

/// A number of messages of the first group, of which some were lost in the middle.
fn assert_first_group(cluster: &Cluster, count: u64) {
    let [(first, last)] = lost(cluster, 0)[..] else {
        panic!("{:?}", lost(cluster, 0));
    };
    assert_eq!(first, 101);
    assert!(last > 4_000, "{last}");
    let expected: Vec<u64> = (1..first).chain(last + 1..=count).collect();
    assert_eq!(delivered(cluster, 0), expected);
}

/// A region of this member alone, with group 1, beside the merged one, of which it receives group 0.
fn private_region_beside_a_merged_one(cluster: &mut Cluster) {
    let private = RegionId(2);
    let view = Update::View(ViewStep {
        region: private,
        view: ViewNumber(1),
        base: ViewNumber(0),
        removed: Vec::new(),
        leaving: Vec::new(),
        changed: Vec::new(),
        added: vec![Member {
            origin: origin(AWAY),
            address: address(AWAY),
            joined: ViewNumber(1),
            left: None,
            away: None,
        }],
    });
    let region = |region, channel, address, groups: &[u32]| Update::Region {
        region,
        channel,
        address,
        groups: groups.iter().copied().map(GroupId).collect(),
    };
    let filters = |members| Update::Filters {
        region: REGION,
        whole: true,
        members,
    };
    let own = region(private, ChannelId(2), address(AWAY), &[1]);
    let shared = |groups: &[u32]| region(REGION, CHANNEL, multicast(), groups);
    let others = MemberFilter {
        origin: origin(AWAY),
        unwanted: vec![GroupId(1)],
        since: Vec::new(),
    };
    let sender = [
        own.clone(),
        shared(&[0, 1]),
        view.clone(),
        filters(vec![others]),
    ];
    cluster.batch_for(SENDER, &sender);
    cluster.batch_for(AWAY, &[own, shared(&[0]), view, filters(Vec::new())]);
    cluster.run(SECOND / 20);
}

// Rule R-VIEW-16.
#[test]
fn a_group_that_a_member_has_in_another_region_is_not_taken_from_a_merged_one() {
    let mut cluster = Cluster::with_groups(2, AWAY, &[SENDER], |_| {});
    private_region_beside_a_merged_one(&mut cluster);
    publish(&mut cluster, 0, 3);
    publish(&mut cluster, 1, 1);
    // These numbers of the merged region's stream have gone by.
    cluster.withheld.extend([(AWAY, 2), (AWAY, 3)]);
    publish(&mut cluster, 1, 3);
    cluster.run(SECOND);
    assert_eq!(delivered(&cluster, 0), [1, 2, 3]);
    assert_eq!(delivered(&cluster, 1), [1]);
    cluster.withheld.clear();
    cluster.run(SECOND);
    assert_eq!(delivered(&cluster, 1), [1, 2, 3, 4]);
    let of_others: Vec<u64> = cluster.got[&1].iter().map(|message| message.2).collect();
    assert_eq!(of_others, [1, 2, 3, 1, 2, 3, 4]);
    assert_eq!(cluster.nodes[&AWAY].stats().messages_filtered, 4);
    assert_eq!(lost(&cluster, 1), []);
}

// Rule R-DATA-11.
#[test]
fn messages_of_groups_of_which_nothing_else_comes_are_told_once() {
    // More groups than an answer of one packet names.
    let groups = 150;
    let mut cluster = overrun(groups);
    cluster.paused.clear();
    cluster.run(5 * SECOND);
    assert!(cluster.away.is_empty(), "it is back");
    assert_eq!(lost(&cluster, 1), [(4, 4)], "what came before counts");
    for group in 2..groups {
        assert_eq!(lost(&cluster, group), [(1, u64::from(group))]);
        assert_eq!(delivered(&cluster, group), []);
    }
    assert_first_group(&cluster, 6_100);
    assert_eq!(cluster.got[&AWAY].packets, 0);
    let stats = cluster.nodes[&AWAY].stats();
    assert!(stats.numbers_asked >= 3, "{}", stats.numbers_asked);
    assert_eq!(stats.packets_unknown, 0);
    publish(&mut cluster, 7, 2);
    cluster.run(SECOND);
    assert_eq!(lost(&cluster, 7), [(1, 7)], "it is told once");
    assert_eq!(delivered(&cluster, 7), [8, 9]);
}

// Rule R-DATA-11.
#[test]
fn what_is_lost_is_told_before_what_comes_after_it_however_late_the_answer_is() {
    let mut cluster = overrun(3);
    publish(&mut cluster, 2, 1);
    cluster.filtered = Some(Kind::Numbers);
    cluster.paused.clear();
    cluster.run(SECOND / 2);
    assert_eq!(cluster.got[&AWAY].len(), 103, "it waits for the answer");
    assert!(!cluster.nodes[&SENDER].is_stable() || !cluster.away.is_empty());
    cluster.filtered = None;
    cluster.run(5 * SECOND);
    let (_, first, last, before) = cluster.got[&AWAY].lost[0];
    assert_eq!((first, last, before), (101, last, 103));
    assert_eq!(lost(&cluster, 2), [(1, 2)]);
    assert_eq!(delivered(&cluster, 2), [3]);
    assert_first_group(&cluster, 6_100);
    let got = &cluster.got[&AWAY];
    let told = got.lost.iter().find(|loss| loss.0 == GroupId(2));
    let came = got.iter().position(|message| message.0 == GroupId(2));
    assert!(told.map(|loss| loss.3) <= came, "told too late");
    assert_eq!(got.packets, 0);
}

/// The next view, in which the member does not receive these groups, and others from these views on.
fn share(cluster: &mut Cluster, unwanted: &[u32], since: &[(u32, u32)]) {
    let since = since.iter().map(|(group, view)| GroupStart {
        group: GroupId(*group),
        view: ViewNumber(*view),
    });
    cluster.filters = vec![MemberFilter {
        origin: origin(AWAY),
        unwanted: unwanted.iter().copied().map(GroupId).collect(),
        since: since.collect(),
    }];
    cluster.change_view();
    cluster.run(SECOND / 20);
}

// Rules R-DATA-11, R-VIEW-16.
#[test]
fn of_groups_that_are_taken_up_later_what_was_sent_since_is_owed() {
    let mut cluster = Cluster::with_groups(4, AWAY, &[SENDER], config);
    publish(&mut cluster, 0, 100);
    share(&mut cluster, &[2, 3], &[]);
    publish(&mut cluster, 2, 5);
    publish(&mut cluster, 3, 6);
    // Views 3 and 4.
    share(&mut cluster, &[3], &[(2, 3)]);
    publish(&mut cluster, 3, 1);
    share(&mut cluster, &[], &[(2, 3), (3, 4)]);
    cluster.run(SECOND / 4);
    cluster.paused.insert(AWAY);
    cluster.away.insert(AWAY);
    cluster.change_view();
    for group in 1..4 {
        publish(&mut cluster, group, group);
    }
    publish(&mut cluster, 0, 6_000);
    cluster.settle(5 * SECOND);
    cluster.paused.clear();
    cluster.run(5 * SECOND);
    assert!(cluster.away.is_empty(), "it is back");
    let told = [1, 2, 3].map(|group| lost(&cluster, group));
    assert_eq!(told, [[(1, 1)], [(6, 7)], [(8, 10)]]);
    assert_first_group(&cluster, 6_100);
    assert_eq!(cluster.got[&AWAY].packets, 0, "all are told by number");
    publish(&mut cluster, 3, 1);
    cluster.run(SECOND);
    assert_eq!(delivered(&cluster, 3), [11]);
}

/// An answer that the sender has not given, up to that packet, for the third group.
fn forge(cluster: &mut Cluster, speaker: u64, position: u64, first: u64, last: u64) {
    let query = NumbersQuery {
        stream: StreamId {
            origin: origin(SENDER),
            channel: CHANNEL,
        },
        joined: ViewNumber(1),
        position,
        from: GroupId(0),
    };
    let header = Header {
        cluster: Config::new(qsm_wire::NodeId(0), address(1)).cluster_number(),
        origin: origin(speaker),
        hop: Hop::Direct,
    };
    let group = GroupNumbers {
        group: GroupId(2),
        first,
        last,
    };
    let mut bytes = Vec::new();
    Numbers::encode(&header, &query, None, &[group], &mut bytes);
    seal(&mut bytes, qsm_wire::Coverage::Whole);
    let got = cluster.got.entry(AWAY).or_default();
    let node = cluster.nodes.get_mut(&AWAY).unwrap();
    node.handle_datagram(cluster.now, address(speaker), bytes[..].into(), got);
    cluster.run(SECOND / 100);
}

// Rule R-DATA-11.
#[test]
fn answers_that_cannot_be_true_are_not_believed() {
    let mut cluster = overrun(3);
    forge(&mut cluster, SENDER, 100_000, 1, 2);
    cluster.filtered = Some(Kind::Numbers);
    cluster.paused.clear();
    cluster.run(SECOND / 2);
    let refused = |cluster: &Cluster| cluster.nodes[&AWAY].stats().numbers_refused;
    forge(&mut cluster, 1, 100_000, 1, 99);
    assert_eq!(refused(&cluster), 0, "of another member it is no answer");
    forge(&mut cluster, SENDER, 5, 1, 99);
    assert_eq!(refused(&cluster), 0, "late: not what is asked");
    forge(&mut cluster, SENDER, 100_000, 1, 1 << 40);
    forge(&mut cluster, SENDER, 1 << 63, 1, 99);
    assert_eq!(refused(&cluster), 2);
    assert_eq!(cluster.got[&AWAY].len(), 103, "it still waits");
    cluster.filtered = None;
    cluster.run(5 * SECOND);
    assert_eq!(lost(&cluster, 2), [(1, 2)]);
    assert_first_group(&cluster, 6_100);
}

// Rule R-DATA-11.
#[test]
fn a_sender_that_does_not_answer_is_asked_for_half_a_minute() {
    let mut cluster = overrun(3);
    cluster.filtered = Some(Kind::Numbers);
    cluster.paused.clear();
    cluster.run(20 * SECOND);
    assert_eq!(cluster.got[&AWAY].packets, 0);
    cluster.run(20 * SECOND);
    assert_eq!(cluster.nodes[&AWAY].stats().numbers_asked, 64);
    assert!(cluster.got[&AWAY].packets > 1000);
    assert_first_group(&cluster, 6_100);
}

// Rule R-DATA-11.
#[test]
fn a_dead_sender_is_not_waited_for() {
    let mut cluster = overrun(3);
    cluster.filtered = Some(Kind::Numbers);
    cluster.paused.clear();
    cluster.run(SECOND / 2);
    cluster.crash(SENDER);
    let origin = origin(SENDER);
    cluster.batch(&[Update::Dead { origin }]);
    cluster.run(SECOND);
    assert!(cluster.got[&AWAY].packets > 1000);
    assert_eq!(lost(&cluster, 2), [], "nobody knows");
    assert_first_group(&cluster, 6_100);
}

// Rule R-DATA-11.
#[test]
fn a_message_whose_first_parts_are_lost_is_lost() {
    let mut cluster = Cluster::with_groups(2, AWAY, &[SENDER], config);
    publish(&mut cluster, 0, 100);
    cluster.run(SECOND / 4);
    cluster.paused.insert(AWAY);
    cluster.away.insert(AWAY);
    cluster.change_view();
    cluster.publish(SENDER, 1, &vec![7; 1 << 20]);
    cluster.settle(5 * SECOND);
    cluster.paused.clear();
    cluster.run(5 * SECOND);
    assert_eq!(cluster.got[&1].len(), 101);
    assert_eq!(cluster.got[&AWAY].len(), 100);
    assert_eq!(lost(&cluster, 1), [(1, 1)]);
    assert_eq!(lost(&cluster, 0), []);
    assert_eq!(cluster.got[&AWAY].packets, 0);
}

/// Standing of a message of group 0 that a node has published, at a node.
fn standing(cluster: &Cluster, at: u64, from: u64, number: u64) -> Standing {
    account(cluster, at, from, number).standing
}

fn account(cluster: &Cluster, at: u64, from: u64, number: u64) -> MessageAccount {
    let node = &cluster.nodes[&at];
    let account = node.message_account(cluster.now, GroupId(0), origin(from), number);
    account.unwrap()
}

#[test]
fn a_node_gives_account_of_a_message_by_what_it_has() {
    let mut cluster = Cluster::new(3, &[4], |_| {});
    let (publisher, member) = (4, 2);
    assert_eq!(
        standing(&cluster, publisher, publisher, 1),
        Standing::Unpublished
    );
    assert_eq!(standing(&cluster, member, publisher, 1), Standing::Unheard);
    assert_eq!(
        standing(&cluster, publisher, member, 1),
        Standing::NotReceived
    );
    let unknown = cluster.nodes[&member].message_account(cluster.now, GroupId(9), origin(4), 1);
    assert_eq!(unknown, None);

    cluster.publish(publisher, 0, b"one");
    cluster.settle(SECOND);
    assert_eq!(
        standing(&cluster, publisher, publisher, 1),
        Standing::Acknowledged
    );
    assert_eq!(standing(&cluster, member, publisher, 1), Standing::Past);
    assert_eq!(standing(&cluster, member, publisher, 2), Standing::Unknown);

    // The second reaches nobody, the third everybody, before anybody asks for the second.
    cluster.filtered = Some(Kind::Data);
    cluster.publish(publisher, 0, b"two");
    cluster.run(Duration::from_micros(300));
    cluster.filtered = None;
    cluster.publish(publisher, 0, b"three");
    cluster.run(Duration::from_micros(300));
    assert_eq!(
        standing(&cluster, publisher, publisher, 2),
        Standing::Unacknowledged
    );
    let second = account(&cluster, member, publisher, 2);
    assert_eq!((second.standing, second.next), (Standing::Missing, Some(2)));
    assert_eq!(second.streams[0].missing, 1);
    let gap = second.streams[0].gaps[0];
    let third = account(&cluster, member, publisher, 3);
    assert_eq!(third.standing, Standing::Waits);
    let parts = third.streams[0].parts.unwrap();
    assert!(parts.complete && parts.hop == Hop::Direct, "{parts:?}");
    assert_eq!((gap.first, gap.last, parts.first), (2, 2, 3));

    cluster.settle(SECOND);
    assert_eq!(
        standing(&cluster, publisher, publisher, 3),
        Standing::Acknowledged
    );
    assert_eq!(standing(&cluster, member, publisher, 2), Standing::Past);

    // What comes in many packets lies in all of them.
    cluster.paused.insert(3);
    cluster.publish(publisher, 0, &[7; 10_000]);
    cluster.run(Duration::from_millis(20));
    let large = account(&cluster, publisher, publisher, 4);
    assert_eq!(large.standing, Standing::Unacknowledged);
    let parts = large.streams[0].parts.unwrap();
    assert_eq!(
        (parts.complete, parts.packets),
        (true, parts.last - parts.first + 1)
    );
    assert!(parts.packets >= 7, "{parts:?}");
    cluster.paused.remove(&3);
    cluster.settle(SECOND);
    assert_eq!(
        standing(&cluster, publisher, publisher, 4),
        Standing::Acknowledged
    );
}
