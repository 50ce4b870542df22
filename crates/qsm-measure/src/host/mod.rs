//! `qsm latency host`: the part of a latency that this host adds, whatever is sent: how late it runs a
//! thread that is due, in each scheduling class, how much later a packet is read where several receivers
//! wait for it, and how its clock runs (R250, R252, R253; E45-E48).

mod clocks;
mod contention;
mod page;
mod wakeups;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::figures::{count, counted, duration};
use qsm_console::options::seconds;
use qsm_console::output;
use qsm_console::stop::Stop;
use qsm_console::table::{Align, Table};
use serde_json::{Value, json};

use crate::latencies::Latencies;
use clocks::Clocks;
use wakeups::Class;

/// Arguments of `qsm latency`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm latency host                      how late this host runs threads, and reads packets"
    "qsm latency host --load 4             the same beside four busy threads"
    "qsm latency host --seconds 60 --json  for records"
))]
pub struct LatencyArgs {
    /// The measurement.
    #[command(subcommand)]
    command: LatencyCommand,
}

/// The measurements.
#[derive(Debug, Clone, Subcommand)]
enum LatencyCommand {
    /// Measure this host's share of latency: scheduling, contention of receivers, drift of its clock
    Host(HostArgs),
}

/// Arguments of `qsm latency host`.
#[derive(Debug, Clone, Args)]
struct HostArgs {
    /// Length of each measurement
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    seconds: Duration,
    /// Time between two moments at which a thread is due, and between two packets, microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(50..=1_000_000))]
    every: u64,
    /// Receivers that wait for the same packet; one, and so many
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    receivers: u32,
    /// Threads that keep CPUs busy meanwhile, of normal class
    #[arg(long, value_name = "THREADS", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=1024))]
    load: u32,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Write host.json and README.md there, too, with the results beside those of Informatica's paper
    #[arg(long, value_name = "FOLDER")]
    page: Option<PathBuf>,
}

impl HostArgs {
    fn interval(&self) -> Duration {
        Duration::from_micros(self.every)
    }
}

/// Runs `qsm latency`.
///
/// # Errors
/// Nothing was measured before it was ended; multicast cannot be used over loopback; the output cannot
/// be written.
pub fn run_latency(args: &LatencyArgs) -> Result<(), Failure> {
    let LatencyCommand::Host(args) = &args.command;
    let stop = Stop::on_signals()?;
    let ended = AtomicBool::new(false);
    let found = thread::scope(|scope| {
        for _ in 0..args.load {
            scope.spawn(|| keep_busy(&ended));
        }
        let found = Found::measure(args, &stop);
        ended.store(true, Ordering::Relaxed);
        found
    })?;
    if let Some(folder) = &args.page {
        page::write(folder, &found.json(args))?;
    }
    let text = match args.json {
        true => format!("{:#}\n", found.json(args)),
        false => found.text(args),
    };
    output::write(text)
}

fn keep_busy(ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

/// Results of the measurements.
struct Found {
    classes: Vec<(Class, Result<Latencies, String>)>,
    receivers: Vec<(u32, Latencies)>,
    clocks: Clocks,
}

impl Found {
    fn measure(args: &HostArgs, stop: &Stop) -> Result<Self, Failure> {
        let before = Clocks::now();
        let mut classes = Vec::new();
        for class in Class::ALL {
            output::say(format_args!(
                "qsm: {} threads, {}",
                class.name(),
                duration(args.seconds)
            ));
            classes.push((
                class,
                wakeups::measure(class, args.interval(), args.seconds, stop),
            ));
        }
        let mut numbers = vec![1, args.receivers];
        numbers.dedup();
        let mut receivers = Vec::new();
        for number in numbers {
            let waiting = counted(number.into(), "receiver");
            output::say(format_args!("qsm: {waiting}, {}", duration(args.seconds)));
            let latencies = contention::measure(number, args.interval(), args.seconds, stop)
                .map_err(|error| Failure::io("multicast over loopback", &error))?;
            receivers.push((number, latencies));
        }
        Ok(Self {
            classes,
            receivers,
            clocks: Clocks::now().since(&before),
        })
    }

    fn text(&self, args: &HostArgs) -> String {
        let heading = |first| {
            Table::new(&[
                (first, Align::Left),
                ("TIMES", Align::Right),
                ("MEAN", Align::Right),
                ("50 %", Align::Right),
                ("99 %", Align::Right),
                ("99.9 %", Align::Right),
                ("MOST", Align::Right),
            ])
        };
        let load = match args.load {
            0 => String::new(),
            some => format!(", beside {} busy threads", count(some.into())),
        };
        let mut text = format!(
            "how late a thread runs that is due every {}{load}\n",
            duration(args.interval())
        );
        let mut table = heading("CLASS");
        let mut refused = String::new();
        for (class, latencies) in &self.classes {
            match latencies {
                Ok(latencies) => table.row(cells(class.name(), latencies)),
                Err(cause) => {
                    let _infallible = writeln!(refused, "{}: {cause}", class.name());
                }
            }
        }
        text.push_str(&table.render());
        text.push_str(&refused);
        let _infallible = writeln!(text, "\nhow late a packet is read, over loopback{load}");
        let mut table = heading("RECEIVERS");
        for (number, latencies) in &self.receivers {
            table.row(cells(&number.to_string(), latencies));
        }
        text.push_str(&table.render());
        let _infallible = writeln!(text, "\n{}", self.clocks);
        text
    }

    fn json(&self, args: &HostArgs) -> Value {
        let classes = self
            .classes
            .iter()
            .map(|(class, latencies)| match latencies {
                Ok(latencies) => json!({ "class": class.name(), "latencies": figures(latencies) }),
                Err(cause) => json!({ "class": class.name(), "refused": cause }),
            });
        let receivers = self.receivers.iter().map(
            |(number, latencies)| json!({ "receivers": number, "latencies": figures(latencies) }),
        );
        json!({
            "every_us": args.every,
            "seconds": args.seconds.as_secs_f64(),
            "load": args.load,
            "scheduling": classes.collect::<Vec<_>>(),
            "contention": receivers.collect::<Vec<_>>(),
            "clock": self.clocks.json(),
        })
    }
}

/// Quantiles that are shown, in millionths.
const SHOWN: [u32; 3] = [500_000, 990_000, 999_000];

fn cells(first: &str, latencies: &Latencies) -> Vec<String> {
    let time = |nanos: Option<u64>| {
        nanos.map_or_else(
            || "-".to_owned(),
            |nanos| duration(Duration::from_nanos(nanos)),
        )
    };
    let mean = latencies.mean().map(|mean| mean as u64);
    let mut cells = vec![first.to_owned(), count(latencies.count()), time(mean)];
    cells.extend(SHOWN.map(|quantile| time(latencies.quantile(quantile))));
    cells.push(time(latencies.max()));
    cells
}

/// In seconds.
fn figures(latencies: &Latencies) -> Value {
    let seconds = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64 / 1e9);
    let [half, most, rare] = SHOWN.map(|quantile| seconds(latencies.quantile(quantile)));
    json!({
        "count": latencies.count(),
        "mean_seconds": latencies.mean().map(|mean| mean / 1e9),
        "p50_seconds": half,
        "p99_seconds": most,
        "p99.9_seconds": rare,
        "max_seconds": seconds(latencies.max()),
    })
}
