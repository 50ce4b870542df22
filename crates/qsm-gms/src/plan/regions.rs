use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_proto::Instant;
use qsm_wire::membership::{Member, Sender, Signer};
use qsm_wire::{ChannelId, GroupId, NodeId, RegionId, ViewNumber};

use super::zone::Zone;
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
    /// The state of [`Region::signers`]; 0: none.
    pub(crate) signers: u64,
}

/// Groups that a member of a merged region receives there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MemberStay {
    /// Which; ascending.
    pub(crate) groups: Arc<[GroupId]>,
    /// Those that it has not received since it came, and the first view in which it does.
    pub(crate) since: BTreeMap<GroupId, ViewNumber>,
    /// A former service gave it its share, and only others have said what that is so far.
    pub(crate) assumed: bool,
}

/// Nodes with exactly the same groups (R015, R-VIEW-4), but for those that they have in private or
/// common regions (R-VIEW-17); or one node with such groups (R-VIEW-15); or nodes with similar groups (R-VIEW-16).
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Region {
    pub(crate) view: ViewNumber,
    /// It was taken over from a former service, or another one has made views of it, of which
    /// there may be some that nobody who is left has heard of: their numbers are passed over.
    pub(crate) inherited: bool,
    /// None of its active members has reported: of its groups those are known that others publish
    /// to, and nobody else is put there.
    pub(crate) provisional: bool,
    /// The highest number of a view of another service that a node has reported.
    pub(crate) heard: ViewNumber,
    /// The newest view in which no member was live; 0: there was none.
    pub(crate) deserted: ViewNumber,
    /// One node has it for groups that no other has: its address is that node's.
    pub(crate) private: bool,
    /// Its members have different groups.
    pub(crate) merged: bool,
    /// Others send to its address: everybody leaves it, and nobody is put there any more (R-MEM-20).
    pub(crate) given_up: bool,
    /// The zone of its members and groups.
    pub(crate) zone: Zone,
    pub(crate) channel: ChannelId,
    pub(crate) address: SocketAddr,
    /// The groups, ascending; shared with the nodes that have them.
    pub(crate) groups: Arc<[GroupId]>,
    pub(crate) signature: Signature,
    /// In the order that all nodes know; indexes are positions.
    pub(crate) members: Vec<Member>,
    /// What each member of a merged region receives, or has received until it left.
    pub(crate) stays: BTreeMap<NodeId, MemberStay>,
    /// Members that are not leaving.
    pub(crate) active: usize,
    /// Who is told of this region: members, and nodes that publish to one of its groups.
    pub(crate) audience: BTreeMap<NodeId, Knowledge>,
    /// Who may send to it and is no member, if its address is source-specific, and how often that
    /// has changed.
    pub(crate) sources: (u64, Vec<Sender>),
    /// Where proof of origin is demanded: who publishes, and how often that has changed.
    pub(crate) signers: (u64, Vec<Signer>),
}

/// Numbers of views that are passed over when a service takes a region over: more than the former
/// one can have told a single node.
const VIEWS_UNHEARD: u32 = 1 << 12;

impl Region {
    /// The number of its next view.
    pub(crate) fn next_view(&self) -> ViewNumber {
        let step = if self.inherited { VIEWS_UNHEARD } else { 1 };
        ViewNumber(self.view.max(self.heard).0.saturating_add(step))
    }

    /// A node has a view of another service. `true`: only the next view is newer than that.
    pub(crate) fn hear(&mut self, view: ViewNumber) -> bool {
        let newer = view >= self.view;
        if newer {
            self.heard = self.heard.max(view);
            self.inherited = true;
        }
        newer
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
    /// Regions with equal signatures are told apart by their sets. Neither a region without active
    /// members whose groups are not known is in here, nor a private or a merged one.
    by_signature: BTreeMap<Signature, Vec<RegionId>>,
    pub(crate) plan: AddressPlan,
    id_last: u32,
    channel_last: u32,
    own: GivenNumbers,
    /// Numbers of regions that were taken over, since when they are not again.
    adopted: BTreeSet<RegionId>,
}

/// Numbers of regions that this service has given, as ranges. If there are too many, the oldest two
/// become one, with the numbers between them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct GivenNumbers {
    /// First and last number of each range, ascending.
    ranges: Vec<(u32, u32)>,
}

/// Regions taken over beyond which none is that a node reports late.
const ADOPTED_MAX: usize = 1 << 16;
/// Ranges of numbers kept. Another one begins only when a node has reported a higher number.
const RANGES_MAX: usize = 1024;

impl GivenNumbers {
    fn insert(&mut self, id: u32) {
        match self.ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(id) => *last = id,
            _ => self.ranges.push((id, id)),
        }
        if self.ranges.len() > RANGES_MAX {
            let (first, _) = self.ranges.remove(0);
            self.ranges[0].0 = first;
        }
    }

    fn contains(&self, id: u32) -> bool {
        let at = self.ranges.partition_point(|(_, last)| *last < id);
        self.ranges.get(at).is_some_and(|(first, _)| *first <= id)
    }
}

impl RegionTable {
    pub(crate) fn new(plan: AddressPlan) -> Self {
        Self {
            own: GivenNumbers::default(),
            adopted: BTreeSet::new(),
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

    /// The region of exactly these groups in a zone.
    pub(crate) fn find(
        &self,
        zone: Zone,
        signature: Signature,
        groups: &[GroupId],
    ) -> Option<RegionId> {
        self.find_where(zone, signature, groups, |_| true)
    }

    /// Tells whether two regions, neither of them merged, have a group in common.
    pub(crate) fn overlap(&self, one: RegionId, other: RegionId) -> bool {
        let exact = |id| self.get(id).filter(|region| !region.merged);
        let (Some(one), Some(other)) = (exact(one), exact(other)) else {
            return false;
        };
        let mut groups = one.groups.iter();
        groups.any(|group| other.groups.binary_search(group).is_ok())
    }

    /// A region of exactly these groups, of which this is so. There may be several where nodes of a
    /// former service report them, or cannot be in the first one.
    pub(crate) fn find_where(
        &self,
        zone: Zone,
        signature: Signature,
        groups: &[GroupId],
        fits: impl Fn(RegionId) -> bool,
    ) -> Option<RegionId> {
        let same = |id: &&RegionId| {
            self.regions
                .get(id)
                .is_some_and(|region| region.zone == zone && *region.groups == *groups)
        };
        let mut all = self.by_signature.get(&signature)?.iter().filter(same);
        all.find(|id| fits(**id)).copied()
    }

    /// A new region, its number never used before; and whether it shares its address. A private one
    /// has that of its owner.
    pub(crate) fn create(
        &mut self,
        now: Instant,
        zone: Zone,
        signature: Signature,
        groups: Arc<[GroupId]>,
        owner: Option<SocketAddr>,
    ) -> (RegionId, bool) {
        self.id_last += 1;
        self.channel_last += 1;
        self.own.insert(self.id_last);
        let id = RegionId(self.id_last);
        let (address, shared) = match owner {
            Some(owner) => (owner, false),
            None => self.plan.take(now, zone.tenant),
        };
        let region = Region {
            view: ViewNumber(0),
            inherited: false,
            provisional: false,
            heard: ViewNumber(0),
            deserted: ViewNumber(0),
            private: owner.is_some(),
            merged: false,
            given_up: false,
            zone,
            channel: ChannelId(self.channel_last),
            address,
            groups,
            signature,
            members: Vec::new(),
            stays: BTreeMap::new(),
            active: 0,
            audience: BTreeMap::new(),
            sources: (0, Vec::new()),
            signers: (0, Vec::new()),
        };
        self.regions.insert(id, region);
        self.make_findable(id);
        (id, shared)
    }

    /// Takes up a region of a former service. A region whose groups are known becomes findable
    /// unless another one has the same.
    pub(crate) fn adopt(&mut self, now: Instant, id: RegionId, mut region: Region) {
        self.id_last = self.id_last.max(id.0);
        self.channel_last = self.channel_last.max(region.channel.0);
        self.adopted.insert(id);
        let tenant = region.zone.tenant;
        if !region.private && !self.plan.adopt(region.address, tenant) {
            region.address = self.plan.take(now, tenant).0;
        }
        let complete = !region.provisional && !region.groups.is_empty();
        let found = self.find(region.zone, region.signature, &region.groups);
        let first = complete && found.is_none();
        self.regions.insert(id, region);
        if first {
            self.make_findable(id);
        }
    }

    /// This service has made the region of this number, if there is or was one.
    pub(crate) fn is_own(&self, id: RegionId) -> bool {
        self.own.contains(id.0)
    }

    /// A region of this number, reported now, can only be one of a former service that this one
    /// has not heard of.
    pub(crate) fn may_adopt(&self, id: RegionId) -> bool {
        !self.is_own(id) && !self.adopted.contains(&id) && self.adopted.len() < ADOPTED_MAX
    }

    /// Numbers up to here are used.
    pub(crate) fn reserve(&mut self, id: RegionId, channel: ChannelId) {
        self.id_last = self.id_last.max(id.0);
        self.channel_last = self.channel_last.max(channel.0);
    }

    /// A region turns out to be of this zone, and gets another address if its own has another tenant.
    pub(crate) fn move_to(&mut self, now: Instant, id: RegionId, zone: Zone) {
        let Some(region) = self.regions.get_mut(&id) else {
            return;
        };
        region.zone = zone;
        if region.private || self.plan.pass_on(region.address, zone.tenant) {
            return;
        }
        self.plan.give_back(now, region.address);
        region.address = self.plan.take(now, zone.tenant).0;
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
        let Some(region) = self.regions.get_mut(&id) else {
            return groups;
        };
        region.signature = signature;
        region.provisional = false;
        let former = core::mem::replace(&mut region.groups, groups);
        self.make_findable(id);
        former
    }

    /// A region is for nodes whose groups differ: it is not found by its groups.
    pub(crate) fn make_merged(&mut self, id: RegionId) {
        self.forget_signature(id);
        if let Some(region) = self.regions.get_mut(&id) {
            region.merged = true;
        }
    }

    /// The region is found by its groups from now on, unless it is private, merged or given up.
    fn make_findable(&mut self, id: RegionId) {
        let region = self.regions.get(&id);
        let findable = |region: &&Region| !region.private && !region.merged && !region.given_up;
        if let Some(region) = region.filter(findable) {
            let same = self.by_signature.entry(region.signature).or_default();
            same.push(id);
        }
    }

    pub(crate) fn remove(&mut self, now: Instant, id: RegionId) -> Option<Region> {
        self.forget_signature(id);
        let region = self.regions.remove(&id)?;
        self.plan.give_back(now, region.address);
        Some(region)
    }

    /// Others send to the address of a region: it is not found any more, and its address avoided. `false`:
    /// there is no such region, or it is so already.
    pub(crate) fn give_up(&mut self, id: RegionId) -> bool {
        let region = self.regions.get_mut(&id);
        let Some(region) = region.filter(|region| !region.given_up) else {
            return false;
        };
        region.given_up = true;
        self.plan.avoid(region.address);
        self.forget_signature(id);
        true
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
    fn numbers_given_are_told_from_those_of_others() {
        let mut given = GivenNumbers::default();
        [4, 5, 6, 9].into_iter().for_each(|id| given.insert(id));
        let contained: Vec<u32> = (0..12).filter(|id| given.contains(*id)).collect();
        assert_eq!(contained, [4, 5, 6, 9]);
        (10..5000).step_by(2).for_each(|id| given.insert(id));
        assert_eq!(given.ranges.len(), RANGES_MAX);
        assert!(given.contains(4) && given.contains(4998) && !given.contains(4999));
        assert!(!given.contains(3));
    }

    #[test]
    fn two_sets_with_one_signature_stay_two_regions() {
        let mut table = RegionTable::new(AddressPlan::new(PlanConfig::default(), 0, &[]));
        let zone = Zone::default();
        let one: Arc<[GroupId]> = [GroupId(1)].into();
        let two: Arc<[GroupId]> = [GroupId(2)].into();
        let (first, _) = table.create(Instant(0), zone, 77, Arc::clone(&one), None);
        assert_eq!(table.find(zone, 77, &two), None);
        let (second, _) = table.create(Instant(0), zone, 77, Arc::clone(&two), None);
        assert_eq!(table.find(zone, 77, &one), Some(first));
        assert_eq!(table.find(zone, 77, &two), Some(second));
        table.remove(Instant(0), first);
        assert_eq!(table.find(zone, 77, &one), None);
        assert_eq!(table.find(zone, 77, &two), Some(second));
    }
}
