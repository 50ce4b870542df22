//! Experiments with real processes on hosts of a lab: what happens to the others, and to itself,
//! when a process stands still, a host is cut off, or multicast stops to pass.

pub mod cluster;
pub mod paths;
pub mod steal;
pub mod transport;
pub mod trial;
