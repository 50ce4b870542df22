//! One experiment: everybody publishes or receives, somebody stands still or is cut off for a
//! while, and in the end all that was sent is compared with all that came.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, Failure, Phase, Plan, Scope, SenderTotal};
use crate::transport::{Transport, filter_multicast};

/// Time before the fault that is not measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// Longest time until messages come before the fault.
const CALM_MAX: Duration = Duration::from_secs(10);
/// Time after the fault that is measured with it.
const AFTER: Duration = Duration::from_secs(1);
/// Time after the beginning of a fault within which the others must be as fast as before.
const SETTLE: Duration = Duration::from_secs(3);
/// Longest time for the victim to have what the others have.
const RETURN_MAX: Duration = Duration::from_secs(60);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Who is disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The last receiver.
    Receiver,
    /// A receiver that caches for others and does not lead.
    Cacher,
    /// The receiver that leads the region.
    Leader,
    /// A publisher, of two.
    Sender,
    /// The membership service on a host of its own.
    Service,
    /// A receiver that embeds the service.
    Embedded,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Receiver,
        Self::Cacher,
        Self::Leader,
        Self::Sender,
        Self::Service,
        Self::Embedded,
    ];

    /// Its name in tables and options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Receiver => "receiver",
            Self::Cacher => "cacher",
            Self::Leader => "leader",
            Self::Sender => "sender",
            Self::Service => "service",
            Self::Embedded => "embedded",
        }
    }
}

/// What is done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: how far two undisturbed times differ.
    None,
    /// SIGSTOP.
    Pause,
    /// Nothing reaches its host, and nothing leaves it.
    Blackout,
    /// Its interface is down.
    LinkDown,
    /// It reaches the service, and no node.
    Firewall,
    /// It reaches the service, and no node hears it.
    Mute,
    /// No multicast reaches its host.
    Deaf,
    /// No multicast reaches any host.
    AllDeaf,
    /// A second service is started on its host by mistake, and stays.
    Rival,
    /// Its host gets another address, and keeps it.
    Address,
    /// A bit changes in one of a hundred control packets, at all hosts, and UDP's checksum does not
    /// find it.
    Damage,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::None,
        Self::Pause,
        Self::Blackout,
        Self::LinkDown,
        Self::Firewall,
        Self::Mute,
        Self::Deaf,
        Self::AllDeaf,
        Self::Rival,
        Self::Address,
        Self::Damage,
    ];

    /// Its name in tables and options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pause => "pause",
            Self::Blackout => "blackout",
            Self::LinkDown => "link-down",
            Self::Firewall => "firewall",
            Self::Mute => "mute",
            Self::Deaf => "deaf",
            Self::AllDeaf => "all-deaf",
            Self::Rival => "rival",
            Self::Address => "address",
            Self::Damage => "damage",
        }
    }

    /// It can happen to one in this role: a node may reach the service alone, and the service's port is
    /// free on its host.
    #[must_use]
    pub fn concerns(self, role: Role) -> bool {
        let of_nodes = matches!(self, Self::Firewall | Self::Mute | Self::Rival);
        role != Role::Service || !of_nodes
    }

    /// The service says of a node that something is wrong, or new, and so do nodes that ask it.
    fn is_told_by_service(self) -> bool {
        matches!(self, Self::Firewall | Self::Mute | Self::Address)
    }
}

/// What each sender publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Bytes of a message.
    pub bytes: usize,
    /// Messages a second; 0: as many as possible.
    pub rate: u64,
}

/// An experiment.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Who is disturbed.
    pub role: Role,
    /// How.
    pub fault: Fault,
    /// For how long.
    pub lasts: Duration,
    /// What is published.
    pub load: Load,
    /// The transport of all nodes.
    pub transport: Transport,
    /// Receivers, each on a host of its own.
    pub receivers: usize,
    /// Undisturbed time before, to compare with.
    pub calm: Duration,
    /// Options of the service, or of the node that embeds it.
    pub service_options: Vec<String>,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Messages told to be lost, over all receivers.
    pub lost: u64,
    /// Ranges of them.
    pub ranges: Vec<String>,
    /// Messages that are missing, doubled or out of order without a word, over all receivers.
    pub untold: u64,
    /// Nodes that began a new life.
    pub new_lives: u64,
    /// What the service and the victim have said, but for views.
    pub events: Events,
    /// Messages delivered a second of an undisturbed sender, before the fault, and during it from
    /// 3 s on, if it lasts longer.
    pub rates: [u64; 2],
    /// Part of what an undisturbed sender published during the fault, from 3 s on if it lasts
    /// longer, that undisturbed receivers had by the end of it; the least of all.
    pub arrived: f64,
    /// Damage at each node, and at the service if it has a host of its own.
    pub damage: Vec<Discovery>,
    /// Longest time without a message of an undisturbed sender at an undisturbed receiver, before
    /// the fault and during it.
    pub gaps: [Duration; 2],
    /// The same, for the 99th percentile of latencies.
    pub p99: [Duration; 2],
    /// The longest time without a message at the victim during the fault, if it receives.
    pub own_gap: Duration,
    /// Time until the victim had what the others have.
    pub returned: Duration,
}

/// Damage at a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discovery {
    /// Packets damaged.
    pub injected: u64,
    /// Packets whose own checksum was wrong to whoever received them. That is not so where the damage
    /// is in the first bytes: then the packet is of another version, kind or cluster.
    pub found: u64,
}

/// What has been said.
#[derive(Debug, Clone, Default)]
pub struct Events {
    /// By the service, if it has a host of its own.
    pub service: String,
    /// By the victim.
    pub victim: String,
    /// By the second service, if there is one.
    pub rival: String,
    /// By another receiver.
    pub neighbour: String,
    /// Answer of the service to the neighbour, of all nodes at the end of the fault, if it asks.
    pub nodes: String,
}

fn per_second(messages: u64, time: Duration) -> u64 {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    messages * 1000 / millis
}

impl Outcome {
    /// Rate of others during the fault, in that before it.
    #[must_use]
    pub fn rate_ratio(&self) -> f64 {
        self.rates[1] as f64 / self.rates[0].max(1) as f64
    }

    /// Nothing is missing, and everybody is who he was.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.lost + self.untold + self.new_lives == 0
    }

    /// How many times longer latencies are while somebody is disturbed.
    #[must_use]
    pub fn p99_ratio(&self) -> f64 {
        self.p99[1].as_secs_f64() / self.p99[0].as_secs_f64().max(1e-6)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "lost {} in {} ranges, untold {} new lives {} rate {:?} arrived {:.3} gap {:?} p99 {:?} ratio {:.2} own gap {:?} back after {:?}",
            self.lost,
            self.ranges.len(),
            self.untold,
            self.new_lives,
            self.rates,
            self.arrived,
            self.gaps,
            self.p99,
            self.p99_ratio(),
            self.own_gap,
            self.returned
        )
    }
}

impl Trial {
    /// Runs it with this program `system-node`.
    ///
    /// # Errors
    /// A process fails, or the victim does not come back.
    pub fn run(&self, program: &Path) -> Result<Outcome, Failure> {
        let mut plan = Plan::new(program, self.receivers);
        plan.own_service = self.role != Role::Embedded;
        plan.publishers = 1 + usize::from(self.role == Role::Sender);
        plan.service_options.clone_from(&self.service_options);
        plan.transport = self.transport;
        let mut cluster = Cluster::start(plan)?;
        let lives = lives(&mut cluster)?;
        cluster.publish(self.load.bytes, self.load.rate)?;
        std::thread::sleep(WARM_UP);
        let mut outcome = Outcome::default();
        self.measure(&mut cluster)?;
        let calm = self.calm_phase(&mut cluster)?;
        self.own_gap(&mut cluster)?;
        let disturbed = self.disturb(&mut cluster, &mut outcome)?;
        for (at, phase) in [calm, disturbed].into_iter().enumerate() {
            outcome.gaps[at] = phase.gap;
            outcome.p99[at] = phase.p99;
        }
        outcome.rates[0] = per_second(calm.messages, self.calm);
        compare(&mut cluster, &mut outcome)?;
        let after = self::lives(&mut cluster)?;
        let changed = lives.iter().zip(&after).filter(|(one, other)| one != other);
        outcome.new_lives = changed.count() as u64;
        cluster.quit()?;
        Ok(outcome)
    }

    /// Lets the fault happen, and the victim return; measures both as one phase.
    fn disturb(&self, cluster: &mut Cluster, outcome: &mut Outcome) -> Result<Phase, Failure> {
        let settling = if self.lasts > SETTLE {
            SETTLE
        } else {
            Duration::ZERO
        };
        self.set_fault(cluster, true)?;
        std::thread::sleep(settling);
        let before = self.progress(cluster)?;
        std::thread::sleep(self.lasts - settling);
        let after = self.progress(cluster)?;
        outcome.rates[1] = per_second(after.least_since(&before), self.lasts - settling);
        outcome.arrived = after.arrived_since(&before, cluster);
        if self.fault.is_told_by_service() {
            outcome.events.nodes = cluster.nodes_known_to(self.neighbour())?;
        }
        self.set_fault(cluster, false)?;
        outcome.returned = self.await_return(cluster)?;
        std::thread::sleep(AFTER);
        let phase = self.measure(cluster)?;
        outcome.own_gap = self.own_gap(cluster)?;
        self.note_events(cluster, &mut outcome.events)?;
        outcome.damage = discoveries(cluster)?;
        Ok(phase)
    }

    fn note_events(&self, cluster: &mut Cluster, events: &mut Events) -> Result<(), Failure> {
        let victim = self.victim().map(|node| cluster.events(node));
        events.victim = victim.transpose()?.unwrap_or_default();
        events.neighbour = cluster.events(self.neighbour())?;
        events.service = cluster.service_events().unwrap_or_default();
        events.rival = cluster.rival_events().unwrap_or_default();
        Ok(())
    }

    /// A receiver that is not disturbed.
    fn neighbour(&self) -> usize {
        usize::from(self.victim() == Some(0))
    }

    /// The node that is disturbed; `None`: the service.
    #[must_use]
    pub fn victim(&self) -> Option<usize> {
        match self.role {
            Role::Receiver | Role::Embedded => Some(self.receivers - 1),
            Role::Cacher => Some(1),
            Role::Leader => Some(0),
            Role::Sender => Some(self.receivers),
            Role::Service => None,
        }
    }

    /// The time before the fault; longer where the machine has not got to sending in it.
    fn calm_phase(&self, cluster: &mut Cluster) -> Result<Phase, Failure> {
        let begun = Instant::now();
        loop {
            std::thread::sleep(self.calm);
            let calm = self.measure(cluster)?;
            if calm.messages > 0 {
                return Ok(calm);
            }
            if begun.elapsed() > CALM_MAX {
                return Err("no messages came before the fault".into());
            }
        }
    }

    /// Ends a phase; returns the worst of all undisturbed receivers, and undisturbed senders.
    fn measure(&self, cluster: &mut Cluster) -> Result<Phase, Failure> {
        let theirs = self.victims(cluster);
        let nodes = self.undisturbed(cluster);
        cluster.worst_phase(nodes, &theirs)
    }

    /// Ends a phase of the victim, if it receives; returns its longest time without a message.
    fn own_gap(&self, cluster: &mut Cluster) -> Result<Duration, Failure> {
        let victim = self.victim().filter(|node| *node < self.receivers);
        let phases = victim.map(|node| cluster.phase(node)).transpose()?;
        let gaps = phases.into_iter().flatten().map(|(_, phase)| phase.gap);
        Ok(gaps.max().unwrap_or_default())
    }

    /// Progress of undisturbed senders, and of undisturbed receivers with what those send.
    fn progress(&self, cluster: &mut Cluster) -> Result<Progress, Failure> {
        let theirs = self.victims(cluster);
        let mut progress = Progress::default();
        let senders = cluster.senders();
        for node in senders.filter(|node| Some(*node) != self.victim()) {
            progress.published.insert(node, cluster.published(node)?);
        }
        for node in self.undisturbed(cluster) {
            let totals = cluster.totals(node)?;
            let totals = totals.iter().filter(|of| !theirs.contains(&of.sender));
            let counts = totals.map(|of| ((node, of.sender), of.total.messages));
            progress.delivered.extend(counts);
        }
        Ok(progress)
    }

    /// Identities of the disturbed node.
    fn victims(&self, cluster: &Cluster) -> Vec<u64> {
        let victim = self.victim();
        victim.map_or_else(Vec::new, |node| cluster.ids(node).to_vec())
    }

    fn undisturbed(&self, cluster: &Cluster) -> impl Iterator<Item = usize> + use<> {
        let victim = self.victim();
        let receivers = cluster.receivers();
        receivers.filter(move |node| Some(*node) != victim)
    }

    fn set_fault(&self, cluster: &mut Cluster, on: bool) -> Result<(), Failure> {
        let victim = self.victim();
        let host = cluster.host(victim);
        match self.fault {
            Fault::None => {}
            Fault::Pause if on => cluster.actor(victim)?.freeze()?,
            Fault::Pause => cluster.actor(victim)?.thaw()?,
            Fault::Blackout if on => cluster.cut(&[host], Scope::All)?,
            Fault::Firewall if on => cluster.cut(&[host], Scope::Nodes)?,
            Fault::Mute if on => cluster.cut(&[host], Scope::Muted)?,
            Fault::Blackout | Fault::Firewall | Fault::Mute => cluster.lab().heal()?,
            Fault::Deaf => filter_multicast(cluster.lab(), &[host], on)?,
            Fault::AllDeaf => filter_multicast(cluster.lab(), cluster.hosts(), on)?,
            Fault::LinkDown => cluster.lab().set_link(host, !on)?,
            Fault::Rival if on => {
                cluster.start_rival(victim.ok_or("its port is taken on its own host")?)?;
            }
            Fault::Address if on => cluster.change_address(host)?,
            Fault::Rival | Fault::Address => {}
            Fault::Damage => cluster.damage_control(on)?,
        }
        Ok(())
    }

    /// Waits until the victim has what another receiver had a moment before.
    fn await_return(&self, cluster: &mut Cluster) -> Result<Duration, Failure> {
        let start = Instant::now();
        let receives = |node: &usize| *node < self.receivers;
        let Some(victim) = self.victim().filter(receives) else {
            return Ok(Duration::ZERO);
        };
        let other = usize::from(victim == 0);
        loop {
            let wanted = cluster.known(other)?;
            let has = cluster.known(victim)?;
            if has >= wanted {
                return Ok(start.elapsed());
            }
            if start.elapsed() > RETURN_MAX {
                return Err(format!("the victim has {has} of {wanted} messages").into());
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Progress of senders and receivers.
#[derive(Debug, Default)]
struct Progress {
    /// Messages, by sender.
    published: BTreeMap<usize, u64>,
    /// Messages, by receiver and the identity of the sender.
    delivered: BTreeMap<(usize, u64), u64>,
}

impl Progress {
    fn delivered_since(&self, before: &Self) -> BTreeMap<(usize, u64), u64> {
        let former = |stream| before.delivered.get(stream).copied().unwrap_or(0);
        let streams = self.delivered.iter();
        streams
            .map(|(stream, count)| (*stream, count.saturating_sub(former(stream))))
            .collect()
    }

    /// Messages of the slowest stream.
    fn least_since(&self, before: &Self) -> u64 {
        let news = self.delivered_since(before).into_values();
        news.min().unwrap_or(0)
    }

    /// The part of what a sender has published that has arrived at a receiver; the least of all.
    fn arrived_since(&self, before: &Self, cluster: &Cluster) -> f64 {
        let news = self.delivered_since(before);
        let receivers: BTreeSet<usize> = news.keys().map(|(node, _)| *node).collect();
        let mut least = f64::INFINITY;
        for (sender, published) in &self.published {
            let published = published - before.published.get(sender).copied().unwrap_or(0);
            for receiver in &receivers {
                let streams = cluster.ids(*sender).iter().map(|id| (*receiver, *id));
                let arrived: u64 = streams.filter_map(|stream| news.get(&stream)).sum();
                least = least.min(arrived as f64 / published.max(1) as f64);
            }
        }
        least
    }
}

fn discoveries(cluster: &mut Cluster) -> Result<Vec<Discovery>, Failure> {
    let nodes: BTreeSet<usize> = cluster.receivers().chain(cluster.senders()).collect();
    let nodes = nodes.into_iter().map(Some);
    let service = cluster.actor(None).is_ok().then_some(None);
    nodes
        .chain(service)
        .map(|who| discovery(cluster, who))
        .collect()
}

fn discovery(cluster: &mut Cluster, who: Option<usize>) -> Result<Discovery, Failure> {
    let host = cluster.host(who);
    Ok(Discovery {
        injected: cluster.lab().damaged(host)?,
        found: cluster.counter(who, "discard_damaged")?,
    })
}

/// The middle one of some values, the upper one of two; `None` of none.
pub fn median<T: PartialOrd>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
    let middle = values.len() / 2;
    values.into_iter().nth(middle)
}

/// The lives of all nodes.
pub(crate) fn lives(cluster: &mut Cluster) -> Result<Vec<String>, Failure> {
    let nodes = cluster.receivers().chain(cluster.senders());
    let nodes: Vec<usize> = nodes.collect();
    let nodes = nodes.into_iter();
    nodes.map(|node| cluster.lives(node)).collect()
}

/// Ends publishing, waits until all is known everywhere, and counts what is missing.
///
/// # Errors
/// A node fails, or does not come to know everything.
pub fn compare(cluster: &mut Cluster, outcome: &mut Outcome) -> Result<(), Failure> {
    let sent = cluster.stop()?;
    for node in cluster.senders() {
        cluster.ask(node, "flush", "flushed")?;
    }
    let all: u64 = sent.values().sum();
    for node in cluster.receivers() {
        cluster.ask(node, &format!("known {all}"), "known")?;
        let totals = cluster.totals(node)?;
        for SenderTotal { total, .. } in &totals {
            outcome.lost += total.lost;
            outcome.untold += total.disorder + (total.first - 1);
            outcome.ranges.extend(total.ranges.iter().cloned());
        }
        for (sender, count) in &sent {
            let ids = cluster.ids(*sender);
            let theirs = totals.iter().filter(|entry| ids.contains(&entry.sender));
            let known: u64 = theirs.map(|one| one.total.messages + one.total.lost).sum();
            outcome.untold += known.abs_diff(*count);
        }
    }
    Ok(())
}
