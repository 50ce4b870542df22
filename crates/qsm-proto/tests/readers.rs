//! Readers that take no more: messages wait at their node, then senders wait, nothing is lost, and
//! what does not concern them goes on.

#[expect(dead_code, reason = "other tests use the rest")]
mod cluster;

use std::time::Duration;

use cluster::{Cluster, origin};
use qsm_proto::{Config, FullReaders, PublishError};
use qsm_wire::GroupId;

const SECOND: Duration = Duration::from_secs(1);
const PUBLISHER: u64 = 40;

/// A credit of 1 MiB, and memory for eight times as much.
fn config(config: &mut Config) {
    config.receive_buffer_bytes = 2 << 20;
    config.limits.receive_bytes = 8 << 20;
    config.limits.send_bytes = 64 << 20;
}

fn set_full(cluster: &mut Cluster, node: u64, full: FullReaders) {
    let now = cluster.now;
    let endpoint = cluster.nodes.get_mut(&node).unwrap();
    endpoint.set_full_readers(now, full);
}

fn of(group: u32) -> FullReaders {
    FullReaders::of(vec![GroupId(group)])
}

/// Publishes messages of 1000 bytes, 10,000 a second at most, for so long. Returns how many were
/// taken, and for how long none was at the end.
fn publish_for(cluster: &mut Cluster, group: u32, time: Duration) -> (u64, Duration) {
    let end = cluster.now.after(time);
    let (mut taken, mut last) = (0, cluster.now);
    while cluster.now < end {
        let (now, got) = (cluster.now, cluster.got.entry(PUBLISHER).or_default());
        let endpoint = cluster.nodes.get_mut(&PUBLISHER).unwrap();
        match endpoint.publish(now, GroupId(group), &[7; 1000], got) {
            Ok(_) => (taken, last) = (taken + 1, now),
            Err(PublishError::WindowFull { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        cluster.run(Duration::from_micros(100));
    }
    (taken, cluster.now.since(last))
}

/// Numbers of the messages that a node has, of a group.
fn numbers(cluster: &Cluster, node: u64, group: u32) -> Vec<u64> {
    let got = cluster.got[&node].iter();
    let got = got.filter(|got| (got.0, got.1) == (GroupId(group), origin(PUBLISHER)));
    got.map(|got| got.2).collect()
}

fn upto(last: u64) -> Vec<u64> {
    (1..=last).collect()
}

// Rule R-DATA-13.
#[test]
fn delivery_stops_before_the_first_packet_of_a_full_group_and_goes_on_in_order() {
    let mut cluster = Cluster::new(4, &[PUBLISHER], config);
    set_full(&mut cluster, 2, of(1));
    for group in [0, 1, 0, 1] {
        for _ in 0..50 {
            cluster.publish(PUBLISHER, group, &[7; 500]);
        }
        cluster.run(SECOND / 10);
    }
    let before = cluster.got[&2].len();
    assert_eq!(numbers(&cluster, 2, 1), []);
    assert!((1..=50).contains(&before), "{before}");
    assert_eq!(numbers(&cluster, 3, 0), upto(100));
    // There is room to keep it: senders do not have to wait, and need not know.
    cluster.settle(SECOND);
    set_full(&mut cluster, 2, FullReaders::None);
    cluster.run(SECOND / 100);
    assert_eq!(cluster.got[&2][..], cluster.got[&3][..]);
    assert_eq!(cluster.got[&2].len(), 200);
}

// Rule R-DATA-13.
#[test]
fn senders_wait_for_readers_that_take_no_more_and_nothing_is_repaired_or_lost() {
    let mut cluster = Cluster::new(4, &[PUBLISHER], config);
    set_full(&mut cluster, 2, FullReaders::All);
    let (first, waited) = publish_for(&mut cluster, 0, 3 * SECOND);
    assert!(waited > SECOND, "the sender goes on for {waited:?}");
    assert_eq!(numbers(&cluster, 2, 0), []);
    let stats = cluster.nodes[&2].stats();
    assert_eq!(stats.discard_memory, 0);
    assert!(
        stats.reader_waits > SECOND && stats.strained > 0,
        "{stats:?}"
    );
    assert_eq!(cluster.nodes[&3].stats().reader_waits, Duration::ZERO);
    // It goes on with what concerns others: it is cached, tokens go around, nobody asks.
    assert_eq!(cluster.total(|stats| stats.last_resort), 0);
    set_full(&mut cluster, 2, FullReaders::None);
    let (second, waited) = publish_for(&mut cluster, 0, SECOND);
    assert!(
        waited < SECOND / 10,
        "the sender still waits for {waited:?}"
    );
    cluster.settle(SECOND);
    let all = upto(first + second);
    assert_eq!(numbers(&cluster, 2, 0), all);
    assert_eq!(numbers(&cluster, 4, 0), all);
    assert_eq!(cluster.total(|stats| stats.naks_sent), 0);
}

// Rule R-DATA-13: the queue of a reader that is slow all the time fills and empties.
#[test]
fn a_reader_that_is_slow_sets_the_pace() {
    let mut cluster = Cluster::new(3, &[PUBLISHER], config);
    let (mut sent, mut got) = (0, Vec::new());
    for turn in 0..40 {
        let before = numbers(&cluster, 2, 0).len();
        set_full(&mut cluster, 2, FullReaders::None);
        sent += publish_for(&mut cluster, 0, SECOND / 50).0;
        set_full(&mut cluster, 2, FullReaders::All);
        sent += publish_for(&mut cluster, 0, SECOND / 5).0;
        if turn >= 20 {
            got.push(numbers(&cluster, 2, 0).len() - before);
        }
    }
    // It takes what it can, and the sender is as fast.
    let taken: usize = got.iter().sum();
    let most = numbers(&cluster, 2, 0).len() + (4 << 20) / 1000;
    assert!(
        taken > 20 * 200 && sent < most as u64,
        "{taken} {sent} {most}"
    );
    set_full(&mut cluster, 2, FullReaders::None);
    cluster.settle(2 * SECOND);
    assert_eq!(numbers(&cluster, 2, 0), upto(sent));
    assert_eq!(cluster.nodes[&2].stats().discard_memory, 0);
}

// Rules R-DATA-13, R-VIEW-14: nobody waits for a member that is away, and it does not come back for
// others to wait again.
#[test]
fn a_member_that_is_away_comes_back_when_its_readers_have_read() {
    let mut cluster = Cluster::new(4, &[PUBLISHER], config);
    set_full(&mut cluster, 2, FullReaders::All);
    let (first, _) = publish_for(&mut cluster, 0, SECOND);
    cluster.away.insert(2);
    cluster.change_view();
    let (second, waited) = publish_for(&mut cluster, 0, 3 * SECOND);
    assert!(waited < SECOND / 10, "the sender waits for {waited:?}");
    assert_eq!(numbers(&cluster, 3, 0).len() as u64, first + second);
    assert!(cluster.away.contains(&2), "it is back");
    set_full(&mut cluster, 2, FullReaders::None);
    cluster.run(5 * SECOND);
    assert!(cluster.away.is_empty(), "it is not back");
    assert_eq!(numbers(&cluster, 2, 0), upto(first + second));
}

// Rule R-DATA-13: all that is there counts as received once the sender has no more.
#[test]
fn the_end_of_a_stream_is_acknowledged_before_it_is_read() {
    let mut cluster = Cluster::new(3, &[PUBLISHER], config);
    set_full(&mut cluster, 2, FullReaders::All);
    let mut taken = 0;
    while cluster.nodes[&2].stats().reader_waits == Duration::ZERO {
        taken += publish_for(&mut cluster, 0, SECOND / 100).0;
    }
    cluster.run(SECOND / 2);
    let stats = cluster.nodes[&PUBLISHER].stats();
    assert!(
        stats.unsent_messages == 0 && stats.pending_messages > 0,
        "{stats:?}"
    );
    let now = cluster.now;
    cluster.nodes.get_mut(&PUBLISHER).unwrap().close(now);
    cluster.run(3 * SECOND);
    assert!(cluster.nodes[&PUBLISHER].is_stable());
    set_full(&mut cluster, 2, FullReaders::None);
    cluster.run(SECOND);
    assert_eq!(numbers(&cluster, 2, 0), upto(taken));
}

#[test]
fn a_node_that_closes_delivers_what_it_has() {
    let mut cluster = Cluster::new(3, &[PUBLISHER], config);
    set_full(&mut cluster, 2, FullReaders::All);
    for _ in 0..100 {
        cluster.publish(PUBLISHER, 0, &[7; 500]);
    }
    cluster.run(SECOND / 10);
    let now = cluster.now;
    cluster.nodes.get_mut(&2).unwrap().close(now);
    cluster.run(SECOND / 10);
    set_full(&mut cluster, 2, FullReaders::All);
    assert_eq!(numbers(&cluster, 2, 0), upto(100));
}

#[test]
fn a_node_that_receives_its_own_messages_waits_for_its_own_readers() {
    let mut cluster = Cluster::new(3, &[1], config);
    set_full(&mut cluster, 1, of(1));
    let (now, got) = (cluster.now, cluster.got.entry(1).or_default());
    let endpoint = cluster.nodes.get_mut(&1).unwrap();
    let mut publish = |group| endpoint.publish(now, GroupId(group), b"own", got);
    assert_eq!(publish(0), Ok(1));
    assert_eq!(publish(1), Err(PublishError::ReadersFull));
    set_full(&mut cluster, 1, FullReaders::None);
    assert_eq!(cluster.publish(1, 1, b"own"), 1);
}
