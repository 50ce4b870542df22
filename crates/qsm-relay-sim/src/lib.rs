//! A deterministic simulator of relays: drawn trees of a source, relays and receivers, with every kind
//! of fault at once, and a checker for each promise of R-RELAY-1 to R-RELAY-17 that can be broken there.
//!
//! ```text
//!  seed ──► Plan ──► Simulation: stream, faults ──► Network: clock, links, nodes of qsm-relay
//!                        │                             │
//!                        └──────► Checkers ◄── steps, news
//! ```
//!
//! A run has three phases: all join; the stream goes and faults happen; the stream ends, everything is
//! delivered or named as lost, receivers go, and everything must be forgotten. The same seed gives the
//! same run to the last byte, so that a seed is a bug report.
//!
//! ```
//! use qsm_relay_sim::{Mischief, Plan, run};
//!
//! let plan = Plan::draw(7);
//! let report = run(&plan, Mischief::None).unwrap();
//! assert_eq!(report.lost, 0);
//! ```
//!
//! [`Network`] is for tests of single cases, too.

#![forbid(unsafe_code)]

mod checkers;
mod link;
mod mischief;
mod network;
mod plan;
mod run;
mod step;
mod violation;

pub use link::{Bottleneck, Link, Loss, Marking, Passage};
pub use mischief::Mischief;
pub use network::{Network, OVERHEAD_BYTES, SESSION, SOURCE, payload};
pub use plan::{DRAW, Fault, Kind, NARROW_PAYLOAD_BYTES, Plan, Planned};
pub use run::{Failure, Report, run};
pub use step::{Heard, NOBODY, News, Step, Told, What};
pub use violation::Violation;
