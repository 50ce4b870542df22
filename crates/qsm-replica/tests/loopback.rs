//! Replicas at nodes of one process, over loopback.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use qsm::{Builder, Embedded, Node};
use qsm_replica::{Limits, Notice, Replica, RestoreError, StateMachine};
use support::{PATIENCE, site};

/// Of the state beside the sum: a snapshot of some forty chunks.
const WEIGHT: usize = 5 << 20;

/// A sum of updates, with weight.
#[derive(Clone)]
struct Sum {
    sum: u64,
    weight: Vec<u8>,
}

impl Sum {
    fn new() -> Self {
        Self {
            sum: 0,
            weight: vec![7; WEIGHT],
        }
    }
}

impl StateMachine for Sum {
    fn apply(&mut self, update: &[u8]) {
        let number = u64::from_le_bytes(update.try_into().unwrap());
        self.sum = self
            .sum
            .wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    fn snapshot(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sum.to_le_bytes());
        out.extend_from_slice(&self.weight);
    }
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        let (sum, weight) = snapshot.split_first_chunk::<8>().ok_or(RestoreError)?;
        self.sum = u64::from_le_bytes(*sum);
        self.weight = weight.to_vec();
        Ok(())
    }
}

fn started(builder: Builder) -> Node {
    let node = builder.start().unwrap();
    node.wait_admitted(PATIENCE).unwrap();
    node
}

fn join(node: &Node) -> Replica<Sum> {
    Replica::join(node, "state", Sum::new(), Limits::default()).unwrap()
}

#[test]
fn a_replica_that_joins_during_updates_has_all_though_a_donor_ends() {
    let site = site();
    let first = started(site("first").embedded_service(Embedded::Always));
    let writer = join(&first);
    writer.wait_live(PATIENCE).unwrap();
    let founded = |notice: &Notice| matches!(notice, Notice::Live { founded: true, .. });
    assert!(writer.notices().iter().any(founded));

    let (second, third) = (started(site("second")), started(site("third")));
    // Not a publisher, so it is the third one's donor.
    let donor = join(&second);
    donor.wait_live(PATIENCE).unwrap();
    let done = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut sent = 0_u64;
            while !done.load(Ordering::Relaxed) {
                sent += 1;
                writer.update(&sent.to_le_bytes()).unwrap();
                // No faster than it reads itself, or its own queue would be full.
                writer
                    .wait_updates(sent.saturating_sub(500), PATIENCE)
                    .unwrap();
            }
            sent
        });
        donor.wait_updates(100, PATIENCE).unwrap();
        let joiner = join(&third);
        // Wherever the transfer stands now.
        drop(donor);
        second.shutdown(Duration::ZERO).map_or_else(drop, drop);
        let joined = joiner.wait_live(PATIENCE);
        done.store(true, Ordering::Relaxed);
        let sent = sending.join().unwrap();
        joined.unwrap();
        joiner.wait_updates(sent, PATIENCE).unwrap();
        writer.wait_updates(sent, PATIENCE).unwrap();
        assert!(joiner.notices().iter().all(|notice| !founded(notice)));
        assert_eq!(
            joiner.read(|state| state.sum),
            writer.read(|state| state.sum)
        );
        assert_eq!(joiner.read(|state| state.weight.len()), WEIGHT);
        let counted = joiner.stats();
        assert_eq!((counted.binds, counted.founded, counted.rebinds), (1, 0, 0));
        assert_eq!(counted.taken_snapshots, 1);
        assert!(counted.taken_bytes > WEIGHT as u64, "{counted}");
        assert!(counted.applied < sent, "{counted}");
        sent
    });
    assert_eq!(writer.updates(), sent);
    let counted = writer.stats();
    assert_eq!((counted.live, counted.founded), (1, 1));
    assert_eq!((counted.published, counted.applied), (sent, sent));
    assert!(counted.given_snapshots >= 1, "{counted}");
    assert!(counted.given_bytes > WEIGHT as u64, "{counted}");
    assert_eq!((counted.refused, counted.malformed), (0, 0));
}

#[test]
fn replicas_that_begin_together_agree_on_one_that_founds() {
    let site = site();
    let first = started(site("first").embedded_service(Embedded::Always));
    let nodes = [first, started(site("second")), started(site("third"))];
    let replicas: Vec<_> = nodes.iter().map(join).collect();
    for replica in &replicas {
        replica.wait_live(PATIENCE).unwrap();
    }
    for (number, replica) in (1_u64..).zip(&replicas) {
        replica.update(&number.to_le_bytes()).unwrap();
    }
    for replica in &replicas {
        replica.wait_updates(3, PATIENCE).unwrap();
    }
    let notices: Vec<_> = replicas.iter().flat_map(Replica::notices).collect();
    let founders = notices
        .iter()
        .filter(|notice| matches!(notice, Notice::Live { founded: true, .. }));
    assert_eq!(founders.count(), 1, "{notices:?}");
    let sums: Vec<_> = replicas
        .iter()
        .map(|replica| replica.read(|state| state.sum))
        .collect();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
}
