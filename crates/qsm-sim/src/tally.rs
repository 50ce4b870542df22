use core::time::Duration;

use qsm_proto::mix;
use qsm_testnet::{Cause, NetworkCounters};

use crate::coverage::Coverage;
use crate::faults::Garbage;
use crate::report::Report;

/// What many runs have come to together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Runs that kept all promises.
    pub runs: u64,
    /// Virtual time, nanoseconds.
    pub virtual_ns: u128,
    /// Inputs that machines have handled.
    pub inputs: u64,
    /// Messages published.
    pub published: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Lives that ended.
    pub deaths: u64,
    /// Longest time that a run needed to come to rest, nanoseconds.
    pub settled_max_ns: u64,
    /// Parities sent.
    pub parities: u64,
    /// Packets restored out of parities.
    pub restored: u64,
    /// One number for all digests, whatever their order.
    pub digest: u64,
    coverage: Coverage,
    network: NetworkCounters,
}

impl Tally {
    /// Adds a run.
    pub fn add(&mut self, report: &Report) {
        let counted = |name| report.stats.get(name).copied().unwrap_or(0);
        self.merge(&Self {
            runs: 1,
            virtual_ns: u128::from(report.ended.0),
            inputs: report.inputs,
            published: report.published,
            delivered: report.delivered,
            deaths: report.deaths,
            settled_max_ns: report.settled_ns,
            parities: counted("parities_sent"),
            restored: counted("repaired_by_parity"),
            digest: mix(report.digest ^ mix(report.seed)),
            coverage: report.coverage,
            network: report.network,
        });
    }

    /// Adds the runs of another tally.
    pub fn merge(&mut self, other: &Self) {
        self.runs += other.runs;
        self.virtual_ns += other.virtual_ns;
        self.inputs += other.inputs;
        self.published += other.published;
        self.delivered += other.delivered;
        self.deaths += other.deaths;
        self.settled_max_ns = self.settled_max_ns.max(other.settled_max_ns);
        self.parities += other.parities;
        self.restored += other.restored;
        self.digest = self.digest.wrapping_add(other.digest);
        self.coverage += other.coverage;
        self.network += other.network;
    }

    /// Virtual time.
    #[must_use]
    pub fn virtual_time(&self) -> Duration {
        let seconds = u64::try_from(self.virtual_ns / 1_000_000_000).unwrap_or(u64::MAX);
        Duration::from_secs(seconds)
    }

    /// Every kind of fault, with how often it has really happened; and what is sent only where many faults
    /// meet.
    #[must_use]
    pub fn faults(&self) -> Vec<(String, u64)> {
        let mut coverage = self.coverage;
        let faults = coverage.faults();
        let faults = faults.map(|(name, count)| (name.replace('_', " "), count));
        let mut rows: Vec<(String, u64)> = faults.collect();
        for kind in Garbage::ALL {
            let name = format!("garbage: {}", kind.name());
            rows.push((name, *coverage.garbage.of(kind)));
        }
        for cause in Cause::ALL {
            rows.push((format!("copies {cause}"), self.network.of(cause)));
        }
        let others = [
            (
                "copies that found a receive buffer full",
                self.network.overflowed,
            ),
            ("copies slept through", self.network.slept_through),
            ("copies doubled", self.network.duplicated),
            ("copies held back", self.network.reordered),
            ("copies held up on clogged links", self.network.clogged),
            ("membership datagrams held up", self.network.lagged),
            ("datagrams too large", self.network.oversized),
            ("parities sent", self.parities),
            ("packets restored by parities", self.restored),
        ];
        rows.extend(others.map(|(name, count)| (name.to_owned(), count)));
        rows
    }

    /// Kinds of faults that have never happened; forged packets happen only where they are asked
    /// for, and those in a sender's name in scenarios alone.
    #[must_use]
    pub fn never(&self, forgery: bool) -> Vec<String> {
        let forged =
            [Garbage::Forged, Garbage::Jump].map(|kind| format!("garbage: {}", kind.name()));
        let rows = self.faults().into_iter().filter(|(_, count)| *count == 0);
        rows.map(|(name, _)| name)
            .filter(|name| forgery || !forged.contains(name))
            .filter(|name| !name.ends_with(Garbage::InName.name()))
            .collect()
    }

    /// The longest time that a run needed to come to rest.
    #[must_use]
    pub fn settled_max(&self) -> Duration {
        Duration::from_nanos(self.settled_max_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_runs_does_not_matter() {
        let runs: Vec<Report> = (1..20)
            .map(|seed| Report {
                seed,
                digest: mix(seed + 7),
                settled_ns: seed * 3 % 11,
                ..Report::default()
            })
            .collect();
        let (mut whole, mut one, mut other) =
            (Tally::default(), Tally::default(), Tally::default());
        runs.iter().for_each(|run| whole.add(run));
        runs.iter().rev().take(9).for_each(|run| one.add(run));
        runs.iter().take(10).for_each(|run| other.add(run));
        one.merge(&other);
        assert_eq!(one, whole);
        assert!(whole.never(false).contains(&"crashes".to_owned()));
    }
}
