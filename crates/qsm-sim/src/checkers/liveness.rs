use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_wire::RegionId;

use crate::violation::Violation;

/// How long a region may owe its senders a round: rounds are at most a second apart, and a lost
/// ring is given up and tried again a few times before that.
const PATIENCE: Duration = Duration::from_secs(15);

/// Tokens go round while something is not stable (R072, R073): once faults have ended, a region
/// in which a sender waits completes rounds.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    /// Rounds completed, and when that number was new.
    regions: BTreeMap<RegionId, (u64, Instant)>,
}

impl Liveness {
    /// `waiting` are the regions in which a sender has packets that are not stable, with the
    /// rounds that have been completed there.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        waiting: &BTreeMap<RegionId, u64>,
    ) -> Result<(), Violation> {
        self.regions
            .retain(|region, _| waiting.contains_key(region));
        for (region, rounds) in waiting {
            let (seen, since) = self.regions.entry(*region).or_insert((*rounds, now));
            if seen != rounds {
                (*seen, *since) = (*rounds, now);
            }
            if now.since(*since) > PATIENCE {
                let message = format!(
                    "no round has been completed in region {region} for {PATIENCE:?}, though \
                     packets are not stable"
                );
                return Err(Violation::new("liveness", message));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_waits_without_rounds_is_noticed() {
        let mut liveness = Liveness::default();
        let waiting = |rounds| BTreeMap::from([(RegionId(1), rounds)]);
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        assert_eq!(liveness.check(at(0), &waiting(5)), Ok(()));
        assert_eq!(liveness.check(at(14), &waiting(6)), Ok(()));
        assert_eq!(liveness.check(at(20), &BTreeMap::new()), Ok(()));
        assert_eq!(liveness.check(at(28), &waiting(6)), Ok(()));
        assert!(liveness.check(at(44), &waiting(6)).is_err());
    }
}
