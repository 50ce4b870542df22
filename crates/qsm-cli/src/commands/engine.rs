//! `qsm engine`: a node that other processes of this host use.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use clap::Args;
use qsm::Embedded;
use qsm::attach::ShareOptions;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::notice::Notices;
use qsm_console::options::{NodeOptions, RecordingOptions, StatsOptions, size};
use qsm_console::output;
use qsm_console::stop::Stop;

use crate::node;
use crate::stats;

/// How often signals and events are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Lines that wait to be written; what comes when stdout is stuck is left out.
const LINES_MAX: usize = 256;

/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// Arguments of `qsm engine`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm engine --at /run/user/1000/qsm"
    "qsm engine --at /run/user/1000/qsm --metrics 9464   curl http://127.0.0.1:9464/metrics"
    "qsm sub news --attach /run/user/1000/qsm             in other terminals"
    "echo hello | qsm pub news --attach /run/user/1000/qsm --wait-members 0"
))]
pub(crate) struct EngineArgs {
    /// Where processes attach: a path of at most 107 bytes, for a socket that is made there
    #[arg(long, value_name = "PATH")]
    pub(crate) at: PathBuf,
    /// Most processes attached at a time
    #[arg(long, value_name = "N", default_value_t = ShareOptions::CLIENTS_MAX)]
    pub(crate) clients: usize,
    /// Largest ring of a subscription, a power of two, bytes; with suffix k or M
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = size)]
    pub(crate) ring_max: usize,
    /// Ring by which each process publishes, a power of two; no message can be longer
    #[arg(long, value_name = "BYTES", default_value = "4M", value_parser = size)]
    pub(crate) publish_ring: usize,
    /// Counters to be said at the end.
    #[command(flatten)]
    pub(crate) stats: StatsOptions,
    /// The node.
    #[command(flatten)]
    pub(crate) node: NodeOptions,
    /// Its recording.
    #[command(flatten)]
    pub(crate) recording: RecordingOptions,
}

/// Runs the command, until a signal.
///
/// # Errors
/// The node or its sharing cannot start, or the node fails.
pub(crate) fn run(args: &EngineArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let node = node::start_own(&args.node, Embedded::IfNoneFound, |builder| {
        args.recording.apply(builder)
    })?;
    let mut notices = Notices::new(&node, &args.node);
    let (tell, told) = sync_channel(LINES_MAX);
    let options = ShareOptions::at(&args.at)
        .clients_max(args.clients)
        .ring_bytes_max(args.ring_max)
        .publish_ring(args.publish_ring)
        .on_event(move |event| drop(tell.try_send(event.to_string())));
    let share = Arc::new(node.share_with(options)?);
    let exporter = stats::serve_engine(&node, &share, args.stats)?;
    line(&format!("sharing at {}", args.at.display()))?;
    while !stop.is_asked() {
        match told.recv_timeout(LOOK) {
            Ok(event) => line(&event)?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        notices.drain();
        if let Some(reason) = node.closed() {
            return Err(Failure::failed(reason.to_string(), "start it again"));
        }
    }
    // It has handles of both.
    drop(exporter);
    if let Some(format) = args.stats.format(args.node.network.verbose) {
        stats::of_engine(&node, &share, format);
    }
    drop(share);
    // Those attached have been told; a goodbye that nobody heard changes nothing.
    drop(node.shutdown(GOODBYE));
    // Only then it is known whether all of a recording is written.
    notices.drain();
    line("stopped")
}

/// Writes a line at once, so that whoever started this can read on.
fn line(text: &str) -> Result<(), Failure> {
    output::write(format!("{text}\n"))
}
