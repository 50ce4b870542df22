//! Plans regions, channels and paths: which nodes are a region, which multicast addresses there
//! are, and how the messages of each group get to its subscribers.
//!
//! Nodes with exactly the same groups are found by signatures; similar ones are merged where that
//! costs less CPU time; a node's odd groups are its *residue*, sent to it as copies, so that they
//! do not make it a region of its own; a tree over the regions gives channels of several regions,
//! so that a message to all takes one or two packets. `docs/operate/planning.md` explains a plan.
//!
//! It sees no clock, no network and no hash order, and decides nothing in floating point: the same
//! inputs give the same plan everywhere. Time comes in with [`Planner::start`], and work is counted in
//! units, so that [`Planner::step`] takes one to two milliseconds at a time.
//!
//! ```text
//!  nodes, groups ─► census (exact classes) ─► merge ─► change (what is worth it) ─► regions
//!                        │                                                            │
//!                        └─ join: placed at once ─► region::Table ◄───────────────────┤
//!                                                        │            bundles ─► tree ─► select
//!                                            Plan ◄─ reach (paths) ◄──────────────────┘
//! ```
//!
//! | module | what it knows |
//! |---|---|
//! | `signature`, `census` | who wants what, and nodes with the same groups |
//! | `settings`, `rates`, `cluster` | what things cost, message rates, the cost of a region |
//! | `sketch` | which sets of groups are similar (weighted MinHash) |
//! | `merge` | greedy merging by cost |
//! | `change` | which merged regions take the place of present ones: hysteresis, numbers that stay |
//! | `bundles`, `tree`, `select` | which sets of regions get an address |
//! | `reach` | channels, and the cheapest cover of a group |
//! | `region` | the regions, and a node's place in them |
//! | `job` | all of the above in slices |
//! | `planner` | the whole: inputs, and the plan that is in force |
//! | `commons` | sets of groups that several regions have in common |
//! | `shared` | a region as it can be carried out within a share of unwanted messages |
//! | `plan`, `moves` | a plan as data, and the steps from one to another |
//! | `hints` | pins, nodes together or apart, security domains |
//! | `layouts` | subscriptions of systems that do not exist, for tests and trials |
//!
//! ```
//! use qsm_plan::{Hints, Path, Planner, Settings};
//! use qsm_wire::{GroupId, Instant, NodeId, Random, Seed};
//!
//! let mut random = Random::new(Seed(1), "plan");
//! let mut planner = Planner::new(Settings::default(), Hints::default(), &mut random).unwrap();
//! for node in 0..40 {
//!     // Two common groups, and one of its own.
//!     planner.load(NodeId(node), vec![GroupId(0), GroupId(1), GroupId(100 + node as u32)]);
//! }
//! planner.start(Instant(0)).unwrap();
//! planner.finish();
//! assert_eq!(planner.regions(), 1);
//! assert_eq!(planner.path(GroupId(0)).packets(), 1);
//! assert_eq!(planner.path(GroupId(107)), Path::Members(vec![NodeId(7)]));
//! ```

#![forbid(unsafe_code)]

mod bundles;
mod census;
mod change;
mod cluster;
mod commons;
mod hints;
mod job;
pub mod layouts;
mod merge;
mod moves;
mod named;
mod origin;
mod pace;
mod plan;
mod planner;
mod rates;
mod reach;
mod region;
mod select;
mod settings;
mod shared;
mod signature;
mod sketch;
mod tree;
mod work;

pub use cluster::Cost;
pub use commons::{CommonSaving, CommonSets};
pub use hints::{HintError, Hints, Lifetime, Names, Paced, Pin};
pub use moves::Move;
pub use named::{HintList, NodeHint, ServiceHints};
pub use origin::Proven;
pub use pace::{GroupPace, LaggardFate};
pub use plan::{
    Alternative, Path, Plan, PlannedChannel, PlannedGroup, PlannedRegion, Totals, Way, Why,
    WhyRegion,
};
pub use planner::{Placement, PlanError, Planner, Progress, SLICE};
pub use rates::{RATE_PRIOR, Rates};
pub use settings::{Costs, Settings, SettingsError};
pub use shared::{SharedLimits, SharedRegion};
pub use signature::{Signature, SignatureKey};
