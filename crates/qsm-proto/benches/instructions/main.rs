//! How many instructions the hot paths take for a message, a packet or a token, compared with the
//! numbers in `baseline.txt`: `make gate`, and `make gate-update` when a change is meant.
//!
//! Time on a machine with other work to do tells a change of 5 % from noise only after many runs;
//! an instruction count tells 0.1 % after one. It says nothing of caches, branches and the kernel,
//! for which there is `make bench-quick`.
//!
//! The program calls itself under callgrind, which counts what is executed inside the functions
//! named in [`subject::Subject::functions`]. Two runs of different length are taken apart, so that
//! filling of pools and tables does not count. What would depend on the machine is held fixed: the
//! processor that is compiled for, and the copy routine that the C library chooses.

mod baseline;
mod callgrind;
#[path = "../../tests/cluster/mod.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod cluster;
#[path = "../../tests/lan/mod.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod lan;
mod subject;

use std::env;
use std::error::Error;
use std::process::ExitCode;

use baseline::{Baseline, Circumstances};
use subject::SUBJECTS;

/// Growth that fails, parts per thousand.
const TOLERANCE_PERMILLE: u64 = 30;
/// The same where compiler or C library are not those of the baseline: their inlining and copying
/// differ by some percent from version to version.
const TOLERANCE_ELSEWHERE_PERMILLE: u64 = 200;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let [callgrind::RUN, name, messages] = arguments[..] {
        subject::run(name, messages.parse()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if cfg!(debug_assertions) {
        println!("counts of an unoptimised build mean nothing: use `make gate`");
        return Ok(ExitCode::SUCCESS);
    }
    let here = Circumstances::here()?;
    let mut counts = Vec::new();
    for subject in &SUBJECTS {
        counts.push((subject.name, callgrind::count(subject)?));
    }
    if arguments.contains(&"--update") {
        Baseline::new(here.clone(), &counts).write()?;
    }
    let baseline = Baseline::read()?;
    Ok(compare(&here, &baseline, &counts))
}

/// Prints the table; fails if something has grown by more than the tolerance.
fn compare(here: &Circumstances, baseline: &Baseline, counts: &[(&str, u64)]) -> ExitCode {
    let permille = tolerance(here, baseline);
    println!(
        "{:44} {:>12} {:>12} {:>8}",
        "instructions", "now", "baseline", "change"
    );
    let mut failed = Vec::new();
    for (name, now) in counts {
        let Some(old) = baseline.count(name) else {
            println!("{name:44} {:>12} {:>12}", tenths(*now), "none");
            failed.push(*name);
            continue;
        };
        let grown = *now as f64 / old as f64 * 100.0 - 100.0;
        println!(
            "{name:44} {:>12} {:>12} {grown:>+7.1}%",
            tenths(*now),
            tenths(old)
        );
        if permille.is_some_and(|permille| now * 1000 > old * (1000 + permille)) {
            failed.push(*name);
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!(
        "\ntoo many: {}. If it is meant, `make gate-update`.",
        failed.join(", ")
    );
    ExitCode::FAILURE
}

/// Growth that is allowed, parts per thousand; `None`: nothing can be said here.
fn tolerance(here: &Circumstances, baseline: &Baseline) -> Option<u64> {
    let there = baseline.circumstances();
    if here.processor != there.processor {
        println!(
            "The baseline is of {}, this is {}: nothing is compared.",
            there.processor, here.processor
        );
        return None;
    }
    if here == there {
        return Some(TOLERANCE_PERMILLE);
    }
    println!(
        "The baseline is of {there}, this is {here}:\n{} % more are allowed instead of {} %. \
         `make gate-update` makes a new baseline.",
        TOLERANCE_ELSEWHERE_PERMILLE / 10,
        TOLERANCE_PERMILLE / 10
    );
    Some(TOLERANCE_ELSEWHERE_PERMILLE)
}

/// A number of tenths, as people write it.
fn tenths(tenths: u64) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}
