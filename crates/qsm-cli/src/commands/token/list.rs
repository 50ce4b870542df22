//! `qsm token list`.

use std::path::PathBuf;

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::output;
use qsm_console::table::{Align, Table};
use qsm_identity::{Token, utc};
use serde_json::{Value, json};

use super::rows;
use crate::commands::authority::{self, Authority};

/// Arguments of `qsm token list`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm token list plant"
    "qsm token list plant --json"
))]
pub(crate) struct ListArgs {
    /// The folder that `qsm init` made
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write JSON: one object for each token
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The folder has no root, or the output cannot be written.
pub(super) fn run(args: &ListArgs) -> Result<(), Failure> {
    let authority = Authority::open(&args.folder)?;
    let issued = authority.issued()?;
    let now = authority::now()?;
    let standing = |token: &Token| authority::standing(token, &authority, now);
    let text = match args.json {
        true => issued
            .iter()
            .map(|token| json(token, standing(token)))
            .collect(),
        false => {
            let mut table = Table::new(&[
                ("SERIAL", Align::Left),
                ("NAME", Align::Left),
                ("ROLES", Align::Left),
                ("BOUND", Align::Left),
                ("EXPIRES", Align::Left),
                ("STATE", Align::Left),
            ]);
            for token in &issued {
                let claims = token.claims();
                let bound = if claims.node_key.is_some() {
                    "yes"
                } else {
                    "no"
                };
                table.row([
                    claims.serial.to_string().as_str(),
                    claims.name.as_str(),
                    &claims.roles.to_string(),
                    bound,
                    &utc(claims.expires),
                    standing(token),
                ]);
            }
            table.render()
        }
    };
    output::write(text)
}

fn json(token: &Token, standing: &str) -> String {
    let mut object = rows::object(token.claims());
    object.insert("state".into(), json!(standing));
    format!("{}\n", Value::Object(object))
}
