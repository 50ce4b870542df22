//! The way from one plan to another, as steps in the order in which they are safe.

use std::collections::BTreeMap;

use qsm_wire::{ChannelId, GroupId, NodeId, RegionId};

use crate::plan::{Path, Plan};

/// A step from one plan to another.
///
/// New regions and channels come first, then nodes move, then groups change their paths; what
/// nobody uses any more goes last (make before break). Within a kind the order is ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// A region begins.
    Open(RegionId),
    /// A channel begins: the nodes of these regions listen to it.
    Listen {
        /// The channel.
        channel: ChannelId,
        /// Regions that did not listen yet.
        regions: Vec<RegionId>,
    },
    /// A node changes its region, or has one for the first time, or none any more.
    Relocate {
        /// The node.
        node: NodeId,
        /// Its former region.
        from: Option<RegionId>,
        /// Its next region.
        to: Option<RegionId>,
    },
    /// A group's messages go another way.
    Reroute {
        /// The group.
        group: GroupId,
        /// The new way; `None`: nobody wants it any more.
        path: Option<Path>,
    },
    /// The nodes of these regions leave a channel.
    Mute {
        /// The channel.
        channel: ChannelId,
        /// The regions.
        regions: Vec<RegionId>,
    },
    /// A region ends.
    Close(RegionId),
}

impl Plan {
    /// The steps from this plan to another.
    #[must_use]
    pub fn moves_to(&self, next: &Self) -> Vec<Move> {
        let mut moves = Vec::new();
        let new = next
            .regions
            .keys()
            .filter(|id| !self.regions.contains_key(id));
        moves.extend(new.map(|id| Move::Open(*id)));
        moves.extend(
            listeners(self, next).map(|(channel, regions)| Move::Listen { channel, regions }),
        );
        let (before, after) = (self.homes(), next.homes());
        let mut nodes: Vec<NodeId> = before.keys().chain(after.keys()).copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            let (from, to) = (before.get(&node).copied(), after.get(&node).copied());
            if from != to {
                moves.push(Move::Relocate { node, from, to });
            }
        }
        let mut groups: Vec<GroupId> = self
            .groups
            .keys()
            .chain(next.groups.keys())
            .copied()
            .collect();
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            let path = |plan: &Self| plan.groups.get(&group).map(|group| group.path.clone());
            let (former, path) = (path(self), path(next));
            if former != path {
                moves.push(Move::Reroute { group, path });
            }
        }
        moves.extend(
            listeners(next, self).map(|(channel, regions)| Move::Mute { channel, regions }),
        );
        let old = self
            .regions
            .keys()
            .filter(|id| !next.regions.contains_key(id));
        moves.extend(old.map(|id| Move::Close(*id)));
        moves
    }

    fn homes(&self) -> BTreeMap<NodeId, RegionId> {
        let regions = self.regions.iter();
        let homes = regions.flat_map(|(id, region)| region.members.iter().map(|node| (*node, *id)));
        homes.collect()
    }
}

/// The regions that listen to a channel after and not before.
fn listeners(before: &Plan, after: &Plan) -> impl Iterator<Item = (ChannelId, Vec<RegionId>)> {
    let channels = after.channels.iter().map(|(id, channel)| {
        let known = before.channels.get(id);
        let had = |region: &&RegionId| known.is_some_and(|known| known.regions.contains(region));
        let regions = channel.regions.iter().filter(|region| !had(region));
        (*id, regions.copied().collect::<Vec<_>>())
    });
    channels.filter(|(_, regions)| !regions.is_empty())
}
