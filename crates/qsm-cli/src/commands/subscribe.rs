//! `qsm sub`: messages of groups, printed, hashed or stored.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use qsm::{Message, Node, Received, RecvError, RequestError, SubscribeOptions, Subscription};
use qsm_console::after_help;
use qsm_console::failure::{Code, Failure};
use qsm_console::figures;
use qsm_console::notice::Notices;
use qsm_console::options::{AttachOptions, NodeOptions, seconds, size};
use qsm_console::stop::Stop;

use crate::fan::Fan;
use crate::group_hashes::GroupHashes;
use crate::node;
use crate::pattern::Patterns;
use crate::record::{Format, Record};
use crate::store::Store;

/// How often signals and events are looked at while nothing comes.
const LOOK: Duration = Duration::from_millis(100);

/// How often the service is asked for new groups that a prefix matches.
const POLL: Duration = Duration::from_secs(1);

/// Bytes collected for one write to stdout.
const OUT_BYTES: usize = 64 << 10;

/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// Arguments of `qsm sub`.
#[derive(Debug, Clone, Args)]
#[command(after_help = after_help!(
    "qsm sub news"
    "qsm sub 'prices/*' --json                      all groups so named, also new ones"
    "qsm sub models/7b --raw --count 1 > weights.bin"
    "qsm sub 'logs/*' --output received --hash      a file for each group, and its SHA-256"
))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct SubArgs {
    /// Groups to receive; `prefix/*` and `*` stand for all groups so named, also later ones
    #[arg(required = true, value_name = "GROUP")]
    pub(crate) groups: Vec<String>,
    /// Write length-framed: 32-bit little-endian length, then the message
    #[arg(long, group = "format")]
    pub(crate) frames: bool,
    /// Write JSON lines: group, sender, number, and text or base64
    #[arg(long, group = "format")]
    pub(crate) json: bool,
    /// Write messages as they are, with nothing between them
    #[arg(long, group = "format")]
    pub(crate) raw: bool,
    /// Write group, sender and number in front of each message
    #[arg(long, group = "format")]
    pub(crate) tag: bool,
    /// Append to a file for each group in this folder, instead of writing to stdout
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// At the end, write for each group the SHA-256 of what was written, and messages and bytes;
    /// without --output the messages themselves are not written
    #[arg(long)]
    pub(crate) hash: bool,
    /// End after this many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// End when nothing has come for this long; before --count messages that is a timeout
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) until_idle: Option<Duration>,
    /// Bytes that may wait to be written, with suffix k or M; beyond it the newest are dropped
    /// [default: 64M; with --attach what the engine gives, 4M]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) queue: Option<usize>,
    /// The node.
    #[command(flatten)]
    pub(crate) node: NodeOptions,
    /// Or none.
    #[command(flatten)]
    pub(crate) attach: AttachOptions,
}

/// Runs the command.
///
/// # Errors
/// It cannot receive or cannot write; [`Code::Incomplete`] if messages were lost or dropped.
pub(crate) fn run(args: &SubArgs) -> Result<(), Failure> {
    let patterns = Patterns::parse(&args.groups)?;
    let mut output = Output::new(args)?;
    let stop = Stop::on_signals()?;
    let node = node::start(&args.node, &args.attach)?;
    let mut notices = Notices::new(node.events(), args.node.network.verbose);
    let mut source = Source::new(&node, patterns, args)?;
    let outcome = receive(args, &mut source, &mut output, &mut notices, &stop);
    let written = output.finish();
    notices.drain();
    let dropped = source.dropped();
    if args.node.network.verbose {
        node::report(&node);
    }
    // Everything received is written.
    node::shut_down(&node, GOODBYE);
    outcome.and(written)?;
    match notices.lost + notices.dropped.max(dropped) {
        0 => Ok(()),
        missing => Err(Failure::new(
            Code::Incomplete,
            format!("{missing} messages were lost or dropped"),
            "see the lines above: LOST is between sender and here, SLOW is this program's output; \
             a larger --queue or --receive-buffer may help",
        )),
    }
}

fn receive(
    args: &SubArgs,
    source: &mut Source,
    output: &mut Output,
    notices: &mut Notices,
    stop: &Stop,
) -> Result<(), Failure> {
    let mut last = Instant::now();
    let mut count = 0;
    while !stop.is_asked() && !output.closed {
        source.update()?;
        notices.drain();
        let idle_at = args.until_idle.map(|idle| last + idle);
        if idle_at.is_some_and(|idle_at| Instant::now() >= idle_at) {
            return end_idle(args, count);
        }
        let look_at = Instant::now() + LOOK;
        let mut until = idle_at.map_or(look_at, |idle_at| idle_at.min(look_at));
        // After the first message only those that are there already: what has been taken is to
        // be written soon.
        while let Some(received) = source.recv(until)? {
            last = Instant::now();
            until = last;
            match received {
                Received::Message(message) => output.add(&message)?,
                missing => {
                    notices.missing(&missing);
                    continue;
                }
            }
            count += 1;
            if args.count == Some(count) {
                return Ok(());
            }
            if last >= look_at {
                break;
            }
        }
        output.flush()?;
    }
    Ok(())
}

fn end_idle(args: &SubArgs, count: u64) -> Result<(), Failure> {
    match args.count {
        None => Ok(()),
        Some(wanted) => Err(Failure::timeout(
            format!("{count} of {wanted} messages came, and then none for a while"),
            "check with `qsm groups` that the group has publishers, or give a longer --until-idle",
        )),
    }
}

/// The subscriptions: those of names at once, those of prefixes as groups appear.
struct Source {
    fan: Fan,
    fresh: Option<Receiver<Result<Subscription, Failure>>>,
    _until: SyncSender<()>,
}

impl Source {
    fn new(node: &Node, patterns: Patterns, args: &SubArgs) -> Result<Self, Failure> {
        let mut options = SubscribeOptions::default();
        if let Some(bytes) = args.queue {
            options = options.capacity_bytes(bytes);
        }
        let mut fan = Fan::new();
        if !patterns.names.is_empty() {
            fan.add(node.subscribe_queued(&patterns.names, options)?);
        }
        // Dropped with this, which ends the thread.
        let (until, ended) = sync_channel(1);
        let mut fresh = None;
        if !patterns.prefixes.is_empty() {
            let (sender, receiver) = sync_channel(1);
            let node = node.clone();
            thread::Builder::new()
                .name("groups".to_owned())
                .spawn(move || follow(&node, &patterns, options, &sender, &ended))
                .map_err(|error| Failure::io("start a thread", &error))?;
            fresh = Some(receiver);
        }
        Ok(Self {
            fan,
            fresh,
            _until: until,
        })
    }

    /// What comes next, or `None` when nothing came until then.
    fn recv(&mut self, until: Instant) -> Result<Option<Received>, RecvError> {
        self.fan.recv(until)
    }

    /// Messages dropped because this program was too slow.
    fn dropped(&self) -> u64 {
        self.fan.dropped()
    }

    fn update(&mut self) -> Result<(), Failure> {
        let fresh = self.fresh.iter().flat_map(Receiver::try_iter);
        for subscription in fresh {
            self.fan.add(subscription?);
        }
        Ok(())
    }
}

/// Subscribes groups as they appear, until the program ends.
fn follow(
    node: &Node,
    patterns: &Patterns,
    options: SubscribeOptions,
    fresh: &SyncSender<Result<Subscription, Failure>>,
    ended: &Receiver<()>,
) {
    let mut known: BTreeSet<String> = patterns.names.iter().cloned().collect();
    loop {
        let found = match node.groups() {
            Ok(rows) => patterns.fresh(rows.iter().map(|row| row.name.as_str()), &mut known),
            // The service is away; those subscribed go on.
            Err(RequestError::Timeout { .. }) => Vec::new(),
            Err(error) => {
                drop(fresh.send(Err(error.into())));
                return;
            }
        };
        if !found.is_empty() {
            let subscription = node.subscribe_queued(&found, options);
            if fresh.send(subscription.map_err(Failure::from)).is_err() {
                return;
            }
        }
        if ended.recv_timeout(POLL) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Where messages go.
struct Output {
    format: Format,
    store: Option<Store>,
    hashes: Option<GroupHashes>,
    /// Messages are written to stdout.
    print: bool,
    pending: Vec<u8>,
    /// Whoever read stdout has gone.
    closed: bool,
    messages: u64,
    bytes: u64,
    verbose: bool,
}

impl Output {
    fn new(args: &SubArgs) -> Result<Self, Failure> {
        let format = match (args.frames, args.json, args.raw, args.tag) {
            (true, ..) => Format::Frames,
            (_, true, ..) => Format::Json,
            (_, _, true, _) => Format::Raw,
            (.., true) => Format::Tagged,
            _ => Format::Lines,
        };
        let store = args
            .output
            .as_deref()
            .map(|folder| Store::open(folder, format))
            .transpose()?;
        Ok(Self {
            format,
            print: store.is_none() && !args.hash,
            store,
            hashes: args.hash.then(GroupHashes::default),
            pending: Vec::new(),
            closed: false,
            messages: 0,
            bytes: 0,
            verbose: args.node.network.verbose,
        })
    }

    fn add(&mut self, message: &Message) -> Result<(), Failure> {
        let record = Record::from(message);
        self.messages += 1;
        self.bytes += record.bytes.len() as u64;
        if let Some(store) = &mut self.store {
            store.add(record)?;
        }
        if !self.print && self.hashes.is_none() {
            return Ok(());
        }
        let begin = self.pending.len();
        record.append(self.format, &mut self.pending);
        if let Some(hashes) = &mut self.hashes {
            hashes.add(record.group, &self.pending[begin..]);
        }
        match self.print {
            true if self.pending.len() >= OUT_BYTES => self.write(),
            true => Ok(()),
            false => {
                self.pending.clear();
                Ok(())
            }
        }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if let Some(store) = &mut self.store {
            store.flush()?;
        }
        self.write()
    }

    /// Writes the rest, and hashes.
    fn finish(&mut self) -> Result<(), Failure> {
        let flushed = self.flush();
        if let Some(hashes) = self.hashes.take() {
            self.pending.extend_from_slice(hashes.lines().as_bytes());
        }
        if self.verbose {
            let (count, bytes) = (figures::count(self.messages), figures::bytes(self.bytes));
            eprintln!("qsm: received {count} messages, {bytes}");
        }
        let written = self.write();
        flushed.and(written)
    }

    fn write(&mut self) -> Result<(), Failure> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        let written = stdout
            .write_all(&self.pending)
            .and_then(|()| stdout.flush());
        self.pending.clear();
        match written {
            // As for any filter: the reader has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            other => other.map_err(|error| Failure::io("write to stdout", &error)),
        }
    }
}
