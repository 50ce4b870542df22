use qsm_wire::membership::{GroupRow, NodeRow, RegionKind, RegionRow};
use qsm_wire::{GroupId, NodeId, RegionId};

use super::Registry;
use crate::plan::{MemberStay, Region};

/// A number as it is told.
pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Registry {
    /// One line per node, by node id; none for one that has said goodbye or is dead, although the
    /// next batch has yet to tell the others.
    pub(crate) fn node_rows(&self) -> Vec<NodeRow> {
        let nodes = self.nodes.values().filter(|node| node.life.is_running());
        let rows = nodes.map(|node| NodeRow {
            origin: node.origin,
            name: node.name.clone(),
            address: node.address,
            region: node.home,
            subscriptions: number(node.groups.len()),
            publications: number(node.publishes.len()),
            away: node.away(),
            deaf: false,
            about: None,
            rates: None,
            grant: None,
            description: None,
        });
        rows.collect()
    }

    /// One line per group, by number.
    pub(crate) fn group_rows(&self) -> Vec<GroupRow> {
        let rows = self.groups.iter().map(|(id, group)| {
            let regions = group.regions.iter();
            let regions = regions.filter_map(|region| Some((*region, self.regions.get(*region)?)));
            let members = regions.map(|(region, entry)| self.receivers_in(id, region, entry));
            GroupRow {
                group: id,
                name: group.name.clone(),
                members: number(members.sum()),
                regions: number(group.regions.len()),
                publishers: number(group.publishers.len()),
            }
        });
        rows.collect()
    }

    /// Members of a region that receive a group there.
    pub(super) fn receivers_in(&self, group: GroupId, id: RegionId, region: &Region) -> usize {
        if !region.merged {
            return region.active;
        }
        let receives = |(node, stay): &(&NodeId, &MemberStay)| {
            let node = self.nodes.get(node);
            node.is_some_and(|node| node.is_at_home(id))
                && stay.groups.binary_search(&group).is_ok()
        };
        region.stays.iter().filter(receives).count()
    }

    /// The nodes that a region has.
    pub(super) fn kind_of(&self, id: RegionId, region: &Region) -> RegionKind {
        let beside = || {
            let mut members = region.members.iter();
            members.any(|member| {
                let node = self.nodes.get(&member.origin.node);
                node.is_some_and(|node| node.commons.contains(&id))
            })
        };
        match (region.private, region.merged) {
            (true, _) => RegionKind::Private,
            (_, true) => RegionKind::Merged,
            _ if region.zone.tenant.channel.is_some() || beside() => RegionKind::Common,
            _ => RegionKind::Exact,
        }
    }

    /// One line per region, by number.
    pub(crate) fn region_rows(&self) -> Vec<RegionRow> {
        let rows = self.regions.iter().map(|(id, region)| RegionRow {
            region: id,
            view: region.view,
            address: region.address,
            kind: self.kind_of(id, region),
            groups: number(region.groups.len()),
            members: region.members.clone(),
        });
        rows.collect()
    }

    /// How many nodes, groups, regions and addresses there are.
    pub(crate) fn counts(&self) -> [usize; 4] {
        [
            self.nodes.len(),
            self.groups.len(),
            self.regions.len(),
            self.regions.plan.in_use(),
        ]
    }
}
