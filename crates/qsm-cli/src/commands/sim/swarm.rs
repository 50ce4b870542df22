//! `qsm sim swarm`: many drawn runs on all cores.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::figures;
use qsm_console::output;
use qsm_console::progress::Progress;
use qsm_console::stop::Stop;
use qsm_console::table::{Align, Table};
use qsm_sim::{DRAW, Failure as Broken, Report, SwarmOptions, Tally, draw};
use serde_json::{Value, json};

use super::source::DrawArgs;
use super::{show, shrink};

/// How often the main thread looks.
const LOOK: Duration = Duration::from_millis(50);

/// Arguments of `qsm sim swarm`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm sim swarm --seeds 100000               until one fails"
    "qsm sim swarm --seeds 500 --twice          each twice: the same digest, or it says so"
    "qsm sim swarm --first 5000 --keep-going --save found --json"
))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line, and they go in any combination"
)]
pub(super) struct SwarmArgs {
    /// How many seeds
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value = "0")]
    first: u64,
    /// Runs at the same time [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// How runs are drawn.
    #[command(flatten)]
    draw: DrawArgs,
    /// Run each seed twice and compare the digests
    #[arg(long)]
    twice: bool,
    /// Go on after a failure
    #[arg(long)]
    keep_going: bool,
    /// How many smaller runs to try for the first failure
    #[arg(long, value_name = "RUNS", default_value = "300")]
    shrink_runs: u32,
    /// Write the scenario of every failure into this folder, the first one made small
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
    /// Fail if a kind of fault never happened
    #[arg(long)]
    all_faults: bool,
    /// Write JSON: one object per failure, and one for the whole
    #[arg(long)]
    json: bool,
}

/// What the threads share.
struct Shared {
    sizes: SwarmOptions,
    twice: bool,
    keep_going: bool,
    next: AtomicU64,
    end: u64,
    done: AtomicU64,
    over: AtomicBool,
    found: Mutex<Vec<Broken>>,
}

/// Runs the command.
///
/// # Errors
/// A run broke a promise or was not the same twice, or the swarm was interrupted.
pub(super) fn run(args: &SwarmArgs) -> Result<(), Failure> {
    let sizes = args.draw.sizes()?;
    if let Some(folder) = &args.save {
        fs::create_dir_all(folder)
            .map_err(|error| Failure::io(format_args!("make {}", folder.display()), &error))?;
    }
    let stop = Stop::on_signals()?;
    let jobs = args.jobs.map_or_else(
        || thread::available_parallelism().map_or(1, usize::from),
        usize::from,
    );
    let end = args.first.saturating_add(args.seeds);
    output::say(format_args!(
        "qsm: {} seeds from {} on, version {DRAW} of the draw, {jobs} at a time, qsm {}",
        figures::count(args.seeds),
        args.first,
        env!("CARGO_PKG_VERSION"),
    ));
    let shared = Shared {
        sizes,
        twice: args.twice,
        keep_going: args.keep_going,
        next: AtomicU64::new(args.first),
        end,
        done: AtomicU64::new(0),
        over: AtomicBool::new(false),
        found: Mutex::new(Vec::new()),
    };
    let start = Instant::now();
    let tally = on_all_cores(&shared, jobs, &stop, args.seeds);
    let mut found = shared
        .found
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|broken| broken.seed);
    for (at, broken) in found.iter().enumerate() {
        tell(broken, at == 0, args, &sizes, &stop)?;
    }
    let elapsed = start.elapsed();
    summary(&tally, &found, elapsed, args)?;
    verdict(&tally, &found, args)
}

/// All seeds, until the last, the first failure, or a signal.
fn on_all_cores(shared: &Shared, jobs: usize, stop: &Stop, seeds: u64) -> Tally {
    let mut line = Progress::new();
    let start = Instant::now();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(|| work(shared))).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(LOOK);
            if stop.is_asked() {
                shared.over.store(true, Ordering::Relaxed);
            }
            if line.is_due() {
                let done = shared.done.load(Ordering::Relaxed);
                let rate = done as f64 / start.elapsed().as_secs_f64().max(1e-3);
                let left =
                    Duration::from_secs_f64((seeds - done.min(seeds)) as f64 / rate.max(1e-3));
                line.show(&format!(
                    "{} of {} seeds, {}/s, {} left",
                    figures::count(done),
                    figures::count(seeds),
                    figures::rate(rate),
                    figures::duration(left)
                ));
            }
        }
        line.clear();
        let mut tally = Tally::default();
        for worker in workers {
            // A worker that panicked has said so; the others' runs count all the same.
            tally.merge(&worker.join().unwrap_or_default());
        }
        tally
    })
}

/// What one thread does.
fn work(shared: &Shared) -> Tally {
    let mut tally = Tally::default();
    while !shared.over.load(Ordering::Relaxed) {
        let seed = shared.next.fetch_add(1, Ordering::Relaxed);
        if seed >= shared.end {
            break;
        }
        match one(seed, shared) {
            Ok(report) => tally.add(&report),
            Err(broken) => {
                let mut found = shared.found.lock().unwrap_or_else(PoisonError::into_inner);
                found.push(*broken);
                if !shared.keep_going {
                    shared.over.store(true, Ordering::Relaxed);
                }
            }
        }
        shared.done.fetch_add(1, Ordering::Relaxed);
    }
    tally
}

fn one(seed: u64, shared: &Shared) -> Result<Report, Box<Broken>> {
    let report = qsm_sim::swarm(seed, &shared.sizes)?;
    if shared.twice {
        let again = qsm_sim::swarm(seed, &shared.sizes)?;
        if again != report {
            return Err(Broken::differs(&report, &again));
        }
    }
    Ok(report)
}

/// One failure: what it is, how to see it again, and the first one in small.
fn tell(
    broken: &Broken,
    first: bool,
    args: &SwarmArgs,
    sizes: &SwarmOptions,
    stop: &Stop,
) -> Result<(), Failure> {
    let mut options = draw(broken.seed, sizes);
    let mut said = broken.violation.to_string();
    if first && args.shrink_runs > 0 {
        let mut line = Progress::new();
        let (smaller, still) = qsm_sim::shrink(
            options,
            Box::new(broken.clone()),
            args.shrink_runs,
            &mut |left| {
                if line.is_due() {
                    line.show(&format!("making it smaller: {left} runs left"));
                }
                !stop.is_asked()
            },
        );
        line.clear();
        options = smaller;
        said = still.violation.to_string();
    }
    let scenario = shrink::text(&options, &said);
    let file = args
        .save
        .as_ref()
        .map(|folder| folder.join(format!("seed-{}.txt", broken.seed)));
    if let Some(file) = &file {
        fs::write(file, &scenario)
            .map_err(|error| Failure::io(format_args!("write {}", file.display()), &error))?;
    }
    if args.json {
        let mut value = show::broken_json(broken);
        value["event"] = json!("broken");
        value["scenario"] = json!(scenario);
        return show::write_json(&value);
    }
    let head = format!(
        "seed {} at {} s: {}\n",
        broken.seed, broken.at, broken.violation
    );
    output::write(head)?;
    if first {
        for line in broken.trace.iter().chain(&broken.hosts) {
            output::write(format!("  {line}\n"))?;
        }
        if file.is_none() {
            output::write(format!("made smaller:\n{scenario}"))?;
        }
    }
    output::write(format!("replay: {}\n", broken.replay))
}

fn summary(
    tally: &Tally,
    found: &[Broken],
    elapsed: Duration,
    args: &SwarmArgs,
) -> Result<(), Failure> {
    let rows = tally.faults();
    if args.json {
        let faults: serde_json::Map<String, Value> = rows
            .into_iter()
            .map(|(name, count)| (name, json!(count)))
            .collect();
        return show::write_json(&json!({
            "event": "summary",
            "kept": tally.runs,
            "broken": found.len(),
            "virtual_seconds": tally.virtual_time().as_secs(),
            "wall_seconds": elapsed.as_secs_f64(),
            "inputs": tally.inputs,
            "published": tally.published,
            "delivered": tally.delivered,
            "deaths": tally.deaths,
            "settled_max_ms": tally.settled_max().as_millis(),
            "digest": format!("{:016x}", tally.digest),
            "faults": faults,
        }));
    }
    let mut table = Table::new(&[("FAULT", Align::Left), ("HAPPENED", Align::Right)]);
    for (name, count) in rows {
        table.row([name, figures::count(count)]);
    }
    output::write(table.render())?;
    let rate = tally.runs as f64 / elapsed.as_secs_f64().max(1e-3);
    output::write(format!(
        "{} seeds kept all promises, {} did not; {} in {} ({} seeds/s)\n\
         {} inputs, {} messages published, {} delivered, {} lives ended, at rest after at most {}\n\
         digest of all {:016x}\n",
        figures::count(tally.runs),
        found.len(),
        show::virtual_time(tally.virtual_time()),
        figures::duration(elapsed),
        figures::rate(rate),
        figures::count(tally.inputs),
        figures::count(tally.published),
        figures::count(tally.delivered),
        figures::count(tally.deaths),
        figures::duration(tally.settled_max()),
        tally.digest,
    ))
}

fn verdict(tally: &Tally, found: &[Broken], args: &SwarmArgs) -> Result<(), Failure> {
    if let Some(first) = found.first() {
        return Err(Failure::failed(
            format!(
                "{} seeds broke a promise, the first: {}",
                found.len(),
                first.violation
            ),
            format!("see it again: {}", first.replay),
        ));
    }
    let never = tally.never(args.draw.forgery);
    if args.all_faults && !never.is_empty() {
        return Err(Failure::failed(
            format!("some faults never happened: {}", never.join(", ")),
            "run more seeds; if that does not help, the draw has lost them",
        ));
    }
    if tally.runs < args.seeds {
        let next = args.first + tally.runs;
        return Err(Failure::failed(
            format!(
                "interrupted after {} seeds, which kept all promises",
                tally.runs
            ),
            format!(
                "go on with --first {next} --seeds {}",
                args.seeds - tally.runs
            ),
        ));
    }
    Ok(())
}
