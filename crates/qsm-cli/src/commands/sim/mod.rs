//! `qsm sim`: clusters on a virtual clock and a virtual network.
//!
//! What happens in a run is decided in the library `qsm-sim`; here are arguments, threads, files
//! and what people and programs get to read.

mod effort;
mod figure;
mod relay;
mod replay;
mod show;
mod shrink;
mod single;
mod sketch;
mod source;
mod swarm;

use clap::{Args, Subcommand};
use qsm_console::examples;
use qsm_console::failure::Failure;

/// Arguments of `qsm sim`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm sim swarm --seeds 1000                 a thousand clusters with faults, drawn at random"
    "qsm sim seed 494 --trace                   one of them, with what happened"
    "qsm sim run scenarios/total-loss.txt       a scenario from a file"
    "qsm sim shrink --seed 494 -o small.txt     the smallest run that fails in the same way"
    "qsm sim replay node.qsm                    a recorded node, once more"
    "qsm sim relay --seeds 1000                 a thousand trees of relays with faults"
))]
pub(crate) struct SimArgs {
    /// What to do.
    #[command(subcommand)]
    command: SimCommand,
}

/// What can be simulated.
#[derive(Debug, Clone, Subcommand)]
enum SimCommand {
    /// Draw many runs at random and stop at the first that breaks a promise
    Swarm(swarm::SwarmArgs),
    /// Run a scenario file
    Run(single::RunArgs),
    /// Run what a seed draws
    Seed(single::SeedArgs),
    /// Make a failing run as small as possible
    Shrink(shrink::ShrinkArgs),
    /// Give a node's recording to a fresh state machine, and compare what comes out
    Replay(replay::ReplayArgs),
    /// Draw trees of relays at random and stop at the first that breaks a promise
    Relay(relay::RelayArgs),
    /// Run experiments of the papers, with plots
    Figure(figure::FigureArgs),
}

/// Runs the command.
///
/// # Errors
/// A promise is broken, an expectation is not met, the input cannot be understood, or a file
/// cannot be read or written.
pub(crate) fn run(args: &SimArgs) -> Result<(), Failure> {
    match &args.command {
        SimCommand::Swarm(args) => swarm::run(args),
        SimCommand::Run(args) => single::run(args),
        SimCommand::Seed(args) => single::seed(args),
        SimCommand::Shrink(args) => shrink::run(args),
        SimCommand::Replay(args) => replay::run(args),
        SimCommand::Relay(args) => relay::run(args),
        SimCommand::Figure(args) => figure::run(args),
    }
}
