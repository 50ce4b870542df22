use std::collections::BTreeMap;

use qsm_wire::{RegionId, ViewNumber};

/// The regions that this node has left, in this life, with everything it must have of them. A
/// service that starts without memory may hear from others that it is still leaving one.
/// Rule R-VIEW-11.
#[derive(Debug, Default)]
pub(crate) struct PastDepartures {
    left: BTreeMap<RegionId, ViewNumber>,
}

/// Regions remembered. Numbers grow: the oldest is forgotten first.
const DEPARTURES_MAX: usize = 4096;

impl PastDepartures {
    /// This node is out of the region that it was leaving since this view.
    pub(crate) fn note(&mut self, region: RegionId, left: ViewNumber) {
        self.left.insert(region, left);
        if self.left.len() > DEPARTURES_MAX {
            self.left.pop_first();
        }
    }

    /// Whether a departure that begins with this view is over.
    pub(crate) fn done(&self, region: RegionId, left: Option<ViewNumber>) -> bool {
        left.is_some() && self.left.get(&region).copied() == left
    }

    /// A new life has left nothing.
    pub(crate) fn clear(&mut self) {
        self.left.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Rule R-VIEW-11.
    #[test]
    fn a_departure_is_over_only_where_it_began_with_this_view() {
        let mut departures = PastDepartures::default();
        departures.note(RegionId(3), ViewNumber(7));
        assert!(departures.done(RegionId(3), Some(ViewNumber(7))));
        assert!(!departures.done(RegionId(3), Some(ViewNumber(9))));
        assert!(!departures.done(RegionId(3), None));
        assert!(!departures.done(RegionId(4), Some(ViewNumber(7))));
        for region in 10..=4105 {
            departures.note(RegionId(region), ViewNumber(1));
        }
        assert!(!departures.done(RegionId(3), Some(ViewNumber(7))));
    }
}
