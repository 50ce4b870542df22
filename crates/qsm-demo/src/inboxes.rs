//! What the demonstration says of inboxes: groups of one receiver each do not divide receivers that
//! have all other groups in common.

use serde::Serialize;

/// Packets may be more than messages and regions say by so many percent: the receiver that is
/// killed is in no region for a while and in a new one then.
const TOLERANCE_PERCENT: u64 = 5;

/// What the sender that writes into inboxes sent, and the regions at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Inboxes {
    /// Inboxes: one of each receiver.
    pub(crate) inboxes: usize,
    /// Those of receivers that have all else in common with another: they would divide them.
    pub(crate) dividing: usize,
    /// Messages to inboxes.
    pub(crate) letters: u64,
    /// Messages of the same sender to the group of all receivers.
    pub(crate) announcements: u64,
    /// Data packets that these took, without repairs.
    pub(crate) packets: u64,
    /// Regions of one inbox.
    pub(crate) private_regions: usize,
    /// Regions that there are by the groups other than inboxes, without common ones.
    pub(crate) regions_without: usize,
}

impl Inboxes {
    /// Packets that they take if each message is one for each of its regions. Messages that share
    /// packets take fewer.
    fn packets_max(&self) -> u64 {
        let most = self.letters + self.announcements * self.regions_without as u64;
        most + most * TOLERANCE_PERCENT / 100
    }

    /// Where inboxes cost what they should not.
    #[must_use]
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.private_regions != self.dividing {
            faults.push(format!(
                "there are {} private regions for {} inboxes that would divide receivers",
                self.private_regions, self.dividing
            ));
        }
        if self.packets > self.packets_max() {
            faults.push(format!(
                "{} letters and {} announcements took {} packets, more than {}",
                self.letters,
                self.announcements,
                self.packets,
                self.packets_max()
            ));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inboxes() -> Inboxes {
        Inboxes {
            inboxes: 6,
            dividing: 5,
            letters: 600,
            announcements: 200,
            packets: 1200,
            private_regions: 5,
            regions_without: 3,
        }
    }

    #[test]
    fn a_packet_for_each_letter_and_region_is_no_fault() {
        assert_eq!(inboxes().faults(), Vec::<String>::new());
    }

    #[test]
    fn inboxes_that_divide_and_too_many_packets_are_faults() {
        let changes: [fn(&mut Inboxes); 3] = [
            |inboxes| inboxes.private_regions = 4,
            |inboxes| inboxes.private_regions = 6,
            |inboxes| inboxes.packets = 600 + 6 * 200,
        ];
        for change in changes {
            let mut inboxes = inboxes();
            change(&mut inboxes);
            assert_eq!(inboxes.faults().len(), 1, "{inboxes:?}");
        }
    }
}
