//! `qsm bench throughput`: as many messages as all receivers take.

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::figures;
use qsm_console::output;
use qsm_console::progress::Progress;
use qsm_console::stop::Stop;
use qsm_console::table::{Align, Table};
use serde_json::{Value, json};

use crate::layout::{Layout, LayoutAxis, LayoutOptions};
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
    "qsm bench throughput --layout extras:5,1000 --receivers 6    with odd groups besides"
    "qsm bench throughput --layout all --receivers 16 --loss 1    each layout beside identical"
    "qsm bench throughput --groups 100 --cores 4   four core threads in each process"
    "qsm bench throughput --protect none,key,tokens,verified    what protection costs, beside its ciphers and signatures"
    "qsm bench throughput --lab --protect none,tokens --send-limit 112M    the same where a network of 1 Gbit/s is the limit"
    "qsm bench throughput --lab --receivers 4 --json --plot rates.svg"
))]
pub(crate) struct ThroughputArgs {
    /// What is sent.
    #[command(flatten)]
    pub(crate) load: LoadOptions,
    /// What receivers have besides.
    #[command(flatten)]
    pub(crate) layout: LayoutAxis,
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
#[derive(Debug, Default)]
pub(crate) struct Throughput {
    runs: Vec<Run>,
}

/// Runs the command for one layout, or for none.
///
/// # Errors
/// A run fails, or the results cannot be written.
pub(crate) fn run(args: &ThroughputArgs) -> Result<(), Failure> {
    args.load.check(false)?;
    args.local.check_protection()?;
    let _exporter = args.local.serve_metrics()?;
    let layout = args.layout.layouts().first().copied();
    let layout = layout.unwrap_or(LayoutOptions::NONE);
    let stop = Stop::on_signals()?;
    let throughput = measure(&args.load, &layout, &args.local, &stop)?;
    if let Some(path) = &args.local.plot {
        plot::write(path, &plot::bars(&throughput.bars())?)?;
    }
    if args.local.json {
        return show::print_json(&throughput.json(&args.load, &layout, &args.local));
    }
    let header = header(args);
    output::write(header + &throughput.text())
}

/// Runs it so many times, each time after the bare sockets if they are asked for: the machine's
/// moods change, so what is compared has to be close in time.
///
/// # Errors
/// A run fails.
pub(crate) fn measure(
    load: &LoadOptions,
    layout: &LayoutOptions,
    local: &LocalOptions,
    stop: &Stop,
) -> Result<Throughput, Failure> {
    let trial = Trial {
        load,
        layout,
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

/// Description of what is measured, for people.
#[must_use]
pub(crate) fn header(args: &ThroughputArgs) -> String {
    let (load, local) = (&args.load, &args.local);
    let lasts = match (load.messages, load.lasts()) {
        (Some(messages), _) => format!("{} messages from each sender", figures::count(messages)),
        (None, lasts) => figures::duration(lasts.unwrap_or_default()),
    };
    format!(
        "throughput: {}, {}, {}{}, {} of {}, {} of {lasts}{}{}, {}\n",
        plural(local.senders.into(), "sender"),
        plural(local.receivers.into(), "receiver"),
        plural(load.groups.into(), "group"),
        layout(&args.layout),
        "messages",
        figures::bytes(load.payload as u64),
        plural(local.runs.into(), "run"),
        loss(local),
        limit(local),
        place(local),
    )
}

fn limit(local: &LocalOptions) -> String {
    local.send_limit.map_or_else(String::new, |bytes| {
        format!(", senders held to {}/s", figures::bytes(bytes as u64))
    })
}

/// What receivers have besides, for headers.
fn layout(axis: &LayoutAxis) -> String {
    let share = axis.share_percent();
    let layouts = axis.layouts();
    let names = layouts.iter().filter_map(|options| options.layout);
    let names: Vec<String> = names.map(Layout::name).collect();
    match &names[..] {
        [] => String::new(),
        [name] => format!(" and layout {name} with {share} % of the messages"),
        several => format!(
            " and {} layouts with {share} % of the messages",
            several.len()
        ),
    }
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

    /// Messages per second to all groups, until the slowest receiver has those that it wants.
    fn sent_per_second(&self) -> f64 {
        let seconds = self.outcome.received.iter().map(|one| one.seconds);
        self.sent(|sent| sent.messages) as f64 / seconds.fold(1e-9, f64::max)
    }

    fn sent(&self, of: fn(&Sent) -> u64) -> u64 {
        self.outcome.sent.iter().map(of).sum()
    }

    fn packets_per_message(&self) -> f64 {
        self.sent(|sent| sent.packets) as f64 / self.sent(|sent| sent.messages).max(1) as f64
    }

    /// Of the repaired packets, those that receivers repaired.
    fn by_receivers(&self) -> Option<f64> {
        let sum = |of: fn(&Received) -> u64| self.outcome.received.iter().map(of).sum::<u64>();
        let by_receivers = sum(|one| one.by_receivers);
        let all = by_receivers + sum(|one| one.by_sender);
        (all > 0).then(|| by_receivers as f64 / all as f64)
    }

    /// Regions with an address of their own; the senders see the same ones.
    fn regions(&self) -> f64 {
        let regions = self.outcome.sent.iter().map(|sent| sent.regions);
        regions.max().unwrap_or(0) as f64
    }

    fn private_regions(&self) -> f64 {
        let regions = self.outcome.sent.iter().map(|sent| sent.private_regions);
        regions.max().unwrap_or(0) as f64
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
                "packets": one.packets, "regions": one.regions,
                "private_regions": one.private_regions,
            })
        });
        let received = self.outcome.received.iter().map(|one| {
            json!({
                "messages": one.messages, "bytes": one.bytes, "seconds": one.seconds,
                "messages_per_second": one.messages_per_second,
                "megabytes_per_second": bytes_per_second(one) / 1e6,
                "cpu_seconds": one.cpu_seconds, "packets_missing": one.gaps,
                "packets_lost_on_purpose": one.injected, "kernel_drops": one.kernel_drops,
                "repaired_by_receivers": one.by_receivers, "repaired_by_sender": one.by_sender,
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

/// Fate of the messages of a layout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayoutFigures {
    /// Data packets per message, without repairs.
    pub(crate) packets_per_message: Option<Spread>,
    /// Regions with an address of their own.
    pub(crate) regions: Option<Spread>,
    /// Regions of one receiver's odd groups.
    pub(crate) private_regions: Option<Spread>,
    /// Of the repaired packets, those that receivers repaired.
    pub(crate) by_receivers: Option<Spread>,
}

impl Throughput {
    /// Adds a run.
    pub(crate) fn add(&mut self, outcome: Outcome) {
        self.runs.push(Run { outcome, raw: None });
    }

    /// Messages per second to all groups together, of each run.
    #[must_use]
    pub(crate) fn sent_per_second(&self) -> Vec<f64> {
        self.runs.iter().map(Run::sent_per_second).collect()
    }

    /// Messages per second at the slowest receiver, of each run.
    #[must_use]
    pub(crate) fn messages_per_second(&self) -> Vec<f64> {
        self.bars()
    }

    /// Data packets per message, without repairs: the median.
    #[must_use]
    pub(crate) fn packets(&self) -> Option<f64> {
        let packets = self.spread(|run| Some(run.packets_per_message()));
        packets.map(|spread| spread.median)
    }

    /// CPU seconds of all processes together for a million messages.
    #[must_use]
    pub(crate) fn cpu(&self) -> Option<Spread> {
        self.spread(|run| {
            let receivers = run.outcome.received.len() as f64;
            Some(run.sender_cpu() + receivers * run.receiver_cpu())
        })
    }

    /// Fate of the messages.
    #[must_use]
    pub(crate) fn layout_figures(&self) -> LayoutFigures {
        LayoutFigures {
            packets_per_message: self.spread(|run| Some(run.packets_per_message())),
            regions: self.spread(|run| Some(run.regions())),
            private_regions: self.spread(|run| Some(run.private_regions())),
            by_receivers: self.spread(Run::by_receivers),
        }
    }

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
        for (name, spread, number) in self.rates().into_iter().chain(self.ways()) {
            if let Some(spread) = spread {
                table.row([name.to_owned(), spread.show(number)]);
            }
        }
        let received: Vec<Received> = self
            .runs
            .iter()
            .flat_map(|run| run.outcome.received.clone())
            .collect();
        table.render() + &show::repairs(&received)
    }

    /// How fast, and beside what the sockets do alone.
    fn rates(&self) -> Vec<Row> {
        let two = |number: f64| format!("{number:.2}");
        vec![
            (
                "messages/s",
                self.spread(|run| Some(run.messages_per_second())),
                figures::rate,
            ),
            (
                "messages/s to all groups together",
                self.spread(|run| Some(run.sent_per_second())),
                figures::rate,
            ),
            (
                "MB/s",
                self.spread(|run| Some(run.bytes_per_second() / 1e6)),
                whole,
            ),
            (
                "CPU s per million messages, sender",
                self.spread(|run| Some(run.sender_cpu())),
                two,
            ),
            (
                "CPU s per million messages, receiver",
                self.spread(|run| Some(run.receiver_cpu())),
                two,
            ),
            (
                "bare sockets, MB/s",
                self.spread(|run| run.raw(|raw| raw.bytes / 1e6)),
                whole,
            ),
            (
                "share of that",
                self.spread(|run| run.share(|raw| raw.bytes)),
                percent,
            ),
            (
                "bare sockets, the same messages written and checked, MB/s",
                self.spread(|run| run.raw(|raw| raw.checked / 1e6)),
                whole,
            ),
            (
                "share of that",
                self.spread(|run| run.share(|raw| raw.checked)),
                percent,
            ),
        ]
    }

    /// By how many packets and regions, and who repaired.
    fn ways(&self) -> Vec<Row> {
        let figures = self.layout_figures();
        vec![
            (
                "data packets per message, without repairs",
                figures.packets_per_message,
                |number| format!("{number:.3}"),
            ),
            ("regions", figures.regions, whole),
            ("private regions", figures.private_regions, whole),
            (
                "share of the repairs by receivers",
                figures.by_receivers,
                |share| format!("{:.1} %", share * 100.0),
            ),
        ]
    }

    /// The same, for programs.
    #[must_use]
    pub(crate) fn json(
        &self,
        load: &LoadOptions,
        layout: &LayoutOptions,
        local: &LocalOptions,
    ) -> Value {
        let mut options = options(load, local);
        options["layout"] = json!(layout.layout.map(Layout::name));
        options["layout_share_percent"] = json!(layout.layout.map(|_| layout.load.share_percent()));
        let mut results = self.results();
        results["benchmark"] = json!("throughput");
        results["options"] = options;
        results
    }

    /// Results of the runs, for programs.
    #[must_use]
    pub(crate) fn results(&self) -> Value {
        let figures = self.layout_figures();
        json!({
            "messages_sent_per_second": self.spread(|run| Some(run.sent_per_second())),
            "packets_per_message": figures.packets_per_message,
            "regions": figures.regions,
            "private_regions": figures.private_regions,
            "share_of_repairs_by_receivers": figures.by_receivers,
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

/// A row of the table: its name, what the runs gave, and how a number is written.
type Row = (&'static str, Option<Spread>, fn(f64) -> String);

fn whole(number: f64) -> String {
    format!("{number:.0}")
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The options that results depend on, for programs.
#[must_use]
pub(crate) fn options(load: &LoadOptions, local: &LocalOptions) -> Value {
    json!({
        "payload": load.payload, "groups": load.groups, "senders": local.senders,
        "receivers": local.receivers, "loss_percent": f64::from(local.loss) / 1e4,
        "seconds": load.lasts().map(|lasts| lasts.as_secs_f64()), "messages": load.messages,
        "runs": local.runs, "spin": load.spin, "lab": local.lab, "ipv6": local.ipv6, "pin": local.pin,
        "cores": local.cores, "send_limit": local.send_limit,
        "protect": local.protect.iter().map(|one| one.name()).collect::<Vec<_>>(),
    })
}
