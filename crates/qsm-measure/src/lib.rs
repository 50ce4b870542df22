//! `qsm bench`: what Quicksilver reaches on these hosts, every message verified.
//!
//! ```text
//!  throughput, latency ──► local: processes on this machine ──► send, receive ──► results ──► tables
//!                                        └──► raw: the same sockets alone             └──► JSON, SVG
//!  send, receive: the same on several hosts, started by hand
//! ```
//!
//! A sender says at its end how much it sent; a receiver is done when it has all of that from all
//! senders, and fails if anything is missing or not what was sent.

#![forbid(unsafe_code)]
// They panic where nobody reads; `qsm_console::output` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod check;
mod clock;
mod compare;
mod cpu_assignment;
mod echo;
mod host;
mod latencies;
mod latency;
mod layout;
mod message;
mod names;
mod options;
mod others;
mod pace;
mod plot;
mod primitives;
mod protected;
mod raw;
mod receive;
mod report;
mod send;
mod show;
mod spread;
mod stages;
mod throughput;
mod trial;

pub use host::{LatencyArgs, run_latency};
pub use layout::Layout;

use std::time::Duration;

use clap::{Args, Subcommand};
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::log::LogOptions;
use qsm_console::output;
use qsm_console::stop::Stop;
use serde_json::json;

use crate::layout::{LayoutAxis, LayoutOptions};
use crate::options::{LoadOptions, LocalOptions};
use crate::trial::Trial;

/// Messages per second of the short latency run.
const SHORT_RATE: u32 = 1000;

/// Length of a short run.
const SHORT: Duration = Duration::from_secs(1);

/// Arguments of `qsm bench`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true, before_help = examples!(
    "qsm bench                                     a short run of both, over loopback"
    "qsm bench throughput --receivers 3 --raw      share of what the sockets reach alone"
    "qsm bench latency --rate 5000 --loss 1        percentiles, stages, repairs"
    "qsm bench --layout private --receivers 6      receivers with groups of their own"
    "qsm bench --layout all --receivers 6          each layout beside identical"
    "qsm bench receive                             between hosts: on each receiving one, then"
    "qsm bench send --receivers 2                  on the sending one"
))]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// What receivers have besides; then a short run of throughput alone.
    #[command(flatten)]
    layout: LayoutAxis,
    /// Where a short run of both goes.
    #[command(flatten)]
    local: LocalOptions,
}

/// The benchmarks.
#[derive(Debug, Clone, Subcommand)]
enum BenchCommand {
    /// As many messages as all receivers take, on this machine
    Throughput(throughput::ThroughputArgs),
    /// How long messages take at a fixed rate, on this machine
    Latency(latency::LatencyArgs),
    /// How long bare UDP multicast takes, on this machine
    Ping(latency::PingArgs),
    /// The sender of a benchmark between hosts
    Send(send::SendArgs),
    /// A receiver of a benchmark between hosts
    Receive(receive::ReceiveArgs),
    /// One process without the protocol
    #[command(hide = true)]
    Raw(raw::RawArgs),
}

impl BenchArgs {
    /// How notices are to be written.
    #[must_use]
    pub fn notices(&self) -> LogOptions {
        match &self.command {
            Some(BenchCommand::Send(args)) => args.end.node.network.notices,
            Some(BenchCommand::Receive(args)) => args.end.node.network.notices,
            _ => LogOptions::default(),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Something was not delivered as it was sent, or could not be run at all.
pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    match &args.command {
        Some(BenchCommand::Throughput(args)) => throughput(args),
        Some(BenchCommand::Latency(args)) => latency::run(args),
        Some(BenchCommand::Ping(args)) => latency::ping(args),
        Some(BenchCommand::Send(args)) => send::run(args),
        Some(BenchCommand::Receive(args)) => receive::run(args),
        Some(BenchCommand::Raw(args)) => raw::run(args),
        None if args.local.plot.is_some() => Err(Failure::usage(
            "--plot is for one benchmark",
            "give it to `qsm bench throughput` or `qsm bench latency`",
        )),
        None if !args.layout.layouts().is_empty() => throughput(&throughput::ThroughputArgs {
            load: short(1000),
            layout: args.layout.clone(),
            local: args.local.clone(),
        }),
        None => both(&args.local),
    }
}

/// One layout by itself, or several beside each other.
fn throughput(args: &throughput::ThroughputArgs) -> Result<(), Failure> {
    let layouts = args.layout.layouts();
    match (args.local.protect.len(), layouts.len()) {
        (2.., 0) => protected::run(args),
        (_, 0 | 1) => throughput::run(args),
        _ => compare::run(args, &layouts),
    }
}

/// What a short run sends.
fn short(payload: usize) -> LoadOptions {
    LoadOptions {
        payload,
        groups: 1,
        duration: Some(SHORT),
        messages: None,
        spin: false,
    }
}

fn both(local: &LocalOptions) -> Result<(), Failure> {
    local.check_timed()?;
    let _exporter = local.serve_metrics()?;
    let stop = Stop::on_signals()?;
    let (bulk, small) = (short(1000), short(100));
    let throughput = throughput::measure(&bulk, &LayoutOptions::NONE, local, &stop)?;
    let trial = Trial {
        load: &small,
        layout: &LayoutOptions::NONE,
        local,
        rate: Some(SHORT_RATE),
        round_trip: false,
    };
    let latency = latency::measure(&trial, &stop)?;
    if local.json {
        let latency = latency.json(&small, local);
        return show::print_json(&json!({
            "benchmark": "both", "throughput": throughput.json(&bulk, &LayoutOptions::NONE, local),
            "latency": latency,
        }));
    }
    output::write(format!(
        "throughput, messages of 1000 bytes\n{}\nlatency, {SHORT_RATE} messages/s of 100 bytes\n{}",
        throughput.text(),
        latency.text()
    ))
}
