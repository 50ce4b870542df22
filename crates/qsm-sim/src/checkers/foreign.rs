use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use qsm_proto::region::Region;
use qsm_wire::RegionId;
use qsm_wire::membership::{RegionKind, RegionRow};

use crate::violation::Violation;

/// Regions that move within ten minutes, at most.
const MOVES_MAX: usize = 8;

/// A region of which a member tells the service that packets of another cluster come there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToldRegion {
    pub(crate) region: RegionId,
    pub(crate) address: SocketAddr,
    /// The member is leaving it.
    pub(crate) leaving: bool,
}

impl ToldRegion {
    /// A member's region.
    pub(crate) fn of(region: &Region) -> Self {
        Self {
            region: region.id(),
            address: region.address(),
            leaving: region.history().left().is_some(),
        }
    }
}

/// A region to whose address packets of another cluster come moves to another one (R-MEM-20).
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    /// Regions of which members that stay have told the service so, and their addresses.
    told: BTreeMap<RegionId, SocketAddr>,
    /// Regions of which members that leave have: they move as well if the service does not know that
    /// these are out already.
    left: BTreeSet<RegionId>,
}

impl Foreign {
    /// Members tell the service, which hears it for sure.
    pub(crate) fn tell(&mut self, regions: impl IntoIterator<Item = ToldRegion>) {
        for told in regions {
            if told.leaving {
                self.left.insert(told.region);
            } else {
                self.told.insert(told.region, told.address);
            }
        }
    }

    /// Regions that may have moved because of what members have said.
    fn moves(&self) -> usize {
        let besides = |region: &&RegionId| !self.told.contains_key(region);
        self.told.len() + self.left.iter().filter(besides).count()
    }

    /// Judges the regions of the service in the end. `spare`: it has other addresses, and only regions
    /// that move.
    pub(crate) fn check(&self, regions: &[RegionRow], spare: bool) -> Result<(), Violation> {
        if self.moves() > MOVES_MAX {
            return Ok(());
        }
        let moves = |row: &RegionRow| matches!(row.kind, RegionKind::Exact | RegionKind::Common);
        let given = |row: &RegionRow| self.told.values().any(|address| *address == row.address);
        let wrong = regions
            .iter()
            .find(|row| moves(row) && (self.told.contains_key(&row.region) || spare && given(row)));
        wrong.map_or(Ok(()), |row| {
            let message = format!(
                "packets of another cluster came to {}, which is still the address of region {}",
                row.address, row.region
            );
            Err(Violation::new("foreign", message))
        })
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::ViewNumber;

    use super::*;

    fn region(id: u32, last: u8, kind: RegionKind) -> RegionRow {
        RegionRow {
            region: RegionId(id),
            view: ViewNumber(1),
            address: SocketAddr::from(([239, 0, 1, last], 7)),
            kind,
            groups: 1,
            members: Vec::new(),
        }
    }

    // Rule R-MEM-20.
    #[test]
    fn a_region_that_stays_and_an_address_that_is_given_again_are_seen() {
        let row = |id, last| region(id, last, RegionKind::Exact);
        let mut foreign = Foreign::default();
        let told = |id, leaving| ToldRegion {
            region: RegionId(id),
            address: row(id, 1).address,
            leaving,
        };
        foreign.tell([told(1, false)]);
        let judge = |foreign: &Foreign, row, spare| foreign.check(&[row], spare).is_ok();
        assert!(judge(&foreign, row(2, 2), true));
        assert!(!judge(&foreign, row(1, 1), true));
        assert!(!judge(&foreign, row(2, 1), true));
        assert!(judge(&foreign, row(2, 1), false));
        assert!(judge(&foreign, region(1, 1, RegionKind::Merged), true));
        foreign.tell((1..=8).map(|id| told(id, true)));
        assert!(!judge(&foreign, row(1, 1), true), "eight move");
        foreign.tell([told(9, true)]);
        assert!(judge(&foreign, row(1, 1), true), "too many have moved");
    }
}
