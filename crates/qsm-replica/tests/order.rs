//! Replicas with a total order at nodes of one process, over loopback.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use qsm::{Embedded, Node};
use qsm_replica::{
    BindError, Limits, Notice, Order, Replica, ReplicaError, RestoreError, StateMachine,
};
use support::{PATIENCE, site};

/// A number that each update makes another one of, by its place among the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Chain(u64);

impl StateMachine for Chain {
    fn apply(&mut self, update: &[u8]) {
        let number = u64::from_le_bytes(update.try_into().unwrap());
        self.0 = (self.0.rotate_left(7) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn snapshot(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        self.0 = u64::from_le_bytes(snapshot.try_into().map_err(|_| RestoreError)?);
        Ok(())
    }
    fn digest(&self) -> Option<u64> {
        Some(self.0)
    }
}

/// A cluster with addresses of its own, of which one node is the service.
fn cluster() -> impl Fn(&str) -> Node {
    let site = site();
    move |name| {
        let service = match name {
            "service" => Embedded::Always,
            _ => Embedded::Never,
        };
        let node = site(name).embedded_service(service).start().unwrap();
        node.wait_admitted(PATIENCE).unwrap();
        node
    }
}

fn join(node: &Node) -> Replica<Chain> {
    let limits = Limits::default();
    let replica =
        Replica::join_in_order(node, "chain", Chain::default(), Order::Total, limits).unwrap();
    replica.wait_live(PATIENCE).unwrap();
    replica
}

/// Publishes these numbers, and tells how many they were.
fn publish(replica: &Replica<Chain>, numbers: impl Iterator<Item = u64>) -> u64 {
    let mut sent = 0;
    for number in numbers {
        replica.update(&number.to_le_bytes()).unwrap();
        sent += 1;
    }
    sent
}

/// Waits until a replica has told what is looked for, and returns all that it told.
fn told(replica: &Replica<Chain>, looked_for: impl Fn(&Notice) -> bool) -> Vec<Notice> {
    let (mut all, until) = (replica.notices(), Instant::now() + PATIENCE);
    while !all.iter().any(&looked_for) {
        assert!(Instant::now() < until, "{all:?}");
        let seen = replica.updates();
        // Each turn of the replica ends this wait for an update that does not come.
        let waited = replica.wait_updates(seen + 1, Duration::from_millis(10));
        assert!(matches!(waited, Ok(()) | Err(ReplicaError::NotLive)));
        all.extend(replica.notices());
    }
    all
}

fn rebinds(notice: &Notice) -> bool {
    matches!(notice, Notice::Rebinds(_))
}

fn own(notice: &Notice) -> bool {
    matches!(notice, Notice::Sequencer { own: true, .. })
}

/// Waits until three replicas vote: then the end of one leaves a majority.
fn wait_voters(replicas: [&Replica<Chain>; 3]) {
    let until = Instant::now() + PATIENCE;
    while replicas.iter().any(|replica| !replica.votes()) {
        assert!(Instant::now() < until);
        thread::yield_now();
    }
}

#[test]
fn replicas_are_equal_though_the_sequencer_is_killed_while_all_publish() {
    let site = cluster();
    let _service = site("service");
    let nodes = [site("first"), site("second"), site("third")];
    let [first, second, third] = nodes.each_ref().map(join);
    wait_voters([&first, &second, &third]);
    assert!(told(&first, |_| true).iter().any(own));
    let [first_node, ..] = nodes;
    let done = AtomicBool::new(false);
    // As many as go while the sequencer lives, and none does, and the next one lives.
    let publishing = &|replica: &Replica<Chain>| {
        let running = (0..).take_while(|_| !done.load(Ordering::Relaxed));
        publish(replica, running)
    };
    let (sent, notices) = thread::scope(|scope| {
        let threads = [&second, &third].map(|replica| scope.spawn(move || publishing(replica)));
        first.wait_updates(1000, PATIENCE).unwrap();
        // Not a word of it: its node is gone at once.
        first_node.shutdown(Duration::ZERO).map_or_else(drop, drop);
        let next = |notice: &Notice| matches!(notice, Notice::Sequencer { term: 2.., .. });
        let notices = [&second, &third].map(|replica| told(replica, next));
        done.store(true, Ordering::Relaxed);
        let sent: u64 = threads.map(|thread| thread.join().unwrap()).iter().sum();
        (sent, notices.concat())
    });
    for replica in [&second, &third] {
        replica.wait_updates(sent, PATIENCE).unwrap();
    }
    assert_eq!(second.read(|state| *state), third.read(|state| *state));
    assert_eq!((second.updates(), third.updates()), (sent, sent));
    let notices = [notices, second.notices(), third.notices()].concat();
    assert!(!notices.iter().any(rebinds), "{notices:?}");
    assert!(notices.iter().any(own), "{notices:?}");
    assert_eq!(first.stats().own_terms, 1);
    let mut counted = second.stats();
    counted += third.stats();
    assert!(
        counted.elections >= 1 && counted.own_terms >= 1,
        "{counted}"
    );
    assert!(counted.terms >= 4, "{counted}");
}

#[test]
fn a_sequencer_that_leaves_hands_over_to_the_only_other_one() {
    let site = cluster();
    let _service = site("service");
    let nodes = [site("first"), site("second")];
    let [first, second] = nodes.each_ref().map(join);
    assert_eq!(publish(&first, 0..10), 10);
    second.wait_updates(10, PATIENCE).unwrap();
    drop(first);
    assert_eq!(publish(&second, 10..20), 10);
    second.wait_updates(20, PATIENCE).unwrap();
    let notices = told(&second, own);
    assert!(!notices.iter().any(rebinds), "{notices:?}");
}

#[test]
fn a_replica_with_another_order_is_refused() {
    let site = cluster();
    let _service = site("service");
    let nodes = [site("first"), site("second")];
    let _total = join(&nodes[0]);
    let other = Replica::join(&nodes[1], "chain", Chain::default(), Limits::default()).unwrap();
    let ended = other.wait_live(PATIENCE);
    assert_eq!(ended, Err(ReplicaError::Bind(BindError::Order)));
}
