//! Counters: said on stderr at the end, and served while a command runs.

#[cfg(feature = "otlp")]
mod pusher;

use std::fmt::Display;
use std::sync::Arc;

use qsm::attach::{ClientRow, Share};
use qsm::metrics::prometheus::Page;
use qsm::metrics::{Metrics, Object, json};
use qsm::{Exporter, Node, Service, ServiceSnapshot, Snapshot};
use qsm_console::failure::Failure;
use qsm_console::log::Note;
use qsm_console::options::{StatsFormat, StatsOptions};
use qsm_console::output;
use qsm_history::Keeper;
use qsm_replica::{Replica, StateMachine};

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

/// Serves those of a node, or of this process at its engine, if that is asked for.
///
/// # Errors
/// The address cannot be had.
pub(crate) fn serve_node(node: &Node, options: StatsOptions) -> Result<Served, Failure> {
    let node = node.clone();
    serve(options, move || node_page(&node))
}

/// As [`serve_node`], with those of a keeper.
///
/// # Errors
/// The address cannot be had.
pub(crate) fn serve_keeper(
    node: &Node,
    keeper: &Arc<Keeper>,
    options: StatsOptions,
) -> Result<Served, Failure> {
    let (node, keeper) = (node.clone(), Arc::clone(keeper));
    serve(options, move || {
        let mut page = node_page(&node)?;
        page.add(&keeper.stats(), &[]);
        Ok(page)
    })
}

/// As [`serve_node`], with those of a replica.
///
/// # Errors
/// The address cannot be had.
pub(crate) fn serve_replica<S: StateMachine + Send + 'static>(
    node: &Node,
    replica: &Arc<Replica<S>>,
    options: StatsOptions,
) -> Result<Served, Failure> {
    let (node, replica) = (node.clone(), Arc::clone(replica));
    serve(options, move || {
        let mut page = node_page(&node)?;
        page.add(&replica.stats(), &[]);
        Ok(page)
    })
}

fn node_page(node: &Node) -> Result<Page, String> {
    let mut page = Page::new();
    match node.attachment().map_err(|error| error.to_string())? {
        Some(row) => add_client(&mut page, &row),
        None => add_node(&mut page, node)?,
    }
    Ok(page)
}

/// Serves those of an engine and the processes that are attached to it, if that is asked for.
///
/// # Errors
/// The address cannot be had.
pub(crate) fn serve_engine(
    node: &Node,
    share: &Arc<Share>,
    options: StatsOptions,
) -> Result<Served, Failure> {
    let (node, share) = (node.clone(), Arc::clone(share));
    serve(options, move || {
        let mut page = Page::new();
        add_node(&mut page, &node)?;
        add_share(&mut page, &share);
        Ok(page)
    })
}

/// Serves those of a membership service, if that is asked for.
///
/// # Errors
/// The address cannot be had.
pub(crate) fn serve_service(
    service: &Arc<Service>,
    options: StatsOptions,
) -> Result<Served, Failure> {
    let service = Arc::clone(service);
    serve(options, move || {
        let mut page = Page::new();
        let snapshot = service.snapshot().map_err(|error| error.to_string())?;
        snapshot.add_to(&mut page, &[]);
        Ok(page)
    })
}

/// Serves a page that is made anew each time, if that is asked for.
///
/// # Errors
/// The address cannot be had.
pub(crate) fn serve(
    options: StatsOptions,
    page: impl Fn() -> Result<Page, String> + Send + Sync + 'static,
) -> Result<Served, Failure> {
    let page = Arc::new(page);
    #[cfg(feature = "otlp")]
    let pusher = pusher::start(options, Arc::clone(&page))?;
    let exporter = match options.metrics {
        None => None,
        Some(address) => {
            let exporter = Exporter::start(address, move || Ok(page()?.to_open_metrics()))?;
            let url = exporter.url();
            let line = format!("metrics are at {url}");
            Note::info("metrics", &line).address(&url).say();
            Some(exporter)
        }
    };
    Ok(Served {
        _exporter: exporter,
        #[cfg(feature = "otlp")]
        _pusher: pusher,
    })
}

/// Metrics that are served, or sent, until this is dropped; it has a handle of what is counted.
pub(crate) struct Served {
    _exporter: Option<Exporter>,
    #[cfg(feature = "otlp")]
    _pusher: Option<qsm::Pusher>,
}

/// Each core thread by its name.
pub(crate) fn add_node(page: &mut Page, node: &Node) -> Result<(), String> {
    for snapshot in node.core_stats().map_err(|error| error.to_string())? {
        snapshot.add_to(page, &[]);
    }
    Ok(())
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
            add_share(&mut page, share);
            page.to_string()
        }
    }
}

fn add_share(page: &mut Page, share: &Share) {
    page.add(&share.stats(), &[]);
    let clients = share.clients();
    clients.iter().for_each(|row| add_client(page, row));
}

fn add_client(page: &mut Page, row: &ClientRow) {
    let [client, pid] = [row.client, row.pid].map(|number| number.to_string());
    page.add(&row.stats, &[("client", &client), ("pid", &pid)]);
}

/// Of a part of a program that has no snapshot of its own.
pub(crate) fn of_counters<M: Metrics + Display>(counters: &M, format: StatsFormat) {
    say(&match format {
        StatsFormat::Text => counters.to_string(),
        StatsFormat::Json => json(counters),
        StatsFormat::Prometheus => {
            let mut page = Page::new();
            page.add(counters, &[]);
            page.to_string()
        }
    });
}

fn say(text: &str) {
    output::say(text.trim_end());
}
