use core::ops::RangeInclusive;
use std::collections::BTreeSet;

use qsm_proto::send::Batching;
use qsm_proto::{OriginDemand, Promptness, Seed};
use qsm_testnet::{Burst, Sites};
use qsm_wire::membership::Role;

use super::happen::{Happens, happens};
use super::words::{Words, Wrong, nearest};
use super::{Expectation, Relation, Scenario, ScenarioError, VERSION, known_counters};
use crate::content::Sizes;
use crate::hints::Hint;
use crate::hosts::HostRole;
use crate::insider::{Insider, Lie};
use crate::options::SimOptions;
use crate::pattern::{GroupPlan, Pattern, layout};
use crate::timeline;
use crate::workload::Flow;
use qsm_gms::GroupPace;

/// Most nodes: their addresses are 10.0.0.1 to 10.255.255.254, and memory is not endless.
const NODES_MAX: u64 = 100_000;

/// Most multicast addresses of a service: more than regions of any run.
const ADDRESSES_MAX: u64 = 1 << 20;

/// Where a statement begins.
#[derive(Debug, Clone, Copy)]
struct Place {
    line: usize,
    column: usize,
}

/// What has been read so far.
#[derive(Debug)]
struct Reader {
    scenario: Scenario,
    /// Where flows, faults and changes of membership stand, in the order of their lists.
    flows: Vec<Place>,
    faults: Vec<Place>,
    churn: Vec<Place>,
    /// The last statement about a host.
    hosts: Option<Place>,
    no_flows: bool,
    statements: usize,
}

pub(super) fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    let mut options = SimOptions::quiet(Seed(1), 3);
    options.groups.clear();
    options.flows.clear();
    let mut reader = Reader {
        scenario: Scenario {
            options,
            expectations: Vec::new(),
        },
        flows: Vec::new(),
        faults: Vec::new(),
        churn: Vec::new(),
        hosts: None,
        no_flows: false,
        statements: 0,
    };
    for (index, line) in text.lines().enumerate() {
        let mut words = Words::new(line);
        let read = reader.statement(&mut words, index + 1);
        read.map_err(|wrong| ScenarioError {
            line: index + 1,
            column: wrong.column,
            reason: wrong.reason,
        })?;
    }
    reader.finish()
}

/// Sizes of messages.
const SIZES: [(&str, Sizes); 2] = [("mix", Sizes::MIX), ("small", Sizes::SMALL)];

/// How statements begin.
const VERBS: [(&str, Verb); 51] = [
    ("scenario", Verb::Version),
    ("seed", Verb::Seed),
    ("nodes", Verb::Nodes),
    ("host", Verb::Host),
    (
        "source-specific",
        Verb::Switch(|options| options.source_specific = true),
    ),
    (
        "no-multicast",
        Verb::Switch(|options| options.multicast = false),
    ),
    ("addresses", Verb::Addresses),
    ("patience", Verb::Patience),
    ("duration", Verb::Duration),
    ("settle", Verb::Settle),
    ("drift", Verb::Drift),
    ("sizes", Verb::Sizes),
    ("group", Verb::Group),
    ("pattern", Verb::Pattern),
    ("flow", Verb::Flow),
    ("no-flows", Verb::NoFlows),
    ("network", Verb::Network),
    ("layout", Verb::Layout),
    ("limits", Verb::Limits),
    ("retention", Verb::Retention),
    ("gone-after", Verb::GoneAfter),
    ("slow-after", Verb::SlowAfter),
    ("plan-every", Verb::PlanEvery),
    ("plan-unwanted", Verb::PlanUnwanted),
    ("plan-common", Verb::PlanCommon),
    ("prompt", Verb::Prompt),
    ("hint", Verb::Hint),
    ("lifetime", Verb::Lifetime),
    ("pace", Verb::Pace),
    (
        "tell-rates",
        Verb::Switch(|options| options.tells_rates = true),
    ),
    ("refusals", Verb::Switch(|options| options.refusals = true)),
    ("tagged", Verb::Switch(|options| options.tagged = true)),
    ("insider", Verb::Insider),
    (
        "origin-audit",
        Verb::Switch(|options| options.origin = Some(OriginDemand::Audit)),
    ),
    (
        "origin-verified",
        Verb::Switch(|options| options.origin = Some(OriginDemand::Verified)),
    ),
    ("budget", Verb::Budget),
    ("repair-limit", Verb::RepairLimit),
    (
        "token-plane-only",
        Verb::Switch(|options| options.recovery.fast = false),
    ),
    (
        "pull-late",
        Verb::Switch(|options| options.recovery.pull_late = true),
    ),
    (
        "parity",
        Verb::Switch(|options| options.recovery.parity = true),
    ),
    ("parities-ahead", Verb::ParitiesAhead),
    (
        "faithful-rate",
        Verb::Switch(|options| options.pace.faithful_rate = true),
    ),
    (
        "rings-in-turn",
        Verb::Switch(|options| options.pace.rings_in_turn = true),
    ),
    (
        "partition-feedback",
        Verb::Switch(|options| options.pace.partition_feedback = true),
    ),
    ("rate-max", Verb::RateMax),
    ("send-limit", Verb::SendLimit),
    ("batch", Verb::Batch),
    ("batch-delay", Verb::BatchDelay),
    ("queue-target", Verb::QueueTarget),
    ("at", Verb::At),
    ("expect", Verb::Expect),
];

#[derive(Debug, Clone, Copy)]
enum Verb {
    Version,
    Seed,
    Nodes,
    Host,
    /// A word that turns something on.
    Switch(fn(&mut SimOptions)),
    Addresses,
    Patience,
    Duration,
    Settle,
    Drift,
    Sizes,
    Group,
    Pattern,
    Flow,
    NoFlows,
    Network,
    Layout,
    Limits,
    Retention,
    GoneAfter,
    SlowAfter,
    PlanEvery,
    PlanUnwanted,
    PlanCommon,
    Prompt,
    Hint,
    Lifetime,
    Pace,
    Insider,
    Budget,
    RepairLimit,
    ParitiesAhead,
    RateMax,
    SendLimit,
    Batch,
    BatchDelay,
    QueueTarget,
    At,
    Expect,
}

impl Reader {
    fn statement(&mut self, words: &mut Words<'_>, line: usize) -> Result<(), Wrong> {
        if words.peek().is_none() {
            return Ok(());
        }
        let place = Place {
            line,
            column: words.column(),
        };
        let verb = words.choice("a statement", &VERBS)?;
        self.statements += 1;
        let options = &mut self.scenario.options;
        match verb {
            Verb::Version => self.version(words)?,
            Verb::Seed => options.seed = words.number("the seed")?,
            Verb::Nodes => options.nodes = count(words, "how many nodes", 1..=NODES_MAX)?,
            Verb::Host => {
                host(options, words)?;
                self.hosts = Some(place);
            }
            Verb::Switch(turn_on) => turn_on(options),
            Verb::Addresses => options.addresses = Some(addresses(words)?),
            Verb::Patience => patience(options, words)?,
            Verb::Duration => options.duration = words.time("how long faults last")?,
            Verb::Settle => options.settle = words.time("how long everything may take to rest")?,
            Verb::Drift => options.drift_ppm_max = drift(words)?,
            Verb::Sizes => options.sizes = words.choice("sizes", &SIZES)?,
            Verb::Group => group(options, words)?,
            Verb::Pattern => pattern(options, words)?,
            Verb::Flow => {
                options.flows.push(flow(options, words)?);
                self.flows.push(place);
            }
            Verb::NoFlows => self.no_flows = true,
            Verb::Network => network(options, words)?,
            Verb::Layout => cut(options, words)?,
            Verb::Limits => {
                options.limits.send_bytes = words.named("send")?;
                options.limits.receive_bytes = words.named("receive")?;
                options.limits.ahead_packets = words.named("ahead")?;
            }
            Verb::Retention => options.limits.retention_bytes = words.number("bytes")?,
            Verb::SlowAfter => options.slow_after = words.time("the time")?,
            Verb::PlanEvery => options.plan_interval = words.time("the time")?,
            Verb::PlanUnwanted => options.plan_unwanted_ppm = words.percent("a share")?,
            Verb::PlanCommon => options.plan_common = Some(words.number("packets per second")?),
            Verb::Prompt => prompt(options, words)?,
            Verb::Hint => hint(options, words)?,
            Verb::Lifetime => lifetime(options, words)?,
            Verb::Pace => pace(options, words)?,
            Verb::Insider => options.insider = Some(insider(options, words)?),
            Verb::GoneAfter => options.gone_after = words.time("the silence")?,
            Verb::Budget => {
                options.recovery.repair_bytes_per_second = words.named("repairs")?;
                options.recovery.requests_per_second = words.named("requests")?;
            }
            Verb::RepairLimit => options.repair_bytes_per_second = words.number("bytes")?,
            Verb::ParitiesAhead => options.recovery.parities_ahead = words.number("parities")?,
            Verb::Batch => batch(options, words)?,
            Verb::SendLimit | Verb::RateMax | Verb::BatchDelay | Verb::QueueTarget => {
                limit_pace(options, verb, words)?;
            }
            Verb::At => self.at(words, place)?,
            Verb::Expect => {
                let expected = expectation(words, options)?;
                self.scenario.expectations.push(expected);
            }
        }
        words.end()
    }

    fn version(&self, words: &mut Words<'_>) -> Result<(), Wrong> {
        let version: u32 = words.number("the version of the format")?;
        if version != VERSION {
            return Err(words.wrong(format!(
                "this file is written in version {version} of the format, and this program reads \
                 version {VERSION}; expected `scenario {VERSION}`, or a program of that version"
            )));
        }
        if self.statements > 1 {
            let wrong = "expected the version before all other statements";
            return Err(words.wrong(wrong));
        }
        Ok(())
    }

    fn at(&mut self, words: &mut Words<'_>, place: Place) -> Result<(), Wrong> {
        let when = words.time("when it happens")?;
        let options = &mut self.scenario.options;
        match happens(words, options)? {
            Happens::Churn(churn) => {
                options.churn.push((when, churn));
                self.churn.push(place);
            }
            Happens::Fault(fault) => {
                options.faults.push((when, fault));
                self.faults.push(place);
            }
        }
        Ok(())
    }

    /// What can be judged only when all has been read.
    fn finish(mut self) -> Result<Scenario, ScenarioError> {
        let options = &mut self.scenario.options;
        if let Some(place) = self.hosts.filter(|_| options.services().next().is_none()) {
            let reason = "there is no membership service left; expected a host with one";
            return Err(wrong_at(&place, reason.to_owned()));
        }
        let quiet = SimOptions::quiet(Seed(1), options.nodes);
        if options.groups.is_empty() {
            options.groups = quiet.groups;
        }
        let groups = options.groups.len();
        let known = |group: usize, place: &Place| {
            if group < groups {
                return Ok(());
            }
            let reason = format!("there is no group {group}; expected 0 to {}", groups - 1);
            Err(wrong_at(place, reason))
        };
        for (flow, place) in options.flows.iter().zip(&self.flows) {
            known(flow.group, place)?;
        }
        for ((_, churn), place) in options.churn.iter().zip(&self.churn) {
            known(churn.group, place)?;
        }
        if options.flows.is_empty() && !self.no_flows {
            options.flows = quiet.flows;
        }
        options.churn.sort_by_key(|churn| churn.0);
        let mut faults: Vec<_> = options.faults.drain(..).zip(self.faults).collect();
        faults.sort_by_key(|((when, _), _)| *when);
        let places: Vec<Place> = faults.iter().map(|fault| fault.1).collect();
        options.faults = faults.into_iter().map(|fault| fault.0).collect();
        let found = timeline::contradiction(&options.faults, options.nodes, options.duration);
        if let Some((at, reason)) = found {
            return Err(wrong_at(&places[at], format!("this cannot be: {reason}")));
        }
        Ok(self.scenario)
    }
}

fn wrong_at(place: &Place, reason: String) -> ScenarioError {
    ScenarioError {
        line: place.line,
        column: place.column,
        reason,
    }
}

fn count(words: &mut Words<'_>, what: &str, bounds: RangeInclusive<u64>) -> Result<usize, Wrong> {
    let number = words.bounded(what, bounds)?;
    Ok(usize::try_from(number).unwrap_or(usize::MAX))
}

fn addresses(words: &mut Words<'_>) -> Result<usize, Wrong> {
    count(words, "how many addresses", 1..=ADDRESSES_MAX)
}

fn drift(words: &mut Words<'_>) -> Result<u32, Wrong> {
    let drift = words.bounded("parts per million", 0..=100_000)?;
    Ok(u32::try_from(drift).unwrap_or(0))
}

/// A way in which a host wants its groups.
fn prompt(options: &mut SimOptions, words: &mut Words<'_>) -> Result<(), Wrong> {
    let host = words.host(options.nodes)?;
    let within = words.choice("a way", &[("arrival", false), ("within", true)])?;
    let mode = match within {
        true => Promptness::Within(words.time("the time")?),
        false => Promptness::Arrival,
    };
    options.prompt.entry(host).or_default().push(mode);
    Ok(())
}

/// Cut of regions.
fn cut(options: &mut SimOptions, words: &mut Words<'_>) -> Result<(), Wrong> {
    options.layout.replication = words.named("replication")?;
    options.layout.block_packets = words.named("block")?;
    options.layout.ring_max = words.named("ring")?;
    Ok(())
}

/// A member that lies.
fn insider(options: &SimOptions, words: &mut Words<'_>) -> Result<Insider, Wrong> {
    let host = words.host(options.nodes)?;
    words.word("from")?;
    let from = words.time("since when it lies")?;
    words.word("until")?;
    let until = words.time("when it has told its last lie")?;
    words.word("lies")?;
    let mut lies = BTreeSet::new();
    loop {
        lies.insert(words.choice("a kind of lies", &Lie::ALL)?);
        if words.peek().is_none() {
            return Ok(Insider {
                host,
                lies,
                from,
                until,
            });
        }
    }
}

/// What is said of one host.
fn host(options: &mut SimOptions, words: &mut Words<'_>) -> Result<(), Wrong> {
    let host = words.host(options.nodes)?;
    let mut plan = options.host(host);
    loop {
        match words.choice("a property of a host", &HOST)? {
            HostWord::Role(role) => plan.role = role,
            HostWord::Ipv6 => plan.ipv6 = true,
            HostWord::TwoNetworks => plan.two_networks = true,
        }
        if words.peek().is_none() {
            options.hosts.insert(host, plan);
            return Ok(());
        }
    }
}

fn group(options: &mut SimOptions, words: &mut Words<'_>) -> Result<(), Wrong> {
    words.word("members")?;
    let plan = GroupPlan {
        subscribers: words
            .hosts("publishers", options.nodes)?
            .into_iter()
            .collect(),
        publishers: words.hosts("", options.nodes)?.into_iter().collect(),
    };
    options.groups.push(plan);
    Ok(())
}

fn patience(options: &mut SimOptions, words: &mut Words<'_>) -> Result<(), Wrong> {
    options.patience.heartbeats = words.named("heartbeats")?;
    options.patience.probes = words.named("probes")?;
    Ok(())
}

/// The word that a hint begins with.
const HINTS: [(&str, HintOf); 4] = [
    ("domain", Hint::Domain),
    ("apart", Hint::Apart),
    ("together", Hint::Together),
    ("pin", Hint::Pin),
];

type HintOf = fn(BTreeSet<usize>) -> Hint;

fn hint(options: &mut SimOptions, words: &mut Words<'_>) -> Result<(), Wrong> {
    let pins = words.peek() == Some("pin");
    let kind = words.choice("a kind of hint", &HINTS)?;
    let mut named = BTreeSet::new();
    while words.peek().is_some() {
        named.insert(match pins {
            true => words.number("a group")?,
            false => words.host(options.nodes)?,
        });
    }
    options.hints.push(kind(named));
    let contradiction = options.service_hints().err();
    contradiction.map_or(Ok(()), |error| Err(words.wrong(error.to_string())))
}

fn batch(options: &mut SimOptions, words: &mut Words<'_>) -> Result<(), Wrong> {
    let group = words.number("a group")?;
    let batching = Batching {
        delay: words.time("the delay")?,
        bytes: match words.peek().is_none() {
            true => usize::MAX,
            false => words.number("bytes")?,
        },
    };
    options.batches.insert(group, batching);
    Ok(())
}

fn lifetime(options: &mut SimOptions, words: &mut Words<'_>) -> Result<(), Wrong> {
    let group = words.number("a group")?;
    let time = words.time("the lifetime")?;
    options.lifetimes.insert(group, time);
    let wrong = options.service_hints().err();
    wrong.map_or(Ok(()), |error| Err(words.wrong(error.to_string())))
}

/// A limit of how nodes send.
fn limit_pace(options: &mut SimOptions, verb: Verb, words: &mut Words<'_>) -> Result<(), Wrong> {
    let pace = &mut options.pace;
    match verb {
        Verb::SendLimit => pace.node_bytes_per_second = words.number("bytes per second")?,
        Verb::RateMax => pace.rate_max_packets = words.number("packets per second")?,
        Verb::BatchDelay => pace.batch_delay = words.time("the delay")?,
        _ => pace.queue_target = words.time("the target")?,
    }
    Ok(())
}

fn pace(options: &mut SimOptions, words: &mut Words<'_>) -> Result<(), Wrong> {
    let group = words.number("a group")?;
    let unbounded = [
        ("slowest", Some(GroupPace::Slowest)),
        ("uncontrolled", Some(GroupPace::Uncontrolled)),
        ("bounded", None),
    ];
    let pace = match words.choice("a pace", &unbounded)? {
        Some(pace) => pace,
        None => {
            let time = words.time("the patience")?;
            match words.peek() {
                Some("min") => GroupPace::AtLeast {
                    time,
                    packets_per_second: words.named("min")?,
                },
                Some("then") => {
                    words.word("then")?;
                    let fates = [
                        ("apart", GroupPace::Bounded(time)),
                        ("demote", GroupPace::Demotes(time)),
                        ("expel", GroupPace::Expels(time)),
                    ];
                    words.choice("a fate", &fates)?
                }
                _ => GroupPace::Bounded(time),
            }
        }
    };
    options.paces.insert(group, pace);
    let wrong = options.service_hints().err();
    wrong.map_or(Ok(()), |error| Err(words.wrong(error.to_string())))
}

fn pattern(options: &mut SimOptions, words: &mut Words<'_>) -> Result<(), Wrong> {
    let names = Pattern::ALL.map(|pattern| (pattern.name(), pattern));
    let pattern = words.choice("a pattern", &names)?;
    words.word("groups")?;
    let groups = count(words, "how many groups", 1..=1_000_000)?;
    words.word("sets")?;
    let sets = count(words, "how many sets of nodes", 1..=options.nodes as u64)?;
    options.groups = layout(pattern, options.nodes, groups, sets, Seed(options.seed));
    Ok(())
}

fn flow(options: &SimOptions, words: &mut Words<'_>) -> Result<Flow, Wrong> {
    words.word("host")?;
    let host = words.host(options.nodes)?;
    let group = words.named("group")?;
    words.word("start")?;
    let start = words.time("when it begins")?;
    words.word("interval")?;
    Ok(Flow {
        host,
        group,
        start,
        interval: words.time("the time between bursts")?,
        burst: words.named("burst")?,
        messages: words.named("messages")?,
    })
}

/// Properties of the network.
const PROPERTIES: [(&str, Property); 20] = [
    ("loss", Property::Loss),
    ("shared-loss", Property::SharedLoss),
    ("damage", Property::Damage),
    ("duplicates", Property::Duplicates),
    ("lag-chance", Property::LagChance),
    ("delay", Property::Delay),
    ("jitter", Property::Jitter),
    ("reorder", Property::Reorder),
    ("cpu", Property::Cpu),
    ("join", Property::Join),
    ("leave", Property::Leave),
    ("lag", Property::Lag),
    ("mtu", Property::Mtu),
    ("buffer", Property::Buffer),
    ("uplink", Property::Uplink),
    ("downlink", Property::Downlink),
    ("switch-queue", Property::SwitchQueue),
    ("sites", Property::Sites),
    ("loopback", Property::Loopback),
    ("burst", Property::Burst),
];

#[derive(Debug, Clone, Copy)]
enum Property {
    Loss,
    SharedLoss,
    Damage,
    Duplicates,
    LagChance,
    Delay,
    Jitter,
    Reorder,
    Cpu,
    Join,
    Leave,
    Lag,
    Mtu,
    Buffer,
    Uplink,
    Downlink,
    SwitchQueue,
    Sites,
    Loopback,
    Burst,
}

fn network(options: &mut SimOptions, words: &mut Words<'_>) -> Result<(), Wrong> {
    let network = &mut options.network;
    match words.choice("a property of the network", &PROPERTIES)? {
        Property::Loss => network.loss_ppm = words.percent("loss")?,
        Property::SharedLoss => network.shared_loss_ppm = words.percent("loss")?,
        Property::Damage => network.damage_ppm = words.percent("damage")?,
        Property::Duplicates => network.duplicate_ppm = words.percent("duplicates")?,
        Property::LagChance => network.membership_lag_ppm = words.percent("the chance")?,
        Property::Delay => network.delay = words.time("the delay")?,
        Property::Jitter => network.jitter = words.time("the jitter")?,
        Property::Reorder => {
            network.reorder_ppm = words.percent("what is held back")?;
            network.reorder_delay = words.time("for how long at most")?;
        }
        Property::Cpu => network.cpu_per_datagram = words.time("time per datagram")?,
        Property::Join => network.join_latency = words.time("the latency")?,
        Property::Leave => network.leave_latency = words.time("the latency")?,
        Property::Lag => network.membership_lag = words.time("the longest lag")?,
        Property::Mtu => network.mtu_bytes = count(words, "bytes", 512..=65_000)?,
        Property::Buffer => network.receive_buffer_bytes = count(words, "bytes", 1..=1 << 40)?,
        Property::Uplink => network.uplink_bits_per_second = words.number("bits per second")?,
        Property::Downlink => network.downlink_bits_per_second = words.number("bits per second")?,
        Property::SwitchQueue => network.switch_queue_bytes = words.number("bytes")?,
        Property::Sites => {
            network.sites = Sites {
                count: count(words, "how many places", 1..=1000)?,
                delay: words.time("the delay between places")?,
                bits_per_second: words.number("bits per second of a link")?,
                queue_bytes: words.number("bytes that wait for a link")?,
                loss_ppm: words.percent("loss on a link")?,
            };
        }
        Property::Loopback => network.loopback = true,
        Property::Burst => {
            network.burst = Some(Burst {
                enter_ppm: words.percent("the chance that a burst begins")?,
                exit_ppm: words.percent("the chance that it ends")?,
                loss_ppm: words.percent("loss while it lasts")?,
            });
        }
    }
    Ok(())
}

fn expectation(words: &mut Words<'_>, options: &SimOptions) -> Result<Expectation, Wrong> {
    let mut counter = words.need("a counter, or `host`")?;
    let mut host = None;
    if counter == "host" {
        host = Some(words.host(options.nodes)?);
        counter = words.need("a counter of this host")?;
    }
    let plan = host.map(|host| options.host(host));
    let known = known_counters(plan);
    if !known.contains(&counter) {
        let meant = nearest(counter, known.iter().copied()).unwrap_or(known[0]);
        let whose = match plan {
            Some(plan) if plan.is_service() => "a membership service",
            Some(plan) if !plan.is_node() => "an observer",
            Some(_) => "a node",
            None => "the nodes or of the report",
        };
        return Err(words.wrong(format!(
            "unknown counter `{counter}`; expected a counter of {whose}, such as `{meant}`"
        )));
    }
    let relations = [
        (">=", Relation::AtLeast),
        ("<=", Relation::AtMost),
        ("=", Relation::Equal),
    ];
    Ok(Expectation {
        host,
        counter: counter.to_owned(),
        relation: words.choice("a relation", &relations)?,
        value: words.number("the value")?,
    })
}

/// Properties of a host.
#[derive(Debug, Clone, Copy)]
pub(super) enum HostWord {
    Role(HostRole),
    Ipv6,
    TwoNetworks,
}

pub(super) const HOST: [(&str, HostWord); 6] = [
    ("node", HostWord::Role(HostRole::Node)),
    ("service", HostWord::Role(HostRole::Service)),
    (
        "embedded-service",
        HostWord::Role(HostRole::EmbeddedService),
    ),
    ("observer", HostWord::Role(HostRole::Observer)),
    ("ipv6", HostWord::Ipv6),
    ("two-networks", HostWord::TwoNetworks),
];

pub(super) const ROLES: [(&str, Role); 2] = [
    ("subscriber", Role::Subscriber),
    ("publisher", Role::Publisher),
];
