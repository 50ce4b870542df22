//! `qsm pub`: lines, frames or a file, published to groups.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use qsm::{Flushed, Node, PublishOptions, Publisher, Receivers, RequestError, SendError};
use qsm_console::examples;
use qsm_console::failure::{Code, Failure};
use qsm_console::figures::{self, counted};
use qsm_console::log::Note;
use qsm_console::names::Names;
use qsm_console::notice::Notices;
use qsm_console::options::{
    AttachOptions, NodeOptions, RecordingOptions, StatsOptions, duration, seconds, size,
};
use qsm_console::output;
use qsm_console::progress::Progress;
use qsm_console::reach;
use qsm_console::solitude::Doubts;
use qsm_console::stop::Stop;
use qsm_console::table::printable;

use crate::audience::{AwayReceivers, Gone};
use crate::commands::keep;
use crate::frames::{Framing, MESSAGE_BYTES_MAX, Reader, too_long};
use crate::group_name::check_name;
use crate::node;
use crate::observer::{Observer, Waiting};
use crate::stats;
use crate::surroundings::Surroundings;

/// Messages, and bytes, handed from the reading thread at once.
const BATCH_MESSAGES: usize = 256;
const BATCH_BYTES: usize = 64 << 10;

/// Batches between the threads.
const BATCHES_MAX: usize = 4;

/// How often signals, events and the progress line are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Arguments of `qsm pub`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "echo hello | qsm pub news"
    "qsm pub logs/app logs/all --file app.log        every line to both groups"
    "qsm pub models/7b --whole weights.bin --wait-members 20"
    "producer | qsm pub ticks --frames --rate 10000"
))]
pub(crate) struct PubArgs {
    /// Groups to publish to, by name
    #[arg(required = true, value_name = "GROUP")]
    pub(crate) groups: Vec<String>,
    /// Read this file instead of stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The input is length-framed: 32-bit little-endian length, then the message
    #[arg(long)]
    pub(crate) frames: bool,
    /// This file, up to 16 MiB, is one message; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "frames"])]
    pub(crate) whole: Option<PathBuf>,
    /// Messages go to the groups in turn, instead of each to all
    #[arg(long)]
    pub(crate) round_robin: bool,
    /// Begin when each group has this many receivers; 0 does not wait
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) wait_members: u32,
    /// How long to wait for them
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) wait_timeout: Duration,
    /// While this runs, keep the last messages of each sender of these groups, so many, for readers that join with
    /// --last or --resume (see docs/guides/late-join.md)
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,
    /// Most messages read per second [default: as fast as receivers take them]
    #[arg(long, value_name = "MESSAGES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// Longest time that a message waits for others in its packet; full packets never wait
    /// [default: none waits]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "attach")]
    pub(crate) batch_delay: Option<Duration>,
    /// Length from which on a packet does not wait, bytes; with suffix k or M [default: a full one]
    #[arg(long, value_name = "BYTES", value_parser = size, requires = "batch_delay")]
    pub(crate) batch_bytes: Option<usize>,
    /// How long live receivers may take, at the end, to have everything; for those that are away it
    /// is kept, and nobody waits for them while others are live. What is missing then is named,
    /// with who lacks it, and the exit code is 4
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) flush_timeout: Duration,
    /// Counters to be said at the end.
    #[command(flatten)]
    pub(crate) stats: StatsOptions,
    /// The node.
    #[command(flatten)]
    pub(crate) node: NodeOptions,
    /// Or none.
    #[command(flatten)]
    pub(crate) attach: AttachOptions,
    /// Its recording.
    #[command(flatten)]
    pub(crate) recording: RecordingOptions,
}

/// Runs the command.
///
/// # Errors
/// Whatever keeps a message from every receiver.
pub(crate) fn run(args: &PubArgs) -> Result<(), Failure> {
    for group in &args.groups {
        check_name(group)?;
    }
    let (input, framing) = args.input()?;
    let stop = Stop::on_signals()?;
    let node = node::start(&args.node, &args.attach, &args.recording)?;
    let exporter = stats::serve_node(&node, args.stats)?;
    let mut notices = Notices::new(&node, &args.node);
    let names = Names::default();
    notices.find_names(&names)?;
    let observer = Observer::start(notices)?;
    let waiting = observer.waiting().clone();
    let publishers = waiting.during("a membership service", || {
        let groups = node.groups(&args.groups);
        groups.publish_options(args.batching()).publishers()
    });
    let publishers =
        publishers.map_err(|error| node::not_entered(error, &node, &args.node, &args.attach))?;
    let keeper = keep::beside(&node, &args.groups, args.keep)?;
    let here = || Surroundings::of(&node, &args.node, &args.attach, &names);
    wait_for_members(args, &node, &publishers, &stop, &|group, there| {
        waiting.begin(receivers_of(args, group, there, &here()));
    })?;
    waiting.end();
    if args.reads_stdin() && io::stdin().is_terminal() {
        output::say("qsm: reading lines from the terminal; Ctrl-D ends");
    }
    // Who leaves is in no list any more.
    names.ask(&node);
    let batches = read_in_background(Reader::new(BufReader::new(input), framing))?;
    let mut work = Work::new(args, &publishers, &waiting);
    let outcome = work.all(&batches, &stop);
    work.progress.clear();
    // What was accepted gets through also when reading has failed.
    let everything = "all receivers to have everything (--flush-timeout)";
    let delivered = waiting.during(everything, || node.flush(args.flush_timeout));
    let deserted = deserted(&publishers);
    let members = publishers.first().map(Publisher::members);
    if delivered
        .as_ref()
        .is_ok_and(|flushed| !flushed.unserved.is_empty())
    {
        // Some of them may be there again.
        names.ask(&node);
    }
    // An engine tells nothing of itself.
    let expired = node.stats().is_ok_and(|now| {
        // Who has given something up asks what that was.
        let protocol = &now.protocol;
        protocol.repairs_expired > 0 || protocol.numbers_answered > 0
    });
    drop(keeper);
    // An engine tells only those who are attached.
    drop(exporter);
    if let Some(format) = args.stats.format(args.node.network.verbose) {
        stats::of_node(&node, format);
    }
    // It ends in any case; what matters was told by the flush.
    let ended = node::shut_down(&node, Duration::from_secs(2));
    let notices = observer.end()?;
    let delivered = delivered.map_err(|error| undelivered(error, notices.unreached()));
    outcome?;
    let flushed = since_flush(delivered?, ended);
    let gone = Gone::of(&flushed, &names);
    let reach = Reach {
        args,
        deserted,
        members: members.and_then(Result::ok).unwrap_or(0).into(),
        unheard: notices.unheard_in(&args.groups),
        gone: &gone,
        away: AwayReceivers(&flushed.away),
        expired,
    };
    let line = format!("{}; {}", work.summary(), reach.sentence());
    Note::info("published", &line).say();
    gone.complete()?;
    reach.away.complete()
}

/// What a flush has told, and what the end of the node has told after it: who is gone is told once, and
/// who is away anew.
fn since_flush(mut flushed: Flushed, ended: Option<Flushed>) -> Flushed {
    if let Some(ended) = ended {
        flushed.unserved.extend(ended.unserved);
        flushed.more += ended.more;
        flushed.away = ended.away;
    }
    flushed
}

impl PubArgs {
    /// Time for which messages may wait for others.
    fn batching(&self) -> PublishOptions {
        let mut options = PublishOptions::default();
        if let Some(delay) = self.batch_delay {
            options = options.batch_delay(delay);
        }
        match self.batch_bytes {
            Some(bytes) => options.batch_bytes(bytes),
            None => options,
        }
    }

    fn reads_stdin(&self) -> bool {
        let named = self.whole.as_ref().or(self.file.as_ref());
        named.is_none_or(|path| path.as_path() == Path::new("-"))
    }

    fn input(&self) -> Result<(Box<dyn Read + Send>, Framing), Failure> {
        let framing = match (&self.whole, self.frames) {
            (Some(_), _) => Framing::Whole,
            (None, true) => Framing::Frames,
            (None, false) => Framing::Lines,
        };
        let input: Box<dyn Read + Send> = match self.whole.as_ref().or(self.file.as_ref()) {
            Some(path) if path.as_path() != Path::new("-") => Box::new(open(path, framing)?),
            _ => Box::new(io::stdin()),
        };
        Ok((input, framing))
    }
}

/// Opens the file. Refuses a folder, and what is too long for one message: no receiver need be there
/// for that to be said.
fn open(path: &Path, framing: Framing) -> Result<File, Failure> {
    let failed = |error| Failure::io(format!("open {}", path.display()), &error);
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if about.is_dir() {
        return Err(Failure::failed(
            format!("{} is a folder", path.display()),
            "publish its files one by one, each with --whole and to a group of its own",
        ));
    }
    if framing == Framing::Whole && about.len() > MESSAGE_BYTES_MAX as u64 {
        return Err(unreadable(&too_long("input", 0)));
    }
    Ok(file)
}

/// Waits for the receivers of each group; `tell` is told of each group that lacks some, and how many it
/// has.
fn wait_for_members(
    args: &PubArgs,
    node: &Node,
    publishers: &[Publisher],
    stop: &Stop,
    tell: &dyn Fn(&str, u64),
) -> Result<(), Failure> {
    let begun = Instant::now();
    for publisher in publishers.iter().filter(|_| args.wait_members > 0) {
        let mut told = None;
        loop {
            let left = args.wait_timeout.saturating_sub(begun.elapsed());
            // In short waits, to hear signals. A wait that was too short is no failure.
            let waited = publisher.wait_for_members(args.wait_members, left.min(LOOK));
            match waited {
                Ok(()) => break,
                Err(RequestError::TooFewReceivers { receivers, .. })
                    if stop.is_asked() || left.is_zero() =>
                {
                    return Err(too_few(args, node, publisher, &receivers, begun.elapsed()));
                }
                Err(RequestError::TooFewReceivers { receivers, .. }) => {
                    let there = receivers.count();
                    if told.replace(there) != Some(there) {
                        tell(publisher.group(), there);
                    }
                }
                Err(RequestError::Timeout { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// The receivers waited for: `1 receiver of group news (0 so far) by lo (127.0.0.1), …`.
fn receivers_of(args: &PubArgs, group: &str, there: u64, here: &Surroundings) -> String {
    let receivers = match args.wait_members {
        1 => "receiver",
        _ => "receivers",
    };
    format!(
        "{} {receivers} of group {} ({there} so far) {}; --wait-timeout {} s",
        args.wait_members,
        printable(group),
        here.sentence(),
        args.wait_timeout.as_secs_f64()
    )
}

fn too_few(
    args: &PubArgs,
    node: &Node,
    publisher: &Publisher,
    receivers: &Receivers,
    waited: Duration,
) -> Failure {
    let doubts = Doubts::of(node);
    let why = match doubts.sentence() {
        Some(sentence) => sentence,
        None => format!(
            "they are of another cluster ({}), or multicast may not pass between the hosts, so that \
             each finds itself alone: start `qsm gms` and name it with --service \
             (docs/operate/multicast.md)",
            doubts.option()
        ),
    };
    Failure::timeout(
        format!(
            "group {} has {}, not {}, after {}: {}",
            publisher.group(),
            counted(receivers.count(), "receiver"),
            args.wait_members,
            figures::duration(waited),
            printable(&receivers.to_string())
        ),
        format!(
            "start receivers with `qsm sub`, check with `qsm nodes` that they are seen, or give \
             --wait-members 0 or a longer --wait-timeout; if they run and are not seen, {why}"
        ),
    )
}

/// Receivers lack something; `unreached`: those that multicast does not reach.
fn undelivered(error: RequestError, unreached: Option<String>) -> Failure {
    if !matches!(error, RequestError::Timeout { .. }) {
        return error.into();
    }
    // What receivers lack is not sent any more when this program ends.
    let failure = Failure {
        code: Code::Incomplete,
        ..Failure::from(error)
    };
    match unreached {
        Some(unreached) => Failure {
            cause: format!("{}; {unreached}", failure.cause),
            remedy: reach::REMEDY.to_owned(),
            ..failure
        },
        None => Failure {
            remedy: "look for receivers that hang or lose too much, wait for those that are away, \
                     or give a longer --flush-timeout"
                .to_owned(),
            ..failure
        },
    }
}

/// How many of the groups have no receiver now. Of a node that has ended none is known.
fn deserted(publishers: &[Publisher]) -> usize {
    let empty = |publisher: &&Publisher| publisher.members() == Ok(0);
    publishers.iter().filter(empty).count()
}

/// What was published has reached, after a flush that found nothing wrong.
struct Reach<'a> {
    args: &'a PubArgs,
    /// Groups without receivers.
    deserted: usize,
    /// Receivers of the first group.
    members: u64,
    /// Messages that nobody was left to have.
    unheard: u64,
    gone: &'a Gone,
    away: AwayReceivers<'a>,
    /// Receivers were told of messages that had expired, where nobody lacks others.
    expired: bool,
}

impl Reach<'_> {
    fn sentence(&self) -> String {
        let there = match self.deserted {
            0 => self.served(),
            _ => self.nobody(),
        };
        let gone = (self.gone.count() > 0).then(|| self.gone.sentence());
        let away = (self.away.count() > 0).then(|| self.away.sentence());
        let parts = [Some(there), gone, away].into_iter().flatten();
        parts.collect::<Vec<_>>().join("; ")
    }

    /// Each group has receivers.
    fn served(&self) -> String {
        let (gone, back) = (self.gone.count(), self.gone.back());
        let lacking = gone + self.away.count();
        match (lacking, self.unheard) {
            (0, 0) if self.expired => {
                "all receivers have everything that had not expired".to_owned()
            }
            (0, 0) => "all receivers have everything".to_owned(),
            // Those that are back lack what their former lives lack.
            (_, 0) if self.args.groups.len() == 1 => format!(
                "{} of {} have everything",
                figures::count(self.members.saturating_sub(self.away.count() + back)),
                counted(self.members + gone - back, "receiver")
            ),
            (_, 0) if back > 0 => "not all receivers have everything".to_owned(),
            (_, 0) => "all receivers that are live have everything".to_owned(),
            (_, unheard) => format!(
                "all receivers that are live have everything, and those that left are not known \
                 to have {}",
                counted(unheard, "message")
            ),
        }
    }

    /// Some groups have none.
    fn nobody(&self) -> String {
        let whose = match self.args.groups.len() {
            1 => String::new(),
            all => format!(" in {} of {all} groups", self.deserted),
        };
        let had = self.args.wait_members > 0 || self.unheard > 0 || self.gone.count() > 0;
        let there = if had { "left" } else { "there" };
        let unknown = match self.unheard {
            0 => String::new(),
            some => format!(", and none is known to have {}", counted(some, "message")),
        };
        format!("no receiver is {there}{whose}{unknown}")
    }
}

/// Messages, or why there are no more.
type Batch = io::Result<Vec<Vec<u8>>>;

/// Reading blocks, and must not keep the program from hearing signals.
fn read_in_background<R>(mut reader: Reader<BufReader<R>>) -> Result<Receiver<Batch>, Failure>
where
    R: Read + Send + 'static,
{
    let (sender, receiver) = sync_channel(BATCHES_MAX);
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(move || {
            if let Err(error) = read_batches(&mut reader, &sender) {
                // Nobody listens any more when the program is about to end.
                drop(sender.send(Err(error)));
            }
        })
        .map_err(|error| Failure::io("start a thread", &error))?;
    Ok(receiver)
}

fn read_batches<R: Read>(
    reader: &mut Reader<BufReader<R>>,
    sender: &SyncSender<Batch>,
) -> io::Result<()> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    loop {
        let message = match reader.next_message() {
            Ok(Some(message)) => message.to_vec(),
            end => {
                drop(sender.send(Ok(batch)));
                return end.map(drop);
            }
        };
        bytes += message.len();
        batch.push(message);
        // A batch does not wait for input that may be long in coming.
        if batch.len() >= BATCH_MESSAGES || bytes >= BATCH_BYTES || !reader.has_buffered() {
            if sender.send(Ok(std::mem::take(&mut batch))).is_err() {
                return Ok(());
            }
            bytes = 0;
        }
    }
}

/// The input cannot be read, or holds what is no message.
fn unreadable(error: &io::Error) -> Failure {
    let failure = Failure::io("read the input", error);
    match error.kind() {
        io::ErrorKind::InvalidData => Failure {
            remedy: "cut it into messages, as `split --bytes 8M FILE` does, and publish each part \
                     with --whole, in their order"
                .to_owned(),
            ..failure
        },
        _ => failure,
    }
}

struct Work<'a> {
    args: &'a PubArgs,
    publishers: &'a [Publisher],
    start: Instant,
    read: u64,
    sent: u64,
    bytes: u64,
    progress: Progress,
    waiting: &'a Waiting,
}

impl<'a> Work<'a> {
    fn new(args: &'a PubArgs, publishers: &'a [Publisher], waiting: &'a Waiting) -> Self {
        Self {
            args,
            publishers,
            waiting,
            start: Instant::now(),
            read: 0,
            sent: 0,
            bytes: 0,
            progress: Progress::new(),
        }
    }

    /// Publishes everything.
    fn all(&mut self, batches: &Receiver<Batch>, stop: &Stop) -> Result<(), Failure> {
        while !stop.is_asked() {
            match batches.recv_timeout(LOOK) {
                Ok(Ok(batch)) => self.batch(&batch, stop)?,
                Ok(Err(error)) => return Err(unreadable(&error)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.progress.is_due() {
                self.progress.show(&self.figures());
            }
        }
        Ok(())
    }

    fn batch(&mut self, batch: &[Vec<u8>], stop: &Stop) -> Result<(), Failure> {
        for message in batch {
            if !self.wait_turn(stop) {
                return Ok(());
            }
            self.message(message)?;
        }
        Ok(())
    }

    /// Waits as the rate demands; false if the user wants an end.
    fn wait_turn(&self, stop: &Stop) -> bool {
        let Some(rate) = self.args.rate else {
            return !stop.is_asked();
        };
        let due = self.start + Duration::from_secs_f64(self.read as f64 / f64::from(rate));
        while !stop.is_asked() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(LOOK));
        }
        false
    }

    fn message(&mut self, message: &[u8]) -> Result<(), Failure> {
        let one = match self.args.round_robin {
            // Shorter than memory, so it fits.
            true => Some((self.read % self.publishers.len() as u64) as usize),
            false => None,
        };
        self.read += 1;
        for (at, publisher) in self.publishers.iter().enumerate() {
            if one.is_none_or(|one| one == at) {
                self.send(publisher, message)?;
                self.sent += 1;
                self.bytes += message.len() as u64;
            }
        }
        Ok(())
    }

    fn send(&self, publisher: &Publisher, message: &[u8]) -> Result<(), SendError> {
        match publisher.try_send(message) {
            Err(SendError::Full) => {
                let room = "room in the queue: receivers are slower than the input";
                self.waiting.during(room, || publisher.send(message))
            }
            sent => sent,
        }
    }

    fn figures(&self) -> String {
        let elapsed = self.start.elapsed();
        let per_second = |number: u64| number as f64 / elapsed.as_secs_f64().max(1e-6);
        format!(
            "{}, {} in {} ({} messages/s, {}/s)",
            counted(self.sent, "message"),
            figures::bytes(self.bytes),
            figures::duration(elapsed),
            figures::rate(per_second(self.sent)),
            figures::bytes(per_second(self.bytes) as u64),
        )
    }

    fn summary(&self) -> String {
        let groups = match self.publishers {
            [one] => format!("group {}", one.group()),
            many => format!("{} groups", many.len()),
        };
        format!("published {} to {groups}", self.figures())
    }
}
