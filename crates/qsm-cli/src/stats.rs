//! Counters, said on stderr at the end.

use qsm::attach::{ClientRow, Share};
use qsm::metrics::prometheus::Page;
use qsm::metrics::{Object, json};
use qsm::{Node, ServiceSnapshot, Snapshot};
use qsm_console::options::StatsFormat;

/// Of a node, or of this process at its engine. What cannot be had any more is left out.
pub(crate) fn of_node(node: &Node, format: StatsFormat) {
    match node.attachment() {
        Ok(Some(row)) => say(&attached(&row, format)),
        _ => {
            if let Ok(snapshot) = node.stats() {
                say(&match format {
                    StatsFormat::Text => snapshot.to_string(),
                    StatsFormat::Json => snapshot.to_json(),
                    StatsFormat::Prometheus => snapshot.to_prometheus(),
                });
            }
        }
    }
}

/// Of an engine and the processes that are attached to it.
pub(crate) fn of_engine(node: &Node, share: &Share, format: StatsFormat) {
    if let Ok(snapshot) = node.stats() {
        say(&engine(&snapshot, share, format));
    }
}

/// Of a membership service.
pub(crate) fn of_service(snapshot: &ServiceSnapshot, format: StatsFormat) {
    say(&match format {
        StatsFormat::Text => snapshot.to_string(),
        StatsFormat::Json => snapshot.to_json(),
        StatsFormat::Prometheus => snapshot.to_prometheus(),
    });
}

fn attached(row: &ClientRow, format: StatsFormat) -> String {
    match format {
        StatsFormat::Text => row.to_string(),
        StatsFormat::Json => row.to_json(),
        StatsFormat::Prometheus => {
            let mut page = Page::new();
            add_client(&mut page, row);
            page.to_string()
        }
    }
}

fn engine(snapshot: &Snapshot, share: &Share, format: StatsFormat) -> String {
    let (stats, clients) = (share.stats(), share.clients());
    match format {
        StatsFormat::Text => {
            let clients: String = clients.iter().map(ClientRow::to_string).collect();
            format!("{snapshot}share:\n{stats}{clients}")
        }
        StatsFormat::Json => Object::new()
            .json("node", &snapshot.to_json())
            .json("share", &json(&stats))
            .list("clients", clients.iter().map(ClientRow::to_json))
            .to_string(),
        StatsFormat::Prometheus => {
            let mut page = Page::new();
            snapshot.add_to(&mut page, &[]);
            page.add(&stats, &[]);
            clients.iter().for_each(|row| add_client(&mut page, row));
            page.to_string()
        }
    }
}

fn add_client(page: &mut Page, row: &ClientRow) {
    let [client, pid] = [row.client, row.pid].map(|number| number.to_string());
    page.add(&row.stats, &[("client", &client), ("pid", &pid)]);
}

fn say(text: &str) {
    eprintln!("{}", text.trim_end());
}
