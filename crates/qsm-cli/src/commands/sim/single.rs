//! `qsm sim run` and `qsm sim seed`: one run, watched.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::options::seconds;
use qsm_console::output;
use qsm_console::progress::Progress;
use qsm_console::stop::Stop;
use qsm_sim::{DRAW, STOPPED, Scenario, SimOptions, Simulation, TraceRow, chart, draw};
use serde_json::json;

use super::effort::Effort;
use super::show;
use super::source::{self, DrawArgs};

/// Lines of trace that are kept in memory at most: a few hundred megabytes.
const TRACE_MAX: usize = 1_000_000;

/// What to show of a run.
#[derive(Debug, Clone, Args)]
pub(super) struct ShowArgs {
    /// Show what happened as a table: who sends, receives and misses what, and when
    #[arg(long)]
    trace: bool,
    /// Write what happened as a message-sequence chart, an SVG picture; only for short times
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Show nothing before this virtual time
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    from: Duration,
    /// Show nothing from this virtual time on [default: the end]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    until: Option<Duration>,
    /// Show the membership protocol, too
    #[arg(long)]
    membership: bool,
    /// Show the counters of this host alone; 0: of the membership service
    #[arg(long, value_name = "HOST")]
    host: Option<usize>,
    /// Write JSON: one object
    #[arg(long)]
    json: bool,
}

/// Arguments of `qsm sim run`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm sim run scenarios/sender-crash.txt"
    "qsm sim run scenarios/total-loss.txt --trace --from 1 --until 1.1 | less -S"
    "qsm sim run scenarios/total-loss.txt --svg chart.svg --from 1 --until 1.04"
))]
pub(super) struct RunArgs {
    /// The scenario; docs/internals/simulator.md explains what may stand in it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What to show.
    #[command(flatten)]
    show: ShowArgs,
}

/// Arguments of `qsm sim seed`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm sim seed 494                           as the swarm drew it"
    "qsm sim seed 494 --save run.txt            and keep it as a scenario, to change it"
))]
pub(super) struct SeedArgs {
    /// The seed
    #[arg(value_name = "SEED")]
    seed: u64,
    /// How it is drawn.
    #[command(flatten)]
    draw: DrawArgs,
    /// Write the run as a scenario file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// What to show.
    #[command(flatten)]
    show: ShowArgs,
}

/// `qsm sim run`.
///
/// # Errors
/// A promise is broken, or an expectation is not met.
pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let scenario = source::read(&args.file)?;
    let again = format!("qsm sim run {}", args.file.display());
    watched(scenario, &args.show, &again)
}

/// `qsm sim seed`.
///
/// # Errors
/// As [`run`].
pub(super) fn seed(args: &SeedArgs) -> Result<(), Failure> {
    let options = draw(args.seed, &args.draw.sizes()?);
    if let Some(path) = &args.save {
        let text = qsm_sim::write(&options);
        fs::write(path, text)
            .map_err(|error| Failure::io(format_args!("write {}", path.display()), &error))?;
    }
    let scenario = Scenario {
        options,
        expectations: Vec::new(),
    };
    let again = format!("qsm sim seed {} --draw {DRAW}", args.seed);
    watched(scenario, &args.show, &again)
}

fn watched(scenario: Scenario, args: &ShowArgs, again: &str) -> Result<(), Failure> {
    let nodes = scenario.options.nodes;
    if let Some(host) = args.host.filter(|host| *host > nodes) {
        let help = format!("0 is the membership service, 1 to {nodes} are nodes");
        return Err(Failure::usage(format!("there is no host {host}"), help));
    }
    let stop = Stop::on_signals()?;
    let traced = args.trace || args.svg.is_some();
    let scenario = Scenario {
        options: SimOptions {
            trace_lines: if traced { TRACE_MAX } else { 100 },
            ..scenario.options
        },
        ..scenario
    };
    let start = Instant::now();
    let simulation = Simulation::new(scenario.options.clone());
    let mut simulation = simulation.map_err(|broken| failed(&broken.violation, again))?;
    let mut line = Progress::new();
    let ended = simulation.run(&mut |run| {
        if line.is_due() {
            line.show(&show::progress(run));
        }
        match stop.is_asked() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    line.clear();
    let report = simulation.report();
    let effort = Effort::since(start, Duration::from_nanos(report.ended.0));
    let rows = shown(simulation.trace(), args);
    if args.trace {
        output::write(show::trace(&rows))?;
    }
    if let Some(path) = &args.svg {
        draw_chart(&rows, path)?;
    }
    let judged = ended.and_then(|report| scenario.judge(&report).map(|()| report));
    let verdict = show::verdict(&scenario, judged.as_ref().map_err(AsRef::as_ref));
    match judged {
        Ok(report) if args.json => show::write_json(&json!({
            "kept": true, "report": show::report_json(&report, args.host), "effort": effort.json(),
        })),
        Ok(report) => {
            output::write(show::report(&report, args.host))?;
            output::write(effort.line())?;
            output::write(verdict)
        }
        Err(broken) => {
            if args.json {
                show::write_json(&json!({
                    "kept": false, "broken": show::broken_json(&broken),
                    "report": show::report_json(&report, args.host),
                }))?;
            } else if args.trace {
                output::write(show::report(&report, args.host))?;
            } else {
                for row in broken.trace.iter().chain(&broken.hosts) {
                    output::write(format!("{row}\n"))?;
                }
                output::write(show::report(&report, args.host))?;
            }
            if !args.json {
                output::write(verdict)?;
            }
            Err(failed(&broken.violation, again))
        }
    }
}

fn draw_chart(rows: &[TraceRow], path: &Path) -> Result<(), Failure> {
    let picture = chart(rows).map_err(|error| {
        let help = "see --from and --until; times are virtual seconds";
        Failure::usage(error.to_string(), help)
    })?;
    fs::write(path, picture)
        .map_err(|error| Failure::io(format_args!("write {}", path.display()), &error))
}

fn failed(violation: &qsm_sim::Violation, again: &str) -> Failure {
    if violation.checker == STOPPED {
        return Failure::failed(
            "the run was interrupted; what it had come to is above",
            format!("see it whole: {again}"),
        );
    }
    Failure::failed(
        format!("a promise is broken: {violation}"),
        format!("see what happened: {again} --trace"),
    )
}

/// The rows that are asked for.
fn shown(rows: Vec<TraceRow>, args: &ShowArgs) -> Vec<TraceRow> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let from = nanos(args.from);
    let until = args.until.map_or(u64::MAX, nanos);
    rows.into_iter()
        .filter(|row| (from..until).contains(&row.at.0))
        .filter(|row| args.membership || !row.is_membership())
        .collect()
}
