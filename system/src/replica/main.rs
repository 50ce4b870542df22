//! `system-replica`: a node with a replica, which obeys lines on its standard input and tells on its
//! standard output what happens to it.
//!
//! | line | effect |
//! |---|---|
//! | `pace RATE` | publishes so many updates a second from now on; `max`: as many as it can; 0: none |
//! | `hash` | `hash` below |
//! | `quit` | leaves the group and ends |
//!
//! Each line that it writes has the time behind its first word, microseconds of the machine's clock:
//!
//! | line | meaning |
//! |---|---|
//! | `admitted` | its node is admitted |
//! | `live FOUNDED` | the replica is live; FOUNDED: it has begun the history |
//! | `rebinds CAUSE` | it binds anew |
//! | `sequencer TERM OWN` | the sequencer of the group is known, and is it (`true`) or another one |
//! | `votes YES VOTERS` | it votes from now on, or does not, and so many do |
//! | `donates BYTES` | it writes its state into a snapshot of so many bytes |
//! | `arrived BYTES` | a snapshot is there, and is taken over |
//! | `mark COUNT HASH GAP` | hash of its state after so many updates, and the longest time between two of them since the last mark, microseconds; after as many updates as `--mark` says |
//! | `hash COUNT HASH` | the same, now |
//! | `sent COUNT` | so many updates were published; ten times a second |
//! | `failed ERROR` | it has ended |

mod state;

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use qsm::{Embedded, NetworkOptions, Node};
use qsm_replica::{Limits, Notice, Order, Replica, ReplicaError};
use qsm_system::clock;
use qsm_system::pacer::{NAP, Pacer};
use state::{Cells, Told};

type Failure = Box<dyn std::error::Error>;

/// Longest wait for the membership service.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time for the node to end.
const ENDING: Duration = Duration::from_secs(1);
/// Pause between two looks at what has happened.
const LOOK: Duration = Duration::from_millis(1);
/// Time between two lines of how much was published.
const TOLD_EVERY: Duration = Duration::from_millis(100);
/// A rate without a limit.
const MAX: u64 = u64::MAX;

#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long)]
    name: String,
    #[arg(long)]
    interface: String,
    #[arg(long)]
    cluster: String,
    /// The membership service.
    #[arg(long)]
    service: SocketAddr,
    /// Apply updates in a total order.
    #[arg(long)]
    total: bool,
    /// Bytes of the state, if this replica is the first one.
    #[arg(long, default_value_t = 0)]
    state: usize,
    /// Bytes of an update.
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Updates after which the state is hashed and told; 0: never.
    #[arg(long, default_value_t = 0)]
    mark: u64,
    /// Bytes of updates that may wait while a snapshot comes.
    #[arg(long)]
    held: Option<usize>,
}

/// Orders of the director.
#[derive(Debug, Default)]
struct Orders {
    rate: AtomicU64,
    ends: AtomicBool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (put, lines) = channel();
    let printer = thread::spawn(move || print(&lines));
    let told = Told(put);
    let result = run(&arguments, &told);
    if let Err(error) = &result {
        told.say("failed", error);
    }
    drop(told);
    // Its end is that of the channel.
    drop(printer.join());
    ExitCode::from(u8::from(result.is_err()))
}

/// Writes lines, so that nobody who holds the replica waits for the director.
fn print(lines: &Receiver<String>) {
    let mut out = std::io::stdout().lock();
    for line in lines {
        // A director that has gone needs none.
        if writeln!(out, "{line}").is_err() {
            return;
        }
    }
}

fn run(arguments: &Arguments, told: &Told) -> Result<(), Failure> {
    let node = Node::builder()
        .name(&arguments.name)
        .cluster(&arguments.cluster)
        .network(NetworkOptions::new().interface(&arguments.interface))
        .service(arguments.service)
        .embedded_service(Embedded::Never)
        .start()?;
    node.wait_admitted(PATIENCE)?;
    told.say("admitted", "");
    let order = match arguments.total {
        true => Order::Total,
        false => Order::Source,
    };
    let limits = Limits::default().patience(2 * PATIENCE);
    let limits = match arguments.held {
        Some(bytes) => limits.held_bytes(bytes),
        None => limits,
    };
    let state = Cells::new(arguments.state, arguments.mark, told.clone());
    let replica = Replica::join_in_order(&node, "state", state, order, limits)?;
    let orders = Orders::default();
    let result = thread::scope(|scope| {
        let workers = [
            scope.spawn(|| publish(&replica, arguments.bytes, &orders, told)),
            scope.spawn(|| watch(&replica, &orders, told)),
        ];
        obey(&replica, &orders, told);
        orders.ends.store(true, Ordering::Release);
        let ended = workers.map(|worker| worker.join());
        let ended = ended.map(|it| it.unwrap_or(Err(ReplicaError::NotLive)));
        ended.into_iter().collect::<Result<(), _>>()
    });
    drop(replica);
    // What it has sent is stable by then, or its director does not wait for it.
    drop(node.shutdown(ENDING));
    Ok(result?)
}

/// Carries out lines until there are no more.
fn obey(replica: &Replica<Cells>, orders: &Orders, told: &Told) {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match line.split_once(' ') {
            Some(("pace", "max")) => orders.rate.store(MAX, Ordering::Release),
            Some(("pace", rate)) => {
                let rate = rate.parse().unwrap_or(0);
                orders.rate.store(rate, Ordering::Release);
            }
            None if line == "hash" => {
                let (count, hash) = replica.read(Cells::hash);
                told.say("hash", format_args!("{count} {hash}"));
            }
            _ => return,
        }
    }
}

/// Publishes at the rate that is ordered.
fn publish(
    replica: &Replica<Cells>,
    bytes: usize,
    orders: &Orders,
    told: &Told,
) -> Result<(), ReplicaError> {
    let mut update = vec![0x5a; bytes.max(size_of::<u64>())];
    let (mut pacer, mut sent, mut last) = (Pacer::new(), 0_u64, Instant::now());
    while !orders.ends.load(Ordering::Acquire) {
        let rate = orders.rate.load(Ordering::Acquire);
        if sent > 0 && last.elapsed() >= TOLD_EVERY {
            last = Instant::now();
            told.say("sent", sent);
        }
        let wait = match rate {
            0 => Some(LOOK),
            MAX => None,
            rate => pacer.wait(rate),
        };
        if let Some(wait) = wait {
            thread::sleep(wait.clamp(NAP, LOOK));
            continue;
        }
        if let Some(front) = update.first_chunk_mut() {
            *front = clock::nanos().to_le_bytes();
        }
        match replica.update(&update) {
            Ok(()) => sent += 1,
            Err(ReplicaError::NotLive) => thread::sleep(LOOK),
            Err(error) => return Err(error),
        }
        pacer.pass();
    }
    Ok(())
}

/// Tells what happens to the replica.
fn watch(replica: &Replica<Cells>, orders: &Orders, told: &Told) -> Result<(), ReplicaError> {
    let mut voted = (false, 0);
    while !orders.ends.load(Ordering::Acquire) {
        for notice in replica.notices() {
            match notice {
                Notice::Live { founded, .. } => told.say("live", founded),
                Notice::Rebinds(cause) => told.say("rebinds", cause),
                Notice::Sequencer { term, own, .. } => {
                    told.say("sequencer", format_args!("{term} {own}"));
                }
                Notice::Failed(error) => {
                    told.say("failed", error);
                    return Err(ReplicaError::Bind(error));
                }
                _ => {}
            }
        }
        let votes = (replica.votes(), replica.voters());
        if votes != voted {
            voted = votes;
            told.say("votes", format_args!("{} {}", votes.0, votes.1));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}
