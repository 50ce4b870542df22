//! `sites`: what relays promise between sites, measured with processes on hosts of a lab and judged.
//!
//! A figure of several runs is their median, and is judged so; counts that have to be exact are
//! judged in each run. A run during which the host of this machine took more than 5 % of the CPU
//! time (steal in `/proc/stat`) does not count and is made again.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use qsm_system::sites::page::{is_missed, line, rows, write};
use qsm_system::sites::{Part, Programs};
use serde_json::Value;

#[derive(Debug, Parser)]
struct Arguments {
    /// Parts, by their letters: a (repairs), b (long links with losses), c (beside TCP), d (relays that
    /// are killed), e (ends that are hard to reach), f (copies for a hundred receivers). All, if none is named.
    #[arg(long, value_delimiter = ',')]
    parts: Vec<String>,
    /// Runs of each case.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Folder for the page, CSV and JSON; parts that are not measured stay there as they are.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// The program `qsm`, if it is not beside this one.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The program `nats-server`, for part f; installed by `make sites`.
    #[arg(long, value_name = "FILE", default_value = "nats-server")]
    nats: PathBuf,
    /// The folder with `moq-relay` and `moq-copies`, for part f; built by `make sites`.
    #[arg(long, value_name = "FOLDER", default_value = "target/moq")]
    moq: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(kept) => ExitCode::from(u8::from(!kept)),
        Err(error) => {
            eprintln!("sites: {error}");
            ExitCode::from(2)
        }
    }
}

/// Tells whether everything was kept.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let parts = parts(&arguments.parts)?;
    if arguments.runs == 0 {
        return Err("--runs is at least 1".to_owned());
    }
    let own = std::env::current_exe().unwrap_or_default();
    let beside = || own.with_file_name("qsm");
    let program = arguments.program.clone().unwrap_or_else(beside);
    if !program.is_file() {
        let program = program.display();
        return Err(format!(
            "there is no {program}; build it, or name it with --program"
        ));
    }
    let programs = Programs {
        qsm: program,
        nats: arguments.nats.clone(),
        moq: arguments.moq.clone(),
    };
    let mut measured: Vec<(Part, Vec<Value>)> = Vec::new();
    println!("| case | figure | bar | median | least to most | verdict |");
    println!("|---|---|---|---|---|---|");
    for part in parts {
        let mut found = Vec::new();
        for case in part.cases() {
            let begun = Instant::now();
            eprintln!("{}: {}", part.letter(), case.name());
            let result = case.run(&programs, arguments.runs);
            let of_case = rows(part, &case, &result);
            of_case.iter().for_each(|row| println!("{}", line(row)));
            eprintln!("{}: {:.0} s", part.letter(), begun.elapsed().as_secs_f64());
            found.extend(of_case);
        }
        measured.push((part, found));
    }
    if let Some(folder) = &arguments.out {
        let written = write(folder, &measured, &machine());
        written.map_err(|error| format!("cannot write to {}: {error}", folder.display()))?;
    }
    let mut all = measured.iter().flat_map(|(_, rows)| rows);
    Ok(!all.any(is_missed))
}

/// The parts with these letters, or all.
fn parts(letters: &[String]) -> Result<Vec<Part>, String> {
    let known = || Part::ALL.into_iter();
    for letter in letters {
        if !known().any(|part| part.letter() == letter) {
            let known: Vec<&str> = known().map(Part::letter).collect();
            return Err(format!(
                "there is no part {letter}; name {}",
                known.join(", ")
            ));
        }
    }
    let named = |part: &Part| letters.iter().any(|letter| letter == part.letter());
    Ok(known()
        .filter(|part| letters.is_empty() || named(part))
        .collect())
}

/// The machine in words: its CPUs, kernel and load.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let info = read("/proc/cpuinfo");
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("CPU", |model| model.trim_start_matches(['\t', ':', ' ']));
    let (kernel, load) = (read("/proc/sys/kernel/osrelease"), read("/proc/loadavg"));
    let load = load.split(' ').next().unwrap_or("-");
    format!(
        "{cpus} × {model}, Linux {}, load average {load} at the end",
        kernel.trim()
    )
}
