//! Runs as text: what the files in `scenarios/` say, and how a failing run is kept.
//!
//! One statement per line, `#` begins a comment. What is not said is as in
//! [`SimOptions::quiet`]: a quiet network, and one group if none is given.
//! `docs/internals/simulator.md` explains every statement.
//!
//! ```text
//! scenario 1                          the version of this format; first, if it is there
//! seed 7                              nodes 5
//! host 4 service                      (also: node, embedded-service, observer,
//!                                      ipv6, two-networks)
//! source-specific
//! addresses 2                         (multicast addresses that services give at once)
//! no-multicast
//! duration 8s                         settle 60s
//! sizes small|mix                     drift 100             (parts per million)
//! group members 1 2 3 publishers 1 5
//! pattern exact groups 100 sets 4     (instead of groups; also: hierarchical, ...)
//! flow host 1 group 0 start 1s interval 10ms burst 1 messages 300
//! network loss 5%                     (also: shared-loss, damage, duplicates, lag-chance)
//! network delay 50us                  (also: jitter, cpu, join, leave, lag)
//! network reorder 1% 5ms              (held back, for how long at most)
//! network mtu 1472                    (also: buffer, uplink, downlink, switch-queue)
//! network burst 0.2% 10% 80%          (begins, ends, loses)
//! network sites 2 40ms 10000000 65536 0.1%   (how many, delay, bits/s, queue, loss)
//! network loopback
//! layout replication 3 block 16 ring 25
//! limits send 1048576 receive 4194304 ahead 4096
//! retention 2097152                   (bytes kept for nodes that are away)
//! plan-every 10s                      (0s, if it is not said: services make no plans)
//! plan-unwanted 5%                    plan-common 10        (packets per second that it has to save)
//! prompt 3 arrival                    prompt 3 within 5ms   (how it wants its groups, too)
//! hint domain 1 2                     (also: apart 1 2, together 1 2, pin 0: groups)
//! tell-rates                          (nodes say what they publish)
//! slow-after 10s                      (0s, if it is not said: nobody is too slow)
//! gone-after 30s                      (0s, if it is not said: nobody is ever away)
//! refusals                            (hosts say when no process is there)
//! tagged                              (hosts refuse what strangers send)
//! insider 3 from 1s until 4s lies rounds silence   (a member lies, and is out when faults end)
//! origin-verified                     (or origin-audit: nodes sign what they send)
//! budget repairs 65536 requests 100   (bytes and packets per second)
//! rate-max 1000                       batch-delay 1ms
//! send-limit 1000000
//! batch 0 2ms                         batch 0 2ms 700       (group, time, bytes of a packet)
//! queue-target 1ms                    (0s: receivers always grant all their credit)
//! token-plane-only                    faithful-rate
//! rings-in-turn                       pull-late             partition-feedback
//! parity                              (cachers send parities, members keep blocks for them)
//! parities-ahead 2                    (senders send so many for each block unasked)
//! at 2s crash 3                       at 3s restart 3 same-node|new-node
//! at 2s freeze 3 4s                   at 2s sleep 3 4s      (its clock stops, too)
//! at 2s slow 3 1ms 4s                 at 2s close 3         (time per datagram, how long)
//! at 2s split 1 2 from 3 4            (both ways)
//! at 2s cut 1 2 to 3 4                (one way)
//! at 4s heal                          at 2s doom 1 3        (host, packets)
//! at 2s clog 3s 1 2 to 3 4            at 2s narrow 600 3s   (bytes, how long)
//! at 2s outage 1 3s                   (network 1 or 2, how long)
//! at 2s garbage flipped 3 20          (kind, host, how many)
//! at 2s enter 3 group 0 subscriber    at 2s exit 3 group 0 publisher
//! expect messages_lost = 0            (also: >=, <=; any counter of all nodes or of the report)
//! expect host 3 rounds = 0            (one node's own, or a membership service's)
//! ```

mod happen;
mod parse;
mod words;
mod write;

pub use write::write;

use crate::hosts::HostPlan;
use crate::observer::Looked;
use crate::options::SimOptions;
use crate::report::{Failure, Report};
use crate::violation::Violation;

/// A run and what it is expected to show, besides keeping all promises.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The run.
    pub options: SimOptions,
    /// What must be seen.
    pub expectations: Vec<Expectation>,
}

/// A bound on a counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// Whose counter, if not that of all nodes together.
    pub host: Option<usize>,
    /// The counter.
    pub counter: String,
    /// How it compares.
    pub relation: Relation,
    /// With what.
    pub value: u64,
}

/// How a counter compares with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// At least.
    AtLeast,
    /// At most.
    AtMost,
    /// Exactly.
    Equal,
}

/// The version of the format. It changes when a file would mean something else than before.
pub const VERSION: u32 = 1;

/// Something in a scenario that cannot be understood, or cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// What is wrong with it, and what was expected.
    pub reason: String,
}

impl core::fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.reason
        )
    }
}

impl core::error::Error for ScenarioError {}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// The first place that is wrong: an unknown word, a number out of range, a host or group
    /// that does not exist, faults that contradict each other, another version of the format.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        parse::parse(text)
    }

    /// Runs it.
    ///
    /// # Errors
    /// The first broken promise, or the first expectation that is not met.
    pub fn run(&self) -> Result<Report, Box<Failure>> {
        let report = crate::run(self.options.clone())?;
        self.judge(&report)?;
        Ok(report)
    }

    /// Whether a report shows what is expected.
    ///
    /// # Errors
    /// The first expectation that is not met.
    pub fn judge(&self, report: &Report) -> Result<(), Box<Failure>> {
        let counters = report.counters();
        for expectation in &self.expectations {
            let counters = match expectation.host {
                Some(host) => report.hosts.get(host),
                None => Some(&counters),
            };
            let value = counters.and_then(|all| all.get(expectation.counter.as_str()));
            // What never ran has counted nothing.
            let value = value.copied().unwrap_or(0);
            if !expectation.holds(value) {
                let message = format!("expected {expectation}, but it is {value} in {report}");
                return Err(Box::new(Failure {
                    seed: report.seed,
                    at: report.ended,
                    violation: Violation::new("expectation", message),
                    replay: String::new(),
                    trace: Vec::new(),
                    hosts: Vec::new(),
                }));
            }
        }
        Ok(())
    }
}

impl Expectation {
    fn holds(&self, value: u64) -> bool {
        match self.relation {
            Relation::AtLeast => value >= self.value,
            Relation::AtMost => value <= self.value,
            Relation::Equal => value == self.value,
        }
    }
}

impl core::fmt::Display for Expectation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let sign = match self.relation {
            Relation::AtLeast => ">=",
            Relation::AtMost => "<=",
            Relation::Equal => "=",
        };
        if let Some(host) = self.host {
            write!(f, "host {host} ")?;
        }
        write!(f, "{} {sign} {}", self.counter, self.value)
    }
}

/// Counters that expectations may be about: those of one host, or of all nodes together.
fn known_counters(host: Option<HostPlan>) -> Vec<&'static str> {
    match host {
        None => Report::default().counters().into_keys().collect(),
        Some(host) if host.is_service() => names(&qsm_gms::ServiceStats::default().rows()),
        Some(host) if !host.is_node() => Looked::default().rows().map(|(name, _)| name).to_vec(),
        Some(_) => names(&qsm_proto::Stats::default().rows()),
    }
}

fn names(rows: &[qsm_metrics::Row<'_>]) -> Vec<&'static str> {
    rows.iter().map(|row| row.metric.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::draw;
    use crate::swarm::SwarmOptions;

    #[test]
    fn every_drawn_run_can_be_written_and_read_again() {
        for seed in 0..200 {
            let mut options = draw(seed, &SwarmOptions::default());
            let text = write(&options);
            let read = Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
            // What is no part of the run's behaviour is not written.
            options.trace_lines = read.options.trace_lines;
            options.faults.sort_by_key(|fault| fault.0);
            options.churn.sort_by_key(|churn| churn.0);
            assert_eq!(
                format!("{options:?}"),
                format!("{:?}", read.options),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place_and_what_was_expected() {
        for (text, line, column, part) in [
            ("nodes 3\nat 2s explode 3", 2, 7, "unknown word `explode`"),
            ("nodes 3\nat 2s crsh 3", 2, 7, "did you mean `crash`?"),
            ("nodes three", 1, 7, "found `three`"),
            ("nodes 0", 1, 7, "from 1 to"),
            (
                "\n# comment\nnetwork loss 5",
                3,
                14,
                "share from 0% to 100%",
            ),
            ("network loss -5%", 1, 14, "negative"),
            ("network loss 101%", 1, 14, "share from 0% to 100%"),
            ("network speed 3", 1, 9, "a property of the network: loss"),
            ("rate-max -3", 1, 10, "negative"),
            ("at 2 crash 3", 1, 4, "a time such as"),
            ("at 2s crash", 1, 13, "the line ends here"),
            ("at 2s crash 1 2", 1, 15, "the end of the line"),
            ("expect delivered ~ 3", 1, 18, "a relation: >=, <=, ="),
            ("expect delivred = 3", 1, 8, "`delivered`"),
            ("expect host 1 view = 3", 1, 15, "unknown counter `view`"),
            ("expect host 0 view = 3", 1, 15, "`views`"),
            ("expect host 4 rounds = 3", 1, 13, "`4` is no host"),
            ("host 2 service\nexpect host 2 view = 3", 2, 15, "`views`"),
            ("host 3 servise", 1, 8, "did you mean `service`?"),
            ("host 3", 1, 8, "a property of a host: node"),
            ("host 0 node", 1, 1, "no membership service"),
            ("at 1s outage 3 1s", 1, 14, "from 1 to 2"),
            (
                "host 2 service\nat 1s enter 2 group 0 subscriber",
                2,
                13,
                "enters no groups",
            ),
            ("nodes 2\nat 2s crash 3", 2, 13, "`3` is no host"),
            (
                "nodes 2\nat 1s enter 1 group 4 subscriber",
                2,
                1,
                "no group 4",
            ),
            ("at 1s crash 1\nat 2s crash 1", 2, 1, "has crashed before"),
            (
                "at 1s crash 1\nat 2s freeze 1 1s",
                2,
                1,
                "has crashed before",
            ),
            ("at 1s split 1 2 from 2 3", 1, 1, "host 2 is on both sides"),
            ("at 1s split 1 2", 1, 17, "expected `from`"),
            ("at 1s heal", 1, 1, "no split to heal"),
            ("duration 2s\nat 3s crash 1", 2, 1, "faults end at 2s"),
            ("scenario 7\nnodes 2", 1, 10, "version 7 of the format"),
            ("nodes 2\nscenario 1", 2, 10, "before all other statements"),
        ] {
            let error = Scenario::parse(text).unwrap_err();
            assert_eq!(
                (error.line, error.column),
                (line, column),
                "{text}: {error}"
            );
            assert!(error.reason.contains(part), "{text}: {error}");
        }
    }
}
