//! `qsm token new`.

use std::path::PathBuf;

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::output;
use qsm_identity::{Claims, Pattern, Role, Roles, Serial};
use serde_json::json;

use super::rows;
use crate::commands::authority::{self, Authority};
use crate::group_name::check_pattern;

/// Arguments of `qsm token new`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm token new plant --name 'press-7/**' --subscribe 'orders/*' --publish states/press-7"
    "qsm token new plant --name 'press-7/**' --subscribe '**' --node qsm-node-1.… --ttl 30d --output press-7.token"
    "qsm token new plant --name relay-2 --role relay --node relay-2.key"
))]
pub(crate) struct NewArgs {
    /// The folder that `qsm init` made
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Names that the node may have: one, or a pattern such as 'press-7/**'
    #[arg(long, value_name = "NAME")]
    name: Pattern,
    /// Groups that it may publish to: a name, or a pattern such as 'states/*'; may be given several times
    #[arg(long, value_name = "GROUP")]
    publish: Vec<String>,
    /// Groups that it may receive, the same way
    #[arg(long, value_name = "GROUP")]
    subscribe: Vec<String>,
    /// Another role: relay, admin or service; may be given several times
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Vec<Role>,
    /// The node's public key, or a file of it: no other node may use the token then
    #[arg(long, value_name = "KEY")]
    node: Option<String>,
    /// For how long it holds, from now on: 90s, 15m, 12h or 30d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = seconds)]
    ttl: u64,
    /// Write the token into this new file, which only its owner may read
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write JSON: one object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The folder has no root, no token can be so, or it cannot be written.
pub(super) fn run(args: &NewArgs) -> Result<(), Failure> {
    let authority = Authority::open(&args.folder)?;
    let now = authority::now()?;
    let node_key = args.node.as_deref().map(authority::node_key).transpose()?;
    let [publish, subscribe] = [groups(&args.publish)?, groups(&args.subscribe)?];
    let mut roles = args.role.iter().copied().fold(Roles::NONE, Roles::with);
    for (role, groups) in [(Role::Publish, &publish), (Role::Subscribe, &subscribe)] {
        if !groups.is_empty() {
            roles = roles.with(role);
        }
    }
    let token = authority.issue(Claims {
        cluster: authority.cluster().to_owned(),
        serial: Serial::random().map_err(authority::no_random)?,
        name: args.name.clone(),
        node_key,
        roles,
        not_before: now,
        expires: now.saturating_add(args.ttl),
        publish,
        subscribe,
    })?;
    let claims = token.claims();
    if let Some(path) = &args.output {
        authority::write_secret(path, &token.to_string())?;
    }
    if node_key.is_none() {
        output::say(
            "note: the token is bound to no key, so whoever has it may use it; --node binds it to one",
        );
    }
    let text = match (&args.output, args.json) {
        (output, true) => {
            let mut object = rows::object(claims);
            match output {
                Some(path) => object.insert("file".into(), json!(path.display().to_string())),
                None => object.insert("token".into(), json!(token.to_string())),
            };
            format!("{}\n", serde_json::Value::Object(object))
        }
        (Some(path), false) => format!(
            "token {} for {} in {}: {}\n",
            claims.serial,
            claims.name,
            path.display(),
            authority::period(claims)
        ),
        (None, false) => format!("{token}\n"),
    };
    output::write(text)
}

fn groups(names: &[String]) -> Result<Vec<Pattern>, Failure> {
    names.iter().map(|name| check_pattern(name)).collect()
}

fn role(name: &str) -> Result<Role, String> {
    match name.parse() {
        Ok(role @ (Role::Publish | Role::Subscribe)) => {
            Err(format!("a token says which groups: --{role} GROUP"))
        }
        Ok(role) => Ok(role),
        Err(_) => Err("there are relay, admin and service".to_owned()),
    }
}

/// A time of whole units, in seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || "not a time such as 90s, 15m, 12h or 30d, of at least a second".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number = text
        .strip_suffix(unit)
        .and_then(|number| number.parse::<u32>().ok());
    match number {
        Some(number @ 1..) => Ok(u64::from(number) * seconds),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        for (text, expected) in [("1s", 1), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000)] {
            assert_eq!(seconds(text), Ok(expected));
        }
        for wrong in [
            "",
            "s",
            "0s",
            "-1h",
            "1",
            "1.5h",
            "1w",
            "99999999999d",
            "1ä",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn roles_for_groups_are_given_by_their_groups() {
        assert_eq!(role("relay"), Ok(Role::Relay));
        assert!(role("publish").unwrap_err().contains("--publish GROUP"));
        assert!(
            role("root")
                .unwrap_err()
                .contains("relay, admin and service")
        );
    }
}
