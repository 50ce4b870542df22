//! A cluster of IPv6: loss, a crash in mid-stream, a newcomer; everybody who lives gets everything.

mod stage;

use stage::{Stage, exact, share};

const RECEIVERS: usize = 3;
/// Publishes and receives nothing.
const PUBLISHER: usize = 3;
const GROUPS: usize = 16;
const LOSS_PPM: u32 = 50_000;
const MESSAGES: u64 = 40_000;

/// These nodes have exactly so many messages (each checks their content and order), and lost none.
fn all_have(stage: &mut Stage, nodes: &[usize], messages: u64) {
    for &node in nodes {
        stage.ask(node, &format!("await {messages}"), "got");
        let report = stage.report(node);
        assert_eq!(report["delivered"], messages, "node {node}");
        let lost = report["packets_lost"] + report["messages_lost"];
        assert_eq!(lost, 0, "node {node}");
    }
}

#[test]
fn losses_and_a_crash_cost_the_survivors_nothing() {
    let Some(mut stage) = Stage::with_ipv6(RECEIVERS + 1) else {
        return;
    };
    let layout = exact(GROUPS, RECEIVERS);
    for node in 0..RECEIVERS {
        stage.start(node, LOSS_PPM);
        stage.subscribe(node, &layout);
    }
    stage.start(PUBLISHER, LOSS_PPM);
    stage.publish(PUBLISHER, &layout);
    assert_eq!(share(&layout, 0, MESSAGES), MESSAGES);

    stage.tell(PUBLISHER, &format!("send {MESSAGES} 200"));
    for node in 0..RECEIVERS {
        stage.ask(node, &format!("await {}", MESSAGES / 10), "got");
    }
    stage.kill(0);
    stage.expect(PUBLISHER, "sent");
    stage.ask(PUBLISHER, "flush", "flushed");
    all_have(&mut stage, &[1, 2], MESSAGES);
    assert!(stage.total("gaps") > 100, "was there any loss?");

    // One comes in the place of the dead one, and hears what is sent from then on.
    stage.start(0, LOSS_PPM);
    stage.subscribe(0, &layout);
    stage.publish(PUBLISHER, &layout);
    stage.ask(PUBLISHER, "send 1600 200", "sent");
    stage.ask(PUBLISHER, "flush", "flushed");
    all_have(&mut stage, &[0], 1600);
    all_have(&mut stage, &[1, 2], MESSAGES + 1600);
}
