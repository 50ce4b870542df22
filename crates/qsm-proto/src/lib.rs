//! The Quicksilver protocol as a pure state machine.
//!
//! No clock, randomness, thread or socket is inside: time and datagrams come in as arguments,
//! datagrams, messages and events come out. The same configuration, seed and inputs give
//! byte-identical outputs on every platform, which is what the simulator lives on.
//!
//! ```text
//!   datagrams ──► handle_datagram ─┐            ┌─► deliver(), miss() messages, lent; losses
//!   time      ──► handle_timeout  ─┤  Endpoint  ├─► poll_event        views, replies
//!   messages  ──► publish         ─┘            └─► poll_transmit     datagrams, lent
//! ```
//!
//! Inside, one noun per module; the endpoint only dispatches:
//!
//! | module | what it knows |
//! |---|---|
//! | [`region`] | one region: its packets, tokens, views and queries; and all of a node together |
//! | [`view`] | partitions, cachers, leaders and rings: pure functions of a view |
//! | [`membership`] | the client's side of the membership protocol: session, groups, regions |
//! | [`send`] | streams this node sends: packet assembly, window, pacing, heartbeats |
//! | [`receive`] | streams this node receives: windows, caches, gaps, delivery in order |
//! | [`repair`] | the fast plane: whom to ask for a gap, how to answer, within budgets |
//! | [`ring`] | the token plane: rings, rounds, watermarks, push and pull |
//!
//! Contract of [`Endpoint`]:
//!
//! 1. `now` never decreases; a smaller value is taken as the last one seen.
//! 2. Early and repeated timeouts do nothing.
//! 3. Poll in any order, at any time, or not at all: not polling delays, it never corrupts.
//! 4. Each call does bounded work.
//! 5. No datagram, however malformed, panics or allocates without bound.
//! 6. In steady state messages allocate nothing; rounds of tokens do.

#![forbid(unsafe_code)]

pub mod account;
pub mod channel;
mod closing;
mod config;
mod damage;
mod delays;
mod description;
mod endpoint;
pub mod enquiry;
mod event;
mod foreign;
mod former;
pub mod group_rates;
mod history;
mod introduction;
mod lifetimes;
pub mod membership;
mod node;
pub mod outbox;
mod priority;
mod publication;
mod ranges;
mod readers;
pub mod receive;
pub mod region;
pub mod repair;
mod repetition;
pub mod ring;
pub mod send;
pub mod session;
mod signers;
mod sources;
pub mod stats;
mod subscriptions;
mod table;
mod unconfirmed;
pub mod view;
mod wishes;

pub use channel::{Destination, Path};
pub use config::{Config, ConfigError, Introduction, Limits, Pace, Recovery};
pub use damage::{Damage, DamageLog};
pub use delays::Delays;
pub use endpoint::{CopiesLeft, Endpoint};
pub use event::{
    Deafness, Deliver, Delivery, Event, Events, LossCause, MessageRange, Miss, PublishError,
    UnconfirmedCause, UnservedCause,
};
pub use outbox::{Outbox, Reason, Transmit};
pub use priority::Priority;
pub use publication::Publication;
pub use qsm_wire::membership::OriginDemand;
pub use readers::FullReaders;
pub use receive::{Datagram, Promptness, Run};
pub use sources::is_source_specific;
pub use stats::{Stats, Times};
// Time and drawn numbers, as all pure crates know them.
pub use qsm_wire::{Instant, Random, Seed, mix, nanoseconds};
