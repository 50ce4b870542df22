//! Decides which of the merged regions take the place of the present ones.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use qsm_wire::{Instant, NodeId, RegionId};

use crate::census::Unit;
use crate::cluster::Cost;
use crate::merge::Part;
use crate::settings::Settings;
use crate::work::Work;

/// A region of the next plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outline {
    pub(crate) id: RegionId,
    /// The merged part that it is; `None`: it stays as it was.
    pub(crate) part: Option<usize>,
    /// Its nodes and their units.
    pub(crate) members: Vec<(NodeId, u32)>,
}

/// The present regions beside the merged parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comparison<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) now: Instant,
    pub(crate) forced: bool,
    pub(crate) units: &'a [Unit],
    pub(crate) homes: &'a BTreeMap<NodeId, RegionId>,
    /// Cost of each present region.
    pub(crate) former: &'a BTreeMap<RegionId, Cost>,
    pub(crate) parts: &'a [Part],
}

/// Regions and parts that exchange nodes with each other and with no others.
#[derive(Debug, Clone, Default)]
struct Component {
    former: Vec<RegionId>,
    parts: Vec<usize>,
    /// Nodes that would change their region.
    moved: u32,
}

/// Units of work of a node or a region.
const UNITS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Overlap(usize),
    Match,
    Connect,
    Decide(usize),
}

/// The decision, as far as it has come.
#[derive(Debug)]
pub(crate) struct Decision {
    /// Nodes that a part and a present region have in common, by part; the region is `None` for
    /// nodes that have none.
    overlaps: Vec<(usize, Option<RegionId>, u32)>,
    /// The region whose number each part takes over.
    matched: BTreeMap<usize, RegionId>,
    components: Vec<Component>,
    still: BTreeSet<RegionId>,
    outlines: Vec<Outline>,
    stage: Stage,
}

impl Decision {
    pub(crate) fn new() -> Self {
        Self {
            overlaps: Vec::new(),
            matched: BTreeMap::new(),
            components: Vec::new(),
            still: BTreeSet::new(),
            outlines: Vec::new(),
            stage: Stage::Overlap(0),
        }
    }

    /// Goes on for a slice. `true`: done.
    pub(crate) fn step(
        &mut self,
        comparison: &Comparison<'_>,
        wanting: &mut BTreeMap<RegionId, Instant>,
        next: &mut u32,
        work: &mut Work,
    ) -> bool {
        while !work.is_spent() {
            match self.stage {
                Stage::Overlap(part) if part < comparison.parts.len() => {
                    self.overlap(part, comparison, work);
                }
                Stage::Overlap(_) => self.stage = Stage::Match,
                Stage::Match => {
                    self.matched = match_parts(&self.overlaps);
                    work.spend(self.overlaps.len() * UNITS);
                    self.stage = Stage::Connect;
                }
                Stage::Connect => {
                    self.connect(comparison.parts.len());
                    work.spend(self.overlaps.len() * UNITS);
                    self.stage = Stage::Decide(0);
                }
                Stage::Decide(at) if at < self.components.len() => {
                    self.decide(at, comparison, wanting, next, work);
                }
                Stage::Decide(_) => {
                    wanting.retain(|id, _| self.still.contains(id));
                    return true;
                }
            }
        }
        false
    }

    /// The regions of the next plan.
    pub(crate) fn into_outlines(self) -> Vec<Outline> {
        self.outlines
    }

    fn overlap(&mut self, part: usize, comparison: &Comparison<'_>, work: &mut Work) {
        self.stage = Stage::Overlap(part + 1);
        let mut counts = BTreeMap::new();
        for (node, _) in comparison.members(part) {
            let home = comparison.homes.get(&node).copied();
            *counts.entry(home).or_insert(0) += 1;
            work.spend(UNITS);
        }
        let overlaps = counts.into_iter().map(|(home, count)| (part, home, count));
        self.overlaps.extend(overlaps);
    }

    fn connect(&mut self, parts: usize) {
        let mut leader: Vec<usize> = (0..parts).collect();
        let mut first: BTreeMap<RegionId, usize> = BTreeMap::new();
        for (part, home, _) in &self.overlaps {
            let Some(home) = home else { continue };
            let other = *first.entry(*home).or_insert(*part);
            let (one, two) = (root(&mut leader, other), root(&mut leader, *part));
            leader[one.max(two)] = one.min(two);
        }
        let mut place: Vec<Option<usize>> = vec![None; parts];
        for (part, home, count) in &self.overlaps {
            let lead = root(&mut leader, *part);
            let at = *place[lead].get_or_insert_with(|| {
                self.components.push(Component::default());
                self.components.len() - 1
            });
            let component = &mut self.components[at];
            if component.parts.last() != Some(part) {
                component.parts.push(*part);
            }
            if let Some(home) = home {
                component.former.push(*home);
                if self.matched.get(part) != Some(home) {
                    component.moved += count;
                }
            }
        }
    }

    /// Parts take the place of a component's regions where that saves enough, and has for long
    /// enough.
    fn decide(
        &mut self,
        at: usize,
        comparison: &Comparison<'_>,
        wanting: &mut BTreeMap<RegionId, Instant>,
        next: &mut u32,
        work: &mut Work,
    ) {
        self.stage = Stage::Decide(at + 1);
        let component = &mut self.components[at];
        component.former.sort_unstable();
        component.former.dedup();
        let component = &self.components[at];
        let adopt = comparison.gains(component) && {
            self.still.extend(component.former.iter().copied());
            comparison.has_held(component, wanting)
        };
        let before = self.outlines.len();
        if adopt {
            let parts = component.parts.iter();
            let adopted = parts.map(|part| comparison.adopted(*part, &self.matched, next));
            self.outlines.extend(adopted);
        } else {
            self.outlines.extend(comparison.kept(component));
        }
        let nodes = self.outlines[before..]
            .iter()
            .map(|outline| outline.members.len() + 1);
        work.spend(nodes.sum::<usize>() * UNITS);
    }
}

impl Comparison<'_> {
    fn members(&self, part: usize) -> impl Iterator<Item = (NodeId, u32)> + '_ {
        self.parts[part].units.iter().flat_map(|at| {
            let nodes = self.units[*at as usize].nodes.iter();
            nodes.map(|node| (*node, *at))
        })
    }

    /// A part as a region of the next plan.
    fn adopted(&self, part: usize, matched: &BTreeMap<usize, RegionId>, next: &mut u32) -> Outline {
        let id = matched.get(&part).copied().unwrap_or_else(|| {
            *next += 1;
            RegionId(*next)
        });
        let members = self.members(part).collect();
        let part = Some(part);
        Outline { id, part, members }
    }

    /// Returns whether the parts of a component cost so much less than its regions that nodes may
    /// move.
    fn gains(&self, component: &Component) -> bool {
        if self.forced || component.former.is_empty() {
            return true;
        }
        let former = component.former.iter().filter_map(|id| self.former.get(id));
        let former: Cost = former.sum();
        let parts: Cost = component
            .parts
            .iter()
            .map(|part| self.parts[*part].cost)
            .sum();
        let relocation = Cost::from(self.settings.costs.relocation) * Cost::from(component.moved);
        let gain = former - parts - relocation;
        gain * 100 > former * Cost::from(self.settings.hysteresis)
    }

    fn has_held(&self, component: &Component, wanting: &mut BTreeMap<RegionId, Instant>) -> bool {
        if self.forced {
            return true;
        }
        let mut held = true;
        for id in &component.former {
            let since = *wanting.entry(*id).or_insert(self.now);
            held &= since.after(self.settings.hold) <= self.now;
        }
        held
    }

    /// The regions of a component, as they are. Nodes without one are placed afterwards.
    fn kept(&self, component: &Component) -> Vec<Outline> {
        let mut kept: BTreeMap<RegionId, Vec<(NodeId, u32)>> = BTreeMap::new();
        for part in &component.parts {
            for (node, unit) in self.members(*part) {
                if let Some(home) = self.homes.get(&node) {
                    kept.entry(*home).or_default().push((node, unit));
                }
            }
        }
        let outlines = kept.into_iter().map(|(id, members)| Outline {
            id,
            part: None,
            members,
        });
        outlines.collect()
    }
}

fn root(leader: &mut [usize], mut at: usize) -> usize {
    while leader[at] != at {
        leader[at] = leader[leader[at]];
        at = leader[at];
    }
    at
}

/// The region whose number each part takes over: that with which it has most nodes in common.
fn match_parts(overlaps: &[(usize, Option<RegionId>, u32)]) -> BTreeMap<usize, RegionId> {
    let known = overlaps.iter();
    let known = known.filter_map(|(part, home, count)| Some((Reverse(*count), (*home)?, *part)));
    let mut order: Vec<(Reverse<u32>, RegionId, usize)> = known.collect();
    order.sort_unstable();
    let mut matched = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for (_, home, part) in order {
        if !taken.contains(&home) && !matched.contains_key(&part) {
            taken.insert(home);
            matched.insert(part, home);
        }
    }
    matched
}
