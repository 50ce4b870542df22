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
const RUNS: Duration = Duration::from_millis(10);
/// It has none for so long in between: less than the silence after which somebody is in doubt.
const STANDS: Duration = Duration::from_millis(250);
const RECEIVERS: usize = 4;
const VICTIM: usize = RECEIVERS - 1;

/// Takes the CPU away from the last receiver most of the time, until the service has said this.
fn slow_down_until(cluster: &mut Cluster, word: &str) -> String {
    let start = Instant::now();
    loop {
        for _ in 0..4 {
            let victim = cluster.actor(Some(VICTIM)).unwrap();
            victim.freeze().unwrap();
            sleep(STANDS);
            victim.thaw().unwrap();
            sleep(RUNS);
        }
        let events = cluster.service_events().unwrap();
        if events.contains(word) {
            return events;
        }
        assert!(start.elapsed() < PATIENCE, "the service has said: {events}");
    }
}

fn await_word(cluster: &mut Cluster, word: &str) -> String {
    let start = Instant::now();
    loop {
        let events = cluster.ask(VICTIM, "events", "events").unwrap();
        if events.contains(word) {
            return events;
        }
        assert!(start.elapsed() < PATIENCE, "the node has said: {events}");
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
    // What it may have unread: a quarter of what is published while it stands still.
    plan.last_options = vec![String::from("--receive-buffer=65536")];
    let mut cluster = Cluster::start(plan).unwrap();
    let life = cluster.counter(VICTIM, "incarnation").unwrap();
    cluster.publish(500, 2000).unwrap();
    let said = slow_down_until(&mut cluster, "Away {");
    assert!(
        said.contains("reason: Slow"),
        "the service has said: {said}"
    );
    let said = await_word(&mut cluster, "Back {");
    assert!(said.contains("reason: Slow"), "the node has said: {said}");
    let mut outcome = Outcome::default();
    compare(&mut cluster, &mut outcome).unwrap();
    assert!(outcome.is_whole(), "{outcome} {:?}", outcome.ranges);
    assert_eq!(cluster.counter(VICTIM, "incarnation").unwrap(), life);
    cluster.quit().unwrap();
}
