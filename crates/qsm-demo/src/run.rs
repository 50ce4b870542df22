//! One run of the demonstration: the steps, from the first process to the verdict.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use qsm::{Cipher, Exporter, Family};
use qsm_console::failure::Failure;
use qsm_console::figures;
use qsm_console::stop::Stop;
use qsm_processes::{Gathering, ProcessGroup, ProcessIndex, Protection};

use crate::DemoArgs;
use crate::inboxes::Inboxes;
use crate::messages::{self, DemoCommand, End, Range};
use crate::plan::{Plan, Size, Source};
use crate::processes::DemoProcesses;
use crate::screen::Screen;
use crate::summary::Summary;
use crate::verify::{self, ByGroup, Evidence};

/// Time that setting up and comparing take beside publishing, for the progress bar.
const OVERHEAD: Duration = Duration::from_secs(8);

/// Time that receivers have for the rest, when the senders have nothing more.
const PATIENCE: Duration = Duration::from_secs(10);
/// The cluster of its processes, which are told of none: the default.
const CLUSTER: &str = "default";

/// A demonstration in progress: its processes, and what is known of them.
pub(crate) struct DemoRun {
    plan: Plan,
    size: Size,
    pub(crate) processes: DemoProcesses,
    receivers: Vec<ProcessIndex>,
    senders: Vec<ProcessIndex>,
    summary: Summary,
    /// Serves the metrics of all processes as long as it lives.
    _metrics: Option<Exporter>,
}

impl DemoRun {
    pub(crate) fn new(args: &DemoArgs) -> Result<Self, Failure> {
        let size = if args.quick { Size::Quick } else { Size::Full };
        let stop = Stop::on_signals()?;
        let mut screen = Screen::new(args.published_for() + OVERHEAD);
        let family = if args.ipv6 { Family::V6 } else { Family::V4 };
        let mut group = ProcessGroup::new(args.loopback, family)?;
        let metrics = args.metrics.map(Gathering::serve).transpose()?;
        if let Some((gathering, _)) = &metrics {
            group.gather(gathering);
        }
        if args.tokens {
            group.protect(Protection::Tokens, Cipher::default(), CLUSTER)?;
        }
        if let Some(why) = &group.without_lab {
            screen.say(&format!("all on this host, over loopback: {why}"));
        }
        Ok(Self {
            plan: Plan::new(size),
            size,
            processes: DemoProcesses::new(group, screen, stop, Instant::now() + args.timeout),
            receivers: Vec::new(),
            senders: Vec::new(),
            summary: Summary::default(),
            _metrics: metrics.map(|(_, exporter)| exporter),
        })
    }

    pub(crate) fn run(&mut self, args: &DemoArgs) -> Result<(), Failure> {
        self.set_up(args)?;
        let published = Instant::now();
        let third = args.published_for() / 3;
        self.processes.run_for("publishing", third)?;
        self.crash()?;
        let rest = args.published_for().saturating_sub(published.elapsed());
        self.processes
            .run_for("publishing on", rest.max(third / 2))?;
        self.tell(&self.senders.clone(), &DemoCommand::Finish);
        let senders = self.senders.clone();
        self.summary.published_for = published.elapsed();
        self.processes
            .wait("waiting until everything is stable", &senders, |state| {
                state.published.is_some()
            })?;
        self.collect()
    }

    /// The service first, then receivers, then senders, each when the former are ready.
    fn set_up(&mut self, args: &DemoArgs) -> Result<(), Failure> {
        let service = self.processes.start("gms", &["gms", "--json"])?;
        self.processes
            .wait_until("starting the membership service", |processes| {
                if processes.service.is_some() {
                    Vec::new()
                } else {
                    vec![service]
                }
            })?;
        let address = self.processes.service.clone().unwrap_or_default();
        let loss = (f64::from(args.loss) / 1e4).to_string();
        let size = self.size.name();
        for index in 0..self.plan.receivers() {
            let name = format!("receiver-{}", index + 1);
            let number = index.to_string();
            // The last one is on a network that carries no multicast, as it were.
            let last = index + 1 == self.plan.receivers();
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
                "--multicast",
                if last { "none" } else { "asm" },
            ];
            self.receivers.push(self.processes.start(&name, &words)?);
        }
        let receivers = self.receivers.clone();
        let what = "starting receivers, each subscribing all its groups at once";
        self.processes
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
            self.senders.push(self.processes.start(&name, &words)?);
        }
        let senders = self.senders.clone();
        self.processes
            .wait("starting senders", &senders, |state| state.origin.is_some())?;
        self.tell(&senders, &DemoCommand::Start);
        self.processes.wait(
            "waiting until senders know all receivers",
            &senders,
            |state| state.started,
        )
    }

    /// A receiver is killed, and started again when the others have noticed.
    fn crash(&mut self) -> Result<(), Failure> {
        let victim = self.receivers[self.plan.victim()];
        let senders = self.senders.clone();
        let name = self.processes.group.name(victim).to_owned();
        let origin = self.processes.states[victim]
            .origin
            .clone()
            .unwrap_or_default();
        let all = self.plan.members(self.plan.cluster_wide());
        let killed = Instant::now();
        self.processes.kill(victim)?;
        let what = format!("{name} was killed; the others go on");
        self.processes.wait_until(&what, |processes| {
            if processes.excluded.iter().any(|(node, _)| *node == origin) {
                Vec::new()
            } else {
                vec![0]
            }
        })?;
        let excluded = self
            .processes
            .excluded
            .iter()
            .find(|(node, _)| *node == origin);
        let excluded = excluded.map_or_else(Instant::now, |(_, at)| *at);
        self.summary.excluded_after = excluded.duration_since(killed);
        self.processes
            .wait(&what, &senders, |state| state.members < all)?;
        let restarted = Instant::now();
        self.processes.restart(victim)?;
        let what = format!("{name} was restarted and joins again");
        self.processes
            .wait(&what, &[victim], |state| state.origin.is_some())?;
        self.summary.rejoined_after = restarted.elapsed();
        self.tell(&senders, &DemoCommand::Mark);
        self.processes.wait(&what, &senders, |state| state.marked)?;
        self.summary.known_after = restarted.elapsed();
        let line = format!(
            "{name} killed: excluded after {}, restarted: back after {}",
            figures::duration(self.summary.excluded_after),
            figures::duration(self.summary.rejoined_after)
        );
        self.processes.screen.say(&line);
        Ok(())
    }

    /// Collects what everybody received, and compares it with what was published.
    fn collect(&mut self) -> Result<(), Failure> {
        let mut evidence = Evidence {
            restarted: Some(self.plan.victim()),
            ..Evidence::default()
        };
        for &sender in &self.senders {
            let state = &self.processes.states[sender];
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
            self.processes
                .group
                .tell(receiver, &DemoCommand::Report { ends, patience_ms });
        }
        let receivers = self.receivers.clone();
        let what = "collecting what was received";
        self.processes
            .wait(what, &receivers, |state| state.received.is_some())?;
        for &receiver in &receivers {
            let received = self.processes.states[receiver].received.take();
            evidence.received.push(received.unwrap_or_default());
        }
        self.compare(&evidence)
    }

    /// Returns the streams that this receiver should have at the end.
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
            let process = senders.iter().copied().find(|&process| {
                self.processes.states[process].origin.as_deref() == Some(sender.as_str())
            });
            let Some(process) = process else {
                continue;
            };
            self.processes.group.tell(
                process,
                &DemoCommand::Hash {
                    ranges: ranges.clone(),
                },
            );
            self.processes
                .wait("comparing SHA-256s", &[process], |state| {
                    state.hashes.is_some()
                })?;
            let hashes = self.processes.states[process]
                .hashes
                .take()
                .unwrap_or_default();
            let keys = ranges.into_iter().map(|range| (sender.clone(), range));
            answers.extend(keys.zip(hashes));
        }
        self.summary
            .faults
            .extend(verify::compare(&self.plan, &claims, &answers));
        self.summary.hashes_compared = claims.len();
        self.summary.inboxes = self.inboxes();
        self.summary.faults.extend(self.summary.inboxes.faults());
        let mut receivers = self.receivers.iter();
        if receivers.all(|receiver| self.processes.states[*receiver].figures.copies == 0) {
            let fault = "the receiver without multicast got no copies";
            self.summary.faults.push(fault.to_owned());
        }
        Ok(())
    }

    /// What the inboxes came to, by the sender that writes into them.
    fn inboxes(&self) -> Inboxes {
        let at = Source::ALL
            .iter()
            .position(|&source| source == Source::Letters);
        let sender = at.and_then(|at| self.senders.get(at));
        let Some(state) = sender.map(|&process| &self.processes.states[process]) else {
            return Inboxes::default();
        };
        let published = |inboxes: bool| -> u64 {
            let rows = state.published.iter().flatten();
            let rows = rows.filter(|row| self.plan.is_inbox(row.group) == inboxes);
            rows.map(|row| row.count).sum()
        };
        Inboxes {
            inboxes: self.plan.receivers(),
            dividing: self.plan.companions(),
            letters: published(true),
            announcements: published(false),
            packets: state.figures.packets,
            private_regions: state.private_regions,
            regions_without: self.plan.regions(),
        }
    }

    fn tell(&mut self, processes: &[ProcessIndex], told: &DemoCommand) {
        for &process in processes {
            self.processes.group.tell(process, told);
        }
    }

    pub(crate) fn summary(&self, args: &DemoArgs) -> Summary {
        let figures = |processes: &[ProcessIndex]| -> Vec<messages::Figures> {
            processes
                .iter()
                .map(|&process| self.processes.states[process].figures)
                .collect()
        };
        let (receivers, senders) = (figures(&self.receivers), figures(&self.senders));
        let sum = |of: &[messages::Figures], what: fn(&messages::Figures) -> u64| {
            of.iter().map(what).sum()
        };
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
            .map(|&process| &self.processes.states[process].regions);
        let on_hosts = self.processes.group.without_lab.is_none();
        Summary {
            hosts: if on_hosts {
                self.processes.group.count()
            } else {
                0
            },
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
            copies: sum(&receivers, |figures| figures.copies),
            repair_p50: Duration::from_micros(median),
            ..self.summary.clone()
        }
    }
}
