//! Two gateways at each of two sites, in a model of what lies between them: messages go from one site's cluster to the
//! other's, while gateways are killed, stand still and come back, and links are cut. Every subscriber has each message
//! once, in its sender's order. Rules R-RELAY-60 to R-RELAY-63.
//!
//! ```text
//!   senders ──► near 0 ──┬─► far 0 ──► subscribers, which drop what is no newer than what they have,
//!           ──► near 1 ──┴─► far 1 ──►             and the other far gateway
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use qsm_relay::{Merge, Numbered, Standby, StandbySettings};
use qsm_wire::{Instant, Random, Seed};

/// Time in which messages are published, in milliseconds; then the rest has a while to come.
const LASTS: u64 = 40_000;
const REST: u64 = 8_000;
/// Joining takes so long.
const JOINING: u64 = 300;
/// Silence after which a stream gives a receiver up.
const GIVEN_UP: u64 = 5_000;
/// Longest times in which messages are repaired: in the cluster where they are published, on a link, and in the other
/// cluster. Together less than what a gateway keeps messages for: a gateway that begins amid messages could take over
/// from one that has them later, else.
const READ_MAX: u64 = 300;
const LINK_MAX: u64 = 800;
const REPAIR_MAX: u64 = 800;
/// Least time between two faults of one site, from the end of the first.
const PAUSE: u64 = 4_000;
const SENDERS: usize = 3;
const SUBSCRIBERS: usize = 2;

/// A message: its sender, and its number.
type Message = (usize, u64);

/// Known bugs, which the checker must catch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// Subscribers take what comes again.
    TakenAgain,
    /// A gateway forgets at once what another one has published.
    ForgottenAtOnce,
    /// A gateway never takes over.
    NeverActive,
    /// Waits for nothing that one stream lacks.
    GapsNotWaitedFor,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Killed,
    Still,
    /// The link from this near gateway.
    Cut(usize),
}

/// Something that happens to a gateway, and ends.
#[derive(Debug, Clone, Copy)]
struct Fault {
    what: What,
    gateway: usize,
    from: u64,
    until: u64,
}

/// Messages on their way, which do not overtake each other.
#[derive(Debug, Default)]
struct Way(VecDeque<(u64, Message)>);

impl Way {
    fn put(&mut self, at: u64, message: Message) {
        let at = self.0.back().map_or(at, |(last, _)| at.max(*last));
        self.0.push_back((at, message));
    }

    fn take(&mut self, now: u64) -> Option<Message> {
        let due = self.0.front().is_some_and(|(at, _)| *at <= now);
        due.then(|| self.0.pop_front()).flatten().map(|(_, it)| it)
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// A gateway of the site in which messages are published.
#[derive(Default)]
struct Near {
    /// From each sender.
    inbox: [Way; SENDERS],
    fault: Option<Fault>,
    /// When it is joined again by those behind each link.
    joined: [u64; 2],
}

/// A gateway of the other site.
struct Far {
    merge: Merge<usize, ()>,
    standby: Standby<usize, ()>,
    /// From each near gateway.
    links: [Way; 2],
    /// From the other far gateway, through the cluster.
    cluster: Way,
    /// The newest that was heard of each sender.
    heard: [u64; SENDERS],
    /// Accepted, and not sent yet.
    sending: Way,
    fault: Option<Fault>,
}

impl Far {
    fn new(rank: u64, now: u64, bug: Bug) -> Self {
        let mut settings = StandbySettings::new(rank, 1 << 20);
        match bug {
            Bug::ForgottenAtOnce => settings.keep = Duration::ZERO,
            Bug::NeverActive => settings.silence = Duration::from_secs(3600),
            _ => {}
        }
        let streams = if bug == Bug::GapsNotWaitedFor { 1 } else { 2 };
        Self {
            merge: Merge::new(streams, 1 << 20),
            standby: Standby::new(settings, at(now)),
            links: Default::default(),
            cluster: Way::default(),
            heard: [0; SENDERS],
            sending: Way::default(),
            fault: None,
        }
    }
}

#[derive(Default)]
struct Subscriber {
    /// From each far gateway.
    ways: [Way; 2],
    newest: [u64; SENDERS],
    delivered: [u64; SENDERS],
}

fn at(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

/// Faults of one site, one after the other.
fn draw_faults(random: &mut Random, is_far: bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut from = 4_000 + random.below(4_000);
    while from < LASTS {
        let gateway = usize::from(random.below(2) == 1);
        let (what, lasts) = match random.below(if is_far { 3 } else { 2 }) {
            0 => (What::Killed, 500 + random.below(6_000)),
            1 => (What::Still, 100 + random.below(12_000)),
            _ => (
                What::Cut(usize::from(random.below(2) == 1)),
                500 + random.below(8_000),
            ),
        };
        let until = from + lasts;
        faults.push(Fault {
            what,
            gateway,
            from,
            until,
        });
        from = until + PAUSE + random.below(4_000);
    }
    faults
}

struct Model {
    random: Random,
    now: u64,
    bug: Bug,
    ranks: [u64; 2],
    near: [Near; 2],
    far: [Far; 2],
    subscribers: [Subscriber; SUBSCRIBERS],
    published: [u64; SENDERS],
    /// When each sender publishes next.
    next: [u64; SENDERS],
    faults: [Vec<Fault>; 2],
    doubled: u64,
}

/// A broken promise.
struct Broken {
    seed: u64,
    at: u64,
    what: String,
    faults: [Vec<Fault>; 2],
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {} ms: {}", self.seed, self.at, self.what)?;
        for (side, faults) in ["near", "far"].iter().zip(&self.faults) {
            for fault in faults {
                writeln!(f, "{side} {fault:?}")?;
            }
        }
        Ok(())
    }
}

impl Model {
    fn new(seed: u64, bug: Bug) -> Self {
        let mut random = Random::new(Seed(seed), "gateways");
        let ranks = [random.below(64), 64 + random.below(64)];
        let ranks = match random.below(2) {
            0 => ranks,
            _ => [ranks[1], ranks[0]],
        };
        let faults = [false, true].map(|is_far| draw_faults(&mut random, is_far));
        Self {
            now: 0,
            bug,
            ranks,
            near: Default::default(),
            far: ranks.map(|rank| Far::new(rank, 0, bug)),
            subscribers: Default::default(),
            published: [0; SENDERS],
            next: [2_000; SENDERS],
            faults,
            doubled: 0,
            random,
        }
    }

    fn run(mut self, seed: u64) -> Result<u64, Broken> {
        while self.now < LASTS + 2 * GIVEN_UP + REST {
            self.now += 1;
            let done = self.step();
            if let Err(what) = done {
                return Err(self.broken(seed, what));
            }
        }
        for subscriber in &self.subscribers {
            if subscriber.delivered != self.published {
                let what = format!(
                    "{:?} of {:?} have come",
                    subscriber.delivered, self.published
                );
                return Err(self.broken(seed, what));
            }
        }
        Ok(self.doubled)
    }

    fn broken(&self, seed: u64, what: String) -> Broken {
        Broken {
            seed,
            at: self.now,
            what,
            faults: self.faults.clone(),
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.begin_and_end_faults();
        self.publish();
        for gateway in 0..2 {
            self.pass_on(gateway);
            self.take_turn(gateway);
            self.send(gateway);
        }
        (0..SUBSCRIBERS).try_for_each(|subscriber| self.deliver(subscriber))
    }

    fn begin_and_end_faults(&mut self) {
        let now = self.now;
        for (side, faults) in self.faults.clone().iter().enumerate() {
            for fault in faults {
                match side {
                    _ if fault.from == now => self.begin(side, *fault),
                    _ if fault.until == now => self.end(side, *fault),
                    1 if fault.from + GIVEN_UP == now && now < fault.until => self.give_up(*fault),
                    _ => {}
                }
            }
        }
    }

    fn begin(&mut self, side: usize, fault: Fault) {
        let gateway = fault.gateway;
        if side == 0 {
            self.near[gateway].fault = Some(fault);
            if matches!(fault.what, What::Killed) {
                self.near[gateway].inbox.iter_mut().for_each(Way::clear);
                // What has left it comes in any case.
                for far in &mut self.far {
                    far.links[gateway].0.retain(|(at, _)| *at <= fault.from + 5);
                }
            }
            return;
        }
        if matches!(fault.what, What::Killed) {
            self.far[gateway] = Far::new(self.ranks[gateway], fault.from, self.bug);
        }
        self.far[gateway].fault = Some(fault);
    }

    fn end(&mut self, side: usize, fault: Fault) {
        let gateway = fault.gateway;
        let lasted = fault.until - fault.from;
        if side == 0 {
            let near = &mut self.near[gateway];
            near.fault = None;
            if matches!(fault.what, What::Killed) {
                near.joined = [fault.until + JOINING; 2];
            } else if lasted > GIVEN_UP && self.random.below(2) == 0 {
                // Its children have been silent for it, and come back.
                near.joined = [fault.until + JOINING; 2];
            }
            return;
        }
        self.far[gateway].fault = None;
        let joined = fault.until + JOINING;
        match fault.what {
            What::Killed => {
                self.far[gateway] = Far::new(self.ranks[gateway], fault.until, self.bug);
                self.near
                    .iter_mut()
                    .for_each(|near| near.joined[gateway] = joined);
            }
            What::Still if lasted > GIVEN_UP => {
                self.near
                    .iter_mut()
                    .for_each(|near| near.joined[gateway] = joined);
            }
            What::Cut(from) if lasted > GIVEN_UP => self.near[from].joined[gateway] = joined,
            What::Still | What::Cut(_) => {}
        }
    }

    /// A far gateway is given up by the streams that it does not acknowledge.
    fn give_up(&mut self, fault: Fault) {
        let far = &mut self.far[fault.gateway];
        match fault.what {
            What::Killed => {}
            What::Still => far.links.iter_mut().for_each(Way::clear),
            What::Cut(from) => far.links[from].clear(),
        }
        let (gateway, never) = (fault.gateway, fault.until + 1);
        for (number, near) in self.near.iter_mut().enumerate() {
            if !matches!(fault.what, What::Cut(from) if from != number) {
                near.joined[gateway] = near.joined[gateway].max(never);
            }
        }
    }

    fn publish(&mut self) {
        let now = self.now;
        for sender in 0..SENDERS {
            if now < self.next[sender] || now > LASTS {
                continue;
            }
            self.next[sender] =
                now + 1 + self.random.below(30) + 2_000 * u64::from(self.random.below(300) == 0);
            self.published[sender] += 1;
            let message = (sender, self.published[sender]);
            for near in &mut self.near {
                let delay = delay(&mut self.random, READ_MAX);
                if near
                    .fault
                    .is_none_or(|fault| !matches!(fault.what, What::Killed))
                {
                    near.inbox[sender].put(now + delay, message);
                }
            }
        }
    }

    /// A near gateway sends what it reads.
    fn pass_on(&mut self, gateway: usize) {
        let now = self.now;
        if self.near[gateway].fault.is_some() {
            return;
        }
        for sender in 0..SENDERS {
            while let Some(message) = self.near[gateway].inbox[sender].take(now) {
                self.pass_to_both(gateway, message);
            }
        }
    }

    fn pass_to_both(&mut self, gateway: usize, message: Message) {
        let (now, near) = (self.now, &self.near[gateway]);
        for (number, far) in self.far.iter_mut().enumerate() {
            let delay = 5 + delay(&mut self.random, LINK_MAX);
            let fault = far.fault.map(|fault| fault.what);
            if now >= near.joined[number] && !matches!(fault, Some(What::Killed)) {
                far.links[gateway].put(now + delay, message);
            }
        }
    }

    /// A far gateway takes what comes, and publishes what is its turn.
    fn take_turn(&mut self, gateway: usize) {
        let (now, other) = (self.now, self.ranks[1 - gateway]);
        let far = &mut self.far[gateway];
        let cut = match far.fault.map(|fault| fault.what) {
            None => None,
            Some(What::Cut(from)) => Some(from),
            Some(_) => return,
        };
        while let Some((sender, number)) = far.cluster.take(now) {
            if number > far.heard[sender] {
                far.heard[sender] = number;
                far.merge.pass_over(&sender, number);
                far.standby.hear(at(now), other, &sender, number);
            }
        }
        for (from, link) in far.links.iter_mut().enumerate() {
            while cut != Some(from)
                && let Some((key, number)) = link.take(now)
            {
                let message = Numbered {
                    key,
                    number,
                    item: (),
                    bytes: 1,
                };
                far.merge.take(at(now), from, message);
            }
        }
        far.merge.handle_timeout(at(now));
        while let Some(message) = far.merge.poll() {
            far.standby.offer(at(now), message);
        }
        far.standby.handle_timeout(at(now));
        while let Some(release) = far.standby.poll(at(now)) {
            let (key, number) = (release.message.key, release.message.number);
            far.sending.put(now + self.random.below(6), (key, number));
        }
    }

    /// Has messages that a far gateway has published leave it.
    fn send(&mut self, gateway: usize) {
        let now = self.now;
        let fault = self.far[gateway].fault.map(|fault| fault.what);
        if matches!(fault, Some(What::Killed | What::Still)) {
            return;
        }
        while let Some(message) = self.far[gateway].sending.take(now) {
            for subscriber in &mut self.subscribers {
                subscriber.ways[gateway].put(now + delay(&mut self.random, REPAIR_MAX), message);
            }
            let other = &mut self.far[1 - gateway];
            if other
                .fault
                .is_none_or(|fault| !matches!(fault.what, What::Killed))
            {
                other
                    .cluster
                    .put(now + delay(&mut self.random, REPAIR_MAX), message);
            }
        }
    }

    fn deliver(&mut self, subscriber: usize) -> Result<(), String> {
        let (now, bug) = (self.now, self.bug);
        let it = &mut self.subscribers[subscriber];
        for way in &mut it.ways {
            while let Some((sender, number)) = way.take(now) {
                if bug != Bug::TakenAgain && number <= it.newest[sender] {
                    self.doubled += 1;
                    continue;
                }
                it.newest[sender] = number;
                it.delivered[sender] += 1;
                if it.delivered[sender] != number {
                    let expected = it.delivered[sender];
                    return Err(format!(
                        "subscriber {subscriber} gets {number} of sender {sender}, not {expected}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Way of a message through a cluster, or a link: some are repaired.
fn delay(random: &mut Random, longest: u64) -> u64 {
    match random.below(1_000) {
        0 => longest - random.below(longest / 2),
        1..20 => 20 + random.below(280),
        _ => 1 + random.below(4),
    }
}

#[test]
fn every_subscriber_has_each_message_once_while_gateways_come_and_go() {
    let mut doubled = 0;
    let runs = std::env::var("QSM_GATEWAY_RUNS").map_or(60, |runs| runs.parse().unwrap());
    for seed in 0..runs {
        match Model::new(seed, Bug::None).run(seed) {
            Ok(more) => doubled += more,
            Err(broken) => panic!("{broken}"),
        }
    }
    // Else nothing was published again, and dropped.
    assert!(doubled > 1_000, "{doubled}");
}

#[test]
fn known_bugs_of_gateways_are_caught() {
    let bugs = [
        Bug::TakenAgain,
        Bug::ForgottenAtOnce,
        Bug::NeverActive,
        Bug::GapsNotWaitedFor,
    ];
    for bug in bugs {
        let caught = (0..20).any(|seed| Model::new(seed, bug).run(seed).is_err());
        assert!(caught, "{bug:?} is not caught");
    }
}

#[test]
fn the_same_seed_gives_the_same_doubles() {
    let doubles = |seed| Model::new(seed, Bug::None).run(seed).ok();
    assert_eq!(doubles(3), doubles(3));
}
