//! What a region promises, seen packet by packet: everybody gets everything once and in order,
//! losses are repaired among receivers, and the sender is asked only for what no cacher has.

mod cluster;
mod origin;

use std::net::SocketAddr;
use std::time::Duration;

use cluster::{Cluster, address, origin};
use qsm_proto::{Config, Delivery, Endpoint, Event, Instant, PublishError, Seed};
use qsm_wire::membership::{Member, Update, ViewStep};
use qsm_wire::{
    ChannelId, Coverage, GroupId, Header, Hop, NodeId, Origin, RegionId, StreamQuery, ViewNumber,
    seal,
};

fn payload(number: u64, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| u8::try_from((number + at as u64) % 251).unwrap())
        .collect()
}

/// Publishes `count` messages alternating between two groups, with a pause between trains.
fn publish(cluster: &mut Cluster, node: u64, count: u64, length: usize) {
    for number in 0..count {
        cluster.publish(
            node,
            u32::try_from(number % 2).unwrap(),
            &payload(number, length),
        );
        if number % 20 == 19 {
            cluster.run(Duration::from_micros(200));
        }
    }
}

/// Every member got exactly the `count` messages of `publish` by that node, in order.
fn check_all(cluster: &Cluster, node: u64, count: u64, length: usize) {
    for member in &cluster.members {
        let got: Vec<_> = cluster.got[member]
            .iter()
            .filter(|message| message.1 == origin(node))
            .collect();
        assert_eq!(got.len() as u64, count, "member {member}");
        for group in 0..2u64 {
            let of_group = got
                .iter()
                .filter(|m| m.0 == GroupId(u32::try_from(group).unwrap()));
            for (at, message) in (0u64..).zip(of_group) {
                assert_eq!(message.2, at + 1, "member {member} group {group}");
                assert!(
                    message.3 == payload(at * 2 + group, length),
                    "member {member}: content"
                );
            }
        }
    }
}

#[test]
fn without_loss_everybody_gets_everything_and_nobody_asks() {
    let mut cluster = Cluster::new(8, &[1], |_| {});
    publish(&mut cluster, 1, 400, 300);
    cluster.settle(Duration::from_secs(1));
    check_all(&cluster, 1, 400, 300);
    assert_eq!(cluster.total(|stats| stats.naks_sent + stats.pulls_sent), 0);
    assert_eq!(cluster.total(|stats| stats.duplicates), 0);
}

#[test]
fn a_sender_counts_what_is_pending_and_times_it() {
    let mut cluster = Cluster::new(8, &[1], |_| {});
    publish(&mut cluster, 1, 7, 300);
    let stats = cluster.nodes[&1].stats();
    assert_eq!(stats.pending_messages, 7);
    assert!(stats.pending_bytes > 7 * 300 && stats.unsent_bytes <= stats.pending_bytes);
    cluster.settle(Duration::from_secs(10));
    let stats = cluster.nodes[&1].stats();
    assert_eq!((stats.pending_messages, stats.pending_bytes), (0, 0));
    assert_eq!((stats.unsent_messages, stats.unsent_bytes), (0, 0));
    assert_eq!(cluster.nodes[&1].times().stable.count(), stats.data_sent);
    let rounds: u64 = cluster
        .nodes
        .values()
        .map(|node| node.times().token_round.count())
        .sum();
    assert_eq!(rounds, cluster.total(|stats| stats.ring.rounds));
    let hops = cluster.nodes.values();
    assert!(
        hops.filter(|node| node.times().token_hop.count() > 0)
            .count()
            > 1
    );
}

// Two regions share a send memory of four blocks.
#[test]
fn a_message_that_never_fits_all_regions_is_too_large() {
    let mut cluster = Cluster::new(3, &[20], |config| config.limits.send_bytes = 4 << 16);
    let region = RegionId(77);
    let other = Member {
        origin: origin(9),
        address: address(9),
        joined: ViewNumber(1),
        left: None,
        away: None,
    };
    cluster.batch(&[
        Update::Region {
            region,
            channel: ChannelId(77),
            address: SocketAddr::from(([239, 0, 0, 77], 4483)),
            groups: vec![GroupId(0)],
        },
        Update::View(ViewStep {
            region,
            view: ViewNumber(1),
            base: ViewNumber(0),
            removed: Vec::new(),
            leaving: Vec::new(),
            changed: Vec::new(),
            added: vec![other],
        }),
    ]);
    cluster.run(Duration::from_millis(50));
    let now = cluster.now;
    let endpoint = cluster.nodes.get_mut(&20).unwrap();
    let mut publish = |group, length| {
        let mut out = |_: Delivery<'_>| {};
        endpoint.publish(now, GroupId(group), &payload(1, length), &mut out)
    };
    let refused = publish(0, 150_000);
    let Err(PublishError::TooLarge {
        length: 150_000,
        max,
    }) = refused
    else {
        panic!("{refused:?}");
    };
    assert!((100_000..2 << 16).contains(&max), "{max}");
    assert_eq!(publish(0, max), Ok(1));
    // One region has all of it, but not now.
    assert!(matches!(
        publish(1, 150_000),
        Err(PublishError::WindowFull { .. })
    ));
}

// Rule R-DATA-9. Room for 85 packets at a receiver, and four senders with more in flight.
#[test]
fn with_little_memory_what_is_next_always_finds_room() {
    let senders = [20, 21, 22, 23];
    let mut cluster = Cluster::new(6, &senders, |config| {
        config.limits.receive_bytes = 1 << 17;
    });
    cluster.flight.loss.data_ppm = 50_000;
    for sender in senders {
        publish(&mut cluster, sender, 1000, 1000);
    }
    cluster.settle(Duration::from_secs(20));
    for sender in senders {
        check_all(&cluster, sender, 1000, 1000);
    }
    assert!(cluster.total(|stats| stats.discard_memory) > 0);
}

// Rules R-NAK-3, R-NAK-4.
#[test]
fn with_loss_receivers_repair_each_other_and_the_sender_stays_out() {
    let mut cluster = Cluster::new(8, &[20], |_| {});
    cluster.flight.loss.data_ppm = 50_000;
    publish(&mut cluster, 20, 4000, 1000);
    cluster.settle(Duration::from_secs(5));
    check_all(&cluster, 20, 4000, 1000);
    let by_receivers = cluster
        .total(|stats| stats.repaired_by_cacher + stats.repaired_by_push + stats.repaired_by_pull);
    let by_sender = cluster.total(|stats| stats.repaired_by_sender);
    assert!(by_receivers > 1000, "{by_receivers}");
    assert!(
        by_sender * 100 <= by_receivers,
        "{by_sender} of {by_receivers}"
    );
    for sequence in cluster.asked.keys() {
        let holders: Vec<_> = cachers(&cluster, *sequence)
            .filter(|node| cluster.arrived.contains(&(*node, *sequence)))
            .collect();
        assert!(
            holders.is_empty(),
            "{sequence} asked of the sender, held by {holders:?}"
        );
    }
}

// Rule R-NAK-11.
#[test]
fn who_asks_a_cacher_before_the_packet_reaches_it_need_not_ask_twice() {
    let mut cluster = Cluster::new(2, &[20], |_| {});
    cluster.flight.late = Some((address(2), Duration::from_micros(1200)));
    cluster.flight.loss.data_ppm = 20_000;
    publish(&mut cluster, 20, 4000, 1000);
    cluster.settle(Duration::from_secs(5));
    check_all(&cluster, 20, 4000, 1000);
    // Had the other forgotten who asked, the sender would have been asked for what it misses too.
    let stats = cluster.nodes[&1].stats();
    assert!(stats.repaired_by_cacher > 20, "{stats:?}");
    assert!(stats.sender_asked < 5, "{stats:?}");
}

// Rule R-NAK-7.
#[test]
fn the_repair_budget_grows_with_what_is_sent() {
    let mut cluster = Cluster::new(4, &[20], |config| {
        // Thirty packets; in a second all four members together repair 120.
        config.recovery.repair_bytes_per_second = 32_000;
    });
    cluster.flight.loss.data_ppm = 50_000;
    publish(&mut cluster, 20, 4000, 1000);
    cluster.run(Duration::from_secs(1));
    let repairs = cluster.total(|stats| stats.repairs_cacher_sent);
    assert!(repairs > 250, "{repairs}");
    cluster.settle(Duration::from_secs(10));
    check_all(&cluster, 20, 4000, 1000);
    // All repairs are of whole packets, of a message or more each.
    let repairs = cluster.total(|stats| {
        stats.repairs_cacher_sent
            + stats.repairs_pull_sent
            + stats.repairs_push_sent
            + stats.repairs_sender_sent
    });
    let bytes = cluster.total(|stats| stats.repair_bytes);
    assert!(
        (repairs * 1000..=repairs * 1472).contains(&bytes),
        "{bytes} bytes of {repairs} repairs"
    );
}

/// With 8 members and R = 3 there are 2 partitions and blocks of 16 packets.
fn cachers(cluster: &Cluster, sequence: u64) -> impl Iterator<Item = u64> + '_ {
    let partition = usize::try_from(sequence / 16 % 2).unwrap();
    cluster.members.iter().copied().skip(partition).step_by(2)
}

// Rule R-TOK-9.
#[test]
fn control_packets_may_be_lost_too() {
    let mut cluster = Cluster::new(6, &[1, 20], |_| {});
    cluster.flight.loss.data_ppm = 100_000;
    cluster.flight.loss.control_ppm = 100_000;
    publish(&mut cluster, 1, 1000, 700);
    publish(&mut cluster, 20, 1000, 700);
    cluster.settle(Duration::from_secs(10));
    check_all(&cluster, 1, 1000, 700);
    check_all(&cluster, 20, 1000, 700);
}

#[test]
fn a_packet_that_nobody_got_comes_from_the_sender() {
    let mut cluster = Cluster::new(8, &[20], |_| {});
    publish(&mut cluster, 20, 40, 1000);
    cluster.settle(Duration::from_secs(1));
    cluster.flight.loss.data_ppm = 1_000_000;
    cluster.publish(20, 0, &payload(40, 1000));
    cluster.flight.loss.data_ppm = 0;
    cluster.publish(20, 1, &payload(41, 1000));
    cluster.settle(Duration::from_secs(1));
    check_all(&cluster, 20, 42, 1000);
    let asks: u32 = cluster.asked.values().sum();
    assert!((1..=4).contains(&asks), "{asks} requests to the sender");
}

#[test]
fn the_last_packet_is_missed_and_repaired_without_another_one_after_it() {
    let mut cluster = Cluster::new(8, &[20], |_| {});
    publish(&mut cluster, 20, 40, 1000);
    cluster.settle(Duration::from_secs(1));
    cluster.flight.loss.data_ppm = 1_000_000;
    cluster.publish(20, 0, &payload(40, 1000));
    cluster.flight.loss.data_ppm = 0;
    cluster.run(Duration::from_millis(10));
    assert!(
        cluster
            .members
            .iter()
            .all(|member| cluster.got[member].len() == 41)
    );
}

#[test]
fn large_messages_are_put_together_again() {
    let mut cluster = Cluster::new(4, &[1], |_| {});
    cluster.flight.loss.data_ppm = 50_000;
    publish(&mut cluster, 1, 6, 300_000);
    cluster.settle(Duration::from_secs(5));
    check_all(&cluster, 1, 6, 300_000);
}

// Rules R-NAK-9, R-TOK-8.
#[test]
fn seed_faithful_mode_repairs_by_token_alone() {
    let mut cluster = Cluster::new(10, &[20], |config| *config = config.clone().seed_faithful());
    cluster.flight.loss.data_ppm = 50_000;
    publish(&mut cluster, 20, 500, 500);
    cluster.settle(Duration::from_secs(60));
    check_all(&cluster, 20, 500, 500);
    assert!(cluster.total(|stats| stats.repaired_by_push + stats.repaired_by_pull) > 50);
    assert_eq!(cluster.total(|stats| stats.repaired_by_cacher), 0);
}

// Rule R-NAK-8.
#[test]
fn survivors_agree_after_the_sender_dies_in_mid_stream() {
    let mut cluster = Cluster::new(8, &[20], |_| {});
    cluster.flight.loss.data_ppm = 200_000;
    publish(&mut cluster, 20, 500, 600);
    cluster.crash(20);
    cluster.batch(&[Update::Dead { origin: origin(20) }]);
    cluster.run(Duration::from_secs(4));
    let first = cluster.got[&1].clone();
    assert!(first.len() > 100);
    for member in &cluster.members {
        assert_eq!(cluster.got[member].len(), first.len(), "member {member}");
    }
}

/// Who has gone, and the messages that they may lack.
type Unserved = (Vec<u64>, Vec<(u64, u64)>);

/// Receivers that a publisher says are gone.
fn unserved(cluster: &Cluster, publisher: u64) -> Vec<Unserved> {
    let events = cluster.events.get(&publisher).into_iter().flatten();
    let unserved = events.filter_map(|event| match event {
        Event::Unserved {
            receivers,
            messages,
            ..
        } => Some((
            receivers.iter().map(|gone| gone.node.0).collect(),
            messages.iter().map(|it| (it.first, it.last)).collect(),
        )),
        _ => None,
    });
    unserved.collect()
}

#[test]
fn members_that_vanish_before_they_have_acknowledged_are_named_with_what_they_may_lack() {
    for left in [3, 1] {
        let mut cluster = Cluster::new(5, &[20], |_| {});
        publish(&mut cluster, 20, 40, 600);
        cluster.settle(Duration::from_secs(5));
        (left + 1..=5).for_each(|dead| cluster.crash(dead));
        // Twenty in each of the two groups have arrived everywhere, and ten do not.
        publish(&mut cluster, 20, 20, 600);
        cluster.run(Duration::from_millis(20));
        assert_eq!(unserved(&cluster, 20), []);
        cluster.members.retain(|member| *member <= left);
        cluster.change_view();
        cluster.run(Duration::from_millis(5));
        publish(&mut cluster, 20, 20, 600);
        cluster.settle(Duration::from_secs(5));
        let gone = (left + 1..=5).collect::<Vec<_>>();
        assert_eq!(unserved(&cluster, 20), [(gone, vec![(21, 30), (21, 30)])]);
    }
}

#[test]
fn members_that_vanish_are_named_also_when_the_others_know_of_it_before_the_sender() {
    let mut cluster = Cluster::new(5, &[20], |_| {});
    publish(&mut cluster, 20, 40, 600);
    cluster.settle(Duration::from_secs(5));
    cluster.crash(5);
    publish(&mut cluster, 20, 20, 600);
    cluster.run(Duration::from_millis(20));
    cluster.members.retain(|member| *member < 5);
    cluster.change_view();
    // The sender's copy is lost, and the others acknowledge before it is sent again.
    let sender = address(20);
    cluster.flight.retain(|arrival| arrival.to != sender);
    let idle = |node: &Endpoint| {
        let mut streams = node.regions().filter_map(|region| region.own_stream());
        streams.all(|stream| stream.is_idle())
    };
    while !idle(&cluster.nodes[&20]) {
        cluster.run(Duration::from_millis(1));
    }
    assert_eq!(unserved(&cluster, 20), [], "it knows of no new view yet");
    assert!(!cluster.nodes[&20].is_stable());
    cluster.settle(Duration::from_secs(5));
    assert_eq!(
        unserved(&cluster, 20),
        [(vec![5], vec![(21, 30), (21, 30)])]
    );
}

// Rule R-MEM-14.
#[test]
fn members_that_say_goodbye_have_acknowledged_what_they_have_received() {
    let mut cluster = Cluster::new(3, &[20], |_| {});
    publish(&mut cluster, 20, 40, 600);
    cluster.run(Duration::from_micros(500));
    assert!(!cluster.nodes[&20].is_stable(), "not acknowledged yet");
    let now = cluster.now;
    cluster.nodes.get_mut(&3).unwrap().close(now);
    // The service learns of it, and has it no more.
    while !cluster.nodes[&3].is_closed() {
        cluster.run(Duration::from_millis(1));
        let latest = now.after(Duration::from_millis(400));
        assert!(cluster.now < latest, "too long");
    }
    cluster.members.retain(|member| *member != 3);
    cluster.crash(3);
    cluster.change_view();
    cluster.settle(Duration::from_secs(5));
    assert_eq!(unserved(&cluster, 20), []);
}

#[test]
fn members_that_die_do_not_stop_the_others() {
    let mut cluster = Cluster::new(8, &[20], |_| {});
    cluster.flight.loss.data_ppm = 50_000;
    publish(&mut cluster, 20, 500, 600);
    for dead in [1, 2] {
        cluster.crash(dead);
    }
    publish(&mut cluster, 20, 100, 600);
    cluster.members.retain(|member| *member > 2);
    cluster.change_view();
    cluster.settle(Duration::from_secs(5));
    assert!(
        cluster
            .members
            .iter()
            .all(|member| cluster.got[member].len() == 600)
    );
    assert!(cluster.total(|stats| stats.packets_lost) == 0);
}

#[test]
fn nothing_is_reported_lost_while_the_sender_lives() {
    let mut cluster = Cluster::new(5, &[20], |_| {});
    cluster.flight.loss.data_ppm = 300_000;
    publish(&mut cluster, 20, 1000, 400);
    cluster.settle(Duration::from_secs(10));
    let lost = cluster.total(|stats| stats.messages_lost + stats.packets_lost);
    assert_eq!(lost, 0);
    check_all(&cluster, 20, 1000, 400);
}

/// What publishing 2000 messages over so many groups costs each node in control packets, and how
/// many peers it has.
fn control_of(groups: u32) -> Vec<(u64, u64, u64)> {
    let mut cluster = Cluster::with_groups(groups, 8, &[20], |_| {});
    cluster.flight.loss.data_ppm = 20_000;
    let counters = |cluster: &Cluster| -> Vec<(u64, u64, u64)> {
        let stats = cluster.nodes.values().map(Endpoint::stats);
        stats
            .map(|stats| (stats.control_sent, stats.control_received, stats.peers))
            .collect()
    };
    let before = counters(&cluster);
    for number in 0..2000 {
        cluster.publish(20, number % groups, &payload(u64::from(number), 700));
        if number % 20 == 19 {
            cluster.run(Duration::from_micros(200));
        }
    }
    cluster.settle(Duration::from_secs(5));
    assert!(
        cluster
            .members
            .iter()
            .all(|member| cluster.got[member].len() == 2000)
    );
    let spent = |((sent, received, _), after): ((u64, u64, u64), (u64, u64, u64))| {
        (after.0 - sent, after.1 - received, after.2)
    };
    before
        .into_iter()
        .zip(counters(&cluster))
        .map(spent)
        .collect()
}

// R011, R016.
#[test]
fn control_traffic_and_peers_are_the_same_for_one_group_and_for_thousands() {
    let one = control_of(1);
    assert!(
        one.iter().map(|(sent, ..)| sent).sum::<u64>() > 300,
        "{one:?}"
    );
    assert_eq!(one, control_of(4096));
}

/// Every member exchanges control packets with one member of each other partition, two in its ring,
/// the region's leader, the sender, and the membership service, and with nobody else.
fn check_peers(cluster: &Cluster, partitions: usize) {
    for member in &cluster.members {
        let peers = &cluster.peers[member];
        assert!(peers.len() <= partitions + 4, "{member}: {peers:?}");
    }
}

// Rules R-NAK-2, R-NAK-3, R-TOK-8; R011.
#[test]
fn under_loss_a_node_exchanges_control_with_one_member_of_each_partition_and_its_ring() {
    // 63 members make rings of five and of six.
    for members in [60, 63] {
        let mut cluster = Cluster::new(members, &[80], |_| {});
        cluster.flight.loss.data_ppm = 50_000;
        cluster.flight.loss.control_ppm = 50_000;
        publish(&mut cluster, 80, 1000, 1000);
        cluster.settle(Duration::from_secs(20));
        check_all(&cluster, 80, 1000, 1000);
        assert!(cluster.total(|stats| stats.repaired_by_cacher) > 2000);
        check_peers(&cluster, 12);
        for member in &cluster.members {
            assert!(cluster.nodes[member].stats().peers <= 12 + 4);
        }
    }
}

// Rules R-NAK-2, R-VIEW-3; R011.
#[test]
fn under_loss_peers_are_bounded_in_each_view_and_counted_anew_with_it() {
    let mut cluster = Cluster::new(64, &[80], |_| {});
    cluster.flight.loss.data_ppm = 50_000;
    cluster.flight.loss.control_ppm = 50_000;
    // Each view makes other rings. The last one has 60 members.
    for dead in [9, 17, 33, 60] {
        cluster.crash(dead);
        cluster.members.retain(|member| *member != dead);
        cluster.change_view();
        // It is lost on the way to some, and what was sent in the view before is still coming.
        cluster.run(Duration::from_millis(300));
        cluster.peers.clear();
        let heard = cluster
            .members
            .iter()
            .map(|member| cluster.nodes[member].stats().peers);
        assert!(heard.max() <= Some(12 + 4), "counted since the view before");
        publish(&mut cluster, 80, 500, 1000);
        cluster.settle(Duration::from_secs(20));
        check_peers(&cluster, 12);
        for member in &cluster.members {
            let peers = cluster.nodes[member].stats().peers;
            assert!(peers <= 12 + 4, "{member}: {peers}");
        }
    }
    assert!(cluster.total(|stats| stats.repaired_by_cacher) > 2000);
}

// Rule R-NAK-2; R011. A member that sends is asked for nothing as a cacher, and neither is a dead
// one after a while: what their partition caches comes another way.
#[test]
fn around_a_sender_and_a_dead_cacher_nobody_gets_more_peers() {
    let (sender, dead) = (4, 9);
    let mut cluster = Cluster::new(30, &[sender], |_| {});
    cluster.flight.loss.data_ppm = 20_000;
    cluster.flight.loss.control_ppm = 20_000;
    publish(&mut cluster, sender, 1000, 1000);
    cluster.crash(dead);
    cluster.members.retain(|member| *member != dead);
    publish(&mut cluster, sender, 1000, 1000);
    cluster.run(Duration::from_millis(300));
    for member in &cluster.members {
        assert_eq!(cluster.got[member].len(), 2000, "member {member}");
    }
    cluster.members.retain(|member| *member != sender);
    for peers in cluster.peers.values_mut() {
        peers.remove(&dead);
    }
    check_peers(&cluster, 6);
}

// Rule R-PKT-6.
#[test]
fn other_clusters_and_ones_own_multicasts_are_dropped_before_anything_else() {
    let address = SocketAddr::from(([10, 0, 0, 1], 9));
    let config = Config::new(NodeId(1), address);
    let cluster = config.cluster_number();
    let mut node = Endpoint::new(config, Seed(1), Instant(0)).unwrap();
    // Whoever is heard, and be it with a query about nothing, is counted as a peer.
    let mut hear = |cluster, maker| {
        let header = Header {
            cluster,
            origin: maker,
            hop: Hop::Direct,
        };
        let query = StreamQuery {
            channel: ChannelId(1),
            stream: maker,
        };
        let mut bytes = Vec::new();
        query.encode(&header, &mut bytes);
        seal(&mut bytes, Coverage::Whole);
        let bytes = bytes.as_slice().into();
        node.handle_datagram(Instant(0), address, bytes, &mut |_: Delivery<'_>| {});
        let stats = node.stats();
        [
            stats.discard_cluster,
            stats.discard_own,
            stats.control_received,
            stats.peers,
        ]
    };
    let own = Origin {
        node: NodeId(1),
        ..Origin::default()
    };
    assert_eq!(hear(cluster ^ 1, origin(2)), [1, 0, 0, 0]);
    assert_eq!(hear(cluster, own), [1, 1, 0, 0]);
    assert_eq!(hear(cluster, origin(2)), [1, 1, 1, 1]);
}

// Rule R-PKT-8.
#[test]
fn damage_is_told_at_once_by_who_sent_it() {
    let address = SocketAddr::from(([10, 0, 0, 1], 9));
    let config = Config::new(NodeId(1), address);
    let header = Header {
        cluster: config.cluster_number(),
        origin: origin(2),
        hop: Hop::Direct,
    };
    let mut node = Endpoint::new(config, Seed(1), Instant(0)).unwrap();
    let query = StreamQuery {
        channel: ChannelId(1),
        stream: origin(2),
    };
    let mut bytes = Vec::new();
    query.encode(&header, &mut bytes);
    seal(&mut bytes, Coverage::Whole);
    *bytes.last_mut().unwrap() ^= 4;
    let mut named = |from| {
        let mut out = |_: Delivery<'_>| {};
        node.handle_datagram(Instant(0), from, bytes.as_slice().into(), &mut out);
        assert_eq!(node.stats().control_received, 0);
        core::iter::from_fn(|| node.poll_event()).find_map(|event| match event {
            Event::Damaged(damage) => Some((damage.datagrams, damage.senders)),
            _ => None,
        })
    };
    let from = SocketAddr::from(([10, 0, 0, 2], 9));
    assert_eq!(named(from), Some((1, vec![from])));
    assert_eq!(named(from), None, "further damage is told later");
}

/// All that a node has to send now, packet by packet.
fn packets(node: &mut Endpoint, now: Instant) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    while let Some(train) = node.poll_transmit(now) {
        packets.extend(train.bytes.chunks(train.segment_bytes).map(<[u8]>::to_vec));
    }
    packets
}

// Rule R-DATA-10.
#[test]
fn what_waited_behind_a_gap_is_delivered_a_mebibyte_at_a_time_and_others_come_between() {
    const MIB: usize = 1 << 20;
    const LENGTH: usize = 1000;
    let mut cluster = Cluster::new(1, &[20], |_| {});
    // The window is open once something has been acknowledged.
    publish(&mut cluster, 20, 20, LENGTH);
    cluster.settle(Duration::from_secs(1));
    let publisher = cluster.nodes.get_mut(&20).unwrap();
    let mut sent = Vec::new();
    for number in 0..3000 {
        let mut out = |_: Delivery<'_>| {};
        let payload = payload(number, LENGTH);
        let published = publisher.publish(cluster.now, GroupId(0), &payload, &mut out);
        published.unwrap();
        // As fast as its pool of credits is filled again.
        cluster.now = cluster.now.after(Duration::from_micros(100));
        sent.extend(packets(publisher, cluster.now));
    }
    let now = cluster.now;
    let from = address(20);
    let member = cluster.nodes.get_mut(&1).unwrap();
    let mut hear = |packet: Option<&Vec<u8>>| {
        let mut delivered = 0;
        let mut out = |message: Delivery<'_>| delivered += message.bytes.len();
        match packet {
            Some(packet) => {
                member.handle_datagram(now, from, packet.as_slice().into(), &mut out);
            }
            None => member.handle_timeout(now, &mut out),
        }
        let due = member.next_timeout().is_some_and(|due| due <= now);
        (delivered, due)
    };
    let (first, last) = (&sent[0], &sent[sent.len() - 1]);
    let gap = sent[1..sent.len() - 1]
        .iter()
        .map(|packet| hear(Some(packet)));
    assert_eq!(gap.map(|(delivered, _)| delivered).sum::<usize>(), 0);
    let (mut all, mut due) = hear(Some(first));
    assert!((MIB * 9 / 10..=MIB).contains(&all), "{all}");
    assert!(due);
    // What comes meanwhile waits for its turn.
    assert_eq!(hear(Some(last)), (0, true));
    while due {
        let (delivered, more) = hear(None);
        assert!(delivered <= MIB, "{delivered}");
        all += delivered;
        due = more && delivered > 0;
    }
    assert_eq!(all, 3000 * LENGTH);
}
