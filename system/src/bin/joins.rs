//! `joins`: replicas that join a group while updates go on, with donors, joiners and sequencers that
//! are killed, and the snapshot of a long state; states are compared by their hashes.
//!
//! As root the processes are on hosts of a lab, otherwise on loopback. States are compared in every
//! run. Times of a run count if the host of this machine took at most 5 % of the CPU time (steal in
//! `/proc/stat`); for one that does not count another one is made.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use lab::Lab;
use qsm_system::cluster::{Failure, program};
use qsm_system::figure::{Bar, Figure, gather};
use qsm_system::joins::long::Long;
use qsm_system::joins::round::{Report, Rounds, Victim};
use qsm_system::joins::stage::Plan;
use serde_json::{Value, json};

/// Times that a group begins anew after a run that failed.
const ANEW_MAX: usize = 5;
/// Updates between two comparisons of states: a fifth of a second's.
const MARKS_A_SECOND: u64 = 5;
/// Longest time without a sequencer.
const TAKEOVER_MAX: f64 = 1.0;
/// Least part of the rate that is asked for.
const RATE_MIN: f64 = 0.95;
/// Bytes of updates that may wait for a long snapshot.
const HELD: usize = 1 << 30;

#[derive(Debug, Parser)]
struct Arguments {
    /// Joins in each order.
    #[arg(long, default_value_t = 100)]
    joins: usize,
    /// Orders of updates: source, total.
    #[arg(long, value_delimiter = ',', default_value = "source,total")]
    orders: Vec<String>,
    /// Updates a second; 0, with --snapshot: as many as can be.
    #[arg(long, default_value_t = 50_000)]
    rate: u64,
    /// Bytes of an update.
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Bytes of the state.
    #[arg(long, default_value_t = 4_000_000)]
    state: usize,
    /// Whom to kill, and when, is drawn by this.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// In place of joins: one snapshot of so many bytes, and its rate.
    #[arg(long, value_name = "BYTES")]
    snapshot: Option<usize>,
    /// Bits a second that each host may send while there is a long snapshot.
    #[arg(long, value_name = "BITS", requires = "snapshot")]
    limit: Option<u64>,
    /// Long snapshots.
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Over loopback, also as root.
    #[arg(long)]
    loopback: bool,
    /// Write a line of JSON in place of the table.
    #[arg(long)]
    json: bool,
    /// Write a line of each join to this file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(kept) => ExitCode::from(u8::from(!kept)),
        Err(error) => {
            eprintln!("joins: {error}");
            ExitCode::from(2)
        }
    }
}

/// Tells whether all bars are kept.
fn run(arguments: &Arguments) -> Result<bool, Failure> {
    arguments.check()?;
    let mut rows = Vec::new();
    let mut csv = String::from(CSV_HEAD);
    for order in &arguments.orders {
        let total = order == "total";
        let (case, figures) = match arguments.snapshot {
            Some(_) => (arguments.long_name(order), arguments.measure_long(total)?),
            None => {
                let joins = Joins::run(arguments, total);
                joins.write_csv(order, &mut csv);
                (arguments.name(order), joins.figures(arguments))
            }
        };
        rows.extend(figures.into_iter().map(|figure| Row {
            case: case.clone(),
            figure,
        }));
    }
    if let Some(path) = &arguments.csv {
        fs::write(path, csv).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    match arguments.json {
        true => println!("{}", Value::from_iter(rows.iter().map(Row::json))),
        false => {
            println!("| case | figure | bar | median | least to most | verdict |");
            println!("|---|---|---|---|---|---|");
            rows.iter().for_each(Row::print);
        }
    }
    Ok(rows.iter().all(|row| row.figure.is_kept() != Some(false)))
}

impl Arguments {
    /// # Errors
    /// An order is unknown, or a number is zero that must not be.
    fn check(&self) -> Result<(), String> {
        let known = |order: &String| order == "source" || order == "total";
        if let Some(order) = self.orders.iter().find(|order| !known(order)) {
            return Err(format!("there is no order {order}; name source, total"));
        }
        let least = if self.snapshot.is_some() {
            0
        } else {
            MARKS_A_SECOND
        };
        if self.joins == 0 || self.runs == 0 || self.rate < least {
            return Err("--joins and --runs are at least 1, --rate at least 5".to_owned());
        }
        Ok(())
    }

    fn plan(&self, total: bool) -> Plan {
        let service = program();
        let long = self.snapshot.is_some();
        Plan {
            replica: service.with_file_name("system-replica"),
            service,
            lab: self.is_lab(),
            hosts: if long { 3 } else { 4 },
            total,
            state: self.snapshot.unwrap_or(self.state),
            bytes: self.bytes,
            mark: if long { 0 } else { self.rate / MARKS_A_SECOND },
            held: long.then_some(HELD),
        }
    }

    fn is_lab(&self) -> bool {
        !self.loopback && Lab::available().is_ok()
    }

    fn place(&self) -> &'static str {
        if self.is_lab() {
            "hosts of a lab"
        } else {
            "loopback"
        }
    }

    fn name(&self, order: &str) -> String {
        let (rate, state) = (self.rate, self.state);
        format!(
            "{order}: {rate} updates/s, state of {state} bytes, {}",
            self.place()
        )
    }

    fn long_name(&self, order: &str) -> String {
        let (rate, place) = (self.rate, self.place());
        let limit = self
            .limit
            .map_or_else(String::new, |bits| format!(" with {bits} bit/s"));
        let bytes = self.snapshot.unwrap_or(0);
        format!("{order}: snapshot of {bytes} bytes, {rate} updates/s, {place}{limit}")
    }

    fn measure_long(&self, total: bool) -> Result<Vec<Figure>, Failure> {
        let long = Long {
            plan: self.plan(total),
            rate: self.rate,
            limit: self.limit.filter(|_| self.is_lab()),
        };
        gather(self.runs, || long.run())
    }
}

/// Joins in one order.
struct Joins {
    reports: Vec<Report>,
    /// Runs that failed, in words.
    failures: Vec<String>,
}

impl Joins {
    /// Makes as many runs as are asked for, and at most as many again for those that do not count.
    fn run(arguments: &Arguments, total: bool) -> Self {
        let order = if total { "total" } else { "source" };
        let mut joins = Self {
            reports: Vec::new(),
            failures: Vec::new(),
        };
        while joins.failures.len() < ANEW_MAX && !joins.is_done(arguments.joins) {
            let seed = arguments.seed + joins.failures.len() as u64;
            let plan = arguments.plan(total);
            let ended = Rounds::begin(plan, arguments.rate, seed).and_then(|mut rounds| {
                while !joins.is_done(arguments.joins) {
                    let victim = rounds.draw_victim();
                    let report = rounds.run(victim)?;
                    joins.reports.push(report.clone());
                    let (made, asked) = (joins.reports.len(), arguments.joins);
                    eprintln!("{order} {made}/{asked}: {report}");
                }
                Ok(())
            });
            if let Err(error) = ended {
                eprintln!("{order}: failed: {error}");
                joins.failures.push(error.to_string());
            }
        }
        joins
    }

    fn is_done(&self, asked: usize) -> bool {
        self.counted().count() >= asked || self.reports.len() >= 2 * asked
    }

    fn counted(&self) -> impl Iterator<Item = &Report> {
        self.reports.iter().filter(|report| report.counts)
    }

    fn figures(&self, arguments: &Arguments) -> Vec<Figure> {
        let figure = |what, bar, values: Vec<f64>| Figure { what, bar, values };
        let told = |victim: Victim| {
            let killed = self.reports.iter().filter(|it| it.victim == victim);
            killed.count() as f64
        };
        let differing = self
            .reports
            .iter()
            .map(|it| it.faults.len() as f64)
            .sum::<f64>();
        let compared = self.reports.iter().map(|it| it.compared as f64).sum();
        let rebinds = self.reports.iter().map(|it| it.rebinds.len() as f64).sum();
        let joined = self.counted().map(|it| it.joined.as_secs_f64());
        let takeovers = self.counted().filter_map(|it| it.takeover);
        let takeovers: Vec<f64> = takeovers.map(|it| it.as_secs_f64()).collect();
        let gaps = self.counted().map(|it| it.gap.as_secs_f64());
        // A dead sequencer halts updates, and a publisher may be dead.
        let calm = self.counted().filter(|it| it.victim == Victim::Nobody);
        let rates: Vec<f64> = calm.filter_map(|it| it.rate).collect();
        let least = RATE_MIN * arguments.rate as f64;
        let mut figures = vec![
            figure("joins", Bar::Told, vec![self.reports.len() as f64]),
            figure("donors killed", Bar::Told, vec![told(Victim::Donor)]),
            figure("joiners killed", Bar::Told, vec![told(Victim::Joiner)]),
            figure(
                "sequencers killed",
                Bar::Told,
                vec![told(Victim::Sequencer)],
            ),
            figure("states compared", Bar::Told, vec![compared]),
            figure("states that differ", Bar::Always(0.0), vec![differing]),
            figure(
                "runs that failed",
                Bar::Always(0.0),
                vec![self.failures.len() as f64],
            ),
            figure("replicas that bound anew", Bar::Told, vec![rebinds]),
            figure("time from start to live, s", Bar::Told, joined.collect()),
            figure("updates/s where nobody is killed", Bar::Least(least), rates),
            figure(
                "longest time without an update, s",
                Bar::Told,
                gaps.collect(),
            ),
        ];
        if !takeovers.is_empty() {
            let longest = takeovers.iter().copied().fold(0.0, f64::max);
            figures.push(figure(
                "time to the next sequencer, s",
                Bar::Told,
                takeovers,
            ));
            figures.push(figure(
                "longest of these",
                Bar::Most(TAKEOVER_MAX),
                vec![longest],
            ));
        }
        figures
    }

    fn write_csv(&self, order: &str, csv: &mut String) {
        for report in &self.reports {
            let victim = report.victim.name();
            let millis = |time: std::time::Duration| time.as_secs_f64() * 1e3;
            let takeover = report
                .takeover
                .map_or_else(String::new, |it| format!("{:.1}", millis(it)));
            let rate = report
                .rate
                .map_or_else(String::new, |it| format!("{it:.0}"));
            // Writing to a String cannot fail.
            writeln!(
                csv,
                "{order},{victim},{:.1},{:.1},{:.1},{takeover},{:.1},{rate},{},{},{},{}",
                millis(report.delay),
                millis(report.joined),
                millis(report.transfer),
                millis(report.gap),
                report.rebinds.len(),
                report.compared,
                report.faults.len(),
                report.counts,
            )
            .unwrap_or_default();
        }
    }
}

const CSV_HEAD: &str = "order,killed,kill_ms,joined_ms,transfer_ms,takeover_ms,gap_ms,updates_per_s,rebinds,\
                        compared,faults,counts\n";

/// A figure of a case.
struct Row {
    case: String,
    figure: Figure,
}

impl Row {
    fn print(&self) {
        let Self { case, figure } = self;
        let [least, most] = figure.spread().map(short);
        let (what, bar, median) = (figure.what, figure.bar.to_string(), short(figure.median()));
        let verdict = match figure.is_kept() {
            Some(true) => "kept",
            Some(false) => "not kept",
            None => "",
        };
        println!("| {case} | {what} | {bar} | {median} | {least} to {most} | {verdict} |");
    }

    fn json(&self) -> Value {
        json!({
            "case": self.case,
            "figure": self.figure.what,
            "bar": self.figure.bar.to_string(),
            "median": self.figure.median(),
            "runs": self.figure.values,
            "kept": self.figure.is_kept(),
        })
    }
}

/// A figure as it is read.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.3}"),
    }
}
