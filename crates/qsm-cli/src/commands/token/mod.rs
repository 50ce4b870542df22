//! `qsm token`: makes, shows, lists and revokes tokens.

mod inspect;
mod list;
mod new;
mod revoke;
mod rows;

use clap::{Args, Subcommand};
use qsm_console::examples;
use qsm_console::failure::Failure;

/// Arguments of `qsm token`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm token new plant --name 'press-7/**' --subscribe 'orders/*' --ttl 30d --output press-7.token"
    "qsm token inspect press-7.token --root plant/root.pub"
    "qsm token list plant"
    "qsm token revoke plant 00c0ffee00c0ffee"
))]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

/// The commands.
#[derive(Debug, Clone, Subcommand)]
enum TokenCommand {
    /// Make a token: which names a node may have, what it may do, and until when
    New(new::NewArgs),
    /// Show what a token says, and whether it holds
    Inspect(inspect::InspectArgs),
    /// Revoke tokens by their numbers, or nodes by their keys
    Revoke(revoke::RevokeArgs),
    /// List the tokens that were made
    List(list::ListArgs),
}

/// Runs the command.
///
/// # Errors
/// As that of each.
pub(crate) fn run(args: &TokenArgs) -> Result<(), Failure> {
    match &args.command {
        TokenCommand::New(args) => new::run(args),
        TokenCommand::Inspect(args) => inspect::run(args),
        TokenCommand::Revoke(args) => revoke::run(args),
        TokenCommand::List(args) => list::run(args),
    }
}
