//! Runs sweeps on all cores.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use qsm_proto::Seed;
use qsm_sim::probe::{ClusterOptions, Measured, measure};

use crate::experiment::{Figure, Load, Sweep};
use crate::papers::Mode;
use crate::results::Results;

/// One run.
#[derive(Debug, Clone, Copy)]
struct Job {
    sweep: &'static Sweep,
    mode: Mode,
    at: usize,
    seed: u64,
}

impl Job {
    fn x(&self) -> f64 {
        self.sweep.values[self.at]
    }

    fn cluster(&self) -> Option<ClusterOptions> {
        match self.sweep.load {
            Load::Cluster(options) => Some(ClusterOptions {
                seed: Seed(self.seed),
                ..options(self.mode, self.x())?
            }),
            Load::Direct(_) => None,
        }
    }

    /// Long runs first, so that no core is left with one at the end.
    fn effort(&self) -> u64 {
        self.cluster().map_or(u64::MAX, |options| {
            let seconds = (options.warmup + options.duration).as_secs();
            options.nodes as u64 * seconds * 1000 / u64::from(options.costs.weight.max(1))
        })
    }

    fn run(&self) -> Result<(Measured, f64), String> {
        let outcome = catch_unwind(AssertUnwindSafe(|| match self.sweep.load {
            Load::Cluster(_) => {
                let options = self.cluster().ok_or("no cluster")?;
                let seconds = (options.warmup + options.duration).as_secs_f64();
                let measured = measure(&options).map_err(|violation| violation.to_string())?;
                Ok((measured, seconds))
            }
            Load::Direct(run) => {
                let measured = run(self.mode, self.x(), Seed(self.seed))?;
                Ok((measured, 0.0))
            }
        }));
        let name = format!(
            "{} {} x = {} seed {}",
            self.sweep.name,
            self.mode.name(),
            self.x(),
            self.seed
        );
        outcome
            .unwrap_or_else(|_| Err("panicked".to_owned()))
            .map_err(|reason| format!("{name}: {reason}"))
    }
}

/// Runs everything that the figures need, each point with at most `seeds_max` seeds; stops between runs when `stop` is set, and then returns
/// what there is. `progress` hears (runs done, runs in all) after every run.
pub fn run(
    figures: &[&'static Figure],
    seeds_max: u64,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Results {
    let sweeps: BTreeMap<&str, &'static Sweep> = figures
        .iter()
        .map(|figure| (figure.sweep.name, figure.sweep))
        .collect();
    let mut jobs: Vec<Job> = Vec::new();
    for sweep in sweeps.into_values() {
        for at in 0..sweep.values.len() {
            for mode in Mode::BOTH {
                jobs.extend((1..=sweep.seeds.min(seeds_max)).map(|seed| Job {
                    sweep,
                    mode,
                    at,
                    seed,
                }));
            }
        }
    }
    jobs.retain(|job| matches!(job.sweep.load, Load::Direct(_)) || job.cluster().is_some());
    jobs.sort_by_key(|job| core::cmp::Reverse(job.effort()));
    let work = Work {
        jobs,
        next: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        results: Mutex::new(Results::default()),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(work.jobs.len()) {
            scope.spawn(|| work.go_on(stop, progress));
        }
    });
    work.results
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What the threads share.
struct Work {
    jobs: Vec<Job>,
    next: AtomicUsize,
    done: AtomicUsize,
    results: Mutex<Results>,
}

impl Work {
    /// Runs one job after the other, until there are none or it is told to stop.
    fn go_on(&self, stop: &AtomicBool, progress: &dyn Progress) {
        while !stop.load(Ordering::Relaxed) {
            let Some(job) = self.jobs.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                return;
            };
            let started = Instant::now();
            let outcome = job.run();
            let seconds = started.elapsed().as_secs_f64();
            take(&self.results, job, outcome, seconds);
            let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
            progress.done(done, self.jobs.len(), job.sweep.name, seconds);
        }
    }
}

fn take(
    results: &Mutex<Results>,
    job: &Job,
    outcome: Result<(Measured, f64), String>,
    seconds: f64,
) {
    let mut results = results
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    *results.seconds_of.entry(job.sweep.name).or_default() += seconds;
    match outcome {
        Ok((measured, virtual_seconds)) => {
            results.virtual_seconds += virtual_seconds;
            results.seconds += if virtual_seconds > 0.0 { seconds } else { 0.0 };
            results.add(job.sweep.name, job.mode, job.at, job.seed, measured);
        }
        Err(reason) => results.failures.push(reason),
    }
}

/// Hears how far the runs are.
pub trait Progress: Sync {
    /// One more is done, of this sweep, in so many seconds.
    fn done(&self, done: usize, all: usize, sweep: &str, seconds: f64);
}

/// Says nothing.
#[derive(Debug)]
pub struct Silent;

impl Progress for Silent {
    fn done(&self, _: usize, _: usize, _: &str, _: f64) {}
}
