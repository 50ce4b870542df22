//! `qsm keep`: the last messages of groups, kept in memory for those who join later.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use qsm::Node;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::figures::{self, count, counted};
use qsm_console::log::Note;
use qsm_console::names::Names;
use qsm_console::notice::Notices;
use qsm_console::options::{
    AttachOptions, NodeOptions, RecordingOptions, StatsOptions, seconds, size,
};
use qsm_console::stop::Stop;
use qsm_history::{Bounds, HistoryError, Keeper};

use crate::group_name::check_name;
use crate::node;
use crate::stats;
use crate::surroundings::{self, Surroundings};

/// Interval in which signals and events are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Time that saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// Arguments of `qsm keep`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm keep news                                 the last 1000 messages of each sender"
    "qsm keep prices/eur prices/usd --last 50 --age 3600"
    "qsm sub news --last 20                        in another terminal: begins with 20 of them"
))]
pub(crate) struct KeepArgs {
    /// Groups to keep, by name
    #[arg(required = true, value_name = "GROUP")]
    groups: Vec<String>,
    /// Messages of each sender in each group
    #[arg(long, value_name = "N", default_value_t = 1000)]
    last: usize,
    /// Memory for each group, with suffix k, M or G; each message takes its length and 96 bytes
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = size)]
    bytes: usize,
    /// Keep messages no longer than this [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    age: Option<Duration>,
    /// Bytes sent each second, for each group, to all that join; with suffix k, M or G
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = size)]
    rate: usize,
    /// Counters to be said at the end.
    #[command(flatten)]
    stats: StatsOptions,
    /// The node.
    #[command(flatten)]
    pub(crate) node: NodeOptions,
    /// Or none.
    #[command(flatten)]
    attach: AttachOptions,
    /// Its recording.
    #[command(flatten)]
    recording: RecordingOptions,
}

/// Runs the command, until a signal.
///
/// # Errors
/// The node does not start, or does not enter the groups.
pub(crate) fn run(args: &KeepArgs) -> Result<(), Failure> {
    for group in &args.groups {
        check_name(group)?;
    }
    let stop = Stop::on_signals()?;
    let node = node::start(&args.node, &args.attach, &args.recording)?;
    let mut notices = Notices::new(&node, &args.node);
    let keeper = Keeper::start(&node, &args.groups, args.bounds());
    notices.drain();
    let keeper = keeper.map_err(|error| match error {
        HistoryError::Request(error) => node::not_entered(error, &node, &args.node, &args.attach),
        other => failed(&other),
    })?;
    let keeper = Arc::new(keeper);
    let exporter = stats::serve_keeper(&node, &keeper, args.stats)?;
    let here = Surroundings::of(&node, &args.node, &args.attach, &Names::default());
    let line = format!(
        "keeping {} {}",
        surroundings::groups(&args.groups),
        here.sentence()
    );
    Note::info("keeping", &line).say();
    while !stop.is_asked() {
        thread::sleep(LOOK);
        notices.drain();
        if let Some(error) = keeper.ended() {
            return Err(failed(&error));
        }
    }
    let had = keeper.stats();
    let line = format!(
        "kept {}, {} of {}; sent {}, {}, to those who joined, in {} answers; {} refused",
        counted(had.messages, "message"),
        figures::bytes(had.bytes),
        counted(had.senders, "sender"),
        counted(had.sent_messages, "message"),
        figures::bytes(had.sent_bytes),
        count(had.fetches),
        count(had.refused)
    );
    Note::info("ending", &line)
        .messages(had.sent_messages)
        .say();
    drop(exporter);
    drop(keeper);
    if let Some(format) = args.stats.format(args.node.network.verbose) {
        stats::of_node(&node, format);
        stats::of_counters(&had, format);
    }
    drop(node::shut_down(&node, GOODBYE));
    notices.drain();
    Ok(())
}

/// Keeps the last messages of groups that this process publishes to, if any are to be kept.
///
/// # Errors
/// The node does not enter the groups.
pub(crate) fn beside(
    node: &Node,
    groups: &[String],
    last: Option<usize>,
) -> Result<Option<Keeper>, Failure> {
    let start = |last| Keeper::start(node, groups, Bounds::default().messages(last));
    last.map(start).transpose().map_err(|error| match error {
        HistoryError::Request(error) => error.into(),
        other => failed(&other),
    })
}

fn failed(error: &HistoryError) -> Failure {
    Failure::failed(error.to_string(), "start it again")
}

impl KeepArgs {
    fn bounds(&self) -> Bounds {
        let bounds = Bounds::default()
            .messages(self.last)
            .bytes(self.bytes)
            .bytes_per_second(self.rate as u64);
        match self.age {
            Some(age) => bounds.age(age),
            None => bounds,
        }
    }
}
