//! The program `qsm`: publish, subscribe, watch, and a demonstration of it all.
//!
//! What it does not do: the protocol, which is in the library `qsm`; this crate reads arguments,
//! files and pipes, and writes for people and for programs.
//!
//! ```text
//!   stdin, files ──► pub ──► qsm ~~network~~ qsm ──► sub ──► stdout, files
//!   lab: hosts out of namespaces        demo: gms, senders, receivers, and a check of every byte
//! ```

#![forbid(unsafe_code)]

mod absence;
mod args;
mod base64;
mod bench;
mod cast;
mod demo;
mod digest;
mod engine;
mod failure;
mod fan;
mod figures;
mod frames;
mod gms;
mod io;
mod lab_command;
mod listing;
mod member;
mod notice;
mod pattern;
mod progress;
mod publish;
mod record;
mod sim;
mod spool;
mod stop;
mod store;
mod subscribe;
mod table;
mod threads;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::failure::Failure;

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Pub(args) => publish::run(args),
        Command::Sub(args) => subscribe::run(args),
        Command::Engine(args) => engine::run(args),
        Command::Gms(args) => gms::run(args),
        Command::Nodes(args) => listing::nodes(args),
        Command::Groups(args) => listing::groups(args),
        Command::Regions(args) => listing::regions(args),
        Command::Lab(args) => lab_command::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Demo(args) => demo::run(args),
        Command::DemoNode(args) => demo::run_node(args),
    }
}
