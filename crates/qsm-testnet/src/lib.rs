//! A virtual network: which hosts get a copy of a datagram, and when.
//!
//! The simulator and the unit tests of the protocol crates send through it. It knows hosts by
//! numbers and addresses, multicast groups by who listens, and nothing of what runs on a host.
//!
//! ```text
//!  datagram ──► Network::send ──► one Fate per copy ──► Queue ──(time, order)──► arrivals
//! ```
//!
//! Tests that have no event queue of their own take both as a [`Flight`] and ask it what arrives.
//!
//! Loss, delay, duplication, splits and queues are drawn from a seed in the order of sending, so
//! that the same calls give the same arrivals on every platform.

#![forbid(unsafe_code)]

mod flight;
mod network;
mod queue;

pub use flight::{Arrival, Flight, KindLoss};
pub use network::{
    Burst, Cause, DropCounters, Fate, Network, NetworkCounters, NetworkOptions, Sites, damaged,
    is_data,
};
pub use queue::Queue;
