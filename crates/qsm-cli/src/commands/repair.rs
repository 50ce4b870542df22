//! `qsm repair`: the limit of what the nodes of a cluster send again, shown and changed at the membership
//! service of this host.

use std::str::FromStr;

use clap::Args;
use qsm::admin::{Answer, NodeSocket, Question, RepairLimitState, ServiceState};
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::figures::bytes;
use qsm_console::options::{loss_ppm, size};
use qsm_console::output;
use qsm_console::table::printable;
use serde_json::{Value, json};

use super::list::write_json;

/// Arguments of `qsm repair`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm repair                    the limit of the membership service of this host"
    "qsm repair --limit 5%         of the new bytes that each node sends and receives"
    "qsm repair --limit 8M         bytes a second of each node"
    "qsm repair --limit none"
))]
pub(crate) struct RepairArgs {
    /// Limit what each node sends again from now on, in every interval of 10 ms: to a share of the
    /// bytes that it sends and receives for the first time, or to bytes a second, with suffix k, M or G;
    /// none: there is no limit but the budget of each node [default: the limit is shown]
    #[arg(long, value_name = "PERCENT|BYTES")]
    pub(crate) limit: Option<RepairLimit>,
    /// Cluster, where services of several run on this host
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// Write JSON: an array with an object for each service
    #[arg(long)]
    pub(crate) json: bool,
}

/// A limit, as the option says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RepairLimit(RepairLimitState);

impl FromStr for RepairLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let none = RepairLimitState::default();
        if text == "none" {
            return Ok(Self(none));
        }
        let limit = match text.ends_with('%') {
            true => RepairLimitState {
                share_ppm: loss_ppm(text)?,
                ..none
            },
            false => RepairLimitState {
                bytes_per_second: size(text)? as u64,
                ..none
            },
        };
        match limit == none {
            true => Err("0 would be no limit: say `none`, or a small one".to_owned()),
            false => Ok(Self(limit)),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// No service here can be asked, or there are several and it is not said which is meant; the output
/// cannot be written.
pub(crate) fn run(args: &RepairArgs) -> Result<(), Failure> {
    let services = services(args.cluster.as_deref())?;
    let states = match args.limit {
        Some(limit) => limit_all(&services, limit)?,
        None => services.into_iter().map(|(_, state)| state).collect(),
    };
    match args.json {
        true => write_json(states.iter().map(state_json)),
        false => output::write(states.iter().map(state_words).collect::<String>()),
    }
}

/// The services of this host, or those of a cluster.
fn services(cluster: Option<&str>) -> Result<Vec<(NodeSocket, ServiceState)>, Failure> {
    let sockets = NodeSocket::services();
    let sockets = sockets.map_err(|error| Failure::io("look for membership services", &error))?;
    let (mut found, mut others, mut mute) = (Vec::new(), Vec::new(), Vec::new());
    for socket in sockets {
        match ask(&socket, &Question::Service) {
            Ok(state) if cluster.is_none_or(|name| name == state.cluster) => {
                found.push((socket, state));
            }
            Ok(state) => others.push(state.cluster),
            Err(cause) => mute.push(format!("process {}: {cause}", socket.pid())),
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let mut cause = "no membership service of this host can be asked".to_owned();
    if !others.is_empty() {
        let others = printable(&others.join(", "));
        cause = format!("membership services of this host are of other clusters: {others}");
    }
    for one in mute {
        cause = format!("{cause}; {}", printable(&one));
    }
    Err(Failure::failed(
        cause,
        "run this where the service runs, as its user or as root; in a container, inside it. `qsm nodes` \
         and `-v` of a node say where that is",
    ))
}

/// Has services of one cluster limit repairs.
fn limit_all(
    services: &[(NodeSocket, ServiceState)],
    limit: RepairLimit,
) -> Result<Vec<ServiceState>, Failure> {
    let mut clusters: Vec<&str> = services.iter().map(|(_, one)| &*one.cluster).collect();
    clusters.sort_unstable();
    clusters.dedup();
    if clusters.len() > 1 {
        return Err(Failure::usage(
            format!(
                "services of several clusters run here: {}",
                printable(&clusters.join(", "))
            ),
            "say which is meant by --cluster",
        ));
    }
    let question = Question::LimitRepairs(limit.0);
    let ordered = services.iter().map(|(socket, _)| {
        ask(socket, &question).map_err(|cause| {
            let pid = socket.pid();
            Failure::failed(
                format!("the membership service in process {pid} did not take the limit: {cause}"),
                "try it again",
            )
        })
    });
    ordered.collect()
}

fn ask(socket: &NodeSocket, question: &Question) -> Result<ServiceState, String> {
    match socket.ask(question).map_err(|error| error.to_string())? {
        Answer::Service(state) => Ok(state),
        _ => Err("it answers another question".to_owned()),
    }
}

/// A line for people.
fn state_words(state: &ServiceState) -> String {
    format!(
        "cluster {}, service at {}, {} nodes: repairs {}\n",
        printable(&state.cluster),
        state.address,
        state.nodes,
        words(state.repair_limit)
    )
}

fn words(limit: RepairLimitState) -> String {
    let share = (limit.share_ppm > 0).then(|| {
        let percent = f64::from(limit.share_ppm) / 1e4;
        format!("{percent} % of what is new")
    });
    let rate = (limit.bytes_per_second > 0).then(|| format!("{}/s", bytes(limit.bytes_per_second)));
    let bounds: Vec<String> = share.into_iter().chain(rate).collect();
    match bounds.is_empty() {
        true => "have no limit but each node's budget".to_owned(),
        false => format!(
            "take at most {} of each node, in every interval of 10 ms",
            bounds.join(" and ")
        ),
    }
}

/// For programs; a bound that there is not is null.
fn state_json(state: &ServiceState) -> Value {
    let limit = state.repair_limit;
    let rate = (limit.bytes_per_second > 0).then_some(limit.bytes_per_second);
    let share = (limit.share_ppm > 0).then(|| f64::from(limit.share_ppm) / 1e6);
    json!({
        "cluster": state.cluster,
        "service": state.address,
        "nodes": state.nodes,
        "bytes_per_second": rate,
        "share": share,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(bytes_per_second: u64, share_ppm: u32) -> RepairLimitState {
        RepairLimitState {
            bytes_per_second,
            share_ppm,
        }
    }

    #[test]
    fn a_limit_is_a_share_or_bytes_or_none() {
        let parse = |text: &str| text.parse::<RepairLimit>().map(|limit| limit.0);
        assert_eq!(parse("5%"), Ok(limit(0, 50_000)));
        assert_eq!(parse("0.5%"), Ok(limit(0, 5_000)));
        assert_eq!(parse("8M"), Ok(limit(8 << 20, 0)));
        assert_eq!(parse("none"), Ok(limit(0, 0)));
        for wrong in ["0", "0%", "101%", "-1", "five", "5 %%", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_are_said_in_words() {
        assert_eq!(words(limit(0, 0)), "have no limit but each node's budget");
        let said = words(limit(1_000_000, 50_000));
        assert!(
            said.starts_with("take at most 5 % of what is new and "),
            "{said}"
        );
        assert!(said.ends_with("in every interval of 10 ms"), "{said}");
    }
}
