//! Planning anew, in slices: from a snapshot of who wants what to regions and channels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use qsm_wire::{ChannelId, GroupId, Instant, NodeId, RegionId};

use crate::bundles::Bundles;
use crate::census::Unit;
use crate::change::{Comparison, Decision, Outline};
use crate::cluster::{Cluster, Cost, Model};
use crate::hints::Hints;
use crate::merge::{self, Merge, Sight};
use crate::reach::{Channel, Part, Reach};
use crate::region::{Region, Table};
use crate::select::{Ground, Select};
use crate::sketch::Hashes;
use crate::tree::Tree;
use crate::work::Work;

/// The planner's state, as a job sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) model: Model<'a>,
    pub(crate) hashes: &'a Hashes,
    pub(crate) hints: &'a Hints,
}

/// State outside of a job that it changes.
#[derive(Debug)]
pub(crate) struct Outside<'a> {
    /// Since when a region would gain by a change.
    pub(crate) wanting: &'a mut BTreeMap<RegionId, Instant>,
    pub(crate) region_next: &'a mut u32,
    pub(crate) channel_next: &'a mut u32,
}

/// Memory of a job that is over, and of the plan before: freed in slices, as all of it at once
/// takes long.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    pub(crate) table: Table,
    units: Vec<Unit>,
    homes: BTreeMap<NodeId, RegionId>,
}

impl Remains {
    /// Frees some of it. `true`: nothing is left.
    pub(crate) fn free(&mut self, work: &mut Work) -> bool {
        while !work.is_spent() {
            let unit = self.units.pop().is_some();
            let home = self.homes.pop_first().is_some();
            if !self.table.free_one() && !unit && !home {
                return true;
            }
            work.spend(REMAINS_UNITS);
        }
        false
    }
}

/// Units of work of a node or region that is freed.
const REMAINS_UNITS: usize = 128;

/// Stages of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Tally(usize),
    Bind(usize),
    Merge,
    Former(usize),
    Price,
    Compare,
    Build(usize),
    Refused(usize),
    Bundle,
    Leaf(usize),
    Tree,
    Select,
    Reach,
    Count(usize),
    Fill(usize),
    Appraise(usize),
    Done,
}

/// Planning, as far as it has come.
#[derive(Debug)]
pub(crate) struct Job {
    now: Instant,
    /// Changes need not have been worth it for long.
    forced: bool,
    units: Vec<Unit>,
    /// Regions of nodes when it began, and the channels then.
    homes: BTreeMap<NodeId, RegionId>,
    former_reach: Reach,
    classes: Vec<u8>,
    shared: Vec<bool>,
    merge: Option<Merge>,
    former: BTreeMap<RegionId, Cluster>,
    former_costs: BTreeMap<RegionId, Cost>,
    parts: Vec<merge::Part>,
    decision: Option<Decision>,
    outlines: Vec<Outline>,
    /// The outcome.
    table: Table,
    reach: Reach,
    bundles: Bundles,
    tree: Option<Tree>,
    select: Option<Select>,
    /// By group: where its parts begin.
    starts: Vec<u32>,
    index: Vec<Part>,
    appraised: [Cost; 2],
    stage: Stage,
}

impl Job {
    pub(crate) fn new(
        now: Instant,
        forced: bool,
        units: Vec<Unit>,
        homes: &BTreeMap<NodeId, RegionId>,
        former_reach: &Reach,
        groups: usize,
    ) -> Self {
        Self {
            now,
            forced: forced || homes.is_empty(),
            units,
            homes: homes.clone(),
            former_reach: former_reach.clone(),
            classes: vec![0; groups],
            shared: Vec::new(),
            merge: None,
            former: BTreeMap::new(),
            former_costs: BTreeMap::new(),
            parts: Vec::new(),
            decision: None,
            outlines: Vec::new(),
            table: Table::default(),
            reach: Reach::default(),
            bundles: Bundles::new(),
            tree: None,
            select: None,
            starts: Vec::new(),
            index: Vec::new(),
            appraised: [0; 2],
            stage: Stage::Tally(0),
        }
    }

    /// Goes on for a slice. `true`: done.
    pub(crate) fn step(&mut self, view: &View<'_>, out: &mut Outside<'_>, work: &mut Work) -> bool {
        while !work.is_spent() {
            match self.stage {
                Stage::Tally(at) => self.tally(at, work),
                Stage::Bind(at) => self.bind(at, view, work),
                Stage::Merge => self.merge(view, work),
                Stage::Former(at) => self.former(at, work),
                Stage::Price => self.price(view, work),
                Stage::Compare => self.compare(view, out, work),
                Stage::Build(at) => self.build(at, view, work),
                Stage::Refused(at) => self.note_refused(at, work),
                Stage::Bundle => self.bundle(view, work),
                Stage::Leaf(at) => self.leaf(at, view, work),
                Stage::Tree => self.grow(view, work),
                Stage::Select => self.select(view, work),
                Stage::Reach => self.link(view, out, work),
                Stage::Count(at) => self.count(at, work),
                Stage::Fill(at) => self.fill(at, work),
                Stage::Appraise(at) => self.appraise(at, view, work),
                Stage::Done => return true,
            }
        }
        false
    }

    /// A word for what it is doing.
    pub(crate) fn doing(&self) -> &'static str {
        match self.stage {
            Stage::Tally(_) | Stage::Bind(_) => "counts groups",
            Stage::Merge => "merges regions",
            Stage::Former(_) | Stage::Price | Stage::Compare => "compares with the present plan",
            Stage::Build(_) | Stage::Refused(_) => "makes regions",
            Stage::Bundle | Stage::Leaf(_) | Stage::Tree | Stage::Select | Stage::Reach => {
                "chooses channels"
            }
            Stage::Count(_) | Stage::Fill(_) | Stage::Appraise(_) => "compares channels",
            Stage::Done => "is done",
        }
    }

    /// The regions and channels, and what is not needed any more.
    pub(crate) fn outcome(self) -> (Table, Reach, Remains) {
        let remains = Remains {
            table: Table::default(),
            units: self.units,
            homes: self.homes,
        };
        (self.table, self.reach, remains)
    }

    /// Lends the regions and channels, so that nodes that changed meanwhile are placed.
    pub(crate) fn take_outcome(&mut self) -> (Table, Reach) {
        let table = core::mem::take(&mut self.table);
        (table, core::mem::take(&mut self.reach))
    }

    /// Takes them back.
    pub(crate) fn set_outcome(&mut self, table: Table, reach: Reach) {
        (self.table, self.reach) = (table, reach);
    }

    fn tally(&mut self, at: usize, work: &mut Work) {
        let Some(unit) = self.units.get(at) else {
            self.shared = self.classes.iter().map(|classes| *classes > 1).collect();
            work.spend(self.classes.len());
            self.classes = Vec::new();
            let parts = self.units.iter().enumerate().map(|(at, unit)| {
                let size = u32::try_from(unit.nodes.len()).unwrap_or(u32::MAX);
                merge::Part {
                    cluster: Cluster::of(Arc::clone(&unit.groups), size),
                    cost: 0,
                    domain: unit.domain,
                    apart: unit.apart.clone(),
                    units: vec![u32::try_from(at).unwrap_or(u32::MAX)],
                    gained: 0,
                    refused: None,
                }
            });
            self.parts = parts.collect();
            work.spend(self.parts.len() * 16);
            self.stage = Stage::Bind(0);
            return;
        };
        self.stage = Stage::Tally(at + 1);
        work.spend(unit.groups.len() + 1);
        for group in unit.groups.iter() {
            let classes = &mut self.classes[group.0 as usize];
            *classes = classes.saturating_add(1);
        }
    }

    /// Prices the classes, then merges those that hints have together.
    fn bind(&mut self, at: usize, view: &View<'_>, work: &mut Work) {
        if let Some(part) = self.parts.get_mut(at) {
            part.cost = view.model.cost(&part.cluster);
            work.spend(part.cluster.len() + 1);
            self.stage = Stage::Bind(at + 1);
            return;
        }
        let mut merge = Merge::new(core::mem::take(&mut self.parts));
        let mut first: BTreeMap<u32, u32> = BTreeMap::new();
        for (at, unit) in (0..).zip(&self.units) {
            if let Some(set) = unit.together {
                let with = *first.entry(set).or_insert(at);
                merge.force(with, at, &view.model, work);
            }
        }
        self.merge = Some(merge);
        self.stage = Stage::Merge;
    }

    fn merge(&mut self, view: &View<'_>, work: &mut Work) {
        let sight = Sight {
            model: view.model,
            hashes: view.hashes,
            shared: &self.shared,
        };
        if let Some(merge) = &mut self.merge
            && !merge.step(&sight, work)
        {
            return;
        }
        if let Some(merge) = self.merge.take() {
            self.parts = merge.into_parts();
        }
        self.stage = Stage::Former(0);
    }

    /// The present regions, as they were when the job began.
    fn former(&mut self, at: usize, work: &mut Work) {
        let Some(unit) = self.units.get(at) else {
            self.stage = Stage::Price;
            return;
        };
        self.stage = Stage::Former(at + 1);
        work.spend(1);
        let mut sizes: BTreeMap<RegionId, u32> = BTreeMap::new();
        for home in unit.nodes.iter().filter_map(|node| self.homes.get(node)) {
            *sizes.entry(*home).or_insert(0) += 1;
        }
        for (home, size) in sizes {
            let unit = Cluster::of(Arc::clone(&unit.groups), size);
            work.spend(unit.len() * 2);
            let joined = match self.former.get(&home) {
                Some(cluster) => cluster.join(&unit),
                None => unit,
            };
            self.former.insert(home, joined);
        }
    }

    fn price(&mut self, view: &View<'_>, work: &mut Work) {
        let last = self.former_costs.last_key_value().map(|(id, _)| *id);
        let next = self
            .former
            .range(last.map_or(RegionId(0), |id| RegionId(id.0 + 1))..)
            .next();
        let Some((id, cluster)) = next else {
            self.stage = Stage::Compare;
            return;
        };
        work.spend(cluster.len() + 16);
        self.former_costs.insert(*id, view.model.cost(cluster));
    }

    fn compare(&mut self, view: &View<'_>, out: &mut Outside<'_>, work: &mut Work) {
        let comparison = Comparison {
            settings: view.model.settings,
            now: self.now,
            forced: self.forced,
            units: &self.units,
            homes: &self.homes,
            former: &self.former_costs,
            parts: &self.parts,
        };
        let decision = self.decision.get_or_insert_with(Decision::new);
        if !decision.step(&comparison, out.wanting, out.region_next, work) {
            return;
        }
        let decision = self.decision.take().map(Decision::into_outlines);
        self.outlines = decision.unwrap_or_default();
        self.stage = Stage::Build(0);
    }

    fn build(&mut self, at: usize, view: &View<'_>, work: &mut Work) {
        let Some(outline) = self.outlines.get(at) else {
            self.former = BTreeMap::new();
            self.stage = Stage::Refused(0);
            return;
        };
        self.stage = Stage::Build(at + 1);
        let part = outline.part.map(|part| &self.parts[part]);
        let kept = self.former.get(&outline.id);
        let Some(cluster) = part.map(|part| &part.cluster).or(kept).cloned() else {
            return;
        };
        let cost = part.map(|part| part.cost);
        let cost = cost
            .or_else(|| self.former_costs.get(&outline.id).copied())
            .unwrap_or(0);
        work.spend(cluster.len() * 4 + outline.members.len() * 32);
        let similar = cluster.entries().filter(|(group, count)| {
            let shared = self.shared.get(group.0 as usize);
            shared.copied().unwrap_or(false) && view.model.carries(cluster.size, *count)
        });
        let sketch = view.hashes.sketch(similar.map(|(group, _)| group));
        let mut apart = BTreeMap::new();
        let mut domain = 0;
        let mut members = BTreeMap::new();
        for (node, unit) in &outline.members {
            let unit = &self.units[*unit as usize];
            domain = unit.domain;
            members.insert(*node, Arc::clone(&unit.groups));
            for hint in view.hints.apart_of(*node) {
                *apart.entry(*hint).or_insert(0) += 1;
            }
        }
        let region = Region {
            domain,
            members,
            cluster,
            cost,
            apart,
            sketch,
            gained: part.map_or(0, |part| part.gained),
            refused: None,
        };
        self.table.insert(outline.id, region);
    }

    /// Says of a region which other it was nearest to being merged with.
    fn note_refused(&mut self, at: usize, work: &mut Work) {
        let Some(outline) = self.outlines.get(at) else {
            self.outlines = Vec::new();
            self.parts = Vec::new();
            self.stage = Stage::Bundle;
            return;
        };
        self.stage = Stage::Refused(at + 1);
        work.spend(128);
        let part = outline.part.map(|part| &self.parts[part]);
        let other = part.and_then(|part| part.refused).and_then(|(unit, gain)| {
            let node = self.units.get(unit as usize)?.nodes.first()?;
            Some((self.table.home(*node)?, gain))
        });
        self.table.note_refused(outline.id, other);
    }

    fn bundle(&mut self, view: &View<'_>, work: &mut Work) {
        let regions: Vec<&Cluster> = self
            .table
            .iter()
            .map(|(_, region)| &region.cluster)
            .collect();
        let done = self.bundles.step(&regions, &view.model, work);
        // Afterwards: a slice that is too small for this goes on all the same.
        work.spend(regions.len());
        if !done {
            return;
        }
        self.tree = Some(Tree::new());
        self.stage = Stage::Leaf(0);
    }

    fn leaf(&mut self, at: usize, view: &View<'_>, work: &mut Work) {
        let region = self.table.iter().nth(at);
        let (Some(tree), Some((_, region))) = (&mut self.tree, region) else {
            self.stage = Stage::Tree;
            return;
        };
        self.stage = Stage::Leaf(at + 1);
        let shares = &self.bundles.shares[at];
        work.spend(shares.len() * 4 + at + 1);
        let size = u64::from(region.cluster.size);
        let rates = &self.bundles.rates;
        tree.plant(size, region.domain, shares, rates, &view.model);
    }

    fn grow(&mut self, view: &View<'_>, work: &mut Work) {
        if let Some(tree) = &mut self.tree
            && tree.step(&self.bundles.rates, &view.model, work)
        {
            self.stage = Stage::Select;
        }
    }

    fn select(&mut self, view: &View<'_>, work: &mut Work) {
        let Some(tree) = &self.tree else {
            self.stage = Stage::Reach;
            return;
        };
        let ground = Ground {
            nodes: &tree.nodes,
            shares: &self.bundles.shares,
            rates: &self.bundles.rates,
            model: view.model,
        };
        let pins = view.hints.pins().len();
        let addresses = view.model.settings.addresses.saturating_sub(pins);
        let select = self
            .select
            .get_or_insert_with(|| Select::new(&ground, addresses));
        if select.step(&ground, work) {
            self.stage = Stage::Reach;
        }
    }

    /// Makes channels of what was chosen; those with the same regions as before keep their numbers.
    fn link(&mut self, view: &View<'_>, out: &mut Outside<'_>, work: &mut Work) {
        let ids: Vec<RegionId> = self.table.iter().map(|(id, _)| id).collect();
        let chosen = self
            .select
            .take()
            .map(Select::into_chosen)
            .unwrap_or_default();
        let tree = self.tree.take();
        let nodes = tree.as_ref().map_or(&[][..], |tree| &tree.nodes);
        let mut channels = Vec::new();
        for at in chosen {
            let mut regions = BTreeSet::new();
            let mut stack = vec![at];
            while let Some(node) = stack.pop() {
                match nodes[node as usize].children {
                    Some((one, two)) => stack.extend([one, two]),
                    None => {
                        regions.insert(ids[node as usize]);
                    }
                }
            }
            work.spend(regions.len() * 64);
            channels.push((regions, None));
        }
        let mut pins = BTreeMap::new();
        for (number, pin) in (0..).zip(view.hints.pins()) {
            let wants = |region: &Region| {
                pin.groups
                    .iter()
                    .any(|group| region.cluster.count(*group) > 0)
            };
            let regions = self.table.iter().filter(|(_, region)| wants(region));
            let regions: BTreeSet<RegionId> = regions.map(|(id, _)| id).collect();
            work.spend(ids.len() * pin.groups.len() * 16);
            if !regions.is_empty() {
                pins.extend(pin.groups.iter().map(|group| (*group, channels.len())));
                channels.push((regions, Some(number)));
            }
        }
        let channels = self.number(channels, out);
        self.reach = Reach::new(channels, pins);
        self.bundles = Bundles::new();
        self.stage = Stage::Count(0);
    }

    fn number(
        &self,
        channels: Vec<(BTreeSet<RegionId>, Option<u32>)>,
        out: &mut Outside<'_>,
    ) -> Vec<Channel> {
        let former = self.former_reach.channels.iter();
        let known: BTreeMap<(&BTreeSet<RegionId>, Option<u32>), ChannelId> = former
            .map(|channel| ((&channel.regions, channel.pin), channel.id))
            .collect();
        let numbered = channels.into_iter().map(|(regions, pin)| {
            let id = known.get(&(&regions, pin)).copied().unwrap_or_else(|| {
                *out.channel_next += 1;
                ChannelId(*out.channel_next)
            });
            let size = |id: &RegionId| {
                self.table
                    .get(*id)
                    .map_or(0, |region| u64::from(region.cluster.size))
            };
            Channel {
                id,
                size: regions.iter().map(size).sum(),
                regions,
                parent: None,
                depth: 0,
                pin,
            }
        });
        numbered.collect()
    }

    /// Returns whether the present channels could stay: they serve each region that would get an
    /// address.
    fn could_stay(&self) -> bool {
        let own = |reach: &Reach| -> BTreeSet<RegionId> {
            let own = reach
                .channels
                .iter()
                .filter(|channel| channel.regions.len() == 1);
            own.filter_map(|channel| channel.regions.first().copied())
                .collect()
        };
        let pins = |reach: &Reach| -> Vec<BTreeSet<RegionId>> {
            let pins = reach
                .channels
                .iter()
                .filter(|channel| channel.pin.is_some());
            pins.map(|channel| channel.regions.clone()).collect()
        };
        let former = &self.former_reach;
        !self.forced
            && own(former).is_superset(&own(&self.reach))
            && pins(former) == pins(&self.reach)
    }

    fn count(&mut self, at: usize, work: &mut Work) {
        if at == 0 && !self.could_stay() {
            self.stage = Stage::Done;
            return;
        }
        if at == 0 {
            self.keep_open();
            self.starts = vec![0; self.shared.len() + 1];
        }
        let Some((_, region)) = self.table.iter().nth(at) else {
            let mut sum = 0;
            for start in &mut self.starts {
                sum += *start;
                *start = sum;
            }
            let empty = Part {
                region: RegionId(0),
                size: 0,
                count: 0,
            };
            self.index = vec![empty; sum as usize];
            work.spend(self.starts.len());
            self.stage = Stage::Fill(0);
            return;
        };
        self.stage = Stage::Count(at + 1);
        work.spend(region.cluster.len() + at + 1);
        for (group, _) in region.cluster.entries() {
            self.starts[group.0 as usize] += 1;
        }
    }

    /// Takes regions that have closed out of the present channels.
    fn keep_open(&mut self) {
        let known: BTreeSet<RegionId> = self.table.iter().map(|(id, _)| id).collect();
        let channels = self.former_reach.channels.iter();
        let all = channels.flat_map(|channel| &channel.regions).copied();
        let closed: BTreeSet<RegionId> = all.filter(|id| !known.contains(id)).collect();
        for id in closed {
            self.former_reach.close(id);
        }
        for channel in &mut self.former_reach.channels {
            let sizes = channel.regions.iter().filter_map(|id| self.table.get(*id));
            channel.size = sizes.map(|region| u64::from(region.cluster.size)).sum();
        }
    }

    fn fill(&mut self, at: usize, work: &mut Work) {
        let Some((id, region)) = self.table.iter().nth(at) else {
            self.stage = Stage::Appraise(0);
            return;
        };
        self.stage = Stage::Fill(at + 1);
        work.spend(region.cluster.len() * 2 + at + 1);
        for (group, count) in region.cluster.entries() {
            let place = &mut self.starts[group.0 as usize];
            *place -= 1;
            self.index[*place as usize] = Part {
                region: id,
                size: region.cluster.size,
                count,
            };
        }
    }

    /// Adds up what groups cost by the present and by the new channels; the present ones stay if
    /// the new ones do not save enough.
    fn appraise(&mut self, at: usize, view: &View<'_>, work: &mut Work) {
        let bounds = self.starts.get(at).zip(self.starts.get(at + 1));
        let Some((from, to)) = bounds else {
            let [former, new] = self.appraised;
            let percent = Cost::from(100 - view.model.settings.hysteresis);
            if new * 100 > former * percent {
                self.reach = core::mem::take(&mut self.former_reach);
            }
            self.index = Vec::new();
            self.starts = Vec::new();
            self.stage = Stage::Done;
            return;
        };
        self.stage = Stage::Appraise(at + 1);
        let parts = &self.index[*from as usize..*to as usize];
        work.spend(parts.len() * 64 + 1);
        let group = GroupId(u32::try_from(at).unwrap_or(u32::MAX));
        for (sum, reach) in self
            .appraised
            .iter_mut()
            .zip([&self.former_reach, &self.reach])
        {
            *sum += view
                .model
                .rated(group, reach.cover(group, parts, &view.model).cost);
        }
    }
}
