//! `qsm token inspect`.

use std::path::PathBuf;

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::output;
use qsm_identity::{Claims, Refused, Token};
use serde_json::{Value, json};

use super::rows;
use crate::commands::authority;

/// Arguments of `qsm token inspect`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm token inspect press-7.token                                what it says, whoever made it"
    "qsm token inspect press-7.token --root plant/root.pub          and whether it holds"
    "qsm token inspect - --root plant/root.pub --revoked plant/revoked.list < press-7.token"
))]
pub(crate) struct InspectArgs {
    /// The token: a file, the text itself, or - for stdin
    #[arg(value_name = "TOKEN")]
    token: String,
    /// File with the root's public key: fail if the token was not made by this root, or does not hold now
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// Cluster that it must be for [default: the one that it names]
    #[arg(long, value_name = "NAME", requires = "root")]
    cluster: Option<String>,
    /// File with the list of revocations: fail if the token, or its key, is in it
    #[arg(long, value_name = "FILE", requires = "root")]
    revoked: Option<PathBuf>,
    /// Write JSON: one object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// It is no token, it does not hold, or the output cannot be written.
pub(super) fn run(args: &InspectArgs) -> Result<(), Failure> {
    let token = authority::token(&args.token)?;
    let verdict = match &args.root {
        None => None,
        Some(_) => Some(verify(args, &token)?),
    };
    let claims = token.claims();
    let text = match args.json {
        true => json(claims, verdict.as_ref()),
        false => text(claims, verdict.as_ref()),
    };
    output::write(text)?;
    match verdict {
        Some(Err(refused)) => Err(Failure::failed(refused.to_string(), refused.remedy())),
        _ => Ok(()),
    }
}

/// Verifies it by the files that are given.
fn verify(args: &InspectArgs, token: &Token) -> Result<Result<(), Refused>, Failure> {
    let Some(root) = &args.root else {
        return Ok(Ok(()));
    };
    let root = authority::root_key(root)?;
    let claims = token.claims();
    let cluster = args.cluster.as_ref().unwrap_or(&claims.cluster);
    if let Err(error) = token.verify(&root, authority::now()?, cluster) {
        return Ok(Err(error.into()));
    }
    let Some(path) = &args.revoked else {
        return Ok(Ok(()));
    };
    let list = authority::read_revocations(path)?;
    list.verify(&root, cluster).map_err(|error| {
        Failure::failed(
            format!("{}: {error}", path.display()),
            "name the list of the same root",
        )
    })?;
    let key_revoked = claims.node_key.is_some_and(|key| list.has_key(&key));
    Ok(match list.has_serial(claims.serial) {
        true => Err(Refused::Revoked(claims.serial)),
        false if key_revoked => Err(Refused::KeyRevoked),
        false => Ok(()),
    })
}

fn text(claims: &Claims, verdict: Option<&Result<(), Refused>>) -> String {
    let mut text = String::new();
    for (name, value) in rows::rows(claims) {
        text.push_str(&format!("{name:<10} {value}\n"));
    }
    let verdict = match verdict {
        None => "not checked: --root FILE does",
        Some(Ok(())) => "good, and the token holds",
        Some(Err(_)) => "the token does not hold",
    };
    text + &format!("{:<10} {verdict}\n", "signature")
}

fn json(claims: &Claims, verdict: Option<&Result<(), Refused>>) -> String {
    let mut object = rows::object(claims);
    object.insert("valid".into(), json!(verdict.map(Result::is_ok)));
    let reason = verdict.and_then(|verdict| verdict.as_ref().err());
    object.insert("reason".into(), json!(reason.map(Refused::to_string)));
    format!("{}\n", Value::Object(object))
}
