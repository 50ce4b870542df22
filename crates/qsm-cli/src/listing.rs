//! `qsm nodes`, `qsm groups`, `qsm regions`: what the membership service knows, as tables or JSON.

use std::io::{ErrorKind, Write, stdout};
use std::time::Duration;

use clap::Args;
use qsm::{Embedded, GroupRow, Node, NodeId, NodeRow, RegionRow, RequestError};
use qsm_console::after_help;
use qsm_console::failure::Failure;
use qsm_console::options::{NodeOptions, seconds};
use qsm_console::table::{Align, Table};
use serde_json::{Value, json};

use crate::io;

/// How long a node that only asked may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// Members of a region that are listed in the table; `--json` has all.
const MEMBERS_SHOWN: usize = 8;

/// Arguments of the lists.
#[derive(Debug, Clone, Args)]
#[command(after_help = after_help!(
    "qsm nodes                                   what is there"
    "qsm nodes --io                              how a node here sends and receives"
    "qsm groups --json | jq '.[] | .name'        for programs"
    "qsm regions --service 10.0.0.1:4483         of a service that multicast does not reach"
))]
pub(crate) struct ListArgs {
    /// Write JSON: an array of objects
    #[arg(long)]
    pub(crate) json: bool,
    /// How long to look for a membership service, and to wait for its answer
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// The node.
    #[command(flatten)]
    pub(crate) node: NodeOptions,
}

/// Arguments of `qsm nodes`.
#[derive(Debug, Clone, Args)]
pub(crate) struct NodesArgs {
    /// Instead: which ways of sending and receiving faster a node on this host uses, and why not
    #[arg(long)]
    pub(crate) io: bool,
    /// As of the other lists.
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

/// `qsm nodes`.
///
/// # Errors
/// No service answers in time, or the output cannot be written; with `--io`, a node would not
/// start.
pub(crate) fn nodes(args: &NodesArgs) -> Result<(), Failure> {
    if args.io {
        let reports = io::probe(&args.list.node)?;
        return match args.list.json {
            true => write_json(reports.iter().map(io::json)),
            false => write(&io::text(&reports)),
        };
    }
    let args = &args.list;
    let (mut rows, own) = ask(args, |node| Ok((node.nodes()?, node.ids().collect())))?;
    let own: Vec<NodeId> = own;
    rows.retain(|row| !own.contains(&row.origin.node));
    rows.sort_by(|a, b| (&a.name, a.origin).cmp(&(&b.name, b.origin)));
    match args.json {
        true => write_json(rows.iter().map(node_json)),
        false => write(&nodes_table(&rows)),
    }
}

/// `qsm groups`.
///
/// # Errors
/// As [`nodes`].
pub(crate) fn groups(args: &ListArgs) -> Result<(), Failure> {
    let mut rows = ask(args, Node::groups)?;
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    match args.json {
        true => write_json(rows.iter().map(group_json)),
        false => write(&groups_table(&rows)),
    }
}

/// `qsm regions`.
///
/// # Errors
/// As [`nodes`].
pub(crate) fn regions(args: &ListArgs) -> Result<(), Failure> {
    let mut rows = ask(args, Node::regions)?;
    rows.sort_by_key(|row| row.region);
    match args.json {
        true => write_json(rows.iter().map(region_json)),
        false => write(&regions_table(&rows)),
    }
}

fn ask<T>(
    args: &ListArgs,
    question: impl FnOnce(&Node) -> Result<T, RequestError>,
) -> Result<T, Failure> {
    let builder = args
        .node
        .builder(Embedded::Never)
        .request_timeout(args.timeout);
    let node = builder.start()?;
    let answer = node
        .wait_admitted(args.timeout)
        .and_then(|()| question(&node));
    // The answer is what matters.
    drop(node.shutdown(GOODBYE));
    answer.map_err(|error| match error {
        RequestError::Timeout { .. } => Failure::timeout(
            format!("no membership service answered within {:?}", args.timeout),
            "start one with `qsm gms`, or say where it is with --service ADDRESS:PORT and \
             --interface",
        ),
        other => other.into(),
    })
}

fn write(text: &str) -> Result<(), Failure> {
    match stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::io("write to stdout", &error))
        }
        _ => Ok(()),
    }
}

fn write_json(rows: impl Iterator<Item = Value>) -> Result<(), Failure> {
    write(&format!("{:#}\n", Value::Array(rows.collect())))
}

fn nodes_table(rows: &[NodeRow]) -> String {
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("NODE", Align::Left),
        ("ADDRESS", Align::Left),
        ("REGION", Align::Right),
        ("RECEIVES", Align::Right),
        ("PUBLISHES", Align::Right),
    ]);
    for row in rows {
        table.row([
            row.name.clone(),
            row.origin.to_string(),
            row.address.to_string(),
            row.region
                .map_or_else(|| "-".to_owned(), |region| region.to_string()),
            row.subscriptions.to_string(),
            row.publications.to_string(),
        ]);
    }
    table.render()
}

fn node_json(row: &NodeRow) -> Value {
    json!({
        "name": row.name,
        "node": format!("{:x}", row.origin.node.0),
        "incarnation": row.origin.incarnation.0,
        "address": row.address,
        "region": row.region.map(|region| region.0),
        "receives": row.subscriptions,
        "publishes": row.publications,
    })
}

fn groups_table(rows: &[GroupRow]) -> String {
    let mut table = Table::new(&[
        ("GROUP", Align::Left),
        ("NUMBER", Align::Right),
        ("MEMBERS", Align::Right),
        ("REGIONS", Align::Right),
        ("PUBLISHERS", Align::Right),
    ]);
    for row in rows {
        table.row([
            row.name.clone(),
            row.group.to_string(),
            row.members.to_string(),
            row.regions.to_string(),
            row.publishers.to_string(),
        ]);
    }
    table.render()
}

fn group_json(row: &GroupRow) -> Value {
    json!({
        "name": row.name,
        "number": row.group.0,
        "members": row.members,
        "regions": row.regions,
        "publishers": row.publishers,
    })
}

fn regions_table(rows: &[RegionRow]) -> String {
    let mut table = Table::new(&[
        ("REGION", Align::Right),
        ("VIEW", Align::Right),
        ("ADDRESS", Align::Left),
        ("GROUPS", Align::Right),
        ("MEMBERS", Align::Right),
        ("WHO", Align::Left),
    ]);
    for row in rows {
        let who = row
            .members
            .iter()
            .take(MEMBERS_SHOWN)
            .map(|member| member.address.to_string());
        let mut who = who.collect::<Vec<_>>().join(" ");
        if row.members.len() > MEMBERS_SHOWN {
            who.push_str(" …");
        }
        table.row([
            row.region.to_string(),
            row.view.to_string(),
            row.address.to_string(),
            row.groups.to_string(),
            row.members.len().to_string(),
            who,
        ]);
    }
    table.render()
}

fn region_json(row: &RegionRow) -> Value {
    let member = |member: &qsm::Member| {
        json!({ "node": format!("{:x}", member.origin.node.0),
                "incarnation": member.origin.incarnation.0,
                "address": member.address })
    };
    json!({
        "region": row.region.0,
        "view": row.view.0,
        "address": row.address,
        "groups": row.groups,
        "members": row.members.iter().map(member).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use qsm::{GroupId, Incarnation, Origin, RegionId, ViewNumber};

    use super::*;

    fn row() -> NodeRow {
        NodeRow {
            origin: Origin {
                node: NodeId(0x1f),
                incarnation: Incarnation(3),
            },
            name: "ticker".to_owned(),
            address: "10.78.0.1:5000".parse().unwrap(),
            region: None,
            subscriptions: 0,
            publications: 12,
        }
    }

    #[test]
    fn nodes_are_a_table_or_json() {
        assert_eq!(
            nodes_table(&[row()]),
            "NAME    NODE  ADDRESS         REGION  RECEIVES  PUBLISHES\n\
             ticker  1f.3  10.78.0.1:5000       -         0         12\n"
        );
        assert_eq!(
            node_json(&row()),
            json!({ "name": "ticker", "node": "1f", "incarnation": 3,
                    "address": "10.78.0.1:5000", "region": null, "receives": 0,
                    "publishes": 12 })
        );
    }

    #[test]
    fn groups_are_a_table_or_json() {
        let row = GroupRow {
            group: GroupId(4),
            name: "prices/eur".to_owned(),
            members: 3,
            regions: 2,
            publishers: 1,
        };
        assert_eq!(
            groups_table(std::slice::from_ref(&row)),
            "GROUP       NUMBER  MEMBERS  REGIONS  PUBLISHERS\n\
             prices/eur       4        3        2           1\n"
        );
        assert_eq!(group_json(&row)["members"], 3);
    }

    #[test]
    fn regions_show_some_members_and_json_has_all() {
        let member = |at: u8| qsm::Member {
            origin: Origin {
                node: NodeId(u64::from(at)),
                incarnation: Incarnation(1),
            },
            address: std::net::SocketAddr::from(([10, 0, 0, at], 7)),
            joined: ViewNumber(1),
            left: None,
        };
        let row = RegionRow {
            region: RegionId(2),
            view: ViewNumber(5),
            address: "239.1.2.3:4484".parse().unwrap(),
            groups: 9,
            members: (0..10).map(member).collect(),
        };
        let text = regions_table(std::slice::from_ref(&row));
        assert!(
            text.contains("10.0.0.7:7 …") && !text.contains("10.0.0.8"),
            "{text}"
        );
        assert_eq!(
            region_json(&row)["members"].as_array().map(Vec::len),
            Some(10)
        );
    }
}
