//! `qsm-bench`: Quicksilver's throughput beside what the same system calls reach without it.
//!
//! `quick` measures, for several payloads and numbers of receivers, interleaved in one run: a
//! plain blaster (trains of datagrams through `qsm-net`, nothing verified or repaired: the
//! ceiling), Quicksilver with one group, and Quicksilver with thousands. Every message is checked
//! at every receiver for its number and content.

mod bindings;
mod blaster;
mod children;
mod compare;
mod plot;
mod quick;
mod stream;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(version, about = "Benchmarks of Quicksilver")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Throughput of one sender beside the raw ceiling, and repair latency under loss.
    Quick(quick::Options),
    /// Quicksilver beside other systems: installs them, measures, writes docs/benchmarks.md.
    Compare(compare::Options),
    /// Rates of receiving in Rust, C, Java and Python, in turn.
    Bindings(bindings::Options),
    /// Costs of a managed runtime to a receiver, over groups and rates.
    Runtime(bindings::RuntimeOptions),
    /// Lateness of a reader in Rust while one in Python, of the same engine, stands still.
    Stalls(bindings::StallsOptions),
    #[command(hide = true)]
    StallsEngine(bindings::StallsEngineOptions),
    #[command(hide = true)]
    StallsRead(bindings::StallsReadOptions),
    #[command(hide = true)]
    BindingsReceive(bindings::ReceiveOptions),
    #[command(hide = true)]
    Peer {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    #[command(hide = true)]
    BlastSend(blaster::SendOptions),
    #[command(hide = true)]
    BlastReceive(blaster::ReceiveOptions),
    #[command(hide = true)]
    StreamSend(stream::SendOptions),
    #[command(hide = true)]
    StreamReceive(stream::ReceiveOptions),
}

/// Any error ends a benchmark; the message names what failed.
pub(crate) type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Quick(options) => quick::run(&options),
        Command::Compare(options) => compare::run(&options),
        Command::Bindings(options) => bindings::run(&options),
        Command::Runtime(options) => bindings::runtime(&options),
        Command::Stalls(options) => bindings::stalls(&options),
        Command::StallsEngine(options) => bindings::stalls_engine(&options),
        Command::StallsRead(options) => bindings::stalls_read(&options),
        Command::BindingsReceive(options) => bindings::receive(&options),
        Command::Peer { arguments } => compare::quicksilver(&arguments),
        Command::BlastSend(options) => blaster::send(&options),
        Command::BlastReceive(options) => blaster::receive(&options),
        Command::StreamSend(options) => stream::send(&options),
        Command::StreamReceive(options) => stream::receive(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("qsm-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
