//! The regions of a plan, found by node or by what they carry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use qsm_wire::{GroupId, NodeId, RegionId};

use crate::cluster::{Cluster, Cost, Model};
use crate::sketch::{BANDS, Sketch};

/// Regions of a bucket that a node is compared with.
const NEIGHBOURS: usize = 8;
/// Regions whose cost with a node is computed: the most similar ones.
const TRIED: usize = 3;

/// Nodes with the same groups, or nearly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) domain: u32,
    /// Its nodes, with the groups that they are counted with.
    pub(crate) members: BTreeMap<NodeId, Arc<[GroupId]>>,
    pub(crate) cluster: Cluster,
    pub(crate) cost: Cost,
    /// Hints that keep its members apart from others, with how many.
    pub(crate) apart: BTreeMap<u32, u32>,
    pub(crate) sketch: Sketch,
    /// Savings of its merges, and the merge that was refused last.
    pub(crate) gained: Cost,
    pub(crate) refused: Option<(RegionId, Cost)>,
}

/// A node that looks for its place.
#[derive(Debug, Clone)]
pub(crate) struct Seeker {
    pub(crate) node: NodeId,
    pub(crate) groups: Arc<[GroupId]>,
    pub(crate) domain: u32,
    pub(crate) apart: Vec<u32>,
    /// Nodes that are to be in its region.
    pub(crate) together: Vec<NodeId>,
    pub(crate) sketch: Sketch,
}

/// All regions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Table {
    regions: BTreeMap<RegionId, Region>,
    homes: BTreeMap<NodeId, RegionId>,
    buckets: BTreeMap<(u32, usize, u64), BTreeSet<RegionId>>,
}

/// A node's former and present region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) from: Option<RegionId>,
    pub(crate) to: Option<RegionId>,
    /// Its former region had no other node.
    pub(crate) closed: bool,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.regions.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RegionId, &Region)> {
        self.regions.iter().map(|(id, region)| (*id, region))
    }

    pub(crate) fn get(&self, id: RegionId) -> Option<&Region> {
        self.regions.get(&id)
    }

    pub(crate) fn home(&self, node: NodeId) -> Option<RegionId> {
        self.homes.get(&node).copied()
    }

    pub(crate) fn homes(&self) -> &BTreeMap<NodeId, RegionId> {
        &self.homes
    }

    /// Forgets a region or a node, whichever is left, of a table that is not used any more.
    pub(crate) fn free_one(&mut self) -> bool {
        let region = self.regions.pop_first().is_some();
        let home = self.homes.pop_first().is_some();
        let bucket = self.buckets.pop_first().is_some();
        region || home || bucket
    }

    /// Says which region this one was nearest to being merged with.
    pub(crate) fn note_refused(&mut self, id: RegionId, refused: Option<(RegionId, Cost)>) {
        if let Some(region) = self.regions.get_mut(&id) {
            region.refused = refused;
        }
    }

    /// Puts a region in.
    pub(crate) fn insert(&mut self, id: RegionId, region: Region) {
        for node in region.members.keys() {
            self.homes.insert(*node, id);
        }
        // Without a group that others have too, it is similar to nothing.
        let bands = if region.sketch.is_empty() { 0 } else { BANDS };
        for band in 0..bands {
            let key = (region.domain, band, region.sketch.band(band));
            self.buckets.entry(key).or_default().insert(id);
        }
        self.regions.insert(id, region);
    }

    /// Takes a node out, and its region if it was alone. The region, and whether it is closed.
    pub(crate) fn remove(
        &mut self,
        node: NodeId,
        apart: &[u32],
        model: &Model<'_>,
    ) -> Option<(RegionId, bool)> {
        let id = self.homes.remove(&node)?;
        let region = self.regions.get_mut(&id)?;
        let groups = region.members.remove(&node)?;
        if region.members.is_empty() {
            let (domain, sketch) = (region.domain, region.sketch);
            self.unlist(id, domain, &sketch);
            self.regions.remove(&id);
            return Some((id, true));
        }
        for hint in apart {
            if let Some(count) = region.apart.get_mut(hint) {
                *count -= 1;
            }
        }
        region.apart.retain(|_, count| *count > 0);
        region.cluster = region.cluster.without(&groups);
        region.cost = model.cost(&region.cluster);
        Some((id, false))
    }

    /// Takes a region out of the buckets.
    fn unlist(&mut self, id: RegionId, domain: u32, sketch: &Sketch) {
        for band in 0..BANDS {
            let key = (domain, band, sketch.band(band));
            if let Some(bucket) = self.buckets.get_mut(&key) {
                bucket.remove(&id);
                if bucket.is_empty() {
                    self.buckets.remove(&key);
                }
            }
        }
    }

    /// Puts a node where it costs least: where it was, into a similar region, or into one of its
    /// own, which gets the number `next`.
    pub(crate) fn place(&mut self, seeker: Seeker, next: RegionId, model: &Model<'_>) -> Placed {
        let removed = self.remove(seeker.node, &seeker.apart, model);
        let from = removed.map(|(id, _)| id);
        let closed = removed.is_some_and(|(_, closed)| closed);
        if seeker.groups.is_empty() {
            let to = None;
            return Placed { from, to, closed };
        }
        let single = Cluster::of(Arc::clone(&seeker.groups), 1);
        let alone = model.cost(&single);
        let home = from.filter(|_| !closed);
        let bound = seeker.together.iter().find_map(|node| self.home(*node));
        let to = match bound {
            Some(bound) => Some(bound),
            None => self.best(&seeker, &single, home, model),
        };
        match to {
            Some(to) => self.enter(to, &seeker, &single, model),
            // A node that stays alone keeps its region's number.
            None => {
                let id = from.filter(|_| closed).unwrap_or(next);
                self.insert(id, region_of(seeker, single, alone));
                let to = Some(id);
                let closed = closed && from != to;
                return Placed { from, to, closed };
            }
        }
        Placed { from, to, closed }
    }

    fn enter(&mut self, to: RegionId, seeker: &Seeker, single: &Cluster, model: &Model<'_>) {
        let Some(region) = self.regions.get_mut(&to) else {
            return;
        };
        region.cluster = region.cluster.join(single);
        region.cost = model.cost(&region.cluster);
        for hint in &seeker.apart {
            *region.apart.entry(*hint).or_insert(0) += 1;
        }
        let groups = Arc::clone(&seeker.groups);
        region.members.insert(seeker.node, groups);
        self.homes.insert(seeker.node, to);
    }

    /// The region in which the node costs least; `None`: one of its own costs less.
    fn best(
        &self,
        seeker: &Seeker,
        single: &Cluster,
        home: Option<RegionId>,
        model: &Model<'_>,
    ) -> Option<RegionId> {
        let relocation = Cost::from(model.settings.costs.relocation);
        let alone = model.cost(single);
        let fits = |id: &RegionId| {
            let region = self.regions.get(id)?;
            let common = seeker
                .apart
                .iter()
                .any(|hint| region.apart.contains_key(hint));
            let fits = region.domain == seeker.domain && !common;
            fits.then(|| model.joint(&region.cluster, single) - region.cost)
        };
        let at_home = home.and_then(|home| Some((fits(&home)?, home)));
        let candidates = self.similar(seeker).into_iter();
        let costs = candidates.filter_map(|id| Some((fits(&id)?, id)));
        let best = costs.min().filter(|(cost, _)| *cost < alone);
        let other = best.map_or(alone, |(cost, _)| cost);
        match at_home {
            // Where it is, unless another place costs less by the hysteresis.
            Some((cost, id)) if self.keeps(cost, other + relocation, model) => Some(id),
            _ => best.map(|(_, id)| id),
        }
    }

    fn keeps(&self, cost: Cost, other: Cost, model: &Model<'_>) -> bool {
        let percent = Cost::from(100 - model.settings.hysteresis);
        cost * percent <= other * 100
    }

    /// The regions whose sketches agree most with a node's.
    fn similar(&self, seeker: &Seeker) -> Vec<RegionId> {
        let mut found: BTreeMap<RegionId, u32> = BTreeMap::new();
        let bands = if seeker.sketch.is_empty() { 0 } else { BANDS };
        for band in 0..bands {
            let key = (seeker.domain, band, seeker.sketch.band(band));
            let bucket = self.buckets.get(&key);
            for id in bucket.into_iter().flatten().take(NEIGHBOURS) {
                if let Some(region) = self.regions.get(id) {
                    found.insert(*id, region.sketch.matches(&seeker.sketch));
                }
            }
        }
        let mut found: Vec<(u32, RegionId)> = found.into_iter().map(|(id, m)| (m, id)).collect();
        found.sort_by(|one, two| two.0.cmp(&one.0).then(one.1.cmp(&two.1)));
        found.into_iter().take(TRIED).map(|(_, id)| id).collect()
    }
}

fn region_of(seeker: Seeker, cluster: Cluster, cost: Cost) -> Region {
    Region {
        domain: seeker.domain,
        members: BTreeMap::from([(seeker.node, seeker.groups)]),
        cluster,
        cost,
        apart: seeker.apart.into_iter().map(|hint| (hint, 1)).collect(),
        sketch: seeker.sketch,
        gained: 0,
        refused: None,
    }
}
