//! One receiver of eight that cannot follow, under each pace that an operator may choose: the others
//! go on, or all of them go at its pace (R-RATE-6, R-RATE-8, R-RATE-10).

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::Traffic;

use super::end;
use crate::cluster::{Cluster, Failure, Phase, Plan};
use crate::figure::{Bar, Finding};

const RECEIVERS: usize = 8;
/// The receiver in trouble.
const VICTIM: usize = RECEIVERS - 1;
/// One message in a packet.
const BYTES: usize = 1000;
/// Parts of a million that a receiver loses of all that comes to it: a half.
const LOSS_PPM: u32 = 500_000;
/// Messages that have not been read when a reader that holds has its senders wait.
const UNREAD: usize = 20;
/// Bytes that its node keeps before they wait, times four, and that its socket takes: at the usual
/// rate senders are ahead of it by as much within a second.
const RECEIVE_BYTES: usize = 2 << 20;
const SOCKET_BYTES: usize = 512 << 10;
/// Part of the messages that a slow reader takes.
const SLOWNESS: u64 = 10;
/// Time before what is measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// Time after which the group follows, or is as fast as before.
const SETTLE: Duration = Duration::from_secs(1);
/// Longest time until the service says that a receiver is away.
const AWAY_MAX: Duration = Duration::from_secs(20);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// A pace of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupPace {
    /// Senders wait for two seconds, then the receiver is set aside.
    Bounded,
    /// They wait for ten seconds, and none goes below twice the rate that is published.
    AtLeast,
    /// They follow it.
    Slowest,
    /// They go at their own rate.
    Uncontrolled,
}

impl GroupPace {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Bounded,
        Self::AtLeast,
        Self::Slowest,
        Self::Uncontrolled,
    ];

    /// Its name in tables and options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bounded => "bounded",
            Self::AtLeast => "minimum",
            Self::Slowest => "slowest",
            Self::Uncontrolled => "uncontrolled",
        }
    }

    fn hint(self, rate: u64) -> String {
        match self {
            Self::Bounded => "bounded 2s".to_owned(),
            Self::AtLeast => format!("bounded 10s min {}/s", 2 * rate),
            Self::Slowest => "slowest".to_owned(),
            Self::Uncontrolled => "uncontrolled".to_owned(),
        }
    }
}

/// Something that keeps a receiver from following.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing: how far two undisturbed times differ.
    None,
    /// Half of what comes to its host is lost.
    Loss,
    /// Its application reads a tenth of what is published, and holds.
    Tenth,
    /// SIGSTOP.
    Stopped,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::Loss, Self::Tenth, Self::Stopped];

    /// Its name in tables and options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Loss => "loss",
            Self::Tenth => "tenth",
            Self::Stopped => "stopped",
        }
    }
}

/// An experiment.
#[derive(Debug, Clone)]
pub struct PaceTrial {
    /// The pace of the group.
    pub pace: GroupPace,
    /// Trouble of the last receiver.
    pub trouble: Trouble,
    /// Messages a second.
    pub rate: u64,
    /// Undisturbed time, to compare with.
    pub calm: Duration,
    /// Time that is measured with the trouble.
    pub lasts: Duration,
}

/// Progress at one moment.
#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    /// Messages that the slowest of the others has.
    others: u64,
    /// Messages that the receiver in trouble has.
    victim: u64,
}

impl Look {
    /// Of the others, and of the receiver in trouble if it can answer.
    fn new(cluster: &mut Cluster, answers: bool) -> Result<Self, Failure> {
        let victim = if answers { cluster.known(VICTIM)? } else { 0 };
        let others = (0..VICTIM).map(|node| cluster.known(node));
        let others = others.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            at: Instant::now(),
            others: others.into_iter().min().unwrap_or(0),
            victim,
        })
    }

    /// Messages a second since then, of the others and of the receiver in trouble.
    fn rates_since(&self, before: &Self) -> [f64; 2] {
        let time = (self.at - before.at).as_secs_f64().max(1e-3);
        let more = [self.others - before.others, self.victim - before.victim];
        more.map(|messages| messages as f64 / time)
    }
}

/// The others' state for a while.
struct Span {
    phase: Phase,
    /// Messages a second, of the others and of the receiver in trouble.
    rates: [f64; 2],
}

impl Span {
    /// Looks at it for so long, and at the receiver in trouble if it can answer.
    fn measure(cluster: &mut Cluster, time: Duration, answers: bool) -> Result<Self, Failure> {
        cluster.worst_phase(0..VICTIM, &[])?;
        let before = Look::new(cluster, answers)?;
        sleep(time);
        let rates = Look::new(cluster, answers)?.rates_since(&before);
        let phase = cluster.worst_phase(0..VICTIM, &[])?;
        Ok(Self { phase, rates })
    }
}

impl PaceTrial {
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.pace.name(), self.trouble.name())
    }

    /// Runs it with this program `system-node`.
    ///
    /// # Errors
    /// A process fails, or the service does not say that a receiver is away that has to be.
    pub fn run(&self, program: &Path) -> Result<Vec<Finding>, Failure> {
        let mut cluster = Cluster::start(self.plan(program))?;
        // Loss of single packets, and not of trains.
        cluster
            .lab()
            .segment_on_wire(cluster.host(Some(RECEIVERS)), true)?;
        cluster.publish(BYTES, self.rate)?;
        sleep(WARM_UP);
        let calm = Span::measure(&mut cluster, self.calm, true)?;
        self.trouble(&mut cluster, true)?;
        self.settle(&mut cluster)?;
        let answers = self.trouble != Trouble::Stopped;
        let troubled = Span::measure(&mut cluster, self.lasts, answers)?;
        self.trouble(&mut cluster, false)?;
        sleep(SETTLE);
        let well = Span::measure(&mut cluster, SETTLE, true)?;
        let mut findings = self.judge(&calm, &troubled);
        let recovery = Finding::new(
            "others' rate from 1 s after it on",
            well.rates[0] / calm.rates[0],
            Bar::Least(0.95),
        );
        findings.push(recovery);
        findings.extend(self.judge_names(&mut cluster)?);
        findings.extend(end(cluster)?);
        Ok(findings)
    }

    fn plan(&self, program: &Path) -> Plan {
        let mut plan = Plan::new(program, RECEIVERS);
        let hints = format!("pace {}: pulse/*", self.pace.hint(self.rate));
        plan.service_options = vec![format!("--hints={hints}")];
        if self.trouble == Trouble::Tenth {
            plan.last_options = vec![
                format!("--receive-bytes={RECEIVE_BYTES}"),
                format!("--receive-buffer={SOCKET_BYTES}"),
            ];
            plan.ways = vec![String::new(); VICTIM];
            plan.ways.push(format!("hold {UNREAD}"));
        }
        plan
    }

    fn trouble(&self, cluster: &mut Cluster, on: bool) -> Result<(), Failure> {
        let victim = Some(VICTIM);
        match self.trouble {
            Trouble::None => {}
            Trouble::Loss => {
                let ppm = if on { LOSS_PPM } else { 0 };
                let host = cluster.host(victim);
                cluster.lab().set_loss(host, ppm, Traffic::All)?;
            }
            Trouble::Tenth => {
                let rate = if on { self.rate / SLOWNESS } else { 0 };
                cluster.ask(VICTIM, &format!("read {rate}"), "reading")?;
            }
            Trouble::Stopped if on => cluster.actor(victim)?.freeze()?,
            Trouble::Stopped => cluster.actor(victim)?.thaw()?,
        }
        Ok(())
    }

    /// The reason for which the receiver has to be away.
    fn away(&self) -> Option<&'static str> {
        match self.trouble {
            Trouble::Stopped => Some("Silent"),
            Trouble::Tenth if self.pace == GroupPace::Bounded => Some("Slow"),
            Trouble::None | Trouble::Loss | Trouble::Tenth => None,
        }
    }

    /// Waits until what the pace promises has to hold.
    fn settle(&self, cluster: &mut Cluster) -> Result<(), Failure> {
        match (self.pace, self.away()) {
            (GroupPace::Bounded, Some(reason)) => {
                await_away(cluster, reason)?;
                sleep(SETTLE);
            }
            (GroupPace::Bounded | GroupPace::Slowest, _) => sleep(SETTLE),
            // From the beginning.
            (GroupPace::AtLeast | GroupPace::Uncontrolled, _) => {}
        }
        Ok(())
    }

    fn judge(&self, calm: &Span, troubled: &Span) -> Vec<Finding> {
        let millis = |phase: &Phase| phase.p99.as_secs_f64() * 1e3;
        let [before, after] = [calm, troubled].map(|span| millis(&span.phase));
        let rate = troubled.rates[0] / calm.rates[0].max(1.0);
        let ratio = after / before.max(1e-3);
        let judged = self.trouble != Trouble::None;
        let bar = |bar: Bar| if judged { bar } else { Bar::Told };
        // A stopped one is silent, and away under each pace.
        let follows = self.pace == GroupPace::Slowest && self.away().is_none();
        let told = [
            Finding::new("p99 before, ms", before, Bar::Told),
            Finding::new("p99, ms", after, Bar::Told),
        ];
        let rules = match follows {
            true => vec![
                Finding::new("others' rate", rate, Bar::Told),
                Finding::new(
                    "others' rate, in its own",
                    troubled.rates[0] / troubled.rates[1].max(1.0),
                    bar(Bar::Most(1.1)),
                ),
            ],
            false => vec![
                Finding::new("others' rate", rate, bar(Bar::Least(0.95))),
                Finding::new("others' p99, ratio", ratio, bar(Bar::Most(1.1))),
            ],
        };
        told.into_iter().chain(rules).collect()
    }

    /// Judges whom the service has named as away.
    fn judge_names(&self, cluster: &mut Cluster) -> Result<[Finding; 2], Failure> {
        let said = cluster.service_events()?;
        let names = away_names(&said);
        let victim = format!("/{}", cluster.actor(Some(VICTIM))?.pid());
        let [own, others]: [Vec<&str>; 2] = [true, false].map(|own| {
            let theirs = names.iter().filter(|name| name.ends_with(&victim) == own);
            theirs.copied().collect()
        });
        let reason = self.away();
        let fits = reason.is_none_or(|reason| said.contains(&format!("reason: {reason}")));
        let named = fits && !own.is_empty();
        let bar = match reason {
            Some(_) => Bar::Always(1.0),
            None => Bar::Told,
        };
        Ok([
            Finding::new("it is named as away", f64::from(u8::from(named)), bar),
            Finding::none("others named as away", others.len() as u64),
        ])
    }
}

/// Names in the events of a service that say that somebody is away.
fn away_names(said: &str) -> Vec<&str> {
    let away = said.match_indices("Away {").map(|(at, _)| &said[at..]);
    away.filter_map(|said| said.split('"').nth(1)).collect()
}

fn await_away(cluster: &mut Cluster, reason: &str) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let said = cluster.service_events()?;
        if !away_names(&said).is_empty() && said.contains(&format!("reason: {reason}")) {
            return Ok(());
        }
        if start.elapsed() > AWAY_MAX {
            return Err(format!("nobody is away as {reason}; the service has said: {said}").into());
        }
        sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_those_that_are_away_are_read() {
        let said = "events Admitted { name: \"h/x/1\" }; Away { origin: 1.1, name: \"h/x/2\", reason: \
                    Slow }; Back { name: \"h/x/3\" }";
        assert_eq!(away_names(said), ["h/x/2"]);
    }
}
