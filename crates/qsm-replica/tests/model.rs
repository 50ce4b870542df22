//! Drawn runs of replicas on a network without sockets: members join, die, pause and lose messages, and publish all
//! the while. Afterwards all that live have the same state, and every update is in it once.
//!
//! 100 seeds of each kind in a run of the tests; `QSM_REPLICA_RUNS=10000` for more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use qsm_replica::{Cause, Core, Limits, Notice, Output, RestoreError, StateMachine};

const TICK: Duration = Duration::from_millis(20);

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

struct Member {
    core: Core<Ledger>,
    /// In the order of its senders, with the time at which each comes.
    queue: Vec<(Duration, usize, Packet)>,
    paused_until: Duration,
    notices: Vec<Notice>,
}

struct World {
    random: Random,
    now: Duration,
    members: BTreeMap<usize, Member>,
    born: usize,
    entry: u64,
    /// When what one sent another comes last: streams keep their order.
    last: BTreeMap<(usize, usize), Duration>,
    losses: bool,
    ever_lost: bool,
}

impl World {
    fn new(seed: u64, losses: bool) -> Self {
        let members = BTreeMap::new();
        let last = BTreeMap::new();
        let random = Random(seed.wrapping_mul(2) + 1);
        Self {
            random,
            now: Duration::ZERO,
            members,
            born: 0,
            entry: 0,
            last,
            losses,
            ever_lost: false,
        }
    }

    fn join(&mut self) {
        let limits = Limits::default()
            .attempts(1000)
            .patience(Duration::from_secs(600));
        let core = Core::new(Ledger::default(), limits, self.random.next(), self.now);
        let queue = Vec::new();
        let member = Member {
            core,
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

    fn step(&mut self, publish: bool) {
        let ids: Vec<usize> = self.members.keys().copied().collect();
        let others = u32::try_from(ids.len()).unwrap().saturating_sub(1);
        for id in ids {
            if publish && self.random.chance(4) {
                let entry = self.entry + 1;
                let member = self.members.get_mut(&id).unwrap();
                let running = member.paused_until <= self.now;
                if let Some(bytes) = running
                    .then(|| member.core.publish(&entry.to_le_bytes()))
                    .flatten()
                {
                    self.entry = entry;
                    self.send(id, &Packet::Update(bytes));
                }
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
                    |(other, member): (&usize, &Member)| *other != id && member.core.is_live();
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
        let mut states = self
            .members
            .values()
            .map(|member| (member.core.history(), member.core.state()));
        let first = states.next().unwrap();
        self.members
            .values()
            .all(|member| member.core.is_live() && member.queue.is_empty())
            && states.all(|state| state == first)
    }
}

fn run(seed: u64, losses: bool) {
    let mut world = World::new(seed, losses);
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
    assert_eq!(
        member.core.state().twice,
        0,
        "seed {seed}: an update was applied twice"
    );
    if !world.ever_lost {
        let entries = &member.core.state().entries;
        assert!(
            entries.iter().copied().eq(1..=world.entry),
            "seed {seed}: {} of {}",
            entries.len(),
            world.entry
        );
        let holes = Notice::Rebinds(Cause::Hole);
        assert!(
            !world
                .members
                .values()
                .any(|member| member.notices.contains(&holes)),
            "seed {seed}"
        );
    }
}

fn runs() -> u64 {
    std::env::var("QSM_REPLICA_RUNS").map_or(100, |runs| runs.parse().unwrap())
}

#[test]
fn replicas_that_lose_nothing_have_every_update_once() {
    (0..runs()).for_each(|seed| run(seed, false));
}

#[test]
fn replicas_that_miss_updates_bind_anew_and_are_equal() {
    (0..runs()).for_each(|seed| run(seed, true));
}
