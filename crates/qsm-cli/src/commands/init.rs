//! `qsm init`: makes the keys of a cluster.

use std::path::{Path, PathBuf};

use clap::Args;
use qsm::{Cipher, ClusterKey, RequestError};
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::output;
use qsm_identity::{Claims, NodeKey, Role, Roles, Serial, utc};
use serde_json::json;

use crate::commands::authority::{self, Authority};

/// For so long the token of the first service holds, seconds.
const SERVICE_SECONDS: u64 = 365 * 86_400;
/// Words for tokens as long as nothing asks for them.
pub(crate) const UNUSED: &str = "nodes and services of this version do not ask for tokens";

/// Arguments of `qsm init`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm init plant                          a folder with the keys of a cluster, and three commands to start it"
    "qsm gms --key plant/cluster.key         a cluster that the key protects"
    "qsm token new plant --name 'press-7/**' --subscribe 'orders/*'"
))]
pub(crate) struct InitArgs {
    /// The folder; it must not exist, or be empty
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Cluster that tokens are for
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) cluster: String,
    /// Write JSON: one object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
///
/// # Errors
/// There are no random numbers, the folder is not empty or cannot be written, or the output cannot.
pub(crate) fn run(args: &InitArgs) -> Result<(), Failure> {
    let now = authority::now()?;
    let folder = &args.folder;
    let key = ClusterKey::generate(Cipher::default()).map_err(authority::no_random)?;
    let service = NodeKey::generate().map_err(authority::no_random)?;
    let authority = Authority::create(folder, &args.cluster)?;
    qsm::write_key(folder.join("cluster.key"), &key)
        .map_err(|error| Failure::failed(error.to_string(), error.remedy()))?;
    authority::write_secret(&folder.join("service.key"), &service.to_text())?;
    let name = "**".parse().map_err(RequestError::from)?;
    let claims = Claims {
        cluster: args.cluster.clone(),
        serial: Serial::random().map_err(authority::no_random)?,
        name,
        node_key: Some(service.public()),
        roles: Roles::NONE.with(Role::Service),
        not_before: now,
        expires: now + SERVICE_SECONDS,
        publish: Vec::new(),
        subscribe: Vec::new(),
    };
    let expires = claims.expires;
    let token = authority.issue(claims)?;
    authority::write_secret(&folder.join("service.token"), &token.to_string())?;
    let commands = commands(folder, &args.cluster);
    let text = match args.json {
        true => {
            let value = json!({
                "folder": folder.display().to_string(),
                "cluster": args.cluster,
                "key": key.id().to_string(),
                "service": service.public().to_string(),
                "serial": token.claims().serial.to_string(),
                "expires": utc(expires),
                "commands": commands,
                "tokens_are_checked": false,
            });
            format!("{value}\n")
        }
        false => text(folder, &args.cluster, expires, &commands),
    };
    output::write(text)
}

fn text(folder: &Path, cluster: &str, expires: u64, commands: &[String; 3]) -> String {
    let [service, subscriber, publisher] = commands;
    format!(
        "{} has the keys of the cluster {cluster:?}:\n\n  \
         cluster.key     protects packets; all nodes and services need it, and nobody else may have it\n  \
         root.secret     makes tokens and revokes them; keep it away from the hosts of the cluster\n  \
         root.pub        checks tokens\n  \
         service.key     the own key of a membership service\n  \
         service.token   its token, until {}\n  \
         issued          all tokens that were made\n  \
         revoked.list    what is revoked: nothing yet\n\n\
         What protects the cluster is cluster.key alone: {UNUSED}.\n\n\
         A cluster that the key protects, in three commands:\n\n  \
         {service}\n  {subscriber}\n  {publisher}\n",
        folder.display(),
        utc(expires),
    )
}

/// The commands of a cluster that the key protects.
fn commands(folder: &Path, cluster: &str) -> [String; 3] {
    let key = quoted(&folder.join("cluster.key").display().to_string());
    let more = match cluster {
        "default" => format!("--key {key}"),
        cluster => format!("--cluster {} --key {key}", quoted(cluster)),
    };
    [
        format!("qsm gms {more}"),
        format!("qsm sub news {more}"),
        format!("echo hello | qsm pub news {more}"),
    ]
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "-_./".contains(char);
    match word.chars().all(plain) && !word.starts_with('-') {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_quoted_for_shells() {
        let [service, ..] = commands(Path::new("it's here"), "a b");
        assert_eq!(
            service,
            r"qsm gms --cluster 'a b' --key 'it'\''s here/cluster.key'"
        );
        let [.., publisher] = commands(Path::new("/etc/qsm"), "default");
        assert_eq!(
            publisher,
            "echo hello | qsm pub news --key /etc/qsm/cluster.key"
        );
    }
}
