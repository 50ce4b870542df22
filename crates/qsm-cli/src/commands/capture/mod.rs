//! `qsm capture`: packets of a cluster at the card, into a ring of files for Wireshark.

mod pieces;
mod ring;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use qsm::{Family, Interface, choose_interface};
use qsm_console::examples;
use qsm_console::failure::{Code, Failure};
use qsm_console::figures::{bytes, counted, duration};
use qsm_console::options::size;
use qsm_console::stop::Stop;
use qsm_console::table::printable;
use qsm_console::{output, utc};
use qsm_net::{Mark, Sniffed, Sniffer};
use qsm_wire::{CLUSTER_AT, cluster_number};
use serde_json::{Value, json};

use self::pieces::{Pieces, Tally};
use self::ring::{Ring, path_of};
use crate::pcapng::Whole;

/// How often signals are looked at, and what was taken is written, where nothing comes.
const LOOK: Duration = Duration::from_millis(100);
/// Packets that are taken between two looks at signals.
const TAKEN_TOGETHER: usize = 1024;
/// Of a data packet: its header, that of its first message, and some bytes of that.
const HEADS: usize = 96;
/// Least size of a file: room for the longest packet many times.
const FILE_BYTES_MIN: usize = 1 << 20;

/// Arguments of `qsm capture`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm capture /tmp/qsm                        until Ctrl-C, at most 8 files of 64 MiB"
    "qsm capture /tmp/qsm --files 2 --file-size 1G --whole"
    "qsm capture /tmp/qsm --interface eth0 --interface eth1 --cluster blue --json"
    "qsm dissector > /tmp/qsm.lua && tshark -X lua_script:/tmp/qsm.lua -r /tmp/qsm.0.pcapng"
))]
pub(crate) struct CaptureArgs {
    /// Name of the files: NAME.0.pcapng, NAME.1.pcapng and so on. The first is the one that was
    /// written longest ago
    #[arg(value_name = "NAME")]
    name: PathBuf,
    /// Number of files: when the last is full, the first is written anew
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=1000))]
    files: u16,
    /// Most bytes of each file, with suffix k, M or G
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = file_size)]
    file_size: usize,
    /// Bytes that are kept of each data packet; all others are kept whole
    #[arg(long, value_name = "BYTES", default_value_t = HEADS)]
    heads: usize,
    /// Keep data packets whole, messages and all
    #[arg(long, conflicts_with = "heads")]
    whole: bool,
    /// End after so many packets [default: at Ctrl-C or SIGTERM]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Write what was captured as a JSON object at the end
    #[arg(long)]
    json: bool,
    /// Network interface, by name or address; may be given several times [default: the one that a
    /// node would choose]
    #[arg(long, value_name = "INTERFACE", help_heading = "Network")]
    interface: Vec<String>,
    /// Choose an interface with an address of IPv6; packets of both are captured
    #[arg(long, help_heading = "Network")]
    ipv6: bool,
    /// Cluster whose packets are captured
    #[arg(
        long,
        value_name = "NAME",
        default_value = "default",
        help_heading = "Network"
    )]
    cluster: String,
}

fn file_size(text: &str) -> Result<usize, String> {
    match size(text)? {
        bytes if bytes < FILE_BYTES_MIN => Err("must be at least 1M".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Runs the command, until a signal, or until there are as many packets as asked for.
///
/// # Errors
/// The program may not capture, a file cannot be written, or packets were lost.
pub(crate) fn run(args: &CaptureArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let interfaces = interfaces(args)?;
    let mut sniffer = open(args, &interfaces)?;
    let names: Vec<String> = interfaces.iter().map(|one| one.name.clone()).collect();
    let files = usize::from(args.files);
    let ring = Ring::create(&args.name, files, args.file_size as u64, names.clone());
    let ring = ring.map_err(|error| unwritten(&path_of(&args.name, 0), &error))?;
    output::say(format_args!(
        "qsm: capturing packets of cluster {} at {}, into {}",
        printable(&args.cluster),
        names.join(" and "),
        printable(&ring.path().display().to_string())
    ));
    let mut taking = Taking {
        interfaces: &interfaces,
        pieces: Pieces::new((!args.whole).then_some(args.heads)),
        ring,
        count: args.count.unwrap_or(u64::MAX),
    };
    let began = SystemTime::now();
    let ended = taking.until(&stop, &mut sniffer);
    let lost = sniffer.lost().map_err(|error| failed(&error))?;
    let ended = ended.and_then(|()| taking.finish(lost));
    let summary = Summary {
        cluster: &args.cluster,
        interfaces: &names,
        tally: taking.pieces.tally,
        lost,
        ring: &taking.ring,
        began,
        ended: SystemTime::now(),
    };
    match args.json {
        true => output::write(format!("{:#}\n", summary.json()))?,
        false => output::write(summary.words())?,
    }
    ended?;
    match lost {
        0 => Ok(()),
        lost => Err(Failure::new(
            Code::Incomplete,
            format!(
                "{} lost: they came faster than they could be written",
                counted(lost, "packet")
            ),
            "write to a faster disk, or to memory (/dev/shm); keep less (--heads); as root the \
             socket's buffer is larger",
        )),
    }
}

fn interfaces(args: &CaptureArgs) -> Result<Vec<Interface>, Failure> {
    let family = args.ipv6.then_some(Family::V6);
    let choose = |asked: Option<&str>| {
        let chosen = choose_interface(asked, family);
        let (interface, _) = chosen.map_err(|error| {
            let text = error.to_string();
            let (cause, remedy) = text.split_once("; ").unwrap_or((&text, "see --interface"));
            Failure::failed(cause, remedy)
        })?;
        Ok(interface)
    };
    if args.interface.is_empty() {
        return Ok(vec![choose(None)?]);
    }
    let asked = args.interface.iter();
    asked.map(|name| choose(Some(name))).collect()
}

fn open(args: &CaptureArgs, interfaces: &[Interface]) -> Result<Sniffer, Failure> {
    let mark = Mark {
        at: CLUSTER_AT as u8,
        bytes: cluster_number(&args.cluster).to_le_bytes(),
    };
    // Of several the kernel gives those of all, and the others are passed over.
    let only = match interfaces {
        [only] => Some(only.index),
        _ => None,
    };
    Sniffer::open(mark, only).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Failure::failed(
            "capturing needs the capability CAP_NET_RAW, which this process does not have",
            "run it as root, or give the right to a copy of the program that few may run: \
             setcap cap_net_raw+ep FILE; in a container: --cap-add NET_RAW",
        ),
        _ => failed(&error),
    })
}

fn failed(error: &io::Error) -> Failure {
    Failure::io("capture", error)
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::io(format_args!("write {}", path.display()), error)
}

/// Packets on their way into files.
struct Taking<'a> {
    interfaces: &'a [Interface],
    pieces: Pieces,
    ring: Ring,
    /// Packets after which it ends.
    count: u64,
}

impl Taking<'_> {
    fn until(&mut self, stop: &Stop, sniffer: &mut Sniffer) -> Result<(), Failure> {
        while !stop.is_asked() {
            if !sniffer.wait(LOOK).map_err(|error| failed(&error))? {
                // So that others can read what has come.
                self.flush()?;
            }
            if self.take_waiting(sniffer)? {
                return Ok(());
            }
        }
        // What came before the signal.
        self.take_waiting(sniffer).map(drop)
    }

    /// Takes what is there. True: there are as many packets as asked for.
    fn take_waiting(&mut self, sniffer: &mut Sniffer) -> Result<bool, Failure> {
        for _ in 0..TAKEN_TOGETHER {
            if self.pieces.tally.all() >= self.count {
                return Ok(true);
            }
            match sniffer.next_packet() {
                Ok(Some(packet)) => self.take(&packet)?,
                Ok(None) => break,
                Err(error) if error.kind() == ErrorKind::NetworkDown => {
                    output::say(
                        "qsm: an interface is down; what it carries later is captured, unless it is \
                         removed",
                    );
                }
                Err(error) => return Err(failed(&error)),
            }
        }
        Ok(false)
    }

    fn take(&mut self, packet: &Sniffed<'_>) -> Result<(), Failure> {
        let index = packet.interface;
        let found = self.interfaces.iter().position(|one| one.index == index);
        let Some(number) = found else {
            return Ok(());
        };
        if self.interfaces[number].loopback && packet.leaving {
            // It comes, too.
            return Ok(());
        }
        let ring = &mut self.ring;
        let kept = self.pieces.each(packet.packet, |piece| {
            ring.add(&Whole {
                time: packet.time,
                // A handful.
                interface: number as u32,
                leaving: Some(packet.leaving),
                bytes: piece.bytes,
                length: piece.length,
            })
        });
        kept.map_err(|error| unwritten(self.ring.path(), &error))
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let flushed = self.ring.flush();
        flushed.map_err(|error| unwritten(self.ring.path(), &error))
    }

    fn finish(&mut self, lost: u64) -> Result<(), Failure> {
        let finished = self.ring.finish(self.pieces.tally.all(), lost);
        finished.map_err(|error| unwritten(self.ring.path(), &error))
    }
}

/// A capture that has ended.
struct Summary<'a> {
    cluster: &'a str,
    interfaces: &'a [String],
    tally: Tally,
    lost: u64,
    ring: &'a Ring,
    began: SystemTime,
    ended: SystemTime,
}

impl Summary<'_> {
    fn time(&self) -> Duration {
        self.ended.duration_since(self.began).unwrap_or_default()
    }

    fn words(&self) -> String {
        let Tally {
            data,
            control,
            other,
        } = self.tally;
        let mut lines = vec![format!(
            "{} in {} at {}: {data} of data, {control} of control, {other} of IGMP, MLD and the like; {} lost",
            counted(self.tally.all(), "packet"),
            duration(self.time()),
            self.interfaces.join(" and "),
            self.lost,
        )];
        lines.push(format!(
            "{} in {}, of which these are there, the oldest first:",
            bytes(self.ring.written()),
            counted(self.ring.begun(), "file"),
        ));
        let paths = self.ring.paths();
        lines.extend(paths.map(|path| format!("  {}", path.display())));
        lines.join("\n") + "\n"
    }

    fn json(&self) -> Value {
        let paths = self.ring.paths().map(|path| path.display().to_string());
        json!({
            "cluster": self.cluster,
            "interfaces": self.interfaces,
            "start": utc::rfc3339(self.began),
            "seconds": self.time().as_secs_f64(),
            "packets": self.tally.all(),
            "data": self.tally.data,
            "control": self.tally.control,
            "other": self.tally.other,
            "lost": self.lost,
            "bytes": self.ring.written(),
            "files_begun": self.ring.begun(),
            "files": paths.collect::<Vec<_>>(),
        })
    }
}
