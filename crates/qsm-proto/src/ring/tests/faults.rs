use std::time::Duration;

use qsm_wire::{
    Header, MemberIndex, Origin, RegionId, SeqRange, SlotHead, Summary, SummarySlot, TokenHead,
    TokenWriter, ViewNumber,
};

use super::super::{Action, CALL};
use super::network::{Network, config, origin, sender, view};
use crate::view::Layout;

const LAYOUT: Layout = Layout {
    replication: 3,
    block_packets: 1,
    ring_max: 3,
};

fn nodes(count: u64) -> Vec<u64> {
    (0..count).collect()
}

fn suspects(net: &Network, by: u64) -> Vec<u64> {
    let of = |(node, action): &(u64, Action)| match action {
        Action::Suspect { member, .. } if *node == by => Some(member.node.0),
        _ => None,
    };
    net.actions.iter().filter_map(of).collect()
}

// Rule R-TOK-12.
#[test]
fn a_leader_that_does_not_hear_a_sender_is_told_before_it_is_suspected() {
    let mut net = Network::new(1, &nodes(24), LAYOUT);
    net.run(Duration::from_secs(1));
    for node in 1..24 {
        net.receive(node, sender(1), 1);
    }
    net.run(Duration::from_millis(90));
    let told = |net: &Network| {
        let is = |(_, action): &&(u64, Action)| matches!(action, Action::Tell { .. });
        net.actions.iter().filter(is).count()
    };
    assert_eq!(told(&net), 0);
    net.run(Duration::from_millis(20));
    // The other seven partition leaders, and of the leader's own partition whose turn it is.
    assert_eq!(told(&net), 8);
    for (_, action) in &net.actions {
        if let Action::Tell { member, sender: of } = action {
            assert_eq!((*member, *of), (origin(0), sender(1)));
        }
    }
    assert!(suspects(&net, 3).is_empty());
    net.hear(0, sender(1), 1);
    net.run(Duration::from_secs(5));
    assert!(suspects(&net, 3).is_empty());
}

// Rule R-TOK-3.
#[test]
fn a_silent_member_is_passed_over_and_holds_the_watermarks_until_the_view_changes() {
    // G05. Every node but the region leader, in turn: members, partition leaders, upper leaders.
    for silent in 1..24 {
        let mut net = Network::new(silent, &nodes(24), LAYOUT);
        net.receive_all(sender(1), 1..=3);
        net.run(Duration::from_secs(1));
        net.kill(silent);
        for node in nodes(24).into_iter().filter(|node| *node != silent) {
            net.receive(node, sender(1), 4);
        }
        net.run(Duration::from_secs(2));
        assert!(suspects(&net, 0).contains(&silent), "{silent}");
        let stats = net.ring(0).stats();
        assert!(stats.rounds_incomplete > 0);
        assert_eq!(stats.rounds_abandoned, 0, "{silent} silent");
        assert_eq!(net.ring(0).watermarks(sender(1)), (3, 3));

        let live: Vec<u64> = nodes(24)
            .into_iter()
            .filter(|node| *node != silent)
            .collect();
        let next = view(2, &live, LAYOUT);
        for node in &live {
            net.install(*node, &next);
        }
        net.run(Duration::from_secs(1));
        for node in live {
            assert_eq!(
                net.ring(node).watermarks(sender(1)),
                (4, 4),
                "{silent} silent"
            );
        }
    }
}

// Rule R-TOK-4.
#[test]
fn watermarks_grow_though_every_round_passes_over_somebody() {
    // Three partitions: 0 3 6, 1 4 7 and 2 5 8. First one member stands still, then another.
    let mut net = Network::new(1, &nodes(9), LAYOUT);
    net.receive_all(sender(1), 1..=3);
    net.run(Duration::from_secs(1));
    let complete = |net: &Network| {
        let stats = net.ring(0).stats();
        stats.rounds - stats.rounds_incomplete
    };
    net.kill(6);
    let before = complete(&net);
    net.receive_all(sender(1), 4..=9);
    net.run(Duration::from_millis(300));
    assert_eq!(net.ring(0).watermarks(sender(1)), (3, 3));
    net.kill(7);
    net.revive(6);
    net.run(Duration::from_secs(1));
    assert_eq!(complete(&net), before, "no round is complete");
    assert_eq!(net.ring(0).watermarks(sender(1)), (9, 9));
    // Nothing vouches for what came since.
    net.receive_all(sender(1), 10..=12);
    net.run(Duration::from_secs(1));
    assert_eq!(net.ring(0).watermarks(sender(1)), (9, 9));
}

#[test]
fn suspicions_are_repeated_but_not_with_every_round() {
    let mut net = Network::new(1, &nodes(3), LAYOUT);
    net.kill(2);
    for packet in 1..=400 {
        net.receive(0, sender(1), packet);
        net.receive(1, sender(1), packet);
        net.run(Duration::from_millis(10));
    }
    // Four seconds, one report a second by the neighbour and by the leader.
    assert!(net.ring(0).stats().rounds > 100);
    for by in [0, 1] {
        let count = suspects(&net, by).len();
        assert!((3..=5).contains(&count), "{count} by {by}");
    }
}

#[test]
fn a_round_survives_the_crash_of_the_tokens_holder() {
    // R062: whoever dies with the token in hand, at whatever moment, rounds go on.
    for steps in 1..120 {
        let mut net = Network::new(steps, &nodes(12), LAYOUT);
        net.receive_all(sender(1), 1..=3);
        let end = net.now.after(Duration::from_secs(1));
        for _ in 0..steps {
            net.step(end);
        }
        let holder = net.route.last().map_or(1, |(_, to, _)| *to);
        if holder == 0 {
            continue;
        }
        net.kill(holder);
        for node in nodes(12).into_iter().filter(|node| *node != holder) {
            net.receive(node, sender(1), 4);
        }
        let before = net.ring(0).stats().rounds;
        net.run(Duration::from_secs(3));
        assert!(net.ring(0).stats().rounds > before, "after {steps} steps");
        assert!(suspects(&net, 0).contains(&holder));
        let live: Vec<u64> = nodes(12)
            .into_iter()
            .filter(|node| *node != holder)
            .collect();
        let next = view(2, &live, LAYOUT);
        for node in &live {
            net.install(*node, &next);
        }
        net.run(Duration::from_secs(1));
        assert_eq!(
            net.ring(0).watermarks(sender(1)),
            (4, 4),
            "after {steps} steps"
        );
    }
}

#[test]
fn a_dead_region_leader_is_suspected_and_the_next_view_has_another() {
    for count in [3, 12] {
        let mut net = Network::new(1, &nodes(count), LAYOUT);
        net.receive_all(sender(1), 1..=3);
        net.run(Duration::from_secs(1));
        net.kill(0);
        for node in 1..count {
            net.receive(node, sender(1), 4);
        }
        net.run(Duration::from_millis(350));
        let watchers = (1..count).filter(|node| suspects(&net, *node).contains(&0));
        let watchers: Vec<u64> = watchers.collect();
        // The next one in the leader's partition and the other partition leaders.
        let expected: Vec<u64> = if count == 3 {
            vec![1]
        } else {
            vec![1, 2, 3, 4]
        };
        assert_eq!(watchers, expected);
        let live: Vec<u64> = (1..count).collect();
        let next = view(2, &live, LAYOUT);
        for node in &live {
            net.install(*node, &next);
        }
        net.run(Duration::from_secs(1));
        assert!(
            live.iter()
                .all(|node| net.ring(*node).watermarks(sender(1)) == (4, 4))
        );
    }
}

#[test]
fn an_idle_region_suspects_nobody() {
    let mut net = Network::new(1, &nodes(12), LAYOUT);
    net.receive_all(sender(1), 1..=3);
    net.run(Duration::from_secs(1));
    net.kill(0);
    net.run(Duration::from_secs(100));
    assert!((1..12).all(|node| suspects(&net, node).is_empty()));
}

#[test]
fn members_of_an_older_view_do_not_hold_up_those_of_a_newer_one_for_long() {
    // Views arrive at different times; nobody is taken for dead because of 50 ms.
    let mut net = Network::new(1, &nodes(12), LAYOUT);
    net.receive_all(sender(1), 1..=3);
    let next = view(2, &nodes(12), LAYOUT);
    for node in nodes(12) {
        net.install(node, &next);
        net.run(Duration::from_millis(4));
    }
    net.run(Duration::from_secs(1));
    assert!(
        nodes(12)
            .iter()
            .all(|node| net.ring(*node).watermarks(sender(1)) == (3, 3))
    );
    assert!(
        nodes(12)
            .iter()
            .all(|node| suspects(&net, *node).is_empty())
    );
}

/// A token that a member claims to have made.
fn forged(from: Origin, head: &TokenHead, slots: &[SlotHead], ranges: &[SeqRange]) -> Vec<u8> {
    let header = config().template.header(from);
    let mut bytes = Vec::new();
    let suspects = [MemberIndex(60_000), MemberIndex(1)];
    let mut writer = TokenWriter::new(&header, head, &suspects, 1400, &mut bytes);
    for slot in slots {
        assert!(writer.slot(slot, ranges, ranges));
    }
    bytes
}

fn head(leader: Origin, round: u64, level: u8) -> TokenHead {
    TokenHead {
        region: RegionId(1),
        view: ViewNumber(1),
        leader,
        round,
        level,
        ring: 0,
        visited: 1,
        rate_packets: 1,
        credit_bytes: 0,
    }
}

fn slot(number: u64) -> SlotHead {
    SlotHead {
        origin: sender(1),
        cutoff: number,
        highest: number,
        arrived: number,
        cached: number,
        stable: number,
        stable_upto: 0,
        cached_upto: 0,
        losers: u16::MAX,
        naks_cut: false,
        common_cut: true,
    }
}

#[test]
fn slow_news_of_a_view_is_no_reason_for_suspicion() {
    let mut net = Network::new(1, &nodes(12), LAYOUT);
    net.receive_all(sender(1), 1..=3);
    net.run(Duration::from_secs(1));
    let next = view(2, &nodes(12), LAYOUT);
    for node in nodes(12) {
        net.install(node, &next);
        net.receive(node, sender(1), 4);
        net.run(Duration::from_millis(30));
    }
    assert!(net.ring(0).stats().tokens_bypassed > 0);
    net.run(Duration::from_secs(3));
    assert!(
        nodes(12)
            .iter()
            .all(|node| suspects(&net, *node).is_empty())
    );
    assert!(
        nodes(12)
            .iter()
            .all(|node| net.ring(*node).watermarks(sender(1)) == (4, 4))
    );
}

#[test]
fn a_newcomer_learns_what_became_stable_before_it_came() {
    // It holds packets of the old view; the region has closed the stream. The first round of a
    // view takes place in any case.
    let mut net = Network::new(1, &nodes(12), LAYOUT);
    net.receive_all(sender(1), 1..=3);
    net.run(Duration::from_secs(1));
    let next = view(2, &nodes(13), LAYOUT);
    net.add(12, &next, config());
    for packet in 1..=3 {
        net.receive(12, sender(1), packet);
    }
    for node in nodes(12) {
        net.install(node, &next);
    }
    net.run(Duration::from_secs(1));
    assert_eq!(net.ring(12).watermarks(sender(1)), (3, 3));
}

// Rule R-TOK-1.
#[test]
fn a_second_self_elected_leader_is_harmless() {
    // R029: node 5 believes that it leads and calls rounds for ten seconds; the rounds of the
    // true leader go on, and the watermarks are right (checked by the network).
    let mut net = Network::new(1, &nodes(12), LAYOUT);
    let other = origin(5);
    for round in 1..=1000 {
        for node in nodes(12).into_iter().filter(|node| round % 3 != node % 3) {
            net.receive(node, sender(1), round);
        }
        for to in nodes(12).into_iter().filter(|node| *node != 5) {
            let bytes = forged(other, &head(other, round, CALL), &[slot(round / 2)], &[]);
            net.inject(to, &bytes);
        }
        net.run(Duration::from_millis(10));
    }
    net.run(Duration::from_secs(3));
    assert!(
        nodes(12)
            .iter()
            .all(|node| net.ring(*node).watermarks(sender(1)) == (1000, 1000))
    );
    assert_eq!(net.ring(0).stats().rounds_abandoned, 0);
}

#[test]
fn absurd_tokens_neither_loop_nor_overflow() {
    let mut net = Network::new(1, &nodes(12), LAYOUT);
    net.repair = false;
    net.receive_all(sender(1), 1..=3);
    net.run(Duration::from_secs(1));
    let from = origin(4);
    let ranges = [
        SeqRange::new(0, u64::MAX - 2).unwrap(),
        SeqRange::one(u64::MAX - 1),
    ];
    for level in [0, 1, 2, 7, CALL] {
        for round in [0, 1, u64::MAX] {
            for leader in [origin(0), from, origin(99)] {
                let mut head = head(leader, round, level);
                head.visited = u16::MAX;
                let contradiction = SlotHead {
                    stable_upto: 9,
                    cached_upto: 8,
                    origin: sender(2),
                    ..slot(9)
                };
                let slots = [slot(u64::MAX), slot(7), contradiction];
                for to in nodes(12) {
                    net.inject(to, &forged(from, &head, &slots, &ranges));
                }
            }
        }
    }
    net.run(Duration::from_secs(2));
    assert!(
        nodes(12)
            .iter()
            .all(|node| net.ring(*node).watermarks(sender(1)) == (3, 3))
    );
    assert!(
        nodes(12)
            .iter()
            .all(|node| net.ring(*node).watermarks(sender(2)) == (0, 0))
    );
}

#[test]
fn tokens_of_strangers_and_of_other_regions_are_ignored() {
    let mut net = Network::new(1, &nodes(3), LAYOUT);
    let stranger = origin(99);
    net.inject(
        1,
        &forged(stranger, &head(origin(0), 5, 0), &[slot(3)], &[]),
    );
    net.inject(
        1,
        &forged(stranger, &head(stranger, 5, CALL), &[slot(3)], &[]),
    );
    let mut foreign = head(origin(0), 5, 0);
    foreign.region = RegionId(2);
    net.inject(1, &forged(origin(0), &foreign, &[slot(3)], &[]));
    let mut other_ring = head(origin(0), 5, 0);
    other_ring.ring = 1;
    net.inject(1, &forged(origin(0), &other_ring, &[slot(3)], &[]));
    assert_eq!(net.ring(1).stats().strangers, 4);
    assert!(net.actions.is_empty());
    // Not even a receipt, but for the well-formed one.
    assert_eq!(net.tokens, 0);
}

#[test]
fn a_repeated_token_is_receipted_again_but_counted_once() {
    let mut net = Network::new(1, &nodes(3), LAYOUT);
    net.flaws().duplicate_ppm = 1_000_000;
    net.receive_all(sender(1), 1..=2);
    net.run(Duration::from_secs(1));
    assert_eq!(net.ring(0).watermarks(sender(1)), (2, 2));
    let stats = net.ring(1).stats();
    assert_eq!(stats.tokens_received, 2 * stats.tokens_sent);
    assert!(stats.stale >= stats.tokens_sent);
    // At the leader: tokens come back twice, and each is receipted twice in two copies.
    let leader = net.ring(0).stats();
    assert_eq!(leader.tokens_received, 2 * leader.rounds);
    assert_eq!(leader.stale, leader.rounds + 3 * leader.tokens_sent);
    assert_eq!(net.ring(0).stats().rounds_incomplete, 0);
}

#[test]
fn a_summary_of_another_view_or_of_a_stranger_teaches_nothing() {
    let mut net = Network::new(1, &nodes(3), LAYOUT);
    let line = SummarySlot {
        origin: sender(1),
        cutoff: 0,
        stable_upto: 0,
        cached_upto: 0,
    };
    let line = SummarySlot { cutoff: 9, ..line };
    for (from, view) in [(origin(0), 2), (origin(99), 1)] {
        let header = Header {
            origin: from,
            ..Header::default()
        };
        let mut bytes = Vec::new();
        let lines = core::iter::once(line);
        Summary::encode(&header, RegionId(1), ViewNumber(view), 4, lines, &mut bytes);
        net.inject(1, &bytes);
    }
    assert!(net.actions.is_empty());
    assert_eq!(
        (net.ring(1).stats().stale, net.ring(1).stats().strangers),
        (1, 1)
    );
}

// Rule R-SEC-41.
#[test]
fn a_round_that_was_made_up_holds_the_ring_for_half_a_second() {
    for (from, to) in [(1, 2), (2, 0), (1, 0)] {
        let mut net = Network::new(1, &nodes(3), LAYOUT);
        net.receive_all(sender(1), 1..=3);
        net.run(Duration::from_secs(1));
        let far = head(origin(0), u64::MAX - 1, 0);
        net.inject(to, &forged(origin(from), &far, &[], &[]));
        net.receive_all(sender(1), 4..=5);
        net.run(Duration::from_secs(3));
        for node in nodes(3) {
            let marks = net.ring(node).watermarks(sender(1));
            assert_eq!(marks, (5, 5), "{node}, from {from} to {to}");
        }
    }
}

// Rule R-SEC-40.
#[test]
fn who_does_not_lead_does_not_say_how_far_the_region_is() {
    let mut net = Network::new(1, &nodes(3), LAYOUT);
    net.receive_all(sender(1), 1..=3);
    net.run(Duration::from_secs(1));
    let slot = SummarySlot {
        origin: sender(1),
        cutoff: 9,
        stable_upto: 3,
        cached_upto: 3,
    };
    let said = |by: u64| {
        let (header, mut bytes) = (config().template.header(origin(by)), Vec::new());
        let slots = [slot].into_iter();
        Summary::encode(&header, RegionId(1), ViewNumber(1), 900, slots, &mut bytes);
        bytes
    };
    net.inject(2, &said(1));
    let call = head(origin(1), 900, CALL);
    net.inject(2, &forged(origin(1), &call, &[], &[]));
    assert_eq!(net.ring(2).cutoff(sender(1)), 3);
    assert_eq!(net.ring(2).stats().strangers, 2);
    net.inject(2, &said(0));
    assert_eq!(net.ring(2).cutoff(sender(1)), 9);
}
