//! `qsm bench throughput`: as many messages as all receivers take.

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::figures;
use qsm_console::progress::Progress;
use qsm_console::stop::Stop;
use qsm_console::table::{Align, Table};
use serde_json::{Value, json};

use crate::options::{LoadOptions, LocalOptions};
use crate::plot;
use crate::report::{Received, Sent};
use crate::show::{self, bytes_per_second, per_million, plural};
use crate::spread::Spread;
use crate::trial::{Blast, Caught, Outcome, Trial};

/// Arguments of `qsm bench throughput`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm bench throughput                          one sender, one receiver, over loopback"
    "qsm bench throughput --receivers 3 --raw      as a share of what the sockets reach alone"
    "qsm bench throughput --payload 100 --groups 10000 --loss 1"
    "qsm bench throughput --groups 100 --cores 4   four core threads in each process"
    "qsm bench throughput --lab --receivers 4 --json --plot rates.svg"
))]
pub(crate) struct ThroughputArgs {
    /// What is sent.
    #[command(flatten)]
    pub(crate) load: LoadOptions,
    /// By whom, to whom and where.
    #[command(flatten)]
    pub(crate) local: LocalOptions,
}

/// One run, and the bare sockets' before it.
#[derive(Debug)]
pub(crate) struct Run {
    outcome: Outcome,
    raw: Option<Raw>,
}

/// Bytes per second of the bare sockets at the slowest receiver.
#[derive(Debug, Clone, Copy)]
struct Raw {
    /// Of bytes that nobody looks at.
    bytes: f64,
    /// Of the same messages as Quicksilver's, written and checked.
    checked: f64,
}

/// All runs.
#[derive(Debug)]
pub(crate) struct Throughput {
    runs: Vec<Run>,
}

/// Runs the command.
///
/// # Errors
/// A run fails, or the results cannot be written.
pub(crate) fn run(args: &ThroughputArgs) -> Result<(), Failure> {
    args.load.check(false)?;
    let stop = Stop::on_signals()?;
    let throughput = measure(&args.load, &args.local, &stop)?;
    if let Some(path) = &args.local.plot {
        plot::write(path, &plot::bars(&throughput.bars())?)?;
    }
    if args.local.json {
        return show::print_json(&throughput.json(&args.load, &args.local));
    }
    let header = header(&args.load, &args.local);
    show::print(&(header + &throughput.text()))
}

/// Runs it so many times, each time after the bare sockets if they are asked for: the machine's
/// moods change, so what is compared has to be close in time.
///
/// # Errors
/// A run fails.
pub(crate) fn measure(
    load: &LoadOptions,
    local: &LocalOptions,
    stop: &Stop,
) -> Result<Throughput, Failure> {
    let trial = Trial {
        load,
        local,
        rate: None,
        round_trip: false,
    };
    let mut progress = Progress::new();
    let mut runs = Vec::new();
    for run in 1..=local.runs {
        progress.announce(&format!("throughput, run {run} of {}", local.runs));
        let raw = match local.raw {
            true => Some(Raw {
                bytes: slowest(&trial.blast(Blast::Bytes, stop)?),
                checked: slowest(&trial.blast(Blast::Checked, stop)?),
            }),
            false => None,
        };
        let outcome = trial.run(stop)?;
        runs.push(Run { outcome, raw });
    }
    progress.clear();
    Ok(Throughput { runs })
}

fn slowest(caught: &[Caught]) -> f64 {
    let rates = caught.iter().map(|one| one.bytes_per_second);
    rates.fold(f64::INFINITY, f64::min)
}

fn header(load: &LoadOptions, local: &LocalOptions) -> String {
    let lasts = match (load.messages, load.lasts()) {
        (Some(messages), _) => format!("{} messages from each sender", figures::count(messages)),
        (None, lasts) => figures::duration(lasts.unwrap_or_default()),
    };
    format!(
        "throughput: {}, {}, {}, {} of {}, {} of {lasts}{}, {}\n",
        plural(local.senders.into(), "sender"),
        plural(local.receivers.into(), "receiver"),
        plural(load.groups.into(), "group"),
        "messages",
        figures::bytes(load.payload as u64),
        plural(local.runs.into(), "run"),
        loss(local),
        place(local),
    )
}

/// Where it runs, for headers.
#[must_use]
pub(crate) fn place(local: &LocalOptions) -> String {
    let hosts = if local.lab {
        "hosts out of namespaces"
    } else {
        "loopback"
    };
    let ipv6 = if local.ipv6 { ", IPv6" } else { "" };
    let pinned = if local.pin { ", pinned" } else { "" };
    format!("{hosts}{ipv6}{pinned}")
}

/// What is lost on purpose, for headers.
#[must_use]
pub(crate) fn loss(local: &LocalOptions) -> String {
    match local.loss {
        0 => String::new(),
        ppm => format!(", {} % loss at each receiver", f64::from(ppm) / 1e4),
    }
}

impl Run {
    /// Messages per second at the slowest receiver.
    fn messages_per_second(&self) -> f64 {
        let rates = self.outcome.received.iter();
        rates
            .map(|one| one.messages_per_second)
            .fold(f64::INFINITY, f64::min)
    }

    fn bytes_per_second(&self) -> f64 {
        let rates = self.outcome.received.iter();
        rates.map(bytes_per_second).fold(f64::INFINITY, f64::min)
    }

    fn sender_cpu(&self) -> f64 {
        let sum = |of: fn(&Sent) -> f64| self.outcome.sent.iter().map(of).sum::<f64>();
        per_million(
            sum(|sent| sent.cpu_seconds),
            sum(|sent| sent.messages as f64) as u64,
        )
    }

    fn receiver_cpu(&self) -> f64 {
        let sum = |of: fn(&Received) -> f64| self.outcome.received.iter().map(of).sum::<f64>();
        per_million(
            sum(|one| one.cpu_seconds),
            sum(|one| one.messages as f64) as u64,
        )
    }

    fn raw(&self, of: fn(Raw) -> f64) -> Option<f64> {
        self.raw.map(of)
    }

    fn share(&self, of: fn(Raw) -> f64) -> Option<f64> {
        Some(self.bytes_per_second() / self.raw(of)?)
    }

    fn json(&self) -> Value {
        let sent = self.outcome.sent.iter().map(|one| {
            json!({
                "messages": one.messages, "seconds": one.seconds,
                "cpu_seconds": one.cpu_seconds, "packets_asked": one.asked,
            })
        });
        let received = self.outcome.received.iter().map(|one| {
            json!({
                "messages": one.messages, "bytes": one.bytes, "seconds": one.seconds,
                "messages_per_second": one.messages_per_second,
                "megabytes_per_second": bytes_per_second(one) / 1e6,
                "cpu_seconds": one.cpu_seconds, "packets_missing": one.gaps,
                "packets_lost_on_purpose": one.injected, "kernel_drops": one.kernel_drops,
            })
        });
        json!({
            "senders": sent.collect::<Vec<_>>(),
            "receivers": received.collect::<Vec<_>>(),
            "raw_megabytes_per_second": self.raw(|raw| raw.bytes / 1e6),
            "raw_checked_megabytes_per_second": self.raw(|raw| raw.checked / 1e6),
        })
    }
}

impl Throughput {
    fn spread(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(of))
    }

    /// Messages per second at the slowest receiver, of each run.
    fn bars(&self) -> Vec<f64> {
        self.runs.iter().map(Run::messages_per_second).collect()
    }

    /// The table.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let values = match self.runs.len() {
            1 => "ONE RUN",
            _ => "MEDIAN [MIN-MAX]",
        };
        let mut table = Table::new(&[
            ("AT THE SLOWEST RECEIVER", Align::Left),
            (values, Align::Right),
        ]);
        let mut row = |name: &str, spread: Option<Spread>, number: fn(f64) -> String| {
            if let Some(spread) = spread {
                table.row([name.to_owned(), spread.show(number)]);
            }
        };
        let two = |number: f64| format!("{number:.2}");
        row(
            "messages/s",
            self.spread(|run| Some(run.messages_per_second())),
            figures::rate,
        );
        row(
            "MB/s",
            self.spread(|run| Some(run.bytes_per_second() / 1e6)),
            |number| format!("{number:.0}"),
        );
        row(
            "CPU s per million messages, sender",
            self.spread(|run| Some(run.sender_cpu())),
            two,
        );
        row(
            "CPU s per million messages, receiver",
            self.spread(|run| Some(run.receiver_cpu())),
            two,
        );
        let whole = |number: f64| format!("{number:.0}");
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        row(
            "bare sockets, MB/s",
            self.spread(|run| run.raw(|raw| raw.bytes / 1e6)),
            whole,
        );
        row(
            "share of that",
            self.spread(|run| run.share(|raw| raw.bytes)),
            percent,
        );
        row(
            "bare sockets, the same messages written and checked, MB/s",
            self.spread(|run| run.raw(|raw| raw.checked / 1e6)),
            whole,
        );
        row(
            "share of that",
            self.spread(|run| run.share(|raw| raw.checked)),
            percent,
        );
        let received: Vec<Received> = self
            .runs
            .iter()
            .flat_map(|run| run.outcome.received.clone())
            .collect();
        table.render() + &show::repairs(&received)
    }

    /// The same, for programs.
    #[must_use]
    pub(crate) fn json(&self, load: &LoadOptions, local: &LocalOptions) -> Value {
        json!({
            "benchmark": "throughput",
            "options": options(load, local),
            "messages_per_second": self.spread(|run| Some(run.messages_per_second())),
            "megabytes_per_second": self.spread(|run| Some(run.bytes_per_second() / 1e6)),
            "sender_cpu_seconds_per_million": self.spread(|run| Some(run.sender_cpu())),
            "receiver_cpu_seconds_per_million": self.spread(|run| Some(run.receiver_cpu())),
            "share_of_raw": self.spread(|run| run.share(|raw| raw.bytes)),
            "share_of_raw_checked": self.spread(|run| run.share(|raw| raw.checked)),
            "runs": self.runs.iter().map(Run::json).collect::<Vec<_>>(),
        })
    }
}

/// The options that results depend on, for programs.
#[must_use]
pub(crate) fn options(load: &LoadOptions, local: &LocalOptions) -> Value {
    json!({
        "payload": load.payload, "groups": load.groups, "senders": local.senders,
        "receivers": local.receivers, "loss_percent": f64::from(local.loss) / 1e4,
        "seconds": load.lasts().map(|lasts| lasts.as_secs_f64()), "messages": load.messages,
        "runs": local.runs, "spin": load.spin, "lab": local.lab, "ipv6": local.ipv6, "pin": local.pin,
        "cores": local.cores,
    })
}
