//! Nodes that a former service has taken out of a region, where nobody who is left has heard into
//! which other one (R-MEM-6).
//!
//! Such a node has not heard of that either: it still receives its groups, and of what is sent to them
//! from now on it would get nothing before it is out of the region and may enter it again. So it is
//! put into another region of the same groups for that time.

use std::collections::BTreeSet;

use qsm_wire::{GroupId, NodeId, RegionId};

use super::aim::{GroupSet, Places};
use super::{Node, Registry};

impl Registry {
    /// True of a node that is on its way out of a region.
    pub(super) fn leaves(&self, id: NodeId, region: RegionId) -> bool {
        let node = self.nodes.get(&id);
        node.is_some_and(|node| node.is_leaving(region))
    }

    /// A region of these groups that a node can be in: it is not on its way out of it.
    pub(super) fn open_region(&self, id: NodeId, set: &GroupSet) -> Option<RegionId> {
        let open = |region| !self.leaves(id, region);
        self.regions
            .find_where(set.zone, set.signature, &set.groups, open)
    }

    /// The same of its home.
    pub(super) fn open_home(&self, id: NodeId, places: &Places) -> Option<RegionId> {
        match places.cluster {
            Some(_) => self
                .found_home(places)
                .filter(|home| !self.leaves(id, *home)),
            None => self.open_region(id, &places.home),
        }
    }

    /// The same of all regions that it is to share.
    pub(super) fn open(&self, id: NodeId, places: &Places) -> BTreeSet<RegionId> {
        let commons = places.commons.iter();
        let commons = commons.filter_map(|set| self.open_region(id, set));
        self.open_home(id, places)
            .into_iter()
            .chain(commons)
            .collect()
    }

    /// True of a node that would get nothing of one of its groups as long as it stays where it is.
    pub(super) fn is_stranded(&self, id: NodeId) -> bool {
        let unserved = |node: &Node| {
            let mut groups = node.groups.iter();
            groups.any(|group| !self.is_served(node, *group))
        };
        self.nodes.get(&id).is_some_and(unserved)
    }

    fn is_served(&self, node: &Node, group: GroupId) -> bool {
        let mut homes = node.homes().filter_map(|home| self.regions.get(home));
        homes.any(|home| {
            let groups = home.groups_of(node.origin.node);
            groups.binary_search(&group).is_ok()
        })
    }

    /// Where a node can be whatever it is leaving: in a region of exactly its groups, if it is to be in
    /// a merged one.
    pub(super) fn exact_places(&self, id: NodeId, places: Places) -> Places {
        let node = self.nodes.get(&id).filter(|_| places.cluster.is_some());
        match node {
            Some(node) => Places {
                home: node.aim.set.clone(),
                commons: Vec::new(),
                private: None,
                cluster: None,
            },
            None => places,
        }
    }
}
