//! `qsm demo`: hosts, a membership service, senders and receivers as processes, losses, a crash;
//! and at the end a comparison of everything received with everything published.

#![forbid(unsafe_code)]
// They panic where nobody reads; `qsm_console::output` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod content;
mod inboxes;
mod messages;
mod node;
mod plan;
mod processes;
mod receiver;
mod run;
mod screen;
mod sender;
mod summary;
mod tally;
mod verify;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::options::{local_address, loss_ppm, seconds};
use qsm_console::output;

pub use node::{NodeArgs, run as run_node};

use crate::run::DemoRun;

/// Arguments of `qsm demo`.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm demo                           under a minute, on any machine"
    "qsm demo --loss 10 --seconds 40"
    "qsm demo --loopback --quick        without root; a few seconds"
    "qsm demo --ipv6                    the same with IPv6"
    "qsm demo --tokens                  the same in a cluster that takes tokens"
))]
pub struct DemoArgs {
    /// Six receivers and a tenth of the groups, for a few seconds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Do without network namespaces, also where they are permitted
    #[arg(long)]
    pub(crate) loopback: bool,
    /// Use IPv6; over loopback that takes a route for multicast, which the error names
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// How long to publish [default: 20, with --quick 3]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Share of packets that every receiver loses, at random
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = loss_ppm)]
    pub(crate) loss: u32,
    /// Publish files from this folder [default: the source tree, and those of the system]
    #[arg(long, value_name = "DIR")]
    pub(crate) files: Option<PathBuf>,
    /// Give up after this long
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// Have each process prove a key of its own, by a token of a root that is made for this run
    #[arg(long)]
    pub(crate) tokens: bool,
    /// Serve what all processes count by HTTP while they run, on one page, for Prometheus and the like;
    /// port 0: any, which a line on stderr names
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = local_address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Write the summary as JSON, after everything else
    #[arg(long)]
    pub(crate) json: bool,
}

impl DemoArgs {
    /// Time to publish.
    fn published_for(&self) -> Duration {
        let default = Duration::from_secs(if self.quick { 3 } else { 20 });
        self.seconds.unwrap_or(default)
    }
}

/// Runs the demonstration.
///
/// # Errors
/// It cannot be set up, takes too long, or something is missing at the end.
pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    let start = Instant::now();
    let mut demo = DemoRun::new(args)?;
    let outcome = demo.run(args);
    demo.processes.screen.clear();
    outcome?;
    let mut summary = demo.summary(args);
    drop(demo);
    summary.took = start.elapsed();
    output::write(format!("{}\n", summary.page()))?;
    if args.json {
        let json = serde_json::to_string(&summary).unwrap_or_default();
        output::write(format!("{json}\n"))?;
    }
    match summary.faults.len() {
        0 => Ok(()),
        faults => Err(Failure::failed(
            format!("the demonstration found {faults} faults"),
            "they are listed above; keep the output, it is worth a report",
        )),
    }
}
