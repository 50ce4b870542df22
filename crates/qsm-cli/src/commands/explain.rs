//! `qsm explain`: asks the nodes of this host where a group's messages go, and says why.

mod words;

use clap::Args;
use qsm::admin::{Answer, GroupState, NodeSocket, NodeState, Question};
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::figures::counted;
use qsm_console::table::printable;
use serde_json::{Value, json};

use super::list::{write, write_json};

/// Arguments of `qsm explain`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm explain news                  regions, paths, and who is reached how"
    "qsm explain news --node desk      as one node of this host sees it"
    "qsm explain news --json | jq '.[].group.regions[].datagrams'"
))]
pub(crate) struct ExplainArgs {
    /// The group
    pub(crate) group: String,
    /// Ask this node alone [default: all of this host that have to do with the group]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Write JSON: an array with an object for each node
    #[arg(long)]
    pub(crate) json: bool,
}

/// A node that has to do with the group.
struct Witness {
    pid: u32,
    node: NodeState,
    group: GroupState,
}

/// Runs the command.
///
/// # Errors
/// No node here can be asked, or none has to do with the group; the output cannot be written.
pub(crate) fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let (mut others, mut witnesses) = (Others::default(), Vec::new());
    for socket in NodeSocket::all().map_err(|error| Failure::io("look for nodes", &error))? {
        match ask(&socket, args) {
            Ok(Some((node, Some(group)))) => witnesses.push(Witness {
                pid: socket.pid(),
                node,
                group,
            }),
            Ok(Some((node, None))) => others.without.push(node.name),
            Ok(None) => others.not_meant += 1,
            Err(cause) => others
                .mute
                .push(format!("process {}: {cause}", socket.pid())),
        }
    }
    for cause in &others.mute {
        eprintln!("qsm: {}", printable(cause));
    }
    if witnesses.is_empty() {
        return Err(others.failure(args));
    }
    match args.json {
        true => write_json(witnesses.iter().map(witness_json)),
        false => {
            let texts = witnesses
                .iter()
                .map(|it| words::explanation(it.pid, &it.node, &it.group));
            write(&texts.collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Asks a node who it is, and of the group; `None`: another one is meant.
fn ask(
    socket: &NodeSocket,
    args: &ExplainArgs,
) -> Result<Option<(NodeState, Option<GroupState>)>, String> {
    let mixed = || "it answers another question".to_owned();
    let answer = |question| socket.ask(&question).map_err(|error| error.to_string());
    let Answer::Node(node) = answer(Question::Node)? else {
        return Err(mixed());
    };
    if args.node.as_ref().is_some_and(|name| *name != node.name) {
        return Ok(None);
    }
    let name = args.group.clone();
    match answer(Question::Group { name })? {
        Answer::Group(group) => Ok(Some((node, group))),
        _ => Err(mixed()),
    }
}

/// Nodes that have nothing to say of the group.
#[derive(Debug, Default)]
struct Others {
    /// Their names.
    without: Vec<String>,
    /// Number of those that were not asked.
    not_meant: usize,
    /// Why there is no answer.
    mute: Vec<String>,
}

impl Others {
    fn failure(&self, args: &ExplainArgs) -> Failure {
        let group = printable(&args.group);
        if let Some(node) = &args.node
            && self.without.is_empty()
        {
            let others = counted(self.not_meant as u64, "other node");
            return Failure::failed(
                format!(
                    "no node of this host answers by the name {}; there are {others}",
                    printable(node)
                ),
                "leave --node out to ask all; `qsm nodes` lists those of the cluster, with addresses",
            );
        }
        match self.without.is_empty() {
            true => Failure::failed(
                "no node of this host can be asked",
                "ask where one runs, as its user or as root; in a container, inside it; \
                 `qsm nodes` lists those of the cluster, with addresses",
            ),
            false => Failure::failed(
                format!(
                    "no node here publishes to {group} or receives it (asked: {})",
                    printable(&self.without.join(", "))
                ),
                "ask where one does: `qsm groups` lists the groups of the cluster, `qsm nodes` who \
                 is in it",
            ),
        }
    }
}

fn witness_json(witness: &Witness) -> Value {
    json!({ "pid": witness.pid, "node": witness.node, "group": witness.group })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_nothing_to_say_is_named() {
        let args = |node: Option<&str>| ExplainArgs {
            group: "news".to_owned(),
            node: node.map(str::to_owned),
            json: false,
        };
        let mut others = Others::default();
        let nobody = others.failure(&args(None));
        assert_eq!(nobody.cause, "no node of this host can be asked");
        others.without = vec!["desk".to_owned(), "lamp".to_owned()];
        let without = others.failure(&args(None)).cause;
        assert_eq!(
            without,
            "no node here publishes to news or receives it (asked: desk, lamp)"
        );
        let others = Others {
            not_meant: 2,
            ..Others::default()
        };
        let cause = others.failure(&args(Some("chair"))).cause;
        assert!(
            cause.ends_with("by the name chair; there are 2 other nodes"),
            "{cause}"
        );
    }
}
