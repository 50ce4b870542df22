//! Terms of a region, which hints give to groups by name: who is told of a region is told which of its
//! groups have messages with a lifetime (R-DATA-14), and below which rate no sender is held (R-RATE-10).

use qsm_wire::membership::{GroupLifetime, Update};
use qsm_wire::{GroupId, RegionId};

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

    /// Signature of the terms of a region; 0: nothing is told of them.
    pub(super) fn terms_signature(&self, id: RegionId) -> Signature {
        let groups = self.lifetimes_of(id).into_iter();
        let lifetimes = self.key.set(groups.map(|one| one.group)).rotate_left(2);
        let minimum = Some(self.minimum_of(id)).filter(|rate| *rate > 0);
        let minimum = minimum.into_iter().map(GroupId);
        lifetimes ^ self.key.set(minimum).rotate_left(3)
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
            let terms: Vec<Update> = lifetimes.into_iter().chain(minimum).collect();
            for node in told {
                let updates = draft.updates_of(node);
                updates.terms.extend(terms.iter().cloned());
            }
        }
    }
}
