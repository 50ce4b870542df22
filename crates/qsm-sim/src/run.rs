//! A run in two phases: safety while things go wrong, then convergence once they do not.

use core::ops::ControlFlow;
use core::time::Duration;
use std::collections::BTreeSet;

use qsm_proto::{FullReaders, Instant, OriginDemand, Reason, Seed, nanoseconds};

use crate::checkers::survivors::{self, Survivors};
use crate::checkers::traffic::{self, Course};
use crate::checkers::{completeness, planes};
use crate::engine::{Task, Turn};
use crate::faults::{Fault, Garbage};
use crate::machine::NodeKind;
use crate::options::SimOptions;
use crate::report::{Failure, Report};
use crate::trace::TraceRow;
use crate::violation::Violation;
use crate::world::World;

/// How often the second phase looks whether everything is at rest.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long there must be no traffic but heartbeats of sessions.
const REST: Duration = Duration::from_secs(3);
/// Traffic that must cease when nobody publishes: all but the membership protocol's.
const RESTLESS: [Reason; 6] = [
    Reason::Token,
    Reason::Ack,
    Reason::Request,
    Reason::Status,
    Reason::Repair,
    Reason::Data,
];

/// How often a run in progress says so, virtual time.
const SAY_EVERY: Duration = Duration::from_millis(100);
/// The checker's name of a run that somebody has stopped.
pub const STOPPED: &str = "stopped";

/// What a run says of itself on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Virtual time.
    pub now: Instant,
    /// Inputs that machines have handled.
    pub inputs: u64,
    /// Messages published.
    pub published: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Whether faults have ended.
    pub settling: bool,
}

/// Hears of a run's progress, and may stop it.
pub type Watch<'a> = &'a mut dyn FnMut(&Progress) -> ControlFlow<()>;

/// A run that can be watched, stopped and looked at afterwards.
#[derive(Debug)]
pub struct Simulation {
    run: Run,
}

impl Simulation {
    /// Starts all processes.
    ///
    /// # Errors
    /// A process cannot be started with these options.
    pub fn new(options: SimOptions) -> Result<Self, Box<Failure>> {
        Self::with(options, NodeKind::Real)
    }

    fn with(options: SimOptions, node_kind: NodeKind) -> Result<Self, Box<Failure>> {
        let seed = options.seed;
        let world = World::new(options, node_kind).map_err(|violation| {
            Box::new(Failure {
                seed,
                at: Instant(0),
                violation,
                replay: String::new(),
                trace: Vec::new(),
                hosts: Vec::new(),
            })
        })?;
        let run = Run::new(world);
        Ok(Self { run })
    }

    /// Both phases, to the end, to the first broken promise, or until `watch` stops it.
    ///
    /// # Errors
    /// The first broken promise; [`STOPPED`] in its place if the run was stopped.
    pub fn run(&mut self, watch: Watch<'_>) -> Result<Report, Box<Failure>> {
        let ended = self.run.both_phases(watch);
        let world = &self.run.world;
        ended.map_err(|violation| {
            let rows = world.engine.trace().rows(&world.names());
            Box::new(Failure {
                seed: world.options.seed,
                at: world.engine.now(),
                violation,
                replay: String::new(),
                trace: rows.iter().map(ToString::to_string).collect(),
                hosts: world.describe(),
            })
        })
    }

    /// What has happened so far.
    #[must_use]
    pub fn report(&self) -> Report {
        self.run.report_so_far()
    }

    /// The last things that happened: as many as [`SimOptions::trace_lines`].
    #[must_use]
    pub fn trace(&self) -> Vec<TraceRow> {
        let world = &self.run.world;
        world.engine.trace().rows(&world.names())
    }
}

/// Runs a simulation with real nodes and a real membership service.
///
/// # Errors
/// The first broken promise.
pub fn run(options: SimOptions) -> Result<Report, Box<Failure>> {
    run_with(options, NodeKind::Real)
}

pub(crate) fn run_with(options: SimOptions, node_kind: NodeKind) -> Result<Report, Box<Failure>> {
    Simulation::with(options, node_kind)?.run(&mut |_| ControlFlow::Continue(()))
}

#[derive(Debug)]
struct Run {
    world: World,
    /// Messages that flows have still to publish.
    left: Vec<u32>,
    /// Whether flows may publish.
    flowing: bool,
    /// When faults ended.
    healed: Option<Instant>,
}

impl Run {
    fn new(world: World) -> Self {
        let left = world
            .options
            .flows
            .iter()
            .map(|flow| flow.messages)
            .collect();
        Self {
            world,
            left,
            flowing: true,
            healed: None,
        }
    }

    fn both_phases(&mut self, watch: Watch<'_>) -> Result<Report, Violation> {
        self.schedule();
        let end = Instant(nanoseconds(self.world.options.duration));
        self.go_on(end, watch)?;
        self.flowing = false;
        self.heal()?;
        let healed = self.world.engine.now();
        self.healed = Some(healed);
        let deadline = healed.after(self.world.options.settle);
        self.converge(deadline, watch)?;
        self.probe(deadline, watch)?;
        self.rest(deadline, watch)?;
        self.report()
    }

    fn schedule(&mut self) {
        let world = &mut self.world;
        for (index, flow) in world.options.flows.iter().enumerate() {
            world.engine.schedule(at(flow.start), Task::Flow(index));
        }
        for (index, (when, _)) in world.options.churn.iter().enumerate() {
            world.engine.schedule(at(*when), Task::Churn(index));
        }
        for (index, (when, _)) in world.options.faults.iter().enumerate() {
            world.engine.schedule(at(*when), Task::Fault(index));
        }
    }

    fn go_on(&mut self, until: Instant, watch: Watch<'_>) -> Result<(), Violation> {
        while self.world.engine.now() < until {
            let say_at = self.world.engine.now().after(SAY_EVERY);
            self.go_on_silently(until.min(say_at))?;
            self.world.inspect()?;
            if watch(&self.progress()).is_break() {
                return Err(Violation::new(STOPPED, "before its end".to_owned()));
            }
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        Progress {
            now: self.world.engine.now(),
            inputs: self.world.engine.inputs(),
            published: self.world.published,
            delivered: self.world.checkers.deliveries,
            settling: self.healed.is_some(),
        }
    }

    fn go_on_silently(&mut self, until: Instant) -> Result<(), Violation> {
        loop {
            match self.world.engine.turn(until)? {
                Turn::Until => return Ok(()),
                Turn::Host(host) => self.world.react(host)?,
                // Applications here publish by the clock, not when the stack asks them.
                Turn::Feed(host) => self.world.engine.feed(host, false),
                Turn::Task(Task::Flow(flow)) => self.flow(flow)?,
                Turn::Task(Task::Churn(churn)) => self.churn(churn)?,
                Turn::Task(Task::Fault(fault)) => self.fault(fault)?,
            }
        }
    }

    fn flow(&mut self, index: usize) -> Result<(), Violation> {
        let flow = self.world.options.flows[index];
        for _ in 0..flow.burst.min(self.left[index]) {
            if !self.flowing || !self.world.publish(flow.host, flow.group)? {
                break;
            }
            self.left[index] -= 1;
        }
        if self.flowing && self.left[index] > 0 {
            self.world.schedule_flow(index);
        }
        Ok(())
    }

    fn churn(&mut self, index: usize) -> Result<(), Violation> {
        let (_, churn) = self.world.options.churn[index];
        let role = (churn.group, churn.role);
        let app = &self.world.apps[churn.host];
        let idle = app.roles.contains(&role) == churn.enter || app.closing;
        if idle || !self.world.engine.is_running(churn.host) {
            return Ok(());
        }
        self.world.disturbances += 1;
        self.world.coverage.change(churn.enter);
        self.world
            .change(churn.host, churn.role, &[churn.group], churn.enter)
    }

    fn fault(&mut self, index: usize) -> Result<(), Violation> {
        let world = &mut self.world;
        let (_, fault) = world.options.faults[index].clone();
        world.disturbances += 1;
        world.coverage.count(&fault, &world.options);
        world.engine.note(0, format!("fault {fault:?}"));
        match fault {
            Fault::Crash { host } => world.stop(host),
            Fault::Restart { host, same_node } => world.start(host, same_node)?,
            Fault::Close { host } if world.engine.is_running(host) => {
                world.apps[host].closing = true;
                world.engine.watch(host);
                world
                    .engine
                    .drive(host, |machine, now, _| machine.close(now))?;
                world.react(host)?;
            }
            // A process that stands still cannot close itself.
            Fault::Close { .. } => {}
            Fault::Freeze { host, time } => {
                let until = world.engine.now().after(time);
                world.engine.freeze(host, until);
            }
            Fault::Split {
                from,
                to,
                both_ways,
            } => {
                world.engine.network().split(&from, &to);
                if both_ways {
                    world.engine.network().split(&to, &from);
                }
            }
            Fault::Sleep { host, time } => {
                let until = world.engine.now().after(time);
                world.engine.sleep(host, until);
            }
            Fault::Slow {
                host,
                per_datagram,
                time,
            } => {
                let until = world.engine.now().after(time);
                world.engine.slow_down(host, per_datagram, until);
            }
            Fault::Full { host } => self.set_full(host, FullReaders::All)?,
            Fault::Read { host } => self.set_full(host, FullReaders::None)?,
            Fault::Clog { from, to, time } => {
                let until = world.engine.now().after(time);
                world.engine.network().clog(&from, &to, until);
            }
            Fault::Narrow { bytes, time } => {
                let until = world.engine.now().after(time);
                world.engine.network().narrow(bytes, until);
            }
            Fault::Outage { network, time } => {
                let until = world.engine.now().after(time);
                world.engine.network().fail(network, until);
            }
            Fault::Filter { from, to, time } => {
                let until = world.engine.now().after(time);
                world.engine.network().filter(&from, &to, until);
            }
            Fault::Heal => world.engine.network().heal(),
            Fault::Doom { host, packets } => world.engine.network().doom(host, packets),
            Fault::Foreign { host } => self.world.meet_foreign(host)?,
            Fault::Garbage { host, kind, count } => self.garbage(host, kind, count),
        }
        Ok(())
    }

    /// The application on this host reads no more, or again.
    fn set_full(&mut self, host: usize, full: FullReaders) -> Result<(), Violation> {
        let engine = &mut self.world.engine;
        engine.drive(host, |machine, now, _| machine.set_full_readers(now, full))?;
        self.world.react(host)
    }

    fn garbage(&mut self, host: usize, kind: Garbage, count: u32) {
        let world = &mut self.world;
        for _ in 0..count {
            let draw = world.random.bits();
            let seed = Seed(world.random.bits());
            let Some(model) = world.engine.sample(draw) else {
                continue;
            };
            let Some(datagram) = kind.make(&model.bytes, seed) else {
                continue;
            };
            let proven = world.options.origin == Some(OriginDemand::Verified);
            let told = world.options.tagged || proven && kind == Garbage::InName;
            world.checkers.armed &= told || !kind.is_forgery();
            *world.coverage.garbage.of(kind) += 1;
            let target = match kind {
                Garbage::Replayed => world.engine.receivers(model.to),
                _ => vec![host],
            };
            for host in target {
                world.engine.inject(&model, host, &datagram);
            }
        }
    }

    /// All faults end. Hosts that are down stay down, except membership services.
    fn heal(&mut self) -> Result<(), Violation> {
        let world = &mut self.world;
        world.engine.note(0, "faults end".to_owned());
        world.engine.network().repair();
        let now = world.engine.now();
        for host in 0..=world.options.nodes {
            world.engine.slow_down(host, Duration::ZERO, now);
            if world.engine.machine(host).is_some() && !world.engine.is_running(host) {
                world.engine.freeze(host, now);
            }
        }
        if let Some(insider) = &world.options.insider {
            // It is found out.
            world.stop(insider.host);
        }
        let services: Vec<usize> = world.options.services().collect();
        for host in services {
            if world.engine.machine(host).is_none() {
                world.start(host, true)?;
            }
        }
        let full = |fault: &Fault| match fault {
            Fault::Full { host } => Some(*host),
            _ => None,
        };
        let faults = world.options.faults.iter();
        let full: BTreeSet<usize> = faults.filter_map(|(_, fault)| full(fault)).collect();
        full.into_iter()
            .try_for_each(|host| self.set_full(host, FullReaders::None))
    }

    /// Waits until all senders see the right members.
    fn converge(&mut self, deadline: Instant, watch: Watch<'_>) -> Result<(), Violation> {
        loop {
            let Some(difference) = self.world.disagreement() else {
                return Ok(());
            };
            if !self.world.checkers.judges() && self.world.engine.now() >= deadline {
                return Ok(());
            }
            self.wait(deadline, watch, "views", || difference)?;
        }
    }

    /// Every sender publishes one more message to each of its groups.
    fn probe(&mut self, deadline: Instant, watch: Watch<'_>) -> Result<(), Violation> {
        let senders: Vec<_> = self.world.senders().collect();
        for (host, group, origin) in senders {
            while self.world.apps[host].origin == Some(origin)
                && !self.world.publish(host, group)?
                && self.world.checkers.judges()
            {
                self.wait(deadline, watch, "progress", || {
                    format!("{origin} cannot publish to group {group}")
                })?;
            }
        }
        Ok(())
    }

    /// Waits until everything has been delivered and only sessions have heartbeats.
    fn rest(&mut self, deadline: Instant, watch: Watch<'_>) -> Result<(), Violation> {
        // Nobody publishes any more: what is complete once remains so.
        let mut complete = !self.world.checkers.judges();
        loop {
            if self.world.checkers.armed {
                let (now, waiting) = (self.world.engine.now(), self.world.waiting());
                self.world.checkers.liveness.check(now, &waiting)?;
            }
            if !complete
                && let Some(missing) = completeness::first_missing(&self.world.checkers.history)
            {
                self.wait(deadline, watch, "completeness", || missing.to_string())?;
                continue;
            }
            complete = true;
            let Some(reason) = self.restless() else {
                // A host that stood still to the end of the faults has yet to hear of them.
                let Some(unsettled) = self.unsettled() else {
                    return Ok(());
                };
                self.wait(deadline, watch, unsettled.checker, || unsettled.message)?;
                continue;
            };
            if !self.world.checkers.judges() && self.world.engine.now() >= deadline {
                return Ok(());
            }
            self.wait(deadline, watch, "rest", || {
                format!("datagrams of kind {reason:?} are still sent")
            })?;
        }
    }

    /// Finds what survivors do not agree about yet, or plans have yet to keep.
    fn unsettled(&self) -> Option<Violation> {
        let checkers = &self.world.checkers;
        let survivors = checkers.armed.then(|| survivors::check(&checkers.history));
        survivors
            .and_then(Result::err)
            .or_else(|| self.world.unkept())
            .or_else(|| self.world.unmoved())
    }

    fn restless(&self) -> Option<Reason> {
        let traffic = self.world.engine.traffic();
        let now = self.world.engine.now();
        RESTLESS.into_iter().find(|reason| {
            let reason = *reason as usize;
            traffic.counts[reason] > 0 && now.since(traffic.last[reason]) < REST
        })
    }

    fn wait(
        &mut self,
        deadline: Instant,
        watch: Watch<'_>,
        checker: &'static str,
        message: impl FnOnce() -> String,
    ) -> Result<(), Violation> {
        let now = self.world.engine.now();
        if now >= deadline {
            let settle = self.world.options.settle;
            let message = format!("{} (after {settle:?} without faults)", message());
            return Err(Violation::new(checker, message));
        }
        self.go_on(now.after(LOOK_EVERY), watch)
    }

    fn report(&mut self) -> Result<Report, Violation> {
        let world = &mut self.world;
        let survivors = world.checkers.finish(&world.options.prompt)?;
        let network = world.engine.network().counters();
        if world.checkers.armed {
            let course = Course {
                nodes: world.options.nodes as u64,
                seconds: world.engine.now().0 / 1_000_000_000,
                regions: world.checkers.agreement.regions(),
                disturbances: world.disturbances,
                parities_ahead: traffic::parities_ahead(&world.options),
            };
            world.judge_filtered()?;
            let totals = world.totals();
            traffic::check(world.engine.traffic(), &network, &totals, course)?;
            if world.disturbances == 0 && world.options.recovery.fast {
                planes::check(&totals, &network)?;
            }
        }
        let ended = world.engine.now();
        let settled = ended.since(self.healed.unwrap_or(ended));
        Ok(Report {
            survivors,
            settled_ns: nanoseconds(settled),
            ..self.report_so_far()
        })
    }

    fn report_so_far(&self) -> Report {
        let world = &self.world;
        let lives = world.checkers.history.lives().values();
        Report {
            seed: world.options.seed,
            digest: world.engine.digest(),
            ended: world.engine.now(),
            settled_ns: 0,
            inputs: world.engine.inputs(),
            published: world.published,
            refused: world.refused,
            delivered: world.checkers.deliveries,
            deaths: lives.filter(|life| life.died()).count() as u64,
            survivors: Survivors::default(),
            network: world.engine.network_counters(),
            stable: world.stability.latency(),
            repairs: world.repairs(),
            round_ns: world.round_ns(),
            senders: world.sender_packets(),
            coverage: world
                .coverage
                .with_refused(world.engine.refused(), world.engine.lies()),
            traffic: world.engine.traffic().counts,
            stats: world.totals(),
            hosts: world.counters(),
        }
    }
}

fn at(when: Duration) -> Instant {
    Instant(nanoseconds(when))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::hosts::node_id;
    use crate::mischief::Mischief;
    use crate::workload::Flow;
    use qsm_testnet::{Cause, NetworkOptions};

    const NODES: usize = 4;

    fn options(seed: u64) -> SimOptions {
        SimOptions {
            flows: vec![Flow {
                messages: 200,
                ..Flow::new(1, 0)
            }],
            sizes: crate::content::Sizes::SMALL,
            network: NetworkOptions {
                loss_ppm: 20_000,
                duplicate_ppm: 20_000,
                jitter: Duration::from_millis(1),
                ..NetworkOptions::PERFECT
            },
            drift_ppm_max: 100,
            ..SimOptions::quiet(Seed(seed), NODES)
        }
    }

    fn toys(options: SimOptions) -> Result<Report, Box<Failure>> {
        let seed = options.seed;
        let peer = |host: usize| {
            let last = u8::try_from(host + 1).unwrap();
            let address = SocketAddr::from(([10, 0, 0, last], 4484));
            (address, node_id(seed, host, 0))
        };
        run_with(options, NodeKind::Toys((1..=NODES).map(peer).collect()))
    }

    fn caught(mischief: Mischief) -> &'static str {
        let options = SimOptions {
            mischief,
            ..options(3)
        };
        toys(options).unwrap_err().violation.checker
    }

    #[test]
    fn a_lossy_run_delivers_everything_everywhere() {
        let report = toys(options(1)).unwrap();
        assert_eq!(report.published, 201);
        assert_eq!(report.delivered, 201 * 3);
        assert!(report.network.lost() > 0 && report.network.duplicated > 0);
    }

    #[test]
    fn the_same_seed_gives_the_same_digest_and_another_one_does_not() {
        let first = toys(options(7)).unwrap();
        assert_eq!(first, toys(options(7)).unwrap());
        assert_ne!(first.digest, toys(options(8)).unwrap().digest);
    }

    #[test]
    fn a_frozen_receiver_catches_up() {
        let time = Duration::from_secs(2);
        let options = SimOptions {
            faults: vec![(Duration::from_millis(1500), Fault::Freeze { host: 2, time })],
            ..options(2)
        };
        assert_eq!(toys(options).unwrap().delivered, 201 * 3);
    }

    #[test]
    fn a_split_that_never_heals_by_itself_is_healed_for_the_second_phase() {
        let split = Fault::Split {
            from: vec![1],
            to: vec![2, 3],
            both_ways: true,
        };
        let options = SimOptions {
            faults: vec![(Duration::from_millis(1500), split)],
            ..options(2)
        };
        let report = toys(options).unwrap();
        assert!(report.network.of(Cause::Split) > 0);
        assert_eq!(report.delivered, report.published * 3);
    }

    /// The alarm works: each kind of spoilt delivery is caught by its checker.
    #[test]
    fn spoilt_deliveries_are_caught() {
        assert_eq!(caught(Mischief::Drop { every: 50 }), "order");
        assert_eq!(caught(Mischief::Double { every: 50 }), "duplicate");
        // Without a later message there is no gap to see: only the end shows it.
        assert_eq!(caught(Mischief::Drop { every: 201 * 3 }), "completeness");
        assert_eq!(caught(Mischief::Corrupt { every: 50 }), "creation");
    }

    #[test]
    fn a_failure_shows_what_happened_last() {
        let options = SimOptions {
            mischief: Mischief::Drop { every: 50 },
            ..options(5)
        };
        let failure = toys(options).unwrap_err();
        assert_eq!(failure.hosts.len(), NODES + 1);
        assert!(!failure.trace.is_empty());
        assert!(failure.to_string().contains("without a word"), "{failure}");
    }
}
