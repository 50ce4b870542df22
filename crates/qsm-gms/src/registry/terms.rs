//! Terms of a region, which hints give to groups by name: who is told of a region is told which of its
//! groups have messages with a lifetime (R-DATA-14), below which rate no sender is held (R-RATE-10), and which proof of
//! origin is demanded (R-SEC-34).

use std::collections::BTreeSet;
use std::sync::Arc;

use qsm_wire::membership::{GroupLifetime, OriginDemand, Role, Signer, Update};
use qsm_wire::{GroupId, NodeId, RegionId};

use super::Registry;
use super::audience::intersection;
use super::draft::Draft;
use super::proven::Proven;
use crate::plan::{Region, Signature};
use crate::service::Rights;

/// Groups of a region that are barred to its publishers, those of each counted, in one update of 8 MiB at most; whose do
/// not fit is no signer.
const BARRED_MAX: usize = 1 << 18;

impl Registry {
    /// Groups of a region whose messages have a lifetime.
    fn lifetimes_of(&self, id: RegionId) -> Vec<GroupLifetime> {
        let region = self.regions.get(id).filter(|_| self.hints.has_lifetimes());
        let groups = region.into_iter().flat_map(|region| region.groups.iter());
        let lifetimes = groups.map(|group| GroupLifetime {
            group: *group,
            ms: self.groups.get(*group).map_or(0, |known| known.lifetime_ms),
        });
        lifetimes.filter(|one| one.ms > 0).collect()
    }

    /// The strictest proof that one of a region's groups demands.
    fn demand_of(&self, id: RegionId) -> Option<OriginDemand> {
        let region = self.regions.get(id).filter(|_| self.hints.has_origins());
        let groups = region.into_iter().flat_map(|region| region.groups.iter());
        let demands = groups.map(|group| self.groups.get(*group).and_then(|known| known.origin));
        demands.max().flatten()
    }

    /// Signature of the terms of a region; 0: nothing is told of them.
    pub(super) fn terms_signature(&self, id: RegionId) -> Signature {
        let groups = self.lifetimes_of(id).into_iter();
        let lifetimes = self.key.set(groups.map(|one| one.group)).rotate_left(2);
        let minimum = Some(self.minimum_of(id)).filter(|rate| *rate > 0);
        let minimum = minimum.into_iter().map(GroupId);
        let demand = self.demand_of(id).map(|demand| match demand {
            OriginDemand::Audit => GroupId(1),
            OriginDemand::Verified => GroupId(2),
        });
        let demand = self.key.set(demand).rotate_left(4);
        lifetimes ^ self.key.set(minimum).rotate_left(3) ^ demand
    }

    /// Tells of terms whom is told of regions anew.
    pub(super) fn tell_terms(&self, draft: &mut Draft) {
        for (region, told) in core::mem::take(&mut draft.on_terms) {
            let groups = Some(self.lifetimes_of(region)).filter(|groups| !groups.is_empty());
            let lifetimes = groups.map(|groups| Update::Lifetimes { region, groups });
            let rate = Some(self.minimum_of(region)).filter(|rate| *rate > 0);
            let minimum = rate.map(|packets_per_second| Update::MinimumRate {
                region,
                packets_per_second,
            });
            let demand = self.demand_of(region);
            let proof = demand.map(|demand| Update::Proof { region, demand });
            let terms = lifetimes.into_iter().chain(minimum).chain(proof);
            let terms: Vec<Update> = terms.collect();
            for node in told {
                let updates = draft.updates_of(node);
                updates.terms.extend(terms.iter().cloned());
            }
        }
    }

    /// Tells members of regions that demand proof who publishes there, by which key, and to which groups not, with the batch
    /// that lets it. Rule
    /// R-SEC-34.
    pub(super) fn tell_signers(&mut self, concerned: &BTreeSet<RegionId>, draft: &mut Draft) {
        if !self.hints.has_origins() {
            return;
        }
        for id in concerned.iter().copied() {
            let demands = self.demand_of(id).is_some();
            let signers = if demands {
                self.signers_of(id)
            } else {
                Vec::new()
            };
            let Some(region) = self.regions.get_mut(id) else {
                continue;
            };
            if region.signers.1 != signers {
                region.signers = (region.signers.0 + 1, signers);
            }
            let (state, signers) = &region.signers;
            let members = region.members.iter().map(|member| member.origin.node);
            let members: BTreeSet<NodeId> = members.collect();
            let audience = region.audience.iter_mut();
            for (node, known) in audience.filter(|(node, _)| members.contains(node)) {
                let told = core::mem::replace(&mut known.signers, *state) == *state;
                if !told && demands {
                    draft.updates_of(*node).signers.push(Update::Signers {
                        region: id,
                        signers: signers.clone(),
                    });
                }
            }
        }
    }

    /// A node has proven that it has this key, and may do what these rights say.
    pub(crate) fn note_key(&mut self, node: NodeId, key: String, rights: Option<Arc<dyn Rights>>) {
        self.keys.insert(node, Proven { key, rights });
    }

    /// Forgets the key of a node that is not in any more.
    pub(crate) fn forget_key(&mut self, node: NodeId) {
        self.keys.remove(&node);
    }

    /// Publishers of a region, of those whose keys are known.
    fn signers_of(&self, id: RegionId) -> Vec<Signer> {
        let Some(region) = self.regions.get(id) else {
            return Vec::new();
        };
        let nodes = region.audience.keys();
        let nodes = nodes.filter_map(|node| self.nodes.get(node));
        let publish = nodes.filter(|node| !intersection(node, region).is_empty());
        let mut room = BARRED_MAX;
        let signers = publish.filter_map(|node| {
            let proven = self.keys.get(&node.origin.node)?;
            let barred = self.barred_of(proven, region);
            room = room.checked_sub(barred.len())?;
            Some(Signer {
                origin: node.origin,
                key: proven.key.clone(),
                barred,
            })
        });
        signers.collect()
    }

    /// Groups of a region to which a node may not publish. They follow from its rights, which stay as they are, and not
    /// from where it publishes: so nobody refuses what was just allowed.
    fn barred_of(&self, proven: &Proven, region: &Region) -> Vec<GroupId> {
        let Some(rights) = &proven.rights else {
            return Vec::new();
        };
        let may = |group: &&GroupId| {
            let known = self.groups.get(**group);
            known.is_none_or(|known| rights.permits(Role::Publisher, &known.name))
        };
        let barred = region.groups.iter().filter(|group| !may(group));
        barred.copied().collect()
    }
}
