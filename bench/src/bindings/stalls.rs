//! Lateness of a reader in Rust while another one of the same engine, in Python, stands still: `make
//! figures-stalls`.
//!
//! ```text
//!   this process ── 50,000 messages/s ──► engine ──► reader in Rust: how late each message is
//!                                                └─► reader in Python: reads, collects, holds, is stopped
//! ```

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use lab::Actor;
use qsm::{Embedded, Node, Publisher, SendError};

use crate::Failure;
use crate::children::{hear, monotonic_nanos, numbers, say, spawn};

use super::programs::{PATIENCE, PAYLOAD};
use super::report::Spread;
use super::trial::kept;

/// Messages a second.
const RATE: u64 = 50_000;
/// Bar of the ratio: p99 beside that of the state compared with.
const RATIO_MAX: f64 = 1.05;

/// Doings of the reader in Python for a second, and with which of these its second is compared: one that takes a
/// processor, with one in which another process takes it.
const STATES: [(&str, usize); 5] = [
    ("read", 0),
    ("stop", 0),
    (BESIDE, 2),
    ("collect", 2),
    ("hold", 2),
];
/// The reader reads, and a process that is no reader computes.
const BESIDE: &str = "another computes";
const COMPUTES: &str =
    "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: sum(range(1_000_000))";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Folder of `bench/peers/bindings/build.sh`.
    #[arg(long)]
    from: PathBuf,
    /// Interpreter.
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Times that each state has its turn.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Count also seconds in which others have more than 5 % of the CPUs.
    #[arg(long)]
    busy: bool,
}

/// Latencies of a second, microseconds.
#[derive(Debug, Clone, Copy)]
struct Late {
    p50: f64,
    p99: f64,
    messages: u64,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let cluster = format!("stalls-{}", std::process::id());
    let path = std::env::temp_dir().join(&cluster).display().to_string();
    let node = Node::builder()
        .cluster(&cluster)
        .interface("lo")
        .embedded_service(Embedded::Always)
        .start()?;
    let publisher = node.publisher("rate")?;
    let _engine = child(&["stalls-engine", &cluster, &path])?;
    let mut reader = child(&["stalls-read", &path])?;
    let mut python = start_python(options, &path)?;
    publisher.wait_for_members(1, PATIENCE)?;
    let ended = AtomicBool::new(false);
    let found = thread::scope(|scope| {
        let sender = scope.spawn(|| send(&publisher, &ended));
        let found = seconds(options, &mut reader, &mut python);
        ended.store(true, Ordering::Relaxed);
        sender.join().map_err(|_| "the sender has panicked")??;
        found
    })?;
    print(&found);
    Ok(())
}

/// Starts this program in another role, and waits until it is ready.
fn child(words: &[&str]) -> Result<Actor, Failure> {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let child = spawn(&words)?;
    child.expect("ready")?;
    Ok(child)
}

fn start_python(options: &Options, path: &str) -> Result<Actor, Failure> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/bindings/stall.py");
    let mut command = Command::new(&options.python);
    command.env("PYTHONPATH", std::path::absolute(&options.from)?);
    command.arg(script).arg(path);
    let python = Actor::start("the reader in Python", command, PATIENCE)?;
    python.expect("ready")?;
    Ok(python)
}

/// All states in turn, again and again; those of a state together.
fn seconds(
    options: &Options,
    reader: &mut Actor,
    python: &mut Actor,
) -> Result<Vec<Vec<Late>>, Failure> {
    let mut found = vec![Vec::new(); STATES.len()];
    for round in 0..options.rounds {
        for ((state, _), found) in STATES.into_iter().zip(&mut found) {
            let kept = kept(state, options.busy, || {
                second(options, state, reader, python)
            })?;
            let Late { p50, p99, messages } = kept.value;
            eprintln!(
                "round {round}: {state}: p50 {p50:.0} µs, p99 {p99:.0} µs, {messages} messages"
            );
            found.push(kept.value);
        }
    }
    Ok(found)
}

/// A second in which the reader in Python does this.
fn second(
    options: &Options,
    state: &str,
    reader: &mut Actor,
    python: &mut Actor,
) -> Result<Late, Failure> {
    reader.tell("begin")?;
    reader.expect("begun")?;
    if state == "stop" {
        signal(python, libc::SIGSTOP)?;
        thread::sleep(Duration::from_secs(1));
    } else if state == BESIDE {
        let mut command = Command::new(&options.python);
        command.args(["-c", COMPUTES]).status()?;
    } else {
        python.tell(state)?;
        python.expect(state)?;
    }
    reader.tell("end")?;
    let late = numbers(reader, "late")?;
    if state == "stop" {
        signal(python, libc::SIGCONT)?;
    }
    let [p50, p99, messages] = late[..] else {
        return Err(format!("{late:?} are no latencies").into());
    };
    let micros = |nanos: u64| nanos as f64 / 1e3;
    Ok(Late {
        p50: micros(p50),
        p99: micros(p99),
        messages,
    })
}

fn signal(process: &Actor, signal: i32) -> Result<(), Failure> {
    let pid = i32::try_from(process.pid())?;
    // SAFETY: kill only takes numbers; the process is a child that has not been waited for.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

fn print(found: &[Vec<Late>]) {
    println!("| the reader in Python | p50, µs | p99, µs | of p99 of | bar |");
    println!("|---|---|---|---|---|");
    let median = |late: &[Late]| Spread::of(late.iter().map(|late| late.p99)).all()[1];
    for (place, ((state, with), late)) in STATES.into_iter().zip(found).enumerate() {
        let p50 = Spread::of(late.iter().map(|late| late.p50));
        let p99 = Spread::of(late.iter().map(|late| late.p99));
        let ratio = median(late) / median(&found[with]);
        let verdict = match (place == with, ratio <= RATIO_MAX) {
            (true, _) => "",
            (false, true) => "kept",
            (false, false) => "missed",
        };
        let of = STATES[with].0;
        println!("| {state} | {p50} | {p99} | {of}: {ratio:.3} | {verdict} |");
    }
    let rounds = found.first().map_or(0, Vec::len);
    println!(
        "\n{rounds} rounds; medians, and extremes in brackets; ratios of medians, at most {RATIO_MAX}"
    );
}

/// Sends, each message when it is due and with that time, until it is told to end.
fn send(publisher: &Publisher, ended: &AtomicBool) -> Result<(), SendError> {
    let (start, clock) = (Instant::now(), monotonic_nanos());
    let mut message = [0; PAYLOAD];
    let mut sent = 0;
    while !ended.load(Ordering::Relaxed) {
        let due = sent * 1_000_000_000 / RATE;
        thread::sleep(Duration::from_nanos(due).saturating_sub(start.elapsed()));
        message[..8].copy_from_slice(&(clock + due).to_le_bytes());
        publisher.send(&message)?;
        sent += 1;
    }
    Ok(())
}

#[derive(Debug, Args)]
pub(crate) struct EngineOptions {
    cluster: String,
    path: PathBuf,
}

/// The engine, as a process of its own.
pub(crate) fn engine(options: &EngineOptions) -> Result<(), Failure> {
    let node = Node::builder()
        .cluster(&options.cluster)
        .interface("lo")
        .start()?;
    let _share = node.share(&options.path)?;
    say("ready");
    // The parent kills it.
    hear()?;
    Ok(())
}

#[derive(Debug, Args)]
pub(crate) struct ReadOptions {
    path: PathBuf,
}

/// The reader in Rust: latencies of the messages between two words of the parent.
pub(crate) fn read(options: &ReadOptions) -> Result<(), Failure> {
    let node = Node::attach(&options.path)?;
    let late = Arc::new(Mutex::new(Vec::with_capacity(2 * RATE as usize)));
    let noted = late.clone();
    let _upcalls = node.group("rate").subscribe_with(move |delivery| {
        let message = delivery.message();
        if let Some(due) = message.and_then(|message| message.bytes.first_chunk()) {
            let late = monotonic_nanos().saturating_sub(u64::from_le_bytes(*due));
            lock(&noted).push(late);
        }
    })?;
    say("ready");
    loop {
        hear()?;
        lock(&late).clear();
        say("begun");
        hear()?;
        let mut late = std::mem::take(&mut *lock(&late));
        late.sort_unstable();
        let at = |part: usize| late.get(late.len() * part / 100).copied().unwrap_or(0);
        say(&format!("late {} {} {}", at(50), at(99), late.len()));
    }
}

fn lock(late: &Mutex<Vec<u64>>) -> std::sync::MutexGuard<'_, Vec<u64>> {
    late.lock().unwrap_or_else(PoisonError::into_inner)
}
