//! Experiments with real processes on hosts of a lab: what happens to the others, and to itself,
//! when a process stands still or a host is cut off.

pub mod cluster;
pub mod transport;
pub mod trial;
