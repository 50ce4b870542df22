//! Regions at whose address others send (R-MEM-20): their nodes move to a new region of the same groups at
//! another address, and the address is avoided.

use qsm_wire::{NodeId, RegionId};

use super::Registry;
use super::work::Work;

impl Registry {
    /// Tells whether the region of this member can move to another address; `None`: it is no member, or
    /// the region is already given up.
    pub(crate) fn is_movable(&self, id: RegionId, member: NodeId) -> Option<bool> {
        let region = self.regions.get(id)?;
        let mut members = region.members.iter();
        let known = members.any(|one| one.origin.node == member);
        let shared = !region.private && !region.merged;
        // Also one that all are leaving: others would find it again, or they themselves.
        (known && !region.given_up).then_some(shared)
    }

    /// Everybody in a region goes to another one of the same groups, with the next batch. The region is
    /// found by nobody any more, and ends when all have left it.
    pub(super) fn readdress(&mut self, id: RegionId) {
        if !self.regions.give_up(id) {
            return;
        }
        self.stats.regions_readdressed += 1;
        for (node, entry) in &self.nodes {
            if entry.shared().any(|region| region == id) {
                self.work.push(Work::Place { node: *node });
            }
        }
    }
}
