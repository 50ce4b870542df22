//! Everything about a run, drawn from its seed.

use core::fmt;
use core::time::Duration;

use qsm_wire::{Random, Seed};

use crate::link::{Link, Marking};
use crate::network::SOURCE;

/// The version of the draw: the same seed gives another run under another version.
pub const DRAW: u32 = 6;
/// Payload of packets where the rate is judged, so that all take 1,000 bytes of a link.
pub const NARROW_PAYLOAD_BYTES: usize = 936;
/// Bytes that such a packet takes.
pub(crate) const NARROW_PACKET_BYTES: u64 = 1000;

/// Kind of a run: what may happen in it decides what its checkers demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only Data is lost, each copy at most once, and nothing else happens: repairs and NACKs are counted.
    Scope,
    /// Losses, doubles, disorder; nodes are away for less than R-RELAY-3 allows, and nothing may be lost.
    Short,
    /// Two relays above others or above receivers, of which the first ends in mid-stream, or is away: nothing
    /// may be lost, and nobody may wait for longer than a second.
    Standby,
    /// Nodes are away for longer: what is lost must be named.
    Long,
    /// The source adapts its rate to a bottleneck, has always something to send, and must fill half of it.
    Narrow,
}

/// Fault of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A relay forgets everything, and is away for so long.
    Crash(Duration),
    /// A relay or receiver stands still for so long.
    Freeze(Duration),
    /// A relay ends, and begins anew below another parent.
    Move {
        /// The new parent.
        parent: usize,
        /// It is away for so long.
        away: Duration,
    },
    /// A relay ends for good.
    End,
    /// A translator of addresses gives the node another port.
    Port,
    /// Nothing passes between the node and its parent for so long.
    Cut(Duration),
}

/// A fault with its time and node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Time since the stream began.
    pub at: Duration,
    /// Node that it happens to.
    pub node: usize,
    /// The fault.
    pub fault: Fault,
}

/// A run: its tree, its links, its stream and its faults. Node 0 is the source, relays follow, then
/// receivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Seed of the network's random choices.
    pub seed: u64,
    /// Kind of the run.
    pub kind: Kind,
    /// Parents of the relays, nodes 1 and up.
    pub relays: Vec<usize>,
    /// Parents of the receivers, the nodes behind the relays.
    pub receivers: Vec<usize>,
    /// Nodes with their second parents.
    pub standby: Vec<(usize, usize)>,
    /// All links that have none of their own.
    pub link: Link,
    /// Links between a node and its parent.
    pub links: Vec<(usize, Link)>,
    /// Bytes of the caches of relays; 0: none.
    pub caches: Vec<usize>,
    /// Packets of the stream.
    pub packets: u64,
    /// Longest time between two packets, milliseconds.
    pub interval_ms: u64,
    /// Packets that the source keeps.
    pub window: u64,
    /// The source adapts its rate.
    pub rated: bool,
    /// It and all relays send parity.
    pub parity: bool,
    /// Bytes a second of the way to the first relay, and bytes of its queue, in a run of [`Kind::Narrow`].
    pub bottleneck: Option<(u64, u64)>,
    /// Bytes in that queue behind which it marks packets; none: it does not, and the source lets nobody mark them.
    pub mark: Option<u64>,
    /// Packets of a million that are lost on each link, in a run of [`Kind::Scope`].
    pub data_loss_ppm: u32,
    /// Faults, in the order of their times.
    pub faults: Vec<Planned>,
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn size(random: &mut Random, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).unwrap_or(0)
}

impl Plan {
    /// Draws a run.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(Seed(seed), "plan");
        // Apart from the rest, so that other runs are as they were.
        let narrow = Random::new(Seed(seed), "narrow").below(9) == 4;
        let kind = match random.below(8) {
            _ if narrow => Kind::Narrow,
            0 | 1 => Kind::Scope,
            2 => Kind::Long,
            3 => Kind::Standby,
            _ => Kind::Short,
        };
        let mut plan = Self {
            seed,
            kind,
            relays: Vec::new(),
            receivers: Vec::new(),
            standby: Vec::new(),
            link: Link::clean(1 + random.below(20)),
            links: Vec::new(),
            caches: Vec::new(),
            packets: 100 + random.below(300),
            interval_ms: 1 + random.below(6),
            window: 1 << (6 + random.below(5)),
            rated: false,
            parity: false,
            bottleneck: None,
            mark: None,
            data_loss_ppm: 0,
            faults: Vec::new(),
        };
        if kind == Kind::Scope {
            plan.draw_scope(&mut random);
            return plan;
        }
        if kind == Kind::Standby {
            plan.draw_standby(&mut random);
            return plan;
        }
        // Apart from the rest likewise.
        let parity = Random::new(Seed(seed), "parity").below(2) == 0;
        if kind == Kind::Narrow {
            plan.draw_narrow(&mut random);
            plan.parity = parity;
            return plan;
        }
        plan.rated = random.below(4) == 0;
        plan.parity = plan.rated && parity;
        plan.draw_tree(&mut random);
        plan.draw_links(&mut random);
        plan.lighten();
        plan.draw_faults(&mut random);
        plan.draw_caches(&mut random);
        plan
    }

    /// A relay with receivers, and below it relays with receivers of their own, so that an election is
    /// over before its relay would choose another replier.
    fn draw_scope(&mut self, random: &mut Random) {
        self.relays.push(SOURCE);
        self.receivers = vec![1; 3];
        for relay in 2..2 + size(random, 4) {
            self.relays.push(1);
            self.receivers.extend([relay; 6]);
        }
        self.data_loss_ppm = 1000 + u32::try_from(random.below(60_000)).unwrap_or(0);
        self.packets = 200;
        (self.interval_ms, self.window) = (3, 512);
    }

    /// Two relays below the source, children that have both for parents, and a window for five seconds. The
    /// children are receivers, or relays with receivers of their own, which may have two relays, too; then one
    /// of these fails as well.
    fn draw_standby(&mut self, random: &mut Random) {
        self.relays = vec![SOURCE; 2];
        let levels = random.below(3);
        let below = size(random, 2);
        match levels {
            0 => self.receivers = vec![1; 1 + size(random, 12)],
            1 => self.draw_lower(random, 1 + below),
            _ => self.draw_lower(random, 2 + below),
        }
        for at in 0..self.receivers.len() {
            let other = match self.receivers[at] {
                1 => 2,
                parent => 3 + (parent - 2) % (self.relays.len() - 2),
            };
            if levels != 1 {
                self.standby.push((1 + self.relays.len() + at, other));
            }
        }
        self.link = Link::clean(1 + random.below(10));
        self.link.jitter = ms(random.below(4));
        self.link.loss_ppm = u32::try_from(random.below(20_000)).unwrap_or(0);
        (self.interval_ms, self.packets, self.window) = (6, 1000, 4096);
        self.draw_caches(random);
        let at = 300 + random.below(600);
        self.draw_failure(random, ms(at), 1);
        if levels == 2 {
            let later = at + 1200 + random.below(300);
            self.draw_failure(random, ms(later), 3);
        }
    }

    /// A relay behind a bottleneck, and below it receivers and perhaps another relay; with up to half a percent of
    /// loss on each link, less than the control takes for more than chance. As many packets as pass in 8 s.
    fn draw_narrow(&mut self, random: &mut Random) {
        self.relays.push(SOURCE);
        self.receivers = vec![1; 1 + size(random, 6)];
        if random.below(2) == 0 {
            self.relays.push(1);
            self.receivers.extend(vec![2; 1 + size(random, 4)]);
        }
        self.link.jitter = ms(random.below(3));
        self.link.loss_ppm = u32::try_from(random.below(5000)).unwrap_or(0);
        let rate = 100_000 << random.below(4);
        let product =
            rate * random.below(400) / 100 * 2 * self.link.delay.as_millis() as u64 / 1000;
        self.bottleneck = Some((rate, product.max(20 * NARROW_PACKET_BYTES)));
        (self.rated, self.window) = (true, 4096);
        (self.packets, self.interval_ms) = (rate * 8 / NARROW_PACKET_BYTES, 1);
        self.draw_caches(random);
        self.draw_marks(rate);
    }

    /// In a half of the runs the queue marks behind 1 to 40 ms of what passes; on one of four ways marks do not come, or
    /// all packets come with one.
    fn draw_marks(&mut self, rate: u64) {
        let mut random = Random::new(Seed(self.seed), "marks");
        if random.below(2) == 0 {
            self.mark = Some(rate * (1 + random.below(40)) / 1000);
            self.link.marks = match random.below(8) {
                0 => Marking::Bleached,
                1 => Marking::All,
                _ => Marking::Kept,
            };
        }
    }

    /// Relays below both others, with receivers of their own.
    fn draw_lower(&mut self, random: &mut Random, count: usize) {
        for relay in 3..3 + count {
            self.relays.push(1);
            self.standby.push((relay, 2));
            self.receivers.extend(vec![relay; 1 + size(random, 6)]);
        }
    }

    /// A relay ends, or is away for so long that its children may not wait for it.
    fn draw_failure(&mut self, random: &mut Random, at: Duration, node: usize) {
        let fault = match random.below(4) {
            0 => Fault::Freeze(ms(300 + random.below(1500))),
            1 => Fault::Crash(ms(300 + random.below(1500))),
            _ => Fault::End,
        };
        self.faults.push(Planned { at, node, fault });
    }

    /// A tree of up to six relays, at any level.
    fn draw_tree(&mut self, random: &mut Random) {
        for _ in 0..=random.below(6) {
            let parent = size(random, self.relays.len() + 1);
            self.relays.push(parent);
        }
        for relay in 1..=self.relays.len() {
            let count = 1 + size(random, 8);
            self.receivers.extend((0..count).map(|_| relay));
        }
        if random.below(3) == 0 {
            self.receivers.push(SOURCE);
        }
    }

    fn draw_links(&mut self, random: &mut Random) {
        self.link.jitter = ms(random.below(8));
        self.link.loss_ppm = u32::try_from(random.below(80_000)).unwrap_or(0);
        self.link.double_ppm = u32::try_from(random.below(30_000)).unwrap_or(0);
        for node in 1..=self.relays.len() + self.receivers.len() {
            if random.below(4) == 0 {
                let link = Link {
                    delay: self.link.delay.min(ms(1 + random.below(20))),
                    loss_ppm: u32::try_from(random.below(150_000)).unwrap_or(0),
                    ..self.link
                };
                self.links.push((node, link));
            }
        }
    }

    /// With parity more packets, and losses that are not heavy, so that there is some.
    fn lighten(&mut self) {
        if self.parity {
            self.packets *= 4;
            self.link.loss_ppm /= 4;
            for (_, link) in &mut self.links {
                link.loss_ppm /= 8;
            }
        }
    }

    /// In a half of the runs two of three relays keep packets, few or all.
    fn draw_caches(&mut self, random: &mut Random) {
        let some = random.below(2) == 0;
        for _ in &self.relays {
            let bytes = match random.below(3) {
                0 => 0,
                1 => 500 + size(random, 8000),
                _ => 1 << 20,
            };
            self.caches.push(if some { bytes } else { 0 });
        }
    }

    fn draw_faults(&mut self, random: &mut Random) {
        let length = self.packets * self.interval_ms;
        let mut times: Vec<u64> = (0..random.below(6)).map(|_| random.below(length)).collect();
        times.sort_unstable();
        let mut parents = self.relays.clone();
        for at in times {
            let away = match self.kind {
                Kind::Long if random.below(2) == 0 => ms(6000 + random.below(9000)),
                _ if random.below(4) == 0 => ms(random.below(2000)),
                _ => ms(random.below(60)),
            };
            let relay = 1 + size(random, self.relays.len());
            let any = 1 + size(random, self.relays.len() + self.receivers.len());
            let (node, fault) = match random.below(6) {
                0 => (relay, Fault::Crash(away)),
                1 => (any, Fault::Freeze(away)),
                2 => {
                    let parent = size(random, self.relays.len() + 1);
                    if parent == relay || is_below(&parents, parent, relay) {
                        continue;
                    }
                    parents[relay - 1] = parent;
                    (relay, Fault::Move { parent, away })
                }
                3 => (any, Fault::Cut(away)),
                _ => (any, Fault::Port),
            };
            let at = ms(at);
            self.faults.push(Planned { at, node, fault });
        }
    }
}

/// Tells whether a node is below a relay, by the parents of relays.
fn is_below(parents: &[usize], mut node: usize, relay: usize) -> bool {
    while node != SOURCE {
        if node == relay {
            return true;
        }
        node = parents.get(node - 1).copied().unwrap_or(SOURCE);
    }
    false
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {:?}, draw {DRAW}", self.seed, self.kind)?;
        writeln!(
            f,
            "{} packets, 0 to {} ms apart, window {}{}",
            self.packets,
            self.interval_ms - 1,
            self.window,
            match (self.rated, self.parity) {
                (true, true) => ", rate adapted, parity",
                (true, false) => ", rate adapted",
                (false, _) => "",
            }
        )?;
        writeln!(f, "parents of relays 1 on: {:?}", self.relays)?;
        writeln!(f, "parents of the receivers behind: {:?}", self.receivers)?;
        for (node, parent) in &self.standby {
            writeln!(f, "second parent of {node}: {parent}")?;
        }
        writeln!(f, "caches of relays: {:?}", self.caches)?;
        writeln!(f, "links: {:?}", self.link)?;
        if let Some((rate, queue)) = self.bottleneck {
            writeln!(f, "bottleneck above 1: {rate} bytes/s, a queue of {queue}")?;
        }
        if let Some(mark) = self.mark {
            writeln!(f, "marks behind {mark} bytes of it")?;
        }
        for (node, link) in &self.links {
            writeln!(f, "link of {node}: {link:?}")?;
        }
        for planned in &self.faults {
            writeln!(
                f,
                "{:.3} s: node {}: {:?}",
                planned.at.as_secs_f64(),
                planned.node,
                planned.fault
            )?;
        }
        Ok(())
    }
}
