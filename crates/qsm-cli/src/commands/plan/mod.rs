//! `qsm plan`: regions, channels and paths for subscriptions in a file, before there is a cluster.

mod check;
mod churn;
mod effort;
mod file;
mod layout;
mod names;
mod show;
mod stopwatch;
mod svg;
mod why;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::options::CostOptions;
use qsm_console::output;
use qsm_plan::layouts::Layout;
use qsm_plan::{Hints, Planner, Settings};
use qsm_wire::{Instant, Random, Seed};

use self::effort::{Effort, Line};
use self::file::Subscriptions;

/// Arguments of `qsm plan`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm plan subscriptions.txt                      regions, channels, what a message costs"
    "qsm plan subscriptions.txt --why prices/eur     one group: its path, and the alternatives"
    "qsm plan subscriptions.txt --hints hints.txt    pins, nodes together or apart, domains"
    "qsm plan subscriptions.txt --calibrate          weighed as this machine's packets cost"
    "qsm plan subscriptions.txt --svg plan.svg       a picture"
    "qsm plan --layout private-groups:40             a layout without a file"
    "qsm plan --layout planted:10000,100000,extras=5 --check    judged by time, memory and quality"
))]
#[expect(clippy::struct_excessive_bools, reason = "options of a command line")]
pub(crate) struct PlanArgs {
    /// Subscriptions: a line `node: group group …` for each node; a line `group rate` gives a
    /// group's messages per second (1 otherwise); `#` begins a comment
    #[arg(value_name = "FILE", required_unless_present = "layout")]
    file: Option<PathBuf>,
    /// Instead of a file: private-groups:NODES, random-extras:NODES,EXTRAS, zipf:NODES,GROUPS,EACH,
    /// hierarchical:NODES,GROUPS, planted:NODES,GROUPS,extras=EXTRAS, or singles:NODES,GROUPS
    #[arg(long, value_name = "LAYOUT", value_parser = layout::parse, conflicts_with = "file")]
    layout: Option<Layout>,
    /// Seed of a layout
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Hints: lines `pin CHANNEL: GROUP…`, `together: NODE…`, `apart: NODE…`, `domain NAME: NODE…`
    #[arg(long, value_name = "FILE")]
    hints: Option<PathBuf>,
    /// Multicast addresses that may be used
    #[arg(long, value_name = "N", default_value_t = 512)]
    addresses: usize,
    /// Send no copies: whoever is in a region receives all that is sent to it
    #[arg(long)]
    no_residue: bool,
    /// Measure in some milliseconds what packets cost on this machine, instead of weighing as on a typical
    /// server
    #[arg(long)]
    calibrate: bool,
    /// Costs that are weighed.
    #[command(flatten)]
    costs: CostOptions,
    /// The plan as JSON
    #[arg(long)]
    json: bool,
    /// Explain a group's path
    #[arg(long, value_name = "GROUP", conflicts_with = "json")]
    why: Option<String>,
    /// Draw the plan
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Measure planning, joins and churn, and judge time, memory and quality by their limits
    #[arg(long, conflicts_with_all = ["file", "json", "why", "hints"])]
    check: bool,
}

/// Runs the command.
///
/// # Errors
/// A file cannot be read, understood or written, hints contradict each other, or a limit of
/// `--check` is not kept.
pub(crate) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let subscriptions = match (&args.file, &args.layout) {
        (_, Some(layout)) => Subscriptions::drawn(layout, Seed(args.seed)),
        (Some(file), None) => Subscriptions::parse(&read(file)?)
            .map_err(|error| unusable(file, &error.to_string()))?,
        (None, None) => {
            return Err(Failure::usage(
                "nothing to plan",
                "name a file, or a --layout",
            ));
        }
    };
    let hints = match &args.hints {
        Some(file) => Hints::parse(&read(file)?, &subscriptions)
            .map_err(|error| unusable(file, &error.to_string()))?,
        None => Hints::default(),
    };
    let costs = args.costs.costs(args.calibrate);
    let settings = Settings {
        costs: costs.costs,
        addresses: args.addresses,
        residue: !args.no_residue,
        ..Settings::default()
    };
    let mut random = Random::new(Seed(args.seed), "plan");
    let mut planner = Planner::new(settings, hints, &mut random)
        .map_err(|error| Failure::usage(error.to_string(), "see `qsm help plan`"))?;
    if let (true, Some(layout)) = (args.check, args.layout) {
        return check::run(&mut planner, subscriptions, layout, args.addresses);
    }
    let names = subscriptions.load(&mut planner);
    Effort::of(&mut planner, Instant(0), &mut Line::new()).map_err(|error| {
        let text = error.to_string();
        let (cause, remedy) = text
            .split_once("; ")
            .unwrap_or((&text, "see `qsm help plan`"));
        Failure::failed(cause, remedy)
    })?;
    let plan = planner.plan();
    if let Some(file) = &args.svg {
        let text = svg::draw(&plan, &names);
        fs::write(file, text)
            .map_err(|error| Failure::io(format_args!("write {}", file.display()), &error))?;
    }
    match (&args.why, args.json) {
        (Some(group), _) => output::write(why::explain(&planner, &plan, &names, group)?),
        (None, true) => show::write_json(&plan, &names, &costs),
        (None, false) => output::write(show::summary(&plan, &names, &costs, args.addresses)),
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file)
        .map_err(|error| Failure::io(format_args!("read {}", file.display()), &error))
}

/// A file's fault, from a text of the form `cause; remedy`.
fn unusable(file: &Path, text: &str) -> Failure {
    let (cause, remedy) = text
        .rsplit_once("; ")
        .unwrap_or((text, "see `qsm help plan`"));
    Failure::failed(format!("{}, {cause}", file.display()), remedy)
}
