//! What a managed runtime costs a receiver, over groups and rates (S0 section 5): `make figures-runtime`.

mod load;
mod memory;
mod page;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use qsm::{Embedded, Node, Publisher, SendError};

use crate::Failure;

use super::programs::{PATIENCE, PAYLOAD, Programs, Said, groups};
use super::trial::kept;
use load::{Axis, Load, RATE_OF_GROUPS, RECEIVERS};
use memory::Memory;
use page::{Point, Report};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    programs: Programs,
    /// Times that every receiver has its turn at every point.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Groups that a receiver is in, while all their messages together have one rate.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 1024, 4096, 8192])]
    groups: Vec<usize>,
    /// Messages a second to one group.
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 10_000, 50_000, 100_000, 300_000])]
    rates: Vec<u64>,
    /// Where the page, its table and its plots are written.
    #[arg(long)]
    output: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let over_groups = options.groups.iter().map(|groups| Load {
        axis: Axis::Groups,
        groups: *groups,
        rate: RATE_OF_GROUPS,
    });
    let over_rates = options.rates.iter().map(|rate| Load {
        axis: Axis::Rate,
        groups: 1,
        rate: *rate,
    });
    let loads: Vec<Load> = over_groups.chain(over_rates).collect();
    let Programs { millis, busy, .. } = options.programs;
    let mut report = Report::of(millis, busy);
    for round in 0..options.rounds {
        for load in &loads {
            for receiver in RECEIVERS {
                let kept = kept(receiver, busy, || {
                    measure(&options.programs, receiver, *load)
                })?;
                let Load { groups, rate, .. } = *load;
                eprintln!(
                    "round {round}: {groups} groups, {rate}/s: {receiver}: {}",
                    kept.value
                );
                report.add(*load, receiver, kept.value);
                report.thrown_away += kept.thrown_away;
            }
        }
    }
    report.write(&options.output)
}

fn measure(programs: &Programs, name: &str, load: Load) -> Result<Point, Failure> {
    let cluster = format!("runtime-{}", std::process::id());
    let node = Node::builder()
        .cluster(&cluster)
        .interface("lo")
        .embedded_service(Embedded::Always)
        .start()?;
    let publishers = node.groups(groups(load.groups)).publishers()?;
    let mut receiver = programs.receiver(name, &cluster, load.groups)?;
    for publisher in &publishers {
        publisher.wait_for_members(1, PATIENCE)?;
    }
    let ended = AtomicBool::new(false);
    let (sent, said, memory) = thread::scope(|scope| {
        let sender = scope.spawn(|| send(&publishers, load.rate, &ended));
        let said = Said::of(&receiver);
        let memory = Memory::of(receiver.pid());
        ended.store(true, Ordering::Relaxed);
        (sender.join(), said, memory)
    });
    receiver.kill();
    sent.map_err(|_| "the sender has panicked")??;
    Ok(Point::of(said?, memory?))
}

/// Sends to all groups in turn, each message when it is due, until it is told to end.
fn send(publishers: &[Publisher], rate: u64, ended: &AtomicBool) -> Result<(), SendError> {
    let (start, message) = (Instant::now(), [1; PAYLOAD]);
    let mut publishers = publishers.iter().cycle();
    let mut sent = 0;
    while !ended.load(Ordering::Relaxed) {
        let due = start + Duration::from_nanos(sent * 1_000_000_000 / rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if let Some(publisher) = publishers.next() {
            publisher.send(&message)?;
        }
        sent += 1;
    }
    Ok(())
}
