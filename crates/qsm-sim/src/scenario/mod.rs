//! Runs as text: what the files in `scenarios/` say, and how a failing run is kept.
//!
//! One statement per line, `#` begins a comment. What is not said is as in
//! [`SimOptions::quiet`]: a quiet network, and one group if none is given.
//!
//! ```text
//! seed 7                              nodes 5
//! duration 8s                         settle 60s
//! sizes small|mix                     drift 100             (parts per million)
//! group members 1 2 3 publishers 1 5
//! flow host 1 group 0 start 1s interval 10ms burst 1 messages 300
//! network loss 5%                     (also: shared-loss, duplicates, lag-chance)
//! network delay 50us                  (also: jitter, cpu, join, leave, lag)
//! network mtu 1472                    (also: buffer, uplink)
//! network burst 0.2% 10% 80%          (begins, ends, loses)
//! network loopback
//! layout replication 3 block 16 ring 25
//! limits send 1048576 receive 4194304 ahead 4096
//! token-plane-only                    faithful-rate
//! at 2s crash 3                       at 3s restart 3 same-node|new-node
//! at 2s freeze 3 4s                   at 2s close 3
//! at 2s split 1 2 from 3 4            (both ways)
//! at 2s cut 1 2 to 3 4                (one way)
//! at 4s heal                          at 2s doom 1 3        (host, packets)
//! at 2s garbage flipped 3 20          (kind, host, how many)
//! at 2s enter 3 group 0 subscriber    at 2s exit 3 group 0 publisher
//! expect messages_lost = 0            (also: >=, <=; any counter of a node or of the report)
//! ```

mod parse;
mod write;

pub use write::write;

use std::collections::BTreeMap;

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

/// A line that is no statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it, and what was expected.
    pub reason: String,
}

impl core::fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl core::error::Error for ScenarioError {}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// The first line that is no statement.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        parse::parse(text)
    }

    /// Runs it.
    ///
    /// # Errors
    /// The first broken promise, or the first expectation that is not met.
    pub fn run(&self) -> Result<Report, Box<Failure>> {
        let report = crate::run(self.options.clone())?;
        let counters = counters(&report);
        for expectation in &self.expectations {
            let value = counters.get(expectation.counter.as_str()).copied();
            if !value.is_some_and(|value| expectation.holds(value)) {
                let message = format!("expected {expectation}, but it is {value:?} in {report}");
                return Err(Box::new(Failure {
                    seed: report.seed,
                    at: report.ended,
                    violation: Violation::new("expectation", message),
                    replay: "qsm sim run <this file>".to_owned(),
                    trace: Vec::new(),
                    hosts: Vec::new(),
                }));
            }
        }
        Ok(report)
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
        write!(f, "{} {sign} {}", self.counter, self.value)
    }
}

fn counters(report: &Report) -> BTreeMap<&'static str, u64> {
    let mut counters = report.stats.clone();
    let network = report.network;
    counters.extend([
        ("published", report.published),
        ("delivered", report.delivered),
        ("deaths", report.deaths),
        ("survivors_complete", report.survivors.complete),
        ("survivors_partial", report.survivors.partial),
        ("survivors_vanished", report.survivors.vanished),
        ("network_lost", network.lost),
        ("network_split", network.split),
        ("network_overflowed", network.overflowed),
        ("network_data_lost", network.data_lost),
        ("settled_ms", report.settled_ns / 1_000_000),
    ]);
    counters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::{SwarmOptions, draw};

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
    fn a_wrong_line_is_named_with_its_reason() {
        for (text, line) in [
            ("nodes 3\nat 2s explode 3", 2),
            ("nodes three", 1),
            ("\n# comment\nnetwork loss 5", 3),
            ("at 2 crash 3", 1),
            ("expect delivered ~ 3", 1),
            ("nodes 2\nat 2s crash 3", 2),
        ] {
            let error = Scenario::parse(text).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(!error.reason.is_empty());
        }
    }
}
