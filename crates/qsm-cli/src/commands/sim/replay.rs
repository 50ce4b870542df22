//! `qsm sim replay`: a node's past, once more.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use qsm::GroupId;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::figures::{bytes, counted, duration};
use qsm_console::options::size;
use qsm_console::table::printable;
use qsm_console::{output, utc};
use qsm_record::{
    Audience, Deliver, Delivery, Ending, Input, Instant, Played, ReadError, Recording, Setup,
    Transmit, replay,
};
use qsm_wire::Kind;
use serde_json::{Value, json};

use super::show;
use super::sketch::sketch;
use crate::pcapng::{Capture, Captured};
use crate::record::{Format, Record};

/// Text that is gathered before it is written, bytes.
const TEXT_BYTES: usize = 1 << 16;

/// Arguments of `qsm sim replay`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm sub news --record /tmp/node.qsm        record a node, then:"
    "qsm sim replay /tmp/node.qsm               does it do the same again?"
    "qsm sim replay /tmp/node.qsm --deliveries  what was delivered, message by message"
    "qsm sim replay /tmp/node.qsm --inputs | tail   what went into it last"
    "qsm sim replay /tmp/node.qsm --scenario a.txt  a scenario of the same kind; then: qsm sim run a.txt"
))]
pub(super) struct ReplayArgs {
    /// A recording, as `--record` and `Builder::record` write it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write what is delivered to stdout: group, sender, number and content, a line each; the report
    /// goes to stderr
    #[arg(long)]
    deliveries: bool,
    /// Write what is given to stdout: number, time since the node's start, and what it is, a line
    /// each; the report goes to stderr
    #[arg(long, conflicts_with = "deliveries")]
    inputs: bool,
    /// Write JSON: one object, or, with --deliveries, one for each message, as `qsm sub --json` does
    #[arg(long, conflicts_with = "inputs")]
    json: bool,
    /// Write the packets that the node received and sent as a capture for Wireshark, with the
    /// dissector of `qsm dissector`. All that it received stands there as sent to its own address
    #[arg(long, value_name = "FILE")]
    packets: Option<PathBuf>,
    /// Keep so many bytes of each data packet there, and all of the others [default: all]
    #[arg(long, value_name = "BYTES", requires = "packets", value_parser = size)]
    heads: Option<usize>,
    /// Write a scenario of the same kind: as many nodes as were seen, up to 12, the same senders at
    /// their rates, as much loss. It is another run; run it with other seeds, and shrink what fails
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// It is no recording, a block is damaged, or something else comes out than when it was recorded.
pub(super) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let file = args.file.display();
    let unread = |error: ReadError| unread(&args.file.display().to_string(), &error);
    let recording = Recording::open(&args.file).map_err(unread)?;
    let setup = recording.setup().clone();
    let mut writer = Writer::new(args, &setup)?;
    let played = replay(recording, &mut writer).map_err(unread)?;
    writer.finish()?;
    match args.deliveries || args.inputs {
        true => output::say(report(&setup, &played).trim_end()),
        false if args.json => show::write_json(&as_json(&setup, &played))?,
        false => output::write(report(&setup, &played))?,
    }
    if let Some(path) = &args.scenario {
        fs::write(path, sketch(&setup, &played))
            .map_err(|error| Failure::io(format_args!("write {}", path.display()), &error))?;
    }
    if let Some(difference) = &played.difference {
        let remedy = match is_same_version(&setup) {
            true => "report it with the file: the protocol is to depend on its inputs alone",
            false => "replay it with the version that recorded it",
        };
        return Err(Failure::failed(format!("{file}: {difference}"), remedy));
    }
    match played.end {
        Some(Err(error)) => Err(unread(error)),
        _ => Ok(()),
    }
}

fn unread(file: &str, error: &ReadError) -> Failure {
    let text = error.to_string();
    let (cause, remedy) = text.rsplit_once("; ").unwrap_or((&text, "check the file"));
    Failure::failed(format!("{file}: {cause}"), remedy)
}

fn is_same_version(setup: &Setup) -> bool {
    setup.version == env!("CARGO_PKG_VERSION")
}

/// The time of day at which the node was told this time.
fn wall(setup: &Setup, now: Instant) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(setup.wall_clock) + now.since(setup.start)
}

/// For people.
fn report(setup: &Setup, played: &Played) -> String {
    let config = &setup.config;
    let mut lines = vec![format!(
        "node {} ({:x}) of cluster {}, at {}, recorded by version {} from {}",
        printable(&config.name),
        config.node.0,
        printable(&config.cluster),
        config.address,
        printable(&setup.version),
        utc::rfc3339(wall(setup, setup.start)),
    )];
    lines.push(format!(
        "{} in {}: {}, {} published",
        counted(played.inputs, "input"),
        duration(played.time),
        counted(played.datagrams, "datagram"),
        counted(played.published, "message"),
    ));
    lines.push(format!(
        "{} delivered, {}, digest {:016x}",
        counted(played.delivered, "message"),
        bytes(played.delivered_bytes),
        played.deliveries.hash,
    ));
    if !is_same_version(setup) {
        let own = env!("CARGO_PKG_VERSION");
        lines.push(format!(
            "replayed by version {own}, which may decide otherwise"
        ));
    }
    match (&played.difference, &played.end) {
        (Some(difference), _) => lines.push(format!("DIFFERENT: {difference}")),
        (None, Some(Ok(ending))) => {
            lines.push(format!(
                "the same came out, byte for byte; the end: {ending}"
            ));
        }
        (None, _) => lines.push("the same came out, byte for byte, up to the damage".to_owned()),
    }
    lines.join("\n") + "\n"
}

/// For programs.
fn as_json(setup: &Setup, played: &Played) -> Value {
    let difference = played.difference.as_ref().map(|difference| {
        json!({
            "input": difference.input,
            "seconds": difference.at.as_secs_f64(),
            "what": difference.what,
            "recorded": difference.recorded.to_string(),
            "replayed": difference.replayed.to_string(),
            "panic": difference.panic,
        })
    });
    let (end, error) = match &played.end {
        Some(Ok(ending)) => (Some(ending_word(*ending)), None),
        Some(Err(error)) => (None, Some(error.to_string())),
        None => (None, None),
    };
    json!({
        "version": setup.version,
        "node": format!("{:x}", setup.config.node.0),
        "name": setup.config.name,
        "cluster": setup.config.cluster,
        "address": setup.config.address.to_string(),
        "start": utc::rfc3339(wall(setup, setup.start)),
        "seconds": played.time.as_secs_f64(),
        "inputs": played.inputs,
        "datagrams": played.datagrams,
        "published": played.published,
        "delivered": played.delivered,
        "delivered_bytes": played.delivered_bytes,
        "digest": format!("{:016x}", played.deliveries.hash),
        "same": played.difference.is_none(),
        "difference": difference,
        "end": end,
        "error": error,
    })
}

fn ending_word(ending: Ending) -> &'static str {
    match ending {
        Ending::Closed => "closed",
        Ending::Limit => "limit",
        Ending::Slow => "slow",
        Ending::Cut => "cut",
    }
}

/// Writes what is asked for while the replay goes on.
struct Writer<'a> {
    args: &'a ReplayArgs,
    setup: &'a Setup,
    now: Instant,
    /// Where the node is.
    address: SocketAddr,
    names: BTreeMap<GroupId, String>,
    text: Vec<u8>,
    /// Nobody reads it, or it cannot be written.
    closed: bool,
    failed: Option<io::Error>,
    packets: Option<Packets<'a>>,
}

/// A capture that is being written.
struct Packets<'a> {
    path: &'a Path,
    capture: Capture,
    /// Bytes of data packets that are kept.
    heads: usize,
    failed: Option<io::Error>,
}

impl<'a> Packets<'a> {
    fn create(path: &'a Path, heads: Option<usize>) -> Result<Self, Failure> {
        let capture = Capture::create(path, &["node"]).map_err(|error| unwritten(path, &error))?;
        Ok(Self {
            path,
            capture,
            heads: heads.unwrap_or(usize::MAX),
            failed: None,
        })
    }

    fn add(&mut self, datagram: &Captured<'_>) {
        if self.failed.is_none() {
            let data = Kind::peek(datagram.bytes) == Some(Kind::Data);
            let kept = if data { self.heads } else { usize::MAX };
            self.failed = self.capture.add(&Captured { kept, ..*datagram }).err();
        }
    }

    fn finish(mut self) -> Result<(), Failure> {
        let finished = match self.failed {
            Some(error) => Err(error),
            None => self.capture.flush(),
        };
        finished.map_err(|error| unwritten(self.path, &error))
    }
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::io(format_args!("write {}", path.display()), error)
}

impl<'a> Writer<'a> {
    fn new(args: &'a ReplayArgs, setup: &'a Setup) -> Result<Self, Failure> {
        let packets = args.packets.as_deref();
        let packets = packets.map(|path| Packets::create(path, args.heads));
        Ok(Self {
            args,
            setup,
            now: setup.start,
            address: setup.config.address,
            names: BTreeMap::new(),
            text: Vec::new(),
            closed: false,
            failed: None,
            packets: packets.transpose()?,
        })
    }

    /// Writes what is left.
    fn finish(mut self) -> Result<(), Failure> {
        self.flush();
        if let Some(error) = self.failed {
            return Err(Failure::io("write to stdout", &error));
        }
        self.packets.map_or(Ok(()), Packets::finish)
    }

    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        if self.closed {
            return;
        }
        if let Err(error) = io::stdout().lock().write_all(&text) {
            self.closed = true;
            self.failed = (error.kind() != ErrorKind::BrokenPipe).then_some(error);
        }
    }

    fn flush_much(&mut self) {
        if self.text.len() >= TEXT_BYTES {
            self.flush();
        }
    }
}

impl Deliver for Writer<'_> {
    fn deliver(&mut self, message: Delivery<'_>) {
        if !self.args.deliveries {
            return;
        }
        let record = Record {
            group: self.names.get(&message.group).map_or("", String::as_str),
            sender: message.sender,
            number: message.number,
            bytes: message.bytes,
            name: None,
            relayed: None,
            time: wall(self.setup, self.now),
            schema: None,
        };
        let format = match self.args.json {
            true => Format::Json,
            false => Format::Tagged,
        };
        record.append(format, &mut self.text);
        self.flush_much();
    }

    fn name_group(&mut self, group: GroupId, name: &str) {
        self.names.insert(group, name.to_owned());
    }
}

impl Audience for Writer<'_> {
    fn begin(&mut self, number: u64, now: Instant, input: &Input<'_>) {
        self.now = now;
        if let Input::Move { address, .. } = input {
            self.address = *address;
        }
        if self.args.inputs {
            let at = now.since(self.setup.start).as_secs_f64();
            let line = format!("{number} {at:.6} {input}\n");
            self.text.extend_from_slice(line.as_bytes());
            self.flush_much();
        }
    }

    fn receive(&mut self, from: SocketAddr, bytes: &[u8]) {
        let time = wall(self.setup, self.now);
        if let Some(packets) = &mut self.packets {
            packets.add(&Captured {
                time,
                from,
                to: self.address,
                bytes,
                kept: bytes.len(),
            });
        }
    }

    fn send(&mut self, transmit: &Transmit<'_>) {
        let time = wall(self.setup, self.now);
        let Some(packets) = &mut self.packets else {
            return;
        };
        for bytes in transmit.bytes.chunks(transmit.segment_bytes.max(1)) {
            packets.add(&Captured {
                time,
                from: self.address,
                to: transmit.to.address(),
                bytes,
                kept: bytes.len(),
            });
        }
    }
}
