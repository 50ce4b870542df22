//! Clusters for measuring: nodes whose membership is given from the start, senders that publish
//! as fast as the stack takes it, disturbances, and samples of what goes on.
//!
//! No checker looks on here, so that long runs of large clusters are affordable; that messages
//! arrive is the business of [`crate::run`].

mod disturbance;
mod measured;
mod tokens;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_proto::send::SendStream;
use qsm_proto::stats::Histogram;
use qsm_proto::view::{Layout, RegionView};
use qsm_proto::{
    Config, Endpoint, Instant, Limits, Pace, Random, Recovery, Seed, Stats, mix, nanoseconds,
};
use qsm_testnet::NetworkOptions;
use qsm_wire::membership::{AwayReason, Member, Role};
use qsm_wire::{ChannelId, GroupId, Incarnation, Origin, RegionId, ViewNumber};

use crate::Mischief;
use crate::clock::Clock;
use crate::cost::{CostModel, CpuCounters};
pub use crate::engine::Capture;
use crate::engine::{Engine, EngineOptions, Task, Turn};
use crate::hosts::{self, PORT, node_id};
use crate::machine::Machine;
use crate::violation::Violation;
pub use disturbance::Disturbance;
pub use measured::{HostLoad, Measured};
use tokens::TokenWatch;

/// Task numbers.
const SAMPLE: Task = Task::Flow(0);
/// How long a sender whose send memory is full waits.
const PATIENCE: Duration = Duration::from_millis(10);

/// A cluster to be measured.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Of everything that is drawn.
    pub seed: Seed,
    /// Nodes.
    pub nodes: usize,
    /// Regions of equal size that they form; every group spans all of them.
    pub regions: usize,
    /// Groups; senders publish to them in turn.
    pub groups: u32,
    /// The nodes that publish. All nodes receive.
    pub senders: Vec<usize>,
    /// Length of a message, bytes.
    pub message_bytes: usize,
    /// How regions are cut.
    pub layout: Layout,
    /// Recovery of every node.
    pub recovery: Recovery,
    /// Pace of every node.
    pub pace: Pace,
    /// Limits of every node.
    pub limits: Limits,
    /// What receivers say they can buffer, bytes.
    pub credit_bytes: usize,
    /// What work costs at each node.
    pub costs: CostModel,
    /// The network.
    pub network: NetworkOptions,
    /// Rate below which no receiver holds a sender, packets per second (R-RATE-10); 0: receivers hold it.
    pub minimum_rate: u32,
    /// Nodes that are away as slow from the start: nobody waits for them.
    pub away: Vec<usize>,
    /// Senders that make a message only so often; the others make one whenever there is room.
    pub every: BTreeMap<usize, Duration>,
    /// What goes wrong.
    pub disturbances: Vec<Disturbance>,
    /// Time before the measurement.
    pub warmup: Duration,
    /// Time of the measurement.
    pub duration: Duration,
    /// Time between two samples.
    pub sample: Duration,
}

/// Runs a cluster and measures it.
///
/// # Errors
/// A node panicked or did something without end.
pub fn measure(options: &ClusterOptions) -> Result<Measured, Violation> {
    let mut cluster = Cluster::new(options)?;
    cluster.go(options.warmup)?;
    let before = cluster.snapshot();
    cluster.samples = Samples::default();
    cluster.tokens.take();
    cluster.go(options.warmup + options.duration)?;
    let after = cluster.snapshot();
    Ok(cluster.measured(&before, &after))
}

/// What is collected on the way.
#[derive(Debug, Default)]
struct Samples {
    rates: Vec<f64>,
    sent: Vec<Vec<f64>>,
    losses: Vec<f64>,
    rounds_ms: Vec<f64>,
    pending: Vec<f64>,
    ack_gaps_ms: Vec<f64>,
    last_ack: Option<Instant>,
    stable: Mean,
    cached: Mean,
    latency: Mean,
    /// The same at each receiver that nothing is wrong with, ms.
    others_ms: Vec<f64>,
    /// For each host.
    hosts: Vec<HostSamples>,
}

#[derive(Debug, Clone, Copy, Default)]
struct HostSamples {
    heap: Mean,
    heap_peak: u64,
    late_max: Mean,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: f64, count: u64) {
        self.sum += value * count as f64;
        self.count += count;
    }

    fn value(self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

/// Counters at one moment.
#[derive(Debug, Default)]
struct Snapshot {
    at: Instant,
    sender_packets: Capture,
    stats: Vec<Stats>,
    cpus: Vec<CpuCounters>,
    repairs: Vec<(u64, u64)>,
    /// Times of all repairs since the start.
    repaired: Histogram,
}

/// A sender's packets on their way.
#[derive(Debug, Default)]
struct Journey {
    /// When packets up to this number had been sent.
    sent: VecDeque<(u64, Instant)>,
    highest: u64,
    stable: u64,
    cached: u64,
}

#[derive(Debug)]
struct Cluster<'a> {
    options: &'a ClusterOptions,
    engine: Engine,
    random: Random,
    names: Vec<GroupId>,
    turn: usize,
    payload: Vec<u8>,
    journey: Journey,
    /// When the first sender published its messages.
    published: Vec<Instant>,
    samples: Samples,
    tokens: TokenWatch,
    rounds: u64,
    messages: u64,
    /// Highest packet of each sender at the last sample, and data packets that had arrived at all
    /// nodes and been dropped there.
    sampled: (Vec<u64>, u64, u64),
    /// The disturbances, one entry for each node concerned.
    disturbed: Vec<(usize, Disturbance)>,
    /// Senders that publish nothing now.
    silent: BTreeSet<usize>,
}

impl<'a> Cluster<'a> {
    fn new(options: &'a ClusterOptions) -> Result<Self, Violation> {
        let engine = EngineOptions {
            sends_limited: false,
            network: options.network,
            mischief: Mischief::None,
            invariants_every: 0,
            refusals: false,
            tagged: false,
            trace_lines: 0,
        };
        let mut cluster = Self {
            options,
            engine: Engine::new(engine, options.seed),
            random: Random::new(options.seed, "probe"),
            names: (1..=options.groups).map(GroupId).collect(),
            turn: 0,
            payload: vec![0; options.message_bytes],
            journey: Journey::default(),
            published: Vec::new(),
            samples: Samples::default(),
            tokens: TokenWatch::default(),
            rounds: 0,
            messages: 0,
            sampled: (vec![0; options.senders.len()], 0, 0),
            disturbed: Vec::new(),
            silent: BTreeSet::new(),
        };
        let views = cluster.views();
        for node in 0..options.nodes {
            cluster.add(node, &views)?;
        }
        cluster.disturb();
        for sender in &options.senders {
            cluster.engine.watch(*sender);
            let mut disturbances = options.disturbances.iter();
            let silent = disturbances.any(|disturbance| disturbance.silences(*sender));
            if silent {
                cluster.silent.insert(*sender);
            }
            cluster.engine.feed(*sender, !silent);
        }
        cluster
            .engine
            .schedule(Instant(0).after(options.sample), SAMPLE);
        Ok(cluster)
    }

    fn views(&self) -> Vec<Arc<RegionView>> {
        let regions = self.options.regions.max(1);
        let count = self.options.nodes;
        let view = |region: usize| {
            let members = (region * count / regions)..((region + 1) * count / regions);
            let away = |node: &usize| self.options.away.contains(node);
            // Who is away stands behind the others.
            let live = members.clone().filter(|node| !away(node));
            let members = live.chain(members.filter(&away));
            let members = members.map(|node| Member {
                origin: self.origin(node),
                address: address(node),
                joined: ViewNumber(1),
                left: None,
                away: away(&node).then_some(AwayReason::Slow),
            });
            let number = u32::try_from(region + 1).unwrap_or(u32::MAX);
            Arc::new(RegionView::new(
                RegionId(number),
                ViewNumber(1),
                (ChannelId(number), channel(number)),
                members.collect(),
                self.options.layout,
            ))
        };
        (0..regions).map(view).collect()
    }

    fn origin(&self, node: usize) -> Origin {
        Origin {
            node: node_id(self.options.seed.0, node, 0),
            incarnation: Incarnation(1),
        }
    }

    fn add(&mut self, node: usize, views: &[Arc<RegionView>]) -> Result<(), Violation> {
        let options = self.options;
        let origin = self.origin(node);
        let config = Config {
            cluster: "probe".to_owned(),
            // Nobody is there: membership is given.
            service: Some(SocketAddr::from(([10, 255, 255, 255], PORT))),
            layout: options.layout,
            datagram_bytes: options.network.mtu_bytes,
            receive_buffer_bytes: options.credit_bytes,
            limits: options.limits,
            recovery: options.recovery,
            pace: options.pace,
            ..Config::new(origin.node, address(node))
        };
        let host = self.engine.add_host(address(node), Clock::default());
        let seed = Seed(mix(options.seed.0.wrapping_add(1) ^ (node as u64)));
        let endpoint = Endpoint::new(config, seed, Instant(0));
        let endpoint =
            endpoint.map_err(|error| Violation::new("machine", format!("node {node}: {error}")))?;
        let publishes = options.senders.contains(&node);
        let mine = views
            .iter()
            .filter(|view| publishes || view.index_of(origin).is_some());
        let mine: Vec<Arc<RegionView>> = mine.cloned().collect();
        let hears = mine
            .first()
            .map_or_else(|| address(node), |view| view.address());
        self.engine
            .start(host, Machine::Node(Box::new(endpoint)), hears);
        let groups = if publishes { options.groups } else { 0 };
        self.engine
            .set_costs(host, options.costs, u64::from(groups));
        let names = self.names.clone();
        self.engine.drive(host, |machine, now, out| {
            let Machine::Node(endpoint) = machine else {
                return;
            };
            let views = mine.iter().map(|view| (view.clone(), names.clone()));
            endpoint.install(now, origin, &views.collect::<Vec<_>>(), out);
            endpoint.install_minimum_rate(now, options.minimum_rate);
            if publishes {
                let name = |group: &GroupId| format!("group-{}", group.0);
                endpoint.enter(now, Role::Publisher, names.iter().map(name).collect());
                endpoint.install_publisher(names.iter().copied());
            }
        })?;
        Ok(())
    }

    fn disturb(&mut self) {
        for disturbance in &self.options.disturbances {
            match *disturbance {
                Disturbance::Stalls { .. } => {
                    let all = (0..self.options.nodes).map(|node| (node, *disturbance));
                    self.disturbed.extend(all);
                }
                Disturbance::Sleep { node, .. }
                | Disturbance::Deaf { node, .. }
                | Disturbance::Slow { node, .. }
                | Disturbance::Joins { node, .. }
                | Disturbance::Bursts { node, .. } => {
                    self.disturbed.push((node, *disturbance));
                }
            }
        }
        for index in 0..self.disturbed.len() {
            let wait = self.first_wait(self.disturbed[index].1);
            self.schedule_disturbance(index, wait);
        }
    }

    /// Anywhere in the interval, so that disturbances are not in step with tokens.
    fn first_wait(&mut self, disturbance: Disturbance) -> Duration {
        match disturbance {
            Disturbance::Stalls { every, .. } => self.exponential(every),
            Disturbance::Sleep { every, .. } | Disturbance::Deaf { every, .. } => {
                Duration::from_nanos(self.random.below(nanoseconds(every)))
            }
            Disturbance::Slow { from, .. }
            | Disturbance::Joins { from, .. }
            | Disturbance::Bursts { from, .. } => from,
        }
    }

    fn next_disturbance(&mut self, index: usize) {
        let wait = match self.disturbed[index].1 {
            Disturbance::Stalls { every, .. } => self.exponential(every),
            Disturbance::Sleep { every, .. } | Disturbance::Deaf { every, .. } => every,
            Disturbance::Bursts { every, length, .. } => {
                let host = self.disturbed[index].0;
                let silent = self.silent.contains(&host);
                if silent {
                    every.saturating_sub(length)
                } else {
                    length
                }
            }
            Disturbance::Slow { .. } | Disturbance::Joins { .. } => return,
        };
        self.schedule_disturbance(index, wait);
    }

    fn schedule_disturbance(&mut self, index: usize, wait: Duration) {
        let at = self.engine.now().after(wait);
        self.engine.schedule(at, Task::Fault(index));
    }

    fn exponential(&mut self, mean: Duration) -> Duration {
        let draw = (self.random.below(1 << 32) as f64 + 1.0) / (1u64 << 32) as f64;
        mean.mul_f64(-draw.ln())
    }

    fn go(&mut self, until: Duration) -> Result<(), Violation> {
        let until = Instant(nanoseconds(until));
        loop {
            match self.engine.turn(until)? {
                Turn::Until => return Ok(()),
                Turn::Host(host) => self.look(host),
                Turn::Feed(host) => self.publish(host)?,
                Turn::Task(Task::Fault(index)) => self.strike(index),
                Turn::Task(Task::Flow(_)) => self.sample(),
                Turn::Task(Task::Churn(host)) => self.feed(host),
            }
        }
    }

    /// Lets a sender publish, unless it is silent now.
    fn feed(&mut self, host: usize) {
        let publishes = !self.silent.contains(&host);
        self.engine.feed(host, publishes);
    }

    fn publish(&mut self, host: usize) -> Result<(), Violation> {
        let group = self.names[self.turn % self.names.len()];
        let now = self.engine.now();
        let bytes = self.payload.len();
        if let Some(cpu) = self.engine.cpu(host) {
            cpu.publishes(now, bytes);
        }
        let payload = &self.payload;
        let result = self.engine.drive(host, |machine, now, out| {
            machine.publish(now, group, payload, None, out)
        })?;
        if matches!(result, Some(Ok(_))) {
            self.turn += 1;
            self.messages += 1;
            if host == self.options.senders[0] {
                self.published.push(now);
            }
            if let Some(every) = self.options.every.get(&host) {
                self.engine.feed(host, false);
                self.engine.schedule(now.after(*every), Task::Churn(host));
            }
        } else {
            self.engine.feed(host, false);
            self.engine.schedule(now.after(PATIENCE), Task::Churn(host));
        }
        self.look(host);
        Ok(())
    }

    fn strike(&mut self, index: usize) {
        let (host, disturbance) = self.disturbed[index];
        let now = self.engine.now();
        match disturbance {
            Disturbance::Stalls { length, .. } => {
                let length = self.exponential(length);
                self.engine.freeze(host, now.after(length));
            }
            Disturbance::Sleep { length, .. } => self.engine.freeze(host, now.after(length)),
            Disturbance::Deaf { length, .. } => {
                if let Some(cpu) = self.engine.cpu(host) {
                    cpu.deafen(now.after(length));
                }
            }
            Disturbance::Slow {
                from,
                length,
                times,
                ..
            } => {
                let until = Instant(0).after(from).after(length);
                if let Some(cpu) = self.engine.cpu(host) {
                    cpu.slow(if now < until { times } else { 1 });
                }
                if now < until {
                    self.engine.schedule(until, Task::Fault(index));
                }
            }
            Disturbance::Joins { .. } | Disturbance::Bursts { .. } => {
                if !self.silent.remove(&host) {
                    self.silent.insert(host);
                }
                self.feed(host);
            }
        }
        self.next_disturbance(index);
    }

    /// A host has put something out.
    fn look(&mut self, host: usize) {
        let now = self.engine.now();
        self.look_for_tokens(host, now);
        let first = self.options.senders[0];
        if host == first {
            self.follow(now);
        } else {
            let sender = self.origin(first);
            // With one group, a message's number says when it was published.
            let rows = self.engine.outputs().deliveries.rows().iter();
            let rows = rows.filter(|row| row.sender == sender && self.options.groups == 1);
            let numbers: Vec<u64> = rows.map(|row| row.number).collect();
            let undisturbed = self.disturbed.iter().all(|(node, _)| *node != host);
            for number in numbers {
                let at = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
                if let Some(at) = at.and_then(|at| self.published.get(at)) {
                    let latency = millis(now.since(*at));
                    self.samples.latency.add(latency, 1);
                    let other = undisturbed.then_some(latency);
                    self.samples.others_ms.extend(other);
                }
            }
        }
    }

    fn look_for_tokens(&mut self, host: usize, now: Instant) {
        let Some(Machine::Node(node)) = self.engine.machine(host) else {
            return;
        };
        let Some(region) = node.regions().find(|region| region.member()) else {
            return;
        };
        let ring = region.ring_stats();
        if self.options.pace.rings_in_turn && self.options.regions <= 1 {
            let sends = self.options.senders.contains(&host);
            self.tokens.passes(host, ring.tokens_sent, now, sends);
        }
        if host == 0 {
            self.tokens.ends(ring.rounds, now);
        }
    }

    /// How far the first sender's packets have got.
    fn follow(&mut self, now: Instant) {
        let Some(sender) = self.sender() else {
            return;
        };
        let (highest, stable, cached) =
            (sender.highest(), sender.stable_upto(), sender.cached_upto());
        let journey = &mut self.journey;
        if highest > journey.highest {
            journey.highest = highest;
            journey.sent.push_back((highest, now));
        }
        if cached > journey.cached {
            for (upto, at) in &journey.sent {
                if *upto > journey.cached && *upto <= cached {
                    self.samples.cached.add(millis(now.since(*at)), 1);
                }
            }
            journey.cached = cached;
        }
        if stable > journey.stable {
            journey.stable = stable;
            if let Some(last) = self.samples.last_ack.replace(now) {
                self.samples.ack_gaps_ms.push(millis(now.since(last)));
            }
            while let Some((upto, at)) = journey.sent.front().copied()
                && upto <= stable
            {
                self.samples.stable.add(millis(now.since(at)), 1);
                journey.sent.pop_front();
            }
        }
    }

    /// The first sender's stream, the first of them if it has several.
    fn sender(&self) -> Option<&SendStream> {
        let Some(Machine::Node(node)) = self.engine.machine(self.options.senders[0]) else {
            return None;
        };
        node.regions().find_map(|region| region.own_stream())
    }

    fn sample(&mut self) {
        let now = self.engine.now();
        self.engine.schedule(now.after(self.options.sample), SAMPLE);
        let weight = f64::from(self.options.costs.weight.max(1));
        let seconds = self.options.sample.as_secs_f64();
        let messages = core::mem::take(&mut self.messages);
        self.samples.rates.push(messages as f64 * weight / seconds);
        self.sample_rates(weight / seconds);
        let pending = self.sender().map_or(0, SendStream::in_flight_packets);
        self.samples.pending.push(pending as f64 * weight);
        if let Some(Machine::Node(leader)) = self.engine.machine(0)
            && let Some(region) = leader.regions().find(|region| region.member())
        {
            let ring = region.ring_stats();
            if ring.rounds > self.rounds {
                self.rounds = ring.rounds;
                self.samples.rounds_ms.push(ring.round_ns as f64 / 1e6);
            }
        }
        self.samples
            .hosts
            .resize(self.options.nodes, HostSamples::default());
        for (host, sample) in self.samples.hosts.iter_mut().enumerate() {
            if let Some(cpu) = self.engine.cpu(host) {
                let live = cpu.counters().live_bytes;
                sample.heap.add(live as f64, 1);
                sample.heap_peak = sample.heap_peak.max(live);
                sample.late_max.add(cpu.take_late_max() as f64 / 1e6, 1);
            }
        }
    }

    /// What each sender has sent, and sockets have dropped, since the last sample.
    fn sample_rates(&mut self, per_packet: f64) {
        let highest = |host: &usize| {
            let Some(Machine::Node(node)) = self.engine.machine(*host) else {
                return 0;
            };
            let sender = node.regions().find_map(|region| region.own_stream());
            sender.map_or(0, SendStream::highest)
        };
        let sent: Vec<u64> = self.options.senders.iter().map(highest).collect();
        let (mut arrived, mut dropped) = (0, 0);
        for host in 0..self.options.nodes {
            let counters = self.engine.cpu(host).map(|cpu| cpu.counters());
            let counters = counters.unwrap_or_default();
            arrived += counters.data_arrived;
            dropped += counters.data_dropped;
        }
        let before = core::mem::replace(&mut self.sampled, (sent.clone(), arrived, dropped));
        self.samples.sent.resize(sent.len(), Vec::new());
        for (rates, (old, new)) in self.samples.sent.iter_mut().zip(before.0.iter().zip(&sent)) {
            rates.push((new - old) as f64 * per_packet);
        }
        let arrived = (arrived - before.1).max(1) as f64;
        self.samples
            .losses
            .push((dropped - before.2) as f64 / arrived);
    }

    fn snapshot(&mut self) -> Snapshot {
        let mut snapshot = Snapshot {
            at: self.engine.now(),
            sender_packets: *self.engine.capture(self.options.senders[0]),
            ..Snapshot::default()
        };
        for host in 0..self.options.nodes {
            let cpu = self.engine.cpu(host).map(|cpu| cpu.counters());
            snapshot.cpus.push(cpu.unwrap_or_default());
            let Some(Machine::Node(node)) = self.engine.machine(host) else {
                continue;
            };
            snapshot.stats.push(node.stats());
            let lasted = &node.repair_times().lasted;
            snapshot
                .repairs
                .push((lasted.count(), nanoseconds(lasted.sum())));
            snapshot.repaired.merge(lasted);
        }
        snapshot
    }

    fn measured(&mut self, before: &Snapshot, after: &Snapshot) -> Measured {
        let seconds = after.at.since(before.at).as_secs_f64();
        let weight = f64::from(self.options.costs.weight.max(1));
        let first = self.options.senders[0];
        let stats = |host: usize| difference(&before.stats[host], &after.stats[host]);
        let mut total: BTreeMap<&'static str, f64> = BTreeMap::new();
        for host in 0..self.options.nodes {
            for (name, value) in stats(host) {
                *total.entry(name).or_default() += value;
            }
        }
        let of = |name: &str| total.get(name).copied().unwrap_or(0.0);
        let receivers = (self.options.nodes - 1).max(1) as f64;
        let repairs = before.repairs.iter().zip(&after.repairs);
        let (count, nanos) = repairs.fold((0, 0), |sum, (old, new)| {
            (sum.0 + new.0 - old.0, sum.1 + new.1 - old.1)
        });
        let loads: Vec<HostLoad> = (0..self.options.nodes)
            .map(|host| self.load(host, seconds, before, after))
            .collect();
        let quiet = (0..self.options.nodes)
            .rev()
            .find(|host| !self.options.senders.contains(host));
        let watched = self.disturbed.first().map(|entry| entry.0).or(quiet);
        let hops = self.tokens.take();
        let [others_delivered, others_p99_ms] = self.others(seconds);
        Measured {
            rate: of("messages_published") * weight / seconds,
            rates: self.samples.rates.clone(),
            sent: self.samples.sent.clone(),
            losses: self.samples.losses.clone(),
            packets: of("data_sent") * weight / seconds,
            delivered: of("messages_delivered") * weight
                / seconds
                / self.options.nodes.max(1) as f64,
            rounds_ms: self.samples.rounds_ms.clone(),
            round_rate: of("rounds") / seconds / self.options.regions.max(1) as f64,
            round_gaps_ms: hops.intervals,
            hops_ms: hops.receivers,
            sender_hops_ms: hops.senders,
            ack_gaps_ms: self.samples.ack_gaps_ms.clone(),
            stable_ms: self.samples.stable.value(),
            cached_ms: self.samples.cached.value(),
            pending: self.samples.pending.clone(),
            latency_ms: self.samples.latency.value(),
            others_delivered,
            others_p99_ms,
            repair_p99_ms: millis(after.repaired.quantile(990)),
            repair_ms: nanos as f64 / 1e6 / count.max(1) as f64,
            missing: of("gaps") / of("data_received").max(1.0),
            sender: loads[first],
            receivers: mean_load(
                loads
                    .iter()
                    .enumerate()
                    .filter(|(host, _)| *host != first)
                    .map(|(_, load)| load),
                receivers,
            ),
            watched: watched.map(|host| loads[host]).unwrap_or_default(),
            sender_packets: after.sender_packets.since(&before.sender_packets),
            sender_stats: stats(first),
            stats: total,
            inputs: self.engine.inputs(),
        }
    }

    /// Messages of the first sender in a second at each receiver that nothing is wrong with, and the time
    /// that 99 of 100 took no longer than, ms.
    fn others(&mut self, seconds: f64) -> [f64; 2] {
        let disturbed: BTreeSet<usize> = self.disturbed.iter().map(|entry| entry.0).collect();
        let others = self.options.nodes.saturating_sub(disturbed.len() + 1);
        let mut took = core::mem::take(&mut self.samples.others_ms);
        took.sort_unstable_by(f64::total_cmp);
        let p99 = took.get(took.len() * 99 / 100).copied();
        let delivered = took.len() as f64 / seconds / others.max(1) as f64;
        [delivered, p99.unwrap_or(0.0)]
    }

    fn load(&self, host: usize, seconds: f64, before: &Snapshot, after: &Snapshot) -> HostLoad {
        let (old, new) = (before.cpus[host], after.cpus[host]);
        let share = |old: u64, new: u64| (new - old) as f64 / 1e9 / seconds;
        let samples = self.samples.hosts.get(host).copied().unwrap_or_default();
        let timers = (new.timers - old.timers).max(1) as f64;
        let arrived = (new.data_arrived - old.data_arrived).max(1) as f64;
        HostLoad {
            cpu: share(old.busy_ns, new.busy_ns),
            collecting: share(old.collect_ns, new.collect_ns),
            copying: share(old.copy_ns, new.copy_ns),
            publishing: share(old.publish_ns, new.publish_ns),
            heap_mib: samples.heap.value() / f64::from(1 << 20),
            heap_peak_mib: samples.heap_peak as f64 / f64::from(1 << 20),
            late_ms: (new.late_ns - old.late_ns) as f64 / 1e6 / timers,
            late_max_ms: samples.late_max.value(),
            loss: (new.data_dropped - old.data_dropped) as f64 / arrived,
            loss_awake: (new.data_dropped_awake - old.data_dropped_awake) as f64 / arrived,
        }
    }
}

fn mean_load<'a>(loads: impl Iterator<Item = &'a HostLoad>, count: f64) -> HostLoad {
    loads.fold(HostLoad::default(), |sum, load| HostLoad {
        cpu: sum.cpu + load.cpu / count,
        collecting: sum.collecting + load.collecting / count,
        copying: sum.copying + load.copying / count,
        publishing: sum.publishing + load.publishing / count,
        heap_mib: sum.heap_mib + load.heap_mib / count,
        heap_peak_mib: sum.heap_peak_mib.max(load.heap_peak_mib),
        late_ms: sum.late_ms + load.late_ms / count,
        late_max_ms: sum.late_max_ms + load.late_max_ms / count,
        loss: sum.loss + load.loss / count,
        loss_awake: sum.loss_awake + load.loss_awake / count,
    })
}

fn difference(before: &Stats, after: &Stats) -> BTreeMap<&'static str, f64> {
    let (old, new) = (before.rows(), after.rows());
    let rows = old.iter().zip(&new);
    let rows = rows.map(|(old, new)| {
        let grown = new.number().saturating_sub(old.number());
        (new.metric.name, grown as f64)
    });
    rows.collect()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn address(node: usize) -> SocketAddr {
    hosts::address(node, false, 0)
}

fn channel(number: u32) -> SocketAddr {
    let number = number & 0x0000_ffff;
    SocketAddr::from((core::net::Ipv4Addr::from(0xefc0_0000 | number), PORT))
}
