//! Source-specific multicast: nodes hear the senders that the service names, and nobody else.

mod stage;

use std::net::{SocketAddr, UdpSocket};

use lab::{Lab, LabError};
use stage::{Layout, Stage, exact};

/// They receive; the first one also publishes.
const RECEIVERS: usize = 3;
/// Publish and receive nothing. The second one comes late.
const PUBLISHERS: [usize; 2] = [3, 4];
/// A host without a node, that sends to the region's address.
const STRANGER: usize = 5;
const GROUPS: usize = 8;
const MESSAGES: u64 = 20_000;
const NOISE: u64 = 2000;
const LOSS_PPM: u32 = 10_000;

/// What a stranger's datagrams, sent while the others are at work, cost the receivers: datagrams that they had to look at
/// to see that they are nonsense.
fn heard_of_a_stranger(
    lab: fn() -> Result<Lab, LabError>,
    options: &'static [&'static str],
) -> Option<u64> {
    let mut stage = Stage::of(STRANGER + 1, lab, options)?;
    let layout: Layout = exact(GROUPS, RECEIVERS);
    for node in 0..RECEIVERS {
        stage.start(node, LOSS_PPM);
        stage.subscribe(node, &layout);
    }
    stage.start(PUBLISHERS[0], LOSS_PPM);
    for publisher in [0, PUBLISHERS[0]] {
        stage.publish(publisher, &layout);
    }
    let address = stage.ask(0, "address", "address");
    let address: SocketAddr = address.trim_start_matches("address ").parse().unwrap();
    if address.is_ipv4() {
        blast(&stage, address);
    }
    for publisher in [0, PUBLISHERS[0]] {
        stage.tell(publisher, &format!("send {MESSAGES} 200"));
    }
    // In the middle of it somebody comes of whom nobody has heard.
    stage.ask(1, &format!("await {}", MESSAGES / 2), "got");
    stage.start(PUBLISHERS[1], LOSS_PPM);
    stage.publish(PUBLISHERS[1], &layout);
    stage.ask(PUBLISHERS[1], &format!("send {MESSAGES} 200"), "sent");
    for publisher in [0, PUBLISHERS[0]] {
        stage.expect(publisher, "sent");
    }
    for publisher in [0, PUBLISHERS[0], PUBLISHERS[1]] {
        stage.ask(publisher, "flush", "flushed");
    }
    let mut nonsense = 0;
    for node in 0..RECEIVERS {
        stage.ask(node, &format!("await {}", 3 * MESSAGES), "got");
        let report = stage.report(node);
        assert_eq!(report["delivered"], 3 * MESSAGES, "node {node}");
        let lost = report["packets_lost"] + report["messages_lost"];
        assert_eq!(lost, 0, "node {node}");
        nonsense += report["discard_version"];
    }
    Some(nonsense)
}

fn blast(stage: &Stage, address: SocketAddr) {
    let _inside = stage.enter(STRANGER);
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    for _ in 0..NOISE {
        socket.send_to(b"noise", address).unwrap();
    }
}

#[test]
fn a_stranger_is_not_heard_and_a_late_sender_loses_nothing() {
    let heard = heard_of_a_stranger(Lab::new, &["--source-specific"]);
    assert!(heard.is_none_or(|heard| heard == 0), "{heard:?}");
}

#[test]
fn otherwise_a_stranger_is_heard() {
    let heard = heard_of_a_stranger(Lab::new, &[]);
    assert!(heard.is_none_or(|heard| heard > 0), "{heard:?}");
}

#[test]
fn a_late_sender_of_ipv6_loses_nothing() {
    heard_of_a_stranger(Lab::with_ipv6, &["--source-specific"]);
}
