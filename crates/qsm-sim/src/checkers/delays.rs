use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_wire::{Origin, RegionId};

use crate::violation::Violation;

/// Time for which a silent member may delay the others: 600 ms until it is in doubt, three probes of
/// 50 ms, a batch of 100 ms, and what the next view and round take on a network that loses packets.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(3);

/// A member that is silent delays nobody for longer than [`DELAY_MAX`] (R-VIEW-12): from then on what
/// the others have becomes stable.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    /// How far each stream was stable, and since when.
    streams: BTreeMap<(RegionId, Origin), (u64, Instant)>,
    /// Hosts that do not run, and since when.
    silent: BTreeMap<usize, Instant>,
}

impl Delays {
    /// Notes which hosts do not run.
    pub(crate) fn note_silent(&mut self, now: Instant, hosts: &[usize]) {
        self.silent.retain(|host, _| hosts.contains(host));
        for host in hosts {
            self.silent.entry(*host).or_insert(now);
        }
    }

    /// This sender stands still, and can learn nothing: what it waits for then does not count.
    pub(crate) fn forget(&mut self, sender: Origin) {
        self.streams.retain(|(_, origin), _| *origin != sender);
    }

    /// A stream is stable up to there; `behind` are the hosts of receivers that have no more, if it
    /// goes further.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        stream: (RegionId, Origin),
        stable: u64,
        behind: &[usize],
    ) -> Result<(), Violation> {
        let (seen, since) = self.streams.entry(stream).or_insert((stable, now));
        if *seen != stable || behind.is_empty() {
            (*seen, *since) = (stable, now);
            return Ok(());
        }
        let long = |since: Instant| now.since(since) > DELAY_MAX;
        let silent = |host: &usize| self.silent.get(host).is_some_and(|since| long(*since));
        if !long(*since) || !behind.iter().all(silent) {
            return Ok(());
        }
        let (region, sender) = stream;
        let message = format!(
            "{sender} in region {region} has waited for hosts {behind:?} since {since:?}, which are \
             silent: #{stable} is stable"
        );
        Err(Violation::new("delays", message))
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::NodeId;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    #[test]
    fn only_the_time_in_which_the_sender_runs_counts() {
        let sender = Origin {
            node: NodeId(1),
            ..Origin::default()
        };
        let stream = (RegionId(1), sender);
        let mut delays = Delays::default();
        delays.note_silent(at(0), &[2]);
        assert!(delays.check(at(0), stream, 5, &[2]).is_ok());
        assert!(delays.check(at(3), stream, 5, &[2]).is_ok());
        delays.forget(sender);
        assert!(delays.check(at(7), stream, 5, &[2]).is_ok());
        assert!(delays.check(at(10), stream, 5, &[2]).is_ok());
        assert!(delays.check(at(11), stream, 5, &[2]).is_err());
    }
}
