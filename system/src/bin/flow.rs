//! `flow`: receivers that cannot follow and senders that have too much to send, between hosts of a
//! lab, as a table of figures beside their bars.
//!
//! A figure of several runs is their median, and is judged so; counts that have to be exact are
//! judged in each run. A run during which the host of this machine took more than 5 % of the CPU
//! time (steal in `/proc/stat`) does not count and is made again.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use qsm_system::cluster::program;
use qsm_system::figure::Figure;
use qsm_system::flow::Case;
use qsm_system::flow::modes::Modes;
use qsm_system::flow::overload::Overload;
use qsm_system::flow::paces::{GroupPace, PaceTrial, Trouble};
use qsm_system::flow::saturation::{Bottleneck, Saturation};
use serde_json::{Value, json};

/// Trials that there are.
const TRIALS: [&str; 4] = ["paces", "modes", "overload", "saturation"];

#[derive(Debug, Parser)]
struct Arguments {
    /// Trials: paces, modes, overload, saturation. All, if none is named.
    #[arg(long, value_delimiter = ',')]
    trials: Vec<String>,
    /// Paces of the group: bounded, minimum, slowest, uncontrolled. All, if none is named.
    #[arg(long, value_delimiter = ',')]
    paces: Vec<String>,
    /// Troubles of a receiver: loss, tenth, stopped; none, to see how far two undisturbed times
    /// differ. All, if none is named.
    #[arg(long, value_delimiter = ',')]
    troubles: Vec<String>,
    /// Seconds of overload.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Messages a second where receivers are in trouble.
    #[arg(long, default_value_t = 2000)]
    rate: u64,
    /// Runs of each case; 3 of saturation and 1 of others, if not given.
    #[arg(long)]
    runs: Option<usize>,
    /// Write a line of JSON in place of the table.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(error) = arguments.check() {
        eprintln!("flow: {error}");
        return ExitCode::from(2);
    }
    let program = program();
    let mut rows = Vec::new();
    for case in arguments.cases() {
        eprintln!("{}: {}", case.trial(), case.name());
        let result = case.run(&program, arguments.runs(&case));
        rows.push(Row {
            result: result.map_err(|error| error.to_string()),
            case,
        });
    }
    match arguments.json {
        true => println!("{}", Value::from_iter(rows.iter().map(Row::json))),
        false => {
            println!("| trial | case | figure | bar | median | least to most | verdict |");
            println!("|---|---|---|---|---|---|---|");
            rows.iter().for_each(Row::print);
        }
    }
    ExitCode::from(u8::from(!rows.iter().all(Row::is_kept)))
}

impl Arguments {
    /// # Errors
    /// A name is of nothing that could be tried, or a number is zero that must not be.
    fn check(&self) -> Result<(), String> {
        let known = [
            (&self.trials, TRIALS.to_vec()),
            (&self.paces, GroupPace::ALL.map(GroupPace::name).to_vec()),
            (&self.troubles, Trouble::ALL.map(Trouble::name).to_vec()),
        ];
        for (names, known) in known {
            let unknown = names.iter().find(|name| !known.contains(&name.as_str()));
            if let Some(name) = unknown {
                return Err(format!("there is no {name}; name {}", known.join(", ")));
            }
        }
        if self.seconds == 0 || self.runs == Some(0) || self.rate < 100 {
            return Err("--seconds and --runs are at least 1, --rate at least 100".to_owned());
        }
        Ok(())
    }

    fn runs(&self, case: &Case) -> usize {
        let usual = match case {
            Case::Saturation(_) => 3,
            Case::Pace(_) | Case::Modes(_) | Case::Overload(_) => 1,
        };
        self.runs.unwrap_or(usual)
    }

    fn cases(&self) -> Vec<Case> {
        let wants = |trial: &str| is_named(&self.trials, trial);
        let mut cases = Vec::new();
        if wants("paces") {
            cases.extend(self.pace_trials().map(Case::Pace));
        }
        if wants("modes") {
            cases.push(Case::Modes(Modes {
                rate: 4000,
                lasts: Duration::from_secs(5),
            }));
        }
        if wants("overload") {
            let lasts = Duration::from_secs(self.seconds);
            cases.push(Case::Overload(Overload { lasts }));
        }
        if wants("saturation") {
            let bottlenecks = [Bottleneck::Machine, Bottleneck::Readers];
            cases.extend(bottlenecks.into_iter().flat_map(saturations));
        }
        cases
    }

    fn pace_trials(&self) -> impl Iterator<Item = PaceTrial> {
        let paces = GroupPace::ALL.into_iter();
        let paces = paces.filter(|pace| is_named(&self.paces, pace.name()));
        paces.flat_map(move |pace| {
            let troubles = Trouble::ALL.into_iter();
            // Where nothing is wrong, paces do not differ.
            let troubles = troubles.filter(move |trouble| {
                let chosen = is_named(&self.troubles, trouble.name());
                chosen && (*trouble != Trouble::None || pace == GroupPace::Bounded)
            });
            troubles.map(move |trouble| PaceTrial {
                pace,
                trouble,
                rate: self.rate,
                calm: Duration::from_secs(2),
                lasts: Duration::from_secs(3),
            })
        })
    }
}

fn saturations(bottleneck: Bottleneck) -> [Case; 2] {
    [false, true].map(|lossy| {
        Case::Saturation(Saturation {
            bottleneck,
            lossy,
            lasts: Duration::from_secs(2),
        })
    })
}

/// It is among these names, or there are none.
fn is_named(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|one| one == name)
}

/// A case, and what came of it.
struct Row {
    case: Case,
    result: Result<Vec<Figure>, String>,
}

impl Row {
    fn is_kept(&self) -> bool {
        let figures = self.result.as_ref();
        figures.is_ok_and(|figures| figures.iter().all(|one| one.is_kept() != Some(false)))
    }

    fn print(&self) {
        let (trial, name) = (self.case.trial(), self.case.name());
        match &self.result {
            Err(error) => println!("| {trial} | {name} | - | - | - | - | failed: {error} |"),
            Ok(figures) => {
                for figure in figures {
                    let [least, most] = figure.spread().map(short);
                    let (bar, median) = (figure.bar.to_string(), short(figure.median()));
                    let verdict = match figure.is_kept() {
                        Some(true) => "kept",
                        Some(false) => "not kept",
                        None => "",
                    };
                    let what = figure.what;
                    println!(
                        "| {trial} | {name} | {what} | {bar} | {median} | {least} to {most} | {verdict} |"
                    );
                }
            }
        }
    }

    fn json(&self) -> Value {
        let (trial, name) = (self.case.trial(), self.case.name());
        match &self.result {
            Err(error) => json!({ "trial": trial, "case": name, "failed": error }),
            Ok(figures) => {
                let figures = Value::from_iter(figures.iter().map(|figure| {
                    json!({
                        "figure": figure.what,
                        "bar": figure.bar.to_string(),
                        "median": figure.median(),
                        "runs": figure.values,
                        "kept": figure.is_kept(),
                    })
                }));
                json!({ "trial": trial, "case": name, "figures": figures })
            }
        }
    }
}

/// A figure as it is read.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.3}"),
    }
}
