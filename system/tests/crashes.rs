//! SIGKILL in mid-stream: of a receiver, a partition leader, the region leader, a sender, and the
//! membership service. Survivors lose nothing, agree, go on within two seconds, and free memory.

mod stage;

use std::time::{Duration, Instant};

use stage::{Layout, Stage, exact};

const RECEIVERS: usize = 8;
/// Publishes and receives nothing.
const PUBLISHER: usize = 8;
/// A second one of that kind, or a late member.
const SPARE: usize = 9;
const LOSS_PPM: u32 = 10_000;
const CHUNK: u64 = 20_000;

fn layout() -> Layout {
    exact(64, RECEIVERS)
}

/// Eight members of one region, started in the order of their addresses, so that node 0 leads the
/// region and its first partition, and node 1 the second one; and a publisher outside.
fn region() -> Option<Stage> {
    let mut stage = Stage::new(SPARE + 1)?;
    for node in 0..RECEIVERS {
        stage.start(node, LOSS_PPM);
        stage.subscribe(node, &layout());
    }
    stage.start(PUBLISHER, LOSS_PPM);
    stage.publish(PUBLISHER, &layout());
    Some(stage)
}

/// The publisher sends, and when a part of it has arrived everywhere `event` happens. Returns how
/// long it then took until everything sent was stable at all live members.
fn in_mid_stream(stage: &mut Stage, before: u64, event: impl FnOnce(&mut Stage)) -> Duration {
    stage.tell(PUBLISHER, &format!("send {CHUNK} 200"));
    let receivers: Vec<usize> = stage
        .nodes
        .keys()
        .copied()
        .filter(|node| *node < PUBLISHER)
        .collect();
    for node in receivers {
        stage.ask(node, &format!("await {}", before + CHUNK / 10), "got");
    }
    event(stage);
    let start = Instant::now();
    stage.expect(PUBLISHER, "sent");
    stage.ask(PUBLISHER, "flush", "flushed");
    start.elapsed()
}

/// Every live receiver has exactly so many messages, and lost none.
fn all_have(stage: &mut Stage, messages: u64) {
    let receivers: Vec<usize> = stage
        .nodes
        .keys()
        .copied()
        .filter(|node| *node < PUBLISHER)
        .collect();
    for node in receivers {
        stage.ask(node, &format!("await {messages}"), "got");
        let report = stage.report(node);
        assert_eq!(report["delivered"], messages, "node {node}");
        assert_eq!(
            report["packets_lost"] + report["messages_lost"],
            0,
            "node {node}"
        );
    }
}

/// Waits until no node holds packets any more.
fn memory_returns(stage: &mut Stage) {
    let start = Instant::now();
    while stage.total("receive_bytes") + stage.total("send_bytes") > 0 {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "memory is still held after 20 s"
        );
    }
}

fn member_dies(victim: usize) {
    let Some(mut stage) = region() else { return };
    let took = in_mid_stream(&mut stage, 0, |stage| stage.kill(victim));
    assert!(
        took < Duration::from_secs(2),
        "stable only {took:?} after the crash"
    );
    all_have(&mut stage, CHUNK);
    let took = in_mid_stream(&mut stage, CHUNK, |_| {});
    assert!(took < Duration::from_secs(2), "{took:?} without a crash");
    all_have(&mut stage, 2 * CHUNK);
    memory_returns(&mut stage);
}

#[test]
fn a_receiver_dies() {
    member_dies(6);
}

#[test]
fn a_partition_leader_dies() {
    member_dies(1);
}

#[test]
fn the_region_leader_dies() {
    member_dies(0);
}

#[test]
fn survivors_agree_on_what_a_dead_sender_sent() {
    let Some(mut stage) = region() else { return };
    stage.start(SPARE, LOSS_PPM);
    stage.publish(SPARE, &layout());
    stage.tell(SPARE, &format!("send {} 200", 100 * CHUNK));
    for node in 0..RECEIVERS {
        stage.ask(node, &format!("await {CHUNK}"), "got");
    }
    stage.kill(SPARE);
    let digests: Vec<String> = (0..RECEIVERS)
        .map(|node| {
            stage.ask(node, "settle", "settled");
            stage.ask(node, "digest", "digest")
        })
        .collect();
    assert!(
        digests.iter().all(|digest| *digest == digests[0]),
        "{digests:?}"
    );
    let took = in_mid_stream(&mut stage, CHUNK, |_| {});
    assert!(
        took < Duration::from_secs(2),
        "{took:?} after a sender's death"
    );
    memory_returns(&mut stage);
}

#[test]
fn traffic_goes_on_without_the_membership_service_and_joins_work_again_after_its_return() {
    let Some(mut stage) = region() else { return };
    let took = in_mid_stream(&mut stage, 0, |stage| stage.service = None);
    assert!(
        took < Duration::from_secs(2),
        "stopped for {took:?} without the service"
    );
    all_have(&mut stage, CHUNK);
    let took = in_mid_stream(&mut stage, CHUNK, Stage::start_service);
    assert!(
        took < Duration::from_secs(2),
        "stopped for {took:?} at its return"
    );
    all_have(&mut stage, 2 * CHUNK);
    let start = Instant::now();
    stage.start(SPARE, 0);
    stage.subscribe(SPARE, &exact(64, SPARE + 1));
    let joined = start.elapsed();
    assert!(joined < Duration::from_secs(5), "a join took {joined:?}");
    stage.publish(PUBLISHER, &exact(64, RECEIVERS + 1));
    stage.ask(PUBLISHER, "send 640 200", "sent");
    stage.ask(SPARE, "await 640", "got");
    all_have(&mut stage, 2 * CHUNK + 640);
}
