//! Eight processes, thousands of overlapping groups, 5 % random loss at every receiver: everybody
//! gets everything once and in order (each process checks that itself), repaired by receivers.

mod stage;

use stage::{Layout, Stage, exact, hierarchical, irregular, share};

const NODES: usize = 8;
/// Processes that publish and receive nothing, so that all members of a region may miss a packet.
const PUBLISHERS: usize = 2;
const GROUPS: usize = 4096;
const LOSS_PPM: u32 = 50_000;
/// A million messages over the three layouts with two publishers each.
const MESSAGES: u64 = 1_000_000 / 6;

fn everybody_gets_everything(layout: &Layout) {
    let Some(mut stage) = Stage::new(NODES + PUBLISHERS) else {
        return;
    };
    for node in 0..NODES {
        stage.start(node, LOSS_PPM);
        stage.subscribe(node, layout);
    }
    let publishers = NODES..NODES + PUBLISHERS;
    for node in publishers.clone() {
        stage.start(node, LOSS_PPM);
        stage.publish(node, layout);
    }
    for node in publishers.clone() {
        stage.tell(node, &format!("send {MESSAGES} 100"));
    }
    for node in publishers {
        stage.expect(node, "sent");
        stage.ask(node, "flush", "flushed");
    }
    for node in 0..NODES {
        let expected = 2 * share(layout, node, MESSAGES);
        stage.ask(node, &format!("await {expected}"), "got");
        let report = stage.report(node);
        assert_eq!(report["delivered"], expected, "node {node}");
        assert_eq!(
            report["messages_lost"] + report["packets_lost"],
            0,
            "node {node}"
        );
    }
    repairs_come_from_receivers(&mut stage);
}

/// R084: more than 99 % of the repairs, and the sender is not asked for what a cacher has: of the
/// packets that one of four cachers misses, one in 8000 is missed by the other three too. (That
/// it is exactly so, packet by packet, is tested in `qsm-proto`.)
fn repairs_come_from_receivers(stage: &mut Stage) {
    let gaps = stage.total("gaps");
    let by_receivers = stage.total("repaired_by_cacher")
        + stage.total("repaired_by_pull")
        + stage.total("repaired_by_push");
    let by_sender = stage.total("repaired_by_sender");
    assert!(gaps > 1000, "{gaps} packets missed: was there any loss?");
    assert!(
        by_receivers > 99 * by_sender,
        "{by_receivers} repairs by receivers, {by_sender} by senders"
    );
    let asked = stage.total("sender_asked");
    assert!(
        asked * 1000 <= gaps,
        "{asked} of {gaps} missed packets asked of their sender"
    );
    // Only where rounds fail, on a machine that has no time for the nodes, say, is there one.
    let failed = stage.total("rounds_abandoned") + stage.total("tokens_bypassed");
    let resorts = stage.total("last_resort");
    assert!(
        resorts == 0 || failed > 0,
        "{resorts} without a failed round"
    );
}

#[test]
fn groups_that_overlap_exactly() {
    everybody_gets_everything(&exact(GROUPS, NODES));
}

#[test]
fn groups_that_overlap_in_a_hierarchy() {
    everybody_gets_everything(&hierarchical(GROUPS, NODES));
}

#[test]
fn groups_that_overlap_irregularly() {
    everybody_gets_everything(&irregular(GROUPS, NODES));
}
