//! Who belongs to a session, what is acknowledged, and what happens to those who fail.

mod support;

use qsm_relay::{Body, Kind, Missing, Nack, Packet, Relay, Report, SendError, Timing};
use qsm_wire::Instant;
use support::{Link, Net, SESSION, SOURCE, ms};

/// A relay with two receivers, after ten packets; the second one is cut off.
fn cut_off(window: u64) -> (Net, usize, Vec<usize>) {
    let mut net = Net::new(1, Link::clean(2), window);
    let relay = net.relay(SOURCE);
    let receivers = net.receivers_below(relay, 2);
    net.settle(2);
    net.stream(10, ms(1));
    net.run(ms(100));
    let cut = Link {
        loss_ppm: 1_000_000,
        ..Link::clean(2)
    };
    net.set_link(relay, receivers[1], cut);
    (net, relay, receivers)
}

/// R-RELAY-2: the numbers of receivers add up on their way to the source.
#[test]
fn the_session_protocol_counts_receivers_at_all_levels() {
    let mut net = Net::new(1, Link::clean(2), 64);
    let upper = net.relay(SOURCE);
    let lower = net.relay(upper);
    net.receivers_below(upper, 3);
    net.receivers_below(lower, 4);
    net.receiver(SOURCE);
    net.settle(8);
    assert_eq!(net.relay_at(upper).receivers(SESSION), 7);
    assert_eq!(net.relay_at(lower).receivers(SESSION), 4);
}

/// R-RELAY-9: without losses ACKs alone tell the source what it may free.
#[test]
fn the_source_frees_what_all_receivers_have_without_a_nack() {
    let mut net = Net::new(1, Link::clean(2), 64);
    let relay = net.relay(SOURCE);
    let receivers = net.receivers_below(relay, 10);
    net.settle(10);
    net.stream(30, ms(1));
    // Two hops, and an interval of ACKs at each.
    net.run(net.timing().ack_min * 2 + ms(10));
    assert_eq!(net.source().released(), 30);
    assert_eq!(net.count_to(relay, Kind::Nack), 0);
    // The next packet tells receivers that they need not keep the others.
    net.stream(1, ms(10));
    for receiver in &receivers {
        assert_eq!(net.receiver_at(*receiver).kept_packets(), 1);
    }
    net.assert_complete(&receivers, 31);
}

/// R-RELAY-9, R-RELAY-43: what a steady stream costs beside its copies.
#[test]
fn in_a_steady_stream_there_are_few_acks_and_a_relay_passes_no_heartbeats_on() {
    for interval in [5, 10, 20] {
        let mut net = Net::new(1, Link::clean(2), 4096);
        let relay = net.relay(SOURCE);
        let receivers = net.receivers_below(relay, 4);
        net.settle(4);
        // The mean has to settle, too.
        net.stream(50, ms(interval));
        let count = |net: &Net| {
            let beats = [relay, receivers[0]].map(|to| net.count_to(to, Kind::Heartbeat));
            (beats, net.count_to(relay, Kind::Ack))
        };
        let (before, acks) = count(&net);
        net.stream(200, ms(interval));
        let (after, acks_after) = count(&net);
        assert!(after[0] - before[0] >= 200, "the source's, {interval} ms");
        assert_eq!(after[1], before[1], "{interval} ms");
        let most = 4 * (200 * usize::try_from(interval).unwrap() / 100 + 1);
        assert!(acks_after - acks <= most, "{interval} ms");
        net.run(ms(100));
        assert_eq!(net.source().released(), 250, "{interval} ms");
        net.assert_complete(&receivers, 250);
    }
}

/// R-RELAY-43: a heartbeat comes soon after a packet that is the last one, whatever the stream was.
#[test]
fn the_last_packet_before_a_pause_is_missed_soon() {
    for (packets, interval, most) in [(50, 10, 40), (50, 1000, 60), (20, 0, 30)] {
        let mut net = Net::new(1, Link::clean(2), 4096);
        let relay = net.relay(SOURCE);
        let receivers = net.receivers_below(relay, 2);
        net.settle(2);
        net.stream(packets - 1, ms(interval));
        net.lose(relay, receivers[0], Kind::Data, packets);
        net.send().unwrap();
        let has_all = |net: &Net| net.heard(receivers[0]).delivered.len() as u64 == packets;
        assert!(net.run_until(ms(most), has_all), "every {interval} ms");
    }
}

/// S1: ACKs are piggybacked by NACKs, and sent on their own in the absence of these.
#[test]
fn a_nack_carries_an_ack_and_takes_its_place() {
    let mut net = Net::new(1, Link::clean(2), 4096);
    let relay = net.relay(SOURCE);
    let receivers = net.receivers_below(relay, 2);
    net.settle(2);
    // Each fifth packet is lost: there is a NACK every 5 ms, more often than ACKs are due.
    for lost in 0..40 {
        net.lose(relay, receivers[0], Kind::Data, 5 * lost + 1);
    }
    net.run(ms(2000));
    let before = net.count_to(relay, Kind::Ack);
    net.stream(200, ms(1));
    let acks = net.count_to(relay, Kind::Ack) - before;
    let nacks = net.count_to(relay, Kind::Nack);
    assert!(nacks >= 40, "{nacks} NACKs");
    // Those of the other receiver, every 10 ms.
    assert!(
        acks <= 25,
        "{acks} ACKs of two receivers beside {nacks} NACKs"
    );
    net.run(ms(200));
    net.assert_complete(&receivers, 200);
    assert_eq!(net.source().released(), 200);
}

/// R-RELAY-12: the window holds a source back, and ACKs let it go on.
#[test]
fn a_full_window_holds_the_source_until_acks_come() {
    let mut net = Net::new(1, Link::clean(2), 16);
    let relay = net.relay(SOURCE);
    let receivers = net.receivers_below(relay, 2);
    net.settle(2);
    for _ in 0..16 {
        net.send().unwrap();
    }
    assert_eq!(net.send(), Err(SendError::WindowFull { packets: 16 }));
    net.run(ms(100));
    assert_eq!(net.send(), Ok(17));
    net.run(ms(100));
    net.assert_complete(&receivers, 17);
}

/// R-RELAY-11, R-RELAY-12: no packet follows that could show the gap.
#[test]
fn the_last_packet_of_a_stream_is_missed_by_a_heartbeat() {
    let mut net = Net::new(1, Link::clean(2), 64);
    let relay = net.relay(SOURCE);
    let receivers = net.receivers_below(relay, 3);
    net.settle(3);
    net.lose(SOURCE, relay, Kind::Data, 5);
    net.lose(relay, receivers[2], Kind::Data, 4);
    net.stream(5, ms(1));
    net.finish();
    net.run(ms(500));
    net.assert_complete(&receivers, 5);
    for receiver in &receivers {
        assert_eq!(net.heard(*receiver).ended, 1);
    }
}

/// R-RELAY-3: a relay that begins anew learns its children by their ACKs, and costs no packet.
#[test]
fn a_relay_that_has_forgotten_everything_costs_time_alone() {
    let mut net = Net::new(1, Link::clean(2), 4096);
    let upper = net.relay(SOURCE);
    let lower = net.relay(upper);
    let mut receivers = net.receivers_below(upper, 3);
    receivers.extend(net.receivers_below(lower, 5));
    net.settle(8);
    net.stream(50, ms(1));
    for relay in [lower, upper] {
        net.stop(relay);
        net.stream(100, ms(1));
        net.start(relay);
        net.stream(50, ms(1));
    }
    net.run(ms(9000));
    net.assert_complete(&receivers, 350);
    assert_eq!(
        net.source().released(),
        350,
        "ACKs go on after the quiet time"
    );
    assert_eq!(net.relay_at(lower).stats().children_joined, 5);
}

/// Children that a new relay does not know of yet must not be forgotten by the source.
#[test]
fn a_relay_that_has_begun_anew_acknowledges_nothing_until_all_can_have_reported() {
    // The relay forgets the receiver while that is cut off.
    let (mut net, relay, receivers) = cut_off(4096);
    net.stop(relay);
    net.start(relay);
    net.stream(10, ms(1));
    net.run(ms(2000));
    net.set_link(relay, receivers[1], Link::clean(2));
    net.run(ms(9000));
    net.assert_complete(&receivers, 20);
}

#[test]
fn a_relay_forgets_a_session_that_nobody_belongs_to() {
    let mut net = Net::new(1, Link::clean(2), 64);
    let relay = net.relay(SOURCE);
    let receivers = net.receivers_below(relay, 2);
    net.settle(2);
    net.stream(5, ms(1));
    for receiver in receivers {
        net.stop(receiver);
    }
    let lifetimes = net.timing().child_lifetime + net.timing().session_lifetime;
    net.run(lifetimes + ms(5000));
    let relay = net.relay_at(relay);
    assert_eq!(relay.sessions(), 0);
    assert_eq!(
        (relay.stats().children_lost, relay.stats().sessions_ended),
        (2, 1)
    );
    assert_eq!(relay.next_timeout(), None);
    assert_eq!(net.source().receivers(), 0, "it has left");
}

#[test]
fn a_receiver_that_comes_late_gets_what_follows_and_is_not_elected_for_what_was_before() {
    let mut net = Net::new(1, Link::clean(2), 1024);
    let relay = net.relay(SOURCE);
    // Its place is the first in the list after the one before it has left.
    let gone = net.receiver(relay);
    let early = net.receivers_below(relay, 2);
    net.settle(3);
    net.stop(gone);
    net.run(ms(8000));
    net.lose(relay, early[0], Kind::Data, 10);
    // Nothing shows the loss before the newcomer is there.
    (0..6).for_each(|_| net.lose(relay, early[0], Kind::Heartbeat, 0));
    net.stream(10, ms(1));
    let late = net.receiver(relay);
    net.run(ms(20));
    net.stream(10, ms(1));
    net.run(ms(300));
    let heard = net.heard(late);
    assert!(heard.first > 10, "from {}", heard.first);
    let all: Vec<u64> = (heard.first..=20).collect();
    assert_eq!(heard.delivered, all);
    assert_eq!(net.count(relay, late, Kind::Nack, 10), 0);
    assert_eq!(net.count(relay, early[1], Kind::Nack, 10), 1);
    net.assert_complete(&early, 20);
}

/// A receiver that is silent for too long does not hold up the others, and is told what it lacks.
#[test]
fn a_receiver_that_was_away_for_too_long_is_told_what_it_has_lost() {
    let (mut net, relay, receivers) = cut_off(32);
    // The window fills, the child is given up, and the source goes on.
    net.stream(100, ms(20));
    net.run(ms(8000));
    net.set_link(relay, receivers[1], Link::clean(2));
    net.run(ms(3000));
    net.stream(5, ms(1));
    net.run(ms(3000));
    net.assert_complete(&receivers[..1], 115);
    let heard = net.heard(receivers[1]);
    let mut all: Vec<u64> = heard.delivered.iter().chain(&heard.lost).copied().collect();
    all.sort_unstable();
    assert_eq!(all, (1..=115).collect::<Vec<_>>());
    assert!(heard.delivered.is_sorted() && heard.delivered.ends_with(&[111, 112, 113, 114, 115]));
    assert!(!heard.lost.is_empty());
}

#[test]
fn a_sixty_fifth_child_is_refused() {
    let mut net = Net::new(1, Link::clean(2), 32);
    let relay = net.relay(SOURCE);
    net.receivers_below(relay, 65);
    net.settle(64);
    net.run(ms(500));
    assert_eq!(net.source().receivers(), 64);
    assert!(net.relay_at(relay).stats().limited > 0);
}

/// R-RELAY-19: a translator of addresses on the way costs nothing that it does not lose itself.
#[test]
fn a_child_whose_port_changes_in_mid_stream_is_the_same_child() {
    let mut net = Net::new(1, Link::clean(2), 1024);
    let upper = net.relay(SOURCE);
    let lower = net.relay(upper);
    let receivers = net.receivers_below(lower, 3);
    net.settle(3);
    for moves in 1..=3 {
        net.stream(30, ms(3));
        net.change_port(receivers[0]);
        net.change_port(lower);
        net.stream(30, ms(3));
        net.run(ms(1500));
        assert_eq!(net.relay_at(upper).stats().children_moved, moves);
        assert_eq!(net.relay_at(lower).stats().children_moved, moves);
    }
    net.run(ms(2000));
    net.assert_complete(&receivers, 180);
    assert_eq!(net.relay_at(upper).stats().children_joined, 1);
    assert_eq!(net.relay_at(lower).stats().children_joined, 3);
    assert_eq!(net.relay_at(lower).stats().children_lost, 0);
    assert_eq!(net.source().released(), 180);
}

/// R-RELAY-20: parents that lead in a circle, with a receiver below one of them.
#[test]
fn a_loop_of_parents_is_found_by_a_relay_in_it() {
    for relays in [1, 2, 3, 5] {
        let mut net = Net::new(1, Link::clean(2), 64);
        for relay in 1..=relays {
            net.relay(if relay == relays { 1 } else { relay + 1 });
        }
        // Not in the loop.
        let beside = net.relay(1);
        net.receiver(beside);
        net.run(ms(3000));
        let found = (1..=relays).filter_map(|relay| net.relay_at(relay).looped());
        let found: Vec<usize> = found.map(|found| found.relays).collect();
        assert!(found.contains(&relays), "{relays}: {found:?}");
        assert_eq!(net.relay_at(beside).looped(), None);
    }
}

/// R-RELAY-21: receivers go on with a source that was started again, and are told what it never knew.
#[test]
fn a_source_that_is_started_again_numbers_on_and_is_heard_by_the_same_receivers() {
    let mut net = Net::new(1, Link::clean(2), 1024);
    let relay = net.relay(SOURCE);
    let receivers = net.receivers_below(relay, 3);
    net.settle(3);
    net.stream(20, ms(1));
    net.run(ms(100));
    net.restart_source(1000, 1024);
    net.run(ms(2000));
    assert_eq!(
        net.source().receivers(),
        3,
        "their ACKs say that they are there"
    );
    net.stream(20, ms(1));
    net.run(ms(500));
    for receiver in receivers {
        let heard = net.heard(receiver);
        let all: Vec<u64> = (1..=20).chain(1001..=1020).collect();
        assert_eq!(heard.delivered, all);
        assert_eq!(heard.lost, (21..=1000).collect::<Vec<_>>());
    }
    assert_eq!(net.source().released(), 1020);
}

/// R-RELAY-3: who has another parent now is still known to the former one, which may elect it.
#[test]
fn a_former_parent_that_asks_for_a_repair_is_no_child() {
    let (parent, former) = ("10.0.0.1:4500", "10.0.0.2:4500");
    let timing = Timing::new(ms(10), ms(10));
    let mut relay = Relay::new(parent.parse().unwrap(), 7, timing);
    let (report, missing) = (Report::NONE, Missing::one(5));
    let body = Body::Nack(Nack { report, missing });
    let (session, mut bytes) = (SESSION, Vec::new());
    Packet { session, body }.encode(&mut bytes);
    let onward = relay.handle_datagram(Instant(1), former.parse().unwrap(), &bytes);
    assert!(onward.is_empty());
    assert_eq!((relay.sessions(), relay.stats().refused), (0, 1));
}

/// R-RELAY-42: a relay that ends for good costs half a second, and no packet.
#[test]
fn a_receiver_goes_on_with_its_second_parent() {
    let mut net = Net::new(1, Link::clean(2), 4096);
    let (first, second) = (net.relay(SOURCE), net.relay(SOURCE));
    let receivers = net.receivers_below(first, 3);
    for receiver in &receivers {
        net.add_standby(*receiver, second);
    }
    net.settle(3);
    net.stream(50, ms(2));
    net.stop(first);
    net.stream(500, ms(2));
    net.finish();
    net.run(ms(3000));
    net.assert_complete(&receivers, 550);
    for receiver in &receivers {
        assert_eq!(net.receiver_at(*receiver).stats().parents_changed, 1);
        assert_eq!(net.heard(*receiver).ended, 1);
    }
    net.run(ms(5000));
    assert_eq!(net.source().released(), 550);
}

#[test]
fn an_idle_parent_that_answers_keeps_its_place() {
    let mut net = Net::new(1, Link::clean(2), 64);
    let (first, second) = (net.relay(SOURCE), net.relay(SOURCE));
    let receiver = net.receiver(first);
    net.add_standby(receiver, second);
    net.settle(1);
    net.stream(1, ms(20_000));
    assert_eq!(net.receiver_at(receiver).stats().parents_changed, 0);
    assert_eq!(net.relay_at(second).sessions(), 0);
}

/// R-RELAY-42: relays below, and their receivers, which have one parent alone.
#[test]
fn a_relay_goes_on_with_its_second_parent() {
    let mut net = Net::new(1, Link::clean(2), 4096);
    let (first, second) = (net.relay(SOURCE), net.relay(SOURCE));
    let lower = net.relay(first);
    net.add_standby(lower, second);
    let receivers = net.receivers_below(lower, 3);
    net.settle(3);
    net.stream(50, ms(2));
    net.stop(first);
    net.stream(500, ms(2));
    net.finish();
    net.run(ms(3000));
    net.assert_complete(&receivers, 550);
    let stats = net.relay_at(lower).stats();
    assert_eq!(stats.parents_changed, 1);
    assert!((500_000..600_000).contains(&stats.orphaned_us), "{stats:?}");
    for receiver in &receivers {
        assert_eq!(net.heard(*receiver).ended, 1);
    }
    net.run(ms(5000));
    assert_eq!(net.source().released(), 550);
}

/// R-RELAY-42: at the first contact nobody waits for a parent that is not there.
#[test]
fn who_answers_first_is_the_parent() {
    let mut net = Net::new(1, Link::clean(2), 4096);
    let (first, second) = (net.relay(SOURCE), net.relay(SOURCE));
    net.stop(first);
    let lower = net.relay(first);
    net.add_standby(lower, second);
    let mut receivers = vec![net.receiver(lower), net.receiver(first)];
    net.add_standby(receivers[1], second);
    net.run(ms(300));
    net.stream(100, ms(2));
    net.start(first);
    receivers.push(net.receiver(first));
    net.run(ms(1000));
    net.stream(100, ms(2));
    net.finish();
    net.run(ms(3000));
    net.assert_complete(&receivers[..2], 200);
    assert_eq!(net.relay_at(lower).stats().parents_changed, 0);
    assert_eq!(net.relay_at(first).receivers(SESSION), 1);
}

/// R-RELAY-45: whichever was named first; the other one forgets the receiver.
#[test]
fn who_chooses_the_nearest_has_the_parent_with_the_shortest_way() {
    for near in [0, 1] {
        let mut net = Net::new(1, Link::clean(2), 64);
        let relays = [net.relay(SOURCE), net.relay(SOURCE)];
        // Both have the stream.
        let mut receivers = relays.map(|relay| net.receiver(relay)).to_vec();
        net.settle(2);
        let chooses = net.receiver(relays[0]);
        net.add_standby(chooses, relays[1]);
        net.set_link(chooses, relays[1 - near], Link::clean(20));
        net.choose_nearest(chooses);
        receivers.push(chooses);
        net.settle(3);
        net.run(ms(500));
        net.stream(50, ms(2));
        net.finish();
        net.run(ms(1000));
        net.assert_complete(&receivers, 50);
        let below = relays.map(|relay| net.relay_at(relay).receivers(SESSION));
        assert_eq!((below[near], below[1 - near]), (2, 1));
        assert_eq!(net.receiver_at(chooses).stats().parents_changed, 0);
    }
}

/// R-RELAY-42: what a parent that was thought gone sends on is taken, and nothing twice.
#[test]
fn a_parent_that_stood_still_is_replaced_and_its_packets_count() {
    let mut net = Net::new(1, Link::clean(2), 4096);
    let (first, second) = (net.relay(SOURCE), net.relay(SOURCE));
    let lower = net.relay(first);
    net.add_standby(lower, second);
    let receivers = net.receivers_below(lower, 2);
    net.settle(2);
    net.stream(50, ms(2));
    net.freeze(first, ms(900));
    net.stream(1000, ms(2));
    net.finish();
    net.run(ms(3000));
    net.assert_complete(&receivers, 1050);
    assert_eq!(net.relay_at(lower).stats().parents_changed, 1);
    assert!(net.relay_at(lower).stats().data_duplicates > 0);
}

/// R-RELAY-20, R-RELAY-42: each is below the other while the source is silent, and finds it again.
#[test]
fn two_relays_that_are_each_others_second_parents_are_no_loop() {
    let mut net = Net::new(1, Link::clean(2), 4096);
    let (one, other) = (net.relay(SOURCE), net.relay(SOURCE));
    net.add_standby(one, other);
    net.add_standby(other, one);
    let receivers = [net.receiver(one), net.receiver(other)];
    net.settle(2);
    net.stream(50, ms(2));
    let cut = Link::clean(2).cut();
    net.set_link(SOURCE, one, cut);
    net.stream(500, ms(2));
    net.run(ms(1000));
    net.set_link(SOURCE, other, cut);
    net.run(ms(3000));
    net.set_link(SOURCE, one, Link::clean(2));
    net.run(ms(1500));
    net.stream(500, ms(2));
    net.finish();
    net.run(ms(5000));
    net.assert_complete(&receivers, 1050);
    assert!(net.relay_at(one).looped().is_none() && net.relay_at(other).looped().is_none());
}
