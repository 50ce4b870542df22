use qsm_wire::{Origin, RegionId};

use crate::violation::Violation;
use crate::way::Way;

/// Parts of a whole that shares are counted in.
const MILLION: u64 = 1_000_000;

/// A merged region of a service's, with what its members want of it by their own account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Merged {
    pub(crate) region: RegionId,
    pub(crate) members: u64,
    pub(crate) groups: u64,
    /// Groups that they want there, summed over the members.
    pub(crate) wanted: u64,
}

/// Messages cost what plans promise: a packet's worth for each region of the group (R-DATA-3, R020), and
/// where similar nodes share a region no more deliveries that nobody wants than the operator lets
/// (R-VIEW-16).
#[derive(Debug, Default)]
pub(crate) struct Plans {
    /// Deliveries to members that do not want them, of all messages that have been published.
    unwanted: u64,
}

impl Plans {
    /// A message has been published, and the sender's streams have taken so many now.
    pub(crate) fn publish(
        &mut self,
        sender: Origin,
        way: Way,
        taken: u64,
    ) -> Result<(), Violation> {
        self.unwanted += way.unwanted;
        let copies = taken.saturating_sub(way.taken);
        if copies == way.regions {
            return Ok(());
        }
        let message = format!(
            "{sender} puts a message to group {} on {copies} streams, and knows receivers in {} regions",
            way.group, way.regions
        );
        Err(Violation::new("plans", message))
    }

    /// Members have passed over so many messages, and none has changed what it wants.
    pub(crate) fn check_filtered(&self, filtered: u64) -> Result<(), Violation> {
        if filtered <= self.unwanted {
            return Ok(());
        }
        let message = format!(
            "{filtered} messages came to members that do not want them, and only {} were published to such",
            self.unwanted
        );
        Err(Violation::new("plans", message))
    }
}

/// Of each group having as many messages, no more deliveries are unwanted than the operator lets.
pub(crate) fn check_merged(merged: Merged, unwanted_ppm: u32) -> Result<(), Violation> {
    let all = merged.members * merged.groups;
    let unwanted = all.saturating_sub(merged.wanted);
    if unwanted * MILLION <= all * u64::from(unwanted_ppm) {
        return Ok(());
    }
    let message = format!(
        "of {all} deliveries in merged region {} {unwanted} are unwanted, more than {unwanted_ppm} of a million",
        merged.region
    );
    Err(Violation::new("plans", message))
}

#[cfg(test)]
mod tests {
    use qsm_wire::GroupId;

    use super::*;

    #[test]
    fn unwanted_deliveries_beyond_the_share_are_seen() {
        let merged = Merged {
            region: RegionId(1),
            members: 4,
            groups: 5,
            wanted: 18,
        };
        assert!(check_merged(merged, 100_000).is_ok());
        assert!(check_merged(merged, 99_999).is_err());
    }

    #[test]
    fn other_streams_than_those_of_the_regions_and_messages_for_nobody_are_seen() {
        let mut plans = Plans::default();
        let way = Way {
            group: GroupId(3),
            regions: 2,
            unwanted: 1,
            taken: 10,
        };
        assert!(plans.publish(Origin::default(), way, 12).is_ok());
        assert!(plans.publish(Origin::default(), way, 13).is_err());
        assert!(plans.check_filtered(2).is_ok());
        assert!(plans.check_filtered(3).is_err());
    }
}
