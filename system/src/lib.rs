//! Experiments with real processes on hosts of a lab: what happens to the others, and to itself,
//! when a process stands still, a host is cut off, a receiver cannot follow, or multicast
//! stops to pass.

pub mod clock;
pub mod cluster;
pub mod figure;
pub mod flow;
pub mod joins;
pub mod machine;
pub mod pacer;
pub mod page;
pub mod paths;
pub mod sites;
pub mod transport;
pub mod trial;
