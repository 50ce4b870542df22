//! Drawn runs of replicas with a total order on a network without sockets. Members join, die, pause, are cut off, lose
//! updates and words, and publish all the while, with the sequencer more often than others. The checker compares what
//! every replica applies at every position with what any other one applied there, also dead ones.
//!
//! 100 seeds in a run of the tests; `QSM_REPLICA_RUNS=10000` for more.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Range;
use std::time::Duration;

use crate::word::{Grant, Record, Word, read, write};
use crate::{Core, History, Limits, Notice, Order, Output, RestoreError, StateMachine};

const TICK: Duration = Duration::from_millis(20);
/// A member that is cut off for so long is excluded.
const GONE: Duration = Duration::from_secs(8);
/// In gentle runs one fault is over before the next one.
const APART: Duration = Duration::from_secs(5);
/// Lost at every hop: one word of so many.
const WORDS_LOST: u64 = 50;

/// All updates as they were applied, and a hash that depends on their order.
#[derive(Debug, Default, Clone)]
struct Journal {
    entries: Vec<u64>,
    hash: u64,
}

impl StateMachine for Journal {
    fn apply(&mut self, update: &[u8]) {
        let entry = u64::from_le_bytes(update.try_into().unwrap());
        self.entries.push(entry);
        self.hash = (self.hash.rotate_left(5) ^ entry).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn snapshot(&self, out: &mut Vec<u8>) {
        for entry in &self.entries {
            out.extend_from_slice(&entry.to_le_bytes());
        }
    }
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        *self = Self::default();
        snapshot.chunks(8).for_each(|entry| self.apply(entry));
        Ok(())
    }
    fn digest(&self) -> Option<u64> {
        Some(self.hash)
    }
}

/// A bug that the checker has to notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mischief {
    None,
    /// Records of a term that is over are taken as those of the present one.
    OldTerm,
    /// Records say that all in them is agreed.
    AtOnce,
    /// Voters confirm more than they have.
    ConfirmsAll,
    /// Voters grant a term to everybody who asks.
    GrantsAll,
}

/// Events of a run.
#[derive(Debug, Clone, Copy)]
struct Plan {
    seed: u64,
    mischief: Mischief,
    /// Nothing but deaths of minorities, joins and pauses: then no update of a survivor may be missing.
    gentle: bool,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        crate::random::draw(&mut self.0)
    }
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
    fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

#[derive(Debug, Clone)]
enum Packet {
    Update(Vec<u8>),
    Word(Vec<u8>),
    Lost,
}

struct Member {
    core: Core<Journal>,
    /// With the sender and the time at which each comes.
    queue: Vec<(Duration, usize, Packet)>,
    paused_until: Duration,
    /// It hears nobody of the other side, nor the service, since then; what it misses comes afterwards.
    cut: Option<Duration>,
    /// Sent by it or to it meanwhile: sender, receiver, packet.
    excluded: bool,
    /// It has said that it ends.
    leaves: bool,
    notices: Vec<Notice>,
    /// History, and length of its journal, that were compared.
    checked: (Option<History>, usize),
    /// The record of the latest term that came, for mischief.
    last: Option<Record>,
}

struct World {
    plan: Plan,
    random: Random,
    now: Duration,
    members: BTreeMap<usize, Member>,
    born: usize,
    published: u64,
    /// By each member.
    owed: BTreeMap<usize, Vec<u64>>,
    /// Last arrival on each way: streams keep their order.
    last: BTreeMap<(usize, usize), Duration>,
    /// Packets that wait for the end of a cut.
    kept: Vec<(usize, usize, Packet)>,
    /// Updates that were applied in each history, by any replica.
    journals: BTreeMap<History, Vec<u64>>,
    sequencers: u64,
    /// First finding of the checker.
    violation: Option<String>,
    faults: bool,
    faulted: Duration,
}

impl World {
    fn new(plan: Plan) -> Self {
        Self {
            plan,
            random: Random(plan.seed.wrapping_mul(2) + 1),
            now: Duration::ZERO,
            members: BTreeMap::new(),
            born: 0,
            published: 0,
            owed: BTreeMap::new(),
            last: BTreeMap::new(),
            kept: Vec::new(),
            journals: BTreeMap::new(),
            sequencers: 0,
            violation: None,
            faults: true,
            faulted: Duration::ZERO,
        }
    }

    fn join(&mut self) {
        let limits = Limits::default()
            .attempts(1000)
            .patience(Duration::from_secs(600));
        let seed = self.random.next();
        let core = Core::ordered(Journal::default(), Order::Total, limits, seed, self.now);
        let member = Member {
            core,
            queue: Vec::new(),
            paused_until: Duration::ZERO,
            cut: None,
            excluded: false,
            leaves: false,
            notices: Vec::new(),
            checked: (None, 0),
            last: None,
        };
        self.members.insert(self.born, member);
        self.born += 1;
    }

    fn send(&mut self, from: usize, packet: &Packet) {
        for to in self.members.keys().copied().collect::<Vec<_>>() {
            self.deliver(from, to, packet.clone());
        }
    }

    fn is_cut(&self, id: usize) -> bool {
        self.members.get(&id).is_some_and(|it| it.cut.is_some())
    }

    fn deliver(&mut self, from: usize, to: usize, packet: Packet) {
        let word = matches!(packet, Packet::Word(_));
        let apart = from != to && self.is_cut(from) != self.is_cut(to);
        let waits = |(source, way, _): &(usize, usize, Packet)| (*source, *way) == (from, to);
        // What is kept back is not overtaken, also where both are cut off by now.
        if apart || (!word && self.kept.iter().any(waits)) {
            // Words are repeated, or too old by then; updates are repaired.
            if !word {
                self.kept.push((from, to, packet));
            }
            return;
        }
        let lossy = self.faults && !self.plan.gentle;
        if lossy && word && from != to && self.random.chance(WORDS_LOST) {
            return;
        }
        let lost = lossy && !word && self.random.chance(1500);
        let packet = if lost { Packet::Lost } else { packet };
        let delay = Duration::from_millis(1 + self.random.below(60));
        let last = self.last.entry((from, to)).or_default();
        let at = (self.now + delay).max(*last);
        *last = at;
        if let Some(member) = self.members.get_mut(&to) {
            member.queue.push((at, from, packet));
        }
    }

    fn turn(&mut self, id: usize) {
        let now = self.now;
        let others = self.counted(id);
        let mischief = self.plan.mischief;
        let member = self.members.get_mut(&id).unwrap();
        if member.paused_until > now {
            return;
        }
        member.queue.sort_by_key(|(at, ..)| *at);
        let mut granted = Vec::new();
        let due = member.queue.partition_point(|(at, ..)| *at <= now);
        for (_, _, packet) in member.queue.drain(..due).collect::<Vec<_>>() {
            match packet {
                Packet::Update(bytes) => member.core.update(&bytes, now),
                Packet::Word(bytes) => {
                    let bytes = spoil(mischief, member, bytes);
                    member.core.word(&bytes, now);
                    granted.extend(grant(mischief, &member.core, &bytes));
                }
                Packet::Lost => member.core.lost(now),
            }
        }
        member.core.tick(Some(others), now);
        let mut outputs = Vec::new();
        while let Some(output) = member.core.take() {
            outputs.push(output);
        }
        self.check(id);
        for word in granted {
            self.send(id, &Packet::Word(word));
        }
        for output in outputs {
            self.carry(id, output);
        }
    }

    fn carry(&mut self, from: usize, output: Output) {
        match output {
            Output::All(word) => self.send(from, &Packet::Word(word)),
            Output::One(to, word) => {
                let found = |(_, other): &(&usize, &Member)| other.core.address() == to;
                if let Some(to) = self.members.iter().find(found).map(|(to, _)| *to) {
                    self.deliver(from, to, Packet::Word(word));
                }
            }
            Output::Tell(notice) => {
                let own = matches!(notice, Notice::Sequencer { own: true, .. });
                self.sequencers += u64::from(own);
                self.members.get_mut(&from).unwrap().notices.push(notice);
            }
        }
    }

    /// Others that the service counts, as this member knows it.
    fn counted(&self, id: usize) -> u32 {
        let cut = self.is_cut(id);
        let others = self.members.iter().filter(|(other, member)| {
            **other != id && (cut || member.cut.is_none() || !member.excluded)
        });
        u32::try_from(others.count()).unwrap()
    }

    /// Compares what this member has applied with what others have at the same positions.
    fn check(&mut self, id: usize) {
        let member = self.members.get_mut(&id).unwrap();
        let Some(history) = member.core.history().filter(|_| member.core.is_live()) else {
            member.checked = (None, 0);
            return;
        };
        let entries = &member.core.state().entries;
        let mut from = match member.checked {
            (Some(checked), length) if checked == history => length,
            _ => 0,
        };
        let journal = self.journals.entry(history).or_default();
        while let Some(entry) = entries.get(from) {
            match journal.get(from) {
                Some(other) if other != entry => {
                    let found = format!("{id} has {entry} at {from}, another one {other}");
                    self.violation.get_or_insert(found);
                    break;
                }
                Some(_) => {}
                None => journal.push(*entry),
            }
            from += 1;
        }
        member.checked = (Some(history), from);
    }

    fn publish(&mut self, id: usize) {
        let number = self.published + 1;
        let member = self.members.get_mut(&id).unwrap();
        if member.paused_until > self.now {
            return;
        }
        if let Some(bytes) = member.core.publish(&number.to_le_bytes()) {
            self.published = number;
            self.owed.entry(id).or_default().push(number);
            self.send(id, &Packet::Update(bytes));
        }
    }

    fn step(&mut self, publish: bool) {
        for id in self.members.keys().copied().collect::<Vec<_>>() {
            if publish && self.random.chance(4) {
                self.publish(id);
            }
            self.turn(id);
        }
        self.now += TICK;
        let now = self.now;
        self.members
            .retain(|_, it| !it.leaves || !it.core.may_end() || !it.core.is_live());
        for member in self.members.values_mut() {
            let long = |cut: Duration| now.saturating_sub(cut) >= GONE;
            member.excluded |= member.cut.is_some_and(long);
        }
    }

    /// The sequencer, as the member says that has heard of the latest.
    fn sequencer(&self) -> Option<usize> {
        let told = self.members.values().flat_map(|it| &it.notices);
        let newest = told.filter_map(|notice| match notice {
            Notice::Sequencer { term, address, .. } => Some((*term, *address)),
            _ => None,
        });
        let (_, address) = newest.max_by_key(|(term, _)| *term)?;
        let found = |(_, it): &(&usize, &Member)| it.core.address() == address;
        self.members.iter().find(found).map(|(id, _)| *id)
    }

    fn fault(&mut self) {
        if self.plan.gentle && self.now.saturating_sub(self.faulted) < APART {
            return;
        }
        self.faulted = self.now;
        let ids: Vec<usize> = self.members.keys().copied().collect();
        let any = ids[usize::try_from(self.random.below(ids.len() as u64)).unwrap()];
        let id = match self.random.chance(3) {
            true => self.sequencer().unwrap_or(any),
            false => any,
        };
        let live = |(other, it): (&usize, &Member)| *other != id && it.core.is_live() && !it.leaves;
        match self.random.below(if self.plan.gentle { 4 } else { 5 }) {
            0 if ids.len() < 7 => self.join(),
            1 => {
                let live = self.members.iter().filter(|it| live(*it)).count();
                if live >= if self.plan.gentle { 3 } else { 1 } {
                    self.members.remove(&id);
                    self.kept.retain(|(_, to, _)| *to != id);
                }
            }
            2 => {
                if self.members.iter().any(live) {
                    let member = self.members.get_mut(&id).unwrap();
                    if !mem::replace(&mut member.leaves, true) {
                        member.core.leave(self.now);
                    }
                }
            }
            4 => {
                self.cut_off(id);
                if self.random.chance(3) {
                    self.cut_off(any);
                }
            }
            _ => {
                let most = if self.plan.gentle { 1500 } else { 4000 };
                let pause = Duration::from_millis(self.random.below(most));
                self.members.get_mut(&id).unwrap().paused_until = self.now + pause;
            }
        }
    }

    fn cut_off(&mut self, id: usize) {
        let now = self.now;
        self.members.get_mut(&id).unwrap().cut.get_or_insert(now);
    }

    /// All that are cut off come back. Who was excluded is told, and misses what was sent meanwhile.
    fn heal(&mut self) {
        let mut excluded = Vec::new();
        for (id, member) in &mut self.members {
            member.cut = None;
            if mem::take(&mut member.excluded) {
                excluded.push(*id);
            }
        }
        for (from, to, packet) in mem::take(&mut self.kept) {
            if !excluded.contains(&from) && !excluded.contains(&to) {
                self.deliver(from, to, packet);
            }
        }
        for id in excluded {
            let at = self.now;
            let member = self.members.get_mut(&id).unwrap();
            member.queue.retain(|(_, from, _)| *from == id);
            member.queue.push((at, id, Packet::Lost));
        }
    }

    /// Looks at what all have in the end.
    fn outcome(mut self) -> Result<(u64, u64), String> {
        if let Some(violation) = self.violation.take() {
            return Err(violation);
        }
        let told = self.members.iter().map(|(id, it)| {
            let core = &it.core;
            (id, core.updates(), core.unapplied(), &it.notices)
        });
        let told: Vec<_> = told.collect();
        if !self.is_settled() {
            return Err(format!("not equal in the end: {told:?}"));
        }
        let entries = &self.members.values().next().unwrap().core.state().entries;
        let once: BTreeSet<u64> = entries.iter().copied().collect();
        if once.len() != entries.len() {
            return Err("an update was applied twice".to_owned());
        }
        if self.plan.gentle && self.journals.len() != 1 {
            return Err(format!("a second history: {told:?}"));
        }
        // In a gentle run nobody binds anew, so only those of the dead may be missing.
        let owed = self
            .owed
            .iter()
            .filter(|(id, _)| self.members.contains_key(id));
        let missing = owed
            .flat_map(|(_, updates)| updates)
            .find(|it| !once.contains(it));
        match missing {
            Some(missing) if self.plan.gentle => Err(format!("{missing} is missing: {told:?}")),
            _ => Ok((entries.len() as u64, self.sequencers)),
        }
    }

    fn is_settled(&self) -> bool {
        let mut states = self.members.values().map(|member| {
            let state = member.core.state();
            (member.core.history(), state.hash, state.entries.len())
        });
        let first = states.next().unwrap();
        let quiet = |it: &Member| {
            let updates = |(_, _, packet): &(_, _, Packet)| !matches!(packet, Packet::Word(_));
            it.core.is_live() && it.core.unapplied() == 0 && !it.queue.iter().any(updates)
        };
        self.members.values().all(quiet) && states.all(|state| state == first)
    }
}

/// Changes a word as the bug would.
fn spoil(mischief: Mischief, member: &mut Member, bytes: Vec<u8>) -> Vec<u8> {
    let mut word = match read::<Word>(&bytes) {
        Some(word) if mischief != Mischief::None => word,
        _ => return bytes,
    };
    match (mischief, &mut word) {
        (Mischief::AtOnce, Word::Record(record)) => record.agreed = u64::MAX,
        (Mischief::ConfirmsAll, Word::Ack(ack)) => ack.reached = u64::MAX,
        (Mischief::OldTerm, Word::Record(record)) => match &member.last {
            Some(last) if last.history == record.history && last.term > record.term => {
                (record.term, record.sequencer) = (last.term, last.sequencer);
                for item in &mut record.items {
                    item.term = last.term;
                }
            }
            _ => member.last = Some(record.clone()),
        },
        _ => {}
    }
    write(&word)
}

/// The vote that the bug gives.
fn grant(mischief: Mischief, core: &Core<Journal>, bytes: &[u8]) -> Option<Vec<u8>> {
    match read::<Word>(bytes) {
        Some(Word::Ask(ask)) if mischief == Mischief::GrantsAll => {
            Some(write(&Word::Grant(Grant {
                history: ask.history,
                term: ask.term,
                life: core.life(),
                to: ask.life,
                trial: ask.trial,
            })))
        }
        _ => None,
    }
}

/// Runs a plan; tells how many updates were applied, and how many times somebody became the sequencer, or what the
/// checker has found.
fn run(plan: Plan) -> Result<(u64, u64), String> {
    let mut world = World::new(plan);
    (0..1 + world.random.below(5)).for_each(|_| world.join());
    for _ in 0..if plan.gentle { 1600 } else { 800 } {
        if world.random.chance(40) {
            world.fault();
        }
        if world.random.chance(150) {
            world.heal();
        }
        world.step(true);
        if let Some(violation) = world.violation {
            return Err(violation);
        }
    }
    world.faults = false;
    world.heal();
    for _ in 0..3000 {
        if world.is_settled() || world.violation.is_some() {
            break;
        }
        world.step(false);
    }
    world.outcome()
}

/// The seeds that are asked for, as `200` or `200..300`, else so many.
fn seeds(usual: u64) -> Range<u64> {
    let Ok(asked) = std::env::var("QSM_REPLICA_RUNS") else {
        return 0..usual;
    };
    let (first, end) = asked.split_once("..").unwrap_or(("0", &asked));
    first.parse().unwrap()..end.parse().unwrap()
}

fn plan(seed: u64, mischief: Mischief) -> Plan {
    let gentle = seed.is_multiple_of(4);
    Plan {
        seed,
        mischief,
        gentle,
    }
}

#[test]
fn all_replicas_apply_the_same_updates_at_the_same_positions() {
    let (mut updates, mut sequencers) = (0, 0);
    let seeds = seeds(100);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let (applied, changes) = run(plan(seed, Mischief::None))
            .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        (updates, sequencers) = (updates + applied, sequencers + changes);
    }
    // Much is applied, and the sequencer changes often, or the runs would show nothing.
    assert!(updates > count * 100, "{updates} in {count}");
    assert!(sequencers > count * 2, "{sequencers} in {count}");
}

/// Seeds in which a source and then the sequencer were cut off: the network let the source's second update overtake its
/// first one, which the sequencer took for that of a source that is gone.
#[test]
fn updates_keep_their_order_though_both_sides_are_cut_off_one_after_the_other() {
    for seed in [16_514, 17_083] {
        let outcome = run(plan(seed, Mischief::None));
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}");
    }
}

/// Bugs, and the seeds within which the checker notices each.
const BUGS: [(Mischief, u64); 4] = [
    (Mischief::OldTerm, 100),
    (Mischief::AtOnce, 100),
    (Mischief::ConfirmsAll, 100),
    (Mischief::GrantsAll, 100),
];

#[test]
fn known_bugs_are_noticed() {
    for (mischief, seeds) in BUGS {
        let mut found = (0..seeds).filter_map(|seed| run(plan(seed, mischief)).err());
        let violation = found
            .next()
            .unwrap_or_else(|| panic!("{mischief:?} is not noticed"));
        assert!(
            violation.contains(" another one "),
            "{mischief:?}: {violation}"
        );
    }
}

/// Three members that vote, in a world without faults.
fn calm(seed: u64) -> World {
    let mut world = World::new(Plan {
        gentle: true,
        ..plan(seed, Mischief::None)
    });
    (0..3).for_each(|_| world.join());
    while !world
        .members
        .values()
        .all(|it| it.core.is_live() && !it.core.may_end())
    {
        world.step(false);
    }
    world
}

#[test]
fn a_dead_sequencer_is_replaced_within_a_second() {
    for seed in 0..50 {
        let mut world = calm(seed);
        (0..50).for_each(|_| world.step(true));
        let dead = world.sequencer().unwrap();
        world.members.remove(&dead);
        let (died, before) = (world.now, world.journals.clone());
        while world.journals == before {
            world.step(true);
        }
        let took = world.now - died;
        // Half a round trip is 60 ms at most, and a turn 20 ms.
        assert!(took < Duration::from_secs(1), "seed {seed}: {took:?}");
        assert_eq!(world.violation, None);
    }
}

#[test]
fn the_numbers_of_sources_that_are_gone_are_forgotten() {
    let mut world = calm(1);
    (0..50).for_each(|_| world.step(true));
    let dead = world.sequencer().unwrap();
    world.members.remove(&dead);
    for _ in 0..4000 {
        world.step(false);
    }
    assert!(world.is_settled() && world.journals.len() == 1);
    assert!(world.members.values().all(|it| it.core.sources() == 2));
    (0..50).for_each(|_| world.step(true));
    (0..50).for_each(|_| world.step(false));
    assert!(world.is_settled() && world.violation.is_none());
}
