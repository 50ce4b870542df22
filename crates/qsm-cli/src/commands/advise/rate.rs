//! The rate that is calculated with: given, or as a running node has it.

use std::thread;
use std::time::Duration;

use clap::Args;
use qsm::admin::NodeSocket;
use qsm_advise::BitRate;
use qsm_console::failure::Failure;

use crate::commands::counted::Counted;

/// Time for which a node is watched.
const WATCH: Duration = Duration::from_secs(2);
/// Time that it has for its counters.
const PATIENCE: Duration = Duration::from_secs(10);

/// Direction that a rate is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// Into the node.
    Received,
    /// Out of it.
    Sent,
}

/// A rate, or who has it.
#[derive(Debug, Clone, Args)]
pub(super) struct RateArgs {
    /// Average rate: 1Gbit/s, 100MB/s
    #[arg(long, required_unless_present = "node")]
    rate: Option<BitRate>,
    /// Take the rate that this node of this host has now, watched for two seconds
    #[arg(long, value_name = "NAME", conflicts_with = "rate")]
    node: Option<String>,
}

impl RateArgs {
    /// The rate; that of a node is measured, which takes two seconds.
    ///
    /// # Errors
    /// There is no such node on this host, it does not answer, or nothing flows.
    pub(super) fn of(&self, flow: Flow) -> Result<BitRate, Failure> {
        match (self.rate, &self.node) {
            (Some(rate), _) => Ok(rate),
            (None, Some(node)) => measured(node, flow),
            // The parser sees to it that there is one of them.
            (None, None) => Ok(BitRate(0.0)),
        }
    }
}

fn measured(name: &str, flow: Flow) -> Result<BitRate, Failure> {
    let (socket, before) = find(name)?;
    thread::sleep(WATCH);
    let mute = |cause| {
        Failure::failed(
            format!("node {name} says nothing of its rates: {cause}"),
            "give the rate by --rate",
        )
    };
    let now = Counted::ask(&socket, PATIENCE).map_err(mute)?;
    let paths: &[&str] = match flow {
        Flow::Received => &["/port/unicast_bytes", "/port/multicast_bytes"],
        Flow::Sent => &["/port/sent_bytes"],
    };
    let bytes: f64 = paths.iter().map(|path| now.rate(&before, path)).sum();
    if bytes > 0.0 {
        return Ok(BitRate(8.0 * bytes));
    }
    let does = match flow {
        Flow::Received => "received",
        Flow::Sent => "sent",
    };
    Err(Failure::failed(
        format!("node {name} has {does} nothing for {} s", WATCH.as_secs()),
        "ask while it does, or give the rate by --rate",
    ))
}

/// The node of this host that has this name, and what it has counted so far.
fn find(name: &str) -> Result<(NodeSocket, Counted), Failure> {
    let sockets = NodeSocket::all().map_err(|error| Failure::io("look for nodes", &error))?;
    let mut asked = sockets.into_iter().filter_map(|socket| {
        let counted = Counted::ask(&socket, PATIENCE).ok()?;
        (counted.name() == name).then_some((socket, counted))
    });
    asked.next().ok_or_else(|| {
        Failure::failed(
            format!("no node of this host is called {name}"),
            "`qsm explain` names those that there are",
        )
    })
}
