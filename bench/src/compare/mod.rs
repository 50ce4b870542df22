//! `qsm-bench compare`: Quicksilver beside other systems, in one run.
//!
//! ```text
//!  system ── what is compared, how each is tuned       cell ── what is asked of them
//!        └────► install ── builds what can be had   ┌───┘
//!                   └──────► runner ── one system, one cell, once: processes, phases, CPU
//!                              └──► point ── what came out ──► page, plot, points.json
//! ```
//!
//! Every system has a small program in `bench/peers` with the same command line, dialogue, load and
//! verification (`bench/peers/common/bench.h` describes them). All systems run a cell before any
//! runs it again, so that a mood of the machine meets everybody.

mod cell;
mod install;
mod machine;
mod page;
mod plot;
mod point;
mod process;
mod quicksilver;
mod raw;
mod runner;
mod system;

#[path = "../../peers/common/harness.rs"]
mod harness;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use crate::Failure;
use cell::{Axis, Cell, Matrix};

pub(crate) use machine::{CpuSeconds, Machine};
use page::Report;
use point::{Outcome, Point};
use runner::CellRunner;
use system::System;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Options {
    /// A small matrix and the main variant of each system, about ten minutes.
    #[arg(long)]
    quick: bool,
    /// Only systems and variants whose name begins so (`aeron`, `zmq-tcp`, `cyclone/batch`).
    /// Quicksilver and the blaster must be named too if they are wanted.
    #[arg(long, value_delimiter = ',')]
    systems: Vec<String>,
    /// Only these axes.
    #[arg(long, value_delimiter = ',')]
    axes: Vec<Axis>,
    /// Bytes of a message on all axes but that of payloads.
    #[arg(long, default_value_t = 100)]
    payload: usize,
    /// How often each cell is played; tables show the median and the extremes. 3, or 2 with
    /// `--quick`.
    #[arg(long)]
    runs: Option<usize>,
    /// How long each measurement sends, ms. 2000, or 1000 with `--quick`.
    #[arg(long)]
    millis: Option<u64>,
    /// How long one run of one system may take, s. 180, or 45 with `--quick`.
    #[arg(long)]
    patience: Option<u64>,
    /// The main variant of each system only.
    #[arg(long)]
    main: bool,
    /// Where the page, the plots and the points are written.
    #[arg(long, default_value = "docs")]
    output: PathBuf,
    /// Write nothing but the table on the terminal.
    #[arg(long)]
    dry: bool,
    /// Only install and build the other systems.
    #[arg(long)]
    install_only: bool,
    /// Write page and plots again from the points of an earlier run.
    #[arg(long)]
    from: Option<PathBuf>,
}

/// Runs Quicksilver's own program, as the comparison starts it.
pub(crate) fn quicksilver(arguments: &[String]) -> Result<(), Failure> {
    quicksilver::run(arguments).map_err(|error| -> Failure { error })
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    if let Some(path) = &options.from {
        let report: Report = serde_json::from_str(&fs::read_to_string(path)?)?;
        return report.write(&options.output);
    }
    let systems = system::chosen(&options.systems, options.quick || options.main);
    if systems.is_empty() {
        return Err("no system has such a name".into());
    }
    let installed = install::all(&systems)?;
    if options.install_only {
        return Ok(());
    }
    let matrix = Matrix::new(options.quick, &options.axes, options.payload);
    let runs = options.runs.unwrap_or(if options.quick { 2 } else { 3 });
    let millis = options
        .millis
        .unwrap_or(if options.quick { 1000 } else { 2000 });
    let mut report = Report::new(Machine::read(), &installed, runs, millis);
    let start = Instant::now();
    let patience = options
        .patience
        .unwrap_or(if options.quick { 45 } else { 180 });
    let patience = Duration::from_secs(patience);
    let runner = CellRunner::new(&installed, millis, patience);
    let cells = matrix.cells();
    for (number, cell) in (1..).zip(&cells) {
        println!("\n[{number}/{}] {}", cells.len(), cell.describe());
        run_cell(&runner, &systems, *cell, runs, &mut report);
        report.print_cell(*cell);
        report.seconds = start.elapsed().as_secs();
        if !options.dry {
            // After each cell: an interrupted run loses no more than one.
            report.write(&options.output)?;
        }
    }
    println!("\n{} s", start.elapsed().as_secs());
    Ok(())
}

/// All systems in turn, then all again.
fn run_cell(
    runner: &CellRunner<'_>,
    systems: &[System],
    cell: Cell,
    runs: usize,
    report: &mut Report,
) {
    let mut hopeless: Vec<&str> = Vec::new();
    for run in 0..runs {
        for system in systems {
            if hopeless.contains(&system.name) {
                continue;
            }
            let begin = Instant::now();
            let point = Point {
                system: system.name.to_owned(),
                cell,
                run,
                outcome: runner.run(system, cell),
            };
            eprintln!("  {:<28} {}", system.name, point.outcome.describe());
            let slow = begin.elapsed() > HOPELESS;
            let again = match &point.outcome {
                Outcome::Measured(_) | Outcome::Stolen { .. } => true,
                Outcome::Failed { .. } => !slow,
                Outcome::Skipped { .. } => false,
            };
            if !again {
                hopeless.push(system.name);
            }
            report.points.push(point);
        }
    }
}

/// A system that failed only after so long is not tried again in this cell.
const HOPELESS: Duration = Duration::from_secs(20);
