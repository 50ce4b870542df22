//! One experiment: everybody publishes or receives, somebody stands still or is cut off for a
//! while, and in the end all that was sent is compared with all that came.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, Failure, Phase, Plan, Scope, SenderTotal};
use crate::transport::Transport;

/// Time before the fault that is not measured.
const WARM_UP: Duration = Duration::from_secs(1);
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
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::None,
        Self::Pause,
        Self::Blackout,
        Self::LinkDown,
        Self::Firewall,
        Self::Mute,
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
        }
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
    /// How all reach each other.
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
    /// Longest time without a message of an undisturbed sender at an undisturbed receiver, before
    /// the fault and during it.
    pub gaps: [Duration; 2],
    /// The same, for the 99th percentile of latencies.
    pub p99: [Duration; 2],
    /// Time until the victim had what the others have.
    pub returned: Duration,
}

/// What has been said.
#[derive(Debug, Clone, Default)]
pub struct Events {
    /// By the service, if it has a host of its own.
    pub service: String,
    /// By the victim.
    pub victim: String,
}

fn events(cluster: &mut Cluster, victim: Option<usize>) -> Result<Events, Failure> {
    let victim = victim.map(|node| cluster.events(node));
    Ok(Events {
        service: cluster.service_events().unwrap_or_default(),
        victim: victim.transpose()?.unwrap_or_default(),
    })
}

fn per_second(messages: u64, time: Duration) -> u64 {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    messages * 1000 / millis
}

impl Outcome {
    /// Others are as fast as before, or nearly.
    #[must_use]
    pub fn is_undisturbed(&self) -> bool {
        self.rates[1] * 100 >= self.rates[0] * 95
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
            "lost {} in {} ranges, untold {} new lives {} rate {:?} gap {:?} p99 {:?} ratio {:.2} back after {:?}",
            self.lost,
            self.ranges.len(),
            self.untold,
            self.new_lives,
            self.rates,
            self.gaps,
            self.p99,
            self.p99_ratio(),
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
        std::thread::sleep(self.calm);
        let calm = self.measure(&mut cluster)?;
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
        let before = self.delivered(cluster)?;
        std::thread::sleep(self.lasts - settling);
        let after = self.delivered(cluster)?;
        let former = |stream| before.get(stream).copied().unwrap_or(0);
        let news = after
            .iter()
            .map(|(stream, count)| count.saturating_sub(former(stream)));
        outcome.rates[1] = per_second(news.min().unwrap_or(0), self.lasts - settling);
        self.set_fault(cluster, false)?;
        outcome.returned = self.await_return(cluster)?;
        std::thread::sleep(AFTER);
        let phase = self.measure(cluster)?;
        outcome.events = events(cluster, self.victim())?;
        Ok(phase)
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

    /// Ends a phase; returns the worst of all undisturbed receivers, and undisturbed senders.
    fn measure(&self, cluster: &mut Cluster) -> Result<Phase, Failure> {
        let theirs = self.victims(cluster);
        let mut worst = Phase {
            messages: u64::MAX,
            ..Phase::default()
        };
        for node in self.undisturbed(cluster) {
            let phases = cluster.phase(node)?;
            let phases = phases.into_iter().filter(|(id, _)| !theirs.contains(id));
            for (_, phase) in phases {
                worst.messages = worst.messages.min(phase.messages);
                worst.gap = worst.gap.max(phase.gap);
                worst.p50 = worst.p50.max(phase.p50);
                worst.p99 = worst.p99.max(phase.p99);
            }
        }
        Ok(worst)
    }

    /// Messages delivered so far, by undisturbed receiver and the identity of the undisturbed sender.
    fn delivered(&self, cluster: &mut Cluster) -> Result<BTreeMap<(usize, u64), u64>, Failure> {
        let theirs = self.victims(cluster);
        let mut delivered = BTreeMap::new();
        for node in self.undisturbed(cluster) {
            let totals = cluster.totals(node)?;
            let totals = totals.iter().filter(|of| !theirs.contains(&of.sender));
            delivered.extend(totals.map(|of| ((node, of.sender), of.total.messages)));
        }
        Ok(delivered)
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

    fn set_fault(&self, cluster: &Cluster, on: bool) -> Result<(), Failure> {
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
            Fault::LinkDown => cluster.lab().set_link(host, !on)?,
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
            let wanted: u64 = cluster.ask(other, "now", "now")?.parse()?;
            let has: u64 = cluster.ask(victim, "now", "now")?.parse()?;
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

/// The lives of all nodes.
fn lives(cluster: &mut Cluster) -> Result<Vec<String>, Failure> {
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
