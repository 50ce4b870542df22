//! `qsm sim relay`: drawn trees of relays.

use std::time::Instant;

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::figures;
use qsm_console::output;
use qsm_console::progress::Progress;
use qsm_console::stop::Stop;
use qsm_relay_sim::{DRAW, Failure as Broken, Mischief, Plan, Report, run as carry_out};
use serde_json::json;

use super::show;

/// Arguments of `qsm sim relay`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm sim relay --seeds 1000                 a thousand trees of relays with faults, drawn at random"
    "qsm sim relay --first 494 --seeds 1        one of them"
))]
pub(super) struct RelayArgs {
    /// Number of seeds
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value = "0")]
    first: u64,
    /// Run each seed twice and compare the digests
    #[arg(long)]
    twice: bool,
    /// Write JSON: one object
    #[arg(long)]
    json: bool,
}

/// Sums of all runs.
#[derive(Debug, Default)]
struct Sums {
    runs: u64,
    delivered: u64,
    lost: u64,
    sent: u64,
    faults: u64,
    virtual_seconds: u64,
    digest: u64,
}

impl Sums {
    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.delivered += report.delivered;
        self.lost += report.lost;
        self.sent += report.sent;
        self.faults += report.faults;
        self.virtual_seconds += report.ended.0 / 1_000_000_000;
        self.digest = self.digest.rotate_left(1) ^ report.digest;
    }
}

/// Runs the command, on one core, until the first seed that breaks a promise.
///
/// # Errors
/// A run broke a promise or was not the same twice, or the runs were interrupted.
pub(super) fn run(args: &RelayArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let (mut sums, mut line, start) = (Sums::default(), Progress::new(), Instant::now());
    for seed in args.first..args.first.saturating_add(args.seeds) {
        if stop.is_asked() {
            line.clear();
            return Err(Failure::failed(
                format!(
                    "interrupted after {} seeds, which kept all promises",
                    sums.runs
                ),
                format!("go on with --first {seed}"),
            ));
        }
        if line.is_due() {
            line.show(&format!("{} of {} seeds", sums.runs, args.seeds));
        }
        let plan = Plan::draw(seed);
        let report = carry_out(&plan, Mischief::None);
        let report = report.map_err(|broken| tell(&plan, &broken, &line))?;
        if args.twice && carry_out(&plan, Mischief::None).as_ref() != Ok(&report) {
            line.clear();
            return Err(Failure::failed(
                format!("seed {seed} did not give the same run twice"),
                "something outside of the seed decides; see the digests with --json",
            ));
        }
        sums.add(&report);
    }
    line.clear();
    summary(&sums, start, args.json)
}

/// One failure, with the run's plan and its last steps.
fn tell(plan: &Plan, broken: &Broken, line: &Progress) -> Failure {
    line.clear();
    let seed = plan.seed;
    match output::write(format!("{plan}{broken}\n")) {
        Ok(()) => Failure::failed(
            format!("seed {seed} broke a promise: {}", broken.violation),
            format!(
                "see it again, by version {DRAW} of the draw: qsm sim relay --first {seed} --seeds 1"
            ),
        ),
        Err(failure) => failure,
    }
}

fn summary(sums: &Sums, start: Instant, json: bool) -> Result<(), Failure> {
    let elapsed = start.elapsed();
    if json {
        return show::write_json(&json!({
            "draw": DRAW, "kept": sums.runs, "virtual_seconds": sums.virtual_seconds,
            "wall_seconds": elapsed.as_secs_f64(), "datagrams": sums.sent, "delivered": sums.delivered,
            "lost": sums.lost, "faults": sums.faults, "digest": format!("{:016x}", sums.digest),
        }));
    }
    output::write(format!(
        "{} seeds kept all promises: {} virtual seconds in {}\n\
         {} datagrams, {} packets delivered, {} named as lost, {} faults of nodes\n\
         digest of all {:016x}\n",
        figures::count(sums.runs),
        figures::count(sums.virtual_seconds),
        figures::duration(elapsed),
        figures::count(sums.sent),
        figures::count(sums.delivered),
        figures::count(sums.lost),
        figures::count(sums.faults),
        sums.digest,
    ))
}
