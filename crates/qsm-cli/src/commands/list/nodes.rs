//! `qsm nodes`: the nodes of the cluster, or how a node on this host would send and receive.

use clap::Args;
use qsm::{NodeRow, Observer};
use qsm_console::failure::Failure;
use qsm_console::table::{Align, Table};
use serde_json::{Value, json};

use super::{ListArgs, ask, io, write, write_json};

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
pub(crate) fn run(args: &NodesArgs) -> Result<(), Failure> {
    if args.io {
        let reports = io::probe(&args.list.node)?;
        return match args.list.json {
            true => write_json(reports.iter().map(io::json)),
            false => write(&io::text(&reports)),
        };
    }
    let args = &args.list;
    let mut rows = ask(args, Observer::list_nodes)?;
    rows.sort_by(|a, b| (&a.name, a.origin).cmp(&(&b.name, b.origin)));
    match args.json {
        true => write_json(rows.iter().map(node_json)),
        false => write(&nodes_table(&rows)),
    }
}

fn nodes_table(rows: &[NodeRow]) -> String {
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("NODE", Align::Left),
        ("ADDRESS", Align::Left),
        ("REGION", Align::Right),
        ("RECEIVES", Align::Right),
        ("PUBLISHES", Align::Right),
        ("STATE", Align::Left),
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
            state(row),
        ]);
    }
    table.render()
}

/// Live, or the reason for which nobody waits for it.
fn state(row: &NodeRow) -> String {
    let state = row
        .away
        .map_or_else(|| "live".to_owned(), |reason| format!("away: {reason}"));
    match row.deaf {
        true => format!("{state}, deaf: multicast does not reach it"),
        false => state,
    }
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
        "away": row.away.map(|reason| reason.to_string()),
        "deaf": row.deaf,
    })
}

#[cfg(test)]
mod tests {
    use qsm::{Incarnation, NodeId, Origin};

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
            away: None,
            deaf: false,
        }
    }

    #[test]
    fn nodes_are_a_table_or_json() {
        assert_eq!(
            nodes_table(&[row()]),
            "NAME    NODE  ADDRESS         REGION  RECEIVES  PUBLISHES  STATE\n\
             ticker  1f.3  10.78.0.1:5000       -         0         12  live\n"
        );
        assert_eq!(
            node_json(&row()),
            json!({ "name": "ticker", "node": "1f", "incarnation": 3,
                    "address": "10.78.0.1:5000", "region": null, "receives": 0,
                    "publishes": 12, "away": null, "deaf": false })
        );
        let deaf = NodeRow {
            deaf: true,
            ..row()
        };
        assert_eq!(state(&deaf), "live, deaf: multicast does not reach it");
    }
}
