//! Proof of origin, packet by packet: what a member sends in another's name is found by the seals of that one.

use std::sync::Arc;
use std::time::Duration;

use qsm_identity::NodeKey;
use qsm_proto::{Config, Event, OriginDemand};
use qsm_wire::membership::{Role, Signer, Update};
use qsm_wire::{
    Chunk, Coverage, DataHeader, GroupId, Header, Kind, Opening, Part, ViewNumber, cluster_number,
    seal,
};

use crate::cluster::{CHANNEL, Cluster, REGION, address, multicast, origin};

const MS: Duration = Duration::from_millis(1);
const FORGED: &[u8] = b"in another's name";

fn key(node: u64) -> Arc<NodeKey> {
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&node.to_le_bytes());
    Arc::new(NodeKey::from_seed(&seed).unwrap())
}

/// Four members, of whom the first publishes; all know the keys of these.
fn cluster(demand: OriginDemand, known: &[u64]) -> Cluster {
    cluster_with(demand, known, |_| {})
}

fn cluster_with(demand: OriginDemand, known: &[u64], configure: impl Fn(&mut Config)) -> Cluster {
    let mut cluster = Cluster::new(4, &[1], configure);
    for (node, endpoint) in &mut cluster.nodes {
        endpoint.sign_by(key(*node));
    }
    cluster.terms = proof(demand, known.iter().map(|node| (*node, *node))).to_vec();
    cluster.batch(&cluster.terms.clone());
    cluster.run(MS * 20);
    cluster
}

/// The region demands this, and these nodes publish there by the keys of those.
fn proof(demand: OriginDemand, known: impl IntoIterator<Item = (u64, u64)>) -> [Update; 2] {
    let signers = known.into_iter().map(|(node, of)| Signer {
        origin: origin(node),
        key: key(of).public().to_string(),
        barred: Vec::new(),
    });
    let (region, signers) = (REGION, signers.collect());
    [
        Update::Proof { region, demand },
        Update::Signers { region, signers },
    ]
}

/// Member 3 multicasts a packet of this number in the name of the publisher, and it arrives.
fn forge(cluster: &mut Cluster, sequence: u64) {
    send_forged(cluster, sequence);
    cluster.run(MS);
}

fn send_forged(cluster: &mut Cluster, sequence: u64) {
    let start = Opening {
        view: ViewNumber(1),
        start: 1,
    };
    send_forged_in(cluster, start, sequence);
}

/// The same of a packet that says that its view begins there.
fn send_forged_in(cluster: &mut Cluster, opening: Opening, sequence: u64) {
    let header = Header {
        cluster: cluster_number("default"),
        origin: origin(1),
        ..Header::default()
    };
    let head = DataHeader {
        channel: CHANNEL,
        view: opening.view,
        sequence,
        view_age: u32::try_from(sequence - opening.start).unwrap(),
    };
    let mut packet = Vec::new();
    head.encode(&header, &mut packet);
    let chunk = Chunk {
        group: GroupId(0),
        message: u32::try_from(sequence).unwrap(),
        part: Part::Whole,
        content: FORGED,
    };
    chunk.encode(&mut packet);
    seal(&mut packet, Coverage::default());
    cluster
        .flight
        .send(cluster.now, address(3), multicast(), &packet);
}

/// The numbers and contents that a member got, of the publisher's first group.
fn got(cluster: &Cluster, member: u64) -> Vec<(u64, &[u8])> {
    let inbox = cluster.got.get(&member).into_iter();
    inbox
        .flat_map(|inbox| inbox.iter())
        .map(|(_, _, number, bytes)| (*number, &bytes[..]))
        .collect()
}

fn told(cluster: &Cluster, member: u64) -> u64 {
    let events = cluster.events[&member].iter();
    events
        .filter_map(|event| match event {
            Event::Forged {
                sender,
                packets,
                source,
                ..
            } => {
                assert_eq!(*sender, origin(1));
                let from = [1, 3].map(|node| Some(address(node)));
                assert!(from.contains(source), "{source:?}");
                Some(*packets)
            }
            _ => None,
        })
        .sum()
}

fn expected(count: u64) -> Vec<(u64, Vec<u8>)> {
    (1..=count).map(|n| (n, n.to_le_bytes().to_vec())).collect()
}

fn check(cluster: &Cluster, member: u64, count: u64) {
    let got = got(cluster, member).into_iter();
    let got: Vec<_> = got
        .map(|(number, bytes)| (number, bytes.to_vec()))
        .collect();
    assert_eq!(got, expected(count), "member {member}");
}

// Rules R-SEC-30, R-SEC-32.
#[test]
fn what_waits_for_proof_is_delivered_in_order_whatever_is_lost() {
    for demand in [OriginDemand::Audit, OriginDemand::Verified] {
        let mut cluster = cluster(demand, &[1]);
        cluster.flight.loss.data_ppm = 50_000;
        for number in 1..=600u64 {
            cluster.publish(1, 0, &number.to_le_bytes());
            if number % 7 == 0 {
                cluster.run(MS);
            }
        }
        cluster.settle(Duration::from_secs(5));
        for member in 1..=4 {
            check(&cluster, member, 600);
        }
        assert!(cluster.nodes[&1].stats().seals_sent > 5);
        assert_eq!(cluster.total(|stats| stats.packets_forged), 0);
        assert_eq!(cluster.total(|stats| stats.packets_lost), 0);
    }
}

// Rules R-SEC-31, R-SEC-32.
#[test]
fn the_next_packet_in_another_name_is_never_delivered_and_the_right_one_is() {
    let mut cluster = cluster(OriginDemand::Verified, &[1]);
    for number in 1..=5u64 {
        cluster.publish(1, 0, &number.to_le_bytes());
        cluster.run(MS * 20);
    }
    let next = cluster.nodes[&1].stats().data_sent + 1;
    forge(&mut cluster, next);
    assert_eq!(got(&cluster, 2).len(), 5);
    for number in 6..=10u64 {
        cluster.publish(1, 0, &number.to_le_bytes());
        cluster.run(MS * 20);
    }
    cluster.settle(Duration::from_secs(5));
    for member in [2, 4] {
        check(&cluster, member, 10);
        assert_eq!(cluster.nodes[&member].stats().packets_forged, 1);
        assert_eq!(told(&cluster, member), 1);
        let event = cluster.events[&member].iter();
        let mut sources = event.filter_map(|event| match event {
            Event::Forged { source, .. } => Some(*source),
            _ => None,
        });
        assert_eq!(sources.next(), Some(Some(address(3))));
    }
    assert_eq!(cluster.total(|stats| stats.packets_lost), 0);
}

// Rules R-SEC-34, R-SEC-35.
#[test]
fn proof_that_is_demanded_in_mid_stream_and_given_up_again_loses_nothing() {
    for first in [OriginDemand::Audit, OriginDemand::Verified] {
        let mut cluster = Cluster::new(4, &[1], |_| {});
        for (node, endpoint) in &mut cluster.nodes {
            endpoint.sign_by(key(*node));
        }
        cluster.flight.loss.data_ppm = 100_000;
        let verified = Some(OriginDemand::Verified);
        let demands = [None, Some(first), verified, None, verified, None];
        let mut number = 0u64;
        for (turn, demand) in demands.into_iter().enumerate() {
            // Receivers are told before the sender, or after it.
            let nodes = if turn % 2 == 0 {
                [1, 2, 3, 4]
            } else {
                [4, 3, 2, 1]
            };
            for node in nodes {
                let updates = match demand {
                    Some(demand) => proof(demand, [(1, 1)]).to_vec(),
                    None => vec![cluster.region()],
                };
                cluster.batch_for(node, &updates);
                for _ in 0..50 {
                    number += 1;
                    cluster.publish(1, 0, &number.to_le_bytes());
                    cluster.run(MS / 8);
                }
            }
        }
        cluster.settle(Duration::from_secs(10));
        for member in 1..=4 {
            check(&cluster, member, number);
        }
        assert_eq!(cluster.total(|stats| stats.packets_forged), 0);
        assert_eq!(cluster.total(|stats| stats.packets_lost), 0);
        assert!(cluster.nodes[&1].stats().seals_sent > 2);
    }
}

// Rule R-SEC-34.
#[test]
fn a_demand_reaches_what_was_sent_last_before_it() {
    let mut cluster = Cluster::new(4, &[1], |_| {});
    for (node, endpoint) in &mut cluster.nodes {
        endpoint.sign_by(key(*node));
    }
    // The last packet is missing where proof is demanded, and nothing follows it.
    cluster.withheld.insert((2, 2));
    cluster.publish(1, 0, &1u64.to_le_bytes());
    cluster.run(MS);
    cluster.publish(1, 0, &2u64.to_le_bytes());
    cluster.run(MS / 4);
    cluster.batch(&proof(OriginDemand::Verified, [(1, 1)]));
    cluster.run(MS);
    cluster.withheld.clear();
    cluster.settle(Duration::from_secs(5));
    for member in 1..=4 {
        check(&cluster, member, 2);
    }
}

// Rule R-SEC-31.
#[test]
fn audit_delivers_at_once_and_names_what_was_forged() {
    let mut cluster = cluster(OriginDemand::Audit, &[1]);
    cluster.publish(1, 0, &1u64.to_le_bytes());
    cluster.run(MS * 20);
    let next = cluster.nodes[&1].stats().data_sent + 1;
    forge(&mut cluster, next);
    assert!(got(&cluster, 2).iter().any(|(_, bytes)| *bytes == FORGED));
    assert_eq!(told(&cluster, 2), 0, "nothing contradicts it yet");
    cluster.publish(1, 0, &2u64.to_le_bytes());
    cluster.run(MS * 20);
    assert_eq!((told(&cluster, 2), told(&cluster, 4)), (1, 1));
}

// Rules R-SEC-31, R-SEC-32.
#[test]
fn a_packet_in_the_place_of_a_seal_is_found_by_the_next_seal() {
    let mut cluster = cluster(OriginDemand::Verified, &[1]);
    cluster.publish(1, 0, &1u64.to_le_bytes());
    // Its seal is packet 2, which one member does not get.
    cluster.run(MS / 4);
    forge(&mut cluster, 2);
    cluster.withheld.insert((2, 2));
    cluster.run(MS * 30);
    assert_eq!(got(&cluster, 2).len(), 0);
    check(&cluster, 4, 1);
    cluster.publish(1, 0, &2u64.to_le_bytes());
    cluster.run(MS * 30);
    cluster.withheld.clear();
    cluster.settle(Duration::from_secs(5));
    for member in [2, 4] {
        check(&cluster, member, 2);
        assert_eq!(cluster.nodes[&member].stats().packets_forged, 1);
    }
}

/// Checks how many packets a member has found forged, and told.
fn check_forged(cluster: &Cluster, member: u64, packets: u64) {
    let stats = cluster.nodes[&member].stats();
    assert_eq!(stats.packets_forged, packets, "member {member}");
    assert_eq!(told(cluster, member), packets, "member {member}");
}

// Rules R-SEC-30, R-SEC-31.
#[test]
fn a_packet_in_the_place_of_the_last_seal_is_found_though_nothing_follows() {
    let mut cluster = cluster(OriginDemand::Verified, &[1]);
    cluster.publish(1, 0, &1u64.to_le_bytes());
    cluster.run(MS / 4);
    // The last seal is packet 2, which one member does not get; nothing has the number 3.
    send_forged(&mut cluster, 2);
    send_forged(&mut cluster, 3);
    cluster.run(MS / 4);
    cluster.withheld.insert((2, 2));
    cluster.run(MS * 500);
    cluster.withheld.clear();
    assert_eq!(got(&cluster, 2).len(), 0);
    check(&cluster, 4, 1);
    cluster.settle(Duration::from_secs(2));
    for member in [2, 4] {
        check(&cluster, member, 1);
        check_forged(&cluster, member, 1);
    }
    assert_eq!(cluster.nodes[&1].stats().last_resort, 1);
    // It goes on as if nothing had been.
    cluster.publish(1, 0, &2u64.to_le_bytes());
    cluster.settle(Duration::from_secs(2));
    for member in [2, 4] {
        check(&cluster, member, 2);
    }
}

// Rules R-SEC-30, R-SEC-31.
#[test]
fn a_packet_in_the_place_of_a_seal_is_found_though_the_window_holds_the_next_seal() {
    let mut cluster = cluster_with(OriginDemand::Verified, &[1], |config| {
        config.limits.ahead_packets = 8;
    });
    // Packets 1 to 5 have their seal in packet 6; packets 7 and 8 fill the window before the next seal.
    for number in 1..=20u64 {
        let payload = number.to_le_bytes();
        let node = cluster.nodes.get_mut(&1).unwrap();
        let got = cluster.got.entry(1).or_default();
        node.publish(cluster.now, GroupId(0), &payload, got)
            .unwrap();
        if number == 5 {
            send_forged(&mut cluster, 6);
            cluster.run(MS / 4);
            cluster.withheld.insert((2, 6));
            cluster.run(MS / 4 * 3);
        } else {
            cluster.run(MS);
        }
    }
    cluster.run(MS * 500);
    assert_eq!(cluster.nodes[&1].stats().data_sent, 8);
    assert_eq!(got(&cluster, 2).len(), 0);
    cluster.withheld.clear();
    cluster.settle(Duration::from_secs(2));
    for member in [2, 4] {
        check(&cluster, member, 20);
        check_forged(&cluster, member, 1);
    }
}

/// Member 4 comes in view 3, and is sent a packet in the publisher's name as if the stream began there for it, at packet 8.
/// The publisher has sent 10 packets before, and its word is not heard.
fn begin_falsely() -> Cluster {
    let mut cluster = Cluster::new(3, &[1, 4], |_| {});
    for (node, endpoint) in &mut cluster.nodes {
        endpoint.sign_by(key(*node));
    }
    cluster.terms = proof(OriginDemand::Verified, [(1, 1)]).to_vec();
    cluster.batch(&cluster.terms.clone());
    cluster.run(MS * 20);
    for number in 1..=5u64 {
        cluster.publish(1, 0, &number.to_le_bytes());
        cluster.run(MS * 20);
    }
    cluster.settle(Duration::from_secs(1));
    assert_eq!(cluster.nodes[&1].stats().data_sent, 10);
    cluster.change_view();
    cluster.run(MS * 20);
    cluster.filtered = Some(Kind::Heartbeat);
    let (now, groups) = (
        cluster.now,
        vec!["group/0".to_owned(), "group/1".to_owned()],
    );
    let newcomer = cluster.nodes.get_mut(&4).unwrap();
    newcomer.enter(now, Role::Subscriber, groups);
    cluster.flight.listen(address(4), multicast(), true);
    cluster.members.push(4);
    cluster.joined.insert(4, 3);
    cluster.change_view();
    cluster.run(MS * 20);
    let opening = Opening {
        view: ViewNumber(3),
        start: 8,
    };
    send_forged_in(&mut cluster, opening, 8);
    cluster.run(MS);
    cluster
}

/// Member 4 takes what is sent from now on, and lacks nothing that was sent before it came.
fn check_beginning(mut cluster: Cluster) {
    cluster.publish(1, 0, &6u64.to_le_bytes());
    cluster.settle(Duration::from_secs(5));
    let got = got(&cluster, 4);
    assert_eq!(got, [(6, &6u64.to_le_bytes()[..])]);
    assert_eq!(cluster.total(|stats| stats.packets_lost), 0);
    assert!(cluster.got[&4].missed.is_empty());
}

// Rules R-SEC-32, R-VIEW-6.
#[test]
fn a_view_that_a_sender_does_not_name_begins_where_the_next_one_does() {
    let mut cluster = begin_falsely();
    // Views 2 to 4 begin at packet 11, and of these the sender names the first and the last.
    cluster.change_view();
    cluster.run(MS * 20);
    cluster.filtered = None;
    cluster.run(Duration::from_secs(1));
    check_beginning(cluster);
}

// Rule R-SEC-32.
#[test]
fn who_is_not_told_where_a_stream_begins_asks_its_sender() {
    let mut cluster = begin_falsely();
    // The sender has nothing to say any more.
    cluster.run(MS * 1500);
    assert_eq!(cluster.nodes[&4].stats().queries_sent, 0);
    cluster.filtered = None;
    cluster.run(Duration::from_secs(2));
    assert_eq!(cluster.nodes[&4].stats().queries_sent, 1);
    let rounds = cluster.total(|stats| stats.ring.rounds);
    cluster.run(Duration::from_secs(5));
    assert_eq!(cluster.total(|stats| stats.ring.rounds), rounds);
    check_beginning(cluster);
}

// Rule R-SEC-33.
#[test]
fn what_waits_for_a_seal_that_its_sender_has_no_more_is_lost_by_number() {
    let mut cluster = cluster_with(OriginDemand::Verified, &[1], |config| {
        config.limits.retention_bytes = 0;
    });
    cluster.publish(1, 0, &1u64.to_le_bytes());
    cluster.run(MS / 4);
    // Its seal does not come before it is silent; the others have it.
    cluster.paused.insert(4);
    cluster.away.insert(4);
    cluster.change_view();
    for number in 2..=5u64 {
        cluster.publish(1, 0, &number.to_le_bytes());
        cluster.run(MS * 20);
    }
    cluster.run(Duration::from_secs(3));
    cluster.paused.clear();
    cluster.run(Duration::from_secs(8));
    for member in [2, 3] {
        check(&cluster, member, 5);
    }
    assert!(cluster.away.is_empty());
    assert_eq!(got(&cluster, 4).len(), 0);
    assert_eq!(cluster.got[&4].missed, [(1, 5)]);
    assert_eq!(cluster.nodes[&4].stats().packets_unproven, 1);
    cluster.publish(1, 0, &6u64.to_le_bytes());
    cluster.settle(Duration::from_secs(2));
    assert_eq!(got(&cluster, 4), [(6, &6u64.to_le_bytes()[..])]);
}

// Rule R-SEC-33.
#[test]
fn what_a_sender_has_not_sealed_before_it_died_is_lost_by_number() {
    let mut cluster = cluster(OriginDemand::Verified, &[1]);
    for number in 1..=3u64 {
        cluster.publish(1, 0, &number.to_le_bytes());
        cluster.run(MS * 20);
    }
    for number in 4..=6u64 {
        cluster.publish(1, 0, &number.to_le_bytes());
        cluster.run(MS / 4);
    }
    cluster.run(MS / 2);
    cluster.crash(1);
    cluster.run(MS * 10);
    for member in 2..=4 {
        check(&cluster, member, 3);
    }
    cluster.members.retain(|member| *member != 1);
    cluster.change_view();
    cluster.batch(&[Update::Dead { origin: origin(1) }]);
    cluster.run(Duration::from_secs(8));
    for member in 2..=4 {
        check(&cluster, member, 3);
        let stats = cluster.nodes[&member].stats();
        assert_eq!(cluster.got[&member].packets, stats.packets_unproven);
        assert!(stats.packets_unproven >= 1, "{stats:?}");
    }
}

// Rule R-SEC-31.
#[test]
fn of_a_sender_whose_key_is_not_known_nothing_is_taken_until_it_is() {
    let mut cluster = cluster(OriginDemand::Verified, &[]);
    for number in 1..=3u64 {
        cluster.publish(1, 0, &number.to_le_bytes());
        cluster.run(MS * 20);
    }
    assert_eq!(got(&cluster, 2).len(), 0);
    assert!(cluster.nodes[&2].stats().discard_untrusted > 0);
    cluster.batch(&proof(OriginDemand::Verified, [(1, 1)]));
    cluster.publish(1, 0, &4u64.to_le_bytes());
    cluster.settle(Duration::from_secs(5));
    for member in 2..=4 {
        check(&cluster, member, 4);
    }
}

// Rule R-SEC-31.
#[test]
fn a_seal_that_somebody_else_has_signed_proves_nothing() {
    let mut cluster = cluster(OriginDemand::Verified, &[]);
    cluster.batch(&proof(OriginDemand::Verified, [(1, 9)]));
    cluster.run(MS * 20);
    cluster.publish(1, 0, &1u64.to_le_bytes());
    cluster.run(Duration::from_millis(300));
    assert_eq!(got(&cluster, 2).len(), 0);
    assert!(cluster.nodes[&2].stats().packets_forged > 0 && told(&cluster, 2) > 0);
}

// Rule R-SEC-36.
#[test]
fn nothing_is_delivered_of_who_may_not_publish_to_the_group_and_everything_to_others() {
    for demand in [OriginDemand::Audit, OriginDemand::Verified] {
        let mut cluster = cluster(demand, &[1]);
        let [_, Update::Signers { region, signers }] = proof(demand, [(1, 1)]) else {
            unreachable!();
        };
        let barred = vec![GroupId(1)];
        let signers = signers.into_iter().map(|one| Signer {
            barred: barred.clone(),
            ..one
        });
        let signers = signers.collect();
        cluster.batch(&[Update::Signers { region, signers }]);
        cluster.run(MS * 20);
        for number in 1..=100u64 {
            for group in [0, 1] {
                cluster.publish(1, group, &number.to_le_bytes());
            }
            cluster.run(MS);
        }
        cluster.settle(Duration::from_secs(5));
        for member in 2..=4 {
            let inbox = &cluster.got[&member];
            assert_eq!(inbox.len(), 100, "{demand:?}, member {member}");
            assert!(inbox.iter().all(|(group, ..)| *group == GroupId(0)));
            assert_eq!(cluster.nodes[&member].stats().messages_barred, 100);
            let events = cluster.events[&member].iter();
            let told = events.filter_map(|event| match event {
                Event::NotPermitted {
                    sender,
                    group,
                    messages,
                    ..
                } => {
                    assert_eq!((*sender, *group), (origin(1), GroupId(1)));
                    Some(*messages)
                }
                _ => None,
            });
            assert!((1..=100).contains(&told.sum::<u64>()));
        }
        assert_eq!(cluster.total(|stats| stats.packets_lost), 0);
    }
}
