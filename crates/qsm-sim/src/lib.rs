//! Deterministic simulation of Quicksilver: real nodes and a real membership service on a virtual
//! clock and a virtual network, with checkers for everything the manual promises.
//!
//! ```text
//!  seed ──► SimOptions ──► World: applications ──► Engine: clock, hosts, network ──► machines
//!                             │                                                        │
//!                             └──────────────► checkers ◄── deliveries, events ────────┘
//! ```
//!
//! A run has two phases: while faults happen, nothing wrong may be delivered; when they have
//! ended, everything must be delivered and come to rest within a bound. The same options give the
//! same run to the last byte, so that a seed is a bug report.
//!
//! ```
//! use qsm_proto::Seed;
//! use qsm_sim::SimOptions;
//!
//! let report = qsm_sim::run(SimOptions::quiet(Seed(1), 3)).unwrap();
//! assert_eq!(report.delivered, report.published * 3);
//! ```

#![forbid(unsafe_code)]

mod chart;
mod checkers;
mod clock;
pub mod content;
pub mod cost;
mod coverage;
mod digest;
mod draw;
mod engine;
mod faults;
mod hints;
mod hosts;
mod insider;
mod inspect;
mod latency;
mod machine;
mod mischief;
mod observer;
mod options;
pub mod pattern;
pub mod probe;
mod report;
mod run;
mod runs;
mod scenario;
mod shrink;
mod swarm;
mod tally;
mod timeline;
#[cfg(test)]
mod toy;
mod trace;
mod violation;
mod way;
mod workload;
mod world;

pub use chart::{CHART_STEPS_MAX, ChartError, chart};
pub use checkers::survivors::Survivors;
pub use coverage::Coverage;
pub use draw::draw;
pub use faults::{Fault, Garbage};
pub use hosts::{HostPlan, HostRole, ServicePatience};
pub use insider::{Insider, Lie};
pub use latency::Latency;
pub use mischief::Mischief;
pub use options::SimOptions;
pub use qsm_testnet::{Burst, Cause, NetworkCounters, NetworkOptions, Sites};
pub use report::{Counters, Failure, Report};
pub use run::{Progress, STOPPED, Simulation, Watch, run};
pub use scenario::{
    Expectation, Relation, Scenario, ScenarioError, VERSION as SCENARIO_VERSION, write,
};
pub use shrink::shrink;
pub use swarm::{DRAW, SwarmOptions, swarm};
pub use tally::Tally;
pub use trace::{Step, TraceRow};
pub use violation::Violation;
pub use workload::{Churn, Flow};
