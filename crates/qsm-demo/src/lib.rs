//! `qsm demo`: hosts, a membership service, senders and receivers as processes, losses, a crash;
//! and at the end a comparison of everything received with everything published.

#![forbid(unsafe_code)]

mod content;
mod node;
mod plan;
mod receiver;
mod screen;
mod sender;
mod stage;
mod summary;
mod talk;
mod tally;
mod verify;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use qsm::Family;
use qsm_console::after_help;
use qsm_console::failure::Failure;
use qsm_console::figures;
use qsm_console::options::{loss_ppm, seconds};
use qsm_console::stop::Stop;
use qsm_processes::{Cast, Place};

pub use node::{NodeArgs, run as run_node};

use crate::plan::{Plan, Size, Source};
use crate::screen::Screen;
use crate::stage::Stage;
use crate::summary::Summary;
use crate::talk::{End, Range, Told};
use crate::verify::{ByGroup, Evidence};

/// What setting up and comparing take beside publishing, for the progress bar.
const OVERHEAD: Duration = Duration::from_secs(8);

/// How long receivers may take for the rest, when the senders have nothing more.
const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments of `qsm demo`.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
#[derive(Debug, Clone, Args)]
#[command(after_help = after_help!(
    "qsm demo                           under a minute, on any machine"
    "qsm demo --loss 10 --seconds 40"
    "qsm demo --loopback --quick        without root; a few seconds"
    "qsm demo --ipv6                    the same with IPv6"
))]
pub struct DemoArgs {
    /// Six receivers and a tenth of the groups, for a few seconds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Do without network namespaces, also where they are permitted
    #[arg(long)]
    pub(crate) loopback: bool,
    /// Use IPv6; over loopback that takes a route for multicast, which the error names
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// How long to publish [default: 20, with --quick 3]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Share of packets that every receiver loses, at random
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = loss_ppm)]
    pub(crate) loss: u32,
    /// Publish files from this folder [default: the source tree, and those of the system]
    #[arg(long, value_name = "DIR")]
    pub(crate) files: Option<PathBuf>,
    /// Give up after this long
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// Write the summary as JSON, after everything else
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the demonstration.
///
/// # Errors
/// It cannot be set up, takes too long, or something is missing at the end.
pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    let start = Instant::now();
    let mut director = Director::new(args)?;
    let outcome = director.perform(args);
    director.stage.screen.clear();
    outcome?;
    let mut summary = director.summary(args);
    drop(director);
    summary.took = start.elapsed();
    println!("{}", summary.page());
    if args.json {
        let json = serde_json::to_string(&summary).unwrap_or_default();
        println!("{json}");
    }
    match summary.faults.len() {
        0 => Ok(()),
        faults => Err(Failure::failed(
            format!("the demonstration found {faults} faults"),
            "they are listed above; keep the output, it is worth a report",
        )),
    }
}

struct Director {
    plan: Plan,
    size: Size,
    stage: Stage,
    receivers: Vec<Place>,
    senders: Vec<Place>,
    summary: Summary,
}

impl Director {
    fn new(args: &DemoArgs) -> Result<Self, Failure> {
        let size = if args.quick { Size::Quick } else { Size::Full };
        let stop = Stop::on_signals()?;
        let mut screen = Screen::new(args.published_for() + OVERHEAD);
        let family = if args.ipv6 { Family::V6 } else { Family::V4 };
        let cast = Cast::new(args.loopback, family)?;
        if let Some(why) = &cast.without_lab {
            screen.say(&format!("all on this host, over loopback: {why}"));
        }
        Ok(Self {
            plan: Plan::new(size),
            size,
            stage: Stage::new(cast, screen, stop, Instant::now() + args.timeout),
            receivers: Vec::new(),
            senders: Vec::new(),
            summary: Summary::default(),
        })
    }

    fn perform(&mut self, args: &DemoArgs) -> Result<(), Failure> {
        self.set_up(args)?;
        let published = Instant::now();
        let third = args.published_for() / 3;
        self.stage.run_for("publishing", third)?;
        self.crash()?;
        let rest = args.published_for().saturating_sub(published.elapsed());
        self.stage.run_for("publishing on", rest.max(third / 2))?;
        self.tell(&self.senders.clone(), &Told::Finish);
        let senders = self.senders.clone();
        self.summary.published_for = published.elapsed();
        self.stage
            .wait("waiting until everything is stable", &senders, |state| {
                state.published.is_some()
            })?;
        self.collect()
    }

    /// The service first, then receivers, then senders, each when the former are ready.
    fn set_up(&mut self, args: &DemoArgs) -> Result<(), Failure> {
        let service = self.stage.start("gms", &["gms", "--json"])?;
        self.stage
            .wait_until("starting the membership service", |stage| {
                if stage.service.is_some() {
                    Vec::new()
                } else {
                    vec![service]
                }
            })?;
        let address = self.stage.service.clone().unwrap_or_default();
        let loss = (f64::from(args.loss) / 1e4).to_string();
        let size = self.size.name();
        for index in 0..self.plan.receivers() {
            let name = format!("receiver-{}", index + 1);
            let number = index.to_string();
            let words = [
                "demo-node",
                "--size",
                size,
                "receive",
                "--index",
                &number,
                "--name",
                &name,
                "--service",
                &address,
                "--loss",
                &loss,
            ];
            self.receivers.push(self.stage.start(&name, &words)?);
        }
        let receivers = self.receivers.clone();
        let what = "starting receivers, each subscribing all its groups at once";
        self.stage
            .wait(what, &receivers, |state| state.origin.is_some())?;
        let files = args
            .files
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned());
        for source in Source::ALL {
            let name = format!("sender-{}", source.name());
            let mut words = vec![
                "demo-node",
                "--size",
                size,
                "publish",
                "--source",
                source.name(),
                "--name",
                &name,
                "--service",
                &address,
            ];
            if let Some(files) = &files {
                words.extend(["--files", files]);
            }
            self.senders.push(self.stage.start(&name, &words)?);
        }
        let senders = self.senders.clone();
        self.stage
            .wait("starting senders", &senders, |state| state.origin.is_some())?;
        self.tell(&senders, &Told::Start);
        self.stage.wait(
            "waiting until senders know all receivers",
            &senders,
            |state| state.started,
        )
    }

    /// A receiver is killed, and started again when the others have noticed.
    fn crash(&mut self) -> Result<(), Failure> {
        let victim = self.receivers[self.plan.victim()];
        let senders = self.senders.clone();
        let name = self.stage.cast.name(victim).to_owned();
        let origin = self.stage.states[victim].origin.clone().unwrap_or_default();
        let all = self.plan.members(self.plan.cluster_wide());
        let killed = Instant::now();
        self.stage.kill(victim)?;
        let what = format!("{name} was killed; the others go on");
        self.stage.wait_until(&what, |stage| {
            if stage.excluded.iter().any(|(node, _)| *node == origin) {
                Vec::new()
            } else {
                vec![0]
            }
        })?;
        let excluded = self.stage.excluded.iter().find(|(node, _)| *node == origin);
        let excluded = excluded.map_or_else(Instant::now, |(_, at)| *at);
        self.summary.excluded_after = excluded.duration_since(killed);
        self.stage
            .wait(&what, &senders, |state| state.members < all)?;
        let restarted = Instant::now();
        self.stage.restart(victim)?;
        let what = format!("{name} was restarted and joins again");
        self.stage
            .wait(&what, &[victim], |state| state.origin.is_some())?;
        self.summary.rejoined_after = restarted.elapsed();
        self.tell(&senders, &Told::Mark);
        self.stage.wait(&what, &senders, |state| state.marked)?;
        self.summary.known_after = restarted.elapsed();
        let line = format!(
            "{name} killed: excluded after {}, restarted: back after {}",
            figures::duration(self.summary.excluded_after),
            figures::duration(self.summary.rejoined_after)
        );
        self.stage.screen.say(&line);
        Ok(())
    }

    /// What everybody received, and whether that is what was published.
    fn collect(&mut self) -> Result<(), Failure> {
        let mut evidence = Evidence {
            restarted: Some(self.plan.victim()),
            ..Evidence::default()
        };
        for &sender in &self.senders {
            let state = &self.stage.states[sender];
            let published = state.published.iter().flatten();
            let groups: ByGroup = published.map(|row| (row.group, *row)).collect();
            evidence
                .published
                .insert(state.origin.clone().unwrap_or_default(), groups);
        }
        for (index, &receiver) in self.receivers.iter().enumerate() {
            let ends = self.ends(&evidence, index);
            // Fits for centuries.
            let patience_ms = PATIENCE.as_millis() as u64;
            self.stage
                .cast
                .tell(receiver, &Told::Report { ends, patience_ms });
        }
        let receivers = self.receivers.clone();
        let what = "collecting what was received";
        self.stage
            .wait(what, &receivers, |state| state.received.is_some())?;
        for &receiver in &receivers {
            let received = self.stage.states[receiver].received.take();
            evidence.received.push(received.unwrap_or_default());
        }
        self.compare(&evidence)
    }

    /// What this receiver should have at the end.
    fn ends(&self, evidence: &Evidence, receiver: usize) -> Vec<End> {
        let mut ends = Vec::new();
        for (sender, groups) in &evidence.published {
            let due = groups.values().filter(|row| {
                let before = if evidence.restarted == Some(receiver) {
                    row.mark
                } else {
                    0
                };
                row.count > before && self.plan.receives(receiver, row.group)
            });
            ends.extend(due.map(|row| End {
                group: row.group,
                sender: sender.clone(),
                last: row.count,
            }));
        }
        ends
    }

    fn compare(&mut self, evidence: &Evidence) -> Result<(), Failure> {
        let (faults, claims) = evidence.check(&self.plan);
        self.summary.faults = faults;
        let mut answers: BTreeMap<(String, Range), String> = BTreeMap::new();
        let senders = self.senders.clone();
        for (sender, ranges) in verify::questions(&claims) {
            let place = senders
                .iter()
                .copied()
                .find(|&place| self.stage.states[place].origin.as_deref() == Some(sender.as_str()));
            let Some(place) = place else {
                continue;
            };
            self.stage.cast.tell(
                place,
                &Told::Hash {
                    ranges: ranges.clone(),
                },
            );
            self.stage.wait("comparing SHA-256s", &[place], |state| {
                state.hashes.is_some()
            })?;
            let hashes = self.stage.states[place].hashes.take().unwrap_or_default();
            let keys = ranges.into_iter().map(|range| (sender.clone(), range));
            answers.extend(keys.zip(hashes));
        }
        self.summary
            .faults
            .extend(verify::compare(&self.plan, &claims, &answers));
        self.summary.hashes_compared = claims.len();
        Ok(())
    }

    fn tell(&mut self, who: &[Place], told: &Told) {
        for &place in who {
            self.stage.cast.tell(place, told);
        }
    }

    fn summary(&self, args: &DemoArgs) -> Summary {
        let figures = |who: &[Place]| -> Vec<talk::Figures> {
            who.iter()
                .map(|&place| self.stage.states[place].figures)
                .collect()
        };
        let (receivers, senders) = (figures(&self.receivers), figures(&self.senders));
        let sum = |of: &[talk::Figures], what: fn(&talk::Figures) -> u64| of.iter().map(what).sum();
        let mut medians: Vec<u64> = receivers
            .iter()
            .map(|figures| figures.repair_p50_us)
            .collect();
        // Who repaired nothing has no median.
        medians.retain(|&median| median > 0);
        medians.sort_unstable();
        let median = medians.get(medians.len() / 2).copied().unwrap_or_default();
        let regions = self
            .senders
            .first()
            .map(|&place| &self.stage.states[place].regions);
        let on_hosts = self.stage.cast.without_lab.is_none();
        Summary {
            hosts: if on_hosts { self.stage.cast.count() } else { 0 },
            receivers: receivers.len(),
            senders: senders.len(),
            groups: self.plan.groups.len(),
            regions: regions.cloned().unwrap_or_default(),
            published_messages: sum(&senders, |figures| figures.messages),
            published_bytes: sum(&senders, |figures| figures.bytes),
            received_messages: sum(&receivers, |figures| figures.messages),
            received_bytes: sum(&receivers, |figures| figures.bytes),
            loss_ppm: args.loss,
            injected: sum(&receivers, |figures| figures.injected),
            kernel_drops: sum(&receivers, |figures| figures.kernel_drops),
            from_receivers: sum(&receivers, |figures| figures.from_receivers),
            from_sender: sum(&receivers, |figures| figures.from_sender),
            repair_p50: Duration::from_micros(median),
            ..self.summary.clone()
        }
    }
}

impl DemoArgs {
    fn published_for(&self) -> Duration {
        let default = Duration::from_secs(if self.quick { 3 } else { 20 });
        self.seconds.unwrap_or(default)
    }
}
