//! Arguments of `qsm top`.

use std::time::Duration;

use clap::Args;
use qsm_console::examples;
use qsm_console::options::{NodeOptions, seconds};

use super::super::look::View;

/// Arguments of `qsm top`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm top                            the cluster; whoever is away or deaf on top"
    "qsm top --view here                nodes of this host: what they miss, and why"
    "qsm top --batch --count 1          one look, as tables"
    "qsm top --json | jq '.rows[] | select(.away)'"
))]
pub(crate) struct TopArgs {
    /// View to show first; with --batch and --json, to write
    #[arg(long, value_enum, default_value_t = View::Nodes)]
    pub(crate) view: View,
    /// Time between two looks; rates of nodes are means of 5 s
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) interval: Duration,
    /// Write tables, one look after another, instead of a screen [default where stdout is no terminal]
    #[arg(long)]
    pub(crate) batch: bool,
    /// Write a line of JSON for each look: time, view, rows
    #[arg(long)]
    pub(crate) json: bool,
    /// End after so many looks
    #[arg(long, value_name = "LOOKS")]
    pub(crate) count: Option<u64>,
    /// Time to look for a membership service, and to wait for its answer
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) node: NodeOptions,
}
