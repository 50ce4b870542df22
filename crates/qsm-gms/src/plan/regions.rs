use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_proto::Instant;
use qsm_wire::membership::{Member, Sender};
use qsm_wire::{ChannelId, GroupId, NodeId, RegionId, ViewNumber};

use super::{AddressPlan, Signature};

/// What a node has been told of a region.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Knowledge {
    /// The view; 0: none.
    pub(crate) view: ViewNumber,
    /// The signature of the list of groups; `None`: nothing.
    pub(crate) list: Option<Signature>,
    /// The state of [`Region::sources`]; 0: none.
    pub(crate) sources: u64,
}

/// Nodes with exactly the same groups (R015, R-VIEW-4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) view: ViewNumber,
    /// It was taken over from a former service, which may have made views that nobody who is left
    /// has heard of: their numbers are passed over.
    pub(crate) inherited: bool,
    /// The newest view in which no member was live; 0: there was none.
    pub(crate) deserted: ViewNumber,
    pub(crate) channel: ChannelId,
    pub(crate) address: SocketAddr,
    /// The groups, ascending; shared with the nodes that have them.
    pub(crate) groups: Arc<[GroupId]>,
    pub(crate) signature: Signature,
    /// In the order that all nodes know; indexes are positions.
    pub(crate) members: Vec<Member>,
    /// Members that are not leaving.
    pub(crate) active: usize,
    /// Who is told of this region: members, and nodes that publish to one of its groups.
    pub(crate) audience: BTreeMap<NodeId, Knowledge>,
    /// Who may send to it and is no member, if its address is source-specific, and how often that
    /// has changed.
    pub(crate) sources: (u64, Vec<Sender>),
}

/// Numbers of views that are passed over when a service takes a region over: more than the former
/// one can have told a single node.
const VIEWS_UNHEARD: u32 = 1 << 12;

impl Region {
    /// The number of its next view.
    pub(crate) fn next_view(&self) -> ViewNumber {
        let step = if self.inherited { VIEWS_UNHEARD } else { 1 };
        ViewNumber(self.view.0.saturating_add(step))
    }

    /// Notes that no member is live in the present view, if that is so.
    pub(crate) fn note_deserted(&mut self) {
        if self.members.iter().all(Member::is_away) {
            self.deserted = self.view;
        }
    }

    /// Whether a member of that view had nobody to catch up with, and would have now.
    pub(crate) fn is_repopulated_since(&self, view: ViewNumber) -> bool {
        view <= self.deserted && !self.members.iter().all(Member::is_away)
    }
}

/// The regions, found by number or by their exact set of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegionTable {
    regions: BTreeMap<RegionId, Region>,
    /// Regions with equal signatures are told apart by their sets. A region without active
    /// members whose groups are not known is not in here.
    by_signature: BTreeMap<Signature, Vec<RegionId>>,
    pub(crate) plan: AddressPlan,
    id_last: u32,
    channel_last: u32,
}

impl RegionTable {
    pub(crate) fn new(plan: AddressPlan) -> Self {
        Self {
            regions: BTreeMap::new(),
            by_signature: BTreeMap::new(),
            plan,
            id_last: 0,
            channel_last: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.regions.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RegionId, &Region)> {
        self.regions.iter().map(|(id, region)| (*id, region))
    }

    pub(crate) fn get(&self, id: RegionId) -> Option<&Region> {
        self.regions.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: RegionId) -> Option<&mut Region> {
        self.regions.get_mut(&id)
    }

    /// The region of exactly these groups.
    pub(crate) fn find(&self, signature: Signature, groups: &[GroupId]) -> Option<RegionId> {
        let same = |id: &&RegionId| {
            self.regions
                .get(id)
                .is_some_and(|region| *region.groups == *groups)
        };
        self.by_signature
            .get(&signature)?
            .iter()
            .find(same)
            .copied()
    }

    /// A new region, its number never used before; and whether it shares its address.
    pub(crate) fn create(
        &mut self,
        now: Instant,
        signature: Signature,
        groups: Arc<[GroupId]>,
    ) -> (RegionId, bool) {
        self.id_last += 1;
        self.channel_last += 1;
        let id = RegionId(self.id_last);
        let (address, shared) = self.plan.take(now);
        let region = Region {
            view: ViewNumber(0),
            inherited: false,
            deserted: ViewNumber(0),
            channel: ChannelId(self.channel_last),
            address,
            groups,
            signature,
            members: Vec::new(),
            active: 0,
            audience: BTreeMap::new(),
            sources: (0, Vec::new()),
        };
        self.regions.insert(id, region);
        self.by_signature.entry(signature).or_default().push(id);
        (id, shared)
    }

    /// Takes up a region of a former service. A region with groups becomes findable unless
    /// another one has the same.
    pub(crate) fn adopt(&mut self, now: Instant, id: RegionId, mut region: Region) {
        self.id_last = self.id_last.max(id.0);
        self.channel_last = self.channel_last.max(region.channel.0);
        if !self.plan.adopt(region.address) {
            region.address = self.plan.take(now).0;
        }
        if !region.groups.is_empty() && self.find(region.signature, &region.groups).is_none() {
            self.by_signature
                .entry(region.signature)
                .or_default()
                .push(id);
        }
        self.regions.insert(id, region);
    }

    /// Numbers up to here are used.
    pub(crate) fn reserve(&mut self, id: RegionId, channel: ChannelId) {
        self.id_last = self.id_last.max(id.0);
        self.channel_last = self.channel_last.max(channel.0);
    }

    /// Replaces a region's groups; number, channel and address stay (R044, R-VIEW-8). Returns the
    /// former.
    pub(crate) fn regroup(
        &mut self,
        id: RegionId,
        signature: Signature,
        groups: Arc<[GroupId]>,
    ) -> Arc<[GroupId]> {
        self.forget_signature(id);
        self.by_signature.entry(signature).or_default().push(id);
        match self.regions.get_mut(&id) {
            Some(region) => {
                region.signature = signature;
                core::mem::replace(&mut region.groups, groups)
            }
            None => groups,
        }
    }

    pub(crate) fn remove(&mut self, now: Instant, id: RegionId) -> Option<Region> {
        self.forget_signature(id);
        let region = self.regions.remove(&id)?;
        self.plan.give_back(now, region.address);
        Some(region)
    }

    fn forget_signature(&mut self, id: RegionId) {
        let Some(region) = self.regions.get(&id) else {
            return;
        };
        if let Some(same) = self.by_signature.get_mut(&region.signature) {
            same.retain(|other| *other != id);
            if same.is_empty() {
                self.by_signature.remove(&region.signature);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlanConfig;

    #[test]
    fn two_sets_with_one_signature_stay_two_regions() {
        let mut table = RegionTable::new(AddressPlan::new(PlanConfig::default(), 0, &[]));
        let one: Arc<[GroupId]> = [GroupId(1)].into();
        let two: Arc<[GroupId]> = [GroupId(2)].into();
        let (first, _) = table.create(Instant(0), 77, Arc::clone(&one));
        assert_eq!(table.find(77, &two), None);
        let (second, _) = table.create(Instant(0), 77, Arc::clone(&two));
        assert_eq!(table.find(77, &one), Some(first));
        assert_eq!(table.find(77, &two), Some(second));
        table.remove(Instant(0), first);
        assert_eq!(table.find(77, &one), None);
        assert_eq!(table.find(77, &two), Some(second));
    }
}
