//! `qsm nodes`: the nodes of the cluster, or how a node on this host would send and receive.

use clap::Args;
use qsm::{AwayReason, NodeRow, Observer, Rates};
use qsm_console::failure::Failure;
use qsm_console::figures;
use qsm_console::output;
use qsm_console::passage::Passage;
use qsm_console::table::{Align, Table, printable};
use serde_json::{Value, json};

use super::{ListArgs, ask, io, write_json};
use crate::commands::sites::{Gateway, Sites};

/// Arguments of `qsm nodes`.
#[derive(Debug, Clone, Args)]
pub(crate) struct NodesArgs {
    /// Instead: which ways of sending and receiving faster a node on this host uses, and why not
    #[arg(long)]
    pub(crate) io: bool,
    /// Instead: the sites that gateways of this cluster join, the links between them, and what is wrong with these
    #[arg(long, conflicts_with = "io")]
    pub(crate) sites: bool,
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
        let why = io::why(&args.list.node, &reports);
        return match args.list.json {
            true => write_json(reports.iter().map(|report| io::json(report, &why))),
            false => output::write(io::text(&reports, &why)),
        };
    }
    let NodesArgs {
        list: args, sites, ..
    } = args;
    let mut rows = ask(args, Observer::list_nodes)?;
    if *sites {
        return show_sites(&Sites::of_rows(&rows), args.json);
    }
    rows.sort_by(|a, b| (&a.name, a.origin).cmp(&(&b.name, b.origin)));
    match args.json {
        true => write_json(rows.iter().map(node_json)),
        false => output::write(nodes_table(&rows)),
    }
}

fn show_sites(sites: &Sites, json: bool) -> Result<(), Failure> {
    match json {
        true => output::write(format!("{:#}\n", sites.json())),
        false if sites.is_empty() => output::write(
            "No node of this cluster says that it is a gateway of sites (`qsm relay site`).\n",
        ),
        false => output::write(Passage::render(&sites.words())),
    }
}

fn nodes_table(rows: &[NodeRow]) -> String {
    let mut columns = vec![
        ("NAME", Align::Left),
        ("NODE", Align::Left),
        ("ADDRESS", Align::Left),
        ("HOST", Align::Left),
        ("VERSION", Align::Left),
        ("UP", Align::Right),
        ("SENT/S", Align::Right),
        ("RECEIVED/S", Align::Right),
        ("REGION", Align::Right),
        ("RECEIVES", Align::Right),
        ("PUBLISHES", Align::Right),
        ("STATE", Align::Left),
    ];
    // Where the cluster takes tokens.
    let grants = rows.iter().any(|row| row.grant.is_some());
    if grants {
        columns.push(("KEY AND RIGHTS", Align::Left));
    }
    let gateways: Vec<Option<Gateway>> = rows.iter().map(Gateway::of).collect();
    if gateways.iter().any(Option::is_some) {
        columns.push(("SITE", Align::Left));
    }
    let mut table = Table::new(&columns);
    for (row, gateway) in rows.iter().zip(&gateways) {
        let about = row.about.as_ref();
        let of_rates = |rate: fn(&Rates) -> u32| {
            let rate = now(row, row.rates.as_ref()).map(|rates| u64::from(rate(rates)));
            or_dash(rate.map(figures::count))
        };
        let mut cells = vec![
            row.name.clone(),
            row.origin.to_string(),
            row.address.to_string(),
            or_dash(about.map(|about| printable(&about.host))),
            or_dash(about.map(|about| printable(&about.version))),
            or_dash(now(row, about).map(|about| up(about.uptime_ms / 1000))),
            of_rates(|rates| rates.sent),
            of_rates(|rates| rates.received),
            row.region
                .map_or_else(|| "-".to_owned(), |region| region.to_string()),
            row.subscriptions.to_string(),
            row.publications.to_string(),
            state(row),
        ];
        if grants {
            cells.push(or_dash(row.grant.as_deref().map(printable)));
        }
        cells.push(or_dash(gateway.as_ref().map(Gateway::summary)));
        cells.truncate(columns.len());
        table.row(cells);
    }
    table.render()
}

/// What the service knows of a node's present; nothing of one that it does not hear.
pub(crate) fn now<T>(row: &NodeRow, known: Option<T>) -> Option<T> {
    let silent = row
        .away
        .is_some_and(|reason| matches!(reason, AwayReason::Silent | AwayReason::Unreported));
    known.filter(|_| !silent)
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// The two greatest units of a time: `3d 4h`, `12m 5s`.
fn up(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, ..) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

/// Live, or the reason for which nobody waits for it.
pub(crate) fn state(row: &NodeRow) -> String {
    let state = row
        .away
        .map_or_else(|| "live".to_owned(), |reason| format!("away: {reason}"));
    match row.deaf {
        true => format!("{state}, deaf: multicast does not reach it"),
        false => state,
    }
}

/// For programs.
pub(crate) fn node_json(row: &NodeRow) -> Value {
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
        "rights": row.grant,
        "host": row.about.as_ref().map(|about| &about.host),
        "version": row.about.as_ref().map(|about| &about.version),
        "uptime_seconds": now(row, row.about.as_ref()).map(|about| about.uptime_ms / 1000),
        "sent_per_second": now(row, row.rates).map(|rates| rates.sent),
        "received_per_second": now(row, row.rates).map(|rates| rates.received),
        "description": row.description,
        "gateway": Gateway::of(row).as_ref().map(Gateway::json),
    })
}

#[cfg(test)]
mod tests {
    use qsm::{About, Incarnation, NodeId, Origin};

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
            about: None,
            rates: None,
            grant: None,
            description: None,
        }
    }

    fn known() -> NodeRow {
        NodeRow {
            about: Some(About {
                host: "desk".to_owned(),
                version: "1.2\n".to_owned(),
                uptime_ms: 725_900,
            }),
            rates: Some(Rates {
                sent: 12_000,
                received: 0,
            }),
            grant: None,
            description: None,
            ..row()
        }
    }

    #[test]
    fn nodes_are_a_table_or_json() {
        assert_eq!(
            nodes_table(&[row(), known()]),
            [
                "NAME    NODE  ADDRESS         HOST  VERSION      UP  SENT/S  RECEIVED/S  ",
                "REGION  RECEIVES  PUBLISHES  STATE\n",
                "ticker  1f.3  10.78.0.1:5000  -     -             -       -           -  ",
                "     -         0         12  live\n",
                "ticker  1f.3  10.78.0.1:5000  desk  1.2\\n    12m 5s  12,000           0  ",
                "     -         0         12  live\n",
            ]
            .concat()
        );
        let json = node_json(&known());
        assert_eq!(
            (&json["host"], &json["version"]),
            (&json!("desk"), &json!("1.2\n"))
        );
        assert_eq!(json["uptime_seconds"], 725);
        assert_eq!(
            (&json["sent_per_second"], &json["received_per_second"]),
            (&json!(12_000), &json!(0))
        );
        for (seconds, text) in [
            (59, "59s"),
            (3599, "59m 59s"),
            (3600, "1h 0m"),
            (90_000, "1d 1h"),
        ] {
            assert_eq!(up(seconds), text);
        }
        assert_eq!(
            node_json(&row()),
            json!({ "name": "ticker", "node": "1f", "incarnation": 3,
                    "address": "10.78.0.1:5000", "region": null, "receives": 0,
                    "publishes": 12, "away": null, "deaf": false, "host": null,
                    "version": null, "uptime_seconds": null, "sent_per_second": null,
                    "received_per_second": null, "rights": null,
                    "description": null, "gateway": null })
        );
        let silent = NodeRow {
            away: Some(AwayReason::Silent),
            ..known()
        };
        let (text, json) = (
            nodes_table(std::slice::from_ref(&silent)),
            node_json(&silent),
        );
        assert!(
            text.contains("1.2\\n     -       -           -  "),
            "{text}"
        );
        assert_eq!(
            (
                &json["uptime_seconds"],
                &json["received_per_second"],
                &json["host"]
            ),
            (&Value::Null, &Value::Null, &json!("desk"))
        );
        let slow = NodeRow {
            away: Some(AwayReason::Slow),
            ..known()
        };
        assert_eq!(node_json(&slow)["sent_per_second"], 12_000);
        let deaf = NodeRow {
            deaf: true,
            ..row()
        };
        assert_eq!(state(&deaf), "live, deaf: multicast does not reach it");
    }
}
