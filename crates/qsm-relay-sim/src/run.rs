//! One run: a plan carried out, and judged.

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use qsm_relay::{RateBounds, SendError};
use qsm_wire::{Instant, Random, Seed, mix};

use crate::checkers::Checkers;
use crate::link::{Bottleneck, Link, Loss};
use crate::mischief::Mischief;
use crate::network::{Network, SESSION, SOURCE};
use crate::plan::{Fault, Kind, NARROW_PAYLOAD_BYTES, Plan};
use crate::step::{Step, Told};
use crate::violation::Violation;

/// Time that all may take to join.
const JOIN_MAX: Duration = Duration::from_secs(60);
/// Time that the stream may take, from its beginning: at some percent of loss on each of several
/// links an adapted rate is low.
const STREAM_MAX: Duration = Duration::from_secs(900);
/// Packets that wait for their time at the source at most.
const WAITING_MAX: u64 = 64;
/// Steps that a failure shows.
const TRACE_MAX: usize = 60;
/// Most memory of a session at a relay that nothing is asked for, bytes: with 50 children (R172).
const SESSION_BYTES_MAX: usize = 6144;

/// Outcome of a run that kept all promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Hash over everything that was sent and told.
    pub digest: u64,
    /// Virtual time at its end.
    pub ended: Instant,
    /// Packets that applications got.
    pub delivered: u64,
    /// Packets that applications were told are lost.
    pub lost: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Faults that have happened.
    pub faults: u64,
}

/// A broken promise of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The promise.
    pub violation: Violation,
    /// Virtual time.
    pub at: Instant,
    /// The last steps before it.
    pub trace: Vec<Step>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.trace {
            writeln!(f, "  {step}")?;
        }
        write!(f, "at {} s: {}", self.at, self.violation)
    }
}

/// Next step of a run.
#[derive(Debug, Clone, Copy)]
enum Due {
    Fault(usize),
    /// A node is started again.
    Start(usize),
    /// A link is whole again.
    Mend(usize),
}

/// A run that goes on.
struct Simulation<'a> {
    plan: &'a Plan,
    network: Network,
    checkers: Checkers,
    random: Random,
    agenda: BTreeMap<(Instant, usize), Due>,
    trace: VecDeque<Step>,
    report: Report,
}

/// Carries out a plan, with a bug if one is named.
///
/// # Errors
/// The first broken promise.
pub fn run(plan: &Plan, mischief: Mischief) -> Result<Report, Box<Failure>> {
    let mut simulation = Simulation::new(plan, mischief);
    let outcome = simulation.all();
    outcome.map_err(|violation| {
        Box::new(Failure {
            violation,
            at: simulation.network.now(),
            trace: simulation.trace.into_iter().collect(),
        })
    })
}

fn broken(checker: &'static str, message: String) -> Result<(), Violation> {
    Err(Violation::new(checker, message))
}

impl<'a> Simulation<'a> {
    fn new(plan: &'a Plan, mischief: Mischief) -> Self {
        let mut network = Network::new(plan.seed, plan.link, plan.window);
        network.spoil(mischief);
        if plan.rated {
            network.source_mut().adapt_rate(RateBounds::default());
        }
        for parent in &plan.relays {
            network.add_relay(*parent);
        }
        if let Some((rate, queue)) = plan.bottleneck {
            let mut bottleneck = Bottleneck::new(rate, queue);
            if let Some(mark) = plan.mark {
                network.source_mut().use_marks();
                bottleneck = bottleneck.marking(mark);
            }
            network.narrow(SOURCE, 1, bottleneck);
            network.set_payload_bytes(NARROW_PAYLOAD_BYTES);
        }
        for (at, bytes) in plan.caches.iter().enumerate() {
            network.set_cache(at + 1, *bytes);
        }
        if plan.parity {
            network.send_parity();
        }
        for parent in &plan.receivers {
            network.add_receiver(*parent);
        }
        for (node, parent) in &plan.standby {
            network.add_standby(*node, *parent);
        }
        for (node, link) in &plan.links {
            if let Some(parent) = network.parent_of(*node) {
                network.set_link(parent, *node, *link);
            }
        }
        let checkers = Checkers::new(plan, &network);
        Self {
            plan,
            network,
            checkers,
            random: Random::new(Seed(plan.seed), "stream"),
            agenda: BTreeMap::new(),
            trace: VecDeque::new(),
            report: Report {
                digest: mix(plan.seed),
                ended: Instant(0),
                delivered: 0,
                lost: 0,
                sent: 0,
                faults: 0,
            },
        }
    }

    fn all(&mut self) -> Result<Report, Violation> {
        self.join()?;
        self.stream()?;
        self.finish()?;
        self.checkers.end(self.plan, &self.network)?;
        self.rest()?;
        self.report.ended = self.network.now();
        self.report.lost = self.checkers.lost();
        Ok(self.report)
    }

    fn receivers(&self) -> core::ops::Range<usize> {
        let first = 1 + self.plan.relays.len();
        first..first + self.plan.receivers.len()
    }

    fn join(&mut self) -> Result<(), Violation> {
        let all = self.plan.receivers.len();
        let end = self.network.now().after(JOIN_MAX);
        while usize::try_from(self.network.source().receivers()) != Ok(all) {
            if self.network.now() >= end {
                let known = self.network.source().receivers();
                return broken(
                    "join",
                    format!("the source knows {known} of {all} receivers"),
                );
            }
            self.go(Duration::from_millis(1))?;
        }
        Ok(())
    }

    /// Sends the stream, while faults happen.
    fn stream(&mut self) -> Result<(), Violation> {
        let began = self.network.now();
        for (at, planned) in self.plan.faults.iter().enumerate() {
            self.agenda
                .insert((began.after(planned.at), at), Due::Fault(at));
        }
        if self.plan.kind == Kind::Scope {
            self.lose_data();
        }
        let end = began.after(STREAM_MAX);
        let mut sent = 0;
        while sent < self.plan.packets {
            if self.network.source().waiting() >= WAITING_MAX && self.network.now() < end {
                self.go(Duration::from_millis(1))?;
                continue;
            }
            match self.network.send() {
                Ok(_) => sent += 1,
                Err(SendError::WindowFull { .. }) if self.network.now() < end => {
                    self.go(Duration::from_millis(1))?;
                }
                Err(error) => return broken("progress", format!("after {sent} packets: {error}")),
            }
            let pause = match self.plan.kind {
                Kind::Narrow => continue,
                Kind::Scope => self.plan.interval_ms,
                Kind::Short | Kind::Standby | Kind::Long => {
                    self.random.below(self.plan.interval_ms)
                }
            };
            self.go(Duration::from_millis(pause))?;
        }
        Ok(())
    }

    /// Data alone, each copy at most once.
    fn lose_data(&mut self) {
        for sequence in 1..=self.plan.packets {
            for (from, to) in self.network.hops() {
                if self.random.chance_ppm(self.plan.data_loss_ppm) {
                    let kind = qsm_relay::Kind::Data;
                    self.network.lose(Loss {
                        from,
                        to,
                        kind,
                        sequence,
                    });
                }
            }
        }
    }

    /// Ends the stream, and waits until everybody has everything.
    fn finish(&mut self) -> Result<(), Violation> {
        self.network.finish();
        let end = self.network.now().after(STREAM_MAX);
        loop {
            let mut receivers = self.receivers();
            let ended = receivers.all(|it| self.network.heard(it).ended > 0);
            let released = self.network.source().released();
            if ended && released == self.plan.packets && self.agenda.is_empty() {
                return Ok(());
            }
            if self.network.now() >= end {
                let late = self
                    .receivers()
                    .find(|it| self.network.heard(*it).ended == 0);
                let message = match late {
                    Some(late) => format!("the stream does not end for {late}"),
                    None => format!("the source has released {released} packets alone"),
                };
                return broken("progress", message);
            }
            self.go(Duration::from_millis(5))?;
        }
    }

    /// Receivers go, with a word or without; everybody must forget everything. R-RELAY-3.
    fn rest(&mut self) -> Result<(), Violation> {
        let timing = self.network.timing();
        self.go(timing.nack_lifetime.max(timing.child_lifetime) * 2)?;
        for relay in 1..=self.plan.relays.len() {
            let Some(it) = self.network.relay(relay) else {
                continue;
            };
            let states = it.nack_states(SESSION);
            let bytes = it.session_bytes(SESSION).unwrap_or(0);
            if states > 0 || bytes > SESSION_BYTES_MAX {
                let message = format!("relay {relay} keeps {states} NACK states, {bytes} bytes");
                return broken("rest", message);
            }
        }
        for node in self.receivers() {
            match self.random.below(2) {
                0 => self.network.leave(node),
                _ => self.network.stop(node),
            }
        }
        let levels = u32::try_from(self.plan.relays.len()).unwrap_or(u32::MAX) + 1;
        self.go(timing.child_lifetime * levels + timing.session_lifetime + timing.ack_max * 10)?;
        for relay in 1..=self.plan.relays.len() {
            let it = self.network.relay(relay);
            if it.is_some_and(|it| {
                it.sessions() > 0 || it.kept_bytes() > 0 || it.next_timeout().is_some()
            }) {
                return broken(
                    "rest",
                    format!("relay {relay} has not forgotten the session"),
                );
            }
        }
        if self.network.source().children() > 0 || self.network.flying() > 0 {
            return broken(
                "rest",
                format!("node {SOURCE} still has children, or is sent to"),
            );
        }
        Ok(())
    }

    /// Goes on for so long, carries out what is due, and looks at all that happens.
    fn go(&mut self, duration: Duration) -> Result<(), Violation> {
        let end = self.network.now().after(duration);
        loop {
            let due = self.agenda.first_key_value().map(|((at, _), _)| *at);
            let until = due.map_or(end, |due| due.min(end));
            let stepped = self.network.step(until);
            self.look()?;
            if stepped {
                continue;
            }
            if due.is_some_and(|due| due <= self.network.now()) {
                if let Some((_, due)) = self.agenda.pop_first() {
                    self.carry_out(due);
                    self.look()?;
                }
                continue;
            }
            if self.network.now() >= end {
                return Ok(());
            }
        }
    }

    fn look(&mut self) -> Result<(), Violation> {
        for step in self.network.take_steps() {
            self.report.sent += u64::from(step.is_sent());
            self.mark(step.at.0 ^ mix(step.from as u64) ^ step.to as u64);
            self.mark(step.kind as u64 ^ step.sequence() << 8);
            let judged = self.checkers.step(&step, &self.network);
            if self.trace.len() >= TRACE_MAX {
                self.trace.pop_front();
            }
            self.trace.push_back(step);
            judged?;
        }
        for news in self.network.take_news() {
            if let Told::Delivered { sequence, .. } = news.told {
                self.report.delivered += 1;
                self.mark(news.at.0 ^ mix(news.node as u64) ^ sequence);
            }
            self.checkers.told(&news)?;
        }
        Ok(())
    }

    fn mark(&mut self, value: u64) {
        self.report.digest = mix(self.report.digest ^ value);
    }

    fn later(&mut self, after: Duration, due: Due) {
        let at = self.network.now().after(after);
        let order = self.agenda.len() + self.plan.faults.len() + 1;
        let mut key = (at, order);
        while self.agenda.contains_key(&key) {
            key.1 += 1;
        }
        self.agenda.insert(key, due);
    }

    fn carry_out(&mut self, due: Due) {
        match due {
            Due::Fault(at) => {
                let planned = self.plan.faults[at];
                self.report.faults += 1;
                self.fail(planned.node, planned.fault);
            }
            Due::Start(node) => {
                if self.network.relay(node).is_none() {
                    self.checkers.began(node);
                    self.network.start(node);
                }
            }
            Due::Mend(node) => {
                if let Some(parent) = self.network.parent_of(node) {
                    let planned = self.plan.links.iter().find(|(it, _)| *it == node);
                    let link = planned.map_or(self.plan.link, |(_, link)| *link);
                    self.network.set_link(parent, node, link);
                }
            }
        }
    }

    fn fail(&mut self, node: usize, fault: Fault) {
        match fault {
            Fault::Crash(away) => {
                self.network.stop(node);
                self.later(away, Due::Start(node));
            }
            Fault::Move { parent, away } => {
                self.network.stop(node);
                self.network.declare(node, parent);
                self.later(away, Due::Start(node));
            }
            Fault::End => self.network.stop(node),
            Fault::Freeze(time) => self.network.freeze(node, time),
            Fault::Port => self.network.change_port(node),
            Fault::Cut(time) => {
                if let Some(parent) = self.network.parent_of(node) {
                    let link: Link = self.network.link(parent, node).cut();
                    self.network.set_link(parent, node, link);
                    self.later(time, Due::Mend(node));
                }
            }
        }
    }
}
