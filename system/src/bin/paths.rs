//! `paths`: what receivers notice when multicast stops to pass between hosts in mid-stream and passes again, as a
//! table.
//!
//! A trial is one cluster: a publisher and receivers, each on a host, and the membership service on one more. All
//! receivers are in all groups, messages go to the groups in turn, and each message is looked into. The scenes follow
//! each other; each is a row, judged by [`verdict`], with medians of several trials. A trial during which the host of
//! this machine took more than 5 % of the CPU time (steal in `/proc/stat`) does not count and is made again.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use qsm_system::cluster::program;
use qsm_system::machine::counted;
use qsm_system::page::append;
use qsm_system::paths::{PathOutcome, PathTrial, Scene, SceneOutcome};
use qsm_system::trial::{Load, median};

/// Longest time without a message at a receiver that multicast stops reaching, at traffic.
const GAP_MAX: Duration = Duration::from_millis(150);
/// The same at a message a second.
const IDLE_GAP_MAX: Duration = Duration::from_secs(3);
/// Largest ratio of the 99th percentiles of latencies of the others without multicast and before.
const P99_RATIO_MAX: f64 = 1.2;

/// Plans of the membership service after a change.
const PLANS: u64 = 3;

#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(2..=30))]
    receivers: u16,
    /// Groups, all of all receivers, which messages go to in turn.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    groups: u32,
    /// Messages a second; 0: as many as possible.
    #[arg(long, default_value_t = 5000)]
    rate: u64,
    /// Bytes of a message.
    #[arg(long, default_value_t = 300)]
    bytes: usize,
    /// Seconds without multicast, before it, and after it, in each phase.
    #[arg(long, default_value_t = 6.0, value_parser = seconds)]
    seconds: f64,
    /// Phases: traffic-one, traffic-all, idle-one, idle-all, in this order. All, if none is named.
    #[arg(long, value_delimiter = ',', value_parser = scene)]
    phases: Vec<&'static str>,
    /// Trials.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    runs: u8,
    /// File to which the rows are appended, as a table in Markdown.
    #[arg(long)]
    page: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match (1.0..=3600.0).contains(&number) {
        true => Ok(number),
        false => Err("must be between 1 and 3600 seconds".to_owned()),
    }
}

fn scene(text: &str) -> Result<&'static str, String> {
    let names = Scene::ALL.map(Scene::name);
    let known = names.into_iter().find(|name| *name == text);
    known.ok_or_else(|| format!("name {}", names.join(", ")))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(reason) = lab::Lab::available() {
        eprintln!("paths: {reason}");
        return ExitCode::from(2);
    }
    let outcomes = Outcomes::of(&arguments, &program());
    let table = outcomes.table(&arguments);
    println!("{table}");
    if let Some(page) = &arguments.page
        && let Err(error) = append(page, &table)
    {
        eprintln!("{}: {error}", page.display());
        return ExitCode::FAILURE;
    }
    ExitCode::from(u8::from(!outcomes.are_kept()))
}

impl Arguments {
    fn trial(&self) -> PathTrial {
        let lasts = Duration::from_secs_f64(self.seconds);
        let named = |scene: &Scene| self.phases.is_empty() || self.phases.contains(&scene.name());
        PathTrial {
            receivers: self.receivers.into(),
            groups: usize::try_from(self.groups).unwrap_or(usize::MAX),
            load: Load {
                bytes: self.bytes,
                rate: self.rate,
            },
            lasts,
            calm: lasts,
            plans: PLANS,
            scenes: Scene::ALL.into_iter().filter(named).collect(),
        }
    }
}

/// All trials.
#[derive(Debug, Default)]
struct Outcomes {
    outcomes: Vec<PathOutcome>,
    /// Trials that failed or did not count.
    failures: Vec<String>,
}

impl Outcomes {
    fn of(arguments: &Arguments, program: &Path) -> Self {
        let mut all = Self::default();
        let trial = arguments.trial();
        for _ in 0..arguments.runs {
            match counted(|| trial.run(program)) {
                Ok(outcome) => all.outcomes.push(outcome),
                Err(error) => all.failures.push(error.to_string()),
            }
        }
        all
    }

    /// Each scene, with what came of it in each trial.
    fn scenes(&self) -> Vec<(Scene, Vec<&SceneOutcome>)> {
        let played = |scene: Scene| {
            let all = self.outcomes.iter().flat_map(|outcome| &outcome.scenes);
            (scene, all.filter(|one| one.scene == scene).collect())
        };
        let scenes = Scene::ALL.map(played).into_iter();
        scenes
            .filter(|(_, played): &(_, Vec<_>)| !played.is_empty())
            .collect()
    }

    /// Rules of whole trials that are broken, in words.
    fn verdict(&self) -> Vec<String> {
        let sum =
            |value: &dyn Fn(&PathOutcome) -> u64| -> u64 { self.outcomes.iter().map(value).sum() };
        let counts = [
            (sum(&|outcome| outcome.lost), "messages lost"),
            (
                sum(&|outcome| outcome.untold),
                "messages missing, doubled or out of order without a word",
            ),
            (sum(&|outcome| outcome.new_lives), "new lives"),
        ];
        let broken = counts.iter().filter(|(count, _)| *count > 0);
        let broken = broken.map(|(count, what)| format!("{count} {what}"));
        let failures = self.failures.iter();
        let failures = failures.map(|failure| format!("a trial failed ({failure})"));
        broken.chain(failures).collect()
    }

    fn are_kept(&self) -> bool {
        let scenes = self.scenes();
        let kept = scenes
            .iter()
            .all(|(scene, played)| verdict(*scene, played).is_empty());
        self.verdict().is_empty() && kept
    }

    fn table(&self, arguments: &Arguments) -> String {
        let verdict = self.verdict();
        let verdict = match verdict.is_empty() {
            true => "nothing is lost or doubled, and nobody begins a new life".to_owned(),
            false => format!("not kept: {}", verdict.join(", ")),
        };
        let mut table = format!(
            "{} messages/s of {} bytes to {} receivers of {} groups, idle 1 message/s, {} s in each part of a phase, \
             {} trials: {verdict}.\n\n\
             | phase | own gap, ms | others' gap, ms | longest gap when it passes again, ms | p99 before, ms | p99, ms | ratio | repairs, part of their budget | least messages of a receiver in 0.5 s | explained after, s | back after, s | rules |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|\n",
            arguments.rate,
            arguments.bytes,
            arguments.receivers,
            arguments.groups,
            arguments.seconds,
            arguments.runs,
        );
        for (scene, played) in self.scenes() {
            // Writing to a String cannot fail.
            writeln!(table, "{}", line(scene, &played)).unwrap_or_default();
        }
        table
    }
}

/// Rules that are broken in a scene, in words; none: all are kept.
///
/// By medians a receiver that multicast stops reaching waits at most [`GAP_MAX`] for a message, or [`IDLE_GAP_MAX`]
/// where one a second is published, and so do all when multicast passes again. The others' latencies at traffic are
/// hardly longer than before. Where it reaches nobody, messages go on in each half second. In each trial repairs stay
/// within their budget in each interval, and nodes explain each move.
fn verdict(scene: Scene, played: &[&SceneOutcome]) -> Vec<String> {
    let middle = |value: &dyn Fn(&SceneOutcome) -> f64| {
        median(played.iter().map(|one| value(one))).unwrap_or(f64::MAX)
    };
    let bar = if scene.is_idle() {
        IDLE_GAP_MAX
    } else {
        GAP_MAX
    };
    let bar = bar.as_secs_f64();
    let one = !scene.is_of_all();
    let rules = [
        (
            !one || middle(&|one| one.off.own.gap.as_secs_f64()) <= bar,
            "own gap",
        ),
        (
            middle(&|one| one.again.gap().as_secs_f64()) <= bar,
            "gap when it passes again",
        ),
        (
            !one || scene.is_idle() || middle(&SceneOutcome::p99_ratio) <= P99_RATIO_MAX,
            "p99",
        ),
        (
            played.iter().all(|one| one.budget_used() <= 1.0),
            "repairs over their budget",
        ),
        (
            scene.is_idle() || played.iter().all(|one| one.least() > 0),
            "traffic stands still",
        ),
    ];
    let broken = rules.iter().filter(|(kept, _)| !kept);
    let broken = broken.map(|(_, rule)| (*rule).to_owned());
    let unexplained = played.iter().flat_map(|one| one.unexplained());
    let unexplained = unexplained.map(|what| format!("not explained: {what}"));
    broken.chain(unexplained).collect()
}

/// A line of the table in Markdown.
fn line(scene: Scene, played: &[&SceneOutcome]) -> String {
    let middle = |value: &dyn Fn(&SceneOutcome) -> f64| {
        median(played.iter().map(|one| value(one))).unwrap_or(f64::NAN)
    };
    let millis = |value: &dyn Fn(&SceneOutcome) -> Duration| {
        format!("{:.1}", middle(&|one| value(one).as_secs_f64()) * 1e3)
    };
    let others = |text: String| {
        if scene.is_of_all() {
            "-".to_owned()
        } else {
            text
        }
    };
    let used = played
        .iter()
        .map(|one| one.budget_used())
        .fold(0.0, f64::max);
    let least = played.iter().map(|one| one.least()).min().unwrap_or(0);
    let rules = verdict(scene, played);
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {used:.4} | {least} | {:.1} | {:.1} | {} |",
        scene.name(),
        millis(&|one| match scene.is_of_all() {
            true => one.off.gap(),
            false => one.off.own.gap,
        }),
        others(millis(&|one| one.off.others.gap)),
        millis(&|one| one.again.gap()),
        millis(&|one| one.before.others.p99),
        millis(&|one| one.off.others.p99),
        others(format!("{:.2}", middle(&SceneOutcome::p99_ratio))),
        middle(&|one| one.explained[0].after.as_secs_f64()),
        middle(&|one| one.explained[1].after.as_secs_f64()),
        match rules.is_empty() {
            true => "kept".to_owned(),
            false => format!("not kept: {}", rules.join(", ")),
        },
    )
}
