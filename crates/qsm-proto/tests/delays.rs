//! Stages of a message's way that a node's protocol times: the one that stalls is named, and no
//! other (R241).

#[expect(dead_code, reason = "other tests use the rest")]
mod cluster;

use std::time::Duration;

use cluster::Cluster;
use qsm_proto::send::Batching;
use qsm_proto::{Config, Delays};
use qsm_wire::GroupId;

const MS: Duration = Duration::from_millis(1);
const PUBLISHER: u64 = 40;

fn fresh(configure: impl Fn(&mut Config)) -> Cluster {
    Cluster::new(3, &[PUBLISHER], |config| {
        config.receive_buffer_bytes = 2 << 20;
        config.times_packets = true;
        configure(config);
    })
}

/// Its publisher has sent, and delays until then are taken.
fn cluster(configure: impl Fn(&mut Config)) -> Cluster {
    let mut cluster = fresh(configure);
    for number in 0..100 {
        cluster.publish(PUBLISHER, 0, &[number; 100]);
        cluster.run(MS);
    }
    cluster.settle(Duration::from_secs(1));
    let nodes: Vec<u64> = cluster.nodes.keys().copied().collect();
    for node in nodes {
        take(&mut cluster, node);
    }
    cluster
}

fn take(cluster: &mut Cluster, node: u64) -> Delays {
    let now = cluster.now;
    cluster.nodes.get_mut(&node).unwrap().take_delays(now)
}

/// Stages that took longer than 5 ms.
fn over(delays: Delays) -> Vec<&'static str> {
    let Delays {
        batching,
        admission,
        repair,
    } = delays;
    let stages = [
        ("batching", batching),
        ("admission", admission),
        ("repair", repair),
    ];
    let over = stages.into_iter().filter(|(_, took)| *took > MS * 5);
    over.map(|(stage, _)| stage).collect()
}

/// The same of all nodes but this one.
fn others(cluster: &mut Cluster, node: u64) -> Vec<&'static str> {
    let nodes: Vec<u64> = cluster.nodes.keys().copied().collect();
    let others = nodes.into_iter().filter(|other| *other != node);
    others
        .flat_map(|other| over(take(cluster, other)))
        .collect()
}

#[test]
fn a_sender_without_credit_is_held_and_says_so_while_it_is() {
    let mut cluster = cluster(|_| {});
    cluster.paused.insert(2);
    let mut taken = 0;
    loop {
        let (now, got) = (cluster.now, cluster.got.entry(PUBLISHER).or_default());
        let publisher = cluster.nodes.get_mut(&PUBLISHER).unwrap();
        match publisher.publish(now, GroupId(0), &[7; 1000], got) {
            Ok(_) => taken += 1,
            Err(_) => break,
        }
        if taken % 64 == 0 {
            cluster.run(MS);
        }
    }
    cluster.run(MS * 50);
    let held = take(&mut cluster, PUBLISHER);
    assert!(held.admission >= MS * 40, "{held:?}");
    assert_eq!(over(held), ["admission"]);
    assert!(others(&mut cluster, PUBLISHER).is_empty());
    // What left after that had waited so long, and what leaves then does not wait.
    cluster.paused.clear();
    cluster.settle(Duration::from_secs(5));
    let held = take(&mut cluster, PUBLISHER);
    assert!(held.admission >= MS * 50, "{held:?}");
    assert_eq!(over(held), ["admission"]);
    cluster.publish(PUBLISHER, 0, b"free");
    cluster.settle(Duration::from_secs(1));
    assert_eq!(take(&mut cluster, PUBLISHER), Delays::default());
}

#[test]
fn a_lost_packet_is_missing_at_who_missed_it_and_nowhere_else() {
    let mut cluster = cluster(|_| {});
    let stream = |cluster: &Cluster| {
        let publisher = &cluster.nodes[&PUBLISHER];
        publisher
            .regions()
            .find_map(|region| Some(region.own_stream()?.highest()))
    };
    let next = stream(&cluster).unwrap() + 1;
    cluster.withheld.insert((2, next));
    for number in 0..30 {
        cluster.publish(PUBLISHER, 0, &[number; 100]);
        cluster.run(MS);
    }
    cluster.withheld.clear();
    cluster.settle(Duration::from_secs(1));
    let missed = take(&mut cluster, 2);
    assert!(missed.repair >= MS * 25, "{missed:?}");
    assert_eq!(over(missed), ["repair"]);
    assert!(others(&mut cluster, 2).is_empty());
}

fn publish(cluster: &mut Cluster, group: u32, batching: Option<Batching>) {
    let (now, got) = (cluster.now, cluster.got.entry(PUBLISHER).or_default());
    let publisher = cluster.nodes.get_mut(&PUBLISHER).unwrap();
    let publication = publisher.publication(now, GroupId(group)).unwrap();
    let mut publication = match batching {
        Some(batching) => publication.within(batching),
        None => publication,
    };
    publication.push(&[1; 200], got).unwrap();
}

/// Nobody has looked at the stream before.
#[test]
fn the_first_packet_of_a_stream_is_timed() {
    let mut cluster = fresh(|_| {});
    let patient = Batching {
        delay: MS * 10,
        ..Batching::default()
    };
    publish(&mut cluster, 0, Some(patient));
    cluster.run(MS * 20);
    let waited = take(&mut cluster, PUBLISHER);
    assert_eq!(waited.batching, MS * 10);
    assert_eq!(over(waited), ["batching"]);
}

// Rule R-DATA-15.
#[test]
fn messages_wait_for_others_as_long_as_their_publisher_lets_them_and_say_so() {
    let mut cluster = cluster(|_| {});
    let patient = Batching {
        delay: MS * 4,
        bytes: 600,
    };
    let got = |cluster: &Cluster| cluster.got[&1].len();
    let before = got(&cluster);
    publish(&mut cluster, 0, Some(patient));
    cluster.run(MS * 3);
    assert_eq!(got(&cluster), before, "it waits");
    cluster.run(MS * 2);
    assert_eq!(got(&cluster), before + 1);
    let waited = take(&mut cluster, PUBLISHER);
    assert_eq!(
        (waited.batching, waited.admission),
        (MS * 4, Duration::ZERO)
    );
    // The third one makes the packet long enough.
    for _ in 0..3 {
        publish(&mut cluster, 0, Some(patient));
    }
    cluster.run(MS);
    assert_eq!(got(&cluster), before + 4);
    // One that may not wait takes the others along.
    publish(&mut cluster, 0, Some(patient));
    publish(&mut cluster, 1, None);
    cluster.run(MS);
    assert_eq!(got(&cluster), before + 6);
    assert_eq!(take(&mut cluster, PUBLISHER), Delays::default());
}
