//! `qsm bench latency`: how long a message takes, at a fixed rate.

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::figures;
use qsm_console::output;
use qsm_console::progress::Progress;
use qsm_console::stop::Stop;
use serde_json::{Value, json};

use crate::latencies::{Latencies, QUANTILES};
use crate::layout::LayoutOptions;
use crate::options::{LoadOptions, LocalOptions};
use crate::plot::{self, Curve};
use crate::report::{Received, Sent};
use crate::show::{self, LatencyTable, micros, plural};
use crate::spread::Spread;
use crate::throughput::{loss, options, place};
use crate::trial::{Outcome, Trial};

/// Arguments of `qsm bench latency`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm bench latency                             1000 messages a second, over loopback"
    "qsm bench latency --raw --spin                beside a bare UDP ping-pong, never sleeping"
    "qsm bench latency --loss 1 --receivers 4      how much later repaired messages come"
    "qsm bench latency --rate 20000 --duration 10 --plot latency.svg"
))]
pub(crate) struct LatencyArgs {
    /// What is sent.
    #[command(flatten)]
    pub(crate) load: LoadOptions,
    /// Messages per second of each sender
    #[arg(long, value_name = "MESSAGES", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: u32,
    /// Time the way to the first receiver and back, halved, as between hosts with different clocks
    #[arg(long)]
    pub(crate) round_trip: bool,
    /// By whom, to whom and where.
    #[command(flatten)]
    pub(crate) local: LocalOptions,
}

/// Arguments of `qsm bench ping`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm bench ping                                bare UDP multicast there and back, halved"
    "qsm bench ping --rate 100 --spin --lab"
))]
pub(crate) struct PingArgs {
    /// What is sent.
    #[command(flatten)]
    pub(crate) load: LoadOptions,
    /// Pings per second
    #[arg(long, value_name = "PINGS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: u32,
    /// Where.
    #[command(flatten)]
    pub(crate) local: LocalOptions,
}

/// What the runs of a latency benchmark gave.
#[derive(Debug)]
pub(crate) struct Latency {
    outcomes: Vec<Outcome>,
    raw: Vec<Latencies>,
    round_trip: bool,
}

/// Runs `qsm bench latency`.
///
/// # Errors
/// A run fails, or the results cannot be written.
pub(crate) fn run(args: &LatencyArgs) -> Result<(), Failure> {
    args.load.check(true)?;
    args.local.check_timed()?;
    if args.round_trip && args.local.senders > 1 {
        return Err(Failure::usage(
            "--round-trip is for one sender",
            "leave out --senders, or --round-trip",
        ));
    }
    let _exporter = args.local.serve_metrics()?;
    let stop = Stop::on_signals()?;
    let trial = Trial {
        load: &args.load,
        layout: &LayoutOptions::NONE,
        local: &args.local,
        rate: Some(args.rate),
        round_trip: args.round_trip,
    };
    let latency = measure(&trial, &stop)?;
    if let Some(path) = &args.local.plot {
        plot::write(path, &plot::percentiles(&latency.curves())?)?;
    }
    if args.local.json {
        let mut value = latency.json(&args.load, &args.local);
        value["options"]["rate"] = json!(args.rate);
        return show::print_json(&value);
    }
    output::write(header(&trial) + &latency.text())
}

/// Runs `qsm bench ping`.
///
/// # Errors
/// A run fails, or the results cannot be written.
pub(crate) fn ping(args: &PingArgs) -> Result<(), Failure> {
    args.local.check_timed()?;
    let stop = Stop::on_signals()?;
    let trial = Trial {
        load: &args.load,
        layout: &LayoutOptions::NONE,
        local: &args.local,
        rate: Some(args.rate),
        round_trip: true,
    };
    let mut raw = Vec::new();
    for _ in 0..args.local.runs {
        raw.push(trial.ping(&stop)?);
    }
    let latency = Latency {
        outcomes: Vec::new(),
        raw,
        round_trip: true,
    };
    if let Some(path) = &args.local.plot {
        plot::write(path, &plot::percentiles(&latency.curves())?)?;
    }
    if args.local.json {
        let runs: Vec<&Latencies> = latency.raw.iter().collect();
        return show::print_json(&json!({
            "benchmark": "ping", "options": options(&args.load, &args.local),
            "raw_half_round_trip": row_json(&runs),
        }));
    }
    output::write(latency.text())
}

/// Runs it so often, each time after the bare sockets if they are asked for.
///
/// # Errors
/// A run fails.
pub(crate) fn measure(trial: &Trial<'_>, stop: &Stop) -> Result<Latency, Failure> {
    let mut latency = Latency {
        outcomes: Vec::new(),
        raw: Vec::new(),
        round_trip: trial.round_trip,
    };
    let mut progress = Progress::new();
    for run in 1..=trial.local.runs {
        progress.announce(&format!("latency, run {run} of {}", trial.local.runs));
        if trial.local.raw {
            latency.raw.push(trial.ping(stop)?);
        }
        latency.outcomes.push(trial.run(stop)?);
    }
    progress.clear();
    Ok(latency)
}

fn header(trial: &Trial<'_>) -> String {
    let Trial { load, local, .. } = trial;
    let way = match trial.round_trip {
        true => "half of the way to the first receiver and back",
        false => "one way",
    };
    format!(
        "latency, {way}: {}, {}, {}, {} messages/s of {}, {}{}, {}\nfrom when a message was due \
         to its upcall; median of the runs [min-max]\n",
        plural(local.senders.into(), "sender"),
        plural(local.receivers.into(), "receiver"),
        plural(load.groups.into(), "group"),
        figures::count(trial.rate.unwrap_or_default().into()),
        figures::bytes(load.payload as u64),
        plural(local.runs.into(), "run"),
        loss(local),
        place(local),
    )
}

/// One quantity, of each run over all its processes.
fn merged<'a, T: 'a>(of: &'a [T], field: fn(&T) -> &Latencies) -> Latencies {
    let mut all = Latencies::new();
    of.iter().for_each(|one| all.merge(field(one)));
    all
}

/// The rows of the table, and their names for programs.
struct Row {
    name: &'static str,
    key: &'static str,
    runs: Vec<Latencies>,
}

impl Latency {
    fn sent(&self, field: fn(&Sent) -> &Latencies) -> Vec<Latencies> {
        let runs = self.outcomes.iter();
        runs.map(|outcome| merged(&outcome.sent, field)).collect()
    }

    fn received(&self, field: fn(&Received) -> &Latencies) -> Vec<Latencies> {
        let runs = self.outcomes.iter();
        runs.map(|outcome| merged(&outcome.received, field))
            .collect()
    }

    fn main(&self) -> Vec<Latencies> {
        match self.round_trip {
            true => self.sent(|sent| &sent.half_round_trip),
            false => self.received(|received| &received.latency),
        }
    }

    fn rows(&self) -> Vec<Row> {
        let row = |name, key, runs| Row { name, key, runs };
        vec![
            row("Quicksilver", "latency", self.main()),
            row("  due to call", "due_to_call", self.sent(|sent| &sent.late)),
            row(
                "  call to handed over",
                "call_to_handed_over",
                self.sent(|sent| &sent.handing),
            ),
            row(
                "  handed over to read",
                "handed_over_to_read",
                self.received(|received| &received.network),
            ),
            row(
                "  read to upcall",
                "read_to_upcall",
                self.received(|received| &received.delivering),
            ),
            row(
                "repaired messages",
                "repaired",
                self.received(|received| &received.repaired),
            ),
            row(
                "bare UDP, half of there and back",
                "raw_half_round_trip",
                self.raw.clone(),
            ),
        ]
    }

    /// The table.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let mut table = LatencyTable::new();
        for row in self.rows() {
            table.row(row.name, &row.runs.iter().collect::<Vec<_>>());
        }
        let received: Vec<Received> = self
            .outcomes
            .iter()
            .flat_map(|outcome| outcome.received.clone())
            .collect();
        table.render() + &self.later() + &show::repairs(&received)
    }

    /// How much later repaired messages came than the others.
    fn later(&self) -> String {
        let repaired = self.received(|received| &received.repaired);
        let median = |latencies: &Latencies| latencies.quantile(500_000);
        let pairs = self.main().into_iter().zip(repaired);
        let later =
            Spread::of(pairs.filter_map(|(all, repaired)| {
                Some(median(&repaired)? as f64 - median(&all)? as f64)
            }));
        later.map_or_else(String::new, |later| {
            format!(
                "repaired messages came {} µs later than most (difference of the medians)\n",
                later.show(micros)
            )
        })
    }

    fn curves(&self) -> Vec<Curve> {
        let curve = |row: &Row| {
            let mut all = Latencies::new();
            row.runs.iter().for_each(|run| all.merge(run));
            Curve {
                name: row.name.to_owned(),
                points: all.curve().collect(),
            }
        };
        let shown = ["latency", "repaired", "raw_half_round_trip"];
        let rows = self.rows();
        let rows = rows.iter().filter(|row| shown.contains(&row.key));
        rows.map(curve)
            .filter(|curve| !curve.points.is_empty())
            .collect()
    }

    /// The same, for programs.
    #[must_use]
    pub(crate) fn json(&self, load: &LoadOptions, local: &LocalOptions) -> Value {
        let mut value = json!({
            "benchmark": "latency",
            "round_trip": self.round_trip,
            "options": options(load, local),
        });
        for row in self.rows() {
            value[row.key] = row_json(&row.runs.iter().collect::<Vec<_>>());
        }
        let received = self.outcomes.iter().flat_map(|outcome| &outcome.received);
        let sum = |of: fn(&Received) -> u64| received.clone().map(of).sum::<u64>();
        value["packets_missing"] = json!(sum(|one| one.gaps));
        value["packets_lost_on_purpose"] = json!(sum(|one| one.injected));
        value["kernel_drops"] = json!(sum(|one| one.kernel_drops));
        value
    }
}

/// Microseconds; `null` where nothing was measured.
fn row_json(runs: &[&Latencies]) -> Value {
    let count: u64 = runs.iter().map(|run| run.count()).sum();
    if count == 0 {
        return Value::Null;
    }
    let spread = |of: &dyn Fn(&Latencies) -> Option<f64>| {
        Spread::of(
            runs.iter()
                .filter_map(|run| of(run))
                .map(|nanos| nanos / 1e3),
        )
    };
    let mut value = json!({ "count": count, "unit": "us" });
    for (millionths, name) in QUANTILES {
        value[name] = json!(spread(&|run| run
            .quantile(millionths)
            .map(|nanos| nanos as f64)));
    }
    value["max"] = json!(spread(&|run| run.max().map(|nanos| nanos as f64)));
    value["mean"] = json!(spread(&|run| run.mean()));
    value
}
