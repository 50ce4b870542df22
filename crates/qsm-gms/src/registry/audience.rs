use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use qsm_proto::{Instant, is_source_specific};
use qsm_wire::membership::{Sender, Update, ViewStep};
use qsm_wire::{GroupId, NodeId, Origin, RegionId, ViewNumber};

use super::departure::{Departure, DepartureEvent};
use super::draft::Draft;
use super::{Node, Registry};
use crate::plan::{Knowledge, Region, Signature, SignatureKey};

/// What a node has to know of a region's groups.
enum Need {
    /// Nothing of the region at all.
    Nothing,
    /// What it was told last.
    Same,
    /// This list.
    List(Vec<GroupId>),
}

impl Registry {
    /// Tells everybody concerned, and nobody else, what changed (R039): differences to those who
    /// know the view before, whole views to the others. Returns the regions concerned.
    pub(super) fn inform(
        &mut self,
        now: Instant,
        draft: &mut Draft,
        views: &BTreeMap<RegionId, ViewStep>,
    ) -> BTreeSet<RegionId> {
        let checks = core::mem::take(&mut draft.checks);
        for (region, node) in &checks {
            self.check(now, *region, *node, draft);
        }
        let mut told: BTreeSet<(RegionId, NodeId)> = checks;
        for id in views.keys() {
            let audience = self.regions.get(*id).map(|region| region.audience.keys());
            told.extend(audience.into_iter().flatten().map(|node| (*id, *node)));
        }
        let concerned = told.iter().map(|(id, _)| *id).collect();
        for (id, node) in told {
            let Some(region) = self.regions.get_mut(id) else {
                continue;
            };
            let (current, step) = (region.view, views.get(&id));
            let Some(known) = region.audience.get_mut(&node).map(|k| &mut k.view) else {
                continue;
            };
            if *known == current {
                continue;
            }
            let former = core::mem::replace(known, current);
            let view = match step {
                Some(step) if is_base(step, former) => step.clone(),
                _ => whole_view(id, region),
            };
            draft.updates_of(node).views.push(Update::View(view));
        }
        concerned
    }

    /// Tells members of regions with source-specific addresses who else may send there, with the
    /// batch that lets it. Rule R-MEM-13.
    pub(super) fn tell_sources(&mut self, concerned: &BTreeSet<RegionId>, draft: &mut Draft) {
        for id in concerned.iter().copied() {
            let Some(region) = self.regions.get_mut(id) else {
                continue;
            };
            if !is_source_specific(region.address.ip()) {
                continue;
            }
            let members = region.members.iter().map(|member| member.origin.node);
            let members: BTreeSet<NodeId> = members.collect();
            let others = region
                .audience
                .keys()
                .filter(|node| !members.contains(node));
            let others = others.filter_map(|node| self.nodes.get(node));
            let senders: Vec<Sender> = others.map(Node::as_sender).collect();
            if region.sources.1 != senders {
                region.sources = (region.sources.0 + 1, senders);
            }
            let (state, senders) = &region.sources;
            let audience = region.audience.iter_mut();
            for (node, known) in audience.filter(|(node, _)| members.contains(node)) {
                if core::mem::replace(&mut known.sources, *state) != *state {
                    draft.updates_of(*node).sources.push(Update::Sources {
                        region: id,
                        senders: senders.clone(),
                    });
                }
            }
        }
    }

    /// Where those whom these updates name are on a second network, to be told before them; only
    /// a node that is on two itself can do something with it. Rule R-MEM-12.
    pub(super) fn seconds_for(&self, node: NodeId, updates: &[Update]) -> Vec<Update> {
        if self
            .nodes
            .get(&node)
            .is_none_or(|node| node.second.is_none())
        {
            return Vec::new();
        }
        let members = updates.iter().flat_map(|update| match update {
            Update::View(step) => &step.added[..],
            _ => &[],
        });
        let senders = updates.iter().flat_map(|update| match update {
            Update::Settled { senders, .. } | Update::Sources { senders, .. } => &senders[..],
            _ => &[],
        });
        let members = members.map(|member| (member.origin, member.address));
        let senders = senders.map(|sender| (sender.origin, sender.address));
        let named: BTreeMap<Origin, SocketAddr> = members.chain(senders).collect();
        let second = |(origin, address): (Origin, SocketAddr)| {
            let node = self.nodes.get(&origin.node)?;
            let second = node.second.filter(|_| node.origin == origin)?;
            Some(Update::Second { address, second })
        };
        named.into_iter().filter_map(second).collect()
    }

    /// Brings one node's knowledge of one region's groups up to date.
    fn check(&mut self, now: Instant, id: RegionId, node_id: NodeId, draft: &mut Draft) {
        let published = self.share_signature(id, node_id);
        let terms = draft.signatures.entry(id);
        let terms = *terms.or_insert_with(|| self.terms_signature(id));
        let (Some(region), Some(node)) = (self.regions.get_mut(id), self.nodes.get_mut(&node_id))
        else {
            return;
        };
        let known = region.audience.get(&node_id).copied().unwrap_or_default();
        let groups = match need(id, node, region, known, terms) {
            Need::Same => return,
            Need::Nothing if !region.audience.contains_key(&node_id) => return,
            Need::Nothing if !node.published || node.has_parted(id) => {
                region.audience.remove(&node_id);
                node.concerned.remove(&id);
                node.depart(id, DepartureEvent::Close);
                let closed = Update::Closed { region: id };
                draft.updates_of(node_id).closed.push(closed);
                return;
            }
            Need::Nothing => {
                // It may have sent something there that is still on its way.
                let deadline = now.after(self.drain_max);
                let departure = Departure::part(region.view, deadline);
                node.departures.entry(id).or_insert(departure);
                self.deadlines.insert((deadline, id, node_id));
                Vec::new()
            }
            Need::List(groups) => {
                node.return_to(id);
                groups
            }
        };
        let list = list_signature(&self.key, region, &groups);
        let list = Some(list ^ published ^ terms);
        if known.list == list {
            return;
        }
        region.audience.insert(node_id, Knowledge { list, ..known });
        node.concerned.insert(id);
        node.streams.insert(id);
        if node.streams.len() > 2 * node.concerned.len() + 64 {
            let regions = &self.regions;
            node.streams.retain(|id| regions.get(*id).is_some());
        }
        let Some(region) = self.regions.get(id) else {
            return;
        };
        if region.merged {
            draft.retold.insert((id, node_id));
        }
        if terms != 0 {
            draft.on_terms.entry(id).or_default().insert(node_id);
        }
        draft.updates_of(node_id).regions.push(Update::Region {
            region: id,
            channel: region.channel,
            address: region.address,
            groups,
        });
    }
}

/// Finds what a node that knows this, and the terms of that signature, has to know.
fn need(id: RegionId, node: &Node, region: &Region, known: Knowledge, terms: Signature) -> Need {
    let whole = Some(region.signature ^ terms);
    if let Some(stay) = region.stays.get(&node.origin.node) {
        let own = stay.groups.iter().copied();
        let all: BTreeSet<GroupId> = own.chain(intersection(node, region)).collect();
        return Need::List(all.into_iter().collect());
    }
    if node.is_at_home(id) {
        return if known.list == whole {
            Need::Same
        } else {
            Need::List(region.groups.to_vec())
        };
    }
    let leaving = node.is_leaving(id);
    // A leaving member still needs its groups for what was sent before it left.
    if leaving && known.list == whole {
        return Need::Same;
    }
    let interest = intersection(node, region);
    if !interest.is_empty() {
        return Need::List(interest);
    }
    match (leaving, known.list) {
        (false, _) => Need::Nothing,
        (true, Some(_)) => Need::Same,
        (true, None) => Need::List(Vec::new()),
    }
}

/// The groups of a region that a node publishes to, at the cost of the smaller set.
pub(super) fn intersection(node: &Node, region: &Region) -> Vec<GroupId> {
    if node.publishes.len() < region.groups.len() {
        let in_region = |group: &&GroupId| region.groups.binary_search(group).is_ok();
        node.publishes.iter().filter(in_region).copied().collect()
    } else {
        let published = |group: &&GroupId| node.publishes.contains(group);
        region.groups.iter().filter(published).copied().collect()
    }
}

fn list_signature(key: &SignatureKey, region: &Region, groups: &[GroupId]) -> u128 {
    if groups.len() == region.groups.len() {
        region.signature
    } else {
        key.set(groups.iter().copied())
    }
}

fn is_base(step: &ViewStep, view: ViewNumber) -> bool {
    step.base == view && view != ViewNumber(0)
}

fn whole_view(id: RegionId, region: &Region) -> ViewStep {
    ViewStep {
        region: id,
        view: region.view,
        base: ViewNumber(0),
        removed: Vec::new(),
        leaving: Vec::new(),
        changed: Vec::new(),
        added: region.members.clone(),
    }
}
