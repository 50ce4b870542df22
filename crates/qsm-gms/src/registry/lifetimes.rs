//! Lifetimes of messages, which hints give to groups by name (R-DATA-14): who is told of a region is
//! told which of its groups have one.

use qsm_wire::RegionId;
use qsm_wire::membership::{GroupLifetime, Update};

use super::Registry;
use super::draft::Draft;
use crate::plan::Signature;

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

    /// Signature of what is told of the lifetimes of a region; 0: nothing.
    pub(super) fn lifetime_signature(&self, id: RegionId) -> Signature {
        let groups = self.lifetimes_of(id).into_iter();
        self.key.set(groups.map(|one| one.group)).rotate_left(2)
    }

    /// Tells of lifetimes whom is told of regions anew.
    pub(super) fn tell_lifetimes(&self, draft: &mut Draft) {
        for (region, told) in core::mem::take(&mut draft.mortal) {
            let groups = self.lifetimes_of(region);
            let update = Update::Lifetimes { region, groups };
            draft.updates_of(told).lifetimes.push(update);
        }
    }
}
