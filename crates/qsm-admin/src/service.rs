use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// A membership service that runs on this host, in a process of its own or in a node's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceState {
    /// Its cluster.
    pub cluster: String,
    /// Where nodes reach it.
    pub address: SocketAddr,
    /// Nodes that it has let in.
    pub nodes: usize,
    /// The limit of what each node sends again.
    pub repair_limit: RepairLimitState,
}

/// Bounds of what each node sends again, in every interval of 10 ms. Of two that are given both hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RepairLimitState {
    /// Bytes per second; 0: as many as it likes.
    pub bytes_per_second: u64,
    /// Bytes of a million that it sends and receives for the first time; 0: as many as it likes.
    pub share_ppm: u32,
}
