//! Greedy merging of clusters that cost less together (algorithms (a), steps 2 and 3).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::cluster::{Cluster, Cost, Model};
use crate::sketch::{BANDS, HASHES, Hashes, Sketch};
use crate::work::Work;

/// Clusters of a bucket that each of its clusters is compared with.
const NEIGHBOURS: usize = 8;
/// Times that candidates are looked for again among what was merged.
const ROUNDS: u32 = 4;
/// Units of work of a heap operation.
const HEAP_UNITS: usize = 32;
/// Units of work of a group that enters a sketch.
const SKETCH_UNITS: usize = 4;

/// The basis of decisions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sight<'a> {
    pub(crate) model: Model<'a>,
    pub(crate) hashes: &'a Hashes,
    /// By group: more than one class has it. Others cannot make two clusters similar.
    pub(crate) shared: &'a [bool],
}

/// A cluster at the start or the end of merging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) cluster: Cluster,
    pub(crate) cost: Cost,
    /// Nothing is merged across domains.
    pub(crate) domain: u32,
    /// Hints that keep nodes of it apart from others, ascending.
    pub(crate) apart: Vec<u32>,
    /// The clusters it was made of, by their number at the start.
    pub(crate) units: Vec<u32>,
    /// Savings of its merges.
    pub(crate) gained: Cost,
    /// The cluster that it was nearest to being merged with, and what that would have saved.
    pub(crate) refused: Option<(u32, Cost)>,
}

impl Part {
    fn may_join(&self, other: &Self) -> bool {
        let common = || self.apart.iter().any(|hint| other.apart.contains(hint));
        self.domain == other.domain && !common()
    }

    fn refuse(&mut self, other: u32, gain: Cost) {
        if self.refused.is_none_or(|(_, best)| gain > best) {
            self.refused = Some((other, gain));
        }
    }
}

/// Two clusters that may be merged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    /// Cut off at what fits, so that heaps of many pairs are small.
    gain: i64,
    order: Reverse<(u32, u32)>,
    /// The clusters' sizes when the gain was computed; `None`: it is what sketches promise.
    exact: Option<(u32, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Sketch(usize),
    Sort(usize),
    Pair(usize, usize),
    Greedy,
    Done,
}

/// Merging, as far as it has come.
#[derive(Debug)]
pub(crate) struct Merge {
    parts: Vec<Option<Part>>,
    /// The cluster that each was merged into, or itself.
    into: Vec<u32>,
    sketches: Vec<Sketch>,
    /// One band's keys, sorted.
    band: Vec<(u32, u64, u32)>,
    pairs: BinaryHeap<Pair>,
    /// Pairs that were looked at, and the sizes they had then.
    judged: BTreeMap<(u32, u32), (u32, u32)>,
    stage: Stage,
    round: u32,
    /// Something was merged in this round.
    merged: bool,
}

impl Merge {
    pub(crate) fn new(parts: Vec<Part>) -> Self {
        let parts_len = parts.len();
        let count = u32::try_from(parts_len).unwrap_or(u32::MAX);
        Self {
            into: (0..count).collect(),
            sketches: vec![Sketch::EMPTY; parts.len()],
            parts: parts.into_iter().map(Some).collect(),
            band: Vec::new(),
            // Growing would copy all of it at once.
            pairs: BinaryHeap::with_capacity(parts_len * BANDS * NEIGHBOURS),
            judged: BTreeMap::new(),
            stage: Stage::Sketch(0),
            round: 0,
            merged: false,
        }
    }

    /// Goes on for a slice. `true`: done.
    pub(crate) fn step(&mut self, sight: &Sight<'_>, work: &mut Work) -> bool {
        while !work.is_spent() {
            match self.stage {
                Stage::Sketch(at) => self.sketch(at, sight, work),
                Stage::Sort(band) => self.sort(band, work),
                Stage::Pair(band, at) => self.pair(band, at, sight, work),
                Stage::Greedy => self.greedy(sight, work),
                Stage::Done => return true,
            }
        }
        false
    }

    /// The clusters, in the order of their first units.
    pub(crate) fn into_parts(self) -> Vec<Part> {
        self.parts.into_iter().flatten().collect()
    }

    fn sketch(&mut self, at: usize, sight: &Sight<'_>, work: &mut Work) {
        let Some(part) = self.parts.get(at) else {
            self.stage = Stage::Sort(0);
            return;
        };
        self.stage = Stage::Sketch(at + 1);
        work.spend(1);
        let Some(part) = part else { return };
        let size = part.cluster.size;
        let similar = part.cluster.entries().filter(|(group, count)| {
            let shared = sight.shared.get(group.0 as usize);
            shared.copied().unwrap_or(false) && sight.model.carries(size, *count)
        });
        work.spend(part.cluster.len() * SKETCH_UNITS);
        self.sketches[at] = sight.hashes.sketch(similar.map(|(group, _)| group));
    }

    fn sort(&mut self, band: usize, work: &mut Work) {
        if band == BANDS {
            self.stage = Stage::Greedy;
            return;
        }
        self.band.clear();
        for (at, (part, sketch)) in (0..).zip(self.parts.iter().zip(&self.sketches)) {
            if let Some(part) = part
                && !sketch.is_empty()
            {
                self.band.push((part.domain, sketch.band(band), at));
            }
        }
        self.band.sort_unstable();
        work.spend(self.parts.len() + self.band.len() * 8);
        self.stage = Stage::Pair(band, 0);
    }

    /// Pairs one cluster with those that follow it in its bucket.
    fn pair(&mut self, band: usize, at: usize, sight: &Sight<'_>, work: &mut Work) {
        let Some(&(domain, key, one)) = self.band.get(at) else {
            self.stage = Stage::Sort(band + 1);
            return;
        };
        self.stage = Stage::Pair(band, at + 1);
        work.spend(1);
        for &(other_domain, other_key, two) in self.band[at + 1..].iter().take(NEIGHBOURS) {
            if (other_domain, other_key) != (domain, key) {
                return;
            }
            work.spend(HEAP_UNITS);
            let gain = cut(self.promise(one, two, sight));
            let order = Reverse((one, two));
            let exact = None;
            self.pairs.push(Pair { gain, order, exact });
        }
    }

    /// Savings that the sketches promise at most: every group that both have saves a packet.
    fn promise(&self, one: u32, two: u32, sight: &Sight<'_>) -> Cost {
        let (first, second) = (&self.sketches[one as usize], &self.sketches[two as usize]);
        let matches = Cost::from(first.matches(second));
        let cost = |at: u32| self.parts[at as usize].as_ref().map_or(0, |part| part.cost);
        let together = cost(one).min(cost(two)) * 2 * matches / (HASHES as Cost + matches);
        together.max(sight.model.region())
    }

    fn root(&mut self, mut at: u32) -> u32 {
        while self.into[at as usize] != at {
            let next = self.into[self.into[at as usize] as usize];
            self.into[at as usize] = next;
            at = next;
        }
        at
    }

    fn greedy(&mut self, sight: &Sight<'_>, work: &mut Work) {
        let Some(pair) = self.pairs.pop() else {
            self.round += 1;
            let again = self.merged && self.round < ROUNDS;
            self.merged = false;
            self.stage = if again { Stage::Sketch(0) } else { Stage::Done };
            return;
        };
        work.spend(HEAP_UNITS);
        let Reverse((one, two)) = pair.order;
        let (one, two) = (self.root(one), self.root(two));
        if one != two {
            self.judge(one.min(two), one.max(two), &pair, sight, work);
        }
    }

    /// Merges the two, refuses to, or puts them back with their exact gain.
    fn judge(&mut self, one: u32, two: u32, pair: &Pair, sight: &Sight<'_>, work: &mut Work) {
        let (Some(first), Some(second)) = (&self.parts[one as usize], &self.parts[two as usize])
        else {
            return;
        };
        let sizes = (first.cluster.size, second.cluster.size);
        let known = pair.order == Reverse((one, two)) && pair.exact == Some(sizes);
        if known {
            let gain = self.gain(one, two, sight);
            self.join(one, two, gain, work);
            return;
        }
        let judged = self.judged.get(&(one, two));
        let stale = |now: u32, then: u32| now >= then.saturating_mul(2);
        let anew = judged.is_none_or(|then| stale(sizes.0, then.0) || stale(sizes.1, then.1));
        if !first.may_join(second) || (pair.exact.is_none() && !anew) {
            return;
        }
        work.spend(first.cluster.len() + second.cluster.len());
        let gain = self.gain(one, two, sight);
        self.judged.insert((one, two), sizes);
        if gain <= 0 {
            for (at, other) in [(one, two), (two, one)] {
                if let Some(part) = &mut self.parts[at as usize] {
                    part.refuse(other, gain);
                }
            }
            return;
        }
        // Sketches are coarse: half of what they promise is taken at once, so that not all pairs
        // of a large bucket are computed before the first is merged.
        let good = match pair.exact {
            None => cut(gain) >= pair.gain / 2,
            Some(_) => self.pairs.peek().is_none_or(|next| cut(gain) >= next.gain),
        };
        if good {
            self.join(one, two, gain, work);
        } else {
            let order = Reverse((one, two));
            let exact = Some(sizes);
            let gain = cut(gain);
            self.pairs.push(Pair { gain, order, exact });
        }
    }

    /// Savings of one region instead of two.
    fn gain(&self, one: u32, two: u32, sight: &Sight<'_>) -> Cost {
        match (&self.parts[one as usize], &self.parts[two as usize]) {
            (Some(first), Some(second)) => {
                let joint = sight.model.joint(&first.cluster, &second.cluster);
                first.cost + second.cost - joint
            }
            _ => 0,
        }
    }

    /// Merges two clusters that have to be one, whatever it costs.
    pub(crate) fn force(&mut self, one: u32, two: u32, model: &Model<'_>, work: &mut Work) {
        let (one, two) = (self.root(one), self.root(two));
        let (one, two) = (one.min(two), one.max(two));
        if let (Some(first), Some(second)) = (&self.parts[one as usize], &self.parts[two as usize])
            && one != two
        {
            let gain = first.cost + second.cost - model.joint(&first.cluster, &second.cluster);
            self.join(one, two, gain, work);
        }
    }

    fn join(&mut self, one: u32, two: u32, gain: Cost, work: &mut Work) {
        let Some(second) = self.parts[two as usize].take() else {
            return;
        };
        let Some(first) = &mut self.parts[one as usize] else {
            return;
        };
        work.spend(first.cluster.len() + second.cluster.len());
        first.cluster = first.cluster.join(&second.cluster);
        first.cost += second.cost - gain;
        first.gained += second.gained + gain;
        first.units.extend(second.units);
        first.apart.extend(second.apart);
        first.apart.sort_unstable();
        if let Some((other, gain)) = second.refused {
            first.refuse(other, gain);
        }
        self.into[two as usize] = one;
        self.merged = true;
    }
}

fn cut(gain: Cost) -> i64 {
    i64::try_from(gain).unwrap_or(if gain > 0 { i64::MAX } else { i64::MIN })
}
