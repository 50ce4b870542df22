//! The planner beside the registry: it says which groups of a node go to it alone although others
//! have them too, because that costs less than regions of its own for the nodes with such groups; and
//! which nodes share a region although some of them do not want all of its groups.
//!
//! ```text
//!           a change, or the last plan        all nodes and rates known        done
//!   Resting ──────────────────────► Learning ─► Rating ────────► Planning ──────► Sharing
//!      ▲                                                                            │ regions read
//!      └──── Command::Advise ──── Comparing ◄─── Classing ◄─── Reading ◄─────────────┘
//! ```
//!
//! Each turn does a slice, so that a batch never waits for a plan. The registry takes the advice as
//! it takes any command, and needs no planner to be rebuilt.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_plan::{
    CommonSets, Costs, Hints, Planner, Progress, RATE_PRIOR, SLICE, Settings, SharedLimits,
};
use qsm_proto::{Instant, Random};
use qsm_wire::{GroupId, NodeId, RegionId};

use super::classes::{ClassId, Classes};
use super::traffic::Traffic;
use crate::ServiceConfig;
use crate::plan::Zone;
use crate::registry::{Advice, ClusterId, CommonSet, PlannedRegion, Registry};

/// Time from the first change on before it is planned for: others may follow.
const AFTER_CHANGE: Duration = Duration::from_secs(1);
/// Plans after the last change: a change of regions has to have been worth it for a while.
const PLANS_AFTER_CHANGE: u8 = 3;
/// Intervals between a plan and one that is made for nothing but other rates of groups: these change all
/// the time.
const INTERVALS_BETWEEN_RATES: u32 = 6;
/// Time without a plan after a service has taken over.
const AFTER_TAKEOVER: Duration = Duration::from_secs(30);
/// Time between two slices.
const PAUSE: Duration = Duration::from_millis(5);
/// Receivers of a group that goes to each of them alone. Rates are not known: if it is the one with
/// most messages, more copies would cost more than all regions.
const RECEIVERS_MAX: u32 = 3;
/// The same in a region whose members may receive what they do not want: each group counts as much
/// there.
const COPIES_MAX: u32 = 16;
/// Groups of nodes that are looked at in a slice.
const GROUPS_PER_SLICE: usize = 50_000;
/// Groups whose rates are looked up in a slice.
const RATES_PER_SLICE: usize = 10_000;

/// Plans residue and merged regions, if that is switched on.
#[derive(Debug)]
pub(super) struct Planning {
    /// Least time between the beginnings of two plans; 0: nothing is planned.
    interval: Duration,
    /// Deliveries of a million that may be unwanted.
    unwanted_ppm: u32,
    /// Packets that a common region has to save in a second.
    common: Option<u32>,
    planner: Option<Planner>,
    /// The groups that the planner has of each node.
    known: BTreeMap<NodeId, Arc<[GroupId]>>,
    stage: Stage,
    /// When it is done.
    at: Instant,
    /// The next plan is not begun before that.
    not_before: Instant,
    /// Plans that are still to be made.
    left: u8,
    /// Changes of the registry that plans are made for.
    seen: u64,
    /// Changes of rates that the last plan knew of, and when the next may be made for others.
    rates: (u64, Instant),
}

/// The next slice of work.
#[derive(Debug)]
enum Stage {
    /// A plan, if there is something to plan.
    Resting,
    /// The planner hears of nodes, from this one on.
    Learning(NodeId),
    /// The planner hears of rates, from this group on.
    Rating(GroupId),
    Planning,
    /// The plan's regions are read, from this one on.
    Sharing(RegionId, Advice),
    /// The plan is read, from this node on.
    Reading(NodeId, Advice),
    /// Nodes that are to share a region are counted, from this one on.
    Classing(NodeId, Advice, Classes),
    /// Groups that these regions have in common are counted, from this one on.
    Comparing(ClassId, Advice, Classes, CommonSets),
}

/// Settings of a plan in which so many deliveries of a million may be unwanted; at 0 they cost more
/// than anything else.
fn settings(mut costs: Costs, unwanted_ppm: u32) -> Settings {
    if unwanted_ppm == 0 {
        costs.unwanted = 1_000_000_000;
    }
    // Which addresses there are is not asked: each shared region has one.
    let (addresses, ancestors) = (0, 0);
    Settings {
        costs,
        addresses,
        ancestors,
        hysteresis: 10,
        ..Settings::default()
    }
}

impl Planning {
    /// Plans as often as the configuration says, or never.
    pub(super) fn new(config: &ServiceConfig, mut random: Random) -> Self {
        let (interval, unwanted_ppm) = (config.plan_interval, config.plan_unwanted_ppm);
        let settings = settings(config.plan_costs, unwanted_ppm);
        let planner = (!interval.is_zero())
            .then(|| Planner::new(settings, Hints::default(), &mut random).ok());
        Self {
            interval,
            unwanted_ppm,
            common: config.plan_common,
            planner: planner.flatten(),
            known: BTreeMap::new(),
            stage: Stage::Resting,
            at: Instant::default(),
            not_before: Instant::default(),
            left: 0,
            seen: 0,
            rates: (0, Instant::default()),
        }
    }

    /// There have been so many changes of what nodes are to receive.
    pub(super) fn note_changes(&mut self, now: Instant, changes: u64) {
        let news = core::mem::replace(&mut self.seen, changes) != changes;
        if !news || self.planner.is_none() {
            return;
        }
        if let (Stage::Resting, 0) = (&self.stage, self.left) {
            self.at = now.after(AFTER_CHANGE);
        }
        self.left = PLANS_AFTER_CHANGE;
    }

    /// There have been so many changes of rates.
    pub(super) fn note_rates(&mut self, now: Instant, changes: u64) {
        let (known, not_before) = self.rates;
        let rests = matches!(self.stage, Stage::Resting) && self.left == 0;
        if changes != known && rests && self.planner.is_some() {
            self.at = now.after(AFTER_CHANGE).max(not_before);
            self.left = 1;
        }
    }

    /// A service has taken over: what nodes report keeps its shape for a while.
    pub(super) fn take_over(&mut self, now: Instant) {
        self.not_before = now.after(AFTER_TAKEOVER);
    }

    /// When there is something to do.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match self.stage {
            Stage::Resting if self.left == 0 => None,
            Stage::Resting => Some(self.at.max(self.not_before)),
            _ => Some(self.at),
        }
    }

    /// Does a slice; returns advice when there is some.
    pub(super) fn step(
        &mut self,
        now: Instant,
        registry: &Registry,
        traffic: &Traffic,
    ) -> Option<Advice> {
        let planner = self.planner.as_mut()?;
        self.at = now.after(PAUSE);
        self.stage = match core::mem::replace(&mut self.stage, Stage::Resting) {
            Stage::Resting => {
                self.not_before = now.after(self.interval);
                self.left -= 1;
                Stage::Learning(NodeId(0))
            }
            Stage::Learning(next) => match learn(planner, &mut self.known, registry, next) {
                Some(next) => Stage::Learning(next),
                None => {
                    forget(planner, &mut self.known, registry);
                    let pause = self.interval.saturating_mul(INTERVALS_BETWEEN_RATES);
                    self.rates = (traffic.changes(), now.after(pause));
                    Stage::Rating(GroupId(0))
                }
            },
            Stage::Rating(next) => match rate(planner, registry, traffic, next) {
                Some(next) => Stage::Rating(next),
                // Domains and no other hints: nothing contradicts.
                None if planner.start(now).is_ok() => Stage::Planning,
                None => Stage::Resting,
            },
            Stage::Planning => match planner.step(SLICE) {
                Progress::Busy(_) => Stage::Planning,
                _ => {
                    let advice = Advice {
                        unwanted_ppm: self.unwanted_ppm,
                        ..Advice::default()
                    };
                    Stage::Sharing(RegionId(0), advice)
                }
            },
            Stage::Sharing(next, mut advice) => match share(planner, registry, next, &mut advice) {
                Some(next) => Stage::Sharing(next, advice),
                None => Stage::Reading(NodeId(0), advice),
            },
            Stage::Reading(next, mut advice) => {
                match read(planner, registry, next, &mut advice.residue) {
                    Some(next) => Stage::Reading(next, advice),
                    None if self.common.is_some() => {
                        let classes = Classes::new(&advice);
                        Stage::Classing(NodeId(0), advice, classes)
                    }
                    None => return self.rest(now, advice),
                }
            }
            Stage::Classing(next, advice, mut classes) => {
                match classes.count(registry, &advice, next) {
                    Some(next) => Stage::Classing(next, advice, classes),
                    None => {
                        let first = classes.first();
                        let sets = common_sets(registry, Some(first));
                        Stage::Comparing(first, advice, classes, sets)
                    }
                }
            }
            Stage::Comparing(first, mut advice, classes, mut sets) => {
                let next = classes.note(registry, &advice, first, &mut sets);
                if next.is_none_or(|next| next.zone != first.zone) {
                    let least = self.common.unwrap_or_default();
                    let sets = core::mem::replace(&mut sets, common_sets(registry, next));
                    choose(planner, sets, first.zone, least, &mut advice);
                }
                match next {
                    Some(next) => Stage::Comparing(next, advice, classes, sets),
                    None => return self.rest(now, advice),
                }
            }
        };
        None
    }

    /// The plan is made.
    fn rest(&mut self, now: Instant, advice: Advice) -> Option<Advice> {
        (self.stage, self.at) = (Stage::Resting, now);
        Some(advice)
    }
}

/// Tells the planner of nodes whose groups have changed; returns the first that is left.
fn learn(
    planner: &mut Planner,
    known: &mut BTreeMap<NodeId, Arc<[GroupId]>>,
    registry: &Registry,
    first: NodeId,
) -> Option<NodeId> {
    let mut room = GROUPS_PER_SLICE;
    for (node, groups) in registry.aims_from(first) {
        if room == 0 {
            return Some(node);
        }
        let groups = &registry.unpinned(groups);
        let former = known.get(&node);
        if former.is_some_and(|former| Arc::ptr_eq(former, groups)) {
            room -= 1;
            continue;
        }
        room = room.saturating_sub(groups.len() + 1);
        if former.is_some_and(|former| former == groups) {
            continue;
        }
        if former.is_none() {
            let Zone { compartment, .. } = registry.zone(node);
            planner.set_domain(node, compartment);
        }
        if let Some(former) = former.filter(|_| planner.region_of(node).is_some()) {
            let (enter, leave) = (missing(groups, former), missing(former, groups));
            planner.join(node, &enter, &leave);
        } else if planner.regions() > 0 {
            planner.join(node, groups, &[]);
        } else {
            planner.load(node, groups.to_vec());
        }
        known.insert(node, Arc::clone(groups));
    }
    None
}

/// Tells the planner how many messages groups have; returns the first that is left.
fn rate(
    planner: &mut Planner,
    registry: &Registry,
    traffic: &Traffic,
    first: GroupId,
) -> Option<GroupId> {
    let mut groups = registry.groups_from(first);
    for group in groups.by_ref().take(RATES_PER_SLICE) {
        let rate = traffic.of(registry, group);
        planner.set_rate(group, rate.unwrap_or(RATE_PRIOR));
    }
    groups.next()
}

/// Those of the first set that the second has not; both ascend.
fn missing(of: &[GroupId], from: &[GroupId]) -> Vec<GroupId> {
    let lacks = |group: &&GroupId| from.binary_search(group).is_err();
    of.iter().filter(lacks).copied().collect()
}

/// Tells the planner of nodes that are gone, or that a hint has together.
fn forget(
    planner: &mut Planner,
    known: &mut BTreeMap<NodeId, Arc<[GroupId]>>,
    registry: &Registry,
) {
    known.retain(|node, _| {
        let there = registry.is_planned(*node);
        if !there {
            planner.leave(*node);
        }
        there
    });
}

/// The common sets that there are in the zone of a class; none without a class.
fn common_sets(registry: &Registry, class: Option<ClassId>) -> CommonSets {
    let zone = class.map(|class| class.zone);
    let former = zone.into_iter().flat_map(|zone| registry.commons(zone));
    CommonSets::new(former)
}

/// Chooses of the common sets of a zone, all of whose classes have been noted.
fn choose(planner: &Planner, sets: CommonSets, zone: Zone, least: u32, advice: &mut Advice) {
    let chosen = planner.common_sets(sets, least).into_iter();
    let chosen = chosen.map(|groups| CommonSet { zone, groups });
    advice.commons.extend(chosen);
}

/// Reads which regions of the plan are merged; returns the first that is left.
fn share(
    planner: &Planner,
    registry: &Registry,
    first: RegionId,
    advice: &mut Advice,
) -> Option<RegionId> {
    if advice.unwanted_ppm == 0 {
        return None;
    }
    let limits = SharedLimits {
        unwanted_ppm: advice.unwanted_ppm,
        copies: COPIES_MAX,
    };
    let mut room = GROUPS_PER_SLICE;
    for id in planner.regions_from(first) {
        if room == 0 {
            return Some(id);
        }
        let Some(shared) = planner.shared(id, limits) else {
            room = room.saturating_sub(1);
            continue;
        };
        room = room.saturating_sub(shared.members.len() * shared.groups.len());
        let odd = |node: &NodeId| planner.odd_groups(*node);
        let mut odd = shared.members.iter().flat_map(odd);
        // What is odd in the whole system needs no merged region.
        let plain = |group: GroupId| registry.receivers(group) <= RECEIVERS_MAX;
        if shared.mixed || !odd.all(plain) {
            advice.merged.push(PlannedRegion {
                id: ClusterId::Planned(id.0),
                members: shared.members,
                groups: shared.groups,
            });
        }
    }
    None
}

/// Reads which groups of nodes are odd; returns the first node that is left.
fn read(
    planner: &Planner,
    registry: &Registry,
    first: NodeId,
    residue: &mut BTreeMap<NodeId, Vec<GroupId>>,
) -> Option<NodeId> {
    let mut room = GROUPS_PER_SLICE;
    for node in planner.placed_from(first) {
        if room == 0 {
            return Some(node);
        }
        let mut odd = planner.odd_groups(node);
        room = room.saturating_sub(odd.len() + 1);
        // What it alone has is residue without advice, and only as long as that is so.
        odd.retain(|group| (2..=RECEIVERS_MAX).contains(&registry.receivers(*group)));
        if !odd.is_empty() {
            residue.insert(node, odd);
        }
    }
    None
}
