//! The Quicksilver membership service as a pure state machine.
//!
//! It lets nodes in, notices when they die, and maps their groups to regions: nodes with exactly
//! the same groups (R015, R035-R052). It tells each node what concerns it, as differences, in
//! batches at a bounded rate. It is needed for change, not for traffic, and has no disk: a new
//! service rebuilds the membership from what the nodes report.
//!
//! It does not see clocks, sockets or threads, and the same configuration, seed and inputs give
//! byte-identical outputs. It does not carry data.
//!
//! ```text
//!  datagrams ─► sessions ─► requests, Commands ─► registry ─► Updates ─► sessions ─► datagrams
//!                  │                                ▲
//!                  └─ signs of life ─► detector: a life is over
//! ```
//!
//! | module | what it knows |
//! |---|---|
//! | `registry` | the membership, as a deterministic machine: commands in, `Updates` out |
//! | `registry::{life, departure}` | the states of a node and of its way out of a region, as tables |
//! | `registry::{away, absences}` | members that nobody waits for |
//! | `registry::{rebuild, unreported, resumption}` | what a service without memory makes of reports, early and late |
//! | `registry::groups` | names and numbers |
//! | `registry::hinted` | hints of the designer, which go before plans |
//! | [`plan`] | regions by number and by exact set of groups; which multicast address each gets |
//! | `service` | turns datagrams into requests and commands, and updates into messages |
//! | `service::{arrivals, requests}` | what comes from the network, and what nodes say in it |
//! | `service::{schedule, batches}` | what is due, and batches when they are |
//! | `service::sessions` | one reliable session per node |
//! | `service::hold` | hellos in the time after a start, before anything is decided |
//! | `service::detector` | who is heard, in doubt, away, or gone |
//! | `service::suspicions` | members that do not hear each other |
//!
//! ```
//! use qsm_gms::{Service, ServiceConfig};
//! use qsm_proto::{Instant, Seed};
//! use qsm_wire::NodeId;
//!
//! let address = "127.0.0.1:4483".parse().unwrap();
//! let mut service = Service::new(ServiceConfig::new(NodeId(1), address), Seed(1), Instant(0)).unwrap();
//! service.handle_timeout(Instant(0));
//! let beacon = service.poll_transmit(Instant(0)).unwrap();
//! assert!(beacon.to.is_group());
//! ```
//!
//! The run loop is that of `qsm_proto::Endpoint`: feed a datagram or a timeout, poll transmits and
//! events until there are none, wait until [`Service::next_timeout`].

#![forbid(unsafe_code)]

mod config;
mod event;
pub mod plan;
mod registry;
mod service;
mod stats;

pub use config::{
    DISCOVERY_V4, DISCOVERY_V6, PLAN_COMMON, PlanConfig, ServiceConfig, ServiceConfigError,
    ServiceLimits,
};
pub use event::ServiceEvent;
pub use qsm_plan::{Costs, GroupPace, HintError, HintList, LaggardFate, ServiceHints};
pub use qsm_wire::membership::OriginDemand;
pub use service::{Rights, Rows, Service};
pub use stats::ServiceStats;
