//! Drawn runs of keepers and subscribers on a network without sockets: subscribers join in mid-stream and go on from
//! positions, keepers die, begin and pause, senders begin anew, members are excluded, words and live messages are lost.
//! A checker reads what each subscriber was given.
//!
//! 100 seeds of each kind in a run of the tests; `QSM_HISTORY_RUNS=10000` for more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use qsm::{GroupId, Incarnation, Lost, LostCause, Message, NodeId, Origin, Received};
use qsm_history::{
    Address, Bounds, Item, JoinLimits, JoinerCore, KeeperCore, Missing, MissingCause, Position,
    Start,
};

const TICK: Duration = Duration::from_millis(10);
const GROUP: &str = "news";

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

/// A way to be wrong, which the checker must see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// A message is given twice.
    Doubles,
    /// A message that was held is forgotten.
    Forgets,
    /// Messages are missing, and nobody says so.
    Hides,
    /// A message is given before the one that it follows.
    Overtakes,
    /// A message has the content of another.
    Mixes,
}

const BUGS: [Bug; 5] = [
    Bug::Doubles,
    Bug::Forgets,
    Bug::Hides,
    Bug::Overtakes,
    Bug::Mixes,
];

/// Events that may happen in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weather {
    /// One keeper has everything, and stays: nothing may be missing.
    Calm,
    /// Anything.
    Wild,
}

#[derive(Debug, Clone)]
enum Packet {
    Live(Origin, u64),
    Lost(Origin, u64),
    Expired(Origin, u64),
    /// The member was excluded, and has come back.
    Broken,
    Word(Vec<u8>),
}

struct Sender {
    origin: Origin,
    sent: u64,
    alive: bool,
}

struct Reader {
    core: JoinerCore,
    start: Start,
    log: Vec<Item>,
    /// Messages that were sent when it had joined, of each sender.
    sent: Option<BTreeMap<Origin, u64>>,
}

enum Role {
    Keeper(KeeperCore),
    Reader(Reader),
}

struct Member {
    role: Role,
    /// In the order of their senders, with the time at which each comes.
    queue: Vec<(Duration, Packet)>,
    paused_until: Duration,
    /// Senders send it what they send from then on.
    known_at: BTreeMap<Origin, Duration>,
}

struct World {
    random: Random,
    weather: Weather,
    now: Duration,
    senders: Vec<Sender>,
    members: BTreeMap<u64, Member>,
    born: u64,
    /// When what one sent another comes last: streams keep their order.
    last: BTreeMap<(u64, u64), Duration>,
    /// Keepers that died, which the others may still count.
    died: Vec<Duration>,
    ended: Vec<Reader>,
}

fn content(origin: Origin, number: u64) -> Vec<u8> {
    let mut mixed = Random(origin.node.0 ^ number.rotate_left(20) | 1);
    let length = match mixed.below(200) {
        0 => 150_000,
        other => other % 60,
    };
    let byte = mixed.next().to_le_bytes()[0];
    [
        &number.to_le_bytes()[..],
        &vec![byte; usize::try_from(length).unwrap()],
    ]
    .concat()
}

fn message(origin: Origin, number: u64) -> Message {
    Message::new(GROUP, GroupId(1), origin, number, content(origin, number))
}

impl World {
    fn new(seed: u64, weather: Weather) -> Self {
        let mut world = Self {
            random: Random(seed.wrapping_mul(2) + 1),
            weather,
            now: Duration::ZERO,
            senders: Vec::new(),
            members: BTreeMap::new(),
            born: 0,
            last: BTreeMap::new(),
            died: Vec::new(),
            ended: Vec::new(),
        };
        // The first stays in calm runs.
        world.begin_keeper();
        (0..1 + world.random.below(3)).for_each(|_| world.begin_sender(1));
        world
    }

    fn begin_sender(&mut self, life: u32) {
        let node = NodeId(self.random.next());
        self.begin_life(Origin {
            node,
            incarnation: Incarnation(life),
        });
    }

    fn begin_life(&mut self, origin: Origin) {
        for member in self.members.values_mut() {
            // It knows them before it sends.
            member.known_at.insert(origin, self.now);
        }
        self.senders.push(Sender {
            origin,
            sent: 0,
            alive: true,
        });
    }

    fn begin_keeper(&mut self) {
        let bounds = match self.weather {
            Weather::Calm => Bounds::default().messages(100_000),
            Weather::Wild => Bounds::default()
                .messages(1 + usize::try_from(self.random.below(300)).unwrap())
                .bytes(10_000 << self.random.below(8))
                .age(Duration::from_secs(1 + self.random.below(30))),
        };
        let rate = 1_000_000 << self.random.below(6);
        let seed = self.random.next();
        let core = KeeperCore::new(bounds.bytes_per_second(rate), seed);
        self.enter(Role::Keeper(core));
    }

    fn begin_reader(&mut self) {
        let start = match self.random.below(4) {
            0 => Start::Last(0),
            1 | 2 => Start::Last(self.random.below(200)),
            _ => {
                let mut position = Position::default();
                if !self.ended.is_empty() {
                    let at = self.random.below(self.ended.len() as u64);
                    self.ended[usize::try_from(at).unwrap()]
                        .core
                        .note(&mut position);
                }
                Start::Resume(position)
            }
        };
        let held = match self.weather {
            Weather::Calm => 64 << 20,
            Weather::Wild => 20_000 << self.random.below(8),
        };
        let patience = match self.weather {
            // Keepers pause again and again.
            Weather::Calm => Duration::from_secs(40),
            Weather::Wild => Duration::from_secs(4),
        };
        let limits = JoinLimits::default().held_bytes(held).patience(patience);
        let core = JoinerCore::new(GROUP, start.clone(), limits, self.random.next());
        self.enter(Role::Reader(Reader {
            core,
            start,
            log: Vec::new(),
            sent: None,
        }));
    }

    fn enter(&mut self, role: Role) {
        let mut known_at = BTreeMap::new();
        for sender in &self.senders {
            let at = self.now + Duration::from_millis(self.random.below(120));
            known_at.insert(sender.origin, at);
        }
        let member = Member {
            role,
            queue: Vec::new(),
            paused_until: Duration::ZERO,
            known_at,
        };
        self.members.insert(self.born, member);
        self.born += 1;
    }

    fn publish(&mut self, at: usize) {
        let sender = &mut self.senders[at];
        sender.sent += 1;
        let (origin, number) = (sender.origin, sender.sent);
        for id in self.members.keys().copied().collect::<Vec<_>>() {
            let member = &self.members[&id];
            if member.known_at.get(&origin).is_none_or(|at| *at > self.now) {
                continue;
            }
            let stays = self.weather == Weather::Calm && id == 0;
            let lost = !stays && self.random.chance(300);
            let packet = match lost {
                true if self.weather == Weather::Wild && self.random.chance(4) => {
                    Packet::Expired(origin, number)
                }
                true => Packet::Lost(origin, number),
                false => Packet::Live(origin, number),
            };
            self.deliver(1_000_000 + at as u64, id, packet);
        }
    }

    fn deliver(&mut self, from: u64, to: u64, packet: Packet) {
        let delay = Duration::from_millis(1 + self.random.below(60));
        let last = self.last.entry((from, to)).or_default();
        let at = (self.now + delay).max(*last);
        *last = at;
        if let Some(member) = self.members.get_mut(&to) {
            member.queue.push((at, packet));
        }
    }

    fn keepers(&self) -> u32 {
        let keepers = self.members.values();
        let alive = keepers.filter(|member| matches!(member.role, Role::Keeper(_)));
        let recent = |at: &&Duration| self.now - **at < Duration::from_secs(1);
        u32::try_from(alive.count() + self.died.iter().filter(recent).count()).unwrap()
    }

    fn turn(&mut self, id: u64) {
        let (now, keepers) = (self.now, self.keepers());
        let member = self.members.get_mut(&id).unwrap();
        if member.paused_until > now {
            return;
        }
        member.queue.sort_by_key(|(at, _)| *at);
        let due = member.queue.partition_point(|(at, _)| *at <= now);
        let packets: Vec<_> = member.queue.drain(..due).collect();
        let mut said = Vec::new();
        match &mut member.role {
            Role::Keeper(core) => {
                for (_, packet) in packets {
                    match packet {
                        Packet::Live(origin, number) => {
                            core.message(origin, GroupId(1), number, content(origin, number), now);
                        }
                        Packet::Lost(origin, number) | Packet::Expired(origin, number) => {
                            core.lost(origin, number);
                        }
                        Packet::Broken => {}
                        Packet::Word(word) => core.word(&word, now),
                    }
                }
                core.tick(now);
                while let Some((to, word)) = core.take() {
                    said.push((Some(to), word));
                }
            }
            Role::Reader(reader) => {
                for (_, packet) in packets {
                    match packet {
                        Packet::Live(origin, number) => reader.core.live(message(origin, number)),
                        Packet::Lost(origin, number) => {
                            reader.core.lost(Lost::new(GROUP, origin, number, number));
                        }
                        Packet::Expired(origin, number) => {
                            let lost = Lost::new(GROUP, origin, number, number);
                            reader.core.lost(lost.because(LostCause::Expired));
                        }
                        Packet::Broken => reader.core.broken(None),
                        Packet::Word(word) => reader.core.word(&word, now),
                    }
                }
                reader.core.tick(Some(keepers), now);
                while let Some(word) = reader.core.take_word() {
                    said.push((None, word));
                }
                let senders = self.senders.iter();
                let sent = senders.map(|sender| (sender.origin, sender.sent));
                // A program that reads slowly now and then.
                let taken = if self.random.chance(8) { 5 } else { usize::MAX };
                for _ in 0..taken {
                    let Some(item) = reader.core.take_item() else {
                        break;
                    };
                    if matches!(item, Item::Joined(_)) {
                        reader.sent = Some(sent.clone().collect());
                    }
                    reader.log.push(item);
                }
            }
        }
        for (to, word) in said {
            self.say(id, to, &word);
        }
    }

    fn say(&mut self, from: u64, to: Option<Address>, word: &[u8]) {
        let hears = |member: &Member| match (&member.role, to) {
            (Role::Keeper(_), None) => true,
            (Role::Reader(reader), Some(to)) => reader.core.address() == to,
            _ => false,
        };
        let members = self.members.iter();
        let ids: Vec<u64> = members
            .filter(|(_, member)| hears(member))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            if !self.random.chance(25) {
                self.deliver(from, id, Packet::Word(word.to_vec()));
            }
        }
    }

    fn fault(&mut self) {
        let ids: Vec<u64> = self.members.keys().copied().collect();
        if ids.is_empty() {
            return self.begin_reader();
        }
        let id = ids[usize::try_from(self.random.below(ids.len() as u64)).unwrap()];
        let stays = self.weather == Weather::Calm && id == 0;
        match self.random.below(6) {
            0 | 1 if ids.len() < 8 => self.begin_reader(),
            2 if ids.len() < 8 => self.begin_keeper(),
            3 if !stays => match self.members.remove(&id).unwrap().role {
                Role::Keeper(_) => self.died.push(self.now),
                Role::Reader(reader) => self.ended.push(reader),
            },
            4 => {
                let at = usize::try_from(self.random.below(self.senders.len() as u64)).unwrap();
                let sender = &mut self.senders[at];
                if sender.alive && self.weather == Weather::Wild {
                    sender.alive = false;
                    let mut origin = sender.origin;
                    origin.incarnation.0 += 1;
                    self.begin_life(origin);
                }
            }
            5 if !stays && self.random.chance(2) => {
                let back = self.now + Duration::from_millis(self.random.below(2500));
                let member = self.members.get_mut(&id).unwrap();
                // What is on its way to it is lost, and what is sent until then.
                member.queue.clear();
                member.queue.push((back, Packet::Broken));
                member.known_at.values_mut().for_each(|at| *at = back);
                member.paused_until = back;
            }
            _ => {
                let pause = Duration::from_millis(self.random.below(3000));
                self.members.get_mut(&id).unwrap().paused_until = self.now + pause;
            }
        }
    }

    fn step(&mut self, publish: bool) {
        for at in 0..self.senders.len() {
            if publish && self.senders[at].alive && self.random.chance(3) {
                (0..1 + self.random.below(4)).for_each(|_| self.publish(at));
            }
        }
        for id in self.members.keys().copied().collect::<Vec<_>>() {
            self.turn(id);
        }
        self.now += TICK;
    }

    fn settled(&self) -> bool {
        self.members.values().all(|member| match &member.role {
            Role::Keeper(_) => true,
            Role::Reader(reader) => {
                let live = |(_, packet): &&(Duration, Packet)| !matches!(packet, Packet::Word(_));
                reader.core.is_joined()
                    && !reader.core.is_waiting()
                    && member.queue.iter().find(live).is_none()
            }
        })
    }

    /// Readers that are there at the end, and those that have ended.
    fn run(mut self) -> Outcome {
        for step in 0..1200 {
            if step > 50 && self.random.chance(25) {
                self.fault();
            }
            self.step(true);
        }
        // Everybody is back and known, and then gets what shows the end of each stream.
        for _ in 0..300 {
            self.step(false);
        }
        for at in 0..self.senders.len() {
            if self.senders[at].alive {
                self.now += Duration::from_secs(1);
                self.publish(at);
            }
        }
        for _ in 0..6000 {
            if self.settled() {
                break;
            }
            self.step(false);
        }
        let settled = self.settled();
        let mut readers = Vec::new();
        for member in std::mem::take(&mut self.members).into_values() {
            if let Role::Reader(mut reader) = member.role {
                while let Some(item) = reader.core.take_item() {
                    reader.log.push(item);
                }
                readers.push(reader);
            }
        }
        let alive = self.senders.iter().filter(|sender| sender.alive);
        Outcome {
            weather: self.weather,
            ends: alive.map(|sender| (sender.origin, sender.sent)).collect(),
            settled,
            readers,
            ended: self.ended,
        }
    }
}

struct Outcome {
    weather: Weather,
    /// Last message of each sender that lives.
    ends: BTreeMap<Origin, u64>,
    settled: bool,
    readers: Vec<Reader>,
    ended: Vec<Reader>,
}

/// Of each sender, the first number that was given or missing, and the next one. Fails where numbers do not follow each
/// other, or a content is another's.
fn read(log: &[Item]) -> Result<BTreeMap<Origin, (u64, u64)>, String> {
    let mut reached: BTreeMap<Origin, (u64, u64)> = BTreeMap::new();
    for item in log {
        let (sender, first, last) = match item {
            Item::Kept(message) | Item::Message(message) => {
                if message.bytes() != content(message.sender(), message.number()) {
                    return Err(format!("{message:?} has the content of another"));
                }
                (message.sender(), message.number(), message.number())
            }
            Item::Missing(missing) => (missing.sender, missing.first, missing.last),
            Item::Told(Received::Lost(lost)) => (lost.sender, lost.first, lost.last),
            _ => continue,
        };
        if first > last {
            return Err(format!("{item:?} is nothing"));
        }
        let (_, next) = reached.entry(sender).or_insert((first, first));
        if first != *next {
            return Err(format!("{first} of {sender} comes where {next} is due"));
        }
        *next = last + 1;
    }
    Ok(reached)
}

/// Checks what a reader was given (R-HIST-4, R-HIST-5).
fn check(reader: &Reader, outcome: &Outcome, to_the_end: bool) -> Result<(), String> {
    let reached = read(&reader.log)?;
    if let Start::Resume(position) = &reader.start {
        for (sender, (first, _)) in &reached {
            let due = position.get(GROUP, *sender).unwrap_or(0) + 1;
            if *first != due {
                return Err(format!("{sender} begins with {first}, and not with {due}"));
            }
        }
    }
    if to_the_end {
        for (sender, end) in &outcome.ends {
            let next = reached.get(sender).map_or(1, |(_, next)| *next);
            if next != end + 1 {
                return Err(format!("{sender} ends before {next}, and not with {end}"));
            }
        }
    }
    if outcome.weather == Weather::Calm {
        if let Some(missing) = reader
            .log
            .iter()
            .find(|item| matches!(item, Item::Missing(_)))
        {
            return Err(format!("{missing:?} was kept"));
        }
        if let (Start::Last(messages), Some(sent)) = (&reader.start, &reader.sent) {
            for (sender, sent) in sent {
                let first = reached.get(sender).map_or(u64::MAX, |(first, _)| *first);
                if *messages > 0 && *sent > 0 && first > (sent + 1).saturating_sub(*messages).max(1)
                {
                    return Err(format!(
                        "{sender} begins with {first}: not the last {messages} of {sent}"
                    ));
                }
            }
        }
    }
    Ok(())
}

fn runs() -> u64 {
    let asked = std::env::var("QSM_HISTORY_RUNS");
    asked.map_or(100, |runs| runs.parse().unwrap())
}

fn run_all(weather: Weather) {
    let (mut kept, mut missing, mut readers) = (0, BTreeSet::new(), 0);
    for seed in 0..runs() {
        let outcome = World::new(seed, weather).run();
        let stuck: Vec<_> = outcome
            .readers
            .iter()
            .filter(|reader| reader.core.is_waiting())
            .map(|reader| format!("{:#?}", reader.core))
            .collect();
        assert!(outcome.settled, "seed {seed}: {stuck:?}");
        for (readers, to_the_end) in [(&outcome.readers, true), (&outcome.ended, false)] {
            for reader in readers {
                check(reader, &outcome, to_the_end)
                    .unwrap_or_else(|fault| panic!("seed {seed}: {fault}\n{:?}", reader.start));
            }
        }
        for item in outcome.readers.iter().flat_map(|reader| &reader.log) {
            match item {
                Item::Kept(_) => kept += 1,
                Item::Missing(Missing { cause, .. }) => {
                    missing.insert(format!("{cause:?}"));
                }
                _ => {}
            }
        }
        readers += outcome.readers.len();
    }
    assert!(
        kept > 100 && readers > 10,
        "{kept} messages, {readers} readers"
    );
    let causes = [
        MissingCause::Gone,
        MissingCause::Held,
        MissingCause::NoKeeper,
    ];
    let all = causes.map(|cause| format!("{cause:?}"));
    match weather {
        Weather::Calm => assert!(missing.is_empty()),
        Weather::Wild => assert!(missing.into_iter().eq(all), "not all causes were drawn"),
    }
}

/// R-HIST-3, R-HIST-4.
#[test]
fn nothing_is_missing_where_one_keeper_has_everything_and_stays() {
    run_all(Weather::Calm);
}

/// R-HIST-2, R-HIST-5.
#[test]
fn each_message_comes_once_in_order_or_is_named_whatever_happens() {
    run_all(Weather::Wild);
}

impl Bug {
    /// Does it to what a reader was given; false if it cannot be done there.
    fn befall(self, log: &mut Vec<Item>, random: &mut Random) -> bool {
        let message = |item: &Item| matches!(item, Item::Kept(_) | Item::Message(_));
        let sender = |item: &Item| match item {
            Item::Kept(message) | Item::Message(message) => Some(message.sender()),
            Item::Missing(missing) => Some(missing.sender),
            _ => None,
        };
        // Neither the first nor the last of its sender, so that its place is known.
        let inner = |at: usize| {
            let of = sender(&log[at]);
            let same = |item: &Item| sender(item) == of;
            of.is_some() && log[..at].iter().any(same) && log[at + 1..].iter().any(same)
        };
        let wanted = |at: &usize| match self {
            Self::Hides => matches!(log[*at], Item::Missing(_)) && inner(*at),
            Self::Overtakes => {
                message(&log[*at])
                    && log
                        .get(*at + 1)
                        .is_some_and(|next| message(next) && sender(next) == sender(&log[*at]))
            }
            _ => message(&log[*at]) && inner(*at),
        };
        let places: Vec<usize> = (0..log.len()).filter(wanted).collect();
        if places.is_empty() {
            return false;
        }
        let at = places[usize::try_from(random.below(places.len() as u64)).unwrap()];
        match self {
            Self::Doubles => log.insert(at, log[at].clone()),
            Self::Forgets | Self::Hides => drop(log.remove(at)),
            Self::Overtakes => log.swap(at, at + 1),
            Self::Mixes => {
                if let Item::Kept(there) | Item::Message(there) = log[at].clone() {
                    let (origin, number) = (there.sender(), there.number());
                    let other = content(origin, number + 1);
                    log[at] = Item::Kept(Message::new(GROUP, GroupId(1), origin, number, other));
                }
            }
        }
        true
    }
}

#[test]
fn the_checker_sees_each_known_bug() {
    for bug in BUGS {
        let mut caught = 0;
        for seed in 0..12 {
            let mut outcome = World::new(seed, Weather::Wild).run();
            for mut reader in std::mem::take(&mut outcome.readers) {
                assert_eq!(check(&reader, &outcome, true), Ok(()));
                if bug.befall(&mut reader.log, &mut Random(seed + 1)) {
                    caught += 1;
                    let fault = check(&reader, &outcome, true);
                    assert!(fault.is_err(), "{bug:?} of seed {seed} was not seen");
                }
            }
        }
        assert!(caught > 0, "{bug:?} was never tried");
    }
}
