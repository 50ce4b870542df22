//! A long snapshot while updates go on: its rate beside that of TCP, and what publishing loses by it.

use std::time::{Duration, Instant};

use super::link::{limit, tcp_rate};
use super::stage::{Event, PATIENCE, Plan, Stage};
use super::told::{State, Told};
use crate::cluster::Failure;
use crate::figure::{Bar, Finding};

/// Time in which TCP is measured.
const TCP: Duration = Duration::from_secs(2);
/// Time in which updates are published before anybody joins.
const BEFORE: Duration = Duration::from_secs(4);
/// Updates that are not measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// Least part of the rate of TCP.
const PART_MIN: f64 = 0.5;
/// Least part of the rate of updates before.
const UPDATES_MIN: f64 = 0.95;

/// A replica that fetches a long snapshot from another one, while a third one publishes.
#[derive(Debug, Clone)]
pub struct Long {
    /// The processes.
    pub plan: Plan,
    /// Updates a second; 0: as many as can be.
    pub rate: u64,
    /// Bits a second that each host may send.
    pub limit: Option<u64>,
}

impl Long {
    /// Runs it once.
    ///
    /// # Errors
    /// The replica does not join, or has another state in the end.
    pub fn run(&self) -> Result<Vec<Finding>, Failure> {
        let mut stage = Stage::open(self.plan.clone())?;
        let tcp = self.measure_tcp(&stage)?;
        eprintln!("TCP: {:.0} MB/s", tcp / 1e6);
        let publisher = stage.start_live()?;
        stage.start_live()?;
        let rate = match self.rate {
            0 => String::from("pace max"),
            rate => format!("pace {rate}"),
        };
        tell(&mut stage, publisher, &rate)?;
        let mut clock = Clock::new(publisher);
        clock.watch(&mut stage, WARM_UP)?;
        clock.sent.clear();
        clock.watch(&mut stage, BEFORE)?;
        let before = clock.rate()?;
        eprintln!("updates: {before:.0}/s");
        clock.sent.clear();
        let joiner = stage.start()?;
        let [given, arrived, live] = clock.watch_join(&mut stage, joiner)?;
        let meanwhile = clock.rate()?;
        tell(&mut stage, publisher, "pace 0")?;
        let differing = differing(&mut stage)?;
        let seconds = |to: u64| to.saturating_sub(given) as f64 / 1e6;
        let carried = self.plan.state as f64 / seconds(arrived);
        let megabytes = |rate: f64| rate / 1e6;
        Ok(vec![
            Finding::new("plain TCP, MB/s", megabytes(tcp), Bar::Told),
            Finding::new("snapshot, MB/s", megabytes(carried), Bar::Told),
            Finding::new("snapshot beside TCP", carried / tcp, Bar::Least(PART_MIN)),
            Finding::new(
                "from the snapshot to the live replica, s",
                seconds(live),
                Bar::Told,
            ),
            Finding::new("updates/s before", before, Bar::Told),
            Finding::new("updates/s meanwhile", meanwhile, Bar::Told),
            Finding::new(
                "updates meanwhile beside before",
                meanwhile / before,
                Bar::Least(UPDATES_MIN),
            ),
            Finding::none("states that differ", differing),
            Finding::none("replicas that bound anew", clock.rebinds),
        ])
    }

    fn measure_tcp(&self, stage: &Stage) -> Result<f64, Failure> {
        let Some((lab, hosts)) = stage.lab() else {
            return tcp_rate(None, TCP);
        };
        if let Some(bits) = self.limit {
            hosts.iter().try_for_each(|host| limit(lab, *host, bits))?;
        }
        // Processes go to the hosts in turn; the second one gives the snapshot, the third one gets it.
        let [_, from, to, ..] = *hosts else {
            return Err("three hosts are needed".into());
        };
        tcp_rate(Some((lab, [from, to])), TCP)
    }
}

/// Updates of the publisher, with their times.
struct Clock {
    publisher: usize,
    sent: Vec<(u64, u64)>,
    rebinds: u64,
}

impl Clock {
    fn new(publisher: usize) -> Self {
        Self {
            publisher,
            sent: Vec::new(),
            rebinds: 0,
        }
    }

    fn note(&mut self, event: &Event) {
        match event.told {
            Told::Sent(count) if event.id == self.publisher => self.sent.push((count, event.at)),
            Told::Rebinds(_) => self.rebinds += 1,
            _ => {}
        }
    }

    fn watch(&mut self, stage: &mut Stage, lasts: Duration) -> Result<(), Failure> {
        let until = Instant::now() + lasts;
        while let Some(event) = stage.next(until)? {
            self.note(&event);
        }
        Ok(())
    }

    /// When a replica got its snapshot: given, arrived, live. What is published is noted from the first
    /// to the last.
    fn watch_join(&mut self, stage: &mut Stage, joiner: usize) -> Result<[u64; 3], Failure> {
        let (mut given, mut arrived) = (None, None);
        let until = Instant::now() + 2 * PATIENCE;
        while let Some(event) = stage.next(until)? {
            match event.told {
                Told::Donates => {
                    given = Some(event.at);
                    self.sent.clear();
                }
                Told::Arrived(_) => arrived = Some(event.at),
                Told::Live { .. } if event.id == joiner => {
                    let times = given.zip(arrived).ok_or("live without a snapshot")?;
                    return Ok([times.0, times.1, event.at]);
                }
                _ => self.note(&event),
            }
        }
        Err(format!("replica {joiner} is not live; {:?}", stage.faults).into())
    }

    fn rate(&self) -> Result<f64, Failure> {
        let first = self.sent.first().ok_or("nothing was published")?;
        let last = self.sent.last().filter(|last| last.1 > first.1);
        let last = last.ok_or("too little was published to tell the rate")?;
        Ok((last.0 - first.0) as f64 / ((last.1 - first.1) as f64 / 1e6))
    }
}

/// Replicas whose state is another one than the first one's, when all have the same updates.
fn differing(stage: &mut Stage) -> Result<u64, Failure> {
    let until = Instant::now() + PATIENCE;
    let mut before = Vec::new();
    while Instant::now() < until {
        let states = states(stage)?;
        let count = states.first().map(|state| state.count);
        let level = states.iter().all(|state| Some(state.count) == count);
        if level && states == before {
            let other = states.iter().filter(|it| states.first() != Some(it));
            return Ok(other.count() as u64);
        }
        before = states;
    }
    Err("replicas do not come to rest".into())
}

/// The states of all, in the order of their births.
fn states(stage: &mut Stage) -> Result<Vec<State>, Failure> {
    let ids: Vec<usize> = stage.members().iter().map(|member| member.id).collect();
    let mut states = Vec::new();
    for id in ids {
        tell(stage, id, "hash")?;
        let hash = |event: &Event| event.id == id && matches!(event.told, Told::Hash(_));
        if let Told::Hash(state) = stage.wait("hash", hash)?.told {
            states.push(state);
        }
    }
    Ok(states)
}

fn tell(stage: &mut Stage, id: usize, line: &str) -> Result<(), Failure> {
    let member = stage.member(id).ok_or("there is no such process")?;
    member.tell(line)
}
