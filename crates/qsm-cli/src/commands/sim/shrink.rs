//! `qsm sim shrink`: the smallest run that still fails in the same way.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::output;
use qsm_console::progress::Progress;
use qsm_console::stop::Stop;
use qsm_sim::{SimOptions, draw};

use super::source::{self, DrawArgs};

/// Arguments of `qsm sim shrink`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm sim shrink --seed 494                  what the swarm found, made small"
    "qsm sim shrink big.txt -o small.txt        a scenario that fails"
))]
pub(super) struct ShrinkArgs {
    /// A scenario that fails
    #[arg(
        value_name = "FILE",
        required_unless_present = "seed",
        conflicts_with = "seed"
    )]
    file: Option<PathBuf>,
    /// A seed that fails, instead of a file
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// How the seed is drawn.
    #[command(flatten)]
    draw: DrawArgs,
    /// How many smaller runs to try
    #[arg(long, value_name = "RUNS", default_value = "1000")]
    runs: u32,
    /// Where to write the small scenario [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The run does not fail, or a file cannot be read or written.
pub(super) fn run(args: &ShrinkArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let options = match (&args.file, args.seed) {
        (Some(file), _) => source::read(file)?.options,
        (None, seed) => draw(seed.unwrap_or(0), &args.draw.sizes()?),
    };
    let Err(broken) = qsm_sim::run(options.clone()) else {
        return Err(Failure::failed(
            "this run keeps all promises: there is nothing to shrink",
            "give one that fails; expectations of a scenario are not looked at",
        ));
    };
    output::say(format_args!(
        "qsm: at {} s: {}",
        broken.at, broken.violation
    ));
    let mut line = Progress::new();
    let (smaller, broken) = qsm_sim::shrink(options, broken, args.runs, &mut |left| {
        if line.is_due() {
            line.show(&format!("{left} smaller runs left to try"));
        }
        !stop.is_asked()
    });
    line.clear();
    output::say(format_args!(
        "qsm: smaller, at {} s: {}",
        broken.at, broken.violation
    ));
    let text = text(&smaller, &broken.violation.to_string());
    match &args.output {
        Some(path) => fs::write(path, text)
            .map_err(|error| Failure::io(format_args!("write {}", path.display()), &error)),
        None => output::write(text),
    }
}

/// The scenario with what it breaks as its first line.
pub(super) fn text(options: &SimOptions, violation: &str) -> String {
    let line = violation.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("# {line}\n{}", qsm_sim::write(options))
}
