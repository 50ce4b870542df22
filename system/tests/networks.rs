//! Nodes on two networks: one of them fails in mid-stream, comes back, and the other one fails. Nobody notices.

mod stage;

use std::time::{Duration, Instant};

use lab::{Lab, Network};
use stage::{Layout, Stage, exact};

/// They receive; the first one also publishes.
const RECEIVERS: usize = 3;
/// Publishes and receives nothing, so that no view names it.
const PUBLISHER: usize = 3;
const GROUPS: usize = 16;
/// A failure lasts longer than it takes to declare a node dead.
const FAILURE: Duration = Duration::from_secs(2);
/// Messages of each publisher between two looks at the clock.
const BURST: u64 = 400;

/// Traffic for so long; returns the messages sent by each publisher.
fn publish_for(stage: &mut Stage, duration: Duration) -> u64 {
    let (start, mut sent) = (Instant::now(), 0);
    while sent == 0 || start.elapsed() < duration {
        for publisher in [0, PUBLISHER] {
            stage.ask(publisher, &format!("send {BURST} 200"), "sent");
        }
        sent += BURST;
    }
    for publisher in [0, PUBLISHER] {
        stage.ask(publisher, "flush", "flushed");
    }
    sent
}

/// Traffic, and something that happens in the middle of it.
fn publish_and(stage: &mut Stage, sent: u64, happens: impl FnOnce(&Stage)) -> u64 {
    const MESSAGES: u64 = 20_000;
    for publisher in [0, PUBLISHER] {
        stage.tell(publisher, &format!("send {MESSAGES} 200"));
    }
    stage.ask(1, &format!("await {}", 2 * sent + MESSAGES / 10), "got");
    happens(stage);
    for publisher in [0, PUBLISHER] {
        stage.expect(publisher, "sent");
        stage.ask(publisher, "flush", "flushed");
    }
    MESSAGES
}

/// Everybody has exactly so many messages of each publisher (each checks their content and order), and is in the life
/// that it began with.
fn all_have(stage: &mut Stage, sent: u64, lives: &[u64]) {
    for (node, life) in lives.iter().enumerate() {
        let report = stage.report(node);
        assert_eq!(report["incarnation"], *life, "node {node} was excluded");
        let lost = report["packets_lost"] + report["messages_lost"];
        assert_eq!(lost, 0, "node {node}");
        if node < RECEIVERS {
            // Its own messages come back to node 0 without the network.
            stage.ask(node, &format!("await {}", 2 * sent), "got");
            assert_eq!(stage.report(node)["delivered"], 2 * sent, "node {node}");
        }
    }
}

/// What those have got by the second network who do not publish: these hear themselves.
fn by_second(stage: &mut Stage) -> u64 {
    (1..RECEIVERS)
        .map(|node| stage.report(node)["by_second"])
        .sum()
}

fn either_network_may_fail(mut stage: Stage) {
    let layout: Layout = exact(GROUPS, RECEIVERS);
    for node in 0..=PUBLISHER {
        stage.start(node, 0);
        if node < RECEIVERS {
            stage.subscribe(node, &layout);
        }
    }
    for publisher in [0, PUBLISHER] {
        stage.publish(publisher, &layout);
    }
    let lives: Vec<u64> = (0..=PUBLISHER)
        .map(|node| stage.report(node)["incarnation"])
        .collect();

    let mut sent = publish_for(&mut stage, Duration::ZERO);
    all_have(&mut stage, sent, &lives);
    let duplicates = stage.total("duplicates");
    assert!(duplicates > 0, "is all sent by both?");

    for down in [Network::First, Network::Second] {
        let more = publish_and(&mut stage, sent, |stage| {
            stage.set_network(down, false);
        });
        sent += more;
        all_have(&mut stage, sent, &lives);
        let before = by_second(&mut stage);
        let more = publish_for(&mut stage, FAILURE);
        sent += more;
        all_have(&mut stage, sent, &lives);
        let came = by_second(&mut stage) - before;
        match down {
            Network::First => assert!(came > more / 10, "{came} datagrams of {more} messages"),
            Network::Second => assert_eq!(came, 0),
        }
        sent += publish_and(&mut stage, sent, |stage| stage.set_network(down, true));
        all_have(&mut stage, sent, &lives);
    }
}

#[test]
fn either_network_may_fail_and_nothing_is_lost() {
    if let Some(stage) = Stage::with_two_networks(RECEIVERS + 1) {
        either_network_may_fail(stage);
    }
}

#[test]
fn either_network_of_ipv6_may_fail_and_nothing_is_lost() {
    if let Some(stage) = Stage::with_two_networks_of_ipv6(RECEIVERS + 1) {
        either_network_may_fail(stage);
    }
}

/// Nodes then hear named senders on either network.
#[test]
fn either_network_may_fail_where_senders_are_named() {
    let lab = || Lab::new()?.and_second_network();
    if let Some(stage) = Stage::of(RECEIVERS + 1, lab, &["--source-specific"]) {
        either_network_may_fail(stage);
    }
}
