//! A tree over the regions, whose inner nodes may become channels of several regions.

use std::cmp::Reverse;

use crate::bundles::{Share, sum};
use crate::cluster::{Cost, Model};
use crate::sketch::{BANDS, Sketch, plain};
use crate::work::Work;

/// Subtrees of a bucket that each of its subtrees is compared with.
const NEIGHBOURS: usize = 8;
const SKETCH_UNITS: usize = 32;

/// A set of regions: a leaf is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// Nodes of the cluster in it.
    pub(crate) size: u64,
    pub(crate) domain: u32,
    pub(crate) children: Option<(u32, u32)>,
    pub(crate) parent: Option<u32>,
    /// Savings of an address for it if nothing else has one.
    pub(crate) value: Cost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Sketch(usize),
    Sort(usize),
    Pair(usize, usize),
    Match,
    Join(usize),
    Done,
}

/// The tree, as far as it has grown: in each round, subtrees find partners that carry the same
/// groups.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    /// By subtree without a parent, in order.
    live: Vec<u32>,
    sketches: Vec<Sketch>,
    shares: Vec<Vec<Share>>,
    band: Vec<(u32, u64, u32)>,
    /// Similarity of two subtrees, by their place among the live ones.
    pairs: Vec<(Cost, Reverse<(u32, u32)>)>,
    matched: Vec<(u32, u32)>,
    stage: Stage,
}

/// Savings of a channel instead of copies.
pub(crate) fn saved(share: &Share, rate: Cost, size: u64, model: &Model<'_>) -> Cost {
    let costs = &model.settings.costs;
    let copies = Cost::from(costs.copy) * share.wanted;
    copies - channel(share, rate, size, model)
}

/// One packet for each message of a bundle to so many nodes.
pub(crate) fn channel(share: &Share, rate: Cost, size: u64, model: &Model<'_>) -> Cost {
    let costs = &model.settings.costs;
    let unwanted = rate * Cost::from(size) - share.wanted;
    Cost::from(costs.packet) * rate + Cost::from(costs.unwanted) * unwanted
}

/// Scale of similarity.
const SIMILAR: Cost = 1 << 16;

/// The messages that both carry, of those that one of them carries.
fn similarity(one: &[Share], two: &[Share], rates: &[Cost]) -> Cost {
    let rate = |share: &Share| rates[share.bundle as usize];
    let mut rest = two;
    let (mut common, mut all) = (0, two.iter().map(rate).sum::<Cost>());
    for share in one {
        let at = rest.partition_point(|other| other.bundle < share.bundle);
        rest = &rest[at..];
        match rest.first() {
            Some(other) if other.bundle == share.bundle => common += rate(share),
            _ => all += rate(share),
        }
    }
    common * SIMILAR / all.max(1)
}

impl Tree {
    /// A tree of nothing.
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            live: Vec::new(),
            sketches: Vec::new(),
            shares: Vec::new(),
            band: Vec::new(),
            pairs: Vec::new(),
            matched: Vec::new(),
            stage: Stage::Sketch(0),
        }
    }

    /// A leaf: a region's nodes, its domain and its shares. All of them come before the first step.
    pub(crate) fn plant(
        &mut self,
        size: u64,
        domain: u32,
        shares: &[Share],
        rates: &[Cost],
        model: &Model<'_>,
    ) {
        self.live
            .push(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node(size, domain, shares, rates, model));
        self.shares.push(shares.to_vec());
    }

    /// Goes on for a slice. `true`: done.
    pub(crate) fn step(&mut self, rates: &[Cost], model: &Model<'_>, work: &mut Work) -> bool {
        while !work.is_spent() {
            match self.stage {
                Stage::Sketch(at) => self.sketch(at, work),
                Stage::Sort(band) => self.sort(band, work),
                Stage::Pair(band, at) => self.pair(band, at, rates, work),
                Stage::Match => self.pick(work),
                Stage::Join(at) => self.join(at, rates, model, work),
                Stage::Done => return true,
            }
        }
        false
    }

    fn sketch(&mut self, at: usize, work: &mut Work) {
        let Some(shares) = self.shares.get(at) else {
            self.pairs.clear();
            self.stage = Stage::Sort(0);
            return;
        };
        self.stage = Stage::Sketch(at + 1);
        if at == 0 {
            self.sketches.clear();
        }
        work.spend(shares.len() * SKETCH_UNITS + 1);
        self.sketches
            .push(plain(shares.iter().map(|share| share.bundle)));
    }

    fn sort(&mut self, band: usize, work: &mut Work) {
        if band == BANDS {
            self.stage = Stage::Match;
            return;
        }
        let places = (0..).zip(self.live.iter().zip(&self.sketches));
        let keys = places.map(|(at, (node, sketch))| {
            let domain = self.nodes[*node as usize].domain;
            (domain, sketch.band(band), at)
        });
        self.band = keys.collect();
        self.band.sort_unstable();
        work.spend(self.band.len() * 8 + 1);
        self.stage = Stage::Pair(band, 0);
    }

    fn pair(&mut self, band: usize, at: usize, rates: &[Cost], work: &mut Work) {
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
            let (first, second) = (&self.shares[one as usize], &self.shares[two as usize]);
            work.spend(first.len() + second.len());
            let similar = similarity(first, second, rates);
            self.pairs.push((similar, Reverse((one, two))));
        }
    }

    /// The most similar pairs, each subtree in one; and if those are few, neighbours, so that the
    /// tree does not become a chain.
    fn pick(&mut self, work: &mut Work) {
        self.pairs.sort_unstable_by(|one, two| two.cmp(one));
        work.spend(self.pairs.len() * 8 + self.live.len() * 8 + 1);
        let mut taken = vec![false; self.live.len()];
        self.matched.clear();
        for (similar, Reverse((one, two))) in &self.pairs {
            if *similar > 0 && !taken[*one as usize] && !taken[*two as usize] {
                taken[*one as usize] = true;
                taken[*two as usize] = true;
                self.matched.push((*one, *two));
            }
        }
        if self.matched.len() * 8 < self.live.len() {
            let mut alone: Vec<(u32, u64, u32)> = (0..)
                .zip(self.live.iter().zip(&self.sketches))
                .filter(|(at, _)| !taken[*at as usize])
                .map(|(at, (node, sketch))| (self.nodes[*node as usize].domain, sketch.band(0), at))
                .collect();
            alone.sort_unstable();
            let mut rest = &alone[..];
            while let [(domain, _, one), (other, _, two), ..] = rest {
                let skip = if domain == other { 2 } else { 1 };
                if domain == other {
                    self.matched.push((*one, *two));
                }
                rest = &rest[skip..];
            }
        }
        self.stage = if self.matched.is_empty() {
            Stage::Done
        } else {
            Stage::Join(0)
        };
    }

    fn join(&mut self, at: usize, rates: &[Cost], model: &Model<'_>, work: &mut Work) {
        let Some(&(one, two)) = self.matched.get(at) else {
            let keep = self
                .live
                .iter()
                .map(|node| self.nodes[*node as usize].parent.is_none());
            let keep: Vec<bool> = keep.collect();
            let mut kept = keep.iter();
            self.live.retain(|_| kept.next() == Some(&true));
            let mut kept = keep.iter();
            self.shares.retain(|_| kept.next() == Some(&true));
            work.spend(keep.len());
            self.stage = Stage::Sketch(0);
            return;
        };
        self.stage = Stage::Join(at + 1);
        let (first, second) = (self.live[one as usize], self.live[two as usize]);
        let shares = sum(&self.shares[one as usize], &self.shares[two as usize]);
        work.spend(shares.len() * 4 + 1);
        let (a, b) = (&self.nodes[first as usize], &self.nodes[second as usize]);
        let mut joined = node(a.size + b.size, a.domain, &shares, rates, model);
        joined.children = Some((first, second));
        let number = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.nodes[first as usize].parent = Some(number);
        self.nodes[second as usize].parent = Some(number);
        self.nodes.push(joined);
        self.live.push(number);
        self.shares.push(shares);
    }
}

fn node(size: u64, domain: u32, shares: &[Share], rates: &[Cost], model: &Model<'_>) -> Node {
    let saved = shares
        .iter()
        .map(|share| saved(share, rates[share.bundle as usize], size, model).max(0));
    Node {
        size,
        domain,
        children: None,
        parent: None,
        value: saved.sum(),
    }
}
