//! `qsm init`: makes the keys of a cluster.

use std::path::{Path, PathBuf};

use clap::Args;
use qsm::RequestError;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::output;
use qsm_identity::{Claims, NodeKey, Role, Roles, Serial, Token, utc};
use serde_json::json;

use crate::commands::authority::{self, Authority};

/// For so long the tokens of the first members hold, seconds.
const FIRST_SECONDS: u64 = 365 * 86_400;

/// Arguments of `qsm init`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm init plant                          a folder with the keys of a cluster, and three commands to start it"
    "qsm gms --identity plant/service.key    a cluster that lets nobody in without a token"
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
    let authority = Authority::create(folder, &args.cluster)?;
    let first = First {
        folder,
        authority: &authority,
        now,
    };
    let service = first.make("service", Role::Service)?;
    first.make("reader", Role::Subscribe)?;
    first.make("writer", Role::Publish)?;
    let expires = service.claims().expires;
    let commands = commands(folder, &args.cluster);
    let text = match args.json {
        true => {
            let value = json!({
                "folder": folder.display().to_string(),
                "cluster": args.cluster,
                "root": authority.public().to_string(),
                "service": service.claims().node_key.map(|key| key.to_string()),
                "serial": service.claims().serial.to_string(),
                "expires": utc(expires),
                "commands": commands,
            });
            format!("{value}\n")
        }
        false => text(folder, &args.cluster, expires, &commands),
    };
    output::write(text)
}

/// The first members of a cluster.
struct First<'a> {
    folder: &'a Path,
    authority: &'a Authority,
    now: u64,
}

impl First<'_> {
    /// Makes a key, and a token bound to it for this role, in all groups.
    fn make(&self, name: &str, role: Role) -> Result<Token, Failure> {
        let key = NodeKey::generate().map_err(authority::no_random)?;
        let file = |ending: &str| self.folder.join(format!("{name}.{ending}"));
        authority::write_secret(&file("key"), &key.to_text())?;
        let all = || "**".parse().map_err(RequestError::from);
        let groups = |of: Role| match of == role {
            true => Ok::<_, RequestError>(vec![all()?]),
            false => Ok(Vec::new()),
        };
        let token = self.authority.issue(Claims {
            cluster: self.authority.cluster().to_owned(),
            serial: Serial::random().map_err(authority::no_random)?,
            name: all()?,
            node_key: Some(key.public()),
            roles: Roles::NONE.with(role),
            not_before: self.now,
            expires: self.now + FIRST_SECONDS,
            publish: groups(Role::Publish)?,
            subscribe: groups(Role::Subscribe)?,
        })?;
        authority::write_secret(&file("token"), &token.to_string())?;
        Ok(token)
    }
}

fn text(folder: &Path, cluster: &str, expires: u64, commands: &[String; 3]) -> String {
    let [service, subscriber, publisher] = commands;
    format!(
        "{} has the keys of the cluster {cluster:?}:\n\n  \
         root.secret     makes tokens and revokes them; keep it away from the hosts of the cluster\n  \
         root.pub        checks tokens; all nodes and services need it\n  \
         service.key     the own key of a membership service, and service.token its token\n  \
         reader.key      the key of a node that receives all groups, and reader.token its token\n  \
         writer.key      the key of a node that publishes to all groups, and writer.token its token\n  \
         issued          all tokens that were made\n  \
         revoked.list    what is revoked: nothing yet; the service reads it\n\n\
         These tokens hold until {}. `qsm token new` makes others.\n\n\
         A cluster that lets nobody in without a token, in three commands:\n\n  \
         {service}\n  {subscriber}\n  {publisher}\n",
        folder.display(),
        utc(expires),
    )
}

/// The commands of a cluster that takes tokens.
fn commands(folder: &Path, cluster: &str) -> [String; 3] {
    let options = |name: &str| {
        let key = quoted(&folder.join(name).display().to_string());
        match cluster {
            "default" => format!("--identity {key}"),
            cluster => format!("--cluster {} --identity {key}", quoted(cluster)),
        }
    };
    [
        format!("qsm gms {}", options("service.key")),
        format!("qsm sub news {}", options("reader.key")),
        format!("echo hello | qsm pub news {}", options("writer.key")),
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
            r"qsm gms --cluster 'a b' --identity 'it'\''s here/service.key'"
        );
        let [.., publisher] = commands(Path::new("/etc/qsm"), "default");
        assert_eq!(
            publisher,
            "echo hello | qsm pub news --identity /etc/qsm/writer.key"
        );
    }
}
