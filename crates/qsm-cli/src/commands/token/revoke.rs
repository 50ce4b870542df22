//! `qsm token revoke`.

use std::path::PathBuf;

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::output;
use qsm_identity::Serial;
use serde_json::json;

use crate::commands::authority::{self, Authority};

/// Arguments of `qsm token revoke`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm token revoke plant 00c0ffee00c0ffee       `qsm token list plant` has the numbers"
    "qsm token revoke plant --node qsm-node-1.…    all that this key has or gets"
))]
pub(crate) struct RevokeArgs {
    /// The folder that `qsm init` made
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Numbers of tokens
    #[arg(value_name = "SERIAL", required_unless_present = "node")]
    serials: Vec<Serial>,
    /// Public key of a node, or a file of it; may be given several times
    #[arg(long, value_name = "KEY")]
    node: Vec<String>,
    /// Take numbers of tokens that were not made in this folder, too
    #[arg(long)]
    unknown: bool,
    /// Write JSON: one object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The folder has no root, a token is not known there, or the list cannot be written.
pub(super) fn run(args: &RevokeArgs) -> Result<(), Failure> {
    let mut authority = Authority::open(&args.folder)?;
    if !args.unknown {
        check_known(&authority, &args.serials)?;
    }
    let keys = args.node.iter().map(|key| authority::node_key(key));
    let keys: Vec<_> = keys.collect::<Result<_, _>>()?;
    authority.revoke(&args.serials, &keys, authority::now()?)?;
    let parts = authority.revocations().parts();
    let path = authority.revocations_path();
    let path = path.display();
    let text = match args.json {
        true => {
            let value = json!({
                "file": path.to_string(), "number": parts.number,
                "serials": parts.serials.len(), "keys": parts.keys.len(),
            });
            format!("{value}\n")
        }
        false => format!(
            "{path} is list {} now, of {} tokens and {} keys; bring it to the service, which shuts them out\n",
            parts.number,
            parts.serials.len(),
            parts.keys.len()
        ),
    };
    output::write(text)
}

/// Checks that the tokens were made here: a number with a slip in it would revoke nothing.
fn check_known(authority: &Authority, serials: &[Serial]) -> Result<(), Failure> {
    let issued = authority.issued()?;
    let known = |serial: &&Serial| issued.iter().any(|token| token.claims().serial == **serial);
    match serials.iter().find(|serial| !known(serial)) {
        None => Ok(()),
        Some(serial) => Err(Failure::failed(
            format!("no token {serial} was made here"),
            "see `qsm token list` for the numbers, or add --unknown",
        )),
    }
}
