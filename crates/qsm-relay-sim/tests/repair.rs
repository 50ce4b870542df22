//! The services of relays one by one: who asks whom for what, and who gets the repair.

mod support;

use qsm_relay::Kind;
use qsm_relay_sim::Step;
use support::{Link, Net, SESSION, SOURCE, ms};

/// A relay below the source, with so many receivers, after ten packets.
fn site(receivers: usize) -> (Net, usize, Vec<usize>) {
    let mut net = Net::new(1, Link::clean(5), 1024);
    let relay = net.relay(SOURCE);
    let receivers = net.receivers_below(relay, receivers);
    net.settle(u32::try_from(receivers.len()).unwrap());
    net.stream(10, ms(2));
    (net, relay, receivers)
}

/// R-RELAY-4, R-RELAY-5: a gap is asked for upstream once, whatever receivers say, and its repair
/// goes to all of them once.
#[test]
fn a_loss_before_the_relay_is_asked_for_once_and_repaired_to_all() {
    let (mut net, relay, receivers) = site(50);
    net.lose(SOURCE, relay, Kind::Data, 11);
    net.stream(5, ms(2));
    net.run(ms(300));
    net.assert_complete(&receivers, 15);
    assert_eq!(net.count(relay, SOURCE, Kind::Nack, 11), 1);
    assert_eq!(net.count(SOURCE, relay, Kind::Repair, 11), 1);
    for receiver in &receivers {
        assert_eq!(net.count(*receiver, relay, Kind::Nack, 11), 1);
        assert_eq!(net.count(relay, *receiver, Kind::Repair, 11), 1);
        assert_eq!(net.count(relay, *receiver, Kind::Nack, 11), 0);
    }
    assert_eq!(net.relay_at(relay).stats().nacks_suppressed, 50);
}

/// R-RELAY-8: a child that has not noticed yet gets the repair of what its relay lacked, too.
#[test]
fn a_repair_of_what_the_relay_lacked_goes_to_children_that_have_not_asked() {
    let (mut net, relay, receivers) = site(3);
    net.lose(SOURCE, relay, Kind::Data, 11);
    for sequence in 12..25 {
        net.lose(relay, receivers[2], Kind::Data, sequence);
    }
    // Faster than heartbeats, which would show the gap.
    net.stream(20, ms(1));
    net.run(ms(300));
    net.assert_complete(&receivers, 30);
    assert_eq!(net.count(receivers[2], relay, Kind::Nack, 11), 0);
    assert_eq!(net.count(relay, receivers[2], Kind::Repair, 11), 1);
}

/// R-RELAY-12: of a NACK that comes twice the source answers one.
#[test]
fn a_nack_that_is_doubled_is_answered_once_by_the_source() {
    let (mut net, relay, receivers) = site(3);
    let doubling = Link {
        double_ppm: 1_000_000,
        ..Link::clean(5)
    };
    net.set_link(SOURCE, relay, doubling);
    net.lose(SOURCE, relay, Kind::Data, 11);
    net.stream(5, ms(2));
    net.run(ms(300));
    net.assert_complete(&receivers, 15);
    assert_eq!(net.count(SOURCE, relay, Kind::Repair, 11), 1);
    assert_eq!(net.source().stats().nacks_suppressed, 1);
}

/// The relay asks before any receiver can have asked it.
#[test]
fn a_gap_is_asked_for_at_once() {
    let (mut net, relay, receivers) = site(3);
    net.lose(SOURCE, relay, Kind::Data, 11);
    net.stream(2, ms(2));
    net.run(ms(300));
    let first = |from: usize| {
        let mut sent = net.sent();
        let nack = sent.find(|sent| sent.from == from && sent.kind == Kind::Nack);
        nack.unwrap().at
    };
    assert!(first(relay) < first(receivers[0]));
    net.assert_complete(&receivers, 12);
}

/// R-RELAY-6: fifty NACKs in, one out; nobody can be elected.
#[test]
fn a_packet_that_all_children_lose_is_asked_for_upstream_once() {
    let (mut net, relay, receivers) = site(50);
    for receiver in &receivers {
        net.lose(relay, *receiver, Kind::Data, 11);
    }
    net.stream(5, ms(2));
    net.run(ms(300));
    net.assert_complete(&receivers, 15);
    assert_eq!(net.count_to(relay, Kind::Nack), 50);
    assert_eq!(net.count(relay, SOURCE, Kind::Nack, 11), 1);
    assert_eq!(net.count(SOURCE, relay, Kind::Repair, 11), 1);
    for receiver in &receivers {
        assert_eq!(net.count(relay, *receiver, Kind::Repair, 11), 1);
        assert_eq!(net.count(relay, *receiver, Kind::Nack, 11), 0);
    }
}

/// R-RELAY-7, R-RELAY-8: the first receiver that has not asked repairs, by way of the relay, and
/// nobody else sees anything of it.
#[test]
fn a_packet_that_one_child_loses_is_repaired_by_another_to_it_alone() {
    let (mut net, relay, receivers) = site(50);
    let victim = receivers[7];
    net.lose(relay, victim, Kind::Data, 11);
    net.stream(5, ms(2));
    net.run(ms(300));
    net.assert_complete(&receivers, 15);
    assert_eq!(net.count(victim, relay, Kind::Nack, 11), 1);
    assert_eq!(net.count(relay, receivers[0], Kind::Nack, 11), 1);
    assert_eq!(net.count(receivers[0], relay, Kind::Repair, 11), 1);
    assert_eq!(net.count(relay, victim, Kind::Repair, 11), 1);
    for receiver in receivers.iter().filter(|it| **it != victim) {
        assert_eq!(net.count_to(*receiver, Kind::Repair), 0);
    }
    assert_eq!(
        net.count_to(SOURCE, Kind::Nack),
        0,
        "the source is not asked"
    );
}

/// The choice moves on with each NACK, and is over when the delay is.
#[test]
fn the_only_child_that_has_a_packet_is_elected() {
    let (mut net, relay, receivers) = site(50);
    for receiver in &receivers[..49] {
        net.lose(relay, *receiver, Kind::Data, 11);
    }
    net.stream(5, ms(2));
    net.run(ms(300));
    net.assert_complete(&receivers, 15);
    assert_eq!(net.count(relay, receivers[49], Kind::Nack, 11), 1);
    assert_eq!(net.count_to(SOURCE, Kind::Nack), 0);
    assert_eq!(net.count_to(receivers[49], Kind::Repair), 0);
    let stats = net.relay_at(relay).stats();
    assert_eq!((stats.repliers_elected, stats.repair_copies), (1, 49));
}

/// R-RELAY-5: a NACK of the relay's, or the answer, is lost.
#[test]
fn an_upstream_nack_is_repeated_after_its_time_when_it_is_lost() {
    for kind in [Kind::Nack, Kind::Repair] {
        let (mut net, relay, receivers) = site(5);
        net.lose(SOURCE, relay, Kind::Data, 11);
        match kind {
            Kind::Nack => net.lose(relay, SOURCE, Kind::Nack, 11),
            _ => net.lose(SOURCE, relay, Kind::Repair, 11),
        }
        net.stream(2, ms(1));
        net.run(ms(300));
        let nacks: Vec<_> = net
            .sent()
            .filter(|sent| (sent.from, sent.to) == (relay, SOURCE) && sent.kind == Kind::Nack)
            .map(|sent| sent.at)
            .collect();
        assert_eq!(nacks.len(), 2, "{kind:?}");
        assert_eq!(nacks[1].since(nacks[0]), net.timing().upstream_retry);
        assert_eq!(net.relay_at(relay).stats().nacked_again, 1);
        net.assert_complete(&receivers, 12);
    }
}

/// R172: a host that fails only delays a repair.
#[test]
fn a_replier_that_dies_during_the_delay_is_passed_over() {
    let (mut net, relay, receivers) = site(4);
    let victim = receivers[3];
    net.lose(relay, victim, Kind::Data, 11);
    net.stream(2, ms(2));
    // The NACK has come, and the delay to decide is not over.
    let asked = |net: &Net| net.relay_at(relay).stats().nacks_received == 1;
    assert!(net.run_until(ms(100), asked));
    net.stop(receivers[0]);
    net.run(ms(300));
    assert_eq!(net.count(relay, receivers[0], Kind::Nack, 11), 1);
    assert_eq!(net.count(receivers[1], relay, Kind::Repair, 11), 1);
    assert_eq!(net.count_to(SOURCE, Kind::Nack), 0);
    net.assert_complete(&receivers[1..], 12);
    assert_eq!(net.relay_at(relay).stats().repliers_failed, 1);
}

/// A replier whose own NACK was lost says so at once.
#[test]
fn a_replier_that_lacks_the_packet_says_so_and_the_next_is_asked() {
    let (mut net, relay, receivers) = site(4);
    for receiver in [receivers[0], receivers[3]] {
        net.lose(relay, receiver, Kind::Data, 11);
    }
    net.lose(receivers[0], relay, Kind::Nack, 11);
    net.stream(2, ms(2));
    net.run(ms(300));
    net.assert_complete(&receivers, 12);
    assert_eq!(net.count(relay, receivers[0], Kind::Nack, 11), 1);
    assert_eq!(net.count(receivers[1], relay, Kind::Repair, 11), 1);
    assert_eq!(net.count(relay, receivers[0], Kind::Repair, 11), 1);
    assert_eq!(net.count_to(SOURCE, Kind::Nack), 0);
}

/// R-RELAY-10: what a relay below loses, another one's receiver repairs, by one NACK on each link of
/// the way; only the relay that waits asks again in time.
#[test]
fn a_loss_before_a_relay_of_the_second_level_is_repaired_by_its_neighbour() {
    let mut net = Net::new(2, Link::clean(5), 1024);
    let root = net.relay(SOURCE);
    let relays = [net.relay(root), net.relay(root), net.relay(root)];
    let sites = relays.map(|relay| net.receivers_below(relay, 20));
    net.settle(60);
    net.stream(10, ms(2));
    // The order of joining decides who is elected first: the loss is of another one.
    let first = net.relay_at(root).receivers(SESSION);
    assert_eq!(first, 60);
    net.lose(root, relays[1], Kind::Data, 11);
    net.stream(5, ms(2));
    net.run(ms(400));
    for site in &sites {
        net.assert_complete(site, 15);
    }
    let asked = |sent: &&Step| (sent.from, sent.to, sent.kind) == (relays[1], root, Kind::Nack);
    let asked: Vec<_> = net.sent().filter(asked).map(|sent| sent.at).collect();
    let apart = net.timing().upstream_retry;
    assert!(asked.windows(2).all(|pair| pair[1].since(pair[0]) >= apart));
    assert_eq!(net.count(root, relays[0], Kind::Nack, 11), 1);
    assert_eq!(net.count(relays[0], sites[0][0], Kind::Nack, 11), 1);
    assert_eq!(net.count(sites[0][0], relays[0], Kind::Repair, 11), 1);
    assert_eq!(net.count(relays[0], root, Kind::Repair, 11), 1);
    assert_eq!(net.count(root, relays[1], Kind::Repair, 11), 1);
    assert_eq!(net.count_to(SOURCE, Kind::Nack), 0);
    for receiver in &sites[1] {
        assert_eq!(net.count(relays[1], *receiver, Kind::Repair, 11), 1);
    }
    for receiver in sites[0].iter().chain(&sites[2]) {
        assert_eq!(net.count_to(*receiver, Kind::Repair), 0);
    }
}

/// All children of the relay that is elected lack the packet: it says so, and the next is asked.
#[test]
fn an_elected_relay_below_which_nobody_has_the_packet_says_so() {
    let mut net = Net::new(3, Link::clean(5), 1024);
    let root = net.relay(SOURCE);
    let relays = [net.relay(root), net.relay(root), net.relay(root)];
    let sites = relays.map(|relay| net.receivers_below(relay, 3));
    net.settle(9);
    net.stream(10, ms(2));
    net.lose(root, relays[2], Kind::Data, 11);
    for receiver in &sites[0] {
        net.lose(relays[0], *receiver, Kind::Data, 11);
    }
    net.stream(5, ms(2));
    net.run(ms(400));
    for site in &sites {
        net.assert_complete(site, 15);
    }
    assert_eq!(net.count(sites[1][0], relays[1], Kind::Repair, 11), 1);
    // The parent's repair does not go back to it.
    assert_eq!(net.count(relays[0], root, Kind::Repair, 11), 0);
    assert_eq!(net.count_to(SOURCE, Kind::Nack), 0);
    for receiver in &sites[1] {
        assert_eq!(net.count_to(*receiver, Kind::Repair), 0);
    }
}

/// R175: three levels of relays, with 50 receivers at each of the lowest.
#[test]
fn three_levels_of_relays_repair_losses_of_all_of_their_links() {
    let mut link = Link::clean(2);
    link.loss_ppm = 5000;
    let mut net = Net::new(4, link, 1024);
    let mut receivers = Vec::new();
    for _ in 0..2 {
        let upper = net.relay(SOURCE);
        for _ in 0..3 {
            let middle = net.relay(upper);
            for _ in 0..3 {
                let lower = net.relay(middle);
                receivers.extend(net.receivers_below(lower, 50));
            }
        }
    }
    net.settle(900);
    net.stream(60, ms(2));
    net.finish();
    let everybody = receivers.clone();
    let done = |net: &Net| everybody.iter().all(|it| net.heard(*it).ended > 0);
    assert!(net.run_until(ms(10_000), done));
    net.assert_complete(&receivers, 60);
    // 900 receivers behind 27 relays lose some 270 packets; hardly one of them is the source's to repair.
    let asked = net.count_to(SOURCE, Kind::Nack);
    assert!(asked < 20, "the source was asked {asked} times");
}

/// R-RELAY-40, R-RELAY-41: a cache answers at once, whom it serves alone, and releases nothing.
#[test]
fn a_relay_with_a_cache_repairs_by_itself() {
    let mut net = Net::new(1, Link::clean(2), 1024);
    let relay = net.relay(SOURCE);
    net.set_cache(relay, 1 << 16);
    let receivers = net.receivers_below(relay, 3);
    net.settle(3);
    for receiver in &receivers {
        net.lose(relay, *receiver, Kind::Data, 5);
    }
    net.lose(relay, receivers[0], Kind::Data, 9);
    net.stream(20, ms(1));
    assert!(net.relay_at(relay).kept_bytes() > 0);
    net.run(ms(100));
    net.assert_complete(&receivers, 20);
    assert_eq!(net.count_to(SOURCE, Kind::Nack), 0);
    for receiver in &receivers {
        assert_eq!(
            net.count(relay, *receiver, Kind::Nack, 5),
            0,
            "nobody is elected"
        );
        assert_eq!(net.count(relay, *receiver, Kind::Repair, 5), 1);
    }
    assert_eq!(net.count(relay, receivers[1], Kind::Repair, 9), 0);
    let stats = net.relay_at(relay).stats();
    assert_eq!((stats.cache_repairs, stats.repliers_elected), (4, 0));
    // The source says what is released when it says something next.
    net.stream(1, ms(50));
    net.finish();
    net.run(ms(3000));
    assert_eq!(net.relay_at(relay).kept_bytes(), 0);
    assert_eq!(net.source().released(), 21);
}

/// R-RELAY-40: where a stream begins at the time, as programs have it, children take what a cache says.
#[test]
fn a_cache_repairs_a_stream_whose_numbers_are_high() {
    const BEHIND: u64 = 1 << 50;
    let mut net = Net::new(1, Link::clean(2), 1024);
    net.restart_source(BEHIND, 1024);
    let relays = [net.relay(SOURCE)];
    let relays = [relays[0], net.relay(relays[0])];
    for relay in relays {
        net.set_cache(relay, 1 << 16);
    }
    let receivers = net.receivers_below(relays[1], 2);
    net.settle(2);
    net.lose(relays[0], relays[1], Kind::Data, BEHIND + 5);
    net.lose(relays[1], receivers[0], Kind::Data, BEHIND + 9);
    net.stream(20, ms(1));
    net.run(ms(100));
    for receiver in receivers {
        let all: Vec<u64> = (BEHIND + 1..=BEHIND + 20).collect();
        assert_eq!(net.heard(receiver).delivered, all);
    }
    let repairs = relays.map(|relay| net.relay_at(relay).stats().cache_repairs);
    assert_eq!(repairs, [1, 1]);
}
