//! Multicast that stops to pass in mid-stream, towards one receiver or towards all hosts, and passes again: what
//! receivers notice of it, what it costs in repairs, and how nodes explain it.

use std::path::Path;
use std::time::{Duration, Instant};

use qsm::Recovery;
use qsm::admin::Reach;

use crate::cluster::{Cluster, Failure, Phase, Plan};
use crate::transport::filter_multicast;
use crate::trial::{Load, Outcome, compare, lives};

/// Longest time for the first message of each group and the first plans, which are not measured: what groups cost at
/// first would be taken for what the path costs.
const FIRST_MAX: Duration = Duration::from_secs(60);
/// Time before each scene that is not measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// Time after the way back that is measured with it.
const AFTER: Duration = Duration::from_secs(1);
/// Time between two looks at the counters.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time between two questions how a group goes.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Longest time for nodes to explain a move: the way back takes up to 64 s where multicast fails often (R-REACH-3).
const EXPLAINED_MAX: Duration = Duration::from_secs(90);
/// Messages a second of an idle stream.
const IDLE_RATE: u64 = 1;
/// Time for which the budget of repairs saves up (R-NAK-7).
const BURST: Duration = Duration::from_millis(50);

/// Course of one trial, and its traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scene {
    /// No multicast reaches one receiver, at full traffic.
    TrafficOne,
    /// No multicast reaches any host, at full traffic.
    TrafficAll,
    /// No multicast reaches one receiver, at a message a second.
    IdleOne,
    /// No multicast reaches any host, at a message a second.
    IdleAll,
}

impl Scene {
    /// All of them, in the order of a trial.
    pub const ALL: [Self; 4] = [
        Self::TrafficOne,
        Self::TrafficAll,
        Self::IdleOne,
        Self::IdleAll,
    ];

    /// Its name in tables and options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TrafficOne => "traffic-one",
            Self::TrafficAll => "traffic-all",
            Self::IdleOne => "idle-one",
            Self::IdleAll => "idle-all",
        }
    }

    /// A message a second is published.
    #[must_use]
    pub fn is_idle(self) -> bool {
        matches!(self, Self::IdleOne | Self::IdleAll)
    }

    /// Multicast reaches nobody.
    #[must_use]
    pub fn is_of_all(self) -> bool {
        matches!(self, Self::TrafficAll | Self::IdleAll)
    }
}

/// An experiment: scenes, one after the other, in one cluster with one publisher.
#[derive(Debug, Clone)]
pub struct PathTrial {
    /// Receivers of all groups, each on a host of its own; at least two. The last one is affected.
    pub receivers: usize,
    /// Groups, to which messages go in turn.
    pub groups: usize,
    /// Load of publishers, but when they are idle.
    pub load: Load,
    /// Time without multicast in each scene, at least; and time for which it is looked at after that.
    pub lasts: Duration,
    /// Time before each scene, to compare with.
    pub calm: Duration,
    /// Plans of the membership service to wait for before the first scene: it makes three after a change, each at most
    /// every 10 s.
    pub plans: u64,
    /// The scenes.
    pub scenes: Vec<Scene>,
}

/// Result of a trial.
#[derive(Debug, Clone, Default)]
pub struct PathOutcome {
    /// Messages told to be lost, over all receivers.
    pub lost: u64,
    /// Ranges of them.
    pub ranges: Vec<String>,
    /// Messages that are missing, doubled or out of order without a word, over all receivers.
    pub untold: u64,
    /// Nodes that began a new life.
    pub new_lives: u64,
    /// Result of each scene.
    pub scenes: Vec<SceneOutcome>,
}

/// Account of the receivers of one part of a scene.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noticed {
    /// By the receiver that is affected.
    pub own: Phase,
    /// By the others, the worst of all.
    pub others: Phase,
}

impl Noticed {
    /// The longest time without a message at any receiver.
    #[must_use]
    pub fn gap(&self) -> Duration {
        self.own.gap.max(self.others.gap)
    }
}

/// Result of a scene.
#[derive(Debug, Clone)]
pub struct SceneOutcome {
    /// The scene.
    pub scene: Scene,
    /// Before multicast stops.
    pub before: Noticed,
    /// Without it.
    pub off: Noticed,
    /// When it passes again, the way back from copies among it.
    pub again: Noticed,
    /// Counters of the time without multicast.
    pub intervals: Vec<Interval>,
    /// Explanations of nodes then, and in the end.
    pub explained: [Explained; 2],
}

/// Growth of counters between two looks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Interval {
    /// Bytes of repairs a second, by multicast and unicast, of the node that sent most (`repair_bytes`).
    pub repairs: f64,
    /// The same as a part of the node's budget (R-NAK-7): without the share that it earns by new packets, and with
    /// copies of repairs, which the budget does not count.
    pub budget: f64,
    /// Copies of all nodes (`copies_sent`).
    pub copies: u64,
    /// Messages that the receiver got that got least.
    pub least: u64,
}

/// Explanations of nodes of where the messages of a group go.
#[derive(Debug, Clone, Default)]
pub struct Explained {
    /// Time until all said what is so.
    pub after: Duration,
    /// Explanation that still was another one when patience was at its end.
    pub otherwise: Option<String>,
}

impl PathOutcome {
    /// Nothing is missing, and everybody is who he was.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.lost + self.untold + self.new_lives == 0
    }
}

impl SceneOutcome {
    /// Latencies of the others without multicast, as a multiple of those with it.
    #[must_use]
    pub fn p99_ratio(&self) -> f64 {
        let [before, off] = [&self.before, &self.off].map(|part| part.others.p99.as_secs_f64());
        off / before.max(1e-6)
    }

    /// The largest part of its budget that a node used for repairs in an interval.
    #[must_use]
    pub fn budget_used(&self) -> f64 {
        let used = self.intervals.iter().map(|interval| interval.budget);
        used.fold(0.0, f64::max)
    }

    /// Messages that a receiver got in an interval; the least of all.
    #[must_use]
    pub fn least(&self) -> u64 {
        let least = self.intervals.iter().map(|interval| interval.least);
        least.min().unwrap_or(0)
    }

    /// Explanations of nodes that were wrong, without multicast and in the end.
    pub fn unexplained(&self) -> impl Iterator<Item = &str> {
        let otherwise = self.explained.iter().map(|one| one.otherwise.as_deref());
        otherwise.flatten()
    }
}

impl PathTrial {
    /// Runs it with this program `system-node`.
    ///
    /// # Errors
    /// A process fails.
    pub fn run(&self, program: &Path) -> Result<PathOutcome, Failure> {
        let mut plan = Plan::new(program, self.receivers);
        plan.groups = self.groups;
        let mut cluster = Cluster::start(plan)?;
        let before = lives(&mut cluster)?;
        cluster.publish(self.load.bytes, self.load.rate)?;
        self.await_first(&mut cluster)?;
        let scenes = self.scenes.iter();
        let scenes = scenes.map(|scene| self.play(&mut cluster, *scene));
        let scenes = scenes.collect::<Result<_, _>>()?;
        let mut whole = Outcome::default();
        compare(&mut cluster, &mut whole)?;
        let after = lives(&mut cluster)?;
        let changed = before
            .iter()
            .zip(&after)
            .filter(|(one, other)| one != other);
        let new_lives = changed.count() as u64;
        cluster.quit()?;
        Ok(PathOutcome {
            lost: whole.lost,
            ranges: whole.ranges,
            untold: whole.untold,
            new_lives,
            scenes,
        })
    }

    /// Waits until each group has had a message, and the service has made its plans.
    fn await_first(&self, cluster: &mut Cluster) -> Result<(), Failure> {
        let end = Instant::now() + FIRST_MAX;
        let publisher = publisher(cluster)?;
        while Instant::now() < end {
            let published = cluster.published(publisher)?;
            let plans = cluster.counter(None, "plans")?;
            if published >= self.groups as u64 && plans >= self.plans {
                break;
            }
            std::thread::sleep(ASK_AGAIN);
        }
        Ok(())
    }

    fn play(&self, cluster: &mut Cluster, scene: Scene) -> Result<SceneOutcome, Failure> {
        let rate = if scene.is_idle() {
            IDLE_RATE
        } else {
            self.load.rate
        };
        cluster.set_rate(rate)?;
        std::thread::sleep(WARM_UP);
        self.noticed(cluster)?;
        self.watch(cluster, self.calm)?;
        let before = self.noticed(cluster)?;
        self.filter(cluster, scene, true)?;
        let intervals = self.watch(cluster, self.lasts)?;
        let deaf: Vec<usize> = match scene.is_of_all() {
            true => cluster.receivers().collect(),
            false => vec![self.affected()],
        };
        let moved = await_explained(cluster, &deaf)?;
        let off = self.noticed(cluster)?;
        self.filter(cluster, scene, false)?;
        self.watch(cluster, self.lasts)?;
        let returned = await_explained(cluster, &[])?;
        std::thread::sleep(AFTER);
        Ok(SceneOutcome {
            scene,
            before,
            off,
            again: self.noticed(cluster)?,
            intervals,
            explained: [moved, returned],
        })
    }

    /// The receiver that multicast stops reaching.
    fn affected(&self) -> usize {
        self.receivers - 1
    }

    fn filter(&self, cluster: &Cluster, scene: Scene, on: bool) -> Result<(), Failure> {
        let one = [cluster.host(Some(self.affected()))];
        let hosts = match scene.is_of_all() {
            true => cluster.hosts(),
            false => &one[..],
        };
        Ok(filter_multicast(cluster.lab(), hosts, on)?)
    }

    /// Ends a part of a scene.
    fn noticed(&self, cluster: &mut Cluster) -> Result<Noticed, Failure> {
        let own = self.affected();
        Ok(Noticed {
            own: cluster.worst_phase(own..=own, &[])?,
            others: cluster.worst_phase(0..own, &[])?,
        })
    }

    /// Looks at the counters for so long.
    fn watch(&self, cluster: &mut Cluster, lasts: Duration) -> Result<Vec<Interval>, Failure> {
        let end = Instant::now() + lasts;
        let mut intervals = Vec::new();
        let mut before = looks(cluster)?;
        while Instant::now() < end {
            std::thread::sleep(INTERVAL.min(end.saturating_duration_since(Instant::now())));
            let now = looks(cluster)?;
            intervals.push(Interval::between(&before, &now, self.receivers));
            before = now;
        }
        Ok(intervals)
    }
}

/// Counters of a node, read between two moments.
#[derive(Debug)]
struct Look {
    asked: Instant,
    answered: Instant,
    repair_bytes: u64,
    copies: u64,
    messages: u64,
}

/// A look at each node, receivers first.
fn looks(cluster: &mut Cluster) -> Result<Vec<Look>, Failure> {
    let nodes = cluster.receivers().chain(cluster.senders());
    let nodes: Vec<usize> = nodes.collect();
    let look = |node| {
        let asked = Instant::now();
        let [repair_bytes, copies] =
            cluster.counters(Some(node), ["repair_bytes", "copies_sent"])?;
        let messages = cluster.known(node)?;
        Ok(Look {
            asked,
            answered: Instant::now(),
            repair_bytes,
            copies,
            messages,
        })
    };
    nodes.into_iter().map(look).collect()
}

impl Interval {
    fn between(before: &[Look], now: &[Look], receivers: usize) -> Self {
        let per_second = Recovery::default().repair_bytes_per_second as f64;
        let mut interval = Self {
            least: u64::MAX,
            ..Self::default()
        };
        for (node, (before, now)) in before.iter().zip(now).enumerate() {
            let bytes = (now.repair_bytes - before.repair_bytes) as f64;
            // Counters were read within these times, so the first is at least what has passed.
            let most = now.answered - before.asked;
            let least = now.asked - before.answered;
            interval.repairs = interval.repairs.max(bytes / least.as_secs_f64().max(1e-3));
            let budget = per_second * (most + BURST).as_secs_f64();
            interval.budget = interval.budget.max(bytes / budget);
            interval.copies += now.copies - before.copies;
            if node < receivers {
                interval.least = interval.least.min(now.messages - before.messages);
            }
        }
        interval
    }
}

/// Waits until publisher and receivers say that these do not hear the publisher's multicast and get copies, and the
/// others hear it.
fn await_explained(cluster: &Cluster, deaf: &[usize]) -> Result<Explained, Failure> {
    let start = Instant::now();
    loop {
        let otherwise = said_otherwise(cluster, deaf)?;
        let after = start.elapsed();
        if otherwise.is_none() || after > EXPLAINED_MAX {
            return Ok(Explained { after, otherwise });
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

fn publisher(cluster: &Cluster) -> Result<usize, Failure> {
    Ok(cluster.senders().next().ok_or("there is no publisher")?)
}

/// Explanation of the publisher, or a receiver, that is not so; `None`: all is explained.
fn said_otherwise(cluster: &Cluster, deaf: &[usize]) -> Result<Option<String>, Failure> {
    let account = cluster.explain(publisher(cluster)?)?;
    for node in cluster.receivers() {
        let host = cluster.lab().host(cluster.host(Some(node))).address();
        let members = account.regions.iter().flat_map(|region| &region.members);
        let mut ways = members.filter(|member| member.address.ip() == host);
        let wanted = match deaf.contains(&node) {
            true => Reach::Copies,
            false => Reach::Multicast,
        };
        let Some(way) = ways.next().map(|member| member.reached) else {
            return Ok(Some(format!("the publisher has no receiver {node}")));
        };
        if way != wanted {
            let what = format!("the publisher reaches receiver {node} by {way:?}, not {wanted:?}");
            return Ok(Some(what));
        }
    }
    for node in cluster.receivers() {
        let account = cluster.explain(node)?;
        let mut streams = account.regions.iter().flat_map(|region| &region.receiving);
        let unheard = streams.any(|stream| stream.unheard_millis.is_some());
        if unheard != deaf.contains(&node) {
            let word = if unheard { "does not hear" } else { "hears" };
            let what = format!("receiver {node} {word} the publisher's multicast");
            return Ok(Some(what));
        }
    }
    Ok(None)
}
