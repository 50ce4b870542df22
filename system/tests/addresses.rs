//! Interfaces that go down or change their address in mid-stream: the nodes there keep their lives, and nothing is lost.

mod stage;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use stage::{Layout, Stage, exact};

const RECEIVERS: usize = 3;
const PUBLISHER: usize = RECEIVERS;
const LOSS_PPM: u32 = 10_000;
const CHUNK: u64 = 10_000;

fn layout() -> Layout {
    exact(8, RECEIVERS)
}

/// Three receivers of one region and a publisher outside; each loses packets, so that it needs others.
struct Scene {
    stage: Stage,
    sent: u64,
    lives: BTreeMap<usize, u64>,
}

impl Scene {
    fn new() -> Option<Self> {
        let mut stage = Stage::new(PUBLISHER + 1)?;
        for node in 0..=PUBLISHER {
            stage.start(node, LOSS_PPM);
            if node < RECEIVERS {
                stage.subscribe(node, &layout());
            }
        }
        stage.publish(PUBLISHER, &layout());
        let lives = (0..=PUBLISHER).map(|node| (node, stage.report(node)["incarnation"]));
        let lives = lives.collect();
        Some(Self {
            stage,
            sent: 0,
            lives,
        })
    }

    /// Publishes, and when a part of it has arrived at one receiver `event` happens.
    fn publish_and(&mut self, event: impl FnOnce(&Stage)) {
        let stage = &mut self.stage;
        stage.tell(PUBLISHER, &format!("send {CHUNK} 200"));
        stage.ask(0, &format!("await {}", self.sent + CHUNK / 10), "got");
        event(stage);
        stage.expect(PUBLISHER, "sent");
        stage.ask(PUBLISHER, "flush", "flushed");
        self.sent += CHUNK;
    }

    /// Everybody has everything, in the life that it began with.
    fn nothing_is_lost(&mut self) {
        for node in 0..=PUBLISHER {
            if node < RECEIVERS {
                self.stage.ask(node, &format!("await {}", self.sent), "got");
            }
            let report = self.stage.report(node);
            assert_eq!(
                report["incarnation"], self.lives[&node],
                "node {node} was excluded"
            );
            let lost = report["packets_lost"] + report["messages_lost"];
            assert_eq!(lost, 0, "node {node}");
        }
    }
}

#[test]
fn an_interface_that_was_down_for_seconds_costs_nothing() {
    const DOWN: Duration = Duration::from_secs(4);
    let Some(mut scene) = Scene::new() else {
        return;
    };
    let start = Instant::now();
    scene.publish_and(|stage| stage.ip(1, "link set dev eth0 down"));
    while start.elapsed() < DOWN {
        scene.publish_and(|_| {});
        // Some megabytes a second: less than is kept.
        scene.stage.ask(0, "settle", "settled");
    }
    scene.stage.ip(1, "link set dev eth0 up");
    scene.nothing_is_lost();
    scene.publish_and(|_| {});
    scene.nothing_is_lost();
}

/// The addresses of node 0 to 3 are 10.78.0.1 to 10.78.0.4.
fn moves(node: usize) {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    scene.publish_and(|stage| {
        stage.ip(node, &format!("addr del 10.78.0.{}/16 dev eth0", node + 1));
        stage.ip(node, &format!("addr add 10.78.9.{}/16 dev eth0", node + 1));
    });
    scene.nothing_is_lost();
    scene.publish_and(|_| {});
    scene.nothing_is_lost();
}

#[test]
fn a_receiver_may_change_its_address() {
    moves(1);
}

#[test]
fn the_leader_may_change_its_address() {
    moves(0);
}

#[test]
fn a_publisher_may_change_its_address() {
    moves(PUBLISHER);
}

/// It goes on as a service without memory, which the nodes find by its beacons.
#[test]
fn the_membership_service_may_change_its_address() {
    const SERVICE: usize = PUBLISHER + 1;
    let Some(mut scene) = Scene::new() else {
        return;
    };
    scene.publish_and(|stage| {
        stage.ip(SERVICE, "addr del 10.78.0.5/16 dev eth0");
        stage.ip(SERVICE, "addr add 10.78.9.5/16 dev eth0");
    });
    scene.nothing_is_lost();
    // Only a service can answer this.
    scene
        .stage
        .subscribe(0, &vec![("another".to_owned(), vec![0])]);
    scene.publish_and(|_| {});
    scene.nothing_is_lost();
}
