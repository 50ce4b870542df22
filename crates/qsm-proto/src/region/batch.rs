use std::collections::{BTreeMap, BTreeSet};

use qsm_wire::{GroupId, RegionId};

use super::RegionTable;

/// Changes of regions by a batch of the membership service that is not complete yet.
#[derive(Debug, Default)]
pub(crate) struct BatchChanges {
    /// Groups of regions whose first view has not come yet.
    announced: BTreeMap<RegionId, Vec<GroupId>>,
    /// Regions with a new view.
    touched: BTreeSet<RegionId>,
    /// Regions that have been told anew, without who does not receive what.
    unfiltered: BTreeSet<RegionId>,
    /// Regions that have been told anew, without which groups have a lifetime.
    lasting: BTreeSet<RegionId>,
    /// Regions that have been told anew, without a rate below which no sender is held.
    held: BTreeSet<RegionId>,
    /// Regions that have been told anew, without a demand for proof.
    unproven: BTreeSet<RegionId>,
}

impl BatchChanges {
    /// The groups of a region of which no view is known yet.
    pub(crate) fn announce(&mut self, region: RegionId, groups: Vec<GroupId>) {
        self.announced.insert(region, groups);
    }

    /// The groups that were announced for a region.
    pub(crate) fn take_announced(&mut self, region: RegionId) -> Option<Vec<GroupId>> {
        self.announced.remove(&region)
    }

    /// A region is told anew: who does not receive what, what has a lifetime, below which rate no sender is held, and which
    /// proof is demanded, has to be told again.
    pub(crate) fn tell_anew(&mut self, region: RegionId) {
        self.unfiltered.insert(region);
        self.lasting.insert(region);
        self.held.insert(region);
        self.unproven.insert(region);
    }

    /// It is told which proof is demanded of senders to a region.
    pub(crate) fn note_proof(&mut self, region: RegionId) {
        self.unproven.remove(&region);
    }

    /// The regions of which that has not been told again: none is demanded.
    pub(crate) fn take_unproven(&mut self) -> BTreeSet<RegionId> {
        core::mem::take(&mut self.unproven)
    }

    /// It is told below which rate no sender to a region is held.
    pub(crate) fn note_minimum_rate(&mut self, region: RegionId) {
        self.held.remove(&region);
    }

    /// The regions of which that has not been told again: senders are held.
    pub(crate) fn take_held(&mut self) -> BTreeSet<RegionId> {
        core::mem::take(&mut self.held)
    }

    /// It is told which groups of a region have a lifetime.
    pub(crate) fn note_lifetimes(&mut self, region: RegionId) {
        self.lasting.remove(&region);
    }

    /// The regions of which that has not been told again: no group has one.
    pub(crate) fn take_lasting(&mut self) -> BTreeSet<RegionId> {
        core::mem::take(&mut self.lasting)
    }

    /// All is told of who does not receive what in a region.
    pub(crate) fn note_filters(&mut self, region: RegionId) {
        self.unfiltered.remove(&region);
    }

    /// The regions of which that has not been told again: everybody receives everything.
    pub(crate) fn take_unfiltered(&mut self) -> BTreeSet<RegionId> {
        core::mem::take(&mut self.unfiltered)
    }

    /// A region has changed.
    pub(crate) fn touch(&mut self, region: RegionId) {
        self.touched.insert(region);
    }

    /// The regions that have changed. Of two that are shown as left, the one that this node has
    /// received in was left first: of the other it did not even hear in time.
    pub(crate) fn take_touched(&mut self, regions: &RegionTable) -> Vec<RegionId> {
        let mut touched: Vec<RegionId> = core::mem::take(&mut self.touched).into_iter().collect();
        touched.sort_by_key(|id| {
            let region = regions.get(*id);
            !region.is_some_and(|region| region.history().has_received())
        });
        touched
    }
}
