//! A receiver whose host has hardly any time for it, but answers, holds the others for a while and no
//! longer.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::Lab;
use qsm_system::cluster::{Cluster, Plan};
use qsm_system::trial::{Outcome, compare};

/// More than a slow machine needs; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(100);
/// The receiver gets the CPU for so long at a time.
const RUNS: Duration = Duration::from_millis(4);
/// It has none for so long in between: it answers each question of the service in time.
const STANDS: Duration = Duration::from_millis(120);
/// Turns of both before somebody looks.
const TURNS: u32 = 8;
const RECEIVERS: usize = 4;
const VICTIM: usize = RECEIVERS - 1;
/// As the service and the node say it.
const SLOW: &str = "reason: Slow";

/// Takes the CPU away from the last receiver most of the time, until the service says that it is slow.
/// A busy machine may give it even less, so that it is away as a silent one before.
fn slow_down(cluster: &mut Cluster) {
    let start = Instant::now();
    loop {
        for _ in 0..TURNS {
            let victim = cluster.actor(Some(VICTIM)).unwrap();
            victim.freeze().unwrap();
            sleep(STANDS);
            victim.thaw().unwrap();
            sleep(RUNS);
        }
        let said = cluster.service_events().unwrap();
        if said.contains(SLOW) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "the service has said: {said}");
    }
}

fn await_return(cluster: &mut Cluster) {
    let start = Instant::now();
    loop {
        let said = cluster.ask(VICTIM, "events", "events").unwrap();
        let after = said.rsplit_once(SLOW).map(|(_, after)| after);
        if after.is_some_and(|after| after.contains("Back {")) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "the node has said: {said}");
        sleep(Duration::from_millis(10));
    }
}

/// Rule R-RATE-6.
#[test]
fn a_receiver_that_hardly_runs_is_away_and_has_everything_in_the_end() {
    if let Err(reason) = Lab::available() {
        eprintln!("skipped: {reason}");
        return;
    }
    let mut plan = Plan::new(Path::new(env!("CARGO_BIN_EXE_system-node")), RECEIVERS);
    plan.service_options = vec![String::from("--slow-after=3")];
    // What it may have unread is published in a tenth of the time for which it stands still.
    plan.last_options = vec![String::from("--receive-buffer=32768")];
    let mut cluster = Cluster::start(plan).unwrap();
    let life = cluster.counter(VICTIM, "incarnation").unwrap();
    cluster.publish(500, 5000).unwrap();
    slow_down(&mut cluster);
    await_return(&mut cluster);
    let mut outcome = Outcome::default();
    compare(&mut cluster, &mut outcome).unwrap();
    assert!(outcome.is_whole(), "{outcome} {:?}", outcome.ranges);
    assert_eq!(cluster.counter(VICTIM, "incarnation").unwrap(), life);
    cluster.quit().unwrap();
}
