//! A receiver whose host has hardly any time for it, but answers, holds the others for a while and no
//! longer.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use qsm_system::cluster::{Cluster, Plan};
use qsm_system::trial::{Outcome, compare};
use rustix::process::{Pid, Signal, kill_process};

/// More than a slow machine needs; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(100);
const RECEIVERS: usize = 4;
const VICTIM: usize = RECEIVERS - 1;
const SENDER: usize = RECEIVERS;
/// One message in a packet.
const BYTES: usize = 1200;
/// Messages a second: several times as many as the slow one has room for.
const RATE: u64 = 2000;
/// Bytes of unread packets that the slow one has room for: what is published in a quarter of the time
/// for which it stands still.
const UNREAD: u64 = 32_768;
/// It stands still for so long at a time, and answers each question of the service in time.
const STANDS: Duration = Duration::from_millis(100);
/// CPU time that it gets in between, however long it has to wait for that, but for the longest time.
const RUNS: Duration = Duration::from_millis(2);
const RUNS_MAX: Duration = Duration::from_millis(15);
/// Pause between two looks at what it has had.
const LOOK: Duration = Duration::from_micros(500);
/// As the service and the node say it.
const SLOW: &str = "reason: Slow";

/// Part of their pace that others may lose on a machine that has other things to do.
const KEEPS: f64 = 0.75;

/// Takes the CPU away from a process most of the time, until it is dropped.
struct Throttle {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Throttle {
    fn new(pid: u32) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let seen = ends.clone();
        let thread = std::thread::spawn(move || {
            let process = Pid::from_raw(pid.cast_signed()).unwrap();
            while !seen.load(Ordering::Acquire) {
                kill_process(process, Signal::STOP).unwrap();
                sleep(STANDS);
                kill_process(process, Signal::CONT).unwrap();
                await_cpu_time(pid);
            }
        });
        let thread = Some(thread);
        Self { ends, thread }
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // It has failed if the test has.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Waits until a process has had the CPU, or has had its time for that.
fn await_cpu_time(pid: u32) {
    let (start, before) = (Instant::now(), cpu_time(pid));
    while cpu_time(pid).saturating_sub(before) < RUNS && start.elapsed() < RUNS_MAX {
        sleep(LOOK);
    }
}

/// CPU time that all threads of a process have had.
fn cpu_time(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    // One that has just ended has no file any more.
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok());
    let nanos = texts.filter_map(|text| text.split(' ').next()?.parse::<u64>().ok());
    Duration::from_nanos(nanos.sum())
}

/// The pace of the publisher and of the slowest of the others, for two seconds.
#[derive(Debug)]
struct Pace {
    /// Messages a second.
    published: f64,
    arrived: f64,
}

impl Pace {
    fn measure(cluster: &mut Cluster) -> Self {
        const WHILE: Duration = Duration::from_secs(2);
        let start = Instant::now();
        let before = counts(cluster);
        sleep(WHILE);
        let after = counts(cluster);
        let [published, arrived] = [0, 1].map(|at| {
            let more = after[at].saturating_sub(before[at]);
            more as f64 / start.elapsed().as_secs_f64()
        });
        Self { published, arrived }
    }

    /// As fast as in `calm`, or nearly.
    fn keeps(&self, calm: &Self) -> bool {
        self.published.min(self.arrived) >= KEEPS * calm.published
    }
}

/// Messages published, and those that the slowest of the others has.
fn counts(cluster: &mut Cluster) -> [u64; 2] {
    let published = cluster.published(SENDER).unwrap();
    let known = (0..VICTIM).map(|node| cluster.ask(node, "now", "now").unwrap());
    let known = known.map(|known| known.parse::<u64>().unwrap());
    [published, known.min().unwrap()]
}

/// Waits until the service has said this; returns all that it has said.
fn await_service(cluster: &mut Cluster, what: &str) -> String {
    let start = Instant::now();
    loop {
        let said = cluster.service_events().unwrap();
        if said.contains(what) {
            return said;
        }
        if start.elapsed() > PATIENCE {
            let words = (0..=SENDER).map(|node| cluster.counter(Some(node), "strained").unwrap());
            let words: Vec<u64> = words.collect();
            panic!(
                "the service has said: {said}; nodes have said so often that they strain: {words:?}"
            );
        }
        sleep(Duration::from_millis(10));
    }
}

/// Rule R-RATE-6.
#[test]
#[ignore = "on a busy machine it may be silent before it is slow; `make pauses` runs it"]
fn a_receiver_that_hardly_runs_holds_the_others_no_longer_than_it_may() {
    if !lab::ready() {
        return;
    }
    let mut plan = Plan::new(Path::new(env!("CARGO_BIN_EXE_system-node")), RECEIVERS);
    plan.service_options = vec![String::from("--slow-after=3")];
    plan.last_options = vec![format!("--receive-buffer={UNREAD}")];
    let mut cluster = Cluster::start(plan).unwrap();
    let life = cluster.lives(VICTIM).unwrap();
    cluster.publish(BYTES, RATE).unwrap();
    let calm = Pace::measure(&mut cluster);

    let throttle = Throttle::new(cluster.actor(Some(VICTIM)).unwrap().pid());
    let held = Pace::measure(&mut cluster);
    assert!(!held.keeps(&calm), "nobody was held: {held:?} {calm:?}");
    let said = await_service(&mut cluster, "Away {");
    assert!(said.contains(SLOW), "{said}");
    let alone = Pace::measure(&mut cluster);
    assert!(alone.keeps(&calm), "{alone:?} {calm:?}");

    drop(throttle);
    let said = await_service(&mut cluster, "Back {");
    let all = Pace::measure(&mut cluster);
    assert!(all.keeps(&calm), "{all:?} {calm:?}");
    eprintln!("{calm:?}, held {held:?}, without it {alone:?}, with it {all:?}");
    let away = said.match_indices("Away {").map(|(at, _)| &said[at..]);
    let names = away.filter_map(|said| said.split('"').nth(1));
    assert!(
        names.clone().all(|name| Some(name) == names.clone().next()),
        "{said}"
    );
    let mut outcome = Outcome::default();
    compare(&mut cluster, &mut outcome).unwrap();
    assert!(outcome.is_whole(), "{outcome} {:?}", outcome.ranges);
    assert_eq!(cluster.lives(VICTIM).unwrap(), life);
    let told = cluster.events(VICTIM).unwrap();
    assert!(told.contains(SLOW) && told.contains("Back {"), "{told}");
    cluster.quit().unwrap();
}
