//! `qsm explain`: asks the nodes of this host where a group's messages go, and their membership service
//! why; or what nodes lose and what holds them back.

mod decision;
mod kernel;
mod message;
mod node;
mod reader;
mod words;

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use clap::Args;
use qsm::admin::{Answer, GroupState, NodeSocket, NodeState, Question};
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::figures::counted;
use qsm_console::options::seconds;
use qsm_console::output;
use qsm_console::passage::Passage;
use qsm_console::table::printable;
use serde_json::{Value, json};

pub(crate) use self::decision::ServiceWitness;
use self::kernel::KernelDrops;
use self::message::{MessageName, MessageWitness};
pub(crate) use self::node::NodeAccount;
use super::counted::Counted;
use super::list::write_json;
use super::sites::Sites;

/// Time that a node has for its counters.
const PATIENCE: Duration = Duration::from_secs(10);

const MIXED_UP: &str = "it answers another question";

/// Arguments of `qsm explain`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm explain news                  regions, paths, who is reached how, and why it is so"
    "qsm explain news --node desk      as one node of this host sees it"
    "qsm explain news --json | jq '.[].group.regions[].datagrams'"
    "qsm explain news --json | jq '.[0].decision.ways'"
    "qsm explain news --message desk#17   where one message stands: received, delivered, missing, acknowledged"
    "qsm explain                       what the nodes of this host lose, where, and what holds them back"
    "qsm explain --node desk           one of them"
))]
pub(crate) struct ExplainArgs {
    /// The group [default: none; the nodes themselves are explained]
    pub(crate) group: Option<String>,
    /// Ask this node alone [default: all of this host, that have to do with the group]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Explain this message of the group: its sender, by name or as `qsm sub --json` writes it, and
    /// its number
    #[arg(long, value_name = "SENDER#NUMBER", requires = "group", value_parser = MessageName::parse)]
    pub(crate) message: Option<MessageName>,
    /// Time for which nodes are watched, without a group
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds,
          conflicts_with = "group")]
    pub(crate) seconds: Duration,
    /// Write JSON: an array with an object for each node
    #[arg(long)]
    pub(crate) json: bool,
}

/// A node that has to do with the group.
pub(crate) struct Witness {
    pid: u32,
    pub(crate) node: NodeState,
    pub(crate) group: GroupState,
}

/// Runs the command.
///
/// # Errors
/// No node here can be asked, or none has to do with the group; the output cannot be written.
pub(crate) fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let node = args.node.as_deref();
    match (&args.group, &args.message) {
        (Some(group), Some(message)) => {
            let (found, others) = message_witnesses(group, message, node)?;
            others.tell_mute();
            if found.is_empty() {
                return Err(others.failure(Some(group), node));
            }
            match args.json {
                true => write_json(found.iter().map(MessageWitness::json)),
                false => write_words(found.iter().map(MessageWitness::words)),
            }
        }
        (Some(group), None) => {
            let (witnesses, others) = witnesses(group, node)?;
            others.tell_mute();
            if witnesses.is_empty() {
                return Err(others.failure(Some(group), node));
            }
            let services = ServiceWitness::all(group, witnesses.iter().map(|it| &it.node));
            match args.json {
                true => write_json(witnesses.iter().map(|it| witness_json(it, &services))),
                false => {
                    let nodes = witnesses.iter().map(Witness::words);
                    let sites = site_words(group, &witnesses);
                    write_words(
                        nodes
                            .chain(services.iter().map(|it| it.words(group)))
                            .chain(sites),
                    )
                }
            }
        }
        (None, _) => {
            let (accounts, others) = accounts(node, args.seconds)?;
            others.tell_mute();
            if accounts.is_empty() {
                return Err(others.failure(None, node));
            }
            match args.json {
                true => write_json(accounts.iter().map(NodeAccount::json)),
                false => write_words(accounts.iter().map(NodeAccount::words)),
            }
        }
    }
}

fn write_words(explanations: impl Iterator<Item = Vec<Passage>>) -> Result<(), Failure> {
    let texts = explanations.map(|passages| Passage::render(&passages));
    output::write(texts.collect::<Vec<_>>().join("\n"))
}

/// Nodes of this host, or the one of this name, watched for a while: losses, and what holds them back.
///
/// # Errors
/// Nodes cannot be looked for.
pub(crate) fn accounts(
    node: Option<&str>,
    watch: Duration,
) -> Result<(Vec<NodeAccount>, Others), Failure> {
    let mut others = Others::default();
    let (sockets, mut watched) = (sockets()?, Vec::new());
    for socket in &sockets {
        match look(socket, node) {
            Ok(Some((node, counted))) => watched.push((socket, node, counted)),
            Ok(None) => others.not_meant += 1,
            Err(cause) => others.note_mute(socket, &cause),
        }
    }
    let kernel = KernelDrops::now();
    if !watched.is_empty() {
        thread::sleep(watch);
    }
    let dropped = KernelDrops::now().since(kernel);
    let mut accounts = Vec::new();
    for (socket, node, before) in watched {
        match Counted::ask(socket, PATIENCE) {
            Ok(now) => {
                accounts.push(NodeAccount::new(socket.pid(), node, &before, &now, dropped));
            }
            Err(cause) => others.note_mute(socket, &cause),
        }
    }
    Ok((accounts, others))
}

/// Nodes of this host, or the one of this name, that have to do with the group.
///
/// # Errors
/// Nodes cannot be looked for.
pub(crate) fn witnesses(
    group: &str,
    node: Option<&str>,
) -> Result<(Vec<Witness>, Others), Failure> {
    let (mut others, mut witnesses) = (Others::default(), Vec::new());
    for socket in &sockets()? {
        match ask(socket, node, group) {
            Ok(Some((node, Some(group)))) => witnesses.push(Witness {
                pid: socket.pid(),
                node,
                group,
            }),
            Ok(Some((node, None))) => others.without.push(node.name),
            Ok(None) => others.not_meant += 1,
            Err(cause) => others.note_mute(socket, &cause),
        }
    }
    Ok((witnesses, others))
}

/// Nodes of this host, or the one of this name, that have to do with the group.
///
/// # Errors
/// Nodes cannot be looked for.
fn message_witnesses(
    group: &str,
    message: &MessageName,
    node: Option<&str>,
) -> Result<(Vec<MessageWitness>, Others), Failure> {
    let (mut others, mut witnesses) = (Others::default(), Vec::new());
    for socket in &sockets()? {
        let asked = match identify(socket, node) {
            Ok(Some(node)) => node,
            Ok(None) => {
                others.not_meant += 1;
                continue;
            }
            Err(cause) => {
                others.note_mute(socket, &cause);
                continue;
            }
        };
        match socket.ask(&message.question(group)) {
            Ok(Answer::Message(Some(message))) => witnesses.push(MessageWitness {
                pid: socket.pid(),
                node: asked,
                message,
            }),
            Ok(Answer::Message(None)) => others.without.push(asked.name),
            Ok(_) => others.note_mute(socket, MIXED_UP),
            Err(error) => others.note_mute(socket, &error.to_string()),
        }
    }
    Ok((witnesses, others))
}

fn sockets() -> Result<Vec<NodeSocket>, Failure> {
    NodeSocket::all().map_err(|error| Failure::io("look for nodes", &error))
}

/// Asks a node who it is; `None`: another one is meant.
fn identify(socket: &NodeSocket, meant: Option<&str>) -> Result<Option<NodeState>, String> {
    let answer = socket.ask(&Question::Node);
    match answer.map_err(|error| error.to_string())? {
        Answer::Node(node) => {
            let meant = meant.is_none_or(|name| *name == node.name);
            Ok(meant.then_some(node))
        }
        _ => Err(MIXED_UP.to_owned()),
    }
}

/// Asks a node who it is, and what it has counted so far.
fn look(socket: &NodeSocket, meant: Option<&str>) -> Result<Option<(NodeState, Counted)>, String> {
    let Some(node) = identify(socket, meant)? else {
        return Ok(None);
    };
    Ok(Some((node, Counted::ask(socket, PATIENCE)?)))
}

/// Asks a node who it is, and of the group.
fn ask(
    socket: &NodeSocket,
    meant: Option<&str>,
    group: &str,
) -> Result<Option<(NodeState, Option<GroupState>)>, String> {
    let Some(node) = identify(socket, meant)? else {
        return Ok(None);
    };
    let name = group.to_owned();
    let answer = socket.ask(&Question::Group { name });
    match answer.map_err(|error| error.to_string())? {
        Answer::Group(group) => Ok(Some((node, group))),
        _ => Err(MIXED_UP.to_owned()),
    }
}

impl Witness {
    /// For people.
    pub(crate) fn words(&self) -> Vec<Passage> {
        words::explanation(self.pid, &self.node, &self.group)
    }
}

/// The sites that gateways join the group with, once for each cluster with some.
pub(crate) fn site_words<'a>(
    group: &'a str,
    witnesses: &'a [Witness],
) -> impl Iterator<Item = Vec<Passage>> + 'a {
    let clusters: BTreeMap<&str, &Witness> =
        witnesses.iter().map(|it| (&*it.node.cluster, it)).collect();
    clusters.into_iter().filter_map(move |(cluster, witness)| {
        let sites = Sites::of_group(group, &witness.group.described);
        (!sites.is_empty()).then(|| sites.words_of_group(group, cluster))
    })
}

/// Nodes that have nothing to say of the group.
#[derive(Debug, Default)]
pub(crate) struct Others {
    /// Their names.
    without: Vec<String>,
    /// Number of those that were not asked.
    not_meant: usize,
    /// Why there is no answer.
    mute: Vec<String>,
}

impl Others {
    fn note_mute(&mut self, socket: &NodeSocket, cause: &str) {
        self.mute.push(format!("process {}: {cause}", socket.pid()));
    }

    fn tell_mute(&self) {
        for cause in &self.mute {
            output::say(format_args!("qsm: {}", printable(cause)));
        }
    }

    /// Why nobody has explained the group, or the nodes, or the node of this name.
    pub(crate) fn failure(&self, group: Option<&str>, node: Option<&str>) -> Failure {
        let group = printable(group.unwrap_or_default());
        if let Some(node) = node
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

fn witness_json(witness: &Witness, services: &[ServiceWitness]) -> Value {
    let decision = services.iter().find(|it| it.is_of(&witness.node));
    let sites = Sites::of_group(&witness.group.name, &witness.group.described);
    let mut group = json!(witness.group);
    if let Some(fields) = group.as_object_mut() {
        // The raw words of gateways, and of nodes that have nothing to do with the group.
        fields.remove("described");
    }
    json!({
        "pid": witness.pid,
        "node": witness.node,
        "group": group,
        "decision": decision.map(ServiceWitness::json),
        "sites": (!sites.is_empty()).then(|| sites.json()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_nothing_to_say_is_named() {
        let mut others = Others::default();
        let nobody = others.failure(Some("news"), None);
        assert_eq!(nobody.cause, "no node of this host can be asked");
        others.without = vec!["desk".to_owned(), "lamp".to_owned()];
        let without = others.failure(Some("news"), None).cause;
        assert_eq!(
            without,
            "no node here publishes to news or receives it (asked: desk, lamp)"
        );
        let others = Others {
            not_meant: 2,
            ..Others::default()
        };
        let cause = others.failure(Some("news"), Some("chair")).cause;
        assert!(
            cause.ends_with("by the name chair; there are 2 other nodes"),
            "{cause}"
        );
    }
}
