//! A run in two phases: safety while things go wrong, then convergence once they do not.

use core::time::Duration;

use qsm_proto::{Instant, Reason, Seed, nanoseconds};

use crate::checkers::{completeness, traffic};
use crate::engine::{Task, Turn};
use crate::faults::{Fault, Garbage};
use crate::machine::Cast;
use crate::options::SimOptions;
use crate::report::{Failure, Report};
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

/// Runs a simulation with real nodes and a real membership service.
///
/// # Errors
/// The first broken promise.
pub fn run(options: SimOptions) -> Result<Report, Box<Failure>> {
    run_with(options, Cast::Real)
}

pub(crate) fn run_with(options: SimOptions, cast: Cast) -> Result<Report, Box<Failure>> {
    let seed = options.seed;
    let failed = |violation, world: Option<&World>| {
        Box::new(Failure {
            seed,
            at: world.map_or(Instant(0), |world| world.engine.now()),
            violation,
            replay: format!("qsm sim run --seed {seed}"),
            trace: world.map_or_else(Vec::new, |world| world.engine.trace_lines()),
            hosts: world.map_or_else(Vec::new, World::describe),
        })
    };
    let world = World::new(options, cast).map_err(|violation| failed(violation, None))?;
    let mut run = Run::new(world);
    match run.both_phases() {
        Ok(report) => Ok(report),
        Err(violation) => Err(failed(violation, Some(&run.world))),
    }
}

#[derive(Debug)]
struct Run {
    world: World,
    /// Messages that flows have still to publish.
    left: Vec<u32>,
    /// Whether flows may publish.
    flowing: bool,
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
        }
    }

    fn both_phases(&mut self) -> Result<Report, Violation> {
        self.schedule();
        let end = Instant(nanoseconds(self.world.options.duration));
        self.go_on(end)?;
        self.flowing = false;
        self.heal()?;
        let healed = self.world.engine.now();
        let deadline = healed.after(self.world.options.settle);
        self.converge(deadline)?;
        self.probe(deadline)?;
        self.rest(deadline)?;
        self.report(healed)
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

    fn go_on(&mut self, until: Instant) -> Result<(), Violation> {
        loop {
            match self.world.engine.turn(until)? {
                Turn::Until => return Ok(()),
                Turn::Host(host) => self.world.react(host)?,
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
        world.coverage.count(&fault);
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
            Fault::Clog { from, to, time } => {
                let until = world.engine.now().after(time);
                world.engine.network().clog(&from, &to, until);
            }
            Fault::Narrow { bytes, time } => {
                let until = world.engine.now().after(time);
                world.engine.network().narrow(bytes, until);
            }
            Fault::Heal => world.engine.network().heal(),
            Fault::Doom { host, packets } => world.engine.network().doom(host, packets),
            Fault::Garbage { host, kind, count } => self.garbage(host, kind, count),
        }
        Ok(())
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
            world.checkers.armed &= !kind.is_forgery();
            world.coverage.garbage[kind as usize] += 1;
            let target = match kind {
                Garbage::Replayed => world.engine.network().receivers(model.to),
                _ => vec![host],
            };
            for host in target {
                world.engine.inject(model.from, host, &datagram);
            }
        }
    }

    /// All faults end. Hosts that are down stay down, except the membership service.
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
        if world.engine.machine(0).is_none() {
            world.start(0, true)?;
        }
        Ok(())
    }

    /// Waits until all senders see the right members.
    fn converge(&mut self, deadline: Instant) -> Result<(), Violation> {
        loop {
            let Some(difference) = self.world.disagreement() else {
                return Ok(());
            };
            if !self.world.checkers.armed && self.world.engine.now() >= deadline {
                return Ok(());
            }
            self.wait(deadline, "views", || difference)?;
        }
    }

    /// Every sender publishes one more message to each of its groups.
    fn probe(&mut self, deadline: Instant) -> Result<(), Violation> {
        let senders: Vec<_> = self.world.senders().collect();
        for (host, group, origin) in senders {
            while self.world.apps[host].origin == Some(origin)
                && !self.world.publish(host, group)?
                && self.world.checkers.armed
            {
                self.wait(deadline, "progress", || {
                    format!("{origin} cannot publish to group {group}")
                })?;
            }
        }
        Ok(())
    }

    /// Waits until everything has been delivered and only sessions have heartbeats.
    fn rest(&mut self, deadline: Instant) -> Result<(), Violation> {
        loop {
            if let Some(missing) = completeness::first_missing(&self.world.checkers.history)
                .filter(|_| self.world.checkers.armed)
            {
                self.wait(deadline, "completeness", || missing.to_string())?;
                continue;
            }
            let Some(reason) = self.restless() else {
                return Ok(());
            };
            if !self.world.checkers.armed && self.world.engine.now() >= deadline {
                return Ok(());
            }
            self.wait(deadline, "rest", || {
                format!("datagrams of kind {reason:?} are still sent")
            })?;
        }
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
        checker: &'static str,
        message: impl FnOnce() -> String,
    ) -> Result<(), Violation> {
        let now = self.world.engine.now();
        if now >= deadline {
            let settle = self.world.options.settle;
            let message = format!("{} (after {settle:?} without faults)", message());
            return Err(Violation::new(checker, message));
        }
        self.go_on(now.after(LOOK_EVERY))
    }

    fn report(&mut self, healed: Instant) -> Result<Report, Violation> {
        let world = &mut self.world;
        let survivors = world.checkers.finish()?;
        let network = world.engine.network().counters();
        if world.checkers.armed {
            traffic::check(world.engine.traffic(), &network, world.disturbances)?;
        }
        let digest = world.engine.digest();
        let ended = world.engine.now();
        let inputs = world.engine.inputs();
        let lives = world.checkers.history.lives().values();
        let deaths = lives.filter(|life| life.ended.is_some()).count() as u64;
        for host in 0..=world.options.nodes {
            world.stop(host);
        }
        Ok(Report {
            seed: world.options.seed,
            digest,
            ended,
            settled_ns: nanoseconds(ended.since(healed)),
            inputs,
            published: world.published,
            refused: world.refused,
            delivered: world.checkers.deliveries,
            deaths,
            survivors,
            network,
            coverage: world.coverage,
            traffic: world.engine.traffic().counts,
            stats: world.totals.clone(),
        })
    }
}

fn at(when: Duration) -> Instant {
    Instant(nanoseconds(when))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::machine::Mischief;
    use crate::network::{Cause, NetworkOptions};
    use crate::workload::Flow;
    use qsm_proto::mix;
    use qsm_wire::NodeId;

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
            (address, NodeId(mix(seed ^ ((host as u64) << 32))))
        };
        run_with(options, Cast::Toys((1..=NODES).map(peer).collect()))
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
    fn a_failure_says_how_to_see_it_again() {
        let options = SimOptions {
            mischief: Mischief::Drop { every: 50 },
            ..options(5)
        };
        let failure = toys(options).unwrap_err();
        assert_eq!(failure.replay, "qsm sim run --seed 5");
        assert_eq!(failure.hosts.len(), NODES + 1);
        assert!(!failure.trace.is_empty());
        assert!(failure.to_string().contains("without a word"), "{failure}");
    }
}
