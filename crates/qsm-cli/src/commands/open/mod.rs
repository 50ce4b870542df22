//! `qsm open`: a live object, or the messages of a group, as they change.
//!
//! ```text
//!   address ──► replica ── changes ──► Change ──► lines, JSON, the screen or a page
//! ```

mod address;
mod change;
mod page;
mod screen;

use std::io::{IsTerminal, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use qsm::{Embedded, Node, Received};
use qsm_console::examples;
use qsm_console::failure::{Code, Failure};
use qsm_console::log::{LogOptions, Note};
use qsm_console::notice::Notices;
use qsm_console::options::{NodeOptions, StatsOptions, local_address};
use qsm_console::output;
use qsm_console::stop::Stop;
use qsm_object::Schema;
use qsm_replica::{
    Kind, Limits, LiveError, LogBounds, LogState, MapBounds, MapState, Notice, Replica,
    ReplicaError, StateMachine, TextBounds, TextState, Uri,
};

use self::change::Change;
use self::page::Page;
use self::screen::Screen;
use crate::access::AccessOptions;
use crate::node;
use crate::record::{Format, Record, read_schema};
use crate::stats;

/// Interval in which signals, keys and events are looked at while nothing changes.
const LOOK: Duration = Duration::from_millis(100);
/// More than a replica takes until it is live or says why not.
const PATIENCE: Duration = Duration::from_secs(90);
/// Time that saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// Arguments of `qsm open`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm open 'qsm://floor/prices?type=map'         on a terminal: the map, as it changes"
    "qsm open 'qsm://floor/prices?type=map' --json  a line for each change"
    "qsm open 'qsm://floor/prices?type=map' --web   in the browser: then open the address that it says"
    "qsm open minutes.qsm                           the address in this file"
    "qsm open qsm://default/news                    no object: the messages of the group"
))]
pub(crate) struct OpenArgs {
    /// Address: qsm://CLUSTER/GROUP?type=map, log or text for a live object; without a type the
    /// messages of the group. Cluster, interface, discovery and data-port of the address go before
    /// options. Or a file with the ending .qsm, whose first line is an address
    #[arg(value_name = "URI")]
    address: String,
    /// Write JSON lines: time, object, event, key, and text or base64
    #[arg(long)]
    json: bool,
    /// Serve a page that shows it in the browser, and write its address. A port alone is one of this host
    #[arg(long, value_name = "[ADDRESS:]PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:0",
          value_parser = local_address, conflicts_with = "json")]
    web: Option<SocketAddr>,
    /// Access to the page.
    #[command(flatten)]
    access: AccessOptions,
    /// Read values as objects of the types in this schema, and write JSON lines with type, version and
    /// value
    #[arg(long, value_name = "FILE")]
    decode: Option<PathBuf>,
    /// End after so many changes or messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Counters of the node and the object.
    #[command(flatten)]
    stats: StatsOptions,
    /// The node.
    #[command(flatten)]
    node: NodeOptions,
}

impl OpenArgs {
    /// Options by which its notices are written.
    pub(crate) fn notices(&self) -> LogOptions {
        self.node.network.notices
    }
}

/// Runs the command.
///
/// # Errors
/// The address is none, no node starts, or the object does not come.
pub(crate) fn run(args: &OpenArgs) -> Result<(), Failure> {
    let uri = address::read(&args.address)?;
    let mut options = args.node.clone();
    address::reach(&uri, &mut options);
    let schema = args.decode.as_deref().map(read_schema).transpose()?;
    let place = place(args, &uri, schema.is_some())?;
    let stop = Stop::on_signals()?;
    let node = node::start_own(&options, Embedded::IfNoneFound, |builder| builder)?;
    let mut view = View {
        place,
        schema,
        left: args.count,
        notices: Notices::new(&node, &options),
        stop,
        node: node.clone(),
        stats: args.stats,
        verbose: options.network.verbose,
    };
    let group = uri.group.as_str();
    let seen = match uri.kind {
        Kind::Map => {
            let replica = join(&node, group, MapState::new(MapBounds::default()))?;
            let mut watch = replica.watch();
            view.follow("map", &replica, |timeout| {
                let change = watch.recv_timeout(timeout)?;
                Ok(change.and_then(|change| Change::of_map(change, &replica)))
            })
        }
        Kind::Log => {
            let replica = join(&node, group, LogState::new(LogBounds::default()))?;
            let mut watch = replica.watch();
            view.follow("log", &replica, |timeout| {
                Ok(watch.recv_timeout(timeout)?.and_then(Change::of_log))
            })
        }
        Kind::Text => {
            let replica = join(&node, group, TextState::new(TextBounds::default()))?;
            let mut watch = replica.watch();
            view.follow("text", &replica, |timeout| {
                Ok(watch.recv_timeout(timeout)?.map(Change::Text))
            })
        }
        _ => view.receive(group),
    };
    drop(node::shut_down(&node, GOODBYE));
    seen
}

/// The place that is asked for. A page listens from here on, so that nothing is joined where it cannot.
fn place(args: &OpenArgs, uri: &Uri, decoded: bool) -> Result<Place, Failure> {
    match args.web {
        Some(listen) => Ok(Place::Page(Page::start(listen, &args.access, uri)?)),
        None if args.access.are_given() => Err(Failure::usage(
            "--access-token, --access-token-file and --host are of a page, and there is none",
            "add --web, or leave them out",
        )),
        None if args.json || decoded => Ok(Place::Json),
        None => Ok(Place::Lines),
    }
}

/// Joins, and waits until the state is there.
fn join<S: StateMachine + Send + 'static>(
    node: &Node,
    group: &str,
    state: S,
) -> Result<Arc<Replica<S>>, Failure> {
    let replica = Replica::join(node, group, state, Limits::default());
    let replica = replica.map_err(|error| failed(&error))?;
    replica
        .wait_live(PATIENCE)
        .map_err(|error| failed(&error))?;
    Ok(Arc::new(replica))
}

/// A failure from a text of the form `cause; remedy`.
fn failed(error: &ReplicaError) -> Failure {
    let text = error.to_string();
    let parts = text.split_once("; ");
    let (cause, remedy) = parts.unwrap_or((&text, "see `qsm nodes`, and open it again"));
    match error {
        ReplicaError::NotLive => Failure::timeout(cause, remedy),
        _ => Failure::failed(cause, remedy),
    }
}

/// Where changes are shown.
enum Place {
    /// Lines for people.
    Lines,
    /// Lines for programs.
    Json,
    /// The terminal, as a whole.
    Screen(Screen),
    /// A page in the browser.
    Page(Page),
}

/// A look at an object.
struct View {
    place: Place,
    schema: Option<Schema>,
    /// Changes until the end.
    left: Option<u64>,
    notices: Notices,
    stop: Stop,
    node: Node,
    stats: StatsOptions,
    verbose: bool,
}

impl View {
    /// Shows an object until the user has seen enough.
    fn follow<S: StateMachine + Send + 'static>(
        &mut self,
        object: &'static str,
        replica: &Arc<Replica<S>>,
        mut next: impl FnMut(Duration) -> Result<Option<Change>, LiveError>,
    ) -> Result<(), Failure> {
        self.notices.drain();
        let served = stats::serve_replica(&self.node, replica, self.stats)?;
        match &self.place {
            // A log goes by; the others are seen as they are.
            Place::Lines if stdout().is_terminal() && object != "log" => {
                self.place = Place::Screen(Screen::start()?);
            }
            Place::Page(page) => page.announce()?,
            _ => {}
        }
        loop {
            self.tell(&replica.notices());
            if self.is_over()? {
                break;
            }
            // They would be written over the screen: they wait until it is gone.
            if !matches!(self.place, Place::Screen(_)) {
                self.notices.drain();
            }
            let until = Instant::now() + LOOK;
            let mut timeout = LOOK;
            while let Some(change) = next(timeout).map_err(|error| broken(&error))? {
                self.show(object, change)?;
                timeout = Duration::ZERO;
                if self.left == Some(0) || Instant::now() >= until {
                    break;
                }
            }
        }
        if matches!(self.place, Place::Screen(_)) {
            self.place = Place::Lines;
        }
        self.notices.drain();
        drop(served);
        if let Some(format) = self.stats.format(self.verbose) {
            stats::of_node(&self.node, format);
            stats::of_counters(&replica.stats(), format);
        }
        Ok(())
    }

    /// Says what the replica says, if that is not seen anyway.
    fn tell(&mut self, notices: &[Notice]) {
        for notice in notices {
            let line = notice.to_string();
            let live = matches!(notice, Notice::Live { .. });
            match &mut self.place {
                Place::Screen(screen) => {
                    screen.state = line;
                    continue;
                }
                Place::Page(page) => page.say(live, &line),
                Place::Lines | Place::Json => {}
            }
            match live {
                true => Note::info("live", &line).say(),
                false => Note::warn("not-live", &line).say(),
            }
        }
    }

    fn show(&mut self, object: &'static str, change: Change) -> Result<(), Failure> {
        self.left = self.left.map(|left| left.saturating_sub(1));
        let schema = self.schema.as_ref();
        match &mut self.place {
            Place::Screen(screen) => screen.take(change),
            Place::Page(page) => page.take(change, schema),
            Place::Json => return output::write(change.json(object, schema, SystemTime::now())),
            Place::Lines => return output::write(change.line()),
        }
        Ok(())
    }

    /// Shows messages of a group.
    fn receive(&mut self, group: &str) -> Result<(), Failure> {
        let subscription = self.node.subscribe([group])?;
        let served = stats::serve_node(&self.node, self.stats)?;
        let format = match &self.place {
            Place::Json => Format::Json,
            _ => Format::Lines,
        };
        if let Place::Page(page) = &self.place {
            page.announce()?;
        }
        let mut lost = 0;
        while !self.is_over()? {
            self.notices.drain();
            let Some(received) = subscription.recv_timeout(LOOK)? else {
                continue;
            };
            let Received::Message(message) = received else {
                self.notices.missing(&received);
                if let Place::Page(page) = &self.place {
                    page.missing(&received);
                }
                lost = self.notices.lost + self.notices.dropped;
                continue;
            };
            let schema = self.schema.as_ref();
            if let Place::Page(page) = &self.place {
                page.message(&message, schema);
            } else {
                let mut line = Vec::new();
                Record::of(&message, None, schema).append(format, &mut line);
                output::write(line)?;
            }
            self.left = self.left.map(|left| left.saturating_sub(1));
        }
        drop(served);
        if let Some(format) = self.stats.format(self.verbose) {
            stats::of_node(&self.node, format);
        }
        match lost {
            0 => Ok(()),
            _ => Err(Failure::new(
                Code::Incomplete,
                format!("{lost} messages are missing"),
                "see what was said of them; `qsm sub` has options for queues and waiting",
            )),
        }
    }

    /// Draws, and tells whether the user has seen enough.
    fn is_over(&mut self) -> Result<bool, Failure> {
        let ended = match &mut self.place {
            Place::Screen(screen) => screen.turn()?,
            _ => false,
        };
        Ok(ended || self.left == Some(0) || self.stop.is_asked())
    }
}

fn broken(error: &LiveError) -> Failure {
    match error {
        LiveError::Replica(error) => failed(error),
        other => Failure::failed(other.to_string(), "open it again"),
    }
}
