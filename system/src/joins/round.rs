//! Replicas that join one after another, and what is killed meanwhile.

use std::fmt;
use std::time::{Duration, Instant};

use super::stage::{Event, PATIENCE, Plan, Stage};
use super::told::Told;
use crate::clock;
use crate::cluster::Failure;
use crate::machine::CpuTime;

/// Replicas between two runs, the publisher among them: of three that vote one may die.
const STANDING: usize = 3;
/// Time of a transfer before one was measured.
const TRANSFER: Duration = Duration::from_millis(50);

/// Victim of a run, which is killed (SIGKILL) while the snapshot comes, or soon after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// Nobody.
    Nobody,
    /// The replica that gives the snapshot.
    Donor,
    /// The replica that joins; another one joins in its place.
    Joiner,
    /// The sequencer, of a total order.
    Sequencer,
}

impl Victim {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Donor => "donor",
            Self::Joiner => "joiner",
            Self::Sequencer => "sequencer",
        }
    }

    /// Those that there are in an order.
    #[must_use]
    pub fn of(total: bool) -> &'static [Self] {
        let all = &[Self::Nobody, Self::Donor, Self::Joiner, Self::Sequencer];
        if total { all } else { &all[..3] }
    }
}

/// A run: a replica has joined.
#[derive(Debug, Clone)]
pub struct Report {
    /// The replica that was killed.
    pub victim: Victim,
    /// From the donor's snapshot to the kill.
    pub delay: Duration,
    /// From the start of the process that joined to the live replica.
    pub joined: Duration,
    /// From the donor's snapshot to its arrival.
    pub transfer: Duration,
    /// From the kill of a sequencer to the next one.
    pub takeover: Option<Duration>,
    /// Longest time between two updates at those that lived.
    pub gap: Duration,
    /// Updates published in a second, if one replica published all the time.
    pub rate: Option<f64>,
    /// Replicas that bound anew, when, and why.
    pub rebinds: Vec<String>,
    /// Comparisons of states.
    pub compared: u64,
    /// States that differ, histories that began, processes that ended.
    pub faults: Vec<String>,
    /// The host of this machine took so little time that times count.
    pub counts: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let (victim, joined) = (self.victim.name(), millis(self.joined));
        write!(f, "{victim} killed")?;
        if self.victim != Victim::Nobody {
            write!(f, " {:.0} ms after the snapshot", millis(self.delay))?;
        }
        write!(
            f,
            ", joined in {joined:.0} ms, longest pause {:.0} ms",
            millis(self.gap)
        )?;
        if let Some(takeover) = self.takeover {
            write!(f, ", next sequencer after {:.0} ms", millis(takeover))?;
        }
        for cause in &self.rebinds {
            write!(f, ", bound anew: {cause}")?;
        }
        if !self.counts {
            f.write_str(", its times do not count: the host is busy")?;
        }
        write!(f, "; {} equal", self.compared)?;
        self.faults
            .iter()
            .try_for_each(|fault| write!(f, "; {fault}"))
    }
}

/// A group whose members come and go.
#[derive(Debug)]
pub struct Rounds {
    stage: Stage,
    /// Updates a second.
    rate: u64,
    random: u64,
    publisher: usize,
    /// Time of the last transfer.
    transfer: Duration,
}

/// A run that goes on.
#[derive(Debug)]
struct Run {
    victim: Victim,
    joiner: usize,
    /// When that one was started, microseconds.
    started: u64,
    /// Donor, and when it gave its snapshot.
    donor: Option<(usize, u64)>,
    /// When the last snapshot was given.
    given: u64,
    arrived: Option<u64>,
    /// When to kill, once there is a donor.
    due: Option<Instant>,
    delay: Duration,
    killed: Option<u64>,
    next: Option<u64>,
    /// Updates that all must have, once the joiner is live.
    target: Option<u64>,
    gap: u64,
    /// First and last count of updates, each with its time; none, if the publisher was another one.
    sent: Option<[(u64, u64); 2]>,
    rebinds: Vec<String>,
}

impl Rounds {
    /// Starts a group of three, one of which publishes so many updates a second.
    ///
    /// # Errors
    /// Something does not start.
    pub fn begin(plan: Plan, rate: u64, seed: u64) -> Result<Self, Failure> {
        let mut stage = Stage::open(plan)?;
        for _ in 0..STANDING {
            stage.start_live()?;
        }
        let mut rounds = Self {
            stage,
            rate,
            random: seed,
            publisher: 1,
            transfer: TRANSFER,
        };
        rounds.wait_votes()?;
        rounds.pace(rounds.publisher)?;
        Ok(rounds)
    }

    /// Has a replica join while this one is killed.
    ///
    /// # Errors
    /// It does not join, or the others do not go on.
    pub fn run(&mut self, victim: Victim) -> Result<Report, Failure> {
        let (cpu, until) = (CpuTime::read(), Instant::now() + PATIENCE);
        let compared = self.stage.compared;
        let mut run = self.start(victim)?;
        while !self.is_done(&mut run) {
            let now = Instant::now();
            if now >= until || !self.stage.faults.is_empty() {
                return Err(self.tell_unfinished(&run).into());
            }
            if run.due.is_some_and(|due| due <= now) {
                run.due = None;
                self.strike(&mut run)?;
            }
            if let Some(event) = self.stage.next(run.due.unwrap_or(until))? {
                self.note(&mut run, &event);
            }
        }
        self.retire()?;
        Ok(self.report(&run, compared, cpu))
    }

    /// Draws whom the next run kills.
    pub fn draw_victim(&mut self) -> Victim {
        let victims = Victim::of(self.stage.plan().total);
        let drawn = self.draw() % victims.len() as u64;
        let place = usize::try_from(drawn).unwrap_or(0);
        victims.get(place).copied().unwrap_or(Victim::Nobody)
    }

    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn start(&mut self, victim: Victim) -> Result<Run, Failure> {
        let most = self.transfer + self.transfer / 2;
        let part = (self.draw() % 1000) as f64 / 1000.0;
        Ok(Run {
            victim,
            started: clock::nanos() / 1000,
            joiner: self.stage.start()?,
            donor: None,
            given: 0,
            arrived: None,
            due: None,
            delay: most.mul_f64(part),
            killed: None,
            next: None,
            target: None,
            gap: 0,
            sent: None,
            rebinds: Vec::new(),
        })
    }

    fn note(&self, run: &mut Run, event: &Event) {
        if event.told == Told::Donates && run.arrived.is_none() {
            run.given = event.at;
        }
        match &event.told {
            Told::Donates if run.donor.is_none() => {
                run.donor = Some((event.id, event.at));
                if run.victim != Victim::Nobody {
                    run.due = Some(Instant::now() + run.delay);
                }
            }
            Told::Arrived(_) if event.id == run.joiner => {
                run.arrived.get_or_insert(event.at);
            }
            Told::Sequencer { own: true, .. } if run.killed.is_some() => {
                run.next.get_or_insert(event.at);
            }
            Told::Mark { gap, .. } if event.id != run.joiner => run.gap = run.gap.max(*gap),
            Told::Rebinds(cause) => {
                let (id, since) = (event.id, event.at.saturating_sub(run.started) / 1000);
                run.rebinds
                    .push(format!("replica {id} after {since} ms: {cause}"));
            }
            Told::Sent(count) if event.id == self.publisher => {
                let now = (*count, event.at);
                run.sent.get_or_insert([now; 2])[1] = now;
            }
            _ => {}
        }
    }

    /// Kills whoever it is to be.
    fn strike(&mut self, run: &mut Run) -> Result<(), Failure> {
        let donor = run.donor.map(|(donor, _)| donor);
        let members = self.stage.members().iter();
        let found = match run.victim {
            Victim::Nobody => None,
            Victim::Donor => donor,
            Victim::Joiner => Some(run.joiner),
            Victim::Sequencer => members.max_by_key(|it| it.sequencer).map(|it| it.id),
        };
        // Without a total order, what a publisher sent last may be with some of the others only.
        let bound = |id: &usize| *id == self.publisher && !self.stage.plan().total;
        let Some(id) = found.filter(|id| !bound(id)) else {
            run.victim = Victim::Nobody;
            return Ok(());
        };
        run.killed = Some(clock::nanos() / 1000);
        self.stage.kill(id);
        if id == run.joiner {
            run.started = clock::nanos() / 1000;
            run.joiner = self.stage.start()?;
            (run.arrived, run.target) = (None, None);
        }
        if id == self.publisher {
            run.sent = None;
            let others = self.stage.members().iter().rev();
            let mut others = others.filter(|it| it.live.is_some() && it.id != run.joiner);
            let next = others.next().map(|it| it.id).ok_or("nobody is left")?;
            self.pace(next)?;
        }
        Ok(())
    }

    /// Has this one publish.
    fn pace(&mut self, publisher: usize) -> Result<(), Failure> {
        self.publisher = publisher;
        let line = format!("pace {}", self.rate);
        let member = self
            .stage
            .member(publisher)
            .ok_or("there is no publisher")?;
        member.tell(&line)
    }

    fn is_done(&self, run: &mut Run) -> bool {
        let members = self.stage.members();
        let struck = run.victim == Victim::Nobody || run.killed.is_some();
        let led = run.victim != Victim::Sequencer || run.next.is_some();
        if !struck || !led || !self.all_vote() || members.iter().any(|it| it.live.is_none()) {
            return false;
        }
        let counts = members
            .iter()
            .map(|it| it.mark.map_or(0, |mark| mark.count));
        let target = run.target.get_or_insert_with(|| {
            let most = counts.clone().max();
            most.unwrap_or(0) + self.stage.plan().mark
        });
        counts.clone().all(|count| count >= *target)
    }

    /// Lets the oldest go, so that as many stay as there were.
    fn retire(&mut self) -> Result<(), Failure> {
        while self.stage.members().len() > STANDING {
            let mut members = self.stage.members().iter();
            let oldest = members.find(|it| it.id != self.publisher);
            let oldest = oldest.map(|it| it.id).ok_or("nobody is left")?;
            self.stage.quit(oldest)?;
        }
        self.wait_votes()
    }

    /// With a total order: all vote, and no dead one does. Then one of three may die.
    fn all_vote(&self) -> bool {
        let members = self.stage.members();
        let all = members.len() as u64;
        !self.stage.plan().total || members.iter().all(|it| it.voters == all)
    }

    fn wait_votes(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        while !self.all_vote() {
            if self.stage.next(until)?.is_none() {
                return Err("not all replicas vote".into());
            }
        }
        Ok(())
    }

    fn report(&mut self, run: &Run, compared: u64, cpu: CpuTime) -> Report {
        let micros = |from: u64, to: u64| Duration::from_micros(to.saturating_sub(from));
        let first = run.donor.map_or(run.started, |(_, at)| at);
        let live = self.stage.member(run.joiner).and_then(|it| it.live);
        let transfer = micros(run.given, run.arrived.unwrap_or(run.given));
        if run.killed.is_none() {
            self.transfer = transfer;
        }
        let rate = run.sent.map(|[first, last]| {
            let time = micros(first.1, last.1).as_secs_f64();
            (last.0 - first.0) as f64 / time
        });
        let sequenced = run.victim == Victim::Sequencer;
        Report {
            victim: run.victim,
            delay: run.killed.map_or(Duration::ZERO, |at| micros(first, at)),
            joined: micros(run.started, live.unwrap_or(run.started)),
            transfer,
            takeover: run
                .next
                .zip(run.killed)
                .filter(|_| sequenced)
                .map(|(next, at)| micros(at, next)),
            gap: Duration::from_micros(run.gap),
            rate: rate.filter(|rate| rate.is_finite()),
            rebinds: run.rebinds.clone(),
            compared: self.stage.compared - compared,
            faults: std::mem::take(&mut self.stage.faults),
            counts: CpuTime::read().counts_since(cpu),
        }
    }

    fn tell_unfinished(&mut self, run: &Run) -> String {
        let members = self.stage.members().iter().map(|it| {
            let (id, live, voters) = (it.id, it.live.is_some(), it.voters);
            let count = it.mark.map_or(0, |mark| mark.count);
            format!("replica {id} live {live} voters {voters} has {count}")
        });
        let members: Vec<String> = members.collect();
        let faults = std::mem::take(&mut self.stage.faults);
        let (victim, joiner) = (run.victim.name(), run.joiner);
        let killed = run.killed.is_some();
        let told = members.join(", ");
        let rebinds = run.rebinds.join("; ");
        format!(
            "not joined: replica {joiner}, victim {victim} (killed: {killed}); {told}; {rebinds}; {faults:?}"
        )
    }
}
