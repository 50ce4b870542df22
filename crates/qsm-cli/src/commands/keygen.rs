//! `qsm keygen`: makes the key of a cluster, or of a node.

use std::path::PathBuf;

use clap::Args;
use qsm::{Cipher, ClusterKey};
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::output;
use qsm_identity::NodeKey;
use serde_json::json;

use crate::commands::authority;

/// Arguments of `qsm keygen`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm keygen cluster.key                        then copy it to all hosts, and let only its user read it"
    "qsm gms --key cluster.key                     a cluster that the key protects"
    "QSM_KEY=cluster.key qsm sub news"
    "qsm keygen cluster.key --cipher chacha20-poly1305   where processors have no instructions for AES"
    "qsm keygen cluster.key --cipher aegis-128x2         faster, where all processors have such instructions"
    "qsm keygen press-7.key --node                 the key of a node, which a token can be bound to"
))]
pub(crate) struct KeygenArgs {
    /// The file; it must not exist
    pub(crate) file: PathBuf,
    /// Cipher that protects packets: aes-256-gcm, chacha20-poly1305 or aegis-128x2
    #[arg(long, value_name = "CIPHER", default_value_t = Cipher::default())]
    pub(crate) cipher: Cipher,
    /// Make the key of a node, by which it proves who it is, and print the public half
    #[arg(long, conflicts_with = "cipher")]
    pub(crate) node: bool,
    /// Write JSON: one object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
///
/// # Errors
/// There are no random numbers, the file exists or cannot be written, or the output cannot.
pub(crate) fn run(args: &KeygenArgs) -> Result<(), Failure> {
    if args.node {
        return run_node(args);
    }
    let key = ClusterKey::generate(args.cipher)
        .map_err(|error| Failure::failed(error.to_string(), "try again later"))?;
    qsm::write_key(&args.file, &key)
        .map_err(|error| Failure::failed(error.to_string(), error.remedy()))?;
    let file = args.file.display().to_string();
    let text = match args.json {
        true => {
            let value = json!({
                "file": file, "cipher": key.cipher().name(), "key": key.id().to_string(),
            });
            format!("{value}\n")
        }
        false => format!(
            "key {} for {} in {file}: give it to all nodes and services of the cluster by --key, QSM_KEY or `key` of \
             the configuration, and to nobody else\n",
            key.id(),
            key.cipher()
        ),
    };
    output::write(text)
}

/// Makes the key of a node. Only its public half is printed.
fn run_node(args: &KeygenArgs) -> Result<(), Failure> {
    let key = NodeKey::generate().map_err(authority::no_random)?;
    authority::write_secret(&args.file, &key.to_text())?;
    let file = args.file.display().to_string();
    let public = key.public().to_string();
    let text = match args.json {
        true => format!("{}\n", json!({ "file": file, "node_key": public })),
        false => format!("{public}\n"),
    };
    output::write(text)
}
