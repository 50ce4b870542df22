//! Who is told that members of a merged region do not receive all of its groups (R-VIEW-16): each
//! member of itself, and those who publish there of all, as far as their own groups are concerned.

use std::collections::{BTreeMap, BTreeSet};

use qsm_wire::membership::{GroupStart, MemberFilter, Update};
use qsm_wire::{GroupId, NodeId, RegionId};

use super::audience::intersection;
use super::draft::Draft;
use super::{Node, Registry};
use crate::plan::{MemberStay, Region, Signature};

impl Registry {
    /// Adds to the signature of a list what else the node is told with it: which of the groups it
    /// publishes to.
    pub(super) fn share_signature(&self, id: RegionId, node: NodeId) -> Signature {
        let region = self.regions.get(id).filter(|region| region.merged);
        let Some((region, node)) = region.zip(self.nodes.get(&node)) else {
            return 0;
        };
        self.key.set(intersection(node, region)).rotate_left(1)
    }

    /// Tells of shares that have changed, and of all to those who are told of a region anew.
    pub(super) fn tell_filters(&self, draft: &mut Draft) {
        let mut changed: BTreeMap<RegionId, BTreeSet<NodeId>> = BTreeMap::new();
        for (region, member) in core::mem::take(&mut draft.shares) {
            changed.entry(region).or_default().insert(member);
        }
        let retold = core::mem::take(&mut draft.retold);
        for (id, told) in &retold {
            if let Some((region, told)) = self.regions.get(*id).zip(self.nodes.get(told)) {
                self.tell_shares(*id, region, told, None, draft);
            }
        }
        for (id, members) in changed {
            let Some(region) = self.regions.get(id) else {
                continue;
            };
            let audience = region.audience.keys();
            let audience = audience.filter(|told| !retold.contains(&(id, **told)));
            for told in audience.filter_map(|told| self.nodes.get(told)) {
                self.tell_shares(id, region, told, Some(&members), draft);
            }
        }
    }

    /// Tells one node of the shares of these members, or of all.
    fn tell_shares(
        &self,
        id: RegionId,
        region: &Region,
        told: &Node,
        members: Option<&BTreeSet<NodeId>>,
        draft: &mut Draft,
    ) {
        let published = intersection(told, region);
        let concerned = |node: NodeId| node == told.origin.node || !published.is_empty();
        let stays = region.stays.iter();
        let stays = stays.filter(|(node, _)| members.is_none_or(|some| some.contains(node)));
        let filters = stays.filter(|(node, _)| concerned(**node));
        let filters = filters.filter_map(|(node, stay)| {
            let member = self.nodes.get(node)?;
            let filter = filter(member, stay, &published, told);
            let says_all = filter.unwanted.is_empty() && filter.since.is_empty();
            (members.is_some() || !says_all).then_some(filter)
        });
        let members_told: Vec<MemberFilter> = filters.collect();
        let whole = members.is_none();
        // A whole word says that the region is merged, whatever it names.
        if whole || !members_told.is_empty() {
            draft
                .updates_of(told.origin.node)
                .filters
                .push(Update::Filters {
                    region: id,
                    whole,
                    members: members_told,
                });
        }
    }
}

/// What a node that publishes to these groups has to know of a member's share.
fn filter(member: &Node, stay: &MemberStay, published: &[GroupId], told: &Node) -> MemberFilter {
    let lacks = |group: &&GroupId| stay.groups.binary_search(group).is_err();
    let own = member.origin == told.origin;
    let since = stay.since.iter();
    let since = since.filter(|(group, _)| own || published.binary_search(group).is_ok());
    MemberFilter {
        origin: member.origin,
        unwanted: published.iter().filter(lacks).copied().collect(),
        since: since
            .map(|(group, view)| GroupStart {
                group: *group,
                view: *view,
            })
            .collect(),
    }
}
