//! Runs simulations: `sim SEED`, `sim FIRST..LAST`, or `sim FILE` for a scenario.
//!
//! Options: `--shrink RUNS` makes a failing run smaller and prints it as scenario,
//! `--forgery` draws runs with forged packets, of 6 seconds;
//! `--trace LINES` says how much of the end of a failing run is shown.

use core::time::Duration;

use qsm_sim::{Failure, Report, Scenario, SimOptions, SwarmOptions, draw, run, shrink, write};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u32>().ok()
    };
    let Some(what) = arguments.first() else {
        println!("usage: sim SEED | FIRST..LAST | FILE [--shrink RUNS] [--trace LINES]");
        return;
    };
    let trace = option("--trace").unwrap_or(300) as usize;
    let prepare = |options: SimOptions| SimOptions {
        trace_lines: trace,
        ..options
    };
    if let Ok(text) = std::fs::read_to_string(what) {
        match Scenario::parse(&text) {
            Ok(scenario) => {
                let scenario = Scenario {
                    options: prepare(scenario.options),
                    ..scenario
                };
                show(&scenario.run());
                if let (Err(failure), Some(runs)) = (scenario.run(), option("--shrink")) {
                    make_smaller(scenario.options, failure, runs);
                }
            }
            Err(error) => println!("{what}: {error}"),
        }
        return;
    }
    let (first, last) = match what.split_once("..") {
        Some((first, last)) => (first.parse().unwrap_or(0), last.parse().unwrap_or(0)),
        None => {
            let seed: u64 = what.parse().unwrap_or(0);
            (seed, seed + 1)
        }
    };
    let forgery = arguments.iter().any(|argument| argument == "--forgery");
    let sizes = SwarmOptions {
        forgery,
        duration: Duration::from_secs(if forgery { 6 } else { 12 }),
        ..SwarmOptions::default()
    };
    let several = last - first > 1;
    for seed in first..last {
        let options = prepare(draw(seed, &sizes));
        match run(options.clone()) {
            Ok(report) if several => println!("{seed} ok: {} delivered", report.delivered),
            Err(failure) if several => {
                println!("{seed} FAILED at {}: {}", failure.at, failure.violation);
            }
            result => {
                show(&result);
                if let (Err(failure), Some(runs)) = (result, option("--shrink")) {
                    make_smaller(options, failure, runs);
                }
            }
        }
    }
}

fn show(result: &Result<Report, Box<Failure>>) {
    match result {
        Ok(report) => {
            println!("{report}");
            let counters = report.stats.iter().filter(|(_, value)| **value > 0);
            counters.for_each(|(name, value)| println!("  {name} {value}"));
        }
        Err(failure) => println!("{failure}"),
    }
}

fn make_smaller(options: SimOptions, failure: Box<Failure>, runs: u32) {
    let (options, failure) = shrink(options, failure, runs, &mut |_| true);
    println!(
        "---- smaller\n{failure}\n---- scenario\n{}",
        write(&options)
    );
}
