//! Limits of a replica.

use std::time::Duration;

/// Limits of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of updates that wait while a snapshot comes; beyond, the bind begins again. Under
    /// [`Order::Total`](crate::Order::Total) also those that wait for their turn, with 64 bytes for each; beyond, the
    /// replica binds anew. Those of one replica take a 64th: then it waits before it publishes more. 64 MiB.
    pub held_bytes: usize,
    /// Bytes of a snapshot. 1 GiB.
    pub snapshot_bytes: usize,
    /// Snapshots tried in one bind. 20.
    pub attempts: u32,
    /// Time of one bind. A member that pauses is waited for 30 s by the library, so not less. 60 s.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            held_bytes: 64 << 20,
            snapshot_bytes: 1 << 30,
            attempts: 20,
            patience: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// The same with room for so many bytes of updates while a snapshot comes.
    #[must_use]
    pub fn held_bytes(self, bytes: usize) -> Self {
        Self {
            held_bytes: bytes,
            ..self
        }
    }

    /// The same for snapshots of so many bytes.
    #[must_use]
    pub fn snapshot_bytes(self, bytes: usize) -> Self {
        Self {
            snapshot_bytes: bytes,
            ..self
        }
    }

    /// The same for so many attempts.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    /// The same for a bind that takes so long.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}
