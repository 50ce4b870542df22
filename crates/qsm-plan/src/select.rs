//! Gives addresses to the nodes of the tree that save most (algorithms (a), step 5).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::bundles::Share;
use crate::cluster::{Cost, Model};
use crate::tree::{Node, channel};
use crate::work::Work;

/// Nodes looked at for each address, on average and at most.
const LOOKS_MAX: usize = 64;

/// Bundles looked at at a time.
const CHUNK: usize = 4096;

/// The tree and what its leaves carry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) nodes: &'a [Node],
    /// By leaf.
    pub(crate) shares: &'a [Vec<Share>],
    /// By bundle.
    pub(crate) rates: &'a [Cost],
    pub(crate) model: Model<'a>,
}

/// A bundle's cost at a node with an address.
#[derive(Debug, Clone, Copy)]
struct Entry {
    share: Share,
    /// By what is chosen below.
    below: Cost,
    /// By one packet to all.
    one: Cost,
}

/// A node that is being looked at: its bundles, collected from what is chosen below.
#[derive(Debug, Default)]
struct Look {
    node: u32,
    stack: Vec<u32>,
    /// By bundle.
    wanted: Vec<Cost>,
    below: Vec<Cost>,
    touched: Vec<u32>,
    /// The same in order.
    entries: Vec<Entry>,
    /// Nodes with an address above it, nearest first.
    above: Vec<u32>,
    /// Savings of an address for it.
    value: Cost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Regions(usize),
    Pick,
    Collect,
    Order,
    Value(usize),
    Choose(usize),
    Done,
}

/// The choice, as far as it has come.
#[derive(Debug)]
pub(crate) struct Select {
    /// Addresses that are left.
    left: usize,
    looks: usize,
    chosen: BTreeMap<u32, Vec<Entry>>,
    /// By leaf: nodes chosen above it.
    above: Vec<usize>,
    /// Savings of a node when it was looked at last, and the number of those chosen then.
    queue: BinaryHeap<(Cost, Reverse<u32>, usize)>,
    look: Look,
    /// The node looked at gets an address in any case.
    certain: bool,
    stage: Stage,
}

impl Select {
    pub(crate) fn new(ground: &Ground<'_>, addresses: usize) -> Self {
        let leaves = ground.shares.len();
        let wanting = ground.nodes[..leaves].iter().filter(|node| wants(node));
        let all = wanting.count() <= addresses;
        let skip = if all { leaves } else { 0 };
        let nodes = (0..)
            .zip(ground.nodes)
            .skip(skip)
            .filter(|(_, node)| wants(node));
        let queue = nodes.map(|(at, node)| (node.value, Reverse(at), usize::MAX));
        Self {
            left: addresses,
            looks: addresses.saturating_mul(LOOKS_MAX),
            chosen: BTreeMap::new(),
            above: vec![0; leaves],
            queue: queue.collect(),
            look: Look {
                wanted: vec![0; ground.rates.len()],
                below: vec![0; ground.rates.len()],
                ..Look::default()
            },
            certain: false,
            stage: if all { Stage::Regions(0) } else { Stage::Pick },
        }
    }

    /// Goes on for a slice. `true`: done.
    pub(crate) fn step(&mut self, ground: &Ground<'_>, work: &mut Work) -> bool {
        while !work.is_spent() {
            match self.stage {
                Stage::Regions(at) => self.region(at, ground, work),
                Stage::Pick => self.pick(ground, work),
                Stage::Collect => self.collect(ground, work),
                Stage::Order => self.order(ground, work),
                Stage::Value(from) => self.value(from, work),
                Stage::Choose(from) => self.choose(from, ground, work),
                Stage::Done => return true,
            }
        }
        false
    }

    /// The nodes that have an address, ascending: regions first.
    pub(crate) fn into_chosen(self) -> Vec<u32> {
        self.chosen.into_keys().collect()
    }

    /// All regions of several nodes get one, if there are enough.
    fn region(&mut self, at: usize, ground: &Ground<'_>, work: &mut Work) {
        let Some(shares) = ground.shares.get(at) else {
            self.stage = Stage::Pick;
            return;
        };
        self.stage = Stage::Regions(at + 1);
        work.spend(shares.len() * 4 + 1);
        let node = &ground.nodes[at];
        if wants(node) {
            let entries = shares
                .iter()
                .map(|share| entry(*share, None, node.size, ground));
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            self.chosen.insert(at, entries.collect());
            self.left -= 1;
        }
    }

    fn pick(&mut self, ground: &Ground<'_>, work: &mut Work) {
        work.spend(64);
        let next = self.queue.pop().filter(|(value, ..)| *value > 0);
        let Some((_, Reverse(node), stamp)) = next.filter(|_| self.left > 0 && self.looks > 0)
        else {
            self.stage = Stage::Done;
            return;
        };
        let leaf = (node as usize) < self.above.len();
        if !leaf && self.is_full(node, ground, work) {
            return;
        }
        self.looks -= 1;
        self.certain = stamp == self.chosen.len();
        self.look.node = node;
        self.look.stack.push(node);
        self.stage = Stage::Collect;
    }

    /// Returns whether a region below has as many channels above it as it may.
    fn is_full(&self, node: u32, ground: &Ground<'_>, work: &mut Work) -> bool {
        let most = ground.model.settings.ancestors;
        let mut stack = vec![node];
        while let Some(at) = stack.pop() {
            work.spend(1);
            match ground.nodes[at as usize].children {
                Some((one, two)) => stack.extend([one, two]),
                None if self.above[at as usize] >= most => return true,
                None => {}
            }
        }
        false
    }

    fn collect(&mut self, ground: &Ground<'_>, work: &mut Work) {
        let Some(at) = self.look.stack.pop() else {
            self.stage = Stage::Order;
            return;
        };
        work.spend(1);
        if let Some(entries) = self.chosen.get(&at) {
            work.spend(entries.len() * 2);
            for entry in entries {
                self.look.add(entry.share, entry.below.min(entry.one));
            }
            return;
        }
        match ground.nodes[at as usize].children {
            Some((one, two)) => self.look.stack.extend([one, two]),
            None => {
                let shares = &ground.shares[at as usize];
                work.spend(shares.len() * 2);
                let copy = Cost::from(ground.model.settings.costs.copy);
                for share in shares {
                    self.look.add(*share, copy * share.wanted);
                }
            }
        }
    }

    /// Brings the bundles collected in order.
    fn order(&mut self, ground: &Ground<'_>, work: &mut Work) {
        let size = ground.nodes[self.look.node as usize].size;
        let mut entries = self.look.take(size, ground);
        work.spend(entries.len() * 16 + 1);
        entries.sort_unstable_by_key(|entry| entry.share.bundle);
        self.look.entries = entries;
        self.look.above = self.chosen_above(self.look.node, ground);
        self.look.value = 0;
        self.stage = Stage::Value(0);
    }

    /// Adds up what an address would save, some bundles at a time.
    fn value(&mut self, from: usize, work: &mut Work) {
        let entries = &self.look.entries[from..];
        if entries.is_empty() {
            self.decide();
            return;
        }
        let some = &entries[..entries.len().min(CHUNK)];
        let next = from + some.len();
        work.spend(some.len() * 16);
        let above = &self.look.above;
        let saved = some
            .iter()
            .map(|entry| self.savings(entry, above, |_, _, _| {}));
        let saved: Cost = saved.sum();
        self.look.value += saved;
        self.stage = Stage::Value(next);
    }

    /// Gives the node an address, or puts it back with what it would save now.
    fn decide(&mut self) {
        let (node, value) = (self.look.node, self.look.value);
        let best = self.queue.peek().is_none_or(|(next, ..)| value >= *next);
        self.stage = Stage::Pick;
        if value > 0 && (best || self.certain) {
            self.stage = Stage::Choose(0);
        } else if value > 0 {
            self.queue.push((value, Reverse(node), self.chosen.len()));
        }
    }

    /// Lets the chosen nodes above know what costs less now, some bundles at a time.
    fn choose(&mut self, from: usize, ground: &Ground<'_>, work: &mut Work) {
        let entries = &self.look.entries[from..];
        if entries.is_empty() {
            let entries = core::mem::take(&mut self.look.entries);
            self.chosen.insert(self.look.node, entries);
            self.left -= 1;
            self.count_above(self.look.node, ground);
            self.stage = Stage::Pick;
            return;
        }
        let some = &entries[..entries.len().min(CHUNK)];
        let next = from + some.len();
        work.spend(some.len() * 32);
        let mut less = Vec::new();
        for entry in some {
            self.savings(entry, &self.look.above, |node, bundle, cost| {
                less.push((node, bundle, cost));
            });
        }
        for (node, bundle, cost) in less {
            if let Some(entry) = self.entry_mut(node, bundle) {
                entry.below -= cost;
            }
        }
        self.stage = Stage::Choose(next);
    }

    fn count_above(&mut self, at: u32, ground: &Ground<'_>) {
        let mut stack = vec![at];
        while let Some(node) = stack.pop() {
            match ground.nodes[node as usize].children {
                Some((one, two)) => stack.extend([one, two]),
                None if node != at => self.above[node as usize] += 1,
                None => {}
            }
        }
    }

    /// The chosen nodes above this one, nearest first.
    fn chosen_above(&self, at: u32, ground: &Ground<'_>) -> Vec<u32> {
        let mut above = Vec::new();
        let mut next = ground.nodes[at as usize].parent;
        while let Some(node) = next {
            if self.chosen.contains_key(&node) {
                above.push(node);
            }
            next = ground.nodes[node as usize].parent;
        }
        above
    }

    /// Savings in all for a bundle if this node has an address; calls with each node above
    /// below which it costs less.
    fn savings(&self, entry: &Entry, above: &[u32], mut less: impl FnMut(u32, u32, Cost)) -> Cost {
        let bundle = entry.share.bundle;
        let mut saved = (entry.below - entry.one).max(0);
        for node in above {
            if saved == 0 {
                break;
            }
            let Some(upper) = self.entry(*node, bundle) else {
                break;
            };
            less(*node, bundle, saved);
            let before = upper.one.min(upper.below);
            saved = before - upper.one.min(upper.below - saved);
        }
        saved
    }

    fn entry(&self, node: u32, bundle: u32) -> Option<&Entry> {
        let entries = self.chosen.get(&node)?;
        let at = entries.binary_search_by_key(&bundle, |entry| entry.share.bundle);
        at.ok().map(|at| &entries[at])
    }

    fn entry_mut(&mut self, node: u32, bundle: u32) -> Option<&mut Entry> {
        let entries = self.chosen.get_mut(&node)?;
        let at = entries.binary_search_by_key(&bundle, |entry| entry.share.bundle);
        at.ok().map(|at| &mut entries[at])
    }
}

/// A single member needs no address (R042).
fn wants(node: &Node) -> bool {
    node.size > 1 && node.value > 0
}

fn entry(share: Share, below: Option<Cost>, size: u64, ground: &Ground<'_>) -> Entry {
    let rate = ground.rates[share.bundle as usize];
    let copy = Cost::from(ground.model.settings.costs.copy);
    Entry {
        share,
        below: below.unwrap_or(copy * share.wanted),
        one: channel(&share, rate, size, &ground.model),
    }
}

impl Look {
    fn add(&mut self, share: Share, cost: Cost) {
        let at = share.bundle as usize;
        if self.wanted[at] == 0 {
            self.touched.push(share.bundle);
        }
        self.wanted[at] += share.wanted;
        self.below[at] += cost;
    }

    /// Takes out all that was collected.
    fn take(&mut self, size: u64, ground: &Ground<'_>) -> Vec<Entry> {
        let touched = core::mem::take(&mut self.touched);
        let entries = touched.into_iter().map(|bundle| {
            let at = bundle as usize;
            let wanted = core::mem::take(&mut self.wanted[at]);
            let below = core::mem::take(&mut self.below[at]);
            entry(Share { bundle, wanted }, Some(below), size, ground)
        });
        entries.collect()
    }
}
