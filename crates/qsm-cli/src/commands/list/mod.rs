//! `qsm nodes`, `qsm groups`, `qsm regions`: asks the membership service, and writes its answer as
//! a table or as JSON.

pub(crate) mod groups;
mod io;
pub(crate) mod nodes;
pub(crate) mod regions;

use std::cell::Cell;
use std::time::Duration;

use clap::Args;
use qsm::{Observer, RequestError};
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::log::Note;
use qsm_console::options::{NodeOptions, seconds};
use qsm_console::table::printable;
use qsm_console::{loopback, output, solitude};
use serde_json::Value;

/// Arguments of the lists.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm nodes                                   what is there"
    "qsm nodes --io                              how a node here sends and receives"
    "qsm groups --json | jq '.[] | .name'        for programs"
    "qsm regions --service 10.0.0.1:4481         of a service that multicast does not reach"
))]
pub(crate) struct ListArgs {
    /// Write JSON: an array of objects
    #[arg(long)]
    pub(crate) json: bool,
    /// How long to look for a membership service, and to wait for its answer
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// Where to ask; with `--io`, the node.
    #[command(flatten)]
    pub(crate) node: NodeOptions,
}

/// Asks without joining the cluster: by no list, and to nobody in it, is this program seen. Warns, as
/// a node does, if it reaches this host alone and nobody asked for that.
fn ask<T>(
    args: &ListArgs,
    question: impl Fn(&mut Observer) -> Result<T, RequestError>,
) -> Result<T, Failure> {
    let unasked = Cell::new(args.node.network.interface.is_empty());
    quietly(&args.node, args.timeout, |observer| {
        // Once, also where several addresses are tried.
        if unasked.take()
            && let Some(line) = loopback::warning(observer.interface())
        {
            Note::warn("loopback", &line).say();
        }
        question(observer)
    })
}

/// The same without a word on stderr.
pub(crate) fn quietly<T>(
    node: &NodeOptions,
    timeout: Duration,
    question: impl Fn(&mut Observer) -> Result<T, RequestError>,
) -> Result<T, Failure> {
    let heard = Cell::new(Heard::default());
    let answer = node.observe(timeout, |observer| {
        let answer = question(observer);
        heard.set(Heard {
            strangers: observer.other_clusters(),
            key_needed: observer.needs_key(),
        });
        answer
    })?;
    answer.map_err(|error| match error {
        RequestError::Timeout { .. } => unanswered(node, timeout, heard.get()),
        other => other.into(),
    })
}

/// Packets that an observer could not use.
#[derive(Debug, Clone, Copy, Default)]
struct Heard {
    /// Those of other clusters.
    strangers: u64,
    /// There are some of this cluster that a key protects, which the observer does not have.
    key_needed: bool,
}

/// No service answers. Where it was looked for by multicast, that may be why; or it is of another
/// cluster, as packets show.
fn unanswered(node: &NodeOptions, timeout: Duration, heard: Heard) -> Failure {
    let waited = timeout.as_secs_f64();
    let cluster = &node.network.cluster;
    if heard.key_needed {
        return Failure::timeout(
            format!(
                "no membership service answered within {waited} s: cluster {} is protected, and this \
                 command has neither its key nor an identity",
                printable(cluster)
            ),
            "give it the file of the cluster's key by --key, or that of a node's by --identity",
        );
    }
    if let Some(doubt) = solitude::strangers(heard.strangers, cluster) {
        return Failure::timeout(
            format!("no membership service answered to multicast within {waited} s; {doubt}"),
            "give the cluster's name by --cluster, or start a membership service of this one with \
             `qsm gms`",
        );
    }
    let cluster = printable(cluster);
    match node.services_tried() {
        Some(places) => Failure::timeout(
            format!("no membership service answered at {places} within {waited} s"),
            "see that `qsm gms` runs there, that --cluster is the same, and that a firewall lets UDP \
             to that port through, and answers back",
        ),
        None => Failure::timeout(
            format!(
                "no membership service answered to multicast within {waited} s: either none of cluster \
                 {cluster} runs (--cluster), or multicast does not pass between it and this host"
            ),
            "if nodes are running, name the service with --service HOST:PORT, as `qsm gms` and the \
             first node say it, or the network with --interface; docs/operate/multicast.md says how \
             to let multicast through. Else start one with `qsm gms`",
        ),
    }
}

pub(crate) fn write_json(rows: impl Iterator<Item = Value>) -> Result<(), Failure> {
    output::write(format!("{:#}\n", Value::Array(rows.collect())))
}
