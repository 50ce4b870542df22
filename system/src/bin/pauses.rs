//! `pauses`: the cost of a pause, or of a cut-off, to the others and to the victim, as a table.
//!
//! Each row is a victim, a fault, its length and a load, tried several times; figures are medians.
//! Each row is judged by the rules of [`Row::verdict`]. A trial during which the host of this
//! machine took more than 5 % of the CPU time (steal in `/proc/stat`) does not count and is made
//! again.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use qsm_system::cluster::program;
use qsm_system::machine::counted;
use qsm_system::page::append;
use qsm_system::transport::Transport;
use qsm_system::trial::{Fault, Load, Outcome, Role, Trial, median};

/// Bytes that a node keeps for receivers that are away (`Builder::retention_bytes`).
const RETENTION: f64 = 64.0 * 1024.0 * 1024.0;
/// Longest time without a message at an undisturbed receiver.
const GAP_MAX: Duration = Duration::from_millis(400);
/// The same at a receiver that multicast stops reaching.
const DEAF_GAP_MAX: Duration = Duration::from_millis(150);
/// Largest ratio of the 99th percentiles of latencies with and without the fault.
const P99_RATIO_MAX: f64 = 1.2;
/// Least ratio of rates from 3 s after the beginning of a fault.
const RATE_RATIO_MIN: f64 = 0.95;

#[derive(Debug, Parser)]
struct Arguments {
    /// Victims: receiver, cacher, leader, sender, service, embedded. All, if none is named.
    #[arg(long, value_delimiter = ',')]
    roles: Vec<String>,
    /// Faults: pause, blackout, link-down, firewall, mute, deaf, all-deaf, rival, address, damage; none, to see how far
    /// two undisturbed times differ.
    #[arg(long, value_delimiter = ',', default_value = "pause,blackout")]
    faults: Vec<String>,
    /// Transports: ipv4, ipv6, no-multicast, clones, ssm, two-networks, cores, engine.
    #[arg(long, value_delimiter = ',', default_value = "ipv4")]
    transport: Vec<String>,
    /// Lengths of the fault, seconds.
    #[arg(long, value_delimiter = ',', default_value = "0.2,1,5,10")]
    seconds: Vec<f64>,
    /// Messages a second of each sender.
    #[arg(long, default_value_t = 2000)]
    rate: u64,
    /// Bytes of a message.
    #[arg(long, default_value_t = 300)]
    bytes: usize,
    #[arg(long, default_value_t = 4)]
    receivers: usize,
    /// Seconds of silence after which a member is gone.
    #[arg(long, default_value_t = 30.0)]
    gone_after: f64,
    /// Trials of each row.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// File to which the rows are appended, as a table in Markdown.
    #[arg(long)]
    page: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let program = program();
    if let Err(error) = arguments.check() {
        eprintln!("pauses: {error}");
        return ExitCode::from(2);
    }
    let mut rows = Vec::new();
    for trial in arguments.trials() {
        let row = Row::of(&arguments, trial, &program);
        eprintln!("{row}");
        rows.push(row);
    }
    let table = table(&arguments, &rows);
    println!("{table}");
    if let Some(page) = &arguments.page
        && let Err(error) = append(page, &table)
    {
        eprintln!("{}: {error}", page.display());
        return ExitCode::FAILURE;
    }
    let kept = rows.iter().all(|row| row.verdict().is_empty());
    ExitCode::from(u8::from(!kept))
}

impl Arguments {
    /// # Errors
    /// A name is of nothing that could be tried.
    fn check(&self) -> Result<(), String> {
        let known = [
            (&self.roles, Role::ALL.map(Role::name).to_vec()),
            (&self.faults, Fault::ALL.map(Fault::name).to_vec()),
            (
                &self.transport,
                Transport::ALL.map(Transport::name).to_vec(),
            ),
        ];
        for (names, known) in known {
            let unknown = names.iter().find(|name| !known.contains(&name.as_str()));
            if let Some(name) = unknown {
                return Err(format!("there is no {name}; name {}", known.join(", ")));
            }
        }
        Ok(())
    }

    fn trials(&self) -> Vec<Trial> {
        let named = |names: &[String], name: &str| names.iter().any(|one| one == name);
        let transports = Transport::ALL.into_iter();
        let transports = transports.filter(|one| named(&self.transport, one.name()));
        let mut trials = Vec::new();
        for transport in transports {
            let has = |role: &Role| self.roles.is_empty() || named(&self.roles, role.name());
            for role in Role::ALL.into_iter().filter(has) {
                let faults = Fault::ALL.into_iter().filter(|fault| fault.concerns(role));
                for fault in faults.filter(|fault| named(&self.faults, fault.name())) {
                    let seconds = self.seconds.iter();
                    trials.extend(seconds.map(|one| self.trial(transport, role, fault, *one)));
                }
            }
        }
        trials
    }

    fn trial(&self, transport: Transport, role: Role, fault: Fault, seconds: f64) -> Trial {
        Trial {
            role,
            fault,
            lasts: Duration::from_secs_f64(seconds),
            load: Load {
                bytes: self.bytes,
                rate: self.rate,
            },
            transport,
            receivers: self.receivers,
            calm: Duration::from_secs_f64(seconds.clamp(3.0, 10.0)),
            service_options: vec![format!("--gone-after={}", self.gone_after)],
        }
    }
}

/// One line of the table.
struct Row {
    trial: Trial,
    gone_after: f64,
    outcomes: Vec<Outcome>,
    /// Trials that failed or did not count.
    failures: Vec<String>,
}

impl Row {
    fn of(arguments: &Arguments, trial: Trial, program: &Path) -> Self {
        let mut row = Self {
            trial,
            gone_after: arguments.gone_after,
            outcomes: Vec::new(),
            failures: Vec::new(),
        };
        for _ in 0..arguments.runs {
            row.run(program);
        }
        row
    }

    /// Makes a trial that counts, if one can be had.
    fn run(&mut self, program: &Path) {
        match counted(|| self.trial.run(program)) {
            Ok(outcome) => self.outcomes.push(outcome),
            Err(error) => self.failures.push(error.to_string()),
        }
    }

    fn median<T: PartialOrd + Copy>(&self, value: impl Fn(&Outcome) -> T) -> Option<T> {
        median(self.outcomes.iter().map(value))
    }

    fn seconds(&self) -> f64 {
        self.trial.lasts.as_secs_f64()
    }

    /// Bytes sent to the victim meanwhile, if it receives.
    fn missed_bytes(&self) -> f64 {
        match self.trial.role {
            Role::Sender | Role::Service => 0.0,
            Role::Receiver | Role::Cacher | Role::Leader | Role::Embedded => {
                self.trial.load.rate as f64 * self.trial.load.bytes as f64 * self.seconds()
            }
        }
    }

    /// Rules that are broken, in words; none: all are kept.
    ///
    /// In every trial nothing is missing without a word. Nothing is lost, and nobody begins a new
    /// life, where the fault ends before `gone_after` and what is sent meanwhile is kept. By
    /// medians no undisturbed receiver waits for an undisturbed sender's messages for longer than
    /// [`GAP_MAX`], nor are latencies much longer, nor is the rate much lower after 3 s; nor does one
    /// that multicast stops reaching wait for longer than [`DEAF_GAP_MAX`].
    fn verdict(&self) -> Vec<&'static str> {
        let all = |rule: &dyn Fn(&Outcome) -> bool| self.outcomes.iter().all(rule);
        let median = |value: &dyn Fn(&Outcome) -> f64| self.median(value).unwrap_or(f64::MAX);
        let returns = self.seconds() < self.gone_after;
        let kept = returns && self.missed_bytes() <= RETENTION;
        let slowdown = |outcome: &Outcome| outcome.p99_ratio();
        let rules = [
            (self.failures.is_empty(), "a trial failed"),
            (
                all(&|outcome| outcome.untold == 0),
                "missing without a word",
            ),
            (!kept || all(&|outcome| outcome.lost == 0), "lost"),
            (
                !returns || all(&|outcome| outcome.new_lives == 0),
                "a new life",
            ),
            (
                median(&|outcome| outcome.gaps[1].as_secs_f64()) <= GAP_MAX.as_secs_f64(),
                "gap",
            ),
            (median(&slowdown) <= P99_RATIO_MAX, "p99"),
            (
                self.trial.fault != Fault::Deaf
                    || median(&|outcome| outcome.own_gap.as_secs_f64())
                        <= DEAF_GAP_MAX.as_secs_f64(),
                "own gap",
            ),
            (
                self.seconds() <= 3.0 || median(&Outcome::rate_ratio) >= RATE_RATIO_MIN,
                "rate",
            ),
        ];
        let broken = rules.iter().filter(|(kept, _)| !kept);
        broken.map(|(_, rule)| *rule).collect()
    }
}

impl std::fmt::Display for Row {
    /// A line of the table in Markdown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let millis = |time: Option<Duration>| {
            time.map_or_else(
                || "-".to_owned(),
                |time| format!("{:.1}", time.as_secs_f64() * 1e3),
            )
        };
        let sum =
            |value: &dyn Fn(&Outcome) -> u64| -> u64 { self.outcomes.iter().map(value).sum() };
        let verdict = self.verdict();
        write!(
            f,
            "| {} | {} | {} | {} | {} | {} | {} | {:.3} | {} | {} | {} | {:.2} | {} | {} | {}",
            self.trial.transport.name(),
            self.trial.role.name(),
            self.trial.fault.name(),
            self.seconds(),
            sum(&|outcome| outcome.lost),
            sum(&|outcome| outcome.untold),
            sum(&|outcome| outcome.new_lives),
            self.median(Outcome::rate_ratio).unwrap_or(f64::NAN),
            millis(self.median(|outcome| outcome.gaps[1])),
            millis(self.median(|outcome| outcome.p99[0])),
            millis(self.median(|outcome| outcome.p99[1])),
            self.median(Outcome::p99_ratio).unwrap_or(f64::NAN),
            millis(self.median(|outcome| outcome.own_gap)),
            millis(self.median(|outcome| outcome.returned)),
            if verdict.is_empty() {
                "kept"
            } else {
                "not kept: "
            },
        )?;
        write!(f, "{}", verdict.join(", "))?;
        for failure in &self.failures {
            write!(f, " ({failure})")?;
        }
        write!(f, " |")
    }
}

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let mut table = format!(
        "{} messages/s of {} bytes to {} receivers, {} trials of each row, gone after {} s.\n\n\
         | transport | victim | fault | s | lost | untold | new lives | others' rate | others' gap, ms | p99 before, ms | p99, ms | ratio | own gap, ms | back after, ms | rules |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        arguments.rate, arguments.bytes, arguments.receivers, arguments.runs, arguments.gone_after,
    );
    for row in rows {
        // Writing to a String cannot fail.
        writeln!(table, "{row}").unwrap_or_default();
    }
    table
}
