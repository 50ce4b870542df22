//! An account of one group, for who asks why its messages go where they go: its regions as they are,
//! what hints bind, and what other ways would cost (R-MEM-18).
//!
//! Everything is computed from the registry when it is asked for, and nothing is noted before. The work
//! is bounded: what would take more is left out.

use std::collections::{BTreeMap, BTreeSet};

use qsm_plan::{CommonSaving, Costs};
use qsm_wire::membership::{
    GroupDecision, GroupWay, NearRegion, PlanLimits, RegionDecision, RegionHints, RegionKind,
};
use qsm_wire::{GroupId, RegionId};

use super::groups::Group;
use super::rows::number;
use super::{ClusterId, Node, Registry};
use crate::plan::{Region, Signature, Zone};

/// Entries of lists of groups and members that are looked at for an account: about a millisecond.
const WORK_MAX: usize = 200_000;
/// Regions told of: more do not fit a datagram.
const TOLD_MAX: usize = 48;
/// Regions that are compared with each other.
const COMPARED_MAX: usize = 12;
/// Parts of a whole that shares are counted in.
const MILLION: u128 = 1_000_000;

/// Knowledge of who asks the registry that this has not.
pub(crate) struct PlanKnowledge<'a> {
    pub(crate) limits: Option<PlanLimits>,
    /// Messages in 1000 seconds of a group, if its publishers have said so.
    pub(crate) told: &'a dyn Fn(GroupId) -> Option<u32>,
    /// The rate that plans count with while they have not.
    pub(crate) prior: u32,
    /// CPU time of packets and copies.
    pub(crate) costs: Costs,
}

/// A region of the group.
struct Part<'a> {
    id: RegionId,
    region: &'a Region,
    kind: RegionKind,
    receivers: u32,
}

/// Nodes of a zone that would share a region if it were not for plans.
struct Class<'a> {
    zone: Zone,
    one: &'a Node,
    nodes: u64,
    /// Of these, nodes in no merged region.
    plain: u64,
    /// Merged regions of the others.
    clusters: BTreeSet<ClusterId>,
}

impl Class<'_> {
    /// A hint has its nodes together, and with nobody else.
    fn is_bound(&self) -> bool {
        self.one.hint.set.is_some()
    }
}

/// Work that may still be done for an account.
struct Budget(usize);

impl Budget {
    /// `None`: that would be too much.
    fn take(&mut self, entries: usize) -> Option<()> {
        self.0 = self.0.checked_sub(entries)?;
        Some(())
    }
}

/// Deliveries, and those among them that are wanted.
#[derive(Default)]
struct Deliveries {
    all: u64,
    wanted: u64,
}

impl Deliveries {
    /// Those of a million that are not wanted.
    fn unwanted_ppm(&self) -> u32 {
        let unwanted = self.all.saturating_sub(self.wanted);
        let share = u128::from(unwanted) * MILLION / u128::from(self.all.max(1));
        u32::try_from(share).unwrap_or(u32::MAX)
    }
}

impl Registry {
    /// The account of the group of this name; `None`: there is none.
    pub(crate) fn decision(
        &self,
        name: &str,
        knowledge: &PlanKnowledge<'_>,
    ) -> Option<GroupDecision> {
        let id = self.groups.find(name)?;
        let group = self.groups.get(id)?;
        let mut budget = Budget(WORK_MAX);
        let parts = self.parts(id, group, &mut budget);
        let told = parts.iter().take(TOLD_MAX);
        let regions: Vec<RegionDecision> = told
            .map(|part| self.region_decision(part, &parts, &mut budget))
            .collect();
        let packets = number(group.regions.len());
        Some(GroupDecision {
            group: id,
            receivers: group.receivers.count(),
            publishers: number(group.publishers.len()),
            packets,
            cost_ns: parts.iter().map(|part| part.cost_ns(knowledge.costs)).sum(),
            rate: (knowledge.told)(id),
            limits: knowledge.limits,
            pin: group
                .channel
                .and_then(|channel| self.hints.channel_name(channel))
                .map(cut),
            left_out: packets.saturating_sub(number(regions.len())),
            regions,
            ways: self.ways(id, group, &parts, knowledge, &mut budget),
        })
    }

    /// The regions of a group, those that it shares first, and of these those with most receivers.
    fn parts(&self, id: GroupId, group: &Group, budget: &mut Budget) -> Vec<Part<'_>> {
        let mut parts = Vec::new();
        for region_id in group.regions.iter().copied() {
            let Some(region) = self.regions.get(region_id) else {
                continue;
            };
            if budget.take(1 + region.members.len()).is_none() {
                break;
            }
            parts.push(Part {
                id: region_id,
                region,
                kind: self.kind_of(region_id, region),
                receivers: number(self.receivers_in(id, region_id, region)),
            });
        }
        parts.sort_by_key(|part| (part.region.private, u32::MAX - part.receivers, part.id));
        parts
    }

    fn region_decision(
        &self,
        part: &Part<'_>,
        parts: &[Part<'_>],
        budget: &mut Budget,
    ) -> RegionDecision {
        let Part { id, region, .. } = *part;
        let cluster = match region.merged {
            true => self.clusters.of_region(id),
            false => None,
        };
        let domain = self.hints.domain_name(region.zone.tenant.domain);
        RegionDecision {
            region: id,
            kind: part.kind,
            members: number(region.active),
            receivers: part.receivers,
            groups: number(region.groups.len()),
            unwanted_ppm: self
                .deliveries(part, budget)
                .map_or(0, |deliveries| deliveries.unwanted_ppm()),
            hints: RegionHints {
                domain: domain.map(cut),
                compartment: region.zone.compartment,
                together: cluster.is_some_and(ClusterId::is_hinted),
            },
            nearest: self.nearest(part, parts, budget),
        }
    }

    /// Messages to each of a region's groups once.
    fn deliveries(&self, part: &Part<'_>, budget: &mut Budget) -> Option<Deliveries> {
        let Part { id, region, .. } = *part;
        let all = region.active as u64 * region.groups.len() as u64;
        if !region.merged {
            return Some(Deliveries { all, wanted: all });
        }
        budget.take(region.stays.len())?;
        let active = region.stays.iter().filter(|(node, _)| {
            let node = self.nodes.get(node);
            node.is_some_and(|node| node.is_at_home(id))
        });
        let wanted = active.map(|(_, stay)| stay.groups.len() as u64).sum();
        Some(Deliveries { all, wanted })
    }

    /// The region with which this one could be merged with fewest deliveries that nobody wants.
    fn nearest(
        &self,
        part: &Part<'_>,
        parts: &[Part<'_>],
        budget: &mut Budget,
    ) -> Option<NearRegion> {
        if !part.may_merge() {
            return None;
        }
        let own = self.deliveries(part, budget)?;
        let mut best: Option<NearRegion> = None;
        let fits = |other: &&Part<'_>| {
            other.id != part.id && other.may_merge() && other.region.zone == part.region.zone
        };
        for other in parts.iter().take(COMPARED_MAX).filter(fits) {
            let (one, two) = (&part.region.groups, &other.region.groups);
            budget.take(one.len() + two.len())?;
            let union = one.len() + two.len() - common(one, two);
            let members = part.region.active + other.region.active;
            let both = Deliveries {
                all: members as u64 * union as u64,
                wanted: own.wanted + self.deliveries(other, budget)?.wanted,
            };
            let unwanted_ppm = both.unwanted_ppm();
            if best.is_none_or(|best| unwanted_ppm < best.unwanted_ppm) {
                let region = other.id;
                best = Some(NearRegion {
                    region,
                    unwanted_ppm,
                });
            }
        }
        best
    }

    /// Alternatives.
    fn ways(
        &self,
        id: GroupId,
        group: &Group,
        parts: &[Part<'_>],
        knowledge: &PlanKnowledge<'_>,
        budget: &mut Budget,
    ) -> Vec<GroupWay> {
        let costs = knowledge.costs;
        let receivers = group.receivers.count();
        let mut ways = vec![GroupWay::Copies {
            packets: receivers,
            cost_ns: costs.copies(receivers.into()),
        }];
        // A hint has the group in regions of its own, whatever it costs; and one receiver shares nothing.
        if group.channel.is_some() || receivers < 2 {
            return ways;
        }
        let Some(classes) = self.classes_of(id, parts, budget) else {
            return ways;
        };
        let packets = number(classes.len());
        let cost_ns = costs.channel(1, 1) * u64::from(packets);
        ways.insert(0, GroupWay::Exact { packets, cost_ns });
        ways.extend(self.common_way(group, parts, &classes, knowledge, budget));
        ways.extend(self.merged_way(&classes, costs, budget));
        ways
    }

    /// The receivers of a group as plans are not to divide or join them: by their groups, without what
    /// each has alone and what hints take out, and by their zones.
    fn classes_of(
        &self,
        id: GroupId,
        parts: &[Part<'_>],
        budget: &mut Budget,
    ) -> Option<Vec<Class<'_>>> {
        let mut classes: BTreeMap<(Zone, Option<u32>, Signature), Class<'_>> = BTreeMap::new();
        for part in parts {
            for member in &part.region.members {
                let node = self.nodes.get(&member.origin.node);
                let node = node.filter(|node| node.is_at_home(part.id));
                let Some(node) = node.filter(|node| node.aim.set.contains(id)) else {
                    continue;
                };
                budget.take(1 + node.aim.residue.len())?;
                let signature = match node.hint.set {
                    Some(_) => 0,
                    None => self.plain_signature(node),
                };
                let name = (node.zone, node.hint.set, signature);
                let class = classes.entry(name).or_insert_with(|| Class {
                    zone: node.zone,
                    one: node,
                    nodes: 0,
                    plain: 0,
                    clusters: BTreeSet::new(),
                });
                class.nodes += 1;
                class.plain += u64::from(node.aim.cluster.is_none());
                class.clusters.extend(node.aim.cluster);
            }
        }
        Some(classes.into_values().collect())
    }

    /// The signature of a node's groups without those that it has alone and those that are pinned.
    fn plain_signature(&self, node: &Node) -> Signature {
        let alone = node.aim.residue.iter();
        let alone = alone.filter(|group| self.receivers(**group) == 1);
        let own = alone.fold(0, |sum, group| sum ^ self.key.group(*group));
        let pinned = node.aim.commons.iter();
        let pinned = pinned.filter(|set| set.zone.tenant.channel.is_some());
        pinned.fold(node.aim.set.signature ^ own, |sum, set| sum ^ set.signature)
    }

    /// A common region in each zone, of the groups that have the same regions as this one, or of those
    /// that the present one has.
    fn common_way(
        &self,
        group: &Group,
        parts: &[Part<'_>],
        classes: &[Class<'_>],
        knowledge: &PlanKnowledge<'_>,
        budget: &mut Budget,
    ) -> Option<GroupWay> {
        let mut zones: BTreeMap<Zone, (u32, u64)> = BTreeMap::new();
        for class in classes.iter().filter(|class| class.plain > 0) {
            let (regions, nodes) = zones.entry(class.zone).or_default();
            (*regions, *nodes) = (*regions + 1, *nodes + class.plain);
        }
        let merged = classes.iter().flat_map(|class| &class.clusters);
        let merged: BTreeSet<&ClusterId> = merged.collect();
        let packets = number(zones.len() + merged.len());
        zones.retain(|_, (regions, _)| *regions > 1);
        if zones.is_empty() {
            return None;
        }
        let groups = self.companions(group, parts, budget)?;
        let rate = |group: &GroupId| (knowledge.told)(*group).unwrap_or(knowledge.prior);
        let (mut saved, mut spent) = (0, 0);
        for (regions, nodes) in zones.values() {
            let rates = groups.iter().map(rate);
            let saving = CommonSaving::new(rates, *regions, *nodes);
            saved += saving.saved;
            spent += saving.spent;
        }
        Some(GroupWay::Common {
            packets,
            cost_ns: knowledge.costs.channel(1, 1) * u64::from(packets),
            groups: number(groups.len()),
            saved,
            spent,
        })
    }

    /// Groups that are in the same common region as this one, or in the same regions.
    fn companions(
        &self,
        group: &Group,
        parts: &[Part<'_>],
        budget: &mut Budget,
    ) -> Option<Vec<GroupId>> {
        let common = parts.iter().find(|part| part.kind == RegionKind::Common);
        if let Some(common) = common {
            budget.take(common.region.groups.len())?;
            return Some(common.region.groups.to_vec());
        }
        let smallest = parts.iter().min_by_key(|part| part.region.groups.len())?;
        budget.take(smallest.region.groups.len())?;
        let mut same = Vec::new();
        for other in smallest.region.groups.iter() {
            let Some(entry) = self.groups.get(*other) else {
                continue;
            };
            if entry.regions.len() == group.regions.len() && entry.channel.is_none() {
                budget.take(entry.regions.len())?;
                if entry.regions == group.regions {
                    same.push(*other);
                }
            }
        }
        Some(same)
    }

    /// One region in each zone for all receivers that hints let join, with all that several nodes
    /// receive.
    fn merged_way(
        &self,
        classes: &[Class<'_>],
        costs: Costs,
        budget: &mut Budget,
    ) -> Option<GroupWay> {
        let (bound, free): (Vec<&Class<'_>>, Vec<&Class<'_>>) =
            classes.iter().partition(|class| class.is_bound());
        let mut zones: BTreeMap<Zone, Vec<&Class<'_>>> = BTreeMap::new();
        for class in &free {
            zones.entry(class.zone).or_default().push(class);
        }
        if zones.len() == free.len() {
            return None;
        }
        let mut sum = Deliveries::default();
        for classes in zones.values() {
            let mut union: BTreeSet<GroupId> = BTreeSet::new();
            let mut nodes = 0;
            for class in classes {
                let groups = &class.one.aim.set.groups;
                // A tree costs more than a list.
                budget.take(4 * groups.len())?;
                let shared = groups.iter().copied();
                let shared = shared.filter(|group| {
                    self.receivers(*group) > 1 && self.channel_of(*group).is_none()
                });
                let before: Vec<GroupId> = shared.collect();
                sum.wanted += class.nodes * before.len() as u64;
                nodes += class.nodes;
                union.extend(before);
            }
            sum.all += nodes * union.len() as u64;
        }
        let packets = number(zones.len() + bound.len());
        Some(GroupWay::Merged {
            packets,
            cost_ns: costs.channel(1, 1) * u64::from(packets),
            unwanted_ppm: sum.unwanted_ppm(),
        })
    }
}

impl Part<'_> {
    /// CPU time of a message to the group here.
    fn cost_ns(&self, costs: Costs) -> u64 {
        match self.region.private {
            true => costs.copies(1),
            false => costs.channel(self.region.active as u64, self.receivers.into()),
        }
    }

    /// Tells whether a plan could merge it with another one.
    fn may_merge(&self) -> bool {
        matches!(self.kind, RegionKind::Exact | RegionKind::Merged)
            && self.region.zone.tenant.channel.is_none()
            && self.region.active > 0
    }
}

/// Groups that both lists have; both ascend.
fn common(one: &[GroupId], two: &[GroupId]) -> usize {
    let (mut at, mut to, mut count) = (0, 0, 0);
    while let (Some(group), Some(other)) = (one.get(at), two.get(to)) {
        count += usize::from(group == other);
        at += usize::from(group <= other);
        to += usize::from(other <= group);
    }
    count
}

/// A name within the limit of an account.
fn cut(name: &str) -> String {
    let mut end = name.len().min(GroupDecision::NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}
