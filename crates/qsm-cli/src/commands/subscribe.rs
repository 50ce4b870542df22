//! `qsm sub`: messages of groups, printed, hashed or stored.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use qsm::{
    DeliveryMode, GroupId, GroupOptions, Latest, Message, MessageRef, Node, Overflow, Received,
    RecvError, RequestError, Subscription,
};
use qsm_console::examples;
use qsm_console::failure::{Code, Failure};
use qsm_console::figures::{self, counted};
use qsm_console::log::Note;
use qsm_console::names::Names;
use qsm_console::notice::Notices;
use qsm_console::options::{
    AttachOptions, NodeOptions, RecordingOptions, StatsOptions, seconds, size,
};
use qsm_console::stop::Stop;
use qsm_history::{JoinStats, Start};
use qsm_object::Schema;

use crate::delivery::delivery;
use crate::group_hashes::GroupHashes;
use crate::group_name::check_pattern;
use crate::hold::HoldNotice;
use crate::idle::Idle;
use crate::node;
use crate::origins::Origins;
use crate::past::{self, Past, PositionFile};
use crate::record::{Format, Record, read_schema};
use crate::senders::Senders;
use crate::spool::Spool;
use crate::stats;
use crate::store::Store;
use crate::surroundings::{self, Surroundings};

/// How often signals and events are looked at while nothing comes.
const LOOK: Duration = Duration::from_millis(100);

/// Bytes collected for one write to stdout.
const OUT_BYTES: usize = 64 << 10;

/// Memory for messages that wait to be written, bytes: nearly two million short ones.
const QUEUE_BYTES: usize = 256 << 20;

/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// Arguments of `qsm sub`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
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
    /// Groups to receive. In a pattern a segment `*` stands for any one segment of a name, `**` for
    /// any number: 'prices/*', 'prices/**', '**'. Groups that begin later are found within seconds
    #[arg(required = true, value_name = "GROUP")]
    pub(crate) groups: Vec<String>,
    /// Write length-framed: 32-bit little-endian length, then the message
    #[arg(long, group = "format")]
    pub(crate) frames: bool,
    /// Write JSON lines: time of reading, group, sender and its name, number, size, and text or base64
    #[arg(long, group = "format")]
    pub(crate) json: bool,
    /// Write messages as they are, with nothing between them
    #[arg(long, group = "format")]
    pub(crate) raw: bool,
    /// Write group, sender and number in front of each message
    #[arg(long, group = "format")]
    pub(crate) tag: bool,
    /// Read messages as objects of the types in this schema, and write them as JSON lines with type,
    /// version and value; of others why they are none (see docs/guides/objects.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["frames", "raw", "tag"])]
    pub(crate) decode: Option<PathBuf>,
    /// Append to a file for each group in this folder, instead of writing to stdout: models/7b is
    /// stored as models%2F7b. Messages that are one line of text become lines, all others are stored
    /// exactly as they were sent; with --raw all are
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// At the end, write for each group the SHA-256 of what was written, and messages and bytes;
    /// without --output the messages themselves are not written
    #[arg(long)]
    pub(crate) hash: bool,
    /// Write of messages with the same key only the newest that has not been written, for readers
    /// who want the present state: the key is this word of the message, from 1, and its group
    #[arg(long, value_name = "WORD", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) latest_by: Option<u16>,
    /// How long messages wait for earlier ones of their sender that are missing: until they are
    /// repaired or lost (`ordered`), not at all (`arrival`: out of order, each once), or for a time,
    /// after which what is missing counts as lost (`within:50ms`)
    #[arg(long, value_name = "WAY", default_value = "ordered", value_parser = delivery)]
    pub(crate) delivery: DeliveryMode,
    /// Begin with the last messages of each sender, so many, as far as `qsm keep` or `qsm pub --keep` has them; what is not
    /// kept is said, and the exit code is 4
    #[arg(long, value_name = "N", conflicts_with_all = ["latest_by", "delivery"])]
    pub(crate) last: Option<u64>,
    /// Go on behind what was written the last time, by this file, which is written each second and at the end. Without
    /// the file messages begin now, or as --last says. After a crash messages may be written again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["latest_by", "delivery"])]
    pub(crate) resume: Option<PathBuf>,
    /// End after this many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// End when nothing has come for this long, without the time in which this process was stopped
    /// or its node away; if nothing came at all, or fewer messages than --count, the exit code is 3
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) until_idle: Option<Duration>,
    /// Memory for messages that wait to be written, with suffix k, M or G; each takes its length and
    /// 128 bytes, with --attach 32 [default: 256M; with --attach what the engine gives, 4M]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) queue: Option<usize>,
    /// What is done when the output is slower than the messages and that memory is full. What is
    /// dropped is counted, and the exit code is 4 [default: hold; with --latest-by drop-newest]
    #[arg(long, value_name = "POLICY")]
    pub(crate) overflow: Option<Full>,
    /// Once asked to end by SIGTERM or Ctrl-C: how long what has been received may take to be
    /// written
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(crate) drain_timeout: Duration,
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

/// Policy of a full queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Full {
    /// Senders wait, for 10 s at most where as many receivers are fast; nothing is dropped
    Hold,
    /// The newest messages are dropped
    DropNewest,
    /// The oldest messages are dropped
    DropOldest,
    /// What is there is written, and then the command fails
    Disconnect,
}

impl From<Full> for Overflow {
    fn from(full: Full) -> Self {
        match full {
            Full::Hold => Self::Hold,
            Full::DropNewest => Self::DropNewest,
            Full::DropOldest => Self::DropOldest,
            Full::Disconnect => Self::Disconnect,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// It cannot receive or cannot write; [`Code::Incomplete`] if messages were lost, missed, dropped or
/// not written.
pub(crate) fn run(args: &SubArgs) -> Result<(), Failure> {
    for group in &args.groups {
        check_pattern(group)?;
    }
    let stop = Stop::on_signals()?;
    let mut output = Output::new(args, &stop)?;
    let past = past::start(args.last, args.resume.as_deref())?;
    let node = node::start(&args.node, &args.attach, &args.recording)?;
    let exporter = stats::serve_node(&node, args.stats)?;
    let mut notices = Notices::new(&node, &args.node);
    let names = Names::default();
    notices.find_names(&names)?;
    let source = Source::new(&node, args, past, &names);
    // What has happened on the way comes first.
    notices.drain();
    let mut source =
        source.map_err(|error| node::not_entered(error, &node, &args.node, &args.attach))?;
    let here = Surroundings::of(&node, &args.node, &args.attach, &names);
    let line = format!(
        "subscribed to {} {}",
        surroundings::groups(&args.groups),
        here.sentence()
    );
    Note::info("subscribed", &line).say();
    output.name_senders(&node, names)?;
    output.queue = source.waited_for();
    let outcome = receive(args, &mut source, &mut output, &mut notices, &stop);
    let unread = if stop.is_asked() {
        drain(&source, &mut output, &mut notices)
    } else {
        Ok(0)
    };
    let written = output.finish(&mut notices);
    // What was not read is not behind a position.
    let kept_up = source.keep_up(&output, unread.as_ref().is_ok_and(|unread| *unread == 0));
    notices.drain();
    let dropped = source.dropped();
    source.tell_replaced();
    let unwritten = unread.as_ref().map_or(0, |unread| *unread) + output.unwritten();
    if stop.is_asked() {
        let written = output.messages - output.unwritten();
        let line = format!(
            "asked to end: {} written, {} not",
            counted(written, "message"),
            figures::count(unwritten)
        );
        Note::info("ending", &line).say();
    }
    drop(exporter);
    if let Some(format) = args.stats.format(args.node.network.verbose) {
        stats::of_node(&node, format);
        if let Some(joined) = source.joined() {
            stats::of_counters(&joined, format);
        }
    }
    // Everything received is written, or is not going to be.
    drop(node::shut_down(&node, GOODBYE));
    // Only then it is known whether all of a recording is written.
    notices.drain();
    let missing = Missing {
        lost: notices.lost - notices.expired,
        elsewhere: output.origins.missing,
        expired: notices.expired,
        hurried: matches!(args.delivery, DeliveryMode::Within(_)),
        dropped: notices.dropped.max(dropped),
        unwritten,
        not_kept: source.not_kept(),
    };
    let complete = missing.tell(&notices);
    unread.and(written).and(kept_up)?;
    match outcome {
        // What did not come in time is missing, and it is known why.
        Err(failure) if failure.code == Code::Timeout => complete.and(Err(failure)),
        outcome => outcome.and(complete),
    }
}

/// Messages that are not in the output.
struct Missing {
    /// Between senders and here.
    lost: u64,
    /// Of other sites, as their numbers show.
    elsewhere: u64,
    /// Missing when their lifetime was over.
    expired: u64,
    /// What comes too late counts as lost.
    hurried: bool,
    /// For lack of room in the queue.
    dropped: u64,
    unwritten: u64,
    /// Of those asked for by --last or --resume.
    not_kept: u64,
}

impl Missing {
    /// Fails if something is missing, and says what.
    fn tell(&self, notices: &Notices) -> Result<(), Failure> {
        let told = |messages: u64, cause: &str| {
            let verb = if messages == 1 { "was" } else { "were" };
            let told = format!("{} {verb} {cause}", counted(messages, "message"));
            (messages > 0).then_some(told)
        };
        let excluded = notices.exclusions();
        let lost = match (excluded.is_some(), notices.was_away()) {
            // The remedy against that is the one for these, too.
            (true, _) => "",
            _ if self.hurried => "against losses a longer time for --delivery within",
            (_, true) => {
                "against losses while this node is away a larger --retention, of all nodes, and a \
                 host that does not pause"
            }
            _ => {
                "a sender that dies takes with it what nobody else has yet; a larger \
                 --receive-buffer makes that less"
            }
        };
        let causes = [
            (told(self.lost, "lost between their senders and here"), lost),
            (
                told(self.elsewhere, "of other sites lost on the way here"),
                "against losses between sites gateways that are not stopped, and links that are not away for \
                 more than 5 s",
            ),
            (
                told(
                    self.expired,
                    "not repaired, because they had expired before they came",
                ),
                "against expired messages a longer `lifetime` of the group in the hints of the \
                 membership service, or a host that does not pause",
            ),
            (
                told(
                    self.dropped,
                    "dropped here, because they came faster than they were written",
                ),
                "against drops `--overflow hold`, a larger --queue, a faster output or a publisher's \
                 --rate",
            ),
            (
                told(self.not_kept, "asked for and not kept"),
                "have `qsm keep` keep more, or begin with fewer",
            ),
            (
                told(self.unwritten, "received and not written"),
                "against unwritten messages a longer --drain-timeout",
            ),
            (
                excluded,
                "against exclusion a longer --gone-after (of the membership service, or of all nodes \
                 that may run one), or a host that does not pause",
            ),
        ];
        let causes = causes.into_iter();
        let (causes, remedies): (Vec<String>, Vec<&str>) = causes
            .filter_map(|(cause, remedy)| Some((cause?, remedy)))
            .unzip();
        if causes.is_empty() {
            return Ok(());
        }
        let remedies = remedies.into_iter().filter(|remedy| !remedy.is_empty());
        let remedies = remedies.collect::<Vec<_>>().join("; ");
        Err(Failure::new(Code::Incomplete, causes.join("; "), remedies))
    }
}

/// Writes what has been received and not read, until there is no time left. Returns how many
/// messages were left over.
fn drain(source: &Source, output: &mut Output, notices: &mut Notices) -> Result<u64, Failure> {
    let (mut messages, mut bytes) = source.queued();
    let mut unread = 0;
    while let Ok(Some(received)) = source.recv(Instant::now()) {
        let message = match received {
            Received::Message(message) => message,
            missing => {
                output.origins.interrupt(&missing);
                notices.missing(&missing);
                continue;
            }
        };
        if output.closed() || output.is_over() {
            unread += 1;
        } else {
            notices.absences.heard(&message);
            output.add(&message, notices)?;
        }
        // One more than there were: what is missing before it counts.
        if messages == 0 || bytes == 0 {
            break;
        }
        messages -= 1;
        bytes = bytes.saturating_sub(message.bytes().len());
    }
    Ok(unread)
}

fn receive(
    args: &SubArgs,
    source: &mut Source,
    output: &mut Output,
    notices: &mut Notices,
    stop: &Stop,
) -> Result<(), Failure> {
    let mut idle = Idle::new(args.until_idle, Instant::now());
    let mut count = 0;
    while !stop.is_asked() && !output.closed() {
        source.tell_left_out();
        notices.drain();
        let now = Instant::now();
        if notices.is_away() {
            idle.reset(now);
        }
        let left = idle.left(now);
        if left == Some(Duration::ZERO) {
            return end_idle(args, count);
        }
        let look_at = now + LOOK;
        let mut until = left.map_or(look_at, |left| (now + left).min(look_at));
        // After the first message only those that are there already: what has been taken is to
        // be written soon.
        while let Some(received) = source.recv(until)? {
            let now = Instant::now();
            idle.reset(now);
            until = now;
            match received {
                Received::Message(message) => {
                    notices.absences.heard(&message);
                    output.add(&message, notices)?;
                    count += 1;
                }
                missing => {
                    output.origins.interrupt(&missing);
                    notices.missing(&missing);
                }
            }
            if args.count == Some(count) {
                return Ok(());
            }
            if now >= look_at || stop.is_asked() {
                break;
            }
        }
        if source.queued().0 == 0 {
            notices.absences.idle();
        }
        output.flush(notices)?;
        source.keep_up(output, false)?;
        output.note_hold();
    }
    Ok(())
}

fn end_idle(args: &SubArgs, count: u64) -> Result<(), Failure> {
    match args.count {
        None if count > 0 => Ok(()),
        None => Err(Failure::timeout(
            "nothing came at all",
            "check with `qsm groups` that the groups have publishers, and start them after this \
             command, or give a longer --until-idle",
        )),
        Some(wanted) => Err(Failure::timeout(
            format!("{count} of {wanted} messages came, and then none for a while"),
            "check with `qsm groups` that the group has publishers, or give a longer --until-idle",
        )),
    }
}

/// Where messages come from.
struct Source {
    queue: Queue,
    attached: bool,
    position: Option<PositionFile>,
    /// Groups left out that were told of.
    told_left_out: usize,
}

/// All messages, the newest of each key, or those of the past, too.
enum Queue {
    Past(Box<Past>),
    All(Arc<Subscription>),
    Latest(Latest),
}

/// A group, and a word of its messages.
type Key = (GroupId, Box<[u8]>);

/// The key of a message; of one with fewer words nothing.
fn key(message: MessageRef<'_>, word: u16) -> Key {
    let words = message.content().split(u8::is_ascii_whitespace);
    let mut words = words.filter(|word| !word.is_empty());
    let word = words.nth(usize::from(word) - 1).unwrap_or_default();
    (message.group_id, word.into())
}

impl Source {
    fn new(
        node: &Node,
        args: &SubArgs,
        past: Option<Start>,
        names: &Names,
    ) -> Result<Self, RequestError> {
        let attached = args.attach.attach.is_some();
        let own = (!attached).then_some(QUEUE_BYTES);
        let usual = match args.latest_by {
            Some(_) => Full::DropNewest,
            None => Full::Hold,
        };
        let overflow = args.overflow.unwrap_or(usual);
        let options = GroupOptions::default().overflow(overflow.into());
        let mut options = options.delivery(args.delivery);
        if let Some(bytes) = args.queue.or(own) {
            options = options.capacity_bytes(bytes);
        }
        let position = args.resume.as_deref().map(PositionFile::new);
        if let Some(start) = past {
            let past = Past::new(node, &args.groups, start, options, args.queue, names)?;
            return Ok(Self {
                queue: Queue::Past(Box::new(past)),
                attached,
                position,
                told_left_out: 0,
            });
        }
        // In the order given, and each once.
        let mut seen = HashSet::new();
        let names = args.groups.iter().filter(|name| seen.insert(*name));
        let groups = node.groups(names).options(options);
        let queue = match args.latest_by {
            None => Queue::All(Arc::new(groups.subscribe()?)),
            Some(word) => Queue::Latest(groups.latest_by(move |message| key(message, word))?),
        };
        Ok(Self {
            queue,
            attached,
            position,
            told_left_out: 0,
        })
    }

    /// What comes next, or `None` when nothing came until then.
    fn recv(&self, until: Instant) -> Result<Option<Received>, RecvError> {
        let left = until.saturating_duration_since(Instant::now());
        match &self.queue {
            Queue::Past(past) => past.recv(left),
            Queue::All(subscription) => subscription.recv_timeout(left),
            Queue::Latest(latest) => latest.recv_timeout(left),
        }
    }

    /// Messages that have been received and not read, and their bytes; of a ring of an engine, which
    /// only knows the bytes, as many messages as there may be.
    fn queued(&self) -> (usize, usize) {
        let (subscription, ready) = match &self.queue {
            Queue::All(subscription) => (Arc::clone(subscription), 0),
            Queue::Past(past) => (past.live(), past.ready()),
            Queue::Latest(latest) => return (latest.queued(), usize::MAX),
        };
        let in_ring = self.attached && subscription.followed().is_none();
        match (in_ring, subscription.queued_bytes()) {
            (false, _) => (subscription.queued() + ready, usize::MAX),
            (true, 0) => (ready, usize::MAX),
            (true, bytes) => (usize::MAX, bytes),
        }
    }

    /// The queue that senders may wait for.
    fn waited_for(&self) -> Option<Arc<Subscription>> {
        match &self.queue {
            Queue::All(subscription) => Some(Arc::clone(subscription)),
            Queue::Past(past) => Some(past.live()),
            Queue::Latest(_) => None,
        }
    }

    /// Messages dropped because this program was too slow.
    fn dropped(&self) -> u64 {
        match &self.queue {
            Queue::Past(past) => past.live().dropped(),
            Queue::All(subscription) => subscription.dropped(),
            Queue::Latest(latest) => latest.dropped(),
        }
    }

    /// Messages that were asked for and were not kept.
    fn not_kept(&self) -> u64 {
        match &self.queue {
            Queue::Past(past) => past.missing(),
            Queue::All(_) | Queue::Latest(_) => 0,
        }
    }

    /// Counters of the past, where it was asked for.
    fn joined(&self) -> Option<JoinStats> {
        match &self.queue {
            Queue::Past(past) => Some(past.stats()),
            Queue::All(_) | Queue::Latest(_) => None,
        }
    }

    /// Saves a position behind what is written; at the end the last one.
    fn keep_up(&mut self, output: &Output, end: bool) -> Result<(), Failure> {
        match (&self.queue, &mut self.position) {
            (Queue::Past(past), Some(file)) => {
                file.keep_up(past, output.messages, output.written(), end)
            }
            _ => Ok(()),
        }
    }

    /// Says how many messages a newer one of their key has replaced.
    fn tell_replaced(&self) {
        if let Queue::Latest(latest) = &self.queue {
            let replaced = latest.replaced();
            let line = format!(
                "{} replaced by newer ones before they were written",
                counted(replaced, "message")
            );
            Note::info("replaced", &line).messages(replaced).say();
        }
    }

    /// Says so when groups that a pattern means are not received.
    fn tell_left_out(&mut self) {
        let Queue::All(subscription) = &self.queue else {
            return;
        };
        let followed = subscription.followed();
        let left_out = followed.map_or(0, |followed| followed.left_out);
        if left_out > self.told_left_out {
            let line = format!(
                "{left_out} groups so named are not received: there are too many, or they were \
                 refused; name fewer"
            );
            Note::warn("left-out", &line).say();
        }
        self.told_left_out = left_out;
    }
}

/// Where messages go.
struct Output {
    format: Format,
    /// Types of messages, if they are to be decoded.
    schema: Option<Schema>,
    origins: Origins,
    /// Names for the formats that have them.
    senders: Option<Senders>,
    store: Option<Store>,
    hashes: Option<GroupHashes>,
    /// Messages are written to stdout.
    print: bool,
    pending: Vec<u8>,
    /// Messages in it.
    pending_messages: u64,
    spool: Spool,
    stop: Stop,
    drain_timeout: Duration,
    messages: u64,
    bytes: u64,
    verbose: bool,
    /// The queue that senders may wait for.
    queue: Option<Arc<Subscription>>,
    hold: RefCell<HoldNotice>,
}

impl Output {
    fn new(args: &SubArgs, stop: &Stop) -> Result<Self, Failure> {
        let schema = args.decode.as_deref().map(read_schema).transpose()?;
        let json = args.json || schema.is_some();
        let format = match (args.frames, json, args.raw, args.tag) {
            (true, ..) => Format::Frames,
            (_, true, ..) => Format::Json,
            (_, _, true, _) => Format::Raw,
            (.., true) => Format::Tagged,
            _ if args.output.is_some() => Format::Stored,
            _ => Format::Lines,
        };
        let store = args
            .output
            .as_deref()
            .map(|folder| Store::open(folder, format))
            .transpose()?;
        Ok(Self {
            format,
            schema,
            origins: Origins::new(args.delivery, args.latest_by.is_none()),
            senders: None,
            print: store.is_none() && !args.hash,
            store,
            hashes: args.hash.then(GroupHashes::default),
            pending: Vec::new(),
            pending_messages: 0,
            spool: Spool::of_stdout()?,
            stop: stop.clone(),
            drain_timeout: args.drain_timeout,
            messages: 0,
            bytes: 0,
            verbose: args.node.network.verbose,
            queue: None,
            hold: RefCell::default(),
        })
    }

    /// Says so when senders wait for it.
    fn note_hold(&self) {
        if let Some(queue) = &self.queue {
            self.hold.borrow_mut().note(queue.holds());
        }
    }

    /// Writes names of senders, where the format has them.
    fn name_senders(&mut self, node: &Node, names: Names) -> Result<(), Failure> {
        if self.format == Format::Json {
            self.senders = Some(Senders::new(node, names)?);
        }
        Ok(())
    }

    /// Adds a message; while its place has to be waited for, says what happens to the node.
    fn add(&mut self, message: &Message, notices: &mut Notices) -> Result<(), Failure> {
        self.origins.check(message);
        let senders = self.senders.as_mut();
        let name = senders.and_then(|senders| senders.name(message.sender()));
        let record = Record::of(message, name, self.schema.as_ref());
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
        self.pending_messages += u64::from(self.print);
        match self.print {
            true if self.pending.len() >= OUT_BYTES => self.write(notices),
            true => Ok(()),
            false => {
                self.pending.clear();
                Ok(())
            }
        }
    }

    fn flush(&mut self, notices: &mut Notices) -> Result<(), Failure> {
        if let Some(store) = &mut self.store {
            store.flush()?;
        }
        self.write(notices)
    }

    /// Writes the rest, and hashes.
    fn finish(&mut self, notices: &mut Notices) -> Result<(), Failure> {
        let flushed = self.flush(notices);
        if let Some(hashes) = self.hashes.take() {
            self.pending.extend_from_slice(hashes.lines().as_bytes());
        }
        if self.verbose {
            let (count, bytes) = (
                counted(self.messages, "message"),
                figures::bytes(self.bytes),
            );
            let line = format!("received {count}, {bytes}");
            Note::info("received", &line).messages(self.messages).say();
        }
        let written = self.write(notices);
        let finished = self.spool.finish(|| self.is_over());
        flushed.and(written).and(finished)
    }

    /// Asked to end, and the time for that has passed.
    fn is_over(&self) -> bool {
        let asked = self.stop.asked_at();
        asked.is_some_and(|asked| asked.elapsed() >= self.drain_timeout)
    }

    /// Whoever read stdout has gone.
    fn closed(&self) -> bool {
        self.print && self.spool.is_closed()
    }

    /// Messages that were to be printed, and are not known to be.
    fn unwritten(&self) -> u64 {
        match self.print && !self.closed() {
            true => self.messages - self.spool.written(),
            false => 0,
        }
    }

    /// Messages that are where they were to go.
    fn written(&self) -> u64 {
        match self.print {
            true => self.spool.written(),
            false => self.messages,
        }
    }

    fn write(&mut self, notices: &mut Notices) -> Result<(), Failure> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut pending = core::mem::take(&mut self.pending);
        let over = || {
            self.note_hold();
            notices.drain();
            self.is_over()
        };
        let taken = self.spool.put(&mut pending, self.pending_messages, over);
        self.pending = pending;
        if taken? {
            self.pending_messages = 0;
        }
        Ok(())
    }
}
