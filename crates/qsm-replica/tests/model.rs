//! Drawn runs of replicas on a network without sockets: members join, die, pause and lose messages, and publish all
//! the while. Afterwards all that live have the same state, and every update is in it once.
//!
//! 100 seeds of each kind in a run of the tests, 60 of logs and 30 of texts; `QSM_REPLICA_RUNS=10000` for more,
//! `200..300` for some of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use qsm_replica::{
    Cause, Core, Limits, LogBounds, LogState, MapBounds, MapState, Notice, Output, RestoreError,
    StateMachine,
};
#[cfg(feature = "text")]
use qsm_replica::{TextBounds, TextState};

const TICK: Duration = Duration::from_millis(20);

/// A state that is tried.
trait Subject: StateMachine + Debug + Sized {
    /// With small bounds it depends on the order of updates in rare cases, which members then mend.
    const FORGETS: bool = false;
    /// An empty one of a member with this number; `small`: with bounds that forget.
    fn new(origin: u64, small: bool) -> Self;
    /// The update of this number.
    fn write(&mut self, number: u64, chance: u64, wall: u64) -> Vec<u8>;
    /// Content that has to be equal at all members.
    fn content(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.snapshot(&mut bytes);
        bytes
    }
    /// Checks what holds whatever was lost.
    fn check_always(&self, _seed: u64) {}
    /// Checks a state that has these updates, each with its source, of which none was lost.
    fn check(&self, updates: &[(usize, Vec<u8>)], seed: u64) {
        // Those of one source come in its order, and else the order does not matter.
        let mut others: Vec<_> = updates.iter().collect();
        others.sort_by_key(|(source, _)| Reverse(*source));
        let mut other = Self::new(0, false);
        for (_, update) in others {
            other.apply(update);
        }
        assert_eq!(self.digest(), other.digest(), "seed {seed}");
    }
}

impl Subject for Ledger {
    fn new(_origin: u64, _small: bool) -> Self {
        Self::default()
    }
    fn write(&mut self, number: u64, _chance: u64, _wall: u64) -> Vec<u8> {
        number.to_le_bytes().to_vec()
    }
    fn content(&self) -> Vec<u8> {
        let entries = self.entries.iter().copied();
        entries.flat_map(u64::to_le_bytes).collect()
    }
    fn check_always(&self, seed: u64) {
        assert_eq!(self.twice, 0, "seed {seed}: an update was applied twice");
    }
    fn check(&self, updates: &[(usize, Vec<u8>)], seed: u64) {
        let all = 1..=updates.len() as u64;
        assert!(
            self.entries.iter().copied().eq(all),
            "seed {seed}: {} of {}",
            self.entries.len(),
            updates.len()
        );
    }
}

impl Subject for MapState {
    const FORGETS: bool = true;
    fn new(origin: u64, small: bool) -> Self {
        let bounds = MapBounds::default();
        Self::of_origin(if small { bounds.removed(2) } else { bounds }, origin)
    }
    fn write(&mut self, number: u64, chance: u64, wall: u64) -> Vec<u8> {
        let key = format!("key/{}", chance % 12);
        let written = match chance % 5 {
            0 | 1 => self.remove(wall, &key),
            _ => self.set(wall, &key, &number.to_le_bytes()),
        };
        written.unwrap()
    }
}

impl Subject for LogState {
    const FORGETS: bool = true;
    fn new(origin: u64, small: bool) -> Self {
        let entries = if small { 3 } else { 40 };
        Self::of_origin(LogBounds::default().entries(entries).bytes(600), origin)
    }
    fn write(&mut self, number: u64, chance: u64, wall: u64) -> Vec<u8> {
        let length = usize::try_from(chance % 50).unwrap();
        let content = [&number.to_le_bytes()[..], &vec![1; length]].concat();
        self.append(wall, &content).unwrap()
    }
}

#[cfg(feature = "text")]
impl Subject for TextState {
    fn new(origin: u64, _small: bool) -> Self {
        Self::of_origin(TextBounds::default(), origin)
    }
    fn write(&mut self, number: u64, chance: u64, _wall: u64) -> Vec<u8> {
        let length = self.text().chars().count();
        let at = usize::try_from(chance).unwrap() % (length + 1);
        match chance % 3 {
            0 => self.remove(at, 4.min(length - at)).unwrap(),
            _ => self.insert(at, &format!("ä{number}")).unwrap(),
        }
    }
    fn content(&self) -> Vec<u8> {
        self.text().into_bytes()
    }
}

/// Each update is a number; they are kept in a set, and one that comes twice is told.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Ledger {
    entries: BTreeSet<u64>,
    twice: u64,
}

impl StateMachine for Ledger {
    fn apply(&mut self, update: &[u8]) {
        let entry = u64::from_le_bytes(update[..8].try_into().unwrap());
        self.twice += u64::from(!self.entries.insert(entry));
    }
    fn snapshot(&self, out: &mut Vec<u8>) {
        for entry in &self.entries {
            // Long enough for several chunks.
            out.extend_from_slice(&[entry.to_le_bytes(); 512].concat());
        }
    }
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        let entry = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
        self.entries = snapshot.chunks(4096).map(entry).collect();
        Ok(())
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 32)
    }
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
    fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

#[derive(Clone)]
enum Packet {
    Update(Vec<u8>),
    Word(Vec<u8>),
    Lost,
}

struct Member<S> {
    core: Core<S>,
    /// Lead of its clock, microseconds.
    ahead: u64,
    /// In the order of its senders, with the time at which each comes.
    queue: Vec<(Duration, usize, Packet)>,
    paused_until: Duration,
    notices: Vec<Notice>,
}

struct World<S> {
    random: Random,
    now: Duration,
    members: BTreeMap<usize, Member<S>>,
    born: usize,
    /// Updates with their sources, in the order of their numbers.
    updates: Vec<(usize, Vec<u8>)>,
    /// When what one sent another comes last: streams keep their order.
    last: BTreeMap<(usize, usize), Duration>,
    losses: bool,
    ever_lost: bool,
}

impl<S: Subject> World<S> {
    fn new(seed: u64, losses: bool) -> Self {
        let members = BTreeMap::new();
        let last = BTreeMap::new();
        let random = Random(seed.wrapping_mul(2) + 1);
        Self {
            random,
            now: Duration::ZERO,
            members,
            born: 0,
            updates: Vec::new(),
            last,
            losses,
            ever_lost: false,
        }
    }

    fn join(&mut self) {
        let limits = Limits::default()
            .attempts(1000)
            .patience(Duration::from_secs(600));
        let seed = self.random.next();
        let core = Core::new(S::new(seed, self.losses), limits, seed, self.now);
        let queue = Vec::new();
        let member = Member {
            core,
            ahead: seed % 2_000_000,
            queue,
            paused_until: Duration::ZERO,
            notices: Vec::new(),
        };
        self.members.insert(self.born, member);
        self.born += 1;
    }

    fn send(&mut self, from: usize, packet: &Packet) {
        let ids: Vec<usize> = self.members.keys().copied().collect();
        for to in ids {
            self.deliver(from, to, packet.clone());
        }
    }

    fn deliver(&mut self, from: usize, to: usize, packet: Packet) {
        let delay = Duration::from_millis(1 + self.random.below(60));
        let last = self.last.entry((from, to)).or_default();
        let at = (self.now + delay).max(*last);
        *last = at;
        let lost = self.losses && matches!(packet, Packet::Update(_)) && self.random.chance(400);
        let packet = if lost { Packet::Lost } else { packet };
        self.ever_lost |= lost;
        self.members
            .get_mut(&to)
            .unwrap()
            .queue
            .push((at, from, packet));
    }

    /// Lets one member do what is due, and sends what it says.
    fn turn(&mut self, id: usize, others: u32) {
        let now = self.now;
        let member = self.members.get_mut(&id).unwrap();
        if member.paused_until > now {
            return;
        }
        // By time; equal times keep the order of arrival, so each sender's order holds.
        member.queue.sort_by_key(|(at, ..)| *at);
        let due = member.queue.partition_point(|(at, ..)| *at <= now);
        for (_, _, packet) in member.queue.drain(..due).collect::<Vec<_>>() {
            match packet {
                Packet::Update(bytes) => member.core.update(&bytes, now),
                Packet::Word(bytes) => member.core.word(&bytes, now),
                Packet::Lost => member.core.lost(now),
            }
        }
        member.core.tick(Some(others), now);
        let mut outputs = Vec::new();
        while let Some(output) = member.core.take() {
            outputs.push(output);
        }
        for output in outputs {
            match output {
                Output::All(word) => self.send(id, &Packet::Word(word)),
                Output::One(to, word) => {
                    let found = self
                        .members
                        .iter()
                        .find(|(_, other)| other.core.address() == to);
                    if let Some(to) = found.map(|(to, _)| *to) {
                        self.deliver(id, to, Packet::Word(word));
                    }
                }
                Output::Tell(notice) => self.members.get_mut(&id).unwrap().notices.push(notice),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Lets a member publish, if it runs and is live.
    fn publish(&mut self, id: usize) {
        let (number, chance) = (self.updates.len() as u64 + 1, self.random.next());
        let member = self.members.get_mut(&id).unwrap();
        if member.paused_until > self.now {
            return;
        }
        let wall = member.ahead + u64::try_from(self.now.as_micros()).unwrap();
        let updates = &mut self.updates;
        let published = member.core.publish_by(|state| {
            let update = state.write(number, chance, wall);
            updates.push((id, update.clone()));
            Ok::<_, ()>(update)
        });
        if let Some(Ok(bytes)) = published {
            self.send(id, &Packet::Update(bytes));
        }
    }

    fn step(&mut self, publish: bool) {
        let ids: Vec<usize> = self.members.keys().copied().collect();
        let others = u32::try_from(ids.len()).unwrap().saturating_sub(1);
        for id in ids {
            if publish && self.random.chance(4) {
                self.publish(id);
            }
            self.turn(id, others);
        }
        self.now += TICK;
    }

    /// Something happens to somebody. At least one live member stays, if there is one.
    fn fault(&mut self) {
        let ids: Vec<usize> = self.members.keys().copied().collect();
        let id = ids[usize::try_from(self.random.below(ids.len() as u64)).unwrap()];
        match self.random.below(3) {
            0 if ids.len() < 7 => self.join(),
            1 => {
                let live =
                    |(other, member): (&usize, &Member<S>)| *other != id && member.core.is_live();
                if self.members.iter().any(live) {
                    self.members.remove(&id);
                }
            }
            _ => {
                let pause = Duration::from_millis(self.random.below(4000));
                self.members.get_mut(&id).unwrap().paused_until = self.now + pause;
            }
        }
    }

    fn settled(&self) -> bool {
        let quiet = |member: &Member<S>| member.core.is_live() && member.queue.is_empty();
        if !self.members.values().all(quiet) {
            return false;
        }
        let mut states = self
            .members
            .values()
            .map(|member| (member.core.history(), member.core.state().content()));
        let first = states.next().unwrap();
        states.all(|state| state == first)
    }
}

fn run<S: Subject>(seed: u64, losses: bool) {
    let mut world = World::<S>::new(seed, losses);
    (0..1 + world.random.below(4)).for_each(|_| world.join());
    for _ in 0..600 {
        if world.random.chance(25) {
            world.fault();
        }
        world.step(true);
    }
    for _ in 0..2000 {
        if world.settled() {
            break;
        }
        world.step(false);
    }
    let states: Vec<_> = world
        .members
        .values()
        .map(|member| {
            (
                member.core.is_live(),
                member.core.history(),
                member.core.updates(),
                member.notices.clone(),
            )
        })
        .collect();
    assert!(world.settled(), "seed {seed}: {states:#?}");
    let member = world.members.values().next().unwrap();
    member.core.state().check_always(seed);
    let exact = !(losses && S::FORGETS);
    if exact && !world.ever_lost {
        member.core.state().check(&world.updates, seed);
        let unfit = [Cause::Hole, Cause::Differs].map(Notice::Rebinds);
        let told = |member: &Member<S>| member.notices.iter().any(|told| unfit.contains(told));
        assert!(!world.members.values().any(told), "seed {seed}");
    }
}

/// Runs the seeds that are asked for, as `200` or `200..300`, else so many.
fn run_all<S: Subject>(usual: u64, losses: bool) {
    let Ok(asked) = std::env::var("QSM_REPLICA_RUNS") else {
        return (0..usual).for_each(|seed| run::<S>(seed, losses));
    };
    let (first, end) = asked.split_once("..").unwrap_or(("0", &asked));
    let seeds = first.parse().unwrap()..end.parse().unwrap();
    seeds.for_each(|seed| run::<S>(seed, losses));
}

#[test]
fn replicas_that_lose_nothing_have_every_update_once() {
    run_all::<Ledger>(100, false);
}

#[test]
fn replicas_that_miss_updates_bind_anew_and_are_equal() {
    run_all::<Ledger>(100, true);
}

#[test]
fn maps_are_equal_whoever_writes_and_ends() {
    run_all::<MapState>(100, false);
}

#[test]
fn maps_that_forget_removals_and_miss_updates_are_equal() {
    run_all::<MapState>(100, true);
}

#[test]
fn logs_are_equal_whoever_writes_and_ends() {
    run_all::<LogState>(60, false);
    run_all::<LogState>(60, true);
}

#[cfg(feature = "text")]
#[test]
fn texts_are_equal_whoever_writes_and_ends() {
    run_all::<TextState>(30, false);
    run_all::<TextState>(30, true);
}
