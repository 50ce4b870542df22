use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::stats::Histogram;
use qsm_proto::{Instant, Reason, nanoseconds};
use qsm_testnet::{Cause, NetworkCounters};

use crate::checkers::survivors::Survivors;
use crate::coverage::Coverage;
use crate::latency::Latency;
use crate::violation::Violation;

/// Counters by name.
pub type Counters = BTreeMap<&'static str, u64>;

/// What a run that kept all promises has to say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// A hash over all datagrams and deliveries, with their times.
    pub digest: u64,
    /// Virtual time at the end.
    pub ended: Instant,
    /// Virtual time from the end of all faults until everything was at rest, nanoseconds.
    pub settled_ns: u64,
    /// Inputs that machines have handled.
    pub inputs: u64,
    /// Messages published.
    pub published: u64,
    /// Publish calls refused because the window was full.
    pub refused: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Lives that ended, by crash or exclusion.
    pub deaths: u64,
    /// Messages of dead senders.
    pub survivors: Survivors,
    /// What the network did.
    pub network: NetworkCounters,
    /// From sending until the sender knows that everybody has it. Measured only while machines'
    /// invariants are checked.
    pub stable: Latency,
    /// From finding packets missing to having them, of all nodes and lives.
    pub repairs: Histogram,
    /// Duration of the longest round among the last ones of all regions, nanoseconds.
    pub round_ns: u64,
    /// Fresh data packets, and control packets, that hosts with flows have sent.
    pub senders: (u64, u64),
    /// Faults that really happened.
    pub coverage: Coverage,
    /// Datagrams sent, by [`Reason`].
    pub traffic: [u64; Reason::ALL.len()],
    /// The nodes' counters, summed over all nodes and lives.
    pub stats: Counters,
    /// Each host's own counters, summed over its processes: first the membership service's, then
    /// those of nodes 1, 2, ...
    pub hosts: Vec<Counters>,
}

impl Report {
    /// Everything that is counted, of all nodes together, by name: what expectations of scenarios
    /// may be about.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.stats.clone();
        // Counters of nodes that never ran are zero.
        for row in qsm_proto::Stats::default().rows() {
            counters.entry(row.metric.name).or_default();
        }
        let network = self.network;
        counters.extend(self.coverage.faults());
        counters.extend([
            ("published", self.published),
            ("refused", self.refused),
            ("delivered", self.delivered),
            ("deaths", self.deaths),
            ("survivors_complete", self.survivors.complete),
            ("survivors_partial", self.survivors.partial),
            ("survivors_vanished", self.survivors.vanished),
            ("network_lost", network.lost()),
            ("network_split", network.of(Cause::Split)),
            ("network_queue_full", network.of(Cause::Queue)),
            ("network_between_sites", network.of(Cause::Site)),
            ("network_filtered", network.of(Cause::Filtered)),
            ("network_duplicated", network.duplicated),
            ("network_reordered", network.reordered),
            ("network_clogged", network.clogged),
            ("network_lagged", network.lagged),
            ("network_oversized", network.oversized),
            ("network_slept_through", network.slept_through),
            ("network_overflowed", network.overflowed),
            ("network_data_lost", network.data_lost),
            ("stable_max_us", self.stable.max_ns / 1000),
            ("repair_p50_us", micros(self.repairs.quantile(500))),
            ("repair_p99_us", micros(self.repairs.quantile(990))),
            ("repair_max_us", micros(self.repairs.quantile(1000))),
            ("round_us", self.round_ns / 1000),
            ("settled_ms", self.settled_ns / 1_000_000),
        ]);
        counters
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {} digest {:016x} time {} settled {} ms inputs {} published {} refused {} \
             delivered {} deaths {} {:?} {:?}",
            self.seed,
            self.digest,
            self.ended,
            self.settled_ns / 1_000_000,
            self.inputs,
            self.published,
            self.refused,
            self.delivered,
            self.deaths,
            self.survivors,
            self.network,
        )?;
        for reason in Reason::ALL {
            write!(f, " {reason:?} {}", self.traffic[reason as usize])?;
        }
        Ok(())
    }
}

fn micros(duration: Duration) -> u64 {
    nanoseconds(duration) / 1000
}

/// A broken promise and all that is needed to understand it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Virtual time.
    pub at: Instant,
    /// What is broken.
    pub violation: Violation,
    /// How to see it again: a command; empty if whoever started the run knows.
    pub replay: String,
    /// The last things that happened.
    pub trace: Vec<String>,
    /// One line for each host.
    pub hosts: Vec<String>,
}

impl Failure {
    /// The same seed has given two different runs.
    #[must_use]
    pub fn differs(one: &Report, other: &Report) -> Box<Self> {
        let message = format!(
            "the first time {:016x}, the second time {:016x}",
            one.digest, other.digest
        );
        Box::new(Self {
            seed: one.seed,
            at: one.ended,
            violation: Violation::new("determinism", message),
            replay: format!("qsm sim swarm --twice --first {} --seeds 1", one.seed),
            trace: Vec::new(),
            hosts: Vec::new(),
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trace
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))?;
        self.hosts
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))?;
        write!(f, "seed {} at {}: {}", self.seed, self.at, self.violation)?;
        if self.replay.is_empty() {
            return Ok(());
        }
        write!(f, "\nreplay: {}", self.replay)
    }
}

impl core::error::Error for Failure {}
