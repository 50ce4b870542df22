//! What senders and receivers of the demonstration have in common: a node, and lines to and from
//! the coordinator.

use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use qsm::{Embedded, Event, Events, Node, Snapshot};
use qsm_console::failure::Failure;
use qsm_console::log::Note;
use qsm_console::options::NodeOptions;

use crate::messages::{DemoCommand, DemoReport, Figures};
use crate::plan::{Plan, Size, Source};
use crate::{receiver, sender};

/// How often figures are told.
pub(crate) const REPORT: Duration = Duration::from_millis(200);

/// How long subscribing to all groups may take, while many do so.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Arguments of the hidden `qsm demo-node`.
#[derive(Debug, Clone, Args)]
pub struct NodeArgs {
    /// Size of the plan.
    #[arg(long, value_enum)]
    pub(crate) size: Size,
    /// Where it serves its metrics.
    #[arg(long, global = true)]
    pub(crate) metrics: Option<SocketAddr>,
    /// What it does.
    #[command(subcommand)]
    pub(crate) role: Role,
}

/// What a process of the demonstration does.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Role {
    /// Receives
    Receive {
        /// Which receiver of the plan.
        #[arg(long)]
        index: usize,
        /// The node.
        #[command(flatten)]
        node: NodeOptions,
    },
    /// Publishes
    Publish {
        /// What.
        #[arg(long, value_enum)]
        source: Source,
        /// Where to take files from.
        #[arg(long)]
        files: Option<PathBuf>,
        /// The node.
        #[command(flatten)]
        node: NodeOptions,
    },
}

/// Runs one process of the demonstration.
///
/// # Errors
/// Its node cannot do what it should.
pub fn run(args: &NodeArgs) -> Result<(), Failure> {
    let plan = Plan::new(args.size);
    let start = |node| DemoNode::start(node, args.metrics);
    match &args.role {
        Role::Receive { index, node } => receiver::run(&plan, *index, start(node)?),
        Role::Publish {
            source,
            files,
            node,
        } => sender::run(&plan, *source, files.as_deref(), start(node)?),
    }
}

/// A node, and lines to and from the coordinator.
#[derive(Debug)]
pub(crate) struct DemoNode {
    /// The node.
    pub(crate) node: Node,
    /// What the coordinator says; ends when the coordinator does.
    pub(crate) told: Receiver<DemoCommand>,
    events: Events,
    /// Members of the node's region.
    members: u32,
    due: Instant,
}

impl DemoNode {
    fn start(options: &NodeOptions, metrics: Option<SocketAddr>) -> Result<Self, Failure> {
        let builder = options.builder(Embedded::Never)?;
        let builder = match metrics {
            Some(address) => builder.metrics(address),
            None => builder,
        };
        let node = builder.request_timeout(REQUEST_TIMEOUT).start()?;
        if let Some(address) = node.metrics_address() {
            let url = format!("http://{address}/metrics");
            let line = format!("metrics are at {url}");
            Note::info("metrics", &line).address(&url).say();
        }
        let (sender, told) = channel();
        thread::Builder::new()
            .name("coordinator".to_owned())
            .spawn(move || {
                // The channel's other end is kept until the program ends.
                for line in io::stdin().lock().lines().map_while(Result::ok) {
                    let Ok(told) = serde_json::from_str(&line) else {
                        return;
                    };
                    if sender.send(told).is_err() {
                        return;
                    }
                }
            })
            .map_err(|error| Failure::io("start a thread", &error))?;
        let events = node.events();
        Ok(Self {
            node,
            told,
            events,
            members: 0,
            due: Instant::now(),
        })
    }

    /// Tells the coordinator that the node is in its groups.
    ///
    /// # Errors
    /// The node has ended.
    pub(crate) fn ready(&self) -> Result<(), Failure> {
        let snapshot = self.node.stats()?;
        let incarnation = snapshot.incarnation.unwrap_or_default();
        let origin = qsm::Origin {
            node: snapshot.node,
            incarnation,
        };
        say(&DemoReport::Ready {
            origin: origin.to_string(),
        })
    }

    /// The next report is due at once.
    pub(crate) fn hurry(&mut self) {
        self.due = Instant::now();
    }

    /// Tells figures and trouble, when it is time.
    ///
    /// # Errors
    /// The node, or the coordinator, has ended.
    pub(crate) fn report(&mut self, own: impl FnOnce(&mut Figures)) -> Result<(), Failure> {
        let now = Instant::now();
        if now < self.due {
            return Ok(());
        }
        self.due = now + REPORT;
        while let Some(event) = self.events.try_recv()? {
            if let Event::RegionView { members, .. } = event {
                self.members = members;
            }
            if let Some(trouble) = trouble(&event) {
                say(&DemoReport::Trouble(trouble))?;
            }
        }
        let mut figures = figures(&self.node.stats()?);
        figures.members = self.members;
        own(&mut figures);
        say(&DemoReport::Figures(figures))
    }
}

/// What a coordinator should show.
fn trouble(event: &Event) -> Option<String> {
    match event {
        Event::Excluded | Event::NotListening { .. } | Event::ServiceLost => {
            Some(format!("{event:?}"))
        }
        _ => None,
    }
}

fn figures(snapshot: &Snapshot) -> Figures {
    let (protocol, port) = (&snapshot.protocol, &snapshot.port);
    Figures {
        packets: protocol.data_sent,
        injected: port.faults.lost,
        kernel_drops: port.unicast.kernel_drops + port.multicast.kernel_drops,
        from_receivers: protocol.repaired_by_cacher
            + protocol.repaired_by_pull
            + protocol.repaired_by_push
            + protocol.repaired_by_parity,
        from_sender: protocol.repaired_by_sender,
        copies: protocol.copies_received,
        lost: protocol.messages_lost,
        // A median of hours would be no demonstration.
        repair_p50_us: u64::try_from(snapshot.times.repair.quantile(500).as_micros())
            .unwrap_or(u64::MAX),
        ..Figures::default()
    }
}

/// A line to the coordinator.
///
/// # Errors
/// It has ended.
pub(crate) fn say(said: &DemoReport) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(said)
        .map_err(|error| Failure::failed(error.to_string(), "report it"))?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(&line)
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::io("write to the coordinator", &error))
}
