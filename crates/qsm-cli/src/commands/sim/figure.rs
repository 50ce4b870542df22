//! `qsm sim figure`: the experiments of the papers.

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::{Code, Failure};
use qsm_console::output;
use qsm_console::progress::Progress;
use qsm_console::stop::Stop;
use qsm_figures::{Figure, Results, catalogue};

/// Arguments of `qsm sim figure`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm sim figure E03                         throughput and nodes, S2 figure 9"
    "qsm sim figure E22 --seeds 1 -o /tmp       faster, without confidence intervals"
    "qsm sim figure all -o docs/figures         everything, with the page that explains it"
))]
pub(super) struct FigureArgs {
    /// Experiments (`E03`), or `all`
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Runs for each point, at most
    #[arg(long, value_name = "N", default_value = "99", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Where to write CSV files, plots, and with `all` the page
    #[arg(short, long, value_name = "FOLDER", default_value = "figures")]
    output: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// An experiment is unknown, a file cannot be written, a run broke something, or the command was
/// interrupted; what was computed until then is written.
pub(super) fn run(args: &FigureArgs) -> Result<(), Failure> {
    let all = args.ids.iter().any(|id| id == "all");
    let figures = chosen(&args.ids)?;
    let stop = Stop::on_signals()?;
    let line = Line {
        progress: Mutex::new(Progress::new()),
        start: Instant::now(),
    };
    let results = qsm_figures::run(&figures, args.seeds, stop.flag(), &line);
    line.clear();
    let written = write(args, &figures, &results, all);
    written
        .map_err(|error| Failure::io(format_args!("write to {}", args.output.display()), &error))?;
    for figure in &figures {
        output::write(format!("{}\n", qsm_figures::line(figure, &results)))?;
    }
    if stop.is_asked() {
        return Err(Failure::new(
            Code::Incomplete,
            "interrupted; what was computed is written",
            "run it again for the rest",
        ));
    }
    match results.failures.first() {
        Some(failure) => Err(Failure::failed(
            failure.clone(),
            "the other runs are written; please report this one",
        )),
        None => Ok(()),
    }
}

fn chosen(ids: &[String]) -> Result<Vec<&'static Figure>, Failure> {
    if ids.iter().any(|id| id == "all") {
        return Ok(catalogue::all());
    }
    let mut figures = Vec::new();
    for id in ids {
        let found = catalogue::find(id);
        if found.is_empty() {
            let known: Vec<&str> = catalogue::all().iter().map(|figure| figure.id).collect();
            return Err(Failure::usage(
                format!("there is no experiment {id}"),
                format!("choose among {}, or all", known.join(" ")),
            ));
        }
        figures.extend(found);
    }
    Ok(figures)
}

fn write(
    args: &FigureArgs,
    figures: &[&'static Figure],
    results: &Results,
    page: bool,
) -> io::Result<()> {
    for figure in figures {
        qsm_figures::write_figure(&args.output, figure, results)?;
    }
    if page {
        qsm_figures::write_page(&args.output, figures, results)?;
    }
    Ok(())
}

/// How far the runs are, on stderr.
struct Line {
    progress: Mutex<Progress>,
    start: Instant,
}

impl Line {
    fn clear(&self) {
        if let Ok(progress) = self.progress.lock() {
            progress.clear();
        }
    }
}

impl qsm_figures::Progress for Line {
    fn done(&self, done: usize, all: usize, sweep: &str, _: f64) {
        if let Ok(mut progress) = self.progress.lock()
            && progress.is_due()
        {
            let seconds = self.start.elapsed().as_secs();
            progress.show(&format!("{done} of {all} runs, {seconds} s; {sweep}"));
        }
    }
}
